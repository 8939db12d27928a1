/// \file
/// Measured operators of a profile: looked up by exact shape, and by the nearest shapes.
///
/// Measured over modelled time at a shape is a ratio. The correction of another shape is the mean of the logarithms of
/// these ratios over the four nearest shapes, weighted by 1/distance^2; distance is the
/// Euclidean one between logarithms (base 2) of the sizes. Neighbours farther than a factor of 4 say nothing.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "sim/cost/profile.hpp"

namespace tracecast {

class MeasuredTable {
 public:
  struct Correction {
    double log_ratio = 0;  ///< natural logarithm of measured over modelled time
    double distance = 0;   ///< to the nearest measured shape, in powers of two
    double spread = 0;     ///< of the measurements around their mean
  };

  MeasuredTable() = default;
  /// `modelled`: seconds that the GPU's model gives to an operator, before any correction.
  MeasuredTable(const std::vector<MeasuredOperator>& operators, const std::function<double(const Operator&)>& modelled);

  /// The measurement of this very kind, pass, precision and shape; the name does not count.
  const MeasuredOperator* exact(const Operator& op) const;
  /// Empty when nothing near enough was measured.
  std::optional<Correction> around(const Operator& op) const;

 private:
  using Class = std::tuple<OperatorKind, Pass, Precision>;
  struct Sample {
    std::array<double, 5> place{};
    double log_ratio = 0;
    double spread = 0;
  };
  std::map<Class, std::map<OperatorShape, MeasuredOperator>> exact_;
  std::map<Class, std::vector<Sample>> samples_;
};

}  // namespace tracecast
