#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "sim/base/quantity_text.hpp"
#include "sim/graph/operator_text.hpp"
#include "sim/report/page_parts.hpp"

namespace tracecast {
namespace {

/// One line of the provenance table.
struct Source {
  std::string name;
  std::string kind;
  std::string shape;
  Duration duration;
  double spread = 0;
  const char* provenance = "";
  double calls = 0;  ///< of the mean rank
};

Source source_of(const CostedOperator& used) {
  Source source;
  source.name = operator_name(used);
  source.kind = to_string(used.op.kind);
  source.shape = shape_text(used.op);
  source.duration = used.cost.duration;
  source.spread = used.cost.spread;
  source.provenance = to_string(used.cost.provenance);
  return source;
}

Source source_of(std::string name, const char* kind, std::string shape, const CollectiveCost& cost) {
  return {std::move(name), kind, std::move(shape), cost.duration, cost.spread, to_string(cost.provenance), 0};
}

/// How often the average rank runs each operation, by type of operation and payload.
struct Calls {
  std::vector<double> operators;
  std::vector<double> collectives;
  std::vector<double> messages;

  explicit Calls(const StepGraph& graph)
      : operators(graph.operators.size()), collectives(graph.collectives.size()), messages(graph.messages.size()) {
    std::vector<double> of_template(graph.templates.size());
    const auto all = static_cast<double>(graph.total_ranks());
    std::vector<double> of_program(graph.programs.size());
    for (const Rank& rank : graph.ranks) of_program[static_cast<std::size_t>(rank.program)] += rank.multiplicity / all;
    for (std::size_t p = 0; p < graph.programs.size(); ++p)
      for (const ProgramItem& item : graph.programs[p])
        of_template[static_cast<std::size_t>(item.template_index)] += of_program[p];
    for (std::size_t t = 0; t < graph.templates.size(); ++t)
      for (const Op& op : graph.templates[t].ops) count(op, of_template[t]);
  }

 private:
  void count(const Op& op, double times) {
    if (op.payload < 0) return;
    const auto payload = static_cast<std::size_t>(op.payload);
    if (op.type == OpType::compute) operators[payload] += times;
    if (op.type == OpType::collective) collectives[payload] += times;
    if (op.type == OpType::send) messages[payload] += times;
  }
};

std::vector<Source> sources_of(const StepGraph& graph) {
  const Calls calls(graph);
  std::vector<Source> all;
  const auto add = [&all](Source source, double times) {
    source.calls = times;
    if (times > 0) all.push_back(std::move(source));
  };
  for (std::size_t i = 0; i < graph.operators.size(); ++i) add(source_of(graph.operators[i]), calls.operators[i]);
  for (std::size_t i = 0; i < graph.collectives.size(); ++i) {
    const CostedCollective& each = graph.collectives[i];
    add(source_of(to_string(each.call.collective), to_string(each.traffic),
                  fmt::format("{}, {} {}", to_text(each.moved()), to_string(each.cost.algorithm),
                              to_string(each.cost.protocol)),
                  each.cost),
        calls.collectives[i]);
  }
  for (std::size_t i = 0; i < graph.messages.size(); ++i)
    add(source_of("send", to_string(Traffic::pipeline), to_text(graph.messages[i].size), graph.messages[i].cost),
        calls.messages[i]);
  std::ranges::stable_sort(all, [](const Source& a, const Source& b) {
    return a.calls * seconds(a.duration) > b.calls * seconds(b.duration);
  });
  return all;
}

}  // namespace

std::string durations_json(const StepGraph& graph) {
  std::vector<std::string> rows;
  for (const Source& s : sources_of(graph))
    rows.push_back(
        fmt::format(R"({{"name":{},"kind":{},"shape":{},"duration_s":{},"spread":{},"provenance":"{}","calls":{}}})",
                    json_text(s.name), json_text(s.kind), json_text(s.shape), seconds(s.duration), s.spread,
                    s.provenance, s.calls));
  return json_list(rows);
}

}  // namespace tracecast
