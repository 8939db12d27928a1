#include "tools/worker/inputs.hpp"

#include <utility>

#include <CLI/CLI.hpp>

#include "sim/plan/optimizers.hpp"
#include "sim/plan/plan.hpp"
#include "tools/named_files.hpp"

namespace tracecast::worker {

void add_scenario_options(CLI::App& command, ExecuteOptions& options) {
  command.add_option("SCENARIO", options.scenario)->required();
  command.add_option("--set", options.overrides)->allow_extra_args(false);
}

void add_execute_options(CLI::App& command, ExecuteOptions& options) {
  command.add_option("--steps", options.steps);
  command.add_option("--warm-up", options.warm_up);
  command.add_option("--out", options.out);
}

void add_profile_options(CLI::App& command, ProfileOptions& options) {
  command.add_option("--suite", options.suite);
  command.add_option("--for", options.scenarios)->allow_extra_args(false);
  command.add_option("--passes", options.passes);
  command.add_flag("--progress", options.show_progress);
  command.add_option("--out", options.out)->required();
}

namespace {

/// Work of the host, and processes that are not ranks.
std::string beside_the_ranks(const Scenario& scenario) {
  if (scenario.training.offload_optimizer) return "training.offload_optimizer";
  if (scenario.training.offload_parameters) return "training.offload_parameters";
  return scenario.training.offload_activations ? "training.offload_activations" : "";
}

/// Some scenarios can be forecast, but not run: linear and sparse attention, gates on attention, and factorisations of
/// preconditioners have no kernels in this program; nothing here is offloaded to the host or sent to parameter servers.
Result<Scenario> runnable(Result<Scenario> scenario) {
  const auto missing = [](const char* key, const std::string& value) {
    return fail_key(key, value, "can be forecast, but not run: there are no kernels of it here");
  };
  if (scenario && scenario->model.linear_attention)
    return missing("model.layer_pattern", scenario->model.layer_pattern);
  if (scenario && scenario->model.sparse_attention) return missing("model.sparse_attention", "");
  if (scenario && has_preconditioners(optimizer_of(scenario->training.optimizer)))
    return missing("training.optimizer", to_string(scenario->training.optimizer));
  if (scenario && scenario->training.documents) return missing("training.documents", "");
  if (scenario && scenario->model.attention_output_gate) return missing("model.attention_output_gate", "true");
  if (scenario && !beside_the_ranks(*scenario).empty())
    return fail_key(beside_the_ranks(*scenario), "true",
                    "can be forecast, but not run: nothing is offloaded to the host here");
  const DataParallelKind kind = scenario ? scenario->parallel.data_parallel : DataParallelKind::automatic;
  if (kind == DataParallelKind::parameter_server || kind == DataParallelKind::async_parameter_server)
    return fail_key("parallel.data_parallel", to_string(kind),
                    "can be forecast, but not run: there are no parameter servers here");
  return scenario;
}

}  // namespace

Result<Scenario> load_scenario(const ExecuteOptions& options) {
  return runnable(cli::named_scenario(options.scenario, options.overrides));
}

Result<Suite> suite_of(const ProfileOptions& options, Bytes largest) {
  Suite suite;
  for (const std::string& name : options.scenarios) {
    Result<Scenario> scenario = runnable(cli::named_scenario(name));
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
