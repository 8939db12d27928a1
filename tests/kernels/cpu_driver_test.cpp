// The driver runs every operator that step graphs ask for, within the memory that it announces.

#include "kernels/cpu_driver.hpp"

#include <set>

#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

Scenario small(const std::string& model, std::vector<std::string> overrides) {
  overrides.insert(overrides.begin(), {"model=" + model, "model.hidden_size=64"});
  return shipped_scenario("pipeline-1f1b", overrides);
}

const std::string kGpt =
    R"({"num_layers":4,"hidden_size":64,"num_attention_heads":4,"ffn_hidden_size":256,"vocab_size":512,)"
    R"("activation":"gelu","norm":"layer_norm","position":"learned","max_position_embeddings":64,"dropout":0.1})";
const std::string kLlama =
    R"({"num_layers":4,"hidden_size":64,"num_attention_heads":4,"num_query_groups":2,"ffn_hidden_size":192,)"
    R"("vocab_size":512,"qk_norm":true})";
const std::string kExperts = R"({"num_layers":4,"hidden_size":64,"num_attention_heads":4,"vocab_size":512,)"
                             R"("moe":{"experts":4,"topk":2,"ffn_hidden":96}})";

}  // namespace

TEST_CASE("cpu driver: every operator of dense, gated and expert models runs", "[kernels]") {
  const std::string model = GENERATE(kGpt, kLlama, kExperts);
  const std::string flash = GENERATE("true", "false");
  const Scenario scenario = small(
      model, {"training.seq_length=32", "training.flash_attention=" + flash, "training.dtype=fp16", "parallel.pp=1",
              "parallel.pp_schedule=\"\"", "parallel.tp=2", "cluster.world_size=2", "training.global_batch_size=2"});
  const Result<ForecastRun> run = forecast(scenario);
  REQUIRE(run);
  const Widths widths = tracecast::widths_of(scenario.model, run->plan);
  cpu::Need largest;
  for (const CostedOperator& costed : run->graph.operators) {
    const cpu::Need need = cpu::need_of(costed.op, widths);
    largest = {std::max(largest.inputs, need.inputs), std::max(largest.outputs, need.outputs)};
  }
  // A ring that holds no more than it must: an operator that takes more than its need would trip the arena's assertion.
  cpu::Driver driver(widths, largest, 0);
  std::set<OperatorKind> kinds;
  for (const CostedOperator& costed : run->graph.operators) {
    INFO(to_string(costed.op.kind) << " " << costed.op.name << " " << to_string(costed.op.pass));
    driver.run(costed.op);
    kinds.insert(costed.op.kind);
  }
  CHECK(kinds.size() >= 8);
}

TEST_CASE("arena: a ring gives the oldest memory, aligned, and wraps", "[kernels]") {
  Arena arena(256, true);
  float* const first = arena.take(100);
  CHECK(reinterpret_cast<std::uintptr_t>(first) % 64 == 0);
  float* const second = arena.take(100);
  CHECK(second - first == 112);  // 100 floats are seven lines of 16
  CHECK(arena.take(100) == first);
  bool different = false;
  for (int i = 0; i < 100; ++i) {
    CHECK(std::abs(first[i]) <= 1);
    different = different || first[i] != first[0];
  }
  CHECK(different);
}
