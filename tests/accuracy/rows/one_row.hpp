/// \file
/// A table of one run of Llama 2 7B on 16 H100, with more columns.
#pragma once

#include <algorithm>
#include <string>

#include "tests/support/shipped.hpp"
#include "tools/accuracy/rows/row_scenario.hpp"

namespace tracecast::test {

/// The columns that every run needs.
inline constexpr const char* kNeeded = "layers,hidden,heads,ffn_hidden,vocab,seq_len,global_batch_seqs,gpu,gpu_count";

/// `columns` and `values` begin with a comma, or are empty.
inline Result<accuracy::RowScenario> row(const std::string& columns, const std::string& values) {
  const std::string text = kNeeded + columns + "\n32,4096,32,11008,32000,4096,128,H100,16" + values + "\n";
  const CsvTable table = CsvTable::parse(text, "t.csv").value();
  return accuracy::scenario_of_row(table, 0, accuracy::RowLibrary::open(shipped_data()).value());
}

inline bool assumes(const accuracy::RowScenario& row, const std::string& words) {
  return std::any_of(row.assumptions.begin(), row.assumptions.end(),
                     [&](const std::string& sentence) { return sentence.find(words) != std::string::npos; });
}

}  // namespace tracecast::test
