#include "tools/accuracy/fit/memory_bound.hpp"

#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "tools/accuracy/fit/fit.hpp"
#include "tools/accuracy/fit/memory_fit.hpp"

namespace tracecast::accuracy {
namespace {

/// Share of the memory's bandwidth that copies of 1 GiB and more reach: simllm's on A100 and GH200, memory-bound GEMMs of B200.
double copy_share(const std::string& architecture) {
  return architecture == "Ampere" ? 0.82 : architecture == "Blackwell" ? 0.78 : 0.86;
}

/// "h100_sxm" is called "H100-SXM" inside the tables.
std::string upper_case(const std::string& table) {
  std::string name;
  for (const char c : table) name += c == '_' ? '-' : static_cast<char>(std::toupper(c));
  return name;
}

/// Shares of bandwidth that are single published numbers.
void put_stated(Profile& profile) {
  const std::string& architecture = profile.architecture;
  const bool ampere = architecture == "Ampere";
  const bool blackwell = architecture == "Blackwell";
  const auto put = [&](OperatorKind kind, Pass pass, double efficiency, const std::string& data) {
    profile.memory_bound[{kind, pass}] = {3e-6, efficiency, {data, 0, 0.2}};
  };
  const double copy = copy_share(architecture);
  put(OperatorKind::copy, Pass::forward, copy, "simllm copies, docs/references.md#memory-bound-fit");
  put(OperatorKind::cross_entropy, Pass::forward, 0.83 * copy / copy_share("Hopper"),
      "PyTorch 2.11 on H100, docs/references.md#loss-bytes");
  // SimuMax: A100 PCIe .188 of 1600 GB/s (its memory has 1935); B200 .501 of 8000 (7700).
  put(OperatorKind::permute, Pass::forward,
      ampere      ? 0.155
      : blackwell ? 0.52
                  : 0.34,
      "SimuMax bandwidth_networks: permute; Hopper: mean");
  put(OperatorKind::softmax, Pass::forward, 0.8,
      "assumed: a streaming kernel; its level in training is in_training.softmax");
  put(OperatorKind::optimizer, Pass::optimizer, 0.62,
      "docs/references.md#in-training-factors: 62 % of memory bandwidth at 30 bytes per parameter");
}

/// Puts the fits of one GPU into its profile.
class MemoryBoundFits {
 public:
  MemoryBoundFits(const Gpu& gpu, const MemoryTables& tables, Profile& profile)
      : gpu_(gpu), architecture_(gpu.architecture), tables_(tables), profile_(profile) {}

  std::vector<NamedFit> fit() {
    fit_layers();
    fit_timed();
    fit_norms();
    fit_quantisation();
    put_stated(profile_);
    return std::move(own_);
  }

 private:
  /// `measured`: the architecture that the samples are of. On another one a kernel reaches as much less as copies do.
  void put(OperatorKind kind, Pass pass, MemoryModel model, const char* measured, bool own) {
    if (!own) model.fit = transferred(model.fit, "another GPU");
    model.efficiency *= copy_share(architecture_) / copy_share(measured);
    profile_.memory_bound[{kind, pass}] = model;
    if (own) own_.push_back({fmt::format("{} {}", to_string(kind), to_string(pass)), model.fit});
  }

  /// Vidur's layers: A100 and H100; later GPUs take H100's shares of bandwidth.
  void fit_layers() {
    const bool ampere = architecture_ == "Ampere";
    const std::string file = fmt::format("layer_ops_{}.csv.gz", ampere ? "a100" : "h100");
    const std::pair<OperatorKind, const char*> columns[] = {{OperatorKind::residual, "add_ms"},
                                                            {OperatorKind::rope, "attn_rope_ms"}};
    for (const auto& [kind, column] : columns)
      put(kind, Pass::forward,
          fit_memory(read_vidur_samples(ampere ? *tables_.layers_a100 : *tables_.layers_h100, column),
                     ampere ? 2.039e12 : 3.35e12, fmt::format("Vidur {} {}", file, column)),
          ampere ? "Ampere" : "Hopper", ampere || profile_.name == "h100");
  }

  /// Operators timed on H100; Vidur's activations and embeddings are those of a server of 2023, which reach less.
  void fit_timed() {
    const std::pair<OperatorKind, Pass> timed[] = {{OperatorKind::activation, Pass::forward},
                                                   {OperatorKind::activation, Pass::backward},
                                                   {OperatorKind::embedding, Pass::forward},
                                                   {OperatorKind::embedding, Pass::backward}};
    for (const auto& [kind, pass] : timed)
      put(kind, pass,
          fit_memory(timed_samples(*tables_.timed, kind, pass), tables_.timed->memory_bandwidth,
                     fmt::format("operators of {}", tables_.timed->name)),
          "Hopper", profile_.name == "h100");
  }

  /// cuDNN's norms: H200 and GB200.
  void fit_norms() {
    const bool blackwell = architecture_ == "Blackwell";
    const std::string gpu = blackwell ? "NVIDIA GB200" : "NVIDIA H200";
    for (const bool backward : {false, true})
      put(OperatorKind::norm, backward ? Pass::backward : Pass::forward,
          fit_memory(read_norm_samples(*tables_.norms, gpu, backward), blackwell ? 8e12 : 4.8e12,
                     "cudnn-frontend norms_fwd_bwd " + gpu),
          blackwell ? "Blackwell" : "Hopper", profile_.name == "h200");
  }

  /// Quantisation: all but A100, which has no fp8.
  void fit_quantisation() {
    const bool ampere = architecture_ == "Ampere";
    const std::string gpu = ampere                            ? "H100-SXM"
                            : profile_.name == "rtx-pro-6000" ? "RTX-PRO-6000"
                                                              : upper_case(gpu_.gemm_table);
    put(OperatorKind::cast, Pass::forward,
        fit_memory(read_quantise_samples(*tables_.quantisation, gpu), ampere ? 3.35e12 : profile_.memory_bandwidth,
                   "aiconfigurator scale_matrix " + gpu),
        ampere ? "Hopper" : gpu_.architecture, !ampere);
  }

  const Gpu& gpu_;
  const std::string architecture_;
  const MemoryTables& tables_;
  Profile& profile_;
  std::vector<NamedFit> own_;
};

}  // namespace

std::vector<NamedFit> fit_memory_bound(const Gpu& gpu, const MemoryTables& tables, Profile& profile) {
  return MemoryBoundFits(gpu, tables, profile).fit();
}

}  // namespace tracecast::accuracy
