#include "sim/report/goodput_report.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/base/quantity_text.hpp"
#include "sim/forecast/engine_step_times.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/io/files.hpp"
#include "sim/plan/fine_tuning.hpp"
#include "sim/report/goodput_svg.hpp"
#include "sim/report/page_sources.hpp"
#include "tests/support/json_schema.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;
namespace fs = std::filesystem;

namespace {

GoodputRequest llama(const std::string& failures, const std::vector<std::string>& overrides = {}) {
  GoodputRequest request;
  request.scenario = shipped_scenario("llama3-405b-16k");
  request.failures =
      read_failure_file(source_dir() / "scenarios" / "failures" / (failures + ".json"), overrides).value();
  request.find_best_interval = false;
  request.options.min_histories = request.options.max_histories = 100;
  request.options.threads = 2;
  return request;
}

double goodput_of(const GoodputRequest& request) {
  const GoodputForecast report = value_of(forecast_goodput(request));
  return report.goodput.goodput.mean;
}

}  // namespace

TEST_CASE("without failures and checkpoints the goodput is the throughput of the step engine",
          "[oracle][reliability]") {
  GoodputRequest request = llama("llama3-54-days", {"checkpoint.mode=off"});
  request.failures.model.kinds.clear();
  const GoodputForecast report = forecast_goodput(request).value();
  const ForecastRun run = forecast(request.scenario).value();
  CHECK(report.goodput.goodput.mean == 1);
  CHECK(report.goodput.goodput.low == 1);
  CHECK(report.healthy.time == run.timeline.step_time);
  CHECK(report.tokens_per_s() * report.goodput.goodput.mean == Approx(run.forecast.tokens_per_s).epsilon(1e-15));
}

TEST_CASE("ranks that write a checkpoint follow from the sharding, by either of its names", "[reliability]") {
  const auto writers = [](const std::string& strategy) {
    GoodputRequest request = llama("llama3-54-days");
    request.scenario = shipped_scenario("p5-llama2-13b-16");
    request.scenario.parallel.zero_stage = 0;
    request.scenario.parallel.sharding_strategy = *parse_enum<ShardingStrategy>(strategy);
    if (strategy == "HYBRID_SHARD") request.scenario.parallel.shard_group = 8;
    return forecast_goodput(request).value().shape.writers;
  };
  CHECK(writers("FULL_SHARD") == 16);
  CHECK(writers("HYBRID_SHARD") == 8);
  CHECK(writers("NO_SHARD") == 1);
}

TEST_CASE("Llama 3's 54 days: effective training time above 90 %, with a band for assumptions",
          "[validation][reliability]") {
  const double base = goodput_of(llama("llama3-54-days"));
  CHECK(base > 0.90);
  CHECK(base < 0.95);
  // What is not published, at its ends: restarts twice as long and half as long, checkpoints that hide.
  const double slow = goodput_of(
      llama("llama3-54-days", {"recovery.scheduler=3 min", "recovery.container=3 min", "recovery.diagnosis=3 min"}));
  const double hidden = goodput_of(llama("llama3-54-days", {"checkpoint.mode=async"}));
  CHECK(slow < base);
  CHECK(slow > 0.85);
  CHECK(hidden > base);
  CHECK(hidden < 0.97);
}

TEST_CASE("other published goodputs", "[validation][reliability]") {
  SECTION("RSC-1: about 0.9 for jobs of more than 1024 GPUs, of which none had all 16,000") {
    const auto at = [](int replicas) {
      GoodputRequest request = llama("meta-rsc-1");
      request.scenario =
          shipped_scenario("llama3-405b-16k", {"cluster.world_size=" + std::to_string(128 * replicas),
                                               "parallel.dp=" + std::to_string(replicas),
                                               "training.global_batch_size=" + std::to_string(16 * replicas)});
      return goodput_of(request);
    };
    CHECK(at(8) > 0.95);   // 1024
    CHECK(at(32) > 0.90);  // 4096
    CHECK(at(64) < 0.90);  // 8192
  }
  SECTION("OPT-175B: 33 days of work took about 57 on 992 GPUs") {
    const auto with = [](const std::vector<std::string>& overrides) {
      GoodputRequest request = llama("opt-175b-logbook", overrides);
      request.scenario = shipped_scenario(
          "llama3-405b-16k", {"model=llama-3.1-70b", "cluster.world_size=992", "parallel.dp=31", "parallel.tp=8",
                              "parallel.pp=4", "parallel.vpp=1", "training.global_batch_size=992"});
      request.days = 60;
      return goodput_of(request);
    };
    // With somebody awake, and with nobody: what was observed lies below both, for work that was thrown away by hand
    // (changed learning rates, restarted lineages) is counted there and not here.
    const double awake = with({});
    const double asleep = with({"recovery.crash_detection=2 h", "recovery.diagnosis=4 h"});
    CHECK(awake < 0.80);
    CHECK(asleep < awake);
    CHECK(asleep == Approx(33.0 / 57).margin(0.08));
  }
  SECTION("MegaScale: more than 90 % of the time") {
    GoodputRequest request = llama("megascale");
    request.scenario = shipped_scenario(
        "llama3-405b-16k", {"cluster.world_size=12288", "parallel.dp=96", "training.global_batch_size=1536"});
    CHECK(goodput_of(request) > 0.90);
    CHECK(goodput_of(request) < 0.97);
  }
}

TEST_CASE("steps of a degraded machine come from the engine", "[reliability]") {
  const Scenario small = shipped_scenario(
      "llama3-405b-16k", {"cluster.world_size=2048", "parallel.dp=16", "training.global_batch_size=256"});
  const EngineStepTimes shrink(small);
  const StepTime healthy = shrink.of({}).value();
  CHECK(healthy.tokens == 256 * 8192);

  SECTION("a smaller batch with fewer replicas is that layout") {
    const StepTime less = shrink.of({.lost_replicas = 1}).value();
    CHECK(less.tokens == 240 * 8192);
    const Scenario fewer = shipped_scenario(
        "llama3-405b-16k", {"cluster.world_size=1920", "parallel.dp=15", "training.global_batch_size=240"});
    CHECK(less.time == forecast(fewer).value().timeline.step_time);
  }
  SECTION("the same batch on fewer replicas takes ceil(B / (D-1)) micro-batches") {
    const StepTime kept = EngineStepTimes(small, true).of({.lost_replicas = 1}).value();
    CHECK(kept.tokens == healthy.tokens);
    CHECK(kept.time > healthy.time);
  }
  SECTION("a slow GPU lengthens the step by less than its own slowness, and more so the slower it is") {
    const StepTime at80 = shrink.of({.gpu_speed_percent = 80}).value();
    const StepTime at50 = shrink.of({.gpu_speed_percent = 50}).value();
    CHECK(at80.time > healthy.time);
    CHECK(seconds(at80.time) < seconds(healthy.time) / 0.8);
    CHECK(at50.time > at80.time);
  }
  SECTION("lost rails and slow links never shorten it") {
    CHECK(shrink.of({.lost_rails = 1}).value().time >= healthy.time);
    CHECK(shrink.of({.link_speed_percent = 25}).value().time > healthy.time);
    CHECK(shrink.of({.uplink_speed_percent = 50}).value().time >= healthy.time);
  }
  SECTION("a forecast that is known is taken for the machine as it is, and with a slow GPU, and for nothing else") {
    ForecastRun known = forecast(small).value();
    const EngineStepTimes same(small, false, 0, &known);
    for (const MachineState& state : {MachineState{}, {.gpu_speed_percent = 80}, {.lost_rails = 1}})
      CHECK(same.of(state).value() == shrink.of(state).value());
    known.timeline.step_time = 2 * known.timeline.step_time;
    CHECK(same.of({}).value().time == 2 * healthy.time);
    CHECK(same.of({.lost_rails = 1}).value() == shrink.of({.lost_rails = 1}).value());
  }
  SECTION("a slow GPU is slower than perturb.slow_rank makes it already, with packed documents too") {
    const Scenario packed = shipped_scenario("llama3-8b-packed", {"perturb.slow_rank={\"0-31\": 2}"});
    const EngineStepTimes steps(packed);
    const double as_it_is = seconds(steps.of({}).value().time);
    CHECK(seconds(steps.of({.gpu_speed_percent = 80}).value().time) > 1.1 * as_it_is);
  }
  SECTION("a measured step time keeps the engine's ratios") {
    const EngineStepTimes measured(small, false, 10);
    CHECK(measured.of({}).value().time == from_seconds(10));
    CHECK(seconds(measured.of({.gpu_speed_percent = 50}).value().time) / 10 ==
          Approx(seconds(shrink.of({.gpu_speed_percent = 50}).value().time) / seconds(healthy.time)));
  }
}

TEST_CASE("page, JSON and pictures have the same numbers", "[report][reliability]") {
  GoodputRequest request = llama("llama3-54-days");
  request.find_best_interval = true;
  request.goal_tokens = 15'600'000'000'000;
  request.price_per_gpu_hour = 2;
  const GoodputForecast report = forecast_goodput(request).value();
  const nlohmann::json json = nlohmann::json::parse(goodput_json(report));
  CHECK(json["goodput"]["mean"] == report.goodput.goodput.mean);
  double sum = 0;
  for (const auto& [name, share] : json["waterfall"].items()) sum += share.get<double>();
  CHECK(sum == Approx(1));
  CHECK(json["waterfall"]["productive"].get<double>() == Approx(report.goodput.goodput.mean));
  CHECK(json["to_finish"]["days"]["mean"].get<double>() ==
        Approx(15.6e12 / report.tokens_per_s() / 86400 / report.goodput.goodput.mean));
  // The spares of the model, whole nodes of 8, are paid for as `plan` pays them.
  CHECK(report.spec.recovery.spares > 0);
  CHECK(json["to_finish"]["usd"].get<double>() ==
        Approx(2 * 24 * report.goal_days * (16384 + 8 * report.spec.recovery.spares)));
  // Histories of 54 days differ by less than 1 %: P10 to P90 is nearly that of the step, 1.2816 / 1.6449 of its 90 % band.
  const Band band = forecast(request.scenario).value().forecast.band;
  const double of_step = std::log(band.p95_s / band.p5_s) * 1.2816 / 1.6449;
  CHECK(std::log(report.goal_days_p90 / report.goal_days_p10) == Approx(of_step).epsilon(0.01));
  CHECK(json["to_finish"]["days"]["p10"].get<double>() == report.goal_days_p10);
  CHECK(json["checkpoint"]["best"]["trials"].size() >= 9);

  const std::string screen = goodput_page(report, {.width = 100, .unicode = true});
  CHECK(std::count(screen.begin(), screen.end(), '\n') <= 45);
  CHECK(screen.find("14 other kinds") != std::string::npos);
  CHECK(screen.find("day  54") == std::string::npos);
  const std::string page = goodput_page(report, {.width = 100, .unicode = true}, true);
  for (const char* words :
       {"goodput", "Where the time goes", "best in closed form", "faulty GPU", "day  54", "to finish"})
    CHECK(page.find(words) != std::string::npos);
  CHECK(page.find(" USD with spare nodes") != std::string::npos);
  const std::string days = timeline_svg(report);
  CHECK(days.find(">12 h<") != std::string::npos);
  CHECK(days.find(">degraded<") == std::string::npos);  // does not occur
  for (const std::string& svg : {waterfall_svg(report), timeline_svg(report), distribution_svg(report),
                                 sweep_svg("spares", {{"0", report}, {"16", report}})}) {
    CHECK(svg.starts_with("<svg"));
    CHECK(svg.ends_with("</svg>\n"));
    CHECK(svg.find("\"nan") == std::string::npos);
    CHECK(svg.find("prefers-color-scheme:dark") != std::string::npos);
  }
}

TEST_CASE("goodput report: padding is not among the tokens to finish", "[goodput][report][packing]") {
  GoodputRequest request = llama("llama3-54-days");
  request.options.min_histories = request.options.max_histories = 8;
  ForecastRun step = value_of(forecast(request.scenario));
  request.step = &step;
  const double days = value_of(forecast_goodput(request)).goal_days;
  step.forecast.packed = PackedForecast{.steps = 1, .useful_share = 0.5};
  CHECK(value_of(forecast_goodput(request)).goal_days == Approx(2 * days));
}

TEST_CASE("a checkpoint has 14 bytes per parameter whatever the layout that writes it, 12 with weights in fp32 only",
          "[row-0-26][requirements][report][reliability]") {
  constexpr std::int64_t kParameters = 405'853'388'800;
  const auto saved = [](const std::vector<std::string>& layout) {
    GoodputRequest request = llama("llama3-54-days");
    request.scenario = shipped_scenario("llama3-405b-16k", layout);
    request.step_time_s = 7;
    request.options.min_histories = request.options.max_histories = 2;
    const GoodputForecast report = forecast_goodput(request).value();
    const std::int64_t bytes = nlohmann::json::parse(goodput_json(report))["checkpoint"]["bytes"];
    const char* const text = bytes == 14 * kParameters ? "5.17 TiB (" : "4.43 TiB (";
    CHECK(goodput_page(report, {.width = 100}).find(text) != std::string::npos);
    return bytes;
  };
  CHECK(saved({"parallel.dp=0", "parallel.zero_stage=0"}) == 14 * kParameters);
  CHECK(saved({"parallel.dp=0", "parallel.pp=8"}) == 14 * kParameters);
  CHECK(saved({"parallel.dp=0", "parallel.zero_stage=3"}) == 12 * kParameters);  // FSDP
  CHECK(saved({"parallel.dp=0", "parallel.zero_stage=3", "parallel.data_parallel=deepspeed"}) == 14 * kParameters);
}

TEST_CASE("a checkpoint has what is trained, and copies of a shard group write nothing", "[report][reliability]") {
  const auto report = [](const std::vector<std::string>& changes, const std::vector<std::string>& overrides = {}) {
    GoodputRequest request = llama("llama3-54-days", overrides);
    std::vector<std::string> all{"parallel.dp=0"};
    all.insert(all.end(), changes.begin(), changes.end());
    request.scenario = shipped_scenario("llama3-405b-16k", all);
    request.step_time_s = 7;
    request.options.min_histories = request.options.max_histories = 2;
    return value_of(forecast_goodput(request));
  };
  const auto page = [](const GoodputForecast& each) { return goodput_page(each, {.width = 200}); };
  CHECK(page(report({}))
            .find("weights 756 GiB, master weights 1.48 TiB, optimizer states 2.95 TiB of 405.9 billion "
                  "trained parameters") != std::string::npos);
  CHECK(report({"training.optimizer=sgd"}).shape.size == Bytes{6 * std::int64_t{405'853'388'800}});
  const GoodputForecast lora = report({"training.lora_rank=16"});
  CHECK(lora.shape.size ==
        Bytes{14 * adapter_parameters(shipped_scenario("llama3-405b-16k").model, Training{.lora_rank = 16})});
  CHECK(page(lora).find("million trained parameters") != std::string::npos);
  CHECK(report({}, {"checkpoint.bytes_per_parameter=12"}).shape.size == Bytes{12 * std::int64_t{405'853'388'800}});

  CHECK(report({"parallel.zero_stage=1"}).shape.writers == 16384);
  CHECK(report({"parallel.zero_stage=1", "parallel.tp=8", "parallel.pp=16", "parallel.cp=1", "parallel.shard_group=8"})
            .shape.writers == 8 * 16 * 8);
}

TEST_CASE("goodput: pages have the colours of the pictures", "[report][reliability]") {
  for (std::size_t i = 0; i < kTimeCategories; ++i) {
    const auto what = static_cast<TimeCategory>(i);
    const std::string name = to_string(what);
    const std::string key = name.find(' ') == std::string::npos ? name : "\"" + name + "\"";
    INFO(name);
    CHECK(kReportPage.find(key + ": \"" + style_of(what).fill + "\"") != std::string_view::npos);
  }
}

TEST_CASE("goodput --json matches its schema, with and without optional parts", "[report][reliability][schema]") {
  const fs::path schema = source_dir() / "docs/schema/goodput.schema.json";
  GoodputRequest request = llama("llama3-54-days");
  request.options.min_histories = request.options.max_histories = 2;  // how sure the figures are does not matter here
  CHECK(schema_violations(schema, goodput_json(forecast_goodput(request).value())) == std::vector<std::string>{});
  request = llama("llama3-54-days", {"recovery.elastic=shrink-batch", "checkpoint.mode=tiered"});
  request.options.min_histories = request.options.max_histories = 2;
  request.find_best_interval = true;
  request.goal_tokens = 15'600'000'000'000;
  request.resume_from = ShardLayout{8, 8, 256};
  CHECK(schema_violations(schema, goodput_json(forecast_goodput(request).value())) == std::vector<std::string>{});
  request.failures.model.kinds.clear();  // nothing fails: no mean time between failures
  CHECK(schema_violations(schema, goodput_json(forecast_goodput(request).value())) == std::vector<std::string>{});
}

TEST_CASE("the storage comes from the failure model, the topology or an assumption, in this order", "[reliability]") {
  GoodputRequest request = llama("llama3-54-days");
  const GoodputForecast topology = forecast_goodput(request).value();
  CHECK(topology.storage_from == StorageFrom::topology);
  CHECK(topology.checkpoint.storage_write.bytes_per_second == 2'000'000'000'000);
  request.scenario.cluster.storage = {};
  const GoodputForecast assumed = forecast_goodput(request).value();
  CHECK(assumed.storage_from == StorageFrom::assumed);
  CHECK(assumed.checkpoint.storage_read.bytes_per_second == 2'048'000'000'000);
  request = llama("llama3-54-days", {"checkpoint.storage_write=4 TB/s"});
  const GoodputForecast stated = forecast_goodput(request).value();
  CHECK(stated.storage_from == StorageFrom::failures);
  CHECK(stated.checkpoint.storage_read.bytes_per_second == 2'000'000'000'000);
  CHECK(seconds(stated.spec.checkpoint.tiers[0].stall) < seconds(topology.spec.checkpoint.tiers[0].stall));
}

TEST_CASE("the course of the training reaches the engine: each batch of the ramp has its own step", "[reliability]") {
  GoodputRequest request = llama("llama3-54-days", {"run.batch_ramp=[{\"from_tokens\": 0, \"global_batch\": 1024}, "
                                                    "{\"from_tokens\": 100000000000, \"global_batch\": 2048}]",
                                                    "run.target_tokens=200e9"});
  const GoodputForecast report = forecast_goodput(request).value();
  CHECK(report.goodput.tokens.mean == Approx(200e9).epsilon(1e-3));
  CHECK(report.goodput.wall_s.mean < 54 * 86400.0);
  REQUIRE(report.states.size() >= 3);
  std::vector<std::int64_t> batches;
  for (const auto& [state, step] : report.states) batches.push_back(step.tokens / 8192);
  CHECK(std::count(batches.begin(), batches.end(), 1024) == 1);
}

TEST_CASE("days to finish follow the batch ramp beyond the simulated days", "[oracle][reliability]") {
  GoodputRequest request = llama("llama3-54-days", {"checkpoint.mode=off",
                                                    "run.batch_ramp=[{\"from_tokens\": 0, \"global_batch\": 1024}, "
                                                    "{\"from_tokens\": 100000000000, \"global_batch\": 4096}]"});
  request.failures.model.kinds.clear();
  request.days = 0.01;
  request.goal_tokens = 300'000'000'000;
  const GoodputForecast report = forecast_goodput(request).value();
  const EngineStepTimes steps(request.scenario);
  const auto tokens_per_s = [&](std::int64_t batch) {
    return static_cast<double>(batch) * 8192 / seconds(steps.of({.global_batch = batch}).value().time);
  };
  CHECK(report.goal_days * 86'400 == Approx(100e9 / tokens_per_s(1024) + 200e9 / tokens_per_s(4096)));
  CHECK(report.goal_gpu_hours == Approx(report.goal_days * 24 * 16'384));
  const nlohmann::json json = nlohmann::json::parse(goodput_json(report));
  CHECK(json["effective_tokens_per_s"].get<double>() == Approx(tokens_per_s(1024)));
  CHECK(json["tokens_per_s"].get<double>() == Approx(tokens_per_s(2048)));  // the scenario's batch
}

TEST_CASE("the best interval is not shorter than the writing of a checkpoint", "[reliability]") {
  GoodputRequest request = llama("llama3-54-days", {"checkpoint.mode=async", "checkpoint.storage_write=50 GB/s"});
  request.step_time_s = 50;
  const GoodputForecast report = forecast_goodput(request).value();
  const double persist = seconds(report.spec.checkpoint.tiers.front().persist);
  CHECK(report.optimal_s < persist);
  CHECK(persist < 2.5 * 50);  // nearer to two steps than to three
  CHECK(report.spec.checkpoint.interval_steps == 3);
}

TEST_CASE("link flaps that outlast the budget count in the mean time between failures", "[oracle][reliability]") {
  GoodputRequest request = llama("llama3-54-days", {"checkpoint.mode=off", "recovery.flap_budget=30 s"});
  request.step_time_s = 7;
  request.options.min_histories = request.options.max_histories = 2;
  FailureKind flap{.name = "flap", .effect = Effect::link_flap, .scope = RateUnit::job};
  flap.law.mean_s = 3600;
  const auto mtbf_s = [&](const Law& lasts, double wanted_s = 0) {
    flap.lasts = lasts;
    request.failures.model.kinds = {flap};
    request.mtbf_s = wanted_s;
    return forecast_goodput(request).value().mtbf_s;
  };
  CHECK(mtbf_s({LawKind::exponential, 120, 1}) == Approx(3600 * std::exp(30.0 / 120)));
  CHECK(mtbf_s({LawKind::fixed, 30, 1}) == 3600);
  CHECK(std::isinf(mtbf_s({LawKind::fixed, 29, 1})));
  CHECK(mtbf_s({LawKind::exponential, 120, 1}, 7200) == Approx(7200));
}

TEST_CASE("the page counts interruptions in the days that were simulated", "[report][reliability]") {
  GoodputRequest request = llama("llama3-54-days", {"run.target_tokens=200e9"});
  request.step_time_s = 7;
  request.goal_tokens = 15'600'000'000'000;
  GoodputForecast report = forecast_goodput(request).value();
  CHECK(report.goodput.wall_s.mean < 2 * 86'400);
  const std::string page = goodput_page(report, {.width = 100});
  CHECK(page.find(" in 54.0 days; one every") == std::string::npos);
  CHECK(page.find(" in " + duration_in_words(report.goodput.wall_s.mean) + "; one every") != std::string::npos);
  CHECK(page.find(" while the job runs\n") != std::string::npos);
  // Histories end at the target, whatever the longest one: P10 and P90 of the days to finish are the same.
  request.days = 216;
  const GoodputForecast longer = forecast_goodput(request).value();
  CHECK(longer.goal_days_p90 == report.goal_days_p90);
}

TEST_CASE("a job that nothing interrupts is never interrupted", "[report][reliability]") {
  GoodputRequest request = llama("llama3-54-days");
  std::erase_if(request.failures.model.kinds, [](const FailureKind& kind) { return kind.effect != Effect::planned; });
  request.step_time_s = 7;
  const GoodputForecast report = forecast_goodput(request).value();
  CHECK(goodput_page(report, {.width = 100}).find("0.0 in 54.0 days; never\n") != std::string::npos);
}

TEST_CASE("a history's legend has the letters that occur, and its title the days that are shown",
          "[report][reliability]") {
  GoodputRequest request = llama("llama3-54-days");
  request.step_time_s = 7;
  request.days = 2;
  GoodputForecast report = forecast_goodput(request).value();
  report.sample.wall = job_time(2 * 86'400.0);
  report.sample.spans = {{{}, job_time(43'200.0), TimeCategory::productive, ""},
                         {job_time(43'200.0), job_time(86'400.0), TimeCategory::waiting, "x"},
                         {job_time(86'400.0), report.sample.wall, TimeCategory::productive, ""}};
  const auto ends_with_legend = [&](const std::string& legend) {
    return goodput_page(report, {.width = 100}, true).ends_with("\n  " + legend + "\n");
  };
  CHECK(ends_with_legend(". runs, w waiting"));
  CHECK(goodput_page(report, {.width = 100}, true).find("One history (number 0) -") != std::string::npos);
  report.sample.spans.resize(1);
  CHECK(ends_with_legend(". runs"));
  report.sample.wall = job_time(99.5 * 86'400.0);
  CHECK(goodput_page(report, {.width = 100}, true).find("One history (number 0), first 60 of 100 days -") !=
        std::string::npos);
}

TEST_CASE("the restart of the closed form is the sum of its phases", "[oracle][reliability]") {
  const GoodputRequest request =
      llama("llama3-54-days", {"recovery.crash_detection=11 s", "recovery.diagnosis=13 s", "recovery.scheduler=17 s",
                               "recovery.container=19 s", "recovery.spare_swap=23 s", "recovery.warm_up=29 s",
                               "recovery.start_per_1k_ranks=1 s", "recovery.communicators_per_1k_ranks=2 s",
                               "recovery.communicators_exponent=1"});
  const GoodputForecast report = forecast_goodput(request).value();
  const double load = seconds(report.spec.checkpoint.tiers.back().load);
  CHECK(report.restart_s == Approx(11 + 13 + 17 + 19 + 23 + 29 + 3 * 16.384 + load));
}

TEST_CASE("shards read whole take as much longer as more bytes are read", "[oracle][reliability]") {
  GoodputRequest request = llama("llama3-54-days", {"checkpoint.metadata=0 s"});
  request.resume_from = ShardLayout{8, 8, 256};
  const Resume resume = forecast_goodput(request).value().resume.value();
  CHECK(resume.read.amplification() > 1.3);
  CHECK(resume.slices_s == resume.same_layout_s);
  CHECK(resume.whole_shards_s == Approx(resume.slices_s * resume.read.amplification()));
}

TEST_CASE("without ZeRO one replica writes the checkpoint, with it every rank", "[oracle][reliability]") {
  const auto writers = [](int zero_stage) {
    GoodputRequest request = llama("llama3-54-days", {"checkpoint.mode=off"});
    request.scenario = shipped_scenario("zero-1-7.5b", {"parallel.zero_stage=" + std::to_string(zero_stage)});
    const GoodputForecast report = forecast_goodput(request).value();
    return std::pair(report.shape.writers, report.shape.ranks / report.spec.replicas);
  };
  CHECK(writers(0).first == writers(0).second);
  CHECK(writers(1).first > writers(1).second);
}

TEST_CASE("days to finish the tokens that histories end at are their mean length", "[oracle][report][reliability]") {
  GoodputRequest request = llama("llama3-54-days", {"checkpoint.mode=off", "run.target_tokens=10e9"});
  request.step_time_s = 7;
  request.goal_tokens = 10'000'000'000;
  const GoodputForecast report = value_of(forecast_goodput(request));
  CHECK(report.goal_days * 86'400 == Approx(report.goodput.wall_s.mean));
  CHECK(report.goal_days_p10 < report.goal_days);
  const std::string page = goodput_page(report, {.width = 100});
  const std::string days = duration_in_words(report.goodput.wall_s.mean);
  CHECK(page.find("10.02 B tokens on average, after " + days) != std::string::npos);
  CHECK(page.find("10 B tokens in " + days) != std::string::npos);
}

TEST_CASE("without checkpoints, histories say nothing about runs of another length", "[report][reliability][schema]") {
  GoodputRequest request = llama("llama3-54-days", {"checkpoint.mode=off"});
  request.step_time_s = 7;
  request.goal_tokens = 10'000'000'000;
  request.days = 5;
  const GoodputForecast report = value_of(forecast_goodput(request));
  CHECK(report.goal_days == 0);
  const std::string page = goodput_page(report, {.width = 160});
  CHECK(page.find("10 B tokens: not known; without checkpoints the goodput depends on the length of a history (--until "
                  "1e+10 simulates all)") != std::string::npos);
  CHECK(schema_violations(source_dir() / "docs/schema/goodput.schema.json", goodput_json(report)).empty());
  // An interval near the length of a history is no better, one far below it is.
  const auto with = [&](const std::string& interval) {
    GoodputRequest other = request;
    other.failures = llama("llama3-54-days", {"checkpoint.interval=" + interval}).failures;
    return value_of(forecast_goodput(other)).goal_days;
  };
  CHECK(with("2 d") == 0);
  CHECK(with("1 h") > 0);
}

TEST_CASE("elastic continuation rolls back as the layout says, unless the file does", "[report][reliability][schema]") {
  const auto report = [](const std::vector<std::string>& layout, std::vector<std::string> recovery) {
    recovery.emplace_back("recovery.elastic=shrink-batch");
    GoodputRequest request = llama("llama3-54-days", recovery);
    request.scenario = shipped_scenario("llama3-405b-1024", layout);
    request.step_time_s = 30;
    request.days = 5;
    request.options.min_histories = request.options.max_histories = 4;
    return value_of(forecast_goodput(request));
  };
  const auto said = [](const GoodputForecast& r, const std::string& words) {
    return goodput_page(r, {.width = 200}).find("shrink-batch; " + words) != std::string::npos;
  };
  const GoodputForecast zero3 = report({}, {});
  CHECK(zero3.spec.recovery.elastic_rollback);
  CHECK(said(zero3, "no other node holds the states of a lost node in this layout: the job rolls back"));
  CHECK(schema_violations(source_dir() / "docs/schema/goodput.schema.json", goodput_json(zero3)).empty());
  const GoodputForecast whole = report({"parallel.zero_stage=0"}, {});
  CHECK_FALSE(whole.spec.recovery.elastic_rollback);
  CHECK(said(whole, "other nodes hold the states of a lost node in this layout: the job goes on without a rollback"));
  const GoodputForecast given = report({}, {"recovery.elastic_rollback=false"});
  CHECK_FALSE(given.spec.recovery.elastic_rollback);
  CHECK(said(given, "the job goes on without a rollback, as recovery.elastic_rollback says, although no other node"));
}

TEST_CASE("one history has no interval, and one of a thing is not many", "[report][reliability][schema]") {
  GoodputRequest request = llama("llama3-54-days");
  request.scenario = shipped_scenario("llama2-7b-one-gpu");
  request.step_time_s = 1;
  request.options.min_histories = request.options.max_histories = 1;
  const GoodputForecast report = value_of(forecast_goodput(request));
  const std::string page = goodput_page(report, {.width = 100});
  CHECK(page.find(", 1 GPU, failures as") != std::string::npos);
  CHECK(page.find(" %, 1 history, which gives no interval\n") != std::string::npos);
  CHECK(page.find("95 % interval") == std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(goodput_json(report));
  CHECK(json["goodput"]["standard_error"].is_null());
  CHECK_FALSE(json["events"].contains("network switch or cable"));  // nothing is between nodes
  CHECK(schema_violations(source_dir() / "docs/schema/goodput.schema.json", goodput_json(report)).empty());
}

TEST_CASE("states of a degraded machine keep their whole names", "[report][reliability]") {
  GoodputRequest request = llama("llama3-54-days");
  request.step_time_s = 7;
  request.days = 1;
  request.options.min_histories = request.options.max_histories = 2;
  GoodputForecast report = value_of(forecast_goodput(request));
  const StepTime step{from_seconds(8), 1000};
  const MachineState both{.gpu_speed_percent = 50, .link_speed_percent = 10};
  const MachineState all{.lost_replicas = 12,
                         .gpu_speed_percent = 50,
                         .link_speed_percent = 10,
                         .uplink_speed_percent = 50,
                         .lost_rails = 1,
                         .global_batch = 1024};
  report.states = {{MachineState{}, step}, {both, step}, {all, step}};
  const std::string page = goodput_page(report, {.width = 80});
  CHECK(page.find("  a GPU at 50 %, links at 10 %  ") != std::string::npos);
  CHECK(page.find("12 replicas out, a GPU at 50 %, links at 10 %, uplinks at 50 %, a rail") != std::string::npos);
}
