#include "tools/accuracy/held_out.hpp"

namespace tracecast::accuracy {

bool held_out(std::int64_t key) {
  // The finaliser of splitmix64 (Steele et al. 2014) spreads adjacent keys.
  auto x = static_cast<std::uint64_t>(key) + 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return (x ^ (x >> 31U)) % 5 == 0;
}

GemmLoop aiconfigurator_loop(const std::string& src) {
  if (src.starts_with("sglang")) return {6, 6, 1};
  if (src.starts_with("trtllm")) return {1, 5, -1};
  return {};
}

bool held_out_weight(std::int64_t n, std::int64_t k) { return held_out(n * 1'000'003 + k); }

}  // namespace tracecast::accuracy
