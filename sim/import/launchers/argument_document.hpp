/// \file
/// Command-line arguments, as they stand in a launch script or on a line of their own, as a tree with lines.
///
///   torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size $TP
///            --sequence-parallel --step-batch-size-schedule "0:384 200B:768"
///
/// A word that begins with "--" is an argument, the words up to the next one or the end of the line are its value (none: true;
/// several: one text with blanks); "--name=value" is the same. The last of equal names holds, as argparse has it, and its names use '-'
/// and '_' alike; here they have '-'. What becomes of variables: shell_script.hpp.
///
/// Counted are the arguments of commands that train (they have --num-layers, --micro-batch-size or the like, themselves or in their
/// variables), and of lines that have no program, unless they stand behind such a command: a comment between lines that backslashes
/// join ends it. Not counted is what echo and the like print, and text in files that the script does not run. A file whose commands
/// expand no variable with arguments is a part of a script: all of them count.
/// Of branches, loops and functions, and of several programs, the last value counts. kScriptNotes says what was assumed,
/// and what is not known.
#pragma once

#include <string>

#include "sim/io/json_document.hpp"

namespace tracecast {

/// Key of a list of sentences, which every document of arguments has: what was assumed of the script. No argument has a blank.
inline constexpr const char* kScriptNotes = "script notes";

/// Key of the list of variables of its loops.
inline constexpr const char* kScriptLoops = "script loops";

/// Key of the file in Python that the training command runs, without its folder.
inline constexpr const char* kScriptProgram = "script program";

/// Errors: no argument in it; a quote that is not closed; what trains is another program (unread_command).
Result<JsonDocument> parse_arguments(const std::string& text, const std::string& file);

}  // namespace tracecast
