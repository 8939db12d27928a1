// Jobs over several sites: the tier of the long links, and what crosses them.
#include "sim/network/sites.hpp"

#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"
#include "sim/graph/traffic.hpp"
#include "sim/network/cluster_links.hpp"
#include "sim/network/network_model.hpp"
#include "tests/network/small_clusters.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/small_scenario.hpp"

namespace tracecast::test {
namespace {

using namespace literals;

constexpr Bandwidth kWan{12'500'000'000};  // 100 Gb/s

TEST_CASE("sites: the fabric of a site ends in a tier with the long link's rate and latency",
          "[network][sites][oracle]") {
  Cluster cluster = small_cluster(128);  // 16 nodes; leaves of 4
  use_sites(cluster, {2, kWan, 20_ms});
  REQUIRE(cluster.tiers.size() == 3);
  CHECK(cluster.tiers[0].name == "leaf");
  CHECK(cluster.tiers[1].name == "site");
  CHECK(cluster.tiers[1].nodes == 8);
  CHECK(cluster.tiers[1].hop_latency == 20_ms);
  CHECK(cluster.tiers[1].oversubscription == Approx(8 * 8 * 50.0 / 12.5));  // 8 nodes of 8 NICs of 50 GB/s
  CHECK(cluster.tiers[2].nodes == 0);
  // The link of the solver: one way out of each site, at the rate of the long link.
  const ClusterLinks links(cluster, "hopper");
  LinkPath route;
  links.append_route(0, 64, -1, route);
  Bandwidth narrowest{1'000'000'000'000};
  for (const std::int32_t link : route) narrowest = std::min(narrowest, links.capacity(link));
  CHECK(static_cast<double>(narrowest.bytes_per_second) == Approx(kWireEfficiency * 12.5e9).epsilon(1e-6));
}

TEST_CASE("sites: units larger than a site become the site; rails keep their leaves", "[network][sites]") {
  Cluster cluster = small_cluster(32);  // 4 nodes: leaves of 4 are larger than sites of 2
  use_sites(cluster, {2, kWan, 20_ms});
  REQUIRE(cluster.tiers.size() == 3);
  CHECK(cluster.tiers[0].nodes == 2);
  CHECK(cluster.tiers[0].oversubscription == 1);
  CHECK(cluster.tiers[1].nodes == 2);
  // A long link that is faster than the site's NICs is not wider than they are.
  Cluster wide = small_cluster(32);
  use_sites(wide, {2, Bandwidth{10'000'000'000'000}, 20_ms});
  CHECK(wide.tiers[1].oversubscription == 1);
}

TEST_CASE("sites: only groups that span them pay the long link", "[network][sites][oracle]") {
  Cluster cluster = small_cluster(32);
  use_sites(cluster, {2, kWan, 20_ms});
  const std::vector<int> inside{0, 8};
  const std::vector<int> across{0, 16};
  CHECK(place(cluster, inside, 8).extra_latency == Duration{});
  CHECK(place(cluster, across, 8).extra_latency == 20_ms);
  CHECK(place(cluster, across, 8).oversubscription == Approx(2 * 8 * 50 / 12.5));
  CHECK(place(cluster, across, 8).crossing == 1);
}

TEST_CASE("sites: a ring over both sites crosses the long link twice in a lap, a tree twice",
          "[network][sites][oracle]") {
  Cluster cluster = dgx_h100(128);  // 16 nodes
  cluster.fabric = FabricKind::fat_tree;
  const std::vector<int> all = range(128);
  const auto time = [&](Duration latency, Algorithm algorithm) {
    Cluster two = cluster;
    use_sites(two, {2, kWan, latency});
    const auto network = make_analytic_network(two, "hopper");
    return network->cost({Collective::all_reduce, 1_KiB, algorithm, Protocol::simple}, place(two, all, 1)).duration;
  };
  // A lap of a ring of 16 nodes has 2 crossings of 16 hops; an all-reduce has 30 hops. A tree: up and down one level.
  CHECK(seconds(time(10_ms, Algorithm::ring) - time(0_ms, Algorithm::ring)) == Approx(30 * 2.0 / 16 * 0.010));
  CHECK(seconds(time(10_ms, Algorithm::tree) - time(0_ms, Algorithm::tree)) == Approx(2 * 0.010));
}

TEST_CASE("sites: HSDP reduces the gradients' shards over the long link in every step", "[network][sites][oracle]") {
  Scenario scenario = small_scenario(1, 1, 32);
  scenario.training.global_batch_size = 64;
  scenario.parallel.zero_stage = 3;
  scenario.parallel.shard_group = 16;
  const double near = forecast(scenario).value().forecast.step_time_s;
  use_sites(scenario.cluster, {2, Bandwidth{1'000'000'000}, 5_ms});
  const ForecastRun run = forecast(scenario).value();
  double shards = 0;
  for (const TrafficCount& each : count_traffic(run.graph, 0))
    if (each.traffic == Traffic::gradients && each.collective == Collective::all_reduce) shards += each.sent;
  const double all = 4.0 * static_cast<double>(parameter_count(scenario.model).total());
  CHECK(16 * shards == Approx(2 * all).epsilon(1e-3));  // 2 (R-1)/R of R = 2, in both micro-batches
  // The step is as long as these bytes over the long link, and what cannot run beside them is shorter than the near step: an
  // all-reduce in each of 10 units and two micro-batches, of two rounds of 5 ms.
  CHECK(run.forecast.step_time_s > 2 * all / 1e9);
  CHECK(run.forecast.step_time_s < 2 * all / (0.975 * 1e9) + 2 * 10 * 0.010 + near + 0.05);
}

TEST_CASE("sites: a pipeline sends its activations over the long link once in each direction",
          "[network][sites][oracle]") {
  Scenario scenario = small_scenario(8, 2, 1);  // a node per stage, each a site
  const double near = forecast(scenario).value().forecast.step_time_s;
  use_sites(scenario.cluster, {2, kWan, 10_ms});
  const double across = forecast(scenario).value().forecast.step_time_s;
  // 8 micro-batches of 1f1b over two stages: every forward and backward waits for a message at most, the first and the
  // last message surely.
  CHECK(across > near + 2 * 0.010);
  CHECK(across < near + 2 * 8 * 0.011 + 0.1);
}

std::string error_of(const std::vector<std::string>& overrides) {
  const DataPaths data = shipped_data();
  return error_text(read_scenario(data.scenarios / "case_studies" / "llama2-13b-abci.json", data, overrides));
}

TEST_CASE("sites: what they cannot be", "[network][sites][error]") {
  const std::string rate = "cluster.wan_rate=100 Gb/s";
  const std::string latency = "cluster.wan_latency=20 ms";
  CHECK(error_of({"cluster.sites=2"})
            .find("cluster.sites = 2: needs cluster.wan_rate and cluster.wan_latency, the links between the sites") !=
        std::string::npos);
  CHECK(error_of({rate}).find("needs cluster.sites") != std::string::npos);
  CHECK(error_of({latency}).find("needs cluster.sites") != std::string::npos);
  CHECK(error_of({"cluster.sites=7", rate, latency}).find("into sites of whole nodes") != std::string::npos);
  CHECK(error_of({"cluster.sites=2", rate, latency, "perturb.missing_gpus.0=1"})
            .find("needs whole nodes (without perturb.missing_gpus)") != std::string::npos);
  CHECK(error_of({"cluster.sites=2", rate, latency, "cluster.topology=frontier", "cluster.world_size=1024"})
            .find("needs a fabric that ends at a site") != std::string::npos);
  CHECK(error_of({"cluster.sites=2", rate, latency, "cluster.topology=dgx-h100", "cluster.world_size=768"})
            .find("makes sites of 48 nodes, which are not whole units of tier leaf (32 nodes)") != std::string::npos);
}

TEST_CASE("sites: a written scenario is read as the same", "[network][sites]") {
  const DataPaths data = shipped_data();
  const Scenario scenario = read_scenario(data.scenarios / "case_studies" / "diloco-10b.json", data).value();
  CHECK(scenario.cluster.sites.count == 14);
  const std::string text = to_json(scenario);
  CHECK(text.find("\"wan_rate\": \"125 MB/s\"") != std::string::npos);
  CHECK(text.find("\"sites\": 14") != std::string::npos);
}

}  // namespace
}  // namespace tracecast::test
