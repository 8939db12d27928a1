#include "sim/cost/factorization.hpp"

#include <catch2/catch.hpp>

using namespace tracecast;

TEST_CASE("factorisations: FLOPs, bytes and a latency for each column, one matrix after another", "[cost][oracle]") {
  const GpuPeak gpu{50e12, 1e12, 100};
  const auto time = [&](const FactorizationShape& shape) {
    return factorization_seconds(gpu, {OperatorKind::optimizer, Pass::optimizer, Precision::fp32, "f", shape});
  };
  const double n = 2048;
  // Eigenvectors: tridiagonal 4/3 n^3 FLOPs and the rest of 20/3 n^3, half of which pass through memory as 4/3 n^3 bytes; 10 us a column.
  const double eigen = 20.0 / 3 * n * n * n / 25e12 + 4.0 / 3 * n * n * n / 0.5e12 + n * 10e-6;
  CHECK(time({2048, 1, 1, true}) == Approx(eigen).epsilon(1e-9));
  // A power iteration is 2 n^3, QR with its Q 8/3 n^3; six fp32 matrices are read or written; 4 us a column.
  const double qr = 14.0 / 3 * n * n * n / 25e12 + 24 * n * n / 0.5e12 + n * 4e-6;
  CHECK(time({2048, 1, 1, false}) == Approx(qr).epsilon(1e-9));
  // Six matrices every tenth step, in the mean step.
  CHECK(time({2048, 6, 10, true}) == Approx(0.6 * eigen).epsilon(1e-9));
  CHECK(time({2048, 6, 10, false}) == Approx(0.6 * qr).epsilon(1e-9));
}
