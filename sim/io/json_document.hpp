/// \file
/// JSON with line numbers, and a reader of objects that knows every key it allows.
///
/// nlohmann's DOM keeps no positions and accepts duplicate keys silently. This document is built from its SAX events
/// over a counting iterator, so that several errors can be reported at once, each with its line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/quantity_text.hpp"
#include "sim/base/result.hpp"

namespace tracecast {

/// Line of a value that was given on the command line (--set) in place of the file's.
inline constexpr int kOverrideLine = -1;

struct JsonMember;

/// One JSON value with the line it begins on.
struct JsonNode {
  enum class Kind { null, boolean, integer, number, string, array, object };
  Kind kind = Kind::null;
  int line = 0;  ///< kOverrideLine: from the command line
  bool boolean = false;
  std::int64_t integer = 0;
  double number = 0;                ///< also set for integers
  std::string string;               ///< of a number (not an integer): as written
  std::vector<JsonNode> items;      ///< array
  std::vector<JsonMember> members;  ///< object, in file order
  const JsonNode* find(std::string_view key) const;
  /// The value as the user wrote it, shortened: 12, "tp", [3 items].
  std::string text() const;
  /// As --set takes it: an array with all its items.
  std::string setting_text() const;
  bool operator==(const JsonNode&) const;
};

struct JsonMember {
  std::string key;
  JsonNode value;
  bool operator==(const JsonMember&) const = default;
};

struct JsonDocument {
  std::string file;
  JsonNode root;
};

/// Errors: file cannot be read, is empty or not UTF-8; syntax error with its line; duplicate keys (all of them, with
/// their paths); nesting deeper than 100; a number out of the range of a double or, without point, of 64 bits.
Result<JsonDocument> parse_json(std::string text, std::string file_name);
Result<JsonDocument> read_json(const std::filesystem::path& path);

/// Text of a file as a message repeats it: cut to 40 bytes at the border of a character, control characters as '?', so
/// that a message stays one readable line whatever the file holds.
std::string shortened(std::string_view text);

/// The errors of several files, grouped by file and sorted by line. Requires `errors` to be non-empty.
Error in_file_order(std::vector<Diagnostic> errors);

/// Reads the members of one object. Every get_* records its key; `finish` reports the members that were never read.
/// Errors are collected in a list that the readers of one file share. A value with an error is left unchanged.
class ObjectReader {
 public:
  /// `path` is the dotted key of this object ("" for the root). A node that is not an object is reported
  /// once; it then reads like an object without members.
  ObjectReader(const JsonNode& node, std::string file, std::string path, std::vector<Diagnostic>& errors);

  /// Each reads `key`, if present, into `value`. Returns true if it was present and of the right kind.
  bool get(const std::string& key, std::string& value);
  bool get(const std::string& key, bool& value);
  bool get(const std::string& key, double& value);
  /// Integers may be written as 5e8.
  bool get(const std::string& key, std::int64_t& value, std::int64_t minimum = INT64_MIN,
           std::int64_t maximum = INT64_MAX);
  bool get(const std::string& key, int& value, int minimum = INT32_MIN, int maximum = INT32_MAX);
  /// Quantities with their unit: "80 GiB", "400 Gb/s", "5 us".
  bool get(const std::string& key, Bytes& value);
  bool get(const std::string& key, Bandwidth& value);
  bool get(const std::string& key, Duration& value);
  bool get(const std::string& key, std::vector<int>& value);
  bool get(const std::string& key, std::vector<std::string>& value);
  /// One of the names in `choices`; the error lists them.
  template <class T>
  bool get(const std::string& key, T& value, const std::vector<std::pair<std::string, T>>& choices);
  /// The member itself, of any kind; nullptr when absent.
  const JsonNode* get_node(const std::string& key);
  /// A reader of the object under `key`; empty when absent (or not an object, which is reported).
  std::optional<ObjectReader> get_object(const std::string& key);
  /// A reader of each item of the list under `key`. Errors: it is not a list; an item is not an object.
  std::vector<ObjectReader> get_objects(const std::string& key);
  /// Keys that are allowed but not read.
  void ignore(const std::string& key);
  /// `key` had another name in earlier versions: a member `old_name` is read in its place. Having both is an error.
  void accept_old_name(const std::string& old_name, const std::string& key);

  /// The same, but absence is an error.
  template <class... Args>
  bool require(const std::string& key, Args&&... args);

  /// Reports an error at `key` (at its line if present, else at the line of the object).
  void error(const std::string& key, std::string message);
  /// Reports unknown keys as errors, with the nearest known key when it looks like a typing error.
  void finish();

  int line() const { return node_->line; }
  const std::string& file() const { return file_; }
  const std::string& path() const { return path_; }
  /// Current key and old name of each member that was read by its old name.
  const std::map<std::string, std::string>& old_names() const { return old_names_; }
  /// The dotted key of a member.
  std::string dotted(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

 private:
  struct Range {
    std::int64_t minimum;
    std::int64_t maximum;
    std::int64_t lowest;  ///< bounds when the caller gave none
    std::int64_t highest;
  };
  const JsonNode* lookup(const std::string& key);
  const JsonNode* find(const std::string& key) const;
  void add_error(std::string key, const JsonNode* node, std::string message);
  bool get_integer(const std::string& key, std::int64_t& value, const Range& range);
  template <class T>
  bool get_quantity(const std::string& key, T& value, Result<T> (*parse)(std::string_view));
  bool get_choice(const std::string& key, const std::vector<std::string>& names, std::size_t& index);

  const JsonNode* node_;
  std::string file_;
  std::string path_;
  std::vector<Diagnostic>* errors_;
  std::vector<std::string> known_;
  std::map<std::string, std::string> old_names_;
};

template <class T>
bool ObjectReader::get(const std::string& key, T& value, const std::vector<std::pair<std::string, T>>& choices) {
  std::vector<std::string> names;
  names.reserve(choices.size());
  for (const auto& choice : choices) names.push_back(choice.first);
  std::size_t index = 0;
  if (!get_choice(key, names, index)) return false;
  value = choices[index].second;
  return true;
}

template <class... Args>
bool ObjectReader::require(const std::string& key, Args&&... args) {
  if (node_->find(key) == nullptr) {
    ignore(key);
    error(key, "is missing");
    return false;
  }
  return get(key, std::forward<Args>(args)...);
}

}  // namespace tracecast
