#include "tools/accuracy/fit/collective_report.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include <fmt/format.h>

#include "sim/network/nccl_tuning.hpp"
#include "tools/accuracy/fit/collective_fit.hpp"

namespace tracecast::accuracy {
namespace {

constexpr const char* kSource = "docs/validation/collectives.md: fitted by fit_collectives";

/// Collects "key": value pairs that differ from NCCL's own numbers.
class Fields {
 public:
  void number(const char* key, double value, double standard) {
    if (value != standard) add(key, fmt::format("{:.4g}", value));
  }
  void flag(const char* key, bool value, bool standard) {
    if (value != standard) add(key, value ? "true" : "false");
  }
  void text(const char* key, const std::string& value) { add(key, "\"" + value + "\""); }
  std::string object() const { return "{\n" + lines_ + "\n  }"; }

 private:
  void add(const char* key, const std::string& value) {
    lines_ += fmt::format("{}    \"{}\": {}", lines_.empty() ? "" : ",\n", key, value);
  }
  std::string lines_;
};

std::string mebibytes(Bytes size) { return fmt::format("{:.4g} MiB", static_cast<double>(size.count) / (1 << 20)); }

/// Removes the top-level member `key` with its line break, if it is there.
void remove_member(std::string& text, const std::string& key) {
  const std::size_t begin = text.find("\n  \"" + key + "\":");
  if (begin == std::string::npos) return;
  const std::size_t end = text.find("\n  \"", begin + 1);
  text.erase(begin, end - begin);
}

void remove_source(std::string& text) {
  const std::string source = ",\n    \"collectives\": \"";
  const std::size_t begin = text.find(source + "docs/");
  if (begin != std::string::npos) text.erase(begin, text.find('"', begin + source.size()) + 1 - begin);
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

std::string to_json(const CollectiveTuning& t) {
  const CollectiveTuning standard;
  Fields fields;
  fields.number("intra_bandwidth", t.intra_bandwidth, 1);
  fields.number("nvls_bandwidth", t.nvls_bandwidth, 1);
  fields.number("net_bandwidth", t.net_bandwidth, 1);
  fields.number("mid_size", t.mid_size, 1);
  if (t.mid_size != 1) fields.text("mid_limit", mebibytes(t.mid_limit));
  fields.number("net_mid_size", t.net_mid_size, 1);
  if (t.net_mid_size != 1) fields.text("net_mid_limit", mebibytes(t.net_mid_limit));
  fields.number("base_latency", t.base_latency, 1);
  fields.number("hop_latency", t.hop_latency, 1);
  fields.number("net_hop_latency", t.net_hop_latency, 1);
  fields.number("net_ll_latency", t.net_ll_latency, 1);
  fields.number("net_latency_us", t.net_latency_us, 0);
  fields.number("net_call_us", t.net_call_us, 0);
  fields.number("ring_step_us", t.ring_step_us, standard.ring_step_us);
  if (t.copy_bandwidth.bytes_per_second > 0)
    fields.text("copy_bandwidth",
                fmt::format("{:.0f} GB/s", static_cast<double>(t.copy_bandwidth.bytes_per_second) * 1e-9));
  fields.number("direct_link", t.direct_link, 1);
  fields.number("direct_bandwidth", t.direct_bandwidth, 1);
  fields.flag("ll128", t.ll128, true);
  fields.flag("pat", t.pat, false);
  fields.flag("sharp", t.sharp, false);
  fields.text("data", t.data);
  fields.number("residual", t.residual, -1);
  return fields.object();
}

std::string with_tuning(const std::string& text, const CollectiveTuning& tuning) {
  std::string result = text;
  remove_member(result, "collectives");
  remove_source(result);
  const std::size_t sources = result.find("\n  \"sources\":");
  TRACECAST_ASSERT(sources != std::string::npos, "a shipped topology names its sources");
  result.insert(sources, "\n  \"collectives\": " + to_json(tuning) + ",");
  const std::size_t end = result.rfind("\n  }");
  result.insert(end, fmt::format(",\n    \"collectives\": \"{}\"", kSource));
  return result;
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
