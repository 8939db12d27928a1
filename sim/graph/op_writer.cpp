#include "sim/graph/op_writer.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "sim/base/integers.hpp"
#include "sim/plan/fine_tuning.hpp"

namespace tracecast {

LayerShape::LayerShape(const Model& model_in, const Plan& plan_in, int layer_in, int expert_nodes_in, bool one_table_in)
    : model(model_in),
      plan(plan_in),
      training(plan.training),
      layer(layer_in),
      expert_nodes(expert_nodes_in),
      one_table(one_table_in),
      tp(plan.parallel.tp),
      tokens(plan.tokens()),
      sequence_parallel(plan.parallel.sequence_parallel && tp > 1),
      local_tokens(sequence_parallel ? ceil_div(tokens, tp) : tokens),
      element_bytes(wide_size(training)) {}

LayerShape::LayerShape(const LayerShape& all, std::int64_t tokens_in)
    : model(all.model),
      plan(all.plan),
      training(all.training),
      layer(all.layer),
      expert_nodes(all.expert_nodes),
      one_table(all.one_table),
      tp(all.tp),
      tokens(tokens_in),
      sequence_parallel(all.sequence_parallel),
      local_tokens(sequence_parallel ? ceil_div(tokens, tp) : tokens),
      element_bytes(all.element_bytes) {}

bool LayerShape::trains_weights() const { return tracecast::trains_weights(model, training, layer); }

bool LayerShape::sums_blocks() const {
  return model.parallel_residual && layer >= 0 && !gathers_layers() && model.mixer(layer) == Mixer::attention &&
         model.has_feed_forward(layer) && !model.is_moe_layer(layer);
}

bool LayerShape::gathers_layers() const { return plan.parallel.tp_split == TensorSplit::gather && tp > 1; }

void OpWriter::append(WorkList more) { std::move(more.begin(), more.end(), std::back_inserter(list_)); }

void OpWriter::compute(OperatorKind kind, Pass pass, Precision precision, std::string name, OperatorShape operands) {
  Work work;
  work.op = {kind, pass, precision, std::move(name), operands};
  work.recomputed = recomputed_;
  list_.push_back(std::move(work));
}

void OpWriter::elementwise(OperatorKind kind, Pass pass, const std::string& name, std::int64_t elements,
                           std::int64_t bytes_per_element) {
  if (elements > 0)
    compute(kind, pass, Precision::bf16, name, ElementwiseShape{elements, Bytes{elements * bytes_per_element}});
}

bool OpWriter::captures(GraphModule module) const {
  const std::vector<std::string>& captured = shape.training.cuda_graph_modules;
  return std::find(captured.begin(), captured.end(), to_string(module)) != captured.end();
}

void OpWriter::capture(GraphModule module, const std::function<void()>& part) {
  const std::size_t first = list_.size();
  part();
  if (!captures(module)) return;
  for (std::size_t i = first + 1; i < list_.size(); ++i) list_[i].graphed = true;
}

void OpWriter::collective(Traffic traffic, Collective what, Bytes size, Work::Kind kind, int ticket) {
  Work work;
  work.kind = kind;
  work.traffic = traffic;
  work.call.collective = what;
  work.call.size = size;
  work.ticket = ticket;
  work.recomputed = recomputed_;
  work.untiled = shape.layer < 0;  // Megatron-LM's embedding, output layer and loss have no tiles
  list_.push_back(std::move(work));
}

void OpWriter::exchange_experts(const CollectiveCall& call, int ticket) {
  collective(Traffic::expert_parallel, call.collective, call.size, Work::Kind::start, ticket);
  list_.back().call = call;
}

void OpWriter::expert_tensor_collective(Collective what, Bytes size) {
  collective(Traffic::tensor_parallel, what, size);
  list_.back().among_experts = list_.back().untiled = true;
}

void OpWriter::join(int ticket) {
  Work work;
  work.kind = Work::Kind::join;
  work.ticket = ticket;
  list_.push_back(std::move(work));
}

void OpWriter::host_sync() {
  Work work;
  work.kind = Work::Kind::host_sync;
  list_.push_back(std::move(work));
}

void OpWriter::gradients(std::int64_t parameters, bool expert) {
  if (parameters == 0) return;
  Work work;
  work.kind = Work::Kind::gradients;
  work.parameters = parameters;
  work.expert_parameters = expert;
  list_.push_back(std::move(work));
}

Moved widened(Moved moved, const LayerShape& shape) {
  return {moved.forward * shape.element_bytes / 2, moved.backward * shape.element_bytes / 2};
}

}  // namespace tracecast
