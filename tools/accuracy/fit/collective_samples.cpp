#include "tools/accuracy/fit/collective_samples.hpp"

namespace tracecast::accuracy {
namespace {

constexpr std::size_t kVidurThinned = 16;

bool is_fitted(const CollectiveSample& sample) {
  return sample.excluded.empty() && !sample.guessed && !sample.topology.empty() &&
         (sample.source != "vidur" || sample.row % kVidurThinned == 0);
}

}  // namespace

Result<std::vector<CollectiveSample>> read_collective_samples(const std::filesystem::path& data) {
  std::vector<CollectiveSample> fitted;
  for (const char* file : {"nccl-tests/nccl_tests.csv", "aiconfigurator/nccl_intranode.csv.gz",
                           "vidur/network_profiles.csv.gz", "simai-ratio/nic_ratio.csv"}) {
    const Result<CsvTable> table = CsvTable::read(data / "collectives" / file);
    if (!table) return tl::unexpected(table.error());
    const Result<std::vector<CollectiveSample>> samples = read_collectives(*table);
    if (!samples) return samples;
    for (const CollectiveSample& sample : *samples)
      if (is_fitted(sample)) fitted.push_back(sample);
  }
  return fitted;
}

}  // namespace tracecast::accuracy
