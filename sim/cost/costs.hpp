/// How long an operator takes on a GPU, and how that is known: measured, interpolated or analytic.
#pragma once

#include <memory>

#include "sim/base/units.hpp"
#include "sim/cost/profile.hpp"
#include "sim/model/operators.hpp"

namespace tracecast {

enum class Provenance {
  measured,      ///< this very shape on this very GPU
  interpolated,  ///< between measured shapes, or by a model fitted to measurements of this GPU
  analytic,      ///< from specifications, or a model fitted to another GPU
};
const char* to_string(Provenance provenance);

struct OperatorCost {
  Duration duration;  ///< median, in training
  double spread = 0;  ///< relative standard deviation of the true time around `duration`
  Provenance provenance = Provenance::analytic;
};

/// Costs of one GPU. Immutable and thread-safe.
class Costs {
 public:
  explicit Costs(Profile profile);
  OperatorCost of(const Operator& op) const;
  const Profile& profile() const { return profile_; }

 private:
  Profile profile_;
};

}  // namespace tracecast
