// Settings of a job that leave few layouts.
#include "sim/search/ruled_out.hpp"

#include <catch2/catch.hpp>

#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

std::vector<std::string> sentences(const std::string& name, const std::vector<std::string>& settings) {
  const Scenario scenario = shipped_scenario(name, settings);
  return ruled_out(scenario, default_space(scenario, scenario.cluster.world_size));
}

const std::vector<std::string> kSixtyFour{"cluster.topology=dgx-h100",
                                          "cluster.world_size=64",
                                          "parallel.tp=1",
                                          "parallel.pp=1",
                                          "parallel.dp=0",
                                          "parallel.sequence_parallel=false",
                                          "parallel.zero_stage=0",
                                          "training.global_batch_size=512"};

std::vector<std::string> with(std::vector<std::string> more) {
  more.insert(more.begin(), kSixtyFour.begin(), kSixtyFour.end());
  return more;
}

}  // namespace

TEST_CASE("ruled out: a vocabulary that is not padded", "[search]") {
  CHECK(sentences("llama2-13b-abci", kSixtyFour).empty());
  CHECK(sentences("llama2-13b-abci", with({"model.vocab_size=50257"})) ==
        std::vector<std::string>{"model.vocab_size = 50257 rules out tp 2, 4, 8 (3 of 4 values): pad it, --set "
                                 "model.vocab_size=51200"});
  CHECK(sentences("llama2-13b-abci", with({"model.vocab_size=51200"})).empty());
}

TEST_CASE("ruled out: settings that forbid values of a choice", "[search]") {
  CHECK(sentences("llama2-13b-abci", with({"parallel.data_parallel=ddp"})) ==
        std::vector<std::string>{"parallel.data_parallel = ddp rules out zero_stage 1, 3 (2 of 3 values)"});
}
