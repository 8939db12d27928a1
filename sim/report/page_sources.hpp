/// \file
/// The web pages of tools/page. The build embeds them, so the program needs no files at run time.
#pragma once

#include <string_view>

namespace tracecast {

extern const std::string_view kSchedulePage;  ///< tools/page/schedule.html
extern const std::string_view kServePage;     ///< tools/page/serve.html, also complete
extern const std::string_view kDecisionPage;  ///< tools/page/decision.html with its style
extern const std::string_view kReportPage;    ///< tools/page/report.html with its style and scripts

}  // namespace tracecast
