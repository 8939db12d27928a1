// Every attention graph that profiles and scenarios use, planned by cuDNN's own library for GPUs that are only described.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <tuple>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <sys/wait.h>

#include "kernels/suite.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace tracecast;

namespace {

struct Graph {
  AttentionShape shape;
  bool forward = true;
  auto operator<=>(const Graph&) const = default;
};

/// Of the suites of `profile` and of all scenarios for GPUs.
std::set<Graph> used_graphs() {
  std::set<Graph> graphs;
  const auto take = [&graphs](const Suite& suite) {
    for (const SuiteOperator& each : suite.operators)
      if (const auto* shape = std::get_if<AttentionShape>(&each.op.shape);
          shape && each.op.kind == OperatorKind::attention)
        graphs.insert({*shape, each.op.pass == Pass::forward});
  };
  for (const char* suite : {"quick", "full"}) take(make_suite(suite, shipped_scenario("gpu-1b")).value());
  for (const auto& file : shipped_scenarios({"published", "case_studies", "teaching", "gpu"})) {
    Suite suite;
    REQUIRE(add_scenario(suite, shipped_scenario(file.stem().string())));
    take(suite);
  }
  return graphs;
}

/// What no scenario has: windows, more keys than queries, grouped queries with a full mask, narrow and wide heads.
std::set<Graph> other_graphs() {
  std::set<Graph> graphs;
  for (const bool forward : {true, false})
    for (const AttentionShape& shape :
         {AttentionShape{1, 8192, 8192, 32, 8, 128, 128, true, 4096},
          AttentionShape{2, 384, 384, 2, 2, 64, 64, true, 128}, AttentionShape{1, 4096, 8192, 32, 8, 128, 128, true, 0},
          AttentionShape{1, 4096, 8192, 32, 8, 128, 128, false, 0},
          AttentionShape{1, 1000, 1000, 16, 16, 96, 96, true, 0},
          AttentionShape{1, 2048, 2048, 32, 32, 80, 80, true, 0},
          AttentionShape{1, 4096, 4096, 8, 8, 256, 256, true, 0}})
      graphs.insert({shape, forward});
  return graphs;
}

/// NVIDIA documents the backward pass for heads of up to 128, on Hopper up to 256; for 192 with values of 128 from Hopper on.
/// Source: docs/references.md#cudnn-plans.
bool documented(const Graph& graph, int sm) {
  const AttentionShape& s = graph.shape;
  if (graph.forward || std::max(s.qk_dim, s.v_dim) <= 128) return true;
  if (s.qk_dim == 192 && s.v_dim == 128) return sm >= 90;
  return sm == 90;
}

std::filesystem::path program() { return test_programs() / "kernels/cudnn_plans"; }

/// One answer for each graph. Compiled are the first graph for each pair of head dimensions and the first for each mask, forward and
/// backward; others are only given to the heuristics. A kernel does not depend on lengths, batch and heads.
std::vector<std::string> plans(int sm, const std::vector<Graph>& graphs, std::vector<bool>& compiled) {
  const TemporaryFolder folder;
  const std::string in = (folder.path() / "in").string();
  const std::string out = (folder.path() / "out").string();
  std::set<std::tuple<std::int64_t, std::int64_t, bool>> dimensions;
  std::set<std::tuple<bool, bool, bool>> masks;
  std::ofstream file(in);
  for (const Graph& graph : graphs) {
    const AttentionShape& s = graph.shape;
    const bool new_dimensions = dimensions.insert({s.qk_dim, s.v_dim, graph.forward}).second;
    const bool new_mask = masks.insert({s.causal, s.window > 0, graph.forward}).second;
    compiled.push_back(new_dimensions || new_mask);
    file << fmt::format("{} {} {} {} {} {} {} {:d} {} {:d} {:d}\n", s.batch, s.q_len, s.kv_len, s.heads, s.kv_heads,
                        s.qk_dim, s.v_dim, s.causal, s.window, graph.forward, bool{compiled.back()});
  }
  file.close();
  // The driver that needs no GPU is found first.
  const std::string command =
      fmt::format("LD_LIBRARY_PATH={}:$LD_LIBRARY_PATH {} {} < {} > {}",
                  (test_programs() / "kernels/cudnn_plans_driver").string(), program().string(), sm, in, out);
  REQUIRE(std::system(command.c_str()) == 0);
  std::ifstream answers(out);
  std::vector<std::string> lines;
  for (std::string line; std::getline(answers, line);) lines.push_back(line);
  return lines;
}

void check_gpu(int sm) {
  if (!std::filesystem::exists(program())) {
    WARN("skipped: cuDNN 9.8 or newer with its headers is not installed, or this is a build with sanitizers");
    return;
  }
  const std::set<Graph> used = used_graphs();
  CHECK(used.size() >= 70);
  std::set<Graph> all = other_graphs();
  all.insert(used.begin(), used.end());
  const std::vector<Graph> graphs(all.begin(), all.end());
  std::vector<bool> compiled;
  const std::vector<std::string> answers = plans(sm, graphs, compiled);
  REQUIRE(answers.size() == graphs.size());
  int missing = 0;
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    const AttentionShape& s = graphs[i].shape;
    CAPTURE(sm, s.q_len, s.kv_len, s.heads, s.kv_heads, s.qk_dim, s.v_dim, s.causal, s.window, graphs[i].forward,
            answers[i]);
    CHECK((answers[i] != "none") == documented(graphs[i], sm));
    missing += answers[i] == "none" ? 1 : 0;
    if (!compiled[i] || answers[i] == "none") continue;
    // For short sequences cuDNN may prefer Ampere's kernels.
    CHECK(answers[i].find(s.q_len < 1024 ? "sdpa_sm" : "sdpa_sm" + std::to_string(sm)) != std::string::npos);
    CHECK(answers[i].find(graphs[i].forward ? "fprop" : "bprop") != std::string::npos);
  }
  CHECK(missing < static_cast<int>(graphs.size()) / 10);
}

}  // namespace

// One test for each GPU, so that they run beside each other.
TEST_CASE("cudnn plans: A100", "[cudnn-plans][kernels]") { check_gpu(80); }
TEST_CASE("cudnn plans: H100", "[cudnn-plans][kernels]") { check_gpu(90); }
TEST_CASE("cudnn plans: B200", "[cudnn-plans][kernels]") { check_gpu(100); }
