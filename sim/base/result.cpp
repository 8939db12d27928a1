#include "sim/base/result.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <utility>

namespace tracecast {

std::string to_string(const Diagnostic& d) {
  std::string text = d.file;
  if (d.line > 0) text += (text.empty() ? "line " : ":") + std::to_string(d.line);
  const auto append = [&text](const std::string& part) {
    if (!text.empty()) text += ": ";
    text += part;
  };
  if (!d.key.empty()) append(d.value.empty() ? d.key : d.key + " = " + d.value);
  append(d.message);
  // Parts of it may be repeated from a file; whatever that holds, the sentence stays one line.
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20U || c == 0x7F) c = '?';
  return text;
}

std::string to_string(const Error& error) {
  std::string text;
  for (const Diagnostic& d : error.diagnostics) {
    if (!text.empty()) text += '\n';
    text += to_string(d);
  }
  return text;
}

tl::unexpected<Error> fail(Diagnostic diagnostic) { return tl::unexpected<Error>(Error{{std::move(diagnostic)}}); }

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
