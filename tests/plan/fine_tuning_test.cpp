#include "sim/plan/fine_tuning.hpp"

#include <catch2/catch.hpp>

#include "sim/plan/activations.hpp"
#include "sim/plan/memory.hpp"
#include "sim/plan/rank_parameters.hpp"
#include "tests/plan/memory_fixtures.hpp"
#include "tests/support/models.hpp"
#include "tests/support/results.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

Model llama_2_70b() { return llama(80, 8192, 28672, 64, 8, 32000); }

Training training_of() { return {.seq_length = 4096, .global_batch_size = 8}; }

/// Rank 16 beside the attention's matrices, as MLPerf's fine-tuning of Llama 2 70B has it.
Training attention_lora(int rank) {
  Training training = training_of();
  training.lora_rank = rank;
  training.lora_targets = {"qkv", "proj"};
  return training;
}

std::string mistakes(const Model& model, const Training& training) {
  return error_text(make_plan(model, Parallel{}, training, 1));
}

MemoryByKind memory_of(const Model& model, const Training& training, int zero_stage, int ranks) {
  const Parallel parallel{.zero_stage = zero_stage};
  return peak(model, value_of(make_plan(model, parallel, training, ranks)));
}

}  // namespace

TEST_CASE("lora: adapters of rank 16 beside attention in Llama 2 70B", "[oracle][plan][lora]") {
  const Model model = llama_2_70b();
  // Per layer r (h + (a + 2k) d) + r (a d + h) = 16 (8192 + 10240 + 8192 + 8192).
  CHECK(adapter_parameters(model, attention_lora(16)) == 80LL * 16 * (8192 + 10240 + 8192 + 8192));
  CHECK(trainable_parameters(model, attention_lora(16)) == 44'564'480);
  // A of qkv is on each of 8 tensor ranks, B divided; of proj A is divided, B on each.
  CHECK(adapter_parameters(model, attention_lora(16), 0, 8) == 16 * (8192 + 1280 + 1024 + 8192));
  Training all = attention_lora(16);
  all.lora_targets = {};
  CHECK(adapter_parameters(model, all, 0, 1) - adapter_parameters(model, attention_lora(16), 0, 1) ==
        16 * ((8192 + 2 * 28672) + (28672 + 8192)));
}

TEST_CASE("lora: only adapters have gradients and optimizer states", "[oracle][plan][lora]") {
  const Model model = llama_2_70b();
  const std::int64_t base = 68'976'648'192;
  const std::int64_t adapters = 44'564'480;
  const MemoryByKind memory = memory_of(model, attention_lora(16), 0, 1);
  CHECK(memory.weights == Bytes{2 * (base + adapters)});
  CHECK(memory.gradients == Bytes{4 * adapters});
  CHECK(memory.optimizer == Bytes{12 * adapters});
  const MemoryByKind sharded = memory_of(model, attention_lora(16), 3, 8);
  CHECK(sharded.weights == Bytes{2 * base} / 8 + Bytes{4 * adapters} / 8);
  CHECK(sharded.optimizer == Bytes{8 * adapters} / 8);
}

TEST_CASE("lora: a frozen matrix keeps its input only for an adapter", "[oracle][plan][lora]") {
  const Model model = llama_2_70b();
  const auto bytes = [&](std::vector<std::string> targets) {
    Training training = training_of();
    training.recompute = Recompute::none;
    training.lora_rank = 16;
    training.lora_targets = std::move(targets);
    const Plan plan = value_of(make_plan(model, Parallel{}, training, 1));
    const TokenBytes all = layer_activations(model, plan, 0, Recompute::none);
    return all.split + all.whole + all.local;
  };
  const double adapter = 2 * 16;
  const double all = bytes({}) - 4 * adapter;
  CHECK(bytes({"qkv", "proj", "fc1"}) - 3 * adapter == all - 2 * 28672);
  CHECK(bytes({"qkv", "proj"}) - 2 * adapter == all - 2 * 28672 - 2 * 8192);
  CHECK(bytes({"proj"}) - adapter == all - 2 * 28672 - 4 * 8192);
  CHECK(bytes({"qkv"}) == bytes({"qkv", "proj"}) - adapter);  // attention's own backward reads its result
}

TEST_CASE("frozen layers change gradients and optimizer memory, not weights", "[row-2-9][requirements][plan][lora]") {
  const Model model = llama(32, 4096, 11008, 32, 32, 32000);
  Training training = training_of();
  const MemoryByKind all = memory_of(model, training, 1, 8);
  training.frozen_fraction = 0.5;
  const MemoryByKind half = memory_of(model, training, 1, 8);
  const std::int64_t layer = layer_parameters(model, 0);
  const std::int64_t trained = 6'738'415'616 - 16 * layer - 32000LL * 4096;
  CHECK(trainable_parameters(model, training) == trained);
  CHECK(half.weights == all.weights);
  CHECK(half.gradients == Bytes{4 * trained});
  CHECK(half.optimizer == Bytes{12 * trained} / 8);
  CHECK(half.activations < all.activations);  // nothing is kept below the first trained layer
}

TEST_CASE("frozen parameters save weight gradients: 4N in place of 6N",
          "[row-2-12][requirements][oracle][plan][lora]") {
  const Model model = llama_2_70b();
  const Training full = training_of();
  CHECK(training_flops_per_token(model, full, FlopsConvention::model_causal) ==
        model_flops_per_token(model, 4096, FlopsConvention::model_causal));
  const Training lora = attention_lora(16);
  const double matrices = 68'976'648'192.0 - 32000.0 * 8192 - 161.0 * 8192;  // no table, no norms
  Training masked = full;  // logits of labelled positions only, three times 2 h V each
  masked.loss_mask_fraction = 0.25;
  CHECK(model_flops_per_token(model, 4096, FlopsConvention::model_causal) -
            training_flops_per_token(model, masked, FlopsConvention::model_causal) ==
        Approx(0.75 * 6 * static_cast<double>(model.hidden_size * model.vocab_size)));

  const double saved = model_flops_per_token(model, 4096, FlopsConvention::model_causal) -
                       training_flops_per_token(model, lora, FlopsConvention::model_causal);
  CHECK(saved == Approx(2 * matrices - 6.0 * 44'564'480).epsilon(1e-12));
  // A frozen first half has neither weight nor input gradients there.
  Training half = training_of();
  half.frozen_fraction = 0.5;
  const LayerFlops layer = layer_forward_flops(model, 0, 4096, FlopsConvention::model_causal);
  CHECK(model_flops_per_token(model, 4096, FlopsConvention::model_causal) -
            training_flops_per_token(model, half, FlopsConvention::model_causal) ==
        Approx(40 * 2 * (layer.linear + layer.attention)));
}

TEST_CASE("lora: a prediction layer with experts saves the weight gradients of those that a token chooses",
          "[oracle][plan][lora][mtp]") {
  Model model = deepseek_v3();
  Training training = attention_lora(16);
  const auto flops = [&](int layers) {
    model.mtp_layers = layers;
    return training_flops_per_token(model, training, FlopsConvention::model_causal);
  };
  const double without = flops(0);
  // Twice the forward, and the weight gradient of no matrix: prediction layer and output layer.
  model.mtp_layers = 1;
  const LayerFlops layer = prediction_forward_flops(model, 4096, FlopsConvention::model_causal);
  const double adapters = 6 * static_cast<double>(adapter_parameters(model, training, 61, 1));
  CHECK(flops(1) - without == Approx(2 * layer.linear + 3 * layer.attention + 4.0 * 7168 * 129280 + adapters));
}

TEST_CASE("lora: the query projection of a gated attention is twice as wide", "[oracle][plan][lora]") {
  Model model = llama(1, 2048, 8192, 16, 2, 32768);
  model.head_dim = 256;
  Training training = training_of();
  training.lora_rank = 256;
  training.lora_targets = {"qkv"};
  CHECK(adapter_parameters(model, training) == 256LL * (2048 + (16 + 4) * 256));
  model.attention_output_gate = true;
  CHECK(adapter_parameters(model, training) == 256LL * (2048 + (2 * 16 + 4) * 256));
}

TEST_CASE("frozen layers: a tied output layer is frozen with the embedding", "[oracle][plan][lora]") {
  Model model = llama(16, 2048, 8192, 32, 8, 128256);
  Training training = training_of();
  training.frozen_fraction = 0.5;
  const auto flops = [&] { return training_flops_per_token(model, training, FlopsConvention::model_causal); };
  const std::int64_t table = 128256LL * 2048;
  const auto gradients = [&](int stages) {
    const Plan plan = value_of(make_plan(model, {.pp = stages}, training, stages));
    std::int64_t sum = 0;
    for (int stage = 0; stage < stages; ++stage)
      for (const RankParameters& unit :
           stage_units(model, plan, plan.stages[static_cast<std::size_t>(stage)], stages == 1))
        sum += unit.trained;
    return sum;
  };
  const double untied = flops();
  const std::int64_t layers = gradients(1) - table;  // and the untied output layer
  CHECK(gradients(2) == layers + table);
  model.tied_embeddings = true;
  CHECK(untied - flops() == Approx(2 * static_cast<double>(table)));
  CHECK(gradients(1) == layers);
  CHECK(gradients(2) == layers);  // the last stage's copy of the table is not trained
  CHECK(trainable_parameters(model, training) == layers);
  training.frozen_fraction = 0;
  CHECK(trains_output(model, training));
}

TEST_CASE("lora: no weight gradient of a frozen output layer waits", "[oracle][plan][lora]") {
  const Model model = llama(32, 4096, 14336, 32, 8, 128256);
  const auto of_head = [&](const Training& training) {
    const Plan plan = value_of(make_plan(model, {.pp = 8}, training, 8));
    Stage last = plan.stages[7];
    const Bytes whole = weight_gradient_bytes(model, plan, last);
    last.head = false;
    return whole - weight_gradient_bytes(model, plan, last);
  };
  CHECK(of_head(training_of()) == Bytes{4096LL * 2 * (128256 + 4096)});
  CHECK(of_head(attention_lora(16)) == Bytes{});
}

TEST_CASE("lora: settings that mean nothing", "[error][plan][lora]") {
  const Model model = llama(32, 4096, 11008, 32, 32, 32000);
  Training training = training_of();
  training.lora_rank = 5000;
  training.lora_targets = {"qkv", "router"};
  training.frozen_fraction = 1;
  CHECK(mistakes(model, training) ==
        "training.lora_targets = router: is unknown (allowed: qkv proj fc1 fc2)\n"
        "training.lora_rank = 5000: must be at most 4096\n"
        "training.frozen_fraction = 1: must be at least 0 and below 1");
}
