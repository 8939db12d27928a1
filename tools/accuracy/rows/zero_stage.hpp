/// \file
/// The stage of ZeRO, or of FSDP, that a row names.
#pragma once

#include <optional>
#include <string_view>

#include "tools/accuracy/rows/table_fields.hpp"

namespace tracecast::accuracy {

/// The stage in "ZeRO-3", "zero stage 2", "ZeRO++", "FULL_SHARD", the tags "fsdp2" and "fsdp3"; "FSDP2" is a version, of stage 3, as other
/// FSDP is; empty: there is none.
std::optional<int> zero_stage_in(std::string_view text);

/// The stage of ZeRO that a row names: in its column, else in a tag of parallel_style, else in the framework's name ("DeepSpeed
/// ZeRO-3"; DeepSpeed-Ulysses divides sequences beside ZeRO-3). Empty: it names none, or the column has another word.
std::optional<int> named_zero_stage(const TableFields& fields);

}  // namespace tracecast::accuracy
