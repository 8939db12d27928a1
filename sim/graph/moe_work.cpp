#include <cmath>

#include "sim/graph/layer_writer.hpp"
#include "sim/plan/expert_routing.hpp"

namespace tracecast {
namespace {

/// Tickets of exchanges in flight; those of other traffic are below.
constexpr int kDispatch = 1000;
constexpr int kReturn = 2000;

std::int64_t scaled(std::int64_t tokens, double factor) {
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(tokens) * factor));
}

}  // namespace

std::int64_t LayerWriter::expert_tokens() const {
  return scaled(routed_tokens() * (sequence_parallel_ ? etp() : 1), expert_load(training_));
}

std::int64_t LayerWriter::expert_parameters() const {
  return local_experts() * (gamma() + 1) * model_.hidden_size * expert_width();
}

Bytes LayerWriter::exchange_size(Precision precision) const {
  double copies = moe().topk;
  if (plan_.parallel.moe_dispatcher == MoeDispatcher::deepep) {
    MixtureOfExperts anywhere = moe();
    anywhere.routing_groups = 0;
    copies = expert_nodes_ > 1 ? nodes_reached(moe(), expert_nodes_) : nodes_reached(anywhere, plan_.parallel.ep);
  }
  const std::int64_t sent = scaled(local_tokens_, copies * expert_load(training_));
  return Bytes{sent * model_.hidden_size * element_size(precision)};
}

void LayerWriter::gather_expert_tokens(Precision precision) {
  if (sequence_parallel_ && etp() > 1)
    collective(Traffic::tensor_parallel, Collective::all_gather,
               Bytes{expert_tokens() * model_.hidden_size * element_size(precision)} / chunks());
}

void LayerWriter::reduce_expert_tokens() {
  if (etp() == 1) return;
  collective(Traffic::tensor_parallel, reduction(), Bytes{expert_tokens() * model_.hidden_size * element_} / chunks());
}

void LayerWriter::exchange_tokens(Precision precision, const std::function<void()>& experts,
                                  const std::function<void()>& beside) {
  const bool exchanges = plan_.parallel.ep > 1;
  const auto start = [&](Precision moved, int ticket) {
    if (exchanges)
      collective(Traffic::expert_parallel, Collective::all_to_all, exchange_size(moved) / chunks(), Work::Kind::start,
                 ticket);
  };
  const auto finish = [&](int ticket) {
    if (exchanges) join(ticket);
  };
  const Precision back = training_.dtype == Precision::fp32 ? Precision::fp32 : Precision::bf16;
  start(precision, kDispatch);
  if (beside) beside();
  for (int chunk = 0; chunk < chunks(); ++chunk) {
    finish(kDispatch + chunk);
    if (chunk + 1 < chunks()) start(precision, kDispatch + chunk + 1);
    gather_expert_tokens(precision);
    experts();
    reduce_expert_tokens();
    start(back, kReturn + chunk);
  }
  for (int chunk = 0; chunk < chunks(); ++chunk) finish(kReturn + chunk);
}

void LayerWriter::grouped(Pass pass, const std::string& name, std::int64_t out, std::int64_t in, int parts) {
  const Precision precision = precision_of(LinearPart::experts);
  const std::int64_t rows = ceil_div(expert_tokens(), parts);
  const std::int64_t per_expert = ceil_div(rows, local_experts());
  const bool wgrad = pass == Pass::wgrad;
  const GemmShape shape =
      wgrad ? GemmShape{out, in, per_expert, local_experts(), training_.grad_reduce_dtype == Precision::fp32}
      : pass == Pass::dgrad ? GemmShape{per_expert, in, out, local_experts(), false}
                            : GemmShape{per_expert, out, in, local_experts(), false};
  if (!wgrad) {
    quantise_weights(name, precision, pass, out * in * local_experts());
    quantise(name, precision, pass, rows * (pass == Pass::dgrad ? out : in));
  }
  compute(OperatorKind::grouped_gemm, pass, precision, name, shape);
}

void LayerWriter::permute(Pass pass, const std::string& name) {
  elementwise(OperatorKind::permute, pass, name, routed_tokens() * model_.hidden_size, 2 * element_);
}

Linear LayerWriter::shared_fc1() const {
  Linear linear = fc1(moe().shared_ffn_hidden);
  linear.name = "shared_fc1";
  return linear;
}

Linear LayerWriter::shared_fc2() const {
  Linear linear = fc2(moe().shared_ffn_hidden);
  linear.name = "shared_fc2";
  return linear;
}

void LayerWriter::shared_forward() {
  if (moe().shared_ffn_hidden == 0) return;
  gather_sequence();
  linear_forward(shared_fc1());
  activation(Pass::forward, tokens_ * moe().shared_ffn_hidden / t_);
  linear_forward(shared_fc2());
  reduce_partial_sums();
}

void LayerWriter::shared_backward(BackwardPart part) {
  if (moe().shared_ffn_hidden == 0) return;
  gather_sequence();
  row_backward(shared_fc2(), part);
  if (part != BackwardPart::weight_gradients) activation(Pass::backward, tokens_ * moe().shared_ffn_hidden / t_);
  column_backward(shared_fc1(), part);
}

void LayerWriter::moe_forward() {
  norm_forward();
  expert_block();
  residual_forward();
}

void LayerWriter::expert_block() {
  const std::int64_t h = model_.hidden_size;
  linear_forward(router());
  permute(Pass::forward, "permute");
  const auto experts = [&] {
    grouped(Pass::forward, "expert_fc1", gamma() * expert_width(), h, chunks());
    activation(Pass::forward, ceil_div(expert_tokens(), chunks()) * expert_width());
    grouped(Pass::forward, "expert_fc2", h, expert_width(), chunks());
  };
  const bool beside = plan_.parallel.moe_shared_overlap;
  exchange_tokens(training_.moe_dispatch_dtype, experts,
                  beside ? [this] { shared_forward(); } : std::function<void()>{});
  permute(Pass::forward, "unpermute");
  if (!beside) shared_forward();
}

void LayerWriter::expert_weight_gradients() {
  grouped(Pass::wgrad, "expert_fc2", model_.hidden_size, expert_width(), 1);
  grouped(Pass::wgrad, "expert_fc1", gamma() * expert_width(), model_.hidden_size, 1);
}

/// The gradient of the output takes the way of the tokens: in `moe_dispatch_dtype` to the experts, in 16 bit back.
void LayerWriter::moe_backward(BackwardPart part) {
  const std::int64_t h = model_.hidden_size;
  const bool inputs = part != BackwardPart::weight_gradients;
  const bool weights = part != BackwardPart::input_gradients;
  const bool beside = plan_.parallel.moe_shared_overlap && inputs;
  residual_backward(part);
  if (!beside) shared_backward(part);
  if (inputs) {
    permute(Pass::backward, "unpermute");
    const auto experts = [&] {
      grouped(Pass::dgrad, "expert_fc2", h, expert_width(), chunks());
      if (weights && trains_weights()) grouped(Pass::wgrad, "expert_fc2", h, expert_width(), chunks());
      activation(Pass::backward, ceil_div(expert_tokens(), chunks()) * expert_width());
      grouped(Pass::dgrad, "expert_fc1", gamma() * expert_width(), h, chunks());
      if (weights && trains_weights()) grouped(Pass::wgrad, "expert_fc1", gamma() * expert_width(), h, chunks());
    };
    exchange_tokens(training_.moe_dispatch_dtype, experts,
                    beside ? [this, part] { shared_backward(part); } : std::function<void()>{});
    permute(Pass::backward, "permute");
  } else if (trains_weights()) {
    expert_weight_gradients();
  }
  if (weights && trains_weights()) gradients(expert_parameters(), true);
  column_backward(router(), part);
  norm_backward(part);
}

}  // namespace tracecast
