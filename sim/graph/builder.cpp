#include "sim/graph/builder.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "sim/base/result.hpp"
#include "sim/graph/groups.hpp"
#include "sim/graph/layer.hpp"
#include "sim/graph/template_writer.hpp"
#include "sim/plan/memory.hpp"

namespace tracecast {
namespace {

/// Where a virtual stage sits: pipeline rank and chunk on it.
struct Seat {
  int rank = -1;
  int chunk = -1;
};

/// One chunk of one pipeline rank, with its neighbours.
struct Chunk {
  int index = 0;
  Stage stage;
  std::int32_t receive_forward = -1;  ///< messages; -1: the neighbour is on the same rank, or there is none
  std::int32_t send_forward = -1;
  std::int32_t receive_backward = -1;
  std::int32_t send_backward = -1;
};

/// Parameters of consecutive layers that are gathered or reduced together.
struct Bucket {
  int first_unit = 0;  ///< unit 0 is the embedding if there is one, then the layers, then the head
  std::int64_t dense = 0;
  std::int64_t expert = 0;
};

class GraphBuilder {
 public:
  GraphBuilder(const Model& model, const Plan& plan, const Schedule& schedule, const Cluster& cluster,
               const Costs& costs, const NetworkModel& network, const BuildOptions& options)
      : model_(model),
        plan_(plan),
        schedule_(schedule),
        cluster_(cluster),
        network_(network),
        unfold_(options.unfold),
        work_(model, plan),
        seats_(find_seats(schedule)),
        groups_(plan, seats_.front().front().rank, seats_.front().back().rank),
        table_(graph_, costs, network, slot_placements()),
        launch_(
            from_seconds(plan.training.cuda_graphs ? costs.profile().host.graph_launch : costs.profile().host.launch)),
        step_overhead_(from_seconds(costs.profile().host.step_overhead)) {}

  StepGraph build() {
    graph_.microbatches = schedule_.microbatches;
    graph_.rank_events = 4 * schedule_.chunks * schedule_.microbatches;
    add_streams();
    for (int pp = 0; pp < schedule_.ranks; ++pp) add_program(pp);
    unfold_ ? add_every_rank() : add_one_rank_per_stage();
    return std::move(graph_);
  }

 private:
  // ---- The pipeline's shape ----------------------------------------------------------------------------------------

  /// [replica][virtual stage]
  static std::vector<std::vector<Seat>> find_seats(const Schedule& schedule) {
    std::vector<std::vector<Seat>> seats(static_cast<std::size_t>(schedule.replicas),
                                         std::vector<Seat>(static_cast<std::size_t>(schedule.stages())));
    for (int rank = 0; rank < schedule.ranks; ++rank)
      for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
        const auto r = static_cast<std::size_t>(rank);
        const auto c = static_cast<std::size_t>(chunk);
        seats[static_cast<std::size_t>(schedule.replica_of[r][c])][static_cast<std::size_t>(schedule.stage_of[r][c])] =
            {rank, chunk};
      }
    return seats;
  }

  /// Chunks of which each stands on the rank after the one before it, around the ring: their messages between two ranks
  /// come in the same order on both, so they can share streams as they share a connection.
  bool looped() const {
    if (schedule_.replicas > 1) return false;
    for (const Seat& seat : seats_.front())
      if (schedule_.stage_of[static_cast<std::size_t>(seat.rank)][static_cast<std::size_t>(seat.chunk)] !=
          seat.chunk * schedule_.ranks + seat.rank)
        return false;
    return true;
  }

  StreamId pipeline_stream(int chunk, ChannelSide side) const {
    const int first = static_cast<int>(Lane::pipeline) + (looped() ? 0 : 4 * chunk);
    return static_cast<StreamId>(first + static_cast<int>(side));
  }

  void add_streams() {
    for (const char* name : {"compute", "tp", "cp", "ep", "dp gradients", "dp parameters", "global", "embedding"})
      graph_.streams.push_back({name});
    for (int chunk = 0; chunk < (looped() ? 1 : schedule_.chunks); ++chunk)
      for (const char* name : {"pp recv forward", "pp send forward", "pp recv backward", "pp send backward"})
        graph_.streams.push_back({looped() ? name : fmt::format("{} {}", name, chunk)});
  }

  // ---- Placement ---------------------------------------------------------------------------------------------------

  /// How many groups like this one have members in the node of its first member.
  GroupPlacement placement_of(const std::vector<int>& members) const {
    int here = 0;
    for (int member : members) here += cluster_.node_of(member) == cluster_.node_of(members.front()) ? 1 : 0;
    return place(cluster_, members, std::max(1, std::min(cluster_.node.gpus, cluster_.world_size) / std::max(1, here)));
  }

  std::vector<GroupPlacement> slot_placements() const {
    std::vector<GroupPlacement> placements;
    for (int slot = 0; slot < kSlots; ++slot) {
      Coordinates first{};
      if (static_cast<Slot>(slot) == Slot::embedding) first[Axis::pp] = seats_.front().front().rank;
      placements.push_back(placement_of(groups_.members(plan_.grid.rank(first), static_cast<Slot>(slot))));
    }
    return placements;
  }

  /// A boundary between two pipeline ranks, seen from the first ranks of both; every rank of the node that has its
  /// partner in another node uses the node's NICs at the same time.
  GroupPlacement boundary_placement(int from_pp, int to_pp) const {
    Coordinates at{};
    at[Axis::pp] = from_pp;
    const int from = plan_.grid.rank(at);
    at[Axis::pp] = to_pp;
    const int to = plan_.grid.rank(at);
    int crossing = 0;
    const int first = cluster_.node_of(from) * cluster_.node.gpus;
    for (int rank = first; rank < std::min(first + cluster_.node.gpus, plan_.world_size); ++rank) {
      const int partner = rank + (to - from);
      crossing +=
          partner >= 0 && partner < plan_.world_size && cluster_.node_of(partner) != cluster_.node_of(rank) ? 1 : 0;
    }
    const std::vector<int> pair{std::min(from, to), std::max(from, to)};
    return place(cluster_, pair, std::max(1, crossing));
  }

  // ---- Messages ----------------------------------------------------------------------------------------------------

  /// Activations of one micro-batch at a stage boundary: [b, s/C, h], divided over the tensor ranks when they hold
  /// different parts of the sequence.
  Bytes boundary_bytes() const {
    const bool divided = plan_.parallel.sequence_parallel || plan_.parallel.scatter_gather_p2p;
    return divided ? boundary_tensor() / plan_.parallel.tp : boundary_tensor();
  }
  Bytes boundary_tensor() const { return Bytes{plan_.tokens() * model_.hidden_size * 2}; }

  std::int32_t message(int chunk, ChannelSide side, int from_pp, int to_pp) {
    const GroupPlacement placement = boundary_placement(from_pp, to_pp);
    Message candidate{channel(chunk, side), boundary_bytes(), false, {}};
    candidate.cost =
        network_.cost({Collective::send_recv, candidate.size, Algorithm::automatic, Protocol::automatic}, placement);
    for (std::size_t i = 0; i < graph_.messages.size(); ++i) {
      const Message& known = graph_.messages[i];
      if (known.channel == candidate.channel && known.size == candidate.size &&
          known.cost.duration == candidate.cost.duration)
        return static_cast<std::int32_t>(i);
    }
    graph_.messages.push_back(candidate);
    return static_cast<std::int32_t>(graph_.messages.size()) - 1;
  }

  Seat neighbour(int pp, int chunk, int step) const {
    const auto r = static_cast<std::size_t>(pp);
    const auto c = static_cast<std::size_t>(chunk);
    const std::vector<Seat>& stages = seats_[static_cast<std::size_t>(schedule_.replica_of[r][c])];
    const int at = schedule_.stage_of[r][c] + step;
    if (at < 0 || at >= static_cast<int>(stages.size())) return {};
    return stages[static_cast<std::size_t>(at)];
  }

  Chunk chunk_of(int pp, int index) {
    Chunk chunk;
    chunk.index = index;
    chunk.stage = plan_.stages[static_cast<std::size_t>(
        schedule_.stage_of[static_cast<std::size_t>(pp)][static_cast<std::size_t>(index)])];
    const Seat before = neighbour(pp, index, -1);
    const Seat after = neighbour(pp, index, +1);
    if (before.rank >= 0 && before.rank != pp) {
      chunk.receive_forward = message(index, ChannelSide::receive_forward, before.rank, pp);
      chunk.send_backward = message(index, ChannelSide::send_backward, pp, before.rank);
    }
    if (after.rank >= 0 && after.rank != pp) {
      chunk.send_forward = message(index, ChannelSide::send_forward, pp, after.rank);
      chunk.receive_backward = message(index, ChannelSide::receive_backward, after.rank, pp);
    }
    return chunk;
  }

  // ---- Events ------------------------------------------------------------------------------------------------------

  /// Rank events of a chunk's four pipeline ends, one per micro-batch.
  EventRef pipeline_event(int chunk, ChannelSide side) const {
    return {channel(chunk, side) * schedule_.microbatches, 1};
  }

  /// Rank event number `index` of purpose `purpose` of a chunk: the same for every stage that has a chunk of this number.
  EventRef rank_event(const char* purpose, int chunk, int index, bool per_microbatch) {
    const auto [found, added] = named_events_.try_emplace({purpose, chunk, index}, graph_.rank_events);
    if (added) graph_.rank_events += per_microbatch ? schedule_.microbatches : 1;
    return {found->second, per_microbatch ? 1 : 0};
  }

  // ---- Parameters in units and buckets -----------------------------------------------------------------------------

  int units(const Stage& stage) const { return (stage.embedding ? 1 : 0) + stage.num_layers + (stage.head ? 1 : 0); }
  int layer_unit(const Stage& stage, int layer) const { return (stage.embedding ? 1 : 0) + layer - stage.first_layer; }
  int head_unit(const Stage& stage) const { return units(stage) - 1; }

  Bucket unit_parameters(const Stage& stage, int unit) const {
    if (stage.embedding && unit == 0) return {unit, work_.embedding_parameters(), 0};
    if (stage.head && unit == head_unit(stage)) return {unit, work_.head_parameters(), 0};
    const int layer = stage.first_layer + unit - (stage.embedding ? 1 : 0);
    const std::int64_t expert = expert_parameters(layer);
    return {unit, work_.layer_parameters(layer) - expert, expert};
  }

  std::int64_t expert_parameters(int layer) const {
    std::int64_t sum = 0;
    if (!model_.is_moe_layer(layer)) return sum;
    for (const Work& work : work_.backward(layer, BackwardPart::weight_gradients, false))
      if (work.kind == Work::Kind::gradients && work.expert_parameters) sum += work.parameters;
    return sum;
  }

  std::int64_t bucket_size() const {
    if (plan_.parallel.ddp_bucket_size > 0) return plan_.parallel.ddp_bucket_size;
    // Megatron-LM's default (DOMAIN.md 2.2).
    return std::max<std::int64_t>(40'000'000, 1'000'000LL * plan_.parallel.dp);
  }

  /// Whole units in forward order, closed as soon as a bucket is full.
  std::vector<Bucket> parameter_buckets(const Stage& stage) const {
    std::vector<Bucket> buckets;
    bool open = false;
    for (int unit = 0; unit < units(stage); ++unit) {
      const Bucket own = unit_parameters(stage, unit);
      if (!open) buckets.push_back({unit, 0, 0});
      buckets.back().dense += own.dense;
      buckets.back().expert += own.expert;
      open = buckets.back().dense + buckets.back().expert < bucket_size();
    }
    return buckets;
  }

  bool sharded(int stage) const { return plan_.parallel.zero_stage >= stage; }
  bool data_parallel() const { return plan_.gradient_group() > 1; }
  bool gathers_during_forward() const {
    return data_parallel() && sharded(1) && !sharded(3) && plan_.parallel.overlap_param_gather;
  }
  /// FSDP and ZeRO-3 reduce after every micro-batch; ZeRO-2 too, unless a pipeline makes that ruinous (DOMAIN.md 3.1).
  bool reduces_every_microbatch() const { return sharded(3) || (sharded(2) && plan_.parallel.pp == 1); }
  /// Two copies of the model in one pipeline: their gradients are added up before anything else is done with them.
  bool mirrored() const { return schedule_.replicas > 1; }
  bool reduces_during_backward(bool last) const {
    return data_parallel() && !mirrored() &&
           (reduces_every_microbatch() || (last && plan_.parallel.overlap_grad_reduce));
  }

  std::int64_t gradient_bytes() const { return element_size(plan_.training.grad_reduce_dtype); }
  std::int64_t parameter_bytes() const { return plan_.training.dtype == Precision::fp32 ? 4 : 2; }

  // ---- Templates ---------------------------------------------------------------------------------------------------

  /// What makes two templates of one kind equal.
  std::string signature(const char* kind, const Chunk& chunk, bool special) const {
    std::string layers;
    for (int layer = chunk.stage.first_layer; layer < chunk.stage.first_layer + chunk.stage.num_layers; ++layer)
      layers += model_.is_moe_layer(layer) ? 'm' : 'd';
    return fmt::format("{} {} {} {}{}{} {} {} {} {}", kind, chunk.index, layers, chunk.stage.embedding,
                       chunk.stage.head, special, chunk.receive_forward, chunk.send_forward, chunk.receive_backward,
                       chunk.send_backward);
  }

  /// The template with this signature, written by `write` when it is new.
  template <class Write>
  std::int32_t find_template(const std::string& key, std::string name, Phase phase, int chunk, Write write) {
    const auto [found, added] = template_index_.try_emplace(key, static_cast<std::int32_t>(template_index_.size()));
    if (!added) return found->second;
    Template result;
    result.name = std::move(name);
    result.phase = phase;
    result.chunk = static_cast<std::int16_t>(chunk);
    TemplateWriter writer(graph_, table_, result, launch_, plan_.parallel.tp_comm_overlap);
    write(writer, result);
    writer.finish();
    graph_.templates.push_back(std::move(result));
    return found->second;
  }

  void receive(TemplateWriter& writer, int chunk, ChannelSide side, std::int32_t message_index) {
    if (message_index < 0) return;
    const EventRef arrived = pipeline_event(chunk, side);
    writer.transfer(OpType::receive, pipeline_stream(chunk, side), message_index, {}, arrived);
    writer.wait(arrived);
    if (plan_.parallel.sequence_parallel || !plan_.parallel.scatter_gather_p2p || plan_.parallel.tp == 1) return;
    const CollectiveCall gather{Collective::all_gather, boundary_tensor(), Algorithm::automatic, Protocol::automatic};
    writer.wait(writer.collective(Lane::tensor, Traffic::tensor_parallel, Slot::tensor, gather, {writer.mark()}));
  }

  void send(TemplateWriter& writer, int chunk, ChannelSide side, std::int32_t message_index) {
    if (message_index < 0) return;
    const EventRef computed = pipeline_event(chunk, side);
    writer.mark_as(computed);
    const bool blocking = !plan_.parallel.overlap_p2p;
    const EventRef sent = blocking ? writer.new_local_event() : EventRef{};
    writer.transfer(OpType::send, pipeline_stream(chunk, side), message_index, {computed}, sent);
    if (blocking) writer.wait(sent);
  }

  /// ZeRO-3: parameters of the units of one chunk are gathered one ahead of their use, and at most two at a time.
  class Prefetch {
   public:
    Prefetch(GraphBuilder& builder, TemplateWriter& writer, const Stage& stage, bool backward)
        : builder_(builder), writer_(writer), stage_(stage), backward_(backward) {
      if (!active()) return;
      gather(0, {});
      if (builder_.units(stage_) > 1) gather(1, {writer_.mark()});
    }
    /// Before the compute of the `position`-th unit in order of use.
    void before(int position) {
      if (!active()) return;
      for (EventRef event : gathered_[static_cast<std::size_t>(position)]) writer_.wait(event);
    }
    void after(int position) {
      if (active() && position + 2 < builder_.units(stage_)) gather(position + 2, {writer_.mark()});
    }

   private:
    bool active() const {
      return builder_.data_parallel() && builder_.sharded(3) &&
             (!backward_ || builder_.plan_.parallel.reshard_after_forward);
    }
    void gather(int position, const std::vector<EventRef>& after) {
      const int unit = backward_ ? builder_.units(stage_) - 1 - position : position;
      gathered_.push_back(builder_.gather_parameters(writer_, builder_.unit_parameters(stage_, unit), after, {}, {}));
    }

    GraphBuilder& builder_;
    TemplateWriter& writer_;
    const Stage& stage_;
    const bool backward_;
    std::vector<std::vector<EventRef>> gathered_;
  };

  /// All-gathers of one bucket, dense and expert parameters apart; the events of those that have a group.
  std::vector<EventRef> gather_parameters(TemplateWriter& writer, const Bucket& bucket,
                                          const std::vector<EventRef>& after, EventRef dense_event,
                                          EventRef expert_event) {
    std::vector<EventRef> events;
    const auto issue = [&](Slot slot, std::int64_t parameters, EventRef event) {
      if (parameters == 0 || table_.placement(slot).ranks <= 1) return;
      const CollectiveCall call{Collective::all_gather, Bytes{parameters * parameter_bytes()}, Algorithm::automatic,
                                Protocol::automatic};
      events.push_back(writer.collective(Lane::parameters, Traffic::parameters, slot, call, after, event));
    };
    issue(Slot::parameters, bucket.dense, dense_event);
    issue(Slot::expert_parameters, bucket.expert, expert_event);
    return events;
  }

  std::int32_t forward_template(const Chunk& chunk, bool first) {
    const bool waits_for_parameters = first && gathers_during_forward();
    return find_template(signature("F", chunk, waits_for_parameters), fmt::format("forward chunk {}", chunk.index),
                         Phase::forward, chunk.index, [&](TemplateWriter& writer, Template& out) {
                           write_forward(writer, out, chunk, waits_for_parameters);
                         });
  }

  void write_forward(TemplateWriter& writer, Template& out, const Chunk& chunk, bool waits_for_parameters) {
    const Stage& stage = chunk.stage;
    receive(writer, chunk.index, ChannelSide::receive_forward, chunk.receive_forward);
    Prefetch prefetch(*this, writer, stage, false);
    const auto unit = [&](int index, const WorkList& list) {
      if (waits_for_parameters) wait_for_bucket(writer, chunk, index);
      prefetch.before(index);
      writer.write(list);
      prefetch.after(index);
    };
    if (stage.embedding) unit(0, work_.embedding_forward());
    for (int layer = stage.first_layer; layer < stage.first_layer + stage.num_layers; ++layer)
      unit(layer_unit(stage, layer), work_.forward(layer));
    if (stage.head) unit(head_unit(stage), work_.head_forward());
    send(writer, chunk.index, ChannelSide::send_forward, chunk.send_forward);
    out.allocates = activation_bytes(model_, plan_, stage);
  }

  /// The gathers that the step begins with, as far as this unit is the first of its bucket.
  void wait_for_bucket(TemplateWriter& writer, const Chunk& chunk, int unit) {
    const std::vector<Bucket> buckets = parameter_buckets(chunk.stage);
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      if (buckets[i].first_unit != unit) continue;
      if (buckets[i].dense > 0 && table_.placement(Slot::parameters).ranks > 1)
        writer.wait(rank_event("parameters", chunk.index, static_cast<int>(i), false));
      if (buckets[i].expert > 0 && table_.placement(Slot::expert_parameters).ranks > 1)
        writer.wait(rank_event("expert parameters", chunk.index, static_cast<int>(i), false));
    }
  }

  /// Gradients of one chunk on their way into buckets, inside one backward template.
  class Buckets {
   public:
    Buckets(GraphBuilder& builder, TemplateWriter& writer, int chunk, bool active)
        : builder_(builder), writer_(writer), chunk_(chunk), active_(active) {}

    void add(const Work& work) {
      if (!active_) return;
      std::int64_t& waiting = work.expert_parameters ? expert_ : dense_;
      waiting += work.parameters;
      if (waiting >= builder_.bucket_size()) flush(work.expert_parameters);
    }
    /// FSDP reduces unit by unit.
    void unit_done() {
      if (builder_.sharded(3)) flush_all();
    }
    void flush_all() {
      if (!active_) return;
      flush(false);
      flush(true);
    }
    const std::vector<EventRef>& last_events() const { return last_; }

   private:
    void flush(bool expert) {
      const std::int64_t parameters = std::exchange(expert ? expert_ : dense_, 0);
      if (parameters == 0) return;
      const bool each = builder_.reduces_every_microbatch();
      const EventRef ready = builder_.rank_event("gradients ready", chunk_, count_, each);
      const EventRef reduced = builder_.rank_event("gradients reduced", chunk_, count_, each);
      if (builder_.reduce_gradients(writer_, parameters, expert, ready, reduced)) last_ = {reduced};
      ++count_;
    }

    GraphBuilder& builder_;
    TemplateWriter& writer_;
    const int chunk_;
    const bool active_;
    int count_ = 0;
    std::int64_t dense_ = 0;
    std::int64_t expert_ = 0;
    std::vector<EventRef> last_;
  };

  /// Reduction of one bucket: all-reduce, or reduce-scatter when gradients or optimizer states are sharded; with hybrid
  /// sharding also an all-reduce of the shard over the replicas. Whether there was anybody to reduce with.
  bool reduce_gradients(TemplateWriter& writer, std::int64_t parameters, bool expert, EventRef ready,
                        EventRef reduced) {
    const Slot slot = expert ? Slot::expert_gradients : Slot::gradients;
    const bool group = table_.placement(slot).ranks > 1;
    const bool replicas = !expert && table_.placement(Slot::replicas).ranks > 1;
    if (!group && !replicas) return false;
    writer.mark_as(ready);
    const Bytes size{parameters * gradient_bytes()};
    if (group) {
      const Collective what = sharded(1) ? Collective::reduce_scatter : Collective::all_reduce;
      writer.collective(Lane::gradients, Traffic::gradients, slot,
                        {what, size, Algorithm::automatic, Protocol::automatic}, {ready},
                        replicas ? EventRef{} : reduced);
    }
    if (replicas) {
      const Bytes shard = size / table_.placement(slot).ranks;
      writer.collective(Lane::gradients, Traffic::gradients, Slot::replicas,
                        {Collective::all_reduce, shard, Algorithm::automatic, Protocol::automatic}, {ready}, reduced);
    }
    return true;
  }

  std::int32_t backward_template(const Chunk& chunk, BackwardPart part, bool last) {
    const bool reduces = part != BackwardPart::input_gradients && reduces_during_backward(last);
    const char* kind = part == BackwardPart::all ? "B" : part == BackwardPart::input_gradients ? "I" : "W";
    const char* name = part == BackwardPart::all               ? "backward"
                       : part == BackwardPart::input_gradients ? "input gradient"
                                                               : "weight gradient";
    const Phase phase = part == BackwardPart::weight_gradients ? Phase::weight_gradient : Phase::backward;
    const std::string key = signature(kind, chunk, reduces);
    const std::int32_t index = find_template(
        key, fmt::format("{} chunk {}", name, chunk.index), phase, chunk.index,
        [&](TemplateWriter& writer, Template& out) { write_backward(writer, out, chunk, part, reduces, key); });
    return index;
  }

  void write_backward(TemplateWriter& writer, Template& out, const Chunk& chunk, BackwardPart part, bool reduces,
                      const std::string& key) {
    const Stage& stage = chunk.stage;
    const bool inputs = part != BackwardPart::weight_gradients;
    if (inputs) receive(writer, chunk.index, ChannelSide::receive_backward, chunk.receive_backward);
    Prefetch prefetch(*this, writer, stage, true);
    Buckets buckets(*this, writer, chunk.index, reduces);
    const auto unit = [&](int index, const WorkList& list) {
      const int position = units(stage) - 1 - index;
      prefetch.before(position);
      writer.write(list, [&](const Work& work) { buckets.add(work); });
      buckets.unit_done();
      prefetch.after(position);
    };
    if (stage.head) unit(head_unit(stage), work_.head_backward(part));
    for (int layer = stage.first_layer + stage.num_layers; layer-- > stage.first_layer;)
      unit(layer_unit(stage, layer), work_.backward(layer, part, recomputes(stage, layer)));
    if (inputs) send(writer, chunk.index, ChannelSide::send_backward, chunk.send_backward);
    if (stage.embedding && part != BackwardPart::input_gradients) unit(0, work_.embedding_backward());
    buckets.flush_all();
    last_gradient_events_[key] = buckets.last_events();
    if (part != BackwardPart::input_gradients) out.releases = activation_bytes(model_, plan_, stage);
  }

  bool recomputes(const Stage& stage, int layer) const {
    if (plan_.training.recompute != Recompute::full) return false;
    const int limit = plan_.training.recompute_num_layers;
    return limit == 0 || layer < stage.first_layer + limit;
  }

  // ---- The beginning and the end of a step -------------------------------------------------------------------------

  std::int32_t begin_template(const std::vector<Chunk>& chunks) {
    std::string key = "begin";
    for (const Chunk& chunk : chunks) key += " | " + signature("P", chunk, false);
    return find_template(key, "begin", Phase::forward, 0, [&](TemplateWriter& writer, Template& out) {
      Op host;
      host.host = step_overhead_;
      out.ops.push_back(host);
      if (!gathers_during_forward()) return;
      for (const Chunk& chunk : chunks) {
        const std::vector<Bucket> buckets = parameter_buckets(chunk.stage);
        for (std::size_t i = 0; i < buckets.size(); ++i)
          gather_parameters(writer, buckets[i], {}, rank_event("parameters", chunk.index, static_cast<int>(i), false),
                            rank_event("expert parameters", chunk.index, static_cast<int>(i), false));
      }
    });
  }

  /// Parameters of a pipeline rank, dense and of experts.
  Bucket parameters_of(const std::vector<Chunk>& chunks) const {
    Bucket sum;
    for (const Chunk& chunk : chunks)
      for (int unit = 0; unit < units(chunk.stage); ++unit) {
        const Bucket own = unit_parameters(chunk.stage, unit);
        sum.dense += own.dense;
        sum.expert += own.expert;
      }
    return sum;
  }

  /// Parameters whose optimizer states this rank holds.
  std::int64_t own_parameters(const Bucket& all) const {
    if (!sharded(1)) return all.dense + all.expert;
    const int dense = table_.placement(Slot::gradients).ranks;
    const int expert = table_.placement(Slot::expert_gradients).ranks;
    return (all.dense + dense - 1) / dense + (all.expert + expert - 1) / expert;
  }

  Operator optimizer_work(std::string name, std::int64_t parameters, std::int64_t bytes) const {
    return {OperatorKind::optimizer, Pass::optimizer, Precision::fp32, std::move(name),
            ElementwiseShape{parameters, Bytes{parameters * bytes}}};
  }

  /// Bytes that the update reads and writes for each parameter (DOMAIN.md 1.3).
  std::int64_t update_bytes() const {
    const std::int64_t copy = plan_.training.dtype == Precision::fp32 || !plan_.training.master_weights ? 0 : 2;
    switch (plan_.training.optimizer) {
      case OptimizerKind::adam:
        return 28 + copy;
      case OptimizerKind::momentum:
        return 20 + copy;
      case OptimizerKind::sgd:
        return 12 + copy;
    }
    return 0;
  }

  /// Everything between the last backward and the moment when the host knows the gradient norm.
  std::int32_t reduce_template(int pp, const std::vector<Chunk>& chunks, const std::vector<EventRef>& reduced,
                               const std::vector<Chunk>& unreduced) {
    return find_template(
        fmt::format("reduce {}", pp), "gradient norm", Phase::optimizer, 0, [&](TemplateWriter& writer, Template&) {
          if (mirrored()) {
            const Bucket all = parameters_of(chunks);
            const CollectiveCall call{Collective::all_reduce, Bytes{(all.dense + all.expert) * gradient_bytes()},
                                      Algorithm::automatic, Protocol::automatic};
            writer.wait(writer.collective(Lane::embedding, Traffic::gradients, Slot::mirror, call, {writer.mark()}));
          }
          for (std::size_t i = 0; i < unreduced.size(); ++i) {
            const Bucket all = parameters_of({unreduced[i]});
            const int chunk = unreduced[i].index;
            const auto reduce = [&](std::int64_t parameters, bool expert) {
              const EventRef done = rank_event("gradients reduced", chunk, expert ? -2 : -1, false);
              if (parameters > 0 &&
                  reduce_gradients(writer, parameters, expert,
                                   rank_event("gradients ready", chunk, expert ? -2 : -1, false), done))
                writer.wait(done);
            };
            reduce(all.dense, false);
            reduce(all.expert, true);
          }
          for (EventRef event : reduced) writer.wait(event);
          reduce_embedding(writer, chunks);
          reduce_norm_gradients(writer, chunks);
          const std::int64_t own = own_parameters(parameters_of(chunks));
          if (plan_.training.dtype == Precision::fp16)
            writer.compute(optimizer_work("unscale", own, 2 * gradient_bytes()));
          writer.compute(optimizer_work("grad_norm", own, gradient_bytes()));
          if (plan_.world_size > 1) {
            const CollectiveCall call{Collective::all_reduce, Bytes{8}, Algorithm::automatic, Protocol::automatic};
            writer.wait(writer.collective(Lane::global, Traffic::control, Slot::world, call, {writer.mark()}));
          }
          writer.host_sync(writer.mark());
        });
  }

  /// Tied embeddings on two stages: their gradients are added up.
  void reduce_embedding(TemplateWriter& writer, const std::vector<Chunk>& chunks) {
    if (!model_.tied_embeddings || table_.placement(Slot::embedding).ranks <= 1) return;
    const bool holds = std::any_of(chunks.begin(), chunks.end(),
                                   [](const Chunk& chunk) { return chunk.stage.embedding || chunk.stage.head; });
    if (!holds) return;
    const CollectiveCall call{Collective::all_reduce, Bytes{work_.embedding_parameters() * gradient_bytes()},
                              Algorithm::automatic, Protocol::automatic};
    writer.wait(writer.collective(Lane::embedding, Traffic::embedding, Slot::embedding, call, {writer.mark()}));
  }

  /// With sequence parallelism every tensor rank has seen other tokens: norm gradients are added up, all in one call.
  void reduce_norm_gradients(TemplateWriter& writer, const std::vector<Chunk>& chunks) {
    if (!plan_.parallel.sequence_parallel || plan_.parallel.tp == 1) return;
    std::int64_t layers = 0;
    for (const Chunk& chunk : chunks) layers += chunk.stage.num_layers;
    const std::int64_t per_layer = model_.hidden_size * (model_.norm_bias ? 4 : 2);
    const CollectiveCall call{Collective::all_reduce, Bytes{layers * per_layer * gradient_bytes()},
                              Algorithm::automatic, Protocol::automatic};
    if (layers > 0)
      writer.wait(writer.collective(Lane::tensor, Traffic::tensor_parallel, Slot::tensor, call, {writer.mark()}));
  }

  std::int32_t optimizer_template(int pp, const std::vector<Chunk>& chunks) {
    return find_template(fmt::format("optimizer {}", pp), "optimizer", Phase::optimizer, 0,
                         [&](TemplateWriter& writer, Template&) {
                           const Bucket all = parameters_of(chunks);
                           writer.compute(optimizer_work("update", own_parameters(all), update_bytes()));
                           const std::int64_t held = sharded(2) ? own_parameters(all) : all.dense + all.expert;
                           writer.compute(optimizer_work("zero_grad", held, gradient_bytes()));
                           if (!data_parallel() || !sharded(1) || sharded(3) || plan_.parallel.overlap_param_gather)
                             return;
                           for (EventRef event : gather_parameters(writer, all, {writer.mark()}, {}, {}))
                             writer.wait(event);
                         });
  }

  // ---- Programs ----------------------------------------------------------------------------------------------------

  /// First forward and last weight-gradient work of every chunk in a rank's order.
  struct Turning {
    std::size_t first_forward = 0;
    std::size_t last_backward = 0;
    std::int32_t last_microbatch = 0;
    BackwardPart last_part = BackwardPart::all;
  };

  std::vector<Turning> turning_points(const std::vector<Action>& actions) const {
    std::vector<Turning> points(static_cast<std::size_t>(schedule_.chunks));
    for (std::size_t i = actions.size(); i-- > 0;)
      if (actions[i].kind == ActionKind::forward || actions[i].kind == ActionKind::forward_backward)
        points[static_cast<std::size_t>(actions[i].chunk)].first_forward = i;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const Action& action = actions[i];
      if (action.kind == ActionKind::forward || action.kind == ActionKind::backward_input) continue;
      const bool pair = action.kind == ActionKind::forward_backward;
      Turning& point = points[static_cast<std::size_t>(pair ? action.chunk2 : action.chunk)];
      point.last_backward = i;
      point.last_microbatch = pair ? action.microbatch2 : action.microbatch;
      point.last_part = action.kind == ActionKind::backward_weight ? BackwardPart::weight_gradients : BackwardPart::all;
    }
    return points;
  }

  void add_program(int pp) {
    std::vector<Chunk> chunks;
    for (int chunk = 0; chunk < schedule_.chunks; ++chunk) chunks.push_back(chunk_of(pp, chunk));
    const std::vector<Action>& actions = schedule_.actions[static_cast<std::size_t>(pp)];
    const std::vector<Turning> points = turning_points(actions);
    std::vector<ProgramItem> program{{begin_template(chunks), 0}};
    const auto forward = [&](int chunk, int microbatch, std::size_t at) {
      const auto c = static_cast<std::size_t>(chunk);
      program.push_back({forward_template(chunks[c], points[c].first_forward == at), microbatch});
    };
    const auto backward = [&](int chunk, int microbatch, std::size_t at, BackwardPart part) {
      const auto c = static_cast<std::size_t>(chunk);
      program.push_back({backward_template(chunks[c], part, points[c].last_backward == at), microbatch});
    };
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const Action& action = actions[i];
      switch (action.kind) {
        case ActionKind::forward:
          forward(action.chunk, action.microbatch, i);
          break;
        case ActionKind::backward:
          backward(action.chunk, action.microbatch, i, BackwardPart::all);
          break;
        case ActionKind::backward_input:
          backward(action.chunk, action.microbatch, i, BackwardPart::input_gradients);
          break;
        case ActionKind::backward_weight:
          backward(action.chunk, action.microbatch, i, BackwardPart::weight_gradients);
          break;
        case ActionKind::forward_backward:
          forward(action.chunk, action.microbatch, i);
          backward(action.chunk2, action.microbatch2, i, BackwardPart::all);
          break;
      }
    }
    add_end_of_step(pp, chunks, points, program);
    graph_.programs.push_back(std::move(program));
  }

  void add_end_of_step(int pp, const std::vector<Chunk>& chunks, const std::vector<Turning>& points,
                       std::vector<ProgramItem>& program) {
    std::vector<EventRef> reduced;
    std::vector<Chunk> unreduced;
    for (std::size_t c = 0; c < chunks.size() && data_parallel(); ++c) {
      if (!reduces_during_backward(true)) {
        unreduced.push_back(chunks[c]);
        continue;
      }
      const char* kind = points[c].last_part == BackwardPart::all ? "B" : "W";
      for (EventRef event : last_gradient_events_.at(signature(kind, chunks[c], true)))
        reduced.push_back({event.base + event.stride * points[c].last_microbatch, 0});
    }
    program.push_back({reduce_template(pp, chunks, reduced, unreduced), 0});
    program.push_back({optimizer_template(pp, chunks), 0});
  }

  // ---- Ranks and communicators -------------------------------------------------------------------------------------

  void connect(Rank& rank, int pp, auto rank_index) {
    rank.pp_rank = pp;
    rank.program = pp;
    rank.channels.resize(static_cast<std::size_t>(4 * schedule_.chunks));
    for (int chunk = 0; chunk < schedule_.chunks; ++chunk) {
      const Seat before = neighbour(pp, chunk, -1);
      const Seat after = neighbour(pp, chunk, +1);
      const auto join = [&](ChannelSide own, Seat other, ChannelSide theirs) {
        if (other.rank >= 0 && other.rank != pp)
          rank.channels[static_cast<std::size_t>(channel(chunk, own))] = {rank_index(other.rank),
                                                                          channel(other.chunk, theirs)};
      };
      join(ChannelSide::receive_forward, before, ChannelSide::send_forward);
      join(ChannelSide::send_backward, before, ChannelSide::receive_backward);
      join(ChannelSide::send_forward, after, ChannelSide::receive_forward);
      join(ChannelSide::receive_backward, after, ChannelSide::send_backward);
    }
  }

  static const char* slot_name(Slot slot) {
    constexpr const char* kNames[kSlots] = {"tp",        "cp",       "ep",    "dp",        "expert dp", "dp",
                                            "expert dp", "replicas", "world", "embedding", "mirror"};
    return kNames[static_cast<std::size_t>(slot)];
  }

  std::int32_t add_communicator(Slot slot, int pp, std::vector<std::int32_t> members) {
    Communicator communicator;
    communicator.name = slot == Slot::world || slot == Slot::embedding
                            ? slot_name(slot)
                            : fmt::format("{} of stage {}", slot_name(slot), pp);
    communicator.placement = table_.placement(slot);
    communicator.members = std::move(members);
    graph_.communicators.push_back(std::move(communicator));
    return static_cast<std::int32_t>(graph_.communicators.size()) - 1;
  }

  void add_one_rank_per_stage() {
    const int first = seats_.front().front().rank;
    const int last = seats_.front().back().rank;
    std::vector<std::int32_t> everyone;
    for (int pp = 0; pp < schedule_.ranks; ++pp) everyone.push_back(pp);
    const std::int32_t world = add_communicator(Slot::world, 0, everyone);
    std::vector<std::int32_t> ends{first, last};
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    const std::int32_t embedding = add_communicator(Slot::embedding, 0, ends);
    std::vector<std::int32_t> mirrors;
    for (int pp = 0; pp < schedule_.ranks; ++pp) {
      const int other = schedule_.ranks - 1 - pp;
      mirrors.push_back(other < pp ? mirrors[static_cast<std::size_t>(other)]
                                   : add_communicator(Slot::mirror, pp,
                                                      other == pp ? std::vector<std::int32_t>{pp}
                                                                  : std::vector<std::int32_t>{pp, other}));
    }
    const auto communicator = [&](Slot slot, int pp) {
      switch (slot) {
        case Slot::world:
          return world;
        case Slot::embedding:
          return embedding;
        case Slot::mirror:
          return mirrors[static_cast<std::size_t>(pp)];
        default:
          return add_communicator(slot, pp, {pp});
      }
    };
    for (int pp = 0; pp < schedule_.ranks; ++pp) {
      Rank rank;
      Coordinates at{};
      at[Axis::pp] = pp;
      rank.representative = plan_.grid.rank(at);
      rank.multiplicity = plan_.world_size / schedule_.ranks;
      connect(rank, pp, [](int other) { return other; });
      for (int slot = 0; slot < kSlots; ++slot) rank.communicators.push_back(communicator(static_cast<Slot>(slot), pp));
      graph_.ranks.push_back(std::move(rank));
    }
  }

  void add_every_rank() {
    std::map<std::pair<int, int>, std::int32_t> known;  // (slot, first member) -> communicator
    const std::int32_t world = add_communicator(Slot::world, 0, groups_.members(0, Slot::world));
    for (int index = 0; index < plan_.world_size; ++index) {
      Rank rank;
      const Coordinates at = plan_.grid.coordinates(index);
      const int pp = at[Axis::pp];
      rank.representative = index;
      connect(rank, pp, [&](int other) {
        Coordinates there = at;
        there[Axis::pp] = other;
        return plan_.grid.rank(there);
      });
      for (int slot = 0; slot < kSlots; ++slot) {
        const Slot which = static_cast<Slot>(slot);
        if (which == Slot::world) {
          rank.communicators.push_back(world);
          continue;
        }
        std::vector<int> members = groups_.members(index, which);
        const auto [found, added] = known.try_emplace({slot, members.front()}, -1);
        if (added) found->second = add_communicator(which, pp, std::move(members));
        rank.communicators.push_back(found->second);
      }
      graph_.ranks.push_back(std::move(rank));
    }
  }

  const Model& model_;
  const Plan& plan_;
  const Schedule& schedule_;
  const Cluster& cluster_;
  const NetworkModel& network_;
  const bool unfold_;
  const LayerWork work_;
  const std::vector<std::vector<Seat>> seats_;
  const Groups groups_;
  StepGraph graph_;
  CostTable table_;
  const Duration launch_;
  const Duration step_overhead_;
  std::map<std::string, std::int32_t> template_index_;
  std::map<std::tuple<std::string, int, int>, std::int32_t> named_events_;
  std::map<std::string, std::vector<EventRef>> last_gradient_events_;  ///< [signature of a backward template]
};

}  // namespace

StepGraph build_step_graph(const Model& model, const Plan& plan, const Schedule& schedule, const Cluster& cluster,
                           const Costs& costs, const NetworkModel& network, const BuildOptions& options) {
  TRACECAST_ASSERT(schedule.ranks == plan.parallel.pp, "the schedule has the plan's pipeline ranks");
  TRACECAST_ASSERT(schedule.stages() == static_cast<int>(plan.stages.size()),
                   "the schedule has the plan's virtual stages");
  return GraphBuilder(model, plan, schedule, cluster, costs, network, options).build();
}

}  // namespace tracecast
