#pragma once

#include <cstdlib>
#include <filesystem>

/// Where the tests find things. One file knows the paths, so that all others compile to the same in every checkout (and
/// come out of a compiler cache).
namespace tracecast {

/// The top of the source tree.
std::filesystem::path source_dir();

/// Samples and measurements of other people, which are not part of the repository: TRACECAST_MEASUREMENTS, else beside the checkout.
/// Tests that need them skip what they need where they are absent.
inline std::filesystem::path measurements_of_others() {
  const char* const folder = std::getenv("TRACECAST_MEASUREMENTS");
  return folder != nullptr ? folder : source_dir() / ".." / "shared" / "data";
}

/// The program that was built beside the tests.
const char* tracecast_binary();

/// The build's folder of tests, with the programs and libraries that some tests run.
inline std::filesystem::path test_programs() {
  return std::filesystem::path(tracecast_binary()).parent_path().parent_path() / "tests";
}

}  // namespace tracecast
