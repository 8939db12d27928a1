// Steps of a recording without ranges.

#include "tracer/step_windows.hpp"

#include <numeric>

#include <catch2/catch.hpp>

using namespace tracecast;

namespace {

/// A step as a framework without known names runs it: `layers` times forward and backward in each micro-batch, then an update.
/// Numbers: 0 begins a micro-batch, 1 and 2 a layer's forward, 3 its backward, 4 an element-wise kernel, 5 the update.
std::vector<std::int32_t> step_of(int microbatches, int layers) {
  std::vector<std::int32_t> ids;
  for (int m = 0; m < microbatches; ++m) {
    ids.push_back(0);
    for (int l = 0; l < layers; ++l) ids.insert(ids.end(), {1, 4, 2, 4});
    for (int l = 0; l < layers; ++l) ids.insert(ids.end(), {3, 4, 3, 4, 3});
  }
  ids.insert(ids.end(), {5, 5});
  return ids;
}

std::vector<std::int32_t> steps_of(int steps, const std::vector<std::int32_t>& step, std::size_t skipped = 0) {
  std::vector<std::int32_t> ids;
  for (int s = 0; s < steps; ++s) ids.insert(ids.end(), step.begin(), step.end());
  ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(skipped));
  return ids;
}

/// A trace with one kernel a microsecond, named by `name`.
template <class Name>
Trace trace_of(const std::vector<std::int32_t>& ids, Name name) {
  Trace trace;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i) * 1'000 + 10'000;
    const auto id = static_cast<std::int64_t>(i) + 1;
    trace.calls.push_back({1, id, at, at + 100, ""});
    trace.kernels.push_back({name(ids[i]), 0, 7, id, at + 200, at + 900, 1, 1});
  }
  return trace;
}

}  // namespace

TEST_CASE("steps: the period is the step, not its micro-batch or layer", "[tracer][steps]") {
  const int microbatches = GENERATE(1, 2, 16);
  const int layers = GENERATE(1, 3, 24);
  const std::vector<std::int32_t> step = step_of(microbatches, layers);
  CAPTURE(microbatches, layers, step.size());
  for (const std::size_t skipped : {std::size_t{0}, std::size_t{7}, step.size() / 2}) {
    const std::vector<std::size_t> begins = period_begins(steps_of(4, step, skipped));
    CAPTURE(skipped);
    REQUIRE(begins.size() >= 3);
    for (std::size_t i = 1; i < begins.size(); ++i) CHECK(begins[i] - begins[i - 1] == step.size());
  }
}

TEST_CASE("steps: work that does not repeat has none", "[tracer][steps]") {
  CHECK(period_begins({}).empty());
  std::vector<std::int32_t> ids(100);
  std::iota(ids.begin(), ids.end(), 0);
  CHECK(period_begins(ids).empty());
  CHECK(step_windows(Trace{}).empty());
}

TEST_CASE("steps: kernels before the first step do not count", "[tracer][steps]") {
  const std::vector<std::int32_t> step = step_of(2, 3);
  std::vector<std::int32_t> ids(30, 9);  // the weights are initialised
  for (const std::int32_t id : steps_of(4, step)) ids.push_back(id);
  const std::vector<std::size_t> begins = period_begins(ids);
  REQUIRE(begins.size() >= 3);
  CHECK(begins[1] - begins[0] == step.size());
  CHECK(begins[0] >= 30);
}

TEST_CASE("steps: a known optimizer ends a step, whatever repeats", "[tracer][steps]") {
  const std::vector<std::int32_t> step = step_of(4, 3);
  const auto name = [](std::int32_t id) {
    return id == 5 ? "multi_tensor_apply_kernel" : id == 0 ? "embedding" : id == 4 ? "elementwise" : "gemm";
  };
  const Trace trace = trace_of(steps_of(3, step, 10), name);
  const auto windows = step_windows(trace);
  REQUIRE(windows.size() == 2);  // the first piece lacks ten kernels
  CHECK(windows.begin()->first == 1);
  CHECK(windows.at(1).end - windows.at(1).begin == static_cast<std::int64_t>(step.size()) * 1'000);
  CHECK(windows.at(2).end == trace.calls.back().start_ns + 1);
  CHECK(windows.begin()->second.begin == trace.calls[step.size() - 10].start_ns);
}

TEST_CASE("steps: copies of FSDP2 before each layer do not end a step", "[tracer][steps]") {
  const std::vector<std::int32_t> step = step_of(1, 3);
  const auto name = [](std::int32_t id) {
    return id == 5   ? "multi_tensor_apply_kernel<FusedAdam>"
           : id == 4 ? "multi_tensor_apply_kernel<CopyFunctor>"
                     : "gemm";
  };
  const auto windows = step_windows(trace_of(steps_of(3, step), name));
  REQUIRE(windows.size() == 3);
  CHECK(windows.at(2).end - windows.at(2).begin == static_cast<std::int64_t>(step.size()) * 1'000);
}

TEST_CASE("steps: a step with unknown kernels is cut out of a recording with what belongs to it", "[tracer][steps]") {
  const std::vector<std::int32_t> step = step_of(4, 3);
  const auto name = [](std::int32_t id) { return "kernel " + std::to_string(id); };
  Trace trace = trace_of(steps_of(5, step), name);
  trace.overhead_ns = 1'000;
  trace.externals = {{1, 5, 1}, {1, 6, static_cast<std::int64_t>(trace.kernels.size())}};
  trace.ranges = {{"first", "", 1, 1, 0, 20'000}, {"all", "", 1, 2, 0, 100'000'000}};
  Trace whole = trace;
  CHECK_FALSE(keep_last_steps(whole, 6));
  CHECK(whole == trace);
  REQUIRE(keep_last_steps(trace, 2));
  CHECK(trace.kernels.size() == 2 * step.size());
  CHECK(trace.calls.size() == 2 * step.size());
  CHECK(trace.externals.size() == 1);
  CHECK(trace.ranges.size() == 1);
  CHECK(trace.overhead_ns == Approx(400).margin(2));  // two of five steps
}
