/// \file
/// What is assumed of GPUs, links and NICs where a file leaves a number out. Sources: docs/references.md#gpu-data-sheets,
/// docs/references.md#pcie-copies, docs/references.md#pci-ids, docs/references.md#link-latencies.
#pragma once

#include <string_view>

#include "sim/base/units.hpp"

namespace tracecast {

struct GpuFacts {
  std::string_view name;       ///< of a profile, or what a profile would be called
  int compute_capability = 0;  ///< 90: Hopper; 0: AMD
  Bandwidth link;              ///< of one NVLink or xGMI link, one direction
  int links = 0;               ///< 0: none
  Bandwidth pcie;              ///< that a copy to the host reaches
  Bandwidth nic;               ///< usual one beside it
  bool only_by_name = false;   ///< one of many parts of its compute capability
  std::string_view form = "";  ///< and memory, of a model that has several of either: "SXM 80GB"
};

/// The first is what is assumed where nothing is known. Of GPUs that a file cannot tell apart, the more common one comes first.
inline constexpr GpuFacts kGpuFacts[] = {
    {"h100", 90, {25'000'000'000}, 18, {53'000'000'000}, {50'000'000'000}, false, "SXM 80GB"},
    {"h200", 90, {25'000'000'000}, 18, {53'000'000'000}, {50'000'000'000}, false, "SXM 141GB"},
    {"h20", 90, {25'000'000'000}, 18, {53'000'000'000}, {50'000'000'000}},
    {"gh200", 90, {25'000'000'000}, 18, {380'000'000'000}, {25'000'000'000}},
    {"h800", 90, {25'000'000'000}, 8, {53'000'000'000}, {50'000'000'000}, false, "SXM 80GB"},
    {"h100-pcie", 90, {25'000'000'000}, 12, {53'000'000'000}, {25'000'000'000}, false, "PCIe 80GB"},
    {"h100-nvl", 90, {25'000'000'000}, 12, {53'000'000'000}, {50'000'000'000}, true},
    {"h200-nvl", 90, {25'000'000'000}, 18, {53'000'000'000}, {50'000'000'000}, true},
    {"a100", 80, {25'000'000'000}, 12, {26'000'000'000}, {25'000'000'000}, false, "SXM 80GB"},
    {"a100-40gb", 80, {25'000'000'000}, 12, {26'000'000'000}, {25'000'000'000}, false, "SXM 40GB"},
    {"a100-pcie", 80, {25'000'000'000}, 12, {26'000'000'000}, {25'000'000'000}, false, "PCIe 80GB"},
    {"a800", 80, {25'000'000'000}, 8, {26'000'000'000}, {25'000'000'000}, false, "SXM 80GB"},
    {"v100", 70, {25'000'000'000}, 6, {12'000'000'000}, {12'500'000'000}, false, "SXM 32GB"},
    {"v100-16gb", 70, {25'000'000'000}, 6, {12'000'000'000}, {12'500'000'000}, false, "SXM 16GB"},
    {"b200", 100, {50'000'000'000}, 18, {53'000'000'000}, {50'000'000'000}},
    {"gb200", 100, {50'000'000'000}, 18, {225'000'000'000}, {50'000'000'000}},
    {"b300", 103, {50'000'000'000}, 18, {53'000'000'000}, {100'000'000'000}},
    {"gb300", 103, {50'000'000'000}, 18, {225'000'000'000}, {100'000'000'000}},
    {"rtx-pro-6000", 120, {0}, 0, {53'000'000'000}, {50'000'000'000}},
    {"a40", 86, {14'062'500'000}, 4, {26'000'000'000}, {25'000'000'000}, true},
    {"l40s", 89, {0}, 0, {26'000'000'000}, {25'000'000'000}, true},
    {"l4", 89, {0}, 0, {26'000'000'000}, {12'500'000'000}, true},
    {"rtx-4090", 89, {0}, 0, {26'000'000'000}, {12'500'000'000}, true},
    {"mi100", 0, {46'000'000'000}, 3, {26'000'000'000}, {25'000'000'000}},
    {"mi210", 0, {50'000'000'000}, 3, {26'000'000'000}, {25'000'000'000}, true},
    {"mi250x", 0, {50'000'000'000}, 3, {26'000'000'000}, {25'000'000'000}},
    {"mi300x", 0, {64'000'000'000}, 7, {53'000'000'000}, {50'000'000'000}},
    {"mi325x", 0, {64'000'000'000}, 7, {53'000'000'000}, {50'000'000'000}},
    {"mi355x", 0, {76'800'000'000}, 7, {53'000'000'000}, {50'000'000'000}},
};

inline constexpr Duration kAssumedLinkLatency{1'000'000};  ///< 1 us for a hop between GPUs
inline constexpr Duration kAssumedNicLatency{1'500'000};   ///< 1.5 us from NIC to NIC through one switch

}  // namespace tracecast
