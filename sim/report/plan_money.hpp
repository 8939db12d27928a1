/// \file
/// The parts of a plan's reports about money: what the first candidate costs, prices and their sources, and what would change
/// the answer.
#pragma once

#include <string>
#include <vector>

#include "sim/report/plan_report.hpp"

namespace tracecast {

/// The first machine of each GPU, in their order: prices are those of its size and network.
std::vector<const MachineChoice*> priced_machines(const CapacityPlan& plan);

std::optional<PriceBasis> price_of(const Economics& economics, const MachineChoice& machine);

/// " with the network of 1,024 x dgx-h100" where owned machines with the same GPU have other networks, else "".
std::string network_text(const PlanReport& report, const MachineChoice& machine, const TextStyle& style);

/// "7 quotes of 2026 to 2026-05", "1 quote of 2026-05; one source …": what a price rests on.
std::string basis_text(const PriceBasis& basis);

/// "on demand", "reserved for 1 year, france", "owned".
std::string term_text(const Economics& economics);

/// " with 8 spare and 64 unused GPUs": what the money of a job includes beside the GPUs that it uses; else "".
std::string idle_text(const PaidGpus& paid);

/// "equal to 1 within its error (0.94 to 1.13 of its cost)": P10 to P90 of the ratio. Requires equals_first.
std::string equal_text(const CapacityPlan& plan, const Candidate& candidate);

/// A sentence for each assumption that would put another machine first, and for each price of equal cost; one sentence if there
/// is none.
std::vector<std::string> changes_of(const PlanReport& report, const TextStyle& style);

// Sections of the text page, without their headings.
std::string money_lines(const Candidate& first);
std::string price_lines(const PlanReport& report, const TextStyle& style);
std::string sensitivity_lines(const PlanReport& report, const TextStyle& style);

}  // namespace tracecast
