#include <algorithm>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <mpi.h>

#include "kernels/cpu_driver.hpp"
#include "kernels/executor.hpp"
#include "kernels/mpi_device.hpp"
#include "sim/forecast/forecast.hpp"
#include "tools/worker/inputs.hpp"
#include "tools/worker/outputs.hpp"
#include "tools/worker/worker.hpp"

namespace tracecast::worker {
namespace {

/// Plans without overlap, as on a CPU, for any profile: execution needs no times in the step graph.
Result<Scenario> load(const ExecuteOptions& options) {
  Result<Scenario> scenario = load_scenario(options);
  if (scenario) scenario->profile.overlap = false;
  return scenario;
}

cpu::Need largest_need(const StepGraph& graph, const Widths& widths) {
  cpu::Need largest;
  const auto add = [&largest](const cpu::Need& need) {
    largest = {std::max(largest.inputs, need.inputs), std::max(largest.outputs, need.outputs)};
  };
  for (const CostedOperator& costed : graph.operators) add(cpu::need_of(costed.op, widths));
  for (const CostedCollective& costed : graph.collectives) add(need_of(costed.call));
  for (const Message& message : graph.messages) add({message.size.count / 4 + 64, message.size.count / 4 + 64});
  return largest;
}

std::int64_t available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::int64_t kib = 0;
  for (std::string unit; file >> key >> kib;) {
    if (key == "MemAvailable:") return kib << 10;
    std::getline(file, unit);
  }
  return 0;
}

std::vector<ExecutedOp> gather_at_root(const std::vector<ExecutedOp>& own, int source) {
  static_assert(std::is_trivially_copyable_v<ExecutedOp>);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (source == 0) return own;
  auto bytes = static_cast<int>(own.size() * sizeof(ExecutedOp));
  if (rank == source) {
    MPI_Send(&bytes, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    MPI_Send(own.data(), bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
  }
  if (rank != 0) return {};
  MPI_Recv(&bytes, 1, MPI_INT, source, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  std::vector<ExecutedOp> theirs(static_cast<std::size_t>(bytes) / sizeof(ExecutedOp));
  MPI_Recv(theirs.data(), bytes, MPI_BYTE, source, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return theirs;
}

/// Runs the steps. Returns the timeline of each on rank 0.
std::vector<Timeline> run_steps(const StepGraph& graph, const ExecuteOptions& options, cpu::Driver& driver) {
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MpiDevice device(graph, driver);
  std::vector<Timeline> timelines;
  for (int step = 0; step < options.warm_up + options.steps; ++step) {
    device.begin_step();
    const std::vector<ExecutedOp> own = execute_rank(graph, rank, device);
    std::vector<std::vector<ExecutedOp>> all;
    for (int source = 0; source < ranks; ++source) all.push_back(gather_at_root(own, source));
    if (rank == 0 && step >= options.warm_up) timelines.push_back(timeline_of(graph, all));
  }
  return timelines;
}

}  // namespace

Result<void> check_execution(const ExecuteOptions& options) {
  const Result<Scenario> scenario = load(options);
  if (!scenario) return tl::unexpected(scenario.error());
  const Result<ForecastRun> run = forecast(*scenario, {.unfold = true});
  if (!run) return tl::unexpected(run.error());
  const Widths widths = tracecast::widths_of(scenario->model, run->plan);
  const std::int64_t each = cpu::Driver::memory_bytes(widths, largest_need(run->graph, widths));
  const std::int64_t needed = each * scenario->cluster.world_size;
  const std::int64_t available = available_memory_bytes();
  if (needed <= available) return {};
  return fail(fmt::format("{} needs {:.1f} GiB to be executed by {} ranks, and {:.1f} GiB are free", scenario->name,
                          gib(Bytes{needed}), scenario->cluster.world_size, gib(Bytes{available})));
}

Result<void> execute(const ExecuteOptions& options) {
  const Result<Scenario> scenario = load(options);
  if (!scenario) return tl::unexpected(scenario.error());
  Result<ForecastRun> run = forecast(*scenario, {.unfold = true});
  if (!run) return tl::unexpected(run.error());
  int ranks = 1;
  int rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (ranks != scenario->cluster.world_size)
    return fail(
        fmt::format("{} has {} ranks and was started with {}", scenario->name, scenario->cluster.world_size, ranks));
  const Widths widths = tracecast::widths_of(scenario->model, run->plan);
  cpu::Driver driver(widths, largest_need(run->graph, widths));
  const std::vector<Timeline> steps = run_steps(run->graph, options, driver);
  if (rank != 0) return {};
  return write_steps(options, *scenario, *run, steps);
}

}  // namespace tracecast::worker
