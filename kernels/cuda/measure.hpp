/// \file
/// Times work on a GPU by events.
#pragma once

#include <functional>
#include <vector>

#include <cuda_runtime_api.h>

namespace tracecast::cuda {

/// Work that keeps the GPU as hot as a training step does, so that clocks are those of a step.
struct Heat {
  std::function<void()> launch;
  double seconds = 0;  ///< of one launch; 0: there is none
};

struct MeasureSettings {
  int samples = 15;
  double sample_seconds = 2e-3;  ///< of work in each sample: as many launches as fill it
  int most_launches = 200;
  int launches = 0;  ///< >0: so many in each sample, since ranks must launch a collective equally often
  int leading =
      0;  ///< launches before each sample that are not timed: in a collective, ranks wait for each other there
  Heat heat;
};

/// Seconds of one launch, a value for each sample. Launches of a sample stand in the queue before the first begins (the heat
/// comes before them, for as long as the sample and as the host needs to launch it; without heat a kernel that waits), so that
/// what is timed is the GPU and never the host, and follow each other as in a step, with the gap that the GPU leaves between
/// two kernels. Three launches come first to warm up.
/// Work that needs less than a microsecond is timed with as many launches.   Throws DeviceError.
std::vector<double> measure(const std::function<void()>& launch, cudaStream_t stream, const MeasureSettings& settings);

/// Seconds that the host needs for one launch while the GPU is behind.
double host_seconds(const std::function<void()>& launch, cudaStream_t stream, int launches);

/// Holds a stream up for about so many clock cycles.
void hold(long long cycles, cudaStream_t stream);

/// Work on two streams at the same time.
struct Overlap {
  double first_alone = 0;  ///< seconds of one launch
  double second_alone = 0;
  double first_beside = 0;  ///< while the other is running
  double second_beside = 0;
};
struct StreamWork {
  std::function<void(cudaStream_t)> launch;
  int launches = 0;  ///< when it is timed; 0: as many as fill 5 ms. All ranks must launch a collective equally often
};
/// Each is launched often enough that it is beside the other all the time it is timed. `together` is called before each of the
/// four parts: ranks that share a collective wait for each other there.
Overlap measure_overlap(const StreamWork& first, const StreamWork& second, const std::function<void()>& together);

}  // namespace tracecast::cuda
