/// \file
/// Assembles a profile: specification, fits to measured kernels, in-training factors of published runs.
///
/// The kernels are fitted to measurements of others that are not shipped (docs/references.md).
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/cost/profile.hpp"
#include "sim/io/csv_table.hpp"
#include "tools/accuracy/fit/catalogue.hpp"
#include "tools/accuracy/fit/fit.hpp"
#include "tools/accuracy/kernel_tables.hpp"

namespace tracecast::accuracy {

/// The quality of one fit.
struct FitLine {
  std::string profile;
  std::string group;  ///< "gemm bf16"
  int samples = 0;
  double all = 0;    ///< held-out mean |log error| over all shapes
  double large = 0;  ///< over large shapes; `all` where sizes are not distinguished
  double bias = 0;
};

class Assembler {
 public:
  enum class Parts { all, without_multiplications };
  /// `data`: the folder with kernels/ and gpu-specs/. `timed`: the profile with this project's own measurements of an H100.
  /// `published`: the shipped table of kernels; beside it, data-sheets.csv has the GPUs that gpu-specs/ lacks. Without multiplications, whose fits take most of the time, a fitted profile has no
  /// gemm, grouped_gemm and in_training.
  Assembler(std::filesystem::path data, std::filesystem::path timed, std::filesystem::path published,
            Parts parts = Parts::all)
      : data_(std::move(data)), timed_file_(std::move(timed)), published_file_(std::move(published)), parts_(parts) {}

  /// Errors: a table of measurements, or the profile, is missing or broken.
  Result<Profile> profile(const Gpu& gpu);
  const std::vector<FitLine>& fits() const { return fits_; }

 private:
  Result<void> load(const Gpu& gpu);
  const CsvTable& table(const std::string& relative);
  /// The table of data sheets that has this GPU.
  const CsvTable& data_sheets(const Gpu& gpu);
  /// Of GPUs whose kernels were measured, by their row.
  std::function<GpuPeak(const char*, Precision)> data_sheet_peaks();
  Result<void> fit(const Gpu& gpu, Profile& profile);
  Result<void> share_die(const Gpu& gpu, Profile& profile);
  double l2_over_base(const Gpu& gpu);
  void borrow(const Gpu& gpu, const Profile& base, Profile& profile);
  void specify(const Gpu& gpu, Profile& profile);
  void fit_published_gemms(Profile& profile);
  void mark_attention_of_others(const Gpu& gpu, Profile& profile);
  void fit_gemms(const Gpu& gpu, Profile& profile);
  void fit_layouts(Profile& profile);
  void fit_attention_kernels(const Gpu& gpu, Profile& profile);
  void note_fit(const Profile& profile, const std::string& group, const Fit& fit);

  std::filesystem::path data_;
  std::filesystem::path timed_file_;
  std::filesystem::path published_file_;
  std::optional<Profile> timed_;
  std::vector<MeasuredKernel> published_;
  std::optional<CsvTable> own_sheets_;
  Parts parts_;
  std::map<std::string, CsvTable> tables_;
  std::map<std::string, Profile> done_;
  std::vector<FitLine> fits_;
};

}  // namespace tracecast::accuracy
