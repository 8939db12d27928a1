#include "sim/graph/without_overlap.hpp"

#include <algorithm>
#include <utility>

namespace tracecast {
namespace {

class Serialiser {
 public:
  explicit Serialiser(const Template& source) {
    for (const Op& op : source.ops)
      if (op.records.local()) locals_ = std::max(locals_, op.records.base + 1);
    // The compute stream alone is in order across templates: each one begins and ends on it.
    if (!source.ops.empty() && source.ops.front().stream != kComputeStream) ops_.push_back(Op{});
    for (const Op& op : source.ops) {
      add(op);
      // The compute stream waits for each transfer separately, so that wait time and transfer time are recorded for
      // each.
      if (op.stream != kComputeStream) add(Op{});
    }
  }

  std::vector<Op> take() { return std::move(ops_); }
  std::int32_t locals() const { return locals_; }

 private:
  void add(Op op) {
    if (!ops_.empty() && ops_.back().stream != op.stream) {
      Op& before = ops_.back();
      if (before.records.none()) before.records = {locals_++, EventRef::kLocal};
      if (std::find(op.waits.begin(), op.waits.end(), before.records) == op.waits.end())
        op.waits.push_back(before.records);
    }
    ops_.push_back(std::move(op));
  }

  std::vector<Op> ops_;
  std::int32_t locals_ = 0;
};

}  // namespace

StepGraph without_overlap(StepGraph graph) {
  for (Template& each : graph.templates) {
    Serialiser serialiser(each);
    each.ops = serialiser.take();
    graph.local_events = std::max(graph.local_events, serialiser.locals());
  }
  for (Message& message : graph.messages) message.eager = true;
  return graph;
}

}  // namespace tracecast
