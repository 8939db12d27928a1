#include "sim/report/assumptions.hpp"

#include <utility>

#include <fmt/format.h>

#include "sim/cost/rated_precision.hpp"
#include "sim/cost/slowest_rank.hpp"
#include "sim/network/fabric.hpp"
#include "sim/report/settings_text.hpp"

namespace tracecast {
namespace {

std::string provenance(const Forecast& f, const TextStyle& style) {
  std::vector<std::string> parts;
  for (const auto& [name, share] : f.provenance)
    if (share > 0) parts.push_back(fmt::format("{} {}", name, percent(share)));
  return fmt::format("compute time: {}", fmt::join(parts, separator(style)));
}

/// Of in-training factors, whose residual is chosen by the number of runs (Fit). 0: they were not fitted.
std::string fitted(const Fit& fit) {
  if (fit.data.empty()) return "";
  if (fit.residual == 0) return fmt::format(" ({})", fit.data);
  return fmt::format(" (fitted on {}, taken to be off by {})", fit.data, percent(fit.residual, 0));
}

/// By how much the delay of this job's slowest GPU differs from that which the profile has (slowest_rank.hpp).
std::string slowest_gpu_text(const Scenario& s) {
  const auto of = [](int gpus) {
    return gpus == 1 ? "one GPU" : fmt::format("the slowest of {} GPUs", number(gpus, 1));
  };
  const std::string factor = fmt::format("{:.3g}", s.profile.in_training.slowest_gpu);
  return fmt::format(
      "kernels and host take {}: the profile has the delay of {}, this job that of {} "
      "(cluster.gpu_spread {:g})",
      factor == "1" ? "as long" : factor + " times that", of(gpus_of_factors(s.profile)),
      s.gpu_spread == 0 ? "the mean GPU" : of(s.cluster.world_size), s.gpu_spread);
}

/// "1.26 (gemm)", or "0.947 (fp8 gemm), 1.26 (other gemm)".
std::string gemm_factors(const Scenario& s) {
  const double used = gemm_factor(s.profile, s.training.dtype);
  const double plain = s.profile.in_training.gemm;
  if (used == plain) return fmt::format("{:.3g} (gemm)", plain);
  return fmt::format("{:.3g} ({} gemm), {:.3g} (other gemm)", used, to_string(s.training.dtype), plain);
}

std::string collectives_text(const Cluster& cluster) {
  const CollectiveTuning& tuning = cluster.tuning;
  if (!tuning.data.empty())
    return fmt::format("collectives: NCCL's model, corrected on {} (residual {})", tuning.data,
                       percent(tuning.residual));
  if (cluster.backend != Backend::nccl || cluster.world_size == 1) return {};
  return fmt::format("collectives: NCCL's model, without measurements of this machine (taken to be off by {}){}",
                     percent(tuning.residual),
                     cluster.node.link == IntraLink::pcie && tuning.intra_bandwidth < 1
                         ? fmt::format("; over PCIe they reach {:.0f} % of a copy's rate, as on RTX PRO 6000",
                                       100 * tuning.intra_bandwidth)
                         : "");
}

}  // namespace

std::string gpu_counts(const Scenario& scenario, std::string_view times) {
  const Perturbation& perturbation = scenario.perturbation;
  const int ranks = scenario.cluster.world_size;
  std::vector<std::pair<std::string, int>> counts{{scenario.profile.gpu, 0}};
  for (const Perturbation::OtherGpus& other : perturbation.gpus) counts.emplace_back(other.profile.gpu, 0);
  if (perturbation.gpus.empty()) counts.front().second = ranks;
  for (int rank = 0; rank < ranks && !perturbation.gpus.empty(); ++rank)
    ++counts[static_cast<std::size_t>(gpu_of(perturbation, rank))].second;
  std::string text;
  for (const auto& [gpu, count] : counts)
    if (count > 0) text += fmt::format("{}{} {} {}", text.empty() ? "" : " + ", number(count, 1), times, gpu);
  return text;
}

std::vector<std::string> sources_of_numbers(const Scenario& s, const Forecast& f, const TextStyle& style) {
  const InTraining& in = s.profile.in_training;
  std::vector<std::string> lines = {provenance(f, style)};
  lines.push_back(
      fmt::format("kernels take {}, {:.3g} (attention), {:.3g} (memory-bound) times as long inside a step as alone{}",
                  gemm_factors(s), in.attention, in.memory, fitted(in.fit)));
  lines.push_back(host_text(s, f));
  if (in.slowest_gpu != 1) lines.push_back(slowest_gpu_text(s));
  if (s.power_limit < 1)
    lines.push_back(
        fmt::format("GPUs may draw {:.3g} % of their rated power (cluster.power_limit): kernels that compute run at "
                    "{:.3g} % of the clock, by a law that was not measured in training",
                    100 * s.power_limit, 100 * s.profile.clock));
  lines.push_back(precision_text(s.model, s.training));
  lines.push_back(rate_text(s.profile, s.training.dtype));
  lines.push_back(attention_text(s));
  lines.push_back(trained_text(s.model, s.training));
  lines.push_back(optimizer_text(s.parallel, s.training));
  lines.push_back(loss_text(s.parallel, s.training));
  lines.push_back(routing_text(s.model, s.parallel, s.training));
  lines.push_back(rack_text(s));
  lines.push_back(sites_text(s.cluster.sites));
  lines.push_back(path_text(s.cluster));
  lines.push_back(collectives_text(s.cluster));
  lines.push_back(f.flops_convention == FlopsConvention::model_full_attn
                      ? "FLOPs: model_full_attn, attention scores not halved for the causal mask"
                      : "FLOPs: model_causal, attention scores halved for the causal mask");
  if (s.stack.empty())
    lines.emplace_back(
        "no software stack is set: host time and kernels are the profile's, and a framework's own settings are left "
        "out "
        "(docs/formats/stack.md)");
  if (s.measured) lines.push_back("measurement: " + s.measured->source);
  lines.insert(lines.end(), s.notes.begin(), s.notes.end());
  lines.emplace_back(f.perturbations.empty()
                         ? "one undisturbed step: no failures, checkpoints or evaluation"
                         : "one step of the perturbed machine: no failures, checkpoints or evaluation");
  std::erase(lines, "");
  return lines;
}

std::vector<std::string> assumptions(const Scenario& scenario, const Forecast& forecast) {
  std::vector<std::string> lines = note_texts(scenario, forecast);
  for (std::string& line : sources_of_numbers(scenario, forecast, {})) lines.push_back(std::move(line));
  return lines;
}

}  // namespace tracecast
