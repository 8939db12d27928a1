/// \file
/// A step graph for a device without overlap: every operation of a rank waits for the one that was issued before it,
/// on any stream.
///
/// An example is a CPU: a rank is one thread, which computes, then communicates, then computes. Messages become eager
/// (the sender leaves them in memory that both can reach): with one thread a rank, a sender that waited for its
/// receiver would deadlock 1F1B, where adjacent stages send to each other at the same time.
///
/// Streams keep their names and what ran on them; only the order between them is added, as events.
#pragma once

#include "sim/graph/step_graph.hpp"

namespace tracecast {

StepGraph without_overlap(StepGraph graph);

}  // namespace tracecast
