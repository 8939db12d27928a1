#include "tools/possible_values.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "sim/plan/plan.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast::cli {
namespace {

using Json = nlohmann::ordered_json;

/// A control of the page: values that it offers, and how one is set.
struct Choice {
  const char* name;
  std::vector<int> values;
  void (*set)(Scenario&, int);
};

std::vector<int> powers(int most) {
  std::vector<int> list;
  for (int value = 1; value <= most; value *= 2) list.push_back(value);
  return list;
}

/// The degrees that follow, as the reader of scenarios derives them from --set.
void set_degree(Scenario& s, int Parallel::*degree, int value) {
  s.parallel.*degree = value;
  s.parallel.dp = 0;
  if (s.parallel.tp == 1) s.parallel.sequence_parallel = false;
  if (s.parallel.pp == 1) s.parallel.vpp = 1;
}

void set_schedule(Scenario& s, const ScheduleVariant& variant) {
  Parallel& p = s.parallel;
  p.pp_schedule = variant.name;
  if (variant.any_chunks ? p.vpp < variant.default_chunks : p.vpp != variant.default_chunks)
    p.vpp = variant.default_chunks;
}

const std::vector<Choice>& choices() {
  static const std::vector<Choice> kChoices = {
      {"tp", powers(64), [](Scenario& s, int v) { set_degree(s, &Parallel::tp, v); }},
      {"pp", powers(64), [](Scenario& s, int v) { set_degree(s, &Parallel::pp, v); }},
      {"cp", powers(64), [](Scenario& s, int v) { set_degree(s, &Parallel::cp, v); }},
      {"ep", powers(256), [](Scenario& s, int v) { s.parallel.ep = v; }},
      {"vpp", {1, 2, 3, 4, 6, 8}, [](Scenario& s, int v) { s.parallel.vpp = v; }},
      {"zero_stage", {0, 1, 2, 3}, [](Scenario& s, int v) { s.parallel.zero_stage = v; }},
      {"micro_batch_size", powers(16), [](Scenario& s, int v) { s.training.micro_batch_size = v; }}};
  return kChoices;
}

/// Why a layout is impossible; null: it is possible, in memory or not.
Json why_not(const Scenario& s) {
  const Result<Plan> plan = make_plan(s.model, s.parallel, s.training, s.cluster.world_size);
  if (!plan) return plan.error().diagnostics.front().key + ": " + plan.error().diagnostics.front().message;
  const Parallel& p = plan->parallel;
  if (p.pp == 1) return nullptr;
  const Result<Schedule> schedule = make_schedule(
      p.pp_schedule,
      {.ranks = p.pp, .microbatches = static_cast<int>(plan->num_microbatches), .chunks = p.vpp, .group_size = 0});
  if (schedule) return nullptr;
  return "parallel.pp_schedule: " + schedule.error().diagnostics.front().message;
}

/// Numbers of GPUs to offer: 1, 2, 3, 4, 6, 8, 12 … times what one replica needs, up to the whole machine.
std::vector<int> sizes_of(const Scenario& s) {
  constexpr std::int64_t kMost = 131072;
  const std::int64_t machine = std::int64_t{s.cluster.max_nodes} * s.cluster.node.gpus;
  const std::int64_t most = machine > 0 ? std::min(machine, kMost) : kMost;
  const std::int64_t replica = s.parallel.model_ranks();
  std::set<int> sizes{s.cluster.world_size};
  for (std::int64_t k = 1; replica * k <= most; k *= 2) {
    sizes.insert(static_cast<int>(replica * k));
    if (k > 1 && replica * k * 3 / 2 <= most) sizes.insert(static_cast<int>(replica * k * 3 / 2));
  }
  return {sizes.begin(), sizes.end()};
}

}  // namespace

Json possible_values(const Scenario& scenario) {
  Json out = Json::object();
  Scenario trial;  // only what a plan is made from
  trial.model = scenario.model;
  trial.training = scenario.training;
  trial.cluster.world_size = scenario.cluster.world_size;
  const auto reset = [&] {
    trial.parallel = scenario.parallel;
    trial.training.micro_batch_size = scenario.training.micro_batch_size;
  };
  for (const Choice& choice : choices()) {
    Json list = Json::array();
    for (const int value : choice.values) {
      reset();
      choice.set(trial, value);
      list.push_back({value, why_not(trial)});
    }
    out[choice.name] = std::move(list);
  }
  Json sizes = Json::array();
  for (const int gpus : sizes_of(scenario)) {
    reset();
    trial.parallel.dp = 0;
    trial.cluster.world_size = gpus;
    sizes.push_back({gpus, why_not(trial)});
  }
  out["gpus"] = std::move(sizes);
  trial.cluster.world_size = scenario.cluster.world_size;
  Json schedules = Json::array();
  for (const ScheduleVariant& variant : schedule_variants()) {
    reset();
    set_schedule(trial, variant);
    schedules.push_back({variant.name, why_not(trial)});
  }
  out["pp_schedule"] = std::move(schedules);
  return out;
}

}  // namespace tracecast::cli
