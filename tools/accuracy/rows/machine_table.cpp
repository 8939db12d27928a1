#include "tools/accuracy/rows/machine_table.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tracecast::accuracy {
namespace {

constexpr MachineEntry kMachines[] = {
    {"A100", "Omni-Path", "", 0, 8, {"jean-zay", "", true}},
    {"A100", "4x 100Gb/s RoCE", "", 0, 8, {"internevo-a100", "", true}},
    {"A100", "4x HDR", "", 40, 8, {"a100-4hdr", "a100-40gb", true}},
    {"A100", "4x HDR", "", 0, 8, {"a100-4hdr", "", true}},
    {"A100", "1600Gb/s RoCE", "", 40, 8, {"hgx-a100-8x200g", "", true}},
    {"A100", "1600Gb/s RoCE", "", 0, 8, {"hgx-a100-8x200g", "a100", true}},
    {"A100", "8x HDR", "", 80, 8, {"selene", "", true}},
    {"A100", "p4de", "", 0, 8, {"aws-p4de", "", true}},
    {"A100", "p4d", "", 0, 8, {"aws-p4d", "", true}},
    {"A100", "EFA", "", 40, 8, {"aws-p4d", "", true}},
    {"A100", "EFA", "", 0, 8, {"aws-p4de", "", true}},
    {"A100", "", "", 40, 0, {"dgx-a100", "a100-40gb", false}},
    {"A100", "", "", 0, 0, {"dgx-a100", "", false}},
    {"A100-PCIE", "", "", 0, 0, {"rtx-pro-6000-pcie", "a100-pcie", false}},
    {"A800", "", "", 0, 0, {"hgx-a800", "", false}},
    {"A800-PCIE", "", "", 0, 0, {"rtx-pro-6000-pcie", "a100-pcie", false}},
    {"H100", "pods of 3072", "", 0, 0, {"meta-24k-h100", "", true}},
    {"H100", "EFA", "", 0, 8, {"aws-p5", "", true}},
    {"H100", "p5", "", 0, 8, {"aws-p5", "", true}},
    {"H100", "TCPXO", "", 0, 8, {"gcp-a3mega", "", true}},
    {"H100", "a3-mega", "", 0, 8, {"gcp-a3mega", "", true}},
    {"H200", "EFA", "", 0, 8, {"aws-p5en", "", true}},
    {"H200", "p5en", "", 0, 8, {"aws-p5en", "", true}},
    {"H100", "", "torchtitan", 94, 0, {"grand-teton", "h100-96gb-500w", false}},
    {"H100", "", "torchtitan", 96, 0, {"grand-teton", "h100-96gb-500w", false}},
    {"H100", "", "", 94, 0, {"dgx-h100", "h100-96gb-500w", false}},  // TSUBAME 4's, HBM2e
    {"H100", "", "", 96, 0, {"dgx-h100", "h100-96gb-500w", false}},
    {"H100", "", "", 0, 0, {"dgx-h100", "", false}},
    {"H100-NVL", "", "", 0, 0, {"rtx-pro-6000-pcie", "h100-nvl", false}},
    {"H100-PCIE", "", "", 94, 0, {"rtx-pro-6000-pcie", "h100-nvl", false}},
    {"H100-PCIE", "", "", 0, 0, {"rtx-pro-6000-pcie", "h100-pcie", false}},
    {"H20", "", "", 0, 0, {"hgx-h20", "", false}},
    {"GH200", "", "", 0, 0, {"jupiter", "", false}},
    {"H800", "", "", 0, 0, {"dgx-h800", "", false}},
    {"H800-PCIE", "", "", 0, 0, {"rtx-pro-6000-pcie", "h100-pcie", false}},
    {"H200", "", "", 0, 0, {"dgx-h200", "", false}},
    {"H200-PCIE", "", "", 0, 0, {"rtx-pro-6000-pcie", "h200-nvl", false}},
    {"B200", "", "", 0, 0, {"dgx-b200", "", false}},
    {"B300", "", "", 0, 0, {"hgx-b300", "", false}},
    {"GB200", "", "", 0, 0, {"gb200-nvl72", "", false}},
    {"GB300", "", "", 0, 0, {"gb300-nvl72", "", false}},
    {"VR200", "", "", 0, 0, {"vr-nvl72", "", false}},
    {"V100", "", "", 16, 0, {"dgx-v100", "v100-16gb", false}},
    {"V100", "", "", 0, -16, {"dgx-2h", "", false}},
    {"V100", "", "", 0, 0, {"dgx-v100", "", false}},
    {"V100-PCIE", "", "", 16, 0, {"rtx-pro-6000-pcie", "v100-16gb", false}},
    {"V100-PCIE", "", "", 0, 0, {"rtx-pro-6000-pcie", "v100", false}},
    {"MI250X-GCD", "", "", 0, 0, {"frontier", "", false}},
    {"MI250X", "", "", 128, 0, {"frontier", "mi250x-module", false}},
    {"MI250X", "", "", 0, -4, {"frontier", "mi250x-module", false}},
    {"MI250X", "", "", 0, 0, {"frontier", "", false}},
    {"MI300X", "", "", 0, 0, {"hgx-mi300x", "", false}},
    {"MI325X", "", "", 0, 0, {"hgx-mi300x", "mi325x", false}},
    {"MI350X", "", "", 0, 0, {"hgx-mi355x", "mi350x", false}},
    {"MI355X", "", "", 0, 0, {"hgx-mi355x", "", false}},
    {"RTX-PRO-6000", "", "", 0, 0, {"rtx-pro-6000-pcie", "", false}},
    {"L40S", "", "", 0, 0, {"rtx-pro-6000-pcie", "l40s", false}},
    {"L4", "", "", 0, 0, {"rtx-pro-6000-pcie", "l4", false}},
    {"A40", "", "", 0, 0, {"rtx-pro-6000-pcie", "a40", false}},
    {"RTX-4090", "", "", 0, 0, {"rtx-pro-6000-pcie", "rtx-4090", false}},
    {"MI210", "", "", 0, 0, {"rtx-pro-6000-pcie", "mi210", false}},
    {"MAX-1550", "", "", 0, 0, {"aurora", "", false}},
    {"PVC", "", "", 0, 0, {"aurora", "", false}},
};

}  // namespace

std::span<const MachineEntry> machine_table() { return kMachines; }

bool is_part(std::string_view name) {
  return std::ranges::any_of(kMachines, [&](const MachineEntry& each) { return name == each.gpu; });
}

std::string known_gpus() {
  std::vector<std::string_view> names;
  for (const MachineEntry& each : kMachines)
    if (std::find(names.begin(), names.end(), each.gpu) == names.end()) names.emplace_back(each.gpu);
  return fmt::format("{}", fmt::join(names, " "));
}

}  // namespace tracecast::accuracy
