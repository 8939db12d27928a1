#include "tools/accuracy/fit/memory_fit.hpp"

#include "sim/base/result.hpp"
#include "tools/accuracy/kernel_tables.hpp"
#include "tools/accuracy/rows/table_fields.hpp"

namespace tracecast::accuracy {
namespace {

using MemorySamples = std::vector<MemorySample>;

MemoryModel best_model(const MemorySamples& samples, double bandwidth) {
  const auto model_of = [](const std::vector<double>& x) { return MemoryModel{x[0] * 1e-6, x[1], {}}; };
  const auto loss = [&](const std::vector<double>& x) {
    LogError error;
    for (const MemorySample& s : samples) error.add(memory_bound_seconds(model_of(x), bandwidth, s.traffic), s.seconds);
    return error.mean();
  };
  return model_of(minimize({{3, 0, 20}, {0.7, 0.02, 1}}, loss, 400));
}

/// Bytes of one operator over `tokens` tokens, in 16 bit.
std::int64_t vidur_traffic(const TableFields& fields, const std::string& column) {
  const auto size = [&](const char* name) { return fields.integer_or_zero(name); };
  const std::int64_t tokens = size("num_tokens");
  const std::int64_t hidden = size("n_embd");
  const std::int64_t tp = size("num_tensor_parallel_workers");
  if (column == "add_ms") return 3 * 2 * tokens * hidden;
  TRACECAST_ASSERT(column == "attn_rope_ms", "a column that is read has its traffic");
  return 2 * 2 * tokens * (size("n_head") + size("n_kv_head")) * (hidden / size("n_head")) / tp;
}

}  // namespace

MemorySamples read_vidur_samples(const CsvTable& table, const std::string& column) {
  MemorySamples samples;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const TableFields fields(table, row);
    const double seconds = fields.number_or_zero(column.c_str()) * 1e-3;
    if (seconds < kVidurTimerLimit) continue;
    samples.push_back({Bytes{vidur_traffic(fields, column)}, seconds, fields.integer_or_zero("n_embd")});
  }
  return samples;
}

MemorySamples timed_samples(const Profile& profile, OperatorKind kind, Pass pass) {
  MemorySamples samples;
  for (const MeasuredOperator& each : profile.measured)
    if (each.op.kind == kind && each.op.pass == pass) {
      const ElementwiseShape& shape = std::get<ElementwiseShape>(each.op.shape);
      samples.push_back({shape.traffic, each.seconds, shape.elements});
    }
  return samples;
}

MemorySamples read_norm_samples(const CsvTable& table, const std::string& gpu, bool backward) {
  MemorySamples samples;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const TableFields fields(table, row);
    if (fields.text("gpu_name") != gpu || fields.text("backend") != "cudnn") continue;
    const double seconds = fields.number_or_zero(backward ? "bwd_time_ms" : "fwd_time_ms") * 1e-3;
    const std::int64_t width = fields.integer_or_zero("C");
    if (seconds > 0)
      samples.push_back({Bytes{(backward ? 6 : 4) * fields.integer_or_zero("N") * width}, seconds, width});
  }
  return samples;
}

MemorySamples read_quantise_samples(const CsvTable& table, const std::string& gpu) {
  MemorySamples samples;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const TableFields fields(table, row);
    if (fields.text("gpu") != gpu || fields.text("kernel_source") == "sglang") continue;
    const std::int64_t k = fields.integer_or_zero("k");
    const Bytes traffic{3 * fields.integer_or_zero("m") * k};
    samples.push_back({traffic, fields.number_or_zero("latency_us") * 1e-6, k});
  }
  return samples;
}

MemoryModel fit_memory(const MemorySamples& samples, double bandwidth, const std::string& data) {
  constexpr std::int64_t kFolds = 5;
  LogError error;
  for (std::int64_t fold = 0; fold < kFolds; ++fold) {
    MemorySamples fitted;
    MemorySamples held;
    for (const MemorySample& s : samples) (s.group / 128 % kFolds == fold ? held : fitted).push_back(s);
    if (fitted.empty() || held.empty()) continue;
    const MemoryModel model = best_model(fitted, bandwidth);
    for (const MemorySample& s : held) error.add(memory_bound_seconds(model, bandwidth, s.traffic), s.seconds);
  }
  MemoryModel model = best_model(samples, bandwidth);
  model.fit = {data, static_cast<int>(samples.size()), error.mean()};
  return model;
}

}  // namespace tracecast::accuracy
