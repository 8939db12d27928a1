/// \file
/// SQLite databases and their statements. Nothing throws: a call says whether it worked, `error()` says what failed last.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include <sqlite3.h>

namespace tracecast {

class SqliteDatabase {
 public:
  /// A database file, which is made when it does not exist.
  explicit SqliteDatabase(const std::filesystem::path& path) { open(path.c_str()); }
  /// The bytes of a database file, read-only. They must outlive this object.
  explicit SqliteDatabase(std::string_view bytes) {
    if (!open(":memory:")) return;
    auto* const data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
    const auto size = static_cast<sqlite3_int64>(bytes.size());
    good_ = sqlite3_deserialize(handle(), "main", data, size, size, SQLITE_DESERIALIZE_READONLY) == SQLITE_OK;
    run("PRAGMA trusted_schema = OFF");
  }
  /// False: the database could not be opened.
  bool good() const { return good_; }
  bool run(const char* sql) { return sqlite3_exec(handle(), sql, nullptr, nullptr, nullptr) == SQLITE_OK; }
  std::string error() const { return sqlite3_errmsg(handle()); }
  sqlite3* handle() const { return database_.get(); }

 private:
  struct Close {
    void operator()(sqlite3* database) const { sqlite3_close(database); }
  };
  bool open(const char* name) {
    sqlite3* database = nullptr;
    good_ = sqlite3_open(name, &database) == SQLITE_OK;
    sqlite3_busy_timeout(database, kPatienceMs);
    database_.reset(database);
    return good_;
  }
  static constexpr int kPatienceMs = 10'000;  ///< that another process may hold the database
  std::unique_ptr<sqlite3, Close> database_;
  bool good_ = false;
};

/// A prepared statement: its parameters are bound from left to right, then `next` takes its rows one after the other.
class SqliteStatement {
 public:
  SqliteStatement(const SqliteDatabase& database, const std::string& sql) {
    sqlite3_stmt* statement = nullptr;
    status_ = sqlite3_prepare_v2(database.handle(), sql.c_str(), -1, &statement, nullptr);
    statement_.reset(statement);
  }
  void bind(std::int64_t value) { sqlite3_bind_int64(statement_.get(), ++bound_, value); }
  void bind(double value) { sqlite3_bind_double(statement_.get(), ++bound_, value); }
  void bind(std::string_view text) {
    sqlite3_bind_text(statement_.get(), ++bound_, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
  }
  /// True: there is a row. False: there are no more, or an error (`good`).
  bool next() {
    if (statement_ != nullptr) status_ = sqlite3_step(statement_.get());
    return status_ == SQLITE_ROW;
  }
  bool good() const { return status_ == SQLITE_OK || status_ == SQLITE_ROW || status_ == SQLITE_DONE; }
  /// Back to the first parameter and the first row.
  void reset() {
    sqlite3_reset(statement_.get());
    bound_ = 0;
  }
  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  double number(int column) const { return sqlite3_column_double(statement_.get(), column); }
  bool null(int column) const { return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL; }
  std::string text(int column) const {
    const auto* const value = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
    return value == nullptr ? "" : value;
  }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int status_ = SQLITE_OK;
  int bound_ = 0;
};

}  // namespace tracecast
