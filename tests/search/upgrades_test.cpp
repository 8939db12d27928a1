// Upgrades of a machine that a plan tries.
#include "sim/search/upgrades.hpp"

#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/cost/costs.hpp"
#include "sim/network/sites.hpp"
#include "tests/search/outcomes.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

/// The scenario after the upgrade of this name.
Scenario upgraded(Scenario scenario, const std::string& name) {
  const std::vector<UpgradeRule> rules = upgrades_of(scenario.cluster);
  const auto rule = std::ranges::find(rules, name, &UpgradeRule::what);
  REQUIRE(rule != rules.end());
  rule->apply(scenario);
  return scenario;
}

std::vector<std::string> upgrade_names(const Cluster& cluster) {
  std::vector<std::string> names;
  for (const UpgradeRule& rule : upgrades_of(cluster)) names.push_back(rule.what);
  return names;
}

double site_oversubscription(const Scenario& scenario) {
  return std::ranges::find(scenario.cluster.tiers, "site", &FabricTier::name)->oversubscription;
}

}  // namespace

TEST_CASE("each upgrade changes what its name says, and nothing else", "[oracle][search]") {
  const Scenario before = shipped_scenario("zero-1-7.5b");
  const auto rates = [](const Scenario& s) {
    return std::pair(s.cluster.node.nic_rate.bytes_per_second, s.cluster.node.gpu_link.bytes_per_second);
  };
  const auto [nic, link] = rates(before);
  CHECK(rates(upgraded(before, "2x NIC rate")) == std::pair(2 * nic, link));
  CHECK(rates(upgraded(before, "2x NVLink rate")) == std::pair(nic, 2 * link));
  CHECK(upgraded(before, "1.5x GPU memory").profile.memory.count * 2 == before.profile.memory.count * 3);
  CHECK(upgraded(before, "1.5x memory bandwidth").profile.memory_bandwidth ==
        Approx(1.5 * before.profile.memory_bandwidth));
  CHECK(upgraded(before, "1.5x tensor-core rate").profile.peak_flops.at(Precision::bf16) ==
        Approx(1.5 * before.profile.peak_flops.at(Precision::bf16)));
  CHECK(upgraded(before, "2x global batch").training.global_batch_size == 2 * before.training.global_batch_size);
  const HostModel host = upgraded(before, "no host overhead").profile.host;
  CHECK(host.launch == 0);
  CHECK(host.step_overhead == 0);
  const std::vector<std::string> names = upgrade_names(before.cluster);
  CHECK(names.size() == 7);
  for (const std::string& name : names) {
    INFO(name);
    const Scenario after = upgraded(before, name);
    if (name != "2x NIC rate" && name != "2x NVLink rate") CHECK(rates(after) == rates(before));
    if (name != "2x global batch") CHECK(after.training.global_batch_size == before.training.global_batch_size);
  }
}

TEST_CASE("a plan tries every upgrade of its machine", "[search]") {
  MachineChoice machine;
  machine.scenario = shipped_scenario("zero-1-7.5b");
  machine.gpus = machine.scenario.cluster.world_size;
  std::size_t tried = 0;
  const EvaluatorOf evaluator = [&](const Scenario&) {
    ++tried;
    return [](SearchRound round, Duration) { return std::vector<Evaluation>(round.size()); };
  };
  try_upgrades(machine, SearchSpace{}, evaluation(10, 1, 0.1), {}, evaluator);
  CHECK(tried == upgrade_names(machine.scenario.cluster).size());
}

TEST_CASE("upgrades: measured times become shorter as those of the model do", "[search]") {
  Scenario before = shipped_scenario("tensor-parallel");
  Operator gemm{OperatorKind::gemm, Pass::forward, Precision::bf16, "qkv", GemmShape{8192, 8192, 8192}};
  const MeasuredOperator measured{gemm, 2 * seconds(Costs(before.profile).of(gemm).duration), 0.01, 5};
  before.profile.measured = {measured};
  const Bandwidth link = before.cluster.node.gpu_link;
  before.profile.measured_collectives = {{Collective::all_reduce, 8, Bytes{1 << 30}, 5e-3, 0.01, 5, 1, link}};
  const auto operator_s = [](const Scenario& s) { return s.profile.measured.front().seconds; };
  const auto collective_s = [](const Scenario& s) { return s.profile.measured_collectives.front().seconds; };
  const Scenario cores = upgraded(before, "1.5x tensor-core rate");
  CHECK(operator_s(cores) < measured.seconds / 1.3);
  CHECK(operator_s(cores) > measured.seconds / 1.51);
  CHECK(collective_s(cores) == 5e-3);
  CHECK(operator_s(upgraded(before, "1.5x GPU memory")) == measured.seconds);
  const Scenario links = upgraded(before, "2x NVLink rate");
  CHECK(operator_s(links) == measured.seconds);
  CHECK(collective_s(links) < 5e-3 / 1.4);
  CHECK(collective_s(links) > 5e-3 / 2.01);
  CHECK(links.profile.measured_collectives.front().network == links.cluster.node.gpu_link);
}

TEST_CASE("upgrades: faster NICs leave the links between sites as they are", "[search]") {
  const Scenario before = shipped_scenario("llama3-70b-two-sites");
  const Bandwidth rate = before.cluster.node.nic_rate;
  REQUIRE(rate.bytes_per_second == 50'000'000'000);
  const Scenario nics = upgraded(before, "2x NIC rate");
  CHECK(nics.cluster.node.nic_rate.bytes_per_second == 2 * rate.bytes_per_second);
  CHECK(site_oversubscription(nics) == Approx(2 * site_oversubscription(before)));
  // As on a machine that has these NICs.
  Cluster with_them = shipped_topology(before.topology);
  with_them.world_size = before.cluster.world_size;
  with_them.node.nic_rate = nics.cluster.node.nic_rate;
  use_sites(with_them, before.cluster.sites);
  const auto tier = [](const FabricTier& each) { return std::tuple(each.name, each.nodes, each.oversubscription); };
  CHECK(std::ranges::equal(nics.cluster.tiers, with_them.tiers, {}, tier, tier));
  const Scenario sites = upgraded(before, "2x rate between sites");
  CHECK(sites.cluster.node.nic_rate == rate);
  CHECK(sites.cluster.sites.wan_rate.bytes_per_second == 2 * before.cluster.sites.wan_rate.bytes_per_second);
  CHECK(site_oversubscription(sites) == Approx(site_oversubscription(before) / 2));
}

TEST_CASE("upgrades: links have the name of their kind, and only those that a machine has", "[search]") {
  const Cluster cards = shipped_topology("rtx-pro-6000-pcie");
  REQUIRE(cards.node.nics == 0);
  CHECK(upgrade_names(cards).front() == "2x PCIe rate");
  Scenario scenario;
  scenario.cluster = cards;
  CHECK(upgraded(scenario, "2x PCIe rate").cluster.node.pcie.bytes_per_second == 2 * cards.node.pcie.bytes_per_second);
  const std::vector<std::string> amd = upgrade_names(shipped_topology("hgx-mi300x"));
  CHECK(amd[0] == "2x NIC rate");
  CHECK(amd[1] == "2x xGMI rate");
  for (const std::string& name : upgrade_names(shipped_topology("fugaku")))
    CHECK(name.find("PCIe") == std::string::npos);
}

TEST_CASE("upgrades: a better GPU is a better GPU of every kind", "[search]") {
  const Scenario before = shipped_scenario("llama3-70b-two-generations");
  REQUIRE(before.perturbation.gpus.size() == 1);
  const auto other = [](const Scenario& s) { return s.perturbation.gpus.front().profile; };
  CHECK(other(upgraded(before, "1.5x GPU memory")).memory.count * 2 == other(before).memory.count * 3);
  CHECK(other(upgraded(before, "1.5x memory bandwidth")).memory_bandwidth ==
        Approx(1.5 * other(before).memory_bandwidth));
  CHECK(other(upgraded(before, "1.5x tensor-core rate")).peak_flops.at(Precision::bf16) ==
        Approx(1.5 * other(before).peak_flops.at(Precision::bf16)));
  CHECK(other(upgraded(before, "no host overhead")).host.step_overhead == 0);
  CHECK(other(upgraded(before, "2x NIC rate")) == other(before));
}
