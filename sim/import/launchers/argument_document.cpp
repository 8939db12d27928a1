#include "sim/import/launchers/argument_document.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "sim/import/launchers/plain_scalar.hpp"
#include "sim/io/fields.hpp"

namespace tracecast {
namespace {

constexpr std::size_t kMaxValue = 4096;  // bytes of a value

struct Word {
  std::string text;
  int line = 1;
  bool quoted = false;     ///< a part of it is
  bool ends_line = false;  ///< an empty word: the end of a line that goes not on
  int brackets = 0;        ///< round ones, outside quotes: opened, less closed
};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/// Words of a script. Blanks inside quotes belong to a word, unless they separate arguments there ("--tp 8 --pp 2").
class WordReader {
 public:
  explicit WordReader(const std::string& text, int depth = 0) : text_(text), depth_(depth) {}

  /// Line of a quote that is not closed.
  std::optional<int> read(std::vector<Word>& words) {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (begins_document()) {
        note_document();
      } else if (text_.compare(at_, 2, "$(") == 0) {
        put_command();
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
        if (c == '\n' || c == ';') words.push_back({"", line_, false, true});
        if (c == '\n') ++line_;
        if (c == '\n' && !document_end_.empty()) read_document(words);
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
    if (c == '(') ++word_.brackets;
    if (c == ')') --word_.brackets;
  }

  /// $(nproc --all) and $((A * B)) are one word; what the line does not close is read as other text.
  void put_command() {
    const std::size_t limit = std::min({text_.find('\n', at_), text_.size(), at_ + kMaxValue});
    std::size_t end = at_ + 1;
    int open = 0;
    do {
      if (text_[end] == '(') ++open;
      if (text_[end] == ')') --open;
    } while (open > 0 && ++end < limit);
    if (end >= limit) return put(text_[at_]);
    for (; at_ < end; ++at_) put(text_[at_]);
    put(text_[at_]);
  }

  /// <<EOF, and not <<< "text" or 1 << 2.
  bool begins_document() const {
    if (text_.compare(at_, 2, "<<") != 0 || at_ + 2 >= text_.size()) return false;
    const char next = text_[at_ + 2];
    return next != '<' && next != '=' && std::isdigit(static_cast<unsigned char>(next)) == 0;
  }

  /// Between single quotes every character is itself; between others a backslash makes the next one itself, and joins
  /// lines.
  std::optional<int> read_quoted(char quote) {
    const int begin = line_;
    if (!open_) word_ = {"", line_, false, false};
    open_ = word_.quoted = true;
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      const bool escaped = quote == '"' && text_[at_] == '\\' && at_ + 1 < text_.size() &&
                           std::string_view("\"\\$`\n").find(text_[at_ + 1]) != std::string_view::npos;
      if (escaped) ++at_;
      if (text_[at_] == '\n') ++line_;
      if (!escaped || text_[at_] != '\n') word_.text += text_[at_];
    }
    return at_ < text_.size() ? std::nullopt : std::optional<int>(begin);
  }

  /// <<EOF, <<-EOF and <<'EOF': the lines after this one are a document, up to the one that is EOF.
  void note_document() {
    at_ += text_.compare(at_, 3, "<<-") == 0 ? 3 : 2;
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    document_end_.clear();
    for (; at_ < text_.size() && !is_blank(text_[at_]) && text_[at_] != ';'; ++at_)
      if (text_[at_] != '\'' && text_[at_] != '"' && text_[at_] != '\\') document_end_ += text_[at_];
    --at_;
  }

  /// A document may be a script, for sbatch or bash: it is read as one, unless its quotes say that it is another text.
  void read_document(std::vector<Word>& words) {
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
    std::vector<Word> inside;
    constexpr int kMaxDepth = 8;
    if (depth_ >= kMaxDepth || WordReader(document, depth_ + 1).read(inside)) return;
    for (Word& word : inside) {
      word.line += first - 1;
      words.push_back(std::move(word));
    }
  }

  void close(std::vector<Word>& words) {
    if (open_) words.push_back(std::move(word_));
    open_ = false;
  }

  const std::string& text_;
  int depth_;  ///< of documents in documents
  std::size_t at_ = 0;
  int line_ = 1;
  bool open_ = false;
  Word word_;
  std::string document_end_;  ///< the line that ends the document that follows this line; "": none follows
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

/// Which commands of a script may not run, or run again: those of if, case, loops and functions, and those after the
/// test of a line.
class Branches {
 public:
  bool inside() const { return guarded_ || conditional_ > 0; }

  /// Each word that begins a command.
  void begin(std::string_view word) {
    using Pair = std::pair<std::string_view, std::string_view>;
    constexpr std::array<Pair, 6> kPairs{Pair{"if", "fi"},      Pair{"case", "esac"},  Pair{"for", "done"},
                                         Pair{"while", "done"}, Pair{"until", "done"}, Pair{"select", "done"}};
    if (!ends_.empty() && word == ends_.back().word) return end();
    const auto* const opens = std::ranges::find(kPairs, word, &Pair::first);
    if (opens != kPairs.end()) start(opens->second, true);
    const bool names_function = word.ends_with("()") || word == "function";
    if (word == "{") start("}", std::exchange(function_, false));
    function_ = function_ || names_function;
    test_ = word == "[[" || word == "[" || word == "test" || word.starts_with("((");
  }
  /// The name of a function was read.
  bool expects_body() const { return function_; }
  /// && or ||
  void join() { guarded_ = guarded_ || test_; }
  void end_line() { guarded_ = test_ = false; }

 private:
  struct End {
    std::string_view word;
    bool conditional = false;
  };
  void start(std::string_view end, bool conditional) {
    ends_.push_back({end, conditional});
    if (conditional) ++conditional_;
  }
  void end() {
    if (ends_.back().conditional) --conditional_;
    ends_.pop_back();
  }

  std::vector<End> ends_;
  int conditional_ = 0;
  bool function_ = false;  ///< its name was read, and not yet its body
  bool test_ = false;      ///< the command of this line is one
  bool guarded_ = false;   ///< after a test
};

/// An argument, before it is known which ones the script uses.
struct Argument {
  std::string name;
  JsonNode value;
  std::string owner;  ///< the variable that holds it; "": a command has it
  bool branch = false;
  bool several = false;  ///< programs before it
};

std::string lines_of(const std::set<int>& lines) {
  return fmt::format("line{} {}", lines.size() > 1 ? "s" : "", fmt::join(lines, ", "));
}

class ArgumentReader {
 public:
  explicit ArgumentReader(JsonNode& root) : root_(&root) {}

  void read(const Word& word) {
    const bool first = std::exchange(begins_command_, word.ends_line);
    if (word.ends_line) {
      end_argument();
      return branches_.end_line();
    }
    if (!word.quoted && is_operator(word.text)) return;
    if ((first || word.text == "()") && !word.quoted) begin_command(word.text);
    read_closing(word);
  }

  void finish() {
    end_argument();
    const std::set<std::string> unused = unused_owners();
    std::set<int> unused_lines;
    for (Argument& each : arguments_) {
      if (unused.contains(each.owner))
        unused_lines.insert(each.value.line);
      else
        keep(each);
    }
    if (!lines_in_branches_.empty())
      note(fmt::format(
          "if, case, loops, functions and tests of the script are not evaluated: what {} set{} is taken, and the last "
          "value of a name",
          lines_of(lines_in_branches_), lines_in_branches_.size() > 1 ? "" : "s"));
    if (replaced_)
      note(fmt::format("the script starts several programs ({}): the last value of an argument is taken",
                       lines_of(programs_)));
    if (!unused_lines.empty())
      note(fmt::format("the script does not use {}: the arguments of {} are left out", fmt::join(unused, ", "),
                       lines_of(unused_lines)));
    if (!notes_.items.empty()) root_->members.push_back({kScriptNotes, std::move(notes_)});
  }

 private:
  /// In place of an earlier one of its name.
  void keep(Argument& argument) {
    if (argument.branch) lines_in_branches_.insert(argument.value.line);
    std::erase_if(root_->members, [&](const JsonMember& member) {
      if (member.key != argument.name) return false;
      replaced_ = replaced_ || (argument.several && member.value.text() != argument.value.text());
      return true;
    });
    root_->members.push_back({argument.name, std::move(argument.value)});
  }

  void note(const std::string& text) {
    notes_.kind = JsonNode::Kind::array;
    notes_.items.push_back(node_of(text));
  }

  /// ARGS=(--tp 8): the bracket ends the array, whether it is a word or the end of one.
  void read_closing(const Word& word) {
    const bool closes = word.brackets < 0 && word.text.ends_with(")");
    read_word(closes ? Word{word.text.substr(0, word.text.size() - 1), word.line, word.quoted} : word);
    if (closes) close_array();
  }

  void read_word(const Word& word) {
    if (word.text.empty() && !word.quoted) return;
    const std::size_t name = assignment(word.text);
    const std::string variable = word.text.substr(0, name);
    note_uses(word.text, name > 0 ? variable : owner_);
    const bool lists = word.quoted && (word.text.starts_with("--") || word.text.find(" --") != std::string::npos);
    if (name == 0 && lists) return read_several(word.text, word.line);
    if (name == 0) return take({word.text, word.line, word.quoted, false});
    const std::string text = word.text.substr(word.text.find('=') + 1);
    if (text.starts_with("("))
      return read_array(variable, {text.substr(1), word.line, word.quoted, false, word.brackets - 1});
    if (!word.quoted) end_argument();
    if (!word.quoted || text.find("--") == std::string::npos) return set_variable(variable, text, word.line);
    end_argument();
    owner_ = variable;
    read_several(text, word.line);
    close_array();
  }

  /// ARGS=( and what follows without a blank, up to a closing bracket.
  void read_array(const std::string& name, const Word& first) {
    end_argument();
    owner_ = name;
    read_closing(first);
  }

  /// Words between commands of a line, and those that send output elsewhere. They end an argument.
  bool is_operator(std::string_view word) {
    const bool joins = word == "&&" || word == "||";
    const bool ends = joins || word == "|" || word == "&";
    const bool redirects =
        word.starts_with(">") || word.starts_with("2>") || word.starts_with("&>") || word.starts_with("<");
    if (!ends && !redirects) return false;
    end_argument();
    if (joins) branches_.join();
    begins_command_ = ends;
    return true;
  }

  void begin_command(std::string_view word) {
    branches_.begin(word);
    begins_command_ =
        word == "then" || word == "do" || word == "else" || word == "{" || word == "!" || branches_.expects_body();
  }

  void set_variable(const std::string& name, const std::string& text, int line) {
    variables_[name] = substituted(text);
    if (branches_.inside()) lines_of_branches_[name].insert(line);
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

  void close_array() {
    end_argument();
    owner_.clear();
  }

  void take(Word word) {
    if (!word.quoted && word.text == "(") return end_argument();
    if (holds_arguments(word.text)) return end_argument();
    if (word.text.starts_with("--") && word.text.size() > 2) {
      end_argument();
      const std::size_t equals = word.text.find('=');
      name_ = word.text.substr(2, equals == std::string::npos ? equals : equals - 2);
      std::replace(name_.begin(), name_.end(), '_', '-');
      line_ = word.line;
      if (equals != std::string::npos) values_.push_back({word.text.substr(equals + 1), word.line, false, false});
      return;
    }
    // torchrun --nnodes 2 pretrain_gpt.py $ARGS: the program and what it is given are no values of the argument before.
    if (!word.quoted && word.text.ends_with(".py")) programs_.insert(word.line);
    if (!values_.empty() && (word.text.ends_with(".py") || word.text.starts_with("$"))) end_argument();
    if (!name_.empty()) values_.push_back(std::move(word));
  }

  /// $ARGS and ${ARGS[@]}, where arguments are in ARGS.
  bool holds_arguments(std::string_view text) const {
    if (!text.starts_with("$")) return false;
    text.remove_prefix(text.starts_with("${") ? 2 : 1);
    const std::string_view name = text.substr(0, name_length(text));
    return !name.empty() && owners_.contains(name);
  }

  void end_argument() {
    if (!name_.empty()) {
      JsonNode value;
      if (values_.empty()) {
        value = node_of(true);
      } else {
        std::string text;
        for (const Word& word : values_) text += (text.empty() ? "" : " ") + substituted(word.text);
        value = plain_scalar(text, line_, false);
      }
      value.line = line_;
      arguments_.push_back({name_, std::move(value), owner_, branches_.inside(), programs_.size() > 1});
      owners_.insert(owner_);
    }
    name_.clear();
    values_.clear();
  }

  /// Which variables a word expands: $ARGS, ${ARGS[@]}. `user` is the variable that they become a part of; "": a
  /// command.
  void note_uses(std::string_view text, const std::string& user) {
    for (std::size_t at = text.find('$'); at != std::string_view::npos; at = text.find('$', at + 1)) {
      const std::size_t begin = text.compare(at, 2, "${") == 0 ? at + 2 : at + 1;
      const std::size_t length = name_length(text.substr(std::min(begin, text.size())));
      if (length > 0) uses_[user].insert(std::string(text.substr(begin, length)));
    }
  }

  /// Variables that hold arguments and that no command expands, not even inside another one. A file whose commands
  /// expand none is a part of a script, which another one uses.
  std::set<std::string> unused_owners() const {
    std::set<std::string> used{""};
    std::vector<std::string> open{""};
    while (!open.empty()) {
      const auto found = uses_.find(open.back());
      open.pop_back();
      if (found == uses_.end()) continue;
      for (const std::string& each : found->second)
        if (used.insert(each).second) open.push_back(each);
    }
    std::set<std::string> unused;
    bool any_used = false;
    for (const Argument& each : arguments_) {
      if (!used.contains(each.owner)) unused.insert(each.owner);
      any_used = any_used || (!each.owner.empty() && used.contains(each.owner));
    }
    return any_used ? unused : std::set<std::string>{};
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
          lines_in_branches_.insert(lines->second.begin(), lines->second.end());
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
  bool begins_command_ = true;
  Branches branches_;
  std::map<std::string, std::set<int>> lines_of_branches_;  ///< [variable] lines in branches that set it
  std::set<int> lines_in_branches_;                         ///< that were taken
  std::set<int> programs_;                                  ///< lines that start one
  bool replaced_ = false;                                   ///< an argument of one program by that of another
  JsonNode notes_;
  std::vector<Argument> arguments_;
  std::set<std::string, std::less<>> owners_;          ///< of them
  std::map<std::string, std::set<std::string>> uses_;  ///< [variable or ""] what it expands
  std::map<std::string, std::string> variables_;
  std::string owner_;  ///< the variable whose arguments are read; "": none
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
