// Work lists with frozen parameters, multi-token prediction, and encoder-decoder models.

#include <catch2/catch.hpp>

#include "sim/graph/layer.hpp"
#include "tests/graph/layers.hpp"
#include "tests/support/models.hpp"
#include "tests/support/results.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

Training training_of(std::int64_t sequence = 4096) { return {.seq_length = sequence, .global_batch_size = 8}; }

int operators(const WorkList& list, const std::string& name) {
  int count = 0;
  for (const Work& work : list) count += work.kind == Work::Kind::compute && work.op.name == name ? 1 : 0;
  return count;
}

std::int64_t announced(const WorkList& list, bool experts = false) {
  std::int64_t sum = 0;
  for (const Work& work : list)
    if (work.kind == Work::Kind::gradients && work.expert_parameters == experts) sum += work.parameters;
  return sum;
}

}  // namespace

TEST_CASE("lora: a layer's work has adapters and no weight gradients of frozen matrices", "[oracle][graph][lora]") {
  const Model model = llama(80, 8192, 28672, 64, 8, 32000);
  Training training = training_of();
  const Parallel parallel{.tp = 8, .sequence_parallel = true};
  const Plan whole = value_of(make_plan(model, parallel, training, 8));
  training.lora_rank = 16;
  training.lora_targets = {"qkv", "proj"};
  const Plan plan = value_of(make_plan(model, parallel, training, 8));
  const LayerWork work(model, plan);
  const WorkList backward = work.backward(0, BackwardPart::all, false);
  // 2 T per adapter parameter in each of forward, dgrad and wgrad.
  const double adapters = 2.0 * 4096 * 16 * (8192 + 1280 + 1024 + 8192);
  CHECK(matrix_flops(backward, Pass::wgrad) == adapters);
  CHECK(matrix_flops(backward, Pass::dgrad) ==
        matrix_flops(LayerWork(model, whole).forward(0), Pass::forward) + adapters);
  CHECK(announced(backward) == 16 * (8192 + 1280 + 1024 + 8192));
  CHECK(work.trained(0).dense == announced(backward));
  CHECK(work.layer_parameters(0) == LayerWork(model, whole).layer_parameters(0) + announced(backward));
  CHECK(announced(work.embedding_backward()) == 0);
  CHECK(announced(work.head_backward(BackwardPart::all)) == 0);
  CHECK(matrix_flops(work.head_backward(BackwardPart::all), Pass::dgrad) > 0);
  // The host launches adapters by calls of PyTorch, not as operators of the stack.
  int adapters_launched = 0;
  for (const WorkList& list : {work.forward(0), backward})
    for (const Work& each : list) {
      const bool adapter = each.op.name.find(" lora_") != std::string::npos;
      adapters_launched += adapter ? 1 : 0;
      CHECK(each.calls == (adapter ? 1 : 0));
    }
  CHECK(adapters_launched ==
        2 * (3 + 3 + 2));  // of each matrix: two products and a sum, both ways, two weight gradients
}

TEST_CASE("frozen layers: an empty backward below the first trained layer", "[graph][lora]") {
  const Model model = llama(4, 4096, 11008, 32, 32, 32000);
  Training training = training_of();
  training.frozen_fraction = 0.5;
  const Plan plan = value_of(make_plan(model, {}, training, 1));
  const LayerWork work(model, plan);
  CHECK(work.backward(1, BackwardPart::all, false).empty());
  CHECK(announced(work.backward(2, BackwardPart::all, false)) == work.layer_parameters(2));
  CHECK(work.trained(1).dense == 0);
  CHECK(work.embedding_backward().empty());
  CHECK(work.kind(1) != work.kind(2));
  CHECK(matrix_flops(work.forward(1), Pass::forward) == matrix_flops(work.forward(2), Pass::forward));
}

TEST_CASE("frozen layers: a tied output layer has no weight gradient", "[graph][lora]") {
  Model model = llama(4, 4096, 11008, 32, 32, 32000);
  Training training = training_of();
  training.frozen_fraction = 0.5;
  for (const int stages : {1, 2}) {
    CAPTURE(stages);
    const auto weight_gradients = [&](bool tied) {
      model.tied_embeddings = tied;
      const Plan plan = value_of(make_plan(model, {.pp = stages}, training, stages));
      const LayerWork work(model, plan);
      if (tied) CHECK(work.trained_head().dense == 4096);  // the final norm
      return matrix_flops(work.head_backward(BackwardPart::all), Pass::wgrad);
    };
    CHECK(weight_gradients(false) > 0);
    CHECK(weight_gradients(true) == 0);
  }
}

TEST_CASE("mtp: the head of DeepSeek-V3 with one prediction module", "[oracle][graph][mtp]") {
  Model model = deepseek_v3();
  const Parallel parallel{.ep = 64};
  Training training = training_of();
  training.global_batch_size = 64;
  const Plan plain = value_of(make_plan(model, parallel, training, 64));
  const WorkList before = LayerWork(model, plain).head_forward();
  model.mtp_layers = 1;
  const Plan plan = value_of(make_plan(model, parallel, training, 64));
  const LayerWork work(model, plan);
  const WorkList forward = work.head_forward();
  CHECK(operators(before, "lm_head") == 1);
  CHECK(operators(forward, "lm_head") == 2);
  CHECK(operators(forward, "mtp_proj") == 1);
  CHECK(operators(forward, "expert_fc1") == 1);
  CHECK(operators(forward, "embedding") == 1);
  // 2 T 2h h for the projection, the layer like the last one, the output layer once more.
  CHECK(matrix_flops(forward, Pass::forward) == 2 * matrix_flops(before, Pass::forward) +
                                                    matrix_flops(work.forward(60), Pass::forward) +
                                                    2.0 * 4096 * 2 * 7168 * 7168);
  const WorkList backward = work.head_backward(BackwardPart::all);
  CHECK(matrix_flops(backward, Pass::wgrad) == matrix_flops(forward, Pass::forward));
  // The shared output layer's gradient is announced once.
  CHECK(announced(backward) == work.trained_head().dense);
  CHECK(announced(backward) + announced(backward, true) == work.head_parameters());
  CHECK(announced(backward, true) == work.head_expert_parameters());
}

TEST_CASE("mtp: with a pipeline the last stage has its own embedding table", "[graph][mtp]") {
  Model model = llama(4, 4096, 11008, 32, 32, 32000);
  model.mtp_layers = 1;
  Parallel parallel;
  const std::int64_t one_stage =
      LayerWork(model, value_of(make_plan(model, parallel, training_of(), 1))).head_parameters();
  parallel.pp = 2;
  const Plan plan = value_of(make_plan(model, parallel, training_of(), 2));
  CHECK(LayerWork(model, plan).head_parameters() == one_stage + 32000LL * 4096);
}

// Source: docs/references.md#prediction-gathers
TEST_CASE("mtp: tensor ranks gather the width after the projection, and gradients of tokens before its backward",
          "[oracle][graph][mtp]") {
  Model model = llama(4, 4096, 11008, 32, 32, 32000);
  model.mtp_layers = 1;
  const auto gathers_of = [](const Model& of, bool sequence_parallel, bool backward) {
    const Parallel parallel{.tp = 8, .sequence_parallel = sequence_parallel, .tp_comm_overlap = sequence_parallel};
    const Plan plan = value_of(make_plan(of, parallel, training_of(), 8));
    const LayerWork head(of, plan);
    const WorkList list = backward ? head.head_backward(BackwardPart::all) : head.head_forward();
    CHECK(calls_of(list)[Collective::all_to_all] == 0);
    int untiled = 0;
    for (const Work& work : list)
      if (is_collective(work) && work.untiled)
        untiled += work.call == CollectiveCall{Collective::all_gather, Bytes{4096 * 4096 * 2}} ? 1 : 0;
    return untiled;
  };
  Model without = model;
  without.mtp_layers = 0;
  const auto gathers = [&](bool sequence_parallel, bool backward) {
    return gathers_of(model, sequence_parallel, backward) - gathers_of(without, sequence_parallel, backward);
  };
  CHECK(gathers(false, false) == 1);
  CHECK(gathers(false, true) == 0);
  CHECK(gathers(true, false) == 1);
  CHECK(gathers(true, true) == 1);
}

TEST_CASE("encoder-decoder: cross-attention in the decoder, no causal mask in the encoder",
          "[oracle][graph][encoder]") {
  Model model = gpt(6, 512, 8, 32000, 128);
  model.encoder_layers = 6;
  model.ffn_hidden_size = 512;
  const Plan plan = value_of(make_plan(model, {}, training_of(128), 1));
  const LayerWork work(model, plan);
  const WorkList encoder = work.forward(0);
  const WorkList decoder = work.forward(7);
  const auto attentions = [](const WorkList& list) {
    std::vector<bool> causal;
    for (const Work& each : list)
      if (each.kind == Work::Kind::compute && each.op.kind == OperatorKind::attention)
        causal.push_back(std::get<AttentionShape>(each.op.shape).causal);
    return causal;
  };
  CHECK(attentions(encoder) == std::vector<bool>{false});
  CHECK(attentions(decoder) == std::vector<bool>{true, false});
  // Query and output projection of h x h, keys and values of h x 2h: 2 T 4 h h more.
  CHECK(matrix_flops(decoder, Pass::forward) - matrix_flops(encoder, Pass::forward) == 2.0 * 128 * 4 * 512 * 512);
  CHECK(announced(work.backward(7, BackwardPart::all, false)) == work.layer_parameters(7));
  CHECK(operators(work.forward(6), "embedding") == 1);
  CHECK(announced(work.backward(6, BackwardPart::all, false)) == work.layer_parameters(6));
  CHECK(operators(work.backward(6, BackwardPart::all, false), "embedding") == 1);
  Training adapters = training_of(128);
  adapters.lora_rank = 8;
  const Plan frozen = value_of(make_plan(model, {}, adapters, 1));  // its embedding has no gradient
  CHECK(operators(LayerWork(model, frozen).backward(6, BackwardPart::all, false), "embedding") == 0);
  CHECK(work.kind(0) != work.kind(6));
  CHECK(work.kind(6) != work.kind(7));
  // The model's FLOPs are those of its operators.
  double forward = matrix_flops(work.head_forward(), Pass::forward);
  for (int layer = 0; layer < model.layers(); ++layer)
    for (const Work& each : work.forward(layer))
      if (each.kind == Work::Kind::compute) forward += flops(each.op).count;
  CHECK(3 * forward == Approx(128 * model_flops_per_token(model, 128, FlopsConvention::model_causal)).epsilon(1e-9));
}

TEST_CASE("encoder-decoder: a pipeline is an error", "[error][plan][encoder]") {
  Model model = gpt(6, 512, 8, 32000, 128);
  model.encoder_layers = 6;
  Parallel parallel{.pp = 2};
  const auto plan = make_plan(model, parallel, training_of(128), 2);
  REQUIRE(!plan);
  CHECK(to_string(plan.error()) == "parallel.pp = 2: cuts an encoder-decoder model into stages (allowed: 1)");
}
