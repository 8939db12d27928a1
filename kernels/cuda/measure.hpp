/// \file
/// Times GPU work with events.
#pragma once

#include <functional>
#include <vector>

#include <cuda_runtime_api.h>

namespace tracecast::cuda {

/// Work that heats the GPU like a training step, so that it runs at the same clocks.
struct Heat {
  std::function<void()> launch;
  double seconds = 0;  ///< of one launch; 0: none
};

struct MeasureSettings {
  int samples = 15;
  double sample_seconds = 2e-3;  ///< of work per sample, which sets the number of launches
  int most_launches = 200;
  int launches = 0;  ///< >0: launches per sample, since all ranks must launch a collective equally often
  int leading = 0;   ///< untimed launches before each sample; in a collective, the ranks synchronise there
  Heat heat;
};

/// Seconds of one launch, one value per sample. All launches of a sample are queued before the first begins, so that only the
/// GPU is timed, not the host. Before them the GPU runs the heat, for as long as the sample and its launches take; without heat
/// it runs a delay kernel; a launch may take the host 1.5 times what it takes for this work. The launches run back to back as in a step, with the GPU's gap between kernels. Three untimed
/// launches warm up first.
/// For work shorter than a microsecond, the number of launches is the one for a microsecond.   Throws DeviceError.
std::vector<double> measure(const std::function<void()>& launch, cudaStream_t stream, const MeasureSettings& settings);

/// Delays a stream by about this many clock cycles.
void hold(long long cycles, cudaStream_t stream);

/// Concurrent work on two streams.
struct Overlap {
  double first_alone = 0;  ///< seconds of one launch
  double second_alone = 0;
  double first_beside = 0;  ///< while the other runs
  double second_beside = 0;
};
struct StreamWork {
  std::function<void(cudaStream_t)> launch;
  int launches = 0;  ///< when timed; 0: as many as fill 5 ms. All ranks must launch a collective equally often
};
/// Each work is launched often enough to overlap the other for the whole timed period. `together` is called before each of the
/// four parts: ranks that share a collective synchronise there.
Overlap measure_overlap(const StreamWork& first, const StreamWork& second, const std::function<void()>& together);

}  // namespace tracecast::cuda
