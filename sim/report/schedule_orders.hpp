/// \file
/// Orders of many schedules and sizes, for the page of `tracecast schedule --html`: its sliders change ranks, micro-batches and
/// chunks without the program. tools/page/schedule_model.js reads them.
#pragma once

#include <span>
#include <string>

#include "sim/schedule/schedule.hpp"

namespace tracecast {

/// One size that the page begins with, beside the usual ones.
struct ScheduleSize {
  int ranks = 0;
  int microbatches = 0;
  int chunks = 0;
};

/// JSON: {"stages": [P …], "microbatches": [M …], "schedules": [{"name", "summary", "uses_times", "chunks": [V …],
/// "orders": {"P,M,V": order or the sentence why there is none}} …]}. Schedules without a flush are left out: their
/// steady state is not a step of M micro-batches.
std::string schedule_orders(std::span<const ScheduleSize> sizes);

}  // namespace tracecast
