#include "sim/reliability/checkpoint.hpp"

#include <catch2/catch.hpp>

using namespace tracecast;
using namespace tracecast::literals;

namespace {

constexpr Bytes kSize{14'000'000'000};

CheckpointSettings tectonic() {
  CheckpointSettings settings;
  settings.mode = CheckpointMode::sync;
  settings.storage_write = settings.storage_read = 2000_GBps;
  return settings;
}

}  // namespace

TEST_CASE("time of a checkpoint at 2 TB/s", "[oracle][reliability]") {
  const CheckpointShape shape{Bytes{14 * 405'853'388'800}, 16384, 16384};
  CHECK(seconds(write_time(tectonic(), shape)) == Approx(2.84).epsilon(1e-3));
}

TEST_CASE("the slower of rank bandwidth and file system bandwidth decides", "[oracle][reliability]") {
  CheckpointSettings settings = tectonic();
  const CheckpointShape sharded{kSize, 100, 100};  // 140 MB each
  settings.rank_storage = 1_GBps;
  CHECK(write_time(settings, sharded) == job_time(140_ms));
  settings.storage_write = 50_GBps;
  CHECK(write_time(settings, sharded) == job_time(280_ms));
  settings.metadata = 3_s;
  CHECK(write_time(settings, sharded) == job_time(3_s + 280_ms));
  // Without ZeRO only the ranks of one replica write.
  CHECK(write_time(settings, {kSize, 100, 10}) == job_time(3_s + 1400_ms));
  // Rank 0 saves the model.
  settings.mode = CheckpointMode::rank0;
  CHECK(write_time(settings, sharded) == job_time(17_s));
}

TEST_CASE("a checkpoint may take longer than a Duration can be", "[oracle][reliability]") {
  CheckpointSettings settings = tectonic();
  settings.storage_write = {1000};
  CHECK(write_time(settings, {kSize, 100, 100}) == job_time(14e6));  // 162 days
}

TEST_CASE("reading: every replica reads all, or one reads and broadcasts", "[oracle][reliability]") {
  CheckpointSettings settings = tectonic();
  const CheckpointShape shape{kSize, 100, 100};
  settings.storage_read = 10_GBps;
  CHECK(load_time(settings, shape) == job_time(1400_ms));
  settings.read_amplification = 8;
  CHECK(load_time(settings, shape) == job_time(11200_ms));
}

TEST_CASE("levels of each mode", "[reliability]") {
  CheckpointSettings settings = tectonic();
  settings.host_copy = 20_GBps;
  settings.peer_copy = 10_GBps;
  settings.storage_every = 4;
  const CheckpointShape shape{kSize, 10, 10, 2};
  settings.mode = CheckpointMode::off;
  CHECK(make_tiers(settings, shape).empty());
  settings.mode = CheckpointMode::async;
  const std::vector<CheckpointTier> async = make_tiers(settings, shape);
  REQUIRE(async.size() == 1);
  CHECK(async[0].stall == job_time(0.07));
  CHECK(async[0].persist == job_time(0.007));
  settings.mode = CheckpointMode::tiered;
  const std::vector<CheckpointTier> tiered = make_tiers(settings, shape);
  REQUIRE(tiered.size() == 3);
  CHECK(tiered[0].survives == Survives::restart);
  CHECK(tiered[1].survives == Survives::one_node);
  CHECK(tiered[1].persist == job_time(0.14));
  CHECK(tiered[2].survives == Survives::anything);
  CHECK(tiered[2].every == 4);
  CHECK(mean_stall_s(tiered) == Approx(0.07));
  const std::vector<CheckpointTier> one_node = make_tiers(settings, {kSize, 10, 10, 1});
  REQUIRE(one_node.size() == 2);  // nothing survives the loss of the only node but storage
  CHECK(one_node[0] == tiered[0]);
  CHECK(one_node[1] == tiered[2]);
}
