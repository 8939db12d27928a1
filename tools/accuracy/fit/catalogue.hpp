/// \file
/// The GPUs with shipped profiles, and where their numbers come from.
#pragma once

#include <span>
#include <string>

namespace tracecast::accuracy {

/// What was found on published runs (docs/references.md#in-training-factors), as shares of peaks reached in training;
/// 0: not known.
struct Achieved {
  double gemm_factor = 1;  ///< isolated to in-training time of 16-bit GEMMs
  double gemm_fp8 = 0;     ///< of the fp8 peak, large shapes
  double gemm_fp4 = 0;
  double attention = 0;     ///< fused, forward, head size 128, long sequences
  double softmax_runs = 1;  ///< time of unfused softmax: fitted to the runs of scenarios/published
};

struct Gpu {
  const char* name;  ///< of the profile
  const char* title;
  const char* row;  ///< in a table of data sheets (assemble.hpp)
  const char* architecture;
  double usable_gib;              ///< what a program can allocate at most
  const char* gemm_table = "";    ///< aiconfigurator's name, "" when its GEMMs were not measured
  const char* based_on = "";      ///< profile whose kernels this one borrows, "" for none
  const char* die = "";           ///< GPU with the same die, whose 16-bit GEMMs this one takes; "" for none
  double efficiency = 1;          ///< with `based_on`: tensor rate relative to it; else the GEMM share of peak
  double attention = 1;           ///< with `based_on`: share of the tensor rate that fused attention reaches, over its
  double fp32_matrix_tflops = 0;  ///< of one row whose fp32 is the vector units', where matrix units are faster; else 0
  double clock = 1;               ///< over that of the row, of a part that only differs by its clock: scales the peaks
  int dies = 1;                   ///< how many times the row of the table of data sheets makes up this GPU
  const char* in_training_as =
      "";  ///< GPU whose factors in training this one takes, "" for its own; `based_on` implies them
  double in_training_gemm = 1;  ///< over those factors: its clock at another board power
  double host = 1;              ///< time of its host's eager work over that of an x86 host
  const char* note = "";        ///< what was assumed
};

std::span<const Gpu> catalogue();
/// nullptr: unknown GPU.
const Gpu* find_gpu(const std::string& name);
Achieved achieved(const std::string& architecture);

}  // namespace tracecast::accuracy
