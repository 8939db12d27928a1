// docs/glossary.md explains every name of the program's tables that options take and pages print. Schedules are explained by
// `tracecast schedule --help`, which prints a line for each.
#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/base/collective.hpp"
#include "sim/model/operators.hpp"
#include "sim/network/flow_cost.hpp"
#include "sim/network/network_model.hpp"
#include "tests/e2e/shell.hpp"
#include "tests/support/paths.hpp"

using namespace tracecast;

namespace {

template <typename E>
void append_names(std::vector<std::string>& names) {
  for (const auto& [name, value] : named_values<E>()) names.push_back(name);
}

std::vector<std::string> printed_names() {
  std::vector<std::string> names = {"tp", "pp", "dp", "cp", "ep", "etp", "sp", "vpp", "zero-0", "MFU", "HFU"};
  const nlohmann::json strategies = nlohmann::json::parse(Sandbox().run("tracecast strategies --json").out);
  for (const nlohmann::json& row : strategies.at("strategies")) names.push_back(row.at("name"));
  append_names<Collective>(names);
  append_names<Algorithm>(names);
  append_names<Protocol>(names);
  append_names<NetworkKind>(names);
  append_names<Precision>(names);
  return names;
}

/// Anchor of a term: small letters, and '-' for what is between words.
std::string anchor(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return c == '_' || c == ' ' ? '-' : static_cast<char>(std::tolower(c)); });
  return "<a id=\"" + name + "\">";
}

}  // namespace

TEST_CASE("the glossary defines a word once: pages link it to one definition", "[docs]") {
  const std::string glossary = content_of(std::filesystem::path(source_dir()) / "docs/glossary.md");
  std::set<std::string> seen;
  for (std::size_t at = 0; (at = glossary.find("</a>**", at)) != std::string::npos;) {
    at += 6;
    std::istringstream words(glossary.substr(at, glossary.find("**", at) - at));
    for (std::string word; std::getline(words, word, ',');) {
      word = word.substr(std::min(word.find_first_not_of(' '), word.size()));
      INFO(word);
      CHECK(seen.insert(word).second);
    }
  }
  CHECK(seen.size() > 200);
}

TEST_CASE("the glossary explains every name that the program prints", "[e2e][docs]") {
  const std::string glossary = content_of(std::filesystem::path(source_dir()) / "docs/glossary.md");
  for (const std::string& name : printed_names()) {
    INFO(name);
    CHECK(glossary.find(anchor(name)) != std::string::npos);
  }
}
