/// \file
/// Bandwidth that each parallel axis of a plan requires of its links, and the available bandwidth.
///
/// From the step graph: the bytes that the collectives and messages of an axis send in a step, inside a scale-up domain
/// and out of it, and between sites (sites.hpp).
///
///   ring over k ranks in each of several nodes   (k-1)/k of the sent bytes over GPU links, 1/k over NICs
///   all_to_all over n ranks                      (n-k)/(n-1) over NICs, the rest over GPU links
///   message between stages                       GPU links in a node, else NICs
///   between sites                                as between nodes, k ranks in each of several sites; NICs and long link each count it
///
/// required    bytes / time: the rate at which the axis never keeps the step waiting, if it sends evenly
/// available   per GPU and direction: the vendor's rate of its links, or its share of the line rate of the NICs that its
///             group can call its own; of the long link of a site the share of one of its GPUs
/// Source      docs/references.md#case-studies (required <= available, per axis and per GPU),
///             docs/references.md#data-parallel-traffic (bandwidth per node)
/// Leaves out  latency, protocols, oversubscription above the leaves, DeepEP inside a node, other axes on the same links
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tracecast {

struct StepGraph;
struct Plan;
struct Cluster;
enum class Traffic : std::uint8_t;

enum class LinkClass { gpu_link, network, wan };
/// "nvlink", "xgmi", "pcie"; "network"; "wan".
std::string link_name(LinkClass link, const Cluster& cluster);

/// One axis on one class of links, for the rank that uses these links most.
struct AxisBandwidth {
  std::string axis;       ///< "tp", "cp", "ep", "dp", "pp" (with tied embeddings' gradients)
  std::string link;       ///< link_name
  int ranks = 1;          ///< of the largest group of the axis
  int nodes = 1;          ///< of this group
  double sent_bytes = 0;  ///< by one GPU in a step
  double required = 0;    ///< bytes per second
  double available = 0;   ///< bytes per second; the mean over the groups of the axis, by bytes
  /// Above 1 the step waits for these links even with perfect overlap; above kBusyLinks a page says what they cost.
  double ratio() const { return available > 0 ? required / available : 0; }
};

inline constexpr double kBusyLinks = 0.9;

/// Seconds of exposed communication of the row's axis, on all its links. `exposed_s`: by Traffic.
double exposed_of(const AxisBandwidth& row, std::span<const double> exposed_s);

/// The links that this traffic's axis loads, "nvlink and network"; "" if none.
std::string links_of(Traffic traffic, std::span<const AxisBandwidth> rows);

/// In the order tp, cp, ep, dp, pp, GPU links first, without axes that send nothing.
/// `time_s`: available for the transfers: the step without exposed communication. Requires time_s > 0.
std::vector<AxisBandwidth> required_bandwidth(const StepGraph& graph, const Plan& plan, const Cluster& cluster,
                                              double time_s);

}  // namespace tracecast
