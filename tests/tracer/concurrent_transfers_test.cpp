#include "tracer/concurrent_transfers.hpp"

#include <catch2/catch.hpp>

using namespace tracecast;

namespace {

TraceKernel between(std::int64_t start, std::int64_t end) {
  TraceKernel kernel;
  kernel.start_ns = start;
  kernel.end_ns = end;
  return kernel;
}

}  // namespace

TEST_CASE("concurrent transfers: a kernel alone takes the integral of its speed beside all of them",
          "[oracle][tracer]") {
  ConcurrentTransfers transfers;
  transfers.add(between(0, 1000), {kFullSpeed / 2, kFullSpeed});              // the multiplication knows of its SMs
  transfers.add(between(500, 2000), {kFullSpeed * 3 / 4, kFullSpeed, true});  // and not of these
  transfers.sort();
  const GpuUse multiplication{Bound::compute, kWholeExtra};
  // Half of the speed; 1 / (1 / (1/2) + 1), as the engine takes the smallest share and what is lost besides; 1 / (4/3 + 1); full.
  CHECK(transfers.alone(between(0, 2500), multiplication) == Approx(500 / 2.0 + 500 / 3.0 + 1000 * 3 / 7.0 + 500));
  CHECK(transfers.alone(between(0, 2500), {Bound::compute}) == Approx(500 / 2.0 + 500 / 2.0 + 1000 * 3 / 4.0 + 500));
  CHECK(transfers.alone(between(0, 2500), {Bound::memory}) == 2500);
}
