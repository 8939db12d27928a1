#include "sim/base/random.hpp"

#include <cmath>
#include <numbers>

#include "sim/base/integers.hpp"
#include "sim/base/result.hpp"

namespace tracecast {
namespace {

constexpr std::uint32_t kMultiplier0 = 0xD2511F53;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9;  // golden ratio
constexpr std::uint32_t kWeyl1 = 0xBB67AE85;  // square root of 3, less 1
constexpr int kRounds = 10;

constexpr std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
constexpr std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

}  // namespace

PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter[2];
    counter = {high(product1) ^ counter[1] ^ key[0], low(product1), high(product0) ^ counter[3] ^ key[1],
               low(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

RandomStream::RandomStream(std::uint64_t seed, std::uint32_t history, std::uint32_t process)
    : key_{low(seed), high(seed)}, history_(history), process_(process) {}

std::uint64_t RandomStream::bits() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const PhiloxCounter words = philox4x32({low(block_), high(block_), process_, history_}, key_);
  ++block_;
  spare_ = (std::uint64_t{words[3]} << 32) | words[2];
  has_spare_ = true;
  return (std::uint64_t{words[1]} << 32) | words[0];
}

double RandomStream::uniform() { return static_cast<double>((bits() >> 11) + 1) * 0x1p-53; }

double RandomStream::exponential() { return -std::log(uniform()); }

std::pair<double, double> RandomStream::normals() {
  const double radius = std::sqrt(-2 * std::log(uniform()));
  const double angle = 2 * std::numbers::pi * uniform();
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

double RandomStream::normal() { return normals().first; }

std::uint64_t RandomStream::below(std::uint64_t n) {
  TRACECAST_ASSERT(n >= 1, "a choice has at least one possibility");
  // The upper half of bits x n is uniform once the products whose lower half is below 2^64 mod n are rejected.
  Wide product = Wide{bits()} * n;
  if (static_cast<std::uint64_t>(product) < n) {
    const std::uint64_t rejected = (0 - n) % n;
    while (static_cast<std::uint64_t>(product) < rejected) product = Wide{bits()} * n;
  }
  return static_cast<std::uint64_t>(product >> 64);
}

}  // namespace tracecast
