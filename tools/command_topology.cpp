/// `tracecast topology`: describes, checks and draws a cluster.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/import/importers.hpp"
#include "sim/import/simgrid_export.hpp"
#include "sim/io/files.hpp"
#include "sim/io/output_files.hpp"
#include "sim/io/scenario.hpp"
#include "sim/report/topology_report.hpp"
#include "tools/command_rows.hpp"
#include "tools/environment.hpp"
#include "tools/option_checks.hpp"

namespace tracecast::cli {
namespace {

constexpr int kMaxRanks = 1 << 20;
constexpr int kMaxInNode = 4096;

struct TopologyOptions {
  std::string topology;
  int ranks = 0;
  std::string svg;
  std::vector<int> hops;
  std::optional<std::uint64_t> ecmp;  ///< seed
  std::vector<std::string> exported;  ///< format and file
  std::vector<std::string> broken;
  bool switches = false;
  bool json = false;
};

/// The whole machine. A machine without a fixed size gets two units of its lowest tier, enough to show its tiers.
int usual_ranks(const Cluster& cluster) {
  const std::int64_t gpus = cluster.node.gpus;
  if (cluster.max_nodes > 0) return static_cast<int>(std::min<std::int64_t>(kMaxRanks, cluster.max_nodes * gpus));
  const int nodes = cluster.tiers.empty() || cluster.tiers.front().nodes == 0 ? 8 : 2 * cluster.tiers.front().nodes;
  return static_cast<int>(std::min<std::int64_t>(kMaxRanks, nodes * gpus));
}

Result<Cluster> sized_cluster(const TopologyOptions& options, std::vector<std::string>& notes) {
  const Result<DataPaths> data = data_paths();
  if (!data) return tl::unexpected(data.error());
  const auto path = find_file(options.topology, data->topologies, "topology");
  if (!path) return tl::unexpected(path.error());
  Result<Cluster> cluster = read_any_topology(*path, &notes);
  if (!cluster) return cluster;
  cluster->world_size = options.ranks > 0 ? options.ranks : usual_ranks(*cluster);
  if (cluster->node.gpus > kMaxInNode || cluster->node.nics > kMaxInNode)
    return fail_key("topology", options.topology, fmt::format("has more than {} GPUs or NICs in a node", kMaxInNode));
  const std::int64_t most = static_cast<std::int64_t>(cluster->max_nodes) * cluster->node.gpus;
  if (most > 0 && cluster->world_size > most)
    return fail_key("--ranks", std::to_string(options.ranks), fmt::format("{} has {} GPUs", cluster->name, most));
  use_racks(*cluster, {}, 0);
  return cluster;
}

Result<void> check_hops(const TopologyOptions& options, const Cluster& cluster) {
  for (const int rank : options.hops)
    if (rank < 0 || rank >= cluster.world_size)
      return fail_key("--hops", std::to_string(rank),
                      fmt::format("ranks are 0 to {} (--ranks)", cluster.world_size - 1));
  return {};
}

RoutingOptions routing(const TopologyOptions& options) {
  if (!options.ecmp) return {};
  return {.policy = RoutingPolicy::ecmp, .seed = *options.ecmp};
}

Result<void> write_files(const TopologyOptions& options, const Topology& topology, const TopologyReport& report) {
  OutputFiles files;
  if (!options.svg.empty()) files.write(options.svg, topology_svg(topology, report));
  if (!options.exported.empty()) {
    if (options.exported[0] != "simgrid")
      return fail_key("--export", options.exported[0], "unknown export format (allowed: simgrid)");
    files.write(options.exported[1], to_simgrid(topology));
  }
  return files.commit();
}

Result<ExitCode> topology(const TopologyOptions& options, const Context& context) {
  std::vector<std::string> notes;
  const Result<Cluster> cluster = sized_cluster(options, notes);
  if (!cluster) return tl::unexpected(cluster.error());
  if (const Result<void> ok = check_hops(options, *cluster); !ok) return tl::unexpected(ok.error());
  // The ECMP hash distinguishes individual switches, and single ones break.
  const bool each = options.switches || options.ecmp || !options.broken.empty();
  const Topology topology(*cluster, each ? FabricDetail::switches : FabricDetail::planes);
  Result<TopologyReport> described = describe(topology, options.broken);
  if (!described) return tl::unexpected(described.error());
  TopologyReport& report = *described;
  for (const std::string& note : notes) report.findings.push_back({false, note});
  std::optional<TopologyPath> path;
  if (!options.hops.empty()) path = path_between(topology, options.hops[0], options.hops[1], routing(options));
  if (const Result<void> ok = write_files(options, topology, report); !ok) return tl::unexpected(ok.error());
  fmt::print("{}", options.json ? to_json(report, path) : to_terminal(report, context.style));
  if (!options.json && path) fmt::print("\n{}", to_terminal(*path, context.style));
  return report.has_errors() ? ExitCode::no : ExitCode::done;
}

Run add_topology_options(CLI::App& app) {
  auto options = std::make_shared<TopologyOptions>();
  app.add_option("TOPOLOGY", options->topology,
                 "a topology file (Tracecast's, or any that import reads), or the name of a shipped one")
      ->required();
  app.add_option("--ranks", options->ranks, "number of GPUs; default: all, or two units of its lowest tier")
      ->check(in_range(1, kMaxRanks));
  CLI::Option* const hops = app.add_option("--hops", options->hops, "two ranks: the path from one to the other")
                                ->expected(2)
                                ->type_name("RANK RANK");
  app.add_option("--ecmp", options->ecmp, "with --hops: the path that an ECMP hash with this seed selects")
      ->needs(hops)
      ->check(at_least_zero());
  app.add_option("--svg", options->svg, "also write the picture to this file")->type_name("FILE");
  app.add_option("--export", options->exported, "also write the cluster in another format; FORMAT is simgrid")
      ->type_name("FORMAT FILE")
      ->expected(2);
  app.add_option("--broken", options->broken, "switches that do not work, as --hops names them: what the fabric loses")
      ->type_name("SWITCHES");
  app.add_flag("--switches", options->switches, "list every switch, also in planes of equal switches");
  app.add_flag("--json", options->json, "print one JSON object");
  return [options](const Context& context) { return topology(*options, context); };
}

}  // namespace

const Command kTopologyCommand{"topology", "describe, check and draw a cluster",
                               "topology dgx-h100 --ranks 64 --hops 0 13", add_topology_options};

}  // namespace tracecast::cli
