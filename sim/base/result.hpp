/// \file
/// Errors of users are returned as values: `Result<Scenario> read_scenario(path)`.
/// Errors of the program are asserted, in release builds too.
#pragma once

#include <string>
#include <vector>

// This declaration comes before the library's: it makes every function that returns a Result [[nodiscard]].
namespace tl {
template <class T, class E>
class [[nodiscard]] expected;
}

#include <tl/expected.hpp>

namespace tracecast {

/// One error in the input. Prints as  file:line: key = value: message
/// Parts that are empty (or line 0) are left out.
struct Diagnostic {
  std::string file;
  int line = 0;
  std::string key;    ///< dotted path, e.g. parallel.tp
  std::string value;  ///< as written by the user
  /// What is wrong and what is allowed, e.g. "does not divide model.heads = 128 (allowed: 1 2 4)".
  std::string message;
  bool operator==(const Diagnostic&) const = default;
};

/// All errors found, in the order of the input; never empty.
struct Error {
  std::vector<Diagnostic> diagnostics;
  bool operator==(const Error&) const = default;
};

template <class T>
using Result = tl::expected<T, Error>;

/// One line: control characters, which a value may have brought from a file, become '?', and long parts are cut.
std::string to_string(const Diagnostic& diagnostic);
/// One line per diagnostic, a hundred at most; no newline at the end.
std::string to_string(const Error& error);

/// An error of one diagnostic, ready to return from a function that returns a Result.
tl::unexpected<Error> fail(Diagnostic diagnostic);
tl::unexpected<Error> fail(std::string message);
/// An error of a key that is in no file, such as an option: "key = value: message".
tl::unexpected<Error> fail_key(std::string key, std::string value, std::string message);

/// The candidate with the least edit distance to `word`, for "did you mean"; "" if none is within a third of the word.
std::string nearest_match(const std::string& word, const std::vector<std::string>& candidates);

namespace detail {
[[noreturn]] void assertion_failed(const char* condition, const char* message, const char* file, int line);
}

}  // namespace tracecast

/// Checks for an error of the program, not of the user: prints it and aborts, in every build.
#define TRACECAST_ASSERT(condition, message) \
  ((condition) ? static_cast<void>(0) : ::tracecast::detail::assertion_failed(#condition, message, __FILE__, __LINE__))
