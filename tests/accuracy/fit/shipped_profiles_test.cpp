// The shipped profiles are what the fits find in the public measurements, where those are.

#include <algorithm>
#include <filesystem>

#include <catch2/catch.hpp>

#include "sim/cost/power_limit.hpp"
#include "sim/cost/rated_precision.hpp"
#include "sim/io/files.hpp"
#include "tests/accuracy/fit/shipped_peak.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"
#include "tools/accuracy/calibration.hpp"
#include "tools/accuracy/fit/assemble.hpp"
#include "tools/accuracy/fit/attention_kernels.hpp"
#include "tools/accuracy/fit/catalogue.hpp"
#include "tools/accuracy/fit/gemm_fit.hpp"
#include "tools/accuracy/fit/specification.hpp"
#include "tools/accuracy/kernel_tables.hpp"

using namespace tracecast;
using namespace tracecast::accuracy;

namespace {

const std::filesystem::path kData = measurements_of_others();

double mean_error(const GemmModel& model, const GpuPeak& gpu, const std::vector<GemmSample>& samples, bool large_only) {
  LogError error;
  for (const GemmSample& s : samples)
    if (!large_only || is_large(s.shape))
      error.add(looped_gemm_seconds(s.loop, model, gpu, s.shape, gemm_elements(Precision::bf16)), s.seconds);
  return error.mean();
}

}  // namespace

TEST_CASE("fit: every GPU of the catalogue has a profile of its kind", "[accuracy][fit]") {
  for (const Gpu& gpu : catalogue()) {
    INFO(gpu.name);
    const Profile profile = shipped_profile(gpu.name);
    CHECK(profile.gpu == gpu.title);
    CHECK(profile.architecture == gpu.architecture);
    CHECK(profile.kind == (*gpu.gemm_table != '\0' ? "fitted" : "specification"));
    CHECK_FALSE(profile.gemm.empty());
    CHECK_FALSE(profile.attention.empty());
    CHECK_FALSE(profile.peak_flops.empty());
    CHECK(profile.memory_bandwidth > 0);
  }
}

TEST_CASE("fit: a borrowed latency leaves large multiplications near their share of the peak", "[accuracy][fit]") {
  for (const Gpu& gpu : catalogue()) {
    const Profile profile = shipped_profile(gpu.name);
    for (const auto& [precision, model] : profile.gemm) {
      INFO(gpu.name << " " << to_string(precision));
      const GpuPeak peak{profile.peak_flops.at(rated_as(profile, precision)), profile.memory_bandwidth, profile.sms};
      const double flops = 2.0 * 16384 * 16384 * 16384;
      const double limit =
          flops / (peak.flops * model.efficiency * power_loss(model.power_knee, model.power_exponent, flops));
      CHECK(gemm_seconds(model, peak, {16384, 16384, 16384}, gemm_elements(precision)) < 1.5 * limit);
    }
  }
}

TEST_CASE("fit: attention, memory-bound work and host of the shipped profiles are what the fit writes",
          "[accuracy][fit]") {
  if (!std::filesystem::exists(kData)) {
    WARN("skipped: " << kData << " is absent");
    return;
  }
  Assembler assembler(kData, source_dir() / "kernels/profiles/h100-measured.json",
                      source_dir() / "scenarios/runs/kernels.csv", Assembler::Parts::without_multiplications);
  test::EverySeventh selection;
  for (const Gpu& gpu : catalogue()) {
    if (selection.leaves_out()) continue;
    INFO(gpu.name);
    const Profile fitted = value_of(assembler.profile(gpu));
    const Profile profile = shipped_profile(gpu.name);
    CHECK(fitted.attention == profile.attention);
    CHECK(fitted.memory_bound == profile.memory_bound);
    CHECK(fitted.host == profile.host);
    CHECK(fitted.peak_flops == profile.peak_flops);
    CHECK(fitted.memory_bandwidth == profile.memory_bandwidth);
    CHECK(fitted.source == profile.source);
  }
}

TEST_CASE(
    "fit: a recorded profile keeps its own times, and has the memory-bound models of its GPU for what was not timed",
    "[accuracy][fit]") {
  const Profile recorded = shipped_profile("h100-measured");
  REQUIRE(recorded.kind == "recorded");
  CHECK(recorded.in_training.gemm == 1);
  CHECK(recorded.in_training.attention == 1);
  CHECK(recorded.memory_bound == shipped_profile("h100").memory_bound);
}

TEST_CASE("fit: profiles of GPUs in the shipped table of kernels are what the fit finds in it", "[accuracy][fit]") {
  const std::vector<MeasuredKernel> kernels =
      read_kernels(CsvTable::read(source_dir() / "scenarios/runs/kernels.csv").value()).value();
  for (const char* name : {"mi300x", "mi355x"}) {
    INFO(name);
    const Profile profile = shipped_profile(name);
    std::vector<AttentionModel> fitted =
        attention_models(profile.architecture, {.shipped = &kernels, .peak = shipped_peak});
    REQUIRE(fitted.size() == profile.attention.size());
    for (std::size_t i = 0; i < fitted.size(); ++i) {
      fitted[i].fit = profile.attention[i].fit;
      CHECK(fitted[i] == profile.attention[i]);
    }
  }
  for (const char* name : {"mi300x", "mi355x", "v100"}) {
    INFO(name);
    const Profile profile = shipped_profile(name);
    for (const AttentionModel& model : profile.attention) CHECK(model.fit.residual > 0.03);  // no curve of one length
    const Precision precision = std::string(name) == "v100" ? Precision::fp16 : Precision::bf16;
    std::vector<GemmSample> samples;
    for (const MeasuredKernel& each : kernels)
      if (each.gpu == name && each.op.kind == OperatorKind::gemm && each.op.precision == precision)
        samples.push_back({std::get<GemmShape>(each.op.shape), each.seconds, {}});
    GemmModel start = profile.gemm.at(precision);
    start.efficiency = 0.4;
    const GemmModel fitted = with_fitted_share(start, samples, peak_of(profile, precision), precision, start.fit.data);
    CHECK(fitted.efficiency == Approx(profile.gemm.at(precision).efficiency).epsilon(1e-3));
    CHECK(fitted.fit.samples == static_cast<int>(samples.size()));
    CHECK(fitted.fit.residual == Approx(profile.gemm.at(precision).fit.residual).epsilon(1e-3));
  }
}

TEST_CASE("fit: multiplications in MXFP8 take 1.05 times those in fp8, and nobody timed them", "[accuracy][fit]") {
  for (const char* name : {"b200", "gb200", "b300", "gb300", "rtx-pro-6000"}) {
    INFO(name);
    const Profile profile = shipped_profile(name);
    const auto time = [&](Precision precision) {
      return gemm_seconds(profile.gemm.at(precision), peak_of(profile, precision), {16384, 16384, 16384},
                          gemm_elements(precision));
    };
    CHECK(time(Precision::mxfp8) / time(Precision::fp8) == Approx(1.05).epsilon(0.01));
    CHECK(profile.gemm.at(Precision::mxfp8).fit.samples == 0);
    CHECK(profile.gemm.at(Precision::mxfp8).fit.residual > profile.gemm.at(Precision::fp8).fit.residual);
  }
}

TEST_CASE("fit: FlashAttention 2 has one rate on all data-centre Blackwell, which is Hopper's", "[accuracy][fit]") {
  const auto rates = [](const char* name) {
    const Profile profile = shipped_profile(name);
    std::vector<double> found;
    for (const AttentionModel& model : profile.attention)
      if (model.kernel == "fa2")
        for (const double share : {model.forward_efficiency, model.backward_efficiency})
          found.push_back(share * profile.peak_flops.at(Precision::fp16));
    return found;
  };
  const std::vector<double> hopper = rates("h100");
  REQUIRE(hopper.size() == 8);
  for (const char* name : {"b200", "gb200", "b300", "gb300", "vr200"}) {
    INFO(name);
    CHECK_THAT(rates(name), Catch::Matchers::Approx(hopper).epsilon(0.001));  // H100's peak is 989.4 or 989
  }
}

TEST_CASE("fit: attention without a mask goes backward about as fast as with one", "[accuracy][fit]") {
  int pairs = 0;
  for (const char* name : {"h100", "h200", "gh200", "b200"}) {
    const Profile profile = shipped_profile(name);
    for (const AttentionModel& model : profile.attention) {
      if (model.kernel != "cudnn" || !model.causal || model.precision != Precision::bf16) continue;
      INFO(name << ", head size " << model.head_dim);
      const AttentionShape shape{1, 16'384, 16'384, 32, 32, model.head_dim, model.head_dim, false, 0};
      const AttentionModel* full = nearest_attention_model(profile.attention, "cudnn", shape, Precision::bf16);
      REQUIRE(full->head_dim == model.head_dim);
      CHECK(full->backward_efficiency / model.backward_efficiency == Approx(1).epsilon(0.15));
      ++pairs;
    }
  }
  CHECK(pairs >= 14);
}

TEST_CASE("fit: factors that few runs decided are the less certain", "[accuracy][fit]") {
  for (const Gpu& gpu : catalogue()) {
    INFO(gpu.name);
    const Fit fit = shipped_profile(gpu.name).in_training.fit;
    CHECK((fit.samples > 0 || fit.residual >= 0.1));
  }
  for (const char* name : {"a100", "h100", "b200"}) {
    INFO(name);
    const InTraining determined = shipped_profile(name).in_training;
    CHECK(determined.fit.samples > 20);
    CHECK(determined.fit.residual >= 0.05);
    CHECK(determined.fit.residual < 0.10);
  }
  for (const char* name : {"v100", "mi300x", "mi355x", "pvc", "a64fx"}) {
    INFO(name);
    const InTraining borrowed = shipped_profile(name).in_training;
    CHECK(borrowed.fit.samples < 20);
    CHECK(borrowed.fit.residual == 0.10);
    CHECK(borrowed.gemm_fp8 == Approx(borrowed.gemm).epsilon(0.001));  // no run compares precisions
  }
}

TEST_CASE("fit: a GPU that runs another's kernels has its factors, and is the less certain at other peaks",
          "[accuracy][fit]") {
  int borrowing = 0;
  for (const Gpu& gpu : catalogue()) {
    if (*gpu.based_on == '\0') continue;
    INFO(gpu.name << " of " << gpu.based_on);
    const Profile profile = shipped_profile(gpu.name);
    const Profile base = shipped_profile(gpu.based_on);
    // What is fitted to runs later than a profile was made must reach it, too.
    CHECK(profile.in_training.memory == base.in_training.memory);
    CHECK(profile.in_training.softmax == base.in_training.softmax);
    CHECK(profile.in_training.gemm == Approx(base.in_training.gemm * gpu.in_training_gemm).epsilon(0.001));
    const double peaks = profile.peak_flops.at(Precision::fp16) / base.peak_flops.at(Precision::fp16);
    if (peaks < 0.8) CHECK(profile.in_training.fit.residual >= 0.10);
    ++borrowing;
  }
  CHECK(borrowing >= 9);
}

TEST_CASE("fit: GPUs with one die and equal peaks share 16-bit GEMMs, and more memory bandwidth is never slower",
          "[property][accuracy][fit]") {
  for (const Gpu& gpu : catalogue()) {
    if (*gpu.die == '\0') continue;
    INFO(gpu.name << " and " << gpu.die);
    const Profile profile = shipped_profile(gpu.name);
    const Profile twin = shipped_profile(gpu.die);
    CHECK(profile.sms == twin.sms);
    CHECK(profile.in_training.gemm == twin.in_training.gemm);
    CHECK(profile.in_training.weight_gradient == twin.in_training.weight_gradient);
    for (const Precision precision : {Precision::fp16, Precision::bf16}) {
      GemmModel model = profile.gemm.at(precision);
      model.fit = twin.gemm.at(precision).fit;
      CHECK(model == twin.gemm.at(precision));
      CHECK(profile.peak_flops.at(precision) == twin.peak_flops.at(precision));
    }
  }
  // GH100 with memory of 3.35, 4.0 and 4.8 TB/s, as forecasts take its kernels.
  const std::vector<Profile> growing{shipped_profile("h100"), shipped_profile("gh200"), shipped_profile("h200")};
  for (std::size_t i = 1; i < growing.size(); ++i)
    for (std::int64_t m = 1; m <= 1 << 16; m *= 4)
      for (const std::int64_t n : {64, 1024, 4096, 28'672})
        for (const std::int64_t k : {64, 1024, 8192}) {
          const auto time = [&](const Profile& profile) {
            return gemm_seconds(profile.gemm.at(Precision::bf16), peak_of(profile, Precision::bf16), {m, n, k},
                                gemm_elements(Precision::bf16));
          };
          INFO(growing[i].name << ": " << m << " x " << n << " x " << k);
          CHECK(time(growing[i]) <= time(growing[i - 1]));
        }
}

TEST_CASE("fit: narrow multiplications gain no more than their peak and their bytes allow",
          "[property][accuracy][fit]") {
  int pairs = 0;
  for (const Gpu& gpu : catalogue()) {
    const Profile profile = shipped_profile(gpu.name);
    for (const Precision precision : {Precision::fp8, Precision::mxfp8, Precision::fp8_block, Precision::nvfp4}) {
      const double gain = narrow_gain(profile, precision);
      if (gain <= 0) continue;
      INFO(gpu.name << ", " << to_string(precision) << ": " << gain << " of what peak and bytes allow");
      // The factors of Hopper's runs are held at what H100 allows. Where memory is faster (GH200) or the peak lower (H20), a few
      // shapes gain more.
      const double borrowed = profile.name == "h20" ? 1.3 : profile.name == "gh200" ? 1.04 : 1;
      CHECK(gain < borrowed + 1e-6);  // durations are rounded to picoseconds
      ++pairs;
    }
  }
  CHECK(pairs > 40);
}

TEST_CASE("fit: shipped GEMM parameters have the residual they state, and no neighbour is better", "[accuracy][fit]") {
  if (!std::filesystem::exists(kData)) {
    WARN("skipped: " << kData << " is absent");
    return;
  }
  const std::string name = GENERATE("h100", "a100");
  const Profile profile = shipped_profile(name);
  const Result<CsvTable> table = CsvTable::read(kData / "kernels/aiconfigurator" / ("gemm_" + name + "_sxm.csv.gz"));
  REQUIRE(table);
  const GemmSamples samples = read_gemm_samples(*table, "bfloat16");
  const GemmModel model = profile.gemm.at(Precision::bf16);
  const GpuPeak gpu = peak_of(profile, Precision::bf16);
  CHECK(mean_error(model, gpu, samples.held_out, true) == Approx(model.fit.residual).epsilon(1e-9));
  CHECK(static_cast<int>(samples.fitted.size()) == model.fit.samples);
  // docs/references.md#gemm-fit: 4.5 and 4.6 % over shapes with all sides >= 1024. What two frameworks differ by is 5
  // %.
  CHECK(model.fit.residual < 0.055);
  // At most 8 % over everything that was held out, single rows and launch-bound kernels included.
  CHECK(mean_error(model, gpu, samples.held_out, false) < 0.08);
  // Moving a parameter that matters by 5 % makes the fit worse on what it was fitted to.
  const double best = mean_error(model, gpu, samples.fitted, true);
  for (double GemmModel::*parameter : {&GemmModel::efficiency}) {
    for (const double factor : {0.95, 1.05}) {
      GemmModel moved = model;
      moved.*parameter *= factor;
      CHECK(mean_error(moved, gpu, samples.fitted, true) > best * 1.02);
    }
  }
  GemmModel whole_waves_only = model;
  whole_waves_only.t0 *= 1.2;
  CHECK(mean_error(whole_waves_only, gpu, samples.fitted, false) > mean_error(model, gpu, samples.fitted, false));
}

// Takes a minute: tracecast_tests "[refit]".
TEST_CASE("fit: fitting H100's GEMMs again gives the shipped parameters", "[.][refit]") {
  if (!std::filesystem::exists(kData)) {
    WARN("skipped: " << kData << " is absent");
    return;
  }
  const Profile profile = shipped_profile("h100");
  const Result<CsvTable> table = CsvTable::read(kData / "kernels/aiconfigurator/gemm_h100_sxm.csv.gz");
  REQUIRE(table);
  const Result<CsvTable> specifications = CsvTable::read(kData / "gpu-specs/gpu_specs.csv");
  REQUIRE(specifications);
  const GemmFit fit = fit_gemm(read_gemm_samples(*table, "bfloat16"), peak_of(profile, Precision::bf16),
                               {.l2_bytes = l2_cache(*specifications, "H100-SXM-80GB")}, {}, "");
  const GemmModel& model = profile.gemm.at(Precision::bf16);
  CHECK(fit.model.efficiency == Approx(model.efficiency).epsilon(1e-6));
  CHECK(fit.model.t0 == Approx(model.t0).epsilon(1e-6));
  CHECK(fit.model.norm == Approx(model.norm).epsilon(1e-6));
  CHECK(fit.model.power_exponent == Approx(model.power_exponent).epsilon(1e-6));
  CHECK(fit.model.fit.residual == Approx(model.fit.residual).epsilon(1e-6));
}

TEST_CASE("fit: samples of attention are of the profile's own GPU or of one with the same die", "[accuracy][fit]") {
  int own = 0;
  for (const Gpu& gpu : catalogue()) {
    const std::string name = gpu.name;
    for (const AttentionModel& model : shipped_profile(name).attention) {
      INFO(name << ": " << model.fit.data);
      const std::string measured = attention_measured_on(model.fit.data);
      if (measured == name && model.fit.samples > 0) ++own;
      if (measured.empty() || measured == name || model.fit.samples == 0) continue;
      CHECK((gpu.die == measured || find_gpu(measured)->die == name));
      CHECK(model.fit.data.starts_with("of " + measured + ", which has the same die: "));
    }
  }
  CHECK(own >= 4);  // GB200's
  for (const auto& [name, whose] : {std::pair{"b200", "of another GPU: "}, std::pair{"gb300", "of another GPU: "},
                                    std::pair{"b300", "of gb300: of another GPU: "}})
    for (const AttentionModel& model : shipped_profile(name).attention) {
      CHECK(model.fit.samples == 0);
      CHECK((model.kernel == "fa2" || model.fit.data.starts_with(whose)));  // FlashAttention 2's rate is Hopper's
    }
}
