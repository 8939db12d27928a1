/// A forecast made by hand, with round numbers: what the tests of the reports draw.
#pragma once

#include "sim/forecast/forecast.hpp"
#include "sim/io/scenario.hpp"

namespace tracecast::sample {

inline Scenario scenario() {
  Scenario s;
  s.name = "sample-16";
  s.model.name = "Sample 7B";
  s.parallel.tp = 2;
  s.parallel.pp = 4;
  s.training.seq_length = 4096;
  s.training.micro_batch_size = 1;
  s.training.global_batch_size = 16;
  s.training.train_tokens = 1'000'000'000'000;
  s.cluster.name = "dgx-h100";
  s.cluster.world_size = 16;
  s.cluster.tuning.data = "nccl-tests of two nodes";
  s.cluster.tuning.residual = 0.08;
  s.profile.name = "h100";
  s.profile.gpu = "H100 SXM 80 GB";
  s.profile.in_training = {
      .gemm = 1.1, .attention = 1, .memory = 1.2, .fit = {.data = "twelve runs", .samples = 12, .residual = 0.05}};
  s.measured = Measured{.step_time_s = 2.5, .source = "a paper"};
  return s;
}

inline Plan plan() {
  Plan p;
  p.parallel = scenario().parallel;
  p.parallel.dp = 2;
  p.parallel.pp_schedule = "1f1b";
  p.training = scenario().training;
  p.grid = RankGrid({2, 1, 2, 4}, {Axis::tp, Axis::cp, Axis::dp, Axis::pp});
  p.world_size = 16;
  p.num_microbatches = 8;
  return p;
}

/// 2 s: 1.2 s compute, 0.3 s exposed, 0.25 s bubble, 0.05 s host, 0.2 s optimizer.
inline Forecast forecast() {
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  Forecast f;
  f.scenario = "sample-16";
  f.ranks = 16;
  f.step_time_s = 2;
  f.band = {.p5_s = 1.9, .p50_s = 2, .p95_s = 2.1};
  f.tokens_per_step = 65536;
  f.tokens_per_s = 32768;
  f.model_tflops_per_gpu = 400;
  f.mfu = 0.4031;
  f.hfu = 0.5019;
  f.bubble_fraction = 0.125;
  f.exposed_s[static_cast<std::size_t>(Traffic::tensor_parallel)] = 0.25;
  f.exposed_s[static_cast<std::size_t>(Traffic::pipeline)] = 0.046;
  f.exposed_s[static_cast<std::size_t>(Traffic::control)] = 0.004;
  f.compute_s = {{"gemm", 1.0}, {"attention", 0.125}, {"norm", 0.075}};
  f.host_s = 0.05;
  f.optimizer_s = 0.2;
  const MemoryByKind edge{.weights = {10 * kGiB},
                          .gradients = {5 * kGiB},
                          .optimizer = {15 * kGiB},
                          .activations = {20 * kGiB},
                          .transient = {2 * kGiB},
                          .fixed = {kGiB},
                          .fragmentation = {kGiB},
                          .host = {},
                          .cached = {}};
  MemoryByKind middle = edge;
  middle.activations = {10 * kGiB};
  f.memory = {edge, middle, middle, edge};
  f.memory_capacity = {72 * kGiB};
  f.provenance = {{"interpolated", 0.75}, {"analytic", 0.25}};
  f.classes = 4;
  f.events = 12345;
  f.wall_s = 0.012;
  f.peak_rss_mib = 20;
  return f;
}

}  // namespace tracecast::sample
