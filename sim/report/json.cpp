#include "sim/report/json.hpp"

#include <cstddef>

#include <nlohmann/json.hpp>

#include "sim/base/markup.hpp"
#include "sim/forecast/job_length.hpp"
#include "sim/report/json_parts.hpp"
#include "sim/report/settings_text.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

Json exposed_communication(const Forecast& f) {
  Json out = Json::object();
  for (std::size_t kind = 0; kind < kTrafficKinds; ++kind)
    out[to_string(static_cast<Traffic>(kind))] = f.exposed_s[kind];
  return out;
}

Json memory(const Forecast& f) {
  const MemoryByKind& tightest = f.memory[static_cast<std::size_t>(f.tightest_pp_rank)];
  Json by_pipeline_rank = Json::array();
  for (const MemoryByKind& rank : f.memory) by_pipeline_rank.push_back(gib(rank.total()));
  Json out = {{"fits", f.fits},
              {"capacity_gib", gib(f.memory_capacity)},
              {"peak_gib", gib(tightest.total())},
              {"peak_rank", f.peak_rank},
              {"by_kind_gib", memory_by_kind_json(tightest)},
              {"by_pipeline_rank_gib", by_pipeline_rank},
              {"host_gib", gib(f.host_peak)},
              {"host_used_gib", gib(f.host_used)}};
  if (f.host_capacity > Bytes{}) out["host_capacity_gib"] = gib(f.host_capacity);
  return out;
}

Json bandwidth(const Forecast& f) {
  Json out = Json::array();
  for (const AxisBandwidth& each : f.bandwidth) {
    out.push_back({{"axis", each.axis},
                   {"link", each.link},
                   {"ranks", each.ranks},
                   {"nodes", each.nodes},
                   {"sent_gb", each.sent_bytes / 1e9},
                   {"required_gb_per_s", each.required / 1e9},
                   {"available_gb_per_s", each.available / 1e9},
                   {"ratio", each.ratio()}});
  }
  return out;
}

/// All three, also when a share is zero.
Json provenance(const Forecast& f) {
  Json out = Json::object();
  for (const char* name : {"measured", "interpolated", "analytic"}) {
    const auto share = f.provenance.find(name);
    out[name] = share == f.provenance.end() ? 0.0 : share->second;
  }
  return out;
}

Json causes(const Forecast& f) {
  Json out = Json::array();
  for (const Cause& cause : f.causes) {
    out.push_back({{"name", cause.name},
                   {"links", cause.links},
                   {"on_critical_path_s", cause.on_critical_path_s},
                   {"step_without_s", cause.step_without_s}});
  }
  return out;
}

Json perturbed(const Forecast& f) {
  Json parts = Json::array();
  for (const PerturbationEffect& part : f.perturbations) {
    parts.push_back({{"what", part.what}});
    if (part.step_without_s) parts.back()["step_without_s"] = *part.step_without_s;
    if (part.step_alone_s) parts.back()["step_alone_s"] = *part.step_alone_s;
  }
  return {{"step_undisturbed_s", f.undisturbed_step_s}, {"parts", parts}};
}

Json co_located(const Forecast& f) {
  Json jobs = Json::array();
  for (const CoLocatedJob& job : f.co_located)
    jobs.push_back({{"scenario", job.name}, {"step_time_s", job.step_s}, {"step_alone_s", job.alone_s}});
  return jobs;
}

Json measured(const Measured& measured, const Forecast& f) {
  return {{"step_time_s", measured.step_time_s},
          {"relative_error", f.step_time_s / measured.step_time_s - 1},
          {"source", measured.source}};
}

Json unchanged_json(const Unchanged& unchanged, const Forecast& after) {
  const Forecast& before = unchanged.forecast;
  Json parts = Json::array();
  for (const MovedPart& part : moved_parts(before, after))
    parts.push_back({{"name", part.name}, {"without_s", part.before_s}, {"with_s", part.after_s}});
  Json out = {{"set", unchanged.settings},
              {"step_time_s", before.step_time_s},
              {"band", {{"p5_s", before.band.p5_s}, {"p50_s", before.band.p50_s}, {"p95_s", before.band.p95_s}}},
              {"relative_change", after.step_time_s / before.step_time_s - 1},
              {"tokens_per_s", before.tokens_per_s},
              {"tokens_per_s_per_gpu", before.tokens_per_s / before.ranks},
              {"mfu", before.mfu},
              {"peak_gib", gib(before.memory[static_cast<std::size_t>(before.tightest_pp_rank)].total())},
              {"fits", before.fits},
              {"parts", parts}};
  if (unchanged.usd_per_million_tokens && unchanged.usd_per_million_tokens_after)
    out["usd_per_million_tokens"] = {{"without", range_json(*unchanged.usd_per_million_tokens)},
                                     {"with", range_json(*unchanged.usd_per_million_tokens_after)}};
  if (unchanged.kwh_per_million_tokens && unchanged.kwh_per_million_tokens_after)
    out["kwh_per_million_tokens"] = {{"without", range_json(*unchanged.kwh_per_million_tokens)},
                                     {"with", range_json(*unchanged.kwh_per_million_tokens_after)}};
  if (unchanged.measured) out["measured"] = measured(*unchanged.measured, before);
  return out;
}

Json training(const Training& training, const Forecast& f) {
  Json out = {{"tokens", training.train_tokens},
              {"tokens_with_this_batch", tokens_to_train(training)},
              {"days", days_without_interruptions(f, training)}};
  if (training.dataset_samples > 0)
    out.update({{"samples", training.dataset_samples},
                {"epochs", training.epochs},
                {"steps_per_epoch", steps_of_epoch(training)}});
  return out;
}

Json averaging(const Averaging& averaging) {
  return {{"period", averaging.period},
          {"steps", averaging.steps},
          {"replicas", averaging.replicas},
          {"local_step_s", averaging.local_step_s},
          {"averaging_step_s", averaging.averaging_step_s},
          {"sent_bytes", averaging.sent_bytes},
          {"sent_bytes_per_step", averaging.sent_bytes / averaging.period},
          {"transfer_s", averaging.transfer_s},
          {"waited_s", averaging.waited_s}};
}

Json packed(const PackedForecast& packed) {
  Json out = {{"steps", packed.steps}, {"p5_s", packed.p5_s}, {"p95_s", packed.p95_s}};
  if (packed.balanced_s > 0) out["balanced_s"] = packed.balanced_s;
  out["useful_share"] = packed.useful_share;
  out["useful_tokens_per_s"] = packed.useful_tokens_per_s;
  out["dropped_share"] = packed.dropped_share;
  out["mean_length"] = packed.mean_length;
  out["attended_share"] = packed.attended;
  return out;
}

Json notes(const Scenario& scenario, const Forecast& f) {
  std::vector<std::string> lines = note_texts(scenario, f);
  if (const std::string racks = rack_text(scenario); !racks.empty()) lines.push_back(racks);
  return lines;
}

}  // namespace

std::string result_json(const Scenario& scenario, const Forecast& f, const Unchanged* unchanged) {
  Json out = {{"scenario", f.scenario},
              {"ranks", f.ranks},
              {"step_time_s", f.step_time_s},
              {"band", {{"p5_s", f.band.p5_s}, {"p50_s", f.band.p50_s}, {"p95_s", f.band.p95_s}}},
              {"tokens_per_step", f.tokens_per_step},
              {"tokens_per_s", f.tokens_per_s},
              {"tokens_per_s_per_gpu", f.tokens_per_s / f.ranks},
              {"flops_convention", to_string(f.flops_convention)},
              {"model_tflops_per_gpu", f.model_tflops_per_gpu},
              {"mfu", f.mfu},
              {"hfu", f.hfu},
              {"bubble_fraction", f.bubble_fraction},
              {"bubble_s", f.bubble_fraction * f.step_time_s},
              {"exposed_communication_s", exposed_communication(f)},
              {"compute_s", Json(f.compute_s)},
              {"host_s", f.host_s},
              {"optimizer_s", f.optimizer_s},
              {"memory", memory(f)},
              {"bandwidth", bandwidth(f)},
              {"provenance", provenance(f)}};
  if (const Json list = notes(scenario, f); !list.empty()) out["notes"] = list;
  if (!f.causes.empty()) out["causes"] = causes(f);
  if (scenario.cluster.routing == RoutingPolicy::ecmp)
    out["routing"] = {{"policy", "ecmp"}, {"seed", scenario.cluster.routing_seed}};
  if (!f.perturbations.empty()) out["perturbed"] = perturbed(f);
  if (!f.co_located.empty()) out["co_located"] = co_located(f);
  if (scenario.training.train_tokens > 0) out["training"] = training(scenario.training, f);
  if (f.packed) out["documents"] = packed(*f.packed);
  if (f.averaging) out["averaging"] = averaging(*f.averaging);
  if (f.schedule_bubble) out["schedule_bubble_fraction"] = *f.schedule_bubble;
  if (scenario.measured) out["measured"] = measured(*scenario.measured, f);
  if (unchanged != nullptr) out["unchanged"] = unchanged_json(*unchanged, f);
  out["engine"] = {
      {"classes", f.classes}, {"events", f.events}, {"wall_s", f.wall_s}, {"peak_rss_mib", f.peak_rss_mib}};
  return json_file(out);
}

}  // namespace tracecast
