/// \file
/// The work of one layer, and what tests look for in it.
#pragma once

#include <map>
#include <optional>
#include <string>

#include <catch2/catch.hpp>

#include "sim/graph/layer.hpp"
#include "tests/support/results.hpp"

namespace tracecast::test {

/// One micro-batch of one sequence of 8192 tokens on tp ranks.
inline Plan layer_plan(const Model& model, int tp, bool sequence_parallel, Recompute recompute = Recompute::none) {
  const Parallel parallel{.tp = tp, .sequence_parallel = sequence_parallel};
  const Training training{.seq_length = 8192, .global_batch_size = 1, .recompute = recompute};
  return value_of(make_plan(model, parallel, training, tp));
}

/// Fails the test where the list has no such operator.
inline const Operator& find_operator(const WorkList& list, const std::string& name, Pass pass = Pass::forward) {
  for (const Work& work : list)
    if (work.kind == Work::Kind::compute && work.op.name == name && work.op.pass == pass) return work.op;
  FAIL("no operator " << name);
  return list.front().op;
}

/// Bytes that an element-wise operator of the first layer moves.
inline std::int64_t bytes_moved(const Model& model, const Plan& plan, const char* name, Pass pass) {
  const LayerWork work(model, plan);
  const WorkList list = pass == Pass::forward ? work.forward(0) : work.backward(0, BackwardPart::all, false);
  return std::get<ElementwiseShape>(find_operator(list, name, pass).shape).traffic.count;
}

/// FLOPs of multiplications with weights, of one pass or of all.
inline double matrix_flops(const WorkList& list, std::optional<Pass> pass = {}) {
  double sum = 0;
  for (const Work& work : list)
    if (work.kind == Work::Kind::compute && (!pass || work.op.pass == *pass) &&
        (work.op.kind == OperatorKind::gemm || work.op.kind == OperatorKind::grouped_gemm))
      sum += flops(work.op).count;
  return sum;
}

inline bool is_collective(const Work& work) {
  return work.kind == Work::Kind::collective || work.kind == Work::Kind::start;
}

/// How often each collective is called.
inline std::map<Collective, int> calls_of(const WorkList& list) {
  std::map<Collective, int> count;
  for (const Work& work : list)
    if (is_collective(work)) ++count[work.call.collective];
  return count;
}

}  // namespace tracecast::test
