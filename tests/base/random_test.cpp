#include "sim/base/random.hpp"

#include <cmath>
#include <set>

#include <catch2/catch.hpp>

using namespace tracecast;

TEST_CASE("philox4x32-10 gives the published known answers", "[oracle][base]") {
  // Random123, tests/kat_vectors: zeros, ones, and the digits of pi.
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const std::uint32_t ones = 0xffffffff;
  CHECK(philox4x32({ones, ones, ones, ones}, {ones, ones}) ==
        PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a stream is the blocks of its name, lower word first", "[oracle][base]") {
  RandomStream stream(0, 0, 0);
  CHECK(stream.bits() == 0xe169c58d6627e8d5);
  CHECK(stream.bits() == 0x9b00dbd8bc57ac4c);
  // seed, history and process land in key, word 3 and word 2.
  const PhiloxCounter words = philox4x32({0, 0, 7, 5}, {0x89abcdef, 0x01234567});
  CHECK(RandomStream(0x0123456789abcdef, 5, 7).bits() == ((std::uint64_t{words[1]} << 32) | words[0]));
}

TEST_CASE("streams of different names differ, equal names agree", "[property][base]") {
  std::set<std::uint64_t> seen;
  for (std::uint32_t history = 0; history < 20; ++history)
    for (std::uint32_t process = 0; process < 20; ++process) seen.insert(RandomStream(1, history, process).bits());
  CHECK(seen.size() == 400);
  RandomStream a(9, 8, 7), b(9, 8, 7);
  for (int i = 0; i < 100; ++i) CHECK(a.bits() == b.bits());
}

TEST_CASE("uniform is in (0, 1] with mean 1/2 and variance 1/12", "[property][base]") {
  RandomStream stream(42, 0, 0);
  const int n = 100'000;
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double u = stream.uniform();
    REQUIRE(u > 0);
    REQUIRE(u <= 1);
    sum += u;
    squares += u * u;
  }
  const double mean = sum / n;
  CHECK(mean == Approx(0.5).margin(3 * std::sqrt(1.0 / 12 / n)));
  // Var(u^2) = 1/5 - 1/9
  CHECK(squares / n == Approx(1.0 / 3).margin(3 * std::sqrt(4.0 / 45 / n)));
}

TEST_CASE("uniform numbers the upper 53 bits from 1 on, so that a logarithm is finite", "[oracle][base]") {
  // The first draw of the known block of zeros: 0xe169c58d6627e8d5 >> 11 is 0x1c2d38b1acc4fd.
  CHECK(RandomStream(0, 0, 0).uniform() == 0x1c2d38b1acc4fep-53);
}

TEST_CASE("exponential has mean and standard deviation 1", "[property][base]") {
  RandomStream stream(42, 1, 0);
  const int n = 100'000;
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double x = stream.exponential();
    sum += x;
    squares += x * x;
  }
  CHECK(sum / n == Approx(1).margin(3 / std::sqrt(n)));
  // E x^2 = 2, Var x^2 = 24 - 4
  CHECK(squares / n == Approx(2).margin(3 * std::sqrt(20.0 / n)));
}

TEST_CASE("two normals have mean 0, variance 1 and no covariance, and the first is normal()", "[property][base]") {
  RandomStream random(5, 0, 0), firsts(5, 0, 0);
  const int draws = 100'000;
  double sum_a = 0, sum_b = 0, squares_a = 0, squares_b = 0, products = 0;
  for (int i = 0; i < draws; ++i) {
    const auto [a, b] = random.normals();
    REQUIRE(firsts.normal() == a);
    sum_a += a;
    sum_b += b;
    squares_a += a * a;
    squares_b += b * b;
    products += a * b;
  }
  // Standard errors: 0.0032 of a mean and of the covariance, 0.0045 of a variance.
  CHECK(sum_a / draws == Approx(0).margin(0.013));
  CHECK(sum_b / draws == Approx(0).margin(0.013));
  CHECK(squares_a / draws == Approx(1).margin(0.018));
  CHECK(squares_b / draws == Approx(1).margin(0.018));
  CHECK(products / draws == Approx(0).margin(0.013));
}

TEST_CASE("below hits every value about equally often and never another", "[property][base]") {
  RandomStream stream(42, 2, 0);
  const int n = 60'000;
  std::array<int, 6> hits{};
  for (int i = 0; i < n; ++i) {
    const std::uint64_t face = stream.below(6);
    REQUIRE(face < 6);
    ++hits[face];
  }
  const double margin = 4 * std::sqrt(n * (1.0 / 6) * (5.0 / 6));
  for (const int count : hits) CHECK(count == Approx(n / 6.0).margin(margin));
  CHECK(stream.below(1) == 0);
  // A range just above 2^63 refuses almost half of all draws.
  const std::uint64_t wide = (std::uint64_t{1} << 63) + 1;
  for (int i = 0; i < 100; ++i) REQUIRE(stream.below(wide) < wide);
}
