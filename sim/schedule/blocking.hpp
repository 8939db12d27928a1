/// \file
/// A program with its communication, run under rules about what a send or receive waits for.
///
/// Each rank has a compute stream and streams for communication; a stream runs its operations in program order.
///
///   send       begins when what it sends has been computed and its stream is free
///              eager: the message leaves at once and the stream goes on; rendezvous: it waits for the receive
///   receive    begins when its stream is free; ends when the message has arrived, a latency after it left
///   batched    communication between two computations of a rank begins together and ends together, as one grouped call
///   streams    pairs: one for each direction to each other rank, as PyTorch's process groups have them; two: one for
///              sends, one for receives; one: they share it; compute: they run on the compute stream
///
/// A computation waits for the receives of its inputs. On one stream a receive that was posted early holds up the sends
/// behind it: a bubble that pictures in unit time do not show. With eager sends on streams of pairs this is
/// simulate_pipeline.
///
/// Leaves out: sharing of links, the number of eager buffers, host time.
#pragma once

#include "sim/base/result.hpp"
#include "sim/schedule/pipeline_run.hpp"
#include "sim/schedule/program.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {

enum class SendRule { eager, rendezvous };
enum class ReceiveOrder {
  at_use,  ///< right before the step that needs it
  early,   ///< as PyTorch's lowering posts it, see with_early_receives
};

enum class MessageStreams { compute, one, two, pairs };

struct BlockingRules {
  SendRule sends = SendRule::eager;
  ReceiveOrder receives = ReceiveOrder::at_use;
  bool batched = false;
  MessageStreams streams = MessageStreams::pairs;
  bool operator==(const BlockingRules&) const = default;
};

/// Runs `program`, whose compute steps are the actions of `schedule` in order and whose communication is complete.
/// Errors: a deadlock, as the cycle of waits.
Result<PipelineRun> simulate_program(const Schedule& schedule, const PipelineProgram& program,
                                     const PipelineTimes& times, const BlockingRules& rules);

/// Writes the communication of a schedule out as the rules say, and runs it.
Result<PipelineRun> simulate_blocking(const Schedule& schedule, const PipelineTimes& times, const BlockingRules& rules);

}  // namespace tracecast
