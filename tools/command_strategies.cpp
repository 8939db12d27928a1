/// `tracecast strategies`: what each parallel strategy partitions and sends, counted in its step graph.
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/report/strategies_text.hpp"
#include "tools/command_rows.hpp"
#include "tools/named_files.hpp"
#include "tools/option_checks.hpp"

namespace tracecast::cli {
namespace {

struct StrategiesOptions {
  std::string scenario = "strategies";
  std::vector<std::string> overrides;
  int ranks = 4;
  bool json = false;
  bool markdown = false;
};

Result<ExitCode> strategies(const StrategiesOptions& options, const Context& context) {
  const Result<Scenario> scenario = named_scenario(options.scenario, options.overrides);
  if (!scenario) return tl::unexpected(scenario.error());
  const Result<std::vector<StrategyRow>> rows = strategy_table(*scenario, options.ranks);
  if (!rows) return tl::unexpected(located(rows.error(), *scenario));
  fmt::print("{}", options.json       ? strategies_json(*rows)
                   : options.markdown ? strategies_markdown(*rows)
                                      : strategies_terminal(*rows, *scenario, context.style));
  return ExitCode::done;
}

Run add_strategies_options(CLI::App& app) {
  auto options = std::make_shared<StrategiesOptions>();
  app.add_option("SCENARIO", options->scenario, "model and machine for the strategies; its layout is ignored")
      ->capture_default_str();
  add_overrides(app, options->overrides, "replace a value of the scenario, e.g. model=llama-3-8b; may be repeated");
  app.add_option("--ranks", options->ranks, "number of GPUs of each strategy")
      ->check(in_range(2, 4096))
      ->capture_default_str();
  CLI::Option* json = app.add_flag("--json", options->json, "print one JSON object instead of a page");
  app.add_flag("--markdown", options->markdown, "print a Markdown table")->excludes(json);
  return [options](const Context& context) { return strategies(*options, context); };
}

}  // namespace

const Command kStrategiesCommand{"strategies", "show what each parallel strategy partitions and sends",
                                 "strategies --ranks 8", add_strategies_options};

}  // namespace tracecast::cli
