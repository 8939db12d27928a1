#include "sim/plan/group_spans.hpp"

#include <catch2/catch.hpp>

namespace tracecast {
namespace {

TEST_CASE("spans of groups in rank order", "[oracle][plan][racks]") {
  const auto spans = [](int tp, int cp, int pp, int ep, int etp, const char* order) {
    const Parallel p{.tp = tp, .pp = pp, .cp = cp, .ep = ep, .etp = etp, .rank_order = order};
    return group_spans(p, 256);
  };
  using Spans = std::vector<int>;
  constexpr const char* kMegatron = "tp-cp-ep-dp-pp";
  CHECK(spans(1, 1, 4, 1, 0, kMegatron) == Spans{});
  CHECK(spans(8, 2, 4, 1, 0, kMegatron) == Spans{8, 16});      // a context group is every eighth rank of 16
  CHECK(spans(4, 1, 2, 8, 1, kMegatron) == Spans{4, 8});       // eight neighbouring ranks hold the experts
  CHECK(spans(4, 1, 2, 8, 0, kMegatron) == Spans{4, 32});      // each expert on 4 ranks
  CHECK(spans(8, 1, 4, 1, 0, "tp-pp-dp-cp-ep") == Spans{8});   // tensor ranks first
  CHECK(spans(8, 1, 4, 1, 0, "pp-tp-cp-ep-dp") == Spans{32});  // every fourth rank
  // tp 8 is below the stride of pp, 8; 16 expert ranks are two runs of 8, and there are 4 stages between their starts
  CHECK(spans(8, 1, 4, 16, 1, "tp-pp-dp-cp-ep") == Spans{8, 64});
  // 256 ranks are tp 2 x dp 32 x cp 2 x pp 2: the two ranks of a context group are 2 x 32 apart.
  CHECK(spans(2, 2, 2, 1, 0, "tp-dp-cp-pp-ep") == Spans{2, 128});
  CHECK(spans(8, 1, 4, 1, 0, "tp-xp").empty());
  CHECK(spans(512, 1, 1, 1, 0, kMegatron).empty());  // make_plan reports it
}

}  // namespace
}  // namespace tracecast
