#include "tools/accuracy/fit/catalogue.hpp"

#include <cmath>

#include "sim/cost/power_limit.hpp"
#include "tools/accuracy/board_power.hpp"

namespace tracecast::accuracy {
namespace {

// mamf-finder's best shapes (published-tables/mamf_bf16_fp8.csv): A100 PCIe 252.9 of SXM's 271.2 TFLOP/s.
constexpr double kPcieOfSxm = 252.9 / 271.2;
// The same, bf16 and fp8: GB200 1822.0 and 3615.6 of B200's 1745.0 and 3432.5 TFLOP/s, where the data sheets' peaks differ by
// 2500 / 2250. The highest clocks differ by 4.9 % (2,062 and 1,965 MHz, gpu-specs).
constexpr double kGb200OfB200 = (1822.0 / 1745.0 + 3615.6 / 3432.5) / 2 * 2250 / 2500;
// aiconfigurator's bf16 GEMMs of 1e11 multiplications and more: TensorRT-LLM's on B300 take 1.168 times the time of SGLang's on
// GB300 (3,755 shapes); on B200 the two differ by 0.1 %. SGLang's tables of B300 are those of GB300, row by row
// (docs/references.md#gemm-fit).
constexpr double kB300OfGb300 = 1 / 1.168 * 2500 / 2250;
// The same square matrices of 4,096 to 16,384 with torch.matmul: 752 to 807 TFLOP/s at 1,000 W, 615 to 660 of MI300X at 750 W; mean of
// the ratios (scenarios/runs/kernels.csv).
constexpr double kMi325xOfMi300x = 1.22;
// docs/references.md#dgx-2h: 130 TFLOP/s in fp16; the data sheet of the SXM2 part has 125.
constexpr double kDgx2hClock = 130.0 / 125;
// docs/references.md#amd-mi300x: 1,000 W and 2.2 GHz, not 1,400 W and 2.4 GHz
constexpr double kMi350xClock = 2.2 / 2.4;
// docs/references.md#amd-mi250x
constexpr double kMi250xFp32MatrixTflops = 47.9;
constexpr double kMi210Fp32MatrixTflops = kMi250xFp32MatrixTflops * 104 / 110;

// Fitted to Llama 405B in fp8 on 128 to 512 GB200 (DGX Cloud): 248 us per operator, where H100 takes 170. That Grace is slower was
// measured elsewhere, by more: docs/references.md#grace-hosts.
constexpr double kGraceHost = 1.45;

// No kernel of these was measured.
constexpr const char* kGraphicsDie =
    "kernels of rtx-pro-6000, a die with GDDR memory, too, at the peaks of this one (assumed)";
constexpr const char* kGraphicsDieAtLimit =
    "kernels of rtx-pro-6000, of the same process, at the peaks of this one and the clock that its power allows "
    "(assumed)";

/// The share of its clock that a die of RTX PRO 6000's process keeps in multiplications, which RTX PRO 6000 does at 188 SMs, 2.43 GHz
/// and 600 W: what moves takes power with SMs and the cube of the clock (power_limit.hpp). Tensor cores do as much per SM and clock
/// in all of them, but in RTX 4090 half, which is below its limit.
double clock_of_die(int sms, double gigahertz, double watts) {
  const double full = sms / 188.0 * std::pow(gigahertz / 2.43, 3) * 600;
  return clock_at_power(watts / full);
}

// Usable memory: 79.6 and 39.4 GiB from docs/references.md#memory-overheads; the others are what drivers report for the
// part, rounded down.
const Gpu kGpus[] = {
    {.name = "a100",
     .title = "A100 SXM 80 GB",
     .row = "A100-SXM-80GB",
     .architecture = "Ampere",
     .usable_gib = 79.2,
     .gemm_table = "a100_sxm"},
    {.name = "a100-40gb",
     .title = "A100 SXM 40 GB",
     .row = "A100-SXM-40GB",
     .architecture = "Ampere",
     .usable_gib = 39.4,
     .based_on = "a100",
     .note = "kernels of a100"},
    {.name = "a100-pcie",
     .title = "A100 PCIe 80 GB",
     .row = "A100-PCIe-80GB",
     .architecture = "Ampere",
     .usable_gib = 79.2,
     .based_on = "a100",
     .efficiency = kPcieOfSxm,
     .note = "kernels of a100, GEMM rate by mamf-finder's best shapes (300 W)"},
    {.name = "h100",
     .title = "H100 SXM 80 GB",
     .row = "H100-SXM-80GB",
     .architecture = "Hopper",
     .usable_gib = 79.6,
     .gemm_table = "h100_sxm"},
    {.name = "h100-96gb-500w",
     .title = "H100 96 GB HBM2e 500 W",
     .row = "H100-96GB-HBM2e-500W",
     .architecture = "Hopper",
     .usable_gib = 95.0,
     .based_on = "h100",
     .in_training_gemm = kH100With500W,
     .note = "kernels of h100; the 500 W clock by docs/references.md#in-training-factors, 2.4 TB/s by torchtitan's "
             "documentation; peaks as H100 SXM"},
    {.name = "h200",
     .title = "H200 SXM 141 GB",
     .row = "H200-SXM-141GB",
     .architecture = "Hopper",
     .usable_gib = 139.8,
     .gemm_table = "h200_sxm",
     .die = "h100"},
    {.name = "h800",
     .title = "H800 SXM 80 GB",
     .row = "H800-SXM-80GB",
     .architecture = "Hopper",
     .usable_gib = 79.6,
     .based_on = "h100",
     .note = "kernels of h100"},
    {.name = "h100-pcie",
     .title = "H100 PCIe 80 GB",
     .row = "H100-PCIe-80GB",
     .architecture = "Hopper",
     .usable_gib = 79.6,
     .based_on = "h100",
     .in_training_gemm = kH100With500W,
     .note = "kernels of h100; the clock of 350 W taken as that of the 500 W part (assumed)"},
    {.name = "h100-nvl",
     .title = "H100 NVL 94 GB",
     .row = "H100-NVL-94GB",
     .architecture = "Hopper",
     .usable_gib = 93.1,
     .based_on = "h100",
     .in_training_gemm = kH100With500W,
     .note = "kernels of h100 at the peaks of this one; the clock of 400 W taken as that of the 500 W part (assumed)"},
    {.name = "h200-nvl",
     .title = "H200 NVL 141 GB",
     .row = "H200-NVL-141GB",
     .architecture = "Hopper",
     .usable_gib = 139.8,
     .based_on = "h200",
     .note = "kernels of h200 at the peaks of this one, which 600 W are taken to allow (assumed)"},
    {.name = "h20",
     .title = "H20 SXM 96 GB",
     .row = "H20-96GB",
     .architecture = "Hopper",
     .usable_gib = 95.0,
     .based_on = "h100",
     .attention = 1.35,
     .note = "kernels of h100 at H20's peaks (assumed); fused attention reaches 1.35 times H100's share of the peak "
             "(docs/references.md#h20-attention)"},
    {.name = "gh200",
     .title = "GH200 (its GPU) 96 GB",
     .row = "GH200-96GB",
     .architecture = "Hopper",
     .usable_gib = 94.5,
     .based_on = "h100",
     .host = kGraceHost,
     .note = "kernels of h100"},
    {.name = "b200",
     .title = "B200 SXM 180 GB",
     .row = "B200-SXM-180GB",
     .architecture = "Blackwell",
     .usable_gib = 178.3,
     .gemm_table = "b200_sxm"},
    {.name = "gb200",
     .title = "GB200 (one GPU) 186 GB",
     .row = "GB200",
     .architecture = "Blackwell",
     .usable_gib = 184.0,
     .based_on = "b200",
     .efficiency = kGb200OfB200,
     .host = kGraceHost,
     .note = "GEMMs of b200, at the ratio of mamf-finder's best shapes"},
    {.name = "b300",
     .title = "B300 SXM 270 GB",
     .row = "B300-SXM-270GB",
     .architecture = "Blackwell",
     .usable_gib = 267.0,
     .based_on = "gb300",
     .efficiency = kB300OfGb300,
     .in_training_gemm = clock_at_power(1000.0 / 1100) / clock_at_power(1200.0 / 1400),
     .note = "GEMMs of gb300, at the ratio of TensorRT-LLM's on B300 to SGLang's on GB300"},
    {.name = "gb300",
     .title = "GB300 (one GPU) 278 GB",
     .row = "GB300",
     .architecture = "Blackwell",
     .usable_gib = 276.0,
     .gemm_table = "gb300",
     .in_training_as = "gb200",
     .in_training_gemm = clock_at_power(1200.0 / 1400),
     .host = kGraceHost},
    {.name = "vr200",
     .title = "Vera Rubin (one GPU) 288 GB",
     .row = "VR200",
     .architecture = "Rubin",
     .usable_gib = 276.0,
     .based_on = "gb300",
     .host = kGraceHost,
     .note = "a preliminary data sheet; kernels and host of gb300 at the peaks of this one (assumed)"},
    {.name = "v100",
     .title = "V100 SXM2 32 GB",
     .row = "V100-SXM2-32GB",
     .architecture = "Volta",
     .usable_gib = 31.7,
     .note = "GEMM share of peak: scenarios/runs/kernels.csv"},
    {.name = "mi250x",
     .title = "MI250X, one of its two dies (GCD)",
     .row = "MI250X-GCD",
     .architecture = "CDNA2",
     .usable_gib = 63.9,
     .efficiency = 0.6,
     .fp32_matrix_tflops = kMi250xFp32MatrixTflops,
     .note = "GEMM share of peak as MI325X (assumed)"},
    {.name = "v100-16gb",
     .title = "V100 SXM2 16 GB",
     .row = "V100-SXM2-32GB",
     .architecture = "Volta",
     .usable_gib = 15.7,
     .based_on = "v100",
     .note = "v100 with half the memory"},
    {.name = "v100-sxm3",
     .title = "V100 SXM3 32 GB of DGX-2H",
     .row = "V100-SXM2-32GB",
     .architecture = "Volta",
     .usable_gib = 31.7,
     .based_on = "v100",
     .clock = kDgx2hClock,
     .note = "v100 with the peaks of docs/references.md#dgx-2h"},
    {.name = "rtx-pro-6000",
     .title = "RTX PRO 6000 Blackwell Server",
     .row = "RTX-PRO-6000-Server",
     .architecture = "Blackwell",
     .usable_gib = 94.9,
     .gemm_table = "rtx_pro_6000_server",
     .in_training_as = "b200"},
    {.name = "l40s",
     .title = "L40S 48 GB",
     .row = "L40S",
     .architecture = "Ada",
     .usable_gib = 44.4,
     .based_on = "rtx-pro-6000",
     .efficiency = clock_of_die(142, 2.52, 350),
     .note = kGraphicsDieAtLimit},
    {.name = "l4",
     .title = "L4 24 GB",
     .row = "L4",
     .architecture = "Ada",
     .usable_gib = 22.0,
     .based_on = "rtx-pro-6000",
     .efficiency = clock_of_die(60, 2.04, 72),
     .note = kGraphicsDieAtLimit},
    {.name = "rtx-4090",
     .title = "GeForce RTX 4090 24 GB",
     .row = "RTX-4090",
     .architecture = "Ada",
     .usable_gib = 23.5,
     .based_on = "rtx-pro-6000",
     .note = kGraphicsDie},
    {.name = "a40",
     .title = "A40 48 GB",
     .row = "A40",
     .architecture = "GA102",
     .usable_gib = 44.4,
     .based_on = "rtx-pro-6000",
     .note = kGraphicsDie},
    {.name = "mi300x",
     .title = "MI300X 192 GB",
     .row = "MI300X",
     .architecture = "CDNA3",
     .usable_gib = 191.6,
     .note = "GEMM share of peak and attention: scenarios/runs/kernels.csv"},
    {.name = "mi325x",
     .title = "MI325X 256 GB",
     .row = "MI325X",
     .architecture = "CDNA3",
     .usable_gib = 255.6,
     .based_on = "mi300x",
     .efficiency = kMi325xOfMi300x,
     .note = "kernels of mi300x, the same die; GEMM rate by square matrices (scenarios/runs/kernels.csv)"},
    {.name = "mi355x",
     .title = "MI355X 288 GB",
     .row = "MI355X",
     .architecture = "CDNA4",
     .usable_gib = 287.6,
     .note = "GEMM share of peak and attention: scenarios/runs/kernels.csv"},
    {.name = "mi350x",
     .title = "MI350X 288 GB",
     .row = "MI355X",
     .architecture = "CDNA4",
     .usable_gib = 287.6,
     .based_on = "mi355x",
     .clock = kMi350xClock,
     .note = "mi355x at the clock of its air-cooled part"},
    {.name = "mi210",
     .title = "MI210 64 GB",
     .row = "MI210",
     .architecture = "CDNA2",
     .usable_gib = 63.9,
     .based_on = "mi250x",
     .fp32_matrix_tflops = kMi210Fp32MatrixTflops,
     .note = "kernels of mi250x, the same die with fewer units"},
    {.name = "a64fx",
     .title = "A64FX (Fugaku node)",
     .row = "A64FX(Fugaku node)",
     .architecture = "A64FX",
     .usable_gib = 28.0,
     .efficiency = 0.6,
     .note = "GEMM share of peak assumed"},
    {.name = "pvc",
     .title = "Data Center GPU Max 1550",
     .row = "PVC-Max1550(Aurora)",
     .architecture = "Xe",
     .usable_gib = 122.0,
     .efficiency = 0.6,
     .note = "GEMM share of peak assumed"},
    {.name = "mi250x-module",
     .title = "MI250X, both dies as one GPU",
     .row = "MI250X-GCD",
     .architecture = "CDNA2",
     .usable_gib = 127.8,
     .efficiency = 0.6,
     .fp32_matrix_tflops = kMi250xFp32MatrixTflops,
     .dies = 2,
     .note = "twice the row of one GCD; GEMM share of peak as MI325X (assumed)"},
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
  if (architecture == "Ampere") return {1.18, 0, 0, 0.47, 1.0553};
  if (architecture == "Hopper") return {1.27, 0.673, 0, 0.54, 0.9477};
  if (architecture == "Blackwell") return {1.25, 0.492, 0.437, 0.73};
  // Unknown for others: Ampere's factors.
  return {1.18};
}

}  // namespace tracecast::accuracy
