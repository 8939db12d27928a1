/// A scenario: one run to be forecast. Model, layout, training settings, the machine it runs on, and what was measured.
#pragma once

#include <optional>
#include <string>

#include "sim/cost/profile.hpp"
#include "sim/model/model.hpp"
#include "sim/network/cluster.hpp"
#include "sim/plan/parallel.hpp"

namespace tracecast {

/// What a published run reported, beside its setup.
struct Measured {
  double step_time_s = 0;
  std::string source;
  bool operator==(const Measured&) const = default;
};

struct Scenario {
  std::string name;         ///< file stem
  std::string description;
  std::string source;
  Model model;
  Parallel parallel;
  Training training;
  Cluster cluster;          ///< sized: world_size set
  Profile profile;
  std::optional<Measured> measured;
};

}  // namespace tracecast
