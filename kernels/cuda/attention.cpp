#include "kernels/cuda/attention.hpp"

#include <string>

#include "kernels/cuda/attention_plan.hpp"
#include "kernels/cuda/check.hpp"

namespace tracecast::cuda {
namespace {

constexpr std::int64_t kScratchLine = 256;  // bytes; scratch tensors are aligned to this
/// cuDNN before 9.6 expects a cleared sum for dQ; described GPUs exist since 9.8.
constexpr std::size_t kOldestCudnn = 90800;

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
    prepared = execution_plan(graph, {.handle = handle});
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

Attention::Attention() {
  if (const std::size_t version = cudnnGetVersion(); version < kOldestCudnn)
    throw DeviceError("cuDNN " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
                      " is loaded; 9.8 or newer is needed");
  TRACECAST_CUDNN(cudnnCreate(&handle_));
}

Attention::~Attention() {
  plans_.clear();
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
  plans_.push_back(std::move(plan));
  return *plans_.back();
}

bool Attention::has_masked_kernel(const AttentionShape& shape, bool forward) {
  return prepared(shape, forward).masked || (!shape.causal && shape.window == 0);
}

void Attention::run(const AttentionShape& shape, bool forward, const AttentionOperands& operands, cudaStream_t stream) {
  Plan& plan = prepared(shape, forward);
  TRACECAST_CUDNN(cudnnSetStream(handle_, stream));
  DeviceMemory& memory = workspaces_[stream];
  if (const std::int64_t bytes = plan.workspace + plan.scratch; bytes > memory.bytes()) memory = DeviceMemory(bytes);
  plan.run(handle_, operands, memory.as<char>());
}

}  // namespace tracecast::cuda
