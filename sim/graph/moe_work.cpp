#include "sim/graph/layer_writer.hpp"

namespace tracecast {

std::int64_t LayerWriter::expert_parameters() const {
  return local_experts() * (gamma() + 1) * model_.hidden_size * expert_width();
}

void LayerWriter::exchange_tokens(Precision precision) {
  if (plan_.parallel.ep > 1)
    collective(Traffic::expert_parallel, Collective::all_to_all,
               Bytes{routed_tokens() * model_.hidden_size * element_size(precision)});
  if (sequence_parallel_ && etp() > 1)
    collective(Traffic::tensor_parallel, Collective::all_gather,
               Bytes{expert_tokens() * model_.hidden_size * element_size(precision)});
}

void LayerWriter::return_tokens() {
  const Bytes size{expert_tokens() * model_.hidden_size * element_};
  if (sequence_parallel_ && etp() > 1) collective(Traffic::tensor_parallel, Collective::reduce_scatter, size);
  if (!sequence_parallel_ && etp() > 1) collective(Traffic::tensor_parallel, Collective::all_reduce, size);
  if (plan_.parallel.ep > 1)
    collective(Traffic::expert_parallel, Collective::all_to_all,
               Bytes{routed_tokens() * model_.hidden_size * element_});
}

void LayerWriter::grouped(Pass pass, const std::string& name, std::int64_t out, std::int64_t in) {
  const std::int64_t per_expert = ceil_div(expert_tokens(), local_experts());
  const bool wgrad = pass == Pass::wgrad;
  const GemmShape shape =
      wgrad ? GemmShape{out, in, per_expert, local_experts(), training_.grad_reduce_dtype == Precision::fp32}
      : pass == Pass::dgrad ? GemmShape{per_expert, in, out, local_experts(), false}
                            : GemmShape{per_expert, out, in, local_experts(), false};
  compute(OperatorKind::grouped_gemm, pass, training_.dtype, name, shape);
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

void LayerWriter::moe_backward(BackwardPart part) {
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

}  // namespace tracecast
