/// Fits the tile/wave/split-K form of sim/cost/gemm.hpp to measured GEMM times.
#pragma once

#include <string>
#include <vector>

#include "sim/cost/gemm.hpp"
#include "tools/calibrate/fit.hpp"
#include "tools/calibrate/table.hpp"

namespace tracecast::calibrate {

struct GemmSample {
  GemmShape shape;
  double seconds = 0;
  GemmLoop loop;  ///< in which it was timed
};

struct GemmSamples {
  std::vector<GemmSample> fitted;
  std::vector<GemmSample> held_out;  ///< (n, k) pairs that are never fitted to
};

/// Rows of an aiconfigurator GEMM table of one data type ("bfloat16", "fp8", "fp8_block", "nvfp4"), split by (n, k) pair.
/// Only sources with random operands: vLLM's rows ran on zeros, which draw less power and are 5-12 % too fast.
GemmSamples read_gemm_samples(const Table& table, const std::string& dtype);

/// True when m, n and k are at least 1024: the multiplications that a training step is made of.
bool is_large(const GemmShape& shape);

struct GemmFit {
  GemmModel model;    ///< model.fit.residual: held-out error over the large shapes
  LogError held_out;  ///< over all held-out samples
  LogError large;     ///< over the large ones of them
};

/// `l2_bytes`: the cache that the search starts from. `precision` fp8, fp8_block and nvfp4: the rows include the quantisation of the activations; its time by `quantise` is
/// added to the model's while fitting, since a step graph has casts as operators of their own.
GemmFit fit_gemm(const GemmSamples& samples, const GpuPeak& gpu, double l2_bytes, Precision precision,
                 const MemoryModel& quantise, const std::string& data);

}  // namespace tracecast::calibrate
