#include "sim/plan/memory.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/integers.hpp"
#include "sim/plan/activations.hpp"
#include "sim/plan/fine_tuning.hpp"
#include "sim/plan/optimizer_matrices.hpp"
#include "sim/plan/parameter_states.hpp"
#include "sim/plan/precision.hpp"
#include "sim/plan/rank_parameters.hpp"
#include "sim/plan/sharding.hpp"

namespace tracecast {
namespace {

/// More than any machine has; sums of a few of them still fit into 64 bits.
constexpr double kMaxBytes = 0x1p58;

Bytes to_bytes(double bytes) { return {std::llround(std::ceil(std::min(bytes, kMaxBytes)))}; }

bool is_16_bit(Precision precision) { return precision == Precision::fp16 || precision == Precision::bf16; }

/// Copies of the parameters that compute: 16 bit, unless everything is fp32.
std::int64_t compute_size(const Training& training) { return training.dtype == Precision::fp32 ? 4 : 2; }

/// Of one state of one parameter. Without master weights the states are as wide as the parameters.
std::int64_t state_size(const Training& training) {
  if (training.dtype != Precision::fp32 && !training.master_weights) return 2;
  return element_size(training.optimizer_state_dtype);
}

/// Bytes of all states of one parameter that is updated by itself.
std::int64_t states_size(const Training& training) {
  const Optimizer& optimizer = optimizer_of(training.optimizer);
  return optimizer.states * (optimizer.byte_states ? 1 : state_size(training));
}

double layer_bytes(const Model& model, const Plan& plan, int layer) {
  const Training& training = plan.training;
  if (!trains_layer(model, training, layer)) return 0;
  const bool full = training.recompute == Recompute::full;
  const Recompute mode = full && !is_recomputed(plan, layer) ? Recompute::none : training.recompute;
  return rank_bytes(layer_activations(model, plan, layer, mode), plan);
}

/// Of the stage's layers from the `from`-th to the one before the `to`-th.
double layers_bytes(const Model& model, const Plan& plan, const Stage& stage, int from, int to) {
  double bytes = 0;
  for (int layer = from; layer < to; ++layer) bytes += layer_bytes(model, plan, stage.first_layer + layer);
  return bytes;
}

double bytes_on_host(const Model& model, const Plan& plan, const Stage& stage) {
  return layers_bytes(model, plan, stage, 0, offloaded_layers(plan.training, stage));
}

double head_bytes(const Model& model, const Plan& plan, const Stage& stage) {
  return stage.head ? rank_bytes(head_activations(model, plan), plan) : 0;
}

/// On the GPU: without what layers have on the host.
double stage_bytes(const Model& model, const Plan& plan, const Stage& stage) {
  double bytes = layers_bytes(model, plan, stage, offloaded_layers(plan.training, stage), stage.num_layers);
  if (stage.embedding) bytes += rank_bytes(embedding_activations(model), plan);
  bytes += head_bytes(model, plan, stage);
  if (plan.parallel.keep_stage_outputs && !stage.head) bytes += rank_bytes(stage_output(model, plan), plan);
  return bytes;
}

double stage_weight_gradient_bytes(const Model& model, const Plan& plan, const Stage& stage) {
  double bytes = 0;
  for (int layer = stage.first_layer; layer < stage.first_layer + stage.num_layers; ++layer) {
    if (trains_layer(model, plan.training, layer))
      bytes += rank_bytes(layer_weight_gradient_inputs(model, plan, layer), plan);
  }
  if (stage.head) bytes += rank_bytes(head_weight_gradient_inputs(model, plan), plan);
  return bytes;
}

/// What recomputation brings back for the layer in work, the largest of the stage. `keeping`: the plan without modules that are
/// computed again
double recomputed_bytes(const Model& model, const Plan& plan, const Stage& stage, const Plan& keeping) {
  if (plan.training.recompute == Recompute::none && plan.training.recompute_modules.empty()) return 0;
  double largest = 0;
  for (int layer = stage.first_layer; layer < stage.first_layer + stage.num_layers; ++layer) {
    if (plan.training.recompute == Recompute::full && !is_recomputed(plan, layer)) continue;
    if (!trains_layer(model, plan.training, layer)) continue;
    const double whole = rank_bytes(layer_activations(model, keeping, layer, Recompute::none), plan);
    largest = std::max(largest, whole - layer_bytes(model, plan, layer));
  }
  return largest;
}

bool offloads_all(const Plan& plan, const Stage& stage) {
  return offloaded_layers(plan.training, stage) == stage.num_layers;
}

/// Layers whose activations are on the GPU while they cross PCIe (offloading.hpp). If all do: the one that runs and two that are
/// being copied, the last of a chunk into the next forward. If the first of them do: one besides those that stay.
double crossing_bytes(const Model& model, const Plan& plan, const Stage& stage) {
  const int layers = offloaded_layers(plan.training, stage);
  double largest = 0;
  for (int layer = 0; layer < layers; ++layer)
    largest = std::max(largest, layer_bytes(model, plan, stage.first_layer + layer));
  return (offloads_all(plan, stage) ? 3 : 1) * largest;
}

/// Does attention run on this stage?
bool attends(const Model& model, const Stage& stage) {
  for (int layer = stage.first_layer; layer < stage.first_layer + stage.num_layers; ++layer)
    if (model.mixer(layer) == Mixer::attention) return true;
  return false;
}

/// What one pipeline rank holds: its chunks, and the units that its parameters are gathered in.
struct RankShare {
  std::vector<Stage> stages;                       ///< [chunk]
  std::vector<std::vector<RankParameters>> units;  ///< [chunk][unit]
};

/// A rank with both ends of the model has one table of words, also where they belong to the two directions of a schedule:
/// copies of one model (DualPipe; DeepSeek-V3, arXiv 2412.19437, 3.2.3: physical sharing of the embedding).
RankShare share_of(const Model& model, const Plan& plan, const std::vector<int>& stage_of) {
  RankShare share;
  for (const int stage : stage_of) {
    TRACECAST_ASSERT(stage >= 0 && static_cast<std::size_t>(stage) < plan.stages.size(),
                     "the schedule's stages are the plan's");
    share.stages.push_back(plan.stages[static_cast<std::size_t>(stage)]);
  }
  const bool table = std::any_of(share.stages.begin(), share.stages.end(), [](const Stage& s) { return s.embedding; });
  for (const Stage& stage : share.stages) share.units.push_back(stage_units(model, plan, stage, table));
  return share;
}

RankParameters total(const RankShare& share) {
  RankParameters sum;
  for (const auto& units : share.units) {
    for (const RankParameters& unit : units) sum += unit;
  }
  return sum;
}

/// Quantised copies of the weights, kept from one micro-batch to the next; without the 16-bit ones where those are not kept.
/// With zero_stage 3 they come and go with the gathered weights.
Bytes weight_copies(const RankParameters& parameters, const Plan& plan) {
  if (plan.parallel.zero_stage == 3) return {};
  const double wide = plan.training.fp8_param_gather ? static_cast<double>(compute_size(plan.training)) : 0;
  const std::int64_t copies = parameters.quantised_experts > 0 ? parameters.expert_copies : 0;
  const auto count = static_cast<double>(parameters.quantised + parameters.quantised_experts + copies);
  return {std::llround(count * (weight_copy_bytes(plan.training.dtype) - wide))};
}

/// Frozen parameters are there in the precision that computes, and nothing else of them.
MemoryByKind states(std::int64_t parameters, std::int64_t trained, const Plan& plan, int shards) {
  const int stage = plan.parallel.zero_stage;
  MemoryByKind memory = model_states(trained, plan.training, stage, shards);
  if (!reduces_every_microbatch(plan.parallel)) memory.gradients = model_states(trained, plan.training, 0, 1).gradients;
  const bool wide = !is_16_bit(plan.training.grad_reduce_dtype);
  if (plan.training.keep_16bit_gradients && wide && compute_size(plan.training) == 2)
    memory.gradients += Bytes{2 * trained};
  memory.weights += Bytes{(parameters - trained) * compute_size(plan.training)} / (stage == 3 ? shards : 1);
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

/// The embedding, and the output layer with the final norm.
bool is_root(const Stage& stage, std::size_t unit, std::size_t units) {
  return (stage.embedding && unit == 0) || (stage.head && unit + 1 == units);
}

/// A unit as it has been gathered: in 16 bit with one quantised copy, or quantised only.
double gathered_bytes(const RankParameters& unit, const Plan& plan) {
  const auto all = static_cast<double>(unit.total());
  const auto quantised = static_cast<double>(unit.quantised + unit.quantised_experts);
  const auto wide = static_cast<double>(compute_size(plan.training));
  return (plan.training.fp8_param_gather ? all - quantised : all) * wide +
         quantised * quantised_size(plan.training.dtype);
}

/// Parameters gathered at one time: all units that stay from the forward to the end of the backward, or after it, of the others the
/// one in work and the one fetched ahead, and what they keep when they are resharded to a smaller group.
double gathered_bytes(const RankShare& share, const Plan& plan) {
  double kept = 0;
  double freed = 0;
  double most = 0;
  for (std::size_t chunk = 0; chunk < share.units.size(); ++chunk) {
    const std::vector<RankParameters>& units = share.units[chunk];
    double previous = 0;
    for (std::size_t i = 0; i < units.size(); ++i) {
      const double own = gathered_bytes(units[i], plan);
      const bool freed_after_forward = plan.gathers_again(is_root(share.stages[chunk], i, units.size()));
      if (!freed_after_forward || !gathers_every_forward(plan.parallel)) {
        kept += own;
        continue;
      }
      most = std::max(most, previous + own);
      previous = own;
      freed += own;
    }
  }
  const int group = plan.parallel.reshard_group;
  return kept + most + (group > 0 ? std::ceil(freed / group) : 0);
}

/// The largest unit that is gathered and reduced at one time. FSDP's root is one: embedding and output layer together.
RankParameters largest_unit(const RankShare& share, const Plan& plan) {
  RankParameters root;
  RankParameters largest;
  const auto more = [](const RankParameters& a, const RankParameters& b) { return a.total() > b.total() ? a : b; };
  for (std::size_t chunk = 0; chunk < share.units.size(); ++chunk) {
    const std::vector<RankParameters>& units = share.units[chunk];
    for (std::size_t i = 0; i < units.size(); ++i) {
      if (plan.parallel.zero_stage == 3 && is_root(share.stages[chunk], i, units.size())) root += units[i];
      largest = more(largest, units[i]);
    }
  }
  return more(largest, root);
}

/// What work needs beside what waits for the backward; layers and the loss do not work at the same time.
struct Workspace {
  double layer = 0;
  double loss = 0;
};

Workspace workspace(const Model& model, const Plan& plan, const RankShare& share) {
  Workspace most;
  Plan keeping = plan;
  keeping.training.recompute_modules.clear();
  for (const Stage& stage : share.stages) {
    double layer = recomputed_bytes(model, plan, stage, keeping);
    if (stage.num_layers > 0) layer += rank_bytes(gathered_workspace(model, plan), plan);
    if (attends(model, stage)) layer += rank_bytes(gathered_keys(model, plan), plan);
    most.layer = std::max(most.layer, layer);
    if (stage.head) most.loss = std::max(most.loss, rank_bytes(loss_workspace(model, plan), plan));
  }
  return most;
}

double transient_bytes(const Model& model, const Plan& plan, const RankShare& share, const Workspace& work) {
  const double without_copies = std::max(work.layer, work.loss);
  double bytes = without_copies;
  for (const Stage& stage : share.stages) {
    // Where some layers stay, the copies are over when the loss runs, and come back when what it keeps has been freed.
    const double with_copies = offloads_all(plan, stage) ? without_copies : work.layer - head_bytes(model, plan, stage);
    bytes = std::max(bytes, with_copies + crossing_bytes(model, plan, stage));
  }
  if (std::any_of(share.stages.begin(), share.stages.end(), [&](const Stage& s) { return attends(model, s); }))
    bytes += rank_bytes(score_buffer(model, plan), plan);
  if (reduces_every_microbatch(plan.parallel)) {
    const RankParameters unit = largest_unit(share, plan);
    bytes += static_cast<double>(unit.trained + unit.trained_experts) *
             static_cast<double>(element_size(plan.training.grad_reduce_dtype));
  }
  if (plan.parallel.zero_stage == 3) bytes += gathered_bytes(share, plan);
  return bytes;
}

/// The loss asks for larger blocks than layers leave behind, so that both sets stay; and FSDP gathers a unit on a stream of
/// its own, whose blocks no other stream gets, before it is copied out.   Source: PyTorch's CUDACachingAllocator (a pool per
/// stream) and _fsdp_collectives.py. torchtitan's twelve rows come out within 4 % with it
double cached_bytes(const Plan& plan, const RankShare& share, const Workspace& work) {
  const double copy = plan.parallel.zero_stage == 3 ? gathered_bytes(largest_unit(share, plan), plan) : 0;
  return std::min(work.layer, work.loss) + copy;
}

/// Bytes per chunk: kept by a forward, and left by a backward_input.
struct ChunkBytes {
  double forward = 0;
  double weight_gradient = 0;
  int turns = 1;  ///< parts in which an overlapped pair takes turns: layers, or one if the passes follow each other
};

/// What a pair holds at its peak beyond what was there before: its forward is `turns` parts, one ahead of the parts that
/// its backward frees.
double pair_bytes(const ChunkBytes& forward, const ChunkBytes& backward) {
  const double ahead = 1.0 / std::min(forward.turns, backward.turns);
  return std::max(ahead * forward.forward, forward.forward - (1 - ahead) * backward.forward);
}

/// Walks the actions of one rank.
double peak_activations(const std::vector<Action>& actions, const std::vector<ChunkBytes>& chunks) {
  double live = 0;
  double peak = 0;
  for (const Action& action : actions) {
    const ChunkBytes& chunk = chunks[static_cast<std::size_t>(action.chunk)];
    switch (action.kind) {
      case ActionKind::forward:
        live += chunk.forward;
        break;
      case ActionKind::backward:
        live -= chunk.forward;
        break;
      case ActionKind::backward_input:
        live += chunk.weight_gradient - chunk.forward;
        break;
      case ActionKind::backward_weight:
        live -= chunk.weight_gradient;
        break;
      case ActionKind::forward_backward: {
        const ChunkBytes& backward = chunks[static_cast<std::size_t>(action.chunk2)];
        peak = std::max(peak, live + pair_bytes(chunk, backward));
        live += chunk.forward - backward.forward;
        break;
      }
    }
    peak = std::max(peak, live);
  }
  return peak;
}

/// The same actions, for what layers have on the host: a forward brings it, the backward takes it back.
double peak_on_host(const Model& model, const Plan& plan, const std::vector<Action>& actions, const RankShare& share) {
  std::vector<ChunkBytes> chunks;
  for (const Stage& stage : share.stages) chunks.push_back({bytes_on_host(model, plan, stage), 0, 1});
  return peak_activations(actions, chunks);
}

std::vector<ChunkBytes> chunk_bytes(const Model& model, const Plan& plan, const RankShare& share) {
  std::vector<ChunkBytes> chunks;
  chunks.reserve(share.stages.size());
  for (const Stage& stage : share.stages) {
    chunks.push_back({stage_bytes(model, plan, stage), stage_weight_gradient_bytes(model, plan, stage),
                      interleaves_pairs(plan.parallel) ? std::max(1, stage.num_layers) : 1});
  }
  return chunks;
}

MemoryByKind rank_memory(const Model& model, const Plan& plan, const Schedule& schedule, std::size_t rank,
                         const MemoryOptions& options) {
  const RankShare share = share_of(model, plan, schedule.stage_of[rank]);
  const int versions = schedule.weight_versions.empty() ? 1 : schedule.weight_versions[rank];
  MemoryByKind memory = parameter_states(total(share), plan, versions);
  const Bytes copies = gradient_copies(memory, plan);
  memory.optimizer -= copies;
  const Workspace work = workspace(model, plan, share);
  memory.activations = to_bytes(peak_activations(schedule.actions[rank], chunk_bytes(model, plan, share)));
  memory.transient = to_bytes(transient_bytes(model, plan, share, work));
  memory.transient = std::max(memory.transient, copies - memory.activations);
  memory.cached = to_bytes(cached_bytes(plan, share, work));
  memory.host += to_bytes(peak_on_host(model, plan, schedule.actions[rank], share));
  memory.fixed = options.fixed + to_bytes(plan.training.reserved_memory_gib * 1024 * 1024 * 1024);
  const Bytes moving = memory.activations + memory.transient;
  memory.fragmentation = to_bytes(options.fragmentation * static_cast<double>(moving.count));
  return memory;
}

}  // namespace

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

/// DeepSpeed's stages 2 and 3 keep the gradients that a rank updates where it updates them.
/// Source: docs/references.md#bytes-per-parameter
bool gradients_wait_on_host(const Plan& plan) {
  return plan.training.offload_optimizer && plan.parallel.zero_stage >= 2 && reduces_every_microbatch(plan.parallel);
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
  memory.optimizer += matrix_states(parameters, plan) + outer_states(parameters, plan);
  if (plan.training.offload_optimizer) memory.host = std::exchange(memory.optimizer, Bytes{});
  if (gradients_wait_on_host(plan)) memory.host += std::exchange(memory.gradients, Bytes{});
  if (plan.training.offload_parameters) memory.host += std::exchange(memory.weights, Bytes{});
  if (has_servers(plan.parallel)) memory.optimizer = Bytes{};
  return memory;
}

Bytes gradient_copies(const MemoryByKind& states, const Plan& plan) {
  const StateBytes each = bytes_per_parameter(plan.training, plan.parallel.zero_stage);
  const std::int64_t lasting = 4 + states_size(plan.training);
  if (!plan.training.master_weights || each.optimizer <= lasting) return {};
  return Bytes{states.optimizer.count * (each.optimizer - lasting) / each.optimizer};
}

SavedState saved_state(const Model& model, const Training& training) {
  Plan alone;
  alone.parallel.dp = alone.parallel.etp = 1;
  alone.training = training;
  alone.training.offload_optimizer = alone.training.offload_parameters = false;
  alone.training.matrix_sharding = MatrixSharding::automatic;
  RankParameters held;
  for (const RankParameters& unit : stage_units(model, alone, {0, model.layers(), true, true}, true)) held += unit;
  const MemoryByKind states = parameter_states(held, alone);
  const StateBytes each = bytes_per_parameter(training, 0);
  SavedState saved;
  saved.parameters = held.trained + held.trained_experts;
  saved.weights = Bytes{saved.parameters * each.weights};
  const bool masters = training.dtype != Precision::fp32 && training.master_weights;
  saved.master_weights = Bytes{masters ? 4 * saved.parameters : 0};
  saved.optimizer = states.optimizer - gradient_copies(states, alone) - saved.master_weights;
  return saved;
}

Bytes activation_bytes(const Model& model, const Plan& plan, const Stage& stage) {
  return to_bytes(stage_bytes(model, plan, stage));
}

Bytes layer_activation_bytes(const Model& model, const Plan& plan, int layer) {
  return to_bytes(layer_bytes(model, plan, layer));
}

int offloaded_layers(const Training& training, const Stage& stage) {
  if (!training.offload_activations) return 0;
  return training.offload_layers > 0 ? std::min(training.offload_layers, stage.num_layers) : stage.num_layers;
}

Bytes weight_gradient_bytes(const Model& model, const Plan& plan, const Stage& stage) {
  return to_bytes(stage_weight_gradient_bytes(model, plan, stage));
}

std::int64_t rank_parameters(const Model& model, const Plan& plan, int pp_rank) {
  std::vector<int> stage_of;
  for (int chunk = 0; chunk < plan.parallel.vpp; ++chunk) stage_of.push_back(chunk * plan.parallel.pp + pp_rank);
  return total(share_of(model, plan, stage_of)).total();
}

std::vector<MemoryByKind> peak_memory(const Model& model, const Plan& plan, const Schedule& schedule,
                                      const MemoryOptions& options) {
  TRACECAST_ASSERT(schedule.ranks == plan.parallel.pp, "the schedule is for the plan's pipeline");
  std::vector<MemoryByKind> memory;
  memory.reserve(static_cast<std::size_t>(schedule.ranks));
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(schedule.ranks); ++rank) {
    memory.push_back(rank_memory(model, plan, schedule, rank, options));
  }
  return memory;
}

}  // namespace tracecast
