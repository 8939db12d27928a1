#include "sim/graph/muon_update.hpp"

#include <utility>

#include "sim/base/integers.hpp"
#include "sim/graph/optimizer_work.hpp"

namespace tracecast {

int MuonUpdate::ranks(bool expert) const {
  return data_.sharded(1) ? context_.table.placement(expert ? Slot::expert_gradients : Slot::gradients).ranks : 1;
}

MuonSharding MuonUpdate::sharding() const { return muon_sharding(context_.plan.parallel, context_.plan.training); }

/// Elements whose states this rank holds.
std::int64_t MuonUpdate::own_elements(const std::vector<MuonMatrices>& all,
                                      const std::vector<MuonMatrices>& share) const {
  std::int64_t own = 0;
  for (const bool expert : {false, true}) {
    own += sharding() == MuonSharding::layerwise ? held_elements(share, expert)
                                                 : ceil_div(held_elements(all, expert), ranks(expert));
  }
  return own;
}

void MuonUpdate::exchange(TemplateWriter& writer, const std::vector<MuonMatrices>& all, Traffic traffic) {
  const bool gathers = sharding() == MuonSharding::gather;
  const EventRef ready = writer.mark();
  std::vector<EventRef> done;
  for (const bool expert : {false, true}) {
    const std::int64_t elements = held_elements(all, expert);
    const int group = ranks(expert);
    if (elements == 0 || group <= 1) continue;
    const CollectiveCall call = gathers ? CollectiveCall{Collective::all_gather, Bytes{2 * elements}}
                                        : CollectiveCall{Collective::all_to_all, Bytes{2 * ceil_div(elements, group)}};
    done.push_back(writer.collective({expert ? Lane::expert_gradients : Lane::gradients, traffic,
                                      expert ? Slot::expert_gradients : Slot::gradients, call},
                                     {ready}));
  }
  for (const EventRef event : done) writer.wait(event);
}

/// fp32, as Megatron-Core's newton_schulz_tp sends momentum and products.
void MuonUpdate::over_tensor_ranks(TemplateWriter& writer, Collective what, std::int64_t elements) {
  const CollectiveCall call{what, Bytes{4 * elements}};
  writer.wait(writer.collective({Lane::tensor, Traffic::tensor_parallel, Slot::tensor, call}, {writer.mark()}));
}

void MuonUpdate::multiply(TemplateWriter& writer, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch) {
  writer.compute(
      {OperatorKind::gemm, Pass::optimizer, Precision::bf16, "newton_schulz", GemmShape{m, n, k, batch, false}});
}

/// Matrices are orthogonalised one by one; equal ones of experts, which are many and small, in one batch.
void MuonUpdate::orthogonalise(TemplateWriter& writer, const MuonMatrices& matrices) {
  const MuonTensorMode mode = context_.plan.training.muon_tensor;
  const bool transfers = matrices.divided && context_.table.placement(Slot::tensor).ranks > 1;
  const std::int64_t batch = matrices.expert ? matrices.count : 1;
  const std::int64_t r = matrices.rows;
  const std::int64_t c = matrices.columns;
  for (std::int64_t i = 0; i < matrices.count / batch; ++i) {
    if (transfers && mode == MuonTensorMode::duplicated)
      over_tensor_ranks(writer, Collective::all_gather, batch * r * c);
    for (int step = 0; step < context_.plan.training.muon_steps; ++step) {
      multiply(writer, r, r, c, batch);
      if (transfers && mode == MuonTensorMode::distributed)
        over_tensor_ranks(writer, Collective::all_reduce, batch * r * r);
      multiply(writer, r, r, r, batch);
      multiply(writer, r, c, r, batch);
    }
  }
}

Bucket MuonUpdate::write(TemplateWriter& writer, const Chunk& chunk) {
  const Training& training = context_.plan.training;
  const std::vector<MuonMatrices> all = muon_matrices(context_.model, context_.plan, chunk.stage);
  Bucket rest = context_.units.stage(chunk.stage);
  if (all.empty()) return rest;
  rest.parameters.trained -= held_elements(all, false);
  rest.parameters.trained_experts -= held_elements(all, true);
  const MuonSharding mode = sharding();
  const bool dealt = mode == MuonSharding::layerwise || mode == MuonSharding::all_to_all;
  const std::vector<MuonMatrices> share = dealt ? fullest_share(all, ranks(false), ranks(true)) : all;
  const bool moves = mode == MuonSharding::gather || mode == MuonSharding::all_to_all;
  const std::int64_t own = own_elements(all, share);
  const std::int64_t worked = held_elements(share, false) + held_elements(share, true);

  // Gradient and momentum are read, momentum and its 16-bit copy are written.
  const std::int64_t states = 2 * element_size(training.optimizer_state_dtype);
  writer.compute(optimizer_work("momentum", own, data_.gradient_bytes() + states + 2));
  if (moves) exchange(writer, all, Traffic::gradients);
  writer.compute(optimizer_work("normalise", worked, 6));  // read for the norm, read and written to be divided by it
  for (const MuonMatrices& matrices : share) orthogonalise(writer, matrices);
  if (mode == MuonSharding::all_to_all) exchange(writer, all, Traffic::parameters);
  writer.compute(optimizer_work("update", own, 2 + 8 + written_copy(training)));
  return rest;
}

}  // namespace tracecast
