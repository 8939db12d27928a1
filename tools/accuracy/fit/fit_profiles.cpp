/// \file
/// Fits GPU profiles to public measurements (docs/references.md) and writes them:
///
///   fit_profiles --data DIR --all --out kernels/profiles
///
/// DIR holds kernels/ and gpu-specs/, measurements of others that are not shipped with the project. --timed and --published
/// are this project's own.
#include <filesystem>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/io/files.hpp"
#include "sim/report/text.hpp"
#include "tools/accuracy/fit/assemble.hpp"

namespace {

using namespace tracecast;
using namespace tracecast::accuracy;

struct Options {
  std::string data;
  std::string timed = "kernels/profiles/h100-measured.json";
  std::string published = "scenarios/runs/kernels.csv";
  std::string gpu;
  bool all = false;
  std::string out;
};

Result<void> write_profiles(const Options& options) {
  Assembler assembler(options.data, options.timed, options.published);
  for (const Gpu& gpu : catalogue()) {
    if (!options.all && options.gpu != gpu.name) continue;
    const Result<Profile> profile = assembler.profile(gpu);
    if (!profile) return tl::unexpected(profile.error());
    const std::filesystem::path file = options.all ? std::filesystem::path(options.out) / (profile->name + ".json")
                                                   : std::filesystem::path(options.out);
    if (const Result<void> written = write_file(file, to_json(*profile)); !written) return written;
  }
  const TextTable table({-16, -28, 8, 8, 8, 8}, 0);
  std::string text = table.row("profile", "group", "samples", "all %", "large %", "bias %");
  for (const FitLine& fit : assembler.fits())
    text +=
        table.row(fit.profile, fit.group, fit.samples, percent(fit.all), percent(fit.large), signed_percent(fit.bias));
  fmt::print("{}", text);
  return {};
}

std::string names() {
  std::string text;
  for (const Gpu& gpu : catalogue()) text += (text.empty() ? "" : " ") + std::string(gpu.name);
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Fits GPU profiles to public measurements and prints the held-out mean |log error| of each group.");
  Options options;
  app.add_option("--data", options.data, "the folder with kernels/ and gpu-specs/")->required();
  app.add_option("--timed", options.timed, "the profile with operators timed on an H100")->capture_default_str();
  app.add_option("--published", options.published, "the table of published kernels")->capture_default_str();
  app.add_option("--gpu", options.gpu, "one of: " + names());
  app.add_flag("--all", options.all, "every GPU");
  app.add_option("--out", options.out, "the profile's file; with --all the folder of them")->required();
  CLI11_PARSE(app, argc, argv);
  constexpr int kBadInput = 2;
  if (!options.all && find_gpu(options.gpu) == nullptr) {
    fmt::print(stderr, "--gpu = '{}': unknown GPU (allowed: {}, or --all)\n", options.gpu, names());
    return kBadInput;
  }
  const Result<void> done = write_profiles(options);
  if (done) return 0;
  fmt::print(stderr, "{}\n", to_string(done.error()));
  return kBadInput;
}
