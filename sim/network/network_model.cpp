#include "sim/network/network_model.hpp"

#include "sim/base/result.hpp"

namespace tracecast {

const char* to_string(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::all_gather:
      return "all_gather";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::all_to_all:
      return "all_to_all";
    case Collective::broadcast:
      return "broadcast";
    case Collective::send_recv:
      return "send_recv";
  }
  TRACECAST_ASSERT(false, "a collective has no name");
  return "";
}

const char* to_string(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::automatic:
      return "automatic";
    case Algorithm::ring:
      return "ring";
    case Algorithm::tree:
      return "tree";
    case Algorithm::nvls:
      return "nvls";
    case Algorithm::nvls_tree:
      return "nvls_tree";
    case Algorithm::collnet_direct:
      return "collnet_direct";
    case Algorithm::collnet_chain:
      return "collnet_chain";
    case Algorithm::pat:
      return "pat";
    case Algorithm::direct:
      return "direct";
  }
  TRACECAST_ASSERT(false, "an algorithm has no name");
  return "";
}

const char* to_string(Protocol protocol) {
  switch (protocol) {
    case Protocol::automatic:
      return "automatic";
    case Protocol::ll:
      return "ll";
    case Protocol::ll128:
      return "ll128";
    case Protocol::simple:
      return "simple";
  }
  TRACECAST_ASSERT(false, "a protocol has no name");
  return "";
}

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

}  // namespace tracecast
