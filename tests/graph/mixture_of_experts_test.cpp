// The work list of a layer with experts: exchanges, grouped multiplications, casts.

#include <algorithm>

#include <catch2/catch.hpp>

#include "sim/graph/layer.hpp"
#include "sim/network/network_model.hpp"
#include "sim/plan/expert_routing.hpp"
#include "tests/support/models.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;
using tracecast::test::deepseek_v3;

namespace {

/// One DeepSeek-V3 layer with 64 expert-parallel ranks, each with one sequence of 8192 tokens.
Model deepseek_layer() {
  Model m = deepseek_v3();
  m.num_layers = 1;
  m.moe->leading_dense_layers = 0;
  m.moe->router_bias = false;
  return m;
}

struct Settings {
  Parallel parallel;
  Training training;
  Settings() {
    parallel.ep = 64;
    training.seq_length = 8192;
    training.global_batch_size = 64;
  }
};

Plan plan_of(const Model& model, const Settings& settings) {
  return value_of(make_plan(model, settings.parallel, settings.training, 64));
}

std::vector<std::int64_t> exchanges(const WorkList& list) {
  std::vector<std::int64_t> sizes;
  for (const Work& work : list)
    if (work.call.collective == Collective::all_to_all && work.call.size.count > 0)
      sizes.push_back(work.call.size.count);
  return sizes;
}

double grouped_flops(const WorkList& list) {
  double sum = 0;
  for (const Work& work : list)
    if (work.kind == Work::Kind::compute && work.op.kind == OperatorKind::grouped_gemm) sum += flops(work.op).count;
  return sum;
}

std::size_t position(const WorkList& list, const std::string& name) {
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i].kind == Work::Kind::compute && list[i].op.name == name) return i;
  FAIL("no operator " << name);
  return 0;
}

std::size_t position(const WorkList& list, Work::Kind kind, std::size_t from = 0) {
  for (std::size_t i = from; i < list.size(); ++i)
    if (list[i].kind == kind) return i;
  FAIL("not found");
  return 0;
}

}  // namespace

TEST_CASE("moe: dispatch in fp8 and combine in bf16", "[oracle][graph][moe]") {
  const Model model = deepseek_layer();
  Settings settings;
  settings.training.moe_dispatch_dtype = Precision::fp8;
  const Plan plan = plan_of(model, settings);
  const LayerWork work(model, plan, 8);
  const std::vector<std::int64_t> forward = exchanges(work.forward(0));
  REQUIRE(forward.size() == 2);
  // What leaves a rank: 63/64 of T K h e.
  CHECK(static_cast<double>(forward[0]) * 63 / 64 == Approx(462.4e6).epsilon(1e-4));
  CHECK(static_cast<double>(forward[1]) * 63 / 64 == Approx(924.8e6).epsilon(1e-4));
  CHECK(exchanges(work.backward(0, BackwardPart::all, false)) == forward);
  CHECK(exchanges(work.backward(0, BackwardPart::weight_gradients, false)).empty());
}

TEST_CASE("moe: DeepEP sends a token once per node that it reaches", "[oracle][graph][moe]") {
  const Model model = deepseek_layer();
  Settings settings;
  settings.parallel.moe_dispatcher = MoeDispatcher::deepep;
  const Plan plan = plan_of(model, settings);
  const double copies = parts_reached(*model.moe, 8);
  CHECK(static_cast<double>(exchanges(LayerWork(model, plan, 8).forward(0)).front()) ==
        Approx(8192 * copies * 7168 * 2).epsilon(1e-4));
  // Inside one node: once per rank; 8 experts of 256 on 64 ranks lie on a few less than 8.
  const auto inside = static_cast<double>(exchanges(LayerWork(model, plan, 1).forward(0)).front());
  CHECK(inside > 7 * 8192.0 * 7168 * 2);
  CHECK(inside < 8 * 8192.0 * 7168 * 2);
}

TEST_CASE("moe: DeepEP's kernels limit exchanges in one NVLink domain", "[graph][moe]") {
  const Model model = deepseek_layer();
  const auto limits = [&](MoeDispatcher dispatcher, int ep, int nodes) {
    Settings settings;
    settings.parallel.moe_dispatcher = dispatcher;
    settings.parallel.ep = ep;
    const Plan plan = plan_of(model, settings);
    std::vector<std::int64_t> all;
    const LayerWork work(model, plan, nodes);
    for (const WorkList& list : {work.forward(0), work.backward(0, BackwardPart::all, false)})
      for (const Work& each : list)
        if (each.kind == Work::Kind::start) all.push_back(each.call.limit.bytes_per_second);
    return all;
  };
  const std::vector<std::int64_t> none(4, 0);
  // The gradient of a combine is a dispatch.
  CHECK(limits(MoeDispatcher::deepep, 64, 1) ==
        std::vector<std::int64_t>{400'000'000'000, 190'000'000'000, 400'000'000'000, 190'000'000'000});
  CHECK(limits(MoeDispatcher::hybridep, 64, 1) == std::vector<std::int64_t>(5, 0));  // and the routing
  CHECK(limits(MoeDispatcher::alltoall, 64, 1) == none);
  CHECK(limits(MoeDispatcher::deepep, 8, 1) ==
        std::vector<std::int64_t>{421'000'000'000, 361'000'000'000, 421'000'000'000, 361'000'000'000});
}

TEST_CASE("moe: HybridEP permutes inside its calls, and gathers the routing before a forward", "[oracle][graph][moe]") {
  const Model model = deepseek_layer();
  const auto work_of = [&](MoeDispatcher dispatcher, bool backward) {
    Settings settings;
    settings.parallel.moe_dispatcher = dispatcher;
    const Plan plan = plan_of(model, settings);
    const LayerWork work(model, plan);
    return backward ? work.backward(0, BackwardPart::all, false) : work.forward(0);
  };
  const auto launched_permutations = [&](MoeDispatcher dispatcher, bool backward) {
    const WorkList list = work_of(dispatcher, backward);
    return std::count_if(list.begin(), list.end(), [](const Work& each) {
      return each.op.name.find("permute") != std::string::npos && !each.shares_launch;
    });
  };
  const auto gathered = [&](MoeDispatcher dispatcher, bool backward) {
    std::int64_t bytes = 0;
    for (const Work& each : work_of(dispatcher, backward))
      if (each.kind == Work::Kind::start && each.call.link_share == 0) bytes += each.call.size.count;
    return bytes;
  };
  for (const bool backward : {false, true}) {
    CHECK(launched_permutations(MoeDispatcher::deepep, backward) == 2);
    CHECK(launched_permutations(MoeDispatcher::hybridep, backward) == 0);
    CHECK(gathered(MoeDispatcher::deepep, backward) == 0);
  }
  CHECK(gathered(MoeDispatcher::hybridep, false) == 8192LL * 64 * 256);  // a byte for each token and expert
  CHECK(gathered(MoeDispatcher::hybridep, true) == 0);
}

TEST_CASE("moe: the results of shared and routed experts are added", "[oracle][graph][moe]") {
  Model model = deepseek_layer();
  const auto added = [&] {
    const Settings settings;
    const Plan plan = plan_of(model, settings);
    std::int64_t bytes = 0;
    for (const Work& each : LayerWork(model, plan).forward(0))
      if (each.op.name == "add_shared") bytes += std::get<ElementwiseShape>(each.op.shape).traffic.count;
    return static_cast<double>(bytes) / static_cast<double>(plan.tokens() * model.hidden_size);
  };
  CHECK(added() == 3 * 2);  // two read, one written, in 16 bits
  model.moe->shared_ffn_hidden = 0;
  CHECK(added() == 0);
}

TEST_CASE("moe: a permutation reads tokens once and writes their copies, or what was received",
          "[oracle][graph][moe]") {
  const Model model = deepseek_layer();
  const auto permuted = [&](int ep, MoeDispatcher dispatcher, double imbalance, double capacity) {
    Settings settings;
    settings.parallel.ep = ep;
    settings.parallel.moe_dispatcher = dispatcher;
    settings.training.expert_imbalance = imbalance;
    settings.training.expert_capacity_factor = capacity;
    settings.training.expert_capacity_padding = capacity > 0;
    const Plan plan = plan_of(model, settings);
    const WorkList list = LayerWork(model, plan).forward(0);
    const auto& shape = std::get<ElementwiseShape>(list[position(list, "permute")].op.shape);
    return static_cast<double>(shape.traffic.count) / (2.0 * static_cast<double>(plan.tokens() * model.hidden_size));
  };
  const int k = model.moe->topk;
  CHECK(permuted(64, MoeDispatcher::alltoall, 1, 0) == 1 + k);
  CHECK(permuted(64, MoeDispatcher::alltoall, 2, 0) == 1 + k);  // the sender's tokens
  CHECK(permuted(64, MoeDispatcher::alltoall, 1, 2) == 1 + 2 * k);
  const double received = parts_reached(*model.moe, 64);
  CHECK(permuted(64, MoeDispatcher::deepep, 1, 0) == Approx(received + k).epsilon(1e-4));
  CHECK(permuted(64, MoeDispatcher::hybridep, 2, 0) == Approx(2 * (received + k)).epsilon(1e-4));
}

TEST_CASE("moe: experts' inputs are quantised one by one where the library has no kernel for all",
          "[oracle][graph][moe]") {
  const Model model = deepseek_layer();
  const auto kernels = [&](Precision precision, bool separate, bool fused, Fp8Scaling scaling = Fp8Scaling::delayed) {
    Settings settings;
    settings.training.dtype = precision;
    settings.training.fp8_scaling = scaling;
    settings.training.separate_expert_casts = separate;
    settings.training.fused_experts = fused;
    const Plan plan = plan_of(model, settings);
    std::vector<std::int32_t> casts;
    for (const Work& each : LayerWork(model, plan).forward(0))
      if (each.op.name.starts_with("expert_fc") && each.op.kind == OperatorKind::cast)
        casts.push_back(std::get<ElementwiseShape>(each.op.shape).kernels);
    return casts;
  };
  // Four experts on each rank.
  CHECK(kernels(Precision::mxfp8, true, false) == std::vector<std::int32_t>{4, 4});
  CHECK(kernels(Precision::fp8, true, false) == std::vector<std::int32_t>{1, 1});  // with scales of earlier steps
  CHECK(kernels(Precision::fp8, true, false, Fp8Scaling::current) == std::vector<std::int32_t>{12, 12});
  CHECK(kernels(Precision::mxfp8, false, false) == std::vector<std::int32_t>{1, 1});
  CHECK(kernels(Precision::mxfp8, true, true) == std::vector<std::int32_t>{1});
}

TEST_CASE("moe: a CUDA graph of a module leaves one launch of it", "[oracle][graph]") {
  Model model = deepseek_layer();
  model.num_layers = 4;
  model.moe->leading_dense_layers = 3;
  const auto launched = [&](std::vector<std::string> modules, int layer, bool backward) {
    Settings settings;
    settings.training.cuda_graph_modules = std::move(modules);
    const Plan plan = plan_of(model, settings);
    const LayerWork work(model, plan);
    std::vector<std::string> names;
    for (const Work& each : backward ? work.backward(layer, BackwardPart::all, false) : work.forward(layer))
      if (each.kind == Work::Kind::compute && !each.graphed) names.push_back(each.op.name);
    return names;
  };
  const std::size_t all = launched({}, 3, false).size();
  // Attention is one launch, then what is eager: the residual sum, and everything around the routed experts.
  const std::vector<std::string> experts = launched({"attn", "mlp", "moe_router"}, 3, false);
  CHECK(experts.size() < all);
  CHECK(std::count(experts.begin(), experts.end(), "router") == 0);
  CHECK(std::count(experts.begin(), experts.end(), "shared_fc1") == 0);
  CHECK(std::count(experts.begin(), experts.end(), "expert_fc1") == 1);
  const std::vector<std::string> back = launched({"attn", "mlp", "moe_router"}, 3, true);
  CHECK(std::count(back.begin(), back.end(), "router") == 0);
  CHECK(std::count(back.begin(), back.end(), "expert_fc1") == 2);  // input and weight gradient
  // A dense layer is two graphs each way.
  CHECK(launched({"attn", "mlp"}, 0, false).size() == 2);
  CHECK(launched({"attn", "mlp"}, 0, true).size() == 2);
  CHECK(launched({"mlp"}, 3, false).size() == all);
}

TEST_CASE("moe: fused experts leave out the activation and the casts of what it writes", "[oracle][graph][moe]") {
  const Model model = deepseek_layer();
  Settings settings;
  settings.training.dtype = Precision::mxfp8;
  const Plan plan = plan_of(model, settings);
  settings.training.fused_experts = true;
  const Plan fused = plan_of(model, settings);
  const auto moved = [](const WorkList& list) {
    double bytes = 0;
    for (const Work& work : list)
      if (const auto* shape = std::get_if<ElementwiseShape>(&work.op.shape); shape != nullptr)
        bytes += static_cast<double>(shape->traffic.count);
    return bytes;
  };
  const LayerWork separate(model, plan), together(model, fused);
  // T K f_e elements. Forward: SwiGLU reads two and writes one of 2 bytes, the cast reads 2 bytes and writes two of 1 and
  // a scale for 32. Backward: SwiGLU reads three and writes two, the cast is of both halves.
  const double elements = 8192.0 * 8 * 2048, cast = 2 + 2 * (1 + 1.0 / 32);
  CHECK(moved(separate.forward(0)) - moved(together.forward(0)) == Approx(elements * (6 + cast)));
  CHECK(moved(separate.backward(0, BackwardPart::all, false)) - moved(together.backward(0, BackwardPart::all, false)) ==
        Approx(elements * (10 + 2 * cast)));
  CHECK(grouped_flops(together.forward(0)) == grouped_flops(separate.forward(0)));
  settings.training.dtype = Precision::bf16;
  const auto wide = make_plan(model, settings.parallel, settings.training, 64);
  REQUIRE(!wide);
  CHECK(to_string(wide.error()) == "training.fused_experts = true: needs an 8- or 4-bit training.dtype, not bf16");
}

TEST_CASE("moe: tokens of 8-bit experts are padded and back where nobody else pads", "[oracle][graph][moe]") {
  const Model model = deepseek_layer();
  Settings settings;
  settings.training.padded_experts = true;
  settings.training.dtype = Precision::fp8;
  const auto copies = [&](const Settings& of, bool backward) {
    const LayerWork work(model, plan_of(model, of));
    std::vector<std::int64_t> moved;
    for (const Work& each : backward ? work.backward(0, BackwardPart::all, false) : work.forward(0))
      if (each.op.name.find("pad") != std::string::npos) {
        CHECK(each.shares_launch);
        moved.push_back(std::get<ElementwiseShape>(each.op.shape).traffic.count);
      }
    return moved;
  };
  // 8 copies of 8,192 tokens in 16 bits, read and written, and an fp32 probability of each.
  const std::vector<std::int64_t> expected{8LL * 8192 * 7168 * 4, 8LL * 8192 * 8, 8LL * 8192 * 7168 * 4};
  CHECK(copies(settings, false) == expected);
  CHECK(copies(settings, true) == expected);
  const auto without = [&](auto change) {
    Settings changed = settings;
    change(changed);
    return copies(changed, false).empty();
  };
  CHECK(without([](Settings& s) { s.training.padded_experts = false; }));
  CHECK(without([](Settings& s) { s.training.dtype = Precision::bf16; }));
  CHECK(without([](Settings& s) {
    s.training.expert_capacity_factor = 1;
    s.training.expert_capacity_padding = true;
  }));
  CHECK(without([](Settings& s) { s.parallel.moe_dispatcher = MoeDispatcher::hybridep; }));
  CHECK_FALSE(without([](Settings& s) { s.parallel.moe_dispatcher = MoeDispatcher::deepep; }));
  CHECK(without([](Settings& s) {
    s.training.dtype = Precision::mxfp8;
    s.training.fused_experts = true;
  }));
}

TEST_CASE("moe: imbalance multiplies what is exchanged and what the experts do", "[oracle][graph][moe]") {
  const Model model = deepseek_layer();
  Settings settings;
  const Plan balanced = plan_of(model, settings);
  settings.training.expert_imbalance = 1.5;
  const Plan uneven = plan_of(model, settings);
  const WorkList even_work = LayerWork(model, balanced).forward(0);
  const WorkList uneven_work = LayerWork(model, uneven).forward(0);
  CHECK(grouped_flops(uneven_work) == 1.5 * grouped_flops(even_work));
  CHECK(2 * exchanges(uneven_work).front() == 3 * exchanges(even_work).front());
  // T K tokens in all, three matrices of h x f_e: 6 T K h f_e forward.
  CHECK(grouped_flops(even_work) == 6.0 * 8192 * 8 * 7168 * 2048);
}

TEST_CASE("moe: chunks exchange the same bytes in more pieces, one ahead of the experts", "[graph][moe]") {
  const Model model = deepseek_layer();
  Settings settings;
  const WorkList whole = LayerWork(model, plan_of(model, settings)).forward(0);
  settings.parallel.moe_chunks = 4;
  const Plan plan = plan_of(model, settings);
  const WorkList chunked = LayerWork(model, plan).forward(0);
  CHECK(exchanges(chunked) == std::vector<std::int64_t>(8, exchanges(whole).front() / 4));
  CHECK(grouped_flops(chunked) == grouped_flops(whole));
  // The second dispatch is under way before the first chunk's experts.
  const std::size_t second = position(chunked, Work::Kind::start, position(chunked, Work::Kind::start) + 1);
  CHECK(second < position(chunked, "expert_fc1"));
  CHECK(grouped_flops(LayerWork(model, plan).backward(0, BackwardPart::all, false)) == 2 * grouped_flops(chunked));
}

TEST_CASE("moe: the tensor ranks of an expert gather the tokens that each of them received", "[oracle][graph][moe]") {
  Settings settings;
  settings.parallel.tp = 2;
  settings.parallel.etp = 2;
  settings.parallel.ep = 32;
  settings.parallel.sequence_parallel = true;
  settings.training.global_batch_size = 32;
  const Model model = deepseek_layer();
  const Plan plan = plan_of(model, settings);
  std::vector<std::int64_t> gathered;
  for (const Work& work : LayerWork(model, plan).forward(0))
    if (work.call.collective == Collective::all_gather) gathered.push_back(work.call.size.count);
  // Eight experts for each of 8192 tokens of 7168 values of 2 bytes; around attention and shared experts once.
  const std::int64_t tokens = 8192LL * 7168 * 2;
  CHECK(std::count(gathered.begin(), gathered.end(), 8 * tokens) == 1);
}

TEST_CASE("moe: an expert over ranks with different tokens takes more rows of narrower matrices", "[graph][moe]") {
  const Model model = deepseek_layer();
  const auto forward = [&](int tp, int etp) {
    Settings settings;
    settings.parallel.tp = tp;
    settings.parallel.etp = etp;
    settings.parallel.ep = 8;
    settings.parallel.sequence_parallel = tp > 1;
    return LayerWork(model, plan_of(model, settings)).forward(0);
  };
  const auto moved = [](const WorkList& list, Collective what) {
    std::int64_t sum = 0;
    for (const Work& work : list)
      if (work.among_experts && work.call.collective == what) sum += work.call.size.count;
    return sum;
  };
  // Eight experts for each of 8192 tokens of 7168 values of 2 bytes, or with four tensor ranks for a quarter of them.
  const std::int64_t sent = 8LL * 8192 * 7168 * 2;
  for (const int etp : {1, 2, 4}) {
    const WorkList apart = forward(1, etp), divided = forward(4, etp);
    CHECK(grouped_flops(apart) == grouped_flops(forward(1, 1)));
    CHECK(4 * grouped_flops(divided) == grouped_flops(apart));
    for (const Collective what : {Collective::all_gather, Collective::reduce_scatter}) {
      CHECK(moved(apart, what) == (etp > 1 ? etp * sent : 0));
      CHECK(moved(divided, what) == (etp > 1 ? etp * sent / 4 : 0));
    }
  }
}

TEST_CASE("moe: with an all-to-all tokens are sorted by expert after each exchange, and back", "[graph][moe]") {
  // 64 ranks with 4 experts each receive 8 copies of 8192 tokens of 7168 values of 2 bytes: read and written.
  const std::int64_t bytes = 8LL * 8192 * 7168 * 2 * 2;
  const auto sorted = [&](MoeDispatcher dispatcher, int experts) {
    Model model = deepseek_layer();
    model.moe->experts = experts;
    Settings settings;
    settings.parallel.moe_dispatcher = dispatcher;
    const Plan plan = plan_of(model, settings);
    const LayerWork work(model, plan);
    std::vector<std::string> names;
    for (const WorkList& list : {work.forward(0), work.backward(0, BackwardPart::all, false)})
      for (const Work& each : list) {
        if (!each.op.name.starts_with("sort_by")) continue;
        names.push_back(each.op.name);
        CHECK(std::get<ElementwiseShape>(each.op.shape).traffic.count == bytes);
      }
    return names;
  };
  const std::vector<std::string> both{"sort_by_expert", "sort_by_rank", "sort_by_expert", "sort_by_rank"};
  CHECK(sorted(MoeDispatcher::alltoall, 256) == both);
  CHECK(sorted(MoeDispatcher::alltoall, 64).empty());  // one expert for each rank: nothing to sort
  CHECK(sorted(MoeDispatcher::deepep, 256).empty());
}

TEST_CASE("moe: the host waits for the router's counts in a forward, without graphs and recomputation",
          "[graph][moe]") {
  const Model model = deepseek_layer();
  const auto syncs = [](const WorkList& list) {
    return std::count_if(list.begin(), list.end(), [](const Work& w) { return w.kind == Work::Kind::host_sync; });
  };
  Settings settings;
  const Plan plan = plan_of(model, settings);
  const WorkList forward = LayerWork(model, plan).forward(0);
  CHECK(syncs(forward) == 1);
  CHECK(position(forward, "router") < position(forward, Work::Kind::host_sync));
  CHECK(position(forward, Work::Kind::host_sync) < position(forward, Work::Kind::start));
  CHECK(syncs(LayerWork(model, plan).backward(0, BackwardPart::all, true)) == 0);
  settings.training.cuda_graphs = true;
  CHECK(syncs(LayerWork(model, plan_of(model, settings)).forward(0)) == 0);
  settings = {};
  settings.parallel.ep = 1;
  CHECK(syncs(LayerWork(model, plan_of(model, settings)).forward(0)) == 0);
}

TEST_CASE("moe: shared experts after the exchange, or beside it", "[graph][moe]") {
  const Model model = deepseek_layer();
  Settings settings;
  const WorkList after = LayerWork(model, plan_of(model, settings)).forward(0);
  CHECK(position(after, "shared_fc1") > position(after, "expert_fc2"));
  settings.parallel.moe_shared_overlap = true;
  const WorkList beside = LayerWork(model, plan_of(model, settings)).forward(0);
  CHECK(position(beside, "shared_fc1") > position(beside, Work::Kind::start));
  CHECK(position(beside, "shared_fc2") < position(beside, Work::Kind::join));
  CHECK(after.size() == beside.size());
}

TEST_CASE("moe: leading dense layers have no exchange", "[graph][moe]") {
  Model model = deepseek_layer();
  model.num_layers = 4;
  model.moe->leading_dense_layers = 3;
  const Settings settings;
  const Plan plan = plan_of(model, settings);
  const LayerWork work(model, plan);
  CHECK(exchanges(work.forward(2)).empty());
  CHECK(exchanges(work.forward(3)).size() == 2);
  CHECK(work.kind(2) != work.kind(3));
  CHECK(work.kind(0) == work.kind(2));
}

TEST_CASE("precision: casts and multiplications of an fp8 layer, and what stays in bf16", "[graph][precision]") {
  const Model model = deepseek_layer();
  Settings settings;
  settings.training.dtype = Precision::fp8_block;
  const Plan plan = plan_of(model, settings);
  double cast_bytes = 0;
  for (const Work& work : LayerWork(model, plan).forward(0)) {
    if (work.kind != Work::Kind::compute) continue;
    const Operator& op = work.op;
    if (op.kind == OperatorKind::cast && op.name.starts_with("expert"))
      cast_bytes += static_cast<double>(std::get<ElementwiseShape>(op.shape).traffic.count);
    if (op.kind == OperatorKind::gemm)
      CHECK(op.precision == (op.name == "router" ? Precision::bf16 : Precision::fp8_block));
    if (op.kind == OperatorKind::grouped_gemm) CHECK(op.precision == Precision::fp8_block);
    if (op.kind == OperatorKind::attention) CHECK(op.precision == Precision::bf16);
  }
  // Inputs of both matrices: T K (h + f_e) elements, 2 bytes read and two copies of 1 + 4/128 written.
  CHECK(cast_bytes == 8192.0 * 8 * (7168 + 2048) * (2 + 2 * 1.03125));
}

TEST_CASE("precision: ZeRO-3 quantises gathered weights for every use", "[graph][precision]") {
  const Model model = deepseek_layer();
  Settings settings;
  settings.training.dtype = Precision::fp8;
  const auto weight_casts = [&] {
    int count = 0;
    const Plan plan = plan_of(model, settings);
    for (const Work& work : LayerWork(model, plan).forward(0))
      count += work.kind == Work::Kind::compute && work.op.name.ends_with(" weight cast") ? 1 : 0;
    return count;
  };
  CHECK(weight_casts() == 0);
  settings.parallel.zero_stage = 3;
  CHECK(weight_casts() == 5 + 2 + 2);  // latent attention, experts, shared experts
  settings.training.fp8_param_gather = true;
  CHECK(weight_casts() == 0);
}

TEST_CASE("layer: only windowed layers attend within the window", "[graph]") {
  Model model = deepseek_layer();
  model.latent_attention.reset();
  model.moe.reset();
  model.num_layers = 4;
  model.sliding_window = 128;
  model.global_layer_interval = 2;
  Settings settings;
  settings.parallel.ep = 1;
  const Plan plan = plan_of(model, settings);
  const LayerWork work(model, plan);
  const auto window = [&](int layer) {
    const WorkList list = work.forward(layer);
    return std::get<AttentionShape>(list[position(list, "attention")].op.shape).window;
  };
  CHECK(window(0) == 128);
  CHECK(window(1) == 0);
  CHECK(work.kind(0) != work.kind(1));
}

namespace {

std::int64_t bytes_of(const WorkList& list, const std::string& name) {
  std::int64_t bytes = 0;
  for (const Work& each : list)
    if (each.op.name == name) bytes += std::get<ElementwiseShape>(each.op.shape).traffic.count;
  return bytes;
}

}  // namespace

TEST_CASE("moe: biases and clamped activations of experts pass through memory, unless one kernel does it all",
          "[oracle][graph][moe]") {
  const Model model = test::gpt_oss(24, 32);
  Settings settings;
  settings.parallel.ep = 4;
  settings.training.transformer_engine = true;
  const auto work_of = [&](bool backward) {
    const Plan plan = plan_of(model, settings);
    const LayerWork work(model, plan);
    return backward ? work.backward(0, BackwardPart::all, false) : work.forward(0);
  };
  const std::int64_t elements = plan_of(model, settings).tokens() * 4 * 2880;  // four experts a token
  const auto check = [&](std::int64_t sum, std::int64_t split, std::int64_t gradient) {
    CHECK(bytes_of(work_of(false), "expert_bias") == sum * elements);
    CHECK(bytes_of(work_of(true), "expert_bias") == split * elements);
    CHECK(bytes_of(work_of(true), "expert_bias gradient") == gradient * elements);
    CHECK(bytes_of(work_of(true), "probabilities gradient") == gradient * elements);
  };
  check(12, 4, 6);
  CHECK(bytes_of(work_of(false), "clamp") == 16 * elements);
  CHECK(bytes_of(work_of(true), "clamp") == 20 * elements);
  settings.training.lora_rank = 8;
  settings.training.lora_targets = {"qkv"};
  CHECK(bytes_of(work_of(true), "expert_bias gradient") == 0);
  CHECK(bytes_of(work_of(true), "probabilities gradient") == 6 * elements);
  settings.training.lora_rank = 0;
  settings.parallel.moe_dispatcher = MoeDispatcher::hybridep;
  check(28, 16, 12);
  for (const Work& each : work_of(false))
    if (each.op.name == "expert_bias") {
      CHECK(each.calls == 2 * 8 + 2);  // product and sum of each of 8 local experts, the joint copy, the cast
      CHECK(std::get<ElementwiseShape>(each.op.shape).kernels == 8);
    }
  settings.training.compiled = true;
  check(0, 0, 0);
  settings.training.compiled = false;
  settings.training.dtype = Precision::mxfp8;
  settings.training.fused_experts = true;
  check(0, 0, 0);
  CHECK(bytes_of(work_of(false), "clamp") == 0);
}

TEST_CASE("moe: the host waits before it clamps with Transformer Engine", "[graph][moe]") {
  Model model = test::gpt_oss(24, 32);
  Settings settings;
  settings.parallel.ep = 1;
  settings.training.transformer_engine = true;
  const auto waits = [&] {
    const Plan plan = plan_of(model, settings);
    const WorkList list = LayerWork(model, plan).forward(0);
    return std::count_if(list.begin(), list.end(), [](const Work& each) { return each.kind == Work::Kind::host_sync; });
  };
  CHECK(waits() == 1);
  settings.training.cuda_graphs = true;
  CHECK(waits() == 0);
  settings.training.cuda_graphs = model.moe->clamped_activation = false;
  CHECK(waits() == 0);
}
