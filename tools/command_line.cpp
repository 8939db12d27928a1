#include "tools/command_line.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <new>
#include <sstream>
#include <system_error>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/build_info.hpp"

namespace tracecast::cli {
namespace {

constexpr std::string_view kUsage = "tracecast COMMAND [options]";

int code(ExitCode exit) { return static_cast<int>(exit); }

std::string did_you_mean(const std::string& word, const std::vector<std::string>& allowed) {
  const std::string near = nearest_match(word, allowed);
  return near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near);
}

std::string overview(std::span<const Command> table, const TextStyle& style) {
  std::size_t width = 0;
  for (const Command& command : table) width = std::max(width, command.name.size());
  std::string text =
      fmt::format("Forecasts large training runs from real measurements.\n\nUsage: {}\n\nCommands:\n", kUsage);
  for (const Command& command : table)
    text += paragraph(fmt::format("  {:<{}}  ", command.name, width), command.summary, style);
  text += "\nOptions:\n" +
          paragraph("  --help       ", "this page; `tracecast COMMAND --help` shows the options of a command", style) +
          "  --version    version and how it was built\n";
  if (!table.empty()) text += fmt::format("\nExample:\n  tracecast {}\n", table.front().example);
  return text;
}

/// CLI11's name of an option's type, and what its check allows: "TEXT" and "{a,b}", "INT" and "1 to 8", "FLOAT" and "".
std::pair<std::string, std::string> type_and_check(const CLI::Option& option) {
  const std::string name = option.get_type_name();
  const std::size_t colon = name.find(':');
  return {name.substr(0, colon), colon == std::string::npos ? "" : name.substr(colon + 1)};
}

/// "-o, --output"
std::string spelling_of(const CLI::Option& option) {
  std::string names;
  for (const std::string& letter : option.get_snames()) names += "-" + letter + ", ";
  return names + option.get_name();
}

/// The placeholder for an option's value: "DIR", "NUMBER", "{analytic,fluid}", or nothing for a flag.
std::string argument(const CLI::Option& option) {
  if (option.get_type_size_max() == 0) return "";
  const auto [type, allowed] = type_and_check(option);
  if (allowed.starts_with('{')) return " " + allowed;
  if (type.empty()) return "";  // a flag
  return type == "FLOAT" || type == "INT" || type == "UINT" ? " NUMBER" : " " + type;
}

/// " (1 to 8)" for a number with a range.
std::string allowed_range(const CLI::Option& option) {
  const std::string allowed = type_and_check(option).second;
  return allowed.empty() || allowed.starts_with('{') ? "" : fmt::format(" ({})", allowed);
}

/// One entry of a help page: the name, then its text in a second column, or on the next line after a long name.
std::string entry(const std::string& name, const std::string& text, const TextStyle& style) {
  constexpr int kColumn = 24;
  const std::string first = "  " + name;
  if (columns(first) + 2 <= kColumn) return paragraph(pad_right(first, kColumn), text, style);
  return first + "\n" + paragraph(std::string(kColumn, ' '), text, style);
}

/// A command may have a footer: the names that one of its options takes, each with its text in a second column.
std::string wrapped(const std::string& footer, const TextStyle& style) {
  std::string text;
  std::istringstream lines(footer);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t gap = line.find("  ", 2);
    const std::size_t column = gap == std::string::npos ? gap : line.find_first_not_of(' ', gap);
    text += column == std::string::npos ? line + "\n" : paragraph(line.substr(0, column), line.substr(column), style);
  }
  return text;
}

/// A former name of an option.
bool is_hidden(const CLI::Option& option) { return option.get_group().empty(); }

std::string help_page(const CLI::App& app, const Command& command, const TextStyle& style) {
  std::string usage = fmt::format("Usage: tracecast {}", command.name);
  std::string positionals;
  std::vector<std::pair<std::string, std::string>> groups;  // name, entries of its options
  for (const CLI::Option* option : app.get_options()) {
    if (is_hidden(*option)) continue;
    if (option->get_positional()) {
      const std::string& name = option->get_name(true);
      usage += option->get_required() ? " " + name : fmt::format(" [{}]", name);
      positionals += entry(name, option->get_description(), style);
      continue;
    }
    std::string text = option->get_description() + allowed_range(*option);
    if (!option->get_default_str().empty()) text += fmt::format(" (default: {})", option->get_default_str());
    if (groups.empty() || groups.back().first != option->get_group()) groups.emplace_back(option->get_group(), "");
    groups.back().second += entry(spelling_of(*option) + argument(*option), text, style);
  }
  std::string options;
  for (const auto& [name, entries] : groups) options += fmt::format("{}:\n{}\n", name, entries);
  const std::string footer = app.get_footer().empty() ? "" : wrapped(app.get_footer(), style) + "\n";
  if (!positionals.empty()) positionals += "\n";
  return fmt::format("{}\n{} [options]\n\n{}{}{}Example:\n  tracecast {}\n",
                     paragraph(fmt::format("tracecast {}: ", command.name), command.summary, style), usage, positionals,
                     options, footer, command.example);
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (is_hidden(*option)) continue;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  names.emplace_back("--help");
  return names;
}

std::vector<const CLI::Validator*> checks_of(CLI::Option& option) {
  std::vector<const CLI::Validator*> checks;
  try {
    for (;;) checks.push_back(option.get_validator(static_cast<int>(checks.size())));
  } catch (const CLI::OptionNotFound&) {  // behind the last one
    return checks;
  }
}

/// The first value that one of the option's checks rejects, and why.
std::string invalid_value(CLI::Option& option) {
  const std::vector<const CLI::Validator*> checks = checks_of(option);
  for (std::string value : option.results())
    for (const CLI::Validator* check : checks)
      if (const std::string problem = (*check)(value); !problem.empty())
        return fmt::format("{} = {}: {}", option.get_name(), value, problem);
  return option.get_name();
}

/// "NAME = VALUE: what is wrong with it", or nothing. CLI11's errors do not name the option in a field of their own, so each
/// option that was given is processed again.
std::string invalid_option(CLI::App& app) {
  for (CLI::Option* option : app.get_options([](const CLI::Option* each) { return !each->empty(); })) {
    try {
      option->run_callback();
    } catch (const CLI::ValidationError&) {
      return invalid_value(*option);
    } catch (const CLI::ConversionError&) {
      return fmt::format("{} = {}: cannot be read", option->get_name(), fmt::join(option->results(), ","));
    } catch (const CLI::ArgumentMismatch&) {
      return fmt::format("{} = {}: takes {} values", option->get_name(), fmt::join(option->results(), ","),
                         option->get_items_expected_min());
    }
  }
  return "";
}

/// One sentence for an error of CLI11.
std::string sentence(CLI::App& app, const CLI::ParseError& error) {
  const std::string hint = fmt::format("; see `tracecast {} --help`", app.get_name());
  const std::vector<std::string> words = app.remaining();
  const auto end = std::ranges::find(words, "--");  // what follows are no options
  std::vector<std::string> extra = words;
  std::erase(extra, "--");
  // An unknown option comes before what is missing: it may be misspelt.
  const auto unknown = std::find_if(words.begin(), end, [](const std::string& word) { return word.starts_with("--"); });
  const bool surplus = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !extra.empty();
  if (surplus || unknown != end) {
    const std::string& word = unknown != end ? *unknown : extra.front();
    if (word.starts_with('-') && end != words.begin()) {
      return fmt::format("{}: unknown option{}{}", word, did_you_mean(word, option_names(app)), hint);
    }
    return fmt::format("'{}': not expected here{}", word, hint);
  }
  if (const std::string invalid = invalid_option(app); !invalid.empty()) return invalid + hint;
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text + hint;
}

/// Options that name a file or folder to write.
bool is_written(const CLI::Option& option) {
  return option.check_lname("out") || option.check_lname("output") || option.check_lname("csv") ||
         option.check_lname("svg") || option.check_lname("html") || option.check_lname("page") ||
         option.check_lname("export") || (option.check_lname("evidence") && option.get_type_size_max() > 0);
}

/// "0x10", and "010", which CLI11 would read as 8.
bool is_octal_or_hexadecimal(const CLI::Option& option, std::string_view text) {
  const std::string type = type_and_check(option).first;
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  const bool starts_with_zero = text.size() > 1 && text[0] == '0';
  if (type == "FLOAT") return starts_with_zero && (text[1] == 'x' || text[1] == 'X');
  return starts_with_zero && (type == "INT" || type == "UINT");
}

/// "NAME = VALUE: what is wrong with it" for an empty value, for a number that is not decimal, and for a file to write that the command also reads or writes
/// elsewhere; or nothing.
std::string misused_value(const CLI::App& app) {
  namespace fs = std::filesystem;
  const std::vector<const CLI::Option*> given = app.get_options([](const CLI::Option* each) { return !each->empty(); });
  for (const CLI::Option* option : given)
    for (const std::string& value : option->results()) {
      if (!option->get_positional() && value.empty()) return option->get_name() + ": is empty";
      if (is_octal_or_hexadecimal(*option, value))
        return fmt::format("{} = {}: is not a decimal number (allowed: 10, not 010 or 0xa)", option->get_name(), value);
    }
  for (const CLI::Option* written : given) {
    if (!is_written(*written)) continue;
    const std::string& name = written->results().back();  // --export has a format before the file
    std::error_code ignored;
    if (const fs::file_status status = fs::status(name, ignored); fs::exists(status) && fs::is_other(status)) continue;
    const fs::path file = fs::weakly_canonical(name, ignored);
    for (const CLI::Option* other : given) {
      const auto same = [&](const std::string& text) { return fs::weakly_canonical(text, ignored) == file; };
      // Another option's word, such as a scenario's name, is a file only if there is one.
      const auto clashes = [&](const std::string& text) {
        return same(text) && (is_written(*other) || fs::is_regular_file(text, ignored));
      };
      if (other != written && std::ranges::any_of(other->results(), clashes))
        return fmt::format("{} = {}: is the file of {} as well", written->get_name(), name, other->get_name());
    }
  }
  return "";
}

/// One word, quoted for a POSIX shell.
std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string as_typed(const Command& command, const std::vector<std::string>& arguments) {
  std::string text = fmt::format("tracecast {}", command.name);
  for (const std::string& argument : arguments) text += " " + shell_word(argument);
  return text;
}

int run(const Command& command, const std::vector<std::string>& arguments, const Output& output) {
  CLI::App app{std::string(command.summary), std::string(command.name)};
  app.set_help_flag("--help,-h", "this page");
  const Run action = command.add(app);
  const auto report = [&](std::string_view text) { output.err(fmt::format("tracecast {}: {}\n", command.name, text)); };
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    output.out(help_page(app, command, output.style));
    return code(ExitCode::done);
  } catch (const CLI::ParseError& error) {
    report(sentence(app, error));
    return code(ExitCode::bad_input);
  }
  if (const std::string misused = misused_value(app); !misused.empty()) {
    report(misused);
    return code(ExitCode::bad_input);
  }
  try {
    const Result<ExitCode> result =
        action({.style = output.style, .show_progress = output.show_progress, .command = as_typed(command, arguments)});
    if (result) return code(*result);
    output.err(to_string(result.error()) + "\n");
  } catch (const std::bad_alloc&) {
    report("not enough memory");
  } catch (const std::exception& error) {
    report(error.what());  // of libraries: for example a full disk behind standard output
  }
  return code(ExitCode::bad_input);
}

std::vector<std::string> names(std::span<const Command> table) {
  std::vector<std::string> out;
  for (const Command& command : table) out.emplace_back(command.name);
  return out;
}

}  // namespace

int run_command_line(std::vector<std::string> arguments, std::span<const Command> table, const Output& output) {
  if (arguments.empty()) {
    output.err(overview(table, output.style));
    return code(ExitCode::bad_input);
  }
  const std::string first = arguments.front();
  if (first == "--help" || first == "-h" || first == "help") {
    output.out(overview(table, output.style));
    return code(ExitCode::done);
  }
  if (first == "--version") {
    output.out(build_facts() + "\n");
    return code(ExitCode::done);
  }
  const auto command = std::ranges::find(table, first, &Command::name);
  if (command == table.end()) {
    const std::string what = first.starts_with('-') ? "unknown option" : "unknown command";
    output.err(
        fmt::format("tracecast: {}: {}{}; see `tracecast --help`\n", first, what, did_you_mean(first, names(table))));
    return code(ExitCode::bad_input);
  }
  arguments.erase(arguments.begin());
  return run(*command, arguments, output);
}

}  // namespace tracecast::cli
