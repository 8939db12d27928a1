/// \file
/// The data that pictures of a pipeline schedule are drawn from, with the numbers shown beside them.
///
///   schedule_json       the numbers as one object, for programs (docs/formats/schedule.md)
///   schedule_terminal   for a terminal: a row per rank, time to the right
///   schedule_svg        the same as a picture
///   schedule_page       a page that needs no network: hover, step through time, activations per rank, two schedules
///                       one below the other, sliders for sizes and times (schedule_orders.hpp), exercises
///
/// Times are drawn in the user's unit: ticks of a run divided by its scale.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/report/page_metadata.hpp"
#include "sim/report/text.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/schedule/schedule_run.hpp"

namespace tracecast {

/// One number for all ranks, or one per rank, as given by the user.
using RankTimes = std::vector<double>;

/// In words, the rules of messages that block nothing.
inline constexpr const char* kLatencyOnly = "latency only";

struct ScheduleView {
  Schedule schedule;
  ScheduleRun run;    ///< without a flush: its steady state
  std::string rules;  ///< how messages block, in words; empty: latency only
  /// Empty: the schedule has no such action.
  RankTimes forward, backward, backward_input, backward_weight, overlapped;
  double latency = 0;
  std::string times_from;  ///< scenario whose step this is; times are then in milliseconds
};

/// Activations that one forward of a chunk keeps, in micro-batches of one rank: 1 / (chunks of one copy of the model).
double activation_unit(const Schedule& schedule);

/// The label of a box: "F3", or "F0|B7" for an overlapped pair.
std::string label_of(const Action& action);

/// The first view's columns, those of the others under "compare". Indented by two, a newline at the end.
std::string schedule_json(std::span<const ScheduleView> views);

/// Pictures of all views on one time axis, then a table of their numbers. Lines have at most style.width columns; a
/// step that does not fit continues in another block of rows.
std::string schedule_terminal(std::span<const ScheduleView> views, const TextStyle& style);

/// A standalone SVG document, light background. `width`: of the picture in pixels; 0: as wide as its labels need, up to 1600.
std::string schedule_svg(std::span<const ScheduleView> views, int width = 0);

/// A standalone HTML document.
std::string schedule_page(std::span<const ScheduleView> views, const PageMetadata& metadata);

}  // namespace tracecast
