#include "sim/reliability/checkpoint_layout.hpp"

#include <algorithm>
#include <filesystem>

#include <catch2/catch.hpp>

#include "sim/io/files.hpp"
#include "tests/support/paths.hpp"

using namespace tracecast;
namespace fs = std::filesystem;

namespace {

const fs::path kModels = source_dir() / "scenarios" / "models";

Model model(const std::string& name) { return read_model(kModels / (name + ".json")).value(); }

}  // namespace

TEST_CASE("shards of any (t, P, D) hold every parameter exactly once",
          "[row-0-26][requirements][oracle][reliability]") {
  const std::string name = GENERATE("llama-3.1-8b", "gpt2-1.5b", "mixtral-8x7b", "bloom-7b1");
  const Model m = model(name);
  const ShardLayout layout =
      GENERATE(ShardLayout{1, 1, 1}, ShardLayout{8, 1, 1}, ShardLayout{2, 4, 3}, ShardLayout{4, 5, 7});
  CAPTURE(name, layout.tp, layout.pp, layout.dp);
  std::vector<ParameterRange> all;
  for (int pp = 0; pp < layout.pp; ++pp)
    for (int tp = 0; tp < layout.tp; ++tp)
      for (int dp = 0; dp < layout.dp; ++dp)
        for (const ParameterRange& range : shard(m, layout, pp, tp, dp)) all.push_back(range);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  std::int64_t at = 0;
  for (const ParameterRange& range : all) {
    REQUIRE(range.begin == at);
    REQUIRE(range.end > at);
    at = range.end;
  }
  CHECK(at == parameter_count(m).total());
}

TEST_CASE("resuming in the same layout reads every shard once, in another layout more", "[oracle][reliability]") {
  const Model m = model("llama-3.1-8b");
  const ReshardRead same = reshard(m, {4, 2, 2}, {4, 2, 2});
  CHECK(same.needed == parameter_count(m).total());
  CHECK(same.whole_shards == same.needed);
  // Half as many pipeline ranks: each new rank reads two old shards whole.
  CHECK(reshard(m, {1, 4, 1}, {1, 2, 1}).amplification() == 1);
  // Twice as many: each old shard is read by two.
  CHECK(reshard(m, {1, 2, 1}, {1, 4, 1}).amplification() == 2);
  // Twice as many tensor ranks: the same, but norms lie in the first alone, in old and new.
  CHECK(reshard(m, {2, 1, 1}, {4, 1, 1}).amplification() == Approx(2).epsilon(1e-3));
  CHECK(reshard(m, {2, 1, 1}, {4, 1, 1}).needed == same.needed);
}
