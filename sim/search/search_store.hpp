/// Results of a search in an SQLite database, so that one that was killed goes on where it was.
///
/// One table, `layouts`, one row for each evaluated layout. `problem` is what the evaluation depends on (scenario,
/// machine, headroom), as text: a row is only used for the problem it was made for. Rows are written round by round in a
/// transaction of their own, so a kill loses the round at work and nothing else. docs/formats/plan.md
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "sim/base/result.hpp"
#include "sim/search/planner.hpp"

struct sqlite3;

namespace tracecast {

class SearchStore {
 public:
  /// Makes the file when it is not there. Errors: not a database of this kind, or it cannot be written.
  static Result<SearchStore> open(const std::filesystem::path& path);

  /// `inner` is asked only for layouts that the store does not have; its answers are stored. `inner` and the store must
  /// outlive it. What the file system refuses while it runs is kept in failure().
  EvaluateRound remembering(std::string problem, EvaluateRound inner);

  /// The first error since it was opened; empty: none.
  const std::string& failure() const { return failure_; }

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  explicit SearchStore(sqlite3* database) : database_(database) {}
  bool read(const std::string& problem, Evaluation& evaluation);
  void write(const std::string& problem, const std::vector<Evaluation>& evaluations);
  bool run(const char* sql);

  std::unique_ptr<sqlite3, Close> database_;
  std::string failure_;
};

}  // namespace tracecast
