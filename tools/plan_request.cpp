#include "tools/plan_request.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/count_text.hpp"
#include "sim/base/words.hpp"
#include "sim/import/launchers/launcher.hpp"
#include "sim/io/files.hpp"
#include "sim/io/scenario_fields.hpp"
#include "sim/network/rack_use.hpp"
#include "sim/plan/layout_keys.hpp"
#include "sim/plan/plan.hpp"
#include "sim/plan/training_checks.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/search/sweep.hpp"
#include "tools/environment.hpp"
#include "tools/named_files.hpp"
#include "tools/sweep_predict.hpp"

namespace tracecast::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kMostSizes = 1000;  ///< of one "first..last:step"

/// "256..16384" doubles from the first to the last; "1024..2048:128" goes in steps; "256,384" is a list; "1024" is a single
/// number. Other text is an error.
std::optional<std::vector<int>> parse_counts(const std::string& text) {
  const auto number = [](std::string_view part) {
    const std::optional<int> value = parse_number<int>(part);
    return value && *value >= 1 && *value <= kMostPlannedGpus ? value : std::nullopt;
  };
  std::vector<int> values;
  if (const std::size_t dots = text.find(".."); dots != std::string::npos) {
    const std::string_view all = text;
    const std::size_t colon = std::min(text.find(':', dots), text.size());
    const std::optional<int> first = number(all.substr(0, dots));
    const std::optional<int> last = number(all.substr(dots + 2, colon - dots - 2));
    const std::optional<int> step = colon < text.size() ? number(all.substr(colon + 1)) : 0;
    if (!first || !last || !step || *first > *last) return std::nullopt;
    if (*step > 0 && (*last - *first) / *step >= kMostSizes) return std::nullopt;
    for (std::int64_t count = *first; count <= *last; count = *step > 0 ? count + *step : 2 * count)
      values.push_back(static_cast<int>(count));
    return values;
  }
  for (const std::string_view part : split(text)) {
    const std::optional<int> value = number(part);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

/// A single 0 (the scenario's value) if nothing is given.
Result<std::vector<int>> counts_of(const char* option, const std::string& text, const char* what) {
  if (text.empty()) return std::vector<int>{0};
  for (const std::string_view part : split(text))
    if (part.size() > 1 && part.front() == '0')
      return fail_key(option, text, fmt::format("'{}' starts with a zero: write 1,024 as 1024", part));
  if (const auto counts = parse_counts(text)) return *counts;
  return fail_key(
      option, text,
      fmt::format("is not a {} (allowed: 1 to {}: 1024, 256,384,512, 256..16384, which doubles, or 1024..2048:128, of "
                  "at most {} steps)",
                  what, kMostPlannedGpus, kMostSizes));
}

/// "2T", "15.6T", "300B", "1e12".
Result<double> parse_tokens(const std::string& text) {
  if (text.empty()) return 0.0;
  const std::optional<std::int64_t> count = parse_count(text);
  const double tokens = count ? static_cast<double>(*count) : parse_number<double>(text).value_or(0);
  if (tokens >= 1 && tokens <= 9e18) return tokens;
  return fail_key("--tokens", text, "is not a number of tokens (allowed: 2T, 300B, 50M, 300k, 15.6e12)");
}

Result<std::vector<Objective>> parse_objectives(const std::string& text) {
  std::vector<Objective> objectives;
  for (const std::string_view part : split(text)) {
    const std::optional<Objective> objective = parse_enum<Objective>(part);
    if (!objective)
      return fail_key("--objective", std::string(part),
                      "unknown objective (allowed: time throughput cost energy gpus)");
    if (std::ranges::find(objectives, *objective) != objectives.end())
      return fail_key("--objective", text, fmt::format("names {} twice", part));
    objectives.push_back(*objective);
  }
  return objectives;
}

Result<void> restrict_memory(SearchSpace& space, const PlanOptions& options) {
  if (!options.sequence_parallel.empty()) space.sequence_parallel.clear();
  for (const std::string& text : options.sequence_parallel) {
    if (text != "on" && text != "off") return fail_key("--sequence-parallel", text, "must be on, off, or on,off");
    space.sequence_parallel.push_back(static_cast<char>(text == "on"));
  }
  if (!options.offload.empty()) space.offload.clear();
  for (const std::string& text : options.offload) {
    const std::optional<Offload> offload = parse_offload(text);
    if (!offload)
      return fail_key("--offload", text,
                      "cannot be offloaded to the host (allowed: none, or of optimizer parameters activations, in "
                      "this order, joined by +)");
    space.offload.push_back(*offload);
  }
  return {};
}

/// The choices that the user gave in place of the defaults.
Result<void> restrict(SearchSpace& space, const PlanOptions& options) {
  const auto take = [](auto& values, const auto& given) {
    if (!given.empty()) values.assign(given.begin(), given.end());
  };
  take(space.tp, options.tp);
  take(space.cp, options.cp);
  take(space.ep, options.ep);
  take(space.pp, options.pp);
  take(space.vpp, options.vpp);
  take(space.zero_stage, options.zero);
  take(space.micro_batch_size, options.micro_batch);
  for (const std::string& name : options.schedules)
    if (find_schedule(name) == nullptr)
      return fail_key("--schedule", name, "unknown schedule (see tracecast schedule --help)");
  take(space.pp_schedule, options.schedules);
  if (Result<void> done = restrict_memory(space, options); !done || options.recompute.empty()) return done;
  space.recompute.clear();
  for (const std::string& name : options.recompute) {
    const std::optional<Recompute> found = parse_enum<Recompute>(name);
    if (!found) return fail_key("--recompute", name, fmt::format("is unknown (allowed: {})", all_names<Recompute>()));
    space.recompute.push_back(*found);
  }
  return {};
}

/// The machines to compare, and a sentence for each that has too few GPUs.
struct Machines {
  std::vector<MachineChoice> choices;
  std::vector<std::string> left_out;
};

bool is_too_large(const Error& error) {
  return std::all_of(error.diagnostics.begin(), error.diagnostics.end(),
                     [](const Diagnostic& each) { return each.key == "cluster.world_size"; });
}

/// The scenario's machine. Of racks, the two largest parts that divide the job, unless the scenario gives the part.
void add_choices(Scenario scenario, const std::vector<std::string>& overrides, const std::string& variant,
                 std::vector<MachineChoice>& choices) {
  std::vector<int> parts =
      scenario.gpus_per_rack > 0
          ? std::vector<int>{}
          : rack_choices(whole_racks(scenario.cluster.node), scenario.cluster.max_nodes, scenario.cluster.world_size);
  if (parts.empty()) parts.push_back(scenario.gpus_per_rack);  // 0: not a rack, or a whole one
  parts.resize(std::min<std::size_t>(parts.size(), 2));
  for (const int part : parts) {
    MachineChoice choice{scenario.topology, scenario.cluster.world_size, scenario};
    choice.overrides = overrides;
    choice.variant = variant;
    if (part != scenario.gpus_per_rack) choice.overrides.push_back(fmt::format("cluster.gpus_per_rack={}", part));
    choice.scenario.gpus_per_rack = part;
    use_racks(choice.scenario.cluster, choice.scenario.parallel, part);
    choices.push_back(std::move(choice));
  }
}

/// A combination of the values of --sweep.
struct Variant {
  std::string text;  ///< "node.nics=4, node.nic_rate=200 Gb/s"
  std::vector<std::string> overrides;
};

/// All combinations; one without overrides if nothing is swept. Errors: those of parse_sweep_axis.
Result<std::vector<Variant>> variants_of(const std::vector<std::string>& sweeps) {
  std::vector<Variant> all{{}};
  for (const std::string& sweep : sweeps) {
    const Result<SweepAxis> axis = parse_sweep_axis(sweep);
    if (!axis) return tl::unexpected(axis.error());
    std::vector<Variant> longer;
    for (const Variant& each : all)
      for (const std::string& value : axis->values) {
        Variant& next = longer.emplace_back(each);
        const std::string_view key = axis->key;
        next.text += fmt::format("{}{}={}", next.text.empty() ? "" : ", ",
                                 key.starts_with("topology.") ? key.substr(9) : key, value);
        next.overrides.push_back(axis->key + "=" + value);
      }
    all = std::move(longer);
  }
  return all;
}

std::string_view swept_key(std::string_view sweep) { return sweep.substr(0, sweep.find('=')); }

/// "dgx-h100:512": a machine and its own number of GPUs; 0: without one.
struct SizedTopology {
  std::string name;
  int gpus = 0;
};

SizedTopology sized_topology(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const auto gpus = colon == std::string::npos || colon == 0
                        ? std::nullopt
                        : parse_number<int>(std::string_view(text).substr(colon + 1));
  if (!gpus || *gpus < 1 || *gpus > kMostPlannedGpus) return {text};
  return {text.substr(0, colon), *gpus};
}

struct Sizes {
  std::vector<int> gpus;
  std::vector<int> batches;
  std::vector<Variant> variants;
};

Result<Sizes> sizes_of(const PlanOptions& options) {
  const Result<std::vector<int>> gpus = counts_of("--gpus", options.gpus, "number of GPUs");
  if (!gpus) return tl::unexpected(gpus.error());
  const Result<std::vector<int>> batches = counts_of("--global-batch", options.global_batch, "global batch");
  if (!batches) return tl::unexpected(batches.error());
  Result<std::vector<Variant>> variants = variants_of(options.sweep);
  if (!variants) return tl::unexpected(variants.error());
  return Sizes{*gpus, *batches, std::move(*variants)};
}

/// Options that set a key of the scenario for all layouts of a machine.
struct MachineOption {
  const char* key;
  const char* name;
  bool given;
};

std::array<MachineOption, 3> machine_options(bool topology, bool gpus, bool batch) {
  return {{{"cluster.topology", "--topology", topology},
           {"cluster.world_size", "--gpus", gpus},
           {"training.global_batch_size", "--global-batch", batch}}};
}

/// What another option sets, too, cannot be swept.
Result<void> check_sweep_of_machine(const PlanOptions& options) {
  const auto given = machine_options(!options.topologies.empty(), !options.gpus.empty(), !options.global_batch.empty());
  for (const std::string& sweep : options.sweep)
    for (const MachineOption& option : given)
      if (option.given && swept_key(sweep) == option.key)
        return fail_key("--sweep", sweep, fmt::format("{} sets this key as well: leave one of them out", option.name));
  return {};
}

/// A swept key that layouts set would be the label of runs that do not have it.
Result<void> check_sweep_of_layouts(const PlanOptions& options, const Scenario& scenario, const SearchSpace& space) {
  if (options.sweep.empty()) return {};
  const std::set<std::string> searched = searched_keys(scenario, space);
  for (const std::string& sweep : options.sweep) {
    const std::string key(swept_key(sweep));
    if (!searched.contains(key)) continue;
    const LayoutKey* const known = find_layout_key(key);
    return fail_key("--sweep", sweep,
                    known == nullptr || known->option.empty()
                        ? fmt::format("the search sets {} for each layout", key)
                        : fmt::format("the search sets {} for each layout (use {})", key, known->option));
  }
  return {};
}

/// The overrides of one machine, number of GPUs (0: the scenario's) and global batch (0: the scenario's).
std::vector<std::string> overrides_of(const PlanOptions& options, const std::string& topology, const Variant& variant,
                                      int gpus, int batch) {
  std::vector<std::string> overrides = options.overrides;
  overrides.insert(overrides.end(), variant.overrides.begin(), variant.overrides.end());
  if (!topology.empty()) overrides.push_back("cluster.topology=" + topology);
  if (gpus > 0) overrides.push_back(fmt::format("cluster.world_size={}", gpus));
  if (batch > 0) overrides.push_back(fmt::format("training.global_batch_size={}", batch));
  return overrides;
}

/// The error, with the options that set these keys in place of --set.
Error by_options(Error error, const std::string& topology, int gpus, int batch) {
  for (Diagnostic& each : error.diagnostics) {
    if (each.file != "--set") continue;
    for (const MachineOption& option : machine_options(!topology.empty(), gpus > 0, batch > 0)) {
      if (!option.given || each.key != option.key) continue;
      each.file.clear();
      each.key = option.name;
      break;
    }
  }
  return error;
}

/// Errors: those of the files; every machine is too small.
Result<Machines> find_machines(const PlanOptions& options) {
  if (const Result<void> good = check_sweep_of_machine(options); !good) return tl::unexpected(good.error());
  const Result<Sizes> sizes = sizes_of(options);
  if (!sizes) return tl::unexpected(sizes.error());
  const std::vector<std::string> as_it_is{""};
  Machines result;
  std::optional<Error> too_large;  // the first
  for (const std::string& text : options.topologies.empty() ? as_it_is : options.topologies) {
    const auto [topology, own_gpus] = sized_topology(text);
    for (const Variant& variant : sizes->variants)
      for (const int gpus : own_gpus > 0 ? std::vector<int>{own_gpus} : sizes->gpus)
        for (const int batch : sizes->batches) {
          const std::vector<std::string> overrides = overrides_of(options, topology, variant, gpus, batch);
          Result<Scenario> scenario = read_with_topology(options.scenario, overrides);
          if (!scenario && sizes->gpus.size() > 1 && is_too_large(scenario.error())) {
            if (!too_large) too_large = by_options(scenario.error(), topology, gpus, batch);
            const Diagnostic& first = scenario.error().diagnostics.front();
            result.left_out.push_back(first.value + " GPUs: " + first.message);
            continue;
          }
          if (!scenario) return tl::unexpected(by_options(scenario.error(), topology, gpus, batch));
          add_choices(std::move(*scenario), overrides, variant.text, result.choices);
        }
  }
  if (result.choices.empty() && too_large) return tl::unexpected(*too_large);
  return result;
}

/// A layout of the machine that can be emitted: the scenario's own, or another one if it is impossible there. nullopt: none is.
std::optional<Scenario> possible_run(const MachineChoice& machine) {
  const auto possible = [](const Scenario& scenario) {
    return make_plan(scenario.model, scenario.parallel, scenario.training, scenario.cluster.world_size).has_value();
  };
  if (possible(machine.scenario)) return machine.scenario;
  const SearchSpace space = default_space(machine.scenario, machine.gpus);
  for (std::int64_t id = 0; id < space.size(); ++id)
    if (Scenario run = with_layout(machine.scenario, space.at(id)); possible(run)) return run;
  return std::nullopt;
}

/// The software stack that an import of the launcher's settings sets, where the scenario has none. Empty: it has one, or none is set.
std::string stack_of_launcher(const PlanOptions& options, const std::vector<MachineChoice>& machines) {
  if (options.launcher.empty()) return "";
  if (std::ranges::any_of(machines, [](const MachineChoice& each) { return !each.scenario.stack.empty(); })) return "";
  const std::optional<Scenario> run = possible_run(machines.front());
  return run ? stack_of_emitted(options.launcher, emit_run(options.launcher, *run).text) : "";
}

/// Overrides that keep the numbers of the training as they are without the stack that a launcher implies: each of these keys is an
/// argument of the launcher, so that its stack need not decide it.
std::vector<std::string> kept_precision(const Machines& without, const Machines& with) {
  constexpr std::array kKeys{"grad_reduce_dtype", "fp8_param_gather", "fp8_scaling", "optimizer_state_dtype",
                             "moe_dispatch_dtype"};
  std::vector<std::string> kept;
  const auto text = [](const Training& training, const char* key) {
    const JsonNode all = write_fields(training, true);
    const JsonNode& value = *all.find(key);
    return value.kind == JsonNode::Kind::string ? value.string : value.setting_text();
  };
  const std::size_t both = std::min(without.choices.size(), with.choices.size());
  for (const char* key : kKeys)
    for (std::size_t i = 0; i < both; ++i) {
      const std::string value = text(without.choices[i].scenario.training, key);
      if (value == text(with.choices[i].scenario.training, key)) continue;
      kept.push_back(fmt::format("training.{}={}", key, value));
      break;
    }
  return kept;
}

/// The machines; for a launcher with the software that it runs, so that what is emitted fits there as well.
Result<Machines> machines_of(PlanRequest& request) {
  Result<Machines> machines = find_machines(request.options);
  if (!machines) return machines;
  request.stack_of_launcher = stack_of_launcher(request.options, machines->choices);
  if (request.stack_of_launcher.empty()) return machines;
  PlanOptions with_stack = request.options;
  with_stack.overrides.push_back("stack=" + request.stack_of_launcher);
  Result<Machines> with = find_machines(with_stack);
  if (const std::vector<std::string> kept = with ? kept_precision(*machines, *with) : std::vector<std::string>{};
      !kept.empty()) {
    with_stack.overrides.insert(with_stack.overrides.end(), kept.begin(), kept.end());
    with = find_machines(with_stack);
  }
  if (!with) {  // what the scenario says is against this stack
    request.stack_of_launcher.clear();
    return machines;
  }
  request.options = std::move(with_stack);
  return with;
}

/// train_tokens of all. Candidates are ranked per token, so all must train as many.
Result<double> common_tokens(const std::vector<MachineChoice>& machines) {
  const auto tokens = [](const MachineChoice& each) { return each.scenario.training.train_tokens; };
  const auto [least, most] = std::ranges::minmax(machines, {}, tokens);
  if (tokens(least) == tokens(most)) return static_cast<double>(tokens(least));
  return fail_key("--sweep", "",
                  fmt::format("makes jobs of {:.4g} and {:.4g} tokens, which are not compared (--tokens gives all as "
                              "many; or plan each by itself)",
                              static_cast<double>(tokens(least)), static_cast<double>(tokens(most))));
}

std::vector<std::string> gpus_of(const std::vector<MachineChoice>& all) {
  std::vector<std::string> names;
  for (const MachineChoice& machine : all) {
    const std::string name = gpus_text(machine.scenario);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

/// "2.1" for all machines, or "h100=2.1,gb200=5.5".
Result<void> set_prices(Economics& economics, const std::string& text, const std::vector<MachineChoice>& all) {
  if (text.empty()) return {};
  const auto usd = [](std::string_view part) {
    const std::optional<double> value = parse_number<double>(part);
    return value && *value > 0 && *value <= 1e6 ? value : std::nullopt;
  };
  const auto wrong = [&] {
    return fail_key("--price", text, "is not a price (allowed: 2.1 for all GPUs, or h100=2.1,gb200=5.5)");
  };
  std::set<std::string> priced;
  for (const std::string_view part : split(text)) {
    const std::size_t equals = part.find('=');
    const std::optional<double> value = usd(equals == std::string_view::npos ? part : part.substr(equals + 1));
    if (!value || equals == 0) return wrong();
    const std::string gpu(part.substr(0, std::min(equals, part.size())));
    std::set<std::string> names;
    for (const MachineChoice& machine : all)
      if (const std::string name = gpus_text(machine.scenario); equals == std::string_view::npos || name == gpu)
        names.insert(name);
    if (names.empty())
      return fail_key("--price", gpu,
                      fmt::format("is not a GPU of the machines (allowed: {})", fmt::join(gpus_of(all), " ")));
    for (const std::string& name : names) {
      if (!priced.insert(name).second) return fail_key("--price", text, fmt::format("prices {} twice", name));
      economics.gpus[name].price = Range3{*value, *value, *value};
    }
  }
  return {};
}

Result<Economics> load_economics(const PlanOptions& options, const DataPaths& data,
                                 const std::vector<MachineChoice>& all) {
  const Result<fs::path> path = find_file(options.economics, data.scenarios / "economics", "economics file");
  if (!path) return tl::unexpected(path.error());
  Result<Economics> economics = of_this_project(read_economics(*path), *path, "an economics file");
  if (!economics) return economics;
  if (!options.term.empty()) economics->term = *parse_enum<Term>(options.term);
  economics->region = options.region;
  if (!options.region.empty() && !economics->grids.contains(options.region)) {
    std::vector<std::string> names;
    for (const auto& [name, grid] : economics->grids) names.push_back(name);
    return fail_key("--region", options.region,
                    fmt::format("is not in {} (allowed: {})", economics->name, fmt::join(names, " ")));
  }
  if (const Result<void> set = set_prices(*economics, options.price, all); !set) return tl::unexpected(set.error());
  return economics;
}

/// Leaves out global batches of more tokens than the training has. Errors: all have.
Result<void> leave_out_long_steps(PlanRequest& request, double tokens) {
  std::string why;
  std::erase_if(request.machines, [&](const MachineChoice& machine) {
    const std::string less = less_than_a_step(machine.scenario.training, std::llround(tokens));
    if (less.empty()) return false;
    if (why.empty()) why = less;
    const std::string line =
        fmt::format("batches of {} sequences: --tokens {}", machine.scenario.training.global_batch_size, less);
    if (std::ranges::find(request.left_out, line) == request.left_out.end()) request.left_out.push_back(line);
    return true;
  });
  if (request.machines.empty()) return fail_key("--tokens", request.options.tokens, why);
  return {};
}

}  // namespace

Result<PlanRequest> plan_request(const PlanOptions& options) {
  PlanRequest request;
  request.options = options;
  const Result<DataPaths> data = data_paths();
  if (!data) return tl::unexpected(data.error());
  Result<std::vector<Objective>> objectives = parse_objectives(options.objective);
  if (!objectives) return tl::unexpected(objectives.error());
  request.objectives = std::move(*objectives);
  const Result<double> tokens = parse_tokens(options.tokens);
  if (!tokens) return tl::unexpected(tokens.error());
  request.target = {*tokens, options.days, options.budget};
  Result<Machines> machines = machines_of(request);
  if (!machines) return tl::unexpected(machines.error());
  request.machines = std::move(machines->choices);
  request.left_out = std::move(machines->left_out);
  if (request.target.tokens <= 0) {
    const Result<double> of_scenario = common_tokens(request.machines);
    if (!of_scenario) return tl::unexpected(of_scenario.error());
    request.target.tokens = *of_scenario;
  }
  if ((options.days > 0 || options.budget > 0) && request.target.tokens <= 0)
    return fail_key("--tokens", "",
                    "is needed for --days and --budget, since the scenario has no training.train_tokens");
  if (const Result<void> enough = leave_out_long_steps(request, *tokens); !enough)
    return tl::unexpected(enough.error());
  for (const MachineChoice& machine : request.machines) {
    SearchSpace space = default_space(machine.scenario, machine.gpus);
    if (const Result<void> done = restrict(space, options); !done) return tl::unexpected(done.error());
    if (const Result<void> good = check_sweep_of_layouts(options, machine.scenario, space); !good)
      return tl::unexpected(good.error());
    // Their tensor parallelism has no sequence parallelism.
    if (options.sequence_parallel.empty() && (options.launcher == "deepspeed" || options.launcher == "accelerate"))
      space.sequence_parallel = {0};
    request.spaces.push_back(std::move(space));
  }
  Result<Economics> economics = load_economics(options, *data, request.machines);
  if (!economics) return tl::unexpected(economics.error());
  request.economics = std::move(*economics);
  if (options.failures == "none") return request;
  std::vector<std::string> of_failures;
  if (options.spares >= 0) of_failures.push_back(fmt::format("recovery.spares={}", options.spares));
  Result<FailureFile> failures = named_failure_model(options.failures, of_failures);
  if (!failures) return tl::unexpected(failures.error());
  request.failures = std::move(*failures);
  return request;
}

}  // namespace tracecast::cli
