/// \file
/// What the two outputs of nccl-tests, the table and the JSON of -J, have in common.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sim/import/collective_measurements.hpp"

namespace tracecast {

/// Longer calls are misprints.
inline constexpr double kMaxNcclTestsSeconds = 1e6;
/// "#wrong" counts elements; "error" of versions to 2.12 is the largest deviation, which is that of rounding where all is well.
inline constexpr double kMaxWrong = 0.5;
inline constexpr std::string_view kWrongResult =
    "the check of this row failed: the collective did not compute what it should";

/// A program of nccl-tests by its name and by the name that its JSON uses; nullopt: a profile has no such collective.
struct NcclTestsProgram {
  std::string_view program;
  std::string_view title;
  std::optional<Collective> collective;
};

/// The program that `text` names as a word of its own: "all_gather_perf" is not "gather_perf". nullptr: none.
const NcclTestsProgram* nccl_tests_program(std::string_view text);

/// For a table of the first of several groups of ranks (NCCL_TESTS_SPLIT_MASK).
std::string note_of_groups(int groups);

/// -J, version 3. The environment that it records is not looked at.
Result<CollectiveMeasurements> read_nccl_tests_json(std::string_view text, const std::string& file);

}  // namespace tracecast
