#include "tools/accuracy/fit/attention_fit.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "tools/accuracy/rows/table_fields.hpp"

namespace tracecast::accuracy {
namespace {

using Samples = std::vector<AttentionSample>;

/// The fitted parameters: the kernel and, for a server, its other work on each token.
struct Candidate {
  AttentionModel model;
  double server_passes = 0;  ///< of the memory over queries, keys and values: rotation, writing of the cache
};

double predicted(const Candidate& candidate, const GpuPeak& gpu, const AttentionSample& sample) {
  constexpr double kElementBytes = 2;
  const AttentionShape& shape = sample.shape;
  const auto vectors = static_cast<double>(shape.batch * shape.q_len * (shape.heads + 2 * shape.kv_heads));
  const double pass = vectors * static_cast<double>(shape.qk_dim) * kElementBytes / gpu.bandwidth;
  return attention_seconds(candidate.model, gpu, shape, sample.backward) + candidate.server_passes * pass;
}

using Given = AttentionGiven;

/// `x`: the efficiency, then s0 unless it is given, then a server's two.
Candidate candidate_of(const std::vector<double>& x, const Given& given) {
  Candidate candidate;
  AttentionModel& model = candidate.model;
  std::size_t next = 0;
  model.power_knee = given.power_exponent > 0 ? kAttentionPowerKnee : 0;
  model.power_exponent = given.power_exponent;
  model.forward_efficiency = model.backward_efficiency = x[next++];
  model.forward_s0 = model.backward_s0 = given.s0 >= 0 ? given.s0 : x[next++];
  model.t0 = given.t0 >= 0 ? given.t0 : x[next++] * 1e-6;
  if (given.t0 < 0) candidate.server_passes = x[next];
  return candidate;
}

LogError error_of(const Candidate& candidate, const GpuPeak& gpu, const Samples& samples) {
  LogError error;
  for (const AttentionSample& s : samples) error.add(predicted(candidate, gpu, s), s.seconds);
  return error;
}

Candidate best_candidate(const Samples& samples, const GpuPeak& gpu, const Given& given) {
  const bool server = given.t0 < 0;
  // Serving is causal: half of each tile on the diagonal, of at least 64 queries, is wasted. Both this and a server's
  // work on each token grow linearly with the length. The bound keeps the fit from confusing the two.
  constexpr double kDiagonalTile = 64;
  std::vector<Parameter> parameters{{0.6, 0.05, 1}};
  if (given.s0 < 0) parameters.push_back({500, server ? kDiagonalTile : 0, 3000});
  if (server) {
    parameters.push_back({10, 0, 40});  // t0 us
    parameters.push_back({1, 0, 10});   // passes of the server
  }
  const auto loss = [&](const std::vector<double>& x) { return error_of(candidate_of(x, given), gpu, samples).mean(); };
  return candidate_of(minimize(parameters, loss, 600), given);
}

/// The part of the cross-validation that a sample belongs to.
std::int64_t fold(const AttentionSample& sample, std::size_t index, std::size_t count) {
  return count > 100 ? static_cast<std::int64_t>(index % 5) : sample.shape.q_len;
}

double cross_validated(const Samples& samples, const GpuPeak& gpu, const Given& given) {
  std::set<std::int64_t> folds;
  for (std::size_t i = 0; i < samples.size(); ++i) folds.insert(fold(samples[i], i, samples.size()));
  if (folds.size() < 2) return 0;
  LogError error;
  for (const std::int64_t left_out : folds) {
    Samples fitted;
    Samples held;
    for (std::size_t i = 0; i < samples.size(); ++i)
      (fold(samples[i], i, samples.size()) == left_out ? held : fitted).push_back(samples[i]);
    const Candidate candidate = best_candidate(fitted, gpu, given);
    for (const AttentionSample& s : held) error.add(predicted(candidate, gpu, s), s.seconds);
  }
  return error.mean();
}

}  // namespace

Samples read_cudnn_samples(const CsvTable& table, const std::string& gpu, const std::string& data_type) {
  Samples samples;
  Samples deterministic;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const TableFields fields(table, row);
    if (fields.text("gpu_name") != gpu || fields.text("data_type") != data_type) continue;
    const bool backward = fields.text("pass") == "bwd";
    const bool works_on_all = backward && data_type != "bfloat16";
    if (!fields.text("sliding_window_size").empty() && !works_on_all) continue;
    const AttentionShape shape{.batch = fields.integer_or_zero("batch_size"),
                               .q_len = fields.integer_or_zero("q_seqlen"),
                               .kv_len = fields.integer_or_zero("kv_seqlen"),
                               .heads = fields.integer_or_zero("num_q_heads"),
                               .kv_heads = fields.integer_or_zero("num_kv_heads"),
                               .qk_dim = fields.integer_or_zero("head_dim_qk"),
                               .v_dim = fields.integer_or_zero("head_dim_vo"),
                               .causal = fields.text("attn_mask") == "top_left",
                               .window = 0};
    if (shape.q_len != shape.kv_len) continue;
    const bool slow_kernel = backward && fields.text("deterministic_bwd") == "True";
    (slow_kernel ? deterministic : samples).push_back({shape, backward, fields.number_or_zero("time_ms") * 1e-3});
  }
  // The deterministic backward is another kernel. It is used where nothing else was measured (192/128 on H200).
  for (const AttentionSample& sample : deterministic) {
    const auto same = [&](const AttentionSample& s) { return s.backward && s.shape == sample.shape; };
    if (std::none_of(samples.begin(), samples.end(), same)) samples.push_back(sample);
  }
  return samples;
}

Samples read_published_samples(const CsvTable& table, const std::string& gpu, const std::string& implementation) {
  Samples samples;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const TableFields fields(table, row);
    if (fields.text("gpu") != gpu || fields.text("impl") != implementation) continue;
    const bool backward = fields.text("pass") == "bwd";
    // Only the backward pass has a separate deterministic kernel. Forward rows with the flag are repeated measurements.
    if (backward && fields.text("deterministic") == "True") continue;
    const std::int64_t s = fields.integer_or_zero("seqlen");
    const std::int64_t d = fields.integer_or_zero("head_dim");
    const std::int64_t stated = fields.integer_or_zero("heads");
    const std::int64_t heads = stated > 0 ? stated : 2048 / d;
    const bool causal = fields.text("causal") == "True";
    const AttentionShape shape{fields.integer_or_zero("batch"), s, s, heads, heads, d, d, causal, 0};
    const double flops_per_second = fields.number_or_zero("tflops") * 1e12;
    samples.push_back({shape, backward, attention_flops(shape, backward) / flops_per_second});
  }
  return samples;
}

Samples read_serving_samples(const CsvTable& table, const std::string& framework, bool causal) {
  Samples samples;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const TableFields fields(table, row);
    if (!fields.text("src").starts_with(framework)) continue;
    const std::int64_t s = fields.integer_or_zero("s"), heads = fields.integer_or_zero("h"),
                       kv_heads = fields.integer_or_zero("kvh"), d = fields.integer_or_zero("d");
    if (s < 256) continue;
    const AttentionShape shape{
        fields.integer_or_zero("b"), s, s, heads, kv_heads > 0 ? kv_heads : heads, d, d, causal, 0};
    samples.push_back({shape, false, fields.number_or_zero("latency_us") * 1e-6});
  }
  return samples;
}

Samples read_kernel_samples(const std::vector<MeasuredKernel>& published, const std::string& profile,
                            const std::string& implementation) {
  Samples samples;
  for (const MeasuredKernel& each : published)
    if (each.op.kind == OperatorKind::attention && each.gpu == profile && each.kernel == implementation)
      samples.push_back({std::get<AttentionShape>(each.op.shape), each.op.pass == Pass::backward, each.seconds});
  return samples;
}

Samples select(const Samples& samples, std::int64_t head_dim, bool causal) {
  Samples selected;
  for (const AttentionSample& s : samples)
    if (s.shape.qk_dim == head_dim && s.shape.causal == causal) selected.push_back(s);
  return selected;
}

AttentionCurve fit_attention(const Samples& all, bool backward, const GpuPeak& gpu, const AttentionGiven& given) {
  Samples samples;
  for (const AttentionSample& s : all)
    if (s.backward == backward) samples.push_back(s);
  if (samples.empty()) return {};
  const AttentionModel model = best_candidate(samples, gpu, given).model;
  return {model.t0, model.forward_efficiency, model.forward_s0, static_cast<int>(samples.size()),
          cross_validated(samples, gpu, given)};
}

double fit_power_exponent(const Samples& samples, const GpuPeak& gpu, double t0) {
  std::set<std::tuple<std::int64_t, bool, bool>> curves;
  for (const AttentionSample& s : samples) curves.emplace(s.shape.qk_dim, s.shape.causal, s.backward);
  const auto error = [&](double exponent) {
    double sum = 0;
    for (const auto& [head_dim, causal, backward] : curves) {
      const AttentionCurve curve = fit_attention(select(samples, head_dim, causal), backward, gpu, {t0, exponent});
      sum += curve.samples * curve.residual;
    }
    return sum;
  };
  constexpr double kStep = 0.005;
  double best = 0;
  for (double exponent = kStep; exponent < 0.1; exponent += kStep)
    if (error(exponent) < error(best)) best = exponent;
  return best;
}

}  // namespace tracecast::accuracy
