#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "kernels/cuda/collectives.hpp"
#include "kernels/cuda/device_info.hpp"
#include "kernels/cuda/step_runner.hpp"
#include "kernels/executor.hpp"
#include "sim/forecast/forecast.hpp"
#include "tools/cuda_worker/cuda_worker.hpp"
#include "tools/worker/inputs.hpp"
#include "tools/worker/outputs.hpp"

namespace tracecast::worker {
namespace {

constexpr ForecastOptions kEveryRank{.unfold = true};

/// Operators of the graph that cannot run on a GPU.
Result<void> check_operators(const StepGraph& graph, const Widths& widths) {
  for (const CostedOperator& costed : graph.operators)
    if (const std::string why = cuda::refusal(costed.op, widths); !why.empty()) return fail(why);
  return {};
}

std::string bytes_of(const std::vector<ExecutedOp>& list) {
  static_assert(std::is_trivially_copyable_v<ExecutedOp>);
  return {reinterpret_cast<const char*>(list.data()), list.size() * sizeof(ExecutedOp)};
}
std::vector<ExecutedOp> list_of(const std::string& bytes) {
  std::vector<ExecutedOp> list(bytes.size() / sizeof(ExecutedOp));
  std::memcpy(list.data(), bytes.data(), list.size() * sizeof(ExecutedOp));
  return list;
}

/// One rank with its GPU, its communicators and its streams.
class RankOnGpu {
 public:
  RankOnGpu(const StepGraph& graph, const Widths& widths, const cuda::Rendezvous& rendezvous)
      : graph_(graph), rendezvous_(rendezvous), driver_(widths, cuda::need_of(graph, widths)) {}

  void connect() {
    const std::int32_t rank = rendezvous_.self().rank;
    if (rendezvous_.self().ranks > 1) {
      world_ = cuda::nccl_world(rendezvous_);
      groups_.emplace(graph_, rank, world_);
    }
    runner_ = std::make_unique<cuda::StepRunner>(graph_, rank, driver_, groups_ ? &*groups_ : nullptr);
    runner_->warm_up();
  }

  std::vector<ExecutedOp> step() {
    // Ranks leave the barrier within some microseconds of each other; their times count from there.
    if (!world_.none()) world_.barrier(driver_, runner_->stream(kComputeStream));
    return runner_->run();
  }

 private:
  const StepGraph& graph_;
  const cuda::Rendezvous& rendezvous_;
  cuda::Driver driver_;
  cuda::NcclGroup world_;
  std::optional<cuda::GraphGroups> groups_;
  std::unique_ptr<cuda::StepRunner> runner_;
};

std::vector<Timeline> run_steps(const StepGraph& graph, const ExecuteOptions& options, RankOnGpu& rank,
                                const cuda::Rendezvous& rendezvous) {
  std::vector<Timeline> timelines;
  for (int step = 0; step < options.warm_up + options.steps; ++step) {
    const std::vector<ExecutedOp> own = rank.step();
    if (step < options.warm_up) continue;
    const Result<std::vector<std::string>> all = rendezvous.gather_at_root(fmt::format("step-{}", step), bytes_of(own));
    // A rank that cannot give or get its times is alone now: thrown, so that its communicators are aborted.
    if (!all) throw cuda::DeviceError(to_string(all.error()));
    if (all->empty()) continue;
    std::vector<std::vector<ExecutedOp>> ranks;
    for (const std::string& bytes : *all) ranks.push_back(list_of(bytes));
    timelines.push_back(overlapped_timeline_of(graph, ranks));
  }
  return timelines;
}

}  // namespace

Result<void> check_cuda_execution(const ExecuteOptions& options) {
  const Result<Scenario> scenario = load_scenario(options);
  if (!scenario) return tl::unexpected(scenario.error());
  const Result<ForecastRun> run = forecast(*scenario, kEveryRank);
  if (!run) return tl::unexpected(run.error());
  const Widths widths = tracecast::widths_of(scenario->model, run->plan);
  if (const Result<void> possible = check_operators(run->graph, widths); !possible) return possible;
  const int ranks = scenario->cluster.world_size;
  if (ranks > cuda::device_count())
    return fail(fmt::format("{} has {} ranks, and {} GPU{} here", scenario->name, ranks, cuda::device_count(),
                            cuda::device_count() == 1 ? " is" : "s are"));
  const std::int64_t needed = cuda::driver_bytes(cuda::need_of(run->graph, widths), widths);
  const std::int64_t free = cuda::use_device(0).free_bytes;
  if (needed <= free) return {};
  return fail(fmt::format("{} needs {:.1f} GiB on each GPU to be executed, and {:.1f} GiB are free", scenario->name,
                          gib(Bytes{needed}), gib(Bytes{free})));
}

Result<void> execute_cuda(const ExecuteOptions& options, const cuda::Rendezvous& rendezvous) {
  const Result<Scenario> scenario = load_scenario(options);
  if (!scenario) return tl::unexpected(scenario.error());
  Result<ForecastRun> run = forecast(*scenario, kEveryRank);
  if (!run) return tl::unexpected(run.error());
  const cuda::JobRank& self = rendezvous.self();
  if (self.ranks != scenario->cluster.world_size)
    return fail(fmt::format("{} has {} ranks and was started with {}", scenario->name, scenario->cluster.world_size,
                            self.ranks));
  cuda::use_device(self.local_rank);
  RankOnGpu rank(run->graph, tracecast::widths_of(scenario->model, run->plan), rendezvous);
  rank.connect();
  const std::vector<Timeline> steps = run_steps(run->graph, options, rank, rendezvous);
  return self.rank == 0 ? write_steps(options, *scenario, *run, steps) : Result<void>{};
}

}  // namespace tracecast::worker
