/// What each parallel axis of a plan asks of the links that it runs on, beside what they can give.
///
/// Counted from the step graph: what the collectives and messages of an axis send in a step, divided into what stays in a
/// scale-up domain and what leaves it.
///
///   ring over k ranks in each of several nodes   (k-1)/k of what a rank sends goes over GPU links, 1/k over NICs
///   all_to_all over n ranks                      (n-k)/(n-1) over NICs, the rest over GPU links
///   message between stages                       GPU links in a node, else NICs
///
/// required    bytes / time: the rate at which the axis never keeps the step waiting, if it sends evenly
/// available   per GPU and direction: the vendor's rate of its links, or its share of the line rate of the NICs that its
///             group can call its own
/// Source      docs/references.md#case-studies (required <= available, per axis and per GPU),
///             docs/references.md#data-parallel-traffic (bandwidth per node)
/// Leaves out  latency, protocols, oversubscription above the leaves, DeepEP inside a node, other axes on the same links
#pragma once

#include <string>
#include <vector>

namespace tracecast {

struct StepGraph;
struct Plan;
struct Cluster;

enum class LinkClass { gpu_link, network };
/// "nvlink", "xgmi", "pcie"; "network".
std::string link_name(LinkClass link, const Cluster& cluster);

/// One axis on one class of links. Of all ranks the one that keeps these links busiest.
struct AxisBandwidth {
  std::string axis;       ///< "tp", "cp", "ep", "dp", "pp" (with tied embeddings' gradients)
  std::string link;       ///< link_name
  int ranks = 1;          ///< of the axis' largest group
  int nodes = 1;          ///< that it lies on
  double sent_bytes = 0;  ///< by one GPU in a step
  double required = 0;    ///< bytes per second
  double available = 0;   ///< bytes per second; the mean over the groups of the axis, by bytes
  /// Above 1 the links cannot keep up, and the step waits for them however well it overlaps.
  double ratio() const { return available > 0 ? required / available : 0; }
};

/// In the order tp, cp, ep, dp, pp, GPU links first; axes that send nothing are left out.
/// `time_s`: that the transfers may take in all; the step without what it waited for transfers.   Requires time_s > 0
std::vector<AxisBandwidth> required_bandwidth(const StepGraph& graph, const Plan& plan, const Cluster& cluster,
                                              double time_s);

}  // namespace tracecast
