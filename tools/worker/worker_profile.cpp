#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <mpi.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "kernels/cpu_driver.hpp"
#include "kernels/mpi_device.hpp"
#include "kernels/recording.hpp"
#include "kernels/samples.hpp"
#include "kernels/suite.hpp"
#include "sim/io/files.hpp"
#include "tools/progress.hpp"
#include "tools/worker/inputs.hpp"
#include "tools/worker/worker.hpp"

namespace tracecast::worker {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kLargestCollective{16 << 20};

/// Times of one pass over a suite, of all ranks: [operator or collective][rank].
struct Pass {
  std::vector<std::vector<double>> operators;
  std::vector<std::vector<double>> collectives;
};

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
    for (const SuiteOperator& each : suite_.operators)
      result.operators.push_back(timed([&] { drivers_[each.scenario]->run(each.op); }));
    if (ranks_ > 1)
      for (const CollectiveCall& call : suite_.collectives)
        result.collectives.push_back(together([&] { run_collective(call, MPI_COMM_WORLD, *drivers_.front()); }));
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

  /// Seconds from the arrival of the last rank to the end of the last rank: one value.
  template <class Work>
  std::vector<double> together(Work work) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    work();
    const double end = MPI_Wtime();
    double latest_begin = 0;
    double latest_end = 0;
    MPI_Allreduce(&begin, &latest_begin, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&end, &latest_end, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return {latest_end - latest_begin};
  }

  const Suite& suite_;
  int ranks_ = 1;
  std::vector<Widths> widths_;
  std::vector<std::unique_ptr<cpu::Driver>> drivers_;
};

/// A log of passes, one per line, so that an interrupted recording can resume.
class PassFile {
 public:
  PassFile(fs::path path, const std::string& key) : path_(std::move(path)), key_(key) {
    std::ifstream file(path_);
    std::string line;
    if (!std::getline(file, line) || line != key_) {
      std::ofstream(path_) << key_ << '\n';
      return;
    }
    while (std::getline(file, line)) {
      const nlohmann::json pass = nlohmann::json::parse(line, nullptr, false);
      if (pass.is_discarded()) break;  // cut off in the middle of a line
      passes_.push_back({pass.at("operators").get<std::vector<std::vector<double>>>(),
                         pass.at("collectives").get<std::vector<std::vector<double>>>()});
    }
  }
  void add(const Pass& pass) {
    std::ofstream(path_, std::ios::app)
        << nlohmann::json{{"operators", pass.operators}, {"collectives", pass.collectives}}.dump() << '\n';
    passes_.push_back(pass);
  }
  void remove() const { fs::remove(path_); }
  const std::vector<Pass>& passes() const { return passes_; }

 private:
  fs::path path_;
  std::string key_;
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

SuiteSamples summarise_passes(const std::vector<Pass>& passes) {
  const auto column = [&passes](std::vector<std::vector<double>> Pass::*part, std::size_t index) {
    std::vector<double> values;
    for (const Pass& pass : passes) values.insert(values.end(), (pass.*part)[index].begin(), (pass.*part)[index].end());
    return summarise(values);
  };
  SuiteSamples samples;
  for (std::size_t i = 0; i < passes.front().operators.size(); ++i)
    samples.operators.push_back(column(&Pass::operators, i));
  for (std::size_t i = 0; i < passes.front().collectives.size(); ++i)
    samples.collectives.push_back(column(&Pass::collectives, i));
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
  std::optional<PassFile> file;
  int done = 0;
  if (rank == 0) {
    file.emplace(options.out + ".passes", key);
    done = static_cast<int>(file->passes().size());
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
      const Pass pass = timer.pass();
      if (rank == 0) file->add(pass);
    }
  }
  if (rank != 0) return {};
  const RecordedOn where{
      fmt::format("{}, {} rank{} at a time", cpu_name(), ranks, ranks == 1 ? "" : "s"),
      fmt::format("tracecast profile --device cpu --suite {} --ranks {}, {} passes, lower quartiles, {:%Y-%m-%d}",
                  options.suite, ranks, file->passes().size(), fmt::gmtime(std::time(nullptr))),
      ranks, memory_of_rank(ranks)};
  const Result<void> written =
      write_file(options.out, to_json(recorded_cpu_profile(*suite, summarise_passes(file->passes()), where)));
  if (written) file->remove();
  return written;
}

}  // namespace tracecast::worker
