/// \file
/// Fits the tile/wave/split-K form of sim/cost/gemm.hpp to measured GEMM times, which are not shipped.
#pragma once

#include <string>
#include <vector>

#include "sim/cost/gemm.hpp"
#include "sim/io/csv_table.hpp"
#include "tools/accuracy/fit/fit.hpp"
#include "tools/accuracy/gemm_benchmark.hpp"

namespace tracecast::accuracy {

struct GemmSample {
  GemmShape shape;
  double seconds = 0;
  GemmLoop loop;  ///< in which it was timed
};

struct GemmSamples {
  std::vector<GemmSample> fitted;
  std::vector<GemmSample> held_out;  ///< (n, k) pairs that are never fitted to
};

/// Rows of an aiconfigurator GEMM table of one data type ("bfloat16", "fp8", "fp8_block", "nvfp4"), split by (n, k)
/// pair. Only sources with random operands: vLLM's rows ran on zeros, which draw less power and are 5-12 % too fast.
GemmSamples read_gemm_samples(const CsvTable& table, const std::string& dtype);

/// True when m, n and k are at least 1024, as in training steps.
bool is_large(const GemmShape& shape);

struct GemmFit {
  GemmModel model;    ///< model.fit.residual: held-out error over the large shapes
  LogError held_out;  ///< over all held-out samples, by the form alone
  LogError large;     ///< over the large ones of them
  LogError chosen;    ///< over all, with what is known of the library's choices
};

/// What is known before the parameters are searched.
struct GemmTask {
  Precision precision = Precision::bf16;
  double l2_bytes = 0;  ///< the start of the search
  double t0 = 0;        ///< s, of narrow formats: a kernel's fixed cost, 16-bit ones' (0: it is searched)
  bool nodes = false;   ///< search the weight of the result and by how much the nodes of the two sources differ
};

/// How the measured libraries choose a kernel, as their times show: sglang's per-tensor fp8 and nvfp4 from a list by
/// the rows of A, without split-K; DeepGEMM (fp8_block) the fastest, without split-K.
struct GemmLibrary {
  bool splits = true;
  std::vector<GemmTile> tiles;
};
GemmLibrary measured_library(const std::string& profile, const std::string& architecture, Precision precision);

/// Rows of narrow formats include the quantisation of A: its kernel is fitted along (GemmBenchmark::quantise_t0),
/// since a step graph has casts as operators of their own. GemmBenchmark::choices that lead from `predicted` to the
/// seconds of the samples: absolute logarithms by iterated reweighting, held to 0 where few samples are.
struct ChoiceSample {
  GemmShape shape;
  double predicted = 0;  ///< s
  double seconds = 0;
};
std::vector<int> fit_choices(const std::vector<ChoiceSample>& samples);

/// `model` with the share of the peak that published kernels reached (scenarios/runs/kernels.csv); everything else as it is. The
/// residual is that of leaving out each kernel in turn.   Requires samples
GemmModel with_fitted_share(GemmModel model, const std::vector<GemmSample>& samples, const GpuPeak& gpu,
                            Precision precision, const std::string& data);

GemmFit fit_gemm(const GemmSamples& samples, const GpuPeak& gpu, const GemmTask& task, const GemmLibrary& library,
                 const std::string& data);

}  // namespace tracecast::accuracy
