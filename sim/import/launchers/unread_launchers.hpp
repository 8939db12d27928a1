/// \file
/// Configurations of launchers that are not read, by what is in them, so that a message can say what to give instead.
#pragma once

#include <string>
#include <string_view>

namespace tracecast {

/// What a file of such a launcher is, and what to import in its place: a message about the file. "": it is none of them.
std::string unread_launcher(std::string_view content, std::string_view file);

}  // namespace tracecast
