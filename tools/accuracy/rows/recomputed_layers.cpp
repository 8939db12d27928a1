#include "tools/accuracy/rows/recomputed_layers.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "sim/base/integers.hpp"
#include "sim/base/words.hpp"
#include "tools/accuracy/rows/cell_words.hpp"

namespace tracecast::accuracy {
namespace {

using Words = std::vector<std::string_view>;

constexpr int kMostLayers = 100'000;

/// "5", "2nd", "one", "second"; 0: another word.
int number_of(std::string_view word) {
  constexpr std::string_view kNames[][2] = {{"one", "first"},   {"two", "second"}, {"three", "third"},
                                            {"four", "fourth"}, {"five", "fifth"}, {"six", "sixth"}};
  for (int i = 0; const auto& names : kNames) {
    ++i;
    if (word == names[0] || word == names[1]) return i;
  }
  int number = 0;
  const std::errc fault = std::from_chars(word.data(), word.data() + word.size(), number).ec;
  return fault == std::errc::result_out_of_range ? kMostLayers : std::clamp(number, 0, kMostLayers);
}

bool is_option(std::string_view word) {
  const std::string letters = letters_and_digits(word);
  return letters == "recomputenumlayers" || letters == "numlayers";
}

/// "layer", "layers", unless these are the unit of something: "1 layer per checkpoint".
bool counts_layers(std::string_view word, std::string_view next, std::string_view after) {
  return word.starts_with("layer") &&
         (next != "per" || after.find("stage") != std::string_view::npos || after == "vp" || after == "vpp" ||
          after == "virtual" || after == "pipeline" || after == "model");
}

/// The layers in "0-15"; 0: another word.
int size_of_range(std::string_view word) {
  const std::size_t dash = word.find('-');
  if (dash == std::string_view::npos) return 0;
  const std::optional<int> first = parse_number<int>(word.substr(0, dash)),
                           last = parse_number<int>(word.substr(dash + 1));
  return first && last && *first >= 0 && *last >= *first
             ? std::min(*last, kMostLayers - 1) - std::min(*first, kMostLayers) + 1
             : 0;
}

/// The words around the one at `i`; empty beyond the ends.
std::string_view word_at(const Words& words, std::size_t i) { return i < words.size() ? words[i] : std::string_view(); }

/// The words of a text. "16/80" is "16 of 80" and "20%" is "20 of 100" if that is all, or if layers follow: "adds 30% more FLOPs".
Words words_of(std::string_view text) {
  static constexpr std::string_view kOf = "of", kHundred = "100";
  const Words tokens = split_words(text, " \t,;:=()[]");
  const auto counts = [&](std::size_t i) {
    const std::size_t noun = i + (word_at(tokens, i + 1) != "of" ? 1 : word_at(tokens, i + 2) == "the" ? 3 : 2);
    return tokens.size() == 1 || word_at(tokens, noun).starts_with("layer");
  };
  Words words;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::vector<std::string_view> parts = split_words(tokens[i], "/");
    const bool percent = tokens[i].ends_with('%');
    if (percent || (parts.size() == 2 && number_of(parts[0]) > 0 && number_of(parts[1]) > 0)) {
      if (!counts(i)) continue;
      const std::string_view share = tokens[i].substr(0, tokens[i].size() - 1);
      words.insert(words.end(), {percent ? share : parts[0], kOf, percent ? kHundred : parts[1]});
    } else {
      words.insert(words.end(), parts.begin(), parts.end());
    }
  }
  return words;
}

RecomputedLayers read(const Words& words) {
  RecomputedLayers said;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view next = word_at(words, i + 1), before = i > 0 ? words[i - 1] : std::string_view();
    if (words[i] == "every" && word_at(words, i + 2).starts_with("layer"))
      said.every = next == "other" ? 2 : number_of(next);
    const bool method = words[i] == "block" && before != "per" && before != "each";
    said.of_each_stage |= method || words[i].find("stage") != std::string_view::npos || words[i].starts_with("chunk");
    if (before.starts_with("layer") && said.count == 0) said.count = size_of_range(words[i]);
    constexpr std::string_view kOther[] = {"of", "every", "but", "except"};  // before numbers that are not the count
    const bool of_work =
        before == "of" && i > 1 && (words[i - 2].starts_with("recomput") || words[i - 2] == "checkpointing");
    const bool other = !of_work && (words[i] == "first" || std::ranges::find(kOther, before) != std::end(kOther));
    if (said.count > 0 || other || number_of(words[i]) == 0) continue;
    const std::size_t whole = i + (word_at(words, i + 2) == "the" ? 3 : 2);
    if (next == "of" && number_of(word_at(words, whole)) > 0) said.of = number_of(word_at(words, whole));
    said.of_option = is_option(before);
    if (said.of > 0 || said.of_option || before == "block" ||
        counts_layers(next, word_at(words, i + 2), word_at(words, i + 3)))
      said.count = number_of(words[i]);
  }
  return said;
}

}  // namespace

RecomputedLayers recomputed_layers(std::string_view text) {
  const Words words = words_of(text);
  return std::ranges::find(words, "uniform") == words.end() ? read(words) : RecomputedLayers{};
}

int recomputed_per_stage(const RecomputedLayers& said, int layers, int virtual_stages, bool partial) {
  if (said.every > 1) return std::max(1, layers / (said.every * virtual_stages));
  if (said.of > 0) return said.count < said.of ? ceil_div(said.count * layers, said.of * virtual_stages) : 0;
  if (said.of_each_stage) return said.count;
  if (!partial && (said.of_option || said.count == 1 || said.count >= layers)) return 0;
  return said.of_option ? said.count : ceil_div(said.count, virtual_stages);
}

}  // namespace tracecast::accuracy
