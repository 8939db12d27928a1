#include "tools/accuracy/fit/collective_fit.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "sim/network/nccl_tuning.hpp"
#include "tools/accuracy/fit/fit.hpp"

namespace tracecast::accuracy {
namespace {

/// A parameter of the tuning as the optimizer sees it: its logarithm.
struct Free {
  Parameter range;
  std::function<void(CollectiveTuning&, double)> set;
};

Free factor(double CollectiveTuning::*member, const CollectiveTuning& start, double lowest, double highest) {
  return {{std::log(std::clamp(start.*member, lowest, highest)), std::log(lowest), std::log(highest)},
          [member](CollectiveTuning& tuning, double value) { tuning.*member = std::exp(value); }};
}

/// From near 0 to `highest`.
Free amount(double CollectiveTuning::*member, double start, double highest) {
  return {{std::log(start), std::log(0.1), std::log(highest)},
          [member](CollectiveTuning& tuning, double value) { tuning.*member = std::exp(value); }};
}

/// From 4 to 512 MiB.
Free limit(Bytes CollectiveTuning::*member) {
  return {{std::log(32.0), std::log(4.0), std::log(512.0)}, [member](CollectiveTuning& tuning, double value) {
            tuning.*member = {std::llround(std::exp(value) * (1 << 20))};
          }};
}

Free copies() {
  return {{std::log(900.0), std::log(100.0), std::log(10000.0)}, [](CollectiveTuning& tuning, double value) {
            tuning.copy_bandwidth = {std::llround(std::exp(value) * 1e9)};
          }};
}

bool several_nodes(const PreparedSample& sample) { return sample.group.nodes > 1; }
bool many_nodes(const PreparedSample& sample) { return sample.group.nodes > 2; }
bool direct(const PreparedSample& sample) {
  return sample.sample->call.collective == Collective::all_to_all ||
         sample.sample->call.collective == Collective::send_recv;
}

template <class Predicate>
bool any(const std::vector<Machine>& machines, Predicate predicate) {
  return std::any_of(machines.begin(), machines.end(), [&](const Machine& machine) {
    return std::any_of(machine.samples.begin(), machine.samples.end(), predicate);
  });
}

void add_inside(const std::vector<Machine>& machines, const CollectiveTuning& start, std::vector<Free>& free) {
  free.push_back(factor(&CollectiveTuning::intra_bandwidth, start, 0.4, 1.3));
  free.push_back(factor(&CollectiveTuning::base_latency, start, 0.2, 5));
  // Few nodes tell little of a hop, of which a ring over many has thousands.
  free.push_back(factor(&CollectiveTuning::hop_latency, start, any(machines, many_nodes) ? 0.2 : 0.5, 3));
  free.push_back(factor(&CollectiveTuning::mid_size, start, 1, 4));
  free.push_back(limit(&CollectiveTuning::mid_limit));
  free.push_back(copies());
  const auto has_nvls = [](const Machine& machine) { return machine.cluster.node.nvls; };
  if (std::any_of(machines.begin(), machines.end(), has_nvls))
    free.push_back(factor(&CollectiveTuning::nvls_bandwidth, start, 0.5, 1.3));
  if (any(machines, [](const PreparedSample& s) { return !several_nodes(s) && direct(s); }))
    free.push_back(factor(&CollectiveTuning::direct_link, start, 0.3, 1.3));
}

void add_between(const std::vector<Machine>& machines, const CollectiveTuning& start, std::vector<Free>& free) {
  // Samples of racks are of all their GPUs, whose links are the limit: they do not tell what NICs reach. The parent's factors hold.
  if (!any(machines,
           [](const PreparedSample& s) { return several_nodes(s) && s.group.ranks_per_node > kGpusOfANode; })) {
    free.push_back(factor(&CollectiveTuning::net_bandwidth, start, 0.4, 1.7));
    free.push_back(factor(&CollectiveTuning::net_mid_size, start, 1, 4));
    free.push_back(limit(&CollectiveTuning::net_mid_limit));
  }
  // Samples of two nodes cannot separate the latency of a hop from that of a call, which matters since a ring has a hop for each
  // node. With hops_of_parent a hop takes what it takes on similar nodes, and a call the rest; else it takes at most 70 us, and
  // with LL at least what NCCL's own numbers say.
  const bool known = any(machines, many_nodes);
  if (machines.front().hops_of_parent) {
    free.push_back(amount(&CollectiveTuning::net_call_us, 20, 2000));
  } else {
    free.push_back(factor(&CollectiveTuning::net_hop_latency, start, 0.2, known ? 50 : 5));
    free.push_back(factor(&CollectiveTuning::net_ll_latency, start, known ? 0.2 : 1, known ? 90 : 20));
  }
  if (any(machines, [](const PreparedSample& s) { return several_nodes(s) && direct(s); }))
    free.push_back(factor(&CollectiveTuning::direct_bandwidth, start, 0.05, 1.1));
}

std::vector<Free> all_parameters(const std::vector<Machine>& machines, const CollectiveTuning& start) {
  std::vector<Free> free;
  if (any(machines, [](const PreparedSample& s) { return !several_nodes(s); })) add_inside(machines, start, free);
  if (any(machines, several_nodes)) add_between(machines, start, free);
  return free;
}

/// Fewer than two for each parameter: they cannot tell so many apart, and a fit that reproduces them says nothing of others.
bool few_samples(const std::vector<Machine>& machines) {
  std::size_t samples = 0;
  for (const Machine& machine : machines) samples += machine.samples.size();
  return samples < 2 * all_parameters(machines, {}).size();
}

/// Of few samples the bandwidth between nodes, at most by what line rates allow above NCCL's; the other factors are the parent's.
std::vector<Free> free_parameters(const std::vector<Machine>& machines, const CollectiveTuning& start) {
  if (!few_samples(machines)) return all_parameters(machines, start);
  if (!any(machines, several_nodes)) return {};
  return {factor(&CollectiveTuning::net_bandwidth, start, 0.4, 1.1)};
}

CollectiveTuning with(CollectiveTuning tuning, const std::vector<Free>& free, const std::vector<double>& values) {
  for (std::size_t i = 0; i < free.size(); ++i) free[i].set(tuning, values[i]);
  return tuning;
}

std::string sources_of(const std::vector<Machine>& machines) {
  std::map<std::string, int> rows;
  for (const Machine& machine : machines)
    for (const PreparedSample& prepared : machine.samples) ++rows[prepared.sample->source];
  std::string text;
  for (const auto& [source, count] : rows) text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", source, count);
  return text;
}

GroupPlacement placement_of(const Cluster& cluster, const CollectiveSample& sample) {
  const std::vector<int> ranks = ranks_of_group(cluster, sample);
  Cluster sized = cluster;
  sized.world_size = ranks.back() + 1;
  return place(sized, ranks, 1);
}

}  // namespace

const std::vector<FabricKind>& fabric_kinds() {
  static const std::vector<FabricKind> kKinds{
      {"A100 nodes, InfiniBand or RoCE",
       "",
       {"dgx-a100"},
       {"dgx-a100", "selene", "hgx-a100-8x200g", "internevo-a100", "jean-zay", "mdx"}},
      {"A100, Azure NDv4", "A100 nodes, InfiniBand or RoCE", {"azure-ndv4"}, {"azure-ndv4"}},
      {"A100, vTrain's nodes", "A100 nodes, InfiniBand or RoCE", {"a100-4hdr"}, {"a100-4hdr"}},
      {"A100, OCI", "A100 nodes, InfiniBand or RoCE", {"oci-bm-gpu4"}, {"oci-bm-gpu4"}},
      {"A100, ABCI", "A100 nodes, InfiniBand or RoCE", {"abci-a"}, {"abci-a"}, 0, true, true},
      {"A100, EFA", "A100 nodes, InfiniBand or RoCE", {"aws-p4de"}, {"aws-p4de", "aws-p4d"}, 75},
      {"A100, Slingshot",
       "A100 nodes, InfiniBand or RoCE",
       {"polaris"},
       {"polaris", "frontier", "lumi", "aurora"},
       0,
       false},
      {"H100 and H200 nodes, InfiniBand or RoCE",
       "",
       {"dgx-h100", "dgx-h200", "azure-ndv5"},
       {"dgx-h100", "dgx-h200", "azure-ndv5", "meta-24k-h100", "abci-3", "grand-teton", "dgx-h800"}},
      {"H100, EFA", "H100 and H200 nodes, InfiniBand or RoCE", {"aws-p5"}, {"aws-p5"}, 35},
      {"H200, EFA", "H100, EFA", {"aws-p5en"}, {"aws-p5en"}, 35},
      {.name = "H100, TCPXO",
       .parent = "H100 and H200 nodes, InfiniBand or RoCE",
       .measured = {"gcp-a3mega"},
       .topologies = {"gcp-a3mega"},
       .hops_of_parent = true},
      {"H100 in a mesh of 4",
       "H100 and H200 nodes, InfiniBand or RoCE",
       {"snellius"},
       {"snellius", "tsubame-4", "jupiter"}},
      {"H100 in a mesh of 4, Slingshot", "H100 in a mesh of 4", {"kestrel"}, {"kestrel"}, 0, false},
      {"B200 and B300 nodes",
       "H100 and H200 nodes, InfiniBand or RoCE",
       {"dgx-b200", "hgx-b300"},
       {"dgx-b200", "hgx-b300"}},
      {.name = "B200, GCP",
       .parent = "B200 and B300 nodes",
       .measured = {"gcp-a4"},
       .topologies = {"gcp-a4"},
       .hops_of_parent = true},
      {"GB200 and GB300 racks",
       "B200 and B300 nodes",
       {"gb200-nvl72", "gb300-nvl72", "oci-gb200"},
       {"gb200-nvl72", "gb300-nvl72", "oci-gb200"}},
      {.name = "MI300X",
       .parent = "A100 nodes, InfiniBand or RoCE",
       .measured = {"hgx-mi300x"},
       .topologies = {"hgx-mi300x"},
       .hops_of_parent = true},
      {"PCIe", "", {"rtx-pro-6000-pcie"}, {"rtx-pro-6000-pcie"}}};
  return kKinds;
}

std::vector<PreparedSample> prepare(const Cluster& cluster, const std::vector<const CollectiveSample*>& samples) {
  using Curve = std::tuple<std::string, std::string, Collective, int, Algorithm>;
  const auto curve_of = [](const CollectiveSample& s) {
    return Curve{s.source, s.system, s.call.collective, s.ranks, s.call.algorithm};
  };
  std::map<Curve, double> weights;
  const auto own_weight = [](const CollectiveSample& s) { return s.call.size.count > 1 << 20 ? 2.0 : 1.0; };
  for (const CollectiveSample* sample : samples) weights[curve_of(*sample)] += own_weight(*sample);
  std::map<std::tuple<int, int, int>, GroupPlacement> groups;
  std::vector<PreparedSample> prepared;
  for (const CollectiveSample* sample : samples) {
    const auto [found, added] = groups.try_emplace({sample->ranks, sample->ranks_per_domain, sample->nodes});
    if (added) found->second = placement_of(cluster, *sample);
    prepared.push_back({sample, found->second, own_weight(*sample) / weights[curve_of(*sample)]});
  }
  return prepared;
}

namespace {

/// Weighted mean |log(predicted / measured)| under a tuning.
double log_error(const std::vector<Machine>& machines, const CollectiveTuning& tuning) {
  LogError error;
  for (const Machine& machine : machines) {
    Cluster cluster = machine.cluster;
    cluster.tuning = tuning;
    const auto network = make_analytic_network(cluster, machine.architecture);
    for (const PreparedSample& prepared : machine.samples)
      error.add(seconds(network->cost(prepared.sample->call, prepared.group).duration), prepared.sample->seconds,
                prepared.weight);
  }
  return error.mean();
}

/// Of the free parameters, with the smallest error.
std::vector<double> fitted_values(const std::vector<Machine>& machines, const CollectiveTuning& start,
                                  const std::vector<Free>& free, int evaluations) {
  std::vector<Parameter> parameters;
  for (const Free& f : free) parameters.push_back(f.range);
  const auto loss = [&](const std::vector<double>& values) { return log_error(machines, with(start, free, values)); };
  std::vector<double> values = minimize(parameters, loss, evaluations);
  // A parent's minimum may lead into a worse one nearby: once more from NCCL's own numbers.
  std::vector<Parameter> own = parameters;
  const std::vector<Free> standard = free_parameters(machines, CollectiveTuning{});
  for (std::size_t i = 0; i < own.size(); ++i) own[i].start = standard[i].range.start;
  const std::vector<double> others = minimize(own, loss, evaluations);
  if (loss(others) < loss(values)) values = others;
  return values;
}

}  // namespace

CollectiveTuning fit_tuning(const std::vector<Machine>& machines, const CollectiveTuning& start, int evaluations) {
  const std::vector<Free> free = free_parameters(machines, start);
  const std::vector<double> values =
      free.empty() ? std::vector<double>() : fitted_values(machines, start, free, evaluations);
  CollectiveTuning tuning = with(start, free, values);
  tuning.residual = log_error(machines, tuning);
  if (few_samples(machines)) tuning.residual = std::max(tuning.residual, start.residual);
  tuning.data = sources_of(machines);
  return tuning;
}

}  // namespace tracecast::accuracy
