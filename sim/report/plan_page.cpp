#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "sim/report/plan_money.hpp"
#include "sim/report/plan_report.hpp"
#include "sim/search/space.hpp"

namespace tracecast {
namespace {

/// 92.4 million USD (61.3 to 154)
std::string money(const Range3& usd) {
  const bool millions = usd.typical >= 1e6;
  const Range3 shown = millions ? usd * 1e-6 : usd;
  return fmt::format("{} {}USD ({} to {})", number(shown.typical, 3), millions ? "million " : "", number(shown.low, 3),
                     number(shown.high, 3));
}

/// "23.8 days (P10 20.9, P90 27.1)": the forecast at typical prices, by which candidates are ranked, and its tails.
std::string with_tails(double forecast, const std::optional<Quantiles>& q, const std::string& unit) {
  const std::string text = number(forecast, 3) + unit;
  return q ? fmt::format("{} (P10 {}, P90 {})", text, number(q->p10, 3), number(q->p90, 3)) : text;
}

std::string days_with_tails(const Candidate& candidate) {
  const std::optional<Quantiles>& q = candidate.days_quantiles;
  return q ? days_text(candidate.days, q->p10, q->p90) : days_text(candidate.days);
}

/// Of a job without a number of tokens: energy_mwh is for a million.
std::string kilowatt_hours(const Candidate& candidate) {
  return number(1000 * candidate.energy_mwh->typical, 3) + " kWh per million tokens";
}

/// In millions where it is more than one.
std::string money_with_tails(const Range3& usd, const std::optional<Quantiles>& q) {
  if (!q) return money(usd);
  const double unit = usd.typical >= 1e6 ? 1e6 : 1;
  return with_tails(usd.typical / unit, Quantiles{q->p10 / unit, q->p50 / unit, q->p90 / unit},
                    unit > 1 ? " million USD" : " USD");
}

std::string counts_line(const CapacityPlan& plan, const TextStyle& style) {
  SearchCounts sum;
  for (const MachineOutcome& machine : plan.machines) {
    const SearchCounts& own = machine.result.counts;
    sum.layouts += own.layouts;
    sum.impossible += own.impossible;
    sum.out_of_memory += own.out_of_memory;
    sum.refused += own.refused;
    sum.pruned += own.pruned + own.given_up;
    sum.simulated += own.simulated;
  }
  const auto count = [](std::int64_t value) { return number(static_cast<double>(value), 1); };
  const std::string refused =
      sum.refused > 0 ? fmt::format("{}{} refused by the launcher", separator(style), count(sum.refused)) : "";
  return fmt::format("{} layouts{}{} impossible{}{} do not fit{}{}{} cannot win{}{} simulated", count(sum.layouts),
                     separator(style), count(sum.impossible), separator(style), count(sum.out_of_memory), refused,
                     separator(style), count(sum.pruned), separator(style), count(sum.simulated));
}

bool several_batches(const CapacityPlan& plan) {
  const auto batch = [](const MachineOutcome& machine) { return machine.choice.scenario.training.global_batch_size; };
  return std::any_of(plan.machines.begin(), plan.machines.end(),
                     [&](const MachineOutcome& each) { return batch(each) != batch(plan.machines.front()); });
}

/// "7.1 % slower than 1: pipeline bubble takes 80 ms more; 3.2 % cheaper per token"; empty: equal to the first.
std::string against_first(const CapacityPlan& plan, std::size_t index) {
  const Slowdown& why = plan.runners_up[index];
  const Candidate& first = plan.candidates.front();
  const Candidate& candidate = plan.candidates[index];
  std::string text;
  if (why.slower_by >= 0.0005 && !why.cause.empty())
    text = fmt::format("{} slower than 1: {} takes {} more", percent(why.slower_by), why.cause, time_text(why.seconds));
  else if (why.slower_by <= -0.0005)
    text = fmt::format("takes {} less time than 1", percent(-why.slower_by));
  if (candidate.machine == first.machine || !candidate.usd_per_million_tokens || !first.usd_per_million_tokens)
    return text;
  const double more = candidate.usd_per_million_tokens->typical / first.usd_per_million_tokens->typical - 1;
  if (std::abs(more) < 0.0005) return text;
  return fmt::format("{}{}{} {} per token", text, text.empty() ? "" : "; ", percent(std::abs(more)),
                     more > 0 ? "more expensive" : "cheaper");
}

/// "1 1,024 x dgx-h100 · TP 8 …, the scenario's own".
std::string candidate_title(const MachineChoice& machine, std::size_t index, const Layout& layout,
                            const TextStyle& style) {
  const std::string cut = describe_cut(machine.scenario, layout);
  const std::string what =
      paragraph("   ",
                fmt::format("{} {} {}{}{}{}{}{}", number(machine.gpus, 1), times(style), machine_text(machine),
                            separator(style), describe(layout, machine.gpus), cut.empty() ? "" : ", ", cut,
                            layout.id == kOwnLayout ? ", the scenario's own" : ""),
                style);
  return paint(fmt::format("{:2} ", index + 1), index == 0 ? Colour::green : Colour::grey, style) +
         paint(what.substr(3), Colour::bold, style);
}

/// " · host memory: 1,164 of 1,863 GiB", of what the GPUs of a host offload; empty: nothing.
std::string host_fact(const Evaluation& e, const MachineChoice& machine, const TextStyle& style) {
  if (e.host_used == Bytes{}) return "";
  const Bytes capacity = machine.scenario.cluster.node.host_memory;
  return fmt::format("{}host memory: {}{} GiB per host{}", separator(style), number(gib(e.host_used), 4),
                     capacity == Bytes{} ? "" : " of " + number(gib(capacity), 4),
                     capacity == Bytes{} ? ", which has an unknown amount" : "");
}

/// "step 15.1 s · MFU 41.2 % · 463.1 tokens/s per GPU · 61.2 of 80.0 GiB".
std::string step_facts(const CapacityPlan& plan, const Candidate& candidate, const TextStyle& style) {
  const MachineChoice& machine = choice_of(plan, candidate);
  const Evaluation& e = candidate.evaluation;
  const std::string batch =
      several_batches(plan)
          ? fmt::format("global batch {}{}", machine.scenario.training.global_batch_size, separator(style))
          : "";
  const std::string tails = candidate.step_quantiles_s && candidate.days <= 0
                                ? fmt::format(" (P10 {}, P90 {})", time_text(candidate.step_quantiles_s->p10),
                                              time_text(candidate.step_quantiles_s->p90))
                                : "";
  return fmt::format("{}step {}{}{}MFU {}{}{} tokens/s per GPU{}{:.1f} of {:.1f} GiB{}", batch,
                     time_text(e.step_time_s), tails, separator(style), percent(e.mfu), separator(style),
                     number(candidate.tokens_per_s_per_gpu), separator(style), gib(e.memory), gib(e.memory_capacity),
                     host_fact(e, machine, style));
}

/// "23.8 days at 96.1 % goodput · 92.4 million USD (61.3 to 154) · 3,210 MWh": what the whole training takes.
std::string training_facts(const CapacityPlan& plan, const Candidate& candidate, const TextStyle& style) {
  std::vector<std::string> facts;
  if (candidate.days > 0)
    facts.push_back(fmt::format("{} at {} goodput", days_with_tails(candidate), percent(candidate.goodput)));
  if (!candidate.facts.why_no_days.empty())
    facts.push_back(fmt::format("days, money and energy not known: {}", candidate.facts.why_no_days));
  if (candidate.within_days)
    facts.push_back(
        fmt::format("{} likely within {}", percent(*candidate.within_days, 0), given_days(plan.target.days)));
  if (candidate.cost_usd)
    facts.push_back(money_with_tails(*candidate.cost_usd, candidate.cost_quantiles_usd) + idle_text(candidate.paid));
  if (candidate.within_budget)
    facts.push_back(fmt::format("{} likely within the budget", percent(*candidate.within_budget, 0)));
  if (!candidate.cost_usd && candidate.usd_per_million_tokens)
    facts.push_back(money(*candidate.usd_per_million_tokens) + " per million tokens");
  if (candidate.energy_mwh && candidate.days <= 0 && plan.objective == Objective::energy)
    facts.push_back(kilowatt_hours(candidate));
  if (candidate.energy_mwh && candidate.days > 0)
    facts.push_back(candidate.energy_quantiles_mwh
                        ? with_tails(candidate.energy_mwh->typical, candidate.energy_quantiles_mwh, " MWh")
                        : fmt::format("{} MWh ({} to {})", number(candidate.energy_mwh->typical, 3),
                                      number(candidate.energy_mwh->low, 3), number(candidate.energy_mwh->high, 3)));
  if (candidate.co2_tonnes) facts.push_back(fmt::format("{} t CO2", number(candidate.co2_tonnes->typical, 3)));
  return fmt::format("{}", fmt::join(facts, separator(style)));
}

std::string candidate_lines(const CapacityPlan& plan, std::size_t index, const TextStyle& style) {
  const Candidate& candidate = plan.candidates[index];
  std::string text = candidate_title(choice_of(plan, candidate), index, candidate.evaluation.layout, style);
  text += paragraph("   ", step_facts(plan, candidate, style), style);
  if (const std::string training = training_facts(plan, candidate, style); !training.empty())
    text += paragraph("   ", training, style);
  if (!candidate.misses.empty())
    text += paragraph("   ", paint("misses: " + candidate.misses, Colour::red, style), style);
  std::string why = index > 0 ? against_first(plan, index) : "";
  if (index > 0 && candidate.equals_first) why = equal_text(plan, candidate) + (why.empty() ? "" : ": ") + why;
  if (!why.empty()) text += paragraph("   ", why, style);
  return text;
}

/// Compares the scenario's own layout with the best one of the same machine.
std::string own_lines(const PlanReport& report, const TextStyle& style) {
  const CapacityPlan& plan = report.plan;
  const Evaluation& own = *report.own;
  const Candidate& first = plan.candidates.front();
  const MachineChoice& machine = plan.machines[report.own_machine].choice;
  std::string text = fmt::format("{} {} {}: {}: step {}, {:.1f} GiB{}", number(machine.gpus, 1), times(style),
                                 machine_text(machine), describe(own.layout, machine.gpus), time_text(own.step_time_s),
                                 gib(own.memory), own.fits ? "" : ", which does not fit");
  if (static_cast<std::size_t>(first.machine) != report.own_machine) return paragraph("  ", text + ".", style);
  const Slowdown why = slower_than(own, first.evaluation);
  if (why.slower_by > 0.0005)
    text +=
        fmt::format("; {} slower than 1: {} takes {} more", percent(why.slower_by), why.cause, time_text(why.seconds));
  else
    text += why.slower_by < -0.0005 ? "; no other layout that fits is as fast" : "; no other layout is faster";
  return paragraph("  ", text + ".", style);
}

/// "step   15.1 s   159 days  0.56 USD per million tokens"
std::string trade_off_figures(const Candidate& candidate, bool shows_energy) {
  std::string text = "step " + pad_left(time_text(candidate.evaluation.step_time_s), 8);
  if (candidate.days > 0) text += fmt::format("  {} days", pad_left(number(candidate.days, 3), 6));
  if (candidate.usd_per_million_tokens)
    text += fmt::format("  {} USD per million tokens", number(candidate.usd_per_million_tokens->typical, 3));
  if (shows_energy && candidate.energy_mwh)
    text += "  " + (candidate.days > 0 ? number(candidate.energy_mwh->typical, 3) + " MWh" : kilowatt_hours(candidate));
  return text;
}

/// A candidate a line; where one is wider than the page, its figures stand below its machine.
std::string front_lines(const CapacityPlan& plan, const TextStyle& style) {
  const bool shows_energy = std::ranges::find(plan.trade_offs, Objective::energy) != plan.trade_offs.end();
  std::vector<std::pair<std::string, std::string>> lines;
  int machine_width = 0;
  int figures_width = 0;
  for (const int index : plan.pareto) {
    const Candidate& candidate = plan.candidates[static_cast<std::size_t>(index)];
    const MachineChoice& machine = choice_of(plan, candidate);
    lines.emplace_back(
        fmt::format("{} {} {}", pad_left(number(machine.gpus, 1), 8), times(style), machine_text(machine)),
        trade_off_figures(candidate, shows_energy));
    machine_width = std::max(machine_width, columns(lines.back().first));
    figures_width = std::max(figures_width, columns(lines.back().second));
  }
  const bool below = 2 + machine_width + 2 + figures_width > style.width;
  std::string text;
  for (const auto& [machine, figures] : lines)
    text += fmt::format("  {}{}{}\n", below ? machine : pad_right(machine, machine_width),
                        below ? "\n" + std::string(13, ' ') : "  ", figures);
  return text;
}

/// "time, cost and energy".
std::string listed(const std::vector<Objective>& objectives) {
  std::string text;
  for (std::size_t i = 0; i < objectives.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == objectives.size() ? " and " : ", ", to_string(objectives[i]));
  return text;
}

std::string upgrade_lines(const std::vector<Upgrade>& upgrades, const TextStyle& style) {
  std::string text;
  for (const Upgrade& each : upgrades) {
    const double gain = std::max(0.0, each.faster_by);
    text += fmt::format("  {} {} {:>7}\n", pad_right(each.what, 22), bar(gain, 20, style), percent(each.faster_by));
    if (!each.layout.empty()) text += paragraph("    with ", each.layout, style);
  }
  return text;
}

/// The bottleneck: the time that the best upgrade of each resource saves, largest first.
std::string limits(const std::vector<Upgrade>& upgrades) {
  std::vector<std::string> named;
  std::string text;
  for (const Upgrade& each : upgrades) {
    if (std::find(named.begin(), named.end(), each.limit) != named.end()) continue;
    named.push_back(each.limit);
    if (each.faster_by >= 0.005)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", each.limit, percent(each.faster_by, 0));
  }
  return text.empty() ? "No upgrade saves half a percent." : "Bottlenecks, by the time that an upgrade saves: " + text;
}

std::string guideline_lines(const Guideline& g, const TextStyle& style) {
  std::string text =
      paragraph("  ",
                fmt::format("1 Memory: weights {:.1f}, gradients {:.1f}, optimizer {:.1f}, activations {:.1f} GB (16 "
                            "bytes per token, hidden element and layer) are {:.1f} GB; a GPU has {:.1f}.",
                            g.weights_gb, g.gradients_gb, g.optimizer_gb, g.activations_gb, g.total_gb(), g.memory_gb),
                style);
  text += fmt::format("  2 Kinds: {}\n", to_string(g.rule));
  text += paragraph(
      "  ",
      fmt::format(
          "3 Degrees: TP {}, PP {}, DP {}. {:.1f} GB of weights and gradients over {:.1f} - {:.1f} GB are {:.2f}, "
          "in nodes of {}{}.{}",
          g.tp, g.pp, g.dp, g.weights_gb + g.gradients_gb, g.memory_gb, g.reserved_gb,
          (g.weights_gb + g.gradients_gb) / (g.memory_gb - g.reserved_gb), g.node_gpus,
          g.tp * g.pp > g.gpus ? "" : fmt::format("; DP = {} / ({} x {})", g.gpus, g.tp, g.pp),
          g.pp > 1 ? fmt::format(" PP is from memory: the guide's PP = GPUs / (TP x DP) and DP = GPUs / (TP x PP) are "
                                 "one equation. At least {} micro-batches. One GPU would hold {} of these stages.",
                                 g.least_microbatches, g.most_stages)
                   : ""),
      style);
  text += "  4 Network: the axes and their links are in the page of `predict`.\n";
  for (const std::string& note : g.notes) text += paragraph("    ", note, style);
  return text;
}

std::string recipe_lines(const RecipeTrace& recipe, const Candidate& first, int gpus, const TextStyle& style) {
  std::string text;
  for (const RecipeStep& step : recipe.steps) {
    const Evaluation& e = step.evaluation;
    std::string result = fmt::format("{:6.1f} GiB", gib(e.memory));
    if (e.fits)
      result += fmt::format("  {}", pad_left(time_text(e.step_time_s), 8));
    else
      result += "  does not fit";
    if (e.fits && step.faster_by != 0) result += fmt::format("  {}", signed_percent(-step.faster_by));
    text += fmt::format("  {} {} {}\n", step.taken ? paint("*", Colour::green, style) : " ", pad_right(step.move, 37),
                        without_trailing_blanks(result));
  }
  if (!recipe.found) return text + "  Nothing fits.\n";
  return text + paragraph("  ",
                          fmt::format("It ends at {}: {}, {} slower than the best of the search.",
                                      describe(recipe.last.layout, gpus), time_text(recipe.last.step_time_s),
                                      percent(recipe.last.step_time_s / first.evaluation.step_time_s - 1)),
                          style);
}

std::string_view last_by(Objective objective) {
  return objective == Objective::cost ? ", which come last, by time" : "";
}

/// "dgx-h100: 8,192 for 50 %, 16,384 for 80 %, none for 95 % (at most 91 %, with 16,384)", "dgx-a100: none of those
/// searched (at most 12 %, with 8)"
std::string size_lines(const CapacityPlan& plan, const TextStyle& style) {
  std::map<std::string, std::vector<LikelySize>> of_machine;
  for (LikelySize& each : likely_sizes(plan)) of_machine[each.topology].push_back(std::move(each));
  std::string text;
  for (const auto& [topology, sizes] : of_machine) {
    std::vector<std::string> parts;
    for (const LikelySize& each : sizes)
      parts.push_back(
          fmt::format("{} for {}", each.gpus ? number(*each.gpus, 1) : "none", percent(each.probability, 0)));
    if (std::ranges::none_of(sizes, [](const LikelySize& each) { return each.gpus.has_value(); }))
      parts = {"none of those searched"};
    const LikelySize& last = sizes.back();
    const std::string most =
        last.gpus ? "" : fmt::format(" (at most {}, with {})", percent(last.most, 0), number(last.most_likely, 1));
    text += paragraph("  ", fmt::format("{}: {}{}", topology, fmt::join(parts, ", "), most), style);
  }
  return text;
}

/// The command that forecasts the best layout again, with a setting a line.
std::string again_lines(const PlanReport& report) {
  std::string text = "  tracecast predict " + report.file;
  for (const std::string& setting : settings_of(report.plan, report.plan.candidates.front()))
    text += fmt::format(" \\\n    --set '{}'", setting);
  return text + "\n";
}

/// What the page rests on: launcher, failures, prices, and what was left out of the search.
std::string basis_sentences(const PlanReport& report) {
  const CapacityPlan& plan = report.plan;
  std::string text;
  if (!report.launcher.empty()) {
    const std::string& stack = choice_of(plan, plan.candidates.front()).scenario.stack;
    text += fmt::format("All layouts are accepted by {}, and are forecast {}{}. ", report.launcher,
                        stack.empty() ? "without a software stack (--set stack=NAME)" : "with the stack " + stack,
                        report.stack_of_launcher.empty() ? "" : ", which an import of its settings sets");
  }
  if (!report.failures.empty()) text += fmt::format("Goodput: failure model {}. ", report.failures);
  if (!report.economics.name.empty()) {
    text += "Money and energy: " + report.economics.name;
    if (const auto gpus = unpriced(plan); !gpus.empty())
      text += fmt::format("; no price for {}{}", fmt::join(gpus, ", "), last_by(plan.objective));
    if (const auto gpus = without_power(plan); !gpus.empty())
      text += fmt::format("; no power (tdp) for {}, so no energy", fmt::join(gpus, ", "));
    text += ". ";
  }
  if (std::ranges::any_of(plan.candidates, [](const Candidate& each) { return each.facts.counted_share < 1; }))
    text += "Days, money and energy count tokens without padding, tokens/s all of them. ";
  if (!report.left_out.empty()) text += fmt::format("Left out: {}. ", fmt::join(report.left_out, "; "));
  constexpr std::size_t kMostRefusals = 3;
  const std::size_t said = std::min(kMostRefusals, report.refusals.size());
  for (std::size_t i = 0; i < said; ++i) text += report.refusals[i] + " ";
  if (const std::size_t more = report.refusals.size() - said; more > 0)
    text += fmt::format("{} more without a layout: --json says why. ", more);
  if (const std::vector<std::string> keys = unsearched_keys(plan); !keys.empty()) {
    const std::string sharded = "parallel.shard_group";  // layouts of ZeRO-0 have none
    const bool some = std::ranges::find(keys, sharded) != keys.end();
    text += fmt::format("Not searched, but as in the scenario: {} (--sweep KEY=VALUE,VALUE searches one{}). ",
                        fmt::join(keys, ", "), some ? "; " + sharded + " together with --zero 1,3" : "");
  }
  return text;
}

/// Those that no refusal says.
std::string hint_lines(const PlanReport& report, const TextStyle& style) {
  std::string text;
  for (const std::string& hint : report.hints)
    if (std::ranges::none_of(report.refusals, [&](const std::string& each) { return each.ends_with(hint + "."); }))
      text += "\n" + paragraph("  ", hint + ".", style);
  return text;
}

}  // namespace

std::string plan_page(const PlanReport& report, const TextStyle& style) {
  const CapacityPlan& plan = report.plan;
  std::string text =
      paint(fmt::format("{}: best layouts by {}", report.scenario, to_string(plan.objective)), Colour::bold, style) +
      "\n" + paragraph("  ", counts_line(plan, style), style);
  if (!report.complete) text += paragraph("  ", "Stopped early: the best so far.", style);
  if (plan.candidates.empty()) {
    text += report.refusals.empty() ? "\nNo layout fits.\n" : "\n";
    for (const std::string& each : report.refusals) text += paragraph("", each, style);
    return text + hint_lines(report, style);
  }
  const auto section = [&](const std::string& title, const std::string& body) {
    text += "\n" + heading(title, style) + "\n" + body;
  };
  const Candidate& best = plan.candidates.front();
  section("Best layouts", "");
  for (std::size_t i = 0; i < plan.candidates.size(); ++i) text += candidate_lines(plan, i, style);
  text += "\n";
  for (const std::string& each : closest_run_sentences(plan)) text += paragraph("  ", each, style);
  if (report.own) section("The scenario's own layout", own_lines(report, style));
  section("Parts of the best step", paragraph("  ", plan.limit, style));
  if (!report.upgrades.empty())
    section("Upgrades, each with a new search",
            upgrade_lines(report.upgrades, style) + paragraph("  ", limits(report.upgrades), style));
  if (report.recipe) {
    section("What a guide would choose", guideline_lines(report.recipe->guideline, style));
    section("By hand: most data parallelism that fits, then one change at a time",
            recipe_lines(*report.recipe, best, choice_of(plan, best).gpus, style));
  }
  if (plan.pareto.size() > 1) section("Best trade-offs of " + listed(plan.trade_offs), front_lines(plan, style));
  if (!best.money.empty()) section("What the first costs at typical prices", money_lines(best));
  if (!report.economics.name.empty()) section("Prices", price_lines(report, style));
  if (report.sensitivity.tried > 0) section("What would change the answer", sensitivity_lines(report, style));
  if (!report.file.empty()) section("The best layout again", again_lines(report));
  if (const std::string sizes = size_lines(plan, style); !sizes.empty()) section("GPUs that make it likely", sizes);
  text += hint_lines(report, style);
  if (const std::string basis = basis_sentences(report); !basis.empty()) text += "\n" + paragraph("  ", basis, style);
  return text;
}

}  // namespace tracecast
