#include <catch2/catch.hpp>

#include "sim/forecast/summary.hpp"
#include "tools/sweep_predict.hpp"

using namespace tracecast;

namespace {

/// Llama 2 13B on two P5 nodes of 2,048 GiB, every rank with all 12 bytes of each parameter in its host's memory.
ForecastRun run(const std::string& host_memory) {
  const Result<Scenario> scenario = cli::read_with_topology(
      "p5-llama2-13b-16", {"parallel.tp=1", "parallel.pp=1", "parallel.zero_stage=0", "training.offload_optimizer=true",
                           "training.recompute=full", "training.micro_batch_size=1", "training.grad_reduce_dtype=bf16",
                           "topology.node.host_memory=" + host_memory});
  REQUIRE(scenario);
  return forecast(*scenario, {}).value();
}

}  // namespace

TEST_CASE("host memory: eight GPUs of a host share it", "[forecast]") {
  const ForecastRun enough = run("2048 GiB");
  CHECK(enough.forecast.host_capacity == Bytes{256LL << 30});
  CHECK(enough.forecast.host_peak.count == Approx(12 * 13.0e9).epsilon(0.01));
  const std::int64_t needed = 8 * enough.forecast.host_peak.count;
  const auto fits = [&](std::int64_t bytes) { return run(std::to_string(bytes) + " B").forecast.fits; };
  REQUIRE(enough.forecast.fits);
  CHECK(fits(needed));
  CHECK_FALSE(fits(needed - 8));
}
