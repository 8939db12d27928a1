/// \file
/// Reports as web pages: one file that opens from a disk with no network, with its style, script and data inside.
///
/// The page is tools/page/report.html; it draws what its data are, so all reports share one shell. Times in the data are
/// seconds, sizes bytes, unless a name says otherwise.
#pragma once

#include <string>

#include "sim/forecast/forecast.hpp"
#include "sim/io/scenario.hpp"
#include "sim/report/compare_report.hpp"
#include "sim/report/goodput_report.hpp"
#include "sim/report/page_facts.hpp"
#include "sim/report/plan_report.hpp"

namespace tracecast {

/// Summary, time, timeline, memory, network, provenance, scenario.   Requires run.timeline.spans.
/// Draws at most kMostSpans spans: of every pipeline rank one class of ranks first, then the others in order.
std::string predict_html(const Scenario& scenario, const ForecastRun& run, const PageFacts& facts);
inline constexpr std::size_t kMostSpans = 400'000;

/// `scenario_json`: of the first machine, as it runs.
std::string plan_html(const PlanReport& report, const std::string& scenario_json, const PageFacts& facts);
std::string goodput_html(const GoodputForecast& report, const std::string& scenario_json, const PageFacts& facts);
std::string compare_html(const Comparison& comparison, const StepRecord& forecast, const StepRecord& actual,
                         const PageFacts& facts);

/// JSON text as the page draws it: what every operator, collective and message of a step takes, how that is known, and how
/// often the mean rank runs it. The longest in all first.
std::string durations_json(const StepGraph& graph);

}  // namespace tracecast
