/// \file
/// Measured collectives of other tools:
///
///   nccl-tests        the table that all_reduce_perf and its siblings print, or their JSON (-J)
///   nccl-inspector    lines of JSON of NCCL's inspector plug-in, one file a process
///
/// Times are out-of-place where there are both. Tables often do not say which collective they are of: then it is concluded from
/// busbw / algbw (2 (n-1)/n, (n-1)/n or 1), the reduction and the root.
/// Source: docs/references.md#format-nccl, docs/references.md#bus-bandwidth; docs/formats/collectives.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/collective.hpp"
#include "sim/base/result.hpp"
#include "sim/base/units.hpp"
#include "sim/cost/profile.hpp"
#include "sim/network/cluster.hpp"

namespace tracecast {

struct MeasuredCall {
  MeasuredCollective measured;  ///< size and ranks as nccl-tests counts them
  int nodes = 1;
  bool operator==(const MeasuredCall&) const = default;
};

struct CollectiveMeasurements {
  std::string format;               ///< its title
  std::string gpu;                  ///< "" where not said
  std::vector<MeasuredCall> calls;  ///< each collective, number of ranks and nodes, and size once; ascending
  std::vector<std::string> notes;   ///< what was left out, and why
};

/// Errors: no row of a table; a table without ranks or whose collective cannot be told.
Result<CollectiveMeasurements> read_nccl_tests(std::string_view text, const std::string& file);
/// Errors: no record; a line that is none (with its number); the summary CSV of the exporter, which names no collective.
Result<CollectiveMeasurements> read_nccl_inspector(std::string_view text, const std::string& file);

/// As CSV: collective, ranks, nodes, bytes, time_us, busbw_gb_s, spread, samples; with a `topology` this is the first column.
std::string to_csv(const CollectiveMeasurements& measurements, const std::string& topology = "");

/// A profile whose collectives are the measured ones.
struct ProfileWithCollectives {
  Profile profile;
  std::int64_t taken = 0;          ///< on one host
  std::int64_t taken_between = 0;  ///< between hosts
  std::int64_t left_out = 0;       ///< between hosts, without a machine or not as many ranks on each host
};

/// Puts the measurements into `base`, in place of what it has of the same collective, ranks, hosts and size. Those between hosts need
/// `machine`, whose NICs they were measured with, and whose hosts are scale-up domains of their own; nullptr: they are left out.
/// Errors: the measurements name another GPU than the profile's; a rate that the GPU cannot reach (sim/cost/plausible.hpp),
/// or that is above its NVLinks (gpu_facts.hpp).
Result<ProfileWithCollectives> with_collectives(Profile base, const CollectiveMeasurements& measurements,
                                                const Cluster* machine = nullptr);

}  // namespace tracecast
