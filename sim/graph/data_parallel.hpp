/// \file
/// Gradients and parameters between data-parallel ranks, parameter servers and the host: what is reduced, gathered and
/// copied, when, and in which pieces.
/// Source: docs/references.md#data-parallel-traffic, docs/references.md#communicators
#pragma once

#include <optional>
#include <vector>

#include "sim/graph/build_context.hpp"
#include "sim/graph/gradient_copies.hpp"
#include "sim/network/parameter_server.hpp"
#include "sim/plan/precision.hpp"
#include "sim/plan/sharding.hpp"

namespace tracecast {

/// The rules of a plan's data parallelism, and its collectives.
class DataParallel {
 public:
  explicit DataParallel(BuildContext& context) : context_(context) {}

  bool active() const { return context_.plan.gradient_group() > 1 && (sharded(1) || !averages()); }
  /// True if replicas average parameters and do not reduce gradients (parameter_averaging).
  bool averages() const { return averages_parameters(context_.plan.parallel); }
  /// True if the states of ZeRO stage `stage` are divided.
  bool sharded(int stage) const { return context_.plan.parallel.zero_stage >= stage; }
  /// True if the pipeline has two copies of the model. Their gradients are summed before everything else.
  bool mirrored() const { return context_.schedule.replicas > 1; }
  /// True if an update follows every backward.
  bool updates_every_backward() const { return context_.updates_every_backward; }
  /// True if all parameters are gathered at the beginning of the step, during the first forward.
  bool gathers_during_forward() const {
    return active() && sharded(1) && !sharded(3) && context_.plan.parallel.overlap_param_gather &&
           !updates_every_backward();
  }
  /// first_forward: of the chunk in this step.
  enum class UnitPass { forward, first_forward, backward };
  /// True if this unit is gathered in a pass, as FSDP does. A root that is one unit is gathered with its first end.
  bool gathers_unit(const Stage& stage, int unit, UnitPass pass) const;
  /// True if the first forward of a chunk gathers what later ones find.
  bool gathers_first() const { return active() && sharded(3) && !gathers_every_forward(); }
  bool gathers_every_forward() const {
    return tracecast::gathers_every_forward(context_.plan.parallel, context_.plan.num_microbatches);
  }
  bool reduces_units() const { return tracecast::reduces_units(context_.plan.parallel); }
  bool offloads() const { return context_.plan.training.offload_optimizer; }
  bool offloads_parameters() const { return context_.plan.training.offload_parameters; }
  bool servers() const { return has_servers(context_.plan.parallel); }
  /// True if one CUDA stream issues all gathers and another all reductions, as in FSDP and DeepSpeed: those of dense and
  /// expert parameters run one after the other, too. In Megatron-LM each process group has its own stream.
  bool one_stream_each() const { return rules().one_stream_each; }
  /// True if gradients are reduced or copied between the backward and the optimizer.
  bool moves_gradients() const { return active() || offloads(); }
  bool reduces_every_microbatch() const {
    return tracecast::reduces_every_microbatch(context_.plan.parallel, context_.plan.num_microbatches);
  }
  bool reduction_blocks() const { return tracecast::reduction_blocks(context_.plan.parallel); }
  bool reduces_during_backward(bool last) const {
    return moves_gradients() && !mirrored() &&
           (reduces_every_microbatch() || (last && context_.plan.parallel.overlap_grad_reduce));
  }
  /// Number of parameters whose optimizer states this rank holds.
  std::int64_t own_parameters(const Bucket& all) const;
  std::int64_t gradient_bytes() const { return element_size(context_.plan.training.grad_reduce_dtype); }
  std::int64_t parameter_bytes() const { return wide_size(context_.plan.training); }

  /// Issues the all-gathers of one bucket, separate for dense and expert parameters; without overlap, or on one CUDA
  /// stream, one after the other. Returns the events of those that have a group.
  struct GatherSlots {
    Slot dense;
    Slot expert;
  };
  /// The groups over which a unit is gathered: those of the gradients, or communicators of their own
  /// (separate_gather_group); after the forward they may be smaller (reshard_group).
  GatherSlots gather_slots(bool backward) const;
  std::vector<EventRef> gather(TemplateWriter& writer, const Bucket& bucket, const std::vector<EventRef>& after,
                               EventRef dense_event = {}, EventRef expert_event = {}) {
    return gather(writer, bucket, after, dense_event, expert_event, gather_slots(false));
  }
  std::vector<EventRef> gather(TemplateWriter& writer, const Bucket& bucket, const std::vector<EventRef>& after,
                               EventRef dense_event, EventRef expert_event, GatherSlots slots);
  /// Issues the gathers of all buckets of a stage; wait_for_bucket() waits for their events.
  void gather_buckets(TemplateWriter& writer, const Chunk& chunk);
  /// Waits for the bucket that begins with `unit`, if there is one.
  void wait_for_bucket(TemplateWriter& writer, const Chunk& chunk, int unit);

  /// Reduces one bucket, number `index` of its chunk: all-reduce, or reduce-scatter if gradients or optimizer states
  /// are sharded and no rank needs the sums of all (parallel.zero1_allreduce); with hybrid sharding also an all-reduce of the
  /// shard over the replicas, on a separate stream as in FSDP. Returns the event at its end; none if there is no other rank to reduce with.
  struct GradientBucket {
    std::int64_t parameters = 0;
    bool expert = false;
    int chunk = 0;
    int index = 0;
    bool every_microbatch = false;
    std::optional<int> after = {};  ///< index of a bucket of the other kind (dense, expert) on the same CUDA stream
  };
  EventRef reduce(TemplateWriter& writer, const GradientBucket& bucket);

  /// Copies beside the collectives of FSDP, DeepSpeed and DDP, on the compute stream: every parameter out of what was gathered, every
  /// gradient into what is reduced. FSDP1's parameters, and those of gathers_in_place, are views of what was gathered.
  /// Source: docs/references.md#fsdp-copies, docs/references.md#deepspeed-copies, docs/references.md#ddp-buckets
  void copy_parameters_out(TemplateWriter& writer, const Bucket& gathered, GatherSlots slots);
  void copy_gradients_in(TemplateWriter& writer, const GradientBucket& bucket);
  /// Where gradients are reduced once for several micro-batches: adds those of one backward to the sum. `last`: of the backwards,
  /// where it is a template of its own.   Source: docs/references.md#gradient-sums
  void add_gradients(TemplateWriter& writer, std::int64_t parameters, bool last);
  /// True if all gradients are set to zero behind an update. PyTorch's optimizers, and DeepSpeed, drop them (set_to_none).
  bool clears_gradients() const { return rules().clears_gradients; }

  /// Copies `size` bytes between this rank and its host, on `lane`, while collectives move `beside` over the same port in the same
  /// direction. Returns the event at its end, `arrived`.
  EventRef copy(TemplateWriter& writer, Lane lane, Bytes size, std::vector<EventRef> after, EventRef arrived,
                Bytes beside = {});
  /// Bytes that the collectives of a unit in one pass send over a GPU's port of a board whose only links are PCIe, and as many that
  /// they receive; 0 on others.
  Bytes beside_copies(const Stage& stage, int unit, UnitPass pass) const;
  /// Offloaded parameters: copies this rank's shard of `bucket` from the host, before it is gathered: with FSDP in the type that is
  /// updated, with DeepSpeed in the one that computes (docs/references.md#offloading). Returns its event.
  EventRef shard_from_host(TemplateWriter& writer, const Bucket& bucket, const std::vector<EventRef>& after,
                           EventRef arrived);
  /// Offloaded optimizer: the host updates this rank's share of `parameters`, and the new parameters are copied back.
  EventRef update_on_host(TemplateWriter& writer, const Bucket& parameters);
  /// True if this step exchanges a part of the model between replicas (parameter_averaging).
  bool meets_replicas() const {
    return averages() && context_.plan.parallel.averaging_period > 0 && context_.plan.gradient_group() > 1;
  }
  /// All replicas take the mean of a part of their parameters, or of their changes: an all-reduce. It begins here, or with
  /// averaging_overlap where begin_average() was called. Returns its event.   Requires meets_replicas()
  EventRef average(TemplateWriter& writer, const Bucket& all);
  /// The same, at the beginning of a step that it runs beside.   Requires averaging_overlap > 0
  void begin_average(TemplateWriter& writer, const Bucket& all);
  /// What one step exchanges of a rank's parameters.
  std::int64_t averaged_parameters(const Bucket& all) const;
  std::int64_t updated_bytes() const { return updated_size(context_.plan.training); }
  /// Asynchronous servers: a step is never shorter than their time for one push of every worker.
  void serve_step(TemplateWriter& writer, const Chunk& chunk);
  /// Parameter servers: they update, and every worker pulls the parameters and waits for them.
  void pull(TemplateWriter& writer, const Chunk& chunk);

  BuildContext& context() const { return context_; }

 private:
  const DataParallelRules& rules() const { return rules_of(context_.plan.parallel); }
  /// True if gradients are summed on every rank though their optimizer states are divided. DeepSpeed's stages 1 and 2 do so with
  /// every bucket, of which each rank keeps its part.   Source: docs/references.md#deepspeed-reduction
  bool sums_everywhere() const;
  bool reduces_over(Slot replicas) const { return !averages() && context_.table.placement(replicas).ranks > 1; }
  bool has_others(Slot slot) const { return active() && context_.table.placement(slot).ranks > 1; }
  /// Bytes that a framework reads and writes of gradients that it reduces over `ranks`, beside the reduction.
  Bytes gradient_copies(std::int64_t parameters, int ranks) const;
  GradientTypes gradient_types() const;
  bool asynchronous() const { return context_.plan.parallel.data_parallel == DataParallelKind::async_parameter_server; }
  /// Asynchronous workers push and pull without waiting for each other.
  Slot server_slot() const { return asynchronous() ? Slot::alone : Slot::gradients; }
  EventRef reduce_over_groups(TemplateWriter& writer, const GradientBucket& bucket, EventRef ready);
  EventRef push(TemplateWriter& writer, const GradientBucket& bucket, EventRef ready);
  int reductions_per_step() const { return reduces_every_microbatch() ? context_.plan.num_microbatches : 1; }
  /// Reduced gradients go to the host. DeepSpeed fetches the sum of earlier micro-batches, adds them on the GPU, sends the new sum, and
  /// with the last one the fp32 gradients; here the mean of a step's reductions.   Source: docs/references.md#offloading
  EventRef to_host(TemplateWriter& writer, const GradientBucket& bucket, EventRef reduced);
  GroupCall averaging_call(const Bucket& all) const;
  EventRef averaged_event() const { return context_.rank_event("averaged", 0, 0, false); }
  ParameterServers server_setup() const;
  /// Ranks that share a host, and with it the host's processors.
  int ranks_per_host() const;

  BuildContext& context_;
};

}  // namespace tracecast
