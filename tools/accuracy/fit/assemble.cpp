#include "tools/accuracy/fit/assemble.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/cost/rated_precision.hpp"
#include "sim/io/files.hpp"
#include "tools/accuracy/fit/attention_kernels.hpp"
#include "tools/accuracy/fit/gemm_fit.hpp"
#include "tools/accuracy/fit/in_training.hpp"
#include "tools/accuracy/fit/layouts.hpp"
#include "tools/accuracy/fit/memory_bound.hpp"
#include "tools/accuracy/fit/specification.hpp"

namespace tracecast::accuracy {
namespace {

// Batched multiplications whose head size is no multiple of 8 (see GemmModel::unaligned_factor). BLOOM's four rows with
// head size 108 take 20-30 % longer steps, of which the score matrices are about 5 %
// (docs/references.md#gemm-alignment).
constexpr double kUnaligned = 5;
constexpr const char* kDataSheets = "gpu-specs/gpu_specs.csv";
constexpr const char* kRtxProAttention = "kernels/aiconfigurator/attn_causal_fwd_rtx_pro_6000_server.csv.gz";

struct NarrowFormat {
  Precision precision;
  const char* dtype;
};
constexpr NarrowFormat kFormats[] = {{Precision::bf16, "bfloat16"},
                                     {Precision::fp8, "fp8"},
                                     {Precision::fp8_block, "fp8_block"},
                                     {Precision::nvfp4, "nvfp4"}};

/// MXFP8's multiplications, which no table has, from those with a scale per tensor: cuBLAS takes as much longer for them on B300
/// (docs/references.md#te-gemms).
GemmModel microscaled(GemmModel model) {
  constexpr double kTime = 1.05;
  model.efficiency /= kTime;
  model.benchmark = {};
  model.fit = {"of fp8, 1.05 times the time: " + model.fit.data, 0, model.fit.residual + kTransferResidual};
  return model;
}

}  // namespace

const CsvTable& Assembler::table(const std::string& relative) {
  const auto found = tables_.find(relative);
  TRACECAST_ASSERT(found != tables_.end(), "tables are loaded before they are used");
  return found->second;
}

std::function<GpuPeak(const char*, Precision)> Assembler::data_sheet_peaks() {
  return [&sheets = table(kDataSheets)](const char* row, Precision precision) {
    return peak_of(read_specification(sheets, row, "", 0).value(), precision);
  };
}

const CsvTable& Assembler::data_sheets(const Gpu& gpu) {
  return has_row(*own_sheets_, gpu.row) ? *own_sheets_ : table(kDataSheets);
}

Result<void> Assembler::load(const Gpu& gpu) {
  if (!timed_) {
    Result<Profile> read = read_profile(timed_file_);
    if (!read) return tl::unexpected(read.error());
    timed_ = std::move(*read);
    const Result<CsvTable> kernels = CsvTable::read(published_file_);
    if (!kernels) return tl::unexpected(kernels.error());
    Result<std::vector<MeasuredKernel>> published = read_kernels(*kernels);
    if (!published) return tl::unexpected(published.error());
    published_ = std::move(*published);
    Result<CsvTable> sheets = CsvTable::read(published_file_.parent_path() / "data-sheets.csv");
    if (!sheets) return tl::unexpected(sheets.error());
    own_sheets_ = std::move(*sheets);
  }
  std::vector<std::string> wanted{kDataSheets};
  if (*gpu.gemm_table != '\0') {
    wanted.insert(
        wanted.end(),
        {"kernels/cudnn-frontend/sdpa_training_fwd_bwd.csv", "kernels/cudnn-frontend/norms_fwd_bwd.csv",
         "kernels/published-tables/flash_attention_tflops.csv",
         "kernels/aiconfigurator/attn_causal_fwd_a100_sxm.csv.gz",
         "kernels/aiconfigurator/attn_causal_fwd_h100_sxm.csv.gz", "kernels/aiconfigurator/scale_matrix_perf.csv.gz",
         "kernels/vidur/layer_ops_a100.csv.gz", "kernels/vidur/layer_ops_h100.csv.gz",
         "kernels/simumax/op_efficiency_a100_pcie_80gb.csv", "kernels/simumax/op_efficiency_b200.csv"});
    wanted.push_back(fmt::format("kernels/aiconfigurator/gemm_{}.csv.gz", gpu.gemm_table));
    wanted.emplace_back(kRtxProAttention);
  }
  for (const std::string& relative : wanted) {
    if (tables_.contains(relative)) continue;
    Result<CsvTable> read = CsvTable::read(data_ / relative);
    if (!read) return tl::unexpected(read.error());
    tables_.emplace(relative, std::move(*read));
  }
  return {};
}

Result<Profile> Assembler::profile(const Gpu& gpu) {
  const auto found = done_.find(gpu.name);
  if (found != done_.end()) return found->second;
  if (const Result<void> loaded = load(gpu); !loaded) return tl::unexpected(loaded.error());
  Result<Profile> start = read_specification(data_sheets(gpu), gpu.row, gpu.architecture, gpu.usable_gib);
  if (!start) return start;
  if (gpu.fp32_matrix_tflops > 0) start->peak_flops[Precision::fp32] = gpu.fp32_matrix_tflops * 1e12;
  for (auto& [precision, peak] : start->peak_flops) peak *= gpu.dies * gpu.clock;
  start->memory_bandwidth *= gpu.dies;
  start->sms *= gpu.dies;
  // engine/gpu_sharing.hpp; not known of other architectures
  if (start->architecture == "Hopper") start->gemm_extra_waves = 1.5;
  start->name = gpu.name;
  start->gpu = gpu.title;
  if (*gpu.note != '\0') start->source += std::string("; ") + gpu.note;
  if (*gpu.gemm_table != '\0') {
    if (const Result<void> fitted = fit(gpu, *start); !fitted) return tl::unexpected(fitted.error());
  } else if (*gpu.based_on != '\0') {
    const Result<Profile> base = profile(*find_gpu(gpu.based_on));
    if (!base) return base;
    borrow(gpu, *base, *start);
  } else {
    specify(gpu, *start);
  }
  return done_.emplace(gpu.name, std::move(*start)).first->second;
}

/// Two GPUs with one die and equal peaks differ in memory only, and the measurements of both agree: the 16-bit GEMMs of H100 are
/// off by 6.1 % on those of H200, its own fit by 5.9 %. In fp8 they are not: 9.6 against 7.5 %, 12.2 against 10.3 % in blocks.
Result<void> Assembler::share_die(const Gpu& gpu, Profile& profile) {
  if (*gpu.die == '\0') return {};
  const Result<Profile> twin = this->profile(*find_gpu(gpu.die));
  if (!twin) return tl::unexpected(twin.error());
  for (const Precision precision : {Precision::fp16, Precision::bf16}) {
    const double residual = profile.gemm.at(precision).fit.residual;
    GemmModel& model = profile.gemm.at(precision) = twin->gemm.at(precision);
    model.fit.data = fmt::format("of {}, which has the same die: {}", twin->name, model.fit.data);
    model.fit.residual = std::max(residual, model.fit.residual);
  }
  profile.grouped_gemm = twin->grouped_gemm;
  return {};
}

Result<void> Assembler::fit(const Gpu& gpu, Profile& profile) {
  profile.kind = "fitted";
  const MemoryTables memory{&table("kernels/vidur/layer_ops_a100.csv.gz"),
                            &table("kernels/vidur/layer_ops_h100.csv.gz"),
                            &table("kernels/cudnn-frontend/norms_fwd_bwd.csv"),
                            &table("kernels/aiconfigurator/scale_matrix_perf.csv.gz"), &*timed_};
  for (const NamedFit& own : fit_memory_bound(gpu, memory, profile)) note_fit(profile, own.group, own.fit);
  if (parts_ == Parts::all) {
    fit_gemms(gpu, profile);
    fit_layouts(profile);
    if (const Result<void> shared = share_die(gpu, profile); !shared) return shared;
  }
  fit_attention_kernels(gpu, profile);
  for (const AttentionModel& model : profile.attention)
    note_fit(profile, fmt::format("attention {} {} {}", model.kernel, model.head_dim, model.causal ? "causal" : "full"),
             model.fit);
  if (parts_ == Parts::all) set_in_training(profile, achieved(gpu.architecture));
  if (parts_ == Parts::all && *gpu.in_training_as != '\0') {
    const Result<Profile> other = this->profile(*find_gpu(gpu.in_training_as));
    if (!other) return tl::unexpected(other.error());
    take_factors(other->in_training, gpu.in_training_gemm, profile.in_training);
  }
  profile.host = host_model(gpu);
  return {};
}

void Assembler::fit_attention_kernels(const Gpu& gpu, Profile& profile) {
  AttentionTables tables{.cudnn = &table("kernels/cudnn-frontend/sdpa_training_fwd_bwd.csv"),
                         .published = &table("kernels/published-tables/flash_attention_tflops.csv"),
                         .serving_a100 = &table("kernels/aiconfigurator/attn_causal_fwd_a100_sxm.csv.gz"),
                         .serving_h100 = &table("kernels/aiconfigurator/attn_causal_fwd_h100_sxm.csv.gz"),
                         .peak = data_sheet_peaks()};
  if (profile.name == "rtx-pro-6000") tables.serving_rtx_pro = &table(kRtxProAttention);
  profile.attention = attention_models(gpu.architecture, tables);
  keep_fa2_rate(profile.attention, kFa2BlackwellPeak, profile.peak_flops.at(Precision::fp16));
  mark_attention_of_others(gpu, profile);
}

/// Models that were measured on another GPU say so, and keep their samples if that has the same die. One that is scaled to
/// another head size by a ratio measured on another die has no samples of its own.
void Assembler::mark_attention_of_others(const Gpu& gpu, Profile& profile) {
  for (AttentionModel& model : profile.attention) {
    const std::string measured = attention_measured_on(model.fit.data);
    if (measured.empty() || model.fit.samples == 0) continue;
    if (measured == gpu.die || find_gpu(measured)->die == profile.name)
      model.fit.data = fmt::format("of {}, which has the same die: {}", measured, model.fit.data);
    else if (measured != profile.name)
      model.fit = transferred(model.fit, "another GPU");
    else if (*gpu.die == '\0' && model.fit.data.find("by the ratio") != std::string::npos)
      model.fit = {model.fit.data, 0, model.fit.residual + kTransferResidual};
  }
}

/// Size of the L2 over that of the GPU whose kernels it borrows; 1 where a data sheet does not give it.
double Assembler::l2_over_base(const Gpu& gpu) {
  const Gpu& base = *find_gpu(gpu.based_on);
  const double own = l2_cache(data_sheets(gpu), gpu.row), others = l2_cache(data_sheets(base), base.row);
  return own > 0 && others > 0 ? own / others : 1;
}

/// Latencies of a tile hold the time of its multiplication, which the tensor cores of a later architecture do faster.
void scale_latencies(GemmModel& model, double faster) {
  model.tile_latency /= faster;
  for (GemmTile& tile : model.tiles) tile.latency /= faster;
}

/// Everything but the specification from a GPU of the same family.
void Assembler::borrow(const Gpu& gpu, const Profile& base, Profile& profile) {
  profile.kind = "specification";
  if (profile.peak_flops.empty()) profile.peak_flops = base.peak_flops;
  if (profile.host_bandwidth == 0) profile.host_bandwidth = base.host_bandwidth;
  profile.gemm = base.gemm;
  profile.grouped_gemm = base.grouped_gemm;
  profile.attention = base.attention;
  profile.memory_bound = base.memory_bound;
  profile.in_training = base.in_training;
  profile.host = host_model(gpu);
  take_factors(base.in_training, gpu.in_training_gemm, profile.in_training);
  for (auto& [precision, model] : profile.gemm) {
    model.efficiency *= gpu.efficiency;
    model.benchmark.choices.clear();
    model.benchmark.l2_bytes *= l2_over_base(gpu);
    const auto of_sm = [&](const Profile& of) { return of.peak_flops.at(rated_as(of, precision)) / of.sms; };
    if (profile.architecture != base.architecture) scale_latencies(model, std::max(1.0, of_sm(profile) / of_sm(base)));
    model.fit = transferred(model.fit, base.name);
  }
  profile.grouped_gemm.efficiency *= gpu.efficiency;
  profile.grouped_gemm.fit = transferred(profile.grouped_gemm.fit, base.name);
  const bool own_attention = attention_measured_on(base.attention.front().fit.data) == profile.name;
  for (AttentionModel& model : profile.attention) {
    constexpr double kMost = 0.93;  // what the best kernels reach
    model.fit = transferred(model.fit, base.name);
    for (double* share : {&model.forward_efficiency, &model.backward_efficiency})
      *share = std::max(*share, std::min(kMost, *share * gpu.attention));
  }
  keep_fa2_rate(profile.attention, base.peak_flops.at(Precision::fp16), profile.peak_flops.at(Precision::fp16));
  if (own_attention) fit_attention_kernels(gpu, profile);
  for (auto& [key, model] : profile.memory_bound) model.fit = transferred(model.fit, base.name);
}

/// A GPU without published kernels: the GEMM model of A100 with this GPU's share of the peak.
void Assembler::specify(const Gpu& gpu, Profile& profile) {
  GemmModel model;
  model.t0 = 3e-6;
  model.efficiency = gpu.efficiency;
  model.memory_efficiency = 0.8;
  model.k0 = 100;
  model.tile_exponent = 0.1;
  model.tile_latency = 0.2e-6;  // between those of Ampere and Hopper
  model.wgrad_factor = 1.05;
  model.fit = {"specification; " + std::string(gpu.note), 0, 0.25};
  for (const auto& [precision, peak] : profile.peak_flops) profile.gemm[precision] = model;
  // fp32 on vector units comes closer to their peak.
  if (profile.gemm.contains(Precision::fp32) && gpu.fp32_matrix_tflops == 0)
    profile.gemm.at(Precision::fp32).efficiency = 0.85;
  fit_published_gemms(profile);
  profile.grouped_gemm = profile.gemm.at(Precision::fp16);
  profile.grouped_gemm.efficiency *= 0.8;
  profile.grouped_gemm.fit = model.fit;
  const Fit assumed{
      "specification; efficiencies as A100's and H100's medians (docs/references.md#attention-fit, "
      "docs/references.md#memory-bound-fit)",
      0, 0.3};
  profile.attention = attention_models(gpu.architecture, {.shipped = &published_, .peak = data_sheet_peaks()});
  mark_attention_of_others(gpu, profile);
  if (profile.attention.empty())
    for (const bool causal : {true, false})
      profile.attention.push_back(
          {"flash", 128, causal, kAttentionT0, 0.5, causal ? 900.0 : 250.0, 0.43, causal ? 1300.0 : 500.0, assumed});
  const std::pair<OperatorKind, double> efficiencies[] = {
      {OperatorKind::norm, 0.7},          {OperatorKind::residual, 0.8}, {OperatorKind::activation, 0.8},
      {OperatorKind::rope, 0.45},         {OperatorKind::softmax, 0.8},  {OperatorKind::embedding, 0.7},
      {OperatorKind::cross_entropy, 0.8}, {OperatorKind::cast, 0.8},     {OperatorKind::permute, 0.3},
      {OperatorKind::copy, 0.8}};
  for (const auto& [kind, efficiency] : efficiencies)
    profile.memory_bound[{kind, Pass::forward}] = {3e-6, efficiency, assumed};
  profile.memory_bound[{OperatorKind::optimizer, Pass::optimizer}] = {3e-6, 0.62, assumed};
  set_in_training(profile, achieved(gpu.architecture));
  profile.in_training.fit.samples = 0;
  profile.host = host_model(gpu);
}

/// A format that was not measured takes the share of one of its width, else that of the 16-bit ones. A narrow one has at most the
/// latter's: it gains no more than its peak.
void Assembler::fit_published_gemms(Profile& profile) {
  for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::fp8}) {
    std::vector<GemmSample> samples;
    for (const MeasuredKernel& each : published_)
      if (each.gpu == profile.name && each.op.kind == OperatorKind::gemm && each.op.precision == precision)
        samples.push_back({std::get<GemmShape>(each.op.shape), each.seconds, {}});
    if (samples.empty()) continue;
    const double most = profile.gemm.at(Precision::fp16).efficiency;
    GemmModel fitted = with_fitted_share(
        profile.gemm.at(precision), samples, peak_of(profile, precision), precision,
        fmt::format("share of peak: scenarios/runs/kernels.csv, {}; everything else assumed", profile.name));
    if (is_narrow(precision)) fitted.efficiency = std::min(fitted.efficiency, most);
    note_fit(profile, fmt::format("gemm {}", to_string(precision)), fitted.fit);
    for (auto& [other, model] : profile.gemm) {
      if (other == Precision::fp32 || (is_narrow(precision) && !is_narrow(other))) continue;
      model = fitted;
      if (other != precision) model.fit = transferred(fitted.fit, std::string(to_string(precision)));
    }
  }
}

void Assembler::fit_gemms(const Gpu& gpu, Profile& profile) {
  const std::string name = fmt::format("gemm_{}", gpu.gemm_table);
  const CsvTable& gemms = table(fmt::format("kernels/aiconfigurator/{}.csv.gz", name));
  const double l2 = l2_cache(data_sheets(gpu), gpu.row);
  for (const auto& [precision, dtype] : kFormats) {
    const GemmSamples samples = read_gemm_samples(gemms, dtype);
    if (samples.fitted.empty()) continue;
    const std::string data =
        fmt::format("aiconfigurator {} {} (trtllm, sglang), one in five (n, k) pairs held out", name, dtype);
    // bf16 is the first of the formats. B200's two sources differ by more than those of the other GPUs.
    GemmTask task{.precision = precision, .l2_bytes = l2};
    if (precision != Precision::bf16)
      task.t0 = profile.gemm.at(Precision::bf16).t0;
    else
      task.nodes = profile.name == "b200";
    const GemmFit fit = fit_gemm(samples, peak_of(profile, precision), task,
                                 measured_library(profile.name, profile.architecture, precision), data);
    profile.gemm[precision] = fit.model;
    fits_.push_back({profile.name, fmt::format("gemm {}", to_string(precision)), fit.held_out.samples(),
                     fit.chosen.mean(), fit.large.mean(), fit.large.bias()});
  }
  profile.gemm[Precision::fp16] = profile.gemm.at(Precision::bf16);
  profile.gemm[Precision::fp16].benchmark.choices.clear();  // bf16's benchmarks have them
  if (profile.peak_flops.contains(Precision::mxfp8) && profile.gemm.contains(Precision::fp8))
    profile.gemm[Precision::mxfp8] = microscaled(profile.gemm.at(Precision::fp8));
}

void Assembler::fit_layouts(Profile& profile) {
  // SimuMax measured all layouts on A100 PCIe and B200; Hopper takes the mean of the two.
  const auto of = [&](const char* file, const GpuPeak& gpu) {
    return read_layouts(table(fmt::format("kernels/simumax/{}.csv", file)), profile.gemm.at(Precision::bf16), gpu);
  };
  const auto peak = data_sheet_peaks();
  const Layouts ampere = of("op_efficiency_a100_pcie_80gb", peak("A100-PCIe-80GB", Precision::bf16));
  const Layouts blackwell = of("op_efficiency_b200", peak("B200-SXM-180GB", Precision::bf16));
  Layouts layouts = profile.architecture == "Ampere" ? ampere : blackwell;
  if (profile.architecture == "Hopper") layouts = mean(ampere, blackwell);
  for (auto& [precision, model] : profile.gemm) {
    model.dgrad_factor = layouts.dgrad;
    model.wgrad_factor = layouts.wgrad;
    model.unaligned_factor = kUnaligned;
  }
  profile.grouped_gemm = profile.gemm.at(Precision::fp16);
  profile.grouped_gemm.efficiency /= layouts.grouped;
  profile.grouped_gemm.wgrad_factor = layouts.grouped_wgrad;
  profile.grouped_gemm.fit = {"SimuMax op_efficiency group_matmul against matmul" +
                                  std::string(profile.architecture == "Hopper" ? ", mean of A100 PCIe and B200" : ""),
                              profile.architecture == "Hopper" ? 0 : layouts.samples, layouts.residual};
  if (profile.architecture == "Blackwell" && profile.name != "b200")
    profile.grouped_gemm.fit = transferred(profile.grouped_gemm.fit, "another GPU");
}

void Assembler::note_fit(const Profile& profile, const std::string& group, const Fit& fit) {
  fits_.push_back({profile.name, group, fit.samples, fit.residual, fit.residual, 0});
}

}  // namespace tracecast::accuracy
