/// \file
/// Which measured shapes are never used to fit a profile.
#pragma once

#include <cstdint>
#include <string>

#include "tools/accuracy/gemm_benchmark.hpp"

namespace tracecast::accuracy {

/// True for one in five keys, the same on every machine.
bool held_out(std::int64_t key);

/// The loop in which aiconfigurator timed a GEMM, by the framework in `src`: sglang's collector uses six sets of
/// operands, TensorRT-LLM's up to five weights and one activation (collect_gemm.py of each; fewer only where L2
/// cannot hold them). Each framework ran on a different node.
GemmLoop aiconfigurator_loop(const std::string& src);

/// GEMMs are held out by their weight, (n, k), with all m.
bool held_out_weight(std::int64_t n, std::int64_t k);

}  // namespace tracecast::accuracy
