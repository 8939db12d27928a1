#include "sim/import/launchers/shell_script.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/import/launchers/plain_scalar.hpp"
#include "sim/import/launchers/shell_condition.hpp"
#include "sim/import/launchers/shell_outputs.hpp"
#include "sim/io/fields.hpp"

namespace tracecast {
namespace {

using Name = std::string_view;

bool is_one_of(std::span<const Name> names, Name name) { return std::ranges::find(names, name) != names.end(); }

class ScriptReader {
 public:
  /// `followed`: by another word of its command.
  void read(const ShellWord& word, bool followed) {
    followed_ = followed;
    if (word.begins > 0) {
      reads_document_ = true;
      outputs_.give_document(word.begins);
      if (branches_.dead()) skipped_.insert(word.begins);
      return;
    }
    if (outputs_.is_shown(word.document) || skipped_.contains(word.document)) return;
    if (reads_condition_) condition_.push_back(word);
    if (word.ends_line) return end_line(word.text);
    if (owner_.empty() && branches_.is_pattern(word.text)) return end_pattern();
    const bool first = std::exchange(begins_command_, false);
    if (!word.quoted && is_operator(word.text)) return;
    if (takes_target(word.text)) return;
    if ((first || word.text == "()") && !word.quoted) begin_command(word.text);
    if (begins_command_) return end_argument();
    if (branches_.dead()) return note_not_set(word.text);
    if (owner_.empty() && assigned_name_length(word.text) == 0) add_to_command(word);
    read_closing(word);
  }

  /// A variable that only a branch that does not run sets.
  void note_not_set(Name word) {
    const std::string name(word.substr(0, assigned_name_length(word)));
    if (name.empty() || sources_ || script_.variables.contains(name) || set_elsewhere_.contains(name)) return;
    ShellVariable& variable = script_.variables[name];
    variable.text = "";
    variable.fixed = true;
    variable.unset = {name};
  }

  ShellScript finish() && {
    end_argument();
    const std::vector<bool> texts = outputs_.texts();
    for (std::size_t each = 0; each < texts.size(); ++each) script_.commands[each].is_text = texts[each];
    return std::move(script_);
  }

 private:
  // ---- words of commands

  void end_line(const std::string& text) {
    end_argument();
    branches_.end_command(text);
    if (owner_.empty()) end_command(false);
    begins_command_ = owner_.empty();
    takes_target_ = Target::none;
  }

  /// `pipes`: what it writes goes to the next command.
  void end_command(bool pipes) {
    // A document is read behind its command, with the command's variables.
    if (command_ && !reads_document_) restore_variables();
    command_.reset();
    before_.clear();
    reads_document_ = false;
    outputs_.end_command(pipes);
  }

  /// Words between commands of a line, and those that send output elsewhere. They end an argument.
  bool is_operator(Name word) {
    const bool joins = word == "&&" || word == "||";
    const bool ends = joins || word == "|" || word == "|&" || word == "&";
    const bool output = word.starts_with(">") || word.starts_with("1>");
    const bool redirects = output || word.starts_with("2>") || word.starts_with("&>") || word.starts_with("<");
    if (!ends && !redirects) return false;
    end_argument();
    if (joins) branches_.join();
    if (ends) {
      end_command(word == "|");
      begins_command_ = true;
      return true;
    }
    const Name target = word.substr(word.find_last_of("><&") + 1);
    if (target.empty())
      takes_target_ = output ? Target::output : Target::other;
    else if (output)
      outputs_.write_to(target);
    return true;
  }

  /// The file after '>'.
  bool takes_target(Name word) {
    const Target target = std::exchange(takes_target_, Target::none);
    if (target == Target::output) outputs_.write_to(word);
    return target != Target::none;
  }

  void begin_command(Name word) {
    constexpr std::array<Name, 10> kBefore{"then", "do", "else", "elif", "if", "while", "until", "{", "!", "("};
    branches_.begin(word);
    if (word == "then" && reads_condition_) {
      condition_.pop_back();
      taken_as_unset_.clear();
      decide(known_condition(condition_, fixed_));
      reads_condition_ = false;
    } else if (word == "if" || word == "elif") {
      condition_.clear();
      reads_condition_ = true;
    }
    begins_command_ = is_one_of(kBefore, word) || branches_.expects_body();
  }

  /// A branch of case begins with the end of its patterns.
  void end_pattern() {
    begins_command_ = true;
    const std::string patterns = branches_.take_patterns();
    if (patterns.empty()) return;
    taken_as_unset_.clear();
    decide(known_match(known_text(branches_.subject(), fixed_), patterns, fixed_));
  }

  /// `runs` may rest on taken_as_unset_.
  void decide(std::optional<bool> runs) {
    if (branches_.decide(runs)) script_.unset.merge(taken_as_unset_);
  }

  /// A text that cannot be another one. What it takes as not set is taken_as_unset_.
  bool is_fixed(Name text) {
    taken_as_unset_.clear();
    return !branches_.inside() && known_text(text, fixed_);
  }

  /// What the command may change that the words do not say.
  void note_changes(Name program, const std::string& word) {
    const bool loops = program == "for" || program == "select";
    if (program == "unset" || program == "read") script_.variables.erase(word);
    if (program == "read" || program == "getopts" || program == "printf" || loops) set_elsewhere_.insert(word);
    if (program == "source" || program == "." || program == "eval") {
      sources_ = true;
      for (auto& [name, variable] : script_.variables) variable.fixed = false;
    }
    if (loops && word != "in" && assigned_name_length(word + "=") > 0) script_.loops.insert(word);
    const auto found = script_.variables.find(word);
    if (found != script_.variables.end() && loops) found->second.fixed = false;
  }

  void add_to_command(const ShellWord& word) {
    const bool is_new = !command_;
    if (is_new) {
      command_ = script_.commands.size();
      ShellCommand& made = script_.commands.emplace_back();
      made.program = word.text.substr(word.text.starts_with("(") ? 1 : 0);
      made.line = word.line;
      made.document = word.document;
      outputs_.begin_command(made.program, word.document);
      if (!expands_itself(made.program)) restore_variables();
    }
    script_.commands[*command_].words.push_back(word.text);
    const std::string& program = script_.commands[*command_].program;
    is_program_ = is_new;
    if (is_new) return;
    note_changes(program, word.text);
    if (program == "source" || program == ".") script_.sources[word.line] = word.text;
    outputs_.add_word(word.text);
  }

  /// Other shells expand their words themselves: what stands before them holds to the end of the command.
  static bool expands_itself(Name program) {
    constexpr std::array<Name, 6> kExpandThemselves{"bash", "sh", "eval", "srun", "ssh", "sbatch"};
    return is_one_of(kExpandThemselves, program);
  }

  /// TP=8 torchrun … $TP: the shell expands the words of a command before it assigns what stands before the program, and for that alone.
  void restore_variables() {
    for (; !before_.empty(); before_.pop_back()) {
      auto& [name, variable] = before_.back();
      if (variable)
        script_.variables[name] = std::move(*variable);
      else
        script_.variables.erase(name);
    }
  }

  void keep_variable(const std::string& name) {
    constexpr std::size_t kMax = 16;
    if (before_.size() >= kMax) return;
    const auto found = script_.variables.find(name);
    before_.emplace_back(name, found == script_.variables.end() ? std::nullopt : std::optional(found->second));
  }

  // ---- assignments and arguments

  /// ARGS=(--tp 8): the bracket ends the array, whether it is a word or the end of one.
  void read_closing(ShellWord word) {
    const bool closes = word.brackets < 0 && word.text.ends_with(")");
    if (closes) word.text.pop_back();
    read_word(word);
    if (closes) close_array();
  }

  void read_word(const ShellWord& word) {
    if (word.text.empty() && !word.quoted) return;
    if (const std::size_t name = assigned_name_length(word.text); name > 0) return read_assignment(word, name);
    const std::string text = expanded(word.text, word.line);
    note_uses(text, owner_);
    const bool lists = (word.quoted || text != word.text) && (text.starts_with("--") || text.find(" --") != Name::npos);
    if (lists) return read_several(text, word.line);
    if (!text.empty() || word.text.empty()) take(text, word.line, word.quoted);
  }

  void read_assignment(const ShellWord& word, std::size_t name) {
    if (command_ && script_.commands[*command_].program == "env") return;  // TP=8 of its program alone
    const std::string variable = word.text.substr(0, name);
    if (!command_ && followed_ && !word.array) keep_variable(variable);
    const bool appends = word.text[name] == '+';
    const std::string value = word.text.substr(word.text.find('=') + 1);
    if (word.array && value.starts_with("(")) {
      end_argument();
      assign(variable, appends, word.line);
      owner_ = variable;
      ShellWord first = word;
      first.text = value.substr(1);
      --first.brackets;
      return read_closing(first);
    }
    const std::string text = expanded(value, word.line);
    if (!word.quoted) end_argument();
    const bool lists = (word.quoted || text != value) && text.find("--") != std::string::npos;
    if (lists) end_argument();
    std::string before;
    if (appends)
      if (const auto found = script_.variables.find(variable); found != script_.variables.end())
        before = text_here(found->second).value_or("");
    const std::string now = lists ? "" : before + substituted(text);
    const bool fixed = is_fixed(value) && (!appends || fixed_.text(variable));
    assign(variable, appends, word.line);
    note_uses(text, variable);
    if (fixed && !lists) fix(variable);
    if (!lists) return set_text(variable, text, now, word.line);
    owner_ = variable;
    read_several(text, word.line);
    close_array();
  }

  /// Requires is_fixed of its text
  void fix(const std::string& variable) {
    script_.variables[variable].fixed = true;
    script_.variables[variable].unset = std::move(taken_as_unset_);
  }

  /// `written` is `now` before the texts of variables are put in.
  void set_text(const std::string& variable, const std::string& written, const std::string& now, int line) {
    script_.variables[variable].text = now;
    for (const Name word : split_words(written, " \t\r\n"))
      if (const Expansion each = expansion_at(word);
          each.size == word.size() && is_list(each) && !script_.is_known(each.name))
        script_.variables[variable].held.unknown.push_back({std::string(word), std::string(each.name), line});
  }

  /// '=' replaces what a variable has, unless the new value expands it; '+=' replaces what another branch added.
  void assign(const std::string& name, bool appends, int line) {
    ShellVariable& variable = script_.variables[name];
    old_ = {};
    if (!appends) old_ = std::exchange(variable.held, {});
    for (ShellContents* held : {&variable.held, &old_})
      std::erase_if(held->arguments,
                    [&](const ShellArgument& each) { return ShellBranches::exclude(each.path, branches_.path()); });
    if (!appends && !branches_.inside()) variable.branch_lines.clear();
    if (branches_.inside()) variable.branch_lines.insert(line);
    keep_text(variable);
    variable.text.reset();
    variable.fixed = false;
    variable.unset.clear();
  }

  /// What another branch may have in place of the text that is set now.
  void keep_text(ShellVariable& variable) const {
    if (variable.text) variable.earlier.emplace_back(variable.path, *variable.text);
    variable.path = branches_.path();
    std::erase_if(variable.earlier,
                  [&](const auto& each) { return variable.path.empty() || each.first == variable.path; });
  }

  /// The text here: that of a branch which excludes this place was not set.
  std::optional<std::string> text_here(const ShellVariable& variable) const {
    if (!variable.text || !ShellBranches::exclude(variable.path, branches_.path())) return variable.text;
    for (auto each = variable.earlier.rbegin(); each != variable.earlier.rend(); ++each)
      if (!ShellBranches::exclude(each->first, branches_.path())) return each->second;
    return std::nullopt;
  }

  /// A value that expands its own variable has what that had before.
  void keep_old(ShellContents& held) {
    if (held.arguments.empty())
      held.arguments = std::move(old_.arguments);
    else
      std::ranges::move(old_.arguments, std::back_inserter(held.arguments));
    held.has_arguments = held.has_arguments || old_.has_arguments;
    std::ranges::move(old_.unknown, std::back_inserter(held.unknown));
    held.uses.merge(old_.uses);
    old_ = {};
  }

  ShellContents& held_by(const std::string& variable) {
    return variable.empty() ? script_.commands[*command_].held : script_.variables[variable].held;
  }

  /// Which variables a word expands. `user` is the variable that they become a part of; "": the command.
  void note_uses(Name text, const std::string& user) {
    ShellContents& held = held_by(user);
    std::ranges::move(unknown_, std::back_inserter(held.unknown));
    unknown_.clear();
    for (std::size_t at = text.find('$'); at != Name::npos; at = text.find('$', at + 1)) {
      const Expansion expansion = expansion_at(text.substr(at));
      const Name name = expansion.name;
      if (name.empty()) continue;
      if (!is_whole(expansion) && (script_.holds_arguments(name) || (name == user && old_.has_arguments)))
        held.cuts.emplace(name);
      else if (name == user)
        keep_old(held);
      else
        use(name, held);
    }
  }

  void use(Name variable, ShellContents& held) const {
    held.uses.emplace(variable);
    held.has_arguments = held.has_arguments || script_.holds_arguments(variable);
  }

  /// The first word of a text, without quotes that are closed on its line: blanks inside them and inside expansions belong to it.
  /// `size`: what it takes of the text.
  static std::string first_word(Name text, std::size_t& size) {
    std::string word;
    for (size = 0; size < text.size() && Name(" \t\r\n").find(text[size]) == Name::npos;) {
      const Name rest = text.substr(size);
      const std::size_t closes = rest[0] == '\'' || rest[0] == '"' ? rest.find(rest[0], 1) : Name::npos;
      const bool quoted = closes != Name::npos && closes < rest.find('\n');
      const std::size_t taken = quoted ? closes + 1 : std::max<std::size_t>(expansion_at(rest).size, 1);
      word += quoted ? rest.substr(1, closes - 1) : rest.substr(0, taken);
      size += taken;
    }
    return word;
  }

  /// Arguments inside quotes.
  void read_several(const std::string& text, int line) {
    for (std::size_t begin = 0; begin < text.size();) {
      std::size_t size = 0;
      const std::string word = first_word(Name(text).substr(begin), size);
      const std::size_t end = begin + size;
      constexpr std::array<Name, 6> kOperators{"|", "|&", "||", "&", "&&", ";"};
      if (is_one_of(kOperators, word) || word.starts_with(">") || word.starts_with("2>"))
        end_argument();
      else if (word.size() < size && word.find(" --") != std::string::npos)
        read_several(word, line);  // a command in quotes
      else if (!word.empty())
        take(word, line, false);
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
    old_ = {};
  }

  void take(const std::string& text, int line, bool quoted) {
    if (!quoted && text == "(") return end_argument();
    const Expansion expansion = expansion_at(text);
    const bool expands = expansion.size > 0 && expansion.size == text.size();
    const bool own = !owner_.empty() && expansion.name == owner_;
    const bool arguments = own || script_.holds_arguments(expansion.name);
    if (expands && arguments && is_whole(expansion)) return end_argument();
    if (expands && arguments) {
      end_argument();
      held_by(owner_).unknown.push_back({text, "", line});
      return;
    }
    if (text.starts_with("--") && text.size() > 2) return begin_argument(text, line);
    // torchrun --nnodes 2 pretrain_gpt.py $ARGS: the program and what it is given are no values of the argument before.
    const bool python = text.ends_with(".py");
    if (!quoted && python && owner_.empty()) {
      script_.commands[*command_].python = shell_file_name(text);
      script_.commands[*command_].line = line;
    }
    const bool apart = !values_.empty() && (python || text.starts_with("$") || text.starts_with("`"));
    if (apart || (expands && is_list(expansion))) end_argument();
    if (!name_.empty()) return values_.push_back(text);
    const bool program = owner_.empty() && is_program_;
    if (expands && !program && !script_.is_known(expansion.name))
      held_by(owner_).unknown.push_back({text, std::string(expansion.name), line});
  }

  void begin_argument(const std::string& text, int line) {
    end_argument();
    const std::size_t equals = text.find('=');
    name_ = text.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::replace(name_.begin(), name_.end(), '_', '-');
    line_ = line;
    if (equals != std::string::npos) values_.push_back(text.substr(equals + 1));
  }

  void end_argument() {
    if (!name_.empty()) {
      JsonNode value;
      if (values_.empty()) {
        value = node_of(true);
      } else {
        std::string text;
        for (const std::string& word : values_) text += (text.empty() ? "" : " ") + substituted(word);
        const bool nothing = text.empty() && values_.front().starts_with('$');
        value = nothing ? node_of(true) : plain_scalar(text, line_, false);
      }
      value.line = line_;
      ShellContents& held = held_by(owner_);
      held.has_arguments = true;
      held.arguments.push_back({name_, std::move(value), ++order_, branches_.path(), branches_.inside()});
    }
    name_.clear();
    values_.clear();
  }

  // ---- expansions

  /// $@ and ${ARGS[@]}: any number of words.
  static bool is_list(const Expansion& expansion) {
    const Name rest = expansion.rest;
    return rest == "[@]" || rest == "[*]" || (expansion.name.empty() && (rest.starts_with("@") || rest == "*"));
  }

  /// ${TP:-8}, ${ARGS[@]:-} and ${SP:+--sequence-parallel} replaced by what they stand for; ${TP:=8} sets TP.
  std::string expanded(Name text, int line) {
    std::string result;
    while (!text.empty() && result.size() < kMaxShellValue) {
      const Expansion expansion = expansion_at(text);
      const bool all = expansion.rest.starts_with("[@]") || expansion.rest.starts_with("[*]");
      const Name behind = expansion.rest.substr(all ? 3 : 0);
      const std::size_t colon = behind.starts_with(":") ? 1 : 0;
      const Name rest = behind.substr(colon);
      if (expansion.name.empty() || rest.empty() || Name("-=+?").find(rest[0]) == Name::npos) {
        result += text[0];
        text.remove_prefix(1);
        continue;
      }
      const auto found = script_.variables.find(expansion.name);
      const bool holds = script_.holds_arguments(expansion.name);
      const bool set = holds || (script_.is_known(expansion.name) && is_set_here(found->second, colon > 0));
      const std::string same = fmt::format("${{{}}}", expansion.name);
      if (rest[0] == '+' && found == script_.variables.end())
        unknown_.push_back({std::string(text.substr(0, expansion.size)), std::string(expansion.name), line});
      if (rest[0] == '?' || (rest[0] != '+' && set))
        result += holds || found == script_.variables.end() ? same : substituted(same);
      else if ((rest[0] == '+') == set)
        result += by_default(rest, std::string(expansion.name), line);
      text.remove_prefix(expansion.size);
    }
    return result.substr(0, kMaxShellValue);
  }

  /// `filled`: nothing does not count.
  bool is_set_here(const ShellVariable& variable, bool filled) const {
    const std::optional<std::string> text = text_here(variable);
    return text ? !filled || !text->empty() : !variable.text && !filled;
  }

  std::string by_default(Name rest, const std::string& variable, int line) {
    std::string value = expanded(rest.substr(1), line);
    if (rest[0] == '=' && value.find("--") == std::string::npos) {
      const bool fixed = is_fixed(fmt::format("${{{}:={}}}", variable, value));
      assign(variable, false, line);
      script_.variables[variable].text = substituted(value);
      if (fixed) fix(variable);
    }
    return value;
  }

  /// With the texts of variables known so far; other expansions stay as they are. Variables in variables may double: they
  /// are cut.
  std::string substituted(Name text) {
    std::string result;
    while (!text.empty() && result.size() < kMaxShellValue) {
      const Expansion expansion = expansion_at(text);
      std::optional<std::string> known;
      if (expansion.size > 0 && (!expansion.name.empty() || text.starts_with("$((")))
        known = known_text(text.substr(0, expansion.size), {[this](Name name) { return text_of(name); }});
      result += known.value_or(std::string(text.substr(0, 1)));
      text.remove_prefix(known ? expansion.size : 1);
    }
    return result.substr(0, kMaxShellValue);
  }

  std::optional<std::string> fixed_text(Name name) {
    const auto found = script_.variables.find(name);
    if (found == script_.variables.end() || !found->second.fixed) return std::nullopt;
    taken_as_unset_.insert(found->second.unset.begin(), found->second.unset.end());
    return found->second.text;
  }

  bool is_unset(Name name) {
    if (sources_ || script_.variables.contains(name) || set_elsewhere_.contains(name)) return false;
    taken_as_unset_.emplace(name);
    return true;
  }

  /// A text that becomes a part of another one.
  std::optional<std::string> text_of(Name name) {
    const auto found = script_.variables.find(name);
    if (found == script_.variables.end() || !found->second.text) return std::nullopt;
    script_.branch_lines.insert(found->second.branch_lines.begin(), found->second.branch_lines.end());
    return text_here(found->second);
  }

  enum class Target { none, output, other };

  ShellScript script_;
  bool begins_command_ = true;
  bool is_program_ = false;             ///< the word is the first of its command
  bool reads_document_ = false;         ///< the command is given one
  bool followed_ = false;               ///< the word, by another one of its command
  Target takes_target_ = Target::none;  ///< the next word is a file
  ShellBranches branches_;
  bool reads_condition_ = false;      ///< the words up to then
  std::vector<ShellWord> condition_;  ///< those read so far
  std::set<int> skipped_;             ///< here-documents of branches that do not run
  bool sources_ = false;              ///< another script, which may set any variable
  ShellNames set_elsewhere_;          ///< by read and the like
  ShellNames taken_as_unset_;         ///< by the last use of fixed_
  /// Texts that decide branches.
  ShellLookup fixed_{[this](Name name) { return fixed_text(name); }, [this](Name name) { return is_unset(name); }};
  ShellOutputs outputs_;
  std::optional<std::size_t> command_;  ///< that is read
  /// What variables had that are assigned before the program of a command: nothing, where they were not set.
  std::vector<std::pair<std::string, std::optional<ShellVariable>>> before_;
  ShellContents old_;                      ///< what the variable had that is being assigned
  std::vector<UnknownExpansion> unknown_;  ///< of the word that is read
  std::string owner_;                      ///< the variable whose arguments are read; "": none
  int order_ = 0;                          ///< of the last argument
  std::string name_;
  int line_ = 0;
  std::vector<std::string> values_;
};

}  // namespace

bool ShellScript::is_known(Name variable) const {
  const auto found = variables.find(variable);
  if (found == variables.end()) return false;
  const std::optional<std::string>& text = found->second.text;
  return !text || text->empty() || expansion_at(*text).size != text->size();
}

bool ShellScript::holds_arguments(Name variable) const {
  const auto found = variables.find(variable);
  return found != variables.end() && found->second.held.has_arguments;
}

ShellNames ShellScript::reached(const ShellContents& contents) const {
  ShellNames names = contents.uses;
  std::vector<std::string> open(names.begin(), names.end());
  while (!open.empty()) {
    const auto found = variables.find(open.back());
    open.pop_back();
    if (found == variables.end()) continue;
    for (const std::string& each : found->second.held.uses)
      if (names.insert(each).second) open.push_back(each);
  }
  return names;
}

ShellScript read_shell_script(const std::vector<ShellWord>& words) {
  ScriptReader reader;
  for (std::size_t each = 0; each < words.size(); ++each)
    reader.read(words[each], each + 1 < words.size() && !words[each + 1].ends_line);
  return std::move(reader).finish();
}

}  // namespace tracecast
