#include "sim/import/launchers/megatron_deepspeed.hpp"

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/import/launchers/deepspeed_settings.hpp"
#include "sim/import/launchers/setting_rows.hpp"
#include "sim/io/fields.hpp"

namespace tracecast {
namespace {

using Name = std::string_view;

constexpr Name kSwitch = "deepspeed", kFile = "deepspeed-config";

/// Stages 2 and 3 accumulate and reduce gradients in the type of the parameters; below, fp32 gradients are Megatron-LM's.
void import_zero(RunImport& run) {
  constexpr Name kStage = "zero-stage";
  const auto stage = run.count(kStage);
  if (!stage && run.is_overridden("parallel.zero_stage")) return;
  if (!stage)
    return run.error(kSwitch, fmt::format("leaves the stage of ZeRO to the file of DeepSpeed: give --set "
                                          "parallel.zero_stage=1, or import that file (tracecast import deepspeed)"));
  put_deepspeed_stage(run, *stage, kStage);
  const JsonNode* const dtype = run.given("training.dtype");
  if (*stage >= 2 && dtype != nullptr && !run.has("accumulate-allreduce-grads-in-fp32"))
    run.put("training.grad_reduce_dtype", dtype->string, kStage);
  import_bf16_optimizer(run, kStage);
}

/// Which layers a pipeline divides evenly: those whose class matches "type:transformer|embedding". A tied embedding is at both ends.
void import_partition(RunImport& run) {
  constexpr Name kMethod = "pp-partition-method";
  const std::string method = lower_case(run.word(kMethod));
  if (method.empty() || method == "type:transformer") return;
  if (method != "type:transformer|embedding" && method != "type:embedding|transformer")
    return run.assume(fmt::format("{} = {}: not modelled; the layers are divided evenly", kMethod, shortened(method)));
  run.put_flag("parallel.account_for_embedding", true, kMethod);
  run.put_flag("parallel.account_for_loss", !run.flag("untie-embeddings-and-output-weights").value_or(false), kMethod);
}

constexpr Name kNumber = "num-experts";

void import_expert_parallel(RunImport& run) {
  constexpr Name kRanks = "moe-expert-parallel-size";
  if (run.given("model.moe") == nullptr) return run.take(kRanks);
  if (const auto ranks = run.count(kRanks, "parallel.ep")) run.put("parallel.ep", *ranks, kRanks);
}

}  // namespace

std::int64_t deepspeed_experts(RunImport& run) {
  if (run.words(kNumber).size() < 2) return run.count(kNumber).value_or(1);
  run.error(kNumber,
            "gives each layer its own number of experts (PR-MoE), which is not supported (allowed: one number)");
  return 1;
}

void import_deepspeed_experts(RunImport& run) {
  constexpr Name kTopk = "topk", kInterval = "expert-interval", kType = "mlp-type";
  constexpr Name kFactor = "moe-train-capacity-factor";
  run.put("model.moe.topk", run.count(kTopk).value_or(1), kTopk);
  run.put("model.moe.layer_interval", run.count(kInterval).value_or(2), kInterval);
  if (run.says(kType, "\"residual\""))
    run.error(kType, "adds a dense layer to the experts (PR-MoE), which is not supported (allowed: standard)");
  run.pass_over("mlp-type moe-eval-capacity moe-min-capacity moe-loss-coeff create-moe-param-group use-tutel");
  const double factor = run.number(kFactor).value_or(1);
  if (run.flag("disable-moe-token-dropping").value_or(false) || !(factor > 0)) return;
  run.put("training.expert_capacity_factor", node_of(factor), kFactor);
  run.put_flag("training.expert_capacity_padding", true, kFactor);
}

void import_megatron_deepspeed(RunImport& run) {
  constexpr Name kOffload = "cpu-optimizer";
  run.put("stack", "megatron-deepspeed", kSwitch);
  run.put("parallel.data_parallel", "deepspeed", kSwitch);
  run.put_flag("parallel.overlap_p2p", false);
  import_zero(run);
  import_ulysses(run, "ds-sequence-parallel-size");
  import_expert_parallel(run);
  import_partition(run);
  if (run.flag(kOffload).value_or(false)) run.put_flag("training.offload_optimizer", true, kOffload);
  const std::string file = run.word(kFile);
  if (!file.empty())
    run.assume(fmt::format("{} is not read: what it sets besides (buckets, offloading) is DeepSpeed's default here",
                           shortened(file)));
  run.pass_over("no-pipeline-parallel deepspeed-activation-checkpointing");
}

}  // namespace tracecast
