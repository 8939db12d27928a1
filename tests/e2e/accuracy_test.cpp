// Published step times, forecast from the shipped scenario and profile files without any setting per run.
#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

double relative_error(const std::string& name) {
  const Scenario scenario = shipped_scenario(name);
  return forecast(scenario).value().forecast.step_time_s / scenario.measured.value().step_time_s - 1;
}

}  // namespace

TEST_CASE("published runs: Megatron SC'21, Korthikanti et al. and torchtitan within 10 %", "[published][e2e]") {
  const char* name =
      GENERATE("megatron-sc21-18b", "megatron-sc21-39b", "megatron-sc21-76b", "megatron-sc21-310b",
               "megatron-sc21-530b", "korthikanti-22b-full", "korthikanti-22b-selective", "korthikanti-175b-full",
               "korthikanti-175b-selective", "korthikanti-1t-full", "korthikanti-1t-selective",
               "torchtitan-llama3-8b-8gpu", "torchtitan-llama3-8b-8gpu-compile", "torchtitan-llama3-8b-128gpu",
               "torchtitan-llama3-8b-128gpu-compile", "torchtitan-llama2-13b-64gpu", "torchtitan-llama2-13b-64gpu-ac");
  INFO(name);
  CHECK(std::abs(relative_error(name)) < 0.10);
}

TEST_CASE("published runs: Llama 3.1 405B on 8,192 and 16,384 H100 within 10 % (T-A8)", "[published][e2e]") {
  CHECK(std::abs(relative_error("llama3-405b-16k")) < 0.10);
  CHECK(std::abs(relative_error("llama3-405b-8k")) < 0.10);
}
