#include "sim/base/result.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <utility>

namespace tracecast {
namespace {

/// Longer parts of a message, and errors after this many, are cut: they may come from a file of any size.
constexpr std::size_t kLongestPart = 2'000;
constexpr std::size_t kMostErrors = 100;

std::string bounded(const std::string& part) {
  if (part.size() <= kLongestPart) return part;
  std::size_t end = kLongestPart;
  while (end > 0 && (static_cast<unsigned char>(part[end]) & 0xC0U) == 0x80U) --end;  // not inside a UTF-8 character
  return part.substr(0, end) + "... (" + std::to_string(part.size()) + " bytes)";
}

}  // namespace

std::string to_string(const Diagnostic& d) {
  std::string text = bounded(d.file);
  if (d.line > 0) text += (text.empty() ? "line " : ":") + std::to_string(d.line);
  const auto append = [&text](const std::string& part) {
    if (!text.empty()) text += ": ";
    text += bounded(part);
  };
  if (!d.key.empty()) append(d.value.empty() ? d.key : bounded(d.key) + " = " + d.value);
  append(d.message);
  // Parts of it may be repeated from a file; whatever that holds, the sentence stays one line.
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20U || c == 0x7F) c = '?';
  return text;
}

std::string to_string(const Error& error) {
  const std::size_t shown = std::min(error.diagnostics.size(), kMostErrors);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    if (i > 0) text += '\n';
    text += to_string(error.diagnostics[i]);
  }
  if (shown < error.diagnostics.size())
    text += "\nand " + std::to_string(error.diagnostics.size() - shown) + " more errors";
  return text;
}

tl::unexpected<Error> fail(Diagnostic diagnostic) { return tl::unexpected<Error>(Error{{std::move(diagnostic)}}); }

tl::unexpected<Error> fail_key(std::string key, std::string value, std::string message) {
  return fail({"", 0, std::move(key), std::move(value), std::move(message)});
}

tl::unexpected<Error> fail(std::string message) {
  Diagnostic diagnostic;
  diagnostic.message = std::move(message);
  return fail(std::move(diagnostic));
}

namespace {

/// Insertions, deletions, replacements and swaps of adjacent characters (optimal string alignment).
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> two_before(b.size() + 1), before(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    two_before.swap(before);
    before.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({before[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1), before[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], two_before[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_match(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

void detail::assertion_failed(const char* condition, const char* message, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: internal error: %s (%s)\n", file, line, message, condition);
  std::abort();
}

}  // namespace tracecast
