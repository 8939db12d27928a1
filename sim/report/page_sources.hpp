/// \file
/// The web pages of tools/page, which the build puts into the program: they need no file beside it.
#pragma once

#include <string_view>

namespace tracecast {

extern const std::string_view kSchedulePage;  ///< tools/page/schedule.html
extern const std::string_view kServePage;     ///< tools/page/serve.html, likewise
extern const std::string_view kReportPage;    ///< tools/page/report.html with its style and scripts

}  // namespace tracecast
