#include "sim/graph/layer.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <catch2/catch.hpp>

#include "tests/graph/layers.hpp"
#include "tests/support/models.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

using Calls = std::map<Collective, int>;

/// What one of `ranks` ranks sends, with the factors of a ring.
double wire_bytes(const WorkList& list, int ranks) {
  double sum = 0;
  for (const Work& work : list)
    if (is_collective(work))
      sum += (work.call.collective == Collective::all_reduce ? 2.0 : 1.0) * static_cast<double>(work.call.size.count) *
             (ranks - 1) / ranks;
  return sum;
}

}  // namespace

TEST_CASE("layer: GEMM shapes of Llama-3 70B on 8 tensor ranks", "[oracle][graph]") {
  const Model model = llama3_70b();
  const Plan plan = layer_plan(model, 8, true);
  const WorkList forward = LayerWork(model, plan).forward(0);
  CHECK(std::get<GemmShape>(find_operator(forward, "qkv").shape) == GemmShape{8192, 1280, 8192, 1, false});
  CHECK(std::get<GemmShape>(find_operator(forward, "proj").shape) == GemmShape{8192, 8192, 1024, 1, false});
  CHECK(std::get<GemmShape>(find_operator(forward, "fc1").shape) == GemmShape{8192, 7168, 8192, 1, false});
  CHECK(std::get<GemmShape>(find_operator(forward, "fc2").shape) == GemmShape{8192, 8192, 3584, 1, false});
  CHECK(matrix_flops(forward) == Approx(1.752347e12).epsilon(1e-6));
  CHECK(flops(find_operator(forward, "attention")).count == Approx(1.374390e11).epsilon(1e-6));
  const WorkList head = LayerWork(model, plan).head_forward();
  CHECK(flops(find_operator(head, "lm_head")).count == Approx(2.151779e12).epsilon(1e-6));
}

TEST_CASE("layer: the backward has one dgrad and one wgrad for every GEMM, of equal FLOPs", "[graph]") {
  const Model model = llama3_70b();
  const Plan plan = layer_plan(model, 8, true);
  const LayerWork work(model, plan);
  CHECK(matrix_flops(work.backward(0, BackwardPart::all, false)) == 2 * matrix_flops(work.forward(0)));
  CHECK(matrix_flops(work.backward(0, BackwardPart::input_gradients, false)) == matrix_flops(work.forward(0)));
  CHECK(matrix_flops(work.backward(0, BackwardPart::weight_gradients, false)) == matrix_flops(work.forward(0)));
  CHECK(matrix_flops(work.backward(0, BackwardPart::all, true)) == 3 * matrix_flops(work.forward(0)));
}

TEST_CASE("layer: tensor-parallel traffic of one layer", "[oracle][graph]") {
  const Model model = llama3_70b();
  const auto both = [&](bool sequence_parallel) {
    const Plan plan = layer_plan(model, 8, sequence_parallel);
    const LayerWork work(model, plan);
    return std::pair{work.forward(0), work.backward(0, BackwardPart::all, false)};
  };
  // Without sequence parallelism: 4 all-reduces of 2 T h bytes, 8 (t-1)/t m on the wire.
  const auto [forward, backward] = both(false);
  CHECK(calls_of(forward) == Calls{{Collective::all_reduce, 2}});
  CHECK(calls_of(backward) == Calls{{Collective::all_reduce, 2}});
  CHECK(wire_bytes(forward, 8) + wire_bytes(backward, 8) == Approx(939.5e6).epsilon(1e-4));
  // With it: forward 2 AG + 2 RS; backward 2 RS, 2 AG of output gradients, 2 AG of inputs: 10 (t-1)/t m.
  const auto [divided_forward, divided_backward] = both(true);
  CHECK(calls_of(divided_forward) == Calls{{Collective::all_gather, 2}, {Collective::reduce_scatter, 2}});
  CHECK(calls_of(divided_backward) == Calls{{Collective::all_gather, 4}, {Collective::reduce_scatter, 2}});
  CHECK(wire_bytes(divided_forward, 8) + wire_bytes(divided_backward, 8) == Approx(1174.4e6).epsilon(1e-4));
}

TEST_CASE("layer: ring attention passes each block of keys and values on once", "[oracle][graph]") {
  Model model = llama3_70b();
  const Parallel parallel{.tp = 8, .cp = 16};
  const Training training{.seq_length = 131072, .global_batch_size = 1};
  const Plan plan = make_plan(model, parallel, training, 128).value();
  std::int64_t moved = 0;
  double attention = 0;
  for (const Work& work : LayerWork(model, plan).forward(0)) {
    if (work.kind == Work::Kind::start) {
      CHECK(work.call.size.count == 4'194'304);
      moved += work.call.size.count;
    }
    if (work.kind == Work::Kind::compute && work.op.kind == OperatorKind::attention) attention += flops(work.op).count;
  }
  CHECK(moved == 62'914'560);
  // All ranks together do the causal half of 4 b s^2 a d / t: each a sixteenth.
  CHECK(attention == Approx(4.0 * 131072.0 * 131072.0 * 8 * 128 / 2 / 16));
}

namespace {

double attention_flops_of(const WorkList& list) {
  double sum = 0;
  for (const Work& work : list)
    if (work.kind == Work::Kind::compute && work.op.kind == OperatorKind::attention) sum += flops(work.op).count;
  return sum;
}

}  // namespace

TEST_CASE("layer: a window takes as much work in a ring as gathered or exchanged, and none where nothing is in it",
          "[property][graph]") {
  Model model = llama3_70b();
  model.sliding_window = GENERATE(0, 1000, 1024, 20000, 65536, 1 << 20);
  const Training training{.seq_length = 65536, .global_batch_size = 1};
  const auto core_of = [&](ContextExchange exchange, Pass pass) {
    const Plan plan = make_plan(model, {.cp = 8, .cp_comm_type = exchange}, training, 8).value();
    const LayerWork work(model, plan);
    return pass == Pass::forward ? work.forward(0) : work.backward(0, BackwardPart::all, false);
  };
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const double gathered = attention_flops_of(core_of(ContextExchange::all_gather, pass));
    CHECK(attention_flops_of(core_of(ContextExchange::p2p, pass)) == Approx(gathered).epsilon(1e-12));
    CHECK(attention_flops_of(core_of(ContextExchange::a2a, pass)) == Approx(gathered).epsilon(1e-12));
  }
  // Pieces of 4096 tokens: with 1,024 keys only the next earlier piece is in reach, which comes first or last.
  const WorkList ring = core_of(ContextExchange::p2p, Pass::forward);
  const auto kernels = std::ranges::count_if(ring, [](const Work& work) {
    return work.kind == Work::Kind::compute && work.op.kind == OperatorKind::attention;
  });
  if (model.sliding_window == 1024) CHECK(kernels == 3);
  if (model.sliding_window == 0) CHECK(kernels == 8);
}

TEST_CASE("layer: heads that are exchanged for sequence, and copies of fewer heads of keys", "[oracle][graph]") {
  Model model = llama3_70b();  // 64 heads of 128, 8 of keys and values
  const Training training{.seq_length = 65536, .global_batch_size = 1};
  const auto exchanged = [&](int cp) {
    const Plan plan = make_plan(model, {.cp = cp, .cp_comm_type = ContextExchange::a2a}, training, cp).value();
    const WorkList list = LayerWork(model, plan).forward(0);
    CHECK(std::get<AttentionShape>(find_operator(list, "attention").shape).kv_heads == std::max(1, 8 / cp));
    std::int64_t sum = 0;
    for (const Work& work : list) {
      if (work.kind == Work::Kind::compute && work.op.kind == OperatorKind::attention) break;
      if (is_collective(work)) sum += cp * work.call.size.count;
    }
    return sum;
  };
  // All ranks together: queries, and keys and values of at least one head for each rank.
  CHECK(exchanged(4) == 65536LL * (64 + 2 * 8) * 128 * 2);
  CHECK(exchanged(8) == 65536LL * (64 + 2 * 8) * 128 * 2);
  CHECK(exchanged(32) == 65536LL * (64 + 2 * 32) * 128 * 2);
  model.num_query_groups = 1;
  CHECK(exchanged(8) == 65536LL * (64 + 2 * 8) * 128 * 2);
  // Backward the gradient of the result; Transformer Engine also sends the result.
  const auto returned = [&](bool transformer_engine) {
    Training with = training;
    with.transformer_engine = transformer_engine;
    const Plan plan = make_plan(model, {.cp = 8, .cp_comm_type = ContextExchange::a2a}, with, 8).value();
    std::int64_t sum = 0;
    for (const Work& work : LayerWork(model, plan).backward(0, BackwardPart::all, false)) {
      if (work.kind == Work::Kind::compute && work.op.kind == OperatorKind::attention) break;
      if (is_collective(work)) sum += 8 * work.call.size.count;
    }
    return sum;
  };
  CHECK(returned(false) == 65536LL * 64 * 128 * 2);
  CHECK(returned(true) == 2 * 65536LL * 64 * 128 * 2);
}

TEST_CASE("layer: parameters of a rank add up to the model", "[graph]") {
  const Model model = llama3_70b();
  const Plan plan = layer_plan(model, 8, true);
  const LayerWork work(model, plan);
  // Norm weights are held by every tensor rank, matrices are divided.
  const std::int64_t matrices = work.layer_parameters(0) - 2 * model.hidden_size;
  CHECK(8 * matrices + 2 * model.hidden_size == layer_parameters(model, 0));
  std::int64_t announced = 0;
  for (const Work& each : work.backward(0, BackwardPart::all, false)) announced += each.parameters;
  CHECK(announced == work.layer_parameters(0));
}

TEST_CASE("layer: a split backward does every operator of the whole one once", "[graph]") {
  Model model = llama3_70b();
  model.dropout = 0.1;
  const Plan plan = layer_plan(model, 8, true);
  const LayerWork work(model, plan);
  const auto operators = [&](BackwardPart part) {
    std::multiset<std::string> names;
    for (const Work& each : work.backward(0, part, false))
      if (each.kind == Work::Kind::compute) names.insert(each.op.name + " " + to_string(each.op.pass));
    return names;
  };
  std::multiset<std::string> parts = operators(BackwardPart::input_gradients);
  parts.merge(operators(BackwardPart::weight_gradients));
  CHECK(parts == operators(BackwardPart::all));
}

TEST_CASE("layer: DTensor copies what it gathers and reduces, keeps it, and overlaps nothing", "[graph]") {
  const Model model = llama3_70b();
  struct Count {
    int gathers = 0, reductions = 0, copies = 0, overlapped = 0;
    bool operator==(const Count&) const = default;
  };
  const auto counted = [](const WorkList& list) {
    Count count;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Work& work = list[i];
      const bool call = is_collective(work);
      count.gathers += call && work.call.collective == Collective::all_gather ? 1 : 0;
      count.reductions += call && work.call.collective == Collective::reduce_scatter ? 1 : 0;
      count.copies += work.kind == Work::Kind::compute && work.op.name == "sequence_copy" ? 1 : 0;
      count.overlapped += work.kind == Work::Kind::start && list[i + 1].kind != Work::Kind::join ? 1 : 0;
    }
    return count;
  };
  const auto passes = [&](bool dtensor, bool overlap, Recompute recompute) {
    Plan plan = layer_plan(model, 8, true, recompute);
    plan.parallel.dtensor = dtensor;
    plan.parallel.tp_comm_overlap = overlap;
    const LayerWork work(model, plan);
    return std::pair{counted(work.forward(0)),
                     counted(work.backward(0, BackwardPart::all, recompute == Recompute::full))};
  };
  CHECK(passes(false, false, Recompute::none) == std::pair{Count{2, 2, 0, 0}, Count{4, 2, 0, 2}});
  // Backward: the gradients of both results are gathered, those of both inputs reduced.
  CHECK(passes(true, false, Recompute::none) == std::pair{Count{2, 2, 4, 0}, Count{2, 2, 4, 0}});
  CHECK(passes(true, false, Recompute::selective_op).second == Count{4, 2, 6, 0});
  CHECK(passes(true, false, Recompute::full).second == Count{4, 4, 8, 0});
  // Asynchronous tensor parallelism exchanges in pieces, but not the sums of several input gradients.
  CHECK(passes(true, true, Recompute::none) == std::pair{Count{2, 2, 0, 0}, Count{2, 2, 2, 0}});
}

TEST_CASE("layer: a gather whose result is quantised by rows is not tiled", "[graph]") {
  const Model model = llama3_70b();
  const auto untiled = [&](Precision precision, bool by_row) {
    Plan plan = layer_plan(model, 8, true);
    plan.parallel.dtensor = plan.parallel.tp_comm_overlap = true;
    plan.training.dtype = precision;
    plan.training.row_scales = by_row;
    int gathers = 0;
    int copies = 0;
    for (const Work& work : LayerWork(model, plan).forward(0)) {
      if (work.untiled) CHECK(work.call.collective == Collective::all_gather);
      gathers += work.untiled ? 1 : 0;
      copies += work.kind == Work::Kind::compute && work.op.name == "sequence_copy" ? 1 : 0;
    }
    return std::pair{gathers, copies};
  };
  CHECK(untiled(Precision::bf16, false) == std::pair{0, 0});
  CHECK(untiled(Precision::fp8, false) == std::pair{0, 0});
  CHECK(untiled(Precision::fp8, true) == std::pair{2, 2});
}

TEST_CASE("layer: without asynchronous all-reduces an input's gradient waits for that of the weights", "[graph]") {
  const Model model = llama3_70b();
  const auto order = [&](bool asynchronous, bool sequence_parallel) {
    Plan plan = layer_plan(model, 8, sequence_parallel);
    plan.parallel.tp_async_allreduce = asynchronous;
    const WorkList list = LayerWork(model, plan).backward(0, BackwardPart::all, false);
    const auto position = [&](const auto& is) { return std::find_if(list.begin(), list.end(), is) - list.begin(); };
    const auto weights =
        position([](const Work& work) { return work.op.name == "fc1" && work.op.pass == Pass::wgrad; });
    const auto reduction = position([](const Work& work) {
      return work.kind == Work::Kind::start && work.call.collective != Collective::all_gather;
    });
    return reduction < weights;
  };
  CHECK(order(true, false));
  CHECK_FALSE(order(false, false));
  CHECK(order(false, true));  // Megatron-LM's sequence parallelism always overlaps
}
