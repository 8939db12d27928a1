#include "sim/forecast/averaging.hpp"

#include <algorithm>

#include "sim/graph/traffic.hpp"

namespace tracecast {
namespace {

/// (H - 1) parts of one, one part of the other.
class Mix {
 public:
  explicit Mix(int period) : share_(1.0 / period) {}
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
      if (each.traffic == Traffic::parameters && each.collective == Collective::all_reduce) sent += each.sent;
    most = std::max(most, sent);
  }
  return most;
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

}  // namespace

void mean_of_period(ForecastRun& run, const Forecast& local, int period) {
  Forecast& f = run.forecast;
  const Mix mix(period);
  f.averaging = {period, replicas_of(run.plan), local.step_time_s, f.step_time_s, bytes_to_average(run.graph)};
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
}

}  // namespace tracecast
