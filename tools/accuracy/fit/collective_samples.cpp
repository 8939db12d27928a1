#include "tools/accuracy/fit/collective_samples.hpp"

namespace tracecast::accuracy {
namespace {

constexpr std::size_t kVidurThinned = 16;

bool is_fitted(const CollectiveSample& sample) {
  return sample.excluded.empty() && !sample.guessed && !sample.topology.empty() &&
         (sample.source != "vidur" || sample.row % kVidurThinned == 0);
}

}  // namespace

Result<std::vector<CollectiveSample>> read_collective_samples(const std::filesystem::path& data,
                                                              const std::filesystem::path& published) {
  const std::filesystem::path folder = data / "collectives";
  std::vector<CollectiveSample> fitted;
  for (const std::filesystem::path& file :
       {folder / "nccl-tests/nccl_tests.csv", folder / "aiconfigurator/nccl_intranode.csv.gz",
        folder / "vidur/network_profiles.csv.gz", folder / "simai-ratio/nic_ratio.csv", published}) {
    const Result<CsvTable> table = CsvTable::read(file);
    if (!table) return tl::unexpected(table.error());
    const Result<std::vector<CollectiveSample>> samples = read_collectives(*table);
    if (!samples) return samples;
    for (const CollectiveSample& sample : *samples)
      if (is_fitted(sample)) fitted.push_back(sample);
  }
  return fitted;
}

}  // namespace tracecast::accuracy
