/// \file
/// The links of a cluster up to rotations of its scale-up domains.
///
/// A rotation by g GPUs moves GPU i of every domain to place i + g, modulo the GPUs of a domain, and moves ports and rails
/// along. If all ports work alike, it maps links to links of one capacity, and the path between two ranks to the path
/// between the ranks that they are moved to. The links that rotations by multiples of g map to each other are an orbit.
/// Orbits are numbered by their first link.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/network/fabric.hpp"

namespace tracecast {

class LinkOrbits {
 public:
  /// `gpus`, `ports`: of one domain, `domains` of them; `step`: GPUs of one rotation; `fabric`: the tiers of a fabric of
  /// bundles, as numbered by cluster_links.hpp.   Requires that `step` divides `gpus` and moves ports by whole ports
  LinkOrbits(int gpus, int ports, int domains, int step, std::span<const TreeFabric::Level> fabric);

  /// Rotations by multiples of the step: GPUs of a domain / step. 1: each link is an orbit of its own.
  int order() const { return gpus_ / step_; }
  /// The rank that `rank` is moved to by `times` steps.   Requires domains with one rank on each GPU, in order
  int rotated_rank(int rank, int times) const {
    const int place = rank % gpus_;
    return rank - place + (place + times * step_) % gpus_;
  }
  /// True for one rank of each orbit of ranks.
  bool is_first_rank(int rank) const { return rank % gpus_ < step_; }
  std::int32_t rotated(std::int32_t link, int times) const;

  std::int32_t count() const { return count_; }
  std::int32_t orbit_of(std::int32_t link) const;
  std::int32_t first_link(std::int32_t orbit) const;
  /// Links of an orbit; a divisor of order().
  int size(std::int32_t orbit) const;
  /// The orbit of the link that is `domains` further.   Requires ClusterLinks::is_translation()
  std::int32_t translated(std::int32_t orbit, int domains) const;

 private:
  /// The bundles of a tier below the top.
  struct TierOrbits {
    int domains = 0;        ///< of one unit
    int planes = 1;         ///< of one unit
    std::int32_t base = 0;  ///< number of its first link
    int plane_orbits = 1;   ///< orbits of a unit's planes
    std::int32_t base_orbit = 0;
  };
  const TierOrbits& tier_of_link(std::int32_t link) const;
  const TierOrbits& tier_of_orbit(std::int32_t orbit) const;

  int gpus_;
  int ports_;
  int step_;
  int port_step_;
  std::int32_t domain_links_;  ///< of all domains
  std::int32_t domain_orbits_;
  std::int32_t count_;
  std::vector<TierOrbits> tiers_;
};

}  // namespace tracecast
