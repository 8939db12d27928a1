#include "sim/search/ruled_out.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/integers.hpp"
#include "sim/io/scenario_fields.hpp"
#include "sim/plan/plan.hpp"

namespace tracecast {
namespace {

/// The keys that checks of layouts ask for (layout_checks.cpp, sharding.cpp, optimizer_matrices.cpp).
struct Setting {
  const char* key;
  void (*reset)(Scenario& scenario);
};
constexpr std::array<Setting, 10> kSettings{{
    {"parallel.data_parallel", [](Scenario& s) { s.parallel.data_parallel = {}; }},
    {"parallel.shard_group",
     [](Scenario& s) {
       s.parallel.shard_group = 0;
       s.parallel.sharding_strategy = {};
     }},
    {"parallel.rank_order", [](Scenario& s) { s.parallel.rank_order = Parallel{}.rank_order; }},
    {"parallel.etp", [](Scenario& s) { s.parallel.etp = 0; }},
    {"parallel.tp_split", [](Scenario& s) { s.parallel.tp_split = {}; }},
    {"parallel.cp_comm_type", [](Scenario& s) { s.parallel.cp_comm_type = {}; }},
    {"training.optimizer", [](Scenario& s) { s.training.optimizer = {}; }},
    {"training.matrix_sharding", [](Scenario& s) { s.training.matrix_sharding = {}; }},
    {"training.recompute_modules", [](Scenario& s) { s.training.recompute_modules = {}; }},
    {"training.lora_rank", [](Scenario& s) { s.training.lora_rank = 0; }},
}};

std::string value_of(const Scenario& scenario, std::string_view key) {
  const std::string name(key.substr(key.find('.') + 1));
  const JsonNode group =
      key.starts_with("parallel.") ? write_fields(scenario.parallel, true) : write_fields(scenario.training, true);
  std::string text = group.find(name)->setting_text();
  std::erase(text, '"');
  return text;
}

std::int64_t padded_vocabulary(const Model& model, const SearchSpace& space) {
  return round_up(model.vocab_size, std::int64_t{128} * std::ranges::max(space.tp));  // as Megatron-LM pads it
}

/// Without what takes time and rules out no degree.
bool is_possible(const Scenario& scenario, const Layout& layout) {
  Parallel parallel = scenario.parallel;
  Training training = scenario.training;
  training.documents.reset();
  training.expert_routing = ExpertRouting::even;
  training.expert_tokens.clear();
  apply_layout(layout, scenario, parallel, training);
  return make_plan(scenario.model, parallel, training, scenario.cluster.world_size).has_value();
}

/// One choice of the space: its values as text, and layouts with each of them.
struct Choice {
  const char* name;
  std::vector<std::string> values;
  std::vector<std::array<Layout, 2>> layouts;
};

std::array<Layout, 2> base_layouts(const Scenario& scenario, const SearchSpace& space) {
  Layout plain;
  plain.micro_batch_size = space.micro_batch_size.front();
  plain.zero_stage = space.zero_stage.front();
  return {layout_of(scenario), plain};
}

std::vector<Choice> choices_of(const Scenario& scenario, const SearchSpace& space) {
  std::vector<Choice> choices;
  const auto add = [&](const char* name, auto Layout::*choice, const auto& values, const auto& text) {
    Choice& added = choices.emplace_back(Choice{name, {}, {}});
    for (const auto& value : values) {
      added.values.push_back(text(value));
      added.layouts.push_back(base_layouts(scenario, space));
      for (Layout& layout : added.layouts.back()) layout.*choice = value;
    }
  };
  const auto number = [](auto value) { return fmt::to_string(value); };
  add("tp", &Layout::tp, space.tp, number);
  add("cp", &Layout::cp, space.cp, number);
  add("ep", &Layout::ep, space.ep, number);
  add("pp", &Layout::pp, space.pp, number);
  add("zero_stage", &Layout::zero_stage, space.zero_stage, number);
  add("recompute", &Layout::recompute, space.recompute, [](Recompute value) { return std::string(to_string(value)); });
  return choices;
}

bool any_possible(const Scenario& scenario, const std::array<Layout, 2>& layouts) {
  return std::ranges::any_of(layouts, [&](const Layout& layout) { return is_possible(scenario, layout); });
}

/// Sentences on one setting: `impossible`, the values of each choice that no layout has; `without`, the scenario without the setting.
void add_sentences(std::vector<std::string>& sentences, const std::string& setting, const std::string& advice,
                   const Scenario& without, const std::vector<Choice>& impossible,
                   const std::vector<std::size_t>& counts) {
  for (std::size_t i = 0; i < impossible.size(); ++i) {
    std::vector<std::string> values;
    for (std::size_t v = 0; v < impossible[i].values.size(); ++v)
      if (any_possible(without, impossible[i].layouts[v])) values.push_back(impossible[i].values[v]);
    if (values.empty()) continue;
    constexpr std::size_t kMost = 8;
    const std::size_t out = values.size();
    const std::string more = out > kMost ? fmt::format(" and {} more", out - kMost) : "";
    values.resize(std::min(out, kMost));
    sentences.push_back(fmt::format("{} rules out {} {}{} ({} of {} values){}", setting, impossible[i].name,
                                    fmt::join(values, ", "), more, out, counts[i], advice));
  }
}

}  // namespace

std::vector<std::string> ruled_out(const Scenario& scenario, const SearchSpace& space) {
  std::vector<Choice> impossible;
  std::vector<std::size_t> counts;
  for (const Choice& choice : choices_of(scenario, space)) {
    Choice& kept = impossible.emplace_back(Choice{choice.name, {}, {}});
    counts.push_back(choice.values.size());
    for (std::size_t i = 0; i < choice.values.size(); ++i) {
      if (any_possible(scenario, choice.layouts[i])) continue;
      kept.values.push_back(choice.values[i]);
      kept.layouts.push_back(choice.layouts[i]);
    }
  }
  std::vector<std::string> sentences;
  if (std::ranges::all_of(impossible, [](const Choice& choice) { return choice.values.empty(); })) return sentences;
  Scenario padded = scenario;
  padded.model.vocab_size = padded_vocabulary(scenario.model, space);
  add_sentences(sentences, fmt::format("model.vocab_size = {}", scenario.model.vocab_size),
                fmt::format(": pad it, --set model.vocab_size={}", padded.model.vocab_size), padded, impossible,
                counts);
  for (const Setting& setting : kSettings) {
    Scenario without = scenario;
    setting.reset(without);
    if (without.parallel == scenario.parallel && without.training == scenario.training) continue;
    add_sentences(sentences, fmt::format("{} = {}", setting.key, value_of(scenario, setting.key)), "", without,
                  impossible, counts);
  }
  return sentences;
}

}  // namespace tracecast
