#include "tools/accuracy/fit/catalogue.hpp"

namespace tracecast::accuracy {
namespace {

// mamf-finder's best shapes (published-tables/mamf_bf16_fp8.csv): A100 PCIe 252.9 of SXM's 271.2 TFLOP/s.
constexpr double kPcieOfSxm = 252.9 / 271.2;
// docs/references.md#in-training-factors: GEMM time of the 500 W H100 relative to the 700 W part, of B300 and GB300
// relative to B200 and GB200.
constexpr double kH100With500W = 1.16;
constexpr double kBlackwellUltra = 0.80;

// Usable memory: 79.6 and 39.4 GiB from docs/references.md#memory-overheads; the others are what drivers report for the
// part, rounded down.
constexpr Gpu kGpus[] = {
    {"a100", "A100 SXM 80 GB", "A100-SXM-80GB", "Ampere", 79.2, "a100_sxm", "", 1, 1, 1, ""},
    {"a100-40gb", "A100 SXM 40 GB", "A100-SXM-40GB", "Ampere", 39.4, "", "a100", 1, 1, 1, "kernels of a100"},
    {"a100-pcie", "A100 PCIe 80 GB", "A100-PCIe-80GB", "Ampere", 79.2, "", "a100", kPcieOfSxm, 1, 1,
     "kernels of a100, GEMM rate by mamf-finder's best shapes (300 W)"},
    {"h100", "H100 SXM 80 GB", "H100-SXM-80GB", "Hopper", 79.6, "h100_sxm", "", 1, 1, 1, ""},
    {"h100-96gb-500w", "H100 96 GB HBM2e 500 W", "H100-96GB-HBM2e-500W", "Hopper", 95.0, "", "h100", 1, 1,
     kH100With500W,
     "kernels of h100; the 500 W clock by docs/references.md#in-training-factors, 2.4 TB/s by torchtitan's "
     "documentation; peaks as H100 SXM"},
    {"h200", "H200 SXM 141 GB", "H200-SXM-141GB", "Hopper", 139.8, "h200_sxm", "", 1, 1, 1, ""},
    {"h800", "H800 SXM 80 GB", "H800-SXM-80GB", "Hopper", 79.6, "", "h100", 1, 1, 1, "kernels of h100"},
    {"h100-pcie", "H100 PCIe 80 GB", "H100-PCIe-80GB", "Hopper", 79.6, "", "h100", 1, 1, kH100With500W,
     "kernels of h100; the clock of 350 W taken as that of the 500 W part (assumed)"},
    {"h20", "H20 SXM 96 GB", "H20-96GB", "Hopper", 95.0, "", "h100", 1, 1, 1,
     "kernels of h100 at H20's peaks (assumed)"},
    {"gh200", "GH200 (its GPU) 96 GB", "GH200-96GB", "Hopper", 94.5, "", "h100", 1, 1, 1, "kernels of h100"},
    {"b200", "B200 SXM 180 GB", "B200-SXM-180GB", "Blackwell", 178.3, "b200_sxm", "", 1, 1, 1, ""},
    {"gb200", "GB200 (one GPU) 186 GB", "GB200", "Blackwell", 184.0, "", "b200", 1, 1, 1,
     "GEMMs of b200 at GB200's peaks"},
    {"b300", "B300 SXM 270 GB", "B300-SXM-270GB", "Blackwell", 267.0, "b300_sxm", "", 1, 1, kBlackwellUltra, ""},
    {"gb300", "GB300 (one GPU) 278 GB", "GB300", "Blackwell", 276.0, "gb300", "", 1, 1, kBlackwellUltra, ""},
    {"v100", "V100 SXM2 32 GB", "V100-SXM2-32GB", "Volta", 31.7, "", "", 0.75, 1, 1,
     "GEMM share of peak between A100's and the mean of all GPUs (assumed)"},
    {"mi250x", "MI250X, one of its two dies (GCD)", "MI250X-GCD", "CDNA2", 63.9, "", "", 0.6, 1, 1,
     "GEMM share of peak as MI325X (assumed)"},
    {"v100-16gb", "V100 SXM2 16 GB", "V100-SXM2-32GB", "Volta", 15.7, "", "v100", 1, 1, 1, "v100 with half the memory"},
    {"rtx-pro-6000", "RTX PRO 6000 Blackwell Server", "RTX-PRO-6000-Server", "Blackwell", 94.9, "rtx_pro_6000_server",
     "", 1, 1, 1, ""},
    {"mi300x", "MI300X 192 GB", "MI300X", "CDNA3", 191.6, "", "", 0.514, 1, 1,
     "GEMM share of peak: mamf-finder's best shape"},
    {"mi325x", "MI325X 256 GB", "MI325X", "CDNA3", 255.6, "", "", 0.604, 1, 1,
     "GEMM share of peak: mamf-finder's best shape"},
    {"mi355x", "MI355X 288 GB", "MI355X", "CDNA4", 287.6, "", "", 0.626, 1, 1,
     "GEMM share of peak: mamf-finder's best shape"},
    {"a64fx", "A64FX (Fugaku node)", "A64FX(Fugaku node)", "A64FX", 28.0, "", "", 0.6, 1, 1,
     "GEMM share of peak assumed"},
    {"pvc", "Data Center GPU Max 1550", "PVC-Max1550(Aurora)", "Xe", 122.0, "", "", 0.6, 1, 1,
     "GEMM share of peak assumed"},
    {"mi250x-module", "MI250X, both dies as one GPU", "MI250X-GCD", "CDNA2", 127.8, "", "", 0.6, 2, 1,
     "twice the row of one GCD; GEMM share of peak as MI325X (assumed)"},
};

}  // namespace

std::span<const Gpu> catalogue() { return kGpus; }

const Gpu* find_gpu(const std::string& name) {
  for (const Gpu& gpu : kGpus)
    if (gpu.name == name) return &gpu;
  return nullptr;
}

Achieved achieved(const std::string& architecture) {
  // gemm_fp8: asymptote over time factor, .66/.98 and .60/1.22; gemm_fp4: .48 / (1.22 x 0.90).
  if (architecture == "Ampere") return {1.18, 0, 0, 0.47, 1.54};
  if (architecture == "Hopper") return {1.27, 0.673, 0, 0.54, 2.14};
  if (architecture == "Blackwell") return {1.25, 0.492, 0.437, 0.73, 2.02};
  // Nothing is known of the others: Ampere's factors.
  return {1.18, 0, 0, 0, 1.54};
}

}  // namespace tracecast::accuracy
