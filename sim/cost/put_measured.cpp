#include "sim/cost/put_measured.hpp"

#include <tuple>

namespace tracecast {

void put_measured(Profile& profile, const MeasuredOperator& measured) {
  const auto key = [](const MeasuredOperator& m) { return std::tie(m.op.kind, m.op.pass, m.op.precision, m.op.shape); };
  std::erase_if(profile.measured, [&](const MeasuredOperator& known) { return key(known) == key(measured); });
  profile.measured.push_back(measured);
}

void put_measured(Profile& profile, const MeasuredCollective& measured) {
  const auto key = [](const MeasuredCollective& m) { return std::tie(m.collective, m.ranks, m.nodes, m.size); };
  std::erase_if(profile.measured_collectives,
                [&](const MeasuredCollective& known) { return key(known) == key(measured); });
  profile.measured_collectives.push_back(measured);
}

}  // namespace tracecast
