#include "tools/accuracy/rows/cell_words.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <vector>

#include "sim/base/words.hpp"

namespace tracecast::accuracy {
namespace {

bool is_separator(char c) { return c == ' ' || c == '-' || c == '_'; }

/// Denials before and behind the words that they deny. Those of kBeforeAll also deny a whole cell, those of kBehindLink deny
/// only behind a link ("MTP layers: 0"), and words of kBetween may stand before either.
constexpr std::string_view kBeforeAll[] = {"no ", "without ", "w/o "};
constexpr std::string_view kBeforeWord[] = {"not ",        "non-",        "not use ",     "not using ",
                                            "not enable ", "instead of ", "rather than ", "vs ",
                                            "vs. ",        "versus ",     "replaces ",    "replacing "};
constexpr std::string_view kBetween[] = {"dispatcher", "capture"};
constexpr std::string_view kLinks[] = {":", "=", "is", "are", "was", "were"};
constexpr std::string_view kBehind[] = {"off",          "none",        "disabled",      "unused",
                                        "excluded",     "false",       "not used",      "not enabled",
                                        "not included", "not applied", "not active",    "not available",
                                        "not captured", "not counted", "replaced with", "replaced by"};
constexpr std::string_view kBehindLink[] = {"no", "not", "0"};

/// Drops `word` and what separates it from the text before, if the text begins so.
bool drop_word(std::string_view& text, std::string_view word) {
  const std::string_view rest = trim(text);
  if (!rest.starts_with(word)) return false;
  const std::string_view behind = rest.substr(word.size());
  const bool goes_on = !behind.empty() && (is_letter_or_digit(behind[0]) || behind[0] == '_' || behind[0] == '.');
  if (goes_on && is_letter_or_digit(word.back())) return false;
  text = behind;
  return true;
}

template <std::size_t N>
bool drop_any(std::string_view& text, const std::string_view (&words)[N]) {
  return std::ranges::any_of(words, [&](std::string_view word) { return drop_word(text, word); });
}

/// What follows a denial of the words before `behind`, which may begin with the rest of their last word; empty: there is no
/// denial.
std::optional<std::string_view> after_denial(std::string_view behind) {
  std::size_t rest = 0;
  while (rest < behind.size() && is_letter_or_digit(behind[rest])) ++rest;
  const bool less = behind.substr(0, rest) == "less";  // "token-dropless"
  behind.remove_prefix(rest);
  if (less) return behind;
  drop_any(behind, kBetween);
  const bool linked = drop_any(behind, kLinks);
  if (drop_any(behind, kBehind) || (linked && drop_any(behind, kBehindLink))) return behind;
  return std::nullopt;
}

bool denied(std::string_view before, std::string_view behind) {
  const auto ends_so = [&](std::string_view denial) {
    return before.ends_with(denial) &&
           (before.size() == denial.size() || !is_letter_or_digit(before[before.size() - denial.size() - 1]));
  };
  return std::ranges::any_of(kBeforeAll, ends_so) || std::ranges::any_of(kBeforeWord, ends_so) ||
         after_denial(behind).has_value();
}

/// Where `words` end that begin at `at`. A separator in them stands for any, or none: "all-to-all" is "AlltoAll", too. npos:
/// other words are there.
std::size_t end_of_words(std::string_view text, std::size_t at, std::string_view words) {
  if (at > 0 && is_letter_or_digit(text[at - 1])) return std::string_view::npos;
  for (const char c : words) {
    if (is_separator(c)) {
      while (at < text.size() && is_separator(text[at])) ++at;
    } else if (at == text.size() || text[at++] != c) {
      return std::string_view::npos;
    }
  }
  return at;
}

}  // namespace

bool is_letter_or_digit(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

int number_after(const std::string& text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string::npos) return 0;
  return static_cast<int>(std::clamp(std::strtol(text.c_str() + at + words.size(), nullptr, 10), 0L, 100'000L));
}

std::optional<bool> truth(std::string_view word) {
  const std::string small = lower_case(trim(word));
  for (const char* yes : {"1", "1.0", "true", "yes", "on", "enabled"})
    if (small == yes) return true;
  for (const char* no : {"0", "0.0", "false", "no", "off", "none", "disabled"})
    if (small == no) return false;
  return std::nullopt;
}

std::optional<bool> truth_in(const std::string& cell) {
  constexpr const char* kNo[] = {"eager", "unfused", "naive", "math", "gelu", "relu"};
  constexpr const char* kYes[] = {
      "flash",   "fa1",      "fa2",   "fa3",      "fa4",      "cudnn",        "transformer engine",
      "te",      "sdpa",     "fused", "xformers", "aiter",    "ck",           "triton",
      "swiglu",  "geglu",    "reglu", "glu",      "silu",     "swish",        "gated",
      "compile", "inductor", "xla",   "jit",      "autotune", "max-autotune", "userbuffers",
      "async",   "1f1b"};
  if (const std::optional<bool> yes = truth(cell)) return yes;
  const std::vector<std::string_view> words = split_words(cell, " (),;:");
  if (const std::optional<bool> yes = words.empty() ? std::nullopt : truth(words.front())) return yes;
  for (const char* named : kNo)
    if (const std::optional<bool> used = mentioned(cell, named)) return !*used;
  for (const char* named : kYes)
    if (const std::optional<bool> used = mentioned(cell, named)) return used;
  return std::nullopt;
}

std::string usual_word(std::string_view column, std::string_view cell) {
  struct Spelling {
    std::string_view column, letters, word;
  };
  constexpr Spelling kSpellings[] = {{"task", "pretraining", "pretrain"},
                                     {"task", "benchmark", "pretrain"},
                                     {"task", "continuedpretraining", "pretrain"},
                                     {"task", "finetuning", "sft"},
                                     {"task", "finetune", "sft"},
                                     {"task", "fullfinetuning", "sft"},
                                     {"task", "supervisedfinetuning", "sft"},
                                     {"outcome", "success", "completed"},
                                     {"outcome", "done", "completed"},
                                     {"outcome", "succeeded", "completed"},
                                     {"outcome", "successful", "completed"},
                                     {"outcome", "ok", "completed"},
                                     {"outcome", "complete", "completed"},
                                     {"outcome", "finished", "completed"},
                                     {"outcome", "outofmemory", "oom"},
                                     {"outcome", "cudaoom", "oom"},
                                     {"outcome", "cudaoutofmemory", "oom"}};
  const std::string letters = letters_and_digits(cell);
  for (const Spelling& each : kSpellings)
    if (column == each.column && (letters == each.letters || letters == each.word)) return std::string(each.word);
  return lower_case(trim(cell));
}

std::string letters_and_digits(std::string_view text) {
  std::string kept = lower_case(text);
  std::erase_if(kept, [](char c) { return !is_letter_or_digit(c); });
  return kept;
}

bool is_placeholder(std::string_view cell) {
  constexpr std::string_view kPlaceholders[] = {
      "-",           "--",          "\u2013",       "\u2014",     "?",        "n/a", "na",
      "n.a.",        "null",        "nan",          "unknown",    "auto",     "tbd", "unreported",
      "unspecified", "not printed", "not reported", "not stated", "not given"};
  const std::string small = lower_case(trim(cell));
  return std::ranges::find(kPlaceholders, small) != std::end(kPlaceholders);
}

std::optional<bool> mentioned(const std::string& text, std::string_view words) {
  const std::string small = lower_case(text), wanted = lower_case(words);
  const std::string_view all = small;
  std::optional<bool> said;
  for (std::size_t at = 0; at < all.size(); ++at) {
    const std::size_t end = end_of_words(all, at, wanted);
    if (end == std::string_view::npos) continue;
    if (!denied(all.substr(0, at), all.substr(end))) return true;
    said = false;
  }
  return said;
}

bool affirms(const std::string& text, std::string_view words) { return mentioned(text, words).value_or(false); }

bool denies(std::string_view cell) {
  if (std::ranges::any_of(kBeforeAll, [&](std::string_view denial) { return cell.starts_with(denial); })) return true;
  for (std::size_t at = 1; at < cell.size(); ++at)
    if (is_letter_or_digit(cell[at - 1]) && !is_letter_or_digit(cell[at]))
      if (const auto rest = after_denial(cell.substr(at)); rest && trim(*rest).empty()) return true;
  return false;
}

bool has_word(std::string_view text, std::string_view word) {
  const auto ends = [&](std::size_t at) {
    return at >= text.size() || (!is_letter_or_digit(text[at]) && text[at] != '_');
  };
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1))
    if ((at == 0 || ends(at - 1)) && ends(at + word.size())) return true;
  return false;
}

}  // namespace tracecast::accuracy
