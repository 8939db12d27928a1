#include "sim/io/json_document.hpp"

#include <catch2/catch.hpp>

#include "tests/support/results.hpp"

using namespace tracecast;
using namespace tracecast::literals;

namespace {

std::string complaint(std::string text) { return error_text(parse_json(std::move(text), "f.json")); }

/// What reading an object with `read` complains about.
template <class Read>
std::string complaint_of_reading(std::string text, Read read) {
  const JsonDocument document = parse_json(std::move(text), "f.json").value();
  std::vector<Diagnostic> errors;
  ObjectReader reader(document.root, document.file, "", errors);
  read(reader);
  return errors.empty() ? "" : to_string(in_file_order(std::move(errors)));
}

/// Lines of a node and of everything below it, in file order.
void collect_lines(const JsonNode& node, std::vector<int>& lines) {
  lines.push_back(node.line);
  for (const JsonNode& item : node.items) collect_lines(item, lines);
  for (const auto& member : node.members) collect_lines(member.value, lines);
}

std::vector<int> lines_of(std::string text) {
  std::vector<int> lines;
  collect_lines(parse_json(std::move(text), "f.json").value().root, lines);
  return lines;
}

}  // namespace

TEST_CASE("json: every kind of value knows the line it begins on", "[io]") {
  // The value of each kind stands once at the end of its line, where the parser has to look at the newline to
  // see a number end, and once in front of a comma.
  for (const std::string value : {"1", "-1", "1.5", "2e3", "true", "null", "\"s\"", "[]", "{}"}) {
    INFO(value);
    CHECK(lines_of("{\"a\": " + value + "\n,\"b\": " + value + ",\n\n\"c\":\n" + value + "\n}") ==
          std::vector<int>{1, 1, 2, 5});
    CHECK(lines_of("[\n" + value + "\n,\n" + value + "]") == std::vector<int>{1, 2, 4});
    CHECK(lines_of("\n\n" + value) == std::vector<int>{3});
    CHECK(lines_of(value + "\n") == std::vector<int>{1});
    CHECK(lines_of("{\r\n\"a\": " + value + "\r\n,\"b\": [" + value + "\r\n]}\r\n") == std::vector<int>{1, 2, 3, 3});
  }
  CHECK(lines_of("{\"a\": {\n\"b\": [1,\n2,\n{\"c\": 3}],\n\"d\": 4}\n}") == std::vector<int>{1, 1, 2, 2, 3, 4, 4, 5});
}

TEST_CASE("json: values arrive as written", "[io]") {
  const JsonDocument document =
      parse_json(
          R"({"i": -9223372036854775808, "u": 9223372036854775807, "x": 2.5e-3, "s": "h\u00e9\n", "t": true,
                     "n": null, "l": [1, [2]], "o": {"z": 1, "a": 2}})",
          "f.json")
          .value();
  const JsonNode& root = document.root;
  CHECK(root.find("i")->integer == INT64_MIN);
  CHECK(root.find("u")->integer == INT64_MAX);
  CHECK(root.find("x")->number == 2.5e-3);
  CHECK(root.find("x")->text() == "2.5e-3");
  CHECK(root.find("s")->string == "h\xC3\xA9\n");
  CHECK(root.find("s")->text() == "\"h\xC3\xA9?\"");
  CHECK(root.find("t")->boolean);
  CHECK(root.find("n")->kind == JsonNode::Kind::null);
  CHECK(root.find("l")->items.at(1).items.at(0).integer == 2);
  CHECK(root.find("l")->text() == "[2 items]");
  CHECK(root.find("o")->members.at(0).key == "z");  // file order, not alphabetical
  CHECK(root.find("absent") == nullptr);
}

TEST_CASE("json: text that is not JSON is an error with its line, word for word", "[io][error]") {
  CHECK(complaint("") == "f.json: is empty");
  CHECK(complaint(" \n\t\r\n") == "f.json: is empty");
  CHECK(complaint("\xEF\xBB\xBF{}") == "f.json:1: begins with a byte order mark (save it as UTF-8 without one)");
  CHECK(complaint("\xFF\xFE{\0}\0") == "f.json:1: is UTF-16 (save it as UTF-8)");
  CHECK(complaint("{\n\"a\": 1\n\"b\": 2\n}") == "f.json:3: syntax error: unexpected string literal; expected '}'");
  CHECK(complaint("{\n\"a\": 1,\n}") == "f.json:3: syntax error: unexpected '}'; expected string literal");
  CHECK(complaint("{\"a\": [1,\n2\n") == "f.json:2: syntax error: unexpected end of input; expected ']'");
  CHECK(complaint("{\"a\":\n nul}") == "f.json:2: syntax error: invalid literal at 'nul}'");
  CHECK(complaint("{\"a\": NaN}") ==
        "f.json:1: syntax error: invalid literal at 'N' (JSON has no NaN and no Infinity)");
  CHECK(complaint("{\"a\": -Infinity}") ==
        "f.json:1: syntax error: invalid number; expected digit after '-' at '-I' (JSON has no NaN and no "
        "Infinity)");
  CHECK(complaint("{\"a\": 01}") == "f.json:1: syntax error: unexpected number literal; expected '}'");
  CHECK(complaint("{}\n}") == "f.json:2: syntax error: unexpected '}'; expected end of input");
  CHECK(complaint("{} // comment") == "f.json:1: syntax error: invalid literal at '/'");
  CHECK(complaint("{\"a\": \"\xC3\x28\"}") == "f.json:1: syntax error: invalid string: ill-formed UTF-8 byte");
  CHECK(complaint("{\"a\": \"x\ny\"}").starts_with("f.json:1: syntax error: invalid string: control character U+000A"));
  CHECK(complaint("{\n\"a\": {\"b\": [1, 1e999]}}") == "f.json:2: a.b[1] = 1e999: is out of range");
  CHECK(complaint("{\"a\": 9223372036854775808}") == "f.json:1: a = 9223372036854775808: is out of range");
  CHECK(complaint("[99999999999999999999999]") == "f.json:1: [0] = 99999999999999999999999: is out of range");
}

TEST_CASE("json: nesting ends at 100 levels", "[io][error]") {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  CHECK(complaint(nested(100)) == "");
  CHECK(complaint(nested(101)) == "f.json:1: nested deeper than 100 levels");
  CHECK(complaint(std::string(1'000'000, '[')) == "f.json:1: nested deeper than 100 levels");
}

TEST_CASE("json: every duplicate key is reported with its path", "[io][error]") {
  CHECK(complaint("{\n\"a\": {\"b\": 1,\n\"b\": 2},\n\"c\": [{\"d\": 1, \"d\": 1}],\n\"a\": 3\n}") ==
        "f.json:3: a.b: duplicate key\n"
        "f.json:4: c[0].d: duplicate key\n"
        "f.json:5: a: duplicate key");
  CHECK(complaint(R"([{"a": 1}, {"a": 2}])") == "");
}

TEST_CASE("json: an object reader takes what is there and leaves what is not", "[io]") {
  const JsonDocument document =
      parse_json(
          R"({"name": "x", "flag": true, "ratio": 2, "count": 5e8, "small": 7, "size": "80 GiB", "rate": "400 Gb/s",
          "time": "5 us", "list": [1, 2], "words": ["a"], "colour": "red", "inner": {"deep": 1}, "later": 1})",
          "f.json")
          .value();
  std::vector<Diagnostic> errors;
  ObjectReader reader(document.root, document.file, "", errors);
  std::string name;
  bool flag = false;
  double ratio = 0;
  std::int64_t count = 0;
  int small = 0;
  int absent = 42;
  Bytes size;
  Bandwidth rate;
  Duration time;
  std::vector<int> list;
  std::vector<std::string> words;
  char colour = ' ';
  CHECK(reader.get("name", name));
  CHECK(reader.get("flag", flag));
  CHECK(reader.get("ratio", ratio));
  CHECK(reader.get("count", count, 1));
  CHECK(reader.get("small", small, 7, 7));
  CHECK(reader.get("size", size));
  CHECK(reader.get("rate", rate));
  CHECK(reader.get("time", time));
  CHECK(reader.get("list", list));
  CHECK(reader.get("words", words));
  CHECK(reader.get("colour", colour, {{"green", 'g'}, {"red", 'r'}}));
  CHECK_FALSE(reader.get("absent", absent));
  std::optional<ObjectReader> inner = reader.get_object("inner");
  REQUIRE(inner);
  CHECK(inner->path() == "inner");
  CHECK(inner->require("deep", small));
  inner->finish();
  CHECK_FALSE(reader.get_object("nothing"));
  reader.ignore("later");
  reader.finish();
  CHECK(errors.empty());
  CHECK(name == "x");
  CHECK(flag);
  CHECK(ratio == 2);
  CHECK(count == 500'000'000);
  CHECK(small == 1);
  CHECK(absent == 42);
  CHECK(size == 80_GiB);
  CHECK(rate == 400_Gbps);
  CHECK(time == 5_us);
  CHECK(list == std::vector<int>{1, 2});
  CHECK(words == std::vector<std::string>{"a"});
  CHECK(colour == 'r');
}

TEST_CASE("json: an object reader reports all errors together, word for word", "[io][error]") {
  const std::string text = R"({
"name": 1,
"flag": "yes",
"ratio": "2",
"count": 1.5,
"low": 0,
"high": 9,
"both": 12,
"size": "80",
"rate": 50,
"list": [1, "2"],
"words": "a",
"colour": "blue",
"inner": [],
"deep": {"latncy": 1},
"zzz": 1
})";
  const std::string expected =
      "f.json:1: needed: is missing\n"
      "f.json:2: name = 1: is not a string\n"
      "f.json:3: flag = \"yes\": is not true or false\n"
      "f.json:4: ratio = \"2\": is not a number\n"
      "f.json:5: count = 1.5: is not an integer\n"
      "f.json:6: low = 0: is out of range (allowed: at least 1)\n"
      "f.json:7: high = 9: is out of range (allowed: at most 8)\n"
      "f.json:8: both = 12: is out of range (allowed: 1 to 8)\n"
      "f.json:9: size = \"80\": has no unit (for example \"80 GiB\"; allowed: B kB MB GB TB KiB MiB GiB "
      "TiB)\n"
      "f.json:10: rate = 50: has no unit (for example \"400 Gb/s\"; allowed: B/s kB/s MB/s GB/s TB/s MiB/s "
      "GiB/s TiB/s "
      "b/s kb/s Mb/s Gb/s Tb/s)\n"
      "f.json:11: list = [2 items]: is not a list of integers\n"
      "f.json:12: words = \"a\": is not a list of strings\n"
      "f.json:13: colour = \"blue\": is unknown (allowed: green red)\n"
      "f.json:14: inner = [0 items]: is not an object\n"
      "f.json:15: deep.latncy: unknown key (did you mean 'latency'?)\n"
      "f.json:16: zzz: unknown key (allowed: name flag ratio count low high both size rate list words colour "
      "inner deep "
      "needed)";
  CHECK(complaint_of_reading(text, [](ObjectReader& reader) {
          std::string name;
          bool flag = false;
          double ratio = 0;
          int count = 0;
          Bytes size;
          Bandwidth rate;
          std::vector<int> list;
          std::vector<std::string> words;
          char colour = ' ';
          reader.get("name", name);
          reader.get("flag", flag);
          reader.get("ratio", ratio);
          reader.get("count", count);
          reader.get("low", count, 1);
          reader.get("high", count, INT32_MIN, 8);
          reader.get("both", count, 1, 8);
          reader.get("size", size);
          reader.get("rate", rate);
          reader.get("list", list);
          reader.get("words", words);
          reader.get("colour", colour, {{"green", 'g'}, {"red", 'r'}});
          CHECK_FALSE(reader.get_object("inner"));
          std::optional<ObjectReader> deep = reader.get_object("deep");
          deep->get("latency", count);
          deep->finish();
          reader.require("needed", count);
          reader.finish();
          CHECK(count == 0);
        }) == expected);
}

TEST_CASE("json: a root that is not an object is one error", "[io][error]") {
  CHECK(complaint_of_reading("[1]", [](ObjectReader& reader) {
          int value = 0;
          reader.require("a", value);
          reader.require("b", value);
          reader.finish();
        }) == "f.json:1: is not an object");
}

TEST_CASE("json: files that cannot be read are errors", "[io][error]") {
  CHECK(to_string(read_json("no/such.json").error()) == "no/such.json: does not exist");
  const std::string folder = std::filesystem::temp_directory_path().string();
  CHECK(to_string(read_json(folder).error()) == folder + ": is a folder, not a file");
}
