#include "sim/import/launchers/shell_branches.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace tracecast {
namespace {

constexpr std::string_view kEndOfCase = "esac";

}  // namespace

bool ShellBranches::exclude(const Path& one, const Path& other) {
  return std::ranges::any_of(one, [&](const std::pair<int, int>& branch) {
    return std::ranges::any_of(
        other, [&](const auto& each) { return each.first == branch.first && each.second != branch.second; });
  });
}

bool ShellBranches::inside() const { return guarded_ || std::ranges::any_of(ends_, &End::conditional); }

bool ShellBranches::dead() const { return std::ranges::any_of(ends_, &End::dead); }

std::string ShellBranches::take_patterns() {
  return pattern_ == Pattern::none ? std::exchange(patterns_, "") : std::string();
}

bool ShellBranches::decide(std::optional<bool> runs) {
  if (ends_.empty() || !ends_.back().has_path) return false;
  End& branch = ends_.back();
  if (!branch.decidable) runs.reset();
  branch.dead = branch.taken || runs == false;
  branch.conditional = branch.open || runs != true;
  branch.taken = branch.taken || runs == true;
  branch.open = branch.open || !runs;
  return runs.has_value();
}

bool ShellBranches::is_pattern(std::string_view word) {
  if (pattern_ == Pattern::none) return false;
  if (pattern_ == Pattern::next && word == kEndOfCase) {
    pattern_ = Pattern::none;
    patterns_.clear();
    end();
  } else if (pattern_ == Pattern::next) {
    patterns_ += '|';
    patterns_ += word;
    if (word.ends_with(")")) pattern_ = Pattern::none;
  } else if (word == "in") {
    pattern_ = Pattern::next;
    patterns_.clear();
  } else {
    ends_.back().subject = word;
  }
  return true;
}

void ShellBranches::begin(std::string_view word) {
  using Pair = std::pair<std::string_view, std::string_view>;
  constexpr std::array<Pair, 6> kPairs{Pair{"if", "fi"},      Pair{"case", kEndOfCase}, Pair{"for", "done"},
                                       Pair{"while", "done"}, Pair{"until", "done"},    Pair{"select", "done"}};
  if (!ends_.empty() && word == ends_.back().word) return end();
  const bool next_branch = word == "else" || word == "elif";
  if (next_branch && !ends_.empty() && ends_.back().has_path) {
    ++path_.back().second;
    ends_.back().dead = false;
    if (word == "else") decide(true);
  }
  const auto* const opens = std::ranges::find(kPairs, word, &Pair::first);
  if (opens != kPairs.end()) start(opens->second, true);
  if (word == "case") pattern_ = Pattern::after_in;
  if (word == "{") start("}", function_);
  const bool keyword = word == "function";
  function_ = keyword || names_function_ || (word.ends_with("()") && word.find('=') == std::string_view::npos);
  names_function_ = keyword;
  test_ = word == "[[" || word == "[" || word == "test" || word.starts_with("((");
}

void ShellBranches::end_command(std::string_view word) {
  guarded_ = test_ = false;
  if (pattern_ == Pattern::after_in) pattern_ = Pattern::none;
  if (word != ";;" || ends_.empty() || ends_.back().word != kEndOfCase) return;
  ++path_.back().second;
  pattern_ = Pattern::next;
}

void ShellBranches::start(std::string_view end, bool conditional) {
  const bool has_path = end == "fi" || end == kEndOfCase;
  ends_.push_back({.word = end, .conditional = conditional, .has_path = has_path, .decidable = !inside() && !dead()});
  if (has_path) path_.emplace_back(paths_++, 0);
}

void ShellBranches::end() {
  if (ends_.back().has_path) path_.pop_back();
  ends_.pop_back();
}

}  // namespace tracecast
