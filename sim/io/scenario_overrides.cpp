#include "sim/io/scenario_overrides.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/cost/attention.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {
namespace {

bool is_overridden(const Scenario& scenario, const std::string& key) {
  const auto place = scenario.locations.find(key);
  return place != scenario.locations.end() && place->second.file == kOverrides;
}

void derive(Scenario& scenario, const char* degree, int written, int follows) {
  scenario.notes.push_back(
      fmt::format("parallel.{} is {}, which follows from --set (the file has {})", degree, follows, written));
}

/// A schedule of --set brings its number of chunks.
void derive_chunks(Scenario& scenario) {
  Parallel& p = scenario.parallel;
  if (!is_overridden(scenario, "parallel.pp_schedule") || is_overridden(scenario, "parallel.vpp")) return;
  const ScheduleVariant* variant = find_schedule(p.pp_schedule);
  if (variant == nullptr || (variant->any_chunks ? p.vpp >= variant->default_chunks : p.vpp == variant->default_chunks))
    return;
  derive(scenario, "vpp", std::exchange(p.vpp, variant->default_chunks), variant->default_chunks);
  scenario.locations.erase("parallel.vpp");
}

bool on_another_machine(Scenario& scenario) {
  const auto overridden = [&](const char* key) {
    const auto place = scenario.locations.find(key);
    return place != scenario.locations.end() && place->second.file != scenario.locations[""].file;
  };
  return overridden("cluster.topology") || overridden("cluster.profile");
}

}  // namespace

void derive_degrees(Scenario& scenario) {
  Parallel& p = scenario.parallel;
  const int world_size = scenario.cluster.world_size;
  const auto any = [&](std::initializer_list<const char*> keys) {
    return std::ranges::any_of(keys, [&](const char* key) { return is_overridden(scenario, key); });
  };
  const std::int64_t model_ranks = p.model_ranks();
  if (p.dp != 0 && model_ranks * p.dp != world_size && !is_overridden(scenario, "parallel.dp") &&
      any({"cluster.world_size", "parallel.tp", "parallel.pp", "parallel.cp"})) {
    if (model_ranks > 0 && world_size % model_ranks == 0)
      derive(scenario, "dp", p.dp, static_cast<int>(world_size / model_ranks));
    scenario.locations.erase("parallel.dp");
    p.dp = 0;
  }
  derive_chunks(scenario);
  if (p.vpp > 1 && p.pp == 1 && is_overridden(scenario, "parallel.pp") && !is_overridden(scenario, "parallel.vpp"))
    derive(scenario, "vpp", std::exchange(p.vpp, 1), 1);
  if (p.sequence_parallel && p.tp == 1 && is_overridden(scenario, "parallel.tp") &&
      !is_overridden(scenario, "parallel.sequence_parallel")) {
    p.sequence_parallel = false;
    scenario.notes.emplace_back("parallel.sequence_parallel is false, which follows from tp 1");
  }
}

void drop_measurement(Scenario& scenario) {
  constexpr std::array kBesideTheRun{"cluster.gpu_spread",
                                     "cluster.routing",
                                     "cluster.routing_seed",
                                     "training.train_tokens",
                                     "training.critical_batch_tokens",
                                     "training.dataset_samples",
                                     "training.epochs"};
  const auto changes_run = [&](const auto& place) {
    return place.second.file == kOverrides && place.first != "measured" && !place.first.starts_with("measured.") &&
           std::ranges::find(kBesideTheRun, place.first) == kBesideTheRun.end();
  };
  if (is_overridden(scenario, "measured")) return;
  if (std::ranges::any_of(scenario.locations, changes_run)) scenario.measured.reset();
}

void check_attention_kernel(Scenario& scenario, std::vector<Diagnostic>& errors) {
  std::string& kernel = scenario.training.attention_kernel;
  const std::vector<std::string> known = attention_kernels(scenario.profile);
  if (kernel.empty() || known.empty() || std::find(known.begin(), known.end(), kernel) != known.end()) return;
  const KeyLocation& place = scenario.locations["training.attention_kernel"];
  if (on_another_machine(scenario) && place.file == scenario.locations[""].file) {
    kernel.clear();
    return;
  }
  errors.push_back(
      {place.file, place.line, "training.attention_kernel", place.value,
       fmt::format("is not a kernel of the profile {} (allowed: {})", scenario.profile.name, fmt::join(known, " "))});
}

void check_fp8_attention(Scenario& scenario, std::vector<Diagnostic>& errors) {
  Training& training = scenario.training;
  const bool has_kernel = has_attention_in(scenario.profile, training.attention_kernel, training.dtype);
  const bool may_have_it = training.dtype == Precision::fp8 || training.dtype == Precision::mxfp8;
  if (!training.fp8_attention || has_kernel || !may_have_it) return;
  const KeyLocation& place = scenario.locations["training.fp8_attention"];
  // The kernel is named if the scenario does, or if another one of the profile has it.
  std::string kernel = training.attention_kernel;
  if (kernel.empty() && std::ranges::any_of(attention_kernels(scenario.profile), [&](const std::string& other) {
        return has_attention_in(scenario.profile, other, training.dtype);
      }))
    kernel = scenario.profile.attention.front().kernel;
  if (on_another_machine(scenario) && place.file == scenario.locations[""].file) {
    training.fp8_attention = false;
    return;
  }
  errors.push_back({place.file, place.line, "training.fp8_attention", "true",
                    fmt::format("the profile {} has no attention in {}{}", scenario.profile.name,
                                to_string(training.dtype), kernel.empty() ? "" : " of kernel " + kernel)});
}

}  // namespace tracecast
