/// ZB-H1 (ZB1P): 1F1B with the backward split. Only the input gradient is passed on at once; weight gradients lag r
/// backwards behind on rank r and fill its bubble, at the memory of 1F1B's rank 0 on every rank.
/// Source: Qi et al. 2023, docs/references.md#zero-bubble. PyTorch's InterleavedZeroBubble with V = 1 is this.
#include <array>

#include "sim/schedule/variants.hpp"

namespace tracecast {

namespace {

constexpr std::array<std::string_view, 1> kZbH1Aliases{"ZB1P"};

Result<Schedule> make_zb_h1(const ScheduleRequest& request) {
  ScheduleRequest whole = request;
  whole.group_size = request.microbatches;  // with one chunk the groups make no difference
  return kInterleavedZb.make(whole);
}

}  // namespace

constexpr ScheduleVariant kZbH1{
    .name = "zb-h1",
    .aliases = kZbH1Aliases,
    .summary = "1F1B with weight gradients in its bubble, at 1F1B's memory",
    .make = make_zb_h1,
};

}  // namespace tracecast
