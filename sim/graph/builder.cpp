#include "sim/graph/builder.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "sim/base/result.hpp"
#include "sim/graph/build_context.hpp"
#include "sim/graph/data_parallel.hpp"
#include "sim/graph/end_of_step.hpp"
#include "sim/graph/offloading.hpp"
#include "sim/graph/overlapped_pair.hpp"
#include "sim/graph/pipeline_messages.hpp"
#include "sim/graph/rank_connections.hpp"
#include "sim/plan/memory.hpp"

namespace tracecast {
namespace {

const char* kind_of(BackwardPart part) {
  switch (part) {
    case BackwardPart::all:
      return "B";
    case BackwardPart::input_gradients:
      return "I";
    case BackwardPart::weight_gradients:
      return "W";
  }
  return "";
}

const char* name_of(BackwardPart part) {
  switch (part) {
    case BackwardPart::all:
      return "backward";
    case BackwardPart::input_gradients:
      return "input gradient";
    case BackwardPart::weight_gradients:
      return "weight gradient";
  }
  return "";
}

/// First forward and last weight-gradient work of a chunk in a rank's order.
struct Turning {
  std::size_t first_forward = 0;
  std::size_t last_backward = 0;
  std::int32_t last_microbatch = 0;
  BackwardPart last_part = BackwardPart::all;
};

/// [chunk]
std::vector<Turning> turning_points(const std::vector<Action>& actions, int chunks) {
  std::vector<Turning> points(static_cast<std::size_t>(chunks));
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

/// Numbers of one program's templates, so that each is looked for once and not for every micro-batch. By chunk, kind and whether
/// it is the chunk's first forward or last backward.
class KnownTemplates {
 public:
  enum Kind { forward, all, input_gradients, weight_gradients };

  explicit KnownTemplates(int chunks) : numbers_(static_cast<std::size_t>(chunks) * kKinds * 2, -1) {}

  template <class Find>
  std::int32_t number(int chunk, Kind kind, bool turning, Find find) {
    std::int32_t& number = numbers_[(static_cast<std::size_t>(chunk) * kKinds + kind) * 2 + (turning ? 1 : 0)];
    if (number < 0) number = find();
    return number;
  }

 private:
  static constexpr std::size_t kKinds = 4;
  std::vector<std::int32_t> numbers_;
};

KnownTemplates::Kind known_kind(BackwardPart part) {
  switch (part) {
    case BackwardPart::all:
      break;
    case BackwardPart::input_gradients:
      return KnownTemplates::input_gradients;
    case BackwardPart::weight_gradients:
      return KnownTemplates::weight_gradients;
  }
  return KnownTemplates::all;
}

/// Templates of forwards and backwards, and the programs made of them.
class GraphBuilder {
 public:
  GraphBuilder(const Model& model, const Plan& plan, const Schedule& schedule, const Cluster& cluster,
               std::vector<const Costs*> costs, const NetworkModel& network, const Perturbation& perturbation)
      : perturbation_(perturbation),
        context_(model, plan, schedule, cluster, std::move(costs), network),
        kinds_(plan, context_.seats, schedule.chunks, context_.groups, perturbation_, context_.placements),
        messages_(context_),
        data_(context_),
        end_(data_) {}

  StepGraph build(bool unfold) {
    for (const char* name : {"compute", "tp", "cp", "ep", "dp gradients", "dp parameters", "global", "embedding",
                             "dp replicas", "to host", "host", "from host"})
      context_.graph.streams.push_back({name});
    messages_.add_streams();
    RankConnections ranks(context_, kinds_);
    if (!unfold) {
      if (const std::optional<std::vector<RankKind>> stages = kinds_.by_stage()) {
        add_programs(*stages);
        ranks.add_one_rank_per_stage(*stages);
        return std::move(context_.graph);
      }
    }
    std::vector<RankKind> kinds;
    const std::vector<std::int32_t> kind_of = kinds_.by_rank(kinds);
    add_programs(kinds);
    ranks.add_classes(kinds, kind_of, perturbation_, unfold);
    return std::move(context_.graph);
  }

 private:
  // ---- Templates ---------------------------------------------------------------------------------------------------

  std::int32_t begin_template(const std::vector<Chunk>& chunks) {
    std::string key = "begin " + context_.kind_signature();
    for (const Chunk& chunk : chunks) key += " | " + context_.signature("P", chunk, false);
    return context_.find_template(key, "begin", Phase::forward, 0, [&](TemplateWriter& writer, Template& out) {
      Op host;
      const HostModel& model = context_.table.costs().profile().host;
      host.host = from_seconds(model.step_overhead + context_.plan.world_size * model.step_overhead_per_rank);
      out.ops.push_back(host);
      data_.serve_step(writer, chunks.front());
      if (!data_.gathers_during_forward()) return;
      for (const Chunk& chunk : chunks) data_.gather_buckets(writer, chunk);
    });
  }

  /// Before a pass that needs a message for which the host waits.
  void await_message(const Chunk& chunk, ChannelSide side, std::int32_t message, std::int32_t microbatch,
                     std::vector<ProgramItem>& program) {
    if (message < 0 || !messages_.host_waits()) return;
    const bool forward = side == ChannelSide::receive_forward;
    const auto write = [&](TemplateWriter& writer, Template&) { messages_.await(writer, chunk.index, side, message); };
    program.push_back(
        {context_.find_template(context_.signature(forward ? "receive F" : "receive B", chunk, false), "receive",
                                forward ? Phase::forward : Phase::backward, chunk.index, write),
         microbatch});
  }

  std::int32_t forward_template(const Chunk& chunk, bool first) {
    const bool waits_for_parameters = first && data_.gathers_during_forward();
    return context_.find_template(
        context_.signature("F", chunk, waits_for_parameters), fmt::format("forward chunk {}", chunk.index),
        Phase::forward, chunk.index,
        [&](TemplateWriter& writer, Template& out) { write_forward(writer, out, chunk, waits_for_parameters); });
  }

  void write_forward(TemplateWriter& writer, Template& out, const Chunk& chunk, bool waits_for_parameters) {
    const Stage& stage = chunk.stage;
    messages_.receive(writer, chunk.index, ChannelSide::receive_forward, chunk.receive_forward);
    UnitPrefetch prefetch(data_, writer, chunk, false);
    const auto unit = [&](int index, const WorkList& list) {
      if (waits_for_parameters) data_.wait_for_bucket(writer, chunk, index);
      prefetch.before(index);
      writer.write(list);
      prefetch.after(index);
    };
    ActivationCopies copies(data_, writer, chunk, false);
    if (stage.embedding) unit(0, context_.work.embedding_forward());
    for (int layer = stage.first_layer; layer < stage.first_layer + stage.num_layers; ++layer) {
      copies.before(layer - stage.first_layer);
      unit(context_.units.layer(stage, layer), context_.forward_work(layer));
      copies.after(layer - stage.first_layer);
    }
    if (stage.head) unit(context_.units.head(stage), context_.work.head_forward());
    messages_.send(writer, chunk.index, ChannelSide::send_forward, chunk.send_forward);
    out.allocates = activation_bytes(context_.model, context_.plan, stage);
  }

  std::int32_t backward_template(const Chunk& chunk, BackwardPart part, bool last) {
    const bool reduces = part != BackwardPart::input_gradients && data_.reduces_during_backward(last);
    const Phase phase = part == BackwardPart::weight_gradients ? Phase::weight_gradient : Phase::backward;
    const std::string key = context_.signature(kind_of(part), chunk, reduces);
    return context_.find_template(
        key, fmt::format("{} chunk {}", name_of(part), chunk.index), phase, chunk.index,
        [&](TemplateWriter& writer, Template& out) { write_backward(writer, out, chunk, part, reduces, key); });
  }

  void write_backward(TemplateWriter& writer, Template& out, const Chunk& chunk, BackwardPart part, bool reduces,
                      const std::string& key) {
    const Stage& stage = chunk.stage;
    const ParameterUnits& units = context_.units;
    const bool inputs = part != BackwardPart::weight_gradients;
    if (inputs) messages_.receive(writer, chunk.index, ChannelSide::receive_backward, chunk.receive_backward);
    UnitPrefetch prefetch(data_, writer, chunk, true, !inputs);
    GradientBuckets buckets(data_, writer, chunk.index, reduces);
    const auto unit = [&](int index, const WorkList& list) {
      prefetch.before(index);
      writer.write(list, [&](const Work& work) { buckets.add(work); });
      buckets.unit_done();
      prefetch.after(index);
    };
    std::optional<ActivationCopies> copies;
    if (inputs) copies.emplace(data_, writer, chunk, true);
    if (stage.head) unit(units.head(stage), context_.work.head_backward(part));
    for (int layer = stage.first_layer + stage.num_layers; layer-- > stage.first_layer;) {
      if (copies) copies->before(layer - stage.first_layer);
      unit(units.layer(stage, layer), context_.backward_work(layer, part, recomputes(stage, layer)));
      if (copies) copies->after(layer - stage.first_layer);
    }
    if (inputs) messages_.send(writer, chunk.index, ChannelSide::send_backward, chunk.send_backward);
    if (stage.embedding && part != BackwardPart::input_gradients) unit(0, context_.work.embedding_backward());
    buckets.flush_all();
    last_gradient_events_[key] = buckets.last_events();
    if (part != BackwardPart::input_gradients) out.releases = activation_bytes(context_.model, context_.plan, stage);
  }

  // ---- Overlapped pairs --------------------------------------------------------------------------------------------

  using Parts = std::vector<std::int32_t>;

  /// The parts of a pass, composed when its signature is new.
  template <class Write>
  const Parts& parts(const std::string& key, const char* purpose, std::string name, Phase phase, int chunk,
                     Write write) {
    const auto [found, added] = parts_.try_emplace(key);
    if (added)
      for (Template& part :
           cut_at_exchanges(context_.compose(std::move(name), phase, chunk, write), context_, purpose, chunk))
        found->second.push_back(context_.add_template(std::move(part)));
    return found->second;
  }

  const Parts& forward_parts(const Chunk& chunk, bool first) {
    const bool waits_for_parameters = first && data_.gathers_during_forward();
    return parts(
        context_.signature("F", chunk, waits_for_parameters), "forward exchange",
        fmt::format("forward chunk {}", chunk.index), Phase::forward, chunk.index,
        [&](TemplateWriter& writer, Template& out) { write_forward(writer, out, chunk, waits_for_parameters); });
  }

  const Parts& backward_parts(const Chunk& chunk, bool last) {
    const bool reduces = data_.reduces_during_backward(last);
    const std::string key = context_.signature(kind_of(BackwardPart::all), chunk, reduces);
    return parts(key, "backward exchange", fmt::format("backward chunk {}", chunk.index), Phase::backward, chunk.index,
                 [&](TemplateWriter& writer, Template& out) {
                   write_backward(writer, out, chunk, BackwardPart::all, reduces, key);
                 });
  }

  static void add_in_turns(const Parts& forward, std::int32_t microbatch, const Parts& backward,
                           std::int32_t microbatch2, std::vector<ProgramItem>& program) {
    for (std::size_t i = 0; i < std::max(forward.size(), backward.size()); ++i) {
      if (i < forward.size()) program.push_back({forward[i], microbatch});
      if (i < backward.size()) program.push_back({backward[i], microbatch2});
    }
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
      add_program(kind.pp);
    }
  }

  void add_program(int pp) {
    std::vector<Chunk> chunks;
    for (int chunk = 0; chunk < context_.schedule.chunks; ++chunk) chunks.push_back(messages_.chunk(kinds_, chunk));
    const std::vector<Action>& actions = context_.schedule.actions[static_cast<std::size_t>(pp)];
    const std::vector<Turning> points = turning_points(actions, context_.schedule.chunks);
    std::vector<ProgramItem> program{{begin_template(chunks), 0}};
    program.reserve(2 * actions.size() + 3);
    KnownTemplates known(context_.schedule.chunks);
    const auto forward = [&](int chunk, int microbatch, std::size_t at) {
      const auto c = static_cast<std::size_t>(chunk);
      const bool first = points[c].first_forward == at;
      await_message(chunks[c], ChannelSide::receive_forward, chunks[c].receive_forward, microbatch, program);
      const auto find = [&] { return forward_template(chunks[c], first); };
      program.push_back({known.number(chunk, KnownTemplates::forward, first, find), microbatch});
    };
    const auto backward = [&](int chunk, int microbatch, std::size_t at, BackwardPart part) {
      const auto c = static_cast<std::size_t>(chunk);
      const bool last = points[c].last_backward == at;
      if (part != BackwardPart::weight_gradients)
        await_message(chunks[c], ChannelSide::receive_backward, chunks[c].receive_backward, microbatch, program);
      const auto find = [&] { return backward_template(chunks[c], part, last); };
      program.push_back({known.number(chunk, known_kind(part), last, find), microbatch});
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
          if (interleaves_pairs(context_.plan)) {
            const auto c = static_cast<std::size_t>(action.chunk);
            const auto c2 = static_cast<std::size_t>(action.chunk2);
            add_in_turns(forward_parts(chunks[c], points[c].first_forward == i), action.microbatch,
                         backward_parts(chunks[c2], points[c2].last_backward == i), action.microbatch2, program);
            break;
          }
          forward(action.chunk, action.microbatch, i);
          backward(action.chunk2, action.microbatch2, i, BackwardPart::all);
          break;
      }
    }
    add_end_of_step(pp, chunks, points, program);
    context_.graph.programs.push_back(std::move(program));
  }

  void add_end_of_step(int pp, const std::vector<Chunk>& chunks, const std::vector<Turning>& points,
                       std::vector<ProgramItem>& program) {
    std::vector<EventRef> reduced;
    std::vector<Chunk> unreduced;
    for (std::size_t c = 0; c < chunks.size() && data_.moves_gradients(); ++c) {
      if (!data_.reduces_during_backward(true)) {
        unreduced.push_back(chunks[c]);
        continue;
      }
      for (EventRef event : last_gradient_events_.at(context_.signature(kind_of(points[c].last_part), chunks[c], true)))
        reduced.push_back({event.base + event.stride * points[c].last_microbatch, 0});
    }
    program.push_back({end_.reduce_template(pp, chunks, reduced, unreduced), 0});
    program.push_back({end_.optimizer_template(pp, chunks), 0});
  }

  const Perturbation& perturbation_;
  BuildContext context_;
  RankKinds kinds_;
  PipelineMessages messages_;
  DataParallel data_;
  EndOfStep end_;
  std::map<std::string, Parts> parts_;                                 ///< [signature of a pass]
  std::map<std::string, std::vector<EventRef>> last_gradient_events_;  ///< [signature of a backward template]
};

}  // namespace

StepGraph build_step_graph(const Model& model, const Plan& plan, const Schedule& schedule, const Cluster& cluster,
                           const Costs& costs, const NetworkModel& network, const BuildOptions& options) {
  TRACECAST_ASSERT(schedule.ranks == plan.parallel.pp, "the schedule has the plan's pipeline ranks");
  TRACECAST_ASSERT(schedule.stages() == static_cast<int>(plan.stages.size()),
                   "the schedule has the plan's virtual stages");
  static const Perturbation kNothing;
  const Perturbation& perturbation = options.perturbation != nullptr ? *options.perturbation : kNothing;
  std::deque<Costs> others;
  std::vector<const Costs*> all{&costs};
  for (const Perturbation::OtherGpus& gpus : perturbation.gpus) all.push_back(&others.emplace_back(gpus.profile));
  return GraphBuilder(model, plan, schedule, cluster, std::move(all), network, perturbation).build(options.unfold);
}

}  // namespace tracecast
