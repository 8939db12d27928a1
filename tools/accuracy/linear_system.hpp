/// \file
/// Systems of linear equations of the fits.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "sim/base/result.hpp"

namespace tracecast::accuracy {

using Matrix = std::vector<std::vector<double>>;

/// Solves a x = b by Cholesky's decomposition; reads the lower triangle of a.   Requires a symmetric positive definite a
inline std::vector<double> solve_positive_definite(Matrix a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t j = 0; j < n; ++j)
    for (std::size_t i = j; i < n; ++i) {
      double sum = a[i][j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i][k] * a[j][k];
      TRACECAST_ASSERT(i != j || sum > 0, "the matrix is positive definite");
      a[i][j] = i == j ? std::sqrt(sum) : sum / a[j][j];
    }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[k][i] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

}  // namespace tracecast::accuracy
