/// \file
/// Published tables of measured operators, row by row as operators of ours.
///
/// A table is recognised by its columns (docs/formats/runs.md): our own, and those of aiconfigurator (GEMM, attention),
/// cudnn-frontend (attention, norms), FlashAttention's rates, SimuMax, Vidur's layers and DeepGEMM.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/io/csv_table.hpp"
#include "sim/model/operators.hpp"
#include "tools/accuracy/gemm_benchmark.hpp"

namespace tracecast::accuracy {

struct MeasuredKernel {
  std::size_t row = 0;
  std::string gpu;  ///< as the table names it
  std::string
      kernel;  ///< of attention: the implementation, where the profile has a model of it; "" the profile's first
  Operator op;
  double seconds = 0;
  bool quantises = false;    ///< the time includes quantising the left operand from 16 bit
  bool in_training = false;  ///< measured inside a training step
  GemmLoop loop;             ///< of a multiplication that was timed by repeating it
  bool held_out = false;     ///< of a table that profiles were fitted to, but never fitted to
  std::string aside;         ///< why it is shown apart and does not count ("operands of zeros"); "" it counts
};

/// Has it the columns of one of them?
bool is_kernel_table(const CsvTable& table);

/// A row may hold several operators.   Errors: a table with other columns; a field that is no number; an unknown word.
Result<std::vector<MeasuredKernel>> read_kernels(const CsvTable& table);

/// The profile for a GPU as such tables name it ("NVIDIA H200", "A100-SXM-80GB"); the name itself where none is known.
std::string profile_of_gpu(const std::string& gpu);

}  // namespace tracecast::accuracy
