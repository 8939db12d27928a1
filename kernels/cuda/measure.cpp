#include "kernels/cuda/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "kernels/cuda/check.hpp"

namespace tracecast::cuda {
namespace {

constexpr int kWarmUp = 3;
/// Least host time allowed for a launch, and the GPU's clock, from which delays are computed.
constexpr double kSecondsForLaunch = 15e-6;
constexpr double kClock = 2e9;
/// The host may be this much slower than when its launches were timed.
constexpr double kSlowerHost = 1.5;
/// Launches of the concurrent work per timed launch of a collective.
constexpr int kMoreBeside = 12;

class Stopwatch {
 public:
  Stopwatch() {
    TRACECAST_CUDA(cudaEventCreate(&begin_));
    TRACECAST_CUDA(cudaEventCreate(&end_));
  }
  ~Stopwatch() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  void start(cudaStream_t stream) { TRACECAST_CUDA(cudaEventRecord(begin_, stream)); }
  void stop(cudaStream_t stream) { TRACECAST_CUDA(cudaEventRecord(end_, stream)); }
  /// Waits for the end.
  double seconds() {
    float milliseconds = 0;
    TRACECAST_CUDA(cudaEventSynchronize(end_));
    TRACECAST_CUDA(cudaEventElapsedTime(&milliseconds, begin_, end_));
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

/// Keeps the GPU busy while the host launches the timed work. `launch_s`: host time of one launch.
void busy(int launches, double launch_s, double seconds, const Heat& heat, cudaStream_t stream) {
  const double launching = launch_s * launches;
  if (heat.seconds <= 0) return hold(static_cast<long long>(launching * kClock), stream);
  const double wanted = std::max(seconds, launching);
  for (double done = 0; done < wanted; done += heat.seconds) heat.launch();
}

double seconds_of(const std::function<void()>& launch, cudaStream_t stream, int launches, Stopwatch& watch,
                  const MeasureSettings& settings = {}, double launch_s = kSecondsForLaunch) {
  busy(launches + settings.leading, launch_s, settings.sample_seconds, settings.heat, stream);
  for (int i = 0; i < settings.leading; ++i) launch();
  watch.start(stream);
  for (int i = 0; i < launches; ++i) launch();
  watch.stop(stream);
  return watch.seconds() / launches;
}

int launches_for(double seconds, double wanted, int most) {
  return static_cast<int>(std::clamp(std::ceil(wanted / std::max(seconds, 1e-9)), 1.0, static_cast<double>(most)));
}

/// Host seconds of one launch while the GPU is still busy.
double host_seconds(const std::function<void()>& launch, cudaStream_t stream, int launches) {
  hold(static_cast<long long>(kSecondsForLaunch * kClock) * launches, stream);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < launches; ++i) launch();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  TRACECAST_CUDA(cudaStreamSynchronize(stream));
  return taken.count() / launches;
}

}  // namespace

std::vector<double> measure(const std::function<void()>& launch, cudaStream_t stream, const MeasureSettings& settings) {
  launch();  // libraries select and load their kernels here
  TRACECAST_CUDA(cudaStreamSynchronize(stream));
  Stopwatch watch;
  // An operator of several kernels takes the host longer to launch.
  const double launch_s = std::max(kSecondsForLaunch, kSlowerHost * host_seconds(launch, stream, kWarmUp));
  const double about = seconds_of(launch, stream, kWarmUp, watch, {}, launch_s);
  const int launches =
      settings.launches > 0 ? settings.launches : launches_for(about, settings.sample_seconds, settings.most_launches);
  std::vector<double> samples;
  for (int i = 0; i < settings.samples; ++i)
    samples.push_back(seconds_of(launch, stream, launches, watch, settings, launch_s));
  return samples;
}

Overlap measure_overlap(const StreamWork& first, const StreamWork& second, const std::function<void()>& together) {
  cudaStream_t a = nullptr;
  cudaStream_t b = nullptr;
  TRACECAST_CUDA(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  TRACECAST_CUDA(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
  Stopwatch watch;
  const auto many = [](const StreamWork& work, cudaStream_t stream, int launches) {
    for (int i = 0; i < launches; ++i) work.launch(stream);
  };
  const auto alone = [&](const StreamWork& work, cudaStream_t stream) {
    together();
    many(work, stream, kWarmUp);
    return seconds_of([&] { work.launch(stream); }, stream, work.launches > 0 ? work.launches : 20, watch);
  };
  // The other work covers the timed one on both sides: it is launched first and runs more than twice as long.
  const auto beside = [&](const StreamWork& timed, cudaStream_t mine, double seconds, const StreamWork& other,
                          cudaStream_t theirs, double other_seconds) {
    const int launches = timed.launches > 0 ? timed.launches : launches_for(seconds, 5e-3, 200);
    // A GEMM can hold all SMs until it ends, so the timed work may take much longer than alone.
    const int others = other.launches > 0
                           ? kMoreBeside * other.launches
                           : std::max(kMoreBeside, launches_for(other_seconds, 2.5 * seconds * launches, 2000));
    together();
    many(other, theirs, others);
    many(timed, mine, 1);
    watch.start(mine);
    many(timed, mine, launches);
    watch.stop(mine);
    const double taken = watch.seconds() / launches;
    TRACECAST_CUDA(cudaStreamSynchronize(theirs));
    return taken;
  };
  Overlap result;
  result.first_alone = alone(first, a);
  result.second_alone = alone(second, b);
  result.first_beside = beside(first, a, result.first_alone, second, b, result.second_alone);
  result.second_beside = beside(second, b, result.second_alone, first, a, result.first_alone);
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
  return result;
}

}  // namespace tracecast::cuda
