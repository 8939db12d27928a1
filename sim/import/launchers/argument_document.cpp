#include "sim/import/launchers/argument_document.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

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
    const bool first = std::exchange(begins_line_, word.ends_line);
    if (word.ends_line) return end_argument();
    if (first && !word.quoted) look_at_branch(word.text);
    const std::size_t name = assignment(word.text);
    std::string text = word.text;
    if (name > 0) {
      text.erase(0, text.find('=') + 1);
      if (!word.quoted && !text.starts_with("(")) {
        set_variable(word.text.substr(0, name), text, word.line);
        end_argument();
        return;
      }
      if (word.quoted && text.find("--") == std::string::npos)
        return set_variable(word.text.substr(0, name), text, word.line);
      end_argument();
      if (!text.empty() && text.front() == '(') text.erase(0, 1);
    }
    if (word.quoted && (text.starts_with("--") || text.find(" --") != std::string::npos))
      return read_several(text, word.line);
    take({text, word.line, word.quoted, false});
  }

  void finish() {
    end_argument();
    JsonNode notes;
    notes.kind = JsonNode::Kind::array;
    const auto note = [&notes](std::string text) {
      JsonNode node;
      node.kind = JsonNode::Kind::string;
      node.string = std::move(text);
      notes.items.push_back(std::move(node));
    };
    if (!branches_.empty())
      note(fmt::format(
          "if and case of the script are not evaluated: what line{} {} set{} is taken, and the last value of a name",
          branches_.size() > 1 ? "s" : "", fmt::join(branches_, ", "), branches_.size() > 1 ? "" : "s"));
    if (replaced_)
      note(fmt::format("the script starts several programs (lines {}): the last value of an argument is taken",
                       fmt::join(programs_, ", ")));
    if (!notes.items.empty()) root_->members.push_back({kScriptNotes, std::move(notes)});
  }

 private:
  void look_at_branch(std::string_view word) {
    if (word == "if" || word == "case") ++depth_;
    if ((word == "fi" || word == "esac") && depth_ > 0) --depth_;
  }

  void set_variable(const std::string& name, const std::string& text, int line) {
    variables_[name] = substituted(text);
    if (depth_ > 0) lines_of_branches_[name].insert(line);
  }

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
    const bool closes =
        !word.quoted && word.text.size() > 1 && word.text.ends_with(")") && word.text.find('(') == std::string::npos;
    if (closes) word.text.pop_back();
    if (word.text.starts_with("--") && word.text.size() > 2) {
      end_argument();
      const std::size_t equals = word.text.find('=');
      name_ = word.text.substr(2, equals == std::string::npos ? equals : equals - 2);
      if (depth_ > 0) branches_.insert(word.line);
      std::replace(name_.begin(), name_.end(), '_', '-');
      line_ = word.line;
      if (equals != std::string::npos) values_.push_back({word.text.substr(equals + 1), word.line, false, false});
      if (closes) end_argument();
      return;
    }
    // torchrun --nnodes 2 pretrain_gpt.py $ARGS: the program and what it is given are no values of the argument before.
    if (!word.quoted && word.text.ends_with(".py")) programs_.insert(word.line);
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
      std::erase_if(root_->members, [&](const JsonMember& member) {
        if (member.key != name_) return false;
        replaced_ = replaced_ || (programs_.size() > 1 && member.value.text() != value.text());
        return true;
      });
      root_->members.push_back({name_, std::move(value)});
    }
    name_.clear();
    values_.clear();
  }

  /// With the variables known so far, else the default in ${NAME:-8}; others stay as they are. Variables in variables may double:
  /// they are cut.
  std::string substituted(const std::string& text) {
    std::string result;
    for (std::size_t at = 0; at < text.size(); ++at) {
      const bool braces = text.compare(at, 2, "${") == 0;
      const std::size_t begin = at + (braces ? 2 : 1);
      const std::size_t length =
          text[at] == '$' && begin < text.size() ? name_length(std::string_view(text).substr(begin)) : 0;
      const auto found = length == 0 ? variables_.end() : variables_.find(text.substr(begin, length));
      const std::size_t close = braces ? std::min(text.find('}', begin + length), text.size()) : begin + length;
      const bool plain = !braces || (close == begin + length && close < text.size());
      const std::string otherwise =
          plain || length == 0 ? "" : default_of(std::string_view(text).substr(begin + length, close - begin - length));
      if (found == variables_.end() ? otherwise.empty() : !plain && otherwise.empty()) {
        result += text[at];
        continue;
      }
      if (found != variables_.end())
        if (const auto lines = lines_of_branches_.find(found->first); lines != lines_of_branches_.end())
          branches_.insert(lines->second.begin(), lines->second.end());
      result += found == variables_.end() ? otherwise : found->second;
      if (result.size() > kMaxValue) return result.substr(0, kMaxValue);
      at = close - (braces ? 0 : 1);
    }
    return result;
  }

  /// "8" of ":-8" and "-8"; "" of anything else.
  static std::string default_of(std::string_view text) {
    if (text.starts_with(":-"))
      text.remove_prefix(2);
    else if (text.starts_with("-"))
      text.remove_prefix(1);
    else
      return "";
    return text.find('$') == std::string_view::npos ? std::string(text) : "";
  }

  JsonNode* root_;
  bool begins_line_ = true;
  int depth_ = 0;                                           ///< of branches
  std::map<std::string, std::set<int>> lines_of_branches_;  ///< [variable] lines in branches that set it
  std::set<int> branches_;                                  ///< lines in branches that were taken
  std::set<int> programs_;                                  ///< lines that start one
  bool replaced_ = false;                                   ///< an argument of one program by that of another
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
  std::string lines = text;
  std::erase(lines, '\r');
  if (const std::optional<int> open = WordReader(lines).read(words))
    return fail({file, *open, "", "", "has a quote that is not closed"});
  ArgumentReader reader(document.root);
  for (const Word& word : words) reader.read(word);
  reader.finish();
  if (document.root.members.empty()) return fail({file, 0, "", "", "has no argument (they begin with --)"});
  return document;
}

}  // namespace tracecast
