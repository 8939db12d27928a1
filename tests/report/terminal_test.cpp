#include "sim/report/terminal.hpp"

#include <algorithm>
#include <sstream>
#include <string>

#include <catch2/catch.hpp>

#include "sim/report/assumptions.hpp"
#include "sim/report/explain.hpp"
#include "sim/report/settings_text.hpp"
#include "tests/report/longest_line.hpp"
#include "tests/report/sample.hpp"

using namespace tracecast;

namespace {

std::string page(const Forecast& forecast, const TextStyle& style = {}) {
  return terminal_page(sample::scenario(), sample::plan(), forecast, style);
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("the page says the answer first", "[report][terminal]") {
  const std::string text = page(sample::forecast());
  INFO(text);
  CHECK(text.starts_with("Sample 7B (0 M), 16 x H100 SXM 80 GB, sample-16\n"));
  CHECK(contains(text, "tp 2, pp 4, dp 2, 1f1b, zero 0"));
  CHECK(contains(text, "2.00 s   90 % between 1.90 s and 2.10 s"));
  CHECK(contains(text, "2.50 s   the forecast is 20.0 % too fast"));
  Scenario quick = sample::scenario();
  quick.measured->step_time_s = 1.6;
  CHECK(contains(terminal_page(quick, sample::plan(), sample::forecast(), {}),
                 "1.60 s   the forecast is 25.0 % too slow"));
  CHECK(contains(text, "32,768 tokens/s   2,048 tokens/s per GPU"));
  CHECK(contains(text, "400 TFLOP/s per GPU   MFU 40.3 %   HFU 50.2 %"));
  // 1e12 tokens / 32768 tokens/s = 353.2 days.
  CHECK(contains(text, "353 days for 1 T tokens, "));
  Forecast padded = sample::forecast();
  padded.packed = PackedForecast{.steps = 1, .useful_share = 0.5};
  CHECK(contains(page(padded), "706 days for 1 T tokens without padding"));
}

TEST_CASE("the page says that no software stack is set", "[report][terminal]") {
  Scenario scenario = sample::scenario();
  const auto says_none = [&] {
    return std::ranges::any_of(assumptions(scenario, sample::forecast()), [](const std::string& line) {
      return line.starts_with("no software stack is set: host time and kernels are the profile's");
    });
  };
  CHECK(says_none());
  scenario.stack = "torchtitan";
  CHECK_FALSE(says_none());
}

TEST_CASE("the page says whose host time and which loss it assumes", "[report][terminal]") {
  Scenario scenario = sample::scenario();
  Forecast f = sample::forecast();
  const auto says = [&](const std::string& begin) {
    return std::ranges::any_of(assumptions(scenario, f),
                               [&](const std::string& line) { return line.starts_with(begin); });
  };
  f.host_s = 0.005 * f.step_time_s;
  scenario.parallel.zero_stage = 1;
  CHECK_FALSE(says("host: "));
  CHECK_FALSE(says("loss: "));
  f.host_s = 0.02 * f.step_time_s;
  scenario.parallel.zero_stage = 2;
  CHECK(says("host: "));
  CHECK(says("loss: PyTorch's"));
}

TEST_CASE("the page says how far in-training factors may be off, and whose delay they have", "[report][terminal]") {
  Scenario scenario = sample::scenario();
  const auto line = [&](const std::string& begin) {
    for (const std::string& each : assumptions(scenario, sample::forecast()))
      if (each.starts_with(begin)) return each.substr(begin.size());
    return std::string();
  };
  // A residual that was chosen is not called one.
  const std::string factors =
      "kernels take 1.1 (gemm), 1 (attention), 1.2 (memory-bound) times as long inside a step as alone";
  CHECK(line(factors) == " (fitted on twelve runs, taken to be off by 5 %)");
  scenario.profile.in_training.fit = {.data = "recorded as steps run"};
  CHECK(line(factors) == " (recorded as steps run)");

  CHECK(line("kernels and host take ").empty());
  scenario.profile.in_training.slowest_gpu = 0.963;
  scenario.gpu_spread = 0.02;
  CHECK(line("kernels and host take ") ==
        "0.963 times that: the profile has the delay of the slowest of 64 GPUs, this job that of the slowest of 16 "
        "GPUs (cluster.gpu_spread 0.02)");
  scenario.gpu_spread = 0;
  CHECK(line("kernels and host take ").ends_with(", this job that of the mean GPU (cluster.gpu_spread 0)"));
  scenario.profile.in_training.slowest_gpu = 1.0001;
  CHECK(line("kernels and host take ").starts_with("as long: the profile has the delay of"));
  scenario.profile.in_training.slowest_gpu = 0.963;
  scenario.profile.measured.emplace_back();
  CHECK(line("kernels and host take ").starts_with("0.963 times that: the profile has the delay of one GPU, this job"));
}

TEST_CASE("the page says what each axis asks of its links, and which asks too much", "[report][terminal]") {
  Forecast f = sample::forecast();
  CHECK_FALSE(contains(page(f), "Bandwidth"));
  f.bandwidth = {{"tp", "nvlink", 2, 1, 60e9, 30e9, 450e9}, {"dp", "network", 8, 4, 150e9, 75e9, 50e9}};
  const std::string text = page(f);
  INFO(text);
  CHECK(contains(text, "tp  nvlink   2 ranks of a node"));
  CHECK(contains(text, "30 of    450 GB/s   6.7 %"));
  CHECK(contains(text, "dp  network  8 ranks on 4 nodes"));
  CHECK(contains(text, "75 of     50 GB/s 150.0 %"));
  f.exposed_s = {};
  f.exposed_s[static_cast<std::size_t>(Traffic::gradients)] = 0.25;
  f.exposed_s[static_cast<std::size_t>(Traffic::parameters)] = 0.5;
  f.exposed_s[static_cast<std::size_t>(Traffic::tensor_parallel)] = 9;
  CHECK(note_texts(sample::scenario(), f) ==
        std::vector<std::string>{
            "dp asks for 150 % of its network links: its exposed communication takes 0.75 s of the step"});
}

TEST_CASE("the page says which groups leave their node, and how much of a rack is used", "[report][terminal][racks]") {
  Forecast f = sample::forecast();
  f.bandwidth = {{"tp", "network", 16, 2, 60e9, 30e9, 450e9},
                 {"cp", "nvlink", 4, 1, 60e9, 30e9, 450e9},
                 {"ep", "network", 32, 4, 60e9, 30e9, 50e9},
                 {"dp", "network", 8, 4, 150e9, 75e9, 50e9}};
  Scenario scenario = sample::scenario();
  const std::vector<std::string> lines = crossing_texts(scenario.cluster, f.bandwidth);
  CHECK(lines ==
        std::vector<std::string>{
            "tensor-parallel groups of 16 ranks cross 2 nodes of 8 GPUs (within one: 1 2 4 8): part of their traffic "
            "leaves nvlink",
            "expert-parallel groups of 32 ranks cross 4 nodes of 8 GPUs: part of their traffic leaves nvlink"});
  CHECK(contains(page(f, {.width = 110}), lines.front().substr(0, lines.front().find(": part"))));
  CHECK(assumptions(scenario, f).front() == lines.front());
  CHECK(rack_text(scenario).empty());
  scenario.cluster.node.gpus = 64;
  scenario.cluster.node.installed_gpus = 72;
  CHECK(rack_text(scenario) ==
        "racks: the job uses 64 of the 72 GPUs of each rack, so that groups do not cross racks "
        "(cluster.gpus_per_rack)");
  scenario.gpus_per_rack = 64;
  CHECK(rack_text(scenario) == "racks: the job uses 64 of the 72 GPUs of each rack");
  CHECK(crossing_texts(scenario.cluster, {}).empty());
}

TEST_CASE("the time of the page's rows is the forecast's", "[report][terminal]") {
  const std::string text = page(sample::forecast());
  INFO(text);
  CHECK(contains(text, "compute                    1.20 s  60.0 %"));
  CHECK(contains(text, "exposed communication      300 ms  15.0 %"));
  CHECK(contains(text, "pipeline bubble            250 ms  12.5 %"));
  CHECK(contains(text, "optimizer                  200 ms  10.0 %"));
  // 4 ms are less than half a percent of the step: alone they keep their name, two such parts are 'other'.
  CHECK(contains(text, "control                 4.00 ms   0.2 %"));
  CHECK_FALSE(contains(text, "other"));
  Forecast f = sample::forecast();
  f.exposed_s[static_cast<std::size_t>(Traffic::embedding)] = 0.002;
  CHECK(contains(page(f), "other                   6.00 ms   0.3 %"));
  CHECK_FALSE(contains(page(f), "control"));
  // Where all parts are small, the largest is named.
  f.exposed_s = {};
  f.exposed_s[static_cast<std::size_t>(Traffic::gradients)] = 0.005;
  f.exposed_s[static_cast<std::size_t>(Traffic::embedding)] = 0.002;
  CHECK(contains(page(f), "gradients               5.00 ms"));
  f.bubble_fraction = 0;
  CHECK(contains(page(f), "pipeline bubble              none   0.0 %\n"));
}

TEST_CASE("the head says how large the model is and what is computed again", "[report][terminal]") {
  const auto head = [](const Training& training) {
    Plan plan = sample::plan();
    plan.training = training;
    Scenario scenario = sample::scenario();
    Model& llama = scenario.model;
    llama.num_layers = 32;
    llama.hidden_size = 4096;
    llama.num_attention_heads = llama.num_query_groups = 32;
    llama.head_dim = 128;
    llama.ffn_hidden_size = 11008;
    llama.vocab_size = 32000;
    std::string text = terminal_page(scenario, plan, sample::forecast(), {.width = 200});
    text = text.substr(0, text.find("step time"));
    std::ranges::replace(text, '\n', ' ');  // lines are wrapped
    return text;
  };
  Training training = sample::plan().training;
  CHECK(contains(head(training), "Sample 7B (6.738 B), 16 x H100 SXM 80 GB, sample-16"));
  training.recompute = Recompute::none;
  training.recompute_modules = {};
  CHECK(contains(head(training), ", no recomputation "));
  training.recompute_modules = {"norm", "activation"};
  CHECK(contains(head(training), ", recomputation of norm and activation "));
  training.recompute = Recompute::selective;
  CHECK(contains(head(training), ", selective recomputation, and of norm and activation "));
  training.recompute = Recompute::full;
  CHECK(contains(head(training), ", full recomputation "));
}

TEST_CASE("memory: one row for equal pipeline ranks in a row, and whether it fits", "[report][terminal]") {
  Forecast f = sample::forecast();
  std::string text = page(f);
  INFO(text);
  CHECK(contains(text, "fits: the peak is 54.0 GiB, on pipeline rank 0 (rank 0)"));
  CHECK(contains(text, "pp 1-2"));
  CHECK(contains(text, "54.0 GiB\n"));
  f.memory_capacity = {40LL << 30};
  f.fits_gpus = f.fits = false;
  text = page(f);
  CHECK(contains(text, "\n  does not fit: the peak"));
  // Usable memory is marked where it ends: 40 of 54 GiB, column 42 of 57.
  const auto row = text.find("  pp 0     ");
  REQUIRE(row != std::string::npos);
  CHECK(text.substr(row + 11, 57).find('|') == 42);
}

TEST_CASE("memory: what is offloaded beside the host's memory", "[report][terminal]") {
  Forecast forecast = sample::forecast();
  CHECK_FALSE(contains(page(forecast), "host memory:"));
  forecast.host_peak = Bytes{32LL << 30};
  forecast.host_used = Bytes{256LL << 30};
  const auto one_line = [&] {
    std::string text = page(forecast);
    for (std::size_t at = 0; (at = text.find("\n  ", at)) != std::string::npos; ++at) text.replace(at, 3, " ");
    return text;
  };
  CHECK(contains(one_line(),
                 "a GPU offloads up to 32.0 GiB, the GPUs of a host together 256.0 GiB; the topology does not "
                 "say how much a host has"));
  CHECK(contains(page(forecast), "\n  fits: the peak"));
  forecast.host_capacity = Bytes{256LL << 30};
  CHECK(contains(one_line(), "together 256.0 of 256.0 GiB"));
  CHECK(contains(page(forecast), "\n  fits: the peak"));
  forecast.host_capacity = Bytes{255LL << 30};
  forecast.fits = false;
  CHECK(contains(page(forecast), "\n  does not fit the host: the peak"));
}

TEST_CASE("memory: long pipelines share rows, which show the fullest", "[report][terminal]") {
  Forecast f = sample::forecast();
  f.memory.resize(33, f.memory[1]);
  f.memory[31].activations = {50LL << 30};
  f.tightest_pp_rank = 31;
  const std::string text = page(f);
  INFO(text);
  // 33 ranks in rows of three; the last row has 84 GiB = 10 + 5 + 15 + 50 + 2 + 1 + 1.
  CHECK(contains(text, "pp 0-2"));
  CHECK_FALSE(contains(text, "pp 31 "));
  const auto last = text.find("pp 30-32");
  REQUIRE(last != std::string::npos);
  CHECK(contains(text.substr(last, text.find('\n', last) - last), "84.0 GiB"));
}

TEST_CASE("no line is wider than the page", "[report][terminal]") {
  for (const int width : {72, 80, 100, 200}) {
    for (const bool unicode : {false, true}) {
      const std::string text = page(sample::forecast(), {.width = width, .unicode = unicode});
      INFO(text);
      CHECK(columns(test::longest_line(text)) <= std::min(width, 110));
    }
  }
}

TEST_CASE("plain pages are ASCII without escapes; colour is only escapes", "[report][terminal]") {
  const std::string plain = page(sample::forecast());
  CHECK(std::ranges::all_of(plain, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
  CHECK(contains(page(sample::forecast(), {.colour = true}), "\x1b["));
}

TEST_CASE("explain sorts causes by what their absence would save", "[report][explain]") {
  Forecast f = sample::forecast();
  f.causes = {{"norm", "", 0.4, 1.9}, {"sends", "network", 1.0, 1.2}, {"host", "", 0, 2}, {"late", "", 0, 1.8}};
  const std::string text = explain_page(f, {});
  INFO(text);
  // sends: half of the path; without them 1.2 s, 40 % less. norm: 20 % of the path, 5 % less.
  const auto sends = text.find("  sends (network)     1.00 s  50.0 %     1.20 s  40.0 %  ###");
  const auto norm = text.find("  norm                400 ms  20.0 %     1.90 s   5.0 %");
  // A cause that is on no path and saves nothing is not worth a row; one that is on none but saves something is.
  CHECK_FALSE(contains(text, "host"));
  CHECK(contains(text, "  late                     -       -     1.80 s  10.0 %"));
  REQUIRE(sends != std::string::npos);
  REQUIRE(norm != std::string::npos);
  CHECK(sends < norm);
  CHECK(columns(test::longest_line(text)) <= 80);
  CHECK(contains(page(f), "Bottlenecks of the step"));
  CHECK_FALSE(contains(page(sample::forecast()), "Bottlenecks of the step"));
}
