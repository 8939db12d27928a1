#include "sim/network/link_orbits.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "sim/base/result.hpp"

namespace tracecast {

LinkOrbits::LinkOrbits(int gpus, int ports, int domains, int step, int block, std::span<const TreeFabric::Level> fabric)
    : gpus_(gpus), ports_(ports), step_(step), block_(block), port_step_(ports * step / gpus) {
  TRACECAST_ASSERT(gpus % step == 0 && ports * step % gpus == 0, "a rotation moves GPUs to GPUs and ports to ports");
  TRACECAST_ASSERT(domains % block == 0, "the cluster has whole blocks");
  domain_links_ = domains * 2 * (gpus_ + ports_);
  count_ = domain_orbits_ = domains / block_ * 2 * (step_ + port_step_);
  std::int32_t links = domain_links_;
  for (const TreeFabric::Level& level : fabric) {
    if (level.up == 0) break;
    const int plane_orbits = std::gcd(port_step_, level.groups);
    tiers_.push_back({level.nodes, level.groups, links, plane_orbits, count_});
    links += 2 * level.units * level.groups;
    count_ += 2 * level.units * plane_orbits;
  }
}

const LinkOrbits::TierOrbits& LinkOrbits::tier_of_link(std::int32_t link) const {
  return *std::prev(
      std::find_if(tiers_.begin(), tiers_.end(), [&](const TierOrbits& each) { return each.base > link; }));
}

const LinkOrbits::TierOrbits& LinkOrbits::tier_of_orbit(std::int32_t orbit) const {
  return *std::prev(
      std::find_if(tiers_.begin(), tiers_.end(), [&](const TierOrbits& each) { return each.base_orbit > orbit; }));
}

std::int32_t LinkOrbits::rotated(std::int32_t link, int symmetry) const {
  const int times = symmetry % rotations();
  if (link < domain_links_) {
    const std::int32_t domain = link / (2 * (gpus_ + ports_));
    const std::int32_t local = link % (2 * (gpus_ + ports_));
    const bool gpu = local < 2 * gpus_;
    const int places = gpu ? gpus_ : ports_;
    const int place = (gpu ? local : local - 2 * gpus_) % places;
    return link + (rotated_domain(domain, symmetry) - domain) * 2 * (gpus_ + ports_) +
           (place + times * (gpu ? step_ : port_step_)) % places - place;
  }
  const TierOrbits& tier = tier_of_link(link);
  const std::int32_t bundle = (link - tier.base) / 2;
  const std::int32_t plane = bundle % tier.planes;
  return link + 2 * ((plane + times * port_step_) % tier.planes - plane);
}

std::int32_t LinkOrbits::orbit_of(std::int32_t link) const {
  if (order() == 1) return link;
  if (link < domain_links_) {
    const std::int32_t domain = link / (2 * (gpus_ + ports_));
    std::int32_t local = link % (2 * (gpus_ + ports_));
    std::int32_t orbit = domain / block_ * 2 * (step_ + port_step_);
    if (local < 2 * gpus_) return orbit + local / gpus_ * step_ + local % step_;
    local -= 2 * gpus_;
    return orbit + 2 * step_ + local / ports_ * port_step_ + local % ports_ % port_step_;
  }
  const TierOrbits& own = tier_of_link(link);
  const std::int32_t bundle = (link - own.base) / 2;
  return own.base_orbit + 2 * (bundle / own.planes * own.plane_orbits + bundle % own.planes % own.plane_orbits) +
         (link - own.base) % 2;
}

std::int32_t LinkOrbits::first_link(std::int32_t orbit) const {
  if (order() == 1) return orbit;
  if (orbit < domain_orbits_) {
    const std::int32_t domain = orbit / (2 * (step_ + port_step_)) * block_;
    std::int32_t local = orbit % (2 * (step_ + port_step_));
    const std::int32_t link = domain * 2 * (gpus_ + ports_);
    if (local < 2 * step_) return link + local / step_ * gpus_ + local % step_;
    local -= 2 * step_;
    return link + 2 * gpus_ + local / port_step_ * ports_ + local % port_step_;
  }
  const TierOrbits& own = tier_of_orbit(orbit);
  const std::int32_t bundle = (orbit - own.base_orbit) / 2;
  return own.base + 2 * (bundle / own.plane_orbits * own.planes + bundle % own.plane_orbits) +
         (orbit - own.base_orbit) % 2;
}

int LinkOrbits::size(std::int32_t orbit) const {
  if (order() == 1 || orbit < domain_orbits_) return order();
  const TierOrbits& own = tier_of_orbit(orbit);
  return own.planes / own.plane_orbits;
}

std::int32_t LinkOrbits::translated(std::int32_t orbit, int domains) const {
  if (orbit < domain_orbits_) return orbit + domains / block_ * 2 * (step_ + port_step_);
  const TierOrbits& own = tier_of_orbit(orbit);
  return orbit + 2 * (domains / own.domains) * own.plane_orbits;
}

}  // namespace tracecast
