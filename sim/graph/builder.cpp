#include "sim/graph/builder.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "sim/base/result.hpp"
#include "sim/graph/build_context.hpp"
#include "sim/graph/end_of_step.hpp"
#include "sim/graph/gradient_buckets.hpp"
#include "sim/graph/offloading.hpp"
#include "sim/graph/overlapped_pair.hpp"
#include "sim/graph/pipeline_messages.hpp"
#include "sim/graph/rank_connections.hpp"
#include "sim/graph/unit_prefetch.hpp"
#include "sim/plan/memory.hpp"
#include "sim/plan/sharding.hpp"

namespace tracecast {
namespace {

TemplateKind kind_of(BackwardPart part) {
  switch (part) {
    case BackwardPart::all:
      break;
    case BackwardPart::input_gradients:
      return TemplateKind::input_gradients;
    case BackwardPart::weight_gradients:
      return TemplateKind::weight_gradients;
  }
  return TemplateKind::backward;
}

/// Positions of the first forward and of the last weight-gradient work of a chunk in a rank's schedule.
struct ChunkBoundary {
  std::size_t first_forward = 0;
  std::size_t last_backward = 0;
  std::int32_t last_microbatch = 0;
  BackwardPart last_part = BackwardPart::all;
};

/// [chunk]
std::vector<ChunkBoundary> first_forward_last_backward(const std::vector<Action>& actions, int chunks) {
  std::vector<ChunkBoundary> points(static_cast<std::size_t>(chunks));
  for (std::size_t i = actions.size(); i-- > 0;)
    if (actions[i].kind == ActionKind::forward || actions[i].kind == ActionKind::forward_backward)
      points[static_cast<std::size_t>(actions[i].chunk)].first_forward = i;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    if (action.kind == ActionKind::forward || action.kind == ActionKind::backward_input) continue;
    const bool pair = action.kind == ActionKind::forward_backward;
    ChunkBoundary& point = points[static_cast<std::size_t>(pair ? action.chunk2 : action.chunk)];
    point.last_backward = i;
    point.last_microbatch = pair ? action.microbatch2 : action.microbatch;
    point.last_part = action.kind == ActionKind::backward_weight ? BackwardPart::weight_gradients : BackwardPart::all;
  }
  return points;
}

/// The templates of the passes of a chunk that are neither its first forward nor its last backward, once they are known. They
/// serve nearly all items of a program.
struct RepeatedPasses {
  const std::vector<std::int32_t>* forward = nullptr;  ///< its blocks
  std::array<std::int32_t, 3> backward{-1, -1, -1};    ///< [BackwardPart]
};

/// A program under construction.
struct RankProgram {
  std::vector<Chunk> chunks;
  std::vector<RepeatedPasses> repeated;   ///< [chunk]
  std::vector<ChunkBoundary> boundaries;  ///< [chunk]
  std::vector<ProgramItem> items;
  std::int32_t first_batch = -1;  ///< RankKind::first_batch
  /// False: passes differ by the documents of their micro-batch.
  bool repeats() const { return first_batch < 0; }
  const Chunk& chunk(int index) const { return chunks[static_cast<std::size_t>(index)]; }
  const ChunkBoundary& boundary(int index) const { return boundaries[static_cast<std::size_t>(index)]; }
};

/// Templates of forwards and backwards, and the programs made of them.
class GraphBuilder {
 public:
  /// `other_costs`: as of BuildContext.
  /// `step`: of packed batches.
  GraphBuilder(const StepInputs& inputs, const std::vector<const Costs*>& other_costs, const Perturbation& perturbation,
               int step)
      : perturbation_(perturbation),
        step_(step),
        context_(inputs, other_costs),
        kinds_(inputs.plan, context_.stage_placement, inputs.schedule.chunks, context_.groups, perturbation_,
               context_.placements),
        messages_(context_),
        data_(context_),
        end_(data_) {}

  StepGraph build(SimulatedRanks ranks) {
    context_.graph.varying.step = step_;
    for (const char* name : {"compute", "tp", "cp", "ep", "dp", "dp gather", "expert dp", "expert dp gather", "global",
                             "embedding", "dp replicas", "to host", "host", "from host"})
      context_.graph.streams.push_back({name});
    messages_.add_streams();
    if (ranks != SimulatedRanks::all) {
      const bool one = ranks == SimulatedRanks::one_pipeline;
      if (const std::optional<std::vector<RankKind>> stages = one ? kinds_.of_first_ranks() : kinds_.by_stage()) {
        add_programs(*stages);
        RankConnections(context_, kinds_).add_one_rank_per_stage(*stages, perturbation_);
        return std::move(context_.graph);
      }
    }
    std::vector<RankKind> kinds;
    const std::vector<std::int32_t> kind_of = kinds_.by_rank(kinds);
    add_programs(kinds);
    RankConnections(context_, kinds_).add_classes(kinds, kind_of, perturbation_, ranks);
    return std::move(context_.graph);
  }

 private:
  // ---- Templates ---------------------------------------------------------------------------------------------------

  /// What the host does between two steps.
  Duration host_between_steps() const {
    // A metric is a quotient of two sums. For each of them the host makes a tensor of every rank's value, one after the other.
    // Source: docs/references.md#train-metrics
    constexpr double kSecondsPerValue = 13.5e-6;
    const HostModel& model = context_.table.costs().profile().host;
    const double per_rank = model.step_overhead_per_rank + 2 * kSecondsPerValue * context_.plan.training.metric_losses;
    return from_seconds(model.step_overhead + context_.plan.world_size * per_rank);
  }

  std::int32_t begin_template(const std::vector<Chunk>& chunks) {
    const TemplateKey key{TemplateKind::begin, context_.number_of(chunks)};
    return context_.find_template(key, 0, [&](TemplateWriter& writer, Template& out) {
      Op host;
      host.host = host_between_steps();
      out.ops.push_back(host);
      data_.serve_step(writer, chunks.front());
      if (data_.meets_replicas() && context_.plan.parallel.averaging_overlap > 0)
        data_.begin_average(writer, end_.parameters_of(chunks));
      if (!data_.gathers_during_forward()) return;
      for (const Chunk& chunk : chunks) data_.gather_buckets(writer, chunk);
    });
  }

  /// Before a pass that needs a message for which the host waits.
  void await_message(const Chunk& chunk, ChannelSide side, std::int32_t message, std::int32_t microbatch,
                     std::vector<ProgramItem>& program) {
    if (message < 0 || !messages_.host_waits()) return;
    const TemplateKey key{
        side == ChannelSide::receive_forward ? TemplateKind::receive_forward : TemplateKind::receive_backward,
        chunk.number};
    const auto write = [&](TemplateWriter& writer, Template&) { messages_.await(writer, chunk.index, side, message); };
    program.push_back({context_.find_template(key, chunk.index, write), microbatch});
  }

  /// `first`: of the chunk in this step.
  TemplateKey forward_key(const Chunk& chunk, bool first) const {
    const bool differs = data_.gathers_during_forward() || data_.gathers_first();
    return {TemplateKind::forward, chunk.number, first && differs ? 1 : 0, context_.context_ranks()};
  }

  void write_forward(TemplateWriter& writer, Template& out, const Chunk& chunk, bool first) {
    const Stage& stage = chunk.stage;
    const bool waits_for_parameters = first && data_.gathers_during_forward();
    messages_.receive(writer, chunk.index, ChannelSide::receive_forward, chunk.receive_forward);
    using Pass = DataParallel::UnitPass;
    UnitPrefetch prefetch(data_, writer, chunk, first ? Pass::first_forward : Pass::forward);
    const auto unit = [&](int index, const WorkList& list) {
      if (waits_for_parameters) data_.wait_for_bucket(writer, chunk, index);
      prefetch.before(index);
      const std::size_t begin = out.ops.size();
      writer.write(list);
      number_layer(out, begin, chunk.stage, index);
      prefetch.after(index);
    };
    ActivationCopies copies(data_, writer, chunk, false);
    if (stage.embedding) unit(0, context_.pass_work().embedding_forward());
    for (int layer = stage.first_layer; layer < stage.first_layer + stage.num_layers; ++layer) {
      copies.before(layer - stage.first_layer);
      unit(context_.units.layer(stage, layer), context_.forward_work(layer));
      copies.after(layer - stage.first_layer);
    }
    if (stage.head) unit(context_.units.head(stage), context_.pass_work().head_forward());
    messages_.send(writer, chunk.index, ChannelSide::send_forward, chunk.send_forward);
    out.allocates = activation_bytes(context_.model, context_.plan, stage);
  }

  /// Operations of `out` from `first` on are of unit `index`; gathers and reductions beside them are of other layers.
  void number_layer(Template& out, std::size_t first, const Stage& stage, int index) const {
    const int layer = index - context_.units.layer(stage, stage.first_layer);
    if (layer < 0 || layer >= stage.num_layers || layer > std::numeric_limits<std::int16_t>::max()) return;
    for (Op& op : std::span(out.ops).subspan(first))
      if (op.stream <= static_cast<StreamId>(Lane::expert)) op.layer = static_cast<std::int16_t>(layer);
  }

  /// `last`: of the chunk in this step.
  TemplateKey backward_key(const Chunk& chunk, BackwardPart part, bool last) const {
    const bool reduces = has_weight_gradients(part) && data_.reduces_during_backward(last);
    return {kind_of(part), chunk.number, reduces ? 1 : 0, context_.context_ranks()};
  }

  std::int32_t backward_template(const Chunk& chunk, BackwardPart part, bool last) {
    const TemplateKey key = backward_key(chunk, part, last);
    return context_.find_template(key, chunk.index, [&](TemplateWriter& writer, Template& out) {
      write_backward(writer, out, chunk, part, key);
    });
  }

  void write_backward(TemplateWriter& writer, Template& out, const Chunk& chunk, BackwardPart part,
                      const TemplateKey& key) {
    const Stage& stage = chunk.stage;
    const ParameterUnits& units = context_.units;
    const bool inputs = has_input_gradients(part);
    if (inputs) messages_.receive(writer, chunk.index, ChannelSide::receive_backward, chunk.receive_backward);
    std::optional<UnitPrefetch> prefetch;  // gradients of weights read no weights
    if (inputs) prefetch.emplace(data_, writer, chunk, DataParallel::UnitPass::backward);
    GradientBuckets buckets(data_, writer, chunk, key.variant == 1);
    const auto unit = [&](int index, const WorkList& list) {
      if (prefetch) prefetch->before(index);
      const std::size_t first = out.ops.size();
      writer.write(list, [&](const Work& work) { buckets.add(work); });
      number_layer(out, first, stage, index);
      buckets.unit_done(index);
      if (prefetch) prefetch->after(index);
    };
    std::optional<ActivationCopies> copies;
    if (inputs) copies.emplace(data_, writer, chunk, true);
    if (stage.head) unit(units.head(stage), context_.pass_work().head_backward(part));
    for (int layer = stage.first_layer + stage.num_layers; layer-- > stage.first_layer;) {
      if (copies) copies->before(layer - stage.first_layer);
      unit(units.layer(stage, layer), context_.backward_work(layer, part, recomputes(stage, layer)));
      if (copies) copies->after(layer - stage.first_layer);
    }
    if (inputs) messages_.send(writer, chunk.index, ChannelSide::send_backward, chunk.send_backward);
    if (stage.embedding && has_weight_gradients(part)) unit(0, context_.pass_work().embedding_backward());
    buckets.finish();
    last_gradient_events_[key] = buckets.last_events();
    if (has_weight_gradients(part)) out.releases = activation_bytes(context_.model, context_.plan, stage);
  }

  // ---- Overlapped pairs --------------------------------------------------------------------------------------------

  using Parts = std::vector<std::vector<std::int32_t>>;  ///< [part][block of the host]

  /// The parts of a pass, composed if its key is new. `purpose`: of the events between them.
  template <class Write>
  const Parts& parts(const TemplateKey& key, const char* purpose, int chunk, bool at_exchanges, Write write) {
    const auto [found, added] = parts_[at_exchanges ? 1 : 0].try_emplace(key);
    if (!added) return found->second;
    for (std::vector<Template>& part :
         cut_template(context_.compose(key.kind, chunk, write), context_, purpose, chunk, at_exchanges)) {
      std::vector<std::int32_t>& blocks = found->second.emplace_back();
      for (Template& block : part) blocks.push_back(context_.add_template(std::move(block)));
    }
    return found->second;
  }

  const Parts& forward_parts(const Chunk& chunk, bool first, bool at_exchanges) {
    const TemplateKey key = forward_key(chunk, first);
    return parts(key, at_exchanges ? "forward exchange" : "forward block", chunk.index, at_exchanges,
                 [&](TemplateWriter& writer, Template& out) { write_forward(writer, out, chunk, key.variant == 1); });
  }

  const Parts& backward_parts(const Chunk& chunk, bool last) {
    const TemplateKey key = backward_key(chunk, BackwardPart::all, last);
    return parts(key, "backward exchange", chunk.index, true, [&](TemplateWriter& writer, Template& out) {
      write_backward(writer, out, chunk, BackwardPart::all, key);
    });
  }

  bool recomputes(const Stage& stage, int layer) const {
    const Training& training = context_.plan.training;
    if (training.recompute != Recompute::full) return false;
    const int limit = training.recompute_num_layers;
    return limit == 0 || layer < stage.first_layer + limit;
  }

  // ---- Programs ----------------------------------------------------------------------------------------------------

  void add_programs(const std::vector<RankKind>& kinds) {
    for (const RankKind& kind : kinds) {
      context_.select(kind);
      add_program(kind);
    }
  }

  void add_program(const RankKind& kind) {
    const std::vector<Action>& actions = context_.schedule.actions[static_cast<std::size_t>(kind.pp)];
    RankProgram program;
    program.first_batch = kind.first_batch;
    program.boundaries = first_forward_last_backward(actions, context_.schedule.chunks);
    for (int chunk = 0; chunk < context_.schedule.chunks; ++chunk)
      program.chunks.push_back(messages_.chunk(kinds_, chunk));
    program.repeated.resize(program.chunks.size());
    program.items.reserve(2 * actions.size() + 3);
    program.items.push_back({begin_template(program.chunks), 0});
    for (std::size_t at = 0; at < actions.size(); ++at) add_action(program, actions[at], at);
    if (!data_.updates_every_backward()) add_update(program, 0);
    context_.graph.programs.push_back(std::move(program.items));
    std::vector<std::int32_t>& first_layers = context_.graph.first_layers.emplace_back();
    for (const Chunk& chunk : program.chunks) first_layers.push_back(chunk.stage.first_layer);
  }

  /// `at`: position of the action in the schedule of the rank.
  void add_action(RankProgram& program, const Action& action, std::size_t at) {
    switch (action.kind) {
      case ActionKind::forward:
        return add_forward(program, action.chunk, action.microbatch, at);
      case ActionKind::backward:
        return add_backward(program, action.chunk, action.microbatch, at, BackwardPart::all);
      case ActionKind::backward_input:
        return add_backward(program, action.chunk, action.microbatch, at, BackwardPart::input_gradients);
      case ActionKind::backward_weight:
        return add_backward(program, action.chunk, action.microbatch, at, BackwardPart::weight_gradients);
      case ActionKind::forward_backward:
        if (interleaves_pairs(context_.plan.parallel)) return add_interleaved_pair(program, action, at);
        add_forward(program, action.chunk, action.microbatch, at);
        return add_backward(program, action.chunk2, action.microbatch2, at, BackwardPart::all);
    }
  }

  /// What is written from now on is for the bin of this micro-batch.
  void select_context(const RankProgram& program, int microbatch) {
    if (program.first_batch < 0) return;
    const PackedSteps& packed = *context_.plan.packed;
    context_.select_context(packed.ranks_of(packed.bin(step_, program.first_batch + microbatch)));
  }

  void add_forward(RankProgram& program, int index, int microbatch, std::size_t at) {
    const Chunk& chunk = program.chunk(index);
    select_context(program, microbatch);
    await_message(chunk, ChannelSide::receive_forward, chunk.receive_forward, microbatch, program.items);
    const bool first = program.boundary(index).first_forward == at;
    const std::vector<std::int32_t>* blocks = program.repeated[static_cast<std::size_t>(index)].forward;
    if (first || blocks == nullptr) {
      blocks = &forward_parts(chunk, first, false).front();
      if (!first && program.repeats()) program.repeated[static_cast<std::size_t>(index)].forward = blocks;
    }
    issue(program, *blocks, microbatch);
  }

  void add_backward(RankProgram& program, int index, int microbatch, std::size_t at, BackwardPart part) {
    const Chunk& chunk = program.chunk(index);
    select_context(program, microbatch);
    if (has_input_gradients(part))
      await_message(chunk, ChannelSide::receive_backward, chunk.receive_backward, microbatch, program.items);
    const bool last = data_.updates_every_backward() || program.boundary(index).last_backward == at;
    std::int32_t& repeated = program.repeated[static_cast<std::size_t>(index)].backward[static_cast<std::size_t>(part)];
    std::int32_t used = repeated;
    if (last || used < 0) used = backward_template(chunk, part, last);
    if (!last && program.repeats()) repeated = used;
    program.items.push_back({used, microbatch});
    if (data_.updates_every_backward() && has_weight_gradients(part)) add_update(program, microbatch);
  }

  /// The parts of both passes in turns.
  void add_interleaved_pair(RankProgram& program, const Action& action, std::size_t at) {
    select_context(program, action.microbatch);
    const Parts& forward =
        forward_parts(program.chunk(action.chunk), program.boundary(action.chunk).first_forward == at, true);
    select_context(program, action.microbatch2);
    const Parts& backward =
        backward_parts(program.chunk(action.chunk2), program.boundary(action.chunk2).last_backward == at);
    for (std::size_t i = 0; i < std::max(forward.size(), backward.size()); ++i) {
      if (i < forward.size()) issue(program, forward[i], action.microbatch);
      if (i < backward.size()) issue(program, backward[i], action.microbatch2);
    }
  }

  static void issue(RankProgram& program, const std::vector<std::int32_t>& blocks, int microbatch) {
    for (const std::int32_t block : blocks) program.items.push_back({block, microbatch});
  }

  /// Reductions before the update, and the update: at the end of the step, or after the backward of `microbatch`.
  void add_update(RankProgram& program, int microbatch) {
    const int pp = context_.kind().pp;
    const bool each = data_.updates_every_backward();
    std::vector<EventRef> reduced;
    std::vector<Chunk> unreduced;
    for (std::size_t c = 0; c < program.chunks.size() && data_.moves_gradients(); ++c) {
      if (!data_.reduces_during_backward(true)) {
        unreduced.push_back(program.chunks[c]);
        continue;
      }
      const ChunkBoundary& boundary = program.boundaries[c];
      select_context(program, each ? microbatch : boundary.last_microbatch);
      for (EventRef event : last_gradient_events_.at(backward_key(program.chunks[c], boundary.last_part, true)))
        reduced.push_back(each ? event : EventRef{event.base + event.stride * boundary.last_microbatch, 0});
    }
    context_.select_context(0);
    program.items.push_back({end_.reduce_template(pp, program.chunks, reduced, unreduced), microbatch});
    program.items.push_back({end_.optimizer_template(pp, program.chunks), microbatch});
  }

  const Perturbation& perturbation_;
  const int step_;
  BuildContext context_;
  RankKinds kinds_;
  PipelineMessages messages_;
  DataParallel data_;
  EndOfStep end_;
  std::array<std::unordered_map<TemplateKey, Parts, TemplateKeyHash>, 2> parts_;  ///< [at exchanges]
  std::map<TemplateKey, std::vector<EventRef>> last_gradient_events_;             ///< [key of a backward]
};

}  // namespace

StepGraph build_step_graph(const StepInputs& inputs, const BuildOptions& options) {
  const Plan& plan = inputs.plan;
  TRACECAST_ASSERT(inputs.schedule.ranks == plan.parallel.pp, "the schedule has the plan's pipeline ranks");
  TRACECAST_ASSERT(inputs.schedule.stages() == static_cast<int>(plan.stages.size()),
                   "the schedule has the plan's virtual stages");
  static const Perturbation kNothing;
  const Perturbation& perturbation = options.perturbation != nullptr ? *options.perturbation : kNothing;
  std::deque<Costs> costs;
  std::vector<const Costs*> other_costs;
  for (const Perturbation::OtherGpus& gpus : perturbation.gpus)
    other_costs.push_back(&costs.emplace_back(gpus.profile));
  return GraphBuilder(inputs, other_costs, perturbation, options.step).build(options.ranks);
}

}  // namespace tracecast
