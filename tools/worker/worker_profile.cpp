#include <ctime>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include "kernels/cpu_driver.hpp"
#include "kernels/measurement_log.hpp"
#include "kernels/mpi_device.hpp"
#include "kernels/recording.hpp"
#include "kernels/samples.hpp"
#include "kernels/suite.hpp"
#include "sim/base/words.hpp"
#include "sim/io/files.hpp"
#include "tools/progress.hpp"
#include "tools/worker/inputs.hpp"
#include "tools/worker/worker.hpp"

namespace tracecast::worker {
namespace {

constexpr Bytes kLargestCollective{16 << 20};

/// Seconds of one pass over a suite: those of all ranks for each operator, then one value for each collective.
using Pass = std::vector<double>;

/// All ranks time each operator simultaneously, since cores share caches and memory.
class Timer {
 public:
  explicit Timer(const Suite& suite) : suite_(suite) {
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    cpu::Need largest;
    const auto add = [&largest](const cpu::Need& need) {
      largest = {std::max(largest.inputs, need.inputs), std::max(largest.outputs, need.outputs)};
    };
    for (const Scenario& scenario : suite.scenarios) widths_.push_back(widths_of(scenario));
    for (const SuiteOperator& each : suite.operators) add(cpu::need_of(each.op, widths_[each.scenario]));
    for (const CollectiveCall& call : suite.collectives) add(need_of(call));
    for (const Widths& widths : widths_) drivers_.push_back(std::make_unique<cpu::Driver>(widths, largest));
  }

  Pass pass() {
    Pass result;
    for (const SuiteOperator& each : suite_.operators) {
      const std::vector<double> all = timed([&] { drivers_[each.scenario]->run(each.op); });
      result.insert(result.end(), all.begin(), all.end());
    }
    if (ranks_ > 1)
      for (const CollectiveCall& call : suite_.collectives)
        result.push_back(together([&] { run_collective(call, MPI_COMM_WORLD, *drivers_.front()); }));
    return result;
  }

 private:
  /// Seconds of each rank.
  template <class Work>
  std::vector<double> timed(Work work) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    work();
    const double own = MPI_Wtime() - begin;
    std::vector<double> all(static_cast<std::size_t>(ranks_));
    MPI_Gather(&own, 1, MPI_DOUBLE, all.data(), 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return all;
  }

  /// Seconds from the arrival of the last rank to the end of the last rank.
  template <class Work>
  double together(Work work) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    work();
    const double end = MPI_Wtime();
    double latest_begin = 0;
    double latest_end = 0;
    MPI_Allreduce(&begin, &latest_begin, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&end, &latest_end, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return latest_end - latest_begin;
  }

  const Suite& suite_;
  int ranks_ = 1;
  std::vector<Widths> widths_;
  std::vector<std::unique_ptr<cpu::Driver>> drivers_;
};

/// The passes so far, on disk as well, so that an interrupted recording can continue.
class PassLog {
 public:
  /// `values`: of one pass. A pass of another size ends what is taken over.
  PassLog(const std::string& path, const std::string& key, std::size_t values) : log_(path, key) {
    for (const Measurement* found = log_.find(label()); found != nullptr && found->seconds.size() == values;
         found = log_.find(label()))
      passes_.push_back(found->seconds);
  }

  /// False: the file cannot be written.
  bool add(Pass pass) {
    const bool written = log_.add(label(), {pass, ""});
    passes_.push_back(std::move(pass));
    return written;
  }
  void remove() const { log_.remove(); }
  const std::vector<Pass>& passes() const { return passes_; }

 private:
  std::string label() const { return fmt::format("pass {}", passes_.size()); }  // of the next one

  MeasurementLog log_;
  std::vector<Pass> passes_;
};

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(": ") + 2);
  return "unknown CPU";
}

/// Memory of one rank when there is one rank per core.
Bytes memory_of_rank(int ranks) {
  return Bytes{static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE) / ranks};
}

SuiteSamples summarise_passes(const std::vector<Pass>& passes, const Suite& suite, int ranks) {
  const auto values_at = [&passes](std::size_t first, std::size_t count) {
    std::vector<double> values;
    for (const Pass& pass : passes)
      for (std::size_t i = first; i < first + count; ++i) values.push_back(pass[i]);
    return summarise(values);
  };
  const auto of_operator = static_cast<std::size_t>(ranks);
  const std::size_t of_all = suite.operators.size() * of_operator;
  SuiteSamples samples;
  for (std::size_t i = 0; i < of_all; i += of_operator) samples.operators.push_back(values_at(i, of_operator));
  for (std::size_t i = of_all; i < passes.front().size(); ++i) samples.collectives.push_back(values_at(i, 1));
  return samples;
}

}  // namespace

Result<void> profile(const ProfileOptions& options) {
  const Result<Suite> suite = suite_of(options, kLargestCollective);
  if (!suite) return tl::unexpected(suite.error());
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const std::string key =
      fmt::format("suite {} for [{}], {} operators, {} collectives, {} ranks", options.suite,
                  fmt::join(options.scenarios, " "), suite->operators.size(), suite->collectives.size(), ranks);
  std::optional<PassLog> log;
  int done = 0;
  bool kept = true;
  if (rank == 0) {
    const std::size_t collectives = ranks > 1 ? suite->collectives.size() : 0;
    log.emplace(options.out + ".passes", key, suite->operators.size() * static_cast<std::size_t>(ranks) + collectives);
    done = static_cast<int>(log->passes().size());
  }
  MPI_Bcast(&done, 1, MPI_INT, 0, MPI_COMM_WORLD);
  Timer timer(*suite);
  timer.pass();  // warm-up: loads libraries and maps pages
  {
    cli::Progress progress(
        fmt::format("timing {} operators and {} collectives", suite->operators.size(), suite->collectives.size()),
        rank == 0 && options.show_progress);
    for (; done < options.passes; ++done) {
      progress.update(done, options.passes);
      Pass pass = timer.pass();
      if (rank == 0) kept = log->add(std::move(pass)) && kept;
    }
  }
  if (rank != 0) return {};
  if (!kept) fmt::print(stderr, "note: {}.passes could not be written: a later run begins anew\n", options.out);
  const RecordedOn where{
      fmt::format("{}, {} rank{} at a time", cpu_name(), ranks, plural(ranks)),
      fmt::format("tracecast profile --device cpu --suite {} --ranks {}, {} passes, lower quartiles, {:%Y-%m-%d}",
                  options.suite, ranks, log->passes().size(), fmt::gmtime(std::time(nullptr))),
      ranks, memory_of_rank(ranks)};
  const Result<void> written = write_file(
      options.out, to_json(recorded_cpu_profile(*suite, summarise_passes(log->passes(), *suite, ranks), where)));
  if (written) log->remove();
  return written;
}

}  // namespace tracecast::worker
