#include "sim/network/network_hardware.hpp"

#include <catch2/catch.hpp>

#include "sim/io/files.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shipped.hpp"

namespace tracecast {
namespace {

NetworkHardware hardware(
    const std::string& machine, int gpus, void (*change)(Cluster&) = [](Cluster&) {}) {
  Cluster cluster = shipped_topology(machine);
  cluster.world_size = gpus;
  change(cluster);
  return network_hardware(cluster);
}

// A calculation of August 2024 (docs/references.md#network-prices): 8 switches of 64 ports for 512 NICs in one tier, 48 for 1,024 in
// two, 2,560 for 32,768 in three; connectors and cables of 1,320, 2,560 and 3,800 dollars per GPU.
TEST_CASE("network hardware: ports and cables of published fat trees", "[network][oracle]") {
  const NetworkHardware two = hardware("dgx-h100", 1024);
  CHECK(two.ports == Approx(400.0 * 48 * 64 / 1024));
  CHECK(two.cables == Approx(2 * 400));
  const NetworkHardware three = hardware("dgx-h100", 32768);
  CHECK(three.ports == Approx(400.0 * 2560 * 64 / 32768));
  CHECK(three.cables == Approx(3 * 400));
}

TEST_CASE("network hardware: oversubscription saves uplinks, a job in one domain needs none", "[network]") {
  const auto halved = [](Cluster& c) { c.tiers.front().oversubscription = 2; };
  CHECK(hardware("dgx-h100", 1024, halved).ports == Approx(2 * 400));
  CHECK(hardware("dgx-h100", 1024, halved).cables == Approx(1.5 * 400));
  const auto half_the_nics = [](Cluster& c) { c.node.nics = 4; };
  CHECK(hardware("dgx-h100", 1024, half_the_nics).cables == Approx(2 * 200));
  CHECK(hardware("dgx-h100", 8) == NetworkHardware{});
  CHECK(hardware("gb200-nvl72", 64) == NetworkHardware{});
  // ABCI-A's structure is unknown: 480 NICs of 200 Gb/s, two GPUs each, need two tiers of 64-port switches, 64 NICs one.
  CHECK(hardware("abci-a", 960).ports == Approx(3 * 100));
  CHECK(hardware("abci-a", 128).ports == Approx(100));
}

}  // namespace
}  // namespace tracecast
