#include "sim/graph/mixture_of_experts.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "sim/base/integers.hpp"
#include "sim/graph/feed_forward.hpp"
#include "sim/graph/norm.hpp"
#include "sim/plan/expert_routing.hpp"
#include "sim/plan/sharding.hpp"

namespace tracecast {
namespace {

/// Tickets of exchanges in flight; those of other traffic are below.
constexpr int kRouting = 1 << 28;
constexpr int kDispatch = 2 << 28;  ///< + chunk
constexpr int kReturn = 3 << 28;    ///< + chunk

// ---- Shapes -----------------------------------------------------------------------------------------------------

std::int64_t scaled(std::int64_t tokens, double factor) {
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(tokens) * factor));
}

const MixtureOfExperts& moe(const LayerShape& s) { return *s.model.moe; }
int chunks(const LayerShape& s) { return s.plan.parallel.moe_chunks; }
std::int64_t local_experts(const LayerShape& s) {
  return std::max<std::int64_t>(1, moe(s).experts / s.plan.parallel.ep);
}
/// With copies of popular ones.
std::int64_t experts_at_work(const LayerShape& s) {
  return local_experts(s) + s.training.redundant_experts / s.plan.parallel.ep;
}
std::int64_t expert_width(const LayerShape& s) { return moe(s).ffn_hidden / s.plan.parallel.expert_tensor_ranks(); }

/// Token copies that one rank sends: tensor ranks hold different tokens only with sequence parallelism.
std::int64_t routed_tokens(const LayerShape& s) { return s.local_tokens * moe(s).topk; }

/// Token copies that the experts of the fullest rank work on: those of all expert-tensor ranks together.
std::int64_t expert_tokens(const LayerShape& s) {
  return scaled(routed_tokens(s) * s.plan.expert_token_parts(), s.plan.expert_load.fullest);
}

/// Copies of each token that one exchange moves: one per expert, or with DeepEP and HybridEP per node (inside one node: per rank).
double exchanged_copies(const LayerShape& s) {
  if (s.plan.parallel.moe_dispatcher == MoeDispatcher::alltoall) return moe(s).topk;
  return parts_reached(moe(s), s.expert_nodes > 1 ? s.expert_nodes : s.plan.parallel.ep);
}

Bytes moved_tokens(const LayerShape& s, double copies, Precision precision) {
  return Bytes{scaled(s.local_tokens, copies * s.plan.expert_load.fullest) * s.model.hidden_size *
               element_size(precision)};
}

/// What a dispatcher's kernels reach at most on a way to the experts, and on the way back.
struct DispatcherRates {
  double dispatch = 0;
  double combine = 0;
  double of(bool to_experts) const { return to_experts ? dispatch : combine; }
};
/// Of NVLink's rate, inside one domain, in bf16. docs/references.md#hybridep-rates
constexpr DispatcherRates kLinkShare{0.69, 0.63};
/// Bytes/s, size / time of one rank, of DeepEP's kernels, whatever NVLink allows: for eight ranks that share it (NUM_MAX_NVL_PEERS),
/// on the 20 SMs that Megatron-Core gives them, and for more ranks in one domain. docs/references.md#deepep-nvl72
constexpr int kDeepEpPeers = 8;
constexpr DispatcherRates kDeepEpEight{421e9, 361e9};
constexpr DispatcherRates kDeepEpMany{400e9, 190e9};
/// Bytes/s that one rank's kernels forward to the others of its node, or add up from them, beside the network.
/// docs/references.md#deepep-forwarding, docs/references.md#hybridep-rates
constexpr DispatcherRates kDeepEpForwarded{102e9, 102e9};
constexpr DispatcherRates kHybridEpForwarded{207e9, 182e9};

/// Of one chunk of the tokens. Between nodes DeepEP and HybridEP send a token once to each node, to the rank with the
/// sender's number, which forwards it to the ranks that have its experts; the way back adds up in the same places.
CollectiveCall exchange(const LayerShape& s, Precision precision, bool to_experts) {
  const Parallel& p = s.plan.parallel;
  CollectiveCall call{Collective::all_to_all, moved_tokens(s, exchanged_copies(s), precision) / chunks(s)};
  if (p.moe_dispatcher == MoeDispatcher::alltoall) return call;
  const bool deepep = p.moe_dispatcher == MoeDispatcher::deepep;
  call.link_share = kLinkShare.of(to_experts);
  if (s.expert_nodes > 1) {
    const double others = 1 - static_cast<double>(s.expert_nodes) / p.ep;
    call.forwarded = moved_tokens(s, parts_reached(moe(s), p.ep) * others, precision) / chunks(s);
    const double rate = (deepep ? kDeepEpForwarded : kHybridEpForwarded).of(to_experts);
    if (call.forwarded.count > 0)
      call.limit = {
          std::llround(rate * static_cast<double>(call.size.count) / static_cast<double>(call.forwarded.count))};
  } else if (deepep) {
    call.limit = {std::llround((p.ep > kDeepEpPeers ? kDeepEpMany : kDeepEpEight).of(to_experts))};
  }
  return call;
}

Linear router(const LayerShape& s) {
  return tuned(s, {"router", s.model.hidden_size, moe(s).experts, MatrixSplit::replicated, wide_precision(s.training)},
               "");
}

Linear shared_fc1(const LayerShape& s) {
  Linear linear = fc1(s, moe(s).shared_ffn_hidden);
  linear.name = "shared_fc1";
  return linear;
}

Linear shared_fc2(const LayerShape& s) {
  Linear linear = fc2(s, moe(s).shared_ffn_hidden);
  linear.name = "shared_fc2";
  return linear;
}

std::int64_t shared_activated(const LayerShape& s) { return s.tokens * moe(s).shared_ffn_hidden / s.tp; }

// ---- Exchanges --------------------------------------------------------------------------------------------------

/// An all-to-all delivers the tokens of each rank together, and the experts' multiplications want those of each expert
/// together: a copy after each exchange to experts, and one before each exchange back. docs/references.md#dispatcher-work
void sort_by_expert(OpWriter& writer, Pass pass, const char* name) {
  const LayerShape& s = writer.shape;
  if (s.plan.parallel.ep == 1 || s.plan.parallel.moe_dispatcher != MoeDispatcher::alltoall || experts_at_work(s) == 1)
    return;
  writer.elementwise(OperatorKind::permute, pass, name, ceil_div(expert_tokens(s), chunks(s)) * s.model.hidden_size,
                     2 * s.element_bytes);
}

/// True if the host waits until the router has said how many tokens go where: these counts are arguments of exchanges and
/// of the experts' multiplications. A backward knows them, and experts filled up to their capacity have no others.
/// docs/references.md#dispatcher-work
bool waits_for_counts(const OpWriter& writer) {
  const LayerShape& s = writer.shape;
  const bool known = s.training.cuda_graphs || s.training.expert_capacity_padding || writer.recomputed();
  return s.plan.parallel.ep > 1 && !known;
}

bool uses_hybridep(const LayerShape& s) {
  return s.plan.parallel.moe_dispatcher == MoeDispatcher::hybridep && s.plan.parallel.ep > 1;
}

/// One copy of each token becomes one for each of its experts, or these become one again. With an all-to-all that is before the
/// exchange; DeepEP and HybridEP exchange one copy for each rank with experts of the token, and what the fullest rank has received is
/// permuted. HybridEP does it inside the calls that exchange. docs/references.md#permute-bytes, docs/references.md#hybridep-work
void permute(OpWriter& writer, Pass pass, const std::string& name) {
  const LayerShape& s = writer.shape;
  const Parallel& p = s.plan.parallel;
  const bool received = p.ep > 1 && p.moe_dispatcher != MoeDispatcher::alltoall;
  const double load = s.plan.expert_load.fullest;
  const double apart = moe(s).topk * (received || s.training.expert_capacity_padding ? load : std::min(load, 1.0));
  const double together = received ? parts_reached(moe(s), p.ep) * load : 1;
  const auto elements = [&](double copies) { return scaled(s.local_tokens, copies) * s.model.hidden_size; };
  writer.compute(OperatorKind::permute, pass, Precision::bf16, name,
                 ElementwiseShape{elements(apart), Bytes{(elements(apart) + elements(together)) * s.element_bytes}});
  if (uses_hybridep(s)) writer.share_launch();
}

/// Adds what shared experts made to the result of the routed ones.
void add_shared(OpWriter& writer) {
  const LayerShape& s = writer.shape;
  writer.elementwise(OperatorKind::residual, Pass::forward, "add_shared", s.local_tokens * s.model.hidden_size,
                     3 * s.element_bytes);
  writer.share_launch();
}

/// HybridEP's ranks first tell each other which of their tokens go to which experts, a byte for each: between nodes with NCCL,
/// inside one with a kernel that writes to all others. Only the dispatch behind it waits for it. A backward, and what is
/// recomputed, know it. docs/references.md#hybridep-work
void gather_routing(OpWriter& writer, Pass pass) {
  const LayerShape& s = writer.shape;
  if (!uses_hybridep(s) || pass != Pass::forward || writer.recomputed()) return;
  writer.collective(Traffic::expert_parallel, s.expert_nodes > 1 ? Collective::all_gather : Collective::all_to_all,
                    Bytes{s.local_tokens * s.plan.parallel.ep * moe(s).experts}, Work::Kind::start, kRouting);
  writer.share_launch();
}

/// Expert-tensor ranks work on the same tokens.
void gather_expert_tokens(OpWriter& writer, Precision precision) {
  const LayerShape& s = writer.shape;
  if (s.plan.expert_token_parts() > 1)
    writer.expert_tensor_collective(
        Collective::all_gather, Bytes{expert_tokens(s) * s.model.hidden_size * element_size(precision)} / chunks(s));
}

void reduce_expert_tokens(OpWriter& writer) {
  const LayerShape& s = writer.shape;
  if (s.plan.parallel.expert_tensor_ranks() > 1)
    writer.expert_tensor_collective(
        s.plan.expert_token_parts() > 1 ? Collective::reduce_scatter : Collective::all_reduce,
        Bytes{expert_tokens(s) * s.model.hidden_size * s.element_bytes} / chunks(s));
}

/// Runs `experts` on every chunk of the tokens between its dispatch and its return. They overlap with the exchanges
/// of other chunks; `overlapped` overlaps with the first dispatch.
void exchange_tokens(OpWriter& writer, Pass pass, const std::function<void()>& experts,
                     const std::function<void()>& overlapped = {}) {
  const LayerShape& s = writer.shape;
  const bool exchanges = s.plan.parallel.ep > 1;
  const auto start = [&](Precision moved, int ticket) {
    if (exchanges) writer.exchange_experts(exchange(s, moved, ticket < kReturn), ticket);
  };
  const auto finish = [&](int ticket) {
    if (exchanges) writer.join(ticket);
  };
  const Precision to_experts = s.training.moe_dispatch_dtype;
  const Precision back = wide_precision(s.training);
  gather_routing(writer, pass);
  start(to_experts, kDispatch);
  if (overlapped) overlapped();
  for (int chunk = 0; chunk < chunks(s); ++chunk) {
    finish(kDispatch + chunk);
    if (chunk + 1 < chunks(s)) start(to_experts, kDispatch + chunk + 1);
    gather_expert_tokens(writer, to_experts);
    sort_by_expert(writer, pass, "sort_by_expert");
    experts();
    sort_by_expert(writer, pass, "sort_by_rank");
    reduce_expert_tokens(writer);
    start(back, kReturn + chunk);
  }
  for (int chunk = 0; chunk < chunks(s); ++chunk) finish(kReturn + chunk);
}

// ---- Experts ----------------------------------------------------------------------------------------------------

/// True if a multiplication of experts applies the activation to its result and quantises it, so that neither passes
/// through memory: fc1 forward SwiGLU, the input gradient of fc2 its derivative. docs/references.md#fused-experts
bool fuses_activation(const LayerShape& s) {
  return s.training.fused_experts && is_narrow(s.precision_of(LinearPart::experts));
}

/// Tensors as which an operand of the experts is quantised; with scales of earlier steps it is one.
/// docs/references.md#expert-casts
std::int64_t cast_tensors(const LayerShape& s, Precision precision) {
  const bool delayed = precision == Precision::fp8 && s.training.fp8_scaling == Fp8Scaling::delayed;
  return s.training.separate_expert_casts && !fuses_activation(s) && !delayed ? experts_at_work(s) : 1;
}

/// A weight matrix of every expert, out x in.
struct ExpertMatrix {
  std::string name;
  std::int64_t out;
  std::int64_t in;
};

/// One multiplication of every local expert, on one of `parts` parts of the tokens. `quantised`: an earlier
/// multiplication wrote its input in few bits.
void grouped(OpWriter& writer, Pass pass, const ExpertMatrix& matrix, int parts, bool quantised) {
  const auto& [name, out, in] = matrix;
  const LayerShape& s = writer.shape;
  const Precision precision = s.precision_of(LinearPart::experts);
  const std::int64_t experts = experts_at_work(s);
  const std::int64_t rows = ceil_div(expert_tokens(s), parts);
  const std::int64_t per_expert = ceil_div(rows, experts);
  const bool wgrad = pass == Pass::wgrad;
  const GemmShape operands =
      wgrad                 ? GemmShape{out, in, per_expert, experts, multiplication_adds(s.plan.parallel, s.training)}
      : pass == Pass::dgrad ? GemmShape{per_expert, in, out, experts, false}
                            : GemmShape{per_expert, out, in, experts, false};
  if (!wgrad) {
    quantise_weights(writer, name, {precision, pass, out * in * experts});
    const std::int64_t elements = rows * (pass == Pass::dgrad ? out : in);
    if (!quantised)
      quantise(writer, name,
               {.precision = precision, .pass = pass, .elements = elements, .tensors = cast_tensors(s, precision)});
  }
  writer.compute(OperatorKind::grouped_gemm, pass, precision, name, operands);
  if (wgrad) add_gradients(writer, name, out * in * experts);
}

void grouped_fc1(OpWriter& writer, Pass pass, int parts) {
  const LayerShape& s = writer.shape;
  grouped(writer, pass, {"expert_fc1", gate_factor(s.model) * expert_width(s), s.model.hidden_size}, parts,
          pass == Pass::dgrad && fuses_activation(s));
}

void grouped_fc2(OpWriter& writer, Pass pass, int parts) {
  const LayerShape& s = writer.shape;
  grouped(writer, pass, {"expert_fc2", s.model.hidden_size, expert_width(s)}, parts,
          pass == Pass::forward && fuses_activation(s));
}

bool pads_experts(const LayerShape& s) {
  const Training& t = s.training;
  return t.padded_experts && is_narrow(s.precision_of(LinearPart::experts)) && !fuses_activation(s) &&
         !t.expert_capacity_padding && s.plan.parallel.moe_dispatcher != MoeDispatcher::hybridep;
}

/// Runs `experts` on copies of the tokens and of their probabilities that are padded for each expert, and copies the
/// results back; the backward does the same with gradients. docs/references.md#expert-padding
void padded(OpWriter& writer, Pass pass, const std::function<void()>& experts) {
  const LayerShape& s = writer.shape;
  if (!pads_experts(s)) return experts();
  const std::int64_t tokens = ceil_div(expert_tokens(s), chunks(s));
  const auto copy = [&](const char* name, std::int64_t elements, std::int64_t bytes) {
    writer.elementwise(OperatorKind::permute, pass, name, elements, 2 * bytes);
    writer.share_launch();
  };
  copy("pad", tokens * s.model.hidden_size, s.element_bytes);
  copy("pad_probabilities", tokens, 4);
  experts();
  copy("unpad", tokens * s.model.hidden_size, s.element_bytes);
}

// Bytes for each element that Megatron-Core moves to clamp what it activates. docs/references.md#expert-biases
constexpr Moved kClamp{16, 20};

/// Bytes for each element of experts' results that Megatron-Core moves to add biases times probabilities; those of fc1 are added by
/// its multiplication. docs/references.md#expert-biases
struct BiasTraffic {
  Moved sum;
  std::int64_t gradient;  ///< of biases, and again of probabilities
};
constexpr BiasTraffic kBias{{12, 4}, 6};
constexpr BiasTraffic kBiasInFp32{{28, 16}, 12};  ///< DeepEP and HybridEP have probabilities in fp32

/// The activation of `elements` elements, clamped before. Transformer Engine's stacks create a tensor on the GPU from a number of the
/// host, which waits; in what a backward recomputes this wait is left out.
void activate(OpWriter& writer, Pass pass, std::int64_t elements) {
  const LayerShape& s = writer.shape;
  if (moe(s).clamped_activation && !s.training.compiled) {
    const bool creates = s.training.transformer_engine && !s.training.cuda_graphs;
    if (creates && pass == Pass::forward && !writer.recomputed()) writer.host_sync();
    writer.elementwise(OperatorKind::activation, pass, "clamp", elements, widened(kClamp, s).in(pass));
    writer.launch_by_calls(4);
  }
  activation(writer, pass, elements);
}

void activate_chunk(OpWriter& writer, Pass pass) {
  const LayerShape& s = writer.shape;
  if (!fuses_activation(s)) activate(writer, pass, ceil_div(expert_tokens(s), chunks(s)) * expert_width(s));
}

/// Adds the bias of each expert to its results [rows, h], one expert after the other; backward the gradients of biases that are
/// trained, and of probabilities.
void expert_bias(OpWriter& writer, Pass pass, std::int64_t rows) {
  const LayerShape& s = writer.shape;
  if (!moe(s).expert_bias || fuses_activation(s) || s.training.compiled) return;
  const std::int64_t experts = experts_at_work(s);
  const BiasTraffic traffic = s.plan.parallel.moe_dispatcher == MoeDispatcher::alltoall ? kBias : kBiasInFp32;
  const auto add = [&](const char* name, std::int64_t bytes, std::int64_t calls) {
    const std::int64_t elements = rows * s.model.hidden_size;
    writer.compute(OperatorKind::residual, pass, Precision::bf16, name,
                   ElementwiseShape{elements, Bytes{elements * bytes}, static_cast<std::int32_t>(experts)});
    writer.launch_by_calls(calls);
  };
  add("expert_bias", traffic.sum.in(pass), pass == Pass::forward ? 2 * experts + 2 : 3);
  if (pass == Pass::forward) return;
  if (s.trains_weights()) add("expert_bias gradient", traffic.gradient, 3 * experts);
  add("probabilities gradient", traffic.gradient, 2 * experts);
}

}  // namespace

void shared_forward(OpWriter& writer) {
  const LayerShape& s = writer.shape;
  if (moe(s).shared_ffn_hidden == 0) return;
  gather_sequence(writer, LinearPart::mlp);
  linear_forward(writer, shared_fc1(s));
  activation(writer, Pass::forward, shared_activated(s));
  linear_forward(writer, shared_fc2(s));
  reduce_partial_sums(writer);
}

namespace {

void shared_backward(OpWriter& writer, BackwardPart part) {
  const LayerShape& s = writer.shape;
  if (moe(s).shared_ffn_hidden == 0) return;
  gather_sequence(writer, LinearPart::mlp);
  row_backward(writer, shared_fc2(s), part);
  if (has_input_gradients(part)) activation(writer, Pass::backward, shared_activated(s));
  column_backward(writer, shared_fc1(s), part);
}

/// True if one graph launches the shared experts with the router.
bool captures_shared(const OpWriter& writer) {
  return writer.captures(GraphModule::moe_router) && !writer.shape.plan.parallel.moe_shared_overlap;
}

/// What follows the router.
void routed_forward(OpWriter& writer, bool with_shared) {
  const int parts = chunks(writer.shape);
  if (waits_for_counts(writer)) writer.host_sync();
  permute(writer, Pass::forward, "permute");
  const auto experts = [&] {
    padded(writer, Pass::forward, [&] {
      grouped_fc1(writer, Pass::forward, parts);
      activate_chunk(writer, Pass::forward);
      grouped_fc2(writer, Pass::forward, parts);
    });
    expert_bias(writer, Pass::forward, ceil_div(expert_tokens(writer.shape), parts));
  };
  const auto shared = [&] { shared_forward(writer); };
  const bool overlaps = writer.shape.plan.parallel.moe_shared_overlap;
  exchange_tokens(writer, Pass::forward, experts, overlaps ? shared : std::function<void()>{});
  permute(writer, Pass::forward, "unpermute");
  if (with_shared && !overlaps) shared();
  if (moe(writer.shape).shared_ffn_hidden > 0) add_shared(writer);
}

void routed_backward(OpWriter& writer, BackwardPart part, const std::function<void()>& overlapped) {
  const int parts = chunks(writer.shape);
  const bool weights = has_weight_gradients(part) && writer.shape.trains_weights();
  permute(writer, Pass::backward, "unpermute");
  const auto experts = [&] {
    expert_bias(writer, Pass::backward, ceil_div(expert_tokens(writer.shape), parts));
    padded(writer, Pass::backward, [&] {
      grouped_fc2(writer, Pass::dgrad, parts);
      if (weights) grouped_fc2(writer, Pass::wgrad, parts);
      activate_chunk(writer, Pass::backward);
      grouped_fc1(writer, Pass::dgrad, parts);
      if (weights) grouped_fc1(writer, Pass::wgrad, parts);
    });
  };
  exchange_tokens(writer, Pass::backward, experts, overlapped);
  permute(writer, Pass::backward, "permute");
}

}  // namespace

std::int64_t routed_expert_parameters(const LayerShape& s) {
  return local_experts(s) * (gate_factor(s.model) + 1) * s.model.hidden_size * expert_width(s);
}

std::vector<Linear> moe_linears(const LayerShape& s) {
  if (moe(s).shared_ffn_hidden == 0) return {router(s)};
  return {router(s), shared_fc1(s), shared_fc2(s)};
}

void moe_forward(OpWriter& writer) {
  const bool captured = captures_shared(writer);
  writer.capture(GraphModule::moe_router, [&] {
    norm_forward(writer);
    linear_forward(writer, router(writer.shape));
    if (captured) shared_forward(writer);
  });
  routed_forward(writer, !captured);
  residual_forward(writer);
}

void expert_block(OpWriter& writer) {
  linear_forward(writer, router(writer.shape));
  routed_forward(writer, true);
}

void expert_activations(OpWriter& writer, bool with_shared) {
  const LayerShape& s = writer.shape;
  activate(writer, Pass::forward, expert_tokens(s) * expert_width(s));
  if (with_shared) activation(writer, Pass::forward, shared_activated(s));
}

void moe_backward(OpWriter& writer, BackwardPart part) {
  const LayerShape& s = writer.shape;
  const bool inputs = has_input_gradients(part);
  const bool overlaps = s.plan.parallel.moe_shared_overlap && inputs;
  const bool captured = captures_shared(writer);
  const bool weights = has_weight_gradients(part) && s.trains_weights();
  const auto shared = [&] { shared_backward(writer, part); };
  residual_backward(writer, part);
  if (!overlaps && !captured) shared();
  if (inputs) {
    routed_backward(writer, part, overlaps ? shared : std::function<void()>{});
  } else if (weights) {
    grouped_fc2(writer, Pass::wgrad, 1);
    grouped_fc1(writer, Pass::wgrad, 1);
  }
  if (weights) writer.gradients(routed_expert_parameters(s), true);
  writer.capture(GraphModule::moe_router, [&] {
    if (captured) shared();
    column_backward(writer, router(s), part);
    if (inputs) sum_of_input_gradients(writer);
    if (inputs && moe(s).shared_ffn_hidden > 0) sum_of_input_gradients(writer);
    block_norm_backward(writer, part);
  });
}

}  // namespace tracecast
