#include "sim/graph/layer.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace tracecast {
namespace {

/// How a weight matrix is divided over the tensor-parallel group.
enum class Split { column, row, replicated };

/// One weight matrix: out x in per rank.
struct Linear {
  std::string name;
  std::int64_t in = 0;   ///< per rank
  std::int64_t out = 0;  ///< per rank
  Split split = Split::replicated;
  Precision precision = Precision::bf16;
  bool tied = false;  ///< shares its matrix with the embedding on this rank
  std::int64_t parameters() const { return tied ? 0 : in * out; }
};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Bytes per element that element-wise work moves forward and backward. Fused: one kernel, 16-bit tensors (DOMAIN.md 1.3).
/// Unfused: what the framework's operators read and write one after the other. RMSNorm: to fp32, square, mean, scale, to 16 bit,
/// weight; RoPE: to fp32, complex product, to 16 bit; gated activation: activation, product.
struct Moved {
  std::int64_t forward;
  std::int64_t backward;
};
constexpr Moved kFusedNorm{4, 10};
constexpr Moved kUnfusedRmsNorm{36, 52};
constexpr Moved kFusedResidualNorm{8, 8};
constexpr Moved kFusedRope{4, 4};
constexpr Moved kUnfusedRope{20, 20};
constexpr Moved kUnfusedGate{10, 18};

/// Everything about the run that shapes depend on, worked out once, and the small vocabulary that lists are written in.
class Writer {
 public:
  Writer(const Model& model, const Plan& plan, bool recomputed = false)
      : model_(model),
        plan_(plan),
        training_(plan.training),
        t_(plan.parallel.tp),
        tokens_(plan.tokens()),
        sequence_parallel_(plan.parallel.sequence_parallel && plan.parallel.tp > 1),
        local_tokens_(sequence_parallel_ ? ceil_div(tokens_, t_) : tokens_),
        element_(2),
        recomputed_(recomputed) {}

  WorkList take() { return std::move(list_); }
  void append(WorkList more) { std::move(more.begin(), more.end(), std::back_inserter(list_)); }

  // ---- Vocabulary --------------------------------------------------------------------------------------------------

  void compute(OperatorKind kind, Pass pass, Precision precision, std::string name, OperatorShape shape) {
    Work work;
    work.op = {kind, pass, precision, std::move(name), shape};
    work.recomputed = recomputed_;
    list_.push_back(std::move(work));
  }

  /// Memory-bound work over `elements` elements that moves `bytes_per_element` bytes for each.
  void elementwise(OperatorKind kind, Pass pass, const std::string& name, std::int64_t elements,
                   std::int64_t bytes_per_element) {
    if (elements > 0)
      compute(kind, pass, Precision::bf16, name, ElementwiseShape{elements, Bytes{elements * bytes_per_element}});
  }

  void collective(Traffic traffic, Collective what, Bytes size, Work::Kind kind = Work::Kind::collective,
                  int ticket = 0) {
    Work work;
    work.kind = kind;
    work.traffic = traffic;
    work.call.collective = what;
    work.call.size = size;
    work.ticket = ticket;
    work.recomputed = recomputed_;
    list_.push_back(std::move(work));
  }

  void join(int ticket) {
    Work work;
    work.kind = Work::Kind::join;
    work.ticket = ticket;
    list_.push_back(std::move(work));
  }

  void gradients(std::int64_t parameters, bool expert = false) {
    if (parameters == 0) return;
    Work work;
    work.kind = Work::Kind::gradients;
    work.parameters = parameters;
    work.expert_parameters = expert;
    list_.push_back(std::move(work));
  }

  /// The [T, h] message of tensor parallelism.
  Bytes tensor_message() const { return Bytes{tokens_ * model_.hidden_size * element_}; }

  void gather_sequence() {
    if (sequence_parallel_) collective(Traffic::tensor_parallel, Collective::all_gather, tensor_message());
  }
  Collective reduction() const { return sequence_parallel_ ? Collective::reduce_scatter : Collective::all_reduce; }
  void reduce_partial_sums() {
    if (t_ > 1) collective(Traffic::tensor_parallel, reduction(), tensor_message());
  }

  // ---- Linear layers -----------------------------------------------------------------------------------------------

  bool eight_bit(Precision p) const {
    return p == Precision::fp8 || p == Precision::fp8_block || p == Precision::mxfp8 || p == Precision::nvfp4;
  }

  /// 8-bit and 4-bit inputs are quantised from 16 bit, together with the transposed copy that the weight gradient needs:
  /// 2 bytes read, 2 written.
  void quantise(const Linear& linear, Pass pass, std::int64_t width) {
    if (eight_bit(linear.precision))
      elementwise(OperatorKind::cast, pass, linear.name + " cast", rows(linear) * width, 4);
  }

  std::int64_t rows(const Linear& linear) const { return linear.split == Split::replicated ? local_tokens_ : tokens_; }

  void linear_forward(const Linear& linear) {
    quantise(linear, Pass::forward, linear.in);
    compute(OperatorKind::gemm, Pass::forward, linear.precision, linear.name,
            GemmShape{rows(linear), linear.out, linear.in, 1, false});
  }
  void linear_dgrad(const Linear& linear) {
    quantise(linear, Pass::dgrad, linear.out);
    compute(OperatorKind::gemm, Pass::dgrad, linear.precision, linear.name,
            GemmShape{rows(linear), linear.in, linear.out, 1, false});
  }
  void linear_wgrad(const Linear& linear) {
    const bool fp32 = training_.grad_reduce_dtype == Precision::fp32;
    compute(OperatorKind::gemm, Pass::wgrad, linear.precision, linear.name,
            GemmShape{linear.out, linear.in, rows(linear), 1, fp32});
    gradients(linear.parameters());
  }

  /// Backward of a row-parallel layer: its output gradient has been gathered; the input gradient needs no reduction.
  void row_backward(const Linear& linear, BackwardPart part) {
    if (part != BackwardPart::weight_gradients) linear_dgrad(linear);
    if (part != BackwardPart::input_gradients) linear_wgrad(linear);
  }

  /// Backward of a column-parallel layer: gather the input again beside dgrad, reduce the input gradient beside wgrad.
  void column_backward(const Linear& linear, BackwardPart part) {
    constexpr int kGather = 1;
    constexpr int kReduce = 2;
    const bool split = linear.split == Split::column && t_ > 1;
    const bool weights = part != BackwardPart::input_gradients;
    const bool inputs = part != BackwardPart::weight_gradients;
    if (split && sequence_parallel_ && weights)
      collective(Traffic::tensor_parallel, Collective::all_gather, tensor_message(), Work::Kind::start, kGather);
    if (inputs) linear_dgrad(linear);
    if (split && inputs)
      collective(Traffic::tensor_parallel, reduction(), tensor_message(), Work::Kind::start, kReduce);
    if (split && sequence_parallel_ && weights) join(kGather);
    if (weights) linear_wgrad(linear);
    if (split && inputs) join(kReduce);
  }

  // ---- Norms, residuals --------------------------------------------------------------------------------------------

  std::int64_t norm_parameters() const { return model_.hidden_size * (model_.norm_bias ? 2 : 1); }
  std::string norm_name() const { return model_.norm == Norm::rms_norm ? "rms_norm" : "layer_norm"; }

  Moved norm_traffic() const {
    if (training_.compiled) return kFusedResidualNorm;
    return training_.unfused_elementwise && model_.norm == Norm::rms_norm ? kUnfusedRmsNorm : kFusedNorm;
  }
  /// Read x, write y; with the residual addition fused in (compiled): read two, write two.
  void norm_forward() {
    elementwise(OperatorKind::norm, Pass::forward, norm_name(), local_tokens_ * model_.hidden_size,
                norm_traffic().forward);
  }
  /// Read x and dy, write dx; and add the gradient that came past the block.
  void norm_backward(BackwardPart part) {
    if (part != BackwardPart::weight_gradients)
      elementwise(OperatorKind::norm, Pass::backward, norm_name(), local_tokens_ * model_.hidden_size,
                  norm_traffic().backward);
    if (part != BackwardPart::input_gradients) gradients(norm_parameters());
  }

  void residual_forward() {
    const std::int64_t n = local_tokens_ * model_.hidden_size;
    const bool dropout = model_.dropout > 0;
    if (training_.compiled && !dropout) return;
    elementwise(OperatorKind::residual, Pass::forward, dropout ? "dropout_add" : "residual", n, dropout ? 7 : 6);
  }
  void residual_backward() {
    if (model_.dropout > 0)
      elementwise(OperatorKind::residual, Pass::backward, "dropout_add", local_tokens_ * model_.hidden_size, 5);
  }

  // ---- Attention ---------------------------------------------------------------------------------------------------

  std::int64_t heads() const { return model_.num_attention_heads / t_; }
  std::int64_t kv_heads() const { return std::max<std::int64_t>(1, model_.num_query_groups / t_); }
  std::int64_t qk_dim() const {
    return model_.latent_attention ? model_.latent_attention->nope_dim + model_.latent_attention->rope_dim
                                   : model_.head_dim;
  }
  std::int64_t v_dim() const { return model_.latent_attention ? model_.latent_attention->v_dim : model_.head_dim; }

  /// The projections before the attention core, in order.
  std::vector<Linear> attention_inputs() const {
    const Precision p = training_.dtype;
    const std::int64_t h = model_.hidden_size;
    if (!model_.latent_attention)
      return {{"qkv", h, heads() * qk_dim() + kv_heads() * (qk_dim() + v_dim()), Split::column, p}};
    const LatentAttention& mla = *model_.latent_attention;
    std::vector<Linear> list;
    if (mla.q_rank > 0) {
      list.push_back({"q_down", h, mla.q_rank, Split::replicated, p});
      list.push_back({"q_up", mla.q_rank, heads() * qk_dim(), Split::column, p});
    } else {
      list.push_back({"q", h, heads() * qk_dim(), Split::column, p});
    }
    list.push_back({"kv_down", h, mla.kv_rank + mla.rope_dim, Split::replicated, p});
    list.push_back({"kv_up", mla.kv_rank, heads() * (mla.nope_dim + mla.v_dim), Split::column, p});
    return list;
  }
  Linear attention_output() const {
    return {"proj", heads() * v_dim(), model_.hidden_size, Split::row, training_.dtype};
  }

  std::int64_t micro_batch() const { return training_.micro_batch_size; }
  std::int64_t seq() const { return training_.seq_length; }
  int cp() const { return plan_.parallel.cp; }

  AttentionShape attention_shape(std::int64_t q_len, std::int64_t kv_len, bool causal) const {
    return {micro_batch(),
            q_len,
            kv_len,
            heads(),
            model_.latent_attention ? heads() : kv_heads(),
            qk_dim(),
            v_dim(),
            causal,
            model_.sliding_window};
  }

  void rope(Pass pass) {
    if (model_.position != Position::rope) return;
    const Moved moved = training_.unfused_elementwise ? kUnfusedRope : kFusedRope;
    elementwise(OperatorKind::rope, pass, "rope", tokens_ * (heads() + kv_heads()) * qk_dim(),
                pass == Pass::forward ? moved.forward : moved.backward);
  }

  void attention_core(Pass pass) {
    if (!training_.flash_attention) return unfused_attention(pass);
    if (cp() == 1)
      return compute(OperatorKind::attention, pass, Precision::bf16, "attention", attention_shape(seq(), seq(), true));
    if (plan_.parallel.cp_comm_type == "all_gather") return gathered_attention(pass);
    if (plan_.parallel.cp_comm_type == "a2a") return head_exchange_attention(pass);
    ring_attention(pass);
  }

  /// Both multiplications of each direction, and softmax with mask and dropout over [b, a, s, s] between them.
  void unfused_attention(Pass pass) {
    const std::int64_t batch = micro_batch() * heads();
    const std::int64_t kv = seq();
    const std::int64_t q = seq() / cp();
    const std::int64_t n = batch * q * kv;
    const Precision p = training_.dtype == Precision::fp32 ? Precision::fp32 : Precision::bf16;
    if (pass == Pass::forward) {
      compute(OperatorKind::scores, pass, p, "qk", GemmShape{q, kv, qk_dim(), batch, false});
      elementwise(OperatorKind::softmax, pass, "softmax", n, 6 * element_);
      compute(OperatorKind::scores, pass, p, "pv", GemmShape{q, v_dim(), kv, batch, false});
      return;
    }
    compute(OperatorKind::scores, pass, p, "d_p", GemmShape{q, kv, v_dim(), batch, false});
    compute(OperatorKind::scores, pass, p, "d_v", GemmShape{kv, v_dim(), q, batch, false});
    elementwise(OperatorKind::softmax, pass, "softmax", n, 8 * element_);
    compute(OperatorKind::scores, pass, p, "d_q", GemmShape{q, qk_dim(), kv, batch, false});
    compute(OperatorKind::scores, pass, p, "d_k", GemmShape{kv, qk_dim(), q, batch, false});
  }

  /// Bytes of the keys and values of one context rank.
  Bytes kv_block() const {
    const std::int64_t width =
        model_.latent_attention ? heads() * (qk_dim() + v_dim()) : kv_heads() * (qk_dim() + v_dim());
    return Bytes{micro_batch() * (seq() / cp()) * width * element_};
  }

  /// Keys and values travel round the ring while the block that has arrived is worked on. With the zig-zag split every
  /// block but the first costs half of a full one. Backward moves keys, values and their gradients.
  void ring_attention(Pass pass) {
    const std::int64_t q = seq() / cp();
    const Bytes moved = pass == Pass::forward ? kv_block() : 2 * kv_block();
    for (int block = 0; block < cp(); ++block) {
      const bool more = block + 1 < cp();
      if (more) collective(Traffic::context_parallel, Collective::send_recv, moved, Work::Kind::start, 10 + block);
      const AttentionShape shape = block == 0 ? attention_shape(q, q, true) : attention_shape(q, q / 2, false);
      compute(OperatorKind::attention, pass, Precision::bf16, "attention", shape);
      if (more) join(10 + block);
    }
  }

  void gathered_attention(Pass pass) {
    collective(Traffic::context_parallel, Collective::all_gather, kv_block() * cp());
    compute(OperatorKind::attention, pass, Precision::bf16, "attention", attention_shape(seq() / cp(), seq(), true));
    if (pass != Pass::forward) collective(Traffic::context_parallel, Collective::reduce_scatter, kv_block() * cp());
  }

  /// Ulysses: heads for sequence and back, four exchanges in each direction.
  void head_exchange_attention(Pass pass) {
    const std::int64_t rows_here = micro_batch() * (seq() / cp()) * element_;
    const Bytes inputs{rows_here * (heads() * qk_dim() + kv_heads() * (qk_dim() + v_dim()))};
    const Bytes output{rows_here * heads() * v_dim()};
    const bool forward = pass == Pass::forward;
    collective(Traffic::context_parallel, Collective::all_to_all, forward ? inputs : output);
    AttentionShape shape = attention_shape(seq(), seq(), true);
    shape.heads = std::max<std::int64_t>(1, shape.heads / cp());
    shape.kv_heads = std::max<std::int64_t>(1, shape.kv_heads / cp());
    compute(OperatorKind::attention, pass, Precision::bf16, "attention", shape);
    collective(Traffic::context_parallel, Collective::all_to_all, forward ? output : inputs);
  }

  void qk_norm(Pass pass) {
    if (!model_.qk_norm) return;
    elementwise(OperatorKind::norm, pass, "qk_norm", tokens_ * (heads() + kv_heads()) * qk_dim(),
                pass == Pass::forward ? 4 : 6);
  }

  void attention_forward() {
    norm_forward();
    gather_sequence();
    for (const Linear& linear : attention_inputs()) linear_forward(linear);
    qk_norm(Pass::forward);
    rope(Pass::forward);
    attention_core(Pass::forward);
    linear_forward(attention_output());
    reduce_partial_sums();
    residual_forward();
  }

  void attention_backward(BackwardPart part, bool recompute_core) {
    const bool inputs = part != BackwardPart::weight_gradients;
    residual_backward();
    gather_sequence();
    row_backward(attention_output(), part);
    if (inputs) {
      if (recompute_core) {
        recomputed_ = true;
        attention_core(Pass::forward);
        recomputed_ = false;
      }
      attention_core(Pass::backward);
      rope(Pass::backward);
      qk_norm(Pass::backward);
    }
    std::vector<Linear> list = attention_inputs();
    for (auto linear = list.rbegin(); linear != list.rend(); ++linear) column_backward(*linear, part);
    norm_backward(part);
  }

  // ---- Feed-forward ------------------------------------------------------------------------------------------------

  int gamma() const { return model_.gated() ? 2 : 1; }

  Linear fc1(std::int64_t width) const {
    return {"fc1", model_.hidden_size, gamma() * width / t_, Split::column, training_.dtype};
  }
  Linear fc2(std::int64_t width) const { return {"fc2", width / t_, model_.hidden_size, Split::row, training_.dtype}; }

  /// Forward: gated reads two and writes one; backward: gated reads three and writes two.
  void activation(Pass pass, std::int64_t elements) {
    const bool unfused = training_.unfused_elementwise && model_.gated();
    const Moved moved = unfused ? kUnfusedGate : Moved{(gamma() + 1) * element_, (2 * gamma() + 1) * element_};
    elementwise(OperatorKind::activation, pass, model_.gated() ? "swiglu" : "gelu", elements,
                pass == Pass::forward ? moved.forward : moved.backward);
  }

  void dense_forward() {
    const std::int64_t width = model_.ffn_hidden_size;
    norm_forward();
    gather_sequence();
    linear_forward(fc1(width));
    activation(Pass::forward, tokens_ * width / t_);
    linear_forward(fc2(width));
    reduce_partial_sums();
    residual_forward();
  }

  void dense_backward(BackwardPart part) {
    const std::int64_t width = model_.ffn_hidden_size;
    residual_backward();
    gather_sequence();
    row_backward(fc2(width), part);
    if (part != BackwardPart::weight_gradients) activation(Pass::backward, tokens_ * width / t_);
    column_backward(fc1(width), part);
    norm_backward(part);
  }

  // ---- Mixture of experts ------------------------------------------------------------------------------------------

  const MixtureOfExperts& moe() const { return *model_.moe; }
  int etp() const { return plan_.parallel.etp > 0 ? plan_.parallel.etp : t_; }
  /// Tokens that one rank brings to the router: tensor ranks hold different ones only with sequence parallelism.
  std::int64_t routed_tokens() const { return local_tokens_ * moe().topk; }
  /// Token copies that the experts of one rank work on, load balanced: those of etp ranks together.
  std::int64_t expert_tokens() const { return routed_tokens() * (sequence_parallel_ ? etp() : 1); }
  std::int64_t local_experts() const { return std::max<std::int64_t>(1, moe().experts / plan_.parallel.ep); }
  std::int64_t expert_width() const { return moe().ffn_hidden / etp(); }
  std::int64_t expert_parameters() const {
    return local_experts() * (gamma() + 1) * model_.hidden_size * expert_width();
  }

  void exchange_tokens(Precision precision) {
    if (plan_.parallel.ep > 1)
      collective(Traffic::expert_parallel, Collective::all_to_all,
                 Bytes{routed_tokens() * model_.hidden_size * element_size(precision)});
    if (sequence_parallel_ && etp() > 1)
      collective(Traffic::tensor_parallel, Collective::all_gather,
                 Bytes{expert_tokens() * model_.hidden_size * element_size(precision)});
  }
  void return_tokens() {
    const Bytes size{expert_tokens() * model_.hidden_size * element_};
    if (sequence_parallel_ && etp() > 1) collective(Traffic::tensor_parallel, Collective::reduce_scatter, size);
    if (!sequence_parallel_ && etp() > 1) collective(Traffic::tensor_parallel, Collective::all_reduce, size);
    if (plan_.parallel.ep > 1)
      collective(Traffic::expert_parallel, Collective::all_to_all,
                 Bytes{routed_tokens() * model_.hidden_size * element_});
  }

  void grouped(Pass pass, const std::string& name, std::int64_t out, std::int64_t in) {
    const std::int64_t per_expert = ceil_div(expert_tokens(), local_experts());
    const bool wgrad = pass == Pass::wgrad;
    const GemmShape shape =
        wgrad ? GemmShape{out, in, per_expert, local_experts(), training_.grad_reduce_dtype == Precision::fp32}
        : pass == Pass::dgrad ? GemmShape{per_expert, in, out, local_experts(), false}
                              : GemmShape{per_expert, out, in, local_experts(), false};
    compute(OperatorKind::grouped_gemm, pass, training_.dtype, name, shape);
  }

  Linear router() const { return {"router", model_.hidden_size, moe().experts, Split::replicated, Precision::bf16}; }
  Linear shared_fc1() const {
    Linear linear = fc1(moe().shared_ffn_hidden);
    linear.name = "shared_fc1";
    return linear;
  }
  Linear shared_fc2() const {
    Linear linear = fc2(moe().shared_ffn_hidden);
    linear.name = "shared_fc2";
    return linear;
  }

  void shared_forward() {
    if (moe().shared_ffn_hidden == 0) return;
    gather_sequence();
    linear_forward(shared_fc1());
    activation(Pass::forward, tokens_ * moe().shared_ffn_hidden / t_);
    linear_forward(shared_fc2());
    reduce_partial_sums();
  }
  void shared_backward(BackwardPart part) {
    if (moe().shared_ffn_hidden == 0) return;
    gather_sequence();
    row_backward(shared_fc2(), part);
    if (part != BackwardPart::weight_gradients) activation(Pass::backward, tokens_ * moe().shared_ffn_hidden / t_);
    column_backward(shared_fc1(), part);
  }

  void moe_forward() {
    const std::int64_t h = model_.hidden_size;
    norm_forward();
    linear_forward(router());
    elementwise(OperatorKind::permute, Pass::forward, "permute", routed_tokens() * h, 2 * element_);
    exchange_tokens(Precision::bf16);
    grouped(Pass::forward, "expert_fc1", gamma() * expert_width(), h);
    activation(Pass::forward, expert_tokens() * expert_width());
    grouped(Pass::forward, "expert_fc2", h, expert_width());
    return_tokens();
    elementwise(OperatorKind::permute, Pass::forward, "unpermute", routed_tokens() * h, 2 * element_);
    shared_forward();
    residual_forward();
  }

  void moe_backward(BackwardPart part) {
    const std::int64_t h = model_.hidden_size;
    const bool inputs = part != BackwardPart::weight_gradients;
    const bool weights = part != BackwardPart::input_gradients;
    residual_backward();
    shared_backward(part);
    if (inputs) {
      elementwise(OperatorKind::permute, Pass::backward, "unpermute", routed_tokens() * h, 2 * element_);
      exchange_tokens(Precision::bf16);
      grouped(Pass::dgrad, "expert_fc2", h, expert_width());
    }
    if (weights) grouped(Pass::wgrad, "expert_fc2", h, expert_width());
    if (inputs) {
      activation(Pass::backward, expert_tokens() * expert_width());
      grouped(Pass::dgrad, "expert_fc1", gamma() * expert_width(), h);
    }
    if (weights) {
      grouped(Pass::wgrad, "expert_fc1", gamma() * expert_width(), h);
      gradients(expert_parameters(), true);
    }
    if (inputs) {
      return_tokens();
      elementwise(OperatorKind::permute, Pass::backward, "permute", routed_tokens() * h, 2 * element_);
    }
    column_backward(router(), part);
    norm_backward(part);
  }

  // ---- Recomputation -----------------------------------------------------------------------------------------------

  /// Half of one matrix multiplication's forward: of two layers one repeats it.
  void half_forward(Linear linear) {
    linear.out = std::max<std::int64_t>(1, linear.out / 2);
    linear_forward(linear);
  }

  /// What torchtitan's op-level option repeats of a layer; attention and every second multiplication are kept.
  void selected_operators(bool moe_layer) {
    norm_forward();
    for (const Linear& linear : attention_inputs()) half_forward(linear);
    qk_norm(Pass::forward);
    rope(Pass::forward);
    half_forward(attention_output());
    norm_forward();
    if (moe_layer) return;
    half_forward(fc1(model_.ffn_hidden_size));
    activation(Pass::forward, tokens_ * model_.ffn_hidden_size / t_);
    half_forward(fc2(model_.ffn_hidden_size));
  }

  // ---- Both ends of the model --------------------------------------------------------------------------------------

  std::int64_t vocab() const { return ceil_div(model_.vocab_size, t_); }
  Linear output_layer() const {
    return {"lm_head",     model_.hidden_size, vocab(),
            Split::column, Precision::bf16,    model_.tied_embeddings && plan_.parallel.pp == 1};
  }

  void embedding_forward() {
    elementwise(OperatorKind::embedding, Pass::forward, "embedding", tokens_ * model_.hidden_size, 2 * element_);
    reduce_partial_sums();
    if (model_.embedding_norm) norm_forward();
  }
  void embedding_backward() {
    if (model_.embedding_norm) norm_backward(BackwardPart::all);
    gather_sequence();
    elementwise(OperatorKind::embedding, Pass::backward, "embedding", tokens_ * model_.hidden_size, 8);
    gradients(vocab() * model_.hidden_size);
  }

  /// Three all-reduces of one fp32 value per token: maximum, target logit, sum of exponentials.
  void loss_reductions() {
    if (t_ == 1) return;
    for (int i = 0; i < 3; ++i) collective(Traffic::tensor_parallel, Collective::all_reduce, Bytes{tokens_ * 4});
  }

  void head_forward() {
    if (model_.final_norm) norm_forward();
    gather_sequence();
    linear_forward(output_layer());
    elementwise(OperatorKind::cross_entropy, Pass::forward, "cross_entropy", tokens_ * vocab(), 8);
    loss_reductions();
  }
  void head_backward(BackwardPart part) {
    if (part != BackwardPart::weight_gradients)
      elementwise(OperatorKind::cross_entropy, Pass::backward, "cross_entropy", tokens_ * vocab(), 8);
    column_backward(output_layer(), part);
    if (model_.final_norm) norm_backward(part);
  }

  const Model& model_;
  const Plan& plan_;
  const Training& training_;
  const int t_;
  const std::int64_t tokens_;
  const bool sequence_parallel_;
  const std::int64_t local_tokens_;
  const std::int64_t element_;  ///< bytes of an activation
  bool recomputed_;
  WorkList list_;
};

std::int64_t linear_parameters(const std::vector<Linear>& list) {
  std::int64_t sum = 0;
  for (const Linear& linear : list) sum += linear.parameters();
  return sum;
}

}  // namespace

LayerWork::LayerWork(const Model& model, const Plan& plan) : model_(model), plan_(plan) {}

WorkList LayerWork::forward(int layer) const {
  Writer writer(model_, plan_);
  writer.attention_forward();
  model_.is_moe_layer(layer) ? writer.moe_forward() : writer.dense_forward();
  return writer.take();
}

WorkList LayerWork::backward(int layer, BackwardPart part, bool recompute_all) const {
  Writer writer(model_, plan_);
  const bool inputs = part != BackwardPart::weight_gradients;
  if (recompute_all && inputs) {
    Writer again(model_, plan_, true);
    again.attention_forward();
    model_.is_moe_layer(layer) ? again.moe_forward() : again.dense_forward();
    writer.append(again.take());
  }
  if (plan_.training.recompute == Recompute::selective_op && inputs) {
    Writer again(model_, plan_, true);
    again.selected_operators(model_.is_moe_layer(layer));
    writer.append(again.take());
  }
  model_.is_moe_layer(layer) ? writer.moe_backward(part) : writer.dense_backward(part);
  const bool recompute_core = !recompute_all && plan_.training.recompute == Recompute::selective;
  writer.attention_backward(part, recompute_core);
  return writer.take();
}

WorkList LayerWork::embedding_forward() const {
  Writer writer(model_, plan_);
  writer.embedding_forward();
  return writer.take();
}

WorkList LayerWork::embedding_backward() const {
  Writer writer(model_, plan_);
  writer.embedding_backward();
  return writer.take();
}

WorkList LayerWork::head_forward() const {
  Writer writer(model_, plan_);
  writer.head_forward();
  return writer.take();
}

WorkList LayerWork::head_backward(BackwardPart part) const {
  Writer writer(model_, plan_);
  writer.head_backward(part);
  return writer.take();
}

std::int64_t LayerWork::layer_parameters(int layer) const {
  const Writer writer(model_, plan_);
  std::int64_t sum = linear_parameters(writer.attention_inputs()) + writer.attention_output().parameters() +
                     2 * writer.norm_parameters();
  if (!model_.is_moe_layer(layer))
    return sum + writer.fc1(model_.ffn_hidden_size).parameters() + writer.fc2(model_.ffn_hidden_size).parameters();
  sum += writer.router().parameters() + writer.expert_parameters();
  if (writer.moe().shared_ffn_hidden > 0) sum += writer.shared_fc1().parameters() + writer.shared_fc2().parameters();
  return sum;
}

std::int64_t LayerWork::embedding_parameters() const { return Writer(model_, plan_).vocab() * model_.hidden_size; }

std::int64_t LayerWork::head_parameters() const {
  const Writer writer(model_, plan_);
  return writer.output_layer().parameters() + (model_.final_norm ? writer.norm_parameters() : 0);
}

}  // namespace tracecast
