#include "sim/search/search_store.hpp"

#include <array>
#include <utility>

#include <fmt/format.h>
#include <sqlite3.h>

namespace tracecast {
namespace {

constexpr const char* kSchema =
    "create table if not exists problems(id integer primary key, text text not null unique);"
    "create table if not exists layouts("
    "problem integer not null references problems(id), layout text not null, tp integer, cp integer, ep integer, "
    "sequence_parallel integer,"
    "micro_batch_size integer, recompute text, pp integer, vpp integer, pp_schedule text, zero_stage integer,"
    "offload text,"
    "bound_ps integer, bound_bytes integer, valid integer, fits integer, memory_bytes integer, step_time_s real,"
    "mfu real, bubble_fraction real, host_s real, optimizer_s real, compute_s real,"
    "exposed0_s real, exposed1_s real, exposed2_s real, exposed3_s real, exposed4_s real, exposed5_s real,"
    "exposed6_s real, exposed7_s real, exposed8_s real, primary key(problem, layout)) without rowid";
static_assert(kTrafficKinds == 9, "one column for each kind of traffic");

struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

void bind(sqlite3_stmt* statement, int column, const std::string& text) {
  sqlite3_bind_text(statement, column, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
}

Statement prepare(sqlite3* database, const char* sql) {
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(database, sql, -1, &statement, nullptr);
  return Statement(statement);
}

/// The layout as text, which identifies it in every space; its number is valid in its own space only.
std::string key_of(const Layout& l) {
  return fmt::format(
      "tp {} cp {} ep {} sequence_parallel {} micro_batch {} recompute {} pp {} vpp {} schedule {} zero {} "
      "offload {}",
      l.tp, l.cp, l.ep, l.sequence_parallel, l.micro_batch_size, to_string(l.recompute), l.pp, l.vpp,
      l.pp_schedule.empty() ? "default" : l.pp_schedule, l.zero_stage, to_string(l.offload));
}

/// Numbers of an evaluation, in the order of their columns.
std::array<double*, 6> numbers(Evaluation& e) {
  return {&e.step_time_s, &e.mfu, &e.bubble_fraction, &e.host_s, &e.optimizer_s, &e.compute_s};
}

}  // namespace

void SearchStore::Close::operator()(sqlite3* database) const { sqlite3_close(database); }

Result<SearchStore> SearchStore::open(const std::filesystem::path& path) {
  sqlite3* database = nullptr;
  const int code = sqlite3_open(path.c_str(), &database);
  SearchStore store(database);
  if (code == SQLITE_OK) store.run(kSchema);
  // A file that is not a database, or that has another table of this name, is noticed at the first read.
  const bool readable = code == SQLITE_OK && store.failure_.empty() &&
                        prepare(database, "select exposed8_s, text from layouts, problems") != nullptr;
  if (readable) return store;
  return fail({.file = path.string(),
               .line = 0,
               .key = "",
               .value = "",
               .message = fmt::format("must be a writable database of search results ({})", sqlite3_errmsg(database))});
}

bool SearchStore::run(const char* sql) {
  const bool done = sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK;
  if (!done && failure_.empty()) failure_ = sqlite3_errmsg(database_.get());
  return done;
}

bool SearchStore::step(sqlite3_stmt* statement, int expected) {
  const bool done = sqlite3_step(statement) == expected;
  if (!done && failure_.empty()) failure_ = sqlite3_errmsg(database_.get());
  return done;
}

std::int64_t SearchStore::problem_id(const std::string& problem) {
  const Statement add = prepare(database_.get(), "insert or ignore into problems(text) values(?)");
  bind(add.get(), 1, problem);
  if (!step(add.get(), SQLITE_DONE)) return 0;
  const Statement find = prepare(database_.get(), "select id from problems where text = ?");
  bind(find.get(), 1, problem);
  return step(find.get(), SQLITE_ROW) ? sqlite3_column_int64(find.get(), 0) : 0;
}

bool SearchStore::read(std::int64_t problem, Evaluation& e) {
  const Statement statement = prepare(
      database_.get(),
      "select valid, fits, memory_bytes, step_time_s, mfu, bubble_fraction, host_s, optimizer_s, compute_s,"
      "exposed0_s, exposed1_s, exposed2_s, exposed3_s, exposed4_s, exposed5_s, exposed6_s, exposed7_s, exposed8_s "
      "from layouts where problem = ? and layout = ?");
  if (!statement) return false;
  sqlite3_bind_int64(statement.get(), 1, problem);
  bind(statement.get(), 2, key_of(e.layout));
  if (sqlite3_step(statement.get()) != SQLITE_ROW) return false;
  int column = 0;
  e.valid = sqlite3_column_int(statement.get(), column++) != 0;
  e.fits = sqlite3_column_int(statement.get(), column++) != 0;
  e.memory.count = sqlite3_column_int64(statement.get(), column++);
  for (double* number : numbers(e)) *number = sqlite3_column_double(statement.get(), column++);
  for (double& exposed : e.exposed_s) exposed = sqlite3_column_double(statement.get(), column++);
  return true;
}

void SearchStore::write(std::int64_t problem, const std::vector<Evaluation>& evaluations) {
  if (evaluations.empty() || !run("begin immediate")) return;
  const Statement statement = prepare(
      database_.get(),
      "insert or replace into layouts values(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  sqlite3_stmt* row = statement.get();
  for (Evaluation e : evaluations) {
    int column = 1;
    const auto integer = [&](std::int64_t value) { sqlite3_bind_int64(row, column++, value); };
    const auto text = [&](const std::string& value) { bind(row, column++, value); };
    const Layout& l = e.layout;
    integer(problem);
    text(key_of(l));
    for (const std::int64_t value : {std::int64_t{l.tp}, std::int64_t{l.cp}, std::int64_t{l.ep},
                                     std::int64_t{l.sequence_parallel}, l.micro_batch_size})
      integer(value);
    text(to_string(l.recompute));
    integer(l.pp);
    integer(l.vpp);
    text(l.pp_schedule);
    integer(l.zero_stage);
    text(to_string(l.offload));
    for (const std::int64_t value : {e.bound.step_time.picoseconds, e.bound.memory.count, std::int64_t{e.valid},
                                     std::int64_t{e.fits}, e.memory.count})
      integer(value);
    for (const double* number : numbers(e)) sqlite3_bind_double(row, column++, *number);
    for (const double exposed : e.exposed_s) sqlite3_bind_double(row, column++, exposed);
    step(row, SQLITE_DONE);
    sqlite3_reset(row);
  }
  run("commit");
}

EvaluateRound SearchStore::remembering(const std::string& text, EvaluateRound inner) {
  return [this, problem = problem_id(text), inner = std::move(inner)](SearchRound round) {
    std::vector<Evaluation> evaluations(round.size());
    std::vector<std::pair<Layout, LayoutBound>> unknown;
    std::vector<std::size_t> positions;
    for (std::size_t i = 0; i < round.size(); ++i) {
      evaluations[i].layout = round[i].first;
      evaluations[i].bound = round[i].second;
      if (read(problem, evaluations[i])) continue;
      unknown.push_back(round[i]);
      positions.push_back(i);
    }
    std::vector<Evaluation> added = inner(unknown);
    write(problem, added);
    for (std::size_t i = 0; i < added.size(); ++i) evaluations[positions[i]] = std::move(added[i]);
    return evaluations;
  };
}

}  // namespace tracecast
