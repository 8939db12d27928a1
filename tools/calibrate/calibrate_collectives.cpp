/// Fits the corrections of NCCL's model to measured collectives and prints how well the forecasts then agree.
///
///   calibrate_collectives DATA TOPOLOGIES            the table, with the tunings as they are
///   calibrate_collectives DATA TOPOLOGIES --fit      fits, writes the tunings into TOPOLOGIES/*.json, then the table
///   … --document FILE                                puts the table behind the last heading of a Markdown file
///
/// DATA holds collectives/ (the public benchmarks; not part of this repository).
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include <fmt/format.h>

#include "sim/io/files.hpp"
#include "sim/network/nccl_tuning.hpp"
#include "tools/calibrate/collective_fit.hpp"
#include "tools/calibrate/collective_report.hpp"

namespace tracecast::calibrate {
namespace {

constexpr const char* kUsage = "usage: calibrate_collectives DATA TOPOLOGIES [--fit] [--document FILE]\n";

struct Options {
  std::filesystem::path data;
  std::filesystem::path topologies;
  std::filesystem::path document;
  bool fit = false;
};

std::string whole_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Result<std::map<std::string, Cluster>> read_clusters(const Options& options) {
  std::map<std::string, Cluster> clusters;
  for (const FabricKind& kind : fabric_kinds())
    for (const std::string& name : kind.topologies) {
      Result<Cluster> cluster = read_topology(options.topologies / (name + ".json"));
      if (!cluster) return tl::unexpected(cluster.error());
      clusters.emplace(name, *cluster);
    }
  return clusters;
}

std::vector<Machine> machines_of(const FabricKind& kind, const std::map<std::string, Cluster>& clusters,
                                 const std::vector<CollectiveSample>& samples) {
  std::vector<Machine> machines;
  for (const std::string& name : kind.measured) {
    const Cluster& cluster = clusters.at(name);
    std::vector<const CollectiveSample*> mine;
    for (const CollectiveSample& sample : samples)
      if (sample.topology == name) mine.push_back(&sample);
    machines.push_back({cluster, std::string(architecture_of_gpu(cluster.gpu)), prepare(cluster, mine)});
  }
  return machines;
}

Result<void> fit_all(const Options& options, const std::vector<CollectiveSample>& samples,
                     std::map<std::string, Cluster>& clusters) {
  std::map<std::string, CollectiveTuning> tunings;
  for (const FabricKind& kind : fabric_kinds()) {
    CollectiveTuning start = kind.parent.empty() ? CollectiveTuning{} : tunings.at(kind.parent);
    start.net_latency_us = kind.net_latency_us;
    start.ll128 = kind.ll128;
    start.sharp = kind.sharp;
    const CollectiveTuning tuning = fit_tuning(machines_of(kind, clusters, samples), start);
    tunings.emplace(kind.name, tuning);
    fmt::print(stderr, "{}: mean |log error| {:.3f}\n", kind.name, tuning.residual);
    for (const std::string& name : kind.topologies) {
      const std::filesystem::path path = options.topologies / (name + ".json");
      const Result<void> written = write_file(path, with_tuning(whole_file(path), tuning));
      if (!written) return written;
      const Result<Cluster> again = read_topology(path);  // as rounded in the file
      if (!again) return tl::unexpected(again.error());
      clusters.at(name) = *again;
    }
  }
  return {};
}

/// The table replaces everything behind the last heading.
Result<void> write_document(const std::filesystem::path& path, const std::string& table) {
  std::string text = whole_file(path);
  const std::size_t heading = text.rfind("\n## ");
  const std::size_t line_end = heading == std::string::npos ? std::string::npos : text.find('\n', heading + 1);
  if (line_end == std::string::npos)
    return fail({path.string(), 0, "", "", "has no heading '## …' for the table to follow"});
  return write_file(path, text.substr(0, line_end + 1) + "\n" + table);
}

Result<void> run(const Options& options) {
  const Result<std::vector<CollectiveSample>> samples = read_collective_samples(options.data);
  if (!samples) return tl::unexpected(samples.error());
  Result<std::map<std::string, Cluster>> clusters = read_clusters(options);
  if (!clusters) return tl::unexpected(clusters.error());
  if (options.fit) {
    const Result<void> fitted = fit_all(options, *samples, *clusters);
    if (!fitted) return fitted;
  }
  const std::string table = to_markdown(errors_of(*samples, *clusters));
  fmt::print("{}", table);
  return options.document.empty() ? Result<void>{} : write_document(options.document, table);
}

/// False for a wrong command line.
bool parse(int argc, char** argv, Options& options) {
  if (argc < 3) return false;
  options.data = argv[1];
  options.topologies = argv[2];
  for (int i = 3; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--fit")
      options.fit = true;
    else if (argument == "--document" && i + 1 < argc)
      options.document = argv[++i];
    else
      return false;
  }
  return true;
}

}  // namespace
}  // namespace tracecast::calibrate

int main(int argc, char** argv) {
  using namespace tracecast::calibrate;
  Options options;
  if (!parse(argc, argv, options)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  const tracecast::Result<void> result = run(options);
  if (result) return 0;
  fmt::print(stderr, "{}\n", tracecast::to_string(result.error()));
  return 2;
}
