/// Files of other tools, beside the source tree. Tests that need them are skipped with a warning where they are missing.
#pragma once

#include <filesystem>
#include <string>

#include <catch2/catch.hpp>

#include "sim/io/compressed.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"

namespace tracecast {

inline std::filesystem::path format_samples() { return measurements_of_others() / "formats"; }

inline bool have_samples() {
  const bool there = std::filesystem::exists(format_samples());
  if (!there) WARN("skipped: no samples of foreign formats at " << format_samples().string());
  return there;
}

inline std::string sample(const std::string& name) { return value_of(read_packed(format_samples() / name)); }

}  // namespace tracecast
