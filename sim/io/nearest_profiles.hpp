/// \file
/// What to take for a GPU that has no profile: shipped profiles of the same or the next generation, and of the same kind of board.
#pragma once

#include <string>
#include <string_view>

namespace tracecast {

/// "rtx-pro-6000 or a100-pcie" for "l40s" and for "sm-89", the name that an NCCL topology gives it; "" where nothing is known of the GPU.
/// Source: docs/references.md#gpu-generations
std::string nearest_profiles(std::string_view gpu);

}  // namespace tracecast
