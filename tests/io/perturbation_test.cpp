#include <fstream>

#include <catch2/catch.hpp>

#include "sim/io/files.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace tracecast;
namespace fs = std::filesystem;

namespace {

/// ZeRO-1 on 64 A100 of eight nodes.
Result<Scenario> perturbed(const std::vector<std::string>& settings) {
  return read_scenario(shipped_data().scenarios / "teaching/zero-1-7.5b.json", shipped_data(), settings);
}

std::string sentence(const std::string& setting) { return error_text(perturbed({setting})); }

}  // namespace

TEST_CASE("perturb: every key is read", "[io][perturb]") {
  const Scenario s =
      perturbed({"perturb.slow_rank.37=1.3", "perturb.slow_rank.8-15=0.9", "perturb.gpus.0-7=h100",
                 "perturb.speed_spread=0.02", "perturb.seed=5", "perturb.slow_nic.2.3=0.5", "perturb.lost_rails=[1,4]",
                 "perturb.lost_uplinks.leaf=0.25", "perturb.missing_gpus.3=2"})
          .value();
  CHECK(s.perturbation.slow_ranks == std::vector<Perturbation::SlowRanks>{{{37, 37}, 1.3}, {{8, 15}, 0.9}});
  REQUIRE(s.perturbation.gpus.size() == 1);
  CHECK(s.perturbation.gpus[0].ranks == RankRange{0, 7});
  CHECK(s.perturbation.gpus[0].profile.name == "h100");
  CHECK(s.perturbation.speed_spread == 0.02);
  CHECK(s.perturbation.seed == 5);
  CHECK(s.cluster.faults.slow_nics == std::vector<NetworkFaults::SlowNic>{{2, 3, 0.5}});
  CHECK(s.cluster.faults.lost_rails == std::vector<int>{1, 4});
  CHECK(s.cluster.faults.lost_uplinks == std::map<std::string, double>{{"leaf", 0.25}});
  CHECK(s.cluster.faults.missing_gpus == std::map<int, int>{{3, 2}});
}

TEST_CASE("perturb: what is written is read again as it was", "[io][perturb]") {
  const Scenario s = perturbed({"perturb.slow_rank.8-15=0.9", "perturb.gpus.0-7=h100", "perturb.speed_spread=0.02",
                                "perturb.slow_nic.2.3=0.5", "perturb.lost_rails=[1]", "perturb.lost_uplinks.leaf=0.25",
                                "perturb.missing_gpus.3=2"})
                         .value();
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "scenario.json";
  std::ofstream(file) << to_json(s);
  const Scenario again = read_scenario(file, shipped_data()).value();
  CHECK(again.perturbation == s.perturbation);
  CHECK(again.cluster.faults == s.cluster.faults);
}

TEST_CASE("perturb: a node that the job needs for missing GPUs may miss some, too", "[io][perturb]") {
  // 64 GPUs: seven and eight of eight nodes, so one on a ninth.
  CHECK(perturbed({"perturb.missing_gpus.0=1", "perturb.missing_gpus.8=1"}).value().cluster.nodes() == 9);
}

TEST_CASE("perturb: error messages", "[io][perturb][error]") {
  const auto [setting, expected] = GENERATE(table<std::string, std::string>({
      {"perturb.slow_rank.64=1.3",
       "--set: perturb.slow_rank.64 = 1.3: must be a rank or a range of ranks (allowed: 0 to 63, or 8-15)"},
      {"perturb.slow_rank.9-8=1.3",
       "--set: perturb.slow_rank.9-8 = 1.3: must be a rank or a range of ranks (allowed: 0 to 63, or 8-15)"},
      {"perturb.slow_rank.3=0", "--set: perturb.slow_rank.3 = 0: is out of range (allowed: 0.01 to 100)"},
      {"perturb.speed_spread=1", "--set: perturb.speed_spread = 1: is out of range (allowed: 0 to 0.5)"},
      {"perturb.slow_nic.8.0=0.5", "--set: perturb.slow_nic.8 = {1 key}: is not a node of the job (allowed: 0 to 7)"},
      {"perturb.slow_nic.0.8=0.5", "--set: perturb.slow_nic.0.8 = 0.5: is not a NIC of a node (allowed: 0 to 7)"},
      {"perturb.slow_nic.0.1=1.5", "--set: perturb.slow_nic.0.1 = 1.5: is out of range (allowed: 0 to 1)"},
      {"perturb.lost_rails=[8]", "--set: perturb.lost_rails = [1 item]: names rail 8; hosts have NICs 0 to 7"},
      {"perturb.lost_rails=[0,1,2,3,4,5,6,7]", "--set: perturb.lost_rails = [8 items]: leaves no NIC"},
      {"perturb.lost_uplinks.roof=0.5",
       "--set: perturb.lost_uplinks.roof = 0.5: is not a tier with uplinks (allowed: leaf spine)"},
      {"perturb.lost_uplinks.leaf=1", "--set: perturb.lost_uplinks.leaf = 1: is out of range (allowed: 0 to below 1)"},
      {"perturb.missing_gpus.9=8", "--set: perturb.missing_gpus = {1 key}: names node 9; the job has nodes 0 to 7"},
      {"perturb.missing_gpus.8=1", "--set: perturb.missing_gpus = {1 key}: names node 8; the job has nodes 0 to 7"},
      {"perturb.slow=1",
       "--set: perturb.slow: unknown key (allowed: slow_rank gpus speed_spread seed slow_nic lost_rails lost_uplinks "
       "missing_gpus)"},
  }));
  CHECK(sentence(setting) == expected);
}

TEST_CASE("perturb: a node that the job needs for missing GPUs has NICs", "[io][perturb]") {
  const Scenario s = perturbed({"perturb.missing_gpus.0=2", "perturb.slow_nic.8.0=0.5"}).value();
  REQUIRE(s.cluster.faults.slow_nics.size() == 1);
  CHECK(s.cluster.faults.slow_nics[0].node == 8);
}
