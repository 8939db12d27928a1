/// \file
/// Fits the in-training factors of the shipped profiles to the runs of scenarios/published, one GPU architecture at a
/// time:
///
///   fit_training --root .                   after `fit_profiles --all`: writes the profiles and prints every run
///   fit_training --root . --document FILE   fits nothing; writes the table of all published runs as they are forecast
///
/// An architecture without a run borrows its factors.
#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/forecast/forecast.hpp"
#include "sim/io/files.hpp"
#include "tools/accuracy/fit/catalogue.hpp"
#include "tools/accuracy/fit/training_fit.hpp"

namespace {

using namespace tracecast;
using namespace tracecast::accuracy;
namespace fs = std::filesystem;

std::vector<fs::path> json_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// Measured runs that can be forecast, by architecture. Left out: context parallelism, experts and fine-tuning, whose
/// times depend on how a framework hides exchanges and on its dispatcher (docs/references.md#hard-rows), which no
/// file says.
Result<std::map<std::string, std::vector<Scenario>>> read_runs(const fs::path& root) {
  const DataPaths data{root / "scenarios", root / "topologies", root / "kernels" / "profiles"};
  std::map<std::string, std::vector<Scenario>> runs;
  for (const fs::path& file : json_files(data.scenarios / "published")) {
    Result<Scenario> scenario = read_scenario(file, data);
    if (!scenario) return tl::unexpected(scenario.error());
    const bool special = scenario->parallel.cp > 1 || scenario->model.moe || scenario->training.lora_rank > 0;
    if (!scenario->measured || special || !forecast(*scenario)) continue;
    runs[scenario->profile.architecture].push_back(std::move(*scenario));
  }
  return runs;
}

/// The factors of a fit, and where they come from.
void record(const TrainingFit& fit, InTraining& factors) {
  apply(fit, factors);
  factors.fit.data = fmt::format(
      "docs/references.md#in-training-factors, then {} runs of scenarios/published on this architecture (fit_training)",
      fit.runs.size());
  factors.fit.samples = static_cast<int>(fit.runs.size());
  factors.fit.residual =
      std::max(0.05, fit.residual);  // never below what releases and sites differ by (docs/references.md#noise-floor)
}

/// What no scenario's run tells of an architecture. Volta's multiplications, of the same libraries, take Ampere's
/// factor as it was fitted since calibrate gave both that of docs/references.md#in-training-factors. How far such
/// factors may be off: those of Blackwell by 7 % (1.12 to 1.30 around 1.25, by bootstrap); all others by a tenth,
/// since architectures differ by 4 % in multiplications and by 20 to 30 in attention and memory.
void borrow(const InTraining& ampere, const Gpu& gpu, InTraining& factors) {
  constexpr double kFoundByA4 = 0.07;
  constexpr double kBorrowed = 0.10;
  const bool found = achieved(gpu.architecture).attention > 0;
  factors.fit.residual = found ? kFoundByA4 : kBorrowed;
  if (found) return;
  factors.fit.samples = 0;
  factors.fit.data = "no run of this architecture: Ampere's of docs/references.md#in-training-factors";
  if (gpu.architecture != std::string("Volta")) return;
  factors.fit.data += ", multiplications as fitted since";
  factors.gemm = factors.gemm_fp8 = factors.gemm_fp8_block = factors.gemm_fp4 = ampere.gemm;
}

Result<void> borrow_all(const fs::path& folder, const std::map<std::string, std::vector<Scenario>>& runs) {
  const Result<Profile> ampere = read_profile(folder / "a100.json");
  if (!ampere) return tl::unexpected(ampere.error());
  for (const Gpu& gpu : catalogue()) {
    if (runs.contains(gpu.architecture)) continue;
    const fs::path file = folder / (std::string(gpu.name) + ".json");
    Result<Profile> profile = read_profile(file);
    if (!profile) return tl::unexpected(profile.error());
    borrow(ampere->in_training, gpu, profile->in_training);
    if (const Result<void> written = write_file(file, to_json(*profile)); !written) return written;
  }
  return {};
}

/// A GPU that runs another's kernels well below the peaks that they were measured at (H20, H100 PCIe) keeps its power
/// and clock in another way: its factors may be off by as much as borrowed ones.
Result<void> doubt_other_peaks(const fs::path& folder) {
  constexpr double kBorrowed = 0.10;
  for (const Gpu& gpu : catalogue()) {
    if (*gpu.based_on == '\0') continue;
    const fs::path file = folder / (std::string(gpu.name) + ".json");
    Result<Profile> profile = read_profile(file);
    const Result<Profile> base = read_profile(folder / (std::string(gpu.based_on) + ".json"));
    if (!profile) return tl::unexpected(profile.error());
    if (!base) return tl::unexpected(base.error());
    if (profile->peak_flops.at(Precision::fp16) >= 0.8 * base->peak_flops.at(Precision::fp16)) continue;
    profile->in_training.fit.residual = std::max(kBorrowed, profile->in_training.fit.residual);
    if (const Result<void> written = write_file(file, to_json(*profile)); !written) return written;
  }
  return {};
}

Result<void> fit_all(const fs::path& root) {
  const Result<std::map<std::string, std::vector<Scenario>>> runs = read_runs(root);
  if (!runs) return tl::unexpected(runs.error());
  for (const auto& [architecture, scenarios] : *runs) {
    const TrainingFit fit = fit_training(scenarios);
    fmt::print("{}: gemm x {:.3f}, attention x {:.3f}, memory x {:.3f}; mean |log error| {:.1f} %\n", architecture,
               fit.gemm, fit.attention, fit.memory, 100 * fit.residual);
    for (const RunLine& run : fit.runs)
      fmt::print("  {:44} {:9.3f} s  measured {:9.3f} s  {:+6.1f} %\n", run.name, run.predicted_s, run.measured_s,
                 100 * run.error());
    for (const fs::path& file : json_files(root / "kernels" / "profiles")) {
      Result<Profile> profile = read_profile(file);
      if (!profile) return tl::unexpected(profile.error());
      if (profile->architecture != architecture) continue;
      record(fit, profile->in_training);
      if (const Result<void> written = write_file(file, to_json(*profile)); !written) return written;
    }
  }
  const fs::path profiles = root / "kernels" / "profiles";
  if (const Result<void> borrowed = borrow_all(profiles, *runs); !borrowed) return borrowed;
  return doubt_other_peaks(profiles);
}

/// Forecast against measurement for every published run that can be forecast, as a page.
Result<void> write_document(const fs::path& root, const fs::path& document) {
  const DataPaths data{root / "scenarios", root / "topologies", root / "kernels" / "profiles"};
  std::string page =
      "# Published runs\n\nStep times forecast from the files in `scenarios/published`, one profile per GPU and no "
      "setting per run; attention is\n"
      "counted as each source counts it. Written by `build/release/tools/accuracy/fit/fit_training --root . "
      "--document\n"
      "docs/validation/runs.md`.\n\nThe in-training factors of the profiles were fitted to most of these runs "
      "(`fit_training --root .`), so this\n"
      "table shows how well one set of factors per GPU describes them, not how well unseen runs are forecast.\n\n"
      "| scenario | GPU | ranks | forecast, s | measured, s | error | bubble |\n| --- | --- | ---: | ---: | ---: | "
      "---: | ---: |\n";
  for (const fs::path& file : json_files(data.scenarios / "published")) {
    const Result<Scenario> scenario = read_scenario(file, data);
    if (!scenario) return tl::unexpected(scenario.error());
    if (!scenario->measured) continue;
    const Result<ForecastRun> run = forecast(*scenario);
    if (!run) return tl::unexpected(run.error());
    const double predicted = run->forecast.step_time_s;
    page += fmt::format("| {} | {} | {} | {:.3f} | {:.3f} | {:+.1f} % | {:.1f} % |\n", scenario->name,
                        scenario->profile.name, run->forecast.ranks, predicted, scenario->measured->step_time_s,
                        100 * (predicted / scenario->measured->step_time_s - 1), 100 * run->forecast.bubble_fraction);
  }
  return write_file(document, page);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Fits in-training factors to the published runs and writes them into the profiles.");
  std::string root;
  app.add_option("--root", root, "the project's folder")->required()->check(CLI::ExistingDirectory);
  std::string document;
  app.add_option("--document", document, "fit nothing; write the table of all published runs to this file");
  CLI11_PARSE(app, argc, argv);
  constexpr int kBadInput = 2;
  const Result<void> done = document.empty() ? fit_all(root) : write_document(root, document);
  if (done) return 0;
  fmt::print(stderr, "{}\n", to_string(done.error()));
  return kBadInput;
}
