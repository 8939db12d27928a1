#include "sim/import/launchers/shell_words.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

namespace tracecast {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/// The size of "{ … }" or "( … )", with what it encloses; 0: it is not closed.
std::size_t enclosed_size(std::string_view text) {
  const char opens = text[0];
  const char closes = opens == '{' ? '}' : ')';
  int open = 0;
  for (std::size_t at = 0; at < std::min(text.size(), kMaxShellValue); ++at) {
    if (text[at] == opens) ++open;
    if (text[at] == closes && --open == 0) return at + 1;
  }
  return 0;
}

class WordReader {
 public:
  WordReader(const std::string& text, int& documents, int document = 0, int depth = 0)
      : text_(text), documents_(documents), document_(document), depth_(depth) {}

  std::optional<int> read(std::vector<ShellWord>& words) {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (begins_document()) {
        note_document(words);
      } else if (text_.compare(at_, 3, "<<<") == 0) {
        close(words);
        words.push_back(word("<<<"));
        at_ += 2;
      } else if (c == '$' || c == '`') {
        put_expansion();
      } else if (c == '\'' || c == '"') {
        if (const std::optional<int> open = read_quoted(c)) return open;
      } else if (c == '\\' && at_ + 1 < text_.size()) {
        if (text_[++at_] == '\n')
          ++line_;
        else
          put(text_[at_]);
      } else if (c == '#' && !open_) {
        at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
      } else if (is_blank(c) || c == ';') {
        close(words);
        end_command(words, c);
      } else {
        put(c);
      }
    }
    close(words);
    return std::nullopt;
  }

 private:
  ShellWord word(std::string text) const {
    ShellWord made;
    made.text = std::move(text);
    made.line = line_;
    made.document = document_;
    return made;
  }

  void put(char c) {
    if (!open_) word_ = word("");
    open_ = true;
    if (c == '(' && word_.text.ends_with('=') && assigned_name_length(word_.text) > 0) word_.array = true;
    word_.text += c;
    if (c == '(') ++word_.brackets;
    if (c == ')') --word_.brackets;
  }

  void end_command(std::vector<ShellWord>& words, char c) {
    if (c != '\n' && c != ';') return;
    const bool branch = text_.compare(at_, 2, ";;") == 0;
    if (branch) ++at_;
    words.push_back(word(branch ? ";;" : ""));
    words.back().ends_line = true;
    if (c != '\n') return;
    ++line_;
    if (!document_end_.empty()) read_document(words);
  }

  /// ${NAME:-a b}, without the quotes inside; $(nproc --all), $((A * B)) and `nproc`, if they end on their line. What is
  /// not closed is read as other text.
  void put_expansion() {
    const std::string_view rest = std::string_view(text_).substr(at_);
    const std::string_view line = rest.substr(0, rest.find('\n'));
    std::size_t size = 0;
    if (rest.starts_with("${")) size = 1 + enclosed_size(rest.substr(1));
    if (rest.starts_with("$(")) size = 1 + enclosed_size(line.substr(1));
    if (rest[0] == '`') size = line.find('`', 1) + 1;
    if (size <= 1) return put(rest[0]);
    const bool braces = rest.starts_with("${");
    for (std::size_t end = at_ + size; at_ < end; ++at_) {
      const char c = text_[at_];
      if (c == '\n') ++line_;
      if (!braces || (c != '"' && c != '\'')) put(c);
    }
    --at_;
  }

  /// <<EOF, and not <<< "text" (a word of its own) or 1 << 2.
  bool begins_document() const {
    if (text_.compare(at_, 2, "<<") != 0 || at_ + 2 >= text_.size()) return false;
    const char next = text_[at_ + 2];
    return next != '<' && next != '=' && std::isdigit(static_cast<unsigned char>(next)) == 0;
  }

  /// Between single quotes every character is itself; between others a backslash makes the next one itself, and joins
  /// lines, and an expansion may have quotes of its own.
  std::optional<int> read_quoted(char quote) {
    const int begin = line_;
    if (!open_) word_ = word("");
    open_ = word_.quoted = true;
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (quote == '"' && text_.compare(at_, 2, "${") == 0) {
        put_expansion();
        continue;
      }
      const bool escaped = quote == '"' && text_[at_] == '\\' && at_ + 1 < text_.size() &&
                           std::string_view("\"\\$`\n").find(text_[at_ + 1]) != std::string_view::npos;
      if (escaped) ++at_;
      if (text_[at_] == '\n') ++line_;
      if (!escaped || text_[at_] != '\n') word_.text += text_[at_];
    }
    return at_ < text_.size() ? std::nullopt : std::optional<int>(begin);
  }

  /// <<EOF, <<-EOF and <<'EOF': the lines after this one are a document, up to the one that is EOF.
  void note_document(std::vector<ShellWord>& words) {
    at_ += text_.compare(at_, 3, "<<-") == 0 ? 3 : 2;
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    document_end_.clear();
    for (; at_ < text_.size() && !is_blank(text_[at_]) && text_[at_] != ';'; ++at_)
      if (text_[at_] != '\'' && text_[at_] != '"' && text_[at_] != '\\') document_end_ += text_[at_];
    --at_;
    close(words);
    words.push_back(word(""));
    words.back().begins = ++documents_;
    next_document_ = documents_;
  }

  /// A document may be a script, for sbatch or bash: it is read as one, unless its quotes say that it is another text.
  void read_document(std::vector<ShellWord>& words) {
    const std::string end = std::exchange(document_end_, "");
    std::string document;
    std::size_t next = at_ + 1;
    const int first = line_;
    while (next < text_.size()) {
      const std::size_t line_end = std::min(text_.find('\n', next), text_.size());
      const std::string line = text_.substr(next, line_end - next);
      next = line_end + 1;
      ++line_;
      if (line.substr(std::min(line.find_first_not_of('\t'), line.size())) == end) break;
      document += line + '\n';
    }
    at_ = std::min(next, text_.size()) - 1;
    std::vector<ShellWord> inside;
    constexpr int kMaxDepth = 8;
    if (depth_ >= kMaxDepth || WordReader(document, documents_, next_document_, depth_ + 1).read(inside)) return;
    for (ShellWord& each : inside) {
      each.line += first - 1;
      words.push_back(std::move(each));
    }
  }

  void close(std::vector<ShellWord>& words) {
    if (open_) words.push_back(std::move(word_));
    open_ = false;
  }

  const std::string& text_;
  int& documents_;  ///< seen so far
  int document_;    ///< that is read; 0: none
  int depth_;       ///< of documents in documents
  std::size_t at_ = 0;
  int line_ = 1;
  bool open_ = false;
  ShellWord word_;
  std::string document_end_;  ///< the line that ends the document that follows this line; "": none follows
  int next_document_ = 0;     ///< the one that follows
};

}  // namespace

std::optional<int> read_shell_words(const std::string& script, std::vector<ShellWord>& words) {
  int documents = 0;
  return WordReader(script, documents).read(words);
}

std::size_t name_length(std::string_view text) {
  const auto* const end =
      std::find_if(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) == 0 && c != '_'; });
  return static_cast<std::size_t>(end - text.begin());
}

std::size_t assigned_name_length(std::string_view text) {
  const std::size_t length = name_length(text);
  if (length == 0 || std::isdigit(static_cast<unsigned char>(text[0])) != 0) return 0;
  const std::size_t equals = text.substr(length).starts_with("+") ? length + 1 : length;
  return equals < text.size() && text[equals] == '=' ? length : 0;
}

Expansion expansion_at(std::string_view text) {
  if (text.starts_with("`")) return {text.find('`', 1) + 1};
  if (!text.starts_with("$") || text.size() < 2) return {};
  if (text[1] == '(') {
    const std::size_t size = enclosed_size(text.substr(1));
    return {size == 0 ? 0 : size + 1};
  }
  if (text[1] == '@' || text[1] == '*') return {2, {}, text.substr(1, 1)};
  if (text[1] != '{') {
    const std::string_view name = text.substr(1, name_length(text.substr(1)));
    return {name.empty() ? 0 : name.size() + 1, name};
  }
  const std::size_t size = enclosed_size(text.substr(1));
  if (size == 0) return {};
  const std::string_view inside = text.substr(2, size - 2);
  const std::size_t length = name_length(inside);
  return {size + 1, inside.substr(0, length), inside.substr(length)};
}

bool is_whole(const Expansion& expansion) {
  constexpr std::string_view kWhole[] = {"", "[@]", "[*]", "[@]:0", "[*]:0"};
  return std::ranges::find(kWhole, expansion.rest) != std::end(kWhole);
}

}  // namespace tracecast
