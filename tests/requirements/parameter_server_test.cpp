// Parameter servers in closed form. Source: docs/references.md#parameter-server
#include "sim/network/parameter_server.hpp"

#include <numeric>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/network/network_model.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;
using tracecast::test::eight_workers;
using tracecast::test::small_scenario;

namespace {

ParameterServers servers(int count) {
  std::vector<int> all(8);
  std::iota(all.begin(), all.end(), 0);
  return parameter_servers(eight_workers(), place(eight_workers(), all, 1), count);
}

}  // namespace

TEST_CASE("parameter servers take W^2/(Q(W-1)) times a ring", "[row-2-3][row-2-4][requirements][network][oracle]") {
  const Bytes size{1'000'000'000};
  CHECK(push_s(servers(1), size) + push_s(servers(1), size) == Approx(1.28));
  CHECK(push_s(servers(4), size) + push_s(servers(4), size) == Approx(0.32));
  CHECK(push_s(servers(100), size) == Approx(0.08));  // never less than a worker's own link
  // One server's port is busy all the time: eight workers' bytes at its line rate, once in and once out.
  CHECK(8 * 1e9 / push_s(servers(1), size) == Approx(12.5e9));
  CHECK(8 * 1e9 / push_s(servers(100), size) < 100 * 12.5e9);
  // The ring's wire time is its bytes over the same NICs.
  const double ring = bus_bandwidth(Collective::all_reduce, 8, size, from_seconds(1)) / 12.5e9;
  CHECK(ring == Approx(0.14));
  CHECK(2 * push_s(servers(1), size) / ring == Approx(64.0 / 7));  // 9.14
  CHECK(2 * push_s(servers(4), size) / ring == Approx(64.0 / 28));
}

TEST_CASE("servers on one machine use its links, PCIe where there is no NVLink", "[row-2-5][requirements][network]") {
  Cluster cluster = small_scenario(1, 1, 8).cluster;
  std::vector<int> all(8);
  std::iota(all.begin(), all.end(), 0);
  CHECK(parameter_servers(cluster, place(cluster, all, 1), 1).worker_rate == 450e9);
  cluster.node.link = IntraLink::pcie;
  CHECK(parameter_servers(cluster, place(cluster, all, 1), 1).worker_rate ==
        static_cast<double>(cluster.node.pcie.bytes_per_second));
}
