/// \file
/// What every part of the step-graph builder works with: the inputs, the graph under construction, and its templates
/// and events by name.
///
/// The parts: pipeline_messages (between stages), data_parallel (gradients and parameters), end_of_step (norm,
/// optimizer), rank_connections (ranks, communicators, channels); builder.cpp combines them.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/graph/groups.hpp"
#include "sim/graph/layer.hpp"
#include "sim/graph/parameter_units.hpp"
#include "sim/graph/placements.hpp"
#include "sim/graph/rank_kinds.hpp"
#include "sim/graph/stage_placement.hpp"
#include "sim/graph/step_graph.hpp"
#include "sim/graph/step_inputs.hpp"
#include "sim/graph/template_writer.hpp"

namespace tracecast {

/// One chunk of one pipeline rank, with its messages.
struct Chunk {
  int index = 0;
  Stage stage;
  std::int32_t receive_forward = -1;  ///< messages; -1: the adjacent stage is on the same rank, or there is none
  std::int32_t send_forward = -1;
  std::int32_t receive_backward = -1;
  std::int32_t send_backward = -1;
  std::int32_t number = -1;  ///< equal for chunks with equal templates: BuildContext::number_of
};

enum class TemplateKind {
  begin,
  receive_forward,
  receive_backward,
  forward,
  backward,
  input_gradients,
  weight_gradients,
  reduce,
  optimizer
};

/// Equal keys, equal templates.
struct TemplateKey {
  TemplateKind kind;
  std::int32_t work = 0;     ///< of passes the chunk's number
  std::int32_t variant = 0;  ///< of passes 1 if they also wait for parameters (forward) or reduce gradients (backward)
  int context_ranks = 0;     ///< of passes: BuildContext::select_context
  auto operator<=>(const TemplateKey&) const = default;
};
/// Every action of a schedule looks a template up.
struct TemplateKeyHash {
  std::size_t operator()(const TemplateKey& key) const {
    std::size_t hash = static_cast<std::size_t>(key.kind);
    for (const int part : {key.work, key.variant, key.context_ranks})
      hash = hash * 1'000'003 + static_cast<std::size_t>(part);
    return hash;
  }
};

/// The communicator groups of a plan under a schedule.
Groups groups_of(const Model& model, const Plan& plan, const Schedule& schedule);

class BuildContext {
 public:
  /// `other_costs`: of the GPUs of Perturbation::gpus, in this order.
  explicit BuildContext(const StepInputs& inputs, const std::vector<const Costs*>& other_costs = {});
  BuildContext(const BuildContext&) = delete;
  BuildContext& operator=(const BuildContext&) = delete;

  const Model& model;
  const Plan& plan;
  const Schedule& schedule;
  const Cluster& cluster;
  const NetworkModel& network;
  const bool updates_every_backward;  ///< as the plan's schedule says
  const StagePlacement stage_placement;
  const LayerWork work;
  const ParameterUnits units;
  const Groups groups;
  Placements placements;
  StepGraph graph;
  CostTable table;

  /// What is written from now on is for ranks of this kind.
  void select(const RankKind& kind);
  const RankKind& kind() const { return kind_; }
  /// What is written from now on is for bins of documents that span so many context ranks (packing dynamic_cp); 0: for
  /// sequences that are divided over the whole context group.
  void select_context(int ranks);
  int context_ranks() const { return context_ranks_; }
  /// `work` in the selected context.
  const LayerWork& pass_work() const { return context_ranks_ == 0 ? work : contexts_.at(context_ranks_).work; }
  /// Work of a layer; layers of one kind share it.
  const WorkList& forward_work(int layer);
  const WorkList& backward_work(int layer, BackwardPart part, bool recompute_all);
  /// Host times of one operation.
  TemplateWriter::Launch launch() const;
  /// Equal for kinds of ranks with the same GPU and placements.
  std::int32_t kind_number() const { return kind_number_; }

  /// Of `size` bytes between this rank and its host's memory, one direction.   Requires a topology with a PCIe rate
  Duration copy_time(Bytes size) const {
    return from_seconds(static_cast<double>(size.count) / static_cast<double>(cluster.node.pcie.bytes_per_second));
  }

  /// Rank event number `index` of purpose `purpose` of a chunk: the same for every stage that has a chunk of this
  /// number. Where every backward is followed by an update, all events are of a micro-batch.
  EventRef rank_event(const char* purpose, int chunk, int index, bool per_microbatch);

  /// The same number for the same chunk, or list of chunks, of ranks of one kind number.
  std::int32_t number_of(const Chunk& chunk);
  std::int32_t number_of(const std::vector<Chunk>& chunks);

  /// The template of this key, written by `write(TemplateWriter&, Template&)` if it is new.
  template <class Write>
  std::int32_t find_template(const TemplateKey& key, int chunk, Write write) {
    const auto [found, added] = templates_.try_emplace(key, static_cast<std::int32_t>(graph.templates.size()));
    if (added) add_template(compose(key.kind, chunk, write));
    return found->second;
  }

  /// A template that is not in the graph yet.
  template <class Write>
  Template compose(TemplateKind kind, int chunk, Write write) {
    Template result = empty_template(kind, chunk);
    TemplateWriter writer(graph, table, result, launch(), plan.parallel.tp_comm_overlap);
    write(writer, result);
    writer.finish();
    return result;
  }
  std::int32_t add_template(Template made) {
    graph.templates.push_back(std::move(made));
    return static_cast<std::int32_t>(graph.templates.size()) - 1;
  }

 private:
  /// The plan as if the context groups had `ranks` ranks and sequences were so much shorter.
  struct Context {
    Context(const BuildContext& whole, int ranks);
    Plan plan;
    LayerWork work;
  };
  std::int32_t layer_kind(int layer);
  std::int32_t number_of(std::vector<std::int32_t> description);
  static Template empty_template(TemplateKind kind, int chunk);

  RankKind kind_;
  std::int32_t kind_number_ = -1;
  std::vector<std::int32_t> layer_kinds_;  ///< [layer] number of LayerWork::kind(); empty: not needed yet
  int context_ranks_ = 0;
  std::map<int, Context> contexts_;                                ///< [ranks]
  std::map<std::pair<std::int32_t, int>, WorkList> forward_work_;  ///< [kind, context ranks]
  std::map<std::tuple<std::int32_t, int, BackwardPart, bool>, WorkList> backward_work_;
  std::map<std::vector<std::int32_t>, std::int32_t> numbers_;  ///< [description of a kind, a chunk, chunks]
  std::unordered_map<TemplateKey, std::int32_t, TemplateKeyHash> templates_;
  std::map<std::tuple<std::string, int, int>, std::int32_t> events_;  ///< [purpose, chunk, index]
};

}  // namespace tracecast
