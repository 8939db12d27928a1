// Tables of keys: what follows from a row of each type.
#include "sim/io/fields.hpp"

#include <catch2/catch.hpp>

using namespace tracecast;

namespace {

enum class Colour { red, green, blue };

struct Inner {
  double share = 0.5;
};

struct Outer {
  int count = 1;
  double rate = 2;
  bool flag = true;
  int parts = 0;
  Colour colour = Colour::green;
  std::vector<std::string> words;
  Duration wait{1'500'000};
  std::optional<Inner> inner;
  std::map<std::string, int> by_name;
  std::string named;
};

}  // namespace

namespace tracecast {

template <>
struct EnumNames<Colour> {
  static constexpr NamedValue<Colour> table[] = {
      {Colour::red, "red"}, {Colour::green, "green"}, {Colour::blue, "blue"}};
};

// clang-format off
KEYS_OF(Inner)
{"share", &T::share, {.minimum = 0, .maximum = 1, .below = true}, "a share"},
END_KEYS

KEYS_OF(Outer)
{"count", &T::count, {.minimum = 1, .maximum = 8, .required = true}, "a count"},
{"rate", &T::rate, {.minimum = 0, .above = true, .error = "is not positive"}, "a rate"},
{"flag", [](auto& o) { return FlagOrCount{o.flag, o.parts}; }, {.minimum = 1}, "a flag"},
{"colour", &T::colour, {.words = "red green"}, "a colour"},
{"words", &T::words, {.words = "a b"}, "words"},
{"wait", &T::wait, "a time"},
{"inner", &T::inner, "a group"},
{"by_name", &T::by_name, {.maximum = 9}, "counts"},
{"named", &T::named, {.old_name = "called"}, "a name"},
END_KEYS
// clang-format on

}  // namespace tracecast

namespace {

/// The errors of a file, "" if there are none.
std::string read(const std::string& text, Outer& outer) {
  const Result<JsonDocument> document = parse_json(text, "f");
  REQUIRE(document);
  std::vector<Diagnostic> errors;
  ObjectReader reader(document->root, "f", "", errors);
  read_fields(reader, outer);
  reader.finish();
  return errors.empty() ? "" : to_string(in_file_order(std::move(errors)));
}

std::string complaint(const std::string& text) {
  Outer outer;
  return read(text, outer);
}

}  // namespace

TEST_CASE("fields: what is written is read back, without the defaults", "[io][property]") {
  const std::string text =
      R"({
  "count": 1,
  "flag": 4,
  "colour": "red",
  "words": ["b","c"],
  "inner": {
    "share": 0.25
  },
  "by_name": {
    "x": 3
  }
})";
  Outer outer;
  REQUIRE(read(text, outer).empty());
  CHECK(outer.parts == 4);
  CHECK(outer.inner->share == 0.25);
  CHECK(to_json(write_fields(outer)) == text);
  CHECK(to_json(write_fields(Outer{})) == "{\n  \"count\": 1\n}");
  CHECK(write_fields(Outer{}, true).members.size() == 8);  // all but the absent group
}

TEST_CASE("fields: each mistake has its message", "[io][error]") {
  CHECK(complaint("{}") == "f:1: count: is missing");
  CHECK(complaint(R"({"count": 9})") == "f:1: count = 9: is out of range (allowed: 1 to 8)");
  CHECK(complaint(R"({"count": 1, "rate": 0})") == "f:1: rate = 0: is not positive");
  CHECK(complaint(R"({"count": 1, "flag": 0})") == "f:1: flag = 0: is out of range (allowed: at least 1)");
  CHECK(complaint(R"({"count": 1, "flag": "x"})") == "f:1: flag = \"x\": must be true, false or a count");
  CHECK(complaint(R"({"count": 1, "colour": "blue"})") == "f:1: colour = \"blue\": is unknown (allowed: red green)");
  CHECK(complaint(R"({"count": 1, "inner": {"share": 1}})") ==
        "f:1: inner.share = 1: is out of range (allowed: from 0, below 1)");
  CHECK(complaint(R"({"count": 1, "by_name": {"x": 10}})") ==
        "f:1: by_name.x = 10: is out of range (allowed: at most 9)");
  CHECK(complaint(R"({"count": 1, "called": 2})") == "f:1: named = 2: is not a string");
  CHECK(complaint(R"({"count": 1, "cont": 2})") == "f:1: cont: unknown key (did you mean 'count'?)");
}

TEST_CASE("fields: schema and key table follow from the rows", "[io][schema]") {
  CHECK(json_schema("Title", texts_of<Outer>()) ==
        R"({
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "Title",
  "type": "object",
  "additionalProperties": false,
  "required": ["count"],
  "properties": {
    "count": { "type": "integer", "minimum": 1, "maximum": 8, "description": "a count" },
    "rate": { "type": "number", "exclusiveMinimum": 0, "default": 2, "description": "a rate" },
    "flag": { "oneOf": [{ "type": "boolean" }, { "type": "integer", "minimum": 1 }], "default": true, "description": "a flag" },
    "colour": { "enum": ["red", "green"], "default": "green", "description": "a colour" },
    "words": { "type": "array", "items": { "enum": ["a", "b"] }, "description": "words" },
    "wait": { "type": "string", "pattern": "^[0-9.]+(e[-+]?[0-9]+)? ?(ps|ns|us|ms|s|min|h|d)$", "examples": ["1.5 us"], "default": "1500 ns", "description": "a time" },
    "inner": {
      "type": "object",
      "additionalProperties": false,
      "properties": {
        "share": { "type": "number", "minimum": 0, "exclusiveMaximum": 1, "default": 0.5, "description": "a share" }
      },
      "description": "a group"
    },
    "by_name": { "type": "object", "additionalProperties": { "type": "integer", "maximum": 9 }, "description": "counts" },
    "named": { "type": "string", "description": "a name" }
  }
}
)");
  CHECK(key_table(texts_of<Inner>()) ==
        "| key | values | default | meaning |\n| --- | --- | --- | --- |\n"
        "| `share` | number, from 0, below 1 | `0.5` | a share |\n");
}
