#include "sim/import/launchers/argument_document.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "sim/import/launchers/plain_scalar.hpp"

namespace tracecast {
namespace {

constexpr std::size_t kMaxValue = 4096;  // bytes of a value

struct Word {
  std::string text;
  int line = 1;
  bool quoted = false;     ///< a part of it is
  bool ends_line = false;  ///< an empty word: the end of a line that goes not on
};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/// Words of a script. Blanks inside quotes belong to a word, unless they separate arguments there ("--tp 8 --pp 2").
class WordReader {
 public:
  explicit WordReader(const std::string& text) : text_(text) {}

  /// Line of a quote that is not closed.
  std::optional<int> read(std::vector<Word>& words) {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\'' || c == '"') {
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
        if (c == '\n' || c == ';') words.push_back({"", line_, false, true});
        if (c == '\n') ++line_;
      } else {
        put(c);
      }
    }
    close(words);
    return std::nullopt;
  }

 private:
  void put(char c) {
    if (!open_) word_ = {"", line_, false, false};
    open_ = true;
    word_.text += c;
  }

  std::optional<int> read_quoted(char quote) {
    const int begin = line_;
    if (!open_) word_ = {"", line_, false, false};
    open_ = word_.quoted = true;
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] == '\n') ++line_;
      const bool continued = text_[at_] == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n';
      word_.text += continued ? ' ' : text_[at_];
    }
    return at_ < text_.size() ? std::nullopt : std::optional<int>(begin);
  }

  void close(std::vector<Word>& words) {
    if (open_) words.push_back(std::move(word_));
    open_ = false;
  }

  const std::string& text_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool open_ = false;
  Word word_;
};

/// The length of the name that `text` begins with.
std::size_t name_length(std::string_view text) {
  const auto end =
      std::find_if(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) == 0 && c != '_'; });
  return static_cast<std::size_t>(end - text.begin());
}

/// "TP=8" and "ARGS+=(": the length of the name before the '=', or 0.
std::size_t assignment(const std::string& text) {
  const std::size_t length = name_length(text);
  if (length == 0 || std::isdigit(static_cast<unsigned char>(text[0])) != 0) return 0;
  const std::size_t equals = text.compare(length, 1, "+") == 0 ? length + 1 : length;
  return equals < text.size() && text[equals] == '=' ? length : 0;
}

class ArgumentReader {
 public:
  explicit ArgumentReader(JsonNode& root) : root_(&root) {}

  void read(const Word& word) {
    if (word.ends_line) return end_argument();
    const std::size_t name = assignment(word.text);
    std::string text = word.text;
    if (name > 0) {
      text.erase(0, text.find('=') + 1);
      if (!word.quoted && !text.starts_with("(")) {
        variables_[word.text.substr(0, name)] = substituted(text);
        end_argument();
        return;
      }
      if (word.quoted && text.find("--") == std::string::npos) {
        variables_[word.text.substr(0, name)] = substituted(text);
        return;
      }
      end_argument();
      if (!text.empty() && text.front() == '(') text.erase(0, 1);
    }
    if (word.quoted && (text.starts_with("--") || text.find(" --") != std::string::npos))
      return read_several(text, word.line);
    take({text, word.line, word.quoted, false});
  }

  void finish() { end_argument(); }

 private:
  /// Arguments inside quotes.
  void read_several(const std::string& text, int line) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find_first_of(" \t\r\n", begin), text.size());
      if (end > begin) take({text.substr(begin, end - begin), line, false, false});
      if (end < text.size() && text[end] == '\n') {
        end_argument();
        ++line;
      }
      begin = end + 1;
    }
  }

  void take(Word word) {
    if (!word.quoted && (word.text == "(" || word.text == ")")) return end_argument();
    if (word.text.starts_with("--") && word.text.size() > 2) {
      end_argument();
      const std::size_t equals = word.text.find('=');
      name_ = word.text.substr(2, equals == std::string::npos ? equals : equals - 2);
      std::replace(name_.begin(), name_.end(), '_', '-');
      line_ = word.line;
      if (equals != std::string::npos) values_.push_back({word.text.substr(equals + 1), word.line, false, false});
      return;
    }
    const bool closes =
        !word.quoted && word.text.size() > 1 && word.text.ends_with(")") && word.text.find('(') == std::string::npos;
    if (closes) word.text.pop_back();
    // torchrun --nnodes 2 pretrain_gpt.py $ARGS: the program and what it is given are no values of the argument before.
    if (!values_.empty() && (word.text.ends_with(".py") || word.text.starts_with("$"))) end_argument();
    if (!name_.empty()) values_.push_back(std::move(word));
    if (closes) end_argument();
  }

  void end_argument() {
    if (!name_.empty()) {
      JsonNode value;
      if (values_.empty()) {
        value.kind = JsonNode::Kind::boolean;
        value.boolean = true;
      } else {
        std::string text;
        for (const Word& word : values_) text += (text.empty() ? "" : " ") + substituted(word.text);
        value = plain_scalar(text, line_, false);
      }
      value.line = line_;
      std::erase_if(root_->members, [&](const JsonMember& member) { return member.key == name_; });
      root_->members.push_back({name_, std::move(value)});
    }
    name_.clear();
    values_.clear();
  }

  /// With the variables known so far; others stay as they are. Variables in variables may double: they are cut.
  std::string substituted(const std::string& text) const {
    std::string result;
    for (std::size_t at = 0; at < text.size(); ++at) {
      const bool braces = text.compare(at, 2, "${") == 0;
      const std::size_t begin = at + (braces ? 2 : 1);
      const std::size_t length =
          text[at] == '$' && begin < text.size() ? name_length(std::string_view(text).substr(begin)) : 0;
      const auto found = length == 0 ? variables_.end() : variables_.find(text.substr(begin, length));
      if (found == variables_.end() || (braces && text.compare(begin + length, 1, "}") != 0)) {
        result += text[at];
        continue;
      }
      result += found->second;
      if (result.size() > kMaxValue) return result.substr(0, kMaxValue);
      at = begin + length - (braces ? 0 : 1);
    }
    return result;
  }

  JsonNode* root_;
  std::map<std::string, std::string> variables_;
  std::string name_;
  int line_ = 0;
  std::vector<Word> values_;
};

}  // namespace

Result<JsonDocument> parse_arguments(const std::string& text, const std::string& file) {
  JsonDocument document{file, {}};
  document.root.kind = JsonNode::Kind::object;
  document.root.line = 1;
  std::vector<Word> words;
  if (const std::optional<int> open = WordReader(text).read(words))
    return fail({file, *open, "", "", "has a quote that is not closed"});
  ArgumentReader reader(document.root);
  for (const Word& word : words) reader.read(word);
  reader.finish();
  if (document.root.members.empty()) return fail({file, 0, "", "", "has no argument (they begin with --)"});
  return document;
}

}  // namespace tracecast
