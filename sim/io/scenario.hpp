/// \file
/// A scenario: one run to be forecast. Model, layout, training settings, the machine it runs on, and what was measured.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/cost/profile.hpp"
#include "sim/graph/perturbation.hpp"
#include "sim/model/model.hpp"
#include "sim/network/cluster.hpp"
#include "sim/plan/parallel.hpp"

namespace tracecast {

/// What a published run reported, in addition to its setup.
struct Measured {
  double step_time_s = 0;
  std::string source;
  bool operator==(const Measured&) const = default;
};

/// Source location of a scenario key, so that later errors can still name file and line.
struct KeyLocation {
  std::string file;  ///< the scenario's file, or "--set"
  int line = 0;
  std::string value;  ///< as written
  bool operator==(const KeyLocation&) const = default;
};

struct Scenario {
  std::string name;  ///< file stem
  std::string description;
  std::string source;
  Model model;
  Parallel parallel;
  Training training;
  Cluster cluster;  ///< sized: world_size set
  Profile profile;
  Perturbation perturbation;            ///< with cluster.faults: the scenario's `perturb`
  std::string topology;                 ///< as the scenario names it
  std::filesystem::path topology_file;  ///< that was read
  std::string stack;                    ///< software stack whose defaults it uses; empty: no stack
  std::set<std::string>
      against_stack;         ///< keys that it sets to their default without a stack, and its stack to another value
  std::string profile_name;  ///< as the scenario names it; empty: the topology's GPU
  int gpus_per_rack = 0;     ///< as the scenario gives it; 0: by rule (use_racks)
  double gpu_spread = 0;     ///< between GPUs of one kind; `profile` has it (sim/cost/slowest_rank.hpp)
  double power_limit = 1;    ///< share of the rated power; `profile` has its clock (sim/cost/power_limit.hpp)
  double rack_watts = 0;     ///< that a rack of `rack_hosts` may draw, which decides `power_limit`; 0: not given
  int rack_hosts = 0;
  std::optional<Measured> measured;
  std::vector<std::string> notes;                ///< on how the file was read, for the report
  std::map<std::string, KeyLocation> locations;  ///< by dotted key; "": the file itself. Empty if built by hand
};

/// Adds file, line and value to diagnostics that name a scenario key but no file, for example those of make_plan. A key
/// that the file leaves at its default gets the line of its group.
Error located(Error error, const Scenario& scenario);

/// Sets the GPUs of each rack that the job uses: `gpus_per_rack`, or if 0 by the rule of rack_use.hpp for the groups of this
/// layout. With missing GPUs the rule does not apply: the scenario already says what the job uses.
void use_racks(Cluster& cluster, const Parallel& parallel, int gpus_per_rack);

/// Lowers the rate of PCIe between the GPUs of a node to what a copy reaches on the board of this GPU, which may be of an older
/// generation than the node's slots: 0.84 of `host_bandwidth`, 53 of 63 GB/s (docs/references.md#pcie-copies). Returns a sentence
/// for the report, "" if nothing changes.
std::string limit_pcie(NodeSpec& node, const Profile& profile);

}  // namespace tracecast
