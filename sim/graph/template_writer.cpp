#include "sim/graph/template_writer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/integers.hpp"
#include "sim/base/result.hpp"

namespace tracecast {
namespace {

/// Tiled overlap cuts a collective into pieces that run during the adjacent multiplication; at least this share of its
/// size stays exposed. Fitted on published runs with tp_comm_overlap: 0.41, 0.28 to 0.59 over bootstraps
/// (docs/references.md#tp-overlap).
constexpr double kTiledExposedShare = 0.41;

/// Relative standard deviation of the time of attention over packed documents around the sum over documents, which was not
/// compared with measurements: as wide as the models of kernels without measurements.
constexpr double kPackedSpread = 0.3;

/// Time of fp8 GEMMs with a scale for each row, in PyTorch, relative to one scale for the tensor. Llama 3 8B on 8
/// H100 reaches 6,420 tokens/s with row scales and 7,190 with one scale (torchtitan, commit 7a04053): 12 % of a step,
/// of which these GEMMs are 40 %.
constexpr double kScalesByRow = 1.3;

/// Host time of an all-reduce in eager mode, in place: one call of the communication library, where an operator is
/// Python and several kernels. Fitted on vTrain's small models, which the host bounds: with and without tensor
/// parallelism the error is at most 2 %; with the time of an operator (80 us) models with tensor parallelism are
/// forecast 10 to 20 % too slow.
using namespace literals;
constexpr Duration kAllReduceCall = 25_us;

}  // namespace

void CostTable::select(int gpu, const SlotPlacements& numbers, std::vector<GroupPlacement> placements) {
  if (gpu != gpu_) next_operator_.clear();
  gpu_ = gpu;
  numbers_ = numbers;
  placements_ = std::move(placements);
}

void CostTable::select_context(int ranks) {
  if (ranks != context_ranks_) next_operator_.clear();
  context_ranks_ = ranks;
}

std::int32_t CostTable::operator_index(const Operator& op, bool recomputed) {
  const auto last = static_cast<std::size_t>(last_operator_);
  if (last < next_operator_.size() && next_operator_[last] >= 0) {
    const CostedOperator& expected = graph_.operators[static_cast<std::size_t>(next_operator_[last])];
    if (expected.recomputed == recomputed && expected.op == op) return last_operator_ = next_operator_[last];
  }
  const std::int32_t index = find_operator(op, recomputed);
  if (next_operator_.size() <= last) next_operator_.resize(graph_.operators.size(), -1);
  next_operator_[last] = index;
  return last_operator_ = index;
}

std::int32_t CostTable::find_operator(const Operator& op, bool recomputed) {
  const bool varies = op.kind == OperatorKind::attention && plan_.packed && plan_.training.documents->mask;
  std::vector<std::int32_t>& same_name = operators_[{gpu_, varies ? context_ranks_ : 0, op.name}];
  for (std::int32_t index : same_name) {
    const CostedOperator& known = graph_.operators[static_cast<std::size_t>(index)];
    if (known.recomputed == recomputed && known.op == op) return index;
  }
  const auto index = static_cast<std::int32_t>(graph_.operators.size());
  graph_.operators.push_back({op, costs().of(op), recomputed});
  OperatorCost& cost = graph_.operators.back().cost;
  if (plan_.training.sm_margin) cost.beside_collectives = 0;
  if (plan_.training.row_scales && op.kind == OperatorKind::gemm && op.precision == Precision::fp8)
    cost.duration.picoseconds = std::llround(static_cast<double>(cost.duration.picoseconds) * kScalesByRow);
  if (varies) add_batches(index);
  same_name.push_back(index);
  return index;
}

void CostTable::lengths_of(int step, int rank, int microbatch, std::vector<std::int32_t>& lengths) const {
  const PackedSteps& packed = *plan_.packed;
  const auto add = [&](const std::vector<std::int32_t>& pack) {
    lengths.insert(lengths.end(), pack.begin(), pack.end());
  };
  lengths.clear();
  if (packed.dynamic()) {
    const std::int32_t bin = packed.bin(step, rank * plan_.num_microbatches + microbatch);
    const bool own = context_ranks_ == 0 || packed.ranks_of(bin) == context_ranks_;
    if (own) add(packed.packs[static_cast<std::size_t>(bin)]);
    return;
  }
  const auto size = static_cast<int>(plan_.training.micro_batch_size);
  for (int i = 0; i < size; ++i) add(packed.pack(step, (microbatch * plan_.parallel.dp + rank) * size + i));
}

void CostTable::add_batches(std::int32_t index) {
  const PackedSteps& packed = *plan_.packed;
  const int owners = plan_.batch_owners();
  const std::int64_t sequence =
      context_ranks_ == 0 ? packed.sequence : packed.sequence / plan_.parallel.cp * context_ranks_;
  CostedOperator& costed = graph_.operators[static_cast<std::size_t>(index)];
  std::vector<Duration>& row = graph_.varying.durations.emplace_back();
  std::vector<std::int32_t> lengths;
  Wide sum = 0;
  std::size_t worked = 0;
  for (int step = 0; step < packed.steps; ++step)
    for (int owner = 0; owner < owners; ++owner)
      for (int microbatch = 0; microbatch < plan_.num_microbatches; ++microbatch) {
        lengths_of(step, owner, microbatch, lengths);
        row.push_back(lengths.empty() ? Duration{} : costs().over_documents(costed.op, lengths, sequence));
        sum += wide(row.back().picoseconds);
        worked += lengths.empty() ? 0U : 1U;
      }
  graph_.varying.row_of.resize(graph_.operators.size(), -1);
  graph_.varying.row_of.back() = static_cast<std::int32_t>(graph_.varying.durations.size()) - 1;
  graph_.varying.batches = owners * plan_.num_microbatches;
  worked = std::max<std::size_t>(worked, 1);
  costed.cost.duration.picoseconds = static_cast<std::int64_t>((sum + worked / 2) / worked);
  costed.cost.spread = std::hypot(costed.cost.spread, kPackedSpread);
  costed.cost.provenance = Provenance::analytic;
}

Duration CostTable::operator_time(const Operator& op, bool recomputed) {
  return graph_.operators[static_cast<std::size_t>(find_operator(op, recomputed))].cost.duration;
}

Slot CostTable::context_slot() const {
  if (context_ranks_ == plan_.parallel.cp) return Slot::context;
  switch (context_ranks_) {
    case 2:
      return Slot::context_2;
    case 4:
      return Slot::context_4;
    case 8:
      return Slot::context_8;
    case 16:
      return Slot::context_16;
    default:
      return Slot::context;
  }
}

CostTable::CallKey CostTable::key_of(const GroupCall& what) const {
  TRACECAST_ASSERT(placement(what.slot).ranks > 1, "a collective needs a group of at least two");
  const auto slot = static_cast<std::int32_t>(what.slot);
  return {slot, numbers_[static_cast<std::size_t>(slot)], what.traffic, what.call, what.tiled};
}

std::int32_t CostTable::collective_index(const GroupCall& what) {
  const CallKey key = key_of(what);
  const auto [found, added] = collectives_.try_emplace(key, static_cast<std::int32_t>(graph_.collectives.size()));
  if (added)
    graph_.collectives.push_back(
        {what.traffic, key.slot, what.call, network_.cost(what.call, placement(what.slot)), what.tiled});
  return found->second;
}

Duration CostTable::collective_time(const GroupCall& what) {
  const auto [found, added] = collective_times_.try_emplace(key_of(what));
  if (added) found->second = network_.cost(what.call, placement(what.slot)).duration;
  return found->second;
}

std::int32_t CostTable::fixed_index(const GroupCall& what, const CollectiveCost& cost) {
  const auto slot = static_cast<std::int32_t>(what.slot);
  const auto found = std::find_if(graph_.collectives.begin(), graph_.collectives.end(), [&](const auto& known) {
    return known.traffic == what.traffic && known.slot == slot && known.call == what.call &&
           known.cost.duration == cost.duration;
  });
  const auto index = static_cast<std::int32_t>(found - graph_.collectives.begin());
  if (found == graph_.collectives.end()) graph_.collectives.push_back({what.traffic, slot, what.call, cost});
  return index;
}

TemplateWriter::TemplateWriter(StepGraph& graph, CostTable& table, Template& out, Launch launch, bool overlap_tensor)
    : graph_(graph), table_(table), out_(out), launch_(launch), host_(launch.eager), overlap_tensor_(overlap_tensor) {}

void TemplateWriter::compute(const Operator& op, bool recomputed) {
  Op issued;
  issued.payload = table_.operator_index(op, recomputed);
  issued.duration = graph_.operators[static_cast<std::size_t>(issued.payload)].cost.duration;
  issued.host = host_;
  issued.waits = std::exchange(pending_, {});
  last_compute_ = static_cast<std::int32_t>(out_.ops.size());
  out_.ops.push_back(std::move(issued));
}

void TemplateWriter::wait(EventRef event) {
  if (!event.none()) pending_.push_back(event);
}

void TemplateWriter::pause() {
  Op op;
  op.waits = std::exchange(pending_, {});
  last_compute_ = static_cast<std::int32_t>(out_.ops.size());
  out_.ops.push_back(std::move(op));
}

EventRef TemplateWriter::new_local_event() {
  const EventRef event{locals_++, EventRef::kLocal};
  graph_.local_events = std::max(graph_.local_events, locals_);
  return event;
}

EventRef TemplateWriter::mark() {
  if (last_compute_ < 0 || !pending_.empty()) pause();
  EventRef& records = out_.ops[static_cast<std::size_t>(last_compute_)].records;
  if (!records.none() && !records.local()) pause();
  Op& op = out_.ops[static_cast<std::size_t>(last_compute_)];
  if (op.records.none()) op.records = new_local_event();
  return op.records;
}

void TemplateWriter::mark_as(EventRef rank_event) {
  if (last_compute_ < 0 || !pending_.empty() || !out_.ops[static_cast<std::size_t>(last_compute_)].records.none())
    pause();
  out_.ops[static_cast<std::size_t>(last_compute_)].records = rank_event;
}

EventRef TemplateWriter::collective(const GroupCall& what, std::vector<EventRef> after, EventRef records) {
  return issue(what.lane, table_.collective_index(what), std::move(after), records);
}

EventRef TemplateWriter::fixed(const GroupCall& what, const CollectiveCost& cost, std::vector<EventRef> after,
                               EventRef records) {
  return issue(what.lane, table_.fixed_index(what, cost), std::move(after), records);
}

EventRef TemplateWriter::issue(Lane lane, std::int32_t collective, std::vector<EventRef> after, EventRef records) {
  Op op;
  op.type = OpType::collective;
  op.stream = static_cast<StreamId>(lane);
  op.payload = collective;
  const CostedCollective& called = graph_.collectives[static_cast<std::size_t>(collective)];
  op.duration = called.cost.duration;
  op.host = called.call.collective == Collective::all_reduce ? std::min(host_, kAllReduceCall) : host_;
  op.waits = std::move(after);
  op.records = records.none() ? new_local_event() : records;
  return out_.ops.emplace_back(std::move(op)).records;
}

void TemplateWriter::transfer(OpType type, StreamId stream, std::int32_t message, std::vector<EventRef> after,
                              EventRef records) {
  Op op;
  op.type = type;
  op.stream = stream;
  op.payload = message;
  op.duration = graph_.messages[static_cast<std::size_t>(message)].cost.duration;
  op.host = host_;
  op.waits = std::move(after);
  op.records = records;
  out_.ops.push_back(std::move(op));
}

void TemplateWriter::host_sync(EventRef after) {
  Op op;
  op.type = OpType::host_sync;
  op.waits = {after};
  out_.ops.push_back(std::move(op));
  last_compute_ = -1;  // what follows is in another template
}

void TemplateWriter::finish() {
  if (!pending_.empty()) pause();
}

Lane TemplateWriter::lane(Traffic traffic) {
  switch (traffic) {
    case Traffic::context_parallel:
      return Lane::context;
    case Traffic::expert_parallel:
      return Lane::expert;
    default:
      return Lane::tensor;
  }
}

Slot TemplateWriter::slot(const Work& work) const {
  switch (work.traffic) {
    case Traffic::context_parallel:
      return table_.context_slot();
    case Traffic::expert_parallel:
      return Slot::expert;
    default:
      return work.among_experts && table_.placement(Slot::expert_tensor).ranks > 1 ? Slot::expert_tensor : Slot::tensor;
  }
}

Duration TemplateWriter::launch_time(const Work& work) const {
  if (work.shares_launch) return {};
  if (work.graphed) return launch_.graphed;
  return work.calls > 0 ? work.calls * launch_.call : launch_.eager;
}

Duration TemplateWriter::multiplication_beside(const WorkList& list, std::size_t index) {
  const auto multiplies = [](const Work& work) {
    return work.kind == Work::Kind::compute && work.op.kind == OperatorKind::gemm;
  };
  const auto at = list.begin() + static_cast<std::ptrdiff_t>(index);
  const bool gathers = at->call.collective == Collective::all_gather;
  if (gathers) {
    const auto next = std::find_if(at, list.end(), multiplies);
    return next == list.end() ? Duration{} : table_.operator_time(next->op, next->recomputed);
  }
  // The matrix's own multiplication makes what is reduced; its adapters, which follow it, are calls of the framework.
  const auto own =
      std::find_if(std::reverse_iterator(at), list.rend(), [](const Work& work) { return work.calls == 0; });
  return own == list.rend() || !multiplies(*own) ? Duration{} : table_.operator_time(own->op, own->recomputed);
}

void TemplateWriter::tile(GroupCall& whole, const WorkList& list, std::size_t index) {
  const Duration time = table_.collective_time(whole);
  if (time.picoseconds <= 0) return;
  const double hidden =
      std::min(1 - kTiledExposedShare, static_cast<double>(multiplication_beside(list, index).picoseconds) /
                                           static_cast<double>(time.picoseconds));
  whole.tiled.count = std::llround(hidden * static_cast<double>(whole.call.size.count));
  whole.call.size -= whole.tiled;
}

void TemplateWriter::write_one(const WorkList& list, std::size_t index) {
  const Work& work = list[index];
  host_ = launch_time(work);
  if (!work.graphed && work.kind == Work::Kind::compute && work.op.kind == OperatorKind::grouped_gemm)
    host_ += std::get<GemmShape>(work.op.shape).batch * launch_.per_expert;
  switch (work.kind) {
    case Work::Kind::compute:
      compute(work.op, work.recomputed);
      break;
    case Work::Kind::start:
      started_[work.ticket] = collective({lane(work.traffic), work.traffic, slot(work), work.call}, {mark()});
      break;
    case Work::Kind::join:
      wait(started_.at(work.ticket));
      break;
    case Work::Kind::collective: {
      if (table_.placement(slot(work)).ranks <= 1) break;
      GroupCall whole{lane(work.traffic), work.traffic, slot(work), work.call};
      if (overlap_tensor_ && work.traffic == Traffic::tensor_parallel && !work.untiled) tile(whole, list, index);
      wait(collective(whole, {mark()}));
      break;
    }
    case Work::Kind::host_sync:
      host_sync(mark());
      break;
    case Work::Kind::gradients:
      break;
  }
  host_ = launch_.eager;
}

}  // namespace tracecast
