#include "tools/command_line.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

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
  text +=
      "\nOptions:\n  --help       this page; `tracecast COMMAND --help` shows the options of a command\n"
      "  --version    version and how it was built\n";
  if (!table.empty()) text += fmt::format("\nExample:\n  tracecast {}\n", table.front().example);
  return text;
}

/// The placeholder for an option's value: "DIR", "NUMBER", "{analytic,fluid}", or nothing for a flag. CLI11 calls
/// numbers FLOAT, INT or UINT, and appends the allowed values: "TEXT:{a,b}", "INT:INT in [1 - 8]".
std::string argument(const CLI::Option& option) {
  if (option.get_type_size_max() == 0) return "";
  const std::string type = option.get_type_name();
  if (const std::size_t choices = type.find('{'); choices != std::string::npos) return " " + type.substr(choices);
  const std::string name = type.substr(0, type.find(':'));
  return name == "FLOAT" || name == "INT" || name == "UINT" ? " NUMBER" : " " + name;
}

/// " (1 to 8)" for a number with a range.
std::string allowed_range(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find(" in [");
  const std::size_t middle = type.find(" - ", begin);
  const std::size_t end = type.find(']', middle);
  if (end == std::string::npos) return "";
  return fmt::format(" ({} to {})", type.substr(begin + 5, middle - begin - 5),
                     type.substr(middle + 3, end - middle - 3));
}

/// One entry of a help page: the name, then its text in a second column, or on the next line after a long name.
std::string entry(const std::string& name, const std::string& text, const TextStyle& style) {
  constexpr int kColumn = 24;
  const std::string first = "  " + name;
  if (columns(first) + 2 <= kColumn) return paragraph(pad_right(first, kColumn), text, style);
  return first + "\n" + paragraph(std::string(kColumn, ' '), text, style);
}

/// A former name of an option.
bool is_hidden(const CLI::Option& option) { return option.get_group().empty(); }

std::string help_page(const CLI::App& app, const Command& command, const TextStyle& style) {
  std::string usage = fmt::format("Usage: tracecast {}", command.name);
  std::string positionals;
  std::string options;
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
    options += entry(option->get_name() + argument(*option), text, style);
  }
  // A command may have a footer: the names that one of its options takes.
  const std::string footer = app.get_footer().empty() ? "" : "\n" + app.get_footer();
  return fmt::format("{}\n{} [options]\n\n{}\nOptions:\n{}{}\nExample:\n  tracecast {}\n",
                     paragraph(fmt::format("tracecast {}: ", command.name), command.summary, style), usage, positionals,
                     options, footer, command.example);
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (is_hidden(*option)) continue;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// "1e+30" of "1000000000000000019884624838656.000000".
std::string short_number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return text.empty() || *end != '\0' ? text : fmt::format("{:.10g}", value);
}

/// Rewrites CLI11's text about a value outside a range or a set in the style of the file readers.
std::string rephrase_cli11(const std::string& text) {
  const auto between = [&](std::string_view before, std::string_view after) {
    const std::size_t begin = text.find(before);
    if (begin == std::string::npos) return std::string();
    const std::size_t from = begin + before.size();
    return text.substr(from, after.empty() ? std::string::npos : text.find(after, from) - from);
  };
  if (text.starts_with("Could not convert: ")) return text.substr(19) + ": cannot be read";
  const std::string option = text.substr(0, text.find(": "));
  if (text.find(" not in range ") != std::string::npos)
    return fmt::format("{} = {}: is out of range (allowed: {} to {})", option, between(": Value ", " not in range "),
                       short_number(between(" not in range ", " to ")), short_number(between(" to ", "")));
  if (text.find(" not in {") == std::string::npos) return text;
  const std::string value = between(": ", " not in {");
  std::vector<std::string> allowed = {""};
  for (const char c : between(" not in {", "}")) {
    if (c == ',')
      allowed.emplace_back();
    else
      allowed.back() += c;
  }
  const std::string nearest = nearest_match(value, allowed);
  return fmt::format("{} = {}: is unknown ({}allowed: {})", option, value,
                     nearest.empty() ? "" : fmt::format("did you mean '{}'? ", nearest), fmt::join(allowed, " "));
}

/// One sentence for an error of CLI11.
std::string sentence(const CLI::App& app, const CLI::ParseError& error) {
  const std::string hint = fmt::format("; see `tracecast {} --help`", app.get_name());
  const std::vector<std::string> extra = app.remaining();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !extra.empty()) {
    const std::string& word = extra.front();
    if (word.starts_with('-')) {
      return fmt::format("{}: unknown option{}{}", word, did_you_mean(word, option_names(app)), hint);
    }
    return fmt::format("'{}': not expected here{}", word, hint);
  }
  std::string text = error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return rephrase_cli11(text) + hint;
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
  const Result<ExitCode> result =
      action({.style = output.style, .show_progress = output.show_progress, .command = as_typed(command, arguments)});
  if (result) return code(*result);
  output.err(to_string(result.error()) + "\n");
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
