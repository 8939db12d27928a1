/// \file
/// A step graph made of a schedule and given times alone: every action one operation, every boundary one message.
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
/// behind it: a bubble that pictures in unit time do not show.
///
/// Leaves out: host time, everything of a step outside the pipeline, sharing of links. At most 32 eager messages of a
/// rank are in flight at once.
#pragma once

#include <vector>

#include "sim/base/result.hpp"
#include "sim/graph/step_graph.hpp"
#include "sim/schedule/pipeline_times.hpp"
#include "sim/schedule/program.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {

enum class SendRule { eager, rendezvous };
enum class ReceiveOrder {
  at_use,  ///< right before the step that needs it
  early,   ///< as PyTorch's lowering posts it, see with_early_receives
};

enum class MessageStreams { compute, one, two, pairs };

struct MessageRules {
  SendRule sends = SendRule::eager;
  ReceiveOrder receives = ReceiveOrder::at_use;
  bool batched = false;
  MessageStreams streams = MessageStreams::pairs;
  bool operator==(const MessageRules&) const = default;
};

struct ScheduleGraph {
  StepGraph graph;              ///< one tick of the times is one picosecond
  std::vector<bool> is_action;  ///< [template] it runs an action of the schedule, else it communicates
};

/// Requires a program whose compute steps are the actions of `schedule` in order and whose communication is complete.
/// Errors: messages that need too many streams.
Result<ScheduleGraph> schedule_graph(const Schedule& schedule, const PipelineProgram& program,
                                     const PipelineTimes& times, const MessageRules& rules = {});

/// Writes the communication of the schedule as rules.receives says.
Result<ScheduleGraph> schedule_graph(const Schedule& schedule, const PipelineTimes& times,
                                     const MessageRules& rules = {});

}  // namespace tracecast
