// Layers of linear attention in the step graph: shapes, FLOPs against the model's own count, parallelism, folding.
#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"
#include "sim/graph/layer.hpp"
#include "sim/plan/rank_parameters.hpp"
#include "tests/graph/layers.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

struct Degrees {
  int tp = 1;
  int cp = 1;
  int ep = 1;
};

Result<Plan> try_plan(const Model& model, Degrees degrees, Training training = {}) {
  const Parallel parallel{.tp = degrees.tp, .cp = degrees.cp, .ep = degrees.ep, .sequence_parallel = degrees.tp > 1};
  if (training.seq_length < 8192) training.seq_length = 8192;
  return make_plan(model, parallel, training, degrees.tp * degrees.cp);
}

Plan plan_of(const Model& model, Degrees degrees) { return try_plan(model, degrees, {.global_batch_size = 1}).value(); }

std::vector<std::pair<Collective, std::int64_t>> calls(const WorkList& list, Traffic traffic) {
  std::vector<std::pair<Collective, std::int64_t>> found;
  for (const Work& work : list)
    if (is_collective(work) && work.traffic == traffic) found.emplace_back(work.call.collective, work.call.size.count);
  return found;
}

}  // namespace

TEST_CASE("hybrid: shapes of Nemotron-H 56B on 8 tensor ranks", "[graph][hybrid][oracle]") {
  const Model model = shipped_model("nemotron-h-56b");
  const Plan plan = plan_of(model, {.tp = 8});
  const LayerWork work(model, plan);
  const WorkList mamba = work.forward(0);
  // z and x of 256 heads of 64, B and C of 8 groups of 256, a step for every head.
  const std::int64_t projected = (2 * 16384 + 2 * 2048 + 256) / 8;
  CHECK(find_operator(mamba, "in_proj").shape == OperatorShape{GemmShape{8192, projected, 8192, 1, false}});
  CHECK(find_operator(mamba, "out_proj").shape == OperatorShape{GemmShape{8192, 8192, 2048, 1, false}});
  CHECK(find_operator(mamba, "ssd").shape ==
        OperatorShape{ScanShape{1, 8192, 32, 1, 256, 64, 128, false, false, true}});
  CHECK(std::get<ElementwiseShape>(find_operator(mamba, "causal_conv").shape).elements ==
        8192 * (16384 + 2 * 2048) / 8);
  // Forward reads one tensor of 16 bits and writes one; backward does that again, and reads two to write one.
  const WorkList back = work.backward(0, BackwardPart::all, false);
  const std::int64_t convolved = 8192 * (16384 + 2 * 2048) / 8;
  CHECK(std::get<ElementwiseShape>(find_operator(mamba, "causal_conv").shape).traffic == Bytes{convolved * 4});
  CHECK(std::get<ElementwiseShape>(find_operator(back, "causal_conv", Pass::backward).shape).traffic ==
        Bytes{convolved * 10});
  // The scan has applied the gate, so that the norm reads one tensor.
  CHECK(std::get<ElementwiseShape>(find_operator(mamba, "gated_norm").shape).traffic == Bytes{8192 * 2048 * 4});
  // One block: gathered before, scattered after.
  const std::int64_t message = 8192 * 8192 * 2;
  using Calls = std::vector<std::pair<Collective, std::int64_t>>;
  CHECK(calls(mamba, Traffic::tensor_parallel) ==
        Calls{{Collective::all_gather, message}, {Collective::reduce_scatter, message}});
  const WorkList mlp = work.forward(1);
  CHECK(find_operator(mlp, "fc1").shape == OperatorShape{GemmShape{8192, 4096, 8192, 1, false}});
  CHECK(calls(mlp, Traffic::tensor_parallel).size() == 2);
  for (const Work& each : mlp) CHECK(each.op.kind != OperatorKind::attention);
  CHECK(calls(work.forward(7), Traffic::tensor_parallel).size() == 2);
  CHECK(work.kind(0) == work.kind(2));
  CHECK(work.kind(0) != work.kind(1));
  CHECK(work.kind(0) != work.kind(7));
}

TEST_CASE("hybrid: Mamba-2 copies several sequences apart, and has a CUDA graph of its own",
          "[graph][hybrid][oracle]") {
  const Model model = shipped_model("nemotron-h-56b");
  const auto work_of = [&](std::int64_t sequences, const char* captured, int layer) {
    Plan plan = plan_of(model, {.tp = 8});
    plan.training.micro_batch_size = sequences;
    plan.training.cuda_graph_modules = {captured};
    return LayerWork(model, plan).forward(layer);
  };
  const auto copied = [](const WorkList& list) {
    std::int64_t elements = 0;
    for (const Work& each : list)
      if (each.op.kind == OperatorKind::copy) elements += std::get<ElementwiseShape>(each.op.shape).elements;
    return elements;
  };
  const auto eager = [](const WorkList& list) {
    return std::count_if(list.begin(), list.end(), [](const Work& each) { return !each.graphed; });
  };
  CHECK(copied(work_of(1, "attn", 0)) == 0);
  CHECK(copied(work_of(2, "attn", 0)) == 2 * 8192 * (2 * 16384 + 2 * 2048 + 256 + 16384) / 8);
  CHECK(eager(work_of(1, "mamba", 0)) < eager(work_of(1, "attn", 0)));
  CHECK(eager(work_of(1, "mamba", 7)) > eager(work_of(1, "attn", 7)));  // attention
}

TEST_CASE("hybrid: the matrices of every layer do the model's own FLOPs", "[graph][hybrid][oracle]") {
  const auto name = GENERATE("nemotron-3-nano-30b-a3b", "nemotron-h-8b", "qwen3-next-80b-a3b", "kimi-linear-48b-a3b");
  const Model model = shipped_model(name);
  const Plan plan = plan_of(model, {});
  const LayerWork work(model, plan);
  for (int layer = 0; layer < model.layers(); ++layer) {
    INFO(name << " layer " << layer);
    const double expected = 8192 * layer_forward_flops(model, layer, 8192, FlopsConvention::model_causal).linear;
    CHECK(matrix_flops(work.forward(layer)) == Approx(expected).epsilon(2e-3));  // rows of experts are rounded up
    CHECK(matrix_flops(work.backward(layer, BackwardPart::all, false)) == Approx(2 * expected).epsilon(2e-3));
  }
}

TEST_CASE("hybrid: the graph's parameters are the plan's without vectors", "[graph][hybrid]") {
  const auto name = GENERATE("nemotron-3-nano-30b-a3b", "qwen3-next-80b-a3b", "kimi-linear-48b-a3b");
  const int tp = GENERATE(1, 2);
  const Model model = shipped_model(name);
  const Plan plan = plan_of(model, {.tp = tp});
  const LayerWork work(model, plan);
  for (int layer = 0; layer < model.layers(); ++layer) {
    INFO(name << " layer " << layer << " tp " << tp);
    std::vector<ParameterGroup> groups = layer_parameter_groups(model, layer);
    std::erase_if(groups, [](const ParameterGroup& group) { return !group.matrix && group.part != Part::norm; });
    // Norms inside a mixer and the gate of a shared expert are no work of their own.
    const std::int64_t gate = model.moe->shared_expert_gate && model.is_moe_layer(layer) ? model.hidden_size : 0;
    const std::int64_t inner =
        gate + sum(layer_parameter_groups(model, layer), Part::norm) - layer_norms(model, layer) * model.hidden_size;
    const std::int64_t planned = rank_parameters(groups, model, plan.parallel).total();
    CHECK(planned - work.layer_parameters(layer) <= inner);
    CHECK(planned - work.layer_parameters(layer) >= 0);
  }
}

TEST_CASE("hybrid: gated attention projects a gate and multiplies with it", "[graph][hybrid][oracle]") {
  const Model model = shipped_model("qwen3-next-80b-a3b");
  const Plan plan = plan_of(model, {});
  const LayerWork work(model, plan);
  const WorkList forward = work.forward(3);
  CHECK(find_operator(forward, "qkv").shape == OperatorShape{GemmShape{8192, 2 * 4096 + 2 * 512, 2048, 1, false}});
  CHECK(compulsory_traffic(find_operator(forward, "output_gate")) == Bytes{3 * 2 * 8192 * 4096});
  const WorkList delta = work.forward(0);
  CHECK(find_operator(delta, "gated_delta").shape ==
        OperatorShape{ScanShape{1, 8192, 32, 16, 128, 128, 64, true, false}});
}

TEST_CASE("hybrid: context parallelism exchanges the sequence for heads", "[graph][hybrid][oracle]") {
  const Model model = shipped_model("qwen3-next-80b-a3b");
  const Plan plan = plan_of(model, {.cp = 4});
  const LayerWork work(model, plan);
  const WorkList forward = work.forward(0);
  // q, k, v, z and two gates of every head; then the result.
  const std::int64_t tokens = 8192 / 4;
  const std::int64_t there = tokens * (2 * 2048 + 2 * 4096 + 64) * 2;
  const std::int64_t back = tokens * 4096 * 2;
  using Calls = std::vector<std::pair<Collective, std::int64_t>>;
  CHECK(calls(forward, Traffic::context_parallel) ==
        Calls{{Collective::all_to_all, there}, {Collective::all_to_all, back}});
  CHECK(calls(work.backward(0, BackwardPart::all, false), Traffic::context_parallel) ==
        Calls{{Collective::all_to_all, back}, {Collective::all_to_all, there}});
  CHECK(find_operator(forward, "gated_delta").shape ==
        OperatorShape{ScanShape{1, 8192, 8, 4, 128, 128, 64, true, false}});
  // Fewer groups than context ranks: each is sent to several.
  const Model nano = shipped_model("nemotron-3-nano-30b-a3b");
  const Plan wide = plan_of(nano, {.cp = 16});
  const WorkList mamba = LayerWork(nano, wide).forward(0);
  CHECK(calls(mamba, Traffic::context_parallel).front().second == 8192 / 16 * (2 * 4096 + 2 * 2 * 1024 + 64) * 2);
  CHECK(std::get<ScanShape>(find_operator(mamba, "ssd").shape).key_heads == 1);
}

TEST_CASE("hybrid: what heads do not divide into is refused", "[plan][hybrid][error]") {
  const Training training{.global_batch_size = 1};
  const auto message = [&](const std::string& name, Degrees degrees, Training settings = {.global_batch_size = 1}) {
    return error_text(try_plan(shipped_model(name), degrees, settings));
  };
  CHECK(message("nemotron-h-8b", {.tp = 16})
            .find("parallel.tp = 16: does not divide model.linear_attention.key_heads = 8 (allowed: 1 2 4 8)") !=
        std::string::npos);
  CHECK(message("qwen3-next-80b-a3b", {.cp = 64}) ==
        "parallel.cp = 64: does not divide the 32 heads of linear attention of a tensor-parallel rank (allowed: 1 2 4 "
        "8 16 32)");
  Training torchtitan = training;
  torchtitan.recompute = Recompute::selective_op;
  CHECK(message("nemotron-h-8b", {}, torchtitan) ==
        "training.recompute = selective_op: is not for models with a layer_pattern");
  Training lora = training;
  lora.lora_rank = 16;
  CHECK(message("nemotron-h-8b", {}, lora) ==
        "training.lora_rank = 16: is not for models with a layer_pattern (allowed: 0)");
  CHECK(message("nemotron-h-8b", {.tp = 8}) == "");
}

TEST_CASE("hybrid: stages of mixed layers, folded = unfolded", "[graph][hybrid][folding][metamorphic]") {
  const std::string pattern = GENERATE("M*-MM-*-", "GGG*", "KK*");
  Scenario scenario = small_scenario(2, 2, 2);
  scenario.model.layer_pattern = pattern;
  scenario.model.linear_attention = LinearAttention{.heads = 16, .head_dim = 64, .key_heads = 4, .key_dim = 64};
  scenario.model = validated(scenario.model).value();
  const auto run = [&](bool unfold) { return forecast(scenario, {.unfold = unfold}).value(); };
  const ForecastRun folded = run(false);
  const ForecastRun unfolded = run(true);
  CHECK(folded.timeline.step_time == unfolded.timeline.step_time);
  CHECK(folded.graph.ranks.size() < unfolded.graph.ranks.size());
  // Plain attention everywhere takes another time.
  Scenario plain = small_scenario(2, 2, 2);
  CHECK(forecast(plain, {}).value().timeline.step_time != folded.timeline.step_time);
}

TEST_CASE("sparse attention: parameters, FLOPs and shapes of DeepSeek-V3.2", "[graph][hybrid][oracle]") {
  const Model model = shipped_model("deepseek-v3.2");
  const Model dense = shipped_model("deepseek-v3");
  // Queries of 64 heads of 128 from the latent 1536, a key of 128 with a LayerNorm, a weight of each head.
  const std::int64_t indexer = 1536LL * 64 * 128 + 7168LL * 128 + 2 * 128 + 7168LL * 64;
  CHECK(parameter_count(model).total() == parameter_count(dense).total() + 61 * indexer);
  // Of a token at 128K: all keys scored, 2,048 of them attended to by 128 heads of 192 and 128, fewer by the first 2,048 tokens.
  const double s = 131072;
  const LayerFlops layer = layer_forward_flops(model, 0, 131072, FlopsConvention::model_causal);
  CHECK(layer.attention == 2 * (s / 2) * 64 * 128 + 2 * (2048 - 2048 * 2048 / (2 * s)) * 128 * (192 + 128.0));
  CHECK(layer_forward_flops(model, 0, 2048, FlopsConvention::model_full_attn).attention ==
        2 * 2048 * 64 * 128.0 + layer_forward_flops(dense, 0, 2048, FlopsConvention::model_full_attn).attention);

  const Plan plan = plan_of(model, {.tp = 8});
  const WorkList forward = LayerWork(model, plan).forward(0);
  CHECK(find_operator(forward, "index_q").shape == OperatorShape{GemmShape{1024, 8192, 1536, 1, false}});
  CHECK(find_operator(forward, "indexer").shape ==
        OperatorShape{AttentionShape{1, 8192, 8192, 64, 1, 128, 0, true, 0}});
  CHECK(find_operator(forward, "sparse_attention").shape ==
        OperatorShape{AttentionShape{1, 8192, 8192, 16, 1, 576, 512, true, 2048}});
  for (const Work& each : forward) CHECK(each.op.kind != OperatorKind::attention);
  const WorkList backward = LayerWork(model, plan).backward(0, BackwardPart::all, false);
  CHECK(std::get<AttentionShape>(find_operator(backward, "indexer", Pass::backward).shape).window == 2048);
  // Pairs of a causal band of 2,048 keys; scores and values.
  const double pairs = 2048.0 * 8192 - 2048.0 * 2048 / 2;
  CHECK(flops(find_operator(forward, "sparse_attention")).count == 2 * pairs * 16 * (576 + 512));
  CHECK(flops(find_operator(backward, "sparse_attention", Pass::backward)).count ==
        2 * pairs * 16 * (3 * 576 + 2 * 512));
  CHECK(flops(find_operator(forward, "indexer")).count == 2 * (8192.0 * 8192 / 2) * 64 * 128);
  CHECK(flops(find_operator(backward, "indexer", Pass::backward)).count == 2 * pairs * 64 * 2 * 128);
}

TEST_CASE("sparse attention: context ranks share the work of the sequence", "[graph][hybrid][property]") {
  const Model model = shipped_model("deepseek-v3.2");
  const Training training{.seq_length = 131072, .global_batch_size = 1};
  const auto flops_of = [&](const char* name, Pass pass, int cp) {
    const Plan plan = make_plan(model, {.cp = cp, .cp_comm_type = ContextExchange::all_gather}, training, cp).value();
    const LayerWork work(model, plan);
    const WorkList list = pass == Pass::forward ? work.forward(0) : work.backward(0, BackwardPart::all, false);
    return cp * flops(find_operator(list, name, pass)).count;
  };
  const int cp = GENERATE(4, 64, 128);
  for (const char* name : {"sparse_attention", "indexer"})
    for (const Pass pass : {Pass::forward, Pass::backward})
      CHECK(flops_of(name, pass, cp) == Approx(flops_of(name, pass, 1)).epsilon(1e-12));
}

TEST_CASE("sparse attention: context parallelism gathers latent vectors and the indexer's keys",
          "[graph][hybrid][oracle]") {
  const Model model = shipped_model("deepseek-v3.2");
  Parallel parallel{.cp = 4};
  Training training{.global_batch_size = 1};
  training.seq_length = 8192;
  const Result<Plan> ring = make_plan(model, parallel, training, 4);
  REQUIRE_FALSE(ring);
  CHECK(to_string(ring.error()) ==
        "parallel.cp_comm_type = p2p: does not bring every key to the queries that sparse attention may choose it for "
        "(allowed: all_gather)");
  parallel.cp_comm_type = ContextExchange::all_gather;
  const Plan plan = make_plan(model, parallel, training, 4).value();
  const LayerWork work(model, plan);
  const std::int64_t size = 8192 * (512 + 64 + 128) * 2;
  using Calls = std::vector<std::pair<Collective, std::int64_t>>;
  CHECK(calls(work.forward(0), Traffic::context_parallel) == Calls{{Collective::all_gather, size}});
  CHECK(calls(work.backward(0, BackwardPart::all, false), Traffic::context_parallel) ==
        Calls{{Collective::all_gather, size}, {Collective::reduce_scatter, size}});
}
