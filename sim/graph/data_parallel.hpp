/// \file
/// Gradients and parameters between the data-parallel ranks, servers and the host: what is reduced, gathered and copied,
/// when, and in which pieces.
/// Source: docs/references.md#data-parallel-traffic
#pragma once

#include <vector>

#include "sim/graph/build_context.hpp"
#include "sim/network/parameter_server.hpp"
#include "sim/plan/sharding.hpp"

namespace tracecast {

/// The rules of a plan's data parallelism, and its collectives.
class DataParallel {
 public:
  explicit DataParallel(BuildContext& context) : context_(context) {}

  bool active() const { return context_.plan.gradient_group() > 1; }
  /// Are the states of ZeRO stage `stage` divided?
  bool sharded(int stage) const { return context_.plan.parallel.zero_stage >= stage; }
  /// Two copies of the model in one pipeline: their gradients are added up before anything else is done with them.
  bool mirrored() const { return context_.schedule.replicas > 1; }
  /// All parameters are gathered at the beginning of the step, beside the first forward.
  bool gathers_during_forward() const {
    return active() && sharded(1) && !sharded(3) && context_.plan.parallel.overlap_param_gather;
  }
  /// Is this unit gathered in every forward (or backward), as FSDP does?
  bool gathers_unit(const Stage& stage, int unit, bool backward) const;
  /// FSDP's reductions are those of its units; DeepSpeed's stage 3 fills buckets.
  bool reduces_units() const {
    return sharded(3) && context_.plan.parallel.data_parallel != DataParallelKind::deepspeed;
  }
  bool offloads() const { return context_.plan.training.offload_optimizer; }
  bool offloads_parameters() const { return context_.plan.training.offload_parameters; }
  bool servers() const { return has_servers(context_.plan.parallel); }
  /// Does anything happen to gradients between the backward and the optimizer?
  bool moves_gradients() const { return active() || offloads(); }
  bool reduces_every_microbatch() const { return tracecast::reduces_every_microbatch(context_.plan.parallel); }
  bool reduces_during_backward(bool last) const {
    return moves_gradients() && !mirrored() &&
           (reduces_every_microbatch() || (last && context_.plan.parallel.overlap_grad_reduce));
  }
  /// Parameters whose optimizer states this rank holds.
  std::int64_t own_parameters(const Bucket& all) const;
  std::int64_t gradient_bytes() const { return element_size(context_.plan.training.grad_reduce_dtype); }
  std::int64_t parameter_bytes() const { return context_.plan.training.dtype == Precision::fp32 ? 4 : 2; }

  /// All-gathers of one bucket, dense and expert parameters apart; the events of those that have a group.
  struct GatherSlots {
    Slot dense = Slot::parameters;
    Slot expert = Slot::expert_parameters;
  };
  /// Where a unit is gathered from: after the forward it may lie in smaller groups.
  GatherSlots gather_slots(bool backward) const;
  std::vector<EventRef> gather(TemplateWriter& writer, const Bucket& bucket, const std::vector<EventRef>& after,
                               EventRef dense_event = {}, EventRef expert_event = {}) {
    return gather(writer, bucket, after, dense_event, expert_event, GatherSlots{});
  }
  std::vector<EventRef> gather(TemplateWriter& writer, const Bucket& bucket, const std::vector<EventRef>& after,
                               EventRef dense_event, EventRef expert_event, GatherSlots slots);
  /// The gathers of all of a stage's buckets, whose events wait_for_bucket() waits for.
  void gather_buckets(TemplateWriter& writer, const Chunk& chunk);
  /// What follows waits for the bucket that begins with `unit`, if one does.
  void wait_for_bucket(TemplateWriter& writer, const Chunk& chunk, int unit);

  /// Reduction of one bucket, number `index` of its chunk: all-reduce, or reduce-scatter when gradients or optimizer
  /// states are sharded; with hybrid sharding also an all-reduce of the shard over the replicas, on a stream of its own
  /// as FSDP has it. The event at its end; none when there is nobody to reduce with.
  struct GradientBucket {
    std::int64_t parameters = 0;
    bool expert = false;
    int chunk = 0;
    int index = 0;
    bool every_microbatch = false;
  };
  EventRef reduce(TemplateWriter& writer, const GradientBucket& bucket);

  /// `size` bytes between this rank and its host, on `lane`; the event at its end, `arrived`.
  EventRef copy(TemplateWriter& writer, Lane lane, Bytes size, std::vector<EventRef> after, EventRef arrived);
  /// Offloaded parameters: this rank's shard of `bucket` comes from the host, before it is gathered. The copy's event.
  EventRef shard_from_host(TemplateWriter& writer, const Bucket& bucket, const std::vector<EventRef>& after,
                           EventRef arrived);
  /// Offloaded optimizer: the host updates this rank's share of `parameters`, and the new parameters come back.
  EventRef update_on_host(TemplateWriter& writer, const Bucket& parameters);
  /// Asynchronous servers: a step is never shorter than what they need for one push of every worker.
  void serve_step(TemplateWriter& writer, const Chunk& chunk);
  /// Parameter servers: they update, and every worker pulls the parameters. What follows waits.
  void pull(TemplateWriter& writer, const Chunk& chunk);

  BuildContext& context() const { return context_; }

 private:
  bool asynchronous() const { return context_.plan.parallel.data_parallel == DataParallelKind::async_parameter_server; }
  EventRef reduce_over_groups(TemplateWriter& writer, const GradientBucket& bucket, EventRef ready);
  EventRef push(TemplateWriter& writer, const GradientBucket& bucket, EventRef ready);
  EventRef to_host(TemplateWriter& writer, const GradientBucket& bucket, EventRef reduced);
  ParameterServers server_setup() const;
  /// Ranks that share a host, and with it the host's processors.
  int ranks_per_host() const;

  BuildContext& context_;
};

/// ZeRO-3: parameters of the units of one chunk are gathered ahead of their use: FSDP one, at most two at a time;
/// DeepSpeed as many as prefetch_bucket_size holds, and the next one in any case.
///
/// The first gathers of a pass wait for nothing, so those of a chunk that needs no others may run any number of
/// micro-batches ahead of the computation (a rank that waits for its neighbours): their ends are rank events.
class UnitPrefetch {
 public:
  /// `weights`: of a backward_weight, which gathers for itself what the backward_input of its micro-batch has gathered too.
  UnitPrefetch(DataParallel& data, TemplateWriter& writer, const Chunk& chunk, bool backward, bool weights = false);
  /// Around the compute of a unit.
  void before(int unit);
  void after(int unit);

 private:
  /// Numbers of the rank events of this chunk's unit.
  EventRef event(const char* forward, const char* backward, int unit) const;
  /// How many gathers may have been issued when `used` units are done.
  std::size_t allowed(std::size_t used) const;
  void advance();
  void gather_next(const std::vector<EventRef>& after);
  bool waits_for(int unit) const { return used_ < units_.size() && units_[used_] == unit; }

  DataParallel& data_;
  TemplateWriter& writer_;
  const Chunk& chunk_;
  const bool backward_;
  const bool weights_;
  const DataParallel::GatherSlots slots_;
  std::vector<int> units_;                       ///< those that are gathered, in order of use
  bool runs_ahead_ = false;                      ///< all of them wait for nothing
  std::size_t used_ = 0;                         ///< of them
  std::vector<std::vector<EventRef>> gathered_;  ///< [position in units_]
};

/// Gradients of one chunk on their way into buckets, inside one backward template.
class GradientBuckets {
 public:
  GradientBuckets(DataParallel& data, TemplateWriter& writer, int chunk, bool active)
      : data_(data), writer_(writer), chunk_(chunk), active_(active) {}

  void add(const Work& work);
  /// FSDP reduces unit by unit.
  void unit_done();
  void flush_all();
  const std::vector<EventRef>& last_events() const { return last_; }

 private:
  void flush(bool expert);

  DataParallel& data_;
  TemplateWriter& writer_;
  const int chunk_;
  const bool active_;
  int count_ = 0;
  std::int64_t dense_ = 0;
  std::int64_t expert_ = 0;
  std::vector<EventRef> last_;
};

}  // namespace tracecast
