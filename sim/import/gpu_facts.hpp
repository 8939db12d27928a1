/// \file
/// What a GPU's generation says where a file leaves a number out. Sources: docs/references.md#gpu-data-sheets,
/// docs/references.md#pcie-copies; PCI IDs as the samples of NCCL's topology files carry them.
#pragma once

#include <string_view>

#include "sim/base/units.hpp"

namespace tracecast {

struct GpuFacts {
  std::string_view name;       ///< of a profile, or what a profile would be called
  int compute_capability = 0;  ///< 90: Hopper; 0: AMD
  Bandwidth link;              ///< of one NVLink or xGMI link, one direction
  int links = 0;               ///< 0: none
  Bandwidth pcie;              ///< that a copy reaches
  Bandwidth nic;               ///< usual one beside it
};

/// The first is what is assumed where nothing is known.
inline constexpr GpuFacts kGpuFacts[] = {
    {"h100", 90, {25'000'000'000}, 18, {53'000'000'000}, {50'000'000'000}},
    {"h200", 90, {25'000'000'000}, 18, {53'000'000'000}, {50'000'000'000}},
    {"h800", 90, {25'000'000'000}, 8, {53'000'000'000}, {50'000'000'000}},
    {"a100", 80, {25'000'000'000}, 12, {26'000'000'000}, {25'000'000'000}},
    {"v100", 70, {25'000'000'000}, 6, {12'000'000'000}, {12'500'000'000}},
    {"b200", 100, {50'000'000'000}, 18, {53'000'000'000}, {50'000'000'000}},
    {"mi300x", 0, {64'000'000'000}, 7, {53'000'000'000}, {50'000'000'000}},
};

}  // namespace tracecast
