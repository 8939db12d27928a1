/// \file
/// What `tracecast plan` is asked: its options, and the machines, spaces, prices and failures that they name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/economics/economics.hpp"
#include "sim/io/economics_file.hpp"
#include "sim/io/failure_file.hpp"
#include "sim/search/capacity.hpp"

namespace tracecast::cli {

/// Upper limit of --gpus and --global-batch.
inline constexpr int kMostPlannedGpus = 1 << 22;

/// As typed.
struct PlanOptions {
  std::string scenario;
  std::vector<std::string> overrides;
  std::string gpus;
  std::vector<std::string> topologies;
  std::vector<std::string> sweep;
  std::vector<int> tp, cp, ep, pp, vpp, zero;
  std::vector<std::int64_t> micro_batch;
  std::vector<std::string> recompute;
  std::vector<std::string> schedules;
  std::vector<std::string> sequence_parallel;
  std::vector<std::string> offload;
  std::string global_batch;
  std::string objective = "time";
  std::string tokens;
  double days = 0;
  double budget = 0;
  std::string economics = kUsualPrices;
  std::string term;
  std::string region;
  std::string price;
  int spares = -1;
  std::string failures = "llama3-54-days";
  SearchOptions search{.memory_headroom = 0.05};
  bool no_upgrades = false;
  bool recipe = false;
  std::string csv;
  std::string html;
  std::string page;
  std::string out;
  std::string emit;
  std::string launcher;
  int pick = 1;
  bool json = false;
};

struct PlanRequest {
  PlanOptions options;  ///< with the stack of the launcher in `overrides`
  std::string
      stack_of_launcher;  ///< that the launcher's settings imply; empty: the scenario has one, or none is implied
  std::vector<Objective> objectives;  ///< the first ranks; several: the trade-offs
  JobTarget target;
  std::vector<MachineChoice> machines;
  std::vector<std::string> left_out;
  std::vector<SearchSpace> spaces;
  Economics economics;
  std::optional<FailureFile> failures;
};

/// Errors: unknown names and values; files that cannot be read; machines that are all too small.
Result<PlanRequest> plan_request(const PlanOptions& options);

}  // namespace tracecast::cli
