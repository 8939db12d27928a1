// Recordings of `tools/gpu-checks` on an H100 (driver 580.159.04, NCCL 2.28.9, PyTorch 2.11, 2026-11-26), that of PyTorch cut to its last
// three steps: tests/data/recordings.

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/io/trace_reader.hpp"
#include "tests/support/paths.hpp"
#include "tracer/recorded_steps.hpp"
#include "tracer/recorded_work.hpp"
#include "tracer/replay.hpp"

using namespace tracecast;

namespace {

Trace recording(const std::string& name) {
  const Result<Trace> trace = read_trace(source_dir() / "tests/data/recordings" / name);
  REQUIRE(trace);
  return *trace;
}

Replay replay(const std::string& name, std::optional<std::int64_t> step = std::nullopt) {
  Result<Replay> replayed = replay_graph(recording(name), step, name);
  REQUIRE(replayed);
  return std::move(*replayed);
}

}  // namespace

TEST_CASE("a recording of two ranks: they meet in every collective, whichever stream it was on",
          "[tracer][replay][h100]") {
  // PyTorch runs collectives that are waited for on the caller's stream and others on one of its own: one communicator, two streams.
  std::vector<Replay> ranks;
  for (const char* name : {"h100-two-ranks.trace.0.gz", "h100-two-ranks.trace.1.gz"}) ranks.push_back(replay(name));
  REQUIRE(ranks[0].calls.size() == 44);
  REQUIRE(ranks[1].calls.size() == 44);
  const Replay joined = join_ranks(std::move(ranks));
  CHECK(joined.met == 44);
}

TEST_CASE("a recording of PyTorch: passes follow from the thread that launched a kernel", "[tracer][replay][h100]") {
  const Replay step = replay("h100-llama-8b.trace.gz", 1);
  std::map<std::pair<OperatorKind, Pass>, std::int64_t> kernels;
  std::map<Pass, double> multiplying;  // seconds
  for (const Template& part : step.graph.templates)
    for (const Op& op : part.ops) {
      if (op.type != OpType::compute || op.payload < 0) continue;
      const Operator& work = step.graph.operators[static_cast<std::size_t>(op.payload)].op;
      ++kernels[{work.kind, work.pass}];
      if (work.kind == OperatorKind::gemm) multiplying[work.pass] += seconds(op.duration);
    }
  // Six layers, two micro-batches: a forward kernel each, and a backward of three.
  CHECK(kernels[{OperatorKind::attention, Pass::forward}] == 12);
  CHECK(kernels[{OperatorKind::attention, Pass::backward}] == 36);
  CHECK(kernels[{OperatorKind::norm, Pass::forward}] == 2 * 13);
  CHECK(kernels[{OperatorKind::norm, Pass::backward}] == 2 * 2 * 13);
  // 7 multiplications per layer and the output layer: twice the work in the backward.
  CHECK(multiplying[Pass::backward] / multiplying[Pass::forward] == Approx(2).epsilon(0.1));
}

TEST_CASE("a recording of PyTorch: the kernels of an attention's backward are one operator",
          "[tracer][profile-from][h100]") {
  const auto devices = steps_of_devices(recording("h100-llama-8b.trace.gz"), {});
  REQUIRE(devices.size() == 1);
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  for (const KernelGroup& each : devices.begin()->second.at(1).work) {
    if (each.traits.kind != OperatorKind::attention) continue;
    CHECK(each.traits.forward != each.traits.backward);
    CHECK(each.kernels.size() == (each.traits.backward ? 3U : 1U));
    ++(each.traits.backward ? backward : forward);
  }
  CHECK(forward == 12);
  CHECK(backward == 12);
}

TEST_CASE("the thread of backward passes is not known where one thread does everything", "[tracer][replay]") {
  const auto trace = [](std::int64_t thread_of_update) {
    Trace made;
    const auto launch = [&made](std::int64_t thread, const std::string& name) {
      const auto id = static_cast<std::int64_t>(made.kernels.size()) + 1;
      made.calls.push_back({thread, id, 10 * id, 10 * id + 1, ""});
      made.kernels.push_back({name, 0, 7, id, 10 * id + 2, 10 * id + 5, 1, 1});
    };
    launch(1, "flash_fwd_kernel");
    launch(2, "flash_bwd_kernel");
    launch(thread_of_update, "multi_tensor_apply_kernel<FusedAdamMathFunctor>");
    return made;
  };
  const BackwardThreads apart(trace(1));
  CHECK(apart.launched(1) == false);
  CHECK(apart.launched(2) == true);
  // Thread 1 is a helper here: what launches forwards and updates beside backwards is no thread of backwards.
  CHECK_FALSE(BackwardThreads(trace(2)).launched(2).has_value());
}
