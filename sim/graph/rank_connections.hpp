/// The simulated ranks with their communicators and channels: one for every pipeline rank, or all of the job.
#pragma once

#include <vector>

#include "sim/graph/build_context.hpp"

namespace tracecast {

class RankConnections {
 public:
  explicit RankConnections(BuildContext& context) : context_(context) {}

  void add_one_rank_per_stage();
  void add_every_rank();

 private:
  /// Channels to the neighbours of pipeline rank `pp`; `rank_index(other)` is the simulated rank at pipeline rank `other`.
  template <class RankIndex>
  void connect(Rank& rank, int pp, RankIndex rank_index) const;
  std::int32_t add_communicator(Slot slot, int pp, std::vector<std::int32_t> members);
  std::int32_t add_embedding_communicator();
  std::vector<std::int32_t> add_mirrors();

  BuildContext& context_;
};

}  // namespace tracecast
