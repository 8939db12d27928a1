#include "tools/accuracy/decisions.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/base/quantile.hpp"
#include "tools/accuracy/own_runs.hpp"

namespace tracecast::accuracy {
namespace {

using Rows = std::vector<const RowForecast*>;

/// The values of some columns, as one key.
std::string key_of(const CsvTable& table, const RowForecast& row, std::initializer_list<const char*> columns) {
  std::string key;
  for (const char* column : columns) key += table.text(row.row, column) + '\n';
  return key;
}

std::map<std::string, Rows> groups(const CsvTable& table, const Rows& rows,
                                   std::initializer_list<const char*> columns) {
  std::map<std::string, Rows> out;
  for (const RowForecast* row : rows) out[key_of(table, *row, columns)].push_back(row);
  return out;
}

double number(const CsvTable& table, const RowForecast& row, const char* column) {
  return table.number(row.row, column).value_or(1);
}

RatioErrors summary_of(std::vector<double> errors) {
  RatioErrors out;
  out.pairs = static_cast<int>(errors.size());
  if (errors.empty()) return out;
  for (const double e : errors) out.mean += e / out.pairs;
  out.worst = *std::max_element(errors.begin(), errors.end());
  out.median = median(std::move(errors));
  return out;
}

double ratio_error(const RowForecast& a, const RowForecast& b) {
  return std::abs((a.predicted_s / b.predicted_s) / (a.measured_s / b.measured_s) - 1);
}

/// The `count` others whose errors correlate most with the run's.
Rows most_similar(const RowForecast& row, const Rows& known, std::size_t count) {
  std::vector<std::pair<double, const RowForecast*>> similar;
  for (const RowForecast* other : known)
    if (other != &row) similar.emplace_back(error_correlation(row.traits, other->traits), other);
  std::ranges::stable_sort(similar, [](const auto& a, const auto& b) { return a.first > b.first; });
  Rows out;
  for (const auto& [correlation, other] : similar)
    if (out.size() < count) out.push_back(other);
  return out;
}

}  // namespace

RatioErrors scaling_ratios(const CsvTable& table, const Rows& rows) {
  std::vector<double> errors;
  for (auto& [key, group] : groups(table, rows,
                                   {"source",
                                    "model_name",
                                    "gpu",
                                    "framework",
                                    "precision",
                                    "seq_len",
                                    "tp",
                                    "pp",
                                    "vp",
                                    "cp",
                                    "ep",
                                    "micro_batch",
                                    "recompute",
                                    "zero_stage",
                                    "fsdp_shard_size",
                                    "schedule",
                                    "compiled",
                                    "tp_comm_overlap",
                                    "source_detail",
                                    "precision_detail"})) {
    std::map<double, const RowForecast*> by_count;
    for (const RowForecast* row : group) by_count.emplace(number(table, *row, "gpu_count"), row);
    for (auto next = by_count.begin(); next != by_count.end(); ++next)
      if (next != by_count.begin()) errors.push_back(ratio_error(*std::prev(next)->second, *next->second));
  }
  return summary_of(std::move(errors));
}

RatioErrors schedule_ratios(const CsvTable& table, const Rows& rows) {
  std::vector<double> errors;
  for (const auto& [key, group] : groups(table, rows,
                                         {"source", "model_name", "gpu", "gpu_count", "precision", "seq_len", "tp",
                                          "pp", "cp", "ep", "micro_batch", "global_batch_seqs", "recompute"}))
    for (std::size_t i = 0; i < group.size(); ++i)
      for (std::size_t j = i + 1; j < group.size(); ++j)
        if (key_of(table, *group[i], {"schedule", "vp"}) != key_of(table, *group[j], {"schedule", "vp"}))
          errors.push_back(ratio_error(*group[i], *group[j]));
  return summary_of(std::move(errors));
}

OrderOfPairs order_of_pairs(const CsvTable& table, const Rows& rows, double threshold) {
  OrderOfPairs out;
  for (const auto& [key, group] :
       groups(table, rows, {"source", "model_name", "gpu", "gpu_count", "global_batch_seqs", "seq_len"}))
    for (std::size_t i = 0; i < group.size(); ++i)
      for (std::size_t j = i + 1; j < group.size(); ++j) {
        const double measured = group[i]->measured_s / group[j]->measured_s;
        if (std::max(measured, 1 / measured) <= 1 + threshold) continue;
        ++out.pairs;
        if ((group[i]->predicted_s > group[j]->predicted_s) == (measured > 1)) ++out.right;
      }
  return out;
}

CostOfChoice cost_of_choice(const CsvTable& table, const Rows& rows) {
  CostOfChoice out;
  const auto faster = [](auto member) {
    return [member](const RowForecast* a, const RowForecast* b) { return a->*member < b->*member; };
  };
  for (const auto& [key, group] :
       groups(table, rows, {"source", "model_name", "gpu", "gpu_count", "global_batch_seqs", "seq_len"})) {
    if (group.size() < 3) continue;
    const RowForecast* chosen = *std::min_element(group.begin(), group.end(), faster(&RowForecast::predicted_s));
    const RowForecast* best = *std::min_element(group.begin(), group.end(), faster(&RowForecast::measured_s));
    ++out.groups;
    out.best += chosen == best ? 1 : 0;
    out.mean += chosen->measured_s / best->measured_s - 1;
  }
  if (out.groups > 0) out.mean /= out.groups;
  return out;
}

OwnCluster own_cluster(const CsvTable& table, const Rows& rows) {
  OwnCluster out;
  for (const auto& [source, group] : groups(table, rows, {"source"})) {
    if (group.size() < 8) continue;
    std::vector<double> before, after;
    for (const RowForecast* row : group) {
      const Rows similar = most_similar(*row, group, 3);
      const OwnFit own = own_fit(*row, similar);
      if (own.runs < 3) {
        ++out.without_similar;
        continue;
      }
      before.push_back(std::abs(row->error()));
      after.push_back(std::abs((1 + row->error()) * own.factor - 1));
    }
    if (after.empty()) continue;
    ++out.sources;
    out.rows += static_cast<int>(after.size());
    out.before += median(std::move(before));
    out.after += median(std::move(after));
  }
  if (out.sources > 0) {
    out.before /= out.sources;
    out.after /= out.sources;
  }
  return out;
}

}  // namespace tracecast::accuracy
