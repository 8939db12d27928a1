#include "tools/worker/inputs.hpp"

#include <utility>

#include "sim/plan/plan.hpp"
#include "tools/named_files.hpp"

namespace tracecast::worker {

Result<Scenario> load_scenario(const ExecuteOptions& options) {
  return cli::named_scenario(options.scenario, options.overrides);
}

Result<Suite> suite_of(const ProfileOptions& options, Bytes largest) {
  Suite suite;
  for (const std::string& name : options.scenarios) {
    Result<Scenario> scenario = cli::named_scenario(name);
    if (!scenario) return tl::unexpected(scenario.error());
    if (const Result<void> added = add_scenario(suite, std::move(*scenario)); !added)
      return tl::unexpected(added.error());
  }
  if (options.suite != "none") {
    const Result<Scenario> base = cli::named_scenario(options.device);
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
