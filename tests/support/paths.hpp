#pragma once

#include <filesystem>

/// Where the tests find things. One file knows the paths, so that all others compile to the same in every checkout (and
/// come out of a compiler cache).
namespace tracecast {

/// The top of the source tree.
std::filesystem::path source_dir();

/// The program that was built beside the tests.
const char* tracecast_binary();

}  // namespace tracecast
