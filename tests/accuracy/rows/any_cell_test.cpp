#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/base/random.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/shipped.hpp"
#include "tools/accuracy/validate.hpp"

using namespace tracecast;
using namespace tracecast::accuracy;

namespace {

struct Column {
  const char* name;
  const char* usual;
};
constexpr std::array kColumns{Column{"layers", "4"},
                              Column{"hidden", "512"},
                              Column{"heads", "8"},
                              Column{"kv_heads", ""},
                              Column{"head_dim", ""},
                              Column{"ffn_hidden", "2048"},
                              Column{"gated_mlp", "1"},
                              Column{"vocab", "32000"},
                              Column{"seq_len", "1024"},
                              Column{"global_batch_seqs", "64"},
                              Column{"gpu", "A100"},
                              Column{"gpu_count", "16"},
                              Column{"gpu_mem_gb", "80"},
                              Column{"gpus_per_node", "8"},
                              Column{"inter_node_link", ""},
                              Column{"intra_node_link", ""},
                              Column{"framework", "NeMo"},
                              Column{"tp", "2"},
                              Column{"pp", "2"},
                              Column{"vp", ""},
                              Column{"dp", ""},
                              Column{"cp", ""},
                              Column{"ep", ""},
                              Column{"etp", ""},
                              Column{"zero_stage", ""},
                              Column{"fsdp_shard_size", ""},
                              Column{"seq_parallel", "1"},
                              Column{"micro_batch", "1"},
                              Column{"precision", "bf16"},
                              Column{"recompute", "none"},
                              Column{"schedule", ""},
                              Column{"moe_experts", ""},
                              Column{"moe_topk", ""},
                              Column{"moe_ffn_hidden", ""},
                              Column{"attention_kind", ""},
                              Column{"num_microbatches", ""},
                              Column{"pipeline_split", ""}};
constexpr std::array kCells{"",
                            "0",
                            "1",
                            "2",
                            "3",
                            "8",
                            "64",
                            "72",
                            "1000000",
                            "9e18",
                            "nan",
                            "inf",
                            "-1",
                            "0.5",
                            "x",
                            "GH200",
                            "PCIe",
                            "4x HDR",
                            "full",
                            "fp8",
                            "mla",
                            "1Gb/s per GPU",
                            "0Gb/s per node",
                            "dualpipe",
                            "zb_2p",
                            "v_half",
                            "interleaved_1f1b"};

/// Rows like the usual one, but for one or two of its cells.
std::string rows_of_any_cells(int rows) {
  RandomStream random(1, 0, 0);
  const auto pick = [&](std::size_t count) { return static_cast<std::size_t>(random.below(count)); };
  std::string text;
  for (const Column& column : kColumns) text += std::string(text.empty() ? "" : ",") + column.name;
  for (int row = 0; row < rows; ++row) {
    std::vector<std::string> cells;
    for (const Column& column : kColumns) cells.emplace_back(column.usual);
    for (std::size_t changes = 1 + pick(2); changes > 0; --changes)
      cells[pick(cells.size())] = kCells[pick(kCells.size())];
    std::string line;
    for (const std::string& cell : cells) line += (line.empty() ? "\n" : ",") + cell;
    text += line;
  }
  return text + "\n";
}

}  // namespace

TEST_CASE("rows: whatever a cell says, the row is forecast or says why not", "[accuracy]") {
  const int kRows = test::cases(300);
  const CsvTable table = CsvTable::parse(rows_of_any_cells(kRows), "any.csv").value();
  const std::vector<RowForecast> rows =
      validate(table, RowLibrary::open(shipped_data()).value(), {.threads = 2}).value();
  REQUIRE(static_cast<int>(rows.size()) == kRows);
  const auto forecast =
      std::count_if(rows.begin(), rows.end(), [](const RowForecast& row) { return row.skipped.empty(); });
  CHECK(forecast > kRows / 5);
  CHECK(forecast < kRows * 4 / 5);
  for (const RowForecast& row : rows)
    if (row.skipped.empty()) CHECK((row.predicted_s > 0 && std::isfinite(row.predicted_s)));
}
