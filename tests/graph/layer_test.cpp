#include "sim/graph/layer.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <catch2/catch.hpp>

#include "tests/support/models.hpp"

using namespace tracecast;
using tracecast::test::llama3_70b;

namespace {

Plan plan_of(const Model& model, int tp, bool sequence_parallel, Recompute recompute = Recompute::none, int cp = 1) {
  Parallel parallel;
  parallel.tp = tp;
  parallel.cp = cp;
  parallel.sequence_parallel = sequence_parallel;
  Training training;
  training.seq_length = 8192;
  training.global_batch_size = 1;
  training.recompute = recompute;
  return make_plan(model, parallel, training, tp * cp).value();
}

const Operator& find(const WorkList& list, const std::string& name, Pass pass = Pass::forward) {
  for (const Work& work : list)
    if (work.kind == Work::Kind::compute && work.op.name == name && work.op.pass == pass) return work.op;
  FAIL("no operator " << name);
  return list.front().op;
}

double matrix_flops(const WorkList& list) {
  double sum = 0;
  for (const Work& work : list)
    if (work.kind == Work::Kind::compute && work.op.kind == OperatorKind::gemm) sum += flops(work.op).count;
  return sum;
}

struct CallCount {
  int all_reduce = 0;
  int all_gather = 0;
  int reduce_scatter = 0;
  double wire_bytes = 0;  ///< sent by one rank, ring factors of `ranks`
};

CallCount count_calls(const WorkList& list, int ranks) {
  CallCount count;
  for (const Work& work : list) {
    if (work.kind != Work::Kind::collective && work.kind != Work::Kind::start) continue;
    const double share = static_cast<double>(work.call.size.count) * (ranks - 1) / ranks;
    switch (work.call.collective) {
      case Collective::all_reduce:
        ++count.all_reduce;
        count.wire_bytes += 2 * share;
        break;
      case Collective::all_gather:
        ++count.all_gather;
        count.wire_bytes += share;
        break;
      case Collective::reduce_scatter:
        ++count.reduce_scatter;
        count.wire_bytes += share;
        break;
      default:
        FAIL("unexpected collective");
    }
  }
  return count;
}

}  // namespace

TEST_CASE("layer: GEMM shapes of Llama-3 70B on 8 tensor ranks", "[oracle][graph]") {
  const Model model = llama3_70b();
  const Plan plan = plan_of(model, 8, true);
  const WorkList forward = LayerWork(model, plan).forward(0);
  CHECK(std::get<GemmShape>(find(forward, "qkv").shape) == GemmShape{8192, 1280, 8192, 1, false});
  CHECK(std::get<GemmShape>(find(forward, "proj").shape) == GemmShape{8192, 8192, 1024, 1, false});
  CHECK(std::get<GemmShape>(find(forward, "fc1").shape) == GemmShape{8192, 7168, 8192, 1, false});
  CHECK(std::get<GemmShape>(find(forward, "fc2").shape) == GemmShape{8192, 8192, 3584, 1, false});
  CHECK(matrix_flops(forward) == Approx(1.752347e12).epsilon(1e-6));
  CHECK(flops(find(forward, "attention")).count == Approx(1.374390e11).epsilon(1e-6));
  const WorkList head = LayerWork(model, plan).head_forward();
  CHECK(flops(find(head, "lm_head")).count == Approx(2.151779e12).epsilon(1e-6));
}

TEST_CASE("layer: the backward has one dgrad and one wgrad for every GEMM, of equal FLOPs", "[graph]") {
  const Model model = llama3_70b();
  const Plan plan = plan_of(model, 8, true);
  const LayerWork work(model, plan);
  CHECK(matrix_flops(work.backward(0, BackwardPart::all, false)) == 2 * matrix_flops(work.forward(0)));
  CHECK(matrix_flops(work.backward(0, BackwardPart::input_gradients, false)) == matrix_flops(work.forward(0)));
  CHECK(matrix_flops(work.backward(0, BackwardPart::weight_gradients, false)) == matrix_flops(work.forward(0)));
  CHECK(matrix_flops(work.backward(0, BackwardPart::all, true)) == 3 * matrix_flops(work.forward(0)));
}

TEST_CASE("layer: tensor-parallel traffic of one layer", "[oracle][graph]") {
  const Model model = llama3_70b();
  // Without sequence parallelism: 4 all-reduces of 2 T h bytes, 8 (t-1)/t m on the wire.
  const Plan plain = plan_of(model, 8, false);
  CallCount count = count_calls(LayerWork(model, plain).forward(0), 8);
  CHECK(count.all_reduce == 2);
  const CallCount backward = count_calls(LayerWork(model, plain).backward(0, BackwardPart::all, false), 8);
  CHECK(backward.all_reduce == 2);
  CHECK(count.wire_bytes + backward.wire_bytes == Approx(939.5e6).epsilon(1e-4));
  // With it: forward 2 AG + 2 RS; backward 2 RS, 2 AG of output gradients, 2 AG of inputs: 10 (t-1)/t m.
  const Plan sequence = plan_of(model, 8, true);
  count = count_calls(LayerWork(model, sequence).forward(0), 8);
  const CallCount sequence_backward = count_calls(LayerWork(model, sequence).backward(0, BackwardPart::all, false), 8);
  CHECK(count.all_gather == 2);
  CHECK(count.reduce_scatter == 2);
  CHECK(sequence_backward.all_gather == 4);
  CHECK(sequence_backward.reduce_scatter == 2);
  CHECK(count.wire_bytes + sequence_backward.wire_bytes == Approx(1174.4e6).epsilon(1e-4));
}

TEST_CASE("layer: full recomputation repeats the forward with its collectives, selective only the core", "[graph]") {
  const Model model = llama3_70b();
  const Plan plan = plan_of(model, 8, false, Recompute::full);
  const CallCount full = count_calls(LayerWork(model, plan).backward(0, BackwardPart::all, true), 8);
  CHECK(full.all_reduce == 4);
  const Plan selective = plan_of(model, 8, false, Recompute::selective);
  int repeated = 0;
  for (const Work& work : LayerWork(model, selective).backward(0, BackwardPart::all, false))
    if (work.recomputed) {
      ++repeated;
      CHECK(work.op.kind == OperatorKind::attention);
    }
  CHECK(repeated == 1);
}

TEST_CASE("layer: ring attention passes each block of keys and values on once", "[oracle][graph]") {
  Model model = llama3_70b();
  Parallel parallel;
  parallel.tp = 8;
  parallel.cp = 16;
  Training training;
  training.seq_length = 131072;
  training.global_batch_size = 1;
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

TEST_CASE("layer: attention in 8 bits reads quantised operands, forward and backward", "[oracle][graph]") {
  const Model model = llama3_70b();
  struct Lists {
    WorkList forward;
    WorkList backward;
  };
  const auto work = [&](Precision dtype, bool fp8_attention, const std::vector<std::string>& wide = {}) {
    Training training;
    training.seq_length = 8192;
    training.global_batch_size = 1;
    training.dtype = dtype;
    training.fp8_attention = fp8_attention;
    training.bf16_modules = wide;
    Parallel parallel;
    parallel.tp = 8;
    const Plan plan = make_plan(model, parallel, training, 8).value();
    const LayerWork layer(model, plan);
    return Lists{layer.forward(0), layer.backward(0, BackwardPart::all, false)};
  };
  const auto bytes = [](const Operator& op) {
    return static_cast<double>(std::get<ElementwiseShape>(op.shape).traffic.count);
  };
  // 8 query heads, one key and one value head of 128 on each rank: 2 bytes read, one written, with MXFP8 two and a scale for 32.
  const double read = 8192.0 * 10 * 128, gradient = 8192.0 * 8 * 128;
  const Lists per_tensor = work(Precision::fp8, true), blocks = work(Precision::mxfp8, true);
  CHECK(find(per_tensor.forward, "attention").precision == Precision::fp8);
  CHECK(bytes(find(per_tensor.forward, "attention cast")) == Approx(read * 3));
  CHECK(bytes(find(blocks.forward, "attention cast")) == Approx(read * (4 + 2.0 / 32)));
  CHECK(bytes(find(blocks.backward, "d_attention cast", Pass::backward)) == Approx(gradient * (4 + 2.0 / 32)));
  CHECK(find(blocks.backward, "attention", Pass::backward).precision == Precision::mxfp8);
  const Lists wide = work(Precision::fp8, false);
  CHECK(find(wide.forward, "attention").precision == Precision::bf16);
  CHECK(std::none_of(wide.forward.begin(), wide.forward.end(),
                     [](const Work& item) { return item.op.name == "attention cast"; }));
  // Where the linear layers of attention stay in 16 bit, it does too.
  CHECK(find(work(Precision::fp8, true, {"attention"}).forward, "attention").precision == Precision::bf16);
}

TEST_CASE("layer: parameters of a rank add up to the model", "[graph]") {
  const Model model = llama3_70b();
  const Plan plan = plan_of(model, 8, true);
  const LayerWork work(model, plan);
  // Norm weights are held by every tensor rank, matrices are divided.
  const std::int64_t matrices = work.layer_parameters(0) - 2 * model.hidden_size;
  CHECK(8 * matrices + 2 * model.hidden_size == layer_parameters(model, 0));
  std::int64_t announced = 0;
  for (const Work& each : work.backward(0, BackwardPart::all, false)) announced += each.parameters;
  CHECK(announced == work.layer_parameters(0));
}

/// Bytes that an element-wise operator of the first layer moves.
static std::int64_t bytes_moved(const Model& model, const Plan& plan, const char* name, Pass pass) {
  const LayerWork work(model, plan);
  const WorkList list = pass == Pass::forward ? work.forward(0) : work.backward(0, BackwardPart::all, false);
  return std::get<ElementwiseShape>(find(list, name, pass).shape).traffic.count;
}

TEST_CASE("layer: element-wise work of fp32 moves twice the bytes", "[graph]") {
  const Model model = llama3_70b();
  Plan plan = plan_of(model, 8, true);
  const auto moved = [&](const char* name, Pass pass) { return bytes_moved(model, plan, name, pass); };
  const std::pair<const char*, Pass> works[] = {{"rms_norm", Pass::forward}, {"rms_norm", Pass::backward},
                                                {"residual", Pass::forward}, {"rope", Pass::forward},
                                                {"swiglu", Pass::forward},   {"swiglu", Pass::backward}};
  std::vector<std::int64_t> narrow;
  for (const auto& [name, pass] : works) narrow.push_back(moved(name, pass));
  plan.training.dtype = Precision::fp32;
  for (std::size_t i = 0; i < narrow.size(); ++i) {
    INFO(works[i].first);
    CHECK(moved(works[i].first, works[i].second) == 2 * narrow[i]);
  }
}

TEST_CASE("layer: attention in fp32 multiplies in fp32", "[graph]") {
  const Model model = llama3_70b();
  Plan plan = plan_of(model, 8, true);
  const auto precision = [&] { return find(LayerWork(model, plan).forward(0), "attention", Pass::forward).precision; };
  CHECK(precision() == Precision::bf16);
  plan.training.dtype = Precision::mxfp8;  // attention stays in 16 bit
  CHECK(precision() == Precision::bf16);
  plan.training.dtype = Precision::fp32;
  CHECK(precision() == Precision::fp32);
}

TEST_CASE("layer: DeepSpeed's bf16 optimizer adds weight gradients to the fp32 ones itself", "[oracle][graph]") {
  const Model model = llama3_70b();
  Plan plan = plan_of(model, 8, true);
  plan.training.grad_reduce_dtype = Precision::fp32;
  const auto backward = [&] { return LayerWork(model, plan).backward(0, BackwardPart::all, false); };
  const auto sums = [&](const WorkList& list) {
    std::int64_t bytes = 0;
    for (const Work& each : list)
      if (each.kind == Work::Kind::compute && each.op.name.ends_with("add_gradient"))
        bytes += std::get<ElementwiseShape>(each.op.shape).traffic.count;
    return bytes;
  };
  const auto adds = [&](const WorkList& list) {
    return std::get<GemmShape>(find(list, "fc2", Pass::wgrad).shape).accumulate_fp32;
  };
  CHECK(sums(backward()) == 0);
  CHECK(adds(backward()));
  plan.training.keep_16bit_gradients = true;
  // To fp32: 2 bytes read, 4 written; sum: 8 read, 4 written. Eight ranks share a layer of 855.6 million in matrices.
  constexpr std::int64_t kMatrices = 2LL * 8192 * 8192 + 2LL * 8192 * 1024 + 3LL * 8192 * 28672;
  CHECK(sums(backward()) == 18 * kMatrices / 8);
  CHECK_FALSE(adds(backward()));
  plan.training.dtype = Precision::fp16;  // DeepSpeed's fp16 optimizer has no fp32 gradients
  CHECK(sums(backward()) == 0);
}

TEST_CASE(
    "layer: sums at the residual and copies of queries, keys and values are work, but launches of the layer before "
    "them",
    "[oracle][graph]") {
  const Model model = llama3_70b();
  Plan plan = plan_of(model, 8, true);
  constexpr std::int64_t kTokens = 8192;
  constexpr std::int64_t kElements =
      kTokens / 8 * 8192;                               // with sequence parallelism a rank has an eighth of the tokens
  constexpr std::int64_t kQueries = kTokens * 8 * 128;  // 8 of 64 heads; and one of 8 of keys, one of values
  const auto of_name = [&](const std::string& name, Pass pass) {
    const LayerWork work(model, plan);
    const WorkList list = pass == Pass::forward ? work.forward(0) : work.backward(0, BackwardPart::all, false);
    std::vector<Work> found;
    for (const Work& each : list)
      if (each.kind == Work::Kind::compute && each.op.name == name && each.op.pass == pass) found.push_back(each);
    return found;
  };
  const auto check = [&](const char* name, Pass pass, std::size_t count, std::int64_t bytes, bool shares_launch) {
    INFO(name << " " << to_string(pass));
    const std::vector<Work> found = of_name(name, pass);
    REQUIRE(found.size() == count);
    for (const Work& each : found) {
      CHECK(std::get<ElementwiseShape>(each.op.shape).traffic.count == bytes);
      CHECK(each.shares_launch == shares_launch);
    }
  };
  check("rms_norm", Pass::backward, 2, 10 * kElements, false);
  check("residual", Pass::forward, 2, 6 * kElements, false);
  check("residual_gradient", Pass::backward, 2, 6 * kElements, true);
  check("qkv_copy", Pass::forward, 1, 4 * kQueries, true);
  check("qkv_copy", Pass::backward, 1, 4 * kQueries * 10 / 8, true);
  plan.training.transformer_engine = true;
  check("rms_norm", Pass::backward, 2, 6 * kElements, false);
  check("residual", Pass::forward, 2, 6 * kElements, true);
  check("residual_gradient", Pass::backward, 2, 6 * kElements, true);
  plan.training.unfused_elementwise = true;  // queries, keys and values, and both inputs of the gate, one by one
  check("input_gradient", Pass::backward, 3, 6 * kElements, true);
  CHECK(of_name("qkv_copy", Pass::backward).empty());
  plan.training.unfused_elementwise = false;
  plan.training.compiled = true;
  check("rms_norm", Pass::backward, 2, 14 * kElements, false);
  for (const char* name : {"residual", "residual_gradient", "qkv_copy", "input_gradient"})
    CHECK(of_name(name, Pass::backward).size() + of_name(name, Pass::forward).size() == 0);
}

TEST_CASE("layer: the loss moves what the framework's kernels read and write", "[oracle][graph]") {
  const Model model = llama3_70b();
  Plan plan = plan_of(model, 8, true);
  const std::int64_t logits = 8192 * (model.vocab_size / 8);
  const auto moved = [&](CrossEntropy kind) {
    plan.training.cross_entropy = kind;
    const LayerWork work(model, plan);
    const auto bytes = [&](const WorkList& list, Pass pass) {
      return std::get<ElementwiseShape>(find(list, "cross_entropy", pass).shape).traffic.count;
    };
    return std::pair(bytes(work.head_forward(), Pass::forward) / logits,
                     bytes(work.head_backward(BackwardPart::all), Pass::backward) / logits);
  };
  CHECK(moved(CrossEntropy::vocab_parallel) == std::pair<std::int64_t, std::int64_t>{38, 14});
  CHECK(moved(CrossEntropy::automatic) == moved(CrossEntropy::vocab_parallel));
  CHECK(moved(CrossEntropy::pytorch) == std::pair<std::int64_t, std::int64_t>{22, 26});
  CHECK(moved(CrossEntropy::fused_native) == std::pair<std::int64_t, std::int64_t>{22, 10});
  CHECK(moved(CrossEntropy::fused) == std::pair<std::int64_t, std::int64_t>{4, 4});
  plan.training.transformer_engine = true;
  CHECK(moved(CrossEntropy::fused) == std::pair<std::int64_t, std::int64_t>{6, 4});
  plan.training.transformer_engine = false;
  plan.training.compiled = true;
  plan.parallel.zero_stage = 3;
  CHECK(moved(CrossEntropy::automatic) == std::pair<std::int64_t, std::int64_t>{6, 4});
  CHECK(moved(CrossEntropy::pytorch) == std::pair<std::int64_t, std::int64_t>{22, 26});  // a loss that was not compiled
}

TEST_CASE("layer: fused losses over a divided vocabulary exchange fewer messages", "[graph]") {
  const Model model = llama3_70b();
  Plan plan = plan_of(model, 8, true);
  using Message = std::pair<Collective, std::int64_t>;  // per token
  const auto messages = [&](CrossEntropy kind) {
    plan.training.cross_entropy = kind;
    std::vector<Message> found;
    for (const Work& work : LayerWork(model, plan).head_forward())
      if (work.kind == Work::Kind::collective && work.call.size.count < 8192 * 1024)
        found.emplace_back(work.call.collective, work.call.size.count / 8192);
    return found;
  };
  const Message value{Collective::all_reduce, 4};
  CHECK(messages(CrossEntropy::vocab_parallel) == std::vector{value, value, value});
  CHECK(messages(CrossEntropy::fused_native) == std::vector{value, Message{Collective::all_reduce, 8}});
  plan.training.transformer_engine = true;
  CHECK(messages(CrossEntropy::fused) == std::vector{Message{Collective::all_gather, 12 * 8}});
}

TEST_CASE("layer: a split backward does every operator of the whole one once", "[graph]") {
  Model model = llama3_70b();
  model.dropout = 0.1;
  const Plan plan = plan_of(model, 8, true);
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

TEST_CASE("layer: eager PyTorch with one kernel for RMSNorm still has chains of other element-wise work", "[graph]") {
  const Model model = llama3_70b();
  Plan plan = plan_of(model, 8, true);
  const auto moved = [&](const char* name, Pass pass) { return bytes_moved(model, plan, name, pass); };
  const std::int64_t fused = moved("rms_norm", Pass::backward);
  const std::int64_t fused_rope = moved("rope", Pass::forward);
  plan.training.unfused_elementwise = true;
  CHECK(moved("rms_norm", Pass::backward) > 5 * fused);
  plan.training.fused_norms = true;
  CHECK(moved("rms_norm", Pass::backward) == fused);
  CHECK(moved("rope", Pass::forward) > 2 * fused_rope);
}

TEST_CASE("layer: recomputation that stops early leaves out what follows the last activation", "[graph]") {
  Model model = llama3_70b();
  Plan plan = plan_of(model, 8, true, Recompute::full);
  const auto repeated = [&] {
    std::vector<std::string> names;
    int reductions = 0;
    for (const Work& work : LayerWork(model, plan).backward(0, BackwardPart::all, true)) {
      if (work.kind == Work::Kind::compute && work.recomputed) names.push_back(work.op.name);
      reductions += work.kind == Work::Kind::collective && work.call.collective == Collective::reduce_scatter ? 1 : 0;
    }
    return std::pair{names, reductions};
  };
  const auto whole = repeated();
  REQUIRE(std::count(whole.first.begin(), whole.first.end(), "fc2") == 1);
  plan.training.recompute_early_stop = true;
  const auto early = repeated();
  std::vector<std::string> left = whole.first;
  left.erase(std::find(left.begin(), left.end(), "fc2"), left.end());
  CHECK(early.first == left);
  CHECK(early.first.back() == "swiglu");
  CHECK(early.second == whole.second - 1);

  // Transformer Engine's functions save their operands after they ran, and dropout saves a mask of the result.
  const auto repeats_last = [&] {
    const std::vector<std::string> names = repeated().first;
    return std::count(names.begin(), names.end(), "fc2") == 1;
  };
  plan.training.dtype = Precision::fp8;
  CHECK(repeats_last());
  plan.training.compiled = true;
  CHECK(!repeats_last());
  plan.training.dtype = Precision::bf16;
  plan.training.compiled = false;
  plan.training.transformer_engine = true;
  CHECK(repeats_last());
  plan.training.transformer_engine = false;
  CHECK(!repeats_last());
  model.dropout = 0.1;
  CHECK(repeats_last());
}

TEST_CASE("layer: op-level recomputation repeats keys, attention's output and the second matrix of a gated layer",
          "[graph]") {
  Model model = llama3_70b();
  const auto repeated = [&](const Model& each) {
    const Plan plan = plan_of(each, 1, false, Recompute::selective_op);
    std::vector<std::pair<std::string, std::int64_t>> multiplications;  // name, columns of the result
    for (const Work& work : LayerWork(each, plan).backward(0, BackwardPart::all, false))
      if (work.recomputed && work.op.kind == OperatorKind::gemm)
        multiplications.emplace_back(work.op.name, std::get<GemmShape>(work.op.shape).n);
    return multiplications;
  };
  using List = std::vector<std::pair<std::string, std::int64_t>>;
  CHECK(repeated(model) == List{{"k", 1024}, {"proj", 8192}, {"fc1", 28672}});
  model.activation = Activation::gelu;
  CHECK(repeated(model) == List{{"k", 1024}, {"proj", 8192}});  // the sixth is the last, which is not needed
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
      const bool call = work.kind == Work::Kind::collective || work.kind == Work::Kind::start;
      count.gathers += call && work.call.collective == Collective::all_gather ? 1 : 0;
      count.reductions += call && work.call.collective == Collective::reduce_scatter ? 1 : 0;
      count.copies += work.kind == Work::Kind::compute && work.op.name == "sequence_copy" ? 1 : 0;
      count.overlapped += work.kind == Work::Kind::start && list[i + 1].kind != Work::Kind::join ? 1 : 0;
    }
    return count;
  };
  const auto passes = [&](bool dtensor, bool overlap, Recompute recompute) {
    Plan plan = plan_of(model, 8, true, recompute);
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

TEST_CASE("layer: what is multiplied in 8 or 4 bits is quantised before it is gathered", "[graph]") {
  const Model model = llama3_70b();
  bool by_row = false;
  const auto list = [&](Precision precision, bool backward) {
    Plan plan = plan_of(model, 8, true);
    plan.training.dtype = precision;
    plan.training.row_scales = by_row;
    const LayerWork work(model, plan);
    return backward ? work.backward(0, BackwardPart::all, false) : work.forward(0);
  };
  const auto messages = [](const WorkList& of, Collective collective) {
    std::set<std::int64_t> sizes;
    for (const Work& work : of)
      if ((work.kind == Work::Kind::collective || work.kind == Work::Kind::start) && work.call.collective == collective)
        sizes.insert(work.call.size.count);
    return sizes;
  };
  const auto moved = [](const WorkList& of, const std::string& name, Pass pass) {
    const auto& shape = std::get<ElementwiseShape>(find(of, name, pass).shape);
    return std::pair{shape.elements, shape.traffic.count};
  };
  constexpr std::int64_t kTensor = 8192 * 8192;  // tokens x hidden size
  for (const bool backward : {false, true}) {
    CHECK(messages(list(Precision::bf16, backward), Collective::all_gather) == std::set{2 * kTensor});
    CHECK(messages(list(Precision::fp8, backward), Collective::all_gather) == std::set{kTensor});
    CHECK(messages(list(Precision::mxfp8, backward), Collective::all_gather) == std::set{kTensor * 33 / 32});
    CHECK(messages(list(Precision::nvfp4, backward), Collective::all_gather) == std::set{kTensor * 9 / 16});
    CHECK(messages(list(Precision::nvfp4, backward), Collective::reduce_scatter) == std::set{2 * kTensor});
  }
  // A rank reads its eighth in 16 bits and writes one copy; the other is transposed after the gather.
  const WorkList forward = list(Precision::fp8, false), backward = list(Precision::fp8, true);
  CHECK(moved(forward, "fc1 cast", Pass::forward) == std::pair{kTensor / 8, kTensor / 8 * 3});
  CHECK(moved(forward, "fc1 transpose", Pass::forward) == std::pair{kTensor, kTensor * 2});
  CHECK(moved(backward, "fc2 cast", Pass::dgrad) == std::pair{kTensor / 8, kTensor / 8 * 3});
  CHECK(moved(forward, "fc2 cast", Pass::forward).first == 8192 * 28672 / 8);  // already divided, never gathered
  CHECK(moved(list(Precision::mxfp8, false), "fc1 cast", Pass::forward) ==
        std::pair{kTensor / 8, kTensor / 8 * 2 + kTensor / 8 * 33 / 16});
  // A scale for each row is taken of what was gathered in 16 bits.
  by_row = true;
  for (const bool back : {false, true})
    CHECK(messages(list(Precision::fp8, back), Collective::all_gather) == std::set{2 * kTensor});
  CHECK(moved(list(Precision::fp8, false), "fc1 cast", Pass::forward).first == kTensor);
}

TEST_CASE("layer: a compiled layer has no chains of element-wise operators, whatever its stack says", "[graph]") {
  const Model model = llama3_70b();
  Plan plan = plan_of(model, 1, false);
  const auto moved = [&](const char* name) { return bytes_moved(model, plan, name, Pass::forward); };
  plan.training.compiled = true;
  const std::array fused{moved("rms_norm"), moved("rope"), moved("swiglu")};
  plan.training.unfused_elementwise = true;
  CHECK(std::array{moved("rms_norm"), moved("rope"), moved("swiglu")} == fused);
  plan.training.compiled = false;
  CHECK(moved("rope") > fused[1]);
  CHECK(moved("swiglu") > fused[2]);
}

TEST_CASE("layer: op-level recomputation gathers what it multiplies again, with DTensor", "[graph]") {
  const auto gathers = [](const Model& model) {
    Plan plan = plan_of(model, 8, true, Recompute::selective_op);
    plan.parallel.dtensor = true;
    const WorkList list = LayerWork(model, plan).backward(0, BackwardPart::all, false);
    // Those of the backward itself come behind the last repeated operator.
    const auto last = std::find_if(list.rbegin(), list.rend(), [](const Work& work) { return work.recomputed; });
    return std::count_if(list.begin(), last.base(), [](const Work& work) {
      return work.kind == Work::Kind::collective && work.call.collective == Collective::all_gather;
    });
  };
  CHECK(gathers(llama3_70b()) == 2);
  CHECK(gathers(tracecast::test::mixtral_8x7b()) == 1);  // its experts run once
}

TEST_CASE("layer: without asynchronous all-reduces an input's gradient waits for that of the weights", "[graph]") {
  const Model model = llama3_70b();
  const auto order = [&](bool asynchronous, bool sequence_parallel) {
    Plan plan = plan_of(model, 8, sequence_parallel);
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

TEST_CASE("layer: a bias is summed by a kernel of its own where nothing fuses it", "[graph][oracle]") {
  Model model = llama3_70b();
  model.qkv_bias = model.mlp_bias = true;
  const auto sums = [&](auto change, int tp = 1) {
    Plan plan = plan_of(model, tp, tp > 1);
    change(plan.training);
    std::map<std::string, std::int64_t> moved;
    for (const Work& work : LayerWork(model, plan).backward(0, BackwardPart::all, false))
      if (work.op.name.ends_with(" bias_gradient"))
        moved[work.op.name] = std::get<ElementwiseShape>(work.op.shape).traffic.count;
    return moved;
  };
  // 8,192 tokens, read once in 16 bits; attention's output has no bias.
  CHECK(sums([](Training&) {}) == std::map<std::string, std::int64_t>{{"fc1 bias_gradient", 2LL * 8192 * 2 * 28672},
                                                                      {"fc2 bias_gradient", 2LL * 8192 * 8192},
                                                                      {"qkv bias_gradient", 2LL * 8192 * 10240}});
  // With sequence parallelism fc2's bias is added to an eighth of the tokens, fc1's to all.
  CHECK(sums([](Training&) {}, 8).at("fc2 bias_gradient") == 2LL * 1024 * 8192);
  CHECK(sums([](Training&) {}, 8).at("fc1 bias_gradient") == 2LL * 8192 * 2 * 28672 / 8);
  CHECK(sums([](Training& t) { t.transformer_engine = true; }).empty());
  CHECK(sums([](Training& t) { t.compiled = true; }).empty());
  model.qkv_bias = model.mlp_bias = false;
  CHECK(sums([](Training&) {}).empty());
}

TEST_CASE("layer: the output layer is in 16 bits unless told otherwise", "[graph][precision]") {
  const Model model = llama3_70b();
  const auto precision = [&](bool narrow) {
    Plan plan = plan_of(model, 1, false);
    plan.training.dtype = Precision::mxfp8;
    plan.training.fp8_output_layer = narrow;
    const LayerWork work(model, plan);
    const WorkList list = work.head_backward(BackwardPart::all);
    CHECK(find(list, "lm_head", Pass::wgrad).precision == find(list, "lm_head", Pass::dgrad).precision);
    CHECK(work.quantised_head() == (narrow ? model.vocab_size * model.hidden_size : 0));
    return find(work.head_forward(), "lm_head").precision;
  };
  CHECK(precision(false) == Precision::bf16);
  CHECK(precision(true) == Precision::mxfp8);
  // Tensor ranks gather its input quantised, forward as backward.
  const auto gathered = [&](bool narrow) {
    Plan plan = plan_of(model, 8, true);
    plan.training.dtype = Precision::fp8;
    plan.training.fp8_output_layer = narrow;
    const LayerWork work(model, plan);
    std::set<std::int64_t> sizes;
    for (const WorkList& list : {work.head_forward(), work.head_backward(BackwardPart::all)})
      for (const Work& each : list)
        if (each.call.collective == Collective::all_gather && each.call.size.count > 0)
          sizes.insert(each.call.size.count);
    return sizes;
  };
  CHECK(gathered(false) == std::set<std::int64_t>{2LL * 8192 * 8192});
  CHECK(gathered(true) == std::set<std::int64_t>{8192LL * 8192});
}

TEST_CASE("layer: metrics take the loss of all logits again", "[graph][oracle]") {
  const Model model = llama3_70b();
  Plan plan = plan_of(model, 1, false);
  const auto moved = [&] {
    std::int64_t sum = 0;
    for (const Work& work : LayerWork(model, plan).head_backward(BackwardPart::all))
      if (work.op.name == "metric") sum += std::get<ElementwiseShape>(work.op.shape).traffic.count;
    return sum;
  };
  CHECK(moved() == 0);
  plan.training.metric_losses = 2;
  CHECK(moved() == 2LL * 22 * 8192 * model.vocab_size);  // fp32: a cast, and a log-softmax that reads three times
}
