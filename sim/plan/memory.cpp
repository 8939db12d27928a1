#include "sim/plan/memory.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/plan/activations.hpp"
#include "sim/plan/fine_tuning.hpp"
#include "sim/plan/parameter_states.hpp"
#include "sim/plan/precision.hpp"
#include "sim/plan/rank_parameters.hpp"
#include "sim/plan/sharding.hpp"

namespace tracecast {
namespace {

/// More than any machine has; sums of a few of them still fit into 64 bits.
constexpr double kMaxBytes = 0x1p58;

Bytes to_bytes(double bytes) { return {std::llround(std::ceil(std::min(bytes, kMaxBytes)))}; }

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

/// Has the stage layers of multi-token prediction?
bool predicts_tokens(const Model& model, const Stage& stage) { return stage.head && model.mtp_layers > 0; }

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
  if (!predicts_tokens(model, stage)) return largest;
  const int like = model.layers() - 1;  // as head_activations() counts them
  const double whole = rank_bytes(layer_activations(model, keeping, like, Recompute::none), plan);
  return std::max(largest, whole - rank_bytes(layer_activations(model, plan, like, plan.training.recompute), plan));
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
  if (predicts_tokens(model, stage) && model.mixer(model.layers() - 1) == Mixer::attention) return true;
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

/// The embedding, and the output layer with the final norm.
bool is_root(const Stage& stage, std::size_t unit, std::size_t units) {
  return (stage.embedding && unit == 0) || (stage.head && unit + 1 == units);
}

/// A unit as it has been gathered: in 16 bit with one quantised copy, or quantised only. Without tensors that are always whole.
double gathered_bytes(const RankParameters& unit, const Plan& plan) {
  const auto all = static_cast<double>(unit.total() - unit.persistent);
  const auto quantised = static_cast<double>(unit.quantised + unit.quantised_experts);
  const auto wide = static_cast<double>(wide_size(plan.training));
  return (plan.training.fp8_param_gather ? all - quantised : all) * wide +
         quantised * quantised_size(plan.training.dtype);
}

/// The most parameters that are gathered at one time: all units that stay gathered, at least from the forward to the end of the
/// backward; of the others the one that runs and the one that is prefetched, and what units keep in a smaller group. DeepSpeed
/// prefetches a number of elements, and has small tensors whole all the time.
double gathered_bytes(const RankShare& share, const Plan& plan) {
  const auto wide = static_cast<double>(wide_size(plan.training));
  double kept = wide * static_cast<double>(total(share).persistent);
  double freed = 0;
  double most = 0;
  double largest = 0;
  for (std::size_t chunk = 0; chunk < share.units.size(); ++chunk) {
    const std::vector<RankParameters>& units = share.units[chunk];
    double previous = 0;
    for (std::size_t i = 0; i < units.size(); ++i) {
      const double own = gathered_bytes(units[i], plan);
      // The forward of a root that is one unit spans that of all layers, and so does its backward.
      const bool root = is_root(share.stages[chunk], i, units.size());
      const bool freed_after_forward = plan.gathers_again(root) && !(root && root_is_one_unit(plan.parallel));
      if (!freed_after_forward || !gathers_every_forward(plan.parallel, plan.num_microbatches)) {
        kept += own;
        continue;
      }
      most = std::max(most, previous + own);
      previous = own;
      largest = std::max(largest, own);
      freed += own;
    }
  }
  if (rules_of(plan.parallel).gathers_elements) {
    const double ahead = wide * static_cast<double>(deepspeed_prefetch(plan.parallel));
    most = std::max(most, largest + std::min(ahead, freed - largest));
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

/// Gradients of whole units at one time: what is reduced of the largest one; or of layers with FSDP also those that the next layer
/// makes meanwhile, since its reduction waits for the one before (docs/references.md#fsdp-gradients).
double unit_gradients(const RankShare& share, const Plan& plan) {
  const auto reduced = static_cast<double>(element_size(plan.training.grad_reduce_dtype));
  const auto trained = [](const RankParameters& unit) {
    return static_cast<double>(unit.trained + unit.trained_experts);
  };
  double bytes = reduced * trained(largest_unit(share, plan));
  if (!reduces_units(plan.parallel)) return bytes;
  const double made = reduced + static_cast<double>(wide_size(plan.training));
  for (std::size_t chunk = 0; chunk < share.units.size(); ++chunk) {
    const std::vector<RankParameters>& units = share.units[chunk];
    for (std::size_t i = 0; i < units.size(); ++i)
      if (!is_root(share.stages[chunk], i, units.size())) bytes = std::max(bytes, made * trained(units[i]));
  }
  return bytes;
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
    if (stage.num_layers > 0 || predicts_tokens(model, stage))
      layer += rank_bytes(gathered_workspace(model, plan), plan);
    if (attends(model, stage))
      layer =
          std::max(layer + rank_bytes(gathered_keys(model, plan), plan), rank_bytes(ring_buffers(model, plan), plan));
    most.layer = std::max(most.layer, layer);
    if (stage.head) most.loss = std::max(most.loss, rank_bytes(loss_workspace(model, plan), plan));
  }
  return most;
}

/// DeepSpeed's ZeRO copies gradients into a buffer as large as a bucket, whatever the model's size; with stages 1 and 2 that overlap
/// there are two. BF16_Optimizer, which keeps 16-bit gradients, has none.
/// Source: docs/references.md#deepspeed-buffers
double bucket_buffers(const Plan& plan) {
  const Parallel& p = plan.parallel;
  const bool flat = p.zero_stage == 1 && plan.training.keep_16bit_gradients;
  if (!rules_of(p).has_sized_buffers() || p.zero_stage == 0 || flat || plan.gradient_group() == 1) return 0;
  const int buffers = p.zero_stage < 3 && p.pp == 1 && p.overlap_grad_reduce ? 2 : 1;
  return static_cast<double>(buffers * deepspeed_bucket(p) * wide_size(plan.training));
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
  if (reduces_every_microbatch(plan.parallel, plan.num_microbatches)) bytes += unit_gradients(share, plan);
  if (plan.parallel.zero_stage == 3) bytes += gathered_bytes(share, plan);
  return bytes + bucket_buffers(plan);
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

MemoryByKind rank_memory(const Model& model, const Plan& plan, const Schedule& schedule, std::size_t rank) {
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
  memory.fixed = kFixedMemory + to_bytes(plan.training.reserved_memory_gib * 1024 * 1024 * 1024);
  const Bytes moving = memory.activations + memory.transient;
  memory.fragmentation = to_bytes(kFragmentation * static_cast<double>(moving.count));
  return memory;
}

}  // namespace

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

namespace {

/// Without a flush the micro-batches of the next steps are in flight, too: as in a step of at least as many as ranks.
Schedule in_steady_state(const Schedule& schedule) {
  if (schedule.flush || schedule.microbatches >= schedule.ranks) return schedule;
  Result<Schedule> longer = make_schedule(
      schedule.name, {.ranks = schedule.ranks, .microbatches = schedule.ranks, .chunks = schedule.chunks});
  TRACECAST_ASSERT(longer.has_value(), "a schedule without a flush can do as many micro-batches as ranks");
  return std::move(*longer);
}

}  // namespace

std::vector<MemoryByKind> peak_memory(const Model& model, const Plan& plan, const Schedule& schedule) {
  TRACECAST_ASSERT(schedule.ranks == plan.parallel.pp, "the schedule is for the plan's pipeline");
  const Schedule steady = in_steady_state(schedule);
  std::vector<MemoryByKind> memory;
  memory.reserve(static_cast<std::size_t>(schedule.ranks));
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(schedule.ranks); ++rank) {
    memory.push_back(rank_memory(model, plan, steady, rank));
  }
  return memory;
}

}  // namespace tracecast
