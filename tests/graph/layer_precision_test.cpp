// Layers in fp32, 8 and 4 bits: what is multiplied, quantised, gathered and summed.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/graph/layers.hpp"
#include "tests/support/models.hpp"

using namespace tracecast;
using namespace tracecast::test;

TEST_CASE("layer: attention in 8 bits reads quantised operands, forward and backward", "[oracle][graph]") {
  const Model model = llama3_70b();
  struct Lists {
    WorkList forward;
    WorkList backward;
  };
  const auto work = [&](Precision dtype, bool fp8_attention, const std::vector<std::string>& wide = {}) {
    const Training training{.seq_length = 8192,
                            .global_batch_size = 1,
                            .dtype = dtype,
                            .bf16_modules = wide,
                            .fp8_attention = fp8_attention};
    const Parallel parallel{.tp = 8};
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
  CHECK(find_operator(per_tensor.forward, "attention").precision == Precision::fp8);
  CHECK(bytes(find_operator(per_tensor.forward, "attention cast")) == Approx(read * 3));
  CHECK(bytes(find_operator(blocks.forward, "attention cast")) == Approx(read * (4 + 2.0 / 32)));
  CHECK(bytes(find_operator(blocks.backward, "d_attention cast", Pass::backward)) == Approx(gradient * (4 + 2.0 / 32)));
  CHECK(find_operator(blocks.backward, "attention", Pass::backward).precision == Precision::mxfp8);
  const Lists wide = work(Precision::fp8, false);
  CHECK(find_operator(wide.forward, "attention").precision == Precision::bf16);
  CHECK(std::none_of(wide.forward.begin(), wide.forward.end(),
                     [](const Work& item) { return item.op.name == "attention cast"; }));
  // Where the linear layers of attention stay in 16 bit, it does too.
  CHECK(find_operator(work(Precision::fp8, true, {"attention"}).forward, "attention").precision == Precision::bf16);
}

TEST_CASE("layer: element-wise work of fp32 moves twice the bytes", "[graph]") {
  const Model model = llama3_70b();
  Plan plan = layer_plan(model, 8, true);
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
  Plan plan = layer_plan(model, 8, true);
  const auto precision = [&] {
    return find_operator(LayerWork(model, plan).forward(0), "attention", Pass::forward).precision;
  };
  CHECK(precision() == Precision::bf16);
  plan.training.dtype = Precision::mxfp8;  // attention stays in 16 bit
  CHECK(precision() == Precision::bf16);
  plan.training.dtype = Precision::fp32;
  CHECK(precision() == Precision::fp32);
}

TEST_CASE("layer: DeepSpeed's bf16 optimizer adds weight gradients to the fp32 ones itself", "[oracle][graph]") {
  const Model model = llama3_70b();
  Plan plan = layer_plan(model, 8, true);
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
    return std::get<GemmShape>(find_operator(list, "fc2", Pass::wgrad).shape).accumulate_fp32;
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

TEST_CASE("layer: what is multiplied in 8 or 4 bits is quantised before it is gathered", "[graph]") {
  const Model model = llama3_70b();
  bool by_row = false;
  Training settings;
  const auto list = [&](Precision precision, bool backward) {
    Plan plan = layer_plan(model, 8, true);
    plan.training.dtype = precision;
    plan.training.row_scales = by_row;
    plan.training.fp8_scaling = settings.fp8_scaling;
    plan.training.fp8_transpose = settings.fp8_transpose;
    const LayerWork work(model, plan);
    return backward ? work.backward(0, BackwardPart::all, false) : work.forward(0);
  };
  const auto messages = [](const WorkList& of, Collective collective) {
    std::set<std::int64_t> sizes;
    for (const Work& work : of)
      if (is_collective(work) && work.call.collective == collective) sizes.insert(work.call.size.count);
    return sizes;
  };
  const auto moved = [](const WorkList& of, const std::string& name, Pass pass) {
    const auto& shape = std::get<ElementwiseShape>(find_operator(of, name, pass).shape);
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
  CHECK(messages(forward, Collective::all_reduce).empty());
  // A current scale is of all ranks' parts, each read once more for it. Blackwell needs no transposed copy.
  settings = {.fp8_scaling = Fp8Scaling::current, .fp8_transpose = false};
  const WorkList current = list(Precision::fp8, false);
  CHECK(messages(current, Collective::all_reduce) == std::set<std::int64_t>{4});
  CHECK(moved(current, "fc1 cast", Pass::forward) == std::pair{kTensor / 8, kTensor / 8 * 5});
  CHECK(std::none_of(current.begin(), current.end(),
                     [](const Work& each) { return each.op.name.ends_with("transpose"); }));
  settings = {};
  CHECK(moved(list(Precision::mxfp8, false), "fc1 cast", Pass::forward) ==
        std::pair{kTensor / 8, kTensor / 8 * 2 + kTensor / 8 * 33 / 16});
  // A scale for each row is taken of what was gathered in 16 bits.
  by_row = true;
  for (const bool back : {false, true})
    CHECK(messages(list(Precision::fp8, back), Collective::all_gather) == std::set{2 * kTensor});
  CHECK(moved(list(Precision::fp8, false), "fc1 cast", Pass::forward).first == kTensor);
}

TEST_CASE("layer: the output layer is in 16 bits unless told otherwise", "[graph][precision]") {
  const Model model = llama3_70b();
  const auto precision = [&](bool narrow) {
    Plan plan = layer_plan(model, 1, false);
    plan.training.dtype = Precision::mxfp8;
    plan.training.fp8_output_layer = narrow;
    const LayerWork work(model, plan);
    const WorkList list = work.head_backward(BackwardPart::all);
    CHECK(find_operator(list, "lm_head", Pass::wgrad).precision ==
          find_operator(list, "lm_head", Pass::dgrad).precision);
    CHECK(work.quantised_head() == (narrow ? model.vocab_size * model.hidden_size : 0));
    return find_operator(work.head_forward(), "lm_head").precision;
  };
  CHECK(precision(false) == Precision::bf16);
  CHECK(precision(true) == Precision::mxfp8);
  // Tensor ranks gather its input quantised, forward as backward.
  const auto gathered = [&](bool narrow) {
    Plan plan = layer_plan(model, 8, true);
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
