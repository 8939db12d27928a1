/// \file
/// Published tables of measured operators, each row as an Operator of the simulator.
///
/// A table is recognised by its columns (docs/formats/runs.md): those of the project's own form, and those of
/// aiconfigurator (GEMM, attention), cudnn-frontend (attention, norms), FlashAttention's rates, SimuMax, Vidur's
/// layers and DeepGEMM.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/io/csv_table.hpp"
#include "sim/model/operators.hpp"
#include "tools/accuracy/gemm_benchmark.hpp"

namespace tracecast::accuracy {

/// Seconds: of shorter times in Vidur's tables too little is left, since its timer counts microseconds.
inline constexpr double kVidurTimerLimit = 20e-6;

struct MeasuredKernel {
  std::size_t row = 0;
  std::string gpu;  ///< as the table names it
  std::string
      kernel;  ///< of attention: the implementation, where the profile has a model of it; "" the profile's first
  Operator op;
  double seconds = 0;
  bool quantises = false;    ///< the time includes quantising the left operand from 16 bit
  bool in_training = false;  ///< measured inside a training step
  GemmLoop loop;             ///< of a GEMM that was timed in a loop
  bool held_out = false;     ///< no fit has seen it, though profiles were fitted to its table
  std::string excluded;      ///< why it is listed apart and does not count ("operands of zeros"); "": it counts
};

/// True if the table has the columns of one of them.
bool is_kernel_table(const CsvTable& table);

/// A row may hold several operators.   Errors: a table with other columns; a field that is not a number; an unknown
/// word.
Result<std::vector<MeasuredKernel>> read_kernels(const CsvTable& table);

/// The profile for a GPU as these tables name it ("NVIDIA H200", "A100-SXM-80GB"); the name itself for other GPUs.
std::string profile_of_gpu(const std::string& gpu);

}  // namespace tracecast::accuracy
