// Parts of texts as Bash takes them. Expected values were printed by Bash 5.2.
#include "sim/import/launchers/shell_pattern.hpp"

#include <optional>
#include <string>

#include <catch2/catch.hpp>

using namespace tracecast;

TEST_CASE("scripts: parts of a text are those of Bash", "[io][launch]") {
  struct Case {
    const char* text;
    const char* rest;
    const char* part;
  };
  for (const Case& each : {Case{"qwen3-8b-tp2", ": -1", "2"},
                           {"qwen3-8b-tp2", ":6", "8b-tp2"},
                           {"qwen3-8b-tp2", ":6:2", "8b"},
                           {"qwen3-8b-tp2", ":6:-4", "8b"},
                           {"qwen3-8b-tp2", ":40", ""},
                           {"qwen3-8b-tp2", "%-*", "qwen3-8b"},
                           {"qwen3-8b-tp2", "%%-*", "qwen3"},
                           {"qwen3-8b-tp2", "#*-", "8b-tp2"},
                           {"qwen3-8b-tp2", "##*-tp", "2"},
                           {"qwen3-8b-tp2", "##*x", "qwen3-8b-tp2"},
                           {"qwen3-8b-tp2", "/-/_", "qwen3_8b-tp2"},
                           {"qwen3-8b-tp2", "//-/_", "qwen3_8b_tp2"},
                           {"qwen3-8b-tp2", "//-", "qwen38btp2"},
                           {"qwen3-8b-tp2", "/-*/", "qwen3"},
                           {"qwen3-8b-tp2", "/?b/70b", "qwen3-70b-tp2"},
                           {"qwen3-8b-tp2", "/#q/Q", "Qwen3-8b-tp2"},
                           {"qwen3-8b-tp2", "/#8/Q", "qwen3-8b-tp2"},
                           {"qwen3-8b-tp2", "/%2/4", "qwen3-8b-tp4"},
                           {"aaa", "//*/b", "b"},
                           {"", "%-*", ""}}) {
    INFO("${NAME" << each.rest << "} of " << each.text);
    CHECK(part_of(each.text, each.rest) == std::optional<std::string>(each.part));
  }
  for (const char* unknown : {"%[0-9]", "/\\//x", ",,", "@Q", ":x", ":1:y", "%(a)"})
    CHECK(part_of("qwen3", unknown) == std::nullopt);
  CHECK(part_of(std::string(500, 'a'), "%%a*") == std::nullopt);
}
