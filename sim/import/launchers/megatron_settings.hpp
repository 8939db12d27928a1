/// \file
/// Megatron-LM's settings, between megatron.cpp (which files they are in), megatron_import.cpp and megatron_emit.cpp.
/// Source of names and defaults: megatron/training/arguments.py; docs/references.md#format-megatron
#pragma once

#include "sim/import/launchers/launcher.hpp"
#include "sim/import/launchers/setting_rows.hpp"

namespace tracecast {

/// Settings that have one argument of Megatron-LM, by its name.
inline constexpr SettingRow kMegatronRows[] = {
    {"parallel.tp", "tensor-model-parallel-size", SettingRow::Kind::size},
    {"parallel.sequence_parallel", "sequence-parallel", SettingRow::Kind::flag},
    {"parallel.pp", "pipeline-model-parallel-size", SettingRow::Kind::size},
    {"parallel.account_for_embedding", "account-for-embedding-in-pipeline-split", SettingRow::Kind::flag},
    {"parallel.account_for_loss", "account-for-loss-in-pipeline-split", SettingRow::Kind::flag},
    {"parallel.cp", "context-parallel-size", SettingRow::Kind::count},
    {"parallel.ep", "expert-model-parallel-size", SettingRow::Kind::count},
    {"parallel.etp", "expert-tensor-parallel-size", SettingRow::Kind::count},
    {"parallel.overlap_grad_reduce", "overlap-grad-reduce", SettingRow::Kind::flag},
    {"parallel.tp_comm_overlap", "tp-comm-overlap", SettingRow::Kind::flag},
    {"parallel.overlap_p2p", "no-overlap-p2p-communication", SettingRow::Kind::negated},
    {"parallel.moe_shared_overlap", "moe-shared-expert-overlap", SettingRow::Kind::flag},
    {"parallel.ddp_bucket_size", "ddp-bucket-size", SettingRow::Kind::count},
    {"training.seq_length", "seq-length", SettingRow::Kind::size},
    {"training.micro_batch_size", "micro-batch-size", SettingRow::Kind::size},
    {"training.global_batch_size", "global-batch-size", SettingRow::Kind::size},
    {"training.fp8_param_gather", "fp8-param-gather", SettingRow::Kind::flag},
    {"training.fp8_attention", "fp8-dot-product-attention", SettingRow::Kind::flag},
    {"training.fp8_output_layer", "fp8-output-proj", SettingRow::Kind::flag},
};

/// What the arguments of Megatron-LM set, or with `bridge` the YAML of Megatron-Bridge and NeMo. There an absent flag keeps
/// what the recipe says; in Megatron-LM it is false.
void import_megatron_settings(RunImport& run, bool bridge);

/// A shell prologue and an array of arguments.
EmittedRun emit_megatron(const Scenario& given);

/// YAML of overrides. An absent flag keeps what the recipe says, so that every flag is written.
EmittedRun emit_megatron_bridge(const Scenario& given);

}  // namespace tracecast
