/// \file
/// The optimizer's work with Muon: momentum, gathers of divided matrices, Newton-Schulz iterations, the update.
/// Source: docs/references.md#muon
#pragma once

#include <vector>

#include "sim/graph/data_parallel.hpp"
#include "sim/plan/muon.hpp"

namespace tracecast {

class MuonUpdate {
 public:
  explicit MuonUpdate(DataParallel& data) : data_(data), context_(data.context()) {}

  /// Writes the update of one chunk's matrices. Returns its other trained parameters, which Muon leaves to Adam.
  Bucket write(TemplateWriter& writer, const Chunk& chunk);

 private:
  int ranks(bool expert) const;
  MuonSharding sharding() const;
  std::int64_t own_elements(const std::vector<MuonMatrices>& all, const std::vector<MuonMatrices>& share) const;
  /// Sends 16-bit elements over the data-parallel groups and waits for them.
  void exchange(TemplateWriter& writer, const std::vector<MuonMatrices>& all, Traffic traffic);
  void over_tensor_ranks(TemplateWriter& writer, Collective what, std::int64_t elements);
  void multiply(TemplateWriter& writer, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch);
  void orthogonalise(TemplateWriter& writer, const MuonMatrices& matrices);

  DataParallel& data_;
  BuildContext& context_;
};

}  // namespace tracecast
