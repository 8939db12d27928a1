/// Histories of 54 days at 16,384 GPUs with the failures of Llama 3. The aim is 10,000 in less than 10 s on two cores.

#include <benchmark/benchmark.h>

#include "sim/io/failure_file.hpp"
#include "sim/reliability/goodput.hpp"
#include "tests/support/paths.hpp"

namespace {

using namespace tracecast;

void histories_of_54_days(benchmark::State& state) {
  const auto file = read_failure_file(source_dir() / "scenarios" / "failures" / "llama3-54-days.json");
  if (!file) return state.SkipWithError(to_string(file.error()).c_str());
  FixedStepTimes steps;
  steps.healthy = {from_seconds(6.34), 2048 * 8192};
  steps.replicas = 128;
  CheckpointSettings checkpoint = file->checkpoint;
  checkpoint.storage_write = checkpoint.storage_read = {2'000'000'000'000};
  JobSpec spec;
  spec.machine = {16384, 8};
  spec.replicas = 128;
  spec.failures = file->model;
  spec.recovery = file->recovery;
  spec.checkpoint = {65, make_tiers(checkpoint, {405'853'388'800, 16384, 16384})};
  spec.horizon = job_time(54 * 86400.0);
  GoodputOptions options;
  options.min_histories = options.max_histories = static_cast<int>(state.range(0));
  options.threads = static_cast<int>(state.range(1));
  for ([[maybe_unused]] const auto _ : state) benchmark::DoNotOptimize(simulate_goodput(spec, steps, options));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

BENCHMARK(histories_of_54_days)->Args({1000, 1})->Args({10'000, 2})->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
