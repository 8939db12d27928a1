#include "tools/accuracy/kernel_tables.hpp"

#include <algorithm>
#include <array>

#include "sim/base/words.hpp"
#include "tools/accuracy/held_out.hpp"
#include "tools/accuracy/rows/table_fields.hpp"

namespace tracecast::accuracy {
namespace {

using Kernels = std::vector<MeasuredKernel>;

const std::vector<std::pair<std::string, Precision>> kPrecisions = [] {
  auto names = named_values<Precision>();
  names.emplace_back("float16", Precision::fp16);
  names.emplace_back("bfloat16", Precision::bf16);
  return names;
}();
const std::vector<std::pair<std::string, Pass>> kPasses{{"forward", Pass::forward}, {"dgrad", Pass::dgrad},
                                                        {"wgrad", Pass::wgrad},     {"backward", Pass::backward},
                                                        {"fwd", Pass::forward},     {"bwd", Pass::backward}};
/// Operand layouts of a matmul and stages of a grouped one, as SimuMax writes them.
const std::vector<std::pair<std::string, Pass>> kLayouts{{"TN", Pass::forward},         {"NN", Pass::dgrad},
                                                         {"NT", Pass::wgrad},           {"fwd", Pass::forward},
                                                         {"bwd_grad_act", Pass::dgrad}, {"bwd_grad_w", Pass::wgrad}};
/// Of the project's own form.
const std::vector<std::pair<std::string, OperatorKind>> kOperators = [] {
  std::vector<std::pair<std::string, OperatorKind>> names;
  for (const OperatorKind kind :
       {OperatorKind::gemm, OperatorKind::grouped_gemm, OperatorKind::attention, OperatorKind::softmax,
        OperatorKind::norm, OperatorKind::activation, OperatorKind::rope, OperatorKind::residual,
        OperatorKind::embedding, OperatorKind::cross_entropy, OperatorKind::optimizer, OperatorKind::cast,
        OperatorKind::permute, OperatorKind::copy})
    names.emplace_back(to_string(kind), kind);
  return names;
}();

/// A forward operator of the row, to be completed.
MeasuredKernel begin(TableFields& fields, const char* gpu, Precision precision, OperatorKind kind) {
  MeasuredKernel kernel;
  kernel.row = fields.row();
  kernel.gpu = fields.text(gpu);
  kernel.op.kind = kind;
  kernel.op.precision = precision;
  return kernel;
}

void read_own(TableFields& fields, Kernels& out) {
  const Precision precision = fields.word("precision", kPrecisions, Precision::bf16);
  MeasuredKernel kernel = begin(fields, "profile", precision, fields.word("op", kOperators, OperatorKind::gemm));
  kernel.seconds = fields.positive("time_us") * 1e-6;
  const bool updates = kernel.op.kind == OperatorKind::optimizer;
  kernel.op.pass = updates ? Pass::optimizer : fields.word("pass", kPasses, Pass::forward);
  if (is_multiplication(kernel.op.kind)) {
    kernel.op.shape = GemmShape{fields.size("m"), fields.size("n"), fields.size("k"), fields.size("batch", 1), false};
  } else if (kernel.op.kind != OperatorKind::attention) {
    kernel.op.shape = ElementwiseShape{fields.size("elements", 1), Bytes{fields.required_size("bytes")}};
  } else {
    const std::int64_t length = fields.size("seq"), heads = fields.size("heads"), width = fields.size("head_dim", 128);
    kernel.kernel = fields.text("kernel");
    kernel.op.shape = AttentionShape{
        fields.size("batch", 1),      length, length, heads, fields.size("kv_heads", heads), width, width,
        fields.text("causal") != "0", 0};
  }
  out.push_back(std::move(kernel));
}

void read_aiconfigurator_gemm(TableFields& fields, Kernels& out) {
  const Precision precision = fields.word("dtype", kPrecisions, Precision::bf16);
  MeasuredKernel kernel = begin(fields, "gpu", precision, OperatorKind::gemm);
  const GemmShape shape{fields.size("m"), fields.size("n"), fields.size("k"), 1, false};
  kernel.op.shape = shape;
  kernel.seconds = fields.positive("latency_us") * 1e-6;
  kernel.quantises = is_narrow(precision);
  kernel.held_out = held_out_weight(shape.n, shape.k);
  // vLLM never writes to its bf16 weights, and zeros draw less power: 5 to 12 % faster (docs/references.md#gemm-zeros).
  if (fields.text("src").starts_with("vllm")) kernel.excluded = "operands of zeros";
  // The same figures, row by row, as in the table of GB300 (docs/references.md#gemm-fit).
  if (kernel.gpu.starts_with("B300") && fields.text("src").starts_with("sglang")) kernel.excluded = "of GB300";
  kernel.loop = aiconfigurator_loop(fields.text("src"));
  out.push_back(std::move(kernel));
}

/// Serving frameworks run FlashAttention (2 on Ampere, 3 on Hopper); TensorRT-LLM runs its own kernels, similar to
/// cuDNN's.
std::string serving_kernel(const std::string& framework, const std::string& profile) {
  if (framework.starts_with("trtllm")) return "cudnn";
  return profile == "h100" || profile == "h200" ? "fa3" : "fa2";
}

void read_aiconfigurator_attention(TableFields& fields, Kernels& out) {
  MeasuredKernel kernel = begin(fields, "gpu", Precision::bf16, OperatorKind::attention);
  const std::int64_t length = fields.size("s"), heads = fields.size("h"), width = fields.size("d");
  const bool causal = !fields.text("kvh").empty();
  // 0: as many as query heads
  const std::int64_t kv_heads = causal && fields.text("kvh") != "0" ? fields.size("kvh") : heads;
  kernel.op.shape = AttentionShape{fields.size("b"), length, length, heads, kv_heads, width, width, causal, 0};
  kernel.seconds = fields.positive("latency_us") * 1e-6;
  kernel.kernel = serving_kernel(fields.text("src"), profile_of_gpu(kernel.gpu));
  // Prefill of a server: the time includes writing the cache and rotating the keys, 10 to 16 us
  // (docs/references.md#attention-fit).
  kernel.excluded = "prefill of " + fields.text("src").substr(0, fields.text("src").find('-'));
  out.push_back(std::move(kernel));
}

void read_cudnn_attention(TableFields& fields, Kernels& out) {
  const bool narrow = fields.text("data_type") != "bfloat16";
  MeasuredKernel kernel =
      begin(fields, "gpu_name", narrow ? fields.word("data_type", kPrecisions, Precision::bf16) : Precision::bf16,
            OperatorKind::attention);
  kernel.op.pass = fields.word("pass", kPasses, Pass::forward);
  AttentionShape shape{fields.size("batch_size"),
                       fields.size("q_seqlen"),
                       fields.size("kv_seqlen"),
                       fields.size("num_q_heads"),
                       fields.size("num_kv_heads"),
                       fields.size("head_dim_qk"),
                       fields.size("head_dim_vo"),
                       fields.text("attn_mask") != "no_mask",
                       0};
  if (!fields.text("sliding_window_size").empty()) {
    shape.window = fields.size("sliding_window_size");
    kernel.excluded = "sliding window";
  }
  kernel.op.shape = shape;
  kernel.seconds = fields.positive("time_ms") * 1e-3;
  kernel.kernel = "cudnn";
  if (kernel.op.pass == Pass::backward && fields.text("deterministic_bwd") == "True") kernel.excluded = "deterministic";
  out.push_back(std::move(kernel));
}

void read_flash_rates(TableFields& fields, Kernels& out) {
  MeasuredKernel kernel = begin(fields, "gpu", Precision::bf16, OperatorKind::attention);
  kernel.op.pass = fields.word("pass", kPasses, Pass::forward);
  const std::int64_t length = fields.size("seqlen"), width = fields.size("head_dim");
  // Heads that are not stated are 2048 / head size, as in FlashAttention's own benchmark.
  const std::int64_t heads =
      fields.text("heads") == "0" ? std::max<std::int64_t>(1, 2048 / width) : fields.size("heads");
  const bool causal = fields.text("causal") == "True";
  kernel.op.shape = AttentionShape{fields.size("batch"), length, length, heads, heads, width, width, causal, 0};
  kernel.seconds = flops(kernel.op).count / (fields.positive("tflops") * 1e12);
  const std::string& implementation = fields.text("impl");
  const std::array<std::pair<const char*, const char*>, 4> names{
      {{"FA2", "fa2"}, {"FA3", "fa3"}, {"pytorch-FA2", "fa2"}, {"cuDNN9.1", "cudnn"}}};
  const auto* known =
      std::find_if(names.begin(), names.end(), [&](const auto& name) { return implementation == name.first; });
  if (known != names.end())
    kernel.kernel = known->second;
  else
    kernel.excluded = "no model of " + implementation;
  if (kernel.op.pass == Pass::backward && fields.text("deterministic") == "True") kernel.excluded = "deterministic";
  out.push_back(std::move(kernel));
}

/// Efficiencies of operators inside training steps; attention's FLOPs are those without a mask.
void read_simumax(TableFields& fields, Kernels& out) {
  const std::string& op = fields.text("op");
  MeasuredKernel kernel = begin(fields, "gpu", Precision::bf16, OperatorKind::gemm);
  kernel.in_training = true;
  double work = 0;
  if (op == "matmul" || op == "group_matmul") {
    const bool grouped = op == "group_matmul";
    GemmShape shape{fields.size(grouped ? "M" : "m"), fields.size(grouped ? "N" : "n"),
                    fields.size(grouped ? "K" : "k"), grouped ? fields.size("ng") : fields.size("b", 1),
                    fields.text("accumulate") == "True"};
    kernel.op.kind = grouped ? OperatorKind::grouped_gemm : OperatorKind::gemm;
    kernel.op.pass = fields.word(grouped ? "stage" : "layout", kLayouts, Pass::forward);
    if (grouped) kernel.op.precision = fields.word("dtype", kPrecisions, Precision::bf16);
    kernel.op.shape = shape;
    work = flops(kernel.op).count;
  } else if (op == "sdp_fwd" || op == "sdp_bwd") {
    const std::int64_t length = fields.size("seq_len"), heads = fields.size("head_num");
    AttentionShape shape{
        fields.size("batch"),      length, length, heads, fields.size("kv_head_num", heads), fields.size("qk_head_dim"),
        fields.size("v_head_dim"), false,  0};
    kernel.op.kind = OperatorKind::attention;
    kernel.op.pass = op == "sdp_fwd" ? Pass::forward : Pass::backward;
    kernel.op.shape = shape;
    work = flops(kernel.op).count;
    shape.causal = true;
    kernel.op.shape = shape;
  } else {
    return;  // other operators have no such efficiency
  }
  kernel.seconds = work / (fields.positive("peak_tflops") * 1e12 * fields.positive("efficiency"));
  out.push_back(std::move(kernel));
}

/// Four GEMMs per row, of a layer under tensor parallelism, by kernels of a server of 2024.
void read_vidur(TableFields& fields, Kernels& out) {
  const std::int64_t tokens = fields.size("num_tokens"), hidden = fields.size("n_embd"),
                     tp = fields.size("num_tensor_parallel_workers"), heads = fields.size("n_head"),
                     kv_heads = fields.size("n_kv_head"), inner = fields.size("n_expanded_embd");
  if (fields.problem()) return;
  const std::int64_t gates = fields.text("use_gated_mlp") == "True" ? 2 : 1;
  const std::int64_t width = hidden / heads;
  struct Column {
    const char* name;
    std::int64_t n;
    std::int64_t k;
  };
  const std::array<Column, 4> columns{{{"attn_pre_proj_ms", (heads + 2 * kv_heads) * width / tp, hidden},
                                       {"attn_post_proj_ms", hidden, hidden / tp},
                                       {"mlp_up_proj_ms", gates * inner / tp, hidden},
                                       {"mlp_down_proj_ms", hidden, inner / tp}}};
  for (const Column& column : columns) {
    MeasuredKernel kernel = begin(fields, "gpu", Precision::fp16, OperatorKind::gemm);
    if (fields.text(column.name).empty()) continue;
    kernel.seconds = fields.positive(column.name) * 1e-3;
    kernel.op.shape =
        GemmShape{tokens, std::max<std::int64_t>(1, column.n), std::max<std::int64_t>(1, column.k), 1, false};
    kernel.held_out = true;  // no GEMM of this source was ever fitted to
    if (kernel.seconds >= kVidurTimerLimit) out.push_back(std::move(kernel));
  }
}

/// DeepGEMM's README names one GPU for all rows.
void read_deepgemm(TableFields& fields, Kernels& out) {
  const std::int64_t groups = fields.size("groups");
  MeasuredKernel kernel =
      begin(fields, "gpu", Precision::fp8_block, groups > 1 ? OperatorKind::grouped_gemm : OperatorKind::gemm);
  kernel.gpu = "H800";
  kernel.op.shape = GemmShape{fields.size("m_per_group"), fields.size("n"), fields.size("k"), groups, false};
  kernel.seconds = flops(kernel.op).count / (fields.positive("tflops") * 1e12);
  kernel.held_out = true;
  out.push_back(std::move(kernel));
}

/// Norms: bytes read and written at least once, 4 per element forward and 6 backward.
void read_norms(TableFields& fields, Kernels& out) {
  const std::int64_t elements = fields.size("N") * fields.size("C");
  for (const bool backward : {false, true}) {
    const char* column = backward ? "bwd_time_ms" : "fwd_time_ms";
    if (fields.text(column).empty()) continue;
    MeasuredKernel kernel = begin(fields, "gpu_name", Precision::bf16, OperatorKind::norm);
    kernel.op.pass = backward ? Pass::backward : Pass::forward;
    kernel.op.shape = ElementwiseShape{elements, Bytes{(backward ? 6 : 4) * elements}};
    kernel.seconds = fields.positive(column) * 1e-3;
    if (fields.text("backend") != "cudnn") kernel.excluded = "by " + fields.text("backend");
    out.push_back(std::move(kernel));
  }
}

struct Format {
  std::vector<const char*> columns;
  void (*read)(TableFields&, Kernels&);
};
const std::vector<Format>& formats() {
  static const std::vector<Format> kFormats{
      {{"profile", "op", "time_us"}, read_own},
      {{"gpu", "src", "dtype", "m", "n", "k", "latency_us"}, read_aiconfigurator_gemm},
      {{"gpu", "src", "b", "s", "h", "d", "latency_us"}, read_aiconfigurator_attention},
      {{"gpu_name", "attn_mask", "q_seqlen", "head_dim_qk", "pass", "time_ms"}, read_cudnn_attention},
      {{"gpu", "impl", "pass", "seqlen", "head_dim", "tflops"}, read_flash_rates},
      {{"gpu", "op", "peak_tflops", "efficiency"}, read_simumax},
      {{"gpu", "num_tokens", "attn_pre_proj_ms", "n_embd", "num_tensor_parallel_workers"}, read_vidur},
      {{"kind", "groups", "m_per_group", "n", "k", "tflops"}, read_deepgemm},
      {{"gpu_name", "norm_type", "backend", "N", "C", "fwd_time_ms"}, read_norms}};
  return kFormats;
}

const Format* format_of(const CsvTable& table) {
  const auto format =
      std::find_if(formats().begin(), formats().end(), [&](const Format& f) { return has_all(table, f.columns); });
  return format == formats().end() ? nullptr : &*format;
}

}  // namespace

bool is_kernel_table(const CsvTable& table) { return format_of(table) != nullptr; }

Result<Kernels> read_kernels(const CsvTable& table) {
  const Format* format = format_of(table);
  if (format == nullptr)
    return fail({table.file(), 1, "", "",
                 "unknown columns of a table of operators (allowed: profile,op,time_us,… and the tables of "
                 "docs/formats/runs.md)"});
  Kernels kernels;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    TableFields fields(table, row);
    format->read(fields, kernels);
    if (fields.problem()) return fail(*fields.problem());
  }
  return kernels;
}

std::string profile_of_gpu(const std::string& gpu) {
  static const std::vector<std::pair<std::string, std::string>> kBeginnings{{"a100-pcie-80", "a100-pcie"},
                                                                            {"a100-sxm4-40", "a100-40gb"},
                                                                            {"a100-sxm-40", "a100-40gb"},
                                                                            {"a100-sxm", "a100"},
                                                                            {"h100-sxm", "h100"},
                                                                            {"h100-class", "h100"},
                                                                            {"h200-nvl", "h200-nvl"},
                                                                            {"h200", "h200"},
                                                                            {"h800-pcie", "h800-pcie"},  // no profile
                                                                            {"h800", "h800"},
                                                                            {"gb200", "gb200"},
                                                                            {"gb300", "gb300"},
                                                                            {"b200", "b200"},
                                                                            {"b300", "b300"},
                                                                            {"rtx-pro-6000", "rtx-pro-6000"}};
  std::string name = lower_case(gpu);
  if (name.starts_with("nvidia ")) name.erase(0, 7);
  std::replace(name.begin(), name.end(), ' ', '-');
  for (const auto& [beginning, profile] : kBeginnings)
    if (name.starts_with(beginning)) return profile;
  return name;
}

}  // namespace tracecast::accuracy
