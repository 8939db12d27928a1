#include "sim/plan/plan.hpp"

#include <catch2/catch.hpp>

#include "tests/support/models.hpp"
#include "tests/support/results.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

Training training(std::int64_t seq_length, std::int64_t global_batch) {
  return {.seq_length = seq_length, .global_batch_size = global_batch};
}

/// Llama 3.1 405B on 16,384 GPUs as published.
Parallel llama_16k() {
  Parallel parallel{.tp = 8, .pp = 16, .sequence_parallel = true};
  parallel.account_for_embedding = parallel.account_for_loss = true;
  return parallel;
}

std::string message(const Model& model, const Parallel& parallel, const Training& settings, int world_size) {
  return error_text(make_plan(model, parallel, settings, world_size));
}

/// Of eight data-parallel ranks.
std::string sharding_message(const Parallel& parallel) { return message(llama3_8b(), parallel, training(2048, 64), 8); }

std::vector<int> layers(const Plan& plan) {
  std::vector<int> counts;
  for (const Stage& stage : plan.stages) counts.push_back(stage.num_layers);
  return counts;
}

std::string cut_message(const Model& model, const Parallel& parallel) {
  return message(model, parallel, training(2048, 64), parallel.tp * parallel.pp);
}

}  // namespace

TEST_CASE("Llama 3.1 405B on 16,384 GPUs: dp, micro-batches and stages follow", "[oracle][plan]") {
  const auto plan = make_plan(llama3_405b(), llama_16k(), training(8192, 2048), 16384);
  REQUIRE(plan);
  CHECK(plan->parallel.dp == 128);
  CHECK(plan->parallel.etp == 8);
  CHECK(plan->parallel.pp_schedule == "1f1b");
  CHECK(plan->num_microbatches == 16);
  CHECK(plan->tokens() == 8192);
  CHECK(plan->gradient_group() == 128);
  CHECK(plan->shard_group() == 128);
  CHECK(plan->grid.ranks() == 16384);
  // 126 layers + embedding + loss = 128 items, 8 per stage.
  std::vector<int> expected(16, 8);
  expected.front() = expected.back() = 7;
  CHECK(layers(*plan) == expected);
  CHECK(plan->stages.front() == Stage{0, 7, true, false});
  CHECK(plan->stages[1] == Stage{7, 8, false, false});
  CHECK(plan->stages.back() == Stage{119, 7, false, true});
}

TEST_CASE("context parallelism shortens micro-batches and widens the gradient group", "[oracle][plan]") {
  Parallel parallel = llama_16k();
  parallel.cp = 16;
  parallel.shard_group = 32;
  parallel.zero_stage = 1;
  const auto plan = make_plan(llama3_405b(), parallel, training(131072, 128), 16384);
  REQUIRE(plan);
  CHECK(plan->parallel.dp == 8);
  CHECK(plan->tokens() == 8192);
  CHECK(plan->gradient_group() == 128);
  CHECK(plan->shard_group() == 32);
}

TEST_CASE("LLM-jp's 175B layout of 392 GPUs multiplies to 196", "[error][plan]") {
  const Model model = gpt(96, 12288, 96, 51200, 2048);
  Parallel parallel{.tp = 2, .pp = 49, .dp = 2};
  parallel.account_for_embedding = parallel.account_for_loss = true;
  const Training settings = training(2048, 1536);
  CHECK(message(model, parallel, settings, 392) ==
        "parallel.dp = 2: tp 2 x cp 1 x pp 49 x dp 2 make 196 ranks, not the 392 of the cluster (needed here: dp 4)");
  parallel.tp = 4;
  CHECK(message(model, parallel, settings, 392) == "");
  parallel.tp = 2;
  parallel.dp = 4;
  const auto plan = make_plan(model, parallel, settings, 392);
  REQUIRE(plan);
  // 96 layers + embedding + head = 98 items over 49 stages.
  CHECK(layers(*plan)[0] == 1);
  CHECK(layers(*plan)[1] == 2);
  CHECK(layers(*plan)[48] == 1);
  parallel.dp = 3;
  CHECK(message(model, parallel, settings, 391) ==
        "parallel.dp = 3: tp 2 x cp 1 x pp 49 x dp 3 make 294 ranks, not the 391 of the cluster "
        "(no dp fits: 391 is not a multiple of 98)");
  parallel.dp = 0;
  CHECK(message(model, parallel, settings, 391) ==
        "parallel: tp 2 x cp 1 x pp 49 = 98 ranks do not divide the 391 of the cluster (allowed: a multiple of 98)");
}

TEST_CASE("stages: even, interleaved, counted ends, laid out by hand", "[oracle][plan]") {
  Parallel parallel{.pp = 4};
  const Training settings = training(2048, 64);
  const auto even = make_plan(llama3_8b(), parallel, settings, 4);
  REQUIRE(even);
  CHECK(layers(*even) == std::vector<int>{8, 8, 8, 8});

  parallel.vpp = 4;
  const auto interleaved = make_plan(llama3_8b(), parallel, settings, 4);
  REQUIRE(interleaved);
  CHECK(layers(*interleaved) == std::vector<int>(16, 2));
  CHECK(interleaved->parallel.pp_schedule == "interleaved-1f1b");
  CHECK(interleaved->stages[5] == Stage{10, 2, false, false});

  parallel.vpp = 1;
  parallel.pp_layout = {9, 9, 9, 5};
  const auto by_hand = make_plan(llama3_8b(), parallel, settings, 4);
  REQUIRE(by_hand);
  CHECK(layers(*by_hand) == parallel.pp_layout);
  CHECK(by_hand->stages[3] == Stage{27, 5, false, true});

  // torchtitan: 32 + 2 items over 8 stages are 4 each and two more at the front; the ends carry one layer less.
  parallel.pp_layout.clear();
  parallel.pp = 8;
  parallel.account_for_embedding = parallel.account_for_loss = true;
  const auto uneven = make_plan(llama3_8b(), parallel, settings, 8);
  REQUIRE(uneven);
  CHECK(layers(*uneven) == std::vector<int>{4, 5, 4, 4, 4, 4, 4, 3});

  const auto whole = make_plan(llama3_8b(), Parallel{}, settings, 1);
  REQUIRE(whole);
  CHECK(whole->stages == std::vector<Stage>{{0, 32, true, true}});
}

TEST_CASE("stages that cannot be cut are refused", "[error][plan]") {
  const Model model = llama3_8b();
  Parallel parallel{.pp = 5};
  CHECK(cut_message(model, parallel) ==
        "parallel.pp = 5: does not divide model.num_layers = 32 (allowed: 1 2 4 8 16 32; or give parallel.pp_layout, "
        "or set account_for_embedding and account_for_loss)");
  parallel.account_for_loss = true;
  CHECK(cut_message(model, parallel) ==
        "parallel.pp = 5: does not divide model.num_layers + loss = 33 (allowed: 1 3 11 33; or give "
        "parallel.pp_layout, or set account_for_embedding and account_for_loss)");
  parallel = Parallel{};
  parallel.pp = 8;
  parallel.vpp = 3;
  CHECK(cut_message(model, parallel) ==
        "parallel.vpp = 3: does not divide the 4 layers of a pipeline rank, model.num_layers = 32 / pp 8 "
        "(allowed: 1 2 4; or give parallel.pp_layout, or set account_for_embedding and account_for_loss)");
  Model odd = model;
  odd.num_layers = 24;
  parallel.vpp = 2;
  CHECK(cut_message(odd, parallel) ==
        "parallel.vpp = 2: does not divide the 3 layers of a pipeline rank, model.num_layers = 24 / pp 8 "
        "(allowed: 1 3; or give parallel.pp_layout, or set account_for_embedding and account_for_loss)");
  parallel.pp = 64;
  parallel.vpp = 1;
  CHECK(cut_message(model, parallel) ==
        "parallel.pp: pp x vpp = 64 virtual stages are more than model.num_layers = 32 can fill (at most 32)");
  parallel.pp = 4;
  parallel.pp_layout = {8, 8, 8};
  CHECK(cut_message(model, parallel) ==
        "parallel.pp_layout = [8, 8, 8]: has 3 entries, not one for each of the pp x vpp = 4 virtual stages");
  parallel.pp_layout = {8, 8, 8, 9};
  CHECK(cut_message(model, parallel) ==
        "parallel.pp_layout = [8, 8, 8, 9]: sums to 33 layers, not model.num_layers = 32");
  parallel.pp_layout = {16, 0, 16, 0};
  CHECK(cut_message(model, parallel) == "");  // as Megatron's layouts with a stage for the prediction layer
  parallel.pp_layout = {16, -1, 17, 0};
  CHECK(cut_message(model, parallel) ==
        "parallel.pp_layout = [16, -1, 17, 0]: gives -1 layers to virtual stage 1 (allowed: at least 0)");
  parallel.pp_layout = {0, 16, 16, 0};
  CHECK(cut_message(model, parallel) == "");
}

TEST_CASE("degrees that do not fit the model are refused", "[error][plan]") {
  const Training settings = training(8192, 2048);
  Parallel parallel = llama_16k();
  parallel.tp = 12;
  CHECK(message(llama3_405b(), parallel, settings, 12 * 16 * 64) ==
        "parallel.tp = 12: does not divide model.num_attention_heads = 128 (allowed: 1 2 4 8 16 32 64 128)\n"
        "parallel.tp = 12: is neither a divisor nor a multiple of model.num_query_groups = 8\n"
        "parallel.tp = 12: does not divide model.hidden_size = 16384 (allowed: 1 2 4 8 16 32 64 128 256 512 1024 2048 "
        "4096 8192 16384)\n"
        "parallel.tp = 12: does not divide model.ffn_hidden_size = 53248 (allowed: 1 2 4 8 13 16 26 32 52 64 104 128 "
        "208 256 416 512 832 1024 1664 2048 3328 4096 6656 13312 26624 53248)\n"
        "training.seq_length = 8192: is not a multiple of cp 1 x tp 12, as sequence parallelism needs");
  // More ranks than key/value heads: heads are replicated.
  parallel = llama_16k();
  parallel.tp = 16;
  CHECK(message(llama3_405b(), parallel, settings, 16384) == "");

  parallel = Parallel{};
  parallel.tp = 2;
  CHECK(message(gpt(12, 768, 12, 50257, 1024), parallel, training(1024, 8), 2) ==
        "parallel.tp = 2: does not divide model.vocab_size = 50257 (allowed: 1 29 1733 50257; or pad the vocabulary "
        "to 50432)");
  parallel = Parallel{};
  parallel.sequence_parallel = true;
  CHECK(message(llama3_8b(), parallel, training(1024, 8), 1) ==
        "parallel.sequence_parallel = true: needs tensor parallelism (parallel.tp above 1)");
  parallel = Parallel{};
  parallel.vpp = 2;
  CHECK(message(llama3_8b(), parallel, training(1024, 8), 1) ==
        "parallel.vpp = 2: needs a pipeline (parallel.pp above 1)");
  parallel = Parallel{};
  parallel.tp = 0;
  parallel.pp = -1;
  parallel.dp = 2'000'000;
  CHECK(message(llama3_8b(), parallel, training(1024, 8), 1) ==
        "parallel.tp = 0: must be at least 1\nparallel.pp = -1: must be at least 1\n"
        "parallel.dp = 2000000: must be at most 1048576");
}

TEST_CASE("expert parallelism: E divides the experts, E t_e divides t C D", "[error][plan]") {
  const Training settings = training(4096, 256);
  Parallel parallel{.ep = 8};
  CHECK(message(mixtral_8x7b(), parallel, settings, 64) == "");
  CHECK(message(llama3_8b(), parallel, settings, 64) == "parallel.ep = 8: needs a model with experts (allowed: 1)");
  parallel.ep = 1;
  parallel.etp = 64;
  CHECK(message(llama3_8b(), parallel, settings, 64) ==
        "parallel.etp = 64: needs a model with experts (allowed: 1, or as parallel.tp)");
  parallel.etp = 0;
  parallel.ep = 3;
  CHECK(message(mixtral_8x7b(), parallel, settings, 64) ==
        "parallel.ep = 3: does not divide model.moe.experts = 8 (allowed: 1 2 4 8)\n"
        "parallel.ep = 3: ep 3 x etp 1 = 3 does not divide tp x cp x dp = 64 (allowed products: 1 2 4 8 16 32 64)");
  // With the experts' own tensor degree one expert may be spread wider or narrower than the attention.
  parallel = Parallel{};
  parallel.tp = 4;
  parallel.sequence_parallel = true;
  parallel.ep = 8;
  parallel.dp = 2;
  CHECK(message(mixtral_8x7b(), parallel, settings, 8) ==
        "parallel.ep = 8: ep 8 x etp 4 = 32 does not divide tp x cp x dp = 8 (allowed products: 1 2 4 8)");
  parallel.etp = 1;
  CHECK(message(mixtral_8x7b(), parallel, settings, 8) == "");
  parallel.etp = 3;
  parallel.ep = 1;
  parallel.dp = 3;
  parallel.cp = 1;
  CHECK(message(mixtral_8x7b(), parallel, training(4096, 255), 12) ==
        "parallel.etp = 3: does not divide model.moe.ffn_hidden = 14336 (allowed: 1 2 4 7 8 14 16 28 32 56 64 112 128 "
        "224 256 448 512 896 1024 1792 2048 3584 7168 14336)");
}

TEST_CASE("expert parallelism: a copy of the model has all experts, and ep stands between tp and dp", "[error][plan]") {
  const Training settings = training(4096, 256);
  Parallel parallel{.ep = 8, .zero_stage = 3, .shard_group = 4};
  CHECK(message(mixtral_8x7b(), parallel, settings, 64) ==
        "parallel.shard_group = 4: gives a copy of the model tp 1 x shard_group 4 = 4 ranks, not a multiple of the ep "
        "8 x etp 1 = 8 "
        "that hold all experts");
  parallel.shard_group = 16;
  CHECK(message(mixtral_8x7b(), parallel, settings, 64) == "");
  parallel = {.ep = 8, .rank_order = "tp-cp-dp-ep-pp"};
  CHECK(message(mixtral_8x7b(), parallel, settings, 64) ==
        "parallel.rank_order = tp-cp-dp-ep-pp: puts ep behind dp (allowed: ep behind tp and before dp)");
  CHECK(message(mixtral_8x7b(), parallel, settings, 8) == "");  // each expert is on one rank
  parallel.ep = 1;
  CHECK(message(mixtral_8x7b(), parallel, settings, 64) == "");
  parallel = {.ep = 4, .etp = 2, .rank_order = "ep-tp-cp-dp-pp"};
  CHECK(message(mixtral_8x7b(), parallel, settings, 64) ==
        "parallel.rank_order = ep-tp-cp-dp-pp: puts ep before tp (allowed: ep behind tp and before dp)");
  parallel.etp = 1;
  CHECK(message(mixtral_8x7b(), parallel, settings, 64) == "");
  parallel = {.ep = 4, .etp = 2, .rank_order = "ep-dp-pp"};  // one tensor rank need not be named
  CHECK(message(mixtral_8x7b(), parallel, settings, 64) == "");
}

TEST_CASE("FSDP's names are checked against the keys beside them", "[error][plan]") {
  Parallel parallel{.zero_stage = 2, .sharding_strategy = ShardingStrategy::full_shard};
  CHECK(sharding_message(parallel) ==
        "parallel.zero_stage = 2: contradicts parallel.sharding_strategy = FULL_SHARD (allowed: 3)");
  parallel.zero_stage = 3;
  parallel.shard_group = 4;
  CHECK(sharding_message(parallel) ==
        "parallel.shard_group = 4: contradicts parallel.sharding_strategy = FULL_SHARD (allowed: 0; or HYBRID_SHARD)");
  parallel.shard_group = 0;
  parallel.reshard_after_forward = false;
  CHECK(sharding_message(parallel) ==
        "parallel.reshard_after_forward = false: contradicts parallel.sharding_strategy = FULL_SHARD (SHARD_GRAD_OP "
        "keeps the parameters)");
  parallel.reshard_after_forward = true;
  parallel.sharding_strategy = ShardingStrategy::hybrid_shard;
  CHECK(sharding_message(parallel) ==
        "parallel.sharding_strategy = HYBRID_SHARD: needs parallel.shard_group, the ranks that share one copy (as a "
        "rule a node's)");
  parallel.sharding_strategy = ShardingStrategy::shard_grad_op;
  parallel.reshard_group = 2;
  CHECK(sharding_message(parallel) ==
        "parallel.reshard_after_forward = 2: contradicts parallel.sharding_strategy = SHARD_GRAD_OP, which does not "
        "reshard");
  parallel.sharding_strategy = ShardingStrategy::by_zero_stage;
  for (const int group : {1, 3, 8, 16}) {
    parallel.reshard_group = group;
    CHECK(sharding_message(parallel) == "parallel.reshard_after_forward = " + std::to_string(group) +
                                            ": must be a smaller group of the 8 ranks that share a copy (allowed: "
                                            "true, false, or a divisor of 8 between "
                                            "2 and 4)");
  }
  parallel.reshard_group = 4;
  CHECK(sharding_message(parallel) == "");
  parallel.zero_stage = 2;
  CHECK(sharding_message(parallel) == "parallel.reshard_after_forward = 4: needs parallel.zero_stage 3");
}

TEST_CASE("sharding, batches, context and positions are checked", "[error][plan]") {
  Parallel parallel{.zero_stage = 4};
  CHECK(message(llama3_8b(), parallel, training(1024, 8), 8) ==
        "parallel.zero_stage = 4: is unknown (allowed: 0 1 2 3)");
  parallel.zero_stage = 3;
  parallel.shard_group = 3;
  CHECK(message(llama3_8b(), parallel, training(1024, 8), 8) ==
        "parallel.shard_group = 3: does not divide dp x cp = 8 (allowed: 1 2 4 8)");
  parallel.zero_stage = 0;
  parallel.shard_group = 4;
  CHECK(message(llama3_8b(), parallel, training(1024, 8), 8) ==
        "parallel.shard_group = 4: needs parallel.zero_stage 1, 2 or 3");

  CHECK(message(llama3_8b(), Parallel{}, training(1024, 100), 64) ==
        "training.global_batch_size = 100: is not a multiple of micro_batch_size 1 x dp 64 = 64 (nearest: 64 or 128)");
  CHECK(message(llama3_8b(), Parallel{}, training(1024, 10), 64) ==
        "training.global_batch_size = 10: is not a multiple of micro_batch_size 1 x dp 64 = 64 (nearest: 64)");
  CHECK(
      message(llama3_8b(), Parallel{}, training(4096, 128 << 20), 64) ==
      "training.global_batch_size = 134217728: is 2097152 micro-batches on 1 stages (allowed: at most 1048576 of both "
      "multiplied)");

  parallel = Parallel{};
  parallel.cp = 8;
  CHECK(message(llama3_8b(), parallel, training(1000, 8), 8) ==
        "training.seq_length = 1000: is not a multiple of 2 cp = 16");
  parallel.cp_comm_type = ContextExchange::all_gather;
  CHECK(message(llama3_8b(), parallel, training(1000, 8), 8) == "");
  CHECK(message(llama3_8b(), parallel, training(1001, 8), 8) ==
        "training.seq_length = 1001: is not a multiple of cp = 8");
  parallel.cp_comm_type = ContextExchange::a2a;
  parallel.tp = 8;
  CHECK(message(llama3_8b(), parallel, training(1024, 8), 64) ==
        "parallel.cp = 8: does not divide the 4 heads of a tensor-parallel rank, as a2a needs (allowed: 1 2 4)");

  CHECK(message(gpt(12, 768, 12, 50257, 1024), Parallel{}, training(2048, 8), 1) ==
        "training.seq_length = 2048: is longer than model.max_position_embeddings = 1024");

  parallel = Parallel{};
  parallel.rank_order = "tp-dp";
  parallel.pp = 2;
  CHECK(message(llama3_8b(), parallel, training(1024, 8), 2) ==
        "parallel.rank_order = tp-dp: leaves out pp, which has 2 ranks");
}

TEST_CASE("training settings are checked", "[error][plan]") {
  Training settings = training(0, 0);
  settings.micro_batch_size = 0;
  settings.loss_mask_fraction = 0;
  settings.recompute_num_layers = -1;
  CHECK(message(llama3_8b(), Parallel{}, settings, 1) ==
        "training.seq_length = 0: must be at least 1\n"
        "training.micro_batch_size = 0: must be at least 1\n"
        "training.global_batch_size = 0: must be at least 1\n"
        "training.recompute_num_layers = -1: must be at least 0\n"
        "training.loss_mask_fraction = 0: must be above 0 and at most 1");
  settings = training(131072, 4096);
  settings.micro_batch_size = 4096;
  CHECK(message(llama3_8b(), Parallel{}, settings, 1) ==
        "training.micro_batch_size = 4096: makes micro-batches of more than 268435456 tokens");
}

TEST_CASE("tp_split, low_precision_activations: incompatible settings are reported", "[plan][error]") {
  Training settings = training(1024, 8);
  Parallel parallel{.tp = 2, .tp_split = TensorSplit::gather};
  CHECK(message(llama3_8b(), parallel, settings, 2) == "");
  CHECK(message(mixtral_8x7b(), parallel, settings, 2) ==
        "parallel.tp_split = gather: is not for models with experts (allowed: column_row)");
  settings.recompute = Recompute::selective_op;
  CHECK(message(llama3_8b(), parallel, settings, 2) ==
        "parallel.tp_split = gather: has no op-level recomputation (allowed: column_row)");
  settings.flash_attention = false;
  CHECK(message(llama3_8b(), Parallel{}, settings, 1) ==
        "training.recompute = selective_op: keeps the result of fused attention (needs flash_attention)");
  settings.flash_attention = true;
  settings.recompute = Recompute::none;
  parallel.sequence_parallel = true;
  CHECK(message(llama3_8b(), parallel, settings, 2) ==
        "parallel.tp_split = gather: gathers whole results, which sequence_parallel divides (allowed: column_row)");
  parallel.tp_split = TensorSplit::column_row;
  settings.low_precision_activations = {"linear_inputs"};
  CHECK(message(llama3_8b(), parallel, settings, 2) ==
        "training.low_precision_activations = linear_inputs: needs an 8- or 4-bit training.dtype, not bf16");
  settings.dtype = Precision::fp8;
  CHECK(message(llama3_8b(), parallel, settings, 2) == "");
  settings.low_precision_activations = {"outputs"};
  CHECK(message(llama3_8b(), parallel, settings, 2) ==
        "training.low_precision_activations = outputs: is unknown (allowed: linear_inputs attention_output "
        "activation_inputs)");
}
