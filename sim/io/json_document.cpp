#include "sim/io/json_document.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/words.hpp"
#include "sim/io/read_file.hpp"

namespace tracecast {
namespace {

constexpr std::size_t kMaxDepth = 100;
constexpr std::size_t kMaxText = 40;  // bytes of a value that a message repeats

/// Counts lines as the parser consumes characters. A newline belongs to the line that it ends, so `line` is
/// right for every token when its event fires: the last character consumed is the token's own, or, for a
/// number, the one after it, which may be the newline but never anything beyond.
struct LineCounter {
  int line = 1;  // of the last character consumed
  int next = 1;
  void consume(char c) {
    line = next;
    if (c == '\n') ++next;
  }
};

class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, LineCounter* lines) : at_(at), lines_(lines) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    lines_->consume(*at_++);
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  LineCounter* lines_;
};

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7F; });
}

/// Builds the tree from the parser's events. An event handler returns false to stop the parser.
class TreeBuilder {
 public:
  TreeBuilder(std::string file, const LineCounter& lines) : file_(std::move(file)), lines_(&lines) {}

  bool null() { return add(node(JsonNode::Kind::null)); }
  bool boolean(bool value) {
    JsonNode result = node(JsonNode::Kind::boolean);
    result.boolean = value;
    return add(std::move(result));
  }
  bool number_integer(std::int64_t value) {
    JsonNode result = node(JsonNode::Kind::integer);
    result.integer = value;
    result.number = static_cast<double>(value);
    return add(std::move(result));
  }
  bool number_unsigned(std::uint64_t value) {
    if (value > static_cast<std::uint64_t>(INT64_MAX)) return out_of_range(std::to_string(value));
    return number_integer(static_cast<std::int64_t>(value));
  }
  bool number_float(double value, const std::string& text) {
    // An integer that does not fit into 64 bits arrives here, too.
    if (text.find_first_of(".eE") == std::string::npos) return out_of_range(text);
    JsonNode result = node(JsonNode::Kind::number);
    result.number = value;
    result.string = text;
    return add(std::move(result));
  }
  bool string(std::string& value) {
    JsonNode result = node(JsonNode::Kind::string);
    result.string = std::move(value);
    return add(std::move(result));
  }
  bool binary(nlohmann::json::binary_t&) { return false; }  // never sent for text
  bool start_object(std::size_t) { return open(JsonNode::Kind::object); }
  bool start_array(std::size_t) { return open(JsonNode::Kind::array); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    Frame& frame = open_.back();
    frame.key = name;
    frame.duplicate = !frame.keys.insert(std::move(name)).second;
    if (frame.duplicate) report("duplicate key");
    return true;
  }

  bool parse_error(std::size_t, const std::string& token, const nlohmann::json::exception& exception) {
    constexpr int kNumberOverflow = 406;
    if (exception.id == kNumberOverflow) return out_of_range(token);
    report("syntax error: " + reason(exception.what(), token), /*with_key=*/false);
    return false;
  }

  JsonNode root;
  std::vector<Diagnostic> errors;

 private:
  struct Frame {
    JsonNode node;
    std::set<std::string> keys;
    std::string key;
    bool duplicate = false;
  };

  JsonNode node(JsonNode::Kind kind) const {
    JsonNode result;
    result.kind = kind;
    result.line = lines_->line;
    return result;
  }

  bool open(JsonNode::Kind kind) {
    if (open_.size() == kMaxDepth) {
      report(fmt::format("nested deeper than {} levels", kMaxDepth), /*with_key=*/false);
      return false;
    }
    open_.push_back({node(kind), {}, {}, false});
    return true;
  }

  bool close() {
    JsonNode finished = std::move(open_.back().node);
    open_.pop_back();
    return add(std::move(finished));
  }

  bool add(JsonNode value) {
    if (open_.empty()) {
      root = std::move(value);
      return true;
    }
    Frame& frame = open_.back();
    if (frame.node.kind == JsonNode::Kind::array)
      frame.node.items.push_back(std::move(value));
    else if (!frame.duplicate)
      frame.node.members.push_back({frame.key, std::move(value)});
    return true;
  }

  std::string path() const {
    std::string path;
    for (const Frame& frame : open_) {
      if (frame.node.kind == JsonNode::Kind::array)
        path += fmt::format("[{}]", frame.node.items.size());
      else
        path += (path.empty() ? "" : ".") + shortened(frame.key);
    }
    return path;
  }

  void report(std::string message, bool with_key = true, std::string value = {}) {
    errors.push_back({file_, lines_->line, with_key ? path() : "", std::move(value), std::move(message)});
  }

  bool out_of_range(const std::string& text) {
    report("is out of range", /*with_key=*/true, shortened(text));
    return false;
  }

  /// The parser says  "[id] parse error at line 1, column 2: syntax error while parsing value - unexpected
  /// '}'; last read: '…'; expected …". The line in it is not used, and the bytes last read may be anything.
  static std::string reason(std::string_view what, const std::string& token) {
    const std::size_t dash = what.find(" - ");
    std::string text(dash == std::string_view::npos ? what : what.substr(dash + 3));
    text = text.substr(0, text.find("; last read: "));
    if (!text.starts_with("invalid literal") && !text.starts_with("invalid number")) return text;
    const std::string word = token.substr(token.find_last_of(" :,[{\"'<>") + 1);  // the token may hold what precedes it
    if (word.empty() || !is_ascii(word)) return text;
    const bool not_finite = word == "N" || word == "I" || word == "-I";
    return fmt::format("{} at '{}'{}", text, shortened(word), not_finite ? " (JSON has no NaN and no Infinity)" : "");
  }

  std::string file_;
  const LineCounter* lines_;
  std::vector<Frame> open_;
};

Diagnostic about_file(std::string file, std::string message) {
  Diagnostic diagnostic;
  diagnostic.file = std::move(file);
  diagnostic.message = std::move(message);
  return diagnostic;
}

}  // namespace

std::string shortened(std::string_view text) {
  std::string cut(text.substr(0, kMaxText));
  if (text.size() > kMaxText) {
    while (!cut.empty() && (static_cast<unsigned char>(cut.back()) & 0xC0U) == 0x80U) cut.pop_back();
    if (!cut.empty() && static_cast<unsigned char>(cut.back()) >= 0xC0U) cut.pop_back();
    cut += "...";
  }
  for (char& c : cut)
    if (static_cast<unsigned char>(c) < 0x20U || c == 0x7F) c = '?';
  return cut;
}

// Written out: clang 16 crashes on a defaulted comparison of a struct with a vector of itself.
bool JsonNode::operator==(const JsonNode& other) const {
  return kind == other.kind && line == other.line && boolean == other.boolean && integer == other.integer &&
         number == other.number && string == other.string && items == other.items && members == other.members;
}

const JsonNode* JsonNode::find(std::string_view key) const {
  for (const auto& [name, value] : members)
    if (name == key) return &value;
  return nullptr;
}

std::string JsonNode::setting_text() const {
  if (kind != Kind::array) return text();
  std::string list = "[";
  for (const JsonNode& item : items) list += (list.size() > 1 ? "," : "") + item.text();
  return list + "]";
}

std::string JsonNode::text() const {
  switch (kind) {
    case Kind::null:
      return "null";
    case Kind::boolean:
      return boolean ? "true" : "false";
    case Kind::integer:
      return std::to_string(integer);
    case Kind::number:
      return shortened(string);
    case Kind::string:
      return '"' + shortened(string) + '"';
    case Kind::array:
      return fmt::format("[{} item{}]", items.size(), plural(items.size()));
    case Kind::object:
      return fmt::format("{{{} key{}}}", members.size(), plural(members.size()));
  }
  return {};
}

Result<JsonDocument> parse_json(std::string text, std::string file_name) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return fail(about_file(std::move(file_name), "is empty"));
  if (text.starts_with("\xEF\xBB\xBF"))
    return fail({std::move(file_name), 1, "", "", "begins with a byte order mark (save it as UTF-8 without one)"});
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
    return fail({std::move(file_name), 1, "", "", "is UTF-16 (save it as UTF-8)"});

  LineCounter lines;
  TreeBuilder builder(file_name, lines);
  const CountingIterator begin(text.data(), &lines);
  const CountingIterator end(text.data() + text.size(), &lines);
  const bool complete = nlohmann::json::sax_parse(begin, end, &builder);
  TRACECAST_ASSERT(complete || !builder.errors.empty(), "a parser that stops says why");
  if (!builder.errors.empty()) return tl::unexpected(Error{std::move(builder.errors)});
  return JsonDocument{std::move(file_name), std::move(builder.root)};
}

Result<JsonDocument> read_json(const std::filesystem::path& path) {
  const Result<std::string> content = read_file(path, kMaxOwnFile);
  if (!content) return tl::unexpected(content.error());
  return parse_json(*content, path.string());
}

Error in_file_order(std::vector<Diagnostic> errors) {
  TRACECAST_ASSERT(!errors.empty(), "an error has at least one diagnostic");
  std::map<std::string, std::size_t> first;  // file -> where it is first named
  for (std::size_t i = 0; i < errors.size(); ++i) first.emplace(errors[i].file, i);
  std::stable_sort(errors.begin(), errors.end(), [&first](const Diagnostic& a, const Diagnostic& b) {
    return std::pair(first.at(a.file), a.line) < std::pair(first.at(b.file), b.line);
  });
  return {std::move(errors)};
}

}  // namespace tracecast
