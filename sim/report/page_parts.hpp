/// \file
/// Helpers that encode page data as JSON text and insert it into a page.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/markup.hpp"
#include "sim/io/step_record.hpp"
#include "sim/report/report_page.hpp"

namespace tracecast {

std::string base64(std::string_view bytes);

/// "[1,{"a":2}]": values that are JSON already. For lists with digits that nlohmann's library would not cut.
std::string json_list(const std::vector<std::string>& values);
/// ["a","b"]
std::string json_texts(const std::vector<std::string>& texts);

/// A record in the form that timeline.js reads. `names`: names of its ranks; `chosen`: indices of the ranks to draw.
std::string timeline_json(const StepRecord& record, std::string_view label, const std::vector<std::string>& names,
                          std::span<const std::size_t> chosen);

/// Ranks of a record to draw within kMaxSpans spans (at least one rank) and `most_ranks`: the first of each pipeline rank,
/// then the rest.
std::vector<std::size_t> ranks_to_draw(const StepRecord& record, std::size_t most_ranks = SIZE_MAX);

/// `page` of page_sources.hpp with `json` as its data.
std::string page_with_data(std::string_view page, std::string json);

/// The report page with `members` ("\"a\":1,\"b\":2") as data, beside kind, title and metadata.
std::string report_page(std::string_view kind, std::string_view title, const PageMetadata& metadata,
                        const std::string& members);

}  // namespace tracecast
