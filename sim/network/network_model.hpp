/// \file
/// The cost of a collective on a group of ranks: one interface for models without link sharing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/collective.hpp"
#include "sim/base/units.hpp"
#include "sim/cost/costs.hpp"
#include "sim/network/cluster.hpp"

namespace tracecast {

/// `automatic`, then those of algorithms.def.
enum class Algorithm {
  automatic,
#define ALGORITHM(name, row) name,
#include "sim/network/algorithms/algorithms.def"
#undef ALGORITHM
};
template <>
struct EnumNames<Algorithm> {
  static constexpr NamedValue<Algorithm> table[] = {
      {Algorithm::automatic, "automatic"},
#define ALGORITHM(name, row) {Algorithm::name, #name},
#include "sim/network/algorithms/algorithms.def"
#undef ALGORITHM
  };
};

/// How concurrent transfers affect each other: not at all, by shared links, or by shared links flow by flow.
enum class NetworkKind { isolated, fluid, simgrid };
template <>
struct EnumNames<NetworkKind> {
  static constexpr NamedValue<NetworkKind> table[] = {
      {NetworkKind::isolated, "isolated"}, {NetworkKind::fluid, "fluid"}, {NetworkKind::simgrid, "simgrid"}};
};

enum class Protocol { automatic, ll, ll128, simple };
template <>
struct EnumNames<Protocol> {
  static constexpr NamedValue<Protocol> table[] = {{Protocol::automatic, "automatic"},
                                                   {Protocol::ll, "ll"},
                                                   {Protocol::ll128, "ll128"},
                                                   {Protocol::simple, "simple"}};
};

/// One call. `size` is what nccl-tests prints: the buffer for all_reduce and broadcast; the large side (ranks x the share
/// of one) for all_gather and reduce_scatter; the sum of what one rank sends for all_to_all; the message for send_recv.
struct CollectiveCall {
  Collective collective = Collective::all_reduce;
  Bytes size;
  Algorithm algorithm = Algorithm::automatic;
  Protocol protocol = Protocol::automatic;
  Bandwidth limit = {};  ///< all_to_all: size / time that its kernels reach at most; 0: what the links allow
  /// all_to_all of a dispatcher that forwards: what one rank sends to the others of its domain, their tokens from other domains among
  /// it; 0: its share of `size`.
  Bytes forwarded = {};
  double link_share = 0;  ///< all_to_all of a dispatcher: of NVLink's rate what its kernels reach; 0: as NCCL's
  auto operator<=>(const CollectiveCall&) const = default;
};

struct CollectiveCost {
  Duration duration;
  Duration latency;   ///< the part of the duration that loads no link
  double spread = 0;  ///< relative standard deviation
  Algorithm algorithm = Algorithm::automatic;
  Protocol protocol = Protocol::automatic;
  int channels = 0;  ///< thread blocks that it occupies
  Provenance provenance = Provenance::analytic;
};

/// A model of durations without sharing. Immutable and thread-safe.
class NetworkModel {
 public:
  virtual ~NetworkModel() = default;
  /// A single rank takes no time.   Requires a call for which unsupported_reason() is empty
  virtual CollectiveCost cost(const CollectiveCall& call, const GroupPlacement& group) const = 0;
};

/// Latency and bandwidth by algorithm and protocol, chosen as NCCL's tuner chooses, corrected by measured busbw.
/// Source: docs/references.md#nccl-tuning, docs/references.md#collective-tuning, docs/references.md#rails.
/// `architecture` is the profile's.
std::unique_ptr<NetworkModel> make_analytic_network(const Cluster& cluster, const std::string& architecture);

/// Why NCCL cannot run this call on this group ("nvls needs an NVSwitch with multicast"); "" if it can. Check it before
/// `cost` where a user chose the algorithm.
std::string unsupported_reason(const Cluster& cluster, const std::string& architecture, const CollectiveCall& call,
                               const GroupPlacement& group);

/// algbw x the collective's factor, as nccl-tests defines it: all_reduce 2(n-1)/n; all_gather, reduce_scatter,
/// all_to_all (n-1)/n; others 1.
double bus_bandwidth(Collective collective, int ranks, Bytes size, Duration duration);

/// Share of what a rank sends that leaves its domain or site, which has `inside` ranks of the group: a ring leaves it once for all
/// of them.   Requires a group that has others outside
double share_leaving(Collective collective, const GroupPlacement& group, double inside);

}  // namespace tracecast
