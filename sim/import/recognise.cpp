#include "sim/import/recognise.hpp"

#include <algorithm>

namespace tracecast {
namespace {

constexpr std::size_t kHead = 64 * 1024;
constexpr std::string_view kBlank = " \t\r\n";

std::string_view without_blanks(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
  return text;
}

/// Position of the quote that closes the string which opens at `quote`; the end of the text if none does.
std::size_t end_of_string(std::string_view text, std::size_t quote) {
  std::size_t at = quote + 1;
  while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  return std::min(at, text.size());
}

}  // namespace

bool head_contains(std::string_view content, std::string_view part) {
  return content.substr(0, kHead).find(part) != std::string_view::npos;
}

char first_character(std::string_view content) {
  const std::string_view text = without_blanks(content);
  return text.empty() ? '\0' : text.front();
}

bool is_json_object(std::string_view content) { return first_character(content) == '{'; }

bool has_key(std::string_view content, std::string_view key) {
  if (!is_json_object(content)) return false;
  const std::string_view text = content.substr(0, kHead);
  int depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '{' || text[at] == '[') ++depth;
    if (text[at] == '}' || text[at] == ']') --depth;
    if (text[at] != '"') continue;
    const std::size_t end = end_of_string(text, at);
    const bool named = depth == 1 && text.substr(at + 1, end - at - 1) == key;
    if (named && without_blanks(text.substr(std::min(end + 1, text.size()))).starts_with(':')) return true;
    at = end;
  }
  return false;
}

bool has_root(std::string_view content, std::string_view name) {
  while (true) {
    content = without_blanks(content);
    std::string_view end;
    if (content.starts_with("<!--"))
      end = "-->";
    else if (content.starts_with("<?") || content.starts_with("<!"))
      end = ">";
    else
      return content.starts_with('<') && content.substr(1).starts_with(name);
    const std::size_t after = content.find(end);
    if (after == std::string_view::npos) return false;
    content.remove_prefix(after + end.size());
  }
}

}  // namespace tracecast
