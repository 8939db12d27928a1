/// \file
/// What a cell says of the span of attention: "sliding window 4096 in 3 of 4 layers", "5:1, window 1024", "chunks of 8k".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tracecast::accuracy {

struct ReportedWindow {
  bool denied = false;                      ///< "no sliding window": nothing else is said
  std::optional<std::int64_t> tokens = {};  ///< empty: not said
  std::optional<int> global_every = {};     ///< every n-th layer attends to all, 0: none does; empty: not said
  bool chunked = false;                     ///< the tokens are the length of chunks
  bool unread_layers = false;               ///< names layers of which no model here can be made
  bool operator==(const ReportedWindow&) const = default;
};

/// What the cell says of a window or chunks. Layers: "3:1", "3 of 4 layers", "alternating", "full in every 4th", "in all layers".
/// Empty: it speaks of neither.
std::optional<ReportedWindow> reported_window(const std::string& cell);

/// "a window of 1024 tokens, but for every 6th layer", "chunks of 8192 tokens in every layer".   Requires global_every of 0 or more
std::string window_in_words(std::int64_t tokens, int global_every, bool chunked);

}  // namespace tracecast::accuracy
