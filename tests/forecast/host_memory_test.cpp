#include <catch2/catch.hpp>

#include "sim/forecast/summary.hpp"
#include "tools/sweep_predict.hpp"

using namespace tracecast;

namespace {

/// Llama 2 13B on two P5 nodes of 2,048 GiB, every rank with all 12 bytes of each parameter in its host's memory.
ForecastRun run(const std::string& host_memory, int gpus = 16) {
  const Result<Scenario> scenario = cli::read_with_topology(
      "p5-llama2-13b-16", {"parallel.tp=1", "parallel.pp=1", "parallel.zero_stage=0", "training.offload_optimizer=true",
                           "training.recompute=full", "training.micro_batch_size=1", "training.grad_reduce_dtype=bf16",
                           "parallel.dp=0", "training.global_batch_size=48",
                           "cluster.world_size=" + std::to_string(gpus), "topology.node.host_memory=" + host_memory});
  REQUIRE(scenario);
  return forecast(*scenario, {}).value();
}

}  // namespace

TEST_CASE("host memory: eight GPUs of a host share it", "[forecast]") {
  const ForecastRun enough = run("2048 GiB");
  CHECK(enough.forecast.host_capacity == Bytes{2048LL << 30});
  CHECK(enough.forecast.host_peak.count == Approx(12 * 13.0e9).epsilon(0.01));
  const std::int64_t needed = 8 * enough.forecast.host_peak.count;
  CHECK(enough.forecast.host_used == Bytes{needed});
  const auto fits = [&](std::int64_t bytes) { return run(std::to_string(bytes) + " B").forecast.fits; };
  REQUIRE(enough.forecast.fits);
  CHECK(fits(needed));
  CHECK_FALSE(fits(needed - 1));
}

TEST_CASE("host memory: a job on part of a host has all of it", "[forecast]") {
  const ForecastRun one = run("200 GB", 1);  // of eight GPUs, whose shares would be 25 GB
  CHECK(one.forecast.host_used == one.forecast.host_peak);
  CHECK(one.forecast.fits);
  CHECK_FALSE(run("100 GB", 1).forecast.fits);
  const ForecastRun nine = run("2048 GiB", 12);
  CHECK(nine.forecast.host_used == 8 * nine.forecast.host_peak);  // the fullest host, not the last
}
