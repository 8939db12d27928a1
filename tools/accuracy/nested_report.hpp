/// \file
/// Output of `tracecast validate RUNS --nested`: tables as text or Markdown, or one JSON object.
#pragma once

#include <string>
#include <vector>

#include "tools/accuracy/levers.hpp"
#include "tools/accuracy/nested.hpp"

namespace tracecast::accuracy {

/// Everything that is printed.
struct NestedReport {
  Nested nested;
  std::vector<LeverErrors> levers;   ///< by source left out
  std::vector<PublishedPair> pairs;  ///< as shipped; empty: the table has none
};

/// markdown: tables for docs/validation/accuracy.md and accuracy-rules.md; else columns of the same.
std::string nested_page(const NestedReport& report, bool markdown);

/// One JSON object, newline at the end. Shares, not percent.
std::string nested_json(const NestedReport& report);

}  // namespace tracecast::accuracy
