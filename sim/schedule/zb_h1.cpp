/// ZB-H1 (ZB1P): 1F1B with the backward split. Only the input gradient is passed on at once; weight gradients lag r
/// backwards behind on rank r and fill its bubble, at the memory of 1F1B's rank 0 on every rank.
/// Source: Qi et al. 2023; DOMAIN.md 5.2. PyTorch's InterleavedZeroBubble with V = 1 is this.
#include "sim/schedule/variants.hpp"

namespace tracecast {

Result<Schedule> make_zb_h1(const ScheduleRequest& request) {
  if (auto one = require_chunks(request, "zb-h1", 1); !one) return tl::unexpected(one.error());
  ScheduleRequest whole = request;
  whole.group_size = request.microbatches;  // with one chunk the groups make no difference
  Result<Schedule> schedule = make_interleaved_zb(whole);
  if (schedule) schedule->name = "zb-h1";
  return schedule;
}

}  // namespace tracecast
