#include "sim/import/launchers/megatron_deepspeed.hpp"

#include <fmt/format.h>

#include "sim/import/launchers/deepspeed_settings.hpp"

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
    run.put("training.grad_reduce_dtype", std::string(dtype->string), kStage);
}

void import_ulysses(RunImport& run) {
  constexpr Name kUlysses = "ds-sequence-parallel-size";
  const auto ranks = run.count(kUlysses);
  if (!ranks || *ranks <= 1) return;
  run.put("parallel.cp", *ranks, kUlysses);
  run.put("parallel.cp_comm_type", std::string("a2a"), kUlysses);
}

}  // namespace

void import_megatron_deepspeed(RunImport& run) {
  constexpr Name kOffload = "cpu-optimizer";
  run.put("stack", std::string("megatron-deepspeed"), kSwitch);
  run.put("parallel.data_parallel", std::string("deepspeed"), kSwitch);
  run.put_flag("parallel.overlap_p2p", false);
  import_zero(run);
  import_ulysses(run);
  if (run.flag(kOffload).value_or(false)) run.put_flag("training.offload_optimizer", true, kOffload);
  const std::string file = run.word(kFile);
  if (!file.empty())
    run.assume(fmt::format("{} is not read: what it sets besides (buckets, offloading) is DeepSpeed's default here",
                           shortened(file)));
  run.pass_over("no-pipeline-parallel deepspeed-activation-checkpointing");
}

}  // namespace tracecast
