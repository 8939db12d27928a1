/// \file
/// Random numbers that are the same on every machine, for every number of threads and in every order of
/// evaluation.
///
/// Philox4x32-10, a counter-based generator: a block of four 32-bit words is a function of a counter and a
/// key, there is no state to carry. A stream is named by (seed, history, process); its block number i is
///
///   philox4x32({i mod 2^32, i div 2^32, process, history}, {seed mod 2^32, seed div 2^32})
///
/// and it hands out 64 bits at a time: words 0 and 1 of a block, then words 2 and 3, the lower word first.
/// Streams of different names never share a block, so each random process of each simulated history owns one,
/// and adding a process does not move the draws of another.
///
/// The bits and `uniform` are exact everywhere; `exponential` and `normal` use std::log and std::cos and are as exact as
/// the C library's.
///
/// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011; test vectors
/// of the Random123 library.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

namespace tracecast {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

/// Ten rounds.
PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key);

class RandomStream {
 public:
  RandomStream() = default;
  RandomStream(std::uint64_t seed, std::uint32_t history, std::uint32_t process);

  std::uint64_t bits();

  /// A multiple of 2^-53 in (0, 1]: never 0, so that its logarithm is finite.
  double uniform();

  /// Exponential with mean 1.
  double exponential();

  /// Two independent standard normals, of two draws of uniform() (Box and Muller 1958).
  std::pair<double, double> normals();
  /// The first of normals(); the second is not kept.
  double normal();

  /// Uniform in 0 .. n-1, exactly (rejection, Lemire 2019).   Requires n >= 1.
  std::uint64_t below(std::uint64_t n);

 private:
  PhiloxKey key_{};
  std::uint32_t history_ = 0;
  std::uint32_t process_ = 0;
  std::uint64_t block_ = 0;  ///< number of the next block
  std::uint64_t spare_ = 0;  ///< second half of the block before it
  bool has_spare_ = false;
};

}  // namespace tracecast
