#include "sim/graph/matrix_update.hpp"

#include "sim/base/integers.hpp"
#include "sim/graph/optimizer_work.hpp"
#include "sim/plan/parameter_states.hpp"

namespace tracecast {
namespace {

Slot slot_of(bool expert) { return expert ? Slot::expert_gradients : Slot::gradients; }
Lane lane_of(bool expert) { return expert ? Lane::expert_gradients : Lane::gradients; }

}  // namespace

MatrixSharding MatrixUpdate::sharding() const { return matrix_sharding(context_.plan.parallel, training()); }

int MatrixUpdate::ranks(bool expert) const {
  const bool divided = data_.sharded(1) || sharding() == MatrixSharding::gather_updates;
  return divided ? context_.table.placement(slot_of(expert)).ranks : 1;
}

MatrixUpdate::Matrices MatrixUpdate::share_of(const Matrices& all) const {
  const MatrixSharding mode = sharding();
  const bool dealt =
      mode == MatrixSharding::layerwise || mode == MatrixSharding::all_to_all || mode == MatrixSharding::gather_updates;
  return dealt ? fullest_share(all, ranks(false), ranks(true)) : all;
}

/// Elements that this rank updates.
std::int64_t MatrixUpdate::own_elements(const Matrices& all, const Matrices& share) const {
  std::int64_t own = 0;
  for (const bool expert : {false, true}) {
    if (sharding() == MatrixSharding::layerwise && needs_whole_matrices(optimizer()))
      own += held_elements(share, expert);
    else
      own += ceil_div(held_elements(all, expert), data_.sharded(1) ? ranks(expert) : 1);
  }
  return own;
}

void MatrixUpdate::exchange(TemplateWriter& writer, const Matrices& all, Traffic traffic, std::int64_t width,
                            bool to_everyone) {
  const EventRef ready = writer.mark();
  std::vector<EventRef> done;
  for (const bool expert : {false, true}) {
    const std::int64_t elements = held_elements(all, expert);
    const int group = ranks(expert);
    if (elements == 0 || group <= 1) continue;
    const CollectiveCall call = to_everyone
                                    ? CollectiveCall{Collective::all_gather, Bytes{width * elements}}
                                    : CollectiveCall{Collective::all_to_all, Bytes{width * ceil_div(elements, group)}};
    done.push_back(writer.collective({lane_of(expert), traffic, slot_of(expert), call}, {ready}));
  }
  for (const EventRef event : done) writer.wait(event);
}

/// fp32, as Megatron-Core's newton_schulz_tp sends momentum and products.
void MatrixUpdate::over_tensor_ranks(TemplateWriter& writer, Collective what, std::int64_t elements) {
  const CollectiveCall call{what, Bytes{4 * elements}};
  writer.wait(writer.collective({Lane::tensor, Traffic::tensor_parallel, Slot::tensor, call}, {writer.mark()}));
}

void MatrixUpdate::multiply(TemplateWriter& writer, Precision precision, const char* name, const GemmShape& shape) {
  writer.compute({OperatorKind::gemm, Pass::optimizer, precision, name, shape});
}

/// Matrices are orthogonalised one by one; equal ones of experts, which are many and small, in one batch.
void MatrixUpdate::orthogonalise(TemplateWriter& writer, const OptimizerMatrices& matrices) {
  const MuonTensorMode mode = training().muon_tensor;
  const bool transfers = matrices.divided && context_.table.placement(Slot::tensor).ranks > 1;
  const std::int64_t batch = matrices.expert ? matrices.count : 1;
  const std::int64_t r = matrices.rows;
  const std::int64_t c = matrices.columns;
  const auto iterate = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    multiply(writer, Precision::bf16, "newton_schulz", {m, n, k, batch, false});
  };
  for (std::int64_t i = 0; i < matrices.count / batch; ++i) {
    if (transfers && mode == MuonTensorMode::duplicated)
      over_tensor_ranks(writer, Collective::all_gather, batch * r * c);
    for (int step = 0; step < training().muon_steps; ++step) {
      iterate(r, r, c);
      if (transfers && mode == MuonTensorMode::distributed)
        over_tensor_ranks(writer, Collective::all_reduce, batch * r * r);
      iterate(r, r, r);
      iterate(r, c, r);
    }
  }
}

void MatrixUpdate::newton_schulz(TemplateWriter& writer, const Matrices& all) {
  const MatrixSharding mode = sharding();
  const Matrices share = share_of(all);
  const bool moves = mode == MatrixSharding::gather || mode == MatrixSharding::all_to_all;
  const std::int64_t own = own_elements(all, share);
  const std::int64_t worked = held_elements(share, false) + held_elements(share, true);
  const std::int64_t with_states = mode == MatrixSharding::gather_updates ? worked : own;

  // Gradient and momentum are read, momentum and its 16-bit copy are written.
  const std::int64_t states = 2 * state_size(training());
  writer.compute(optimizer_work("momentum", with_states, data_.gradient_bytes() + states + 2));
  if (moves) exchange(writer, all, Traffic::gradients, 2, mode == MatrixSharding::gather);
  writer.compute(optimizer_work("normalise", worked, 6));  // read for the norm, read and written to be divided by it
  for (const OptimizerMatrices& matrices : share) orthogonalise(writer, matrices);
  if (mode == MatrixSharding::all_to_all || mode == MatrixSharding::gather_updates)
    exchange(writer, all, Traffic::parameters, 2, mode == MatrixSharding::gather_updates);
  writer.compute(optimizer_work("update", own, 2 + 8 + written_copy(training())));
}

/// Statistics, then products with what belongs to each side: the root once (Shampoo); the basis for gradient, momentum and the way
/// back (SOAP). fp32.
void MatrixUpdate::precondition(TemplateWriter& writer, const OptimizerMatrices& matrices) {
  const int products = optimizer().matrices == MatrixWork::roots ? 1 : 3;
  const std::int64_t batch = matrices.expert ? matrices.count : 1;
  for (std::int64_t i = 0; i < matrices.count / batch; ++i) {
    for (const std::int64_t side : preconditioned_sides(matrices, training())) {
      const std::int64_t other = matrices.held_elements / side;
      multiply(writer, Precision::fp32, "statistics", {side, side, other, batch, false});
      for (int product = 0; product < products; ++product)
        multiply(writer, Precision::fp32, "precondition", {side, other, side, batch, false});
    }
  }
}

/// One in `interval` steps does it; the operator is that of the mean step.
void MatrixUpdate::factorise(TemplateWriter& writer, const OptimizerMatrices& matrices) {
  const bool roots = optimizer().matrices == MatrixWork::roots;
  for (const std::int64_t side : preconditioned_sides(matrices, training()))
    writer.compute({OperatorKind::optimizer, Pass::optimizer, Precision::fp32, roots ? "inverse_root" : "eigenbasis",
                    FactorizationShape{side, matrices.count, preconditioner_interval(training()), roots}});
}

/// Owners have momentum and variance beside the preconditioners, so fp32 gradients go to them and updates come back.
void MatrixUpdate::preconditioned(TemplateWriter& writer, const Matrices& all) {
  const MatrixSharding mode = sharding();
  const Matrices share = share_of(all);
  const std::int64_t worked = held_elements(share, false) + held_elements(share, true);
  const std::int64_t state = 2 * state_size(training());
  if (mode == MatrixSharding::gather || mode == MatrixSharding::all_to_all)
    exchange(writer, all, Traffic::gradients, 4, mode == MatrixSharding::gather);
  writer.compute(optimizer_work("momentum", worked, data_.gradient_bytes() + state));
  for (const OptimizerMatrices& matrices : share) precondition(writer, matrices);
  // The variance; its quotient is written; Shampoo reads both updates for the norms that give its step length.
  const bool grafts = optimizer().matrices == MatrixWork::roots;
  writer.compute(optimizer_work(grafts ? "graft" : "adam", worked, 4 + state + 4 + (grafts ? 8 : 4)));
  for (const OptimizerMatrices& matrices : share) factorise(writer, matrices);
  if (mode == MatrixSharding::all_to_all || mode == MatrixSharding::gather_updates)
    exchange(writer, all, Traffic::parameters, 4, mode == MatrixSharding::gather_updates);
  writer.compute(optimizer_work("update", own_elements(all, share), 4 + 8 + written_copy(training())));
}

/// One call for each matrix, as PyTorch's DTensor has; the experts of a layer are one tensor.
void MatrixUpdate::add_up(TemplateWriter& writer, const Matrices& all, bool sums) {
  for (const OptimizerMatrices& matrices : all) {
    const std::int64_t batch = matrices.expert ? matrices.count : 1;
    const std::int64_t numbers = batch * (sums ? matrices.rows + matrices.columns : 1);
    const CollectiveCall call{Collective::all_reduce, Bytes{4 * numbers}};
    for (std::int64_t i = 0; i < matrices.count / batch; ++i) {
      if (matrices.divided && context_.table.placement(Slot::tensor).ranks > 1)
        over_tensor_ranks(writer, Collective::all_reduce, numbers);
      if (data_.sharded(1) && ranks(matrices.expert) > 1)
        writer.wait(writer.collective({lane_of(matrices.expert), Traffic::control, slot_of(matrices.expert), call},
                                      {writer.mark()}));
    }
  }
}

/// Three passes: sums of squares and the parameters' norm; the norm of the update, which limits it; the update.
void MatrixUpdate::factored(TemplateWriter& writer, const Matrices& all) {
  const std::int64_t own = own_elements(all, all);
  const std::int64_t gradient = data_.gradient_bytes();
  writer.compute(optimizer_work("row_column_sums", own, gradient + 4));
  add_up(writer, all, true);
  writer.compute(optimizer_work("update_norm", own, gradient));
  add_up(writer, all, false);
  writer.compute(optimizer_work("update", own, gradient + 8 + written_copy(training())));
}

Bucket MatrixUpdate::write(TemplateWriter& writer, const Chunk& chunk) {
  Bucket rest = context_.units.stage(chunk.stage);
  const Matrices all = optimizer_matrices(context_.model, context_.plan, chunk.stage);
  if (all.empty()) return rest;
  rest.parameters.trained -= held_elements(all, false);
  rest.parameters.trained_experts -= held_elements(all, true);
  switch (optimizer().matrices) {
    case MatrixWork::none:
      break;
    case MatrixWork::newton_schulz:
      newton_schulz(writer, all);
      break;
    case MatrixWork::factored:
      factored(writer, all);
      break;
    case MatrixWork::roots:
    case MatrixWork::eigenbasis:
      preconditioned(writer, all);
      break;
  }
  return rest;
}

}  // namespace tracecast
