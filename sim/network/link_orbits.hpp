/// \file
/// The links of a cluster up to symmetries: rotations of its scale-up domains, and of blocks of domains.
///
/// A rotation by g GPUs moves GPU i of every domain to place i + g, modulo the GPUs of a domain, and moves ports and rails
/// along. A rotation of blocks by one domain moves every domain to the place of the next one in its block of `block` domains, and
/// the last one to the first; units of the fabric have whole blocks. If all ports work alike, both map links to links of one
/// capacity, and the path between two ranks to the path between the ranks that they are moved to. The links that these rotations
/// map to each other are an orbit. Orbits are numbered by their first link.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/network/fabric.hpp"

namespace tracecast {

class LinkOrbits {
 public:
  /// `gpus`, `ports`: of one domain, `domains` of them; `step`: GPUs of one rotation; `block`: domains; `fabric`: the tiers of a
  /// fabric of bundles, as numbered by cluster_links.hpp.   Requires that `step` divides `gpus` and moves ports by whole ports,
  /// and that `block` divides the domains and those of all units
  LinkOrbits(int gpus, int ports, int domains, int step, int block, std::span<const TreeFabric::Level> fabric);

  /// Rotations by multiples of the step: GPUs of a domain / step.
  int rotations() const { return gpus_ / step_; }
  int block() const { return block_; }
  /// Of all symmetries. 1: each link is an orbit of its own. Symmetry t of them rotates domains by t % rotations() steps, and
  /// blocks by t / rotations() domains.
  int order() const { return rotations() * block_; }
  /// The rank that a symmetry moves `rank` to.   Requires domains with one rank on each GPU, in order
  int rotated_rank(int rank, int symmetry) const {
    const int domain = rank / gpus_;
    const int place = rank % gpus_;
    return rotated_domain(domain, symmetry) * gpus_ + (place + symmetry % rotations() * step_) % gpus_;
  }
  /// True for one rank of each orbit of ranks.
  bool is_first_rank(int rank) const { return rank % gpus_ < step_ && rank / gpus_ % block_ == 0; }
  /// The number of its orbit among those of ranks, in the order of their first ranks.
  std::int32_t orbit_of_rank(int rank) const { return rank / gpus_ / block_ * step_ + rank % gpus_ % step_; }
  std::int32_t rotated(std::int32_t link, int symmetry) const;

  std::int32_t count() const { return count_; }
  std::int32_t orbit_of(std::int32_t link) const;
  std::int32_t first_link(std::int32_t orbit) const;
  /// Links of an orbit; a divisor of order().
  int size(std::int32_t orbit) const;
  /// The orbit of the link that is `domains` further.   Requires ClusterLinks::is_translation(), and whole blocks
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

  int rotated_domain(int domain, int symmetry) const {
    const int place = domain % block_;
    return domain - place + (place + symmetry / rotations()) % block_;
  }

  int gpus_;
  int ports_;
  int step_;
  int block_;
  int port_step_;
  std::int32_t domain_links_;  ///< of all domains
  std::int32_t domain_orbits_;
  std::int32_t count_;
  std::vector<TierOrbits> tiers_;
};

}  // namespace tracecast
