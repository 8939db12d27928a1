#include "tools/accuracy/levers.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/base/quantile.hpp"
#include "sim/base/words.hpp"

namespace tracecast::accuracy {
namespace {

using Columns = std::vector<const char*>;

/// Every column that describes a run; not those that follow from others (dp, num_microbatches, nodes).
const Columns kSettings{"source",
                        "model_name",
                        "layers",
                        "hidden",
                        "moe_experts",
                        "framework",
                        "gpu",
                        "gpu_mem_gb",
                        "gpus_per_node",
                        "inter_node_link",
                        "gpu_count",
                        "seq_len",
                        "precision",
                        "precision_detail",
                        "tp",
                        "pp",
                        "vp",
                        "cp",
                        "ep",
                        "etp",
                        "micro_batch",
                        "zero_stage",
                        "fsdp_shard_size",
                        "seq_parallel",
                        "distributed_optimizer",
                        "recompute",
                        "recompute_detail",
                        "recompute_modules",
                        "recompute_full_block_layers",
                        "cpu_offload_layers",
                        "schedule",
                        "pipeline_split",
                        "pp_layout",
                        "flash_attention",
                        "tp_comm_overlap",
                        "compiled",
                        "cuda_graph",
                        "moe_dispatcher",
                        "moe_a2a_overlap",
                        "routing",
                        "global_batch_seqs",
                        "task"};

struct Lever {
  const char* name;
  Columns differ;   ///< at least one of them does
  Columns follows;  ///< may differ as well
};
const std::vector<Lever> kLevers{
    {"layout",
     {"tp", "pp", "cp", "ep", "etp", "micro_batch", "zero_stage", "fsdp_shard_size", "seq_parallel"},
     {"vp", "schedule", "pipeline_split", "pp_layout", "distributed_optimizer"}},
    {"scale", {"gpu_count"}, {"global_batch_seqs", "fsdp_shard_size"}},
    {"sequence", {"seq_len"}, {"global_batch_seqs", "micro_batch"}},
    {"precision", {"precision", "precision_detail"}, {}},
    {"recomputation",
     {"recompute", "recompute_detail", "recompute_modules", "recompute_full_block_layers", "cpu_offload_layers"},
     {}},
    {"schedule", {"schedule", "vp"}, {"pp_layout"}},
    {"GPU", {"gpu"}, {"gpu_mem_gb", "gpus_per_node", "inter_node_link"}},
    {"release", {"framework"}, {}},
    {"batch", {"global_batch_seqs"}, {}},
    {"expert exchange", {"moe_dispatcher", "moe_a2a_overlap"}, {}},
    {"graphs", {"cuda_graph", "compiled"}, {}},
    {"routing", {"routing"}, {"framework"}},
};

bool among(const Columns& columns, const char* name) {
  return std::any_of(columns.begin(), columns.end(), [&](const char* c) { return std::string_view(c) == name; });
}

std::string values(const CsvTable& table, std::size_t row, const Columns& columns) {
  std::string key;
  for (const char* column : columns) key += table.text(row, column) + '\n';
  return key;
}

double tokens_per_gpu(const CsvTable& table, std::size_t row) {
  const auto value = [&](const char* column) { return table.number(row, column).value_or(1); };
  const double batch =
      table.number(row, "global_batch_seqs").value_or(value("micro_batch") * value("num_microbatches") * value("dp"));
  return batch * value("seq_len") / std::max(1.0, value("gpu_count"));
}

void judge(LeverErrors& errors, std::vector<double>& all, double forecast, double measured) {
  all.push_back(std::abs(forecast / measured - 1));
  if (std::max(measured, 1 / measured) <= 1 + kCleanChange) return;
  ++errors.clear;
  errors.right += (forecast > 1) == (measured > 1) ? 1 : 0;
}

/// Seconds per token; 0: no row has this id, or it cannot be forecast.
Result<double> forecast_run(const CsvTable& table, const RowLibrary& library, const ValidateOptions& options,
                            const std::string& id, const std::string& changes) {
  const CsvTable one = changed_row(table, id, changes);
  if (one.rows() != 1) return 0.0;
  Result<std::vector<RowForecast>> rows = validate(one, library, options);
  if (!rows) return tl::unexpected(rows.error());
  if (!rows->front().forecast_made()) return 0.0;
  return rows->front().predicted_s / tokens_per_gpu(one, 0);
}

}  // namespace

std::vector<LeverPair> lever_pairs(const CsvTable& table, const std::vector<const RowForecast*>& rows) {
  std::vector<LeverPair> out;
  for (const Lever& lever : kLevers) {
    Columns same;
    for (const char* column : kSettings)
      if (!among(lever.differ, column) && !among(lever.follows, column)) same.push_back(column);
    std::map<std::string, std::vector<const RowForecast*>> groups;
    for (const RowForecast* row : rows) groups[values(table, row->row, same)].push_back(row);
    for (const auto& [key, group] : groups)
      for (std::size_t i = 0; i < group.size(); ++i)
        for (std::size_t j = i + 1; j < group.size(); ++j) {
          const RowForecast &a = *group[i], &b = *group[j];
          if (values(table, a.row, lever.differ) == values(table, b.row, lever.differ)) continue;
          const double tokens = tokens_per_gpu(table, a.row) / tokens_per_gpu(table, b.row);
          out.push_back(
              {lever.name, &a, &b, b.measured_s / a.measured_s * tokens, b.predicted_s / a.predicted_s * tokens});
        }
  }
  return out;
}

std::vector<LeverErrors> lever_errors(const CsvTable& table, const std::vector<const RowForecast*>& rows) {
  const std::vector<LeverPair> pairs = lever_pairs(table, rows);
  std::vector<LeverErrors> out;
  for (const Lever& lever : kLevers) {
    LeverErrors errors{.lever = lever.name};
    std::vector<double> all;
    for (const LeverPair& pair : pairs)
      if (pair.lever == lever.name) judge(errors, all, pair.forecast, pair.measured);
    errors.pairs = static_cast<int>(all.size());
    for (const double error : all) errors.mean += error / errors.pairs;
    errors.median = median(std::move(all));
    out.push_back(std::move(errors));
  }
  return out;
}

CsvTable changed_row(const CsvTable& table, const std::string& id, const std::string& changes) {
  CsvTable one = table.only("id", {id});
  for (const std::string_view change : split_words(changes, " ")) {
    const std::size_t equals = change.find('=');
    one = one.with(std::string(change.substr(0, equals)), std::string(change.substr(equals + 1)));
  }
  return one;
}

Result<std::vector<PublishedPair>> published_pairs(const CsvTable& pairs, const CsvTable& table,
                                                   const RowLibrary& library, const ValidateOptions& options) {
  std::vector<PublishedPair> out;
  for (std::size_t i = 0; i < pairs.rows(); ++i) {
    PublishedPair pair{.id = pairs.text(i, "id"), .lever = pairs.text(i, "lever")};
    const double a = pairs.number(i, "a").value_or(0), b = pairs.number(i, "b").value_or(0);
    pair.measured = pairs.text(i, "unit") == "s" ? b / a : a / b;
    const std::string &row_a = pairs.text(i, "row_a"), &row_b = pairs.text(i, "row_b");
    if (!row_a.empty() && !row_b.empty()) {
      const Result<double> first = forecast_run(table, library, options, row_a, pairs.text(i, "set_a"));
      if (!first) return tl::unexpected(first.error());
      const Result<double> second = forecast_run(table, library, options, row_b, pairs.text(i, "set_b"));
      if (!second) return tl::unexpected(second.error());
      pair.forecast = *first > 0 ? *second / *first : 0;
    }
    if (const std::optional<double> per_step = pairs.number(i, "tokens_b_over_a")) pair.measured /= *per_step;
    out.push_back(std::move(pair));
  }
  return out;
}

}  // namespace tracecast::accuracy
