#include "sim/graph/linear_layer.hpp"

#include <cmath>
#include <utility>

#include "sim/plan/fine_tuning.hpp"
#include "sim/plan/precision.hpp"
#include "sim/plan/sharding.hpp"

namespace tracecast {
namespace {

/// Rows of the activations that `linear` multiplies.
std::int64_t rows(const LayerShape& shape, const Linear& linear) {
  return linear.split == MatrixSplit::replicated ? shape.local_tokens : shape.tokens;
}

/// A current scale takes three kernels: the largest value, the scale, the copy.
void write_cast(OpWriter& writer, std::string name, const Cast& cast, int copies) {
  const Training& training = writer.shape.training;
  const bool current = cast.precision == Precision::fp8 && finds_largest(training, cast.precision);
  const std::int64_t kernels = cast.tensors * (current ? 3 : 1);
  const double moved = static_cast<double>(cast.elements) * quantising_bytes(training, cast.precision, copies);
  writer.compute(OperatorKind::cast, cast.pass, Precision::bf16, std::move(name),
                 ElementwiseShape{cast.elements, Bytes{std::llround(moved)}, static_cast<std::int32_t>(kernels)});
}

/// Forward x W^T, or the input gradient dy W: from `from` columns to `to`.
struct Columns {
  std::int64_t from;
  std::int64_t to;
};
Columns columns(const Linear& linear, Pass pass) {
  return pass == Pass::forward ? Columns{linear.in, linear.out} : Columns{linear.out, linear.in};
}

/// B (A x), added to the matrix's own result; for the input gradient the same backwards. Adapters are matrices of PyTorch.
void multiply_adapters(OpWriter& writer, const Linear& linear, Pass pass) {
  if (linear.adapter_rank == 0) return;
  const bool forward = pass == Pass::forward;
  const std::int64_t n = rows(writer.shape, linear);
  const Columns width = columns(linear, pass);
  const auto multiply = [&](const char* name, std::int64_t to, std::int64_t from) {
    writer.compute(OperatorKind::gemm, pass, wide_precision(writer.shape.training), linear.name + name,
                   GemmShape{n, to, from, 1, false});
    writer.launch_by_calls(1);
  };
  multiply(forward ? " lora_a" : " lora_b", linear.adapter_rank, width.from);
  multiply(forward ? " lora_b" : " lora_a", width.to, linear.adapter_rank);
  writer.elementwise(OperatorKind::residual, forward ? Pass::forward : Pass::backward, linear.name + " lora_add",
                     n * width.to, 3 * writer.shape.element_bytes);
  writer.launch_by_calls(1);
}

/// True if the rows that are multiplied have been gathered: inputs of a column-parallel layer, output gradients of a
/// row-parallel one.
bool multiplies_gathered(const LayerShape& shape, const Linear& linear, Pass pass) {
  return shape.sequence_parallel && linear.split == (pass == Pass::forward ? MatrixSplit::column : MatrixSplit::row);
}

/// True if tensor ranks quantise before they gather. A scale for each row is taken of the gathered operand.
bool gathers_quantised(const LayerShape& shape, Precision multiplied) {
  return is_narrow(multiplied) && !shape.training.row_scales;
}

/// Each tensor rank quantises its part of what is gathered; ranks that find the largest value of their parts agree on one scale.
/// The copy for the weight gradient is gathered, too, where it has scales per block, and transposed from the gathered one where it has
/// one scale.
void quantise_operand(OpWriter& writer, const Linear& linear, Pass pass, std::int64_t columns) {
  const LayerShape& shape = writer.shape;
  const std::int64_t whole = rows(shape, linear) * columns;
  if (!gathers_quantised(shape, linear.precision) || !multiplies_gathered(shape, linear, pass))
    return quantise(writer, linear.name, {linear.precision, pass, whole});
  const bool one_scale = linear.precision == Precision::fp8;
  if (one_scale && finds_largest(shape.training, Precision::fp8)) {
    writer.collective(Traffic::tensor_parallel, Collective::all_reduce, Bytes{4});
    writer.do_not_tile();
  }
  quantise(writer, linear.name, {linear.precision, pass, shape.local_tokens * columns, one_scale ? 1 : 2});
  if (!one_scale || !shape.training.fp8_transpose) return;
  writer.compute(OperatorKind::cast, pass, Precision::bf16, linear.name + " transpose",
                 ElementwiseShape{whole, Bytes{2 * whole}});
  writer.share_launch();
}

/// Pass::forward, or Pass::dgrad for the input gradient.
void multiply(OpWriter& writer, const Linear& linear, Pass pass) {
  const std::int64_t n = rows(writer.shape, linear);
  const Columns width = columns(linear, pass);
  quantise_weights(writer, linear.name, {linear.precision, pass, linear.in * linear.out});
  quantise_operand(writer, linear, pass, width.from);
  writer.compute(OperatorKind::gemm, pass, linear.precision, linear.name, GemmShape{n, width.to, width.from, 1, false});
  multiply_adapters(writer, linear, pass);
}

/// The sum of the output gradients over the tokens, which one kernel reads once more; a row-parallel layer's bias is added
/// to the sums of all ranks, with sequence parallelism of a part of the tokens. Transformer Engine and XLA sum while they do
/// other work. docs/references.md#bias-gradients
void bias_gradient(OpWriter& writer, const Linear& linear) {
  const LayerShape& shape = writer.shape;
  if (!linear.biased || linear.frozen || shape.training.transformer_engine || shape.training.compiled) return;
  const std::int64_t tokens = linear.split == MatrixSplit::row ? shape.local_tokens : rows(shape, linear);
  writer.elementwise(OperatorKind::residual, Pass::backward, linear.name + " bias_gradient", tokens * linear.out,
                     shape.element_bytes);
  writer.share_launch();
}

void weight_gradient(OpWriter& writer, const Linear& linear) {
  const bool adds = multiplication_adds(writer.shape.plan.parallel, writer.shape.training);
  const std::int64_t n = rows(writer.shape, linear);
  const auto gemm = [&](const std::string& name, Precision precision, std::int64_t out, std::int64_t in) {
    writer.compute(OperatorKind::gemm, Pass::wgrad, precision, name, GemmShape{out, in, n, 1, adds});
    add_gradients(writer, name, out * in);
  };
  if (!linear.frozen) gemm(linear.name, linear.precision, linear.out, linear.in);
  if (linear.adapter_rank > 0) {
    gemm(linear.name + " lora_b", wide_precision(writer.shape.training), linear.out, linear.adapter_rank);
    writer.launch_by_calls(1);
    gemm(linear.name + " lora_a", wide_precision(writer.shape.training), linear.adapter_rank, linear.in);
    writer.launch_by_calls(1);
  }
  bias_gradient(writer, linear);
  writer.gradients(linear.trained());
}

/// The [T, width] message of a gather whose result is multiplied in this precision.
Bytes gathered_message(const LayerShape& shape, Precision multiplied, std::int64_t width) {
  if (!gathers_quantised(shape, multiplied)) return shape.tensor_message(width);
  return Bytes{std::llround(static_cast<double>(shape.tokens * width) * quantised_size(multiplied))};
}

/// DTensor: parts of a sequence to parts of the tensor, or back. Asynchronous tensor parallelism exchanges them in
/// place.
void copy_whole_tensor(OpWriter& writer, Pass pass, Bytes tensor) {
  const LayerShape& shape = writer.shape;
  if (!shape.uses_dtensor()) return;
  writer.compute(OperatorKind::copy, pass, Precision::bf16, "sequence_copy",
                 ElementwiseShape{shape.tokens * shape.model.hidden_size, tensor * 2});
  writer.share_launch();
}

}  // namespace

Linear tuned(const LayerShape& shape, Linear linear, const std::string& target) {
  linear.frozen = !shape.trains_weights();
  const Model& model = shape.model;
  linear.biased = (target == "qkv" && model.qkv_bias && !model.latent_attention) ||
                  (target == "proj" && model.attention_output_bias) ||
                  ((target == "fc1" || target == "fc2") && model.mlp_bias);
  if (has_adapter(shape.training, target)) linear.adapter_rank = shape.training.lora_rank;
  if (shape.sums_blocks() && shape.sequence_parallel) {  // the backward of the feed-forward comes first
    const bool feed_forward_gathers = shape.trains_weights() || has_adapter(shape.training, "fc1");
    linear.gathers_input = target != "qkv" || !feed_forward_gathers;
    linear.reduces_input_gradient = target != "fc1";
  }
  return linear;
}

void gather_sequence(OpWriter& writer, std::optional<LinearPart> part) {
  gather_sequence(writer, part ? writer.shape.precision_of(*part) : Precision::bf16, writer.shape.model.hidden_size);
}

void gather_sequence(OpWriter& writer, Precision multiplied, std::int64_t width) {
  const LayerShape& shape = writer.shape;
  if (!shape.sequence_parallel) return;
  const Bytes message = gathered_message(shape, multiplied, width);
  writer.collective(Traffic::tensor_parallel, Collective::all_gather, message);
  const bool cast_between = is_narrow(multiplied) && shape.training.row_scales;
  if (cast_between) writer.do_not_tile();
  if (cast_between || !shape.plan.parallel.tp_comm_overlap) copy_whole_tensor(writer, Pass::forward, message);
}

void gather_result(OpWriter& writer, std::int64_t width) {
  const LayerShape& shape = writer.shape;
  if (shape.gathers_layers())
    writer.collective(Traffic::tensor_parallel, Collective::all_gather, shape.tensor_message(width));
}

void reduce_partial_sums(OpWriter& writer) {
  const LayerShape& shape = writer.shape;
  if (shape.tp == 1) return;
  if (!shape.plan.parallel.tp_comm_overlap) copy_whole_tensor(writer, Pass::forward, shape.tensor_message());
  writer.collective(Traffic::tensor_parallel, shape.reduction(), shape.tensor_message());
}

void finish_block(OpWriter& writer) {
  writer.shape.gathers_layers() ? gather_result(writer, writer.shape.model.hidden_size) : reduce_partial_sums(writer);
}

void add_gradients(OpWriter& writer, const std::string& name, std::int64_t elements) {
  constexpr std::int64_t kBytes = (2 + 4) + (4 + 4 + 4);  // a copy in fp32, then the sum
  if (adds_gradients_apart(writer.shape.training))
    writer.elementwise(OperatorKind::residual, Pass::backward, name + " add_gradient", elements, kBytes);
}

void quantise(OpWriter& writer, const std::string& name, const Cast& cast) {
  if (!is_narrow(cast.precision)) return;
  write_cast(writer, name + " cast", cast,
             cast.copies.value_or(quantised_copies(writer.shape.training, cast.precision)));
}

void quantise_weights(OpWriter& writer, const std::string& name, const Cast& cast) {
  const LayerShape& shape = writer.shape;
  if (is_narrow(cast.precision) && shape.plan.parallel.zero_stage >= 3 && !shape.training.fp8_param_gather)
    write_cast(writer, name + " weight cast", cast, 1);
}

void linear_forward(OpWriter& writer, const Linear& linear) { multiply(writer, linear, Pass::forward); }

void row_backward(OpWriter& writer, const Linear& linear, BackwardPart part) {
  if (linear.split == MatrixSplit::column) return column_backward(writer, linear, part);
  if (has_input_gradients(part)) multiply(writer, linear, Pass::dgrad);
  if (has_weight_gradients(part)) weight_gradient(writer, linear);
}

void column_backward(OpWriter& writer, const Linear& linear, BackwardPart part) {
  constexpr int kGather = 1;
  constexpr int kReduce = 2;
  const LayerShape& shape = writer.shape;
  const bool split = linear.split == MatrixSplit::column && shape.tp > 1;
  const bool weights = has_weight_gradients(part) && (!linear.frozen || linear.adapter_rank > 0);
  const bool inputs = has_input_gradients(part);
  const bool dtensor = shape.uses_dtensor();
  const bool beside_weights = !dtensor && (shape.sequence_parallel || shape.plan.parallel.tp_async_allreduce);
  const bool gathers = split && shape.sequence_parallel && weights && !dtensor && linear.gathers_input;
  if (gathers)
    writer.collective(Traffic::tensor_parallel, Collective::all_gather,
                      gathered_message(shape, linear.precision, linear.in), Work::Kind::start, kGather);
  if (inputs) multiply(writer, linear, Pass::dgrad);
  const auto reduce = [&] {
    copy_whole_tensor(writer, Pass::backward, shape.tensor_message());
    writer.collective(Traffic::tensor_parallel, shape.reduction(), shape.tensor_message(linear.in), Work::Kind::start,
                      kReduce);
  };
  const bool reduces = split && inputs && linear.reduces_input_gradient;
  if (reduces && beside_weights) reduce();
  if (gathers) writer.join(kGather);
  if (weights) weight_gradient(writer, linear);
  if (reduces && !beside_weights) reduce();
  if (reduces) writer.join(kReduce);
}

}  // namespace tracecast
