// Rules of thumb of an AWS P5 guide and of DeepSpeed, as they publish them, beside our own numbers.
// Source: docs/references.md#case-studies
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/forecast/schedule_runs.hpp"
#include "sim/model/model.hpp"
#include "sim/plan/memory.hpp"
#include "sim/plan/plan.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/search/guideline.hpp"
#include "tests/requirements/model_states_gb.hpp"
#include "tests/support/models.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;
using namespace tracecast::test;

TEST_CASE("DeepSpeed's own estimate of model states counts the gradients twice", "[requirements][memory][oracle]") {
  // estimate_zero2_model_states_mem_needs: 2 N + 18 N / D bytes per GPU, everything on GPUs; its 18 has a 16-bit and a
  // 32-bit copy of the gradients, ours 14 the one that is reduced.   Source: docs/references.md#bytes-per-parameter
  const double theirs = 2 * 7.5 + 18 * 7.5 / 64;
  CHECK(theirs - states_gb(7'500'000'000, 2, 64) == Approx((18 - 14) * 7.5 / 64));
}

TEST_CASE("the AWS P5 guide's activation rule gives 343.6 GB where 34 bytes give 730.1",
          "[row-3-9][requirements][memory]") {
  CHECK(activation_rule_gb(8, 4096, 8192, 80) == Approx(343.6).epsilon(1e-3));
  CHECK(34.0 / 16 * activation_rule_gb(8, 4096, 8192, 80) == Approx(730.1).epsilon(1e-3));
  // In the product: one sequence of 8,192 tokens.
  CHECK(guideline(shipped_scenario("p5-llama3-70b-32")).activations_gb == Approx(16 * 8192.0 * 8192 * 80 * 1e-9));
  // Our own count of Llama-3 70B: 274,432 bytes per token and layer, close to 34 h.
  const Model model = llama3_70b();
  Training training = sixteen_bytes();
  training.seq_length = 4096;
  training.micro_batch_size = training.global_batch_size = 8;
  const Plan plan = make_plan(model, {}, training, 1).value();
  CHECK(80 * gb(layer_activation_bytes(model, plan, 0)) == Approx(80 * 8 * 4096 * 274'432e-9).epsilon(1e-3));
}

TEST_CASE("the AWS P5 guide's tensor degree: 280 / (80 - 20) is 4.67, so 8",
          "[row-3-25][row-3-26][requirements][plan]") {
  CHECK(least_tensor_parallel(280, 80, 20, 8) == 8);
  CHECK(least_tensor_parallel(240, 80, 20, 8) == 4);
  CHECK(least_tensor_parallel(280, 80, 50, 8) == 0);  // ten GPUs would be needed
  // Divisors of a node's GPUs alone: 3 would do, and a node of 4 or 8 has no such degree.
  CHECK(least_tensor_parallel(180, 80, 20, 8) == 4);
  CHECK(least_tensor_parallel(180, 80, 20, 4) == 4);
  CHECK(least_tensor_parallel(180, 80, 20, 6) == 3);
}

TEST_CASE("the AWS P5 guide's second step: TP, FSDP, TP + FSDP or TP + PP + FSDP", "[row-3-45][requirements][plan]") {
  // H100 of 80 GB with 20 GB of activations, nodes of 8: 2 + 2 bytes per parameter over what is left decide.
  const auto chosen = [](double parameters, int gpus) { return rule_of_thumb(parameters, 80, 20, gpus, 8); };
  CHECK(chosen(8.03e9, 8) == RuleOfThumb::fsdp);  // 32 of 60 GB
  CHECK(chosen(13.0e9, 16) == RuleOfThumb::fsdp);
  CHECK(chosen(70.55e9, 8) == RuleOfThumb::tp);  // 282 GB: 4.7 GPUs
  CHECK(chosen(70.55e9, 32) == RuleOfThumb::tp_fsdp);
  CHECK(chosen(405.8e9, 256) == RuleOfThumb::tp_pp_fsdp);  // 1,623 GB: 27 GPUs
  // Both sides of the boundaries: 60 GB of a GPU, 480 GB of a node.
  CHECK(chosen(14.9e9, 64) == RuleOfThumb::fsdp);
  CHECK(chosen(15.1e9, 64) == RuleOfThumb::tp_fsdp);
  CHECK(chosen(119.9e9, 64) == RuleOfThumb::tp_fsdp);
  CHECK(chosen(120.1e9, 64) == RuleOfThumb::tp_pp_fsdp);
  CHECK(std::string(to_string(RuleOfThumb::tp_pp_fsdp)) == "TP + PP + FSDP");
}

TEST_CASE("the rule says of the P5 table's runs what the table has", "[row-3-45][requirements][plan]") {
  const auto rule = [&](const std::string& name, const std::vector<std::string>& overrides = {}) {
    return guideline(shipped_scenario(name, overrides)).rule;
  };
  CHECK(rule("p5-llama2-7b-8") == RuleOfThumb::fsdp);
  CHECK(rule("p5-llama2-13b-16") == RuleOfThumb::fsdp);
  CHECK(rule("p5-llama3-70b-32", {"cluster.world_size=8", "parallel.dp=1"}) == RuleOfThumb::tp);
  CHECK(rule("p5-llama3-70b-32") == RuleOfThumb::tp_fsdp);
  CHECK(rule("p5-llama3-405b-256") == RuleOfThumb::tp_pp_fsdp);
}

TEST_CASE("the AWS P5 guide's four micro-batches per stage", "[row-3-37][requirements][plan]") {
  // M >= 4 P: with two to eight stages the bubble is (P-1)/(5P-1), 15.8 % at four.
  const int p = GENERATE(2, 4, 8);
  const Schedule schedule = make_schedule("1f1b", {.ranks = p, .microbatches = 4 * p}).value();
  const double bubble = run_schedule(schedule, uniform_times(schedule, {})).value().bubble_fraction;
  CHECK(bubble == Approx((p - 1.0) / (5 * p - 1)));
  if (p == 4) CHECK(bubble == Approx(0.158).epsilon(1e-2));
}

TEST_CASE("planner notes: stages outside of 2 to 8, tensor parallelism beyond a node, few micro-batches",
          "[row-3-36][row-3-37][requirements][plan]") {
  using Notes = std::vector<std::string>;
  CHECK(against_rules(8, 8, 32, 8).empty());
  CHECK(against_rules(8, 1, 1, 8).empty());
  CHECK(against_rules(1, 9, 36, 8) == Notes{"9 stages: guides advise 2 to 8."});
  CHECK(against_rules(16, 1, 8, 8) ==
        Notes{"TP 16 is more than the 8 GPUs of a node: its all-reduces leave the node."});
  CHECK(against_rules(8, 4, 16, 8).empty());
  CHECK(against_rules(8, 4, 15, 8) ==
        Notes{"15 micro-batches for 4 stages: guides advise 16 or more, or the bubble is more than 15.8 %."});
}

TEST_CASE("planner notes: the scenario's own layout beside the guide's", "[row-3-36][row-3-37][requirements][plan]") {
  using Notes = std::vector<std::string>;
  const auto own_notes = [](const std::string& name, const std::vector<std::string>& overrides) {
    Notes own;
    for (const std::string& note : guideline(shipped_scenario(name, overrides)).notes)
      if (note.starts_with("The scenario's own layout: ")) own.push_back(note.substr(27));
    return own;
  };
  CHECK(own_notes("llama3-405b-16k", {}) == Notes{"16 stages: guides advise 2 to 8.",
                                                  "16 micro-batches for 16 stages: guides advise 64 or more, or the "
                                                  "bubble is more than 19.0 %."});
  CHECK(own_notes("p5-llama3-70b-32", {"parallel.tp=8", "parallel.pp=1", "parallel.dp=4"}).empty());
}

TEST_CASE("the guide's degrees: 70B on 32 GPUs takes TP 8, PP 1, DP 4", "[row-3-44][row-3-46][requirements][plan]") {
  const auto degrees = [](const std::string& name) {
    const Guideline g = guideline(shipped_scenario(name));
    CHECK(g.tp * g.pp * g.dp == g.gpus);
    return std::vector<int>{g.tp, g.pp, g.dp};
  };
  // The rows of the P5 table.
  CHECK(degrees("p5-llama2-7b-8") == std::vector<int>{1, 1, 8});
  CHECK(degrees("p5-llama2-13b-16") == std::vector<int>{1, 1, 16});
  CHECK(degrees("p5-llama3-70b-32") == std::vector<int>{8, 1, 4});
  CHECK(degrees("p5-llama3-70b-64") == std::vector<int>{8, 1, 8});
  CHECK(degrees("p5-llama3-405b-256") == std::vector<int>{8, 4, 8});
  CHECK(degrees("p5-llama3-405b-512") == std::vector<int>{8, 4, 16});
  // Step 1 in GB: 2 + 2 + 4 bytes for each of 70.55 billion parameters.
  const Guideline g = guideline(shipped_scenario("p5-llama3-70b-32"));
  CHECK(g.weights_gb == Approx(141.1).epsilon(1e-3));
  CHECK(g.gradients_gb == Approx(141.1).epsilon(1e-3));
  CHECK(g.optimizer_gb == Approx(282.2).epsilon(1e-3));
  CHECK(g.total_gb() == Approx(564.4 + 85.9).epsilon(1e-3));
}

TEST_CASE("the guide says how many GPUs its degrees leave over", "[row-3-44][requirements][plan]") {
  const Guideline g = guideline(shipped_scenario("p5-llama3-405b-256", {"cluster.world_size=72", "parallel.dp=0"}));
  CHECK(g.notes.front() == "TP 8 x PP 4 x DP 2 are 64 of the 72 GPUs.");
  const Guideline few = guideline(shipped_scenario("llama3-70b-fsdp-8", {"cluster.world_size=2", "parallel.dp=0"}));
  CHECK(few.notes.front() == "TP 8 x PP 1 are more than the 2 GPUs: no degree of this guide suits them.");
}

TEST_CASE("the guide counts gradients and optimizer of what is trained", "[requirements][plan]") {
  const Guideline g = guideline(shipped_scenario("mlperf-llama2-70b-lora-8"));
  CHECK(g.weights_gb == Approx(138).epsilon(2e-3));
  CHECK(g.gradients_gb < 0.1);
  CHECK(g.optimizer_gb == Approx(2 * g.gradients_gb));
  CHECK(g.tp == 4);  // 138 GB over GPUs with 64.1 GB left: 2.15
}

TEST_CASE("the AWS P5 guide's most stages say how often a stage fits on a GPU, not how many stages a model may have",
          "[row-3-35][requirements][memory]") {
  // 70B with 16 bytes over TP 8 and four stages: 35 GB of states on each GPU, 5 GB of activations: the rule allows two
  // stages. More stages make a stage smaller, and the rule then allows more: it is a circle.
  const auto stages = [](int pp) { return most_stages(80, 70.0 * 16 / 8 / pp + 5); };
  CHECK(stages(2) == 1);
  CHECK(stages(4) == 2);
  CHECK(stages(16) == 5);
  // 405B over TP 8 and PP 4 with 8 bytes: 101.4 GB of states and 33.8 GB: not one.
  CHECK(guideline(shipped_scenario("p5-llama3-405b-256")).most_stages == 0);
}
