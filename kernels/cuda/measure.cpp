#include "kernels/cuda/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "kernels/cuda/check.hpp"

namespace tracecast::cuda {
namespace {

constexpr int kWarmUp = 3;
/// What a launch costs the host at most, in cycles of the GPU: 15 us at 2 GHz.
constexpr long long kCyclesForLaunch = 30'000;

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

double seconds_of(const std::function<void()>& launch, cudaStream_t stream, int launches, Stopwatch& watch) {
  hold(kCyclesForLaunch * launches, stream);
  watch.start(stream);
  for (int i = 0; i < launches; ++i) launch();
  watch.stop(stream);
  return watch.seconds() / launches;
}

int launches_for(double seconds, double wanted, int most) {
  return static_cast<int>(std::clamp(std::ceil(wanted / std::max(seconds, 1e-9)), 1.0, static_cast<double>(most)));
}

}  // namespace

std::vector<double> measure(const std::function<void()>& launch, cudaStream_t stream, const MeasureSettings& settings) {
  launch();  // libraries choose and load their kernels now
  TRACECAST_CUDA(cudaStreamSynchronize(stream));
  Stopwatch watch;
  const double about = seconds_of(launch, stream, kWarmUp, watch);
  const int launches = launches_for(about, settings.sample_seconds, settings.most_launches);
  std::vector<double> samples;
  for (int i = 0; i < settings.samples; ++i) samples.push_back(seconds_of(launch, stream, launches, watch));
  return samples;
}

double host_seconds(const std::function<void()>& launch, cudaStream_t stream, int launches) {
  hold(kCyclesForLaunch * launches, stream);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < launches; ++i) launch();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  TRACECAST_CUDA(cudaStreamSynchronize(stream));
  return taken.count() / launches;
}

Overlap measure_overlap(const std::function<void(cudaStream_t)>& first,
                        const std::function<void(cudaStream_t)>& second) {
  cudaStream_t a = nullptr;
  cudaStream_t b = nullptr;
  TRACECAST_CUDA(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  TRACECAST_CUDA(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
  Stopwatch of_a;
  Stopwatch of_b;
  const auto many = [](const std::function<void(cudaStream_t)>& work, cudaStream_t stream, int launches) {
    for (int i = 0; i < launches; ++i) work(stream);
  };
  Overlap result;
  result.first_alone = seconds_of([&] { first(a); }, a, 20, of_a);
  result.second_alone = seconds_of([&] { second(b); }, b, 20, of_b);
  // The one that is timed has the other on both sides of it: launched first, and for twice as long.
  const auto beside = [&](const auto& timed, cudaStream_t mine, double alone, const auto& other, cudaStream_t theirs,
                          double other_alone, Stopwatch& watch) {
    const int launches = launches_for(alone, 5e-3, 200);
    many(other, theirs, launches_for(other_alone, 2.5 * alone * launches, 2000));
    many(timed, mine, 1);
    watch.start(mine);
    many(timed, mine, launches);
    watch.stop(mine);
    const double seconds = watch.seconds() / launches;
    TRACECAST_CUDA(cudaStreamSynchronize(theirs));
    return seconds;
  };
  result.first_beside = beside(first, a, result.first_alone, second, b, result.second_alone, of_a);
  result.second_beside = beside(second, b, result.second_alone, first, a, result.first_alone, of_b);
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
  return result;
}

}  // namespace tracecast::cuda
