/// \file
/// Fits the in-training factors of the shipped profiles to the dense runs of scenarios/runs/published.csv (calibration.hpp),
/// so that `predict` forecasts with the factors that `validate published --nested` scores:
///
///   fit_training --root .                   after `fit_profiles --all`: writes the profiles and prints the factors
///   fit_training --root . --document FILE   fits nothing; writes the table of scenarios/published as they are forecast
///
/// On an architecture without a run a GPU has the factors of the GPU whose kernels it borrows, if any. A recorded profile keeps its
/// own: its operators were timed at the temperature of a step.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/base/enum_names.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/io/files.hpp"
#include "tools/accuracy/calibration.hpp"
#include "tools/accuracy/errors.hpp"
#include "tools/accuracy/fit/catalogue.hpp"
#include "tools/accuracy/rows/row_library.hpp"
#include "tools/accuracy/validate.hpp"

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

constexpr const char* kTable = "published";

double factor(const CostScales& factors, CostParameter kind) { return factors[static_cast<std::size_t>(kind)]; }

/// With fewer runs on an architecture, all its multiplications have one factor: no run compares precisions.
constexpr std::ptrdiff_t kFewRuns = 20;

/// With four decimals: runs determine two.
void apply(const CostScales& fitted, bool few_runs, InTraining& factors) {
  const auto multiply = [&](double& factor_of, CostParameter kind) {
    factor_of = std::round(factor_of * factor(fitted, kind) * 1e4) / 1e4;
  };
  const auto narrow = [&](CostParameter kind) { return few_runs ? CostParameter::gemm : kind; };
  multiply(factors.gemm, CostParameter::gemm);
  multiply(factors.gemm_fp8, narrow(CostParameter::gemm_fp8));
  multiply(factors.gemm_fp8_block, narrow(CostParameter::gemm_fp8));
  multiply(factors.gemm_fp4, narrow(CostParameter::gemm_fp4));
  multiply(factors.attention, CostParameter::attention);
}

/// A GPU whose narrow kernels were measured to be faster than its architecture's gains no more by them than peaks and bytes allow.
void limit_gains(Profile& profile) {
  InTraining& factors = profile.in_training;
  for (const auto& [precision, factor] :
       {std::pair{Precision::fp8, &factors.gemm_fp8}, std::pair{Precision::mxfp8, &factors.gemm_fp8},
        std::pair{Precision::fp8_block, &factors.gemm_fp8_block}, std::pair{Precision::nvfp4, &factors.gemm_fp4}})
    if (const double gain = narrow_gain(profile, precision); gain > 1) *factor = std::ceil(*factor * gain * 1e4) / 1e4;
}

/// How far factors may be off that few runs decide: architectures differ by 4 % in multiplications and by 20 to 30 in attention;
/// the bootstrap of docs/references.md#in-training-factors left 7 % with Blackwell's runs. Never below what releases and sites
/// differ by (docs/references.md#noise-floor).
double residual_of(std::ptrdiff_t runs) { return runs >= 100 ? 0.05 : runs >= kFewRuns ? 0.07 : 0.10; }

/// The profile of the GPU whose kernels this one borrows; nothing if it has its own.
Result<std::optional<Profile>> read_base(const fs::path& folder, const Profile& profile) {
  const Gpu* gpu = find_gpu(profile.name);
  if (gpu == nullptr || *gpu->based_on == '\0') return std::nullopt;
  return read_profile(folder / (std::string(gpu->based_on) + ".json"));
}

/// A GPU that runs another's kernels well below the peaks that they were measured at (H20, H100 PCIe) keeps its power and
/// clock in another way: its factors may be off by as much as those that few runs decide.
Result<bool> has_other_peaks(const fs::path& folder, const Profile& profile) {
  const Result<std::optional<Profile>> base = read_base(folder, profile);
  if (!base) return tl::unexpected(base.error());
  return *base && profile.peak_flops.at(Precision::fp16) < 0.8 * (*base)->peak_flops.at(Precision::fp16);
}

/// Of a GPU whose architecture no run was on.
Result<void> take_factors_of_base(const fs::path& file, Profile& profile) {
  const Result<std::optional<Profile>> base = read_base(file.parent_path(), profile);
  if (!base) return tl::unexpected(base.error());
  std::string whose = "no run of this architecture: Ampere's of docs/references.md#in-training-factors";
  if (*base) {
    profile.in_training = (*base)->in_training;
    whose = fmt::format("those of {}, whose kernels are taken: docs/references.md#in-training-factors", (*base)->gpu);
    limit_gains(profile);
  }
  profile.in_training.fit = {whose, 0, residual_of(0)};
  return write_file(file, to_json(profile));
}

Result<void> fit_all(const fs::path& root) {
  const DataPaths data{root / "scenarios", root / "topologies", root / "kernels" / "profiles"};
  const Result<RowLibrary> library = RowLibrary::open(data);
  if (!library) return tl::unexpected(library.error());
  const Result<CsvTable> table = read_run_table(data, kTable);
  if (!table) return tl::unexpected(table.error());
  const Result<std::vector<RowForecast>> rows =
      validate(*table, *library, {.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))});
  if (!rows) return tl::unexpected(rows.error());
  const Result<FitChoice> choice = choice_of_profiles(*library);
  if (!choice) return tl::unexpected(choice.error());
  const CalibrationFit fit = fit_factors(scored(*rows), *choice);
  for (const auto& [architecture, factors] : fit.factors) {
    fmt::print("{}:", architecture);
    for (const CostParameter kind : kFittedKinds) fmt::print(" {} x {:.3f}", to_string(kind), factor(factors, kind));
    fmt::print("\n");
  }
  std::vector<fs::path> without_runs;
  for (const fs::path& file : json_files(data.profiles)) {
    Result<Profile> profile = read_profile(file);
    if (!profile) return tl::unexpected(profile.error());
    const auto found = fit.factors.find(profile->architecture);
    if (profile->kind == "recorded") continue;
    if (found == fit.factors.end()) {
      without_runs.push_back(file);
      continue;
    }
    const Result<bool> other_peaks = has_other_peaks(data.profiles, *profile);
    if (!other_peaks) return tl::unexpected(other_peaks.error());
    const auto runs = std::ranges::count_if(*rows, [&](const RowForecast& row) {
      return row.scored() && !row.moe && row.architecture == profile->architecture;
    });
    InTraining& in = profile->in_training;
    apply(found->second, runs < kFewRuns, in);
    limit_gains(*profile);
    in.fit = {
        fmt::format(
            "docs/references.md#in-training-factors: {} runs of scenarios/runs/published.csv on this architecture "
            "(fit_training)",
            runs),
        static_cast<int>(runs), *other_peaks ? residual_of(0) : residual_of(runs)};
    if (const Result<void> written = write_file(file, to_json(*profile)); !written) return written;
  }
  for (const fs::path& file : without_runs) {
    Result<Profile> profile = read_profile(file);
    if (!profile) return tl::unexpected(profile.error());
    if (const Result<void> written = take_factors_of_base(file, *profile); !written) return written;
  }
  return {};
}

/// Forecast against measurement for every published run that can be forecast, as a page.
Result<void> write_document(const fs::path& root, const fs::path& document) {
  const DataPaths data{root / "scenarios", root / "topologies", root / "kernels" / "profiles"};
  std::string page =
      "# Published runs\n\nStep times forecast from the files in `scenarios/published`, one profile per GPU and no "
      "setting per run; attention is\n"
      "counted as each source counts it. Written by `build/release/tools/accuracy/fit/fit_training --root . "
      "--document\n"
      "docs/validation/runs.md`.\n\nMost of these runs are in the table that the in-training factors of the profiles "
      "were fitted "
      "to\n(`fit_training --root .`), so this shows how well one set of factors per GPU describes them, not how well "
      "unseen runs "
      "are\nforecast: [accuracy.md](accuracy.md) says that.\n\n"
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
