#include "tools/what_if.hpp"

#include <algorithm>
#include <set>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/base/random.hpp"
#include "sim/base/units.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/forecast/goodput_forecast.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;
using namespace tracecast::cli;
using nlohmann::json;

namespace {

/// The answer of a fresh session.
std::string answer_to(const std::string& request) {
  RecentSteps recent;
  return answer_what_if(request, shipped_data(), recent);
}

json answer(const json& request) {
  const std::string text = answer_to(request.dump());
  CHECK(text.find('\n') == std::string::npos);
  return json::parse(text);
}

json forecast_request() { return {{"what", "forecast"}, {"scenario", "llama3-405b-16k"}}; }

std::vector<std::string> sentences(const json& request) {
  const json said = answer(request);
  CHECK(said["ok"] == false);
  return said["errors"];
}

}  // namespace

TEST_CASE("what if: an answer is the forecast of the command line", "[serve]") {
  json request = forecast_request();
  request["set"] = {{"training.global_batch_size", 4096}, {"parallel.pp_schedule", "interleaved-1f1b"}};
  const json said = answer(request);
  REQUIRE(said["ok"] == true);
  const Result<Scenario> scenario =
      read_scenario(shipped_data().scenarios / "published" / "llama3-405b-16k.json", shipped_data(),
                    {"training.global_batch_size=4096", "parallel.pp_schedule=interleaved-1f1b"});
  REQUIRE(scenario);
  const Result<ForecastRun> run = forecast(*scenario);
  REQUIRE(run);
  CHECK(said["result"]["step_time_s"] == run->forecast.step_time_s);
  CHECK(said["scenario"] == to_json(*scenario));
  CHECK(said["settings"]["dp"] == 128);
  CHECK_FALSE(said.contains("goodput"));
  // Without failures the days are the tokens over the throughput.
  CHECK(said["job"]["days"].get<double>() == Approx(15.6e12 / run->forecast.tokens_per_s / 86400));
}

TEST_CASE("what if: while a slider moves, an answer leaves out what is possible, and knows goodput less exactly",
          "[serve]") {
  json request = forecast_request();
  request["failures"] = {{"model", "llama3-54-days"}};
  const json rests = answer(request);
  request["moving"] = true;
  const json moving = answer(request);
  CHECK(moving["ok"] == true);
  CHECK(rests.contains("possible"));
  CHECK_FALSE(moving.contains("possible"));
  const auto half_width = [](const json& said) {
    return (said["goodput"]["high"].get<double>() - said["goodput"]["low"].get<double>()) / 2;
  };
  CHECK(half_width(rests) < 0.002);
  CHECK(half_width(moving) < 0.005);
  CHECK(half_width(moving) > half_width(rests));
  CHECK(moving["goodput"]["mean"].get<double>() == Approx(rests["goodput"]["mean"].get<double>()).margin(0.005));
}

TEST_CASE("what if: what was asked before does not change an answer", "[serve]") {
  // In turn: other failures, another slow rank, one factor more, none, two ranks with equal and with other factors, another
  // link rate, another batch, and all of them again.
  std::vector<json> requests;
  const auto ask = [&](const json& set, const json& failures) {
    requests.push_back({{"what", "forecast"}, {"scenario", "p5-llama3-70b-64"}, {"set", set}, {"failures", failures}});
  };
  const json fails = {{"model", "llama3-54-days"}};
  ask(json::object(), nullptr);
  ask(json::object(), fails);
  for (const double factor : {1.2, 1.5, 0.8}) ask({{"perturb.slow_rank", {{"3", factor}}}}, fails);
  ask({{"perturb.slow_rank", {{"4", 1.5}}}}, nullptr);
  ask({{"perturb.slow_rank", {{"3", 1.5}, {"40", 1.5}}}}, nullptr);
  ask({{"perturb.slow_rank", {{"3", 1.5}, {"40", 1.25}}}}, nullptr);
  ask({{"perturb.slow_rank", {{"0-7", 1.5}, {"7", 1.5}}}}, nullptr);
  ask({{"perturb.slow_rank", {{"0-7", 1.25}, {"7", 1.5}}}}, nullptr);
  ask({{"perturb.slow_rank", {{"0-7", 1.25}, {"7", 1}}}}, nullptr);
  ask({{"topology.node.nic_rate", "10 Gb/s"}}, nullptr);
  ask({{"topology.node.nic_rate", "20 Gb/s"}}, nullptr);
  ask({{"training.global_batch_size", 256}}, nullptr);
  RecentSteps recent;
  std::set<json> steps;
  for (int round = 0; round < 2; ++round)
    for (const json& request : requests) {
      INFO(request.dump());
      const json said = json::parse(answer_what_if(request.dump(), shipped_data(), recent));
      REQUIRE(said["ok"] == true);
      CHECK(said == answer(request));
      steps.insert(said["result"]["step_time_s"]);
    }
  CHECK(steps.size() >= 6);  // not all ranks and rates limit this step
}

TEST_CASE("what if: failures cost goodput, days and money", "[serve]") {
  json request = forecast_request();
  const json without = answer(request);
  request["failures"] = {{"model", "llama3-54-days"}, {"mtbf_hours", 3}, {"checkpoint", "20 min"}, {"spares", 16}};
  const json with = answer(request);
  const double goodput = with["goodput"]["mean"];
  CHECK(goodput > 0.5);
  CHECK(goodput < 0.95);
  CHECK(with["goodput"]["mtbf_hours"].get<double>() == Approx(3));
  CHECK(with["goodput"]["interval_s"].get<double>() == Approx(1200).margin(7));  // whole steps
  CHECK(with["job"]["days"].get<double>() * goodput == Approx(without["job"]["days"].get<double>()));
  CHECK(with["job"]["cost_usd"]["typical"] > without["job"]["cost_usd"]["typical"]);
  // The command that the page shows has so many histories, all of them simulated.
  GoodputRequest job{.scenario = shipped_scenario("llama3-405b-16k")};
  job.failures = value_of(read_failure_file(source_dir() / "scenarios/failures/llama3-54-days.json",
                                            {"recovery.spares=16", "checkpoint.interval=20 min"}));
  job.mtbf_s = 3 * kSecondsPerHour;
  job.options.max_histories = with["goodput"]["histories"].get<int>();
  job.options.half_width = 0;
  CHECK(value_of(forecast_goodput(job)).goodput.goodput.mean == goodput);
}

TEST_CASE("what if: whole hosts and spare nodes are paid", "[serve]") {
  json request{{"what", "forecast"},
               {"scenario", "llama2-7b-abci"},
               {"set",
                {{"cluster.topology", "dgx-h100"},
                 {"cluster.world_size", 12},
                 {"training.global_batch_size", 24},
                 {"training.train_tokens", 100'000'000'000},
                 {"parallel.tp", 4},
                 {"parallel.pp", 1},
                 {"parallel.vpp", 1}}}};
  const auto paid_gpus = [&] {
    const json job = answer(request)["job"];
    // 2.99 USD: the median of the quotes of an H100 on demand.
    return job["cost_usd"]["typical"].get<double>() / (2.99 * 24 * job["days"].get<double>());
  };
  CHECK(paid_gpus() == Approx(16));  // two hosts
  request["failures"] = {{"model", "llama3-54-days"}, {"spares", 4}};
  CHECK(paid_gpus() == Approx(48));
  const json job = answer(request)["job"];
  CHECK(job["paid_gpus"] == 48);
  CHECK(job["gpu_hours"].get<double>() == Approx(12 * 24 * job["days"].get<double>()));
}

TEST_CASE("what if: values that are possible now, and why the others are not", "[serve]") {
  const json said = answer(forecast_request());
  const json& possible = said["possible"];
  const auto why = [&](const char* control, const json& value) {
    for (const json& each : possible[control])
      if (each[0] == value) return each[1].is_null() ? std::string("possible") : each[1].get<std::string>();
    return std::string("not offered");
  };
  CHECK(why("tp", 8) == "possible");
  CHECK(why("pp", 64).find("virtual stages are more than") != std::string::npos);  // 64 x 8 chunks, 128 layers
  CHECK(why("ep", 2).find("experts") != std::string::npos);
  CHECK(why("gpus", 16384) == "possible");
  CHECK(why("pp_schedule", "zb-v") == "possible");  // its two chunks follow
  // A value that is possible is one that --set takes.
  for (const char* control : {"tp", "pp", "vpp", "micro_batch_size"}) {
    for (const json& each : possible[control]) {
      json request = forecast_request();
      const std::string group = std::string(control) == "micro_batch_size" ? "training." : "parallel.";
      request["set"] = {{group + control, each[0]}};
      INFO(request.dump());
      CHECK(answer(request)["ok"] == each[1].is_null());
    }
  }
}

TEST_CASE("what if: the machine's own keys, a dropped scenario and a dropped model", "[serve]") {
  json request = forecast_request();
  const double step_s = answer(request)["result"]["step_time_s"];
  request["set"] = {{"topology.node.nic_rate", "100 Gb/s"}};
  CHECK(answer(request)["result"]["step_time_s"].get<double>() > step_s);
  // The scenario as it ran, dropped onto the page, is the same run.
  json dropped = {{"what", "forecast"}, {"scenario", "own"}};
  dropped["file"] = json::parse(answer(forecast_request())["scenario"].get<std::string>());
  CHECK(answer(dropped)["result"]["step_time_s"] == step_s);
  dropped["set"] = {{"training.seq_length", 16384}};
  CHECK(answer(dropped)["result"]["step_time_s"].get<double>() > step_s);
  // No paths in it.
  dropped["file"]["cluster"]["topology"] = "/etc/passwd";
  CHECK(sentences(dropped).at(0).find("names a file by its path") != std::string::npos);
  // A model of Hugging Face.
  request = {{"what", "forecast"}, {"scenario", "llama2-7b-abci"}};
  request["set"]["model"] = {
      {"model_type", "llama"},       {"hidden_size", 2048},       {"num_hidden_layers", 16},
      {"num_attention_heads", 16},   {"num_key_value_heads", 16}, {"intermediate_size", 5504},
      {"vocab_size", 32000},         {"hidden_act", "silu"},      {"max_position_embeddings", 4096},
      {"tie_word_embeddings", false}};
  const json said = answer(request);
  INFO(said.dump().substr(0, 400));
  CHECK(said["ok"] == true);
}

TEST_CASE("what if: the passes of every pipeline rank", "[serve]") {
  json request = forecast_request();
  request["timeline"] = true;
  const json said = answer(request);
  REQUIRE(said["timeline"].size() == 16);
  CHECK(said["pipeline_ranks"] == 16);
  for (const json& rank : said["timeline"]) {
    double last = 0;
    for (const json& run : rank["runs"]) {
      CHECK(run[0].get<double>() >= last - 1e-9);
      last = run[1];
    }
    CHECK(last <= said["step_time_s"].get<double>() * (1 + 1e-9));
  }
}

TEST_CASE("what if: of many pipeline ranks 16 are drawn, evenly over them", "[serve]") {
  const json said = answer({{"what", "forecast"}, {"scenario", "megatron-sc21-1t"}, {"timeline", true}});
  CHECK(said["pipeline_ranks"] == 64);
  REQUIRE(said["timeline"].size() == 16);
  for (std::size_t row = 0; row < 16; ++row) CHECK(said["timeline"][row]["pp"] == row * 63 / 15);
}

TEST_CASE("what if: controls begin with what the scenario itself has slow or broken", "[serve]") {
  json request = forecast_request();
  request["set"] = {{"perturb.slow_rank", {{"0", 1.5}}}, {"perturb.lost_rails", {0, 1}}};
  const json said = answer(request);
  REQUIRE(said["ok"] == true);
  CHECK(said["settings"]["perturb"] == json{{"slow_rank", {{"0", 1.5}}}, {"lost_rails", {0, 1}}});
  request["set"] = {{"perturb.slow_rank", json::object()}, {"perturb.lost_rails", json::array()}};
  const json healthy = answer(request);
  REQUIRE(healthy["ok"] == true);
  CHECK(healthy["settings"]["perturb"] == json::object());
}

TEST_CASE("what if: the drawn step of a mean over a period is as long as it is", "[serve]") {
  json request{{"what", "forecast"}, {"scenario", "diloco-10b"}};
  const json mean = answer(request)["result"];
  request["timeline"] = true;
  const json drawn = answer(request);
  CHECK(drawn["step_time_s"].get<double>() == Approx(mean["averaging"]["averaging_step_s"].get<double>()));
  CHECK(drawn["step_time_s"] > 5 * mean["step_time_s"].get<double>());
}

TEST_CASE("what if: without tokens to train the job is a month, and the page is told", "[serve]") {
  json request{{"what", "forecast"}, {"scenario", "pipeline-1f1b"}};
  const json month = answer(request)["job"];
  CHECK(month["given"] == false);
  CHECK(month["days"] == 30);
  CHECK(month["usd_per_gpu_hour"].get<double>() == Approx(2.99));
  CHECK(month["paid_gpus"] == 4);
  CHECK(answer(forecast_request())["job"]["given"] == true);
}

TEST_CASE("what if: errors are those of the command line", "[serve]") {
  json request = forecast_request();
  request["set"] = {{"parallel.tpp", 4}};
  CHECK(sentences(request) == std::vector<std::string>{"parallel.tpp: unknown key (did you mean 'tp'?)"});
  request["set"] = {{"parallel.tp", 12}};
  CHECK(sentences(request).at(1).find("parallel.tp = 12: does not divide") != std::string::npos);
  request["set"] = {};
  request["scenario"] = "llama3-405b-16kk";
  CHECK(sentences(request).at(0).find("did you mean 'llama3-405b-16k'?") != std::string::npos);
  CHECK(sentences({{"what", "delete"}}) ==
        std::vector<std::string>{"what = delete: is not known (allowed: catalog forecast)"});
  CHECK(sentences(json::array()) == std::vector<std::string>{"the request is not a JSON object"});
}

TEST_CASE("what if: only shipped files can be named", "[serve]") {
  for (const char* path : {"/etc/passwd", "../../etc/passwd", "scenarios/x.json", ".hidden", "", "a\\b"}) {
    json request = forecast_request();
    request["scenario"] = path;
    INFO(path);
    CHECK(sentences(request).size() == 1);
    request = forecast_request();
    request["failures"] = {{"model", path}};
    CHECK(sentences(request).size() == 1);
  }
  for (const char* key : {"model", "cluster.topology", "cluster.profile", "stack"}) {
    json request = forecast_request();
    request["set"] = {{key, "/etc/passwd"}};
    CHECK(sentences(request).at(0).find("cannot be set from the page") != std::string::npos);
  }
  json request = forecast_request();
  request["set"] = {{"model", {{"hf_config", "passwd"}}}};
  CHECK(sentences(request).at(0).find("cannot be set from the page") != std::string::npos);
  request["set"] = {{"model.hf_config", "passwd"}};
  CHECK(sentences(request).at(0).find("cannot be set from the page") != std::string::npos);
}

TEST_CASE("what if: the catalog names what is shipped", "[serve]") {
  const json said = answer({{"what", "catalog"}});
  const auto has = [&](const char* list, const char* name) {
    return std::ranges::find(said[list], json(name)) != said[list].end();
  };
  CHECK(has("scenarios", "llama3-405b-16k"));
  CHECK(has("topologies", "dgx-h100"));
  CHECK(has("failures", "llama3-54-days"));
  CHECK(has("schedules", "zb-h1"));
  CHECK(has("recompute", "selective"));
  CHECK(has("models", "llama-3.1-405b"));
  CHECK(has("dtypes", "fp8"));
  CHECK(said["machine_gpus"]["dgx-h100"].is_number());
  CHECK_FALSE(has("scenarios", "acme"));  // a failure model
}

TEST_CASE("what if: no request, however broken, is without an answer", "[serve][property]") {
  const std::string good =
      R"({"what":"forecast","scenario":"zero-1-7.5b","set":{"parallel.tp":2,"perturb.lost_rails":[1]},"failures":{"model":"acme","days":1}})";
  RandomStream random(20261121, 0, 0);
  for (int i = 0; i < 300; ++i) {
    std::string text = good;
    for (int change = 0; change < 3; ++change) {
      const std::size_t at = random.below(text.size());
      switch (random.below(3)) {
        case 0:
          text[at] = static_cast<char>(random.below(256));
          break;
        case 1:
          text.erase(at, 1 + random.below(8));
          break;
        default:
          text.insert(at, text.substr(random.below(text.size()), random.below(12)));
      }
      if (text.empty()) text = "{";
    }
    INFO("seed 20261121, case " << i << ": " << text);
    const json said = json::parse(answer_to(text));
    CHECK((said["ok"] == true || !said["errors"].empty()));
  }
  CHECK(json::parse(answer_to(std::string(60'000, '[')))["errors"][0] == "the request is nested too deeply");
}

TEST_CASE("what if: days that short histories do not tell are not known", "[serve]") {
  json request = forecast_request();
  request["failures"] = {{"model", "llama3-54-days"}, {"days", 1}, {"checkpoint", "12 h"}};
  const json job = answer(request)["job"];
  CHECK(job["unknown"] == "a history has fewer than ten checkpoint intervals");
  for (const char* key : {"days", "gpu_hours", "cost_usd", "energy_mwh"}) CHECK_FALSE(job.contains(key));
  // Of a month the days are known, but not its tokens.
  request["scenario"] = "pipeline-1f1b";
  const json month = answer(request)["job"];
  CHECK(month["unknown"] == job["unknown"]);
  CHECK(month["days"] == 30);
  CHECK(month.contains("cost_usd"));
  CHECK_FALSE(month.contains("tokens"));
}

TEST_CASE("what if: what a request does not have is refused", "[serve][error]") {
  const auto sentence = [](const char* key, const json& value) {
    json request = forecast_request();
    request[key] = value;
    return sentences(request).at(0);
  };
  const auto of_failures = [&](const char* key, const json& value) {
    return sentence("failures", {{"model", "llama3-54-days"}, {key, value}});
  };
  CHECK(sentence("setx", json::object()) == "setx: unknown key (did you mean 'set'?)");
  CHECK(sentence("moving", "yes") == "moving = \"yes\": must be true or false");
  CHECK(of_failures("spare", 2) == "failures.spare: unknown key (did you mean 'spares'?)");
  CHECK(of_failures("mtbf", 12) == "failures.mtbf: unknown key (allowed: model days mtbf_hours checkpoint spares)");
  CHECK(of_failures("spares", 1.5) == "failures.spares = 1.5: must be a whole number");
  CHECK(of_failures("checkpoint", 20) == "failures.checkpoint = 20: must be a time, such as \"20 min\"");
  // A path is refused, so none is offered.
  const std::string unknown = sentence("failures", {{"model", "none-of-these"}});
  CHECK(unknown.starts_with("unknown failure model 'none-of-these'"));
  CHECK(unknown.find("path") == std::string::npos);
}
