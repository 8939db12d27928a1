#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "kernels/cuda/collectives.hpp"
#include "kernels/cuda/device_info.hpp"
#include "kernels/cuda/driver.hpp"
#include "kernels/cuda/measure.hpp"
#include "kernels/measurement_log.hpp"
#include "kernels/recording.hpp"
#include "sim/io/files.hpp"
#include "tools/cuda_worker/cuda_worker.hpp"
#include "tools/environment.hpp"
#include "tools/named_files.hpp"
#include "tools/progress.hpp"
#include "tools/worker/inputs.hpp"

namespace tracecast::worker {
namespace {

constexpr Bytes kLargestCollective{std::int64_t{1} << 30};

/// Those of kind "recorded" are measurements of a GPU that another profile describes.
Result<std::vector<ShippedGpu>> shipped_gpus() {
  return cli::data_paths().and_then([](const DataPaths& data) -> Result<std::vector<ShippedGpu>> {
    std::vector<ShippedGpu> shipped;
    for (const auto& entry : std::filesystem::directory_iterator(data.profiles)) {
      if (entry.path().extension() != ".json") continue;
      const Result<Profile> profile = read_profile(entry.path());
      if (!profile) return tl::unexpected(profile.error());
      if (profile->overlap && profile->kind != "recorded")
        shipped.push_back({entry.path().stem().string(), profile->gpu, profile->memory});
    }
    std::ranges::sort(shipped, {}, &ShippedGpu::profile);
    return shipped;
  });
}

Result<Profile> base_profile(const std::string& asked, const cuda::DeviceInfo& device) {
  if (!asked.empty()) return cli::named_profile(asked);
  const Result<std::vector<ShippedGpu>> shipped = shipped_gpus();
  if (!shipped) return tl::unexpected(shipped.error());
  const std::vector<std::string> names = shipped_profiles_of(device.name, Bytes{device.memory_bytes}, *shipped);
  if (names.size() == 1) return cli::named_profile(names.front());
  const std::string gpu = fmt::format("{} with {:.0f} GiB", device.name, gib(Bytes{device.memory_bytes}));
  if (!names.empty())
    return fail(fmt::format("{}: several shipped profiles may describe it: choose one with --base (allowed: {})", gpu,
                            fmt::join(names, " ")));
  std::vector<std::string> all;
  for (const ShippedGpu& each : *shipped) all.push_back(each.profile);
  return fail(fmt::format("{}: no shipped profile describes it: name the nearest with --base (allowed: {})", gpu,
                          fmt::join(all, " ")));
}

std::string shape_text(const Operator& op) {
  if (const auto* gemm = std::get_if<GemmShape>(&op.shape))
    return fmt::format("{}x{}x{} of {}{}", gemm->m, gemm->n, gemm->k, gemm->batch,
                       gemm->accumulate_fp32 ? " fp32" : "");
  if (const auto* a = std::get_if<AttentionShape>(&op.shape))
    return fmt::format("{}x{}x{} heads {}/{} dim {}/{}{} window {}", a->batch, a->q_len, a->kv_len, a->heads,
                       a->kv_heads, a->qk_dim, a->v_dim, a->causal ? " causal" : "", a->window);
  const ElementwiseShape& shape = std::get<ElementwiseShape>(op.shape);
  return fmt::format("{} elements {} bytes", shape.elements, shape.traffic.count);
}
/// The key of a measurement in the log: everything that distinguishes operators, and the kernel's name.
std::string label_of(const Operator& op) {
  return fmt::format("{} {} {} {} {}", to_string(op.kind), op.name, to_string(op.pass), to_string(op.precision),
                     shape_text(op));
}
std::string label_of(const CollectiveCall& call, int ranks) {
  return fmt::format("{} {} bytes on {} ranks", to_string(call.collective), call.size.count, ranks);
}

class Recorder {
 public:
  Recorder(const Suite& suite, const CudaProfileOptions& options, const cuda::Rendezvous& rendezvous)
      : suite_(suite), options_(options), rendezvous_(rendezvous), begin_(std::chrono::steady_clock::now()) {
    cuda::ByteNeed need;
    Widths widest;
    for (const Scenario& scenario : suite.scenarios) {
      widths_.push_back(widths_of(scenario));
      widest.hidden = std::max(widest.hidden, widths_.back().hidden);
      widest.vocabulary = std::max(widest.vocabulary, widths_.back().vocabulary);
    }
    for (const SuiteOperator& each : suite.operators)
      need = largest(need, cuda::need_of(each.op, widths_[each.scenario]));
    if (rendezvous.self().ranks > 1)
      for (const CollectiveCall& call : suite.collectives) need = largest(need, cuda::need_of(call));
    driver_ = std::make_unique<cuda::Driver>(widest, need);
    TRACECAST_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    largest_ = largest_multiplication();
    warm_up();
  }
  ~Recorder() { cudaStreamDestroy(stream_); }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void connect() {
    if (rendezvous_.self().ranks > 1) world_ = cuda::nccl_world(rendezvous_);
  }

  bool time_is_up() const {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin_;
    return options_.seconds > 0 && taken.count() > options_.seconds;
  }

  Measurement time(const SuiteOperator& each) {
    const Widths& widths = widths_[each.scenario];
    if (const std::string why = cuda::refusal(each.op, widths); !why.empty()) return {{}, why};
    if (const std::string why = cuda::not_as_in_training(each.op); !why.empty()) return {{}, why};
    driver_->set_widths(widths);
    try {
      if (!driver_->masked(each.op)) return {{}, "cuDNN has no kernel with this mask"};
      return {cuda::measure([&] { driver_->run(each.op, stream_); }, stream_, settings()), ""};
    } catch (const cuda::DeviceError& error) {
      cudaGetLastError();  // clears the error of the launch
      return {{}, error.what()};
    }
  }

  /// After a kernel broke the context, every later one fails too.
  bool device_is_lost() const { return cudaStreamSynchronize(stream_) != cudaSuccess; }

  Measurement time(const CollectiveCall& call) {
    world_.barrier(*driver_, stream_);
    cuda::MeasureSettings together;
    together.samples = options_.common.passes;
    together.launches = launches_of(call.size);
    together.leading = 2;
    return {cuda::measure([&] { world_.run(call, *driver_, stream_); }, stream_, together), ""};
  }

  /// A table of the largest GEMM, a copy and an all-reduce of 256 MiB, alone and overlapped. All ranks must call it.
  std::string overlap() {
    if (largest_ == nullptr) return "";
    const cuda::StreamWork multiplication{[this](cudaStream_t stream) { driver_->run(largest_->op, stream); }, 0};
    const cuda::StreamWork copy{
        [this](cudaStream_t stream) {
          TRACECAST_CUDA(cudaMemcpyAsync(driver_->output(kMoved), driver_->input(kMoved),
                                         static_cast<std::size_t>(kMoved), cudaMemcpyDeviceToDevice, stream));
        },
        0};
    std::string table = "work,beside,alone_s,beside_s,slowdown\n";
    table += rows("largest multiplication", multiplication, "copy of 256 MiB", copy);
    try {
      if (world_.none()) world_ = cuda::nccl_world(rendezvous_);
    } catch (const cuda::DeviceError& error) {  // optional, so not an error
      fmt::print(stderr, "overlap of collectives with GEMMs not measured: {}\n", error.what());
    }
    if (world_.none()) return table;
    const cuda::StreamWork all_reduce{
        [this](cudaStream_t stream) {
          world_.run({Collective::all_reduce, Bytes{kMoved}, Algorithm::automatic, Protocol::automatic}, *driver_,
                     stream);
        },
        kTimedCollectives};
    const std::string name = fmt::format("all-reduce of 256 MiB on {} rank{}", rendezvous_.self().ranks,
                                         rendezvous_.self().ranks == 1 ? " (a copy)" : "s");
    return table + rows("largest multiplication", multiplication, name, all_reduce);
  }

 private:
  static constexpr std::int64_t kMoved = std::int64_t{256} << 20;
  static constexpr int kTimedCollectives = 24;
  static constexpr double kWarmUpSeconds = 1;

  /// The same on all ranks: 2 ms at 200 GB/s and 20 us of latency.
  static int launches_of(Bytes size) {
    const double about = 20e-6 + static_cast<double>(size.count) / 200e9;
    return static_cast<int>(std::clamp(2e-3 / about, 2.0, 100.0));
  }

  std::string rows(const std::string& first, const cuda::StreamWork& a, const std::string& second,
                   const cuda::StreamWork& b) {
    const cuda::Overlap o = cuda::measure_overlap(a, b, [this] {
      if (rendezvous_.self().ranks > 1) world_.barrier(*driver_, stream_);
    });
    const auto row = [](const std::string& work, const std::string& other, double alone, double beside) {
      return fmt::format("{},{},{:.9f},{:.9f},{:.3f}\n", work, other, alone, beside, beside / alone);
    };
    return row(first, second, o.first_alone, o.first_beside) + row(second, first, o.second_alone, o.second_beside);
  }

  const SuiteOperator* largest_multiplication() const {
    const SuiteOperator* largest = nullptr;
    for (const SuiteOperator& each : suite_.operators)
      if (each.op.kind == OperatorKind::gemm && each.op.precision == Precision::bf16 &&
          (largest == nullptr || flops(each.op).count > flops(largest->op).count))
        largest = &each;
    return largest;
  }

  /// Loads the GPU for a second before the first sample and between samples. A GEMM that cannot run is reported when it
  /// is timed.
  void warm_up() {
    if (largest_ == nullptr) return;
    try {
      heat();
    } catch (const cuda::DeviceError&) {
      cudaGetLastError();
      largest_ = nullptr;
    }
  }

  void heat() {
    const auto launch = [this] { driver_->run(largest_->op, stream_); };
    cuda::MeasureSettings once;
    once.samples = 1;
    const double about = cuda::measure(launch, stream_, once).front();
    for (double done = 0; done < kWarmUpSeconds; done += about) launch();
    TRACECAST_CUDA(cudaStreamSynchronize(stream_));
    heat_ = {launch, cuda::measure(launch, stream_, once).front()};
  }

  cuda::MeasureSettings settings() const {
    cuda::MeasureSettings settings;
    settings.samples = options_.common.passes;
    settings.heat = heat_;
    return settings;
  }

  const Suite& suite_;
  const CudaProfileOptions& options_;
  const cuda::Rendezvous& rendezvous_;
  std::chrono::steady_clock::time_point begin_;
  std::vector<Widths> widths_;
  std::unique_ptr<cuda::Driver> driver_;
  cuda::NcclGroup world_;
  cudaStream_t stream_ = nullptr;
  const SuiteOperator* largest_ = nullptr;  ///< largest bf16 GEMM of the suite; nullptr: the suite has no GEMM
  cuda::Heat heat_;
};

/// Measures everything that is missing in the log. False: the time limit was reached. Ranks stay together: rank 0's
/// clock decides for all of them only when there is one rank, so several ranks have no limit of time.
bool measure_all(const Suite& suite, Recorder& recorder, MeasurementLog& log, int ranks, bool progress_shown) {
  cli::Progress progress(fmt::format("timing {} operators", suite.operators.size()), progress_shown);
  std::int64_t done = 0;
  const auto total = static_cast<double>(suite.operators.size() + (ranks > 1 ? suite.collectives.size() : 0));
  for (const SuiteOperator& each : suite.operators) {
    progress.update(static_cast<double>(done++), total);
    if (log.find(label_of(each.op)) != nullptr) continue;
    if (ranks == 1 && recorder.time_is_up()) return false;
    log.add(label_of(each.op), recorder.time(each));
    if (recorder.device_is_lost())
      throw cuda::DeviceError(
          fmt::format("{}: broke the GPU's context; the same command continues after it", label_of(each.op)));
  }
  if (ranks == 1) return true;
  for (const CollectiveCall& call : suite.collectives) {
    progress.update(static_cast<double>(done++), total);
    log.add(label_of(call, ranks), recorder.time(call));  // unconditional, because all ranks must make the same calls
  }
  return true;
}

std::vector<MeasuredOperator> measured_operators(const Suite& suite, const MeasurementLog& log) {
  std::vector<MeasuredOperator> measured;
  for (const SuiteOperator& each : suite.operators) {
    const Measurement* const found = log.find(label_of(each.op));
    if (found == nullptr || found->seconds.empty()) continue;
    const Samples samples = summarise(found->seconds);
    measured.push_back({each.op, samples.lower_quartile, samples.spread, samples.count});
  }
  return measured;
}

std::vector<MeasuredCollective> measured_collectives(const Suite& suite, const MeasurementLog& log, int ranks) {
  std::vector<MeasuredCollective> measured;
  for (const CollectiveCall& call : suite.collectives) {
    const Measurement* const found = log.find(label_of(call, ranks));
    if (found == nullptr || found->seconds.empty()) continue;
    const Samples samples = summarise(found->seconds);
    measured.push_back({call.collective, ranks, call.size, samples.lower_quartile, samples.spread, samples.count});
  }
  return measured;
}

void say_what_was_skipped(const Suite& suite, const MeasurementLog& log) {
  for (const SuiteOperator& each : suite.operators) {
    const Measurement* const found = log.find(label_of(each.op));
    if (found != nullptr && found->seconds.empty())
      fmt::print(stderr, "not timed: {}: {}\n", label_of(each.op), found->skipped);
  }
}

}  // namespace

Result<bool> profile_cuda(const CudaProfileOptions& options, const cuda::Rendezvous& rendezvous) {
  const cuda::JobRank& self = rendezvous.self();
  const cuda::DeviceInfo device = cuda::use_device(self.local_rank);
  Result<Profile> base = base_profile(options.base, device);
  if (!base) return tl::unexpected(base.error());
  const Result<Suite> suite = suite_of(options.common, kLargestCollective);
  if (!suite) return tl::unexpected(suite.error());
  const std::string versions = to_string(cuda::library_versions());
  const std::string key = fmt::format("{}, {}, suite {}, {} samples, {} ranks", device.name, versions,
                                      options.common.suite, options.common.passes, self.ranks);
  const std::string suffix = self.rank == 0 ? "" : fmt::format(".{}", self.rank);
  MeasurementLog log(options.common.out + ".measured" + suffix, key);
  Recorder recorder(*suite, options, rendezvous);
  recorder.connect();
  const bool shown = self.rank == 0 && options.common.show_progress;
  const bool all = measure_all(*suite, recorder, log, self.ranks, shown);
  if (log.size() == 0) return false;
  if (self.rank == 0) {
    say_what_was_skipped(*suite, log);
    const std::string part = all ? "" : fmt::format(" ({} of {} operators)", log.size(), suite->operators.size());
    const RecordedOn where{
        device.name,
        fmt::format("tracecast profile --device cuda --suite {}{}, lower quartiles of {} samples; {}; SM clock up to "
                    "{} MHz, memory {} MHz; {:%Y-%m-%d}; what was not timed: profile {}",
                    options.common.suite, part, options.common.passes, versions, device.clock_mhz,
                    device.memory_clock_mhz, fmt::gmtime(std::time(nullptr)), base->name),
        self.ranks, Bytes{device.memory_bytes}};
    std::vector<MeasuredOperator> operators = measured_operators(*suite, log);
    std::vector<MeasuredCollective> collectives = measured_collectives(*suite, log, self.ranks);
    for (const std::string& each : remove_impossible(*base, operators, collectives))
      fmt::print(stderr, "not timed: {}\n", each);
    const Profile profile = recorded_gpu_profile(std::move(*base), std::move(operators), std::move(collectives), where);
    if (const Result<void> written = write_file(options.common.out, to_json(profile)); !written)
      return tl::unexpected(written.error());
  }
  if (!all) return false;
  log.remove();
  const std::string overlap = recorder.overlap();
  if (self.rank != 0 || overlap.empty()) return true;
  if (const Result<void> written = write_file(options.common.out + ".overlap.csv", overlap); !written)
    return tl::unexpected(written.error());
  return true;
}

}  // namespace tracecast::worker
