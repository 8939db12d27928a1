#include "sim/graph/layer_writer.hpp"

#include <cmath>
#include <iterator>
#include <utility>

namespace tracecast {
namespace {

// Fused: one kernel, 16-bit tensors (docs/references.md#elementwise-bytes). Unfused: what the framework's operators
// read and write one after the other: to fp32, square, mean, scale, to 16 bit, weight.
constexpr Moved kFusedNorm{4, 10};
constexpr Moved kUnfusedRmsNorm{36, 52};
constexpr Moved kFusedResidualNorm{8, 8};

}  // namespace

void LayerWriter::append(WorkList more) { std::move(more.begin(), more.end(), std::back_inserter(list_)); }

void LayerWriter::compute(OperatorKind kind, Pass pass, Precision precision, std::string name, OperatorShape shape) {
  Work work;
  work.op = {kind, pass, precision, std::move(name), shape};
  work.recomputed = recomputed_;
  list_.push_back(std::move(work));
}

void LayerWriter::elementwise(OperatorKind kind, Pass pass, const std::string& name, std::int64_t elements,
                              std::int64_t bytes_per_element) {
  if (elements > 0)
    compute(kind, pass, Precision::bf16, name, ElementwiseShape{elements, Bytes{elements * bytes_per_element}});
}

void LayerWriter::collective(Traffic traffic, Collective what, Bytes size, Work::Kind kind, int ticket) {
  Work work;
  work.kind = kind;
  work.traffic = traffic;
  work.call.collective = what;
  work.call.size = size;
  work.ticket = ticket;
  work.recomputed = recomputed_;
  list_.push_back(std::move(work));
}

void LayerWriter::join(int ticket) {
  Work work;
  work.kind = Work::Kind::join;
  work.ticket = ticket;
  list_.push_back(std::move(work));
}

void LayerWriter::gradients(std::int64_t parameters, bool expert) {
  if (parameters == 0) return;
  Work work;
  work.kind = Work::Kind::gradients;
  work.parameters = parameters;
  work.expert_parameters = expert;
  list_.push_back(std::move(work));
}

void LayerWriter::gather_sequence() {
  if (sequence_parallel_) collective(Traffic::tensor_parallel, Collective::all_gather, tensor_message());
}

void LayerWriter::reduce_partial_sums() {
  if (t_ > 1) collective(Traffic::tensor_parallel, reduction(), tensor_message());
}

void LayerWriter::finish_block() { gathers_layers() ? gather_result(model_.hidden_size) : reduce_partial_sums(); }

void LayerWriter::gather_result(std::int64_t width) {
  if (gathers_layers()) collective(Traffic::tensor_parallel, Collective::all_gather, Bytes{tokens_ * width * element_});
}

void LayerWriter::quantise(const std::string& name, Precision precision, Pass pass, std::int64_t elements) {
  if (!is_narrow(precision)) return;
  const double moved =
      static_cast<double>(elements) * (quantised_size(Precision::bf16) + 2 * quantised_size(precision));
  compute(OperatorKind::cast, pass, Precision::bf16, name + " cast",
          ElementwiseShape{elements, Bytes{std::llround(moved)}});
}

void LayerWriter::quantise_weights(const std::string& name, Precision precision, Pass pass, std::int64_t elements) {
  if (!is_narrow(precision) || plan_.parallel.zero_stage < 3 || training_.fp8_param_gather) return;
  const double moved = static_cast<double>(elements) * (quantised_size(Precision::bf16) + quantised_size(precision));
  compute(OperatorKind::cast, pass, Precision::bf16, name + " weight cast",
          ElementwiseShape{elements, Bytes{std::llround(moved)}});
}

void LayerWriter::linear_forward(const Linear& linear) {
  quantise_weights(linear.name, linear.precision, Pass::forward, linear.in * linear.out);
  quantise(linear.name, linear.precision, Pass::forward, rows(linear) * linear.in);
  compute(OperatorKind::gemm, Pass::forward, linear.precision, linear.name,
          GemmShape{rows(linear), linear.out, linear.in, 1, false});
  adapter_forward(linear);
}

void LayerWriter::linear_dgrad(const Linear& linear) {
  quantise_weights(linear.name, linear.precision, Pass::dgrad, linear.in * linear.out);
  quantise(linear.name, linear.precision, Pass::dgrad, rows(linear) * linear.out);
  compute(OperatorKind::gemm, Pass::dgrad, linear.precision, linear.name,
          GemmShape{rows(linear), linear.in, linear.out, 1, false});
  adapter_dgrad(linear);
}

void LayerWriter::linear_wgrad(const Linear& linear) {
  const bool fp32 = training_.grad_reduce_dtype == Precision::fp32;
  if (!linear.frozen)
    compute(OperatorKind::gemm, Pass::wgrad, linear.precision, linear.name,
            GemmShape{linear.out, linear.in, rows(linear), 1, fp32});
  adapter_wgrad(linear);
  gradients(linear.trained());
}

Linear LayerWriter::tuned(Linear linear, const std::string& target) const {
  linear.frozen = !trains_weights();
  if (has_adapter(training_, target)) linear.adapter_rank = training_.lora_rank;
  return linear;
}

/// B (A x), added to the matrix's own result.
void LayerWriter::adapter_forward(const Linear& linear) {
  if (linear.adapter_rank == 0) return;
  const std::int64_t r = linear.adapter_rank;
  compute(OperatorKind::gemm, Pass::forward, Precision::bf16, linear.name + " lora_a",
          GemmShape{rows(linear), r, linear.in, 1, false});
  compute(OperatorKind::gemm, Pass::forward, Precision::bf16, linear.name + " lora_b",
          GemmShape{rows(linear), linear.out, r, 1, false});
  elementwise(OperatorKind::residual, Pass::forward, linear.name + " lora_add", rows(linear) * linear.out,
              3 * element_);
}

void LayerWriter::adapter_dgrad(const Linear& linear) {
  if (linear.adapter_rank == 0) return;
  const std::int64_t r = linear.adapter_rank;
  compute(OperatorKind::gemm, Pass::dgrad, Precision::bf16, linear.name + " lora_b",
          GemmShape{rows(linear), r, linear.out, 1, false});
  compute(OperatorKind::gemm, Pass::dgrad, Precision::bf16, linear.name + " lora_a",
          GemmShape{rows(linear), linear.in, r, 1, false});
  elementwise(OperatorKind::residual, Pass::backward, linear.name + " lora_add", rows(linear) * linear.in,
              3 * element_);
}

void LayerWriter::adapter_wgrad(const Linear& linear) {
  if (linear.adapter_rank == 0) return;
  const bool fp32 = training_.grad_reduce_dtype == Precision::fp32;
  compute(OperatorKind::gemm, Pass::wgrad, Precision::bf16, linear.name + " lora_b",
          GemmShape{linear.out, linear.adapter_rank, rows(linear), 1, fp32});
  compute(OperatorKind::gemm, Pass::wgrad, Precision::bf16, linear.name + " lora_a",
          GemmShape{linear.adapter_rank, linear.in, rows(linear), 1, fp32});
}

void LayerWriter::row_backward(const Linear& linear, BackwardPart part) {
  if (linear.split == MatrixSplit::column) return column_backward(linear, part);
  if (part != BackwardPart::weight_gradients) linear_dgrad(linear);
  if (part != BackwardPart::input_gradients) linear_wgrad(linear);
}

void LayerWriter::column_backward(const Linear& linear, BackwardPart part) {
  constexpr int kGather = 1;
  constexpr int kReduce = 2;
  const bool split = linear.split == MatrixSplit::column && t_ > 1;
  const bool weights = part != BackwardPart::input_gradients && (!linear.frozen || linear.adapter_rank > 0);
  const bool inputs = part != BackwardPart::weight_gradients;
  if (split && sequence_parallel_ && weights)
    collective(Traffic::tensor_parallel, Collective::all_gather, tensor_message(), Work::Kind::start, kGather);
  if (inputs) linear_dgrad(linear);
  if (split && inputs)
    collective(Traffic::tensor_parallel, reduction(), input_gradient_message(linear), Work::Kind::start, kReduce);
  if (split && sequence_parallel_ && weights) join(kGather);
  if (weights) linear_wgrad(linear);
  if (split && inputs) join(kReduce);
}

Moved LayerWriter::norm_traffic() const {
  if (training_.compiled) return widened(kFusedResidualNorm);
  return training_.unfused_elementwise && model_.norm == Norm::rms_norm ? kUnfusedRmsNorm : widened(kFusedNorm);
}

void LayerWriter::norm_forward() {
  elementwise(OperatorKind::norm, Pass::forward, norm_name(), local_tokens_ * model_.hidden_size,
              norm_traffic().forward);
}

void LayerWriter::norm_backward(BackwardPart part) {
  if (part != BackwardPart::weight_gradients)
    elementwise(OperatorKind::norm, Pass::backward, norm_name(), local_tokens_ * model_.hidden_size,
                norm_traffic().backward);
  if (part != BackwardPart::input_gradients && trains_weights()) gradients(norm_parameters());
}

void LayerWriter::residual_forward() {
  const std::int64_t n = local_tokens_ * model_.hidden_size;
  const bool dropout = model_.dropout > 0;
  if (training_.compiled && !dropout) return;
  elementwise(OperatorKind::residual, Pass::forward, dropout ? "dropout_add" : "residual", n,
              3 * element_ + (dropout ? 1 : 0));
}

void LayerWriter::residual_backward(BackwardPart part) {
  if (model_.dropout > 0 && part != BackwardPart::weight_gradients)
    elementwise(OperatorKind::residual, Pass::backward, "dropout_add", local_tokens_ * model_.hidden_size,
                2 * element_ + 1);
}

}  // namespace tracecast
