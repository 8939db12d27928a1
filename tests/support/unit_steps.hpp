/// \file
/// PyTorch's unit-cost count of a program with communication: an oracle for programs that we write.
#pragma once

#include "sim/base/result.hpp"
#include "sim/schedule/program.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {

/// Steps that PyTorch's unit-cost simulator counts for a program with communication: each compute, send and receive
/// takes one slot of its rank. Within a slot, ranks are visited in ascending order and see what lower ranks did in it;
/// a second visit gives blocked ranks another chance. A receive needs that its send was executed.
/// Errors: no rank can go on (names what each one waits at).   Source: docs/references.md#pytorch-pipelining.
Result<int> unit_steps(const Schedule& schedule, const PipelineProgram& program);

}  // namespace tracecast
