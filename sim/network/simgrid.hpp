/// \file
/// The SimGrid network model: simulates every point-to-point flow of every round. The reference for the other two models.
///
/// A transfer is an actor: for each round it sleeps its share of the latency, posts the flows, and waits for all of them.
/// SimGrid shares links between them. One more link on each path limits every flow separately to the rate that it has alone, since
/// SimGrid ignores rates of messages from host to host; flows of a round that are smaller than its largest move in proportion, as
/// the edges of a pipelined tree do. Its corrections for TCP are switched off: model CM02, latency and
/// bandwidth factors 1, no cross-traffic, no TCP window, no RTT weights.
///
/// SimGrid is a singleton whose clock cannot be reset, so each simulation has its own child process; the driver runs inside
/// an actor there. For small cases: up to kMaxHosts ends of flows, 10,000 to 70,000 flows per second.
///
/// Needs libsimgrid-dev 3.32 when Tracecast is built, for the module libtracecast_simgrid.so that the child loads. Without
/// it run() returns an error.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/network/cluster_links.hpp"
#include "sim/network/flow_network.hpp"

namespace tracecast {

bool simgrid_is_built_in();

/// Uses the network, and returns its result as text.
using SimGridDriver = std::function<std::string(FlowNetwork&)>;

class SimGridNetwork {
 public:
  static constexpr std::size_t kMaxHosts = 4096;

  explicit SimGridNetwork(const ClusterLinks& links) : links_(links) {}

  /// Registers a kind of transfer, before run(). Returns its number.
  std::int32_t add_kind(const CollectiveCost& cost, const FlowSchedule& schedule, const FlowGroup& group);

  /// Runs `driver` with the network in a child process. Returns its result.
  /// Errors: too many hosts, no SimGrid in this build, a child that failed.
  Result<std::string> run(const SimGridDriver& driver) const;

  // ---- For the child -------------------------------------------------------------------------------------------------

  struct Flow {
    std::int32_t source = 0;  ///< hosts
    std::int32_t target = 0;
    std::int64_t bytes = 0;
  };
  struct Round {
    std::vector<Flow> flows;
    std::int64_t count = 1;
  };
  struct Kind {
    double round_latency_s = 0;
    std::vector<Round> rounds;
  };
  struct Path {
    std::int32_t source = 0;
    std::int32_t target = 0;
    std::int64_t rate = 0;  ///< limit of each flow
    LinkPath links;
  };
  const std::vector<Kind>& kinds() const { return kinds_; }
  const std::vector<Path>& paths() const { return paths_; }
  std::int32_t hosts() const { return static_cast<std::int32_t>(hosts_.size()); }
  /// Bytes per second of the links on the paths.
  const std::map<std::int32_t, std::int64_t>& capacities() const { return capacities_; }

 private:
  std::int32_t host(const std::string& name);

  const ClusterLinks& links_;
  std::vector<Kind> kinds_;
  std::vector<Path> paths_;
  std::map<std::int32_t, std::int64_t> capacities_;
  std::map<std::string, std::int32_t> hosts_;
  std::set<std::pair<std::int32_t, std::int32_t>> known_paths_;
};

}  // namespace tracecast
