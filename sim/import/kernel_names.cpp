#include "sim/import/kernel_names.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <utility>
#include <vector>

#include "sim/base/words.hpp"

namespace tracecast {
namespace {

bool contains_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [text](std::string_view word) { return contains(text, word); });
}

/// The first that fits decides: "softmax_backward" of cross-entropy before softmax, attention before the GEMMs in it.
constexpr std::pair<std::string_view, OperatorKind> kKinds[] = {
    {"flash", OperatorKind::attention},
    {"fmha", OperatorKind::attention},
    {"attention", OperatorKind::attention},
    {"sdpa", OperatorKind::attention},
    {"dot_do_o", OperatorKind::attention},
    {"cross_entropy", OperatorKind::cross_entropy},
    {"crossentropy", OperatorKind::cross_entropy},
    {"nll_loss", OperatorKind::cross_entropy},
    {"log_softmax", OperatorKind::cross_entropy},
    {"logsoftmax", OperatorKind::cross_entropy},
    {"grouped_gemm", OperatorKind::grouped_gemm},
    {"splitkreduce", OperatorKind::gemm},
    {"gemm", OperatorKind::gemm},
    {"cutlass", OperatorKind::gemm},
    {"xmma", OperatorKind::gemm},
    {"nvjet", OperatorKind::gemm},
    {"cijk_", OperatorKind::gemm},
    {"convert_dq", OperatorKind::attention},
    {"convert", OperatorKind::cast},
    {"conversion", OperatorKind::cast},
    // Tails of the names of cuDNN's tiles: "…_s16816cudnn_…", "…_h1688cudnn_…", "…_scudnn_128x64_…".
    {"scudnn_", OperatorKind::gemm},
    {"hcudnn_", OperatorKind::gemm},
    {"icudnn_", OperatorKind::gemm},
    {"_5x_cudnn_", OperatorKind::gemm},
    {"88cudnn_", OperatorKind::gemm},
    {"84cudnn_", OperatorKind::gemm},
    {"16cudnn_", OperatorKind::gemm},
    {"gemv", OperatorKind::gemm},
    {"cublaslt", OperatorKind::gemm},
    {"conv", OperatorKind::gemm},
    {"squared_norm", OperatorKind::optimizer},
    {"grad_norm", OperatorKind::optimizer},
    // Of torch._foreach_copy_, with which FSDP2 packs what it gathers.
    {"copyfunctor", OperatorKind::copy},
    {"multi_tensor", OperatorKind::optimizer},
    {"multitensor", OperatorKind::optimizer},
    {"adam", OperatorKind::optimizer},
    {"softmax", OperatorKind::softmax},
    {"layer_norm", OperatorKind::norm},
    {"layernorm", OperatorKind::norm},
    {"rms_norm", OperatorKind::norm},
    {"rmsnorm", OperatorKind::norm},
    {"batchnorm", OperatorKind::norm},
    {"batch_norm", OperatorKind::norm},
    {"_norm_", OperatorKind::norm},
    {"norm_forward", OperatorKind::norm},
    {"norm_backward", OperatorKind::norm},
    {"gammabetabackward", OperatorKind::norm},
    {"embedding", OperatorKind::embedding},
    {"rope", OperatorKind::rope},
    {"rotary", OperatorKind::rope},
    {"gelu", OperatorKind::activation},
    {"silu", OperatorKind::activation},
    {"swiglu", OperatorKind::activation},
    {"relu", OperatorKind::activation},
    {"dgrad", OperatorKind::gemm},
    {"wgrad", OperatorKind::gemm},
    {"permute", OperatorKind::permute},
    {"topk", OperatorKind::permute},
    {"quantize", OperatorKind::cast},
    {"cast", OperatorKind::cast},
    {"transpose", OperatorKind::cast},
    {"copy", OperatorKind::copy},
    {"memcpy", OperatorKind::copy},
    {"memset", OperatorKind::copy},
    {"fill", OperatorKind::copy}};

constexpr std::pair<std::string_view, Collective> kCollectives[] = {{"allreduce", Collective::all_reduce},
                                                                    {"allgather", Collective::all_gather},
                                                                    {"reducescatter", Collective::reduce_scatter},
                                                                    {"alltoall", Collective::all_to_all},
                                                                    {"broadcast", Collective::broadcast},
                                                                    {"bcast", Collective::broadcast},
                                                                    {"sendrecv", Collective::send_recv},
                                                                    {"send", Collective::send_recv},
                                                                    {"recv", Collective::send_recv}};

/// Kernels of other libraries than NCCL that move data between GPUs: words of which a name has both, and the collective. DeepEP,
/// its HybridEP, Userbuffers of Transformer Engine, symmetric memory of PyTorch, NVSHMEM. The first that fits decides. The collective is
/// written as NCCL's kernels name it, so that recordings list both alike.
struct TransferWords {
  std::string_view library;
  std::string_view function;
  const char* collective;
};
constexpr TransferWords kTransfers[] = {{"deep_ep", "dispatch_layout", ""},  // counts tokens
                                        {"deep_ep", "dispatch", "AllToAll"},
                                        {"deep_ep", "combine", "AllToAll"},
                                        {"deep_ep", "barrier", "AllToAll"},
                                        {"hybrid_ep", "dispatch", "AllToAll"},
                                        {"hybrid_ep", "combine", "AllToAll"},
                                        {"userbuffers", "_rs", "ReduceScatter"},
                                        {"userbuffers", "_ag", "AllGather"},
                                        {"userbuffers", "sum", "AllReduce"},
                                        {"userbuffers", "", "SendRecv"},
                                        {"multimem_", "all_reduce", "AllReduce"},
                                        {"multimem_", "all_gather", "AllGather"},
                                        {"multimem_", "reduce_scatter", "ReduceScatter"},
                                        {"one_shot_", "all_reduce", "AllReduce"},
                                        {"two_shot_", "all_reduce", "AllReduce"},
                                        {"nvshmem", "", "SendRecv"}};

/// The name of a global function in mangled form: "_Z40ncclDevKernel_…", its length before it. Empty: not such a name.
std::string_view mangled_name(std::string_view name) {
  if (!name.starts_with("_Z")) return {};
  std::size_t length = 0;
  const auto [digits, error] = std::from_chars(name.data() + 2, name.data() + name.size(), length);
  const auto begin = static_cast<std::size_t>(digits - name.data());
  return error == std::errc() && length <= name.size() - begin ? name.substr(begin, length) : std::string_view();
}

/// The name without parameters; empty if it does not begin with "nccl".
std::string_view nccl_name(std::string_view name) {
  const std::string_view mangled = mangled_name(name);
  const std::string_view plain = mangled.empty() ? name.substr(0, name.find('(')) : mangled;
  return lower_case(plain.substr(0, 4)) == "nccl" ? plain : std::string_view();
}

}  // namespace

OperatorKind kernel_kind(std::string_view name) {
  const std::string text = lower_case(name);
  for (const auto& [word, kind] : kKinds)
    if (contains(text, word)) return kind;
  return OperatorKind::residual;
}

std::string short_kernel_name(std::string_view name) {
  if (name.starts_with("void ")) name.remove_prefix(5);
  std::string text(name);
  constexpr std::string_view kUnnamed = "(anonymous namespace)::";
  for (std::size_t at = text.find(kUnnamed); at != std::string::npos; at = text.find(kUnnamed, at))
    text.erase(at, kUnnamed.size());
  std::string plain = text.substr(0, text.find_first_of("<(", 1));
  if (plain.empty()) plain = std::move(text);
  return plain.substr(0, 80);
}

std::optional<bool> is_backward_kernel(std::string_view name) {
  const std::string text = lower_case(name);
  if (contains_any(text, {"bwd", "bprop", "backward", "dgrad", "wgrad", "dot_do_o", "convert_dq", "fmha_reduce_head"}))
    return true;
  if (contains_any(text, {"fwd", "fprop", "forward"})) return false;
  return std::nullopt;
}

std::optional<bool> is_gradient_norm(std::string_view name) {
  const std::string text = lower_case(name);
  if (contains_any(text, {"adam", "sgd", "lamb", "momentum"})) return false;
  if (contains(text, "norm")) return true;
  return std::nullopt;
}

std::optional<Precision> kernel_precision(std::string_view name) {
  const std::string text = lower_case(name);
  if (contains_any(text, {"e4m3", "e5m2", "fp8", "qqt"})) return Precision::fp8;
  if (contains_any(text, {"bf16", "bfloat16"})) return Precision::bf16;
  if (contains_any(text, {"fp16", "half", "f16f16", "s16816", "hhh", "h16816"})) return Precision::fp16;
  if (contains_any(text, {"fp32", "float", "sgemm", "tf32", "f32f32"})) return Precision::fp32;
  return std::nullopt;
}

std::optional<Collective> collective_of(std::string_view name) {
  std::string text = lower_case(name);
  text.erase(std::remove_if(text.begin(), text.end(), [](char c) { return c == '_' || c == ' ' || c == ':'; }),
             text.end());
  for (const auto& [word, collective] : kCollectives)
    if (contains(text, word)) return collective;
  return std::nullopt;
}

std::optional<Collective> NcclKernel::collective() const { return name.empty() ? std::nullopt : collective_of(name); }

NcclKernel nccl_kernel(std::string_view name) {
  NcclKernel kernel;
  const std::string_view plain = nccl_name(name);
  if (plain.empty()) return kernel;
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at <= plain.size();) {
    const std::size_t end = std::min(plain.find('_', at), plain.size());
    words.push_back(plain.substr(at, end - at));
    at = end + 1;
  }
  kernel.name = words.size() > 1 ? std::string(words[1]) : std::string(plain);
  constexpr std::array<std::string_view, 7> kAlgorithms{"RING", "TREE",          "NVLS",        "COLLNET",
                                                        "PAT",  "CollnetDirect", "CollnetChain"};
  constexpr std::array<std::string_view, 3> kProtocols{"LL", "LL128", "SIMPLE"};
  for (const std::string_view word : words) {
    if (std::find(kAlgorithms.begin(), kAlgorithms.end(), word) != kAlgorithms.end()) kernel.algorithm = word;
    if (std::find(kProtocols.begin(), kProtocols.end(), word) != kProtocols.end()) kernel.protocol = word;
  }
  return kernel;
}

NcclKernel transfer_kernel(std::string_view name) {
  NcclKernel kernel = nccl_kernel(name);
  if (!kernel.name.empty()) return kernel;
  const std::string text = lower_case(name);
  const auto found = std::ranges::find_if(kTransfers, [&text](const TransferWords& words) {
    return contains(text, words.library) && contains(text, words.function);
  });
  if (found != std::end(kTransfers)) kernel.name = found->collective;
  return kernel;
}

bool is_split_k_part(std::string_view name) {
  const std::string text = lower_case(name);
  return contains(text, "splitkreduce") || contains(text, "cublaslt8epilogue") || contains(text, "cublaslt::epilogue");
}

std::int64_t type_size(std::string_view name) {
  const std::string text = lower_case(name);
  const auto has = [&text](std::string_view word) { return contains(text, word); };
  if (has("bfloat16") || has("bf16") || has("half") || has("float16") || has("fp16")) return 2;
  if (has("double") || has("int64") || has("float64") || has("long")) return 8;
  if (has("fp8") || has("float8") || has("int8") || has("byte") || has("char") || has("bool")) return 1;
  if (has("float") || has("int32") || has("fp32") || has("int")) return 4;
  return 0;
}

}  // namespace tracecast
