// Element-wise operators of a layer: which there are, and what they move.
#include <array>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/graph/layers.hpp"
#include "tests/support/models.hpp"

using namespace tracecast;
using namespace tracecast::test;

TEST_CASE(
    "layer: sums at the residual and copies of queries, keys and values are work, but launches of the layer before "
    "them",
    "[oracle][graph]") {
  const Model model = llama3_70b();
  Plan plan = layer_plan(model, 8, true);
  constexpr std::int64_t kTokens = 8192;
  constexpr std::int64_t kElements =
      kTokens / 8 * 8192;                               // with sequence parallelism a rank has an eighth of the tokens
  constexpr std::int64_t kQueries = kTokens * 8 * 128;  // 8 of 64 heads; and one of 8 of keys, one of values
  const auto of_name = [&](const std::string& name, Pass pass) {
    const LayerWork work(model, plan);
    const WorkList list = pass == Pass::forward ? work.forward(0) : work.backward(0, BackwardPart::all, false);
    std::vector<Work> found;
    for (const Work& each : list)
      if (each.kind == Work::Kind::compute && each.op.name == name && each.op.pass == pass) found.push_back(each);
    return found;
  };
  const auto check = [&](const char* name, Pass pass, std::size_t count, std::int64_t bytes, bool shares_launch) {
    INFO(name << " " << to_string(pass));
    const std::vector<Work> found = of_name(name, pass);
    REQUIRE(found.size() == count);
    for (const Work& each : found) {
      CHECK(std::get<ElementwiseShape>(each.op.shape).traffic.count == bytes);
      CHECK(each.shares_launch == shares_launch);
    }
  };
  check("rms_norm", Pass::backward, 2, 10 * kElements, false);
  check("residual", Pass::forward, 2, 6 * kElements, false);
  check("residual_gradient", Pass::backward, 2, 6 * kElements, true);
  check("qkv_copy", Pass::forward, 1, 4 * kQueries, true);
  check("qkv_copy", Pass::backward, 1, 4 * kQueries * 10 / 8, true);
  plan.training.transformer_engine = true;
  check("rms_norm", Pass::backward, 2, 6 * kElements, false);
  check("residual", Pass::forward, 2, 6 * kElements, true);
  check("residual_gradient", Pass::backward, 2, 6 * kElements, true);
  plan.training.unfused_elementwise = true;  // queries, keys and values, and both inputs of the gate, one by one
  check("input_gradient", Pass::backward, 3, 6 * kElements, true);
  CHECK(of_name("qkv_copy", Pass::backward).empty());
  plan.training.unfused_elementwise = false;
  plan.training.compiled = true;
  check("rms_norm", Pass::backward, 2, 14 * kElements, false);
  for (const char* name : {"residual", "residual_gradient", "qkv_copy", "input_gradient"})
    CHECK(of_name(name, Pass::backward).size() + of_name(name, Pass::forward).size() == 0);
}

TEST_CASE("layer: eager PyTorch with one kernel for RMSNorm still has chains of other element-wise work", "[graph]") {
  const Model model = llama3_70b();
  Plan plan = layer_plan(model, 8, true);
  const auto moved = [&](const char* name, Pass pass) { return bytes_moved(model, plan, name, pass); };
  const std::int64_t fused = moved("rms_norm", Pass::backward);
  const std::int64_t fused_rope = moved("rope", Pass::forward);
  plan.training.unfused_elementwise = true;
  CHECK(moved("rms_norm", Pass::backward) > 5 * fused);
  plan.training.fused_norms = true;
  CHECK(moved("rms_norm", Pass::backward) == fused);
  CHECK(moved("rope", Pass::forward) > 2 * fused_rope);
}

TEST_CASE("layer: a compiled layer has no chains of element-wise operators, whatever its stack says", "[graph]") {
  const Model model = llama3_70b();
  Plan plan = layer_plan(model, 1, false);
  const auto moved = [&](const char* name) { return bytes_moved(model, plan, name, Pass::forward); };
  plan.training.compiled = true;
  const std::array fused{moved("rms_norm"), moved("rope"), moved("swiglu")};
  plan.training.unfused_elementwise = true;
  CHECK(std::array{moved("rms_norm"), moved("rope"), moved("swiglu")} == fused);
  plan.training.compiled = false;
  CHECK(moved("rope") > fused[1]);
  CHECK(moved("swiglu") > fused[2]);
}

TEST_CASE("layer: a bias is summed by a kernel of its own where nothing fuses it", "[graph][oracle]") {
  Model model = llama3_70b();
  model.qkv_bias = model.mlp_bias = true;
  const auto sums = [&](auto change, int tp = 1) {
    Plan plan = layer_plan(model, tp, tp > 1);
    change(plan.training);
    std::map<std::string, std::int64_t> moved;
    for (const Work& work : LayerWork(model, plan).backward(0, BackwardPart::all, false))
      if (work.op.name.ends_with(" bias_gradient"))
        moved[work.op.name] = std::get<ElementwiseShape>(work.op.shape).traffic.count;
    return moved;
  };
  // 8,192 tokens, read once in 16 bits; attention's output has no bias.
  CHECK(sums([](Training&) {}) == std::map<std::string, std::int64_t>{{"fc1 bias_gradient", 2LL * 8192 * 2 * 28672},
                                                                      {"fc2 bias_gradient", 2LL * 8192 * 8192},
                                                                      {"qkv bias_gradient", 2LL * 8192 * 10240}});
  // With sequence parallelism fc2's bias is added to an eighth of the tokens, fc1's to all.
  CHECK(sums([](Training&) {}, 8).at("fc2 bias_gradient") == 2LL * 1024 * 8192);
  CHECK(sums([](Training&) {}, 8).at("fc1 bias_gradient") == 2LL * 8192 * 2 * 28672 / 8);
  CHECK(sums([](Training& t) { t.transformer_engine = true; }).empty());
  CHECK(sums([](Training& t) { t.compiled = true; }).empty());
  model.qkv_bias = model.mlp_bias = false;
  CHECK(sums([](Training&) {}).empty());
}

TEST_CASE("layer: Transformer Engine's kernel of RoPE has no factor of YaRN", "[graph][oracle]") {
  Model model = llama3_70b();
  Plan plan = layer_plan(model, 1, false);
  plan.training.transformer_engine = true;
  constexpr std::int64_t kElements = 8192LL * (64 + 8) * 128;
  const auto moved = [&](Pass pass) { return bytes_moved(model, plan, "rope", pass); };
  CHECK(moved(Pass::forward) == 4 * kElements);
  model.yarn = true;
  CHECK(moved(Pass::forward) == 24 * kElements);
  CHECK(moved(Pass::backward) == 20 * kElements);
  plan.training.compiled = true;
  CHECK(moved(Pass::forward) == 4 * kElements);
}

TEST_CASE("layer: unfused attention gathers keys and values of all context-parallel ranks", "[graph][oracle]") {
  const Model model = llama3_70b();
  Plan plan = layer_plan(model, 1, false);
  plan.parallel.cp = 4;
  const auto exchanged = [&](bool backward) {
    const LayerWork work(model, plan);
    const WorkList list = backward ? work.backward(0, BackwardPart::all, false) : work.forward(0);
    std::map<Collective, std::int64_t> bytes;
    for (const Work& each : list)
      if (each.kind == Work::Kind::collective && each.traffic == Traffic::context_parallel)
        bytes[each.call.collective] += each.call.size.count;
    return bytes;
  };
  plan.training.flash_attention = false;
  constexpr std::int64_t kKeys = 8192LL * 2 * 8 * 128 * 2;  // keys and values of 8 heads in 16 bits
  for (const ContextExchange type : {ContextExchange::p2p, ContextExchange::all_gather, ContextExchange::a2a}) {
    plan.parallel.cp_comm_type = type;
    CHECK(exchanged(false) == std::map<Collective, std::int64_t>{{Collective::all_gather, kKeys}});
    CHECK(exchanged(true) ==
          std::map<Collective, std::int64_t>{{Collective::all_gather, kKeys}, {Collective::reduce_scatter, kKeys}});
  }
}
