// What Megatron-LM's arguments say of the model, and who else reads them: Megatron FSDP, NeMo, Megatron-DeepSpeed.
#include <algorithm>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/import/importers.hpp"
#include "sim/import/launchers/megatron_words.hpp"
#include "tests/import/launched.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

using Layers = std::vector<int>;
const std::string kRun =
    "pretrain_gpt.py --seq-length 4096 --micro-batch-size 1 --global-batch-size 64 --bf16 --hidden-dropout 0 "
    "--normalization RMSNorm --untie-embeddings-and-output-weights --position-embedding-type rope ";
const std::string kSmall =
    kRun + "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --disable-bias-linear --swiglu ";
const std::string kExperts = kSmall + "--vocab-size 32000 --num-experts 8 --moe-grouped-gemm ";

ImportedRun megatron(const std::string& arguments, const Texts& overrides = {}) {
  return imported("megatron", arguments + "\n", "run.sh",
                  {.model = "", .topology = "dgx-h100", .gpus = 64, .overrides = overrides});
}

std::string refused(const std::string& arguments) {
  return refusal("megatron", arguments + "\n", "run.sh",
                 {.model = "", .topology = "dgx-h100", .gpus = 64, .overrides = {}});
}

ImportedRun overrides_of(const std::string& ddp) {
  return imported("megatron-bridge", "train:\n  micro_batch_size: 1\nmodel: {}\nddp:\n" + ddp, "r.yaml",
                  givens("llama-3.1-8b", 8));
}

}  // namespace

// core/transformer/transformer_config.py and attention.py: the flags that Megatron-Bridge's provider of gpt-oss stands for.
TEST_CASE("launchers: gpt-oss in Megatron's arguments is the shipped model", "[io][launch]") {
  const auto gpt_oss = [](const std::string& position) {
    return megatron(
        "pretrain_gpt.py --num-layers 24 --hidden-size 2880 --num-attention-heads 64 --group-query-attention "
        "--num-query-groups 8 --kv-channels 64 --ffn-hidden-size 2880 --moe-ffn-hidden-size 2880 --num-experts 32 "
        "--moe-router-topk 4 --quick-geglu --glu-linear-offset 1.0 --activation-func-clamp-value 7.0 --softmax-type "
        "learnable --window-size 127,0 --window-attn-skip-freq 2 --add-qkv-bias --normalization RMSNorm "
        "--untie-embeddings-and-output-weights --hidden-dropout 0 --moe-grouped-gemm --seq-length 4096 "
        "--micro-batch-size 1 --global-batch-size 256 --bf16 --padded-vocab-size 201088 --position-embedding-type " +
        position);
  };
  const ImportedRun run = gpt_oss("yarn --yarn-rotary-scaling-factor 32.0");
  Model expected = shipped_scenario("p5-llama3-70b-64", {"model=gpt-oss-20b"}).model;
  expected.name = run.scenario.model.name;
  expected.activation = Activation::geglu;  // costs as much
  expected.mlp_bias = true;                 // of dense layers, of which there are none
  CHECK(run.scenario.model == expected);
  CHECK(unmapped(run).empty());
  CHECK_FALSE(gpt_oss("rope").scenario.model.yarn);
}

// experimental_attention_variant_module_specs.py: an int n has one layer of attention after n - 1 others.
TEST_CASE("launchers: gated delta nets in Megatron's arguments are the shipped model", "[io][launch]") {
  const std::string sizes =
      kRun +
      "--num-layers 48 --hidden-size 2048 --ffn-hidden-size 5120 --num-attention-heads 16 --group-query-attention "
      "--num-query-groups 2 --kv-channels 256 --disable-bias-linear --qk-layernorm --swiglu --padded-vocab-size 151936 "
      "--moe-ffn-hidden-size 512 --moe-shared-expert-intermediate-size 512 --moe-shared-expert-gate "
      "--moe-router-topk 10 --moe-layer-freq '([1]*48)' --num-experts 512 --moe-grouped-gemm --attention-output-gate "
      "--experimental-attention-variant gated_delta_net ";
  const ImportedRun run = megatron(sizes + "--linear-attention-freq 4 --linear-num-value-heads 32");
  Model expected = shipped_scenario("p5-llama3-70b-64", {"model=qwen3-next-80b-a3b"}).model;
  expected.name = run.scenario.model.name;
  CHECK(run.scenario.model == expected);
  const ImportedRun list = megatron(sizes + "--linear-attention-freq '([1,1,1,0]*12)'");
  CHECK(parameter_count(list.scenario.model).total() == parameter_count(expected).total());
  CHECK(refused(sizes + "--linear-attention-freq '([1]*4)'").find("does not say which of 48 layers are linear") !=
        std::string::npos);
}

TEST_CASE("launchers: Megatron's sparse attention has an indexer beside latent attention", "[io][launch]") {
  const std::string sparse = kSmall + "--vocab-size 32000 --experimental-attention-variant dsa ";
  const Model model =
      megatron(sparse +
               "--multi-latent-attention --q-lora-rank 64 --dsa-indexer-topk 2048 --dsa-indexer-n-heads 64 "
               "--dsa-indexer-head-dim 128")
          .scenario.model;
  CHECK(model.sparse_attention == SparseAttention{2048, 64, 128});
  CHECK(
      refused(sparse).find("experimental-attention-variant = \"dsa\": names a part of the model that is not modelled: "
                           "give --model") != std::string::npos);
}

TEST_CASE("launchers: parts of a model that have no key are refused", "[io][launch][error]") {
  for (const char* part : {"--moe-latent-size 1024", "--heterogeneous-layers-config-path nas.json",
                           "--experimental-attention-variant dsv4_hybrid"})
    CHECK(refused(kExperts + part).find("names a part of the model that is not modelled: give --model") !=
          std::string::npos);
  const ImportedRun given = imported("megatron", kExperts + "--moe-latent-size 1024\n", "run.sh",
                                     {.model = "mixtral-8x7b", .topology = "dgx-h100", .gpus = 64, .overrides = {}});
  CHECK(given.scenario.model.name == "mixtral-8x7b");
  CHECK(assumes(given, "model: moe-latent-size names a part of the model that is not modelled: --model is used"));
}

TEST_CASE("launchers: biases, gates and clamps of Megatron's feed-forwards", "[io][launch]") {
  const MixtureOfExperts plain = megatron(kExperts).scenario.model.moe.value();
  CHECK_FALSE(plain.expert_bias);
  CHECK_FALSE(plain.shared_expert_gate);
  const std::string biased = kRun + "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --vocab-size 32000 ";
  const MixtureOfExperts experts = megatron(biased + "--num-experts 8 --moe-grouped-gemm").scenario.model.moe.value();
  CHECK(experts.expert_bias);
  CHECK(experts.router_bias);
  const ImportedRun dense = megatron(kSmall + "--vocab-size 32000 --activation-func-clamp-value 7");
  CHECK(assumes(dense, "activation-func-clamp-value: not modelled in dense layers"));
  // arguments.py: only --swiglu has narrower matrices by default.
  const Model geglu = megatron(biased + "--quick-geglu").scenario.model;
  CHECK(geglu.activation == Activation::geglu);
  CHECK(geglu.ffn_hidden_size == 4 * 4096);
}

TEST_CASE("launchers: Megatron's vocabulary is padded, or said as padded", "[io][launch]") {
  const auto words = [](const std::string& more) { return megatron(kSmall + more).scenario.model.vocab_size; };
  CHECK(words("--vocab-size 128256") == 128'256);
  CHECK(words("--padded-vocab-size 128001") == 128'001);
  // NullTokenizer adds the end of a document: 128,257 tokens, to a multiple of 128.
  CHECK(words("--vocab-size 128256 --tokenizer-type NullTokenizer") == 128'384);
  CHECK(words("--vocab-size 128255 --tokenizer-type NullTokenizer") == 128'256);
}

TEST_CASE("launchers: Megatron's lists of layers as Python reads them", "[io][launch]") {
  CHECK(parse_layer_list("([0]+[1])*2", 4) == Layers{0, 1, 0, 1});
  CHECK(parse_layer_list("([0]*2+([1]+[0])*1)", 4) == Layers{0, 0, 1, 0});
  CHECK(parse_layer_list("([1,1,1,0]*2)", 8) == Layers{1, 1, 1, 0, 1, 1, 1, 0});
  for (const char* wrong : {"", "2", "([0]", "[0])", "[0]*", "[0]+", "[]", "([0]*99999)*99999", "[0,]"})
    CHECK_FALSE(parse_layer_list(wrong, 1).has_value());
  CHECK_FALSE(parse_layer_list(std::string(1000, '(') + "[0]" + std::string(1000, ')'), 1).has_value());

  const auto experts = [](const std::string& frequency) {
    const MixtureOfExperts moe = megatron(kExperts + "--moe-layer-freq " + frequency).scenario.model.moe.value();
    return std::pair{moe.leading_dense_layers, moe.layer_interval};
  };
  CHECK(experts("'([0]+[1])*16'") == std::pair{0, 2});
  CHECK(experts("1") == std::pair{0, 1});
  CHECK(experts("2") == std::pair{0, 2});  // as many, of layers that are alike
  CHECK(assumes(megatron(kExperts + "--moe-layer-freq 2"),
                "moe-layer-freq: experts are in the last of every 2 layers here, in the run in the first"));
  CHECK(refused(kExperts + "--moe-layer-freq 3")
            .find("is not supported (allowed: experts in every n-th layer after the first dense ones)") !=
        std::string::npos);
  CHECK(refused(kExperts + "--moe-layer-freq '[1]*3'")
            .find("does not say which of 32 layers have experts (allowed: 1, ([0]*3+[1]*11))") != std::string::npos);

  const auto windows = [](const std::string& frequency) {
    const Model model =
        megatron(kSmall + "--vocab-size 32000 --window-size 1023,0 --window-attn-skip-freq " + frequency)
            .scenario.model;
    return std::pair{model.sliding_window, model.global_layer_interval};
  };
  CHECK(windows("'([1,1,1,0]*8)'") == std::pair{std::int64_t{1024}, 4});
  CHECK(windows("'[1]*32'") == std::pair{std::int64_t{1024}, 0});
  CHECK(windows("'[0]*32'") == std::pair{std::int64_t{0}, 0});
  CHECK(refused(kSmall + "--vocab-size 32000 --window-size 1023,0 --window-attn-skip-freq '([1,0,0,1]*8)'")
            .find("window-attn-skip-freq = \"([1,0,0,1]*8)\": is not supported") != std::string::npos);
}

TEST_CASE("launchers: words of Megatron that have an equivalent", "[io][launch]") {
  const ImportedRun run =
      megatron(kExperts + "--expert-model-parallel-size 8 --moe-token-dispatcher-type alltoall_seq");
  CHECK(run.scenario.parallel.moe_dispatcher == MoeDispatcher::alltoall);
  // transformer_config.py: --moe-layer-recompute adds moe to the modules, of which core_attn is the default.
  const Training repeated = megatron(kExperts + "--moe-layer-recompute").scenario.training;
  CHECK(repeated.recompute == Recompute::selective);
  CHECK(repeated.recompute_modules == Texts{"moe"});
  CHECK(megatron(kSmall + "--vocab-size 32000 --moe-layer-recompute").scenario.training.recompute == Recompute::none);
  const std::string fsdp2 = kSmall + "--vocab-size 32000 --use-torch-fsdp2 ";
  CHECK(megatron(fsdp2).scenario.parallel.reshard_after_forward);
  CHECK_FALSE(megatron(fsdp2 + "--torch-fsdp2-no-reshard-after-forward").scenario.parallel.reshard_after_forward);
}

// The distributed optimizer does not read the strategy: only Megatron FSDP does.
TEST_CASE("launchers: a strategy of Megatron FSDP needs Megatron FSDP", "[io][launch]") {
  const std::string strategy = "  data_parallel_sharding_strategy: optim_grads_params\n";
  const ImportedRun alone = overrides_of(strategy + "  use_distributed_optimizer: true\n");
  CHECK(alone.scenario.parallel.zero_stage == 1);
  CHECK(assumes(alone, "data-parallel-sharding-strategy has no effect without use-megatron-fsdp"));
  CHECK(overrides_of(strategy).scenario.parallel.zero_stage == 1);  // as recipes have it
  const ImportedRun fsdp = overrides_of(strategy + "  use_megatron_fsdp: true\n");
  CHECK(fsdp.scenario.parallel.zero_stage == 3);
  CHECK_FALSE(assumes(fsdp, "has no effect"));
  const ImportedRun nemo = imported("megatron",
                                    "trainer:\n  devices: 8\n  strategy:\n    fsdp: megatron\n    ddp:\n    " +
                                        strategy + "model: {}\ndata:\n  micro_batch_size: 1\n  global_batch_size: 8\n",
                                    "nemo.yaml", givens("llama-3.1-8b", 0));
  CHECK(nemo.scenario.parallel.zero_stage == 3);
}

// Megatron-DeepSpeed, megatron/arguments.py: groups by the number of their heads, ZeRO and Ulysses by flags of its own.
TEST_CASE("launchers: a script of Megatron-DeepSpeed", "[io][launch]") {
  const std::string script =
      kSmall + "--vocab-size 50304 --normalization rmsnorm --num-key-value-heads 8 --no-pipeline-parallel ";
  const ImportedRun run = megatron(script +
                                   "--deepspeed --zero-stage 3 --ds-sequence-parallel-size 4 --use-flash-attn-v2 "
                                   "--deepspeed_config ds.json --deepspeed-activation-checkpointing "
                                   "--checkpoint-activations");
  const Scenario& s = run.scenario;
  CHECK(s.stack == "megatron-deepspeed");
  CHECK(s.model.num_query_groups == 8);
  CHECK(s.parallel.zero_stage == 3);
  CHECK(s.parallel.data_parallel == DataParallelKind::deepspeed);
  CHECK(s.parallel.overlap_param_gather);
  CHECK(s.parallel.cp == 4);
  CHECK(s.parallel.cp_comm_type == ContextExchange::a2a);
  CHECK(s.training.flash_attention);
  CHECK(s.training.grad_reduce_dtype == Precision::bf16);
  CHECK(s.training.recompute == Recompute::full);
  CHECK(assumes(run, "ds.json is not read: what it sets besides (buckets, offloading) is DeepSpeed's default here"));
  CHECK(unmapped(run).empty());
  const Model bloom =
      megatron(script + "--deepspeed --zero-stage 1 --position-embedding-type alibi --embed-layernorm").scenario.model;
  CHECK(bloom.position == Position::alibi);
  CHECK(bloom.embedding_norm);
  const Scenario first = megatron(script + "--deepspeed --zero-stage 1").scenario;
  CHECK(first.training.grad_reduce_dtype == Precision::fp32);
  CHECK_FALSE(first.training.flash_attention);
  CHECK_FALSE(first.parallel.overlap_p2p);
  CHECK(refused(script + "--deepspeed") ==
        "run.sh:1: deepspeed = true: leaves the stage of ZeRO to the file of DeepSpeed: give --set "
        "parallel.zero_stage=1, or import that file (tracecast import deepspeed)");
  CHECK(megatron(script + "--deepspeed", {"parallel.zero_stage=2"}).scenario.parallel.zero_stage == 2);
}

// Megatron-DeepSpeed, megatron/arguments.py: --topk 1, --expert-interval 2, --moe-train-capacity-factor 1.
TEST_CASE("launchers: the experts of Megatron-DeepSpeed", "[io][launch]") {
  const std::string script = kSmall + "--vocab-size 50304 --deepspeed --zero-stage 1 ";
  const ImportedRun run = megatron(script +
                                   "--num-experts 16 --moe-expert-parallel-size 4 --moe-eval-capacity-factor 1 "
                                   "--moe-min-capacity 4 --moe-loss-coeff 0.01 --create-moe-param-group");
  REQUIRE(run.scenario.model.moe);
  CHECK(run.scenario.model.moe->experts == 16);
  CHECK(run.scenario.model.moe->topk == 1);
  CHECK(run.scenario.model.moe->layer_interval == 2);
  CHECK(run.scenario.parallel.ep == 4);
  CHECK(run.scenario.training.expert_capacity_factor == 1);
  CHECK(run.scenario.training.expert_capacity_padding);
  CHECK_FALSE(assumes(run, "allgather"));
  CHECK(unmapped(run).empty());
  const Scenario said = megatron(script +
                                 "--num-experts 8 --topk 2 --expert-interval 1 --disable-moe-token-dropping "
                                 "--moe-train-capacity-factor 2")
                            .scenario;
  CHECK(said.model.moe->topk == 2);
  CHECK(said.model.moe->layer_interval == 1);
  CHECK(said.training.expert_capacity_factor == 0);
  CHECK_FALSE(megatron(script + "--num-experts 1 --moe-expert-parallel-size 1").scenario.model.moe);
  CHECK(refused(script + "--num-experts 64 64 128")
            .find("num-experts = \"64 64 128\": gives each layer its own number") != std::string::npos);
  CHECK(refused(script + "--num-experts 8 --mlp-type residual").find("adds a dense layer to the experts (PR-MoE)") !=
        std::string::npos);
}

// As BLOOM was trained: bigscience/train/tr11-176B-ml; the states of bf16 are divided without ZeRO, too.
TEST_CASE("launchers: BLOOM's stage 0, padded vocabulary and division of the pipeline", "[io][launch]") {
  const std::string script =
      "pretrain_gpt.py --micro-batch-size 1 --global-batch-size 64 --seq-length 4096 --max-position-embeddings 4096 "
      "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --bf16 --deepspeed --zero-stage 0 "
      "--pad-vocab-size-to 50944 ";
  const ImportedRun run = megatron(script + "--pp-partition-method 'type:transformer|embedding'");
  CHECK(run.scenario.model.vocab_size == 50944);
  CHECK(run.scenario.parallel.account_for_embedding);
  CHECK(run.scenario.parallel.account_for_loss);
  CHECK(run.scenario.parallel.zero_stage == 1);
  CHECK(run.scenario.training.grad_reduce_dtype == Precision::fp32);
  CHECK(assumes(run, "parallel.zero_stage = 1: at stage 0 DeepSpeed's BF16_Optimizer divides"));
  CHECK_FALSE(megatron(script + "--untie-embeddings-and-output-weights --pp-partition-method "
                                "'type:transformer|embedding'")
                  .scenario.parallel.account_for_loss);
  CHECK(megatron(script, {"parallel.zero_stage=0"}).scenario.parallel.zero_stage == 0);
}
