#include "tools/accuracy/run_traits.hpp"

#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tracecast::accuracy {
namespace {

std::string recomputation(const Training& training) {
  std::vector<std::string> parts;
  if (training.recompute != Recompute::none)
    parts.push_back(fmt::format("{}{} recomputation", training.recompute_num_layers > 0 ? "partial " : "",
                                to_string(training.recompute)));
  if (!training.recompute_modules.empty())
    parts.push_back(fmt::format("recomputed {}", fmt::join(training.recompute_modules, " ")));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string compilation(const Training& training) {
  const bool graphs = training.cuda_graphs || !training.cuda_graph_modules.empty();
  return fmt::format("{}{}{}", training.compiled ? "compiled" : "", training.compiled && graphs ? ", " : "",
                     graphs ? "CUDA graphs" : "");
}

/// Of one stage all schedules are the same, but the one that overlaps exchanges of experts.
std::string schedule(const Parallel& parallel) {
  if (parallel.pp == 1 && parallel.pp_schedule != "combined-1f1b") return "";
  return parallel.pp_schedule.empty() ? default_schedule(parallel.vpp) : parallel.pp_schedule;
}

}  // namespace

RunTraits run_traits(const RowScenario& row) {
  const Scenario& s = row.scenario;
  const Parallel& p = s.parallel;
  const int replicas = p.dp > 0 ? p.dp : p.replicas_on(s.cluster.world_size);
  const double micro_batches =
      static_cast<double>(s.training.global_batch_size) / (static_cast<double>(s.training.micro_batch_size) * replicas);
  RunTraits traits{
      .gpu = s.profile.name,
      .experts = s.model.moe.has_value(),
      .precision = to_string(s.training.dtype),
      .levers = {recomputation(s.training), row.software, compilation(s.training), schedule(p),
                 p.zero_stage > 0 ? fmt::format("ZeRO {}", p.zero_stage) : ""},
      .doublings = {static_cast<double>(parameter_count(s.model).total()), static_cast<double>(s.training.seq_length),
                    static_cast<double>(s.training.micro_batch_size), double(p.tp), double(p.pp), double(p.cp),
                    double(p.ep), double(s.cluster.world_size), micro_batches}};
  if (s.training.row_scales) traits.precision += " rowwise";
  for (double& value : traits.doublings) value = std::log2(value);
  return traits;
}

double layout_distance(const RunTraits& a, const RunTraits& b) {
  static constexpr std::array<double, 9> kWeights{0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25};
  double squares = 0;
  for (std::size_t i = 0; i < kWeights.size(); ++i)
    squares += std::pow(kWeights[i] * (a.doublings[i] - b.doublings[i]), 2);
  return std::sqrt(squares);
}

std::string levers_text(const RunTraits& traits) {
  std::string text = traits.precision;
  for (const std::string& lever : traits.levers)
    if (!lever.empty()) text += ", " + lever;
  return text;
}

}  // namespace tracecast::accuracy
