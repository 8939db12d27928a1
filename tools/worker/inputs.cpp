#include "tools/worker/inputs.hpp"

#include <filesystem>
#include <utility>

#include "sim/plan/plan.hpp"
#include "tools/environment.hpp"

namespace tracecast::worker {
namespace {

Result<Scenario> scenario_named(const std::string& name, const std::vector<std::string>& overrides) {
  const Result<DataPaths> data = cli::data_paths();
  if (!data) return tl::unexpected(data.error());
  const Result<std::filesystem::path> path = find_file(name, data->scenarios, "scenario");
  if (!path) return tl::unexpected(path.error());
  return read_scenario(*path, *data, overrides);
}

}  // namespace

Result<Scenario> load_scenario(const ExecuteOptions& options) {
  return scenario_named(options.scenario, options.overrides);
}

Result<Suite> suite_of(const ProfileOptions& options, Bytes largest) {
  Suite suite;
  for (const std::string& name : options.scenarios) {
    Result<Scenario> scenario = scenario_named(name, {});
    if (!scenario) return tl::unexpected(scenario.error());
    if (const Result<void> added = add_scenario(suite, std::move(*scenario)); !added)
      return tl::unexpected(added.error());
  }
  if (options.suite != "none") {
    const Result<Scenario> base = scenario_named(options.device, {});
    if (!base) return tl::unexpected(base.error());
    Result<Suite> made = make_suite(options.suite, *base);
    if (!made) return made;
    for (Scenario& scenario : made->scenarios)
      if (const Result<void> added = add_scenario(suite, std::move(scenario)); !added)
        return tl::unexpected(added.error());
    suite.collectives = std::move(made->collectives);
  }
  if (suite.collectives.empty()) suite.collectives = collective_sizes(largest);
  return suite;
}

Widths widths_of(const Scenario& scenario) {
  const Result<Plan> plan =
      make_plan(scenario.model, scenario.parallel, scenario.training, scenario.cluster.world_size);
  TRACECAST_ASSERT(plan.has_value(), "a scenario of the suite was forecast before");
  return tracecast::widths_of(scenario.model, *plan);
}

}  // namespace tracecast::worker
