// What a cell says of windows, chunks and the layers that have them.
#include "tools/accuracy/rows/attention_words.hpp"

#include <catch2/catch.hpp>

using namespace tracecast::accuracy;

namespace {

ReportedWindow window(const char* cell) { return reported_window(cell).value(); }

}  // namespace

TEST_CASE("attention words: tokens of a window and its layers", "[accuracy]") {
  const std::pair<const char*, ReportedWindow> cells[] = {
      {"sliding window 4096", {.tokens = 4096}},
      {"GQA, 4096-token window", {.tokens = 4096}},
      {"gqa 64 heads, window of 4k", {.tokens = 4096}},
      {"window_size=[4096]", {.tokens = 4096}},
      {"SWA 1,024", {.tokens = 1024}},
      {"chunks of 8192 tokens", {.tokens = 8192, .chunked = true}},
      {"no sliding window", {.denied = true}},
      {"full attention, no window", {.denied = true}},
      {"sliding window", {}},
      {"3:1 sliding window 4096", {.tokens = 4096, .global_every = 4}},
      {"local:global 5:1, window 1024", {.tokens = 1024, .global_every = 6}},
      {"window 4096 in 3 of 4 layers, full in the others", {.tokens = 4096, .global_every = 4}},
      {"five out of six layers have a window of 1024", {.tokens = 1024, .global_every = 6}},
      {"window 4096, global in 1 of 4 layers", {.tokens = 4096, .global_every = 4}},
      {"sliding window 128 alternating", {.tokens = 128, .global_every = 2}},
      {"window 128 in every second layer", {.tokens = 128, .global_every = 2}},
      {"window 4096 but every 4th layer", {.tokens = 4096, .global_every = 4}},
      {"window 4096, full attention in every 4th layer", {.tokens = 4096, .global_every = 4}},
      {"window 4096, every 4th layer is global", {.tokens = 4096, .global_every = 4}},
      {"window 4096 in every 4th layer, full in the others", {.tokens = 4096, .unread_layers = true}},
      {"window 4096 in every layer", {.tokens = 4096, .global_every = 0}},
      {"window 4096 in all layers", {.tokens = 4096, .global_every = 0}},
      {"window 4096 in 1 of 4 layers", {.tokens = 4096, .unread_layers = true}},
      {"window 4096 in every 4th layer", {.tokens = 4096, .unread_layers = true}},
      {"window 4096, full in 3 of 4 layers", {.tokens = 4096, .unread_layers = true}},
      {"2:3 window 4096", {.tokens = 4096, .unread_layers = true}},
  };
  for (const auto& [cell, expected] : cells) {
    CAPTURE(cell);
    CHECK(window(cell) == expected);
  }
  for (const char* cell : {"", "mha", "gqa, full causal attention", "3:1", "every 4th layer"})
    CHECK_FALSE(reported_window(cell).has_value());
}

TEST_CASE("attention words: a window in words", "[accuracy]") {
  CHECK(window_in_words(4096, 0, false) == "a window of 4096 tokens in every layer");
  CHECK(window_in_words(128, 2, false) == "a window of 128 tokens, but for every 2nd layer");
  CHECK(window_in_words(128, 3, false) == "a window of 128 tokens, but for every 3rd layer");
  CHECK(window_in_words(8192, 4, true) == "chunks of 8192 tokens, but for every 4th layer");
}
