// What a layer does again in its backward pass.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/graph/layers.hpp"
#include "tests/support/models.hpp"

using namespace tracecast;
using namespace tracecast::test;

TEST_CASE("layer: full recomputation repeats the forward with its collectives, selective only the core", "[graph]") {
  const Model model = llama3_70b();
  const Plan plan = layer_plan(model, 8, false, Recompute::full);
  CHECK(calls_of(LayerWork(model, plan).backward(0, BackwardPart::all, true)) ==
        std::map<Collective, int>{{Collective::all_reduce, 4}});
  const Plan selective = layer_plan(model, 8, false, Recompute::selective);
  int repeated = 0;
  for (const Work& work : LayerWork(model, selective).backward(0, BackwardPart::all, false))
    if (work.recomputed) {
      ++repeated;
      CHECK(work.op.kind == OperatorKind::attention);
    }
  CHECK(repeated == 1);
}

TEST_CASE("layer: recomputation that stops early leaves out what follows the last activation", "[graph]") {
  Model model = llama3_70b();
  Plan plan = layer_plan(model, 8, true, Recompute::full);
  const auto repeated = [&] {
    std::vector<std::string> names;
    int reductions = 0;
    for (const Work& work : LayerWork(model, plan).backward(0, BackwardPart::all, true)) {
      if (work.kind == Work::Kind::compute && work.recomputed) names.push_back(work.op.name);
      reductions += work.kind == Work::Kind::collective && work.call.collective == Collective::reduce_scatter ? 1 : 0;
    }
    return std::pair{names, reductions};
  };
  const auto whole = repeated();
  REQUIRE(std::count(whole.first.begin(), whole.first.end(), "fc2") == 1);
  plan.training.recompute_early_stop = true;
  const auto early = repeated();
  std::vector<std::string> left = whole.first;
  left.erase(std::find(left.begin(), left.end(), "fc2"), left.end());
  CHECK(early.first == left);
  CHECK(early.first.back() == "swiglu");
  CHECK(early.second == whole.second - 1);

  // Transformer Engine's functions save their operands after they ran, and dropout saves a mask of the result.
  const auto repeats_last = [&] {
    const std::vector<std::string> names = repeated().first;
    return std::count(names.begin(), names.end(), "fc2") == 1;
  };
  plan.training.dtype = Precision::fp8;
  CHECK(repeats_last());
  plan.training.compiled = true;
  CHECK(!repeats_last());
  plan.training.dtype = Precision::bf16;
  plan.training.compiled = false;
  plan.training.transformer_engine = true;
  CHECK(repeats_last());
  plan.training.transformer_engine = false;
  CHECK(!repeats_last());
  model.dropout = 0.1;
  CHECK(repeats_last());
}

TEST_CASE("layer: op-level recomputation repeats keys, attention's output and the second matrix of a gated layer",
          "[graph]") {
  Model model = llama3_70b();
  const auto repeated = [&](const Model& each) {
    const Plan plan = layer_plan(each, 1, false, Recompute::selective_op);
    std::vector<std::pair<std::string, std::int64_t>> multiplications;  // name, columns of the result
    for (const Work& work : LayerWork(each, plan).backward(0, BackwardPart::all, false))
      if (work.recomputed && work.op.kind == OperatorKind::gemm)
        multiplications.emplace_back(work.op.name, std::get<GemmShape>(work.op.shape).n);
    return multiplications;
  };
  using List = std::vector<std::pair<std::string, std::int64_t>>;
  CHECK(repeated(model) == List{{"k", 1024}, {"proj", 8192}, {"fc1", 28672}});
  model.activation = Activation::gelu;
  CHECK(repeated(model) == List{{"k", 1024}, {"proj", 8192}});  // the sixth is the last, which is not needed
}

TEST_CASE("layer: op-level recomputation gathers what it multiplies again, with DTensor", "[graph]") {
  const auto gathers = [](const Model& model) {
    Plan plan = layer_plan(model, 8, true, Recompute::selective_op);
    plan.parallel.dtensor = true;
    const WorkList list = LayerWork(model, plan).backward(0, BackwardPart::all, false);
    // Those of the backward itself come behind the last repeated operator.
    const auto last = std::find_if(list.rbegin(), list.rend(), [](const Work& work) { return work.recomputed; });
    return std::count_if(list.begin(), last.base(), [](const Work& work) {
      return work.kind == Work::Kind::collective && work.call.collective == Collective::all_gather;
    });
  };
  CHECK(gathers(llama3_70b()) == 2);
  CHECK(gathers(mixtral_8x7b()) == 1);  // its experts run once
}

TEST_CASE("layer: modules that are recomputed run as in the forward, once", "[graph]") {
  using Names = std::vector<std::string>;
  const auto repeated = [](const Model& model, int layer, const Names& modules) {
    Plan plan = layer_plan(model, 2, true);
    plan.training.recompute_modules = modules;
    Names names;
    for (const Work& work : LayerWork(model, plan).backward(layer, BackwardPart::all, false)) {
      if (work.kind == Work::Kind::compute && work.recomputed) names.push_back(work.op.name);
      if (work.kind == Work::Kind::collective && work.recomputed)
        names.push_back(std::string(to_string(work.call.collective)));
    }
    return names;
  };
  const Names mlp{"all_gather", "fc1", "swiglu", "fc2", "reduce_scatter"};
  CHECK(repeated(llama3_70b(), 0, {"mlp"}) == mlp);
  CHECK(repeated(llama3_70b(), 0, {"mlp", "activation"}) == mlp);
  CHECK(repeated(llama3_70b(), 0, {"shared_experts"}).empty());
  const Model deepseek = deepseek_v3();
  CHECK(repeated(deepseek, 0, {"mlp", "shared_experts"}) == mlp);
  const Names shared{"all_gather", "shared_fc1", "swiglu", "shared_fc2", "reduce_scatter"};
  CHECK(repeated(deepseek, 3, {"mlp", "shared_experts"}) == shared);
  const Names both = repeated(deepseek, 3, {"shared_experts", "activation"});
  CHECK(both.size() == shared.size() + 1);  // the activation of the routed experts, not the shared one's again
}
