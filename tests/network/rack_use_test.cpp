#include "sim/network/rack_use.hpp"

#include <array>

#include <catch2/catch.hpp>

namespace tracecast {
namespace {

NodeSpec nvl72() {
  NodeSpec node;
  node.gpus = 72;
  node.gpus_per_host = 4;
  return node;
}

TEST_CASE("racks: a job gets equal parts of them, in whole trays", "[oracle][network][racks]") {
  const auto used = [](int world_size, int max_nodes = 0) {
    return gpus_used_per_rack(nvl72(), max_nodes, world_size, {});
  };
  CHECK(used(256) == 64);      // 256 / 72 and 256 / 68 are not whole, 256 / 64 = 4 racks
  CHECK(used(72 * 16) == 72);  // whole racks
  CHECK(used(96) == 48);       // two racks of 12 trays
  CHECK(used(64) == 72);       // fits in one rack: the rule does not apply
  CHECK(used(72) == 72);
  CHECK(used(146) == 72);  // 146 = 2 x 73: no part of more than 36 GPUs divides it
  CHECK(used(256, 4) == 64);
  CHECK(used(256, 3) == 72);  // 64 of 3 racks are too few; 72 of them are as well, which the reader reports
  NodeSpec host;              // a DGX: one host is the domain
  CHECK(gpus_used_per_rack(host, 0, 12, {}) == 8);
}

TEST_CASE("racks: groups decide where several parts divide the job", "[oracle][network][racks]") {
  const auto used = [](int world_size, std::vector<int> spans) {
    return gpus_used_per_rack(nvl72(), 0, world_size, spans);
  };
  // 1,152 = 16 x 72 = 18 x 64 = 24 x 48. Groups of 8 stay inside racks of 72; groups of 32 do not: 72 = 2 x 32 + 8.
  CHECK(used(1152, {8}) == 72);
  CHECK(used(1152, {8, 32}) == 64);
  CHECK(used(1152, {64}) == 64);
  CHECK(used(1152, {128}) == 64);  // two racks each, not up to three
  CHECK(used(1152, {16}) == 64);
  CHECK(used(1152, {48}) == 48);
  CHECK(used(1152, {72}) == 72);
  CHECK(used(1152, {5}) == 72);  // aligned with nothing: the largest
  CHECK(rack_choices(nvl72(), 0, 1152) == std::vector<int>{72, 64, 48});
}

TEST_CASE("racks: a part is used, the rest stays installed", "[network][racks]") {
  NodeSpec node = nvl72();
  use_gpus_per_rack(node, 64);
  CHECK(std::pair(node.gpus, node.installed_gpus) == std::pair(64, 72));
  use_gpus_per_rack(node, 48);
  CHECK(std::pair(node.gpus, node.installed_gpus) == std::pair(48, 72));
  CHECK(whole_racks(node).gpus == 72);
  use_gpus_per_rack(node, 72);
  CHECK(std::pair(node.gpus, node.installed_gpus) == std::pair(72, 0));
}

TEST_CASE("racks: what a scenario cannot ask for", "[error][network][racks]") {
  CHECK(gpus_per_rack_error(nvl72(), 0, 256, 64).empty());
  CHECK(gpus_per_rack_error(nvl72(), 4, 256, 64).empty());
  CHECK(gpus_per_rack_error(nvl72(), 3, 256, 64) == "leaves 192 GPUs of 3 racks, fewer than cluster.world_size = 256");
  CHECK(gpus_per_rack_error(nvl72(), 0, 256, 76) == "must be whole hosts of 4 GPUs (allowed: multiples of 4 up to 72)");
  CHECK(gpus_per_rack_error(NodeSpec{}, 0, 256, 4) ==
        "needs a topology with several hosts in a scale-up domain (node.gpus_per_host)");
}

}  // namespace
}  // namespace tracecast
