#pragma once

#include <filesystem>

/// Where the tests find things. One file knows the paths, so that all others compile to the same in every checkout (and
/// come out of a compiler cache).
namespace tracecast {

/// The top of the source tree.
std::filesystem::path source_dir();

/// Samples and measurements of other people, beside the checkout on machines that have them. Not part of the
/// repository.
inline std::filesystem::path measurements_of_others() { return source_dir() / ".." / "shared" / "data"; }

/// The program that was built beside the tests.
const char* tracecast_binary();

}  // namespace tracecast
