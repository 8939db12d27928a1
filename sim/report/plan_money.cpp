#include "sim/report/plan_money.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tracecast {

std::vector<const MachineChoice*> priced_machines(const CapacityPlan& plan) {
  const auto gpu = [](const MachineChoice* machine) { return gpus_text(machine->scenario); };
  std::vector<const MachineChoice*> machines;
  for (const MachineOutcome& each : plan.machines)
    if (std::ranges::find(machines, gpu(&each.choice), gpu) == machines.end()) machines.push_back(&each.choice);
  return machines;
}

std::optional<PriceBasis> price_of(const Economics& economics, const MachineChoice& machine) {
  return economics.price_basis(gpus_text(machine.scenario), network_hardware(machine.scenario.cluster),
                               machine.scenario.power_limit);
}

std::string network_text(const PlanReport& report, const MachineChoice& machine, const TextStyle& style) {
  const NetworkHardware own = network_hardware(machine.scenario.cluster);
  const bool differs = std::ranges::any_of(report.plan.machines, [&](const MachineOutcome& other) {
    return other.choice.scenario.profile.name == machine.scenario.profile.name &&
           network_hardware(other.choice.scenario.cluster) != own;
  });
  if (report.economics.term != Term::owned || !differs) return "";
  return fmt::format(" with the network of {} {} {}", number(machine.gpus, 1), times(style), machine_text(machine));
}

std::string basis_text(const PriceBasis& basis) {
  if (basis.quotes.empty()) return basis.note.empty() ? "given without a source" : basis.note;
  std::string first, last;
  for (const PriceQuote& each : basis.quotes) {
    if (each.date == "undated") continue;
    if (first.empty() || each.date < first) first = each.date;
    last = std::max(last, each.date);
  }
  const std::string dates = first.empty() ? "undated" : first == last ? "of " + first : "of " + first + " to " + last;
  return fmt::format("{} {} {}{}{}", basis.quotes.size(), basis.quotes.size() == 1 ? "quote" : "quotes", dates,
                     basis.note.empty() ? "" : "; ", basis.note);
}

std::string term_text(const Economics& economics) {
  const std::string term = economics.term == Term::on_demand     ? "on demand"
                           : economics.term == Term::reserved_1y ? "reserved for 1 year"
                           : economics.term == Term::reserved_3y ? "reserved for 3 years"
                                                                 : "owned";
  return economics.region.empty() ? term : term + ", " + economics.region;
}

std::string idle_text(const PaidGpus& paid) {
  std::vector<std::string> parts;
  if (paid.spares > 0) parts.push_back(number(paid.spares, 1) + " spare");
  if (paid.unused > 0) parts.push_back(number(paid.unused, 1) + " unused");
  return parts.empty() ? "" : fmt::format(" with {} GPUs", fmt::join(parts, " and "));
}

std::string equal_text(const CapacityPlan& plan, const Candidate& candidate) {
  const std::string what = plan.objective == Objective::throughput ? "GPU time" : to_string(plan.objective);
  return fmt::format("equal to 1 within its error ({} to {} of its {})", number(candidate.ratio_to_first->p10, 3),
                     number(candidate.ratio_to_first->p90, 3), what);
}

std::string money_lines(const Candidate& first) {
  std::string text;
  for (const MoneyLine& line : first.money)
    text += fmt::format("  {} {} USD {:>6}\n", pad_right(line.name, 12), pad_left(number(line.usd, 3), 14),
                        percent(line.usd / first.cost_usd->typical, 0));
  return text + fmt::format("  {} {} USD\n  of which time lost to failures, checkpoints and restarts: {}\n",
                            pad_right("in all", 12), pad_left(number(first.cost_usd->typical, 3), 14),
                            percent(1 - first.goodput));
}

std::string price_lines(const PlanReport& report, const TextStyle& style) {
  std::string text;
  for (const MachineChoice* machine : priced_machines(report.plan)) {
    const std::string gpu = gpus_text(machine->scenario);
    const std::optional<PriceBasis> basis = price_of(report.economics, *machine);
    if (!basis) {
      const bool mixed = gpu != machine->scenario.profile.name;
      text += paragraph(
          "  ",
          fmt::format("{}: {}", gpu,
                      mixed ? "GPUs of several kinds have no price" : "no price was found (--price sets one)"),
          style);
      continue;
    }
    const Range3 price = basis->price();
    text += paragraph("  ",
                      fmt::format("{}: {} USD per GPU-hour ({} to {}), {}{}; {}", gpu, number(price.typical, 3),
                                  number(price.low, 3), number(price.high, 3), term_text(report.economics),
                                  network_text(report, *machine, style), basis_text(*basis)),
                      style);
  }
  return text;
}

std::vector<std::string> changes_of(const PlanReport& report, const TextStyle& style) {
  const Sensitivity& found = report.sensitivity;
  std::vector<std::string> text;
  if (found.flips.empty())
    text.push_back(fmt::format(
        "None of {} assumptions, moved alone to an end of its range, puts another machine first.", found.tried));
  for (const Flip& each : found.flips) {
    const Candidate& first = report.plan.candidates[static_cast<std::size_t>(each.candidate)];
    const MachineChoice& machine = choice_of(report.plan, first);
    text.push_back(fmt::format("{}: {} {} {} comes first", each.assumption, number(machine.gpus, 1), times(style),
                               machine_text(machine)));
  }
  for (const BreakEven& each : found.break_evens)
    text.push_back(fmt::format("{} costs as much as the first at {} USD per GPU-hour (now {}, {} to {}{})", each.gpu,
                               number(each.usd, 3), number(each.price.typical, 3), number(each.price.low, 3),
                               number(each.price.high, 3),
                               report.economics.term == Term::owned ? ", the ends by all assumptions together" : ""));
  return text;
}

std::string sensitivity_lines(const PlanReport& report, const TextStyle& style) {
  std::string text;
  for (const std::string& each : changes_of(report, style)) text += paragraph("  ", each, style);
  return text;
}

}  // namespace tracecast
