/// `tracecast profile`: times the operators and collectives of this machine and writes a profile.
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/io/files.hpp"
#include "tools/command_list.hpp"
#include "tools/worker_process.hpp"

namespace tracecast::cli {
namespace {

struct Options {
  std::string suite = "quick";
  std::string device = "cpu";
  std::vector<std::string> scenarios;
  int ranks = 0;
  int passes = 20;
  std::string out = "recorded.json";
};

std::string summary(const Profile& profile, const std::string& path) {
  const double peak = profile.peak_flops.begin()->second;
  return fmt::format(
      "{}\n  {} operators and {} collectives timed: {}\n  fastest multiplication {:.1f} GFLOP/s, element-wise work "
      "{:.1f} GB/s\n  leaving each measurement out in turn, it is forecast within {:.0f} % on average\n  written to "
      "{}; "
      "use it with --set cluster.profile={}\n",
      profile.gpu, profile.measured.size(), profile.measured_collectives.size(), profile.source, peak * 1e-9,
      profile.memory_bandwidth * 1e-9, 100 * profile.grouped_gemm.fit.residual, path, path);
}

Result<ExitCode> missing(const std::string& sentence) {
  fmt::print(stderr, "{}\n", sentence);
  return ExitCode::missing;
}

Result<ExitCode> record(const Options& options, const Context& context) {
  if (options.device == "cuda") return missing("GPUs cannot be timed by this build: there are no CUDA operators in it");
  if (const std::string sentence = missing_for_workers(); !sentence.empty()) return missing(sentence);
  std::vector<std::string> arguments{"profile", "--suite",  options.suite, "--passes", std::to_string(options.passes),
                                     "--out",   options.out};
  for (const std::string& name : options.scenarios) {
    arguments.emplace_back("--for");
    arguments.push_back(name);
  }
  if (context.show_progress) arguments.emplace_back("--progress");
  const int ranks = options.ranks > 0 ? options.ranks : usable_cores();
  if (run_worker(ranks, arguments) != ExitCode::done) {
    fmt::print(
        stderr,
        "nothing was written; passes that were finished are in {}.passes, and the same command goes on from them\n",
        options.out);
    return ExitCode::bad_input;
  }
  const Result<Profile> profile = read_profile(options.out);
  if (!profile) return tl::unexpected(profile.error());
  fmt::print("{}", summary(*profile, options.out));
  return ExitCode::done;
}

}  // namespace

Run add_profile(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("--suite", options->suite, "which shapes: quick (a minute on a CPU), full, or none (with --for)")
      ->check(CLI::IsMember({"quick", "full", "none"}))
      ->capture_default_str();
  app.add_option("--device", options->device, "what is timed")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--for", options->scenarios, "also the operators of this scenario's step; may be repeated")
      ->type_name("SCENARIO")
      ->allow_extra_args(false);
  app.add_option("--ranks", options->ranks,
                 "processes that work at the same time, as the ranks of a step do; 0: one a core")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  app.add_option("--passes", options->passes, "how often everything is timed")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("--out", options->out, "the profile")->type_name("FILE")->capture_default_str();
  return [options](const Context& context) { return record(*options, context); };
}

}  // namespace tracecast::cli
