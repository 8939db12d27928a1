#include "kernels/cuda/attention_plan.hpp"

namespace tracecast::cuda {
namespace {

constexpr std::int64_t kAlignment = 16;  // bytes, of every tensor

cudnnDataType_t type_of(GraphType type) {
  switch (type) {
    case GraphType::bf16:
      return CUDNN_DATA_BFLOAT16;
    case GraphType::fp32:
      return CUDNN_DATA_FLOAT;
    case GraphType::int32:
      return CUDNN_DATA_INT32;
    case GraphType::boolean:
      return CUDNN_DATA_BOOLEAN;
  }
  return CUDNN_DATA_FLOAT;
}

Descriptor tensor(const GraphTensor& from, int index) {
  Descriptor to(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  to.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, unique_id(index));
  to.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type_of(from.type));
  to.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignment);
  to.set_all(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, from.dims.data(), from.dims.size());
  to.set_all(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, from.strides.data(), from.strides.size());
  if (from.is_virtual) to.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, true);
  if (from.by_value) to.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, true);
  to.finalize();
  return to;
}

cudnnPointwiseMode_t mode_of(GraphAction action) {
  switch (action) {
    case GraphAction::add:
      return CUDNN_POINTWISE_ADD;
    case GraphAction::subtract:
      return CUDNN_POINTWISE_SUB;
    case GraphAction::multiply:
      return CUDNN_POINTWISE_MUL;
    case GraphAction::divide:
      return CUDNN_POINTWISE_DIV;
    case GraphAction::exp:
      return CUDNN_POINTWISE_EXP;
    case GraphAction::log:
      return CUDNN_POINTWISE_LOG;
    case GraphAction::row_index:
    case GraphAction::column_index:
      return CUDNN_POINTWISE_GEN_INDEX;
    case GraphAction::at_least:
      return CUDNN_POINTWISE_CMP_GE;
    case GraphAction::above:
      return CUDNN_POINTWISE_CMP_GT;
    case GraphAction::select:
      return CUDNN_POINTWISE_BINARY_SELECT;
    default:
      return CUDNN_POINTWISE_IDENTITY;
  }
}

/// The cuDNN operation graph of an AttentionGraph. Descriptors referenced by others must live until the plan is built.
class OperationGraph {
 public:
  explicit OperationGraph(const AttentionGraph& graph) : graph_(graph) {
    for (std::size_t i = 0; i < graph.tensors.size(); ++i)
      tensors_.push_back(tensor(graph.tensors[i], static_cast<int>(i)));
    for (const GraphStep& step : graph.steps) operations_.push_back(operation(step));
  }

  Descriptor finish(const PlanDevice& device) const {
    std::vector<cudnnBackendDescriptor_t> raw;
    for (const Descriptor& each : operations_) raw.push_back(each.raw());
    Descriptor all(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    all.set_all(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw.data(), raw.size());
    if (device.handle != nullptr) all.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, device.handle);
    all.finalize();
    return all;
  }

 private:
  const Descriptor& of(int index) const { return tensors_[static_cast<std::size_t>(index)]; }

  Descriptor operation(const GraphStep& step) {
    switch (step.action) {
      case GraphAction::matmul:
        return matmul(step);
      case GraphAction::reduce_max:
      case GraphAction::reduce_sum:
        return reduction(step);
      case GraphAction::reshape:
        return reshape(step);
      default:
        return pointwise(step);
    }
  }

  Descriptor matmul(const GraphStep& step) {
    Descriptor how(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT).finalize();
    Descriptor operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, of(step.a)).set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, of(step.b));
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, of(step.y)).set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    operation.finalize();
    kept_.push_back(std::move(how));
    return operation;
  }

  Descriptor reduction(const GraphStep& step) {
    const cudnnReduceTensorOp_t kind =
        step.action == GraphAction::reduce_max ? CUDNN_REDUCE_TENSOR_MAX : CUDNN_REDUCE_TENSOR_ADD;
    Descriptor how(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    how.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, kind);
    how.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT).finalize();
    Descriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, of(step.a))
        .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, of(step.y));
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how).finalize();
    kept_.push_back(std::move(how));
    return operation;
  }

  Descriptor reshape(const GraphStep& step) {
    Descriptor operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, of(step.a)).set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, of(step.y));
    operation.finalize();
    return operation;
  }

  Descriptor pointwise(const GraphStep& step) {
    Descriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode_of(step.action));
    how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, precision_of(step));
    if (step.action == GraphAction::row_index || step.action == GraphAction::column_index) {
      const std::int64_t axis = step.action == GraphAction::row_index ? 2 : 3;
      how.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis);
    }
    how.finalize();
    Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of(step.a));
    if (step.b >= 0) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, of(step.b));
    if (step.condition >= 0) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, of(step.condition));
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of(step.y)).finalize();
    kept_.push_back(std::move(how));
    return operation;
  }

  /// Comparisons compute in boolean, integer sums in integer, everything else in fp32.
  cudnnDataType_t precision_of(const GraphStep& step) const {
    const GraphType result = graph_.tensors[static_cast<std::size_t>(step.y)].type;
    const bool arithmetic =
        result == GraphType::int32 && (step.action == GraphAction::add || step.action == GraphAction::subtract);
    return result == GraphType::boolean || arithmetic ? type_of(result) : CUDNN_DATA_FLOAT;
  }

  const AttentionGraph& graph_;
  std::vector<Descriptor> tensors_;
  std::vector<Descriptor> kept_;
  std::vector<Descriptor> operations_;
};

/// Engine configurations for a graph, in the order of cuDNN's heuristics, best first.
std::vector<Descriptor> configurations(const Descriptor& graph, cudnnBackendHeurMode_t mode, const PlanDevice& device) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  if (device.described != nullptr)
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, device.described);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  std::vector<Descriptor> found;
  if (heuristics.try_to_finalize() != CUDNN_STATUS_SUCCESS) return found;
  constexpr std::int64_t kMax = 16;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < kMax; ++i) {
    found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(found.back().raw());
  }
  std::int64_t count = 0;
  if (cudnnBackendGetAttribute(heuristics.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, kMax,
                               &count, raw.data()) != CUDNN_STATUS_SUCCESS)
    count = 0;
  while (static_cast<std::int64_t>(found.size()) > count) found.pop_back();
  return found;
}

/// The first configuration that can be finalized; empty if none can.
std::vector<Descriptor> first_plan(const Descriptor& graph, const PlanDevice& device) {
  std::vector<Descriptor> made;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (Descriptor& configuration : configurations(graph, mode, device)) {
      Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      if (device.handle != nullptr)
        plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, device.handle);
      else
        plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, device.described);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
      if (plan.try_to_finalize() != CUDNN_STATUS_SUCCESS) continue;
      made.push_back(std::move(plan));
      made.push_back(std::move(configuration));
      return made;
    }
  return made;
}

}  // namespace

std::int64_t unique_id(int index) { return index + 1; }

bool has_engine(const AttentionGraph& graph, const PlanDevice& device) {
  try {
    const OperationGraph operations(graph);
    const Descriptor all = operations.finish(device);
    return !configurations(all, CUDNN_HEUR_MODE_A, device).empty() ||
           !configurations(all, CUDNN_HEUR_MODE_FALLBACK, device).empty();
  } catch (const DeviceError&) {
    return false;  // cuDNN rejects the graph
  }
}

std::vector<Descriptor> execution_plan(const AttentionGraph& graph, const PlanDevice& device) {
  try {
    const OperationGraph operations(graph);
    return first_plan(operations.finish(device), device);
  } catch (const DeviceError&) {
    return {};  // a graph that cuDNN rejects is handled like one without a kernel
  }
}

}  // namespace tracecast::cuda
