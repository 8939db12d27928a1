#include "sim/io/overrides.hpp"

#include <catch2/catch.hpp>

#include "sim/io/scenario.hpp"

using namespace tracecast;

namespace {

struct Applied {
  JsonDocument document;
  std::vector<Diagnostic> errors;
};

Applied apply(std::string text, const std::vector<std::string>& overrides) {
  Applied applied{parse_json(std::move(text), "f.json").value(), {}};
  apply_overrides(applied.document.root, overrides, applied.errors);
  return applied;
}

}  // namespace

TEST_CASE("overrides: values are replaced, added, and typed as JSON would", "[io]") {
  const Applied applied =
      apply(R"({"parallel": {"tp": 8, "pp": 2}, "model": "a"})",
            {"parallel.tp=4", "model=llama-3.1-70b", "parallel.pp_layout=[1,2]", "training.recompute=full",
             "parallel.overlap_p2p=false", "description=a=b c", "parallel.tp=2"});
  CHECK(applied.errors.empty());
  const JsonNode& root = applied.document.root;
  CHECK(root.find("parallel")->find("tp")->integer == 2);  // the last one holds
  CHECK(root.find("parallel")->find("tp")->line == kOverrideLine);
  CHECK(root.find("parallel")->find("pp")->line == 1);
  CHECK(root.find("parallel")->find("pp_layout")->items.at(1).integer == 2);
  CHECK_FALSE(root.find("parallel")->find("overlap_p2p")->boolean);
  CHECK(root.find("model")->string == "llama-3.1-70b");
  CHECK(root.find("training")->find("recompute")->string == "full");
  CHECK(root.find("description")->string == "a=b c");
}

TEST_CASE("overrides: what cannot be applied is an error, word for word", "[io][error]") {
  const auto complaint = [](const std::string& text) {
    const Applied applied = apply(R"({"model": "a", "parallel": {"tp": 8}})", {text});
    return applied.errors.empty() ? "applied" : to_string(Error{applied.errors});
  };
  CHECK(complaint("parallel.tp") == "--set: parallel.tp: is not key=value (for example parallel.tp=8)");
  CHECK(complaint("=8") == "--set: =8: is not key=value (for example parallel.tp=8)");
  CHECK(complaint("parallel..tp=8") == "--set: parallel..tp = 8: has an empty part in its key");
  CHECK(complaint("parallel.=8") == "--set: parallel. = 8: has an empty part in its key");
  CHECK(complaint("model.num_layers=2") == "--set: model.num_layers = 2: model = \"a\" is not an object");
  CHECK(complaint("parallel.tp.x=2") == "--set: parallel.tp.x = 2: parallel.tp = 8 is not an object");
}

TEST_CASE("overrides: items of a list by index or by name", "[io]") {
  const std::string text = R"({"fabric": {"tiers": [{"name": "leaf", "nodes": 4}, {"name": "spine", "nodes": 64}]}})";
  const Applied applied = apply(text, {"fabric.tiers.leaf.oversubscription=2", "fabric.tiers.1.nodes=32"});
  CHECK(applied.errors.empty());
  const JsonNode& tiers = *applied.document.root.find("fabric")->find("tiers");
  CHECK(tiers.items.at(0).find("oversubscription")->integer == 2);
  CHECK(tiers.items.at(0).find("nodes")->integer == 4);
  CHECK(tiers.items.at(1).find("nodes")->integer == 32);
  const auto complaint = [&](const std::string& override) { return to_string(Error{apply(text, {override}).errors}); };
  CHECK(complaint("fabric.tiers.pod.nodes=8") ==
        "--set: fabric.tiers.pod.nodes = 8: 'pod' is not an item of the list (allowed: 0 or leaf, 1 or spine)");
  CHECK(complaint("fabric.tiers.2.nodes=8") ==
        "--set: fabric.tiers.2.nodes = 8: '2' is not an item of the list (allowed: 0 or leaf, 1 or spine)");
}

TEST_CASE("overrides: an error in a value names --set", "[io][error]") {
  const Applied applied = apply("{\"parallel\": {\n\"tp\": 8}}", {"parallel.tp=0", "parallel.ttp=1"});
  std::vector<Diagnostic> errors;
  ObjectReader root(applied.document.root, "f.json", "", errors);
  std::optional<ObjectReader> parallel = root.get_object("parallel");
  int tp = 1;
  parallel->get("tp", tp, 1);
  parallel->finish();
  CHECK(to_string(Error{errors}) ==
        "--set: parallel.tp = 0: is out of range (allowed: at least 1)\n"
        "--set: parallel.ttp: unknown key (did you mean 'tp'?)");
}

TEST_CASE("a whole number that is too large is out of range, however it is written", "[io][error]") {
  const auto error_of = [](const std::string& value, std::int64_t most) {
    const Applied applied = apply("{}", {"tokens=" + value});
    std::vector<Diagnostic> errors;
    ObjectReader root(applied.document.root, "f.json", "", errors);
    std::int64_t tokens = 0;
    root.get("tokens", tokens, 0, most);
    return errors.empty() ? "" : errors.front().message;
  };
  for (const char* value : {"9.1e15", "1e16", "9e18", "1e30", "10000000000000000"})
    CHECK(error_of(value, 1'000'000'000'000'000) == "is out of range (allowed: 0 to 1000000000000000)");
  CHECK(error_of("1e15", 1'000'000'000'000'000).empty());
  CHECK(error_of("0.5", 1'000'000'000'000'000) == "is not an integer");
  // Doubles beyond 2^53 do not hold every integer.
  CHECK(error_of("9.1e15", INT64_MAX) == "is out of range (allowed: 0 to 9007199254740992)");
  CHECK(error_of("9100000000000000", INT64_MAX).empty());
}

TEST_CASE("scenario: what is found wrong later gets file, line and value of its key", "[io][error]") {
  Scenario scenario;
  scenario.locations = {{"", {"s.json", 0, ""}},
                        {"parallel", {"s.json", 5, "{2 keys}"}},
                        {"parallel.tp", {"s.json", 7, "12"}},
                        {"cluster.world_size", {"--set", 0, "96"}}};
  const auto told = [&scenario](Diagnostic diagnostic) {
    return to_string(located(Error{{std::move(diagnostic)}}, scenario));
  };
  CHECK(told({"", 0, "parallel.tp", "", "does not divide model.heads = 128"}) ==
        "s.json:7: parallel.tp = 12: does not divide model.heads = 128");
  CHECK(told({"", 0, "cluster.world_size", "", "is too small"}) == "--set: cluster.world_size = 96: is too small");
  CHECK(told({"", 0, "parallel.dp", "6", "is too large"}) == "s.json:5: parallel.dp = 6: is too large");
  CHECK(told({"", 0, "training.recompute", "", "is odd"}) == "s.json: training.recompute: is odd");
  CHECK(told({"other.json", 3, "parallel.tp", "", "stays"}) == "other.json:3: parallel.tp: stays");
  scenario.locations.clear();
  CHECK(told({"", 0, "parallel.tp", "12", "by hand"}) == "parallel.tp = 12: by hand");
}
