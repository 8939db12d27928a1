/// \file
/// The execution plan of an attention graph: the engine and the kernel that cuDNN selects for a GPU. The GPU is that of a handle,
/// or one that is only described (cuDNN calls it device properties), so that plans can be made and tested without a GPU.
/// Source: docs/references.md#cudnn-plans.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <cudnn.h>

#include "kernels/cuda/attention_graph.hpp"
#include "kernels/cuda/check.hpp"

#define TRACECAST_CUDNN(call) TRACECAST_CHECKED(call, CUDNN_STATUS_SUCCESS, cudnnGetErrorString(status_))

namespace tracecast::cuda {

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

/// The GPU that a plan is made for: exactly one of the two is set.
struct PlanDevice {
  cudnnHandle_t handle = nullptr;
  cudnnBackendDescriptor_t described = nullptr;  ///< of type CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, finalized
};

/// cuDNN's id of a tensor of the graph, by its index.
std::int64_t unique_id(int index);

/// Whether cuDNN's heuristics return an engine for the graph: for tests. Nothing is compiled.
bool has_engine(const AttentionGraph& graph, const PlanDevice& device);

/// The plan, then the descriptors that it references; empty if cuDNN rejects the graph or has no kernel for it.
std::vector<Descriptor> execution_plan(const AttentionGraph& graph, const PlanDevice& device);

}  // namespace tracecast::cuda
