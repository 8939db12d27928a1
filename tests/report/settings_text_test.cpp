#include "sim/report/settings_text.hpp"

#include <algorithm>

#include <catch2/catch.hpp>

#include "tests/support/shipped.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;

TEST_CASE("settings text: precision names the tensors in higher precision", "[report][precision]") {
  Model model;
  Training training;
  CHECK(precision_text(model, training) == "precision: linear layers bf16; gradients fp32, optimizer states fp32");
  training.dtype = Precision::fp8;
  training.row_scales = true;
  CHECK(precision_text(model, training).starts_with("precision: linear layers fp8 with a scale for each row; "));
  training.row_scales = false;
  CHECK(precision_text(model, training).starts_with("precision: linear layers fp8 with delayed scales; "));
  training.dtype = Precision::fp8_block;
  training.bf16_modules = {"attention"};
  training.bf16_layers_end = 2;
  training.optimizer_state_dtype = Precision::bf16;
  model.moe.emplace();
  CHECK(
      precision_text(model, training) ==
      "precision: linear layers fp8_block but those of attention, the last 2 layers (bf16); embedding, router, output "
      "layer, norms and attention bf16; quantised copies beside 16-bit weights; gradients fp32, optimizer states bf16");
}

TEST_CASE("settings text: attention and its kernel", "[report]") {
  Scenario scenario;
  scenario.profile.name = "b200";
  scenario.profile.attention.resize(2);
  scenario.profile.attention[0].kernel = "cudnn";
  scenario.profile.attention[1].kernel = "fa2";
  CHECK(attention_text(scenario) == "attention: fused, kernel cudnn");
  scenario.locations["training.attention_kernel"].value = "fa3";  // given way to the first
  CHECK(attention_text(scenario) ==
        "attention: fused, kernel cudnn; the scenario asks for fa3, which is not known on b200");
  scenario.locations["training.attention_kernel"].value = R"("")";  // asks for none
  CHECK(attention_text(scenario) == "attention: fused, kernel cudnn");
  scenario.training.attention_kernel = "fa2";
  CHECK(attention_text(scenario) == "attention: fused, kernel fa2");
  scenario.training.dtype = Precision::mxfp8;
  scenario.locations["training.fp8_attention"].value = "true";  // given way to 16 bit
  CHECK(attention_text(scenario) ==
        "attention: fused, kernel fa2 in bf16; the scenario asks for mxfp8, which is not known on b200");
  scenario.training.fp8_attention = true;
  CHECK(attention_text(scenario) == "attention: fused, kernel fa2 in mxfp8");
  scenario.training.flash_attention = false;
  CHECK(attention_text(scenario) == "attention: unfused, scores and softmax pass through memory");
}

TEST_CASE("settings text: routing of experts", "[report][moe]") {
  Model model;
  Parallel parallel;
  Training training;
  CHECK(routing_text(model, parallel, training).empty());
  model.moe.emplace();
  model.moe->experts = 256;
  model.moe->topk = 8;
  model.moe->shared_ffn_hidden = 2048;
  parallel.ep = 8;
  training.expert_imbalance = 1.25;
  training.moe_dispatch_dtype = Precision::fp8;
  parallel.moe_dispatcher = MoeDispatcher::deepep;
  parallel.moe_chunks = 2;
  CHECK(
      routing_text(model, parallel, training) ==
      "experts: 8 of 256 per token, the fullest rank has 1.25 times the mean; tokens dispatched in fp8 by deepep, in 2 "
      "chunks; shared experts after the exchange");
  // Filled up to their capacity, all experts have as many.
  training.expert_capacity_factor = 2;
  training.expert_capacity_padding = true;
  parallel.moe_dispatcher = MoeDispatcher::alltoall;
  CHECK(routing_text(model, parallel, training)
            .starts_with("experts: 8 of 256 per token, every expert is filled to 2 times the mean; tokens"));
  training.expert_imbalance = 1;
  training.expert_routing = ExpertRouting::uniform;
  training.seq_length = 4096;
  CHECK(
      routing_text(model, parallel, training)
          .starts_with("experts: 8 of 256 per token by uniform routing, every expert is filled to 2 times the mean;"));
}

TEST_CASE("settings text: experts are cut as tensor parallelism cuts the rest, unless etp is set", "[report][moe]") {
  Model model;
  model.moe.emplace();
  model.moe->experts = 8;
  model.moe->topk = 2;
  const auto says = [&model](const Parallel& parallel) {
    return routing_text(model, parallel, {}).find("each expert on 4 tensor ranks: parallel.etp is not set") !=
           std::string::npos;
  };
  CHECK(says({.tp = 4, .ep = 2}));
  CHECK_FALSE(says({.tp = 4, .ep = 2, .etp = 1}));
  CHECK_FALSE(says({.tp = 4, .ep = 2, .etp = 4}));
  CHECK_FALSE(says({.tp = 4}));
  CHECK_FALSE(says({.ep = 2}));
}

TEST_CASE("settings text: the loss that sharded data parallelism chooses", "[report]") {
  Training training;
  CHECK(loss_text({.zero_stage = 1}, training).empty());
  const std::string text =
      "loss: PyTorch's, with fp32 copies of the logits, as training.cross_entropy = automatic takes it ";
  CHECK(loss_text({.zero_stage = 2}, training) == text + "with ZeRO-2");
  CHECK(loss_text({.sharding_strategy = ShardingStrategy::full_shard}, training) == text + "with ZeRO-3");
  CHECK(loss_text({.dtensor = true}, training) == text + "with DTensor");
  training.compiled = true;
  CHECK(loss_text({.zero_stage = 2}, training).empty());
  training = {.cross_entropy = CrossEntropy::pytorch};
  CHECK(loss_text({.zero_stage = 2}, training).empty());
}

TEST_CASE("settings text: whose host time it is, and what shortens it", "[report][stack]") {
  const auto text = [](double host_s, const std::string& stack, const std::string& graphs = "false",
                       const std::string& dtype = "bf16") {
    const Scenario scenario =
        shipped_scenario("llama3-405b-1024", {"cluster.topology=gb200-nvl72", "stack=" + stack,
                                              "training.cuda_graphs=" + graphs, "training.dtype=" + dtype});
    Forecast forecast;
    forecast.step_time_s = 10;
    forecast.host_s = host_s;
    return host_text(scenario, forecast);
  };
  CHECK(text(0.05, "megatron-core").empty());
  CHECK(
      text(0.2, "megatron-core", "false", "fp8") ==
      "host: 170 us for each operator (fitted on whole steps of the stack megatron-core), times 1.45 as on hosts with "
      "Grace");
  CHECK_THAT(text(0.2, "megatron-core"),
             Catch::StartsWith("host: 85 us for each operator (fitted on whole steps of the stack megatron-core in 8 "
                               "and 4 bits, halved for 16), times 1.45"));
  CHECK(text(0.6, "megatron-core")
            .ends_with("; CUDA graphs (training.cuda_graphs, cuda_graph_modules) would leave less of it"));
  CHECK(text(0.2, "torchtitan").starts_with("host: 30.7 us for each operator (fitted on docs/references.md"));
  CHECK(text(0.6, "megatron-core", "true").empty());
}

TEST_CASE("settings text: what is trained", "[report][lora]") {
  const Model model{.num_layers = 4,
                    .hidden_size = 512,
                    .num_attention_heads = 8,
                    .num_query_groups = 8,
                    .head_dim = 64,
                    .ffn_hidden_size = 1024,
                    .vocab_size = 32000};
  Training training;
  CHECK(trained_text(model, training).empty());
  training.lora_rank = 8;
  training.lora_targets = {"qkv"};
  // 4 x 8 (512 + 1536) of 43,258,368 parameters.
  CHECK(trained_text(model, training) ==
        "trained: 0.06554 M parameters, 0.151 % of the model; adapters of rank 8 on qkv");
  training.lora_rank = 0;
  training.frozen_fraction = 0.5;
  CHECK(trained_text(model, training).find("; the first 2 layers and the embedding are frozen") != std::string::npos);
}

TEST_CASE("a forecast of a schedule without a flush says that its pipeline is filled and drained",
          "[forecast][report]") {
  Scenario scenario = test::small_scenario(1, 4, 1);
  const auto notes = [&scenario](const char* schedule) {
    scenario.parallel.pp_schedule = schedule;
    return note_texts(scenario, forecast(scenario).value().forecast);
  };
  CHECK(notes("1f1b").empty());
  REQUIRE(notes("pipedream-2bw").size() == 1);
  CHECK(notes("pipedream-2bw").front().starts_with("the schedule has no flush"));
  scenario.model.tied_embeddings = false;
  REQUIRE(notes("pipedream").size() == 2);
  const std::string updates =
      "the schedule updates after every backward: each micro-batch has its own reduction of gradients and its own "
      "update, and each stage its own gradient norm";
  CHECK(notes("pipedream").back() == updates);
  scenario.model.tied_embeddings = true;
  CHECK(notes("pipedream").back() ==
        updates + "; the first and the last stage wait for each other to add up the gradients of their common table");
}

TEST_CASE("a forecast says that pairs of passes hide nothing with ZeRO-3", "[forecast][report]") {
  const std::string schedule = GENERATE("combined-1f1b", "dualpipe", "dualpipev");
  Scenario scenario = test::small_scenario(1, 2, 2);
  scenario.parallel.pp_schedule = schedule;
  scenario.parallel.vpp = schedule == "dualpipev" ? 2 : 1;
  scenario.model.moe = MixtureOfExperts{.experts = 8, .topk = 2, .ffn_hidden = 512};
  const auto notes = [&](int zero_stage, int ep) {
    scenario.parallel.zero_stage = zero_stage;
    scenario.parallel.ep = ep;
    return note_texts(scenario, forecast(scenario).value().forecast);
  };
  CHECK(notes(1, 2).empty());
  CHECK(notes(3, 1).empty());  // nothing to hide
  CHECK(notes(3, 2) == std::vector<std::string>{"parallel.pp_schedule = " + schedule +
                                                " hides no exchange of experts: with zero_stage 3 the passes of a pair "
                                                "run one after the other"});
}

TEST_CASE("a forecast says that gradients of every micro-batch do not wait for overlap_grad_reduce",
          "[forecast][report]") {
  Scenario scenario = test::small_scenario(1, 1, 4);
  scenario.parallel.overlap_grad_reduce = false;
  const auto notes = [&scenario](int zero_stage) {
    scenario.parallel.zero_stage = zero_stage;
    return note_texts(scenario, forecast(scenario).value().forecast);
  };
  CHECK(notes(1).empty());
  CHECK(notes(3) == std::vector<std::string>{"parallel.overlap_grad_reduce = false has no effect: ZeRO-3 reduces "
                                             "gradients in every micro-batch"});
  scenario.parallel.data_parallel = DataParallelKind::deepspeed;  // which waits for it
  CHECK(notes(3).empty());
}

TEST_CASE("a forecast says that gathers of ZeRO-3 do not wait for overlap_param_gather", "[forecast][report]") {
  Scenario scenario = test::small_scenario(1, 1, 4);
  scenario.parallel.overlap_param_gather = false;
  const auto notes = [&scenario](int zero_stage) {
    scenario.parallel.zero_stage = zero_stage;
    return note_texts(scenario, forecast(scenario).value().forecast);
  };
  const std::vector<std::string> expected{
      "parallel.overlap_param_gather = false has no effect: ZeRO-3 gathers the parameters of each layer when it needs "
      "them"};
  CHECK(notes(1).empty());
  CHECK(notes(3) == expected);
  scenario.parallel.data_parallel = DataParallelKind::deepspeed;
  CHECK(notes(3) == expected);
  scenario.locations["parallel.zero_stage"] = {};  // of a file, whose stack has the other key
  CHECK(notes(3).empty());
}

TEST_CASE("a forecast says that no graph of a step captures an exchange whose counts the host reads",
          "[forecast][report][moe]") {
  const auto says = [](const std::vector<std::string>& set) {
    std::vector<std::string> all{"parallel.moe_dispatcher=alltoall", "training.cuda_graphs=true"};
    all.insert(all.end(), set.begin(), set.end());
    const std::vector<std::string> notes = note_texts(shipped_scenario("deepseek-v3-2048", all), {.flushes = true});
    return std::ranges::any_of(notes, [](const std::string& each) {
      return each.starts_with("training.cuda_graphs") &&
             each.ends_with(
                 "; a run needs training.expert_capacity_padding with training.expert_capacity_factor, or "
                 "another parallel.moe_dispatcher");
    });
  };
  CHECK(says({}));
  CHECK_FALSE(says({"training.cuda_graphs=false"}));
  CHECK(says({"training.expert_capacity_factor=1"}));
  CHECK_FALSE(says({"training.expert_capacity_factor=1", "training.expert_capacity_padding=true"}));
  CHECK_FALSE(says({"parallel.moe_dispatcher=hybridep"}));
  CHECK_FALSE(says({"parallel.ep=1"}));
}
