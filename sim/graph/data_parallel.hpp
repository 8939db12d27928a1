/// Gradients and parameters between the data-parallel ranks: what is reduced and gathered, when, and in which pieces.
/// Source: DOMAIN.md 3.1; tests T-C1, T-C9, T-C10
#pragma once

#include <vector>

#include "sim/graph/build_context.hpp"

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
  /// Unit by unit in every forward (and backward), as FSDP does.
  bool gathers_units(bool backward) const {
    return active() && sharded(3) && (!backward || context_.plan.parallel.reshard_after_forward);
  }
  /// FSDP and ZeRO-3 reduce after every micro-batch; ZeRO-2 too, unless a pipeline makes that ruinous.
  bool reduces_every_microbatch() const { return sharded(3) || (sharded(2) && context_.plan.parallel.pp == 1); }
  bool reduces_during_backward(bool last) const {
    return active() && !mirrored() &&
           (reduces_every_microbatch() || (last && context_.plan.parallel.overlap_grad_reduce));
  }
  /// Parameters whose optimizer states this rank holds.
  std::int64_t own_parameters(const Bucket& all) const;
  std::int64_t gradient_bytes() const { return element_size(context_.plan.training.grad_reduce_dtype); }
  std::int64_t parameter_bytes() const { return context_.plan.training.dtype == Precision::fp32 ? 4 : 2; }

  /// All-gathers of one bucket, dense and expert parameters apart; the events of those that have a group.
  std::vector<EventRef> gather(TemplateWriter& writer, const Bucket& bucket, const std::vector<EventRef>& after,
                               EventRef dense_event, EventRef expert_event);
  /// The gathers of all of a stage's buckets, whose events wait_for_bucket() waits for.
  void gather_buckets(TemplateWriter& writer, const Chunk& chunk);
  /// What follows waits for the bucket that begins with `unit`, if one does.
  void wait_for_bucket(TemplateWriter& writer, const Chunk& chunk, int unit);

  /// Reduction of one bucket: all-reduce, or reduce-scatter when gradients or optimizer states are sharded; with hybrid
  /// sharding also an all-reduce of the shard over the replicas. Whether there was anybody to reduce with.
  bool reduce(TemplateWriter& writer, std::int64_t parameters, bool expert, EventRef ready, EventRef reduced);

  BuildContext& context() const { return context_; }

 private:
  BuildContext& context_;
};

/// ZeRO-3: parameters of the units of one chunk are gathered one ahead of their use, and at most two at a time.
///
/// The first two gathers of a chunk wait for nothing, so those of a chunk with two units or less may run any number of
/// micro-batches ahead of the computation (a rank that waits for its neighbours): their ends are rank events.
class UnitPrefetch {
 public:
  UnitPrefetch(DataParallel& data, TemplateWriter& writer, const Chunk& chunk, bool backward);
  /// Around the compute of the `position`-th unit in order of use.
  void before(int position);
  void after(int position);

 private:
  int units() const { return data_.context().units.count(chunk_.stage); }
  void gather(int position, const std::vector<EventRef>& after);

  DataParallel& data_;
  TemplateWriter& writer_;
  const Chunk& chunk_;
  const bool backward_;
  const bool active_;
  std::vector<std::vector<EventRef>> gathered_;
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
