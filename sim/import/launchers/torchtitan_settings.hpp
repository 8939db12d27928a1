/// \file
/// What reading and writing torchtitan's settings share.   Source: docs/references.md#format-torchtitan
#pragma once

#include "sim/import/importers.hpp"
#include "sim/import/launchers/setting_rows.hpp"

namespace tracecast {

/// Settings that mean the same under both names.
inline constexpr SettingRow kTorchtitanRows[] = {
    {"parallel.tp", "parallelism.tensor_parallel_degree", SettingRow::Kind::size},
    {"parallel.pp", "parallelism.pipeline_parallel_degree", SettingRow::Kind::size},
    {"parallel.cp", "parallelism.context_parallel_degree", SettingRow::Kind::size},
    {"parallel.ep", "parallelism.expert_parallel_degree", SettingRow::Kind::count},
    {"parallel.tp_comm_overlap", "parallelism.enable_async_tensor_parallel", SettingRow::Kind::flag},
    {"training.seq_length", "training.seq_len", SettingRow::Kind::size},
};

/// Model converters of linear layers: their names in `model.converters`, and sections.
inline constexpr const char* kFloat8Section = "quantize.linear.float8";
inline constexpr const char* kMxSection = "quantize.linear.mx";

/// A scenario as torchtitan 0.2.2's TOML, and the settings that it cannot express.
EmittedRun emit_torchtitan(const Scenario& scenario);

}  // namespace tracecast
