#include "tools/accuracy/rows/attention_words.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "tools/accuracy/rows/cell_words.hpp"
#include "tools/accuracy/rows/table_fields.hpp"

namespace tracecast::accuracy {
namespace {

constexpr std::string_view kWindows[] = {"window", "chunk", "sliding", "swa"};
constexpr std::string_view kLocal[] = {"window", "chunk", "sliding", "swa", "local"};
constexpr std::string_view kGlobal[] = {"global", "full", "but", "except"};
constexpr std::string_view kNumbers[] = {"one", "two", "three", "four", "five", "six", "seven", "eight"};
constexpr std::string_view kOrdinals[] = {"first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"};
constexpr std::int64_t kLeastTokens = 16;  // fewer are numbers of layers
constexpr double kMostTokens = 1e9;
constexpr int kMostLayers = 1000;

template <std::size_t n>
bool begins_with_any(std::string_view word, const std::string_view (&beginnings)[n]) {
  return std::ranges::any_of(beginnings, [&](std::string_view beginning) { return word.starts_with(beginning); });
}

/// From 1; 0: it is none of them.
template <std::size_t n>
int place_in(std::string_view word, const std::string_view (&words)[n]) {
  const auto* found = std::ranges::find(words, word);
  return found == std::end(words) ? 0 : static_cast<int>(found - std::begin(words)) + 1;
}

int layers_in(std::string_view word) {
  const int written = place_in(word, kNumbers);
  return written > 0 ? written : std::clamp(parse_number<int>(word).value_or(0), 0, kMostLayers);
}

/// Of "4th", "fourth", "4", "other".
int ordinal_in(std::string_view word) {
  if (word == "other") return 2;
  if (const int written = place_in(word, kOrdinals); written > 0) return written;
  for (const std::string_view ending : {"st", "nd", "rd", "th"})
    if (word.ends_with(ending)) return layers_in(word.substr(0, word.size() - ending.size()));
  return layers_in(word);
}

/// The words of a cell. A window is local, what attends to all tokens is global.
class WindowWords {
 public:
  explicit WindowWords(const std::string& lower) {
    for (const std::string_view word : split_words(lower, " \t\r;()[]=")) {
      words_.push_back(trim(word, ",."));
      ends_clause_.push_back(word.ends_with(','));
    }
  }

  /// Behind the word for a window, else the last one before it: "window of 4k", "4096-token window".
  std::optional<std::int64_t> tokens() const {
    std::size_t at = words_.size();
    for (std::size_t i = std::size(kWindows); i-- > 0;)
      if (const std::size_t found = find(kWindows[i]); found < words_.size()) at = found;
    for (std::size_t i = at; i < words_.size(); ++i)
      if (const auto tokens = tokens_of(words_[i])) return tokens;
    for (std::size_t i = at; i-- > 0;)
      if (const auto tokens = tokens_of(words_[i])) return tokens;
    return std::nullopt;
  }

  void read_layers(ReportedWindow& window) const {
    for (std::size_t i = 0; i < words_.size(); ++i)
      if (read_ratio(words_[i], window) || read_share(i, window) || read_interval(i, window)) return;
    if (std::ranges::any_of(words_, [](std::string_view word) { return word.starts_with("alternat"); }))
      window.global_every = 2;
  }

 private:
  std::size_t find(std::string_view beginning) const {
    const auto found = std::ranges::find_if(words_, [&](std::string_view word) { return word.starts_with(beginning); });
    return static_cast<std::size_t>(found - words_.begin());
  }

  static std::optional<std::int64_t> tokens_of(std::string_view word) {
    for (const std::string_view part : split_words(word, ":-_"))
      if (const std::optional<double> tokens = tokens_in(std::string(part));
          tokens && *tokens >= kLeastTokens && *tokens < kMostTokens)
        return static_cast<std::int64_t>(*tokens);
    return std::nullopt;
  }

  /// "5:1": local layers to global ones.
  static bool read_ratio(std::string_view word, ReportedWindow& window) {
    const std::vector<std::string_view> sides = split(word, ':');
    if (sides.size() != 2) return false;
    const int left = layers_in(sides[0]), right = layers_in(sides[1]);
    if (left == 0 || right == 0) return false;
    set(window, left == 1 || right == 1, left + right);
    return true;
  }

  /// "3 of 4 layers", "3 out of 4".
  bool read_share(std::size_t at, ReportedWindow& window) const {
    const std::size_t of = at + 1 < words_.size() && words_[at + 1] == "out" ? at + 2 : at + 1;
    if (of + 1 >= words_.size() || words_[of] != "of") return false;
    const int part = layers_in(words_[at]), all = layers_in(words_[of + 1]);
    if (part == 0 || all <= part) return false;
    set(window, is_global(at) ? part == 1 : part == all - 1, all);
    return true;
  }

  /// "every 4th layer", "every other", "every layer", "all layers".
  bool read_interval(std::size_t at, ReportedWindow& window) const {
    if (at + 1 >= words_.size() || (words_[at] != "every" && words_[at] != "each" && words_[at] != "all")) return false;
    const std::string_view next = words_[at + 1];
    const int interval = next.starts_with("layer") ? 1 : words_[at] == "all" ? 0 : ordinal_in(next);
    if (interval == 0) return false;
    if (interval == 1)
      set(window, !is_global(at), 0);
    else
      set(window, interval == 2 || is_global(at) || is_global_behind(at + 1), interval);
    return true;
  }

  /// "every 4th layer is global", not "every 4th layer, full in the others".
  bool is_global_behind(std::size_t ordinal) const {
    for (std::size_t i = ordinal + 1; i < words_.size() && i < ordinal + 4 && !ends_clause_[i - 1]; ++i)
      if (begins_with_any(words_[i], kGlobal)) return true;
    return false;
  }

  static void set(ReportedWindow& window, bool known, int global_every) {
    if (known)
      window.global_every = global_every;
    else
      window.unread_layers = true;
  }

  /// Whether the words around `at` speak of layers that attend to all: by the nearest before it, else by the nearest behind it.
  bool is_global(std::size_t at) const {
    for (std::size_t i = at; i-- > 0;) {
      if (begins_with_any(words_[i], kGlobal)) return true;
      if (begins_with_any(words_[i], kLocal)) return false;
    }
    for (std::size_t i = at; i < words_.size(); ++i) {
      if (begins_with_any(words_[i], kGlobal)) return true;
      if (begins_with_any(words_[i], kLocal)) return false;
    }
    return false;
  }

  std::vector<std::string_view> words_;
  std::vector<bool> ends_clause_;  ///< a comma follows the word
};

}  // namespace

std::optional<ReportedWindow> reported_window(const std::string& cell) {
  const std::string lower = lower_case(cell);
  bool named = false;
  ReportedWindow window;
  for (const std::string_view word : kWindows) {
    if (!contains(lower, word)) continue;
    named = true;
    window.denied = !mentioned(lower, word).value_or(true);
    if (window.denied) return window;
  }
  if (!named) return std::nullopt;
  const WindowWords words(lower);
  window.tokens = words.tokens();
  window.chunked = contains(lower, "chunk");
  words.read_layers(window);
  return window;
}

std::string window_in_words(std::int64_t tokens, int global_every, bool chunked) {
  const char* ending = global_every == 2 ? "nd" : global_every == 3 ? "rd" : "th";
  return fmt::format(
      "{} of {} tokens{}", chunked ? "chunks" : "a window", tokens,
      global_every > 0 ? fmt::format(", but for every {}{} layer", global_every, ending) : " in every layer");
}

}  // namespace tracecast::accuracy
