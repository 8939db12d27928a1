/// \file
/// Which commands of a shell script may not run, or run again: those of if, case, loops and functions, and those after the
/// test of a line. Those of an if or case that the script itself decides do run, or do not.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tracecast {

class ShellBranches {
 public:
  /// (if or case, which of its branches) of each that is open.
  using Path = std::vector<std::pair<int, int>>;

  bool inside() const;
  /// In a branch that does not run.
  bool dead() const;
  const Path& path() const { return path_; }
  /// Commands of which at most one runs: they are in different branches of one if or case.
  static bool exclude(const Path& one, const Path& other);

  /// What stands between the branches of case: "8b | 70b)". It is not a part of a command.
  bool is_pattern(std::string_view word);
  /// Of the innermost case, whose pattern has just ended; "" while there is more to come.
  std::string take_patterns();
  std::string_view subject() const { return ends_.back().subject; }
  /// Whether the branch of if or case that begins here runs, if those before it do not; nothing: it is not known. False: what is around
  /// it leaves that open anyway.
  bool decide(std::optional<bool> runs);
  /// Each word that begins a command.
  void begin(std::string_view word);
  /// The name of a function was read.
  bool expects_body() const { return function_; }
  /// && or ||
  void join() { guarded_ = guarded_ || test_; }
  void end_command(std::string_view word);

 private:
  enum class Pattern { none, after_in, next };
  struct End {
    std::string_view word;
    bool conditional = false;
    bool has_path = false;
    bool decidable = false;    ///< nothing around it is conditional
    bool dead = false;         ///< its branch does not run
    bool taken = false;        ///< no later branch runs
    bool open = false;         ///< an earlier branch may run
    std::string subject = {};  ///< of case
  };
  void start(std::string_view end, bool conditional);
  void end();

  std::vector<End> ends_;
  Path path_;
  int paths_ = 0;  ///< begun so far
  Pattern pattern_ = Pattern::none;
  std::string patterns_;         ///< read so far
  bool function_ = false;        ///< its name was read, and not yet its body
  bool names_function_ = false;  ///< the next word is its name
  bool test_ = false;            ///< the command of this line is one
  bool guarded_ = false;         ///< after a test
};

}  // namespace tracecast
