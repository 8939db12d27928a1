#include "sim/graph/operator_text.hpp"

#include <fmt/format.h>

#include "sim/base/quantity_text.hpp"

namespace tracecast {
namespace {

std::string sides(const GemmShape& s) {
  return fmt::format("{} x {} x {}{}{}", s.m, s.n, s.k, s.batch > 1 ? fmt::format(", {} times", s.batch) : "",
                     s.accumulate_fp32 ? ", adds to fp32" : "");
}
std::string sides(const AttentionShape& s) {
  return fmt::format("{} of {} x {}, {} heads ({} of keys) of {}{}", s.batch, s.q_len, s.kv_len, s.heads, s.kv_heads,
                     s.qk_dim, s.causal ? ", causal" : "");
}
std::string sides(const ScanShape& s) {
  return fmt::format("{} of {}, {} heads ({} of keys) of {} x {}, chunks of {}", s.batch, s.length, s.heads,
                     s.key_heads, s.key_dim, s.value_dim, s.chunk);
}
std::string sides(const FactorizationShape& s) {
  return fmt::format("{} of {} x {}, {}{}", s.count, s.n, s.n, s.eigenvectors ? "eigenvectors and a root" : "QR",
                     s.interval > 1 ? fmt::format(", in one step of {}", s.interval) : "");
}
std::string sides(const ElementwiseShape& s) {
  return fmt::format("{} elements, {} moved{}", s.elements, to_text(s.traffic),
                     s.kernels > 1 ? fmt::format(" by {} kernels", s.kernels) : "");
}

}  // namespace

std::string operator_name(const CostedOperator& used) {
  const bool plain = used.op.pass == Pass::forward || used.op.pass == Pass::optimizer;
  return used.op.name + (plain ? "" : std::string(" ") + to_string(used.op.pass)) + (used.recomputed ? " (again)" : "");
}

std::string shape_text(const Operator& op) {
  return std::string(to_string(op.precision)) + " " +
         std::visit([](const auto& shape) { return sides(shape); }, op.shape);
}

}  // namespace tracecast
