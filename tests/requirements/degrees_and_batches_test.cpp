// Requirements on degrees of parallelism, batches and lengths of trainings.
#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/forecast/forecast.hpp"
#include "sim/report/settings_text.hpp"
#include "tests/requirements/model_states_gb.hpp"
#include "tests/requirements/predicted.hpp"
#include "tests/support/models.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;
using namespace tracecast::test;

TEST_CASE("LLM-jp 175B on 392 GPUs is not DP 2, PP 49, TP 2", "[row-0-19][requirements][error]") {
  const Result<ForecastRun> wrong = forecast(shipped_scenario("llm-jp-175b-abci", {"parallel.tp=2", "parallel.dp=2"}));
  REQUIRE(!wrong);
  CHECK(to_string(wrong.error()).find("make 196 ranks, not the 392 of the cluster (needed here: dp 4)") !=
        std::string::npos);
  CHECK(forecast(shipped_scenario("llm-jp-175b-abci")).has_value());
  CHECK(forecast(shipped_scenario("llm-jp-175b-abci", {"parallel.tp=2", "parallel.dp=4"})).has_value());
}

TEST_CASE("global batch = local batch x micro-batches x data-parallel ranks",
          "[row-1-22][row-4-5][requirements][plan]") {
  for (const int dp : {1, 2, 4}) {
    Scenario scenario = small_scenario(1, 1, dp);
    scenario.training.micro_batch_size = 2;
    scenario.training.global_batch_size = 2 * 3 * dp;
    CHECK(forecast(scenario).value().plan.num_microbatches == 3);
  }
}

TEST_CASE("days of a pre-training are its tokens over the rate", "[row-1-36][requirements]") {
  const Scenario scenario = shipped_scenario("llama3-405b-16k");
  const Forecast f = predicted("llama3-405b-16k");
  const double n = static_cast<double>(parameter_count(scenario.model).total());
  const double tokens = 15.6e12;
  Training asked = scenario.training;
  asked.train_tokens = 15'600'000'000'000;
  CHECK(tokens_to_train(asked) == tokens);
  const double days = tokens / f.tokens_per_s / 86400;
  // In the product: the page of the run says the days.
  Scenario whole = scenario;
  whole.training = asked;
  const ForecastRun run = forecast(whole).value();
  CHECK(page_of(whole, run).find(fmt::format("{:.3g} days for 15.6 T", days)) != std::string::npos);
  // 6 N D over the machine's rate, which counts attention as well: a few percent apart.
  const double rate = f.model_tflops_per_gpu * 1e12 * f.ranks;
  CHECK(days == Approx(6 * n * tokens / rate / 86400).epsilon(0.10));
  CHECK(days > 60);
  CHECK(days < 120);
}

TEST_CASE("the tensor degrees within a node are listed: 1 2 4 8 of eight GPUs, 1 2 4 of four",
          "[row-3-26][requirements][report]") {
  const auto notes = [](const std::string& topology, int tp) {
    const Scenario scenario = shipped_scenario(
        "llama2-70b-abci", {"cluster.topology=" + topology, fmt::format("cluster.world_size={}", 4 * tp),
                            fmt::format("parallel.tp={}", tp), "parallel.pp=1"});
    return note_texts(scenario, forecast(scenario).value().forecast);
  };
  const auto lists = [](const std::vector<std::string>& lines, const std::string& degrees) {
    return std::ranges::any_of(lines, [&](const std::string& line) {
      return line.starts_with("tensor-parallel groups of ") &&
             line.find("(within one: " + degrees + ")") != std::string::npos;
    });
  };
  CHECK(lists(notes("dgx-a100", 16), "1 2 4 8"));
  CHECK(lists(notes("abci-v", 8), "1 2 4"));
  CHECK_FALSE(lists(notes("dgx-a100", 8), "1 2 4 8"));
}

TEST_CASE("the degrees that divide the heads are listed", "[row-3-26][requirements][error]") {
  const Model model = llama(32, 4096, 11008, 32, 32, 32000);
  const Parallel parallel{.tp = 12};
  const auto plan = make_plan(model, parallel, sixteen_bytes(), 12);
  REQUIRE(!plan);
  CHECK(to_string(plan.error()).find("(allowed: 1 2 4 8 16 32)") != std::string::npos);
}

TEST_CASE("128 samples are 4 batches of 32 or 2 of 64; epochs repeat them",
          "[row-4-4][row-4-10][row-4-11][requirements][plan]") {
  const auto with = [](int batch) {
    const std::string size = std::to_string(batch);
    return shipped_scenario(
        "translation-ddp-4",
        {"cluster.world_size=1", "parallel.dp=1", "training.micro_batch_size=" + size,
         "training.global_batch_size=" + size, "training.dataset_samples=128", "training.epochs=10"});
  };
  CHECK(steps_of_epoch(with(32).training) == 4);
  CHECK(steps_of_epoch(with(64).training) == 2);
  CHECK(steps_of_epoch(with(48).training) == 3);            // the last batch has 32 samples
  CHECK(with(32).training.train_tokens == 128 * 10 * 128);  // sequences of 128 tokens
  const Scenario scenario = with(32);
  const ForecastRun run = forecast(scenario).value();
  const std::string page = page_of(scenario, run);
  CHECK(page.find("10 of 128 samples, 4 steps each: 40 steps, ") != std::string::npos);
  // Twice the GPUs with the same local batch: half the steps.
  const Scenario two =
      shipped_scenario("translation-ddp-4", {"cluster.world_size=2", "parallel.dp=2", "training.micro_batch_size=32",
                                             "training.global_batch_size=64", "training.dataset_samples=128"});
  CHECK(steps_of_epoch(two.training) == 2);
}
