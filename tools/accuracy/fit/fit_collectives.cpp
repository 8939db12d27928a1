/// \file
/// Fits the corrections of NCCL's model to measured collectives and prints how well the forecasts then agree.
///
///   fit_collectives --data DIR --root .         the table, with the tunings as they are
///   fit_collectives --data DIR --root . --fit   fits, writes the tunings, then the table
///
/// DIR holds collectives/, public benchmarks that are not shipped with the project; scenarios/runs/collectives.csv is.
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/io/files.hpp"
#include "sim/network/nccl_tuning.hpp"
#include "tools/accuracy/fit/collective_fit.hpp"
#include "tools/accuracy/fit/collective_report.hpp"

namespace tracecast::accuracy {
namespace {

struct Options {
  std::filesystem::path data;
  std::filesystem::path root;
  std::filesystem::path document;
  std::string kind;
  bool fit = false;
  bool held_out = false;
};

std::string whole_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Result<std::map<std::string, Cluster>> read_clusters(const Options& options) {
  std::map<std::string, Cluster> clusters;
  for (const FabricKind& kind : fabric_kinds())
    for (const std::string& name : kind.topologies) {
      Result<Cluster> cluster = read_topology(options.root / "topologies" / (name + ".json"));
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
    machines.push_back(
        {cluster, std::string(architecture_of_gpu(cluster.gpu)), prepare(cluster, mine), kind.hops_of_parent});
  }
  return machines;
}

/// What is known of a kind before any fit.
CollectiveTuning with_facts(const FabricKind& kind, CollectiveTuning tuning) {
  tuning.net_latency_us = kind.net_latency_us;
  tuning.ll128 = kind.ll128;
  tuning.sharp = kind.sharp;
  return tuning;
}

/// The tuning that a kind's fit starts from: its parent's as shipped, which holds no sample of the kind.
CollectiveTuning start_of(const FabricKind& kind, const std::map<std::string, Cluster>& clusters) {
  for (const FabricKind& parent : fabric_kinds())
    if (parent.name == kind.parent) return with_facts(kind, clusters.at(parent.measured.front()).tuning);
  return with_facts(kind, {});
}

/// Each source by a tuning that was fitted to the other sources of its kind of machine, or where there are none, its
/// parent's.
Errors held_out_errors(const std::vector<CollectiveSample>& samples, const std::map<std::string, Cluster>& clusters) {
  constexpr int kEvaluations = 3000;
  const auto name_of = [](const CollectiveSample& sample) { return sample.source + ", " + sample.system; };
  Errors errors;
  for (const FabricKind& kind : fabric_kinds()) {
    const std::set<std::string> measured(kind.measured.begin(), kind.measured.end());
    std::set<std::string> sources;
    for (const CollectiveSample& sample : samples)
      if (measured.contains(sample.topology)) sources.insert(name_of(sample));
    for (const std::string& source : sources) {
      std::vector<CollectiveSample> own, others;
      for (const CollectiveSample& sample : samples)
        if (measured.contains(sample.topology)) (name_of(sample) == source ? own : others).push_back(sample);
      const CollectiveTuning start = start_of(kind, clusters);
      const CollectiveTuning tuning =
          others.empty() ? start : fit_tuning(machines_of(kind, clusters, others), start, kEvaluations);
      std::map<std::string, Cluster> tuned = clusters;
      for (const std::string& topology : kind.measured) tuned.at(topology).tuning = tuning;
      for (const auto& [name, error] : errors_of(own, tuned)) {
        errors[name].tuned.samples += error.tuned.samples;  // a source may have machines of two kinds
        errors[name].tuned.sum += error.tuned.sum;
      }
    }
  }
  return errors;
}

Result<void> check_kind(const std::string& kind) {
  std::string known;
  for (const FabricKind& each : fabric_kinds()) {
    if (kind.empty() || each.name == kind) return {};
    known += fmt::format("{}'{}'", known.empty() ? "" : ", ", each.name);
  }
  return fail(fmt::format("--kind {}: no such kind of machines (allowed: {})", kind, known));
}

Result<void> fit_all(const Options& options, const std::vector<CollectiveSample>& samples,
                     std::map<std::string, Cluster>& clusters) {
  for (const FabricKind& kind : fabric_kinds()) {
    if (!options.kind.empty() && kind.name != options.kind) continue;
    const CollectiveTuning tuning = fit_tuning(machines_of(kind, clusters, samples), start_of(kind, clusters));
    fmt::print(stderr, "{}: mean |log error| {:.3f}\n", kind.name, tuning.residual);
    for (const std::string& name : kind.topologies) {
      const std::filesystem::path path = options.root / "topologies" / (name + ".json");
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
  if (Result<void> known = check_kind(options.kind); !known) return known;
  const Result<std::vector<CollectiveSample>> samples =
      read_collective_samples(options.data, options.root / "scenarios/runs/collectives.csv");
  if (!samples) return tl::unexpected(samples.error());
  Result<std::map<std::string, Cluster>> clusters = read_clusters(options);
  if (!clusters) return tl::unexpected(clusters.error());
  if (options.fit) {
    const Result<void> fitted = fit_all(options, *samples, *clusters);
    if (!fitted) return fitted;
  }
  const std::string table =
      to_markdown(errors_of(*samples, *clusters), options.held_out ? held_out_errors(*samples, *clusters) : Errors{});
  fmt::print("{}", table);
  return options.document.empty() ? Result<void>{} : write_document(options.document, table);
}

}  // namespace
}  // namespace tracecast::accuracy

int main(int argc, char** argv) {
  using namespace tracecast::accuracy;
  CLI::App app("Compares forecasts of collectives with public measurements, and fits the corrections of NCCL's model.");
  Options options;
  app.add_option("--data", options.data, "the folder with collectives/")->required()->check(CLI::ExistingDirectory);
  app.add_option("--root", options.root, "the source tree: its topologies are read and, with --fit, written")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_flag("--fit", options.fit, "fit first, and write the tunings into the topology files");
  app.add_option("--kind", options.kind, "with --fit: fit this kind of machines only (fabric_kinds)");
  app.add_flag("--held-out", options.held_out,
               "add errors by tunings that have not seen the source, fitted for this only");
  app.add_option("--document", options.document, "also put the table behind the last heading of this Markdown file");
  CLI11_PARSE(app, argc, argv);
  const tracecast::Result<void> done = run(options);
  if (done) return 0;
  fmt::print(stderr, "{}\n", tracecast::to_string(done.error()));
  constexpr int kBadInput = 2;
  return kBadInput;
}
