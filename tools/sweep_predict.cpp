#include "tools/sweep_predict.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "sim/import/importers.hpp"
#include "sim/io/output_files.hpp"
#include "sim/io/scenario_document.hpp"
#include "sim/network/possible_faults.hpp"
#include "sim/network/rack_use.hpp"
#include "sim/network/sites.hpp"
#include "sim/report/sweep_report.hpp"
#include "tools/environment.hpp"
#include "tools/progress.hpp"

namespace tracecast::cli {
namespace {

constexpr std::string_view kTopology = "topology.";

std::string rack_error(const Scenario& scenario) {
  const Cluster& cluster = scenario.cluster;
  if (scenario.gpus_per_rack == 0) return "";
  return gpus_per_rack_error(cluster.node, cluster.max_nodes, cluster.world_size, scenario.gpus_per_rack);
}

}  // namespace

DividedOverrides divided(const std::vector<std::string>& overrides) {
  DividedOverrides parts;
  for (const std::string& each : overrides) {
    if (each.starts_with(kTopology))
      parts.of_topology.push_back(each.substr(kTopology.size()));
    else
      parts.of_scenario.push_back(each);
  }
  return parts;
}

Result<void> change_topology(Scenario& scenario, const std::vector<std::string>& overrides, const DataPaths& data) {
  const Result<std::filesystem::path> file = scenario.topology_file.empty()
                                                 ? find_file(scenario.topology, data.topologies, "topology")
                                                 : Result<std::filesystem::path>(scenario.topology_file);
  if (!file) return tl::unexpected(file.error());
  Result<Cluster> cluster = read_topology(*file, overrides);
  if (!cluster) return tl::unexpected(cluster.error());
  if (cluster->gpu != scenario.cluster.gpu)
    return fail({.file = "--set",
                 .line = 0,
                 .key = "topology.gpu",
                 .value = cluster->gpu,
                 .message = "is not changed here (set cluster.profile: the GPU's profile)"});
  const Sites sites = scenario.cluster.sites;
  cluster->max_nodes *= sites.count;
  cluster->world_size = scenario.cluster.world_size;
  cluster->faults = scenario.cluster.faults;
  cluster->backend = scenario.cluster.backend;
  cluster->routing = scenario.cluster.routing;
  cluster->routing_seed = scenario.cluster.routing_seed;
  scenario.cluster = std::move(*cluster);
  if (const std::string error = rack_error(scenario); !error.empty())
    return fail({"--set", 0, "cluster.gpus_per_rack", std::to_string(scenario.gpus_per_rack), error});
  if (const auto faults = impossible_values(scenario.cluster); !faults.empty())
    return fail({"--set", 0, "topology." + faults.front().key, "", faults.front().message});
  if (const auto faults = impossible_faults(scenario.cluster); !faults.empty())
    return fail({"--set", 0, "perturb." + faults.front().key, "", faults.front().message});
  use_racks(scenario.cluster, scenario.parallel, scenario.gpus_per_rack);
  if (sites.count > 1) {
    if (const std::string error = sites_error(scenario.cluster, sites); !error.empty())
      return fail({"--set", 0, "cluster.sites", std::to_string(sites.count), error});
    use_sites(scenario.cluster, sites);
  }
  scenario.measured.reset();
  return {};
}

Result<std::filesystem::path> find_scenario(const std::string& name, const DataPaths& data) {
  Result<std::filesystem::path> path = find_file(name, data.scenarios, "scenario");
  if (path || !find_file(name, data.scenarios / "models", "model")) return path;
  return fail(fmt::format("'{0}' is a model, not a scenario (a scenario with it: --set model={0})", name));
}

Result<Scenario> read_with_topology(const std::string& name, const std::vector<std::string>& overrides) {
  const Result<DataPaths> data = data_paths();
  if (!data) return tl::unexpected(data.error());
  const Result<std::filesystem::path> path = find_scenario(name, *data);
  if (!path) return tl::unexpected(path.error());
  const auto [of_topology, of_scenario] = divided(overrides);
  Result<Scenario> scenario = read_any_scenario(*path, *data, of_scenario);
  if (!scenario || of_topology.empty()) return scenario;
  if (const Result<void> changed = change_topology(*scenario, of_topology, *data); !changed)
    return tl::unexpected(changed.error());
  return scenario;
}

Result<ExitCode> sweep_predict(const SweepOptions& options, const std::string& scenario,
                               const std::vector<std::string>& overrides, const ForecastOptions& forecast_options,
                               bool json, const Context& context) {
  std::vector<SweepAxis> axes;
  for (const std::string& text : options.axes) {
    Result<SweepAxis> axis = parse_sweep_axis(text);
    if (!axis) return tl::unexpected(axis.error());
    axes.push_back(std::move(*axis));
  }
  if (!options.svg.empty() && axes.size() > 2) return fail_key("--svg", options.svg, "draws one or two keys");
  const auto read = [&](const std::vector<std::string>& point) {
    std::vector<std::string> all = overrides;
    all.insert(all.end(), point.begin(), point.end());
    return read_with_topology(scenario, all);
  };
  Progress progress("sweeping", context.show_progress);
  Result<Sweep> sweep = run_sweep(axes, read, forecast_options, [&](std::size_t done, std::size_t all) {
    progress.update(static_cast<double>(done), static_cast<double>(all));
  });
  if (!sweep) return tl::unexpected(sweep.error());
  const std::filesystem::path path(scenario);
  sweep->scenario = (path.extension() == ".json" ? path.stem() : path.filename()).string();
  OutputFiles files;
  if (!options.csv.empty()) files.write(options.csv, sweep_csv(*sweep));
  if (!options.svg.empty()) files.write(options.svg, sweep_svg(*sweep));
  if (const Result<void> written = files.commit(); !written) return tl::unexpected(written.error());
  fmt::print("{}", json ? sweep_json(*sweep) : sweep_page(*sweep, context.style));
  const bool any = std::any_of(sweep->points.begin(), sweep->points.end(), [](const GridPoint& p) { return p.fits; });
  return any ? ExitCode::done : ExitCode::no;
}

}  // namespace tracecast::cli
