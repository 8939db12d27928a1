/// \file
/// Configurations of launchers that are not read, by what is in them, so that a message can say what to give instead.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace tracecast {

/// What a file of such a launcher is, and what to import in its place: a message about the file. "": it is none of them.
std::string unread_launcher(std::string_view content, std::string_view file);

/// The same of a command of a script whose program is not Megatron-LM's and has arguments like it: by its words, the program first, and
/// whether it has an argument ("per-device-train-batch-size").
std::string unread_command(std::span<const std::string> words, const std::function<bool(std::string_view)>& has);

}  // namespace tracecast
