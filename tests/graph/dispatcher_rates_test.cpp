// Expert exchanges at the rates that DeepEP and HybridEP publish of their kernels.
#include <array>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/graph/layer.hpp"
#include "sim/network/nccl_tuning.hpp"
#include "sim/network/network_model.hpp"
#include "tests/support/models.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

Model deepseek_layer() {
  Model m = test::deepseek_v3();
  m.num_layers = 1;
  m.moe->leading_dense_layers = 0;
  return m;
}

struct Exchange {
  double bytes = 0;
  CollectiveCost cost;
};

/// A dispatch and a combine of 4,096 tokens on each of `ep` ranks alone.
std::vector<Exchange> exchanges(const Model& model, MoeDispatcher dispatcher, Precision dispatched,
                                const std::string& machine, int ep) {
  const Parallel parallel{.ep = ep, .moe_dispatcher = dispatcher};
  Training training{.seq_length = 4096, .global_batch_size = ep};
  training.moe_dispatch_dtype = dispatched;
  const Plan plan = value_of(make_plan(model, parallel, training, ep));
  Cluster cluster = shipped_topology(machine);
  cluster.world_size = ep;
  const GroupPlacement group = place_world(cluster);
  const auto network = make_analytic_network(cluster, std::string(architecture_of_gpu(cluster.gpu)));
  std::vector<Exchange> found;
  for (const Work& each : LayerWork(model, plan, group.nodes).forward(0))
    if (each.kind == Work::Kind::start && each.call.link_share > 0)
      found.push_back({static_cast<double>(each.call.size.count), network->cost(each.call, group)});
  REQUIRE(found.size() == 2);
  return found;
}

}  // namespace

TEST_CASE("moe: DeepEP between nodes is as fast as on H800", "[oracle][graph][moe][network]") {
  // 4,096 tokens in fp8; GB/s of tokens times the nodes that they reach. docs/references.md#deepep-forwarding
  for (const auto& [ep, measured] : {std::pair{16, 43.0}, std::pair{32, 58.0}, std::pair{64, 51.0}}) {
    CAPTURE(ep);
    const Exchange dispatch = exchanges(deepseek_layer(), MoeDispatcher::deepep, Precision::fp8, "dgx-h800", ep)[0];
    CHECK(dispatch.bytes / seconds(dispatch.cost.duration) * 1e-9 == Approx(measured).epsilon(0.1));
  }
}

TEST_CASE("moe: HybridEP is as fast as on H100, B200 and GB200", "[oracle][graph][moe][network]") {
  // Kernels of 16 SMs, 4,096 tokens in bf16, eight experts on each rank; GB/s of tokens times the nodes, in one domain the ranks,
  // that they reach. docs/references.md#hybridep-rates
  struct Measured {
    std::string machine;
    int ep;
    double dispatch;
    double combine;
  };
  const std::array<Measured, 9> table{{{"dgx-h100", 16, 71.71, 62.95},
                                       {"dgx-h100", 32, 57.69, 57.46},
                                       {"dgx-h100", 64, 49.97, 49.77},
                                       {"dgx-b200", 8, 734.95, 673.84},
                                       {"gb200-nvl72", 8, 750.15, 684.27},
                                       {"gb200-nvl72", 16, 661.93, 600.75},
                                       {"gb200-nvl72", 24, 637.80, 565.53},
                                       {"gb200-nvl72", 32, 629.79, 547.25},
                                       {"gb200-nvl72", 36, 612.85, 543.27}}};
  for (const Measured& each : table) {
    CAPTURE(each.machine, each.ep);
    Model model = deepseek_layer();
    model.moe->experts = 8 * each.ep;
    model.moe->routing_groups = model.moe->routing_group_limit = 0;
    const auto both = exchanges(model, MoeDispatcher::hybridep, Precision::bf16, each.machine, each.ep);
    const auto of_kernel = [](const Exchange& e) { return e.bytes / seconds(e.cost.duration - e.cost.latency) * 1e-9; };
    CHECK(of_kernel(both[0]) == Approx(each.dispatch).epsilon(0.1));
    CHECK(of_kernel(both[1]) == Approx(each.combine).epsilon(0.1));
  }
}
