#include "tools/accuracy/fit/collective_report.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include <fmt/format.h>

#include "sim/io/fields.hpp"
#include "sim/io/files.hpp"
#include "sim/io/overrides.hpp"
#include "sim/network/nccl_tuning.hpp"
#include "tools/accuracy/fit/collective_fit.hpp"

namespace tracecast::accuracy {
namespace {

constexpr const char* kSource = "docs/validation/collectives.md: fitted by fit_collectives";

/// To four digits: the fit is not more exact.
JsonNode rounded(CollectiveTuning tuning) {
  const auto digits = [](double value) { return std::stod(fmt::format("{:.4g}", value)); };
  constexpr double kMebibyte = 1 << 20, kGigabyte = 1e9;
  for (Bytes* limit : {&tuning.mid_limit, &tuning.net_mid_limit})
    limit->count = std::llround(digits(static_cast<double>(limit->count) / kMebibyte) * kMebibyte);
  std::int64_t& copied = tuning.copy_bandwidth.bytes_per_second;
  copied = std::llround(digits(static_cast<double>(copied) / kGigabyte) * kGigabyte);
  JsonNode node = json_of(tuning);
  for (JsonMember& member : node.members) member.value.number = digits(member.value.number);
  return node;
}

double forecast(const NetworkModel& network, const CollectiveSample& sample, const GroupPlacement& group) {
  return seconds(network.cost(sample.call, group).duration);
}

/// A cluster's model with and without its tuning.
struct Models {
  std::unique_ptr<NetworkModel> tuned;
  std::unique_ptr<NetworkModel> nccl;
};

Models models_of(const Cluster& cluster) {
  Cluster plain = cluster;
  plain.tuning = {};
  plain.tuning.sharp = cluster.tuning.sharp;
  const std::string architecture = std::string(architecture_of_gpu(cluster.gpu));
  return {make_analytic_network(cluster, architecture), make_analytic_network(plain, architecture)};
}

std::string row(const std::string& name, const SourceErrors& e, const std::string& held_out) {
  return fmt::format("| {} | {} | {} | {:.1f} | {:.1f} | {:+.1f} |{} {:.1f} |\n", name, e.topology, e.tuned.samples,
                     100 * e.nccl.mean(), 100 * e.tuned.mean(), 100 * e.tuned.bias(), held_out, 100 * e.small.mean());
}

std::string held_out_cell(const BusbwError& error) {
  return error.samples > 0 ? fmt::format(" {:.1f} |", 100 * error.mean()) : " |";
}

std::string worst_curves(const Errors& errors) {
  std::vector<std::pair<double, std::string>> curves;
  for (const auto& [name, source] : errors)
    for (const auto& [curve, error] : source.curves)
      curves.emplace_back(error.mean(), fmt::format("| {} | {} | {} | {:.1f} | {:+.1f} |\n", name, curve, error.samples,
                                                    100 * error.mean(), 100 * error.bias()));
  std::sort(curves.rbegin(), curves.rend());
  std::string text = "| source | curve | sizes | error % | bias % |\n| --- | --- | --- | --- | --- |\n";
  for (std::size_t i = 0; i < std::min<std::size_t>(10, curves.size()); ++i) text += curves[i].second;
  return text;
}

}  // namespace

std::string with_tuning(const std::string& text, const CollectiveTuning& tuning) {
  JsonNode root = parse_json(text, "topology").value().root;
  member_of(root, "collectives") = rounded(tuning);
  member_of(member_of(root, "sources"), "collectives") = node_of(std::string(kSource));
  return to_json(root) + "\n";
}

void BusbwError::add(double predicted_seconds, double measured_seconds) {
  const double error = measured_seconds / predicted_seconds - 1;  // predicted over measured busbw
  ++samples;
  sum += std::abs(error);
  signed_sum += error;
}

Errors errors_of(const std::vector<CollectiveSample>& samples, const std::map<std::string, Cluster>& clusters) {
  std::map<std::string, std::vector<const CollectiveSample*>> by_topology;
  for (const CollectiveSample& sample : samples) by_topology[sample.topology].push_back(&sample);
  Errors errors;
  for (const auto& [topology, list] : by_topology) {
    const Cluster& cluster = clusters.at(topology);
    const Models models = models_of(cluster);
    for (const PreparedSample& prepared : prepare(cluster, list)) {
      const CollectiveSample& sample = *prepared.sample;
      SourceErrors& source = errors[sample.source + ", " + sample.system];
      source.topology = topology;
      const double tuned = forecast(*models.tuned, sample, prepared.group);
      if (sample.call.size.count <= 1 << 20) {
        source.small.add(tuned, sample.seconds);
        continue;
      }
      const bool forced = sample.call.algorithm != Algorithm::automatic;
      source.nccl.add(forecast(*models.nccl, sample, prepared.group), sample.seconds);
      source.tuned.add(tuned, sample.seconds);
      source
          .curves[fmt::format("{}{}, {} ranks", to_string(sample.call.collective), forced ? " (ring)" : "",
                              sample.ranks)]
          .add(tuned, sample.seconds);
    }
  }
  return errors;
}

std::string to_markdown(const Errors& errors, const Errors& held_out) {
  const bool columns = !held_out.empty();
  std::string text = fmt::format(
      "| source, system | topology | sizes | NCCL's own % | tuned % | bias % |{} up to 1 MiB % |\n"
      "| --- | --- | --- | --- | --- | --- |{} --- |\n",
      columns ? " held out % |" : "", columns ? " --- |" : "");
  SourceErrors all;
  BusbwError sources_nccl, sources_tuned, sources_held, all_held;
  for (const auto& [name, e] : errors) {
    const auto held = held_out.find(name);
    const BusbwError own = held == held_out.end() ? BusbwError{} : held->second.tuned;
    text += row(name, e, columns ? held_out_cell(own) : "");
    all.nccl.samples += e.nccl.samples, all.nccl.sum += e.nccl.sum;
    all.tuned.samples += e.tuned.samples, all.tuned.sum += e.tuned.sum, all.tuned.signed_sum += e.tuned.signed_sum;
    all.small.samples += e.small.samples, all.small.sum += e.small.sum;
    all_held.samples += own.samples, all_held.sum += own.sum;
    if (e.tuned.samples == 0) continue;
    ++sources_tuned.samples, sources_tuned.sum += e.tuned.mean(), sources_tuned.signed_sum += e.tuned.bias();
    ++sources_nccl.samples, sources_nccl.sum += e.nccl.mean();
    if (own.samples > 0) ++sources_held.samples, sources_held.sum += own.mean();
  }
  text += row("**all sizes**", all, columns ? held_out_cell(all_held) : "");
  text += fmt::format("| **mean over sources** | | {} | {:.1f} | {:.1f} | {:+.1f} |{} |\n", sources_tuned.samples,
                      100 * sources_nccl.mean(), 100 * sources_tuned.mean(), 100 * sources_tuned.bias(),
                      columns ? held_out_cell(sources_held) : "");
  return text + "\nThe ten worst curves above 1 MiB:\n\n" + worst_curves(errors);
}

}  // namespace tracecast::accuracy
