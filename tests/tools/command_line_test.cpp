#include "tools/command_line.hpp"

#include <map>
#include <memory>
#include <new>
#include <sstream>
#include <stdexcept>

#include <CLI/CLI.hpp>
#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "tools/option_checks.hpp"

using namespace tracecast;
using namespace tracecast::cli;

namespace {

struct SumOptions {
  std::vector<int> numbers;
  bool negative = false;
  std::string mode = "slow";
  int digits = 2;
  std::vector<std::string> copies;
};

/// A command that takes numbers, and one that always has bad input.
Run add_sum(CLI::App& app) {
  auto options = std::make_shared<SumOptions>();
  app.add_option("numbers", options->numbers, "what to add")->required();
  app.add_flag("--negative", options->negative, "answer no");
  app.add_option("--mode", options->mode, "how to add when the numbers are larger than anyone can keep in mind")
      ->check(one_of({"slow", "careful"}))
      ->capture_default_str();
  app.add_option("--digits", options->digits, "how many to print")
      ->transform([](const std::string& digits) { return digits == "few" ? "2" : digits; })
      ->check(in_range(1, 8));
  app.add_option("--copy", options->copies, "a format and a file")->expected(2)->group("Output");
  return [options](const Context&) -> Result<ExitCode> {
    if (options->negative) return ExitCode::no;
    return options->numbers.size() == 2 ? ExitCode::done : ExitCode::missing;
  };
}

Run add_refuse(CLI::App&) {
  return [](const Context&) -> Result<ExitCode> {
    return fail({.file = "a.json", .line = 3, .key = "parallel.tp", .value = "12", .message = "too many"});
  };
}

Run add_throw(CLI::App& app) {
  auto full = std::make_shared<bool>();
  app.add_flag("--memory", *full);
  auto file = std::make_shared<std::string>();
  for (const char* written : {"--out", "--evidence"}) app.add_option(written, *file, "a file to write");
  return [full, file](const Context&) -> Result<ExitCode> {
    if (*full) throw std::bad_alloc();
    throw std::runtime_error("cannot write to file: No space left on device");
  };
}

constexpr Command kTable[] = {{"sum", "adds numbers", "sum 1 2", add_sum},
                              {"refuse", "refuses", "refuse", add_refuse},
                              {"throw", "throws", "throw", add_throw}};

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

Outcome run(std::vector<std::string> arguments) {
  Outcome outcome;
  const Output output{.style = {},
                      .out = [&](std::string_view text) { outcome.out += text; },
                      .err = [&](std::string_view text) { outcome.err += text; }};
  outcome.code = run_command_line(std::move(arguments), kTable, output);
  return outcome;
}

}  // namespace

TEST_CASE("a command knows how it was typed, quoted for a shell", "[tools]") {
  static std::string typed;
  constexpr Command kAsked[] = {{"ask", "keeps its command", "ask", [](CLI::App& app) -> Run {
                                   auto words = std::make_shared<std::vector<std::string>>();
                                   app.add_option("words", *words);
                                   return [words](const Context& context) -> Result<ExitCode> {
                                     typed = context.command;
                                     return ExitCode::done;
                                   };
                                 }}};
  const auto ignore = [](std::string_view) {};
  CHECK(run_command_line({"ask", "a-b_c=1.5", "two words", "it's", ""}, kAsked,
                         {.style = {}, .out = ignore, .err = ignore}) == 0);
  CHECK(typed == R"(tracecast ask a-b_c=1.5 'two words' 'it'\''s' '')");
}

TEST_CASE("a command's answer is its exit code", "[tools]") {
  CHECK(run({"sum", "1", "2"}).code == 0);
  CHECK(run({"sum", "1", "2", "--negative"}).code == 1);
  CHECK(run({"sum", "1", "2", "3"}).code == 3);
}

TEST_CASE("an error that a command returns is printed and is exit code 2", "[tools][error]") {
  const Outcome outcome = run({"refuse"});
  CHECK(outcome.code == 2);
  CHECK(outcome.out.empty());
  CHECK(outcome.err == "a.json:3: parallel.tp = 12: too many\n");
}

TEST_CASE("an exception of a library is one error message and exit code 2", "[tools][error]") {
  CHECK(run({"throw"}).code == 2);
  CHECK(run({"throw"}).err == "tracecast throw: cannot write to file: No space left on device\n");
  CHECK(run({"throw", "--memory"}).code == 2);
  CHECK(run({"throw", "--memory"}).err == "tracecast throw: not enough memory\n");
}

TEST_CASE("wrong arguments are one error message and exit code 2", "[tools][error]") {
  const auto check = [](std::vector<std::string> arguments, const std::string& sentence) {
    const Outcome outcome = run(std::move(arguments));
    CHECK(outcome.code == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err == sentence + "\n");
  };
  check({"sun", "1"}, "tracecast: sun: unknown command (did you mean 'sum'?); see `tracecast --help`");
  check({"--verbos"}, "tracecast: --verbos: unknown option; see `tracecast --help`");
  check({"sum", "1", "--negativ"},
        "tracecast sum: --negativ: unknown option (did you mean '--negative'?); see `tracecast sum --help`");
  check({"sum", "--negativ"},  // not that the numbers are missing
        "tracecast sum: --negativ: unknown option (did you mean '--negative'?); see `tracecast sum --help`");
  check({"sum", "--hlep"},
        "tracecast sum: --hlep: unknown option (did you mean '--help'?); see `tracecast sum --help`");
  check({"sum"}, "tracecast sum: numbers is required; see `tracecast sum --help`");
  check({"refuse", "x"}, "tracecast refuse: 'x': not expected here; see `tracecast refuse --help`");
  check({"sum", "one"}, "tracecast sum: numbers = one: cannot be read; see `tracecast sum --help`");
  check({"sum", "1", "--mode", "carefull"},
        "tracecast sum: --mode = carefull: is unknown (did you mean 'careful'? allowed: slow careful); see `tracecast "
        "sum --help`");
  check({"sum", "1", "--mode", "x"},
        "tracecast sum: --mode = x: is unknown (allowed: slow careful); see `tracecast sum --help`");
  check({"sum", "1", "--digits", "9"},
        "tracecast sum: --digits = 9: is out of range (allowed: 1 to 8); see `tracecast sum --help`");
  check({"sum", "1", "--digits", "two"}, "tracecast sum: --digits = two: not a number; see `tracecast sum --help`");
  check({"sum", "1", "--digits", "2.5"}, "tracecast sum: --digits = 2.5: cannot be read; see `tracecast sum --help`");
  check({"sum", "--digits", "9", "--", "1"},
        "tracecast sum: --digits = 9: is out of range (allowed: 1 to 8); see `tracecast sum --help`");
  check({"refuse", "--", "x"}, "tracecast refuse: 'x': not expected here; see `tracecast refuse --help`");
  check({"refuse", "--", "--digits"}, "tracecast refuse: '--digits': not expected here; see `tracecast refuse --help`");
  check({"sum", "1", "--copy", "csv"}, "tracecast sum: --copy = csv: takes 2 values; see `tracecast sum --help`");
  for (const std::string digits : {"07", "0x7"})  // CLI11 reads them as octal and hexadecimal
    check({"sum", "1", "--digits", digits},
          "tracecast sum: --digits = " + digits + ": is not a decimal number (allowed: 10, not 010 or 0xa)");
  check({"throw", "--out", "x/../y", "--evidence", "y"},
        "tracecast throw: --out = x/../y: is the file of --evidence as well");
  check({"throw", "--out", "a", "--out", "b"},
        "tracecast throw: --out = a,b: takes 1 values; see `tracecast throw --help`");
}

TEST_CASE("an option may take a count as people write it", "[tools]") {
  const CLI::Validator parameters = count_up_to(1e12);
  const auto read = [&](std::string text) {
    const std::string problem = parameters(text);
    return problem.empty() ? text : problem;
  };
  CHECK(read("70B") == "70000000000");
  CHECK(read("1.5T") == "is out of range (allowed: 1 to 1e+12)");
  CHECK(read("175e9") == "175e9");
  CHECK(read("70X") == "not a number");
  std::string endless = "inf";
  CHECK(above_zero()(endless) == "is out of range (allowed: above 0)");
  CHECK(at_least_zero()(endless) == "is out of range (allowed: at least 0)");
}

TEST_CASE("an amount may be a count, and a number with a unit is told so", "[tools][error]") {
  std::string text = "1M";
  CHECK(count_or_above_zero()(text).empty());
  CHECK(text == "1000000");
  text = "2.5";
  CHECK(count_or_above_zero()(text).empty());
  text = "60d";
  CHECK(above_zero()(text) == "needs a number without a unit");
  text = "many";
  CHECK(above_zero()(text) == "not a number");
}

TEST_CASE("no arguments: the overview, on standard error", "[tools]") {
  const Outcome outcome = run({});
  CHECK(outcome.code == 2);
  CHECK(outcome.out.empty());
  CHECK(outcome.err.find("adds numbers") != std::string::npos);
}

TEST_CASE("help names every command and an example", "[tools]") {
  const Outcome overview = run({"--help"});
  CHECK(overview.code == 0);
  CHECK(overview.err.empty());
  for (const Command& command : kTable) CHECK(overview.out.find(command.summary) != std::string::npos);
  const Outcome sum = run({"sum", "--help"});
  CHECK(sum.code == 0);
  CHECK(sum.out ==
        "tracecast sum: adds numbers\n\n"
        "Usage: tracecast sum numbers [options]\n\n"
        "  numbers               what to add\n\n"
        "Options:\n"
        "  -h, --help            this page\n"
        "  --negative            answer no\n"
        "  --mode {slow,careful}\n"
        "                        how to add when the numbers are larger than anyone can\n"
        "                        keep in mind (default: slow)\n"
        "  --digits NUMBER       how many to print (1 to 8)\n\n"
        "Output:\n"
        "  --copy TEXT           a format and a file\n\n"
        "Example:\n  tracecast sum 1 2\n");
}

TEST_CASE("help pages of shipped commands name what a value is", "[tools]") {
  for (const Command& command : commands()) {
    CAPTURE(command.name);
    std::string out;
    const Output output{.style = {.width = 80}, .out = [&](std::string_view text) { out += text; }, .err = [](auto) {}};
    REQUIRE(run_command_line({std::string(command.name), "--help"}, commands(), output) == 0);
    CHECK(out.find(" TEXT\n") == std::string::npos);  // of any option: say FILE, NAME, LIST …
    CHECK(out.find(" TEXT ") == std::string::npos);
    CHECK(out.find("NONNEGATIVE") == std::string::npos);
    CHECK(out.find(" \n") == std::string::npos);
    CHECK(out.find("\n\n\n") == std::string::npos);
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);)
      if (!line.starts_with("  --") && !line.starts_with("  tracecast ")) CHECK(columns(line) <= 80);
  }
}

namespace {

std::string help_of(const std::string& command) {
  std::string out;
  const Output output{.style = {.width = 80}, .out = [&](std::string_view text) { out += text; }, .err = [](auto) {}};
  REQUIRE(run_command_line({command, "--help"}, commands(), output) == 0);
  return out;
}

}  // namespace

TEST_CASE("help: an option that several commands have names its value alike", "[tools]") {
  std::map<std::string, int> found;
  for (const Command& command : commands()) {
    std::istringstream lines(help_of(std::string(command.name)));
    for (std::string line; std::getline(lines, line);)
      for (const auto& [option, value] :
           {std::pair("--tokens", "TOKENS"), std::pair("--price", "PRICE"), std::pair("--step", "NUMBER"),
            std::pair("--steps", "NUMBER"), std::pair("--vpp", "LIST"), std::pair("--virtual", "NUMBER")}) {
        if (!line.starts_with(fmt::format("  {} ", option))) continue;
        CAPTURE(command.name, line);
        CHECK(line.starts_with(fmt::format("  {} {}", option, value)));
        ++found[option];
      }
  }
  CHECK(found["--tokens"] == 3);
  CHECK(found["--price"] == 2);
  CHECK(found["--step"] == 3);
}

TEST_CASE("help: a short name stands before the long one", "[tools]") {
  CHECK(help_of("import").find("\n  -o, --output FILE") != std::string::npos);
  CHECK(help_of("record").find("\n  -o, --out FILE") != std::string::npos);
}

TEST_CASE("help: plan says what each choice is by default, as its default space has it", "[tools][search]") {
  std::string help = help_of("plan");
  help = help.substr(help.find("\n  --tp"), help.find("\n  --sweep") - help.find("\n  --tp"));
  std::istringstream words(help);
  std::string text;
  for (std::string word; words >> word;) text += word + " ";
  for (const char* choice :
       {"--tp LIST tensor-parallel degrees (default: powers of two up to 16 inside a scale-up domain ",
        "--pp LIST pipeline degrees (default: all up to 128 ",
        "--vpp LIST model chunks per pipeline rank (default: 1 to 8",
        "--cp LIST context-parallel degrees (default: 1; from 32 Ki tokens per sequence on, powers of two up to 16)",
        "--ep LIST expert-parallel degrees (default: 1; of models with experts, powers of two up to 64 ",
        "--micro-batch LIST micro-batch sizes (default: those of 1, 2, 4, 8 ", "(default: none, selective, full)",
        "--zero LIST ZeRO stages, 0 to 3 (default: 0, 1, 3)"}) {
    CAPTURE(choice, text);
    CHECK(text.find(choice) != std::string::npos);
  }
}

TEST_CASE("a seed is not negative, whatever takes it", "[tools][error]") {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"goodput", "--seed=-1", "llama3-405b-1024"},
                                             {"topology", "dgx-h100", "--hops", "0", "9", "--ecmp=-1"},
                                             {"predict", "--routing-seed=-1", "llama3-405b-1024"}}) {
    CAPTURE(arguments);
    std::string err;
    const Output output{.out = [](auto) {}, .err = [&](std::string_view text) { err += text; }};
    CHECK(run_command_line(arguments, commands(), output) == 2);
    CHECK(err.find(" = -1: is out of range (allowed: at least 0)") != std::string::npos);
  }
}

TEST_CASE("help: texts of a footer stay in their column on a narrow terminal", "[tools]") {
  constexpr Command kWithFooter[] = {{"read", "reads", "read", [](CLI::App& app) -> Run {
                                        app.footer(
                                            "Formats:\n  xml   one node of a machine as a topology\n  csv   a row\n");
                                        return {};
                                      }}};
  std::string out;
  const Output output{.style = {.width = 30}, .out = [&](std::string_view text) { out += text; }, .err = [](auto) {}};
  CHECK(run_command_line({"read", "--help"}, kWithFooter, output) == 0);
  CHECK_THAT(out, Catch::Contains("Formats:\n  xml   one node of a machine\n        as a topology\n  csv   a row\n"));
}

TEST_CASE("the version says how the program was built", "[tools]") {
  const Outcome outcome = run({"--version"});
  CHECK(outcome.code == 0);
  CHECK(outcome.out.starts_with("tracecast 0."));
  CHECK(outcome.out.find("compiler") != std::string::npos);
}

TEST_CASE("every shipped command has its own name, a summary, and an example", "[tools]") {
  std::vector<std::string> seen;
  for (const Command& command : commands()) {
    CAPTURE(command.name);
    CHECK(std::find(seen.begin(), seen.end(), command.name) == seen.end());
    seen.emplace_back(command.name);
    CHECK_FALSE(command.summary.empty());
    CHECK(command.example.starts_with(std::string(command.name) + " "));
    CHECK(command.add != nullptr);
  }
}
