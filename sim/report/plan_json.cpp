#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/markup.hpp"
#include "sim/forecast/evidence.hpp"
#include "sim/network/rack_use.hpp"
#include "sim/report/json_parts.hpp"
#include "sim/report/plan_money.hpp"
#include "sim/report/plan_report.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

Json layout_json(const Layout& l, int gpus) {
  return {{"id", l.id},
          {"tp", l.tp},
          {"cp", l.cp},
          {"ep", l.ep},
          {"sequence_parallel", l.sequence_parallel && l.tp > 1},
          {"pp", l.pp},
          {"vpp", l.vpp},
          {"dp", gpus / l.model_ranks()},
          {"micro_batch_size", l.micro_batch_size},
          {"recompute", to_string(l.recompute)},
          {"pp_schedule", l.pp_schedule},
          {"zero_stage", l.zero_stage},
          {"offload", to_string(l.offload)}};
}

Json counts_json(const SearchCounts& counts) {
  return {{"layouts", counts.layouts},    {"impossible", counts.impossible}, {"out_of_memory", counts.out_of_memory},
          {"refused", counts.refused},    {"pruned", counts.pruned},         {"given_up", counts.given_up},
          {"simulated", counts.simulated}};
}

/// Adds the GPUs of each rack that the job uses, if the machine has racks.
void add_racks(Json& out, const MachineChoice& machine) {
  if (is_rack(machine.scenario.cluster.node)) out["gpus_per_rack"] = machine.scenario.cluster.node.gpus;
}

/// Adds what the GPUs of a host offload to its memory together, and how much it has, if the topology says so.
void add_host(Json& out, const Evaluation& evaluation, const MachineChoice& machine) {
  if (evaluation.host_used == Bytes{}) return;
  out["host_used_gib"] = gib(evaluation.host_used);
  const Bytes capacity = machine.scenario.cluster.node.host_memory;
  if (capacity > Bytes{}) out["host_capacity_gib"] = gib(capacity);
}

/// Adds how much slower than the first candidate this one is, and why.
void add_slowdown(Json& out, const Slowdown& why) {
  out["slower_by"] = why.slower_by;
  if (why.slower_by > 0 && !why.cause.empty()) out["slower_because"] = {{"cause", why.cause}, {"seconds", why.seconds}};
}

Json parts_json(const Evaluation& evaluation) {
  Json parts = Json::object();
  for (const auto& [part, seconds] : step_parts(evaluation)) parts[part] = seconds;
  return parts;
}

Json quantiles_json(const Candidate& candidate) {
  Json out = Json::object();
  const auto add = [&](const char* key, const std::optional<Quantiles>& q) {
    if (q) out[key] = {{"p10", q->p10}, {"p50", q->p50}, {"p90", q->p90}};
  };
  add("step_time_s", candidate.step_quantiles_s);
  add("days", candidate.days_quantiles);
  add("cost_usd", candidate.cost_quantiles_usd);
  add("energy_mwh", candidate.energy_quantiles_mwh);
  add("ratio_to_first", candidate.ratio_to_first);
  return out;
}

/// Adds what the whole training takes: days, money, energy.
void add_training(Json& out, const Candidate& candidate, bool has_tokens) {
  const auto add_band = [&](const char* key, const std::optional<Range3>& range) {
    if (range) out[key] = range_json(*range);
  };
  if (candidate.within_days) out["within_days"] = *candidate.within_days;
  if (candidate.within_budget) out["within_budget"] = *candidate.within_budget;
  if (candidate.days > 0) out["days"] = candidate.days;
  if (!candidate.facts.why_no_days.empty()) out["days_unknown"] = candidate.facts.why_no_days;
  add_band("cost_usd", candidate.cost_usd);
  add_band("usd_per_million_tokens", candidate.usd_per_million_tokens);
  if (has_tokens) add_band("energy_mwh", candidate.energy_mwh);
  add_band("co2_tonnes", candidate.co2_tonnes);
  if (candidate.money.empty()) return;
  Json lines = Json::object();
  for (const MoneyLine& line : candidate.money) lines[line.name] = line.usd;
  out["money_usd"] = lines;
}

/// Adds the measured run that is most like this candidate, if one is like it.
void add_closest_run(Json& out, const Scenario& scenario) {
  const auto closest = closest_runs(scenario, 1);
  if (closest.empty()) return;
  out["closest_run"] = {{"id", closest.front().run->id},
                        {"source", closest.front().run->source},
                        {"distance", closest.front().distance},
                        {"error", closest.front().run->error}};
}

Json candidate_json(const CapacityPlan& plan, std::size_t index) {
  const Candidate& candidate = plan.candidates[index];
  const MachineChoice& machine = choice_of(plan, candidate);
  const Evaluation& e = candidate.evaluation;
  Json out = {{"topology", machine.topology},
              {"gpus", machine.gpus},
              {"global_batch_size", machine.scenario.training.global_batch_size},
              {"layout", layout_json(e.layout, machine.gpus)},
              {"settings", settings_of(plan, candidate)},
              {"step_time_s", e.step_time_s},
              {"bound_s", seconds(e.bound.step_time)},
              {"mfu", e.mfu},
              {"tokens_per_s", candidate.tokens_per_s},
              {"tokens_per_s_per_gpu", candidate.tokens_per_s_per_gpu},
              {"memory_gib", gib(e.memory)},
              {"memory_capacity_gib", gib(e.memory_capacity)},
              {"goodput", candidate.goodput},
              {"parts_s", parts_json(e)},
              {"meets_constraints", candidate.misses.empty()}};
  add_host(out, e, machine);
  add_racks(out, machine);
  if (!machine.variant.empty()) out["variant"] = machine.variant;
  if (candidate.paid.spares > 0) out["spare_gpus"] = candidate.paid.spares;
  if (candidate.paid.unused > 0) out["unused_gpus"] = candidate.paid.unused;
  if (!candidate.misses.empty()) out["misses"] = candidate.misses;
  if (const std::string cut = describe_cut(machine.scenario, e.layout); !cut.empty()) out["cut"] = cut;
  if (e.layout.id == kOwnLayout) out["own"] = true;
  out["equals_first"] = candidate.equals_first;
  if (const Json quantiles = quantiles_json(candidate); !quantiles.empty()) out["quantiles"] = quantiles;
  add_training(out, candidate, plan.target.tokens > 0);
  add_closest_run(out, with_layout(machine.scenario, e.layout));
  add_slowdown(out, plan.runners_up[index]);
  return out;
}

Json own_json(const PlanReport& report) {
  const Evaluation& own = *report.own;
  const MachineChoice& machine = report.plan.machines[report.own_machine].choice;
  const Candidate& best = report.plan.candidates.front();
  Json layout = layout_json(own.layout, machine.gpus);
  layout.erase("id");
  Json out = {{"topology", machine.topology},   {"gpus", machine.gpus},          {"layout", layout},
              {"step_time_s", own.step_time_s}, {"memory_gib", gib(own.memory)}, {"fits", own.fits}};
  if (static_cast<std::size_t>(best.machine) == report.own_machine)
    add_slowdown(out, slower_than(own, best.evaluation));
  return out;
}

Json guideline_json(const Guideline& g) {
  return {{"memory_gb", g.memory_gb},
          {"weights_gb", g.weights_gb},
          {"gradients_gb", g.gradients_gb},
          {"optimizer_gb", g.optimizer_gb},
          {"activations_gb", g.activations_gb},
          {"reserved_gb", g.reserved_gb},
          {"tp", g.tp},
          {"pp", g.pp},
          {"dp", g.dp},
          {"most_stages", g.most_stages},
          {"least_microbatches", g.least_microbatches},
          {"notes", g.notes}};
}

Json recipe_json(const RecipeTrace& recipe, double best_s, int gpus) {
  Json steps = Json::array();
  for (const RecipeStep& step : recipe.steps)
    steps.push_back({{"move", step.move},
                     {"taken", step.taken},
                     {"fits", step.evaluation.fits},
                     {"layout", layout_json(step.evaluation.layout, gpus)},
                     {"step_time_s", step.evaluation.step_time_s},
                     {"memory_gib", gib(step.evaluation.memory)},
                     {"faster_by", step.faster_by},
                     {"memory_change_gib", gib(step.memory_change)}});
  Json out = {{"rule_of_thumb", to_string(recipe.guideline.rule)},
              {"guideline", guideline_json(recipe.guideline)},
              {"found", recipe.found},
              {"steps", steps}};
  if (!recipe.found) return out;
  out["step_time_s"] = recipe.last.step_time_s;
  out["layout"] = layout_json(recipe.last.layout, gpus);
  out["gap"] = recipe.last.step_time_s / best_s - 1;
  return out;
}

/// Every price with its parts and quotes.
Json prices_json(const PlanReport& report) {
  Json prices = Json::object();
  for (const MachineChoice* machine : priced_machines(report.plan)) {
    const std::string gpu = gpus_text(machine->scenario);
    const std::optional<PriceBasis> basis = price_of(report.economics, *machine);
    if (!basis) continue;
    Json parts = Json::object();
    for (const PricePart& part : basis->parts) parts[part.name] = range_json(part.usd);
    Json quotes = Json::array();
    for (const PriceQuote& each : basis->quotes) {
      quotes.push_back({{"usd", each.usd}, {"term", to_string(each.term)}});
      if (!each.region.empty()) quotes.back()["region"] = each.region;
      quotes.back()["date"] = each.date;
      quotes.back()["source"] = each.source;
    }
    prices[gpu] = {{"topology", machine->topology},
                   {"gpus", machine->gpus},
                   {"usd_per_gpu_hour", range_json(basis->price())},
                   {"parts", parts},
                   {"quotes", quotes}};
    if (!basis->note.empty()) prices[gpu]["note"] = basis->note;
  }
  return prices;
}

Json sensitivity_json(const Sensitivity& found) {
  Json flips = Json::array();
  for (const Flip& each : found.flips) flips.push_back({{"assumption", each.assumption}, {"first", each.candidate}});
  Json prices = Json::array();
  for (const BreakEven& each : found.break_evens)
    prices.push_back(
        {{"gpu", each.gpu}, {"usd_per_gpu_hour", each.usd}, {"now", each.price.typical}, {"offer", each.candidate}});
  return {{"tried", found.tried}, {"flips", flips}, {"break_evens", prices}};
}

Json machines_json(const CapacityPlan& plan) {
  Json machines = Json::array();
  for (const MachineOutcome& machine : plan.machines) {
    machines.push_back({{"topology", machine.choice.topology},
                        {"gpus", machine.choice.gpus},
                        {"global_batch_size", machine.choice.scenario.training.global_batch_size},
                        {"goodput", machine.choice.goodput},
                        {"counts", counts_json(machine.result.counts)}});
    add_racks(machines.back(), machine.choice);
    if (!machine.choice.variant.empty()) machines.back()["variant"] = machine.choice.variant;
  }
  return machines;
}

Json candidates_json(const CapacityPlan& plan) {
  Json candidates = Json::array();
  for (std::size_t i = 0; i < plan.candidates.size(); ++i) candidates.push_back(candidate_json(plan, i));
  return candidates;
}

Json objectives_json(const std::vector<Objective>& objectives) {
  Json names = Json::array();
  for (const Objective each : objectives) names.push_back(to_string(each));
  return names;
}

Json upgrades_json(const std::vector<Upgrade>& upgrades) {
  Json out = Json::array();
  for (const Upgrade& each : upgrades)
    out.push_back({{"what", each.what},
                   {"limit", each.limit},
                   {"step_time_s", each.step_time_s},
                   {"faster_by", each.faster_by},
                   {"layout", each.layout}});
  return out;
}

Json likely_sizes_json(const CapacityPlan& plan) {
  Json sizes = Json::array();
  for (const LikelySize& each : likely_sizes(plan))
    sizes.push_back({{"topology", each.topology},
                     {"probability", each.probability},
                     {"gpus", each.gpus ? Json(*each.gpus) : Json(nullptr)},
                     {"most_likely", {{"gpus", each.most_likely}, {"probability", each.most}}}});
  return sizes;
}

}  // namespace

std::string plan_json(const PlanReport& report) {
  const CapacityPlan& plan = report.plan;
  Json out = {{"scenario", report.scenario},
              {"objective", to_string(plan.objective)},
              {"tokens", plan.target.tokens},
              {"failures", report.failures},
              {"economics", report.economics.name},
              {"machines", machines_json(plan)},
              {"left_out", report.left_out},
              {"unpriced", unpriced(plan)},
              {"without_power", without_power(plan)},
              {"not_searched", unsearched_keys(plan)},
              {"offers", candidates_json(plan)},
              {"trade_offs", objectives_json(plan.trade_offs)},
              {"pareto", plan.pareto},
              {"limit", plan.limit},
              {"upgrades", upgrades_json(report.upgrades)}};
  if (!report.economics.name.empty()) {
    out["term"] = to_string(report.economics.term);
    if (!report.economics.region.empty()) out["region"] = report.economics.region;
    out["prices"] = prices_json(report);
  }
  if (report.sensitivity.tried > 0) out["sensitivity"] = sensitivity_json(report.sensitivity);
  out["complete"] = report.complete;
  if (!report.refusals.empty()) out["refusals"] = report.refusals;
  if (!report.hints.empty()) out["hints"] = report.hints;
  if (const Json sizes = likely_sizes_json(plan); !sizes.empty()) out["likely_sizes"] = sizes;
  if (plan.candidates.empty()) return json_file(out);
  const Evaluation& best = plan.candidates.front().evaluation;
  const int gpus = choice_of(plan, plan.candidates.front()).gpus;
  if (report.own) out["own"] = own_json(report);
  if (report.recipe) out["recipe"] = recipe_json(*report.recipe, best.step_time_s, gpus);
  return json_file(out);
}

std::string plan_csv(const CapacityPlan& plan) {
  std::string text =
      "topology,gpus,global_batch_size,id,tp,cp,ep,pp,vpp,dp,sequence_parallel,micro_batch_size,recompute,pp_schedule,"
      "zero_stage,offload,bound_s,step_time_s,mfu,"
      "memory_gib\n";
  for (const MachineOutcome& machine : plan.machines)
    for (const Evaluation& e : machine.result.simulated) {
      const Layout& l = e.layout;
      text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", machine.choice.topology,
                          machine.choice.gpus, machine.choice.scenario.training.global_batch_size, l.id, l.tp, l.cp,
                          l.ep, l.pp, l.vpp, machine.choice.gpus / l.model_ranks(), l.sequence_parallel && l.tp > 1,
                          l.micro_batch_size, to_string(l.recompute), l.pp_schedule, l.zero_stage, to_string(l.offload),
                          seconds(e.bound.step_time), e.step_time_s, e.mfu, gib(e.memory));
    }
  return text;
}

}  // namespace tracecast
