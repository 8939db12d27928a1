#include "tracer/measured_profile.hpp"

#include <algorithm>
#include <utility>

#include <catch2/catch.hpp>

#include "sim/cost/costs.hpp"
#include "sim/import/kernel_names.hpp"
#include "tests/support/results.hpp"
#include "tests/tracer/recorded_ranks.hpp"

using namespace tracecast;

namespace {

/// A trace that grows by a kernel at a time, each after the one before.
class HandMade {
 public:
  explicit HandMade(int rank = -1, int ranks = -1) {
    trace_.header.rank = rank;
    trace_.header.ranks = ranks;
  }

  HandMade& kernel(const std::string& name, std::int64_t ns = 1'000) {
    const std::int64_t id = ++count_;
    trace_.calls.push_back({1, id, now_, now_ + 10, ""});
    trace_.kernels.push_back({name, 0, 7, id, now_ + 20, now_ + 20 + ns, 1, 1});
    now_ += ns + 100;
    return *this;
  }

  /// Around what `launches` launches.
  template <class Launches>
  HandMade& range(const std::string& name, Launches launches) {
    const std::size_t index = trace_.ranges.size();
    trace_.ranges.push_back({name, "NVTX", 1, static_cast<std::int64_t>(index), now_ - 1, 0});
    launches();
    trace_.ranges[index].end_ns = now_ - 1;
    return *this;
  }

  HandMade& collective(const std::string& name, std::int64_t count, std::int64_t sequence, std::int64_t ns) {
    trace_.collectives.push_back({name, "ncclBfloat16", "RING", "LL", 1, 0, 8, -1, count, sequence, now_, now_ + ns});
    return *this;
  }

  Trace& trace() { return trace_; }

 private:
  Trace trace_;
  std::int64_t now_ = 100;
  std::int64_t count_ = 0;
};

/// Accepts pieces of a step and any times.
Result<MeasuredProfile> measure(const StepGraph& graph, std::vector<Trace> traces,
                                const MatchLimits& limits = {.least_matched = 0, .most_of_forecast = 1e9}) {
  std::vector<NamedTrace> named;
  for (Trace& trace : traces) named.push_back({"t" + std::to_string(named.size()), std::move(trace)});
  return measured_profile(named, graph, Profile{}, limits);
}

const MeasuredOperator* find(const MeasuredProfile& measured, OperatorKind kind, Pass pass, const std::string& name) {
  for (const MeasuredOperator& each : measured.profile.measured)
    if (each.op.kind == kind && each.op.pass == pass && (name.empty() || each.op.name == name)) return &each;
  return nullptr;
}

GemmShape shape_of(const StepGraph& graph, const std::string& name, Pass pass = Pass::forward) {
  for (const CostedOperator& each : graph.operators)
    if (each.op.name == name && each.op.pass == pass) return std::get<GemmShape>(each.op.shape);
  FAIL("no operator " << name);
  return {};
}

std::string mm(const GemmShape& shape) {
  const auto list = [](std::int64_t a, std::int64_t b) {
    return "[" + std::to_string(a) + ", " + std::to_string(b) + "]";
  };
  return "aten::mm, sizes = [" + list(shape.m, shape.k) + ", " + list(shape.k, shape.n) + "]";
}

}  // namespace

TEST_CASE("profile from a recording: sizes of a range decide where the order does not", "[tracer][profile-from]") {
  const ForecastRun run = test::unfolded_forecast(test::scenario_of(8));
  const GemmShape shape = shape_of(run.graph, "fc2");
  HandMade made;
  made.range(mm(shape), [&] { made.kernel("nvjet_bf16", 1'000).kernel("splitKreduce_kernel", 500); });
  const Result<MeasuredProfile> measured = measure(run.graph, {made.trace()});
  REQUIRE(measured);
  REQUIRE(measured->profile.measured.size() == 1);
  CHECK(measured->matched == 2);
  CHECK(std::get<GemmShape>(measured->profile.measured[0].op.shape).k == shape.k);
  CHECK(measured->time_by_match[static_cast<std::size_t>(Match::by_sizes)] == measured->matched_time);
  CHECK(measured->profile.measured[0].seconds == Approx(1.5e-6));

  made.trace().ranges[0].name = "aten::mm, sizes = [[3, 5], [5, 7]]";
  const Result<MeasuredProfile> other = measure(run.graph, {made.trace()});
  REQUIRE(other);
  CHECK(other->matched == 0);
  CHECK(other->unmatched ==
        std::vector<UnmatchedKernels>{{"nvjet_bf16", Duration{1'000'000}, Match::no_such_sizes},
                                      {"splitKreduce_kernel", Duration{500'000}, Match::no_such_sizes}});
  CHECK(other->time_by_match[static_cast<std::size_t>(Match::by_sizes)] == Duration{});
}

TEST_CASE("profile from a recording: the common time of kernels that overlap on a stream counts once",
          "[tracer][profile-from]") {
  const ForecastRun run = test::unfolded_forecast(test::scenario_of(8));
  HandMade made;
  made.range("fc2", [&] { made.kernel("gemm", 2'000).kernel("my_epilogue", 1'000); });
  // Launched with programmatic dependent launch, the second begins 400 ns before the first ends.
  TraceKernel& second = made.trace().kernels[1];
  const std::int64_t shift = second.start_ns - made.trace().kernels[0].end_ns + 400;
  second.start_ns -= shift;
  second.end_ns -= shift;
  const Result<MeasuredProfile> measured = measure(run.graph, {made.trace()});
  REQUIRE(measured);
  CHECK(measured->time == Duration{2'600'000});
  CHECK(find(*measured, OperatorKind::gemm, Pass::forward, "fc2")->seconds == Approx(2.6e-6));
}

TEST_CASE("profile from a recording: what was recorded is forecast as recorded, the rest with its in-training factor",
          "[tracer][profile-from]") {
  const ForecastRun run = test::unfolded_forecast(test::scenario_of(8));
  HandMade made;
  made.range("fc2", [&] { made.kernel("gemm", 2'000'000); });
  const std::vector<NamedTrace> traces{{"t", made.trace()}};
  Profile base;
  base.peak_flops = {{Precision::bf16, 989e12}};
  base.in_training = {.gemm = 1.25, .softmax = 0.7};
  const Profile profile =
      value_of(measured_profile(traces, run.graph, base, {.least_matched = 0, .most_of_forecast = 1e9})).profile;
  CHECK(profile.in_training.softmax == 0.7);
  Operator fc2 = profile.measured.at(0).op;
  CHECK(seconds(Costs(profile).of(fc2).duration) == Approx(2e-3));
  // fp16 was not recorded: its model and factor are the base's.
  fc2.precision = Precision::fp16;
  CHECK(Costs(profile).of(fc2).duration == Costs(base).of(fc2).duration);
}

TEST_CASE("profile from a recording: a range with an operator's name is that operator", "[tracer][profile-from]") {
  const ForecastRun run = test::unfolded_forecast(test::scenario_of(8));
  HandMade made;
  made.range("fc2", [&] { made.kernel("my_own_matmul", 2'000).kernel("my_epilogue", 300); });
  const Result<MeasuredProfile> measured = measure(run.graph, {made.trace()});
  REQUIRE(measured);
  const MeasuredOperator* fc2 = find(*measured, OperatorKind::gemm, Pass::forward, "fc2");
  REQUIRE(measured->profile.measured.size() == 1);
  REQUIRE(fc2 != nullptr);
  CHECK(fc2->seconds == Approx(2.3e-6));
}

TEST_CASE("profile from a recording: the parts of an attention backward are added up", "[tracer][profile-from]") {
  const ForecastRun run = test::unfolded_forecast(test::scenario_of(8));
  HandMade made;
  int attentions = 0;
  test::for_each_operator(run.graph, run.graph.ranks.front(), [&](const CostedOperator& each) {
    if (each.op.kind != OperatorKind::attention) return void(made.kernel(test::kernel_name(each.op.kind)));
    ++attentions;
    if (each.op.pass == Pass::forward) return void(made.kernel("flash_fwd_kernel", 700));
    made.range("autograd::engine::evaluate_function: FlashAttentionBackward", [&] {
      made.kernel("flash_bwd_dot_do_o", 100).kernel("flash_bwd_dq_dk_dv", 1'500).kernel("flash_bwd_convert_dq", 200);
    });
  });
  REQUIRE(attentions == 64);  // forward and backward of 32 layers
  const Result<MeasuredProfile> measured = measure(run.graph, {made.trace()});
  REQUIRE(measured);
  CHECK(measured->matched == measured->kernels);
  const MeasuredOperator* forward = find(*measured, OperatorKind::attention, Pass::forward, "");
  const MeasuredOperator* backward = find(*measured, OperatorKind::attention, Pass::backward, "");
  REQUIRE(forward != nullptr);
  REQUIRE(backward != nullptr);
  CHECK(forward->seconds == Approx(0.7e-6));
  CHECK(backward->seconds == Approx(1.8e-6));
  CHECK(backward->samples == 32);
}

TEST_CASE("profile from a recording: attention tells multiplications of equal sizes apart", "[tracer][profile-from]") {
  // PyTorch multiplies a query's projection by itself, of the sizes of the output projection; the scenario has one for all three.
  const ForecastRun run = test::unfolded_forecast(test::scenario_of(8));
  HandMade made;
  const auto project = [&](Pass pass) {
    made.range(mm(shape_of(run.graph, "proj", pass)), [&] { made.kernel("nvjet_bf16", 1'000); });
  };
  const auto project_backward = [&] {  // autograd takes the weight's gradient first
    project(Pass::wgrad);
    project(Pass::dgrad);
  };
  test::for_each_operator(run.graph, run.graph.ranks.front(), [&](const CostedOperator& each) {
    if (each.op.name == "proj" && each.op.pass == Pass::forward) return project(Pass::forward);
    if (each.op.name == "proj") return each.op.pass == Pass::dgrad ? project_backward() : void();
    if (each.op.kind != OperatorKind::attention) return void(made.kernel(test::kernel_name(each.op.kind)));
    if (each.op.pass == Pass::forward) {
      project(Pass::forward);
      return void(made.kernel("flash_fwd_kernel", 700));
    }
    made.kernel("flash_bwd_dot_do_o", 100).kernel("flash_bwd_dq_dk_dv", 1'500).kernel("flash_bwd_convert_dq", 200);
    project_backward();
  });
  const Result<MeasuredProfile> measured = measure(run.graph, {made.trace()});
  REQUIRE(measured);
  const MeasuredOperator* backward = find(*measured, OperatorKind::attention, Pass::backward, "");
  REQUIRE(backward != nullptr);
  CHECK(backward->samples == 32);
  CHECK(backward->seconds == Approx(1.8e-6));
}

TEST_CASE("profile from a recording: updates are not taken for the norm of the gradients", "[tracer][profile-from]") {
  const ForecastRun run = test::unfolded_forecast(test::scenario_of(8));
  const auto kernels_of = [&](bool clips) {
    HandMade made;
    test::for_each_operator(run.graph, run.graph.ranks.front(), [&](const CostedOperator& each) {
      if (each.op.kind != OperatorKind::optimizer) made.kernel(test::kernel_name(each.op.kind));
    });
    if (clips) made.kernel("multi_tensor_apply_kernel<LpNormFunctor>", 50'000'000);
    for (int i = 0; i < 3; ++i) made.kernel("multi_tensor_apply_kernel<FusedAdamMathFunctor>", 100'000'000);
    return made;
  };
  for (const bool clips : {false, true}) {
    HandMade made = kernels_of(clips);
    const Result<MeasuredProfile> measured = measure(run.graph, {made.trace()});
    REQUIRE(measured);
    const MeasuredOperator* update = find(*measured, OperatorKind::optimizer, Pass::optimizer, "update");
    REQUIRE(update != nullptr);
    CHECK(update->seconds == Approx(0.3));
    const MeasuredOperator* norm = find(*measured, OperatorKind::optimizer, Pass::optimizer, "grad_norm");
    CHECK((norm != nullptr) == clips);
    if (clips) CHECK(norm->seconds == Approx(0.05));
  }
}

TEST_CASE("profile from a recording: what is found much more seldom than the rest is left out",
          "[tracer][profile-from]") {
  const ForecastRun run = test::unfolded_forecast(test::scenario_of(8));
  HandMade made;
  bool had_norm = false;
  test::for_each_operator(run.graph, run.graph.ranks.front(), [&](const CostedOperator& each) {
    const bool norm = each.op.kind == OperatorKind::norm && each.op.pass == Pass::forward;
    if (norm && std::exchange(had_norm, true)) return;
    made.kernel(test::kernel_name(each.op.kind), norm ? 1'000'000 : 1'000);
  });
  REQUIRE(had_norm);
  const Result<MeasuredProfile> measured = measure(run.graph, {made.trace()});
  REQUIRE(measured);
  CHECK(find(*measured, OperatorKind::norm, Pass::forward, "") == nullptr);
  CHECK(find(*measured, OperatorKind::gemm, Pass::forward, "fc2") != nullptr);
  REQUIRE(measured->left_out.size() == 1);
  CHECK(measured->left_out[0].why.starts_with("found 1 times instead of "));
}

TEST_CASE("profile from a recording: each rank is compared with its own stage", "[tracer][profile-from]") {
  const Scenario scenario = test::scenario_of(16, {"parallel.pp=2"});
  const ForecastRun run = test::unfolded_forecast(scenario);
  std::vector<Trace> traces;
  for (const int number : {0, 8}) {  // a first and a last stage
    HandMade made(number, 16);
    const auto rank = std::find_if(run.graph.ranks.begin(), run.graph.ranks.end(),
                                   [number](const Rank& r) { return r.representative == number; });
    REQUIRE(rank != run.graph.ranks.end());
    test::for_each_operator(run.graph, *rank, [&](const CostedOperator& each) {
      made.kernel(test::kernel_name(each.op.kind), each.cost.duration.picoseconds / 1000);
    });
    traces.push_back(made.trace());
  }
  const Result<MeasuredProfile> measured = measure(run.graph, traces);
  REQUIRE(measured);
  CHECK(measured->matched == measured->kernels);
  CHECK(measured->steps == 2);
  CHECK(find(*measured, OperatorKind::embedding, Pass::forward, "") != nullptr);
  CHECK(find(*measured, OperatorKind::cross_entropy, Pass::forward, "") != nullptr);
  std::swap(traces[0].header.rank, traces[1].header.rank);
  const Result<MeasuredProfile> swapped = measure(run.graph, traces);
  REQUIRE(swapped);
  CHECK(swapped->matched < swapped->kernels);
}

TEST_CASE("profile from a recording: of a collective the rank that came last counts", "[tracer][profile-from]") {
  const ForecastRun run = test::unfolded_forecast(test::scenario_of(8));
  HandMade early(0, 8);
  HandMade late(1, 8);
  // Without numbers calls are in their order, whatever the ranks call in other groups.
  const bool numbered = GENERATE(true, false);
  const std::int64_t first = numbered ? 5 : -1;
  const std::int64_t second = numbered ? 6 : -1;
  early.kernel("gemm").collective("AllReduce", 1'024, first, 8'000).collective("AllReduce", 1'024, second, 4'000);
  late.kernel("gemm");
  if (!numbered) {
    late.collective("AllReduce", 4'096, -1, 9'000);
    late.trace().collectives.back().communicator = 2;
  }
  late.collective("AllReduce", 1'024, first, 3'000).collective("AllReduce", 1'024, second, 5'000);
  const Result<MeasuredProfile> measured = measure(run.graph, {early.trace(), late.trace()});
  REQUIRE(measured);
  REQUIRE(measured->profile.measured_collectives.size() == (numbered ? 1 : 2));
  const MeasuredCollective& all_reduce = measured->profile.measured_collectives[0];
  CHECK(all_reduce.size.count == 2048);
  CHECK(all_reduce.ranks == 8);
  CHECK(all_reduce.samples == 2);
  CHECK(all_reduce.seconds == Approx(3.5e-6));  // of 3 and 4 us
  CHECK(all_reduce.network == Bandwidth{});
  const std::vector<NamedTrace> late_alone{{"t", late.trace()}};
  const Bandwidth link{450'000'000'000};
  const auto on_links =
      measured_profile(late_alone, run.graph, Profile{}, {.least_matched = 0, .most_of_forecast = 1e9}, link);
  CHECK(on_links.value().profile.measured_collectives[0].network == link);
}

TEST_CASE("profile from a recording: NCCL's kernels without sizes are the step's collectives in order",
          "[tracer][profile-from]") {
  const ForecastRun run = test::unfolded_forecast(test::scenario_of(8));
  HandMade made;
  made.kernel("gemm").kernel("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgs)", 7'000);
  const Result<MeasuredProfile> measured = measure(run.graph, {made.trace()});
  REQUIRE(measured);
  CHECK(measured->collectives_matched == 1);
  REQUIRE(measured->profile.measured_collectives.size() == 1);
  // Sequence parallelism: what tensor ranks scatter is [s, b, h] in bf16.
  CHECK(measured->profile.measured_collectives[0].size.count == std::int64_t{8192} * 4096 * 2);
  CHECK(measured->profile.measured_collectives[0].seconds == Approx(7e-6));
}

TEST_CASE("profile from a recording: a kernel of NCCL is never an operator", "[tracer][profile-from][recorder]") {
  const ForecastRun run = test::unfolded_forecast(test::scenario_of(8));
  HandMade made;
  made.kernel("nvjet_sm90_tst_128x256_64x4_bf16");
  for (const char* name : {"_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE",
                           "_Z21ncclDevKernel_Generic24ncclDevKernelArgsStorageILm4096EE",
                           "_Z31ncclDevKernel_Broadcast_RING_LL24ncclDevKernelArgsStorageILm4096EE"})
    made.kernel(name, 900'000);
  const Result<MeasuredProfile> measured = measure(run.graph, {made.trace()});
  REQUIRE(measured);
  CHECK(measured->kernels == 1);
  CHECK(measured->collectives == 3);
  REQUIRE(measured->profile.measured.size() == 1);
  CHECK(measured->profile.measured[0].op.kind == OperatorKind::gemm);
}

TEST_CASE("profile from a recording: transfers of other libraries are kernels without a match",
          "[tracer][profile-from]") {
  const ForecastRun run = test::unfolded_forecast(test::scenario_of(8));
  const bool sizes = GENERATE(false, true);
  HandMade made;
  made.kernel("nvjet_sm90_tst_128x256_64x4_bf16", 1'000);
  if (sizes) made.collective("AllReduce", 1'024, 1, 5'000);
  made.kernel("void deep_ep::intranode::combine<8>(int)", 3'000);
  const Result<MeasuredProfile> measured = measure(run.graph, {made.trace()});
  REQUIRE(measured);
  CHECK(measured->kernels == 2);
  CHECK(measured->matched == 1);
  CHECK(measured->time == Duration{4'000'000});
  CHECK(measured->collectives == (sizes ? 1 : 0));
  REQUIRE(measured->unmatched.size() == 1);
  CHECK(measured->unmatched[0] ==
        UnmatchedKernels{"deep_ep::intranode::combine", Duration{3'000'000}, Match::other_library});
  CHECK(error_text(measure(run.graph, {made.trace()}, {.least_matched = 0.5, .most_of_forecast = 1e9}))
            .find("only 25.0 %") != std::string::npos);
}

TEST_CASE("profile from a recording: it says once that times are divided by factors, if there are any",
          "[tracer][profile-from]") {
  const ForecastRun run = test::unfolded_forecast(test::scenario_of(8));
  HandMade made;
  made.kernel("nvjet_sm90_tst_128x256_64x4_bf16", 1'000'000'000);
  const std::vector<NamedTrace> named{{"t", made.trace()}};
  const MatchLimits limits{.least_matched = 0, .most_of_forecast = 1e9};
  Profile base;
  base.peak_flops = {{Precision::bf16, 989e12}};
  CHECK(value_of(measured_profile(named, run.graph, base, limits)).profile.in_training.fit.data.empty());
  base.in_training.gemm = 1.5;
  Profile first = value_of(measured_profile(named, run.graph, base, limits)).profile;
  CHECK(first.in_training.fit.data == "recorded operators are divided by them");
  CHECK(value_of(measured_profile(named, run.graph, first, limits)).profile.in_training.fit == first.in_training.fit);
  base.in_training.fit.data = "3 runs";
  first = value_of(measured_profile(named, run.graph, base, limits)).profile;
  CHECK(first.in_training.fit.data == "3 runs; recorded operators are divided by them");
}

TEST_CASE("profile from a recording: the sum of split multiplications belongs to them", "[tracer][profile-from]") {
  const ForecastRun run = test::unfolded_forecast(test::scenario_of(8));
  HandMade made;
  made.kernel("nvjet_sm90_tst_128x256_64x4_bf16", 1'000).kernel("cublasLt::splitKreduce_kernel<32, 16>", 200);
  const Result<MeasuredProfile> measured = measure(run.graph, {made.trace()});
  REQUIRE(measured);
  REQUIRE(measured->profile.measured.size() == 1);
  CHECK(measured->profile.measured[0].seconds == Approx(1.2e-6));
}

TEST_CASE("profile from a recording: groups across hosts are left to the network model", "[tracer][profile-from]") {
  const ForecastRun run = test::unfolded_forecast(
      test::scenario_of(16, {"parallel.tp=1", "parallel.sequence_parallel=false", "training.global_batch_size=16"}));
  HandMade made;
  made.kernel("gemm").collective("AllReduce", 1'024, 1, 5'000);
  made.trace().collectives[0].ranks = 16;
  const Result<MeasuredProfile> measured = measure(run.graph, {made.trace()});
  REQUIRE(measured);
  CHECK(measured->collectives_matched == 1);
  CHECK(measured->collectives_across_hosts == 1);
  CHECK(measured->profile.measured_collectives.empty());
}

TEST_CASE(
    "profile from a recording: groups of as many ranks on one host and across hosts are told apart by their calls",
    "[tracer][profile-from]") {
  // tp 8 is on one host, dp 8 on eight hosts.
  const ForecastRun run = test::unfolded_forecast(test::scenario_of(64, {"parallel.zero_stage=1"}));
  const auto size_in = [&run](int nodes) {
    for (const CostedCollective& each : run.graph.collectives) {
      const std::int32_t group = run.graph.ranks.front().communicators[static_cast<std::size_t>(each.slot)];
      const GroupPlacement& placed = run.graph.communicators[static_cast<std::size_t>(group)].placement;
      if (each.call.collective == Collective::reduce_scatter && placed.ranks == 8 && placed.nodes == nodes)
        return each.call.size.count;
    }
    FAIL("no reduce-scatter over " << nodes << " hosts");
    return std::int64_t{0};
  };
  HandMade made(0, 64);
  made.kernel("gemm");
  for (const std::int64_t bytes : {size_in(1), size_in(8), std::int64_t{6'666}})
    made.collective("ReduceScatter", bytes / 2, bytes, 5'000'000);
  const Result<MeasuredProfile> measured = measure(run.graph, {made.trace()});
  REQUIRE(measured);
  CHECK(measured->collectives_matched == 3);
  CHECK(measured->collectives_across_hosts == 2);  // also the one of a size that the scenario does not have
  REQUIRE(measured->profile.measured_collectives.size() == 1);
  CHECK(measured->profile.measured_collectives[0].size.count == size_in(1));
}

TEST_CASE("profile from a recording: of a message without a number the end that came last counts",
          "[tracer][profile-from]") {
  const ForecastRun run = test::unfolded_forecast(test::scenario_of(8));
  HandMade sender(0, 8);
  HandMade receiver(1, 8);
  sender.kernel("gemm").collective("Send", 1'024, -1, 3'000).collective("Send", 1'024, -1, 5'000);
  receiver.kernel("gemm").collective("Recv", 1'024, -1, 900'000).collective("Recv", 1'024, -1, 800'000);
  for (TraceCollective& each : sender.trace().collectives) each.peer = 1;
  for (TraceCollective& each : receiver.trace().collectives) {
    each.rank = 1;
    each.peer = 0;
  }
  const Result<MeasuredProfile> measured = measure(run.graph, {sender.trace(), receiver.trace()});
  REQUIRE(measured);
  REQUIRE(measured->profile.measured_collectives.size() == 1);
  CHECK(measured->profile.measured_collectives[0].ranks == 2);
  CHECK(measured->profile.measured_collectives[0].samples == 2);
  CHECK(measured->profile.measured_collectives[0].seconds == Approx(4e-6));
}

TEST_CASE("profile from a recording: another GPU, another model or impossible rates are refused",
          "[error][tracer][profile-from]") {
  const ForecastRun run = test::unfolded_forecast(test::scenario_of(8));
  const GemmShape shape = shape_of(run.graph, "fc2");
  Profile h100;
  h100.name = "h100";
  h100.gpu = "H100 SXM 80 GB";
  h100.peak_flops = {{Precision::bf16, 989e12}};
  const auto refusal = [&](Trace trace) {
    const std::vector<NamedTrace> named{{"t", std::move(trace)}};
    return error_text(measured_profile(named, run.graph, h100, {.least_matched = 0, .most_of_forecast = 1e9}));
  };
  HandMade of_a100;
  of_a100.range(mm(shape), [&] { of_a100.kernel("nvjet_bf16", 1'000'000'000); });
  CHECK(refusal(of_a100.trace()).empty());
  of_a100.trace().header.gpu = "NVIDIA A100-SXM4-80GB";
  CHECK(refusal(of_a100.trace()) ==
        "t: gpu = NVIDIA A100-SXM4-80GB: recorded, but the scenario's profile h100 is of another GPU, H100 SXM 80 GB "
        "(allowed: a recording on the scenario's GPU)");
  of_a100.trace().header.gpu = "";
  of_a100.trace().devices = {{0, "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "9.0", 16, 10'000'000'000, true}};
  CHECK(
      refusal(of_a100.trace()) ==
      "t: gpu = NVIDIA H100 80GB HBM3 MIG 1g.10gb: a slice (MIG) of a GPU, whose kernels say nothing about a whole one "
      "(allowed: a whole GPU)");
  HandMade fast;
  fast.range(mm(shape), [&] { fast.kernel("nvjet_bf16", 1); });
  CHECK(refusal(fast.trace())
            .find("TFLOP/s (allowed: up to 1088, 1.1 of the peak of bf16): the kernels are not those of "
                  "the scenario") != std::string::npos);
  HandMade other;
  for (int i = 1; i <= 4; ++i)
    other.range(mm({.m = 100 + i, .n = 77, .k = 55}), [&] { other.kernel("nvjet_bf16", 1'000'000'000); });
  CHECK(refusal(other.trace()) ==
        "t: multiplies matrices of other sizes than the scenario: 0 of 4 are sizes of its operators (allowed: a "
        "recording of "
        "the same model and layout)");
}

TEST_CASE("profile from a recording: one that has too little in common with the scenario is refused",
          "[error][tracer][profile-from]") {
  const ForecastRun run = test::unfolded_forecast(test::scenario_of(8));
  // All operators of a step with `factor` times their forecast, the last `left_out` of them missing, `unknown` ns of another kernel.
  const auto refusal = [&run](double factor, std::size_t left_out, std::int64_t unknown) {
    std::vector<std::pair<const char*, std::int64_t>> kernels;
    test::for_each_operator(run.graph, run.graph.ranks.front(), [&](const CostedOperator& each) {
      kernels.emplace_back(test::kernel_name(each.op.kind),
                           static_cast<std::int64_t>(seconds(each.cost.duration) * 1e9 * factor));
    });
    kernels.resize(kernels.size() - std::min(left_out, kernels.size()));
    HandMade made;
    for (const auto& [name, ns] : kernels) made.kernel(name, std::max<std::int64_t>(1, ns));
    if (unknown > 0) made.kernel("topk_kernel", unknown);
    return error_text(measure(run.graph, {made.trace()}, MatchLimits{}));
  };
  const auto step = static_cast<std::int64_t>(run.forecast.step_time_s * 1e9);
  CHECK(refusal(1, 0, 0).empty());
  CHECK(refusal(3.9, 0, 0).empty());
  CHECK(
      refusal(4.1, 0, 0) ==
      "t0: its multiplications and attention take 4.1 times their forecast: another model, layout or GPU (allowed: up "
      "to 4 times)");
  CHECK(refusal(1, 0, step / 10).empty());
  CHECK(refusal(1, 0, 2 * step)
            .find("% of the kernels' time matches operators of the scenario; longest without a match: "
                  "topk_kernel, the step has no operator of this kind (allowed: from 50 % on; "
                  "--least-matched sets another limit)") != std::string::npos);
  const auto operators = expected_step(run.graph, run.graph.ranks.front()).operators.size();
  CHECK(refusal(1, operators / 10, 0).empty());
  CHECK(refusal(1, operators * 8 / 10, 0)
            .find("% of the scenario's step, by forecast time: another model, or not a whole "
                  "step (allowed: from 50 % on;") != std::string::npos);
}

TEST_CASE("profile from a recording: what cannot be used is one error message", "[error][tracer][profile-from]") {
  const ForecastRun run = test::unfolded_forecast(test::scenario_of(8));
  const auto sentence = [&run](const HandMade& made) {
    HandMade copy = made;
    return to_string(measure(run.graph, {copy.trace()}).error());
  };
  CHECK(sentence(HandMade()) == "t0: has no compute kernels");
  CHECK(sentence(HandMade(0, 8).kernel(kWholeGraph)) ==
        "t0: has CUDA graphs that were recorded as a whole, without their kernels (allowed: nsys profile "
        "--cuda-graph-trace=node)");
  CHECK(sentence(HandMade(0, 16).kernel("gemm")) == "t0: ranks = 16: recorded, but the scenario has 8");
  CHECK(sentence(HandMade(8).kernel("gemm")) == "t0: rank = 8: recorded, but the scenario has 8 ranks");
  // Two files that do not say of which rank they are would both be compared with rank 0.
  HandMade first;
  HandMade second;
  first.kernel("gemm");
  second.kernel("gemm");
  CHECK(to_string(measure(run.graph, {first.trace(), second.trace()}).error()) ==
        "t1: rank: is not in the file, nor in another one given (allowed: one such file, taken for rank 0 and on)");
  // The same rank twice would count twice, and mix the collectives of two runs.
  CHECK(to_string(measure(run.graph, {HandMade(2).kernel("gemm").trace(), HandMade(3).kernel("gemm").trace(),
                                      HandMade(3).kernel("gemm").trace()})
                      .error()) == "t2: rank = 3: is also in t1 (allowed: one recording of each rank)");
  CHECK(to_string(measure(run.graph, {first.trace(), HandMade(0).kernel("gemm").trace()}).error()) ==
        "t1: rank = 0: is also in t0 (allowed: one recording of each rank)");
  CHECK(measure(run.graph, {first.trace()}));
}

TEST_CASE("profile from a recording: measurements between hosts stay", "[tracer][profile-from]") {
  const ForecastRun run = test::unfolded_forecast(test::scenario_of(8));
  HandMade made;
  made.kernel("gemm").collective("AllReduce", 1'024, 1, 5'000'000);
  Profile base;
  base.measured_collectives = {{.collective = Collective::all_reduce,
                                .ranks = 8,
                                .size = {2'048},
                                .seconds = 1e-3,
                                .samples = 1,
                                .nodes = 2,
                                .network = {400'000'000'000}}};
  const std::vector<NamedTrace> named{{"t", made.trace()}};
  const MeasuredProfile measured =
      value_of(measured_profile(named, run.graph, base, {.least_matched = 0, .most_of_forecast = 1e9}));
  REQUIRE(measured.profile.measured_collectives.size() == 2);
  CHECK(measured.profile.measured_collectives[0] == base.measured_collectives[0]);
  CHECK(measured.profile.measured_collectives[1].nodes == 1);
}

TEST_CASE("profile from a recording: times that cannot be are refused", "[error][tracer][profile-from]") {
  const ForecastRun run = test::unfolded_forecast(test::scenario_of(8));
  const auto sentence = [&run](std::int64_t begin, std::int64_t end) {
    HandMade made;
    made.kernel("gemm");
    made.trace().kernels[0].start_ns = begin;
    made.trace().kernels[0].end_ns = end;
    return error_text(measure(run.graph, {made.trace()}));
  };
  CHECK(sentence(1'000, 2'000).empty());
  CHECK(sentence(2'000, 1'000) == "t0: kernel gemm = 1000 ns: ends before it begins (allowed: from 2000 ns on)");
  CHECK(sentence(0, std::int64_t{101} * 86'400 * 1'000'000'000) ==
        "t0: has kernels that take longer than 100 days together");
  CHECK(sentence(0, INT64_MAX) == "t0: has a time out of range (allowed: nanoseconds below 2^62)");
}
