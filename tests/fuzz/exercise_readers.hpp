/// One input through every reader of files: the common body of the libFuzzer target and of the test that
/// replays its corpus.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tracecast {

/// Names of the readers, importers by the names of their formats: "scenario", "kineto", "megatron" …
std::vector<std::string> exercised_readers();

/// Reads `input` as a file of every kind, or of one (`only`, a name of exercised_readers). Asserts what must hold whatever the
/// input is: a reader returns a value or at least one sentence of one line each; what was read can be written and read again,
/// recordings and steps can be run.
void exercise_readers(std::string_view input, std::string_view only = "");

}  // namespace tracecast
