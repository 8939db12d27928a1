/// \file
/// Operators of the optimizer whose time goes by the bytes that they read and write for each parameter
/// (docs/references.md#elementwise-bytes, docs/references.md#muon).
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "sim/model/operators.hpp"
#include "sim/plan/parallel.hpp"

namespace tracecast {

inline Operator optimizer_work(std::string name, std::int64_t parameters, std::int64_t bytes_each) {
  return {OperatorKind::optimizer, Pass::optimizer, Precision::fp32, std::move(name),
          ElementwiseShape{parameters, Bytes{parameters * bytes_each}}};
}

/// Bytes of the 16-bit copy of a parameter that an update of its fp32 copy writes; 0 without two copies.
inline std::int64_t written_copy(const Training& training) {
  return training.dtype == Precision::fp32 || !training.master_weights ? 0 : 2;
}

}  // namespace tracecast
