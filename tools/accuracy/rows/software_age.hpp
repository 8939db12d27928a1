/// \file
/// What the age of a row's software changes in its stack and its profile.
///
///   Megatron-LM, Megatron-Core   released in the year of the version or name, else of the source; cuDNN 8 on Hopper before mid 2024
///   a release, "NeMo 24.07"      dates a stack that has `released`
///   PyTorch's own attention      on Hopper and Blackwell FlashAttention 2, then cuDNN's; on AMD's GPUs AOTriton's, then AITER's
///                                backward, then AITER's
///
/// Source: docs/references.md#attention-by-year, docs/references.md#aotriton, docs/references.md#megatron-versions
#pragma once

#include <string>
#include <vector>

#include "sim/cost/profile.hpp"
#include "sim/io/stack.hpp"
#include "tools/accuracy/rows/table_fields.hpp"

namespace tracecast::accuracy {

/// Changes both before the stack is applied to the profile.   framework: framework_name
/// Returns sentences that say what was assumed.
std::vector<std::string> apply_software_age(Stack& stack, Profile& profile, const std::string& framework,
                                            const TableFields& fields);

}  // namespace tracecast::accuracy
