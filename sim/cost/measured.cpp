#include "sim/cost/measured.hpp"

#include <algorithm>
#include <cmath>

namespace tracecast {
namespace {

constexpr double kReach = 2;  // powers of two
constexpr std::size_t kNeighbours = 4;
constexpr double kNoDistance = 1e-3;  // keeps the weight of a shape finite

double log_size(std::int64_t size) { return size > 0 ? std::log2(static_cast<double>(size)) : 0; }

/// Sizes that time depends on; differing flags put shapes out of each other's reach.
std::array<double, 5> place(const OperatorShape& shape) {
  constexpr double kApart = 100;
  if (const auto* gemm = std::get_if<GemmShape>(&shape))
    return {log_size(gemm->m), log_size(gemm->n), log_size(gemm->k), log_size(gemm->batch),
            gemm->accumulate_fp32 ? kApart : 0};
  if (const auto* attention = std::get_if<AttentionShape>(&shape))
    return {log_size(attention->batch * attention->heads), log_size(attention->q_len), log_size(attention->kv_len),
            log_size(attention->qk_dim + attention->v_dim),
            (attention->causal ? kApart : 0) + log_size(attention->window)};
  if (const auto* scan = std::get_if<ScanShape>(&shape))
    return {log_size(scan->batch * scan->heads), log_size(scan->length), log_size(scan->key_dim),
            log_size(scan->value_dim),
            (scan->delta ? kApart : 0) + (scan->channel_decay ? kApart : 0) + (scan->gated ? -kApart : 0) +
                log_size(scan->chunk)};
  if (const auto* each = std::get_if<FactorizationShape>(&shape))
    return {log_size(each->n), log_size(each->count), log_size(each->interval), each->eigenvectors ? kApart : 0, 0};
  return {log_size(std::get<ElementwiseShape>(shape).traffic.count), 0, 0, 0, 0};
}

double distance(const std::array<double, 5>& a, const std::array<double, 5>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

/// The shape as a kernel has it: it does not know of a ring.
OperatorShape without_ring(OperatorShape shape) {
  if (auto* attention = std::get_if<AttentionShape>(&shape)) {
    attention->ring_ranks = 1;
    attention->ring_block = 0;
  }
  return shape;
}

}  // namespace

MeasuredTable::MeasuredTable(const std::vector<MeasuredOperator>& operators,
                             const std::function<double(const Operator&)>& modelled) {
  for (const MeasuredOperator& measured : operators) {
    const Class key{measured.op.kind, measured.op.pass, measured.op.precision};
    exact_[key][without_ring(measured.op.shape)] = measured;
    samples_[key].push_back(
        {place(measured.op.shape), std::log(measured.seconds / modelled(measured.op)), measured.spread});
  }
}

const MeasuredOperator* MeasuredTable::exact(const Operator& op) const {
  const auto shapes = exact_.find({op.kind, op.pass, op.precision});
  if (shapes == exact_.end()) return nullptr;
  const auto found = shapes->second.find(without_ring(op.shape));
  return found == shapes->second.end() ? nullptr : &found->second;
}

std::optional<MeasuredTable::Correction> MeasuredTable::around(const Operator& op) const {
  const auto samples = samples_.find({op.kind, op.pass, op.precision});
  if (samples == samples_.end()) return std::nullopt;
  const std::array<double, 5> here = place(op.shape);
  std::vector<std::pair<double, const Sample*>> near;
  for (const Sample& sample : samples->second) {
    const double away = distance(here, sample.place);
    if (away <= kReach) near.emplace_back(away, &sample);
  }
  if (near.empty()) return std::nullopt;
  const std::size_t count = std::min(near.size(), kNeighbours);
  // Equal distances keep the order of the file, so that the result does not depend on where samples lie in memory.
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Correction correction{0, near.front().first, 0};
  double weights = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double away = std::max(near[i].first, kNoDistance);
    const double weight = 1 / (away * away);
    weights += weight;
    correction.log_ratio += weight * near[i].second->log_ratio;
    correction.spread += weight * near[i].second->spread;
  }
  correction.log_ratio /= weights;
  correction.spread /= weights;
  return correction;
}

}  // namespace tracecast
