// FLOPs and bytes of a chunked scan against a count product by product.
#include "sim/cost/scan.hpp"

#include <catch2/catch.hpp>

#include "sim/cost/costs.hpp"
#include "sim/cost/sparse_attention.hpp"
#include "sim/model/operators.hpp"

using namespace tracecast;

namespace {

/// Multiplies [m, k] with [k, n].
double product(double m, double n, double k) { return 2 * m * n * k; }

/// Mamba-2 (Dao & Gu 2024, listing 1), chunk by chunk: C B^T of each group; of each head that times x, its state, and the
/// state before it times C.
double ssd(const ScanShape& s) {
  double sum = 0;
  const auto c = static_cast<double>(s.chunk), n = static_cast<double>(s.key_dim), d = static_cast<double>(s.value_dim);
  for (std::int64_t chunk = 0; chunk < s.batch * s.length / s.chunk; ++chunk) {
    for (std::int64_t group = 0; group < s.key_heads; ++group) sum += product(c, c, n);
    for (std::int64_t head = 0; head < s.heads; ++head) sum += product(c, d, c) + product(n, d, c) + product(c, d, n);
  }
  return sum;
}

/// Gated delta rule (Yang et al. 2024, WY form): K K^T, the inverse, W, U; W S, the new state, Q S; Q K^T, times new values.
double delta(const ScanShape& s) {
  double sum = 0;
  const auto c = static_cast<double>(s.chunk), n = static_cast<double>(s.key_dim), d = static_cast<double>(s.value_dim);
  for (std::int64_t chunk = 0; chunk < s.batch * s.length / s.chunk * s.heads; ++chunk)
    sum += product(c, c, n) + c * c * c + product(c, n, c) + product(c, d, c) + product(c, d, n) + product(n, d, c) +
           product(c, d, n) + product(c, c, n) + product(c, d, c);
  return sum;
}

Operator scan(const ScanShape& shape, Pass pass = Pass::forward) {
  return {OperatorKind::scan, pass, Precision::bf16, "scan", shape};
}

const ScanShape kMamba{2, 1024, 64, 8, 128, 64, 128, false, false, true};
const ScanShape kDelta{2, 1024, 32, 16, 128, 64, 64, true, false};

}  // namespace

TEST_CASE("scan: FLOPs of the published algorithms", "[model][hybrid][oracle]") {
  CHECK(flops(scan(kMamba)).count == ssd(kMamba));
  CHECK(flops(scan(kDelta)).count == delta(kDelta));
  // Backward: both gradients of every product, and once more what is not kept.
  const double tokens = 2 * 1024;
  CHECK(flops(scan(kMamba, Pass::backward)).count ==
        2 * ssd(kMamba) + tokens * (8 * 2 * 128 * 128.0 + 64 * 2 * 128 * 64.0));
  CHECK(flops(scan(kDelta, Pass::backward)).count ==
        2 * delta(kDelta) + tokens * 32 * (2 * 64 * (128 + 64.0) + 4 * 128 * 64.0));
}

TEST_CASE("scan: bytes that kernels hand to each other", "[model][hybrid][oracle]") {
  // Of a token: x twice, the gate, y before and after it, B and C twice, C x C of every group there and back, six fp32 values of each head.
  const std::int64_t token = 2 * (5 * 4096 + 4 * 1024) + 2 * 4 * 128 * 8 + 6 * 4 * 64;
  // Of a chunk: states of all heads, written and read in fp32, and in 16 bit after they are summed up.
  const std::int64_t chunk = (4 + 4 + 2 + 2) * 64 * 128 * 64;
  CHECK(compulsory_traffic(scan(kMamba)) == Bytes{2 * (1024 * token + 8 * chunk)});
  // Backward, kernel by kernel (docs/references.md#linear-attention): of x, of B and C, of C x C, of states.
  const double v = 4096, k = 1024, squares = 128 * 8, state = 64 * 128 * 64;
  const double of_x = 2 + 12 + 2 + 6.5 + 4 + 4 + 4, of_keys = 4 + 2 + 2 + 2 + 12 + 16, of_squares = 4 + 4 + 12 + 4;
  const double of_states = 4 + 8 + 4 + 12 + 2 + 4;
  const double of_token = of_x * v + of_keys * k + of_squares * squares + 3 * 6 * 4 * 64;
  CHECK(static_cast<double>(compulsory_traffic(scan(kMamba, Pass::backward)).count) ==
        2 * (1024 * of_token + 8 * of_states * state));
  CHECK(compulsory_traffic(scan(kDelta, Pass::backward)) == 3 * compulsory_traffic(scan(kDelta)));
  ScanShape kimi = kDelta;
  kimi.channel_decay = true;
  CHECK(compulsory_traffic(scan(kimi)) > compulsory_traffic(scan(kDelta)));
  // A last chunk that is not full has a state too.
  ScanShape longer = kMamba;
  longer.length = 1025;
  CHECK(compulsory_traffic(scan(longer)) == Bytes{2 * (1025 * token + 9 * chunk)});
}

TEST_CASE("scan: a roofline that says it was not measured", "[cost][hybrid][oracle]") {
  const GpuPeak gpu{.flops = 1e15, .bandwidth = 1e12, .sms = 100};
  // Bound by memory: bytes over a part of the bandwidth, after 15 us.
  const auto bytes = [](const ScanShape& shape) { return static_cast<double>(compulsory_traffic(scan(shape)).count); };
  CHECK(scan_seconds(gpu, scan(kMamba)) == Approx(15e-6 + bytes(kMamba) / 0.37e12));
  CHECK(scan_seconds(gpu, scan(kDelta)) == Approx(15e-6 + bytes(kDelta) / 0.5e12));
  // One head of a long sequence: its chunks follow one another on one SM.
  const ScanShape alone{1, 1 << 20, 1, 1, 128, 128, 64, true, false};
  const double chain = 4.0 * 128 * 128 * (1 << 20) / (0.3 * 1e15 / 100);
  CHECK(scan_seconds({1e15, 1e15, 100}, scan(alone)) == Approx(15e-6 + chain));
  Profile profile;
  profile.peak_flops[Precision::bf16] = 1e15;
  profile.memory_bandwidth = 1e12;
  profile.sms = 100;
  const OperatorCost cost = Costs(profile).of(scan(kMamba));
  CHECK(cost.provenance == Provenance::analytic);
  CHECK(cost.spread > 0.45);
}

// Forward passes of flash-linear-attention, milliseconds, one sequence of 8,192 tokens, head size 128: FlashKDA's
// BENCHMARK_H20.md (chunk_kda) and BENCHMARK_TRAIN_RTX5090.md, whose GPU has 1.79 TB/s and 209 TFLOP/s; BENCHMARK_GB200.md of a
// fork (chunk_kda and chunk_gated_delta_rule).
TEST_CASE("scan: published times of delta rules, within 35 %", "[cost][hybrid][oracle]") {
  struct Row {
    GpuPeak gpu;
    int heads;
    bool channel_decay;
    double published_ms;
  };
  const GpuPeak h20{148e12, 4.0e12, 78};
  const GpuPeak gb200{2.5e15, 8.0e12, 148};
  const GpuPeak rtx_5090{209e12, 1.79e12, 170};
  const auto row = GENERATE_COPY(Row{h20, 96, true, 4.505}, Row{h20, 64, true, 2.959}, Row{gb200, 96, false, 1.279},
                                 Row{gb200, 64, false, 0.886}, Row{gb200, 96, true, 2.327}, Row{gb200, 64, true, 1.576},
                                 Row{rtx_5090, 96, true, 5.419}, Row{rtx_5090, 64, true, 3.591});
  const ScanShape shape{1, 8192, row.heads, row.heads, 128, 128, 64, true, row.channel_decay};
  CHECK(1e3 * scan_seconds(row.gpu, scan(shape)) == Approx(row.published_ms).epsilon(0.35));
}

// vLLM's pull request 27299, "Original": tokens per second of the forward on an H100. Below 4,096 tokens the host bounds it.
TEST_CASE("scan: published times of Mamba-2 on an H100, within 15 %", "[cost][hybrid][oracle]") {
  const GpuPeak h100{989e12, 3.35e12, 132};
  const auto [tokens, rate] = GENERATE(table<std::int64_t, double>({{4096, 1.206409e7},
                                                                    {8192, 1.262327e7},
                                                                    {16384, 1.292440e7},
                                                                    {32768, 1.180002e7},
                                                                    {65536, 1.106830e7},
                                                                    {131072, 1.070444e7},
                                                                    {262144, 1.081547e7}}));
  const ScanShape shape{1, tokens, 128, 1, 128, 64, 256, false, false};
  CHECK(static_cast<double>(tokens) / scan_seconds(h100, scan(shape)) == Approx(rate).epsilon(0.15));
}

TEST_CASE("scan: the backward takes three times the forward, as on an RTX 5090", "[cost][hybrid][oracle]") {
  const GpuPeak rtx_5090{209e12, 1.79e12, 170};
  const ScanShape shape{1, 8192, 96, 96, 128, 128, 64, true, true};
  const double forward = scan_seconds(rtx_5090, scan(shape));
  const double both = forward + scan_seconds(rtx_5090, scan(shape, Pass::backward));
  CHECK(both / forward == Approx(23.468 / 5.419).epsilon(0.1));
}

TEST_CASE("sparse attention: what FlashMLA states for H800 and B200", "[cost][hybrid][oracle]") {
  const AttentionShape prefill{1, 16384, 16384, 128, 1, 576, 512, true, 2048};
  const Operator op{OperatorKind::sparse_attention, Pass::forward, Precision::bf16, "sparse_attention", prefill};
  const auto rate = [&](const GpuPeak& gpu) { return 1e-12 * flops(op).count / sparse_attention_seconds(gpu, op); };
  CHECK(rate({989e12, 3.35e12, 132}) == Approx(640).epsilon(0.02));
  CHECK(rate({2.25e15, 8e12, 148}) == Approx(1450).epsilon(0.02));
  // The indexer of a long sequence: half of the rate, or half of the bandwidth with one small head.
  const Operator indexer{OperatorKind::indexer, Pass::forward, Precision::bf16, "indexer",
                         AttentionShape{1, 16384, 16384, 64, 1, 128, 0, true, 0}};
  const double half = 16384.0 * 16384 / 2;
  CHECK(sparse_attention_seconds({1e15, 1e15, 100}, indexer) == Approx(15e-6 + 2 * half * 64 * 128 / 0.5e15));
  CHECK(sparse_attention_seconds({1e18, 1e12, 100}, indexer) ==
        Approx(15e-6 + (2 * (16384.0 * 64 * 128 + 16384 * 128) + 8 * half) / 0.5e12));
}
