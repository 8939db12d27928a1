/// \file
/// A job over several sites: the fabric of one site, and long links between sites as its top tier.
///
///   tier "site"   nodes           nodes of the job / sites
///                 oversubscription what leaves the fabric of a site / wan_rate
///                 hop_latency     wan_latency
///
/// Units of the fabric that are as large as a site or larger become the site; rails keep leaves of their own below it.
/// Sites are numbered as the ranks are: the slowest axis of the layout crosses them.
/// Leaves out: links of different rates between sites, routes through a third site, lost packets, encryption, other traffic.
/// A long link has its full rate however long it is: transport windows are assumed to be large enough.
#pragma once

#include <string>

#include "sim/network/cluster.hpp"

namespace tracecast {

/// Why a job of this cluster's size cannot be divided into these sites; empty: it can.
std::string sites_error(const Cluster& cluster, const Sites& sites);

/// Whether the members of a group are at several sites.
bool spans_sites(const Cluster& cluster, const GroupPlacement& group);

/// The site of a rank.   Requires use_sites
int site_of(const Cluster& cluster, int rank);

/// Puts the tier of the sites on top of the fabric of one.
/// Requires sites_error() empty; world_size set, and for racks the GPUs of each (use_racks)
void use_sites(Cluster& cluster, const Sites& sites);

/// After a change of the NICs: what leaves a site is relative to them, and the links between sites keep their rate.
void renew_sites(Cluster& cluster);

}  // namespace tracecast
