// What launchers say of the formats of numbers and of the loss, read and written.
#include <algorithm>
#include <string>

#include <catch2/catch.hpp>

#include "sim/import/importers.hpp"
#include "tests/import/launched.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

const std::string kArguments =
    "pretrain_gpt.py --num-layers 16 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --vocab-size 32000 "
    "--max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 64 --bf16 --use-flash-attn";

Training megatron_run(const std::string& arguments) {
  return imported("megatron", kArguments + arguments + "\n", "run.sh", givens("", 8)).scenario.training;
}

bool emits(const std::string& format, const Scenario& scenario, const std::string& words) {
  return emit_run(format, scenario).text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("launchers: Megatron's attention in 8 bits", "[io][launch]") {
  const std::string narrow = " --fp8-format hybrid --fp8-recipe tensorwise";
  CHECK_FALSE(megatron_run(narrow).fp8_attention);
  CHECK(megatron_run(narrow + " --fp8-dot-product-attention").fp8_attention);
  CHECK(megatron_run(narrow + " --fp8-dot-product-attention --fp8-multi-head-attention").fp8_attention);
  CHECK(refusal("megatron", kArguments + " --fp8-dot-product-attention\n", "run.sh", givens("", 8))
            .find("(training.fp8_attention) = true: needs a training.dtype of fp8 or mxfp8, not bf16") !=
        std::string::npos);
}

TEST_CASE("launchers: Megatron's loss, in one kernel after the other unless it is fused", "[io][launch]") {
  CHECK(megatron_run("").cross_entropy == CrossEntropy::automatic);  // its own without FSDP
  CHECK(megatron_run(" --cross-entropy-fusion-impl te").cross_entropy == CrossEntropy::automatic);
  CHECK(megatron_run(" --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params --ckpt-format "
                     "fsdp_dtensor")
            .cross_entropy == CrossEntropy::vocab_parallel);
  CHECK(megatron_run(" --cross-entropy-loss-fusion").cross_entropy == CrossEntropy::fused_native);
  CHECK(megatron_run(" --cross-entropy-loss-fusion --cross-entropy-fusion-impl native").cross_entropy ==
        CrossEntropy::fused_native);
  CHECK(megatron_run(" --cross-entropy-loss-fusion --cross-entropy-fusion-impl te").cross_entropy ==
        CrossEntropy::fused);
  const ImportedRun linear =
      imported("megatron", kArguments + " --cross-entropy-loss-fusion --cross-entropy-fusion-impl linear\n", "run.sh",
               givens("", 8));
  CHECK(linear.scenario.training.cross_entropy == CrossEntropy::fused);
  CHECK_THAT(
      linear.assumptions,
      Catch::VectorContains(std::string("cross-entropy-fusion-impl linear: counted as te, after the output layer")));
  CHECK(refusal("megatron", kArguments + " --cross-entropy-fusion-impl triton\n", "run.sh", givens("", 8))
            .find("cross-entropy-fusion-impl = \"triton\"") != std::string::npos);

  CHECK_THAT(imported("megatron",
                      kArguments + " --cross-entropy-loss-fusion --cross-entropy-fusion-impl te"
                                   " --transformer-impl local\n",
                      "run.sh", givens("", 8))
                 .assumptions,
             Catch::VectorContains(std::string("cross-entropy-fusion-impl te beside transformer-impl local: counted "
                                               "with three all-reduces, as other fused losses")));
  // The file has neither the micro-batch, which is listed if it has more than one sequence, nor an accumulation.
  const auto listed = [](int micro_batch) {
    const Scenario scenario =
        shipped_scenario("llama3-70b-fsdp-8",
                         {"training.micro_batch_size=" + std::to_string(micro_batch), "training.global_batch_size=64"});
    const std::vector<std::string> all = emit_run("accelerate", scenario).unmapped;
    return std::ranges::count(all, "training.micro_batch_size=" + std::to_string(micro_batch)) +
           std::ranges::count(all, "training.global_batch_size=64");
  };
  CHECK(listed(1) == 1);
  CHECK(listed(2) == 2);
  // FSDP is ZeRO-3, whatever the stack that --set gives.
  CHECK(imported("accelerate", "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n", "a.yaml",
                 {.model = "llama-3.1-8b",
                  .topology = "dgx-h100",
                  .gpus = 8,
                  .overrides = {"training.seq_length=4096", "stack=megatron-core"}})
            .scenario.parallel.zero_stage == 3);
  CHECK(imported("accelerate", "distributed_type: MEGATRON_LM\n", "a.yaml", givens("llama-3.1-8b", 8))
            .scenario.training.cross_entropy == CrossEntropy::automatic);

  // Recipes of Megatron-Bridge have Transformer Engine's.
  const std::string recipe = "training.cross_entropy = fused, as Megatron-Bridge's recipes choose";
  const auto bridge = [&](const std::string& model) {
    const ImportedRun run = imported("megatron-bridge", "model:\n  tensor_model_parallel_size: 2\n" + model, "r.yaml",
                                     {.model = "llama-3.1-8b",
                                      .topology = "dgx-h100",
                                      .gpus = 8,
                                      .overrides = {"training.seq_length=4096", "training.global_batch_size=64"}});
    CHECK(std::ranges::count(run.assumptions, recipe) == (model.empty() ? 1 : 0));
    return run.scenario.training.cross_entropy;
  };
  CHECK(bridge("") == CrossEntropy::fused);
  CHECK(bridge("  cross_entropy_loss_fusion: true\n") == CrossEntropy::fused);
  CHECK(bridge("  cross_entropy_loss_fusion: false\n") == CrossEntropy::automatic);
  CHECK(bridge("  cross_entropy_fusion_impl: native\n") == CrossEntropy::fused_native);
  CHECK(bridge("  cross_entropy_fusion_impl: te\n") == CrossEntropy::fused);

  const auto scenario = [](const char* loss) {
    return shipped_scenario("p5-llama3-70b-64", {std::string("training.cross_entropy=") + loss});
  };
  CHECK_FALSE(emits("megatron", scenario("vocab_parallel"), "cross-entropy"));
  CHECK(emits("megatron", scenario("fused_native"),
              "--cross-entropy-loss-fusion\n  --cross-entropy-fusion-impl native\n"));
  CHECK(emits("megatron", scenario("fused"), "--cross-entropy-loss-fusion\n  --cross-entropy-fusion-impl te\n"));
  CHECK(emits("megatron-bridge", scenario("vocab_parallel"), "  cross_entropy_loss_fusion: false\n"));
  CHECK(emits("megatron-bridge", scenario("fused"),
              "  cross_entropy_loss_fusion: true\n  cross_entropy_fusion_impl: te\n"));
  const EmittedRun inexpressible = emit_run("megatron", scenario("pytorch"));
  CHECK_THAT(inexpressible.unmapped, Catch::VectorContains(std::string("training.cross_entropy=\"pytorch\"")));
  // FSDP's is PyTorch's, too.
  const EmittedRun automatic = emit_run("megatron", shipped_scenario("p5-llama3-70b-64", {"parallel.zero_stage=3"}));
  CHECK_THAT(automatic.unmapped, Catch::VectorContains(std::string("training.cross_entropy=\"automatic\"")));
}

TEST_CASE("launchers: torchtitan's scales for tensors and for rows", "[io][launch]") {
  const auto run = [](const std::string& recipe) {
    const std::string toml =
        "[model]\nname = \"llama3\"\nflavor = \"8B\"\nconverters = [\"float8\"]\n[training]\nlocal_batch_size = 1\n" +
        std::string("seq_len = 8192\n[parallelism]\ndata_parallel_shard_degree = -1\n") + recipe;
    return imported("torchtitan", toml, "a.toml",
                    {.model = "llama-3.1-8b", .topology = "dgx-h100", .gpus = 8, .overrides = {}});
  };
  const auto named = [&](const char* recipe) {
    return run(std::string("[quantize.linear.float8]\nrecipe_name = \"") + recipe + "\"\n");
  };
  CHECK_FALSE(run("").scenario.training.row_scales);
  CHECK_FALSE(named("tensorwise").scenario.training.row_scales);
  CHECK(named("rowwise").scenario.training.row_scales);
  const ImportedRun old = run("[float8]\nrecipe_name = \"rowwise\"\nenable_fsdp_float8_all_gather = true\n");
  CHECK(old.scenario.training.row_scales);
  CHECK_THAT(old.assumptions, Catch::VectorContains(std::string("float8.enable_fsdp_float8_all_gather: parameters are "
                                                                "gathered in bf16 here")));
  CHECK_FALSE(old.scenario.training.fp8_param_gather);
  for (const char* tensorwise : {"[float8]\n", "[quantize.linear.float8]\nrecipe_name = \"tensorwise\"\n"}) {
    const ImportedRun quantised = run(std::string(tensorwise) + "enable_fsdp_float8_all_gather = true\n");
    CHECK(quantised.scenario.training.fp8_param_gather);
    CHECK(emits("torchtitan", quantised.scenario,
                "[quantize.linear.float8]\nfilter_fqns = []\nenable_fsdp_float8_all_gather = true\n"));
  }
  CHECK_FALSE(run("").scenario.training.fp8_param_gather);
  const ImportedRun wide = named("rowwise_with_gw_hp");
  CHECK(wide.scenario.training.row_scales);
  CHECK_THAT(wide.assumptions, Catch::VectorContains(std::string(
                                   "quantize.linear.float8.recipe_name rowwise_with_gw_hp: weight gradients "
                                   "are multiplied in fp8 here")));
  CHECK(emits("torchtitan", named("rowwise").scenario,
              "[quantize.linear.float8]\nfilter_fqns = []\nrecipe_name = \"rowwise\"\n"));
  CHECK_FALSE(emits("torchtitan", named("tensorwise").scenario, "recipe_name"));
}
