/// \file
/// The kernels of a recording by step, in groups that are one operator each, and what is known of each group.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/io/trace.hpp"
#include "sim/model/operators.hpp"

namespace tracecast {

/// Sizes of a multiplication in any pass; the sum runs over `k`.
struct MatrixSizes {
  std::int64_t k = 0;
  std::int64_t small = 0;
  std::int64_t large = 0;
  auto operator<=>(const MatrixSizes&) const = default;
};
MatrixSizes sizes_of(std::int64_t m, std::int64_t n, std::int64_t k);

/// What is known of a kernel: enough to decide which operators it may be.
struct KernelTraits {
  OperatorKind kind = OperatorKind::residual;
  std::optional<MatrixSizes> sizes;
  std::string name;       ///< of the operator, if a range names it
  bool backward = false;  ///< launched in a backward
  bool forward = false;   ///< not launched in a backward; neither: not known
  /// Of an optimizer's kernel: the norm of the gradients, or the update. Most say which.
  std::optional<bool> gradient_norm;
  bool nameless = false;  ///< treated as a residual because its name is unknown
  auto operator<=>(const KernelTraits&) const = default;
};

/// Kernels to be assigned to one operator: a single one, or all that a range launched.
struct KernelGroup {
  std::vector<std::int32_t> kernels;  ///< indices into Trace::kernels
  KernelTraits traits;
  std::int64_t range = -1;  ///< that gives its name or sizes: an index into Trace::ranges, or an operator's id
};

/// One step of one GPU. The first and the last of a recording may be parts of one.
struct RecordedStep {
  std::vector<KernelGroup> work;              ///< in the order of launch
  std::vector<std::int32_t> collectives;      ///< NCCL kernels
  std::vector<std::int32_t> other_transfers;  ///< kernels of other libraries that move data between GPUs
};

/// [device][step], as tracer/step_windows.hpp divides them; devices in ascending order. `operator_names`: a range with one of these
/// names is that operator. Steps without computation are left out.
std::map<std::int64_t, std::vector<RecordedStep>> steps_of_devices(const Trace& trace,
                                                                   const std::set<std::string>& operator_names);

}  // namespace tracecast
