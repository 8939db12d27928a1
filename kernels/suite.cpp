#include "kernels/suite.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "sim/forecast/forecast.hpp"

namespace tracecast {
namespace {

/// One layer stack of a suite.
struct Stack {
  const char* name;
  std::int64_t hidden;
  int heads;
  int groups;
  std::int64_t ffn;
  std::int64_t vocabulary;
  std::int64_t sequence;
};

// Layers that a core computes in milliseconds.
constexpr Stack kQuickCpu[] = {{"hidden 256", 256, 4, 4, 704, 2048, 128}, {"hidden 512", 512, 8, 8, 1408, 4096, 128}};
constexpr Stack kFullCpu[] = {{"hidden 256", 256, 4, 4, 704, 2048, 128},
                              {"hidden 512", 512, 8, 8, 1408, 4096, 128},
                              {"hidden 512, longer", 512, 8, 4, 1408, 4096, 512},
                              {"hidden 1024", 1024, 16, 8, 2816, 8192, 256}};
// Llama-like layers of 1B, 7B, 13B and 70B.
constexpr Stack kQuickGpu[] = {{"1B", 2048, 32, 8, 8192, 32000, 2048}, {"7B", 4096, 32, 32, 11008, 32000, 4096}};
constexpr Stack kFullGpu[] = {{"1B", 2048, 32, 8, 8192, 128256, 2048},
                              {"7B", 4096, 32, 32, 11008, 32000, 4096},
                              {"8B", 4096, 32, 8, 14336, 128256, 8192},
                              {"13B", 5120, 40, 40, 13824, 32000, 4096},
                              {"70B", 8192, 64, 8, 28672, 128256, 4096}};

/// Layers with experts: few wide ones as in Mixtral, and many narrow ones.
struct ExpertStack {
  Stack stack;
  int experts;
  int topk;
};
constexpr ExpertStack kExpertsGpu[] = {{{"8 experts", 4096, 32, 8, 14336, 32000, 4096}, 8, 2},
                                       {{"64 experts", 2048, 16, 16, 1408, 102400, 4096}, 64, 6}};
constexpr int kExpertDegrees[] = {1, 8};

struct Choice {
  std::span<const Stack> stacks;
  std::vector<int> tensor_degrees;
};

Choice choose(const std::string& name, bool cpu) {
  const bool full = name == "full";
  if (cpu) return {full ? std::span<const Stack>(kFullCpu) : std::span<const Stack>(kQuickCpu), {1, 2}};
  return {full ? std::span<const Stack>(kFullGpu) : std::span<const Stack>(kQuickGpu),
          full ? std::vector<int>{1, 2, 4, 8} : std::vector<int>{1, 2}};
}

Scenario scenario_of(const Scenario& base, const Stack& stack, int tp) {
  Scenario scenario = base;
  scenario.name = fmt::format("{} tp {}", stack.name, tp);
  scenario.model = {};
  scenario.model.name = stack.name;
  scenario.model.num_layers = 2;
  scenario.model.hidden_size = stack.hidden;
  scenario.model.num_attention_heads = stack.heads;
  scenario.model.num_query_groups = stack.groups;
  scenario.model.head_dim = stack.hidden / stack.heads;
  scenario.model.ffn_hidden_size = stack.ffn;
  scenario.model.vocab_size = stack.vocabulary;
  scenario.parallel = {};
  scenario.parallel.tp = tp;
  scenario.training.seq_length = stack.sequence;
  scenario.training.micro_batch_size = 1;
  scenario.training.global_batch_size = 1;
  scenario.cluster.world_size = tp;
  return scenario;
}

Scenario scenario_of(const Scenario& base, const ExpertStack& stack, int ep) {
  Scenario scenario = scenario_of(base, stack.stack, 1);
  scenario.name = fmt::format("{} ep {}", stack.stack.name, ep);
  MixtureOfExperts moe;
  moe.experts = stack.experts;
  moe.topk = stack.topk;
  moe.ffn_hidden = stack.stack.ffn;
  scenario.model.moe = moe;
  scenario.parallel.ep = ep;
  scenario.training.global_batch_size = ep;
  scenario.cluster.world_size = ep;
  return scenario;
}

bool same_work(const Operator& a, const Operator& b) {
  return a.kind == b.kind && a.pass == b.pass && a.precision == b.precision && a.shape == b.shape;
}

}  // namespace

Result<void> add_scenario(Suite& suite, Scenario scenario) {
  const Result<ForecastRun> run = forecast(scenario);
  if (!run) return tl::unexpected(run.error());
  const std::size_t index = suite.scenarios.size();
  suite.scenarios.push_back(std::move(scenario));
  for (const CostedOperator& costed : run->graph.operators) {
    const bool known = std::any_of(suite.operators.begin(), suite.operators.end(),
                                   [&](const SuiteOperator& other) { return same_work(other.op, costed.op); });
    if (!known) suite.operators.push_back({costed.op, index});
  }
  return {};
}

std::vector<CollectiveCall> collective_sizes(Bytes largest) {
  std::vector<CollectiveCall> calls;
  for (int kind = 0; kind < kCollectiveKinds; ++kind)
    for (std::int64_t size = 1 << 10; size <= largest.count; size *= 4)
      calls.push_back({static_cast<Collective>(kind), Bytes{size}, Algorithm::automatic, Protocol::automatic});
  return calls;
}

Result<Suite> make_suite(const std::string& name, const Scenario& base) {
  Suite suite;
  const bool cpu = !base.profile.overlap;
  const Choice choice = choose(name, cpu);
  for (const Stack& stack : choice.stacks)
    for (const int tp : choice.tensor_degrees)
      if (const Result<void> added = add_scenario(suite, scenario_of(base, stack, tp)); !added)
        return tl::unexpected(added.error());
  if (!cpu && name == "full") {
    for (const ExpertStack& stack : kExpertsGpu)
      for (const int ep : kExpertDegrees)
        if (const Result<void> added = add_scenario(suite, scenario_of(base, stack, ep)); !added)
          return tl::unexpected(added.error());
    Scenario narrow = scenario_of(base, kFullGpu[1], 1);
    narrow.name += " fp8";
    narrow.training.dtype = Precision::fp8;
    if (const Result<void> added = add_scenario(suite, std::move(narrow)); !added) return tl::unexpected(added.error());
  }
  constexpr std::int64_t kMiB = 1 << 20;
  suite.collectives = collective_sizes(Bytes{cpu ? 16 * kMiB : 1024 * kMiB});
  return suite;
}

}  // namespace tracecast
