#include "tools/schedule_views.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "sim/cost/costs.hpp"
#include "sim/forecast/schedule_runs.hpp"
#include "sim/forecast/timed_schedule.hpp"
#include "sim/graph/stage_times.hpp"
#include "sim/import/launchers/launcher.hpp"
#include "sim/io/compressed.hpp"
#include "sim/network/measured_network.hpp"
#include "sim/schedule/program.hpp"
#include "sim/schedule/schedule_run.hpp"
#include "sim/schedule/variants.hpp"
#include "tools/named_files.hpp"

namespace tracecast::cli {
namespace {

ScheduleOptions without_rules(ScheduleOptions o) {
  o.sends = o.receives = o.streams = "";
  o.batched = false;
  return o;
}

bool has_rules(const ScheduleOptions& o) {
  return !o.sends.empty() || !o.receives.empty() || o.batched || !o.streams.empty();
}

MessageStreams streams_of(const std::string& name) {
  if (name == "compute") return MessageStreams::compute;
  if (name == "one") return MessageStreams::one;
  return name == "two" ? MessageStreams::two : MessageStreams::pairs;
}

MessageRules rules_of(const ScheduleOptions& o) {
  return {.sends = o.sends == "rendezvous" ? SendRule::rendezvous : SendRule::eager,
          .receives = o.receives == "early" ? ReceiveOrder::early : ReceiveOrder::at_use,
          .batched = o.batched,
          .streams = streams_of(o.streams)};
}

std::string in_words(const MessageRules& rules, bool from_file) {
  std::string text = rules.sends == SendRule::eager ? "eager sends" : "rendezvous sends";
  text += from_file                               ? ", order of the file"
          : rules.receives == ReceiveOrder::early ? ", early receives"
                                                  : ", receives at use";
  if (rules.batched) text += ", batched";
  constexpr const char* kStreams[] = {"on the compute stream", "on one stream", "on two streams",
                                      "on a stream per peer"};
  return text + ", " + kStreams[static_cast<std::size_t>(rules.streams)];
}

template <class Number>
RankTimes in_units(const std::vector<Number>& times, std::int64_t scale) {
  RankTimes result;
  for (Number time : times) result.push_back(static_cast<double>(time) / static_cast<double>(scale));
  return result;
}

/// The run of a schedule with the times of the command line. `program`: its communication, if a file specifies it.
Result<ScheduleView> view_of(const ScheduleOptions& options, const Schedule& schedule, const ExactTimes& exact,
                             const PipelineProgram* program) {
  const Result<PipelineTimes> times = pipeline_times(schedule, exact);
  if (!times) return tl::unexpected(times.error());
  const MessageRules rules = rules_of(options);
  const Result<ScheduleRun> run = run_schedule(schedule, *times, rules, program);
  if (!run) return tl::unexpected(run.error());
  ScheduleView view;
  view.schedule = schedule;
  view.run = *run;
  if (program != nullptr || has_rules(options)) view.rules = in_words(rules, program != nullptr);
  view.forward = in_units(exact.forward, exact.scale);
  view.backward_input = in_units(exact.backward_input, exact.scale);
  view.backward_weight = in_units(exact.backward_weight, exact.scale);
  view.latency = static_cast<double>(exact.latency) / static_cast<double>(exact.scale);
  if (exact.overlapped) view.overlapped = in_units(std::vector{*exact.overlapped}, exact.scale);
  return view;
}

/// The pipeline of a scenario's step, with the mean times of one micro-batch through the layers of each rank.
ScheduleView view_of(ScenarioRun of, const std::string& scenario) {
  ScheduleView view;
  const RankPassTimes times = mean_pass_times(of.schedule, of.run);
  const auto present = [&](const std::vector<double>& list) {
    const bool none = std::all_of(list.begin(), list.end(), [](double time) { return time == 0; });
    return none ? RankTimes{} : in_units(list, of.run.scale);
  };
  view.forward = present(times.forward);
  view.backward = present(times.backward);
  view.backward_input = present(times.backward_input);
  view.backward_weight = present(times.backward_weight);
  view.overlapped = present(times.overlapped);
  view.latency = 1e3 * seconds(of.longest_message);
  view.schedule = std::move(of.schedule);
  view.run = std::move(of.run);
  view.times_from = scenario;
  return view;
}

/// The scenario with another schedule, a matching number of chunks, and another number of micro-batches.
Scenario with_schedule(Scenario scenario, const ScheduleOptions& options, const std::string& name, int chunks) {
  scenario.parallel.pp_schedule = name;
  scenario.parallel.vpp = chunks;
  if (options.request.microbatches > 0) {
    const int dp = scenario.parallel.replicas_on(scenario.cluster.world_size);
    scenario.training.global_batch_size = options.request.microbatches * scenario.training.micro_batch_size * dp;
  }
  return scenario;
}

/// `fixed`: with the chunks of --virtual. Else a schedule with a fixed number of chunks keeps it.
Result<ScheduleView> scenario_view(const ScheduleOptions& options, const Scenario& scenario, const std::string& name,
                                   bool fixed) {
  const ScheduleVariant* variant = find_schedule(name);
  const int own = variant ? variant->default_chunks : 1;
  const int asked = options.request.chunks > 0 ? options.request.chunks : own;
  Result<ScenarioRun> run = run_pipeline(with_schedule(scenario, options, name, asked));
  if (!run && !fixed && asked != own && run.error().diagnostics.front().key == "parallel.vpp") {
    run = run_pipeline(with_schedule(scenario, options, name, own));
  }
  if (!run) return tl::unexpected(run.error());
  return view_of(std::move(*run), scenario.name);
}

Result<std::vector<ScheduleView>> scenario_views(const ScheduleOptions& options) {
  const Result<Scenario> scenario = named_scenario(options.times_from, options.overrides);
  if (!scenario) return tl::unexpected(scenario.error());
  ScheduleOptions of_scenario = options;
  if (of_scenario.request.chunks == 0 && scenario->parallel.vpp > 1)
    of_scenario.request.chunks = scenario->parallel.vpp;
  std::string first = options.schedule.empty() ? scenario->parallel.pp_schedule : options.schedule;
  if (first.empty()) first = default_schedule(scenario->parallel.vpp);
  std::vector<std::string> names = options.compare;
  names.insert(names.begin(), first);
  std::vector<ScheduleView> views;
  for (const std::string& name : names) {
    Result<ScheduleView> view = scenario_view(
        of_scenario, *scenario, name,
        options.request.chunks > 0 && views.empty() && (!options.schedule.empty() || options.compare.empty()));
    if (!view) return tl::unexpected(view.error());
    views.push_back(std::move(*view));
  }
  return views;
}

/// The view of a schedule that `name` and `request` make, or of its steady state if it has no flush. `run`: views a schedule.
template <class Run>
Result<ScheduleView> flushed_or_steady(const Schedule& schedule, const std::string& name, ScheduleRequest request,
                                       const Run& run) {
  if (schedule.flush) return run(schedule);
  request.microbatches = steady_state_microbatches(schedule.ranks, schedule.microbatches);
  return run(*make_schedule(name, request)).map([&](ScheduleView view) {
    view.schedule = schedule;
    view.run = steady_state(view.run, schedule.microbatches);
    return view;
  });
}

/// The keys of schedules as the options that set them. Those of a file set no option.
Error with_options(Error error, const ScheduleOptions& options, bool compared) {
  for (Diagnostic& d : error.diagnostics) {
    if (d.key == "virtual") d.key = "--virtual";
    if (d.key == "group_size") d.key = "--group-size";
    if (d.key == "memory_limit") d.key = "--memory-limit";
    if (d.key == "times") d.key = "--tf, --tb, --tw";
    if (d.key == "schedule") d.key = compared ? "--compare" : "--schedule";
    if (!options.file.empty()) continue;
    if (d.key == "stages") d.key = "--stages";
    if (d.key == "microbatches") d.key = "--microbatches";
  }
  return error;
}

/// By name. A schedule with a fixed number of chunks is compared with that number.
Result<ScheduleView> named_view(const ScheduleOptions& options, const std::string& name, bool compared) {
  constexpr int kMostStages = 16384;  // as plan's pipeline degrees
  if (options.request.ranks > kMostStages)
    return fail_key("--stages", std::to_string(options.request.ranks),
                    fmt::format("is more than a picture shows (allowed: up to {})", kMostStages));
  const Result<ExactTimes> exact = parse_times(options.times, options.request.ranks);
  if (!exact) return tl::unexpected(exact.error());
  ScheduleRequest request = options.request;
  request.times = mean_times(*exact);
  request.rank_times = times_of_ranks(*exact, request.ranks);
  Result<Schedule> schedule = make_schedule(name, request);
  if (!schedule && compared && schedule.error().diagnostics.front().key == "virtual") {
    request.chunks = 0;
    schedule = make_schedule(name, request);
  }
  if (!schedule) return tl::unexpected(with_options(std::move(schedule.error()), options, compared));
  return flushed_or_steady(*schedule, name, request,
                           [&](const Schedule& each) { return view_of(options, each, *exact, nullptr); })
      .map_error([&](Error error) { return with_options(std::move(error), options, compared); });
}

Result<ScheduleView> file_view(ScheduleOptions& options) {
  const Result<PytorchSchedule> file = file_of(options);
  if (!file) return tl::unexpected(file.error());
  Result<Schedule> schedule = schedule_of(*file);
  if (!schedule) return tl::unexpected(schedule.error());
  options.request.ranks = schedule->ranks;
  options.request.microbatches = schedule->microbatches;
  const Result<ExactTimes> exact = parse_times(options.times, schedule->ranks);
  if (!exact) return tl::unexpected(exact.error());
  return view_of(options, *schedule, *exact, file->with_communication ? &file->rows : nullptr)
      .map_error([&](Error error) {
        error.diagnostics.front().file = options.file;
        return error;
      });
}

/// A schedule with the stage times of a scenario. `program`: its communication, if a file specifies it.
Result<ScheduleView> view_of(const Schedule& schedule, const Scenario& scenario, const PipelineProgram* program) {
  const Result<PipelineTimes> times = stage_times_in(scenario, schedule);
  if (!times) return tl::unexpected(times.error());
  const Result<ScheduleRun> run = run_schedule(schedule, *times, {}, program);
  if (!run) return tl::unexpected(run.error());
  ScheduleView view;
  view.schedule = schedule;
  view.run = *run;
  view.rules = fmt::format("{}; times of the stages of {}, in milliseconds",
                           program != nullptr ? in_words({}, true) : "latency only", scenario.name);
  for (const StageTime& sum : rank_times(schedule, *times)) {
    const auto scale = static_cast<double>(times->scale);
    view.forward.push_back(static_cast<double>(sum.forward) / scale);
    view.backward_input.push_back(static_cast<double>(sum.backward_input) / scale);
    view.backward_weight.push_back(static_cast<double>(sum.backward_weight) / scale);
  }
  view.latency = static_cast<double>(times->latency) / static_cast<double>(times->scale);
  return view;
}

/// The order that a configuration of torchtitan names, from there or from its own folder; "": none, or another schedule is asked for.
std::string file_of_scenario(const ScheduleOptions& options) {
  namespace fs = std::filesystem;
  const auto names_schedule = [](const std::string& each) { return each.starts_with("parallel.pp_schedule="); };
  if (!options.schedule.empty() || std::ranges::any_of(options.overrides, names_schedule)) return "";
  const fs::path configuration = options.times_from;
  if (!fs::is_regular_file(configuration)) return "";
  const Result<std::string> content = read_packed(configuration);
  const std::string csv = content ? schedule_file_of(*content, options.times_from) : "";
  return csv.empty() || fs::exists(csv) ? csv : (configuration.parent_path() / csv).string();
}

/// By name, for a scenario's pipeline ranks. If it depends on times it is made for those of the scenario's stages, as in a forecast.
Result<Schedule> schedule_in(const Scenario& scenario, const ScheduleOptions& options, const std::string& name) {
  const ScheduleVariant* variant = find_schedule(name);
  if (variant == nullptr || !variant->uses_times)
    return make_schedule(name, options.request).map_error([&](Error error) {
      return with_options(std::move(error), options, true);
    });
  const int chunks = options.request.chunks > 0 ? options.request.chunks : variant->default_chunks;
  const Scenario with = with_schedule(scenario, options, name, chunks);
  const Result<Plan> plan = make_plan(with.model, with.parallel, with.training, with.cluster.world_size);
  if (!plan) return tl::unexpected(located(plan.error(), with));
  const Costs costs(with.profile, with.training.attention_kernel);
  return schedule_of_plan(with, *plan, costs, *make_network(with.cluster, with.profile));
}

/// A schedule from a file, and others of as many ranks and micro-batches, with the stage times of a scenario.
Result<std::vector<ScheduleView>> timed_views(ScheduleOptions options) {
  const Result<PytorchSchedule> file = file_of(options);
  if (!file) return tl::unexpected(file.error());
  const Result<Schedule> schedule = schedule_of(*file);
  if (!schedule) return tl::unexpected(schedule.error());
  if (!file_of_scenario(options).empty()) {  // its importer wants a schedule by name, of which only the stages count
    options.overrides.insert(options.overrides.begin(),
                             {"parallel.pp_schedule=" + std::string(default_schedule(schedule->chunks)),
                              fmt::format("parallel.vpp={}", schedule->chunks)});
  }
  const Result<Scenario> scenario = named_scenario(options.times_from, options.overrides);
  if (!scenario) return tl::unexpected(scenario.error());
  std::vector<ScheduleView> views;
  Result<ScheduleView> first = view_of(*schedule, *scenario, file->with_communication ? &file->rows : nullptr);
  if (!first) return tl::unexpected(first.error());
  views.push_back(std::move(*first));
  options.request.ranks = schedule->ranks;
  options.request.microbatches = schedule->microbatches;
  for (const std::string& name : options.compare) {
    const Result<Schedule> other = schedule_in(*scenario, options, name);
    if (!other) return tl::unexpected(other.error());
    Result<ScheduleView> view = flushed_or_steady(
        *other, name, options.request, [&](const Schedule& each) { return view_of(each, *scenario, nullptr); });
    if (!view) return tl::unexpected(view.error());
    views.push_back(std::move(*view));
  }
  return views;
}

bool is_pair(const Action& action) { return action.kind == ActionKind::forward_backward; }

/// `names`: of the schedules that are shown, without that of --file.
Result<void> check_readers(const char* option, const std::string& value, const std::vector<std::string>& names,
                           bool (*reads)(const ScheduleVariant&)) {
  std::string readers;
  for (const ScheduleVariant& variant : schedule_variants())
    if (reads(variant)) readers += " " + std::string(variant.name);
  for (const std::string& name : names)
    if (const ScheduleVariant* variant = find_schedule(name); variant == nullptr || reads(*variant)) return {};
  return fail_key(option, value, "has no effect on these schedules (only on:" + readers + ")");
}

/// Options that would have no effect.
Result<void> check_effects(const ScheduleOptions& options) {
  const ScheduleRequest& request = options.request;
  std::vector<std::string> names = options.compare;
  const bool from_file = !options.file.empty();
  if (!from_file) names.insert(names.begin(), options.schedule.empty() ? kDefaultSchedule : options.schedule);
  Result<void> ok;
  if (options.dialect != "detect" && !from_file) return fail_key("--dialect", options.dialect, "needs --file");
  if (request.group_size > 0)
    ok = check_readers("--group-size", std::to_string(request.group_size), names, reads_group_size);
  if (ok && request.memory_limit > 0)
    ok = check_readers("--memory-limit", fmt::format("{:g}", request.memory_limit), names, reads_memory_limit);
  if (ok && request.chunks > 0 && names.empty())
    ok = fail_key("--virtual", std::to_string(request.chunks), "has no effect: the file has its own chunks");
  if (!ok || options.times.overlapped.empty()) return ok;
  if (from_file) {
    const Result<PytorchSchedule> file = file_of(options);
    const Result<Schedule> schedule = file ? schedule_of(*file) : tl::unexpected(file.error());
    if (!schedule) return tl::unexpected(schedule.error());
    for (const std::vector<Action>& list : schedule->actions)
      if (std::ranges::any_of(list, is_pair)) return {};
  }
  return check_readers("--tfb", options.times.overlapped, names,
                       [](const ScheduleVariant& variant) { return variant.has_pairs; });
}

}  // namespace

Result<PytorchSchedule> file_of(const ScheduleOptions& options) {
  const ScheduleDialect dialect = options.dialect == "legacy"    ? ScheduleDialect::legacy
                                  : options.dialect == "current" ? ScheduleDialect::current
                                                                 : ScheduleDialect::detect;
  return of_this_project(read_pytorch_schedule(options.file, dialect), options.file, "a pipeline schedule");
}

Result<std::vector<ScheduleView>> views_of(ScheduleOptions options) {
  if (!options.times_from.empty() && options.file.empty()) options.file = file_of_scenario(options);
  if (Result<void> ok = check_effects(options); !ok) return tl::unexpected(ok.error());
  if (!options.times_from.empty()) return options.file.empty() ? scenario_views(options) : timed_views(options);
  if (options.schedule.empty()) options.schedule = kDefaultSchedule;
  if (options.request.microbatches == 0) options.request.microbatches = kUsualMicrobatches;
  std::vector<ScheduleView> views;
  Result<ScheduleView> first = options.file.empty() ? named_view(options, options.schedule, false) : file_view(options);
  if (!first) return tl::unexpected(first.error());
  views.push_back(std::move(*first));
  if (options.with_latency_only) {
    Result<ScheduleView> free = named_view(without_rules(options), options.schedule, false);
    if (!free) return tl::unexpected(free.error());
    free->rules = kLatencyOnly;
    views.push_back(std::move(*free));
  }
  for (const std::string& name : options.compare) {
    Result<ScheduleView> view = named_view(options, name, true);
    if (!view) return tl::unexpected(view.error());
    views.push_back(std::move(*view));
  }
  return views;
}

}  // namespace tracecast::cli
