#include "tools/accuracy/row_part.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "sim/base/words.hpp"

namespace tracecast::accuracy {
namespace {

constexpr std::array<std::string_view, 4> kBefore{"no ", "not ", "non-", "without "};
constexpr std::array<std::string_view, 6> kBehind{": none", ": off", ": no", " off", " disabled", " not used"};

bool denied(std::string_view before, std::string_view behind) {
  const auto ends_so = [&](std::string_view word) {
    return before.ends_with(word) && (before.size() == word.size() || before[before.size() - word.size() - 1] == ' ' ||
                                      before[before.size() - word.size() - 1] == '(');
  };
  return std::any_of(kBefore.begin(), kBefore.end(), ends_so) ||
         std::any_of(kBehind.begin(), kBehind.end(), [&](std::string_view word) { return behind.starts_with(word); });
}

}  // namespace

bool affirms(const std::string& text, std::string_view words) {
  const std::string small = lower_case(text), wanted = lower_case(words);
  const std::string_view all = small;
  for (std::size_t at = all.find(wanted); at != std::string_view::npos; at = all.find(wanted, at + 1))
    if (!denied(all.substr(0, at), all.substr(at + wanted.size()))) return true;
  return false;
}

int number_after(const std::string& text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string::npos) return 0;
  return static_cast<int>(std::clamp(std::strtol(text.c_str() + at + words.size(), nullptr, 10), 0L, 100'000L));
}

}  // namespace tracecast::accuracy
