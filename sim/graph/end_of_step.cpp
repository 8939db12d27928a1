#include "sim/graph/end_of_step.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/integers.hpp"
#include "sim/graph/matrix_update.hpp"
#include "sim/graph/optimizer_work.hpp"
#include "sim/model/parameters.hpp"
#include "sim/plan/fine_tuning.hpp"
#include "sim/plan/parameter_states.hpp"
#include "sim/plan/precision.hpp"

namespace tracecast {
namespace {

std::int64_t replicated_sum(const std::vector<ParameterGroup>& groups) {
  std::int64_t parameters = 0;
  for (const ParameterGroup& group : groups) parameters += group.split == Split::replicated ? group.count : 0;
  return parameters;
}

}  // namespace

Bucket EndOfStep::parameters_of(const std::vector<Chunk>& chunks) const {
  Bucket sum;
  for (const Chunk& chunk : chunks) sum += context_.units.stage(chunk.stage);
  return sum;
}

/// The quantised copies of every weight, made once for all micro-batches of the next step; they are counted here
/// although the first forward makes them, after the parameters have been gathered.
Operator EndOfStep::quantise_weights(std::int64_t parameters) const {
  const Training& training = context_.plan.training;
  const double moved = static_cast<double>(parameters) *
                       quantising_bytes(training, training.dtype, quantised_copies(training, training.dtype));
  return {OperatorKind::optimizer, Pass::optimizer, Precision::bf16, "weight cast",
          ElementwiseShape{parameters, Bytes{std::llround(moved)}}};
}

/// Bytes that the update reads and writes for each parameter that is updated by itself (docs/references.md#elementwise-bytes): its value,
/// its states, and the 16-bit copy; and the gradient, which is read, in fp32 where the value is.
std::int64_t EndOfStep::update_bytes() const {
  const Training& training = context_.plan.training;
  const std::int64_t value = data_.updated_bytes();
  return 2 * value + std::max(value, data_.gradient_bytes()) + 2 * states_size(training) + written_copy(training);
}

std::int32_t EndOfStep::reduce_template(int pp, const std::vector<Chunk>& chunks, const std::vector<EventRef>& reduced,
                                        const std::vector<Chunk>& unreduced) {
  return context_.find_template({TemplateKind::reduce, pp, context_.kind_number()}, 0,
                                [&](TemplateWriter& writer, Template&) {
                                  if (data_.mirrored()) reduce_mirror(writer, chunks);
                                  for (const Chunk& chunk : unreduced) reduce_chunk(writer, chunk);
                                  reduce_copies(writer, chunks);
                                  for (EventRef event : reduced) writer.wait(event);
                                  reduce_embedding(writer, chunks);
                                  reduce_replicated(writer, chunks);
                                  gradient_norm(writer, chunks);
                                });
}

void EndOfStep::reduce_mirror(TemplateWriter& writer, const std::vector<Chunk>& chunks) {
  const CollectiveCall call{Collective::all_reduce, Bytes{parameters_of(chunks).trained() * data_.gradient_bytes()}};
  writer.wait(writer.collective({Lane::embedding, Traffic::gradients, Slot::mirror, call}, {writer.mark()}));
}

/// All gradients of a chunk at once, if they were not reduced during the backward.
void EndOfStep::reduce_chunk(TemplateWriter& writer, const Chunk& chunk) {
  const Bucket all = context_.units.stage(chunk.stage);
  const auto reduce = [&](std::int64_t parameters, bool expert) {
    if (parameters > 0) writer.wait(data_.reduce(writer, {parameters, expert, chunk.index, expert ? -2 : -1, false}));
  };
  reduce(all.parameters.trained, false);
  reduce(all.parameters.trained_experts, true);
}

/// Tied embeddings on two ranks, or a second table for multi-token prediction: their gradients are added up.
void EndOfStep::reduce_embedding(TemplateWriter& writer, const std::vector<Chunk>& chunks) {
  const bool copies = context_.model.tied_embeddings || context_.model.mtp_layers > 0;
  if (!copies || !trains_embedding(context_.plan.training) || context_.table.placement(Slot::embedding).ranks <= 1)
    return;
  const bool holds = std::any_of(chunks.begin(), chunks.end(),
                                 [](const Chunk& chunk) { return chunk.stage.embedding || chunk.stage.head; });
  if (!holds) return;
  const CollectiveCall call{Collective::all_reduce,
                            Bytes{context_.work.embedding_parameters() * data_.gradient_bytes()}};
  writer.wait(writer.collective({Lane::embedding, Traffic::embedding, Slot::embedding, call}, {writer.mark()}));
}

/// Trained parameters of a layer that every tensor rank holds: norms, routers, compressing matrices of latent attention, biases after
/// row-parallel matrices.
std::int64_t EndOfStep::replicated_parameters(int layer) {
  if (!trains_weights(context_.model, context_.plan.training, layer)) return 0;
  const auto [found, added] = replicated_.try_emplace(context_.work.kind(layer));
  if (added) found->second = replicated_sum(layer_parameter_groups(context_.model, layer));
  return found->second;
}

/// With sequence parallelism tensor ranks process different tokens: gradients of what all of them hold are summed, in one call.
/// docs/references.md#replicated-gradients
void EndOfStep::reduce_replicated(TemplateWriter& writer, const std::vector<Chunk>& chunks) {
  if (!context_.plan.parallel.sequence_parallel || context_.plan.parallel.tp == 1) return;
  std::int64_t parameters = 0;
  for (const Chunk& chunk : chunks) {
    for (int layer = chunk.stage.first_layer; layer < chunk.stage.first_layer + chunk.stage.num_layers; ++layer)
      parameters += replicated_parameters(layer);
    if (!chunk.stage.head || !trains_weights(context_.model, context_.plan.training, -1)) continue;
    parameters += replicated_sum(head_parameter_groups(context_.model));
    for (int layer = 0; layer < context_.model.mtp_layers; ++layer)
      parameters += replicated_sum(mtp_parameter_groups(context_.model));
  }
  const CollectiveCall call{Collective::all_reduce, Bytes{parameters * data_.gradient_bytes()}};
  if (parameters > 0)
    writer.wait(writer.collective({Lane::tensor, Traffic::tensor_parallel, Slot::tensor, call}, {writer.mark()}));
}

/// Over all ranks, a barrier across the pipeline. Replicas that average parameters have norms of their own: those of one
/// rank need no message, those of tensor ranks or of a shard group their communicator, others one of all their ranks. Where an
/// update follows every backward, each stage has its own norm: another stage is at another micro-batch.
void EndOfStep::all_reduce_scalar(TemplateWriter& writer, Bytes size) {
  if (context_.plan.world_size == 1) return;
  const CollectiveCall call{Collective::all_reduce, size};
  const auto over = [&](Lane lane, Slot slot) {
    if (context_.table.placement(slot).ranks > 1)
      writer.wait(writer.collective({lane, Traffic::control, slot, call}, {writer.mark()}));
  };
  if (data_.updates_every_backward()) {
    over(Lane::tensor, Slot::tensor);
    if (data_.sharded(1)) over(Lane::gradients, Slot::gradients);
    return;
  }
  if (data_.averages() && context_.plan.parallel.pp > 1) {
    writer.wait(writer.collective({Lane::global, Traffic::control, Slot::replica, call}, {writer.mark()}));
    return;
  }
  if (data_.averages() && (context_.plan.parallel.tp == 1 || !data_.sharded(1))) {
    return data_.sharded(1) ? over(Lane::gradients, Slot::gradients) : over(Lane::tensor, Slot::tensor);
  }
  writer.wait(writer.collective({Lane::global, Traffic::control, Slot::world, call}, {writer.mark()}));
}

/// LARS and LAMB scale each layer's update by the norms of its weights and of its update, fp32: both are read once
/// more, and ranks that hold different parts of a layer add up their squares, two numbers for every layer.
/// Source: You et al. 1708.03888 (LARS), 1904.00962 (LAMB)
void EndOfStep::layer_norms(TemplateWriter& writer, const std::vector<Chunk>& chunks) {
  if (!optimizer_of(context_.plan.training.optimizer).layer_norms) return;
  const CollectiveCall call{Collective::all_reduce, Bytes{8}};
  for (const Chunk& chunk : chunks)
    for (int unit = 0; unit < context_.units.count(chunk.stage); ++unit) {
      writer.compute(optimizer_work("layer_norms", data_.own_parameters(context_.units.unit(chunk.stage, unit)), 8));
      if (context_.table.placement(Slot::tensor).ranks > 1)
        writer.wait(writer.collective({Lane::tensor, Traffic::control, Slot::tensor, call}, {writer.mark()}));
      if (data_.sharded(1) && context_.table.placement(Slot::gradients).ranks > 1)
        writer.wait(writer.collective({Lane::gradients, Traffic::control, Slot::gradients, call}, {writer.mark()},
                                      context_.rank_event("layer norms", chunk.index, unit, false)));
    }
}

void EndOfStep::gradient_norm(TemplateWriter& writer, const std::vector<Chunk>& chunks) {
  if (data_.servers()) {  // the servers compute the norm
    data_.pull(writer, chunks.front());
    writer.host_sync(writer.mark());
    return;
  }
  const std::int64_t own = data_.own_parameters(parameters_of(chunks));
  if (context_.plan.training.dtype == Precision::fp16) {
    writer.compute(optimizer_work("unscale", own, 2 * data_.gradient_bytes()));
    all_reduce_scalar(writer, Bytes{4});  // overflow on any rank
  }
  writer.compute(optimizer_work("grad_norm", own, data_.gradient_bytes()));
  all_reduce_scalar(writer, Bytes{8});
  if (!data_.updates_every_backward()) writer.host_sync(writer.mark());
}

void EndOfStep::update(TemplateWriter& writer, const std::vector<Chunk>& chunks, const Bucket& all) {
  if (data_.servers()) return;
  if (data_.offloads()) {
    writer.wait(data_.update_on_host(writer, all));
    return;
  }
  layer_norms(writer, chunks);
  Bucket rest = all;  // what no other update has changed
  if (optimizer_of(context_.plan.training.optimizer).matrices != MatrixWork::none) {
    rest = {};
    for (const Chunk& chunk : chunks) rest += MatrixUpdate(data_).write(writer, chunk);
  }
  writer.compute(optimizer_work("update", data_.own_parameters(rest), update_bytes()));
}

/// A part of the model becomes the same on all replicas. Local SGD: the mean of their parameters replaces them; ranks with an
/// fp32 copy make the 16-bit one again. DiLoCo: the difference from the last common parameters is exchanged, and the outer
/// optimizer changes them, its momentum and the replica's own copies. If a part travels beside several steps, its work is
/// divided over them as its bytes are.
void EndOfStep::average(TemplateWriter& writer, const Bucket& all) {
  const Parallel& parallel = context_.plan.parallel;
  const std::int64_t parameters = data_.averaged_parameters(all);
  const std::int64_t kept = data_.updated_bytes();
  const std::int64_t parameter = data_.parameter_bytes();
  const std::int64_t copy = kept > parameter ? parameter : 0;
  const auto work = [&](const char* name, std::int64_t bytes_each) {
    writer.compute(optimizer_work(name, parameters, bytes_each));
  };
  const bool outer = parallel.outer_optimizer == OuterOptimizer::nesterov;
  if (outer) work("outer difference", kept + 4 + 4);
  writer.wait(data_.average(writer, all));
  if (outer)
    work("outer update", 4 + 2 * 4 + 2 * 4 + kept + copy);
  else if (copy > 0)
    work("average cast", kept + copy);
}

/// Of redundant experts on this rank, before sharding.
std::int64_t EndOfStep::copied_parameters(const std::vector<Chunk>& chunks) const {
  const int copies = context_.plan.training.redundant_experts;
  return copies == 0 ? 0 : parameters_of(chunks).parameters.trained_experts * copies / context_.model.moe->experts;
}

void EndOfStep::exchange_experts(TemplateWriter& writer, Traffic traffic, Bytes size) {
  if (size.count == 0 || context_.table.placement(Slot::expert).ranks <= 1) return;
  writer.wait(
      writer.collective({Lane::expert, traffic, Slot::expert, {Collective::all_to_all, size}}, {writer.mark()}));
}

/// Gradients of copies are reduced as those of other experts; then each rank sends its part of them to where the expert is at home.
void EndOfStep::reduce_copies(TemplateWriter& writer, const std::vector<Chunk>& chunks) {
  const std::int64_t copied = copied_parameters(chunks);
  if (copied == 0) return;
  writer.wait(data_.reduce(writer, {copied, true, chunks.front().index, -3, false}));
  const int shards = data_.sharded(1) ? context_.table.placement(Slot::expert_gradients).ranks : 1;
  exchange_experts(writer, Traffic::gradients, Bytes{ceil_div(copied, shards) * data_.gradient_bytes()});
}

/// The way back of the updated parameters; where ranks have shards, these are gathered.
void EndOfStep::send_copies(TemplateWriter& writer, const std::vector<Chunk>& chunks) {
  const std::int64_t copied = copied_parameters(chunks);
  if (copied == 0) return;
  const bool sharded = data_.sharded(1);
  const int shards = sharded ? context_.table.placement(Slot::expert_gradients).ranks : 1;
  exchange_experts(writer, Traffic::parameters, Bytes{ceil_div(copied, shards) * data_.parameter_bytes()});
  if (!sharded || shards <= 1) return;
  const CollectiveCall gather{Collective::all_gather, Bytes{copied * data_.parameter_bytes()}};
  writer.wait(writer.collective({Lane::expert_gradients, Traffic::parameters, Slot::expert_gradients, gather},
                                {writer.mark()}));
}

/// A new placement moves experts with their weights and this rank's share of their optimizer states; here the mean of the steps from
/// one to the next.
void EndOfStep::move_experts(TemplateWriter& writer, const std::vector<Chunk>& chunks) {
  const int period = context_.plan.training.expert_rebalance_steps;
  if (period == 0) return;
  const std::int64_t experts = parameters_of(chunks).parameters.trained_experts;
  const StateBytes each = bytes_per_parameter(context_.plan.training, context_.plan.parallel.zero_stage);
  const int shards = data_.sharded(1) ? context_.table.placement(Slot::expert_gradients).ranks : 1;
  exchange_experts(writer, Traffic::parameters,
                   Bytes{experts * each.weights + ceil_div(experts, shards) * each.optimizer} / period);
}

std::int32_t EndOfStep::optimizer_template(int pp, const std::vector<Chunk>& chunks) {
  return context_.find_template(
      {TemplateKind::optimizer, pp, context_.kind_number()}, 0, [&](TemplateWriter& writer, Template&) {
        const Bucket all = parameters_of(chunks);
        update(writer, chunks, all);
        if (data_.meets_replicas()) average(writer, all);
        send_copies(writer, chunks);
        move_experts(writer, chunks);
        const std::int64_t held = data_.sharded(2) ? data_.own_parameters(all) : all.trained();
        if (data_.clears_gradients()) writer.compute(optimizer_work("zero_grad", held, data_.gradient_bytes()));
        if (all.quantised() > 0 && !data_.sharded(3)) writer.compute(quantise_weights(all.quantised()));
        if (!data_.active() || !data_.sharded(1) || data_.sharded(3) || data_.gathers_during_forward()) return;
        for (EventRef event : data_.gather(writer, all, {writer.mark()})) writer.wait(event);
      });
}

}  // namespace tracecast
