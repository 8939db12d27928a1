#include "kernels/cuda/attention.hpp"

#include "kernels/cuda/check.hpp"

#define TRACECAST_CUDNN(call) TRACECAST_CHECKED(call, CUDNN_STATUS_SUCCESS, cudnnGetErrorString(status_))

namespace tracecast::cuda {
namespace {

constexpr std::int64_t kAlignment = 16;     // bytes, of every tensor
constexpr std::int64_t kScratchLine = 256;  // bytes; scratch tensors are aligned to this

/// One descriptor of the backend API.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    TRACECAST_CUDNN(cudnnBackendCreateDescriptor(type, &descriptor_));
  }
  ~Descriptor() {
    if (descriptor_ != nullptr) cudnnBackendDestroyDescriptor(descriptor_);
  }
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    TRACECAST_CUDNN(cudnnBackendSetAttribute(descriptor_, name, type, 1, &value));
    return *this;
  }
  template <class T>
  Descriptor& set_all(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T* values,
                      std::size_t count) {
    TRACECAST_CUDNN(cudnnBackendSetAttribute(descriptor_, name, type, static_cast<std::int64_t>(count), values));
    return *this;
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& other) {
    const cudnnBackendDescriptor_t raw = other.raw();
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw);
  }
  cudnnStatus_t try_to_finalize() { return cudnnBackendFinalize(descriptor_); }
  Descriptor& finalize() {
    TRACECAST_CUDNN(try_to_finalize());
    return *this;
  }
  cudnnBackendDescriptor_t raw() const { return descriptor_; }

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

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

std::int64_t unique_id(int index) { return index + 1; }

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

  Descriptor finish(cudnnHandle_t handle) const {
    std::vector<cudnnBackendDescriptor_t> raw;
    for (const Descriptor& each : operations_) raw.push_back(each.raw());
    Descriptor all(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    all.set_all(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw.data(), raw.size());
    all.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
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
std::vector<Descriptor> configurations(const Descriptor& graph, cudnnBackendHeurMode_t mode) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
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
std::vector<Descriptor> execution_plan(const Descriptor& graph, cudnnHandle_t handle) {
  std::vector<Descriptor> made;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (Descriptor& configuration : configurations(graph, mode)) {
      Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
      if (plan.try_to_finalize() != CUDNN_STATUS_SUCCESS) continue;
      made.push_back(std::move(plan));
      made.push_back(std::move(configuration));
      return made;
    }
  return made;
}

std::int64_t bytes_of(const GraphTensor& tensor) {
  std::int64_t elements = 1;
  for (const std::int64_t each : tensor.dims) elements *= each;
  const std::int64_t bytes = elements * (tensor.type == GraphType::bf16 ? 2 : 4);
  return (bytes + kScratchLine - 1) / kScratchLine * kScratchLine;
}

}  // namespace

struct Attention::Plan {
  AttentionShape shape;
  bool forward = true;
  bool masked = true;
  AttentionGraph graph;
  std::vector<Descriptor> prepared;  ///< the plan, then the descriptors it references; empty: cuDNN has no kernel
  std::int64_t workspace = 0;
  std::int64_t scratch = 0;
  std::vector<float> numbers;  ///< by-value tensors point here, [index of the tensor]
  std::vector<std::int32_t> whole_numbers;

  bool prepare(cudnnHandle_t handle, bool with_mask) {
    masked = with_mask;
    graph = attention_graph(shape, forward, with_mask);
    try {
      const OperationGraph operations(graph);
      Descriptor all = operations.finish(handle);
      prepared = execution_plan(all, handle);
    } catch (const DeviceError&) {
      prepared.clear();  // a graph that cuDNN rejects is handled like one without a kernel
    }
    if (prepared.empty()) return false;
    std::int64_t count = 0;
    TRACECAST_CUDNN(cudnnBackendGetAttribute(prepared.front().raw(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                             CUDNN_TYPE_INT64, 1, &count, &workspace));
    scratch = 0;
    for (const int index : graph.scratch) scratch += bytes_of(graph.tensors[static_cast<std::size_t>(index)]);
    workspace = (workspace + kScratchLine - 1) / kScratchLine * kScratchLine;
    keep_numbers();
    return true;
  }

  void keep_numbers() {
    for (const GraphTensor& tensor : graph.tensors) {
      numbers.push_back(static_cast<float>(tensor.value));
      whole_numbers.push_back(tensor.type == GraphType::int32 ? static_cast<std::int32_t>(tensor.value) : 0);
    }
  }

  void run(cudnnHandle_t handle, const AttentionOperands& operands, char* memory) {
    std::vector<std::int64_t> ids;
    std::vector<void*> pointers;
    const auto add = [&](int index, const void* pointer) {
      if (index < 0) return;
      ids.push_back(unique_id(index));
      pointers.push_back(const_cast<void*>(pointer));
    };
    const AttentionPorts& p = graph.ports;
    add(p.q, operands.q);
    add(p.k, operands.k);
    add(p.v, operands.v);
    add(p.out, operands.out);
    add(p.statistics, operands.statistics);
    add(p.d_out, operands.d_out);
    add(p.d_q, operands.d_q);
    add(p.d_k, operands.d_k);
    add(p.d_v, operands.d_v);
    char* place = memory + workspace;
    for (const int index : graph.scratch) {
      add(index, place);
      place += bytes_of(graph.tensors[static_cast<std::size_t>(index)]);
    }
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
      if (!graph.tensors[i].by_value) continue;
      const bool whole = graph.tensors[i].type == GraphType::int32;
      add(static_cast<int>(i), whole ? static_cast<const void*>(&whole_numbers[i]) : &numbers[i]);
    }
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set_all(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids.data(), ids.size());
    pack.set_all(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers.data(), pointers.size());
    void* const scratch_memory = memory;
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, scratch_memory).finalize();
    TRACECAST_CUDNN(cudnnBackendExecute(handle, prepared.front().raw(), pack.raw()));
  }
};

Attention::Attention() { TRACECAST_CUDNN(cudnnCreate(&handle_)); }

Attention::~Attention() {
  plans_.clear();
  cudaFree(workspace_);
  if (handle_ != nullptr) cudnnDestroy(handle_);
}

Attention::Plan& Attention::prepared(const AttentionShape& shape, bool forward) {
  for (const std::unique_ptr<Plan>& plan : plans_)
    if (plan->shape == shape && plan->forward == forward) return *plan;
  auto plan = std::make_unique<Plan>();
  plan->shape = shape;
  plan->forward = forward;
  if (!plan->prepare(handle_, true) && !plan->prepare(handle_, false))
    throw DeviceError("cuDNN has no attention kernel for this shape");
  const std::int64_t bytes = plan->workspace + plan->scratch;
  if (bytes > workspace_bytes_) {
    TRACECAST_CUDA(cudaFree(workspace_));
    workspace_ = nullptr;
    TRACECAST_CUDA(cudaMalloc(&workspace_, static_cast<std::size_t>(bytes)));
    workspace_bytes_ = bytes;
  }
  plans_.push_back(std::move(plan));
  return *plans_.back();
}

bool Attention::has_masked_kernel(const AttentionShape& shape, bool forward) {
  return prepared(shape, forward).masked || (!shape.causal && shape.window == 0);
}

void Attention::run(const AttentionShape& shape, bool forward, const AttentionOperands& operands, cudaStream_t stream) {
  Plan& plan = prepared(shape, forward);
  TRACECAST_CUDNN(cudnnSetStream(handle_, stream));
  plan.run(handle_, operands, static_cast<char*>(workspace_));
}

}  // namespace tracecast::cuda
