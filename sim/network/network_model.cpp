#include "sim/network/network_model.hpp"

namespace tracecast {

namespace {

double bus_factor(Collective collective, double ranks) {
  switch (collective) {
    case Collective::all_reduce:
      return 2 * (ranks - 1) / ranks;
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return (ranks - 1) / ranks;
    case Collective::broadcast:
    case Collective::send_recv:
      break;
  }
  return 1;
}

}  // namespace

double bus_bandwidth(Collective collective, int ranks, Bytes size, Duration duration) {
  if (duration.picoseconds == 0) return 0;
  return static_cast<double>(size.count) / seconds(duration) * bus_factor(collective, ranks);
}

double share_leaving(Collective collective, const GroupPlacement& group, double inside) {
  if (collective == Collective::all_to_all) return (group.ranks - inside) / (group.ranks - 1);
  return 1 / inside;
}

}  // namespace tracecast
