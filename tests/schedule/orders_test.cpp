/// The order of each schedule, word for word, at a size that can be followed with a pencil.
#include <string>

#include <catch2/catch.hpp>

#include "sim/schedule/schedule.hpp"

using namespace tracecast;

namespace {

/// The list of one rank: "0F0 0F1 0B0".
std::string order_of(const std::string& name, const ScheduleRequest& request, int rank) {
  const Result<Schedule> schedule = make_schedule(name, request);
  if (!schedule) return to_string(schedule.error());
  std::string text;
  for (const Action& action : schedule->actions[static_cast<std::size_t>(rank)]) {
    text += (text.empty() ? "" : " ") + to_string(*schedule, rank, action);
  }
  return text;
}

}  // namespace

TEST_CASE("gpipe: all forwards, then all backwards", "[schedule]") {
  CHECK(order_of("gpipe", {.ranks = 2, .microbatches = 3}, 1) == "1F0 1F1 1F2 1B0 1B1 1B2");
}

TEST_CASE("1f1b: warm-up, pairs, drain", "[schedule]") {
  CHECK(order_of("1f1b", {.ranks = 4, .microbatches = 5}, 0) == "0F0 0F1 0F2 0F3 0B0 0F4 0B1 0B2 0B3 0B4");
  CHECK(order_of("1f1b", {.ranks = 4, .microbatches = 5}, 3) == "3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 3F4 3B4");
  CHECK(order_of("1f1b", {.ranks = 4, .microbatches = 2}, 0) == "0F0 0F1 0B0 0B1");
}

TEST_CASE("combined-1f1b: one forward more ahead, then pairs of different micro-batches", "[schedule]") {
  CHECK(order_of("combined-1f1b", {.ranks = 1, .microbatches = 3}, 0) ==
        "0F0 (0F1;0B0)OVERLAP_F_B (0F2;0B1)OVERLAP_F_B 0B2");
  CHECK(order_of("combined-1f1b", {.ranks = 2, .microbatches = 4, .chunks = 2}, 1) ==
        "1F0 1F1 3F0 (3F1;3B0)OVERLAP_F_B (1F2;3B1)OVERLAP_F_B (1F3;1B0)OVERLAP_F_B (3F2;1B1)OVERLAP_F_B "
        "(3F3;3B2)OVERLAP_F_B 3B3 1B2 1B3");
}

TEST_CASE("interleaved-1f1b: groups of P, chunk after chunk", "[schedule]") {
  CHECK(order_of("interleaved-1f1b", {.ranks = 2, .microbatches = 4, .chunks = 2}, 0) ==
        "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3");
  // P does not divide M. PyTorch: rounds = floor(3/2) = 1, one group of three.
  CHECK(order_of("interleaved-1f1b", {.ranks = 2, .microbatches = 3, .chunks = 2}, 1) ==
        "1F0 1F1 1F2 3F0 3B0 3F1 3B1 3F2 3B2 1B0 1B1 1B2");
  // Five in two rounds does not divide: Megatron-Core refuses a last group of one, and accepts three and two.
  CHECK(order_of("interleaved-1f1b", {.ranks = 2, .microbatches = 5, .chunks = 2}, 1) ==
        order_of("interleaved-1f1b", {.ranks = 2, .microbatches = 5, .chunks = 2, .group_size = 3}, 1));
  CHECK(order_of("interleaved-1f1b", {.ranks = 2, .microbatches = 5, .chunks = 2, .group_size = 2}, 1) ==
        "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1F4 1B2 3F4 1B3 3B4 1B4");
  CHECK(order_of("interleaved-1f1b", {.ranks = 2, .microbatches = 3, .chunks = 2, .group_size = 2}, 1) ==
        "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 3F2 1B1 3B2 1B2");
}

TEST_CASE("hanayo: a wave goes down and up, on one rank too", "[schedule]") {
  CHECK(order_of("hanayo", {.ranks = 1, .microbatches = 1, .chunks = 2}, 0) == "0F0 1F0 1B0 0B0");
  CHECK(order_of("hanayo", {.ranks = 2, .microbatches = 1, .chunks = 2}, 0) == "0F0 3F0 3B0 0B0");
}
