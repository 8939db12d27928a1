#include "sim/model/operators.hpp"

#include <algorithm>

#include <catch2/catch.hpp>

#include "tests/support/operators.hpp"

using namespace tracecast;

namespace {

Operator gemm(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {OperatorKind::gemm, Pass::forward, Precision::bf16, "gemm", GemmShape{m, n, k}};
}

Operator attention(bool causal, Pass pass, OperatorKind kind = OperatorKind::attention) {
  return {kind, pass, Precision::bf16, "attention", test::llama70b_attention(causal)};
}

}  // namespace

TEST_CASE("operators of Llama-3 70B, b = 1, s = 8192, t = 8", "[oracle][model]") {
  CHECK(flops(gemm(8192, 1280, 8192)).count == Approx(1.717987e11).epsilon(1e-6));
  CHECK(flops(gemm(8192, 8192, 1024)).count == Approx(1.374390e11).epsilon(1e-6));
  CHECK(flops(gemm(8192, 7168, 8192)).count == Approx(9.620727e11).epsilon(1e-6));
  CHECK(flops(gemm(8192, 8192, 3584)).count == Approx(4.810363e11).epsilon(1e-6));
  CHECK(flops(gemm(8192, 16032, 8192)).count == Approx(2.151779e12).epsilon(1e-6));
  CHECK(flops(attention(false, Pass::forward)).count == Approx(2.748779e11).epsilon(1e-6));
  CHECK(flops(attention(true, Pass::forward)).count == Approx(1.374390e11).epsilon(1e-6));
  CHECK(flops(attention(false, Pass::backward)).count == Approx(6.871948e11).epsilon(1e-6));
}

TEST_CASE("attention FLOPs: unfused, latent and windowed", "[oracle][model]") {
  // Unfused scores do not compute QK^T again.
  const double forward = flops(attention(false, Pass::forward)).count;
  CHECK(flops(attention(false, Pass::dgrad, OperatorKind::scores)).count == 2 * forward);
  CHECK(flops(attention(false, Pass::forward, OperatorKind::scores)).count == forward);

  AttentionShape latent{.batch = 2, .q_len = 4, .kv_len = 4, .heads = 3, .kv_heads = 3, .qk_dim = 192, .v_dim = 128};
  latent.causal = false;
  Operator op{OperatorKind::attention, Pass::forward, Precision::bf16, "attention", latent};
  CHECK(flops(op).count == 2.0 * 2 * 4 * 4 * 3 * (192 + 128));
  op.pass = Pass::backward;
  CHECK(flops(op).count == 2.0 * 2 * 4 * 4 * 3 * (3 * 192 + 2 * 128));

  AttentionShape window = latent;
  window.q_len = window.kv_len = 1000;
  window.causal = true;
  window.window = 100;
  op = {OperatorKind::attention, Pass::forward, Precision::bf16, "attention", window};
  CHECK(flops(op).count == 2.0 * (100 * 1000 - 100 * 100 / 2) * 6 * 320);
  window.window = 1000;
  op.shape = window;
  CHECK(flops(op).count == 2.0 * (1000 * 1000 / 2) * 6 * 320);
  window.window = 100;
  window.causal = false;
  op.shape = window;
  CHECK(flops(op).count == 2.0 * 100 * 1000 * 6 * 320);
}

TEST_CASE("attention pairs: ranks that divide the queries have the pairs of the sequence together",
          "[property][model]") {
  const std::int64_t ranks = GENERATE(1, 2, 4, 64, 128);
  const std::int64_t window = GENERATE(0, 1, 2048, 65536, 131072, 1 << 20);
  const AttentionShape whole{1, 131072, 131072, 1, 1, 128, 128, true, window};
  AttentionShape part = whole;
  part.q_len /= ranks;
  CHECK(static_cast<double>(ranks) * attention_pairs(part) == Approx(attention_pairs(whole)).epsilon(1e-12));
}

TEST_CASE("attention pairs: the blocks of a ring have those of the window, counted one by one", "[property][model]") {
  constexpr int kPiece = 6;
  const int ranks = GENERATE(2, 3, 4);
  const int sequence = 2 * ranks * kPiece;
  const int window = GENERATE(1, 5, 6, 7, 13, 24, 47, 48, 1000);
  const auto rank_of = [&](int token) { return std::min(token / kPiece, 2 * ranks - 1 - token / kPiece); };
  // A pair is a unit square, of which the half is in the band on both edges of the band.
  const auto in_band = [&](int distance) {
    if (distance == 0 || distance == window) return 0.5;
    return distance < window ? 1.0 : 0.0;
  };
  double sum = 0;
  for (int block = 0; block < ranks; ++block) {
    double counted = 0;
    for (int query = 0; query < sequence; ++query)
      for (int key = 0; key <= query; ++key)
        if ((rank_of(query) - rank_of(key) + ranks) % ranks == block) counted += in_band(query - key);
    AttentionShape shape{1, 2 * kPiece, block == 0 ? 2 * kPiece : kPiece, 1, 1, 128, 128, block == 0, window};
    shape.ring_ranks = ranks;
    shape.ring_block = block;
    shape.attended = share_in_window(shape);
    CAPTURE(ranks, window, block);
    CHECK(ranks * attention_pairs(shape) == Approx(counted).margin(1e-9));
    sum += ranks * attention_pairs(shape);
  }
  const AttentionShape whole{1, sequence, sequence, 1, 1, 128, 128, true, window};
  CHECK(sum == Approx(attention_pairs(whole)).epsilon(1e-12));
}

TEST_CASE("compulsory traffic: what is read and written once", "[oracle][model]") {
  Operator op = gemm(2, 3, 5);
  CHECK(compulsory_traffic(op) == Bytes{2 * (10 + 15 + 6)});
  op.precision = Precision::fp8;  // inputs of one byte, result in 16 bit
  CHECK(compulsory_traffic(op) == Bytes{10 + 15 + 2 * 6});
  op.precision = Precision::fp32;
  CHECK(compulsory_traffic(op) == Bytes{4 * (10 + 15 + 6)});
  op = gemm(2, 3, 5);
  std::get<GemmShape>(op.shape).accumulate_fp32 = true;
  std::get<GemmShape>(op.shape).batch = 7;
  CHECK(compulsory_traffic(op) == Bytes{7 * (2 * (10 + 15) + 8 * 6)});

  const AttentionShape shape{.batch = 2, .q_len = 10, .kv_len = 20, .heads = 4, .kv_heads = 2, .qk_dim = 3, .v_dim = 5};
  op = {OperatorKind::attention, Pass::forward, Precision::bf16, "attention", shape};
  const std::int64_t query = 10 * 4 * 3, key_value = 20 * 2 * 8, out = 10 * 4 * 5, lse = 4 * 10 * 4;
  CHECK(compulsory_traffic(op) == Bytes{2 * (2 * (query + key_value + out) + lse)});
  op.pass = Pass::backward;
  CHECK(compulsory_traffic(op) == Bytes{2 * (4 * (query + key_value + out) + lse)});
  op.kind = OperatorKind::scores;
  CHECK(compulsory_traffic(op) == Bytes{2 * 2 * (4 * 10 * 20 * 4 + 2 * (query + key_value + out))});

  op = {OperatorKind::norm, Pass::forward, Precision::bf16, "norm", ElementwiseShape{100, Bytes{400}}};
  CHECK(compulsory_traffic(op) == Bytes{400});
  CHECK(flops(op).count == 0);
}

TEST_CASE("every kind, pass and precision has its own name", "[model]") {
  std::vector<std::string> names;
  for (int kind = 0; kind < kOperatorKinds; ++kind) names.emplace_back(to_string(static_cast<OperatorKind>(kind)));
  std::sort(names.begin(), names.end());
  CHECK(std::unique(names.begin(), names.end()) == names.end());
  CHECK_FALSE(names.front().empty());
  CHECK(std::string(to_string(Precision::fp8_block)) == "fp8_block");
  CHECK(std::string(to_string(Pass::backward)) == "backward");
  CHECK(element_size(Precision::nvfp4) == 1);
}
