/// \file
/// Which measured shapes no fit of a shipped profile has ever seen.
#pragma once

#include <cstdint>
#include <string>

#include "tools/accuracy/gemm_benchmark.hpp"

namespace tracecast::accuracy {

/// True for one in five keys, the same ones on every machine: measurements with such keys are never fitted to.
bool held_out(std::int64_t key);

/// How aiconfigurator's collectors repeat a multiplication, by the framework in `src`: sglang's on six sets of operands,
/// TensorRT-LLM's on up to five weights and one activation (collect_gemm.py of each; fewer only where L2 cannot hold them). Each ran
/// on a node of its own.
GemmLoop aiconfigurator_loop(const std::string& src);

/// GEMMs are held out by their weight, (n, k), with all m.
bool held_out_weight(std::int64_t n, std::int64_t k);

}  // namespace tracecast::accuracy
