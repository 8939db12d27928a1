#include "tracer/step_match.hpp"

#include <algorithm>
#include <variant>

#include "sim/import/kernel_names.hpp"
#include "tracer/alignment.hpp"
#include "tracer/classes.hpp"

namespace tracecast {
namespace {

constexpr int kAttention = 12;
constexpr int kSameName = 8;
constexpr int kSameSizes = 6;
constexpr int kLargeKind = 4;
constexpr int kSmallKind = 2;
constexpr int kNameless = 1;

int weight(const CostedOperator& expected, const KernelTraits& found) {
  const Operator& op = expected.op;
  if (found.backward && op.pass == Pass::forward && !expected.recomputed) return 0;
  if (found.forward && op.pass != Pass::forward && op.pass != Pass::optimizer) return 0;
  if (found.forward && expected.recomputed) return 0;
  if (!found.name.empty()) return found.name == op.name ? kSameName : 0;
  if (op.kind != found.kind) return 0;
  if (found.gradient_norm && op.name != (*found.gradient_norm ? "grad_norm" : "update")) return 0;
  if (const auto* shape = std::get_if<GemmShape>(&op.shape); shape != nullptr && found.sizes)
    return *found.sizes == sizes_of(shape->m, shape->n, shape->k) ? kSameSizes : 0;
  if (op.kind == OperatorKind::attention) return kAttention;
  if (is_multiplication(op.kind)) return kLargeKind;
  return found.nameless ? kNameless : kSmallKind;
}

/// Kinds that frameworks run as several kernels. Kernels with unknown names are treated as residuals, which never join.
bool may_be_a_part(const KernelTraits& traits) {
  return traits.name.empty() && !is_multiplication(traits.kind) && traits.kind != OperatorKind::residual;
}

/// `unlike_all`: no operator of the step could be it.
Match why_not(const KernelTraits& traits, bool unlike_all) {
  if (!unlike_all) return Match::too_many;
  if (!traits.name.empty()) return Match::no_such_name;
  return traits.sizes ? Match::no_such_sizes : Match::no_such_kind;
}

/// Class of ncclDevKernel_Generic, whose name does not say what it runs: it matches nothing.
constexpr std::int32_t kAnyCollective = kCollectiveKinds;

}  // namespace

const char* to_string(Match match) {
  constexpr const char* kTexts[kMatches] = {"by an operator's name",
                                            "by the sizes of its matrices",
                                            "by order and kind",
                                            "the step has no such operator in this pass",
                                            "the step multiplies no matrices of these sizes",
                                            "the step has no operator of this kind",
                                            "the step has fewer of this kind, or in another order",
                                            "a transfer of another library than NCCL, which a profile does not have"};
  return kTexts[static_cast<std::size_t>(match)];
}

ExpectedStep expected_step(const StepGraph& graph, const Rank& rank) {
  ExpectedStep step;
  step.rank = &rank;
  for (const ProgramItem& item : graph.programs[static_cast<std::size_t>(rank.program)])
    for (const Op& op : graph.templates[static_cast<std::size_t>(item.template_index)].ops) {
      if (op.type == OpType::compute && op.payload >= 0) step.operators.push_back(op.payload);
      if (op.type == OpType::collective) step.collectives.push_back(op.payload);
    }
  return step;
}

std::optional<std::vector<Place>> places_of(const StepGraph& graph, const ExpectedStep& expected,
                                            const std::vector<KernelGroup>& found) {
  Classes<KernelTraits> traits;
  Classes<std::int32_t> operators;
  std::vector<std::int32_t> found_classes;
  std::vector<std::int32_t> expected_classes;
  for (const KernelGroup& each : found) found_classes.push_back(traits.number(each.traits));
  for (const std::int32_t op : expected.operators) expected_classes.push_back(operators.number(op));
  AlignmentTask task{found_classes, expected_classes, {}, {}};
  for (const KernelTraits& each : traits.values()) {
    task.joins.push_back(may_be_a_part(each));
    std::vector<int>& row = task.weights.emplace_back();
    for (const std::int32_t op : operators.values())
      row.push_back(weight(graph.operators[static_cast<std::size_t>(op)], each));
  }
  const auto indices = align(task);
  if (!indices) return std::nullopt;
  std::vector<Place> places;
  for (std::size_t f = 0; f < found.size(); ++f) {
    const KernelTraits& known = found[f].traits;
    const Match how = !known.name.empty() ? Match::by_name : known.sizes ? Match::by_sizes : Match::by_kind;
    const std::int32_t index = (*indices)[f];
    if (index >= 0) {
      places.push_back({expected.operators[static_cast<std::size_t>(index)], index, how});
      continue;
    }
    const std::vector<int>& row = task.weights[static_cast<std::size_t>(found_classes[f])];
    const auto same = known.sizes ? std::find(row.begin(), row.end(), kSameSizes) : row.end();
    if (same != row.end())
      places.push_back({operators.values()[static_cast<std::size_t>(same - row.begin())], -1, how});
    else
      places.push_back({-1, -1, why_not(known, std::all_of(row.begin(), row.end(), [](int w) { return w == 0; }))});
  }
  return places;
}

std::optional<std::vector<std::int32_t>> collectives_of(const StepGraph& graph, const ExpectedStep& expected,
                                                        const Trace& trace, const std::vector<std::int32_t>& kernels) {
  std::vector<std::int32_t> found;
  std::vector<std::int32_t> wanted;
  for (const std::int32_t kernel : kernels) {
    const auto collective = nccl_kernel(trace.kernels[static_cast<std::size_t>(kernel)].name).collective();
    found.push_back(collective ? static_cast<std::int32_t>(*collective) : kAnyCollective);
  }
  for (const std::int32_t call : expected.collectives)
    wanted.push_back(static_cast<std::int32_t>(graph.collectives[static_cast<std::size_t>(call)].call.collective));
  AlignmentTask task{found, wanted, {}, std::vector<bool>(kAnyCollective + 1, false)};
  for (int kind = 0; kind < kCollectiveKinds; ++kind) {
    task.weights.emplace_back(kCollectiveKinds, 0);
    task.weights.back()[static_cast<std::size_t>(kind)] = 1;
  }
  task.weights.emplace_back(kCollectiveKinds, 0);
  return align(task);
}

}  // namespace tracecast
