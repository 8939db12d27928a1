#include "sim/import/launchers/argument_document.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/import/launchers/plain_scalar.hpp"
#include "sim/import/launchers/shell_branches.hpp"
#include "sim/import/launchers/shell_words.hpp"
#include "sim/io/fields.hpp"

namespace tracecast {
namespace {

using Name = std::string_view;
using Names = std::set<std::string, std::less<>>;

/// A command that has one of these, itself or in its variables, trains.
constexpr std::array<Name, 10> kTraining{"tensor-model-parallel-size",
                                         "pipeline-model-parallel-size",
                                         "num-layers",
                                         "hidden-size",
                                         "micro-batch-size",
                                         "global-batch-size",
                                         "seq-length",
                                         "train-iters",
                                         "train-samples",
                                         "num-attention-heads"};
/// Programs whose words are text.
constexpr std::array<Name, 4> kWriters{"echo", "printf", "cat", "tee"};
/// Programs that run the text that they are given.
constexpr std::array<Name, 9> kShells{"bash", "sh", "zsh", "ssh", "sbatch", "srun", "qsub", "bsub", "xargs"};

bool is_one_of(std::span<const Name> names, Name name) { return std::ranges::find(names, name) != names.end(); }

/// An expansion in place of arguments that the script does not have.
struct Unknown {
  std::string text;
  std::string name;  ///< of a variable; "": something else
  int line = 0;
};

/// Of a command or a variable.
struct Held {
  Names uses;  ///< variables that it expands: $ARGS, ${ARGS[@]}
  std::vector<Unknown> unknown;
};

struct Variable {
  std::optional<std::string> text;  ///< nothing: arguments
  Held held;
  std::set<int> branch_lines;  ///< lines in branches that set it
};

struct Command {
  std::string program;
  int line = 0;
  int program_line = 0;  ///< of the Python file, where there is one
  bool python = false;
  int document = 0;    ///< that it is in
  std::string file;    ///< that its output goes to
  bool feeds = false;  ///< its output goes to a shell
  int words = 0;
  Held held;
};

/// An argument, before it is known which ones the run has.
struct Argument {
  std::string name;
  JsonNode value;
  std::string owner;        ///< the variable that holds it; "": a command has it
  std::size_t command = 0;  ///< which one
  ShellBranches::Path path;
  bool branch = false;
};

std::string lines_of(const std::set<int>& lines) {
  return fmt::format("line{} {}", lines.size() > 1 ? "s" : "", fmt::join(lines, ", "));
}

/// The name of a file without its folder, written in one way.
std::string file_name(Name word) {
  std::string name(word.substr(word.rfind('/') + 1));
  std::erase_if(name, [](char c) { return c == '{' || c == '}'; });
  return name;
}

class ArgumentReader {
 public:
  explicit ArgumentReader(JsonNode& root) : root_(&root) {}

  void read(const ShellWord& word) {
    if (word.begins > 0) {
      if (command_) documents_[word.begins] = *command_;
      return;
    }
    if (is_shown(word.document)) return;
    if (word.ends_line) return end_line(word.text);
    if (!word.quoted && owner_.empty() && branches_.is_pattern(word.text)) {
      begins_command_ = true;
      return;
    }
    const bool first = std::exchange(begins_command_, false);
    if (!word.quoted && is_operator(word.text)) return;
    if (takes_target(word.text)) return;
    if ((first || word.text == "()") && !word.quoted) begin_command(word.text);
    if (begins_command_) return end_argument();
    if (owner_.empty() && assigned_name_length(word.text) == 0) add_to_command(word);
    read_closing(word);
  }

  void finish() {
    end_argument();
    const std::set<std::size_t> training = training_commands();
    const Names used = reached(training);
    const Names used_by_any = reached(all_commands());
    const bool is_part = std::ranges::none_of(
        arguments_, [&](const Argument& each) { return !each.owner.empty() && used_by_any.contains(each.owner); });
    note_branches(used);
    note_several(training);
    note_unused(is_part ? Names{} : used_by_any);
    note_others(training);
    note_unknown(training, used);
    for (Argument& each : arguments_) {
      const bool taken = each.owner.empty() ? training.contains(each.command) : is_part || used.contains(each.owner);
      if (taken) keep(each);
    }
    if (!lines_in_branches_.empty())
      notes_.items.insert(
          notes_.items.begin(),
          node_of(fmt::format(
              "if, case, loops, functions and tests of the script are not evaluated: what {} set{} is taken, and the "
              "last value of a name",
              lines_of(lines_in_branches_), lines_in_branches_.size() > 1 ? "" : "s")));
    notes_.kind = JsonNode::Kind::array;
    if (!notes_.items.empty()) root_->members.push_back({kScriptNotes, std::move(notes_)});
  }

 private:
  // ---- words of commands

  void end_line(const std::string& text) {
    end_argument();
    branches_.end_command(text);
    if (owner_.empty()) end_command();
    begins_command_ = owner_.empty();
    takes_target_ = Target::none;
  }

  void end_command() {
    command_.reset();
    feeding_.reset();
  }

  /// Words between commands of a line, and those that send output elsewhere. They end an argument.
  bool is_operator(Name word) {
    const bool joins = word == "&&" || word == "||";
    const bool ends = joins || word == "|" || word == "&";
    const bool output = word.starts_with(">") || word.starts_with("1>");
    const bool redirects = output || word.starts_with("2>") || word.starts_with("&>") || word.starts_with("<");
    if (!ends && !redirects) return false;
    end_argument();
    if (joins) branches_.join();
    if (ends) {
      const std::optional<std::size_t> before = command_;
      end_command();
      if (word == "|") feeding_ = before;
      begins_command_ = true;
      return true;
    }
    const Name target = word.substr(word.find_last_of("><&") + 1);
    if (target.empty())
      takes_target_ = output ? Target::output : Target::other;
    else if (output && command_)
      commands_[*command_].file = file_name(target);
    return true;
  }

  /// The file after '>'.
  bool takes_target(Name word) {
    const Target target = std::exchange(takes_target_, Target::none);
    if (target == Target::output && command_) commands_[*command_].file = file_name(word);
    return target != Target::none;
  }

  void begin_command(Name word) {
    constexpr std::array<Name, 10> kBefore{"then", "do", "else", "elif", "if", "while", "until", "{", "!", "("};
    branches_.begin(word);
    begins_command_ = is_one_of(kBefore, word) || branches_.expects_body();
  }

  void add_to_command(const ShellWord& word) {
    if (!command_) {
      command_ = commands_.size();
      Command& made = commands_.emplace_back();
      made.program = word.text.substr(word.text.starts_with("(") ? 1 : 0);
      made.line = made.program_line = word.line;
      made.document = word.document;
      const std::optional<std::size_t> before = std::exchange(feeding_, std::nullopt);
      if (before) commands_[*before].feeds = is_one_of(kShells, made.program);
      if (before && made.program == "tee") feeding_ = before;
    }
    Command& command = commands_[*command_];
    if (++command.words == 1) return;
    if (command.program == "unset") forget(word.text);
    if (command.program == "source" || command.program == ".") sources_[word.line] = word.text;
    if (!is_one_of(kWriters, command.program)) mentioned_.insert(file_name(word.text));
    if (command.program != "tee" || word.text.starts_with("-")) return;
    command.file = file_name(word.text);
    if (feeding_) commands_[*feeding_].file = command.file;
  }

  void forget(const std::string& variable) {
    variables_.erase(variable);
    std::erase_if(arguments_, [&](const Argument& each) { return each.owner == variable; });
  }

  /// The text of a document that goes to the terminal.
  bool is_shown(int document) const {
    const auto found = documents_.find(document);
    if (found == documents_.end()) return false;
    const Command& given = commands_[found->second];
    return is_one_of(kWriters, given.program) && given.file.empty() && !given.feeds;
  }

  /// Text that is written, and not run by another command.
  bool is_text(std::size_t command) const {
    const Command& c = commands_[command];
    const bool runs = c.feeds || (!c.file.empty() && mentioned_.contains(c.file));
    if (is_one_of(kWriters, c.program) && !runs) return true;
    const auto given = documents_.find(c.document);
    return given != documents_.end() && given->second < command && is_text(given->second);
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
    const std::string variable = word.text.substr(0, name);
    const bool appends = word.text[name] == '+';
    const std::string value = word.text.substr(word.text.find('=') + 1);
    if (value.starts_with("(")) {
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
      if (const auto found = variables_.find(variable); found != variables_.end())
        before = found->second.text.value_or("");
    const std::string now = lists ? "" : before + substituted(text);
    assign(variable, appends, word.line);
    note_uses(text, variable);
    if (!lists) {
      variables_[variable].text = now;
      return;
    }
    owner_ = variable;
    read_several(text, word.line);
    close_array();
  }

  /// '=' replaces what a variable has, unless the new value expands it; '+=' replaces what another branch added.
  void assign(const std::string& variable, bool appends, int line) {
    old_ = {};
    const auto replaced = [&](const Argument& each) {
      return each.owner == variable && (!appends || ShellBranches::exclude(each.path, branches_.path()));
    };
    const auto kept = std::ranges::stable_partition(arguments_, [&](const Argument& each) { return !replaced(each); });
    if (!appends) {
      std::ranges::move(kept, std::back_inserter(old_.arguments));
      old_.held = std::exchange(variables_[variable].held, {});
    }
    arguments_.erase(kept.begin(), kept.end());
    if (branches_.inside()) variables_[variable].branch_lines.insert(line);
    variables_[variable].text.reset();
  }

  /// A value that expands its own variable has what that had before.
  void keep_old(Held& held) {
    std::ranges::move(old_.arguments, std::back_inserter(arguments_));
    held.uses.merge(old_.held.uses);
    std::ranges::move(old_.held.unknown, std::back_inserter(held.unknown));
    old_ = {};
  }

  Held& held_by(const std::string& variable) {
    return variable.empty() ? commands_[*command_].held : variables_[variable].held;
  }

  /// Which variables a word expands. `user` is the variable that they become a part of; "": the command.
  void note_uses(Name text, const std::string& user) {
    Held& held = held_by(user);
    std::ranges::move(unknown_, std::back_inserter(held.unknown));
    unknown_.clear();
    for (std::size_t at = text.find('$'); at != Name::npos; at = text.find('$', at + 1)) {
      const Name name = expansion_at(text.substr(at)).name;
      if (name.empty()) continue;
      if (name == user)
        keep_old(held);
      else
        held.uses.emplace(name);
    }
  }

  /// Arguments inside quotes.
  void read_several(const std::string& text, int line) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find_first_of(" \t\r\n", begin), text.size());
      if (end > begin) take(text.substr(begin, end - begin), line, false);
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
    if (expands && (own || holds_arguments(expansion.name))) return end_argument();
    if (text.starts_with("--") && text.size() > 2) return begin_argument(text, line);
    // torchrun --nnodes 2 pretrain_gpt.py $ARGS: the program and what it is given are no values of the argument before.
    const bool python = text.ends_with(".py");
    if (!quoted && python && owner_.empty()) {
      commands_[*command_].python = true;
      commands_[*command_].program_line = line;
    }
    const bool apart = !values_.empty() && (python || text.starts_with("$") || text.starts_with("`"));
    if (apart || (expands && is_list(expansion))) end_argument();
    if (!name_.empty()) return values_.push_back(text);
    const bool program = owner_.empty() && commands_[*command_].words == 1;
    if (expands && !program && !is_known(expansion.name))
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
        value = plain_scalar(text, line_, false);
      }
      value.line = line_;
      arguments_.push_back(
          {name_, std::move(value), owner_, command_.value_or(0), branches_.path(), branches_.inside()});
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

  bool is_known(Name name) const {
    const auto found = variables_.find(name);
    if (found == variables_.end()) return false;
    const std::optional<std::string>& text = found->second.text;
    return !text || !(text->starts_with("$(") || text->starts_with("`"));
  }

  /// The variable, or one that it expands, has arguments.
  bool holds_arguments(Name name) const {
    if (name.empty()) return false;
    Names seen{std::string(name)};
    close(seen);
    return std::ranges::any_of(arguments_,
                               [&](const Argument& each) { return !each.owner.empty() && seen.contains(each.owner); });
  }

  /// Adds the variables that those of `names` expand.
  void close(Names& names) const {
    std::vector<std::string> open(names.begin(), names.end());
    while (!open.empty()) {
      const auto found = variables_.find(open.back());
      open.pop_back();
      if (found == variables_.end()) continue;
      for (const std::string& each : found->second.held.uses)
        if (names.insert(each).second) open.push_back(each);
    }
  }

  /// ${TP:-8} and ${SP:+--sequence-parallel} replaced by what they stand for.
  std::string expanded(Name text, int line) {
    std::string result;
    while (!text.empty() && result.size() < kMaxShellValue) {
      const Expansion expansion = expansion_at(text);
      const std::size_t colon = expansion.rest.starts_with(":") ? 1 : 0;
      const Name rest = expansion.rest.substr(colon);
      if (expansion.name.empty() || rest.empty() || Name("-=+?").find(rest[0]) == Name::npos) {
        result += text[0];
        text.remove_prefix(1);
        continue;
      }
      const auto found = variables_.find(expansion.name);
      const bool holds = holds_arguments(expansion.name);
      const bool set = found != variables_.end() && (colon == 0 || holds || !found->second.text.value_or("").empty());
      const std::string same = fmt::format("${{{}}}", expansion.name);
      if (rest[0] == '+' && found == variables_.end())
        unknown_.push_back({std::string(text.substr(0, expansion.size)), std::string(expansion.name), line});
      if (rest[0] == '?' || (rest[0] != '+' && set))
        result += holds || found == variables_.end() ? same : substituted(same);
      else if ((rest[0] == '+') == set)
        result += expanded(rest.substr(1), line);
      text.remove_prefix(expansion.size);
    }
    return result.substr(0, kMaxShellValue);
  }

  /// With the texts of variables known so far; other expansions stay as they are. Variables in variables may double: they
  /// are cut.
  std::string substituted(Name text) {
    std::string result;
    while (!text.empty() && result.size() < kMaxShellValue) {
      const Expansion expansion = expansion_at(text);
      const auto found = expansion.rest.empty() ? variables_.find(expansion.name) : variables_.end();
      const bool known = found != variables_.end() && found->second.text;
      if (known) lines_in_branches_.insert(found->second.branch_lines.begin(), found->second.branch_lines.end());
      result += known ? *found->second.text : std::string(text.substr(0, 1));
      text.remove_prefix(known ? expansion.size : 1);
    }
    return result.substr(0, kMaxShellValue);
  }

  // ---- what the run has

  std::set<std::size_t> all_commands() const {
    std::set<std::size_t> all;
    for (std::size_t command = 0; command < commands_.size(); ++command) all.insert(command);
    return all;
  }

  /// Variables that the commands expand, and those inside them.
  Names reached(const std::set<std::size_t>& commands) const {
    Names names;
    for (const std::size_t each : commands)
      names.insert(commands_[each].held.uses.begin(), commands_[each].held.uses.end());
    close(names);
    return names;
  }

  /// The arguments of a command and of its variables, by name.
  std::map<std::string, std::string> arguments_of(std::size_t command) const {
    const Names used = reached({command});
    std::map<std::string, std::string> found;
    for (const Argument& each : arguments_)
      if (each.owner.empty() ? each.command == command : used.contains(each.owner))
        found[each.name] = each.value.text();
    return found;
  }

  /// Lines of arguments without a program, and commands that have an argument of training; without such, commands that have
  /// any argument. Text that a script writes counts if nothing else trains.
  std::set<std::size_t> training_commands() const {
    std::set<std::size_t> trains, text_trains, others;
    for (const std::size_t each : all_commands()) {
      const auto arguments = arguments_of(each);
      if (arguments.empty()) continue;
      const bool training = commands_[each].program.starts_with("--") || std::ranges::any_of(kTraining, [&](Name name) {
                              return arguments.contains(std::string(name));
                            });
      const bool text = is_text(each);
      if (training && (!text || !commands_[each].file.empty() || commands_[each].document > 0))
        (text ? text_trains : trains).insert(each);
      if (!text) others.insert(each);
    }
    return !trains.empty() ? trains : !text_trains.empty() ? text_trains : others;
  }

  /// In place of an earlier one of its name.
  void keep(Argument& argument) {
    if (argument.branch) lines_in_branches_.insert(argument.value.line);
    std::erase_if(root_->members, [&](const JsonMember& member) { return member.key == argument.name; });
    root_->members.push_back({argument.name, std::move(argument.value)});
  }

  void note(const std::string& text) {
    const bool said = std::ranges::any_of(notes_.items, [&](const JsonNode& each) { return each.string == text; });
    if (!said) notes_.items.push_back(node_of(text));
  }

  void note_branches(const Names& used) {
    for (const Argument& each : arguments_) {
      if (!used.contains(each.owner)) continue;
      const std::set<int>& lines = variables_[each.owner].branch_lines;
      lines_in_branches_.insert(lines.begin(), lines.end());
    }
  }

  void note_several(const std::set<std::size_t>& training) {
    const bool any_python = std::ranges::any_of(training, [&](std::size_t each) { return commands_[each].python; });
    std::set<int> lines;
    std::set<std::map<std::string, std::string>> different;
    for (const std::size_t each : training) {
      if (commands_[each].program.starts_with("--") || commands_[each].python != any_python) continue;
      lines.insert(commands_[each].program_line);
      different.insert(arguments_of(each));
    }
    if (different.size() > 1)
      note(fmt::format("the script starts several programs ({}): the last value of an argument is taken",
                       lines_of(lines)));
  }

  /// Variables that no command expands. A file whose commands expand none is a part of a script, which another one uses.
  void note_unused(const Names& used) {
    Names unused;
    std::set<int> lines;
    for (const Argument& each : arguments_) {
      if (used.empty() || each.owner.empty() || used.contains(each.owner)) continue;
      unused.insert(each.owner);
      lines.insert(each.value.line);
    }
    if (!unused.empty())
      note(fmt::format("the script does not use {}: the arguments of {} are left out", fmt::join(unused, ", "),
                       lines_of(lines)));
  }

  void note_others(const std::set<std::size_t>& training) {
    std::set<int> lines;
    for (const std::size_t each : all_commands())
      if (!training.contains(each) && commands_[each].python && !is_text(each) && !arguments_of(each).empty())
        lines.insert(commands_[each].program_line);
    if (!lines.empty())
      note(fmt::format("{} start{} another program than training: its arguments are left out", lines_of(lines),
                       lines.size() > 1 ? "" : "s"));
  }

  void note_unknown(const std::set<std::size_t>& training, const Names& used) {
    bool of_variable = false;
    const auto note_all = [&](const Held& held) {
      for (const Unknown& each : held.unknown) {
        if (is_known(each.name)) continue;
        of_variable = of_variable || !each.name.empty();
        note(fmt::format("{} of line {} is not known: the arguments that it adds are left out", shortened(each.text),
                         each.line));
      }
    };
    for (const std::size_t each : training) note_all(commands_[each].held);
    for (const std::string& each : used)
      if (const auto found = variables_.find(each); found != variables_.end()) note_all(found->second.held);
    if (of_variable)
      for (const auto& [line, file] : sources_)
        note(fmt::format("line {} reads {}, which is not read here", line, shortened(file)));
  }

  enum class Target { none, output, other };
  struct Old {
    std::vector<Argument> arguments;
    Held held;
  };

  JsonNode* root_;
  bool begins_command_ = true;
  Target takes_target_ = Target::none;  ///< the next word is a file
  ShellBranches branches_;
  std::set<int> lines_in_branches_;  ///< that were taken
  JsonNode notes_;
  std::vector<Argument> arguments_;
  std::vector<Command> commands_;
  std::optional<std::size_t> command_;    ///< that is read
  std::optional<std::size_t> feeding_;    ///< the one before '|'
  std::map<int, std::size_t> documents_;  ///< [here-document] the command that is given it
  std::map<int, std::string> sources_;    ///< [line] files that the script sources
  Names mentioned_;                       ///< words of commands that may be files
  std::map<std::string, Variable, std::less<>> variables_;
  Old old_;                       ///< what the variable had that is being assigned
  std::vector<Unknown> unknown_;  ///< of the word that is read
  std::string owner_;             ///< the variable whose arguments are read; "": none
  std::string name_;
  int line_ = 0;
  std::vector<std::string> values_;
};

}  // namespace

Result<JsonDocument> parse_arguments(const std::string& text, const std::string& file) {
  JsonDocument document{file, {}};
  document.root.kind = JsonNode::Kind::object;
  document.root.line = 1;
  std::vector<ShellWord> words;
  std::string lines = text;
  std::erase(lines, '\r');
  if (const std::optional<int> open = read_shell_words(lines, words))
    return fail({file, *open, "", "", "has a quote that is not closed"});
  ArgumentReader reader(document.root);
  for (const ShellWord& word : words) reader.read(word);
  reader.finish();
  if (std::ranges::all_of(document.root.members, [](const JsonMember& each) { return each.key == kScriptNotes; }))
    return fail({file, 0, "", "", "has no argument (they begin with --)"});
  return document;
}

}  // namespace tracecast
