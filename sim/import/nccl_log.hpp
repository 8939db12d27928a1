/// \file
/// NCCL's own log (NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=COLL,TUNING): which collectives ran, and how NCCL chose to run them.
///
///   … NCCL INFO AllReduce: opCount 0 … count 16 datatype 7 … [nranks=32] stream …
///   … NCCL INFO 64 Bytes -> Algo 0 proto 0 time 49.675526                                 (until 2.1x: numbers)
///   … NCCL INFO AllReduce: 4 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..0}       (later: names)
///   … NCCL INFO     Broadcast |     0.0/   0.0 | … |                                      (latency us / bandwidth GB/s)
///
/// Other lines are passed over: logs of several ranks are mixed, and into the output of nccl-tests.
/// Source: docs/references.md#format-nccl; docs/formats/nccl_log.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/network/network_model.hpp"

namespace tracecast {

/// What NCCL chose for one size; the same choice of all ranks is one entry.
struct NcclChoice {
  Collective collective = Collective::all_reduce;
  std::int64_t bytes = 0;
  Algorithm algorithm = Algorithm::automatic;
  Protocol protocol = Protocol::automatic;
  int channels = 0;       ///< 0: not said
  double time_us = 0;     ///< as NCCL forecast it; 0: not said
  std::int64_t seen = 0;  ///< lines
  bool operator==(const NcclChoice&) const = default;
};

/// A cell of the table that NCCL prints when a communicator is made; without bandwidth it cannot be chosen.
struct NcclTableCell {
  Collective collective = Collective::all_reduce;
  Algorithm algorithm = Algorithm::automatic;
  Protocol protocol = Protocol::automatic;
  double latency_us = 0;
  double bandwidth_gb_s = 0;
  bool operator==(const NcclTableCell&) const = default;
};

struct NcclLog {
  std::int64_t calls = 0;           ///< lines of collectives begun
  int ranks = 0;                    ///< of the largest communicator; 0: not said
  std::vector<NcclChoice> choices;  ///< by collective and size
  std::vector<NcclTableCell> table;
  std::int64_t left_out = 0;  ///< lines of a call or choice that are cut in two, or of a collective without a name here
};

/// Errors: no line of a collective, a choice or the table; a choice whose algorithm, protocol or size is none.
Result<NcclLog> read_nccl_log(std::string_view text, const std::string& file);

}  // namespace tracecast
