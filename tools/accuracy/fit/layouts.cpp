#include "tools/accuracy/fit/layouts.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/accuracy/rows/table_fields.hpp"

namespace tracecast::accuracy {
namespace {

struct Row {
  GemmShape shape;
  double seconds = 0;
};

/// The rows of one operator and direction: layout of a matmul ("TN", "NN", "NT") or stage of a group_matmul.
std::vector<Row> read_rows(const CsvTable& table, const std::string& op, const std::string& direction) {
  const bool grouped = op == "group_matmul";
  std::vector<Row> rows;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const TableFields fields(table, row);
    const auto size = [&](const char* column) { return fields.integer_or_zero(column); };
    if (fields.text("op") != op || fields.text(grouped ? "stage" : "layout") != direction) continue;
    if (grouped && fields.text("dtype") != "bf16") continue;
    GemmShape shape = grouped ? GemmShape{size("M"), size("N"), size("K"), size("ng"), false}
                              : GemmShape{size("m"), size("n"), size("k"), std::max<std::int64_t>(size("b"), 1), false};
    shape.accumulate_fp32 = fields.text("accumulate") == "True";
    const double flops = 2.0 * static_cast<double>(shape.batch * shape.m * shape.n) * static_cast<double>(shape.k);
    const double peak = fields.number_or_zero("peak_tflops") * 1e12;
    rows.push_back({shape, flops / (peak * fields.number_or_zero("efficiency"))});
  }
  return rows;
}

LogError ratio(const std::vector<Row>& rows, const GemmModel& model, const GpuPeak& gpu, double factor = 1) {
  LogError error;
  for (const Row& row : rows)
    error.add(row.seconds, factor * gemm_seconds(model, gpu, row.shape, gemm_elements(Precision::bf16)));
  return error;
}

}  // namespace

Layouts read_layouts(const CsvTable& simumax, const GemmModel& model, const GpuPeak& gpu) {
  const double forward = std::exp(ratio(read_rows(simumax, "matmul", "TN"), model, gpu).bias());
  const auto relative = [&](const std::string& op, const std::string& direction) {
    return std::exp(ratio(read_rows(simumax, op, direction), model, gpu).bias()) / forward;
  };
  Layouts layouts;
  layouts.dgrad = relative("matmul", "NN");
  layouts.wgrad = relative("matmul", "NT");
  layouts.grouped = relative("group_matmul", "fwd");
  layouts.grouped_wgrad = relative("group_matmul", "bwd_grad_w") / layouts.grouped;
  const LogError grouped = ratio(read_rows(simumax, "group_matmul", "fwd"), model, gpu, forward * layouts.grouped);
  layouts.samples = grouped.samples();
  layouts.residual = grouped.mean();
  return layouts;
}

Layouts mean(const Layouts& a, const Layouts& b) {
  const auto middle = [](double x, double y) { return std::sqrt(x * y); };
  return {middle(a.dgrad, b.dgrad),     middle(a.wgrad, b.wgrad),
          middle(a.grouped, b.grouped), middle(a.grouped_wgrad, b.grouped_wgrad),
          a.samples + b.samples,        std::max(a.residual, b.residual)};
}

}  // namespace tracecast::accuracy
