#include "sim/model/scaling.hpp"

#include <catch2/catch.hpp>

using namespace tracecast;

TEST_CASE("scaling: training days of SC'21 are 8 D N / (G achieved)", "[oracle][model][scaling]") {
  CHECK(days_at(compute_of(174.6e9, 300e9, ComputeRule::recompute_8_nd), 1024, 140e12) == Approx(33.8).margin(0.06));
  CHECK(days_at(compute_of(1e12, 450e9, ComputeRule::recompute_8_nd), 3072, 163e12) == Approx(83.2).margin(0.06));
}

TEST_CASE("compute of published models", "[row-1-2][row-1-4][row-1-6][requirements][oracle][model][scaling]") {
  struct Row {
    const char* name;
    double ratio;
    double fitted;
    double six;
  };
  const Row rows[] = {{"LaMDA", 1.23, 1.312e23, 1.381e23},    {"GPT-3", 1.71, 2.992e23, 3.150e23},
                      {"Jurassic", 1.69, 3.044e23, 3.204e23}, {"Gopher", 1.07, 4.788e23, 5.040e23},
                      {"MT-NLG", 0.51, 8.157e23, 8.586e23},   {"Chinchilla", 20.0, 5.586e23, 5.880e23}};
  REQUIRE(published_budgets().size() == std::size(rows));
  for (std::size_t i = 0; i < std::size(rows); ++i) {
    const auto& [name, budget] = published_budgets()[i];
    INFO(rows[i].name);
    CHECK(std::string(name) == rows[i].name);
    CHECK(budget.tokens / budget.parameters == Approx(rows[i].ratio).margin(0.005));
    CHECK(compute_of(budget.parameters, budget.tokens, ComputeRule::fitted_5_7_nd) ==
          Approx(rows[i].fitted).epsilon(5e-4));
    CHECK(compute_of(budget.parameters, budget.tokens, ComputeRule::six_nd) == Approx(rows[i].six).epsilon(5e-4));
  }
}

TEST_CASE("20 tokens per parameter; Chinchilla's compute gives 70 billion",
          "[row-1-3][requirements][oracle][scaling]") {
  const ModelBudget budget = compute_optimal(5.88e23);
  CHECK(budget.parameters == Approx(70.0e9).epsilon(1e-12));
  CHECK(budget.tokens == Approx(1400e9).epsilon(1e-12));
  CHECK(compute_of(budget.parameters, budget.tokens, ComputeRule::six_nd) == Approx(5.88e23));
}

TEST_CASE("what the days of the lecture imply",
          "[row-1-7][row-1-8][row-1-9][row-1-10][row-1-11][row-1-12][row-1-13][requirements][oracle][model][scaling]") {
  struct Row {
    const char* machine;
    double tflops_3e24;  ///< per device; of ABCI all together
    double percent_3e24;
    double tflops_3e25;
    double percent_3e25;
  };
  const Row rows[] = {{"A100 (OpenAI)", 15.4, 4.9, 154, 49.5}, {"Frontier", 12.2, 3.2, 122, 31.9},
                      {"LUMI", 12.1, 3.2, 121, 31.6},          {"Aurora", 18.2, 2.2, 182, 21.6},
                      {"Fugaku", 0.104, 1.5, 1.04, 15.4},      {"ABCI", 45.1e3, 5.3, 451e3, 53.5}};
  REQUIRE(machine_claims().size() == std::size(rows));
  for (std::size_t i = 0; i < std::size(rows); ++i) {
    const MachineClaim& claim = machine_claims()[i];
    INFO(rows[i].machine);
    CHECK(claim.machine == rows[i].machine);
    const bool together = claim.devices.size() > 1;
    const auto tera = [&](const SustainedRate& rate) {
      return 1e-12 * (together ? rate.flops : rate.flops_per_device);
    };
    const SustainedRate low = sustained_rate(3e24, claim.days, claim.devices);
    const SustainedRate high = sustained_rate(3e25, claim.days, claim.devices);
    CHECK(tera(low) == Approx(rows[i].tflops_3e24).epsilon(5e-3));
    CHECK(tera(high) == Approx(rows[i].tflops_3e25).epsilon(5e-3));
    CHECK(100 * low.utilisation == Approx(rows[i].percent_3e24).margin(0.06));
    CHECK(100 * high.utilisation == Approx(rows[i].percent_3e25).margin(0.06));
    // One exponent less is below anything that trains.
    CHECK(!plausible(low.utilisation));
    CHECK(plausible(high.utilisation));
  }
}

TEST_CASE("scaling: what utilisation is believed", "[tight][model][scaling]") {
  CHECK(!plausible(0.0999));
  CHECK(plausible(0.10));
  CHECK(plausible(0.60));
  CHECK(!plausible(0.6001));
}
