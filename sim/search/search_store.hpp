/// \file
/// Results of a search in an SQLite database, so that an interrupted search can resume.
///
/// Table `problems`: everything that an evaluation depends on (scenario, machine, headroom) as text, with a number.
/// Table `layouts`: one row per evaluated layout of a problem that was not given up; a row is used for its own problem only. Each
/// round is one transaction, so a killed search loses at most the current round. docs/formats/plan.md
#pragma once

#include <filesystem>
#include <string>

#include "sim/base/result.hpp"
#include "sim/base/sqlite.hpp"
#include "sim/search/planner.hpp"

namespace tracecast {

class SearchStore {
 public:
  /// Creates the file if it does not exist. Errors: not a database of search results, or not writable.
  static Result<SearchStore> open(const std::filesystem::path& path);

  /// Calls `inner` only for layouts that the store does not have, and stores its results. The store must outlive the
  /// returned function. Errors of the database while it runs are kept in failure().
  EvaluateRound remembering(const std::string& problem, EvaluateRound inner);

  /// The first error since the store was opened; empty: none.
  const std::string& failure() const { return failure_; }

 private:
  explicit SearchStore(const std::filesystem::path& path) : database_(path) {}
  /// Number of the problem, which is added if it is new; 0 if the database fails.
  std::int64_t problem_id(const std::string& problem);
  bool read(std::int64_t problem, Evaluation& evaluation);
  void write(std::int64_t problem, const std::vector<Evaluation>& evaluations);
  /// Keeps the error of a statement that failed.
  bool succeeded(const SqliteStatement& statement);
  bool run(const char* sql);

  SqliteDatabase database_;
  std::string failure_;
};

}  // namespace tracecast
