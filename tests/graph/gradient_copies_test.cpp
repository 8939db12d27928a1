// Bytes that frameworks copy and sum beside the reductions of gradients, against counts by hand.
#include "sim/graph/gradient_copies.hpp"

#include <catch2/catch.hpp>

using namespace tracecast;

namespace {

using Framework = DataParallelFramework;

constexpr GradientTypes kMixed{.made = 2, .summed = 4, .sent = 2, .updated = 4};

}  // namespace

TEST_CASE("gradient copies: each framework's kernels, counted by hand", "[oracle][graph]") {
  const auto copies = [](Framework framework, const ReducedGradients& reduced) {
    return copied_bytes(framework, kMixed, reduced).count;
  };
  const ReducedGradients once{.parameters = 100, .ranks = 4};
  CHECK(copies(Framework::megatron, once) == 0);
  CHECK(copies(Framework::fsdp2, once) == 100 * (2 + 4));
  CHECK(copies(Framework::fsdp2, {.parameters = 100, .ranks = 4, .summed = true}) == 100 * (4 + 4));
  CHECK(copies(Framework::ddp, once) == 100 * (4 + 4 + 4 + 4));
  CHECK(copies(Framework::deepspeed, once) == 100 * (4 + 4 + 4));         // into the bucket, divided, flattened
  CHECK(copies(Framework::deepspeed_stage3, once) == 100 * (4 + 4 + 4));  // into the bucket, concatenated, divided
  // Of the whole: concatenated, cast, divided; of the shard: divided again.
  CHECK(copies(Framework::fsdp1, once) == 100 * (4 + 6 + 8) + 25 * 8);
  CHECK(copies(Framework::fsdp1, {.parameters = 100, .ranks = 2}) == 100 * (4 + 6 + 8));
  // Three of four reductions add their shard.
  CHECK(copies(Framework::fsdp1, {.parameters = 100, .ranks = 4, .reductions = 4}) ==
        100 * (4 + 6 + 8) + 25 * 8 + 25 * 12 * 3 / 4);
}

TEST_CASE("gradient copies: sums over micro-batches, counted by hand", "[oracle][graph]") {
  CHECK(summed_bytes(Framework::megatron, kMixed) == GradientSum{0, 0, 0});
  CHECK(summed_bytes(Framework::fsdp1, kMixed) == GradientSum{4, 4 + 6, 6});
  CHECK(summed_bytes(Framework::fsdp2, kMixed) == GradientSum{6, 10, 10});
  CHECK(summed_bytes(Framework::fsdp2, {.made = 2, .summed = 2}) == GradientSum{0, 6, 6});
  CHECK(summed_bytes(Framework::ddp, kMixed) == GradientSum{0, 12, 12});
  CHECK(summed_bytes(Framework::deepspeed, kMixed) == GradientSum{0, 6, 6});
  CHECK(summed_bytes(Framework::deepspeed_stage3, kMixed) == GradientSum{0, 6, 6});
}
