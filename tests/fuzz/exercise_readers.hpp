/// One input through every reader of files: the common body of the libFuzzer target and of the test that
/// replays its corpus.
#pragma once

#include <string_view>

namespace tracecast {

/// Reads `input` as scenario, topology, profile, model, recording and trace. Asserts what must hold whatever the input is: a reader returns a
/// value or at least one sentence of one line each; a model or scenario that was read can be written and read again.
void exercise_readers(std::string_view input);

}  // namespace tracecast
