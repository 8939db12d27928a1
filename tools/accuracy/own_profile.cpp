#include "tools/accuracy/own_profile.hpp"

#include <cmath>

#include "tools/accuracy/validate.hpp"

namespace tracecast::accuracy {
namespace {

constexpr double kMost = 4;
constexpr double kTolerance = 1e-3;

double step_with(const CsvTable& table, const RowForecast& row, const RowLibrary& library, double scale) {
  const ValidateOptions how{.change = [&](RowScenario& changed) { scale_work(changed.scenario.profile, scale); },
                            .forecast = {.record_spans = false},
                            .bands = false,
                            .wanted = [&](std::size_t index) { return index == row.row; }};
  return validate_each(table, library, {FactorsOf{}}, how).front()[row.row].predicted_s;
}

}  // namespace

void scale_work(Profile& profile, double scale) {
  InTraining& f = profile.in_training;
  for (double* factor : {&f.gemm, &f.gemm_fp8, &f.gemm_fp8_block, &f.gemm_fp4, &f.grouped_gemm, &f.attention, &f.scores,
                         &f.softmax, &f.memory})
    *factor *= scale;
  profile.host.scale_eager(scale);
}

WorkScale work_scale(const CsvTable& table, const RowForecast& row, const RowLibrary& library, double step_s) {
  const auto with = [&](double scale) { return step_with(table, row, library, scale); };
  const auto close = [&](double step) { return std::abs(step / step_s - 1) <= kTolerance; };
  if (close(row.predicted_s)) return {1, row.predicted_s};
  // Bisection of the logarithm, between the profile as it is and the end on the side of step_s.
  const bool longer = step_s > row.predicted_s;
  double from = 0, to = longer ? std::log(kMost) : -std::log(kMost);
  if (const double end = with(std::exp(to)); (end > step_s) != longer) return {std::nullopt, end};
  double scale = 1, step = row.predicted_s;
  for (int i = 0; i < 20 && !close(step); ++i) {
    scale = std::exp((from + to) / 2);
    step = with(scale);
    ((step > step_s) == longer ? to : from) = (from + to) / 2;
  }
  return {scale, step};
}

}  // namespace tracecast::accuracy
