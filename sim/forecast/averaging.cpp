#include "sim/forecast/averaging.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "sim/graph/traffic.hpp"
#include "sim/plan/sharding.hpp"

namespace tracecast {
namespace {

/// (H - A) parts of one, A parts of the other.
class Mix {
 public:
  Mix(int averaging, int period) : share_(static_cast<double>(averaging) / period) {}
  double operator()(double averaging, double local) const { return share_ * averaging + (1 - share_) * local; }

 private:
  double share_;
};

/// Ranks of dp, or groups of them that share one copy.
int replicas_of(const Plan& plan) {
  return plan.gradient_group() / (plan.parallel.zero_stage > 0 ? plan.shard_group() : 1);
}

double bytes_to_average(const StepGraph& graph) {
  double most = 0;
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    double sent = 0;
    for (const TrafficCount& each : count_traffic(graph, rank))
      if (averages(each.traffic, each.collective)) sent += each.sent;
    most = std::max(most, sent);
  }
  return most;
}

/// The transfer of a step takes this by itself, on the rank whose part is largest.
double seconds_to_average(const StepGraph& graph) {
  Duration longest;
  for (const CostedCollective& each : graph.collectives)
    if (averages(each.traffic, each.call.collective)) longest = std::max(longest, each.cost.duration);
  return seconds(longest);
}

void mix_bandwidth(Forecast& f, const Forecast& local, Mix mix) {
  double time_s = f.step_time_s;
  for (const double exposed : f.exposed_s) time_s -= exposed;
  if (time_s <= 0) time_s = f.step_time_s;
  for (AxisBandwidth& row : f.bandwidth) {
    const auto same = std::ranges::find_if(
        local.bandwidth, [&](const AxisBandwidth& each) { return each.axis == row.axis && each.link == row.link; });
    row.sent_bytes = mix(row.sent_bytes, same == local.bandwidth.end() ? 0 : same->sent_bytes);
    row.required = row.sent_bytes / time_s;
  }
}

/// A step that has no such cause takes as long without it.
std::vector<Cause> mixed_causes(const Forecast& averaging, const Forecast& local, Mix mix) {
  const auto of_step = [](const Forecast& step, const std::string& name) {
    const auto found = std::ranges::find(step.causes, name, &Cause::name);
    return found == step.causes.end() ? Cause{name, "", 0, step.step_time_s} : *found;
  };
  std::vector<Cause> causes = averaging.causes;
  for (const Cause& each : local.causes)
    if (std::ranges::find(causes, each.name, &Cause::name) == causes.end()) causes.push_back(each);
  for (Cause& each : causes) {
    const Cause with = of_step(averaging, each.name);
    const Cause without = of_step(local, each.name);
    each.on_critical_path_s = mix(with.on_critical_path_s, without.on_critical_path_s);
    each.step_without_s = mix(with.step_without_s, without.step_without_s);
  }
  std::ranges::stable_sort(causes, {}, &Cause::step_without_s);
  return causes;
}

}  // namespace

bool averages(Traffic traffic, Collective collective) {
  return traffic == Traffic::parameters && collective == Collective::all_reduce;
}

void mean_of_period(ForecastRun& run, const Forecast& local, int period) {
  Forecast& f = run.forecast;
  const auto steps = static_cast<int>(averaging_steps(run.plan.parallel));
  const Mix mix(steps, period);
  constexpr auto kParameters = static_cast<std::size_t>(Traffic::parameters);
  f.averaging = {.period = period,
                 .steps = steps,
                 .replicas = replicas_of(run.plan),
                 .local_step_s = local.step_time_s,
                 .averaging_step_s = f.step_time_s,
                 .sent_bytes = steps * bytes_to_average(run.graph),
                 .transfer_s = steps * seconds_to_average(run.graph),
                 .waited_s = steps * std::max(0.0, f.exposed_s[kParameters] - local.exposed_s[kParameters])};
  f.causes = mixed_causes(f, local, mix);
  const double bubble_s = mix(f.bubble_fraction * f.step_time_s, local.bubble_fraction * local.step_time_s);
  const double mean_s = mix(f.step_time_s, local.step_time_s);
  const double faster = f.step_time_s / mean_s;
  for (double* const rate : {&f.tokens_per_s, &f.model_tflops_per_gpu, &f.mfu, &f.hfu}) *rate *= faster;
  f.step_time_s = mean_s;
  f.bubble_fraction = bubble_s / mean_s;
  f.band = {mix(f.band.p5_s, local.band.p5_s), mix(f.band.p50_s, local.band.p50_s),
            mix(f.band.p95_s, local.band.p95_s)};
  for (std::size_t kind = 0; kind < f.exposed_s.size(); ++kind)
    f.exposed_s[kind] = mix(f.exposed_s[kind], local.exposed_s[kind]);
  for (auto& [kind, time_s] : f.compute_s) time_s = mix(time_s, 0);
  for (const auto& [kind, time_s] : local.compute_s) f.compute_s[kind] += mix(0, time_s);
  f.host_s = mix(f.host_s, local.host_s);
  f.optimizer_s = mix(f.optimizer_s, local.optimizer_s);
  mix_bandwidth(f, local, mix);
  if (!f.packed || !local.packed) return;
  for (double PackedForecast::*const time_s :
       {&PackedForecast::p5_s, &PackedForecast::p95_s, &PackedForecast::balanced_s})
    (*f.packed).*time_s = mix((*f.packed).*time_s, (*local.packed).*time_s);
  f.packed->useful_tokens_per_s *= faster;
}

}  // namespace tracecast
