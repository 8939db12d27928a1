/// \file
/// Times of the backward layouts and of grouped GEMMs relative to the forward layout, from SimuMax's training kernels.
#pragma once

#include "sim/cost/gemm.hpp"
#include "sim/io/csv_table.hpp"
#include "tools/accuracy/fit/fit.hpp"

namespace tracecast::accuracy {

/// Factors on the time that a GEMM model gives, once the model has been scaled to the forward layout of the same table.
struct Layouts {
  double dgrad = 1;
  double wgrad = 1;          ///< with fp32 accumulation, whose traffic the model already has
  double grouped = 1;        ///< forward of grouped multiplications
  double grouped_wgrad = 1;  ///< relative to `grouped`
  int samples = 0;           ///< grouped multiplications
  double residual = 0;       ///< of the grouped ones
};
Layouts read_layouts(const CsvTable& simumax, const GemmModel& model, const GpuPeak& gpu);

/// Geometric mean of the factors.
Layouts mean(const Layouts& a, const Layouts& b);

}  // namespace tracecast::accuracy
