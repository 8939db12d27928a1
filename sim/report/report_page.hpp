/// \file
/// Reports as web pages: one self-contained file (style, script and data) that opens without a network.
///
/// The page is tools/page/report.html. It chooses its sections by the data, so all reports share it. Times in the data
/// are seconds and sizes are bytes, unless a name says otherwise.
#pragma once

#include <string>

#include "sim/forecast/change.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/io/scenario.hpp"
#include "sim/report/compare_report.hpp"
#include "sim/report/goodput_report.hpp"
#include "sim/report/page_metadata.hpp"
#include "sim/report/plan_report.hpp"

namespace tracecast {

/// Summary, time, timeline, memory, network, provenance, scenario.   Requires run.timeline.spans.
/// With `unchanged`, also what moved. Draws at most kMaxSpans spans: first one class of ranks per pipeline rank, then the others in order.
std::string predict_html(const Scenario& scenario, const ForecastRun& run, const PageMetadata& metadata,
                         const Unchanged* unchanged = nullptr);
inline constexpr std::size_t kMaxSpans = 400'000;

/// `scenario_json`: the resolved scenario of the first machine.
std::string plan_html(const PlanReport& report, const std::string& scenario_json, const PageMetadata& metadata);
std::string goodput_html(const GoodputForecast& report, const std::string& scenario_json, const PageMetadata& metadata);
std::string compare_html(const Comparison& comparison, const StepRecord& forecast, const StepRecord& actual,
                         const PageMetadata& metadata);

/// The page's table of durations, as JSON text: for every operator, collective and message of a step its duration, its
/// provenance, and how often the average rank runs it. Sorted by total time, longest first.
std::string durations_json(const StepGraph& graph);

}  // namespace tracecast
