#include "sim/plan/parameter_states.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/integers.hpp"
#include "sim/plan/optimizer_matrices.hpp"
#include "sim/plan/precision.hpp"
#include "sim/plan/sharding.hpp"

namespace tracecast {
namespace {

bool is_16_bit(Precision precision) { return precision == Precision::fp16 || precision == Precision::bf16; }

/// Quantised copies of the weights, kept from one micro-batch to the next; without the 16-bit ones where those are not kept.
/// With zero_stage 3 they come and go with the gathered weights.
Bytes weight_copies(const RankParameters& parameters, const Plan& plan) {
  if (plan.parallel.zero_stage == 3) return {};
  const double wide = plan.training.fp8_param_gather ? static_cast<double>(wide_size(plan.training)) : 0;
  const std::int64_t copies = parameters.quantised_experts > 0 ? parameters.expert_copies : 0;
  const auto count = static_cast<double>(parameters.quantised + parameters.quantised_experts + copies);
  return {std::llround(count * (weight_copy_bytes(plan.training) - wide))};
}

/// Frozen parameters are there in the precision that computes, and nothing else of them. PyTorch's DDP reduces a copy of the gradients,
/// its buckets (gradient_as_bucket_view is off by default).   Source: docs/references.md#ddp-buckets
MemoryByKind states(std::int64_t parameters, std::int64_t trained, const Plan& plan, int shards) {
  const int stage = plan.parallel.zero_stage;
  MemoryByKind memory = model_states(trained, plan.training, stage, shards);
  if (!reduces_every_microbatch(plan.parallel, plan.num_microbatches))
    memory.gradients = std::max(memory.gradients, model_states(trained, plan.training, 0, 1).gradients);
  const bool wide = !is_16_bit(plan.training.grad_reduce_dtype);
  if (plan.training.keep_16bit_gradients && wide && wide_size(plan.training) == 2)
    memory.gradients += Bytes{2 * trained};
  if (rules_of(plan.parallel).copies_gradients && plan.gradient_group() > 1) memory.gradients = memory.gradients * 2;
  memory.weights += Bytes{(parameters - trained) * wide_size(plan.training)} / (stage == 3 ? shards : 1);
  return memory;
}

/// The matrices of one rank that its optimizer works on.
struct HeldMatrices {
  std::int64_t elements = 0;
  std::int64_t largest = 0;  ///< of one of them; 0: not to be considered
  std::int64_t states = 0;   ///< fp32 numbers of whole matrices
  int shards = 1;            ///< of ZeRO
  int dealers = 1;           ///< ranks that whole states are dealt out to
};

/// What they take beside the states of other parameters. Where whole states are dealt out, the rank with the largest matrix holds at
/// least that. Shampoo and SOAP keep their states where the work is, Muon where the parameters are.
Bytes beside_other_states(const HeldMatrices& held, const Plan& plan) {
  if (held.elements == 0) return {};
  const Optimizer& optimizer = optimizer_of(plan.training.optimizer);
  const MatrixSharding sharding = matrix_sharding(plan.parallel, plan.training);
  const bool preconditions = has_preconditioners(optimizer);
  const std::int64_t divided = plan.parallel.zero_stage >= 1 ? held.elements / held.shards : held.elements;
  const std::int64_t dealt = std::max(held.elements / held.dealers, held.dealers > 1 ? held.largest : 0);
  const bool layerwise = needs_whole_matrices(optimizer) && sharding == MatrixSharding::layerwise;
  const std::int64_t masters = layerwise ? std::max(divided, held.largest) : divided;
  const bool whole_states = layerwise || sharding == MatrixSharding::gather_updates || preconditions;
  const std::int64_t with_states = layerwise ? masters : whole_states ? dealt : divided;
  const std::int64_t other = bytes_per_parameter(plan.training, plan.parallel.zero_stage).optimizer;
  const double share = preconditions ? static_cast<double>(with_states) / static_cast<double>(held.elements) : 1;
  return Bytes{masters * (other - states_size(plan.training)) +
               with_states * optimizer.matrix_states * state_size(plan.training) - divided * other +
               4 * std::llround(share * static_cast<double>(held.states))};
}

Bytes matrix_states(const RankParameters& parameters, const Plan& plan) {
  if (optimizer_of(plan.training.optimizer).matrices == MatrixWork::none) return {};
  return beside_other_states({parameters.matrices, parameters.largest_matrix, parameters.matrix_states,
                              plan.shard_group(), dealing_ranks(plan, false)},
                             plan) +
         beside_other_states({parameters.expert_matrices, 0, parameters.expert_matrix_states, expert_shard_group(plan),
                              dealing_ranks(plan, true)},
                             plan);
}

/// Redundant experts have weights and gradients, but no optimizer states: those are where the expert is at home.
MemoryByKind states_of_copies(const RankParameters& parameters, const Plan& plan) {
  const StateBytes each = bytes_per_parameter(plan.training, plan.parallel.zero_stage);
  MemoryByKind memory;
  memory.weights = Bytes{parameters.expert_copies * each.weights};
  memory.gradients = Bytes{parameters.expert_copies * each.gradients};
  return memory;
}

/// DiLoCo's last common parameters and momentum in fp32; and a part of the model in flight, which is a copy.
Bytes outer_states(const RankParameters& parameters, const Plan& plan) {
  const Parallel& p = plan.parallel;
  if (!averages_parameters(p) || p.averaging_period == 0 || !exchanges_copies(p)) return {};
  const std::int64_t shards = p.zero_stage >= 1 ? plan.shard_group() : 1;
  const std::int64_t own = ceil_div(parameters.trained, shards);
  const std::int64_t kept = p.outer_optimizer == OuterOptimizer::nesterov ? 8 * own : 0;
  const std::int64_t bits = p.averaging_bits > 0 ? p.averaging_bits : plan.training.master_weights ? 32 : 16;
  return Bytes{kept + ceil_div(own * bits, std::int64_t{8} * p.averaging_fragments)};
}

/// Trained parameters whose optimizer states this rank has.
std::int64_t updated_parameters(const RankParameters& parameters, const Plan& plan) {
  if (plan.parallel.zero_stage == 0) return parameters.trained + parameters.trained_experts;
  return ceil_div(parameters.trained, std::int64_t{plan.shard_group()}) +
         ceil_div(parameters.trained_experts, std::int64_t{expert_shard_group(plan)});
}

/// Gradients that an offloaded optimizer updates with, beside `moved`, those that the GPU does not keep: with FSDP these as wide as
/// what is updated; with DeepSpeed fp32 ones, and the 16-bit sum of the micro-batches, which stage 3 has for one, too.
/// Source: docs/references.md#offloading
Bytes gradients_on_host(const RankParameters& parameters, const Plan& plan, Bytes moved) {
  const std::int64_t own = updated_parameters(parameters, plan);
  const std::int64_t updated = updated_size(plan.training);
  if (reduces_units(plan.parallel)) return Bytes{own * updated};
  if (!rules_of(plan.parallel).sums_for_host) return moved;
  const bool sums = plan.parallel.zero_stage == 3 || plan.num_microbatches > 1;
  return Bytes{own * (updated + (sums ? wide_size(plan.training) : 0))};
}

/// DeepSpeed's stages 2 and 3 keep the gradients that a rank updates where it updates them.
/// Source: docs/references.md#bytes-per-parameter
bool gradients_wait_on_host(const Plan& plan) {
  return plan.training.offload_optimizer && plan.parallel.zero_stage >= 2 &&
         reduces_every_microbatch(plan.parallel, plan.num_microbatches);
}

}  // namespace

std::int64_t state_size(const Training& training) {
  if (training.dtype != Precision::fp32 && !training.master_weights) return 2;
  return element_size(training.optimizer_state_dtype);
}

std::int64_t states_size(const Training& training) {
  const Optimizer& optimizer = optimizer_of(training.optimizer);
  return optimizer.states * (optimizer.byte_states ? 1 : state_size(training));
}

StateBytes bytes_per_parameter(const Training& training, int zero_stage) {
  const std::int64_t states = states_size(training);
  if (training.dtype == Precision::fp32) return {4, 4, states};
  const std::int64_t gradients = element_size(training.grad_reduce_dtype);
  if (!training.master_weights) return {2, gradients, states};
  if (zero_stage == 3 && !training.offload_optimizer) return {4, 4, states};
  const bool copies_gradients =
      training.dtype == Precision::fp16 && is_16_bit(training.grad_reduce_dtype) && zero_stage < 2;
  return {2, gradients, 4 + states + (copies_gradients ? 4 : 0)};
}

MemoryByKind model_states(std::int64_t parameters, const Training& training, int zero_stage, int shards) {
  const StateBytes each = bytes_per_parameter(training, zero_stage);
  MemoryByKind memory;
  memory.weights = Bytes{parameters * each.weights} / (zero_stage >= 3 ? shards : 1);
  memory.gradients = Bytes{parameters * each.gradients} / (zero_stage >= 2 ? shards : 1);
  memory.optimizer = Bytes{parameters * each.optimizer} / (zero_stage >= 1 ? shards : 1);
  return memory;
}

MemoryByKind parameter_states(const RankParameters& parameters, const Plan& plan, int weight_versions) {
  const MemoryByKind dense = states(parameters.dense, parameters.trained, plan, plan.shard_group());
  const MemoryByKind experts = states(parameters.experts, parameters.trained_experts, plan, expert_shard_group(plan));
  const MemoryByKind copies = states_of_copies(parameters, plan);
  MemoryByKind memory;
  memory.weights =
      (dense.weights + experts.weights + copies.weights + weight_copies(parameters, plan)) * weight_versions;
  memory.gradients = dense.gradients + experts.gradients + copies.gradients;
  memory.optimizer = dense.optimizer + experts.optimizer;
  memory.optimizer += matrix_states(parameters, plan);
  if (plan.training.offload_optimizer) {
    memory.host = std::exchange(memory.optimizer, Bytes{});
    const Bytes moved = gradients_wait_on_host(plan) ? std::exchange(memory.gradients, Bytes{}) : Bytes{};
    memory.host += gradients_on_host(parameters, plan, moved);
  }
  memory.optimizer += outer_states(parameters, plan);
  if (plan.training.offload_parameters) {
    memory.host += std::exchange(memory.weights, Bytes{});
    // FSDP's shards are the master weights themselves, which are counted with the optimizer states.
    const bool masters = plan.training.master_weights && wide_size(plan.training) == 2;
    if (reduces_units(plan.parallel) && masters) memory.host -= Bytes{2 * updated_parameters(parameters, plan)};
  }
  if (has_servers(plan.parallel)) memory.optimizer = Bytes{};
  return memory;
}

Bytes gradient_copies(const MemoryByKind& states, const Plan& plan) {
  const StateBytes each = bytes_per_parameter(plan.training, plan.parallel.zero_stage);
  const std::int64_t lasting = 4 + states_size(plan.training);
  if (!plan.training.master_weights || each.optimizer <= lasting) return {};
  return Bytes{states.optimizer.count * (each.optimizer - lasting) / each.optimizer};
}

SavedState saved_state(const Model& model, const Training& training, const Parallel& parallel) {
  Plan alone;
  alone.parallel.dp = alone.parallel.etp = 1;
  alone.training = training;
  alone.training.offload_optimizer = alone.training.offload_parameters = false;
  alone.training.matrix_sharding = MatrixSharding::automatic;
  RankParameters held;
  for (const RankParameters& unit : stage_units(model, alone, {0, model.layers(), true, true}, true)) held += unit;
  const MemoryByKind states = parameter_states(held, alone);
  const bool masters = training.dtype != Precision::fp32 && training.master_weights;
  SavedState saved;
  saved.parameters = held.trained + held.trained_experts;
  saved.weights = Bytes{saved.parameters * bytes_per_parameter(training, 0).weights};
  saved.master_weights = Bytes{masters ? 4 * saved.parameters : 0};
  saved.optimizer = states.optimizer - gradient_copies(states, alone) - saved.master_weights;
  if (masters && reduces_units(parallel)) saved.weights = std::exchange(saved.master_weights, Bytes{});
  return saved;
}

}  // namespace tracecast
