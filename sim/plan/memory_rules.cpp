#include "sim/plan/memory_rules.hpp"

#include <algorithm>

namespace tracecast {

Bytes deepspeed_zero2_estimate(std::int64_t parameters, int ranks) {
  return Bytes{2 * parameters} + Bytes{18 * parameters} / ranks;
}

Bytes deepspeed_zero3_estimate(std::int64_t parameters, std::int64_t largest_layer, int ranks) {
  return Bytes{18 * parameters} / ranks + Bytes{4 * largest_layer};
}

Bytes seed_activation_rule(std::int64_t batch, std::int64_t seq_length, std::int64_t hidden, std::int64_t layers) {
  return Bytes{16 * batch * seq_length * hidden * layers};
}

std::vector<int> seed_tensor_degrees(int gpus_per_node) {
  std::vector<int> degrees;
  for (int tp = 1; tp <= gpus_per_node; ++tp)
    if (gpus_per_node % tp == 0) degrees.push_back(tp);
  return degrees;
}

int seed_tensor_parallel(double states_gb, double memory_gb, double activations_gb, int gpus_per_node) {
  const double room = memory_gb - activations_gb;
  const std::vector<int> degrees = seed_tensor_degrees(gpus_per_node);
  const auto found = std::find_if(degrees.begin(), degrees.end(), [&](int tp) { return states_gb <= tp * room; });
  return found == degrees.end() ? 0 : *found;
}

int seed_pipeline_parallel(int gpus, int tp, int dp) { return (gpus + tp * dp - 1) / (tp * dp); }

int seed_most_stages(double memory_gb, double stage_gb) { return static_cast<int>(memory_gb / stage_gb); }

const char* to_string(SeedStrategy strategy) {
  switch (strategy) {
    case SeedStrategy::fsdp:
      return "FSDP";
    case SeedStrategy::tp:
      return "TP";
    case SeedStrategy::tp_fsdp:
      return "TP + FSDP";
    case SeedStrategy::tp_pp_fsdp:
      return "TP + PP + FSDP";
  }
  return "";
}

SeedStrategy seed_strategy(double parameters, double memory_gb, double activations_gb, int gpus, int gpus_per_node) {
  const double weights_and_gradients_gb = parameters * (2 + 2) * 1e-9;
  const int tp = seed_tensor_parallel(weights_and_gradients_gb, memory_gb, activations_gb, gpus_per_node);
  if (tp == 0) return SeedStrategy::tp_pp_fsdp;
  if (tp == 1) return SeedStrategy::fsdp;
  return gpus <= gpus_per_node ? SeedStrategy::tp : SeedStrategy::tp_fsdp;
}

int seed_least_microbatches(int pp) { return 4 * pp; }

bool seed_pipeline_is_practical(int pp) { return pp >= 2 && pp <= 8; }

}  // namespace tracecast
