#include "sim/search/search_store.hpp"

#include <array>
#include <utility>

#include <fmt/format.h>

namespace tracecast {
namespace {

constexpr const char* kSchema =
    "create table if not exists problems(id integer primary key, text text not null unique);"
    "create table if not exists layouts("
    "problem integer not null references problems(id), layout text not null, tp integer, cp integer, ep integer, "
    "sequence_parallel integer,"
    "micro_batch_size integer, recompute text, pp integer, vpp integer, pp_schedule text, zero_stage integer,"
    "offload text,"
    "bound_ps integer, bound_bytes integer, valid integer, fits integer, fits_gpus integer, memory_bytes integer, "
    "memory_capacity_bytes integer, host_bytes integer, step_time_s real,"
    "mfu real, bubble_fraction real, host_s real, optimizer_s real, compute_s real,"
    "exposed0_s real, exposed1_s real, exposed2_s real, exposed3_s real, exposed4_s real, exposed5_s real,"
    "exposed6_s real, exposed7_s real, exposed8_s real, primary key(problem, layout)) without rowid";
static_assert(kTrafficKinds == 9, "one column for each kind of traffic");

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

Result<SearchStore> SearchStore::open(const std::filesystem::path& path) {
  SearchStore store(path);
  if (store.database_.good()) store.run(kSchema);
  // A file that is not a database, or that has another table of this name, is noticed at the first read.
  const bool readable = store.database_.good() && store.failure_.empty() &&
                        SqliteStatement(store.database_, "select host_bytes, text from layouts, problems").good();
  if (readable) return store;
  return fail({.file = path.string(),
               .line = 0,
               .key = "",
               .value = "",
               .message = fmt::format("must be a writable database of search results ({})", store.database_.error())});
}

bool SearchStore::run(const char* sql) {
  const bool done = database_.run(sql);
  if (!done && failure_.empty()) failure_ = database_.error();
  return done;
}

bool SearchStore::succeeded(const SqliteStatement& statement) {
  if (!statement.good() && failure_.empty()) failure_ = database_.error();
  return statement.good();
}

std::int64_t SearchStore::problem_id(const std::string& problem) {
  SqliteStatement add(database_, "insert or ignore into problems(text) values(?)");
  add.bind(problem);
  add.next();
  if (!succeeded(add)) return 0;
  SqliteStatement find(database_, "select id from problems where text = ?");
  find.bind(problem);
  const bool found = find.next();
  return succeeded(find) && found ? find.integer(0) : 0;
}

bool SearchStore::read(std::int64_t problem, Evaluation& e) {
  SqliteStatement row(
      database_,
      "select valid, fits, fits_gpus, memory_bytes, memory_capacity_bytes, host_bytes, step_time_s, mfu, "
      "bubble_fraction,"
      "host_s, optimizer_s, compute_s,"
      "exposed0_s, exposed1_s, exposed2_s, exposed3_s, exposed4_s, exposed5_s, exposed6_s, exposed7_s, exposed8_s "
      "from layouts where problem = ? and layout = ?");
  if (!row.good()) return false;
  row.bind(problem);
  row.bind(key_of(e.layout));
  if (!row.next()) return false;
  int column = 0;
  e.valid = row.integer(column++) != 0;
  e.fits = row.integer(column++) != 0;
  e.fits_gpus = row.integer(column++) != 0;
  for (Bytes* bytes : {&e.memory, &e.memory_capacity, &e.host_used}) bytes->count = row.integer(column++);
  for (double* number : numbers(e)) *number = row.number(column++);
  for (double& exposed : e.exposed_s) exposed = row.number(column++);
  return true;
}

void SearchStore::write(std::int64_t problem, const std::vector<Evaluation>& evaluations) {
  if (evaluations.empty() || !run("begin immediate")) return;
  SqliteStatement row(
      database_,
      "insert or replace into layouts values(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  for (Evaluation e : evaluations) {
    if (e.given_up) continue;
    const Layout& l = e.layout;
    row.bind(problem);
    row.bind(key_of(l));
    for (const std::int64_t value : {std::int64_t{l.tp}, std::int64_t{l.cp}, std::int64_t{l.ep},
                                     std::int64_t{l.sequence_parallel}, l.micro_batch_size})
      row.bind(value);
    row.bind(to_string(l.recompute));
    row.bind(std::int64_t{l.pp});
    row.bind(std::int64_t{l.vpp});
    row.bind(l.pp_schedule);
    row.bind(std::int64_t{l.zero_stage});
    row.bind(to_string(l.offload));
    for (const std::int64_t value :
         {e.bound.step_time.picoseconds, e.bound.memory.count, std::int64_t{e.valid}, std::int64_t{e.fits},
          std::int64_t{e.fits_gpus}, e.memory.count, e.memory_capacity.count, e.host_used.count})
      row.bind(value);
    for (const double* number : numbers(e)) row.bind(*number);
    for (const double exposed : e.exposed_s) row.bind(exposed);
    row.next();
    succeeded(row);
    row.reset();
  }
  run("commit");
}

EvaluateRound SearchStore::remembering(const std::string& text, EvaluateRound inner) {
  return [this, problem = problem_id(text), inner = std::move(inner)](SearchRound round, Duration longest) {
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
    std::vector<Evaluation> added = inner(unknown, longest);
    write(problem, added);
    for (std::size_t i = 0; i < added.size(); ++i) evaluations[positions[i]] = std::move(added[i]);
    return evaluations;
  };
}

}  // namespace tracecast
