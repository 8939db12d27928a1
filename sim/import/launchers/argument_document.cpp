#include "sim/import/launchers/argument_document.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/import/launchers/shell_script.hpp"
#include "sim/import/launchers/shell_words.hpp"
#include "sim/import/launchers/unread_launchers.hpp"
#include "sim/io/fields.hpp"

namespace tracecast {
namespace {

using Name = std::string_view;
using Commands = std::vector<const ShellCommand*>;

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

std::string lines_of(const std::set<int>& lines) {
  return fmt::format("line{} {}", lines.size() > 1 ? "s" : "", fmt::join(lines, ", "));
}

/// Arguments without a program.
bool is_line_of_arguments(const ShellCommand& command) { return command.program.starts_with("--"); }

/// Which arguments of a script the run has, and what is to be said of the others.
class ArgumentChoice {
 public:
  explicit ArgumentChoice(const ShellScript& script) : script_(&script) {
    for (const ShellCommand& each : script.commands) {
      const ShellNames names = script.reached(each.held);
      used_by_any_.insert(names.begin(), names.end());
      used_by_any_.insert(each.held.cuts.begin(), each.held.cuts.end());
    }
    for (const auto& [name, variable] : script.variables)
      used_by_any_.insert(variable.held.cuts.begin(), variable.held.cuts.end());
    is_part_ = std::ranges::none_of(script.variables, [&](const auto& each) {
      return !each.second.held.arguments.empty() && used_by_any_.contains(each.first);
    });
    choose_training();
    for (const ShellCommand* each : training_) {
      const ShellNames names = script.reached(each->held);
      used_.insert(names.begin(), names.end());
    }
  }

  /// Why the commands that train are another program's; nothing: one may be Megatron-LM's.
  std::optional<Diagnostic> fault() const {
    std::optional<Diagnostic> fault;
    for (const ShellCommand* each : training_) {
      const auto arguments = arguments_of(*each);
      const std::string message = unread_command(each->words, [&](Name name) { return arguments.contains(name); });
      if (message.empty() && trains(*each, arguments)) return std::nullopt;
      if (!message.empty() && !fault) fault = {"", each->line, "", "", message};
    }
    return fault;
  }

  JsonNode document(int line) && {
    JsonNode root;
    root.kind = JsonNode::Kind::object;
    root.line = line;
    std::vector<const ShellArgument*> arguments;
    for (const ShellCommand* each : training_) add(each->held, arguments);
    for (const auto& [name, variable] : script_->variables)
      if (is_part_ || used_.contains(name)) add(variable.held, arguments);
    std::ranges::sort(arguments, {}, &ShellArgument::order);
    note_branches(arguments);
    note_unset();
    note_several();
    note_cut_off();
    if (!is_part_) note_unused();
    note_others();
    note_unknown();
    for (const ShellArgument* each : arguments) {  // the last of equal names holds
      std::erase_if(root.members, [&](const JsonMember& member) { return member.key == each->name; });
      root.members.push_back({each->name, each->value});
    }
    notes_.kind = JsonNode::Kind::array;
    if (root.members.empty()) return root;
    root.members.push_back({kScriptNotes, std::move(notes_)});
    if (!script_->loops.empty())
      root.members.push_back({kScriptLoops, node_of(std::vector(script_->loops.begin(), script_->loops.end()))});
    for (const ShellCommand* each : training_) {
      if (each->python.empty()) continue;
      root.members.push_back({kScriptProgram, node_of(each->python)});
      root.members.back().value.line = each->line;
      break;
    }
    return root;
  }

 private:
  static void add(const ShellContents& held, std::vector<const ShellArgument*>& arguments) {
    for (const ShellArgument& each : held.arguments) arguments.push_back(&each);
  }

  /// The arguments of a command and of its variables, by name.
  std::map<Name, std::string> arguments_of(const ShellCommand& command) const {
    std::vector<const ShellArgument*> all;
    add(command.held, all);
    for (const std::string& each : script_->reached(command.held))
      if (const auto found = script_->variables.find(each); found != script_->variables.end())
        add(found->second.held, all);
    std::map<Name, std::string> arguments;
    for (const ShellArgument* each : all) arguments[each->name] = each->value.text();
    return arguments;
  }

  static bool trains(const ShellCommand& command, const std::map<Name, std::string>& arguments) {
    return is_line_of_arguments(command) ||
           std::ranges::any_of(kTraining, [&](Name name) { return arguments.contains(name); });
  }

  /// A line of arguments behind a command that trains: a comment or an empty line ended that, in spite of its backslash.
  bool is_cut_off(const ShellCommand& command) const {
    return is_line_of_arguments(command) && std::ranges::any_of(training_, [&](const ShellCommand* each) {
             return !is_line_of_arguments(*each) && each->document == command.document;
           });
  }

  /// Lines of arguments without a program, and commands that have an argument of training; without such, the text of a
  /// document that has, or else commands that have any argument.
  void choose_training() {
    Commands text, others;
    for (const ShellCommand& each : script_->commands) {
      const auto arguments = arguments_of(each);
      if (arguments.empty()) continue;
      const bool counts = trains(each, arguments);
      if (is_cut_off(each))
        cut_off_.insert(each.line);
      else if (counts && !each.is_text)
        training_.push_back(&each);
      else if (counts && !each.python.empty())
        text.push_back(&each);
      if (!each.is_text) others.push_back(&each);
    }
    if (training_.empty()) training_ = text.empty() ? std::move(others) : std::move(text);
  }

  bool is_training(const ShellCommand& command) const {
    return std::ranges::find(training_, &command) != training_.end();
  }

  void note(const std::string& text) {
    if (said_.insert(text).second) notes_.items.push_back(node_of(text));
  }

  void note_branches(const std::vector<const ShellArgument*>& arguments) {
    std::set<int> lines = script_->branch_lines;
    for (const ShellArgument* each : arguments)
      if (each->conditional) lines.insert(each->value.line);
    for (const auto& [name, variable] : script_->variables)
      if (used_.contains(name) && !variable.text)
        lines.insert(variable.branch_lines.begin(), variable.branch_lines.end());
    if (!lines.empty())
      note(fmt::format(
          "if, case, loops, functions and tests of the script are not evaluated: what {} set{} is taken, and the last "
          "value of a name",
          lines_of(lines), lines.size() > 1 ? "" : "s"));
  }

  void note_unset() {
    const bool several = script_->unset.size() > 1;
    if (!script_->unset.empty())
      note(fmt::format("${} {} not set outside the script, which decides branches of it",
                       fmt::join(script_->unset, ", $"), several ? "are" : "is"));
  }

  void note_several() {
    const bool any_python =
        std::ranges::any_of(training_, [](const ShellCommand* each) { return !each->python.empty(); });
    std::set<int> lines;
    std::set<std::map<Name, std::string>> different;
    for (const ShellCommand* each : training_) {
      if (is_line_of_arguments(*each) || each->python.empty() == any_python) continue;
      lines.insert(each->line);
      different.insert(arguments_of(*each));
    }
    if (different.size() > 1)
      note(fmt::format("the script starts several programs ({}): the last value of an argument is taken",
                       lines_of(lines)));
  }

  void note_cut_off() {
    if (!cut_off_.empty())
      note(fmt::format(
          "a comment or an empty line ends the command before {}: the arguments there are left out, as Bash does",
          lines_of(cut_off_)));
  }

  /// Variables that no command expands.
  void note_unused() {
    ShellNames unused;
    std::set<int> lines;
    for (const auto& [name, variable] : script_->variables) {
      if (variable.held.arguments.empty() || used_by_any_.contains(name)) continue;
      unused.insert(name);
      for (const ShellArgument& each : variable.held.arguments) lines.insert(each.value.line);
    }
    if (!unused.empty())
      note(fmt::format("the script does not use {}: the arguments of {} are left out", fmt::join(unused, ", "),
                       lines_of(lines)));
  }

  void note_others() {
    std::set<int> lines;
    for (const ShellCommand& each : script_->commands)
      if (!each.python.empty() && !each.is_text && !is_training(each) && !arguments_of(each).empty())
        lines.insert(each.line);
    if (!lines.empty())
      note(fmt::format("{} start{} another program than training: its arguments are left out", lines_of(lines),
                       lines.size() > 1 ? "" : "s"));
  }

  void note_unknown() {
    bool of_variable = false;
    const auto note_all = [&](const ShellContents& held) {
      for (const UnknownExpansion& each : held.unknown) {
        if (script_->is_known(each.name)) continue;
        of_variable = of_variable || !each.name.empty();
        note(fmt::format("{} of line {} is not known: the arguments that it adds are left out", shortened(each.text),
                         each.line));
      }
    };
    for (const ShellCommand* each : training_) note_all(each->held);
    for (const auto& [name, variable] : script_->variables)
      if (used_.contains(name)) note_all(variable.held);
    if (!of_variable) return;
    for (const auto& [line, file] : script_->sources)
      note(fmt::format("line {} reads {}, which is not read here", line, shortened(file)));
  }

  const ShellScript* script_;
  Commands training_;
  std::set<int> cut_off_;   ///< lines of arguments that belong to no command
  ShellNames used_;         ///< variables that these expand
  ShellNames used_by_any_;  ///< variables that any command expands
  bool is_part_ = false;    ///< of a script: no command expands a variable with arguments
  JsonNode notes_;
  std::set<std::string> said_;
};

}  // namespace

Result<JsonDocument> parse_arguments(const std::string& text, const std::string& file) {
  std::vector<ShellWord> words;
  std::string lines = text;
  std::erase(lines, '\r');
  if (const std::optional<int> open = read_shell_words(lines, words))
    return fail({file, *open, "", "", "has a quote that is not closed"});
  const ShellScript script = read_shell_script(words);
  ArgumentChoice choice(script);
  if (std::optional<Diagnostic> fault = choice.fault()) {
    fault->file = file;
    return fail(std::move(*fault));
  }
  JsonDocument document{file, std::move(choice).document(1)};
  if (document.root.members.empty()) return fail({file, 0, "", "", "has no argument (they begin with --)"});
  return document;
}

}  // namespace tracecast
