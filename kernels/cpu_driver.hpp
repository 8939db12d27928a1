/// \file
/// Runs any operator of a step graph on this CPU: selects the kernel by kind, pass and name, and provides operands.
///
/// A step graph gives the work of an operator, not its tensors. Inputs are random values from one ring of memory, outputs go
/// to another (arena.hpp). The operator computes on its real shape. The results of one operator are not the inputs of the
/// next; this does not change durations on a CPU.
/// Element-wise shapes are element counts; row widths come from the model.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/arena.hpp"
#include "kernels/operands.hpp"

namespace tracecast::cpu {

/// Number of floats that an operator needs for inputs and outputs.
struct Need {
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
};
Need need_of(const Operator& op, const Widths& widths);

class Driver {
 public:
  /// `largest`: maximum over all operators to be run. Rings hold at least `ring_floats` and twice the largest.
  Driver(const Widths& widths, const Need& largest, std::int64_t ring_floats = kRing);

  void run(const Operator& op);

  /// Bytes that a driver allocates for this largest operator.
  static std::int64_t memory_bytes(const Widths& widths, const Need& largest, std::int64_t ring_floats = kRing);

  /// 48 MiB: more than the last-level cache of a laptop or of a slice of a server.
  static constexpr std::int64_t kRing = 12 << 20;

  /// Operands of collectives, from the same rings.
  float* input(std::int64_t count) { return inputs_.take(count); }
  float* output(std::int64_t count) { return outputs_.take(count); }

 private:
  void run_gemm(const Operator& op);
  void run_attention(const Operator& op);
  void run_norm(const Operator& op, std::int64_t elements);
  void run_activation(const Operator& op, std::int64_t elements);
  void run_softmax(const Operator& op, std::int64_t elements);
  void run_residual(const Operator& op, std::int64_t elements);
  void run_embedding(const Operator& op, std::int64_t elements);
  void run_cross_entropy(const Operator& op, std::int64_t elements);
  void run_optimizer(const Operator& op, std::int64_t elements);
  void run_elementwise(const Operator& op, std::int64_t elements);
  std::uint16_t* narrow(std::int64_t count);

  Widths widths_;
  Arena inputs_;
  Arena outputs_;
  std::vector<std::int32_t> ids_;     ///< random rows of the vocabulary
  std::vector<float> table_;          ///< [vocabulary, hidden]
  std::vector<float> statistics_;     ///< per row: positive, as after normalisation
  std::vector<float> second_moment_;  ///< must not be negative, so not from the rings
  std::vector<std::uint16_t> narrow_;
  double sink_ = 0;  ///< keeps unused results from being optimised away
};

}  // namespace tracecast::cpu
