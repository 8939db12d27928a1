// What the kernels of this program move, beside what the operators of step graphs say.

#include "kernels/operands.hpp"

#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "kernels/cuda/operand_bytes.hpp"
#include "sim/forecast/forecast.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

Operator element_wise(OperatorKind kind, Pass pass, const std::string& name, std::int64_t bytes_each) {
  return {kind, pass, Precision::bf16, name, ElementwiseShape{1000, Bytes{1000 * bytes_each}}};
}

/// "rms_norm backward"
std::set<std::string> not_as_in_training(const std::string& scenario, const std::vector<std::string>& overrides = {}) {
  std::set<std::string> names;
  for (const CostedOperator& costed : value_of(forecast(shipped_scenario(scenario, overrides))).graph.operators)
    if (!cuda::not_as_in_training(costed.op).empty()) names.insert(costed.op.name + " " + to_string(costed.op.pass));
  return names;
}

}  // namespace

TEST_CASE("operands: a chain of kernels that is one fused kernel here moves other bytes", "[kernels][cuda]") {
  struct Case {
    OperatorKind kind;
    Pass pass;
    const char* name;
    std::int64_t same;
    std::int64_t other;
  };
  const Pass forward = Pass::forward;
  const Pass backward = Pass::backward;
  for (const Case& each :
       {Case{OperatorKind::norm, forward, "rms_norm", 4, 36}, Case{OperatorKind::norm, backward, "rms_norm", 6, 10},
        Case{OperatorKind::norm, forward, "rms_norm", 4, 8}, Case{OperatorKind::rope, forward, "rope", 4, 20},
        Case{OperatorKind::activation, forward, "swiglu", 6, 10},
        Case{OperatorKind::activation, backward, "swiglu", 10, 18},
        Case{OperatorKind::activation, forward, "gelu", 4, 16}, Case{OperatorKind::softmax, forward, "softmax", 4, 12},
        Case{OperatorKind::softmax, backward, "softmax", 6, 16},
        Case{OperatorKind::residual, backward, "fc1 add_gradient", 6, 18},
        Case{OperatorKind::residual, backward, "fc1 bias_gradient", 6, 2},
        Case{OperatorKind::residual, forward, "dropout_add", 7, 4},
        Case{OperatorKind::embedding, backward, "embedding", 8, 5}, Case{OperatorKind::cast, forward, "fc1 cast", 3, 2},
        Case{OperatorKind::copy, forward, "qkv_copy", 4, 8},
        Case{OperatorKind::optimizer, Pass::optimizer, "grad_norm", 4, 2},
        Case{OperatorKind::optimizer, Pass::optimizer, "update", 30, 60}}) {
    CAPTURE(each.name, to_string(each.pass), each.other);
    CHECK(other_traffic(element_wise(each.kind, each.pass, each.name, each.same), 2).empty());
    CHECK_FALSE(other_traffic(element_wise(each.kind, each.pass, each.name, each.other), 2).empty());
  }
  CHECK(other_traffic(element_wise(OperatorKind::norm, forward, "rms_norm", 36), 2) ==
        "moves 4 bytes per element, the operator 36");
  CHECK(other_traffic(element_wise(OperatorKind::norm, forward, "rms_norm", 8), 4).empty());  // fp32
  CHECK(other_traffic({OperatorKind::gemm, forward, Precision::bf16, "fc1", GemmShape{8, 8, 8, 1, false}}, 2).empty());
}

TEST_CASE("operands: kernels that say nothing about a framework's are named", "[kernels][cuda]") {
  // Cross-entropy, RoPE and casts are not comparable; without Transformer Engine a norm's gradients take two kernels.
  CHECK(not_as_in_training("gpu-1b") == std::set<std::string>{"cross_entropy backward", "cross_entropy forward",
                                                              "rms_norm backward", "rope backward", "rope forward"});
  CHECK(not_as_in_training("gpu-7b-fp8").contains("weight cast optimizer"));
  CHECK(not_as_in_training("gpu-7b-fp8").contains("fc1 cast dgrad"));
  CHECK(not_as_in_training("gpu-1b", {"training.flash_attention=false"}).contains("softmax forward"));
}

TEST_CASE("operands: a GPU refuses what its kernels would run as something else", "[kernels][cuda][error]") {
  const Widths widths{2048, 128, 16, 4096, 1 << 20, 32'000};
  const auto attention = [&](Precision precision) {
    return cuda::refusal({OperatorKind::attention, Pass::forward, precision, "attention",
                          AttentionShape{1, 4096, 4096, 16, 16, 128, 128, true, 0}},
                         widths);
  };
  CHECK(attention(Precision::bf16).empty());
  CHECK(attention(Precision::fp16).empty());
  CHECK(attention(Precision::fp32) == "attention forward: attention runs in bf16 here, not in fp32");
  CHECK(attention(Precision::fp8) == "attention forward: attention runs in bf16 here, not in fp8");
  const auto refused = [&](OperatorKind kind, std::int64_t tokens, std::int64_t width, const char* name) {
    Widths these = widths;
    these.tokens = tokens;
    return cuda::refusal(
        {kind, Pass::forward, Precision::bf16, name, ElementwiseShape{tokens * width, Bytes{4 * tokens * width}}},
        these);
  };
  CHECK(refused(OperatorKind::cross_entropy, 349'525, 32'000, "cross_entropy").empty());
  CHECK(refused(OperatorKind::cross_entropy, 349'526, 32'000, "cross_entropy") ==
        "cross_entropy: 349526 tokens of a micro-batch are more than 349525");
  CHECK(refused(OperatorKind::embedding, 1 << 20, 2048, "embedding").empty());
  CHECK(refused(OperatorKind::embedding, (1 << 20) + 1, 2048, "embedding") ==
        "embedding: 1048577 tokens of a micro-batch are more than 1048576");
}
