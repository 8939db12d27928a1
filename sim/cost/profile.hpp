/// \file
/// A profile: what is known about one GPU, as data. Read from kernels/profiles/GPU.json, written by tools/accuracy/fit
/// (fitted to public measurements) or by `tracecast profile` (recorded on the GPU itself).
///
/// Every fitted group carries a `Fit`: on what it was fitted and with what residual. Durations in seconds, rates in
/// units per second, as doubles; they are rounded to picoseconds once, when a cost enters a step graph.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/base/collective.hpp"
#include "sim/model/operators.hpp"

namespace tracecast {

/// On what a group of parameters was fitted, and how well.
struct Fit {
  std::string data;  ///< source of the measurements, or "specification"
  int samples = 0;
  /// Mean |log(predicted / measured)| on held-out samples, the spread of a forecast. Of InTraining it is not measured but
  /// chosen: 0.05 where 100 runs or more decide a factor, 0.07 from 20 on, else 0.10 (tools/accuracy/fit/fit_training.cpp).
  double residual = 0;
  bool operator==(const Fit&) const = default;
};

/// The tile of a kernel that is chosen by the rows of A alone, as by a library whose kernels are picked from a list.
struct GemmTile {
  std::int64_t rows = 0;  ///< up to so many, 0: any
  int m = 128;
  int n = 128;
  int together = 1;    ///< tiles along m that run at once (a cluster, a pair of SMs): their number is rounded up
  double latency = 0;  ///< s, at least, for each 64 of k
  bool operator==(const GemmTile&) const = default;
};

/// How the benchmarks ran that a GemmModel was fitted to, and what their library chose. A step graph needs nothing of it;
/// tools/accuracy/gemm_benchmark.hpp forecasts benchmarks with it.
struct GemmBenchmark {
  double l2_bytes = 0;    ///< that stay in L2 between two runs of one multiplication; 0: none
  double l2_speedup = 1;  ///< of reading these, relative to memory
  double node_rate = 1;   ///< how much faster than the model the first of two nodes computed, and the second one slower
  /// Quantising A from 16 bit, where times include it: a kernel of t0 + bytes / (efficiency x memory bandwidth).
  double quantise_t0 = 0;
  double quantise_efficiency = 0;  ///< 0: none was measured
  /// Logarithm of measured over modelled time, in thousandths, at the kChoiceNodes nodes of a grid (choice_factor): which
  /// kernels the measured library chose. Empty: none.
  std::vector<int> choices = {};
  static constexpr std::size_t kChoiceNodes = std::size_t{6} * 6 * 5;
  bool operator==(const GemmBenchmark&) const = default;
};

/// GEMM time by tiles, waves and split-K (docs/references.md#gemm-fit).
struct GemmModel {
  double t0 = 0;                 ///< s, fixed cost of one kernel
  double efficiency = 1;         ///< e, of peak for a full wave of large tiles
  double memory_efficiency = 1;  ///< f
  double k0 = 0;                 ///< elements added to k: prologue and epilogue of a tile
  double tile_exponent = 0;      ///< g, loss of small tiles
  double split_cost = 0;         ///< s, reduction of split-K
  double reread = 0;             ///< r, share of operand re-reads that miss L2
  double norm = 2;               ///< q of (tc^q + tm^q)^(1/q)
  double wave_weight = 1;        ///< a: 1 counts whole waves, 0 fractional ones
  double dgrad_factor = 1;       ///< time relative to the forward layout
  double wgrad_factor = 1;
  /// Long kernels lose clock to the power limit: efficiency x (flops / power_knee)^-power_exponent above the knee.
  double power_knee = 0;  ///< FLOPs, 0: no loss
  double power_exponent = 0;
  /// Time of unfused attention's multiplications when n or k is no multiple of 16 bytes, relative to when they are:
  /// such operands cannot be loaded at full width (head size 108 of BLOOM's study, docs/references.md#gemm-alignment).
  double unaligned_factor = 1;
  /// s, at least, for each 64 of k: until its operands are there and its multiplication is done
  double tile_latency = 0;
  double result_weight = 1;          ///< bytes of the result count as so many: writing is slower than reading
  bool splits = true;                ///< may k be split
  std::vector<GemmTile> tiles = {};  ///< the first whose rows suffice; empty: the fastest of all
  double ragged_factor = 1;          ///< with `tiles`: of computing where m is above 128 and no multiple of 16
  GemmBenchmark benchmark = {};      ///< no part of a forecast
  Fit fit = {};
  bool operator==(const GemmModel&) const = default;
};

/// Attention time: eff(s) = e s / (s + s0) of the bf16 peak, causal FLOPs halved, by head size and direction; long kernels lose
/// clock to the power limit as long multiplications do (GemmModel::power_knee).
struct AttentionModel {
  std::string kernel = {};    ///< "cudnn", "fa2", …; the kernel listed first is the default
  std::int64_t head_dim = 0;  ///< of query and key
  bool causal = true;
  double t0 = 0;
  double forward_efficiency = 0;
  double forward_s0 = 0;
  double backward_efficiency = 0;
  double backward_s0 = 0;
  Fit fit = {};
  double power_knee = 0;  ///< FLOPs, 0: no loss
  double power_exponent = 0;
  Precision precision = Precision::bf16;  ///< of both multiplications; bf16 stands for fp16 too
  bool operator==(const AttentionModel&) const = default;
};

/// Memory-bound kernels: t0 + traffic / (efficiency x memory bandwidth), by operator kind and pass.
struct MemoryModel {
  double t0 = 0;
  double efficiency = 0;
  Fit fit;
  bool operator==(const MemoryModel&) const = default;
};

/// One measured operator. Looked up before anything is computed.
struct MeasuredOperator {
  Operator op;
  double seconds = 0;
  double spread = 0;  ///< relative standard deviation
  int samples = 0;
  bool operator==(const MeasuredOperator&) const = default;
};

/// One measured collective on `ranks` ranks of `nodes` hosts, as many on each; `size` as nccl-tests counts it
/// (CollectiveCall::size).
struct MeasuredCollective {
  Collective collective = Collective::all_reduce;
  int ranks = 2;
  Bytes size;
  double seconds = 0;
  double spread = 0;  ///< relative standard deviation
  int samples = 0;
  int nodes = 1;
  /// One direction, of all NICs of a host, or on one host of a GPU's link to the others: what the measurement holds for. 0: on one
  /// host any.
  Bandwidth network{};
  bool operator==(const MeasuredCollective&) const = default;
};

/// Isolated kernels run faster than the same kernels inside a training step (clocks, caches, concurrent kernels); one factor
/// on time per class of operator (docs/references.md#in-training-factors). Named and printed. Operators that were recorded
/// inside a step are stored divided by it. The optimizer has none: its efficiency is measured in training.
struct InTraining {
  double gemm = 1;      ///< 16 and 32 bit
  double gemm_fp8 = 1;  ///< per-tensor scales, and mxfp8
  double gemm_fp8_block = 1;
  double gemm_fp4 = 1;
  double grouped_gemm = 1;     ///< of any precision
  double weight_gradient = 1;  ///< on top of the above, for wgrad
  double attention = 1;        ///< fused
  double scores = 1;           ///< the batched multiplications of unfused attention
  double softmax = 1;          ///< of unfused attention
  double memory = 1;           ///< all other memory-bound work
  /// On top of all the above: the slowest GPU of the job at hand (slowest_rank.hpp). Of a job, so in no profile's file.
  double slowest_gpu = 1;
  Fit fit;
  bool operator==(const InTraining&) const = default;
};

/// The host side of one kernel launch.
struct HostModel {
  double launch = 0;  ///< s of host time per eager operator
  /// s of host time of one eager call of the framework, such as a product, of which an operator of a stack makes several.
  double call = 0;
  /// s per local expert of an eager multiplication of experts, besides `launch`: Transformer Engine calls cuBLASLt once for each
  /// (docs/references.md#expert-launches).
  double launch_per_expert = 0;
  double graph_launch = 0;   ///< s per operator inside a CUDA graph
  double relative = 1;       ///< time of the same eager work over that of x86 hosts, for which stacks have times
  double step_overhead = 0;  ///< s per step: data loading, logging, clipping
  double step_overhead_per_rank = 0;  ///< s per step and rank of the job
  Fit fit;
  /// Makes all eager work of the host longer.
  void scale_eager(double factor) {
    for (double* time : {&launch, &call, &launch_per_expert}) *time *= factor;
  }
  bool operator==(const HostModel&) const = default;
};

/// Everything known about one GPU (for AMD's and Intel's multi-die modules, of the part that a rank uses).
struct Profile {
  std::string name;  ///< "h100"; the file stem
  std::string gpu;   ///< "H100 SXM 80 GB"
  std::string kind;  ///< "fitted", "recorded" or "specification"
  std::string source;
  std::string architecture;  ///< "Ampere", "Hopper", …: selects NCCL's tuning constants
  int sms = 0;
  std::map<Precision, double> peak_flops;  ///< dense FLOP/s
  double memory_bandwidth = 0;             ///< bytes/s, specification
  Bytes memory;                            ///< what is usable, not the marketing figure
  /// Waves of tiles by which a multiplication is longer while a collective holds SMs, besides the loss of these SMs
  /// (engine/gpu_sharing.hpp); 0: its kernels have a thread block for each tile.
  double gemm_extra_waves = 0;
  double host_bandwidth = 0;  ///< bytes/s to host memory, one direction (PCIe, NVLink-C2C); 0: not known
  std::map<Precision, GemmModel> gemm;
  GemmModel grouped_gemm;
  std::vector<AttentionModel> attention;
  std::map<std::pair<OperatorKind, Pass>, MemoryModel> memory_bound;
  InTraining in_training;
  HostModel host;
  std::vector<MeasuredOperator> measured;
  std::vector<MeasuredCollective> measured_collectives;
  /// Share of the rated clock that kernels which compute run at (power_limit.hpp). Of a job, so in no profile's file.
  double clock = 1;
  bool overlap = true;  ///< communication runs beside computation; false for CPUs, see graph/without_overlap.hpp
  bool operator==(const Profile&) const = default;
};

}  // namespace tracecast
