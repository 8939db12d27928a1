/// \file
/// What every part of the step-graph builder works with: the inputs, the graph in the making, and its names.
///
/// The parts: pipeline_messages (between stages), data_parallel (gradients and parameters), end_of_step (norm,
/// optimizer), rank_connections (ranks, communicators, channels); builder.cpp puts them together.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/graph/groups.hpp"
#include "sim/graph/layer.hpp"
#include "sim/graph/parameter_units.hpp"
#include "sim/graph/pipeline_seats.hpp"
#include "sim/graph/placements.hpp"
#include "sim/graph/rank_kinds.hpp"
#include "sim/graph/step_graph.hpp"
#include "sim/graph/template_writer.hpp"

namespace tracecast {

/// One chunk of one pipeline rank, with its neighbours.
struct Chunk {
  int index = 0;
  Stage stage;
  std::int32_t receive_forward = -1;  ///< messages; -1: the neighbour is on the same rank, or there is none
  std::int32_t send_forward = -1;
  std::int32_t receive_backward = -1;
  std::int32_t send_backward = -1;
};

/// The communicator groups of a plan under a schedule.
Groups groups_of(const Model& model, const Plan& plan, const Schedule& schedule);

class BuildContext {
 public:
  /// `costs`: of the cluster's own GPU, then of the others that some ranks have.
  BuildContext(const Model& model, const Plan& plan, const Schedule& schedule, const Cluster& cluster,
               std::vector<const Costs*> costs, const NetworkModel& network);
  BuildContext(const BuildContext&) = delete;
  BuildContext& operator=(const BuildContext&) = delete;

  const Model& model;
  const Plan& plan;
  const Schedule& schedule;
  const Cluster& cluster;
  const NetworkModel& network;
  const LayerWork work;
  const ParameterUnits units;
  const PipelineSeats seats;
  const Groups groups;
  Placements placements;
  StepGraph graph;
  CostTable table;

  /// What is written from now on is for ranks of this kind.
  void select(const RankKind& kind);
  const RankKind& kind() const { return kind_; }
  /// Work of a layer; layers of one kind share it.
  const WorkList& forward_work(int layer);
  const WorkList& backward_work(int layer, BackwardPart part, bool recompute_all);
  /// Host time of one operation.
  Duration launch() const;
  /// What distinguishes the kind from others of its pipeline rank, as far as templates show it.
  const std::string& kind_signature() const { return kind_signature_; }

  /// Of `size` bytes between this rank and its host's memory, one direction.   Requires a topology with a PCIe rate
  Duration copy_time(Bytes size) const {
    return from_seconds(static_cast<double>(size.count) / static_cast<double>(cluster.node.pcie.bytes_per_second));
  }

  /// Rank event number `index` of purpose `purpose` of a chunk: the same for every stage that has a chunk of this number.
  EventRef rank_event(const char* purpose, int chunk, int index, bool per_microbatch);

  /// What makes two templates of one kind equal.
  std::string signature(const char* kind, const Chunk& chunk, bool special) const;

  /// The template with this signature, written by `write(TemplateWriter&, Template&)` when it is new.
  template <class Write>
  std::int32_t find_template(const std::string& key, std::string name, Phase phase, int chunk, Write write) {
    const auto [found, added] = templates_.try_emplace(key, static_cast<std::int32_t>(graph.templates.size()));
    if (added) add_template(compose(std::move(name), phase, chunk, write));
    return found->second;
  }

  /// A template that is not in the graph yet.
  template <class Write>
  Template compose(std::string name, Phase phase, int chunk, Write write) {
    Template result;
    result.name = std::move(name);
    result.phase = phase;
    result.chunk = static_cast<std::int16_t>(chunk);
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
  RankKind kind_;
  std::string kind_signature_;
  std::vector<std::int32_t> layer_kinds_;          ///< [layer] number of LayerWork::kind()
  std::map<std::int32_t, WorkList> forward_work_;  ///< [kind]
  std::map<std::tuple<std::int32_t, BackwardPart, bool>, WorkList> backward_work_;
  std::map<std::string, std::int32_t> templates_;                     ///< [signature]
  std::map<std::tuple<std::string, int, int>, std::int32_t> events_;  ///< [purpose, chunk, index]
};

}  // namespace tracecast
