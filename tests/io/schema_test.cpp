// Every shipped data file fits its schema in docs/schema, and the schemas name the keys that the readers know.

#include <iterator>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/io/files.hpp"
#include "tests/support/files.hpp"
#include "tests/support/json_schema.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tools/documented_keys.hpp"

using namespace tracecast;
namespace fs = std::filesystem;

namespace {

/// All violations of all files below `folder`, each with its file; counts the files.
std::vector<std::string> violations_below(const fs::path& folder, const fs::path& schema, std::size_t& files) {
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    ++files;
    for (const std::string& violation : schema_violations(schema, content_of(entry.path())))
      found.push_back(entry.path().filename().string() + violation);
  }
  return found;
}

}  // namespace

TEST_CASE("schema: the page of a result explains every key", "[io][schema][docs]") {
  for (const std::string name : {"goodput", "validation", "timeline"}) {
    const std::string page = content_of(source_dir() / "docs/formats" / (name + ".md"));
    const auto schema = nlohmann::json::parse(content_of(source_dir() / "docs/schema" / (name + ".schema.json")));
    for (const auto& [key, _] : schema["properties"].items()) {
      CAPTURE(name, key);
      CHECK(page.find("`" + key + "`") != std::string::npos);
    }
  }
}

TEST_CASE("schema: the validator finds what does not fit", "[io][schema]") {
  const TemporaryFolder folder;
  const fs::path schema = folder.path() / "s.json";
  REQUIRE(write_file(schema, R"({
    "type": "object", "required": ["n"], "additionalProperties": false,
    "properties": {
      "n": {"type": "integer", "minimum": 1, "maximum": 8},
      "x": {"type": "number", "exclusiveMinimum": 0},
      "s": {"type": "string", "pattern": "^[0-9]+ GB$"},
      "e": {"enum": ["a", "b"]},
      "l": {"type": "array", "items": {"$ref": "#/$defs/flag"}, "minItems": 1},
      "o": {"oneOf": [{"type": "string"}, {"type": "object", "required": ["k"]}]}
    },
    "$defs": {"flag": {"type": "boolean"}}})"));
  const auto first = [&schema](const std::string& instance) {
    const std::vector<std::string> found = schema_violations(schema, instance);
    return found.empty() ? "fits" : found.front();
  };
  CHECK(first(R"({"n": 8, "x": 0.5, "s": "80 GB", "e": "b", "l": [true], "o": {"k": 1}})") == "fits");
  CHECK(first(R"({"n": 2.0})") == "fits");
  CHECK(first(R"([])") == "/: is not of type \"object\"");
  CHECK(first(R"({})") == "/: lacks \"n\"");
  CHECK(first(R"({"n": 0})") == "/n: is below 1");
  CHECK(first(R"({"n": 9})") == "/n: is above 8");
  CHECK(first(R"({"n": 1.5})") == "/n: is not of type \"integer\"");
  CHECK(first(R"({"n": 1, "x": 0})") == "/x: is not above 0");
  CHECK(first(R"({"n": 1, "s": "80"})") == "/s: does not match ^[0-9]+ GB$");
  CHECK(first(R"({"n": 1, "e": "c"})") == "/e: is none of [\"a\",\"b\"]");
  CHECK(first(R"({"n": 1, "l": []})") == "/l: has fewer than 1 items");
  CHECK(first(R"({"n": 1, "l": [true, 1]})") == "/l/1: is not of type \"boolean\"");
  CHECK(first(R"({"n": 1, "o": {}})") == "/o: fits no alternative; /o: is not of type \"string\"; /o: lacks \"k\"");
  CHECK(first(R"({"n": 1, "q": 1})") == "/q: is not allowed");
  REQUIRE(write_file(schema, R"({"maxLength": 3})"));
  CHECK(first(R"("long")") == "/: the schema has the keyword 'maxLength', which the validator does not know");
}

TEST_CASE("schema: every shipped scenario fits", "[io][schema]") {
  const fs::path schema = source_dir() / "docs/schema/scenario.schema.json";
  std::size_t files = 0;
  for (const char* folder : {"published", "case_studies", "teaching"})
    CHECK(violations_below(source_dir() / "scenarios" / folder, schema, files) == std::vector<std::string>{});
  CHECK(files >= 30);
}

TEST_CASE("schema: every shipped topology fits", "[io][schema][network]") {
  std::size_t files = 0;
  CHECK(violations_below(source_dir() / "topologies", source_dir() / "docs/schema/topology.schema.json", files) ==
        std::vector<std::string>{});
  CHECK(files >= 20);
}

TEST_CASE("schema: every shipped model fits", "[io][schema][model]") {
  std::size_t files = 0;
  CHECK(violations_below(source_dir() / "scenarios/models", source_dir() / "docs/schema/model.schema.json", files) ==
        std::vector<std::string>{});
  CHECK(files >= 35);
}

TEST_CASE("schema: every shipped timeline fits", "[io][schema]") {
  std::size_t files = 0;
  CHECK(violations_below(source_dir() / "docs/validation", source_dir() / "docs/schema/timeline.schema.json", files) ==
        std::vector<std::string>{});
  CHECK(files == 2);
}

TEST_CASE("schema: schemas and key tables are those of the readers' tables of keys", "[io][schema][docs]") {
  for (const auto& [path, text] : cli::documented_keys(source_dir() / "docs")) {
    INFO("docs/" << path << " (tools/scripts/refresh-docs updates it)");
    CHECK(content_of(source_dir() / "docs" / path) == text);
  }
}

TEST_CASE("schema: every shipped failure model fits, and what does not is found", "[io][schema][reliability]") {
  const fs::path schema = source_dir() / "docs/schema/failures.schema.json";
  std::size_t files = 0;
  CHECK(violations_below(source_dir() / "scenarios/failures", schema, files) == std::vector<std::string>{});
  CHECK(files >= 7);
  CHECK(schema_violations(schema, R"({"recovery": {"spars": 1}})").size() == 1);
  CHECK(schema_violations(schema, R"({"run": {"batch_ramp": [{"from_tokens": 0}]}})").size() == 1);
  CHECK(schema_violations(schema, R"({"run": {"target_tokens": 5}, "recovery": {"spare_mtbf": "850 d"}})").empty());
}
