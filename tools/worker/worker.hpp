/// \file
/// Options that a command passes to its ranks. Every rank reads the same files and makes the same decisions.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.hpp"

namespace tracecast::worker {

struct ExecuteOptions {
  std::string scenario;
  std::vector<std::string> overrides;
  int steps = 20;
  int warm_up = 3;
  std::string out;  ///< folder for timeline.json and trace.json; "" prints nothing
};
/// Runs without MPI. Errors: those of the scenario; too little memory on this machine.
Result<void> check_execution(const ExecuteOptions& options);
Result<void> execute(const ExecuteOptions& options);

struct ProfileOptions {
  std::string suite = "quick";          ///< "none": only `scenarios`
  std::string device = "cpu-one-rank";  ///< scenario that names the machine
  std::vector<std::string> scenarios;   ///< whose operators are timed as well
  int passes = 20;
  bool show_progress = false;
  std::string out;
};
Result<void> profile(const ProfileOptions& options);

}  // namespace tracecast::worker
