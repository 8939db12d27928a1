// What is asked of cuBLASLt and cuDNN, computed on the CPU from its description and held to the definition of the operator:
// layouts, masks and the order of steps are right before there is a GPU.

#include <cmath>
#include <map>

#include <catch2/catch.hpp>

#include "kernels/cuda/attention_graph.hpp"
#include "kernels/cuda/gemm_problem.hpp"
#include "kernels/cuda/operand_bytes.hpp"
#include "kernels/cuda/waiting.hpp"
#include "kernels/reference.hpp"
#include "sim/base/random.hpp"

using namespace tracecast;
using namespace tracecast::cuda;
using reference::Doubles;

namespace {

Doubles random_values(std::int64_t count, std::uint64_t seed) {
  RandomStream random(seed, 0, 0);
  Doubles values(static_cast<std::size_t>(count));
  for (double& x : values) x = 2 * random.uniform() - 1;
  return values;
}

void check_close(const Doubles& values, const Doubles& expected) {
  REQUIRE(values.size() == expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    worst = std::isfinite(values[i]) ? std::max(worst, std::abs(values[i] - expected[i])) : 1e9;
  CHECK(worst < 1e-10);
}

/// result = op(first) op(second), column by column, as cuBLASLt does it.
Doubles column_major(const GemmProblem& p, const Doubles& first, const Doubles& second) {
  Doubles result(static_cast<std::size_t>(p.result.elements() * p.batch), 0.0);
  const auto value = [](const GemmOperand& m, const Doubles& v, std::int64_t batch, std::int64_t row,
                        std::int64_t col) {
    if (m.transposed) std::swap(row, col);
    return v[static_cast<std::size_t>(batch * m.elements() + col * m.pitch + row)];
  };
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t c = 0; c < p.result.columns; ++c)
      for (std::int64_t r = 0; r < p.result.rows; ++r)
        for (std::int64_t k = 0; k < p.depth; ++k)
          result[static_cast<std::size_t>(b * p.result.elements() + c * p.result.pitch + r)] +=
              value(p.first, first, b, r, k) * value(p.second, second, b, k, c);
  return result;
}

Operator gemm_of(OperatorKind kind, Pass pass, Precision precision, const std::string& name, const GemmShape& shape) {
  return {kind, pass, precision, name, shape};
}

/// Computes a graph step by step in double.
class Interpreter {
 public:
  explicit Interpreter(const AttentionGraph& graph) : graph_(graph) {}
  void set(int tensor, const Doubles& memory) { memory_[tensor] = memory; }

  void run() {
    for (const GraphStep& step : graph_.steps) run(step);
  }
  /// As it lies in memory.
  const Doubles& memory(int tensor) { return memory_.at(tensor); }

 private:
  using Index = std::array<std::int64_t, 4>;
  const GraphTensor& of(int tensor) const { return graph_.tensors[static_cast<std::size_t>(tensor)]; }
  static std::int64_t place(const GraphTensor& t, const Index& i) {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < 4; ++d) at += (t.dims[d] == 1 ? 0 : i[d]) * t.strides[d];
    return at;
  }
  double value(int tensor, Index i) const {
    const GraphTensor& t = of(tensor);
    if (t.by_value) return t.value;
    // Heads that are fewer are shared by neighbours.
    if (t.dims[1] > 1 && heads_ > t.dims[1]) i[1] /= heads_ / t.dims[1];
    return memory_.at(tensor)[static_cast<std::size_t>(place(t, i))];
  }
  double& result(int tensor, const Index& i) {
    const GraphTensor& t = of(tensor);
    Doubles& memory = memory_[tensor];
    memory.resize(static_cast<std::size_t>(t.dims[0] * t.dims[1] * t.dims[2] * t.dims[3]));
    return memory[static_cast<std::size_t>(place(t, i))];
  }
  template <class Work>
  static void each(const GraphTensor& t, Work work) {
    Index i{};
    for (i[0] = 0; i[0] < t.dims[0]; ++i[0])
      for (i[1] = 0; i[1] < t.dims[1]; ++i[1])
        for (i[2] = 0; i[2] < t.dims[2]; ++i[2])
          for (i[3] = 0; i[3] < t.dims[3]; ++i[3]) work(i);
  }

  void run(const GraphStep& step) {
    if (step.action == GraphAction::reshape) {  // the same memory, read otherwise
      memory_[step.y] = memory_.at(step.a);
      return;
    }
    const bool reduces = step.action == GraphAction::reduce_max || step.action == GraphAction::reduce_sum;
    if (reduces) return reduce(step);
    const GraphTensor y = of(step.y);
    heads_ = y.dims[1];
    each(y, [&](const Index& i) {
      result(step.y, i) = step.action == GraphAction::matmul ? product(step, i) : one(step, i);
    });
    heads_ = 0;
  }
  double product(const GraphStep& step, const Index& i) const {
    double sum = 0;
    for (std::int64_t k = 0; k < of(step.a).dims[3]; ++k)
      sum += value(step.a, {i[0], i[1], i[2], k}) * value(step.b, {i[0], i[1], k, i[3]});
    return sum;
  }
  void reduce(const GraphStep& step) {
    const bool largest = step.action == GraphAction::reduce_max;
    const GraphTensor& y = of(step.y);
    const std::int64_t shared = of(step.a).dims[1] / y.dims[1];
    each(y, [&](const Index& i) { result(step.y, i) = largest ? -INFINITY : 0; });
    each(of(step.a), [&](Index i) {
      const double x = value(step.a, i);
      i[1] /= shared;
      double& into = result(step.y, i);
      into = largest ? std::max(into, x) : into + x;
    });
  }
  double one(const GraphStep& step, const Index& i) const {
    const double a = value(step.a, i);
    const auto b = [&] { return value(step.b, i); };
    switch (step.action) {
      case GraphAction::add:
        return a + b();
      case GraphAction::subtract:
        return a - b();
      case GraphAction::multiply:
        return a * b();
      case GraphAction::divide:
        return a / b();
      case GraphAction::exp:
        return std::exp(a);
      case GraphAction::log:
        return std::log(a);
      case GraphAction::row_index:
        return static_cast<double>(i[2]);
      case GraphAction::column_index:
        return static_cast<double>(i[3]);
      case GraphAction::at_least:
        return a >= b() ? 1 : 0;
      case GraphAction::above:
        return a > b() ? 1 : 0;
      case GraphAction::select:
        return value(step.condition, i) != 0 ? a : b();
      default:
        return a;
    }
  }

  const AttentionGraph& graph_;
  std::map<int, Doubles> memory_;
  std::int64_t heads_ = 0;
};

}  // namespace

TEST_CASE("cuda gemm: what cuBLASLt is asked for is the operator", "[kernels][cuda]") {
  struct Case {
    OperatorKind kind;
    Pass pass;
    const char* name;
  };
  const Case c =
      GENERATE(Case{OperatorKind::gemm, Pass::forward, "qkv"}, Case{OperatorKind::gemm, Pass::dgrad, "qkv"},
               Case{OperatorKind::gemm, Pass::wgrad, "qkv"}, Case{OperatorKind::scores, Pass::forward, "qk"},
               Case{OperatorKind::scores, Pass::forward, "pv"}, Case{OperatorKind::scores, Pass::backward, "d_v"},
               Case{OperatorKind::grouped_gemm, Pass::dgrad, "expert_fc1"});
  const GemmShape shape{5, 7, 11, 3, false};
  const Operator op = gemm_of(c.kind, c.pass, Precision::bf16, c.name, shape);
  const Result<GemmProblem> problem = gemm_problem(op);
  REQUIRE(problem);
  const Doubles a = random_values(3 * 5 * 11, 1);
  const Doubles b = random_values(3 * 11 * 7, 2);
  check_close(column_major(*problem, b, a), reference::gemm(layout_of(op), shape, a, b));
}

TEST_CASE("cuda gemm: types, scales and what is rejected", "[kernels][cuda]") {
  const auto of = [](Precision precision, Pass pass, const GemmShape& shape) {
    return gemm_problem(gemm_of(OperatorKind::gemm, pass, precision, "fc1", shape));
  };
  const GemmShape shape{256, 384, 512, 1, false};
  const Result<GemmProblem> wgrad = of(Precision::bf16, Pass::wgrad, {256, 384, 512, 1, true});
  REQUIRE(wgrad);
  CHECK(wgrad->result.type == ElementType::fp32);
  CHECK(wgrad->accumulate);
  const Result<GemmProblem> fp8 = of(Precision::fp8, Pass::dgrad, shape);
  REQUIRE(fp8);
  CHECK(fp8->second.type == ElementType::e5m2);  // the gradient
  CHECK(fp8->first.type == ElementType::e4m3);
  CHECK(fp8->result.type == ElementType::bf16);
  CHECK(fp8->first.transposed);  // k innermost in both
  CHECK_FALSE(fp8->second.transposed);
  CHECK(fp8->first.scales() == 1);
  const Result<GemmProblem> blocks = of(Precision::fp8_block, Pass::forward, shape);
  REQUIRE(blocks);
  CHECK(blocks->first.scaling == Scaling::block128);
  // Transformer Engine: fast accumulation in the forward with one scale per tensor only.
  CHECK(of(Precision::fp8, Pass::forward, shape)->fast_accumulation);
  CHECK_FALSE(fp8->fast_accumulation);
  CHECK_FALSE(blocks->fast_accumulation);
  CHECK_FALSE(of(Precision::bf16, Pass::forward, shape)->fast_accumulation);
  CHECK(blocks->first.scales() == 4 * 3);     // 512 x 384 in blocks of 128
  CHECK(blocks->second.scales() == 4 * 256);  // 512 / 128 for each of 256 rows
  const Result<GemmProblem> narrow = of(Precision::mxfp8, Pass::forward, shape);
  REQUIRE_FALSE(narrow);
  CHECK(to_string(narrow.error()) == "fc1 forward: mxfp8 multiplications are not supported, Hopper has none");
  const Result<GemmProblem> odd = of(Precision::fp8, Pass::forward, {250, 384, 512, 1, false});
  REQUIRE_FALSE(odd);
  CHECK(to_string(odd.error()) == "fc1 forward: 250 x 384 x 512 in fp8: each size must be a multiple of 16");
}

TEST_CASE("cuda attention: the graph for cuDNN is attention", "[kernels][cuda]") {
  const AttentionShape shape = GENERATE(AttentionShape{2, 6, 6, 4, 4, 3, 5, true, 0},   // causal
                                        AttentionShape{1, 6, 6, 4, 2, 3, 5, true, 0},   // grouped queries
                                        AttentionShape{1, 6, 8, 2, 1, 3, 3, false, 0},  // no mask
                                        AttentionShape{1, 4, 7, 2, 2, 3, 3, true, 0},   // more keys than queries
                                        AttentionShape{1, 8, 8, 2, 2, 3, 3, true, 3});  // a window
  const AttentionSizes n = sizes_of(shape);
  const Doubles q = random_values(n.query, 1);
  const Doubles k = random_values(n.key, 2);
  const Doubles v = random_values(n.value, 3);
  const Doubles d_out = random_values(n.out, 4);
  const reference::AttentionResult expected = reference::attention(shape, q, k, v);

  const AttentionGraph forward = attention_graph(shape, true);
  Interpreter there(forward);
  there.set(forward.ports.q, q);
  there.set(forward.ports.k, k);
  there.set(forward.ports.v, v);
  there.run();
  check_close(there.memory(forward.ports.out), expected.out);
  check_close(there.memory(forward.ports.statistics), expected.log_sum_exp);

  const AttentionGraph backward = attention_graph(shape, false);
  Interpreter back(backward);
  back.set(backward.ports.q, q);
  back.set(backward.ports.k, k);
  back.set(backward.ports.v, v);
  back.set(backward.ports.out, expected.out);
  back.set(backward.ports.statistics, expected.log_sum_exp);
  back.set(backward.ports.d_out, d_out);
  back.run();
  const reference::AttentionGradient gradient = reference::attention_gradient(shape, q, k, v, d_out);
  check_close(back.memory(backward.ports.d_q), gradient.d_q);
  check_close(back.memory(backward.ports.d_k), gradient.d_k);
  check_close(back.memory(backward.ports.d_v), gradient.d_v);
}

TEST_CASE("cuda attention: without its mask the graph is unmasked attention", "[kernels][cuda]") {
  const AttentionShape shape{1, 5, 5, 2, 2, 3, 3, true, 0};
  AttentionShape unmasked = shape;
  unmasked.causal = false;
  const AttentionSizes n = sizes_of(shape);
  const Doubles q = random_values(n.query, 1);
  const Doubles k = random_values(n.key, 2);
  const Doubles v = random_values(n.value, 3);
  const AttentionGraph graph = attention_graph(shape, true, false);
  Interpreter interpreter(graph);
  interpreter.set(graph.ports.q, q);
  interpreter.set(graph.ports.k, k);
  interpreter.set(graph.ports.v, v);
  interpreter.run();
  check_close(interpreter.memory(graph.ports.out), reference::attention(unmasked, q, k, v).out);
}

TEST_CASE("cuda operands: bytes of a multiplication, of attention, of Adam", "[kernels][cuda]") {
  const Widths widths{64, 16, 4, 32, 32, 512};
  const auto about = [](std::int64_t bytes, std::int64_t exact) { return bytes >= exact && bytes <= exact + 12 * 256; };
  const ByteNeed gemm =
      need_of(gemm_of(OperatorKind::gemm, Pass::wgrad, Precision::bf16, "fc1", {64, 128, 256, 1, true}), widths);
  CHECK(about(gemm.inputs, 2 * (64 * 256 + 256 * 128)));
  CHECK(about(gemm.outputs, 4 * 64 * 128));
  CHECK(gemm.narrow == 0);
  const ByteNeed fp8 =
      need_of(gemm_of(OperatorKind::gemm, Pass::forward, Precision::fp8, "fc1", {64, 128, 256, 1, false}), widths);
  CHECK(fp8.inputs == 0);
  CHECK(about(fp8.narrow, 64 * 256 + 256 * 128));
  const Operator attention{OperatorKind::attention, Pass::backward, Precision::bf16, "attention",
                           AttentionShape{1, 32, 32, 4, 2, 16, 16, true, 0}};
  // q and out have 32 x 4 x 16 elements, k and v half of that; the log-sum-exp of 4 x 32 rows is fp32.
  CHECK(about(need_of(attention, widths).inputs, 2 * (2048 + 1024 + 1024 + 2 * 2048) + 4 * 128));
  CHECK(about(need_of(attention, widths).outputs, 2 * (2048 + 1024 + 1024)));
  const Operator adam{OperatorKind::optimizer, Pass::optimizer, Precision::fp32, "update",
                      ElementwiseShape{1000, Bytes{30'000}}};
  CHECK(about(need_of(adam, widths).inputs, 4000));
  CHECK(about(need_of(adam, widths).outputs, 14'000));  // weights, two moments, a 16-bit copy
}

TEST_CASE("cuda operands: norms wider than shared memory are refused", "[kernels][cuda][error]") {
  const Operator norm{OperatorKind::norm, Pass::backward, Precision::bf16, "rms_norm", ElementwiseShape{1 << 20, {}}};
  CHECK(refusal(norm, {28'000, 128, 1, 1, 1, 1}).empty());
  CHECK(refusal(norm, {28'001, 128, 1, 1, 1, 1}) == "rms_norm: rows of 28001 are wider than 28000");
}

TEST_CASE("cuda waiting: a lost rank is an error, not a wait without end", "[kernels][cuda][error]") {
  using cuda::WorkState;
  int left = 10'000;
  int checks = 0;
  cuda::wait_for([&left] { return left-- > 0 ? WorkState::running : WorkState::done; }, [&checks] { ++checks; });
  CHECK(left == -1);
  CHECK(checks == 2);  // one in 4,096 polls
  const auto running = [] { return WorkState::running; };
  CHECK_THROWS_WITH(cuda::wait_for(running, [] { throw cuda::DeviceError("NCCL lost another rank: remote error"); }),
                    "NCCL lost another rank: remote error");
  CHECK_THROWS_WITH(cuda::wait_for(
                        running, [] {}, std::chrono::milliseconds(5)),
                    "the GPU's work did not end within 0 s: another rank has ended, or ranks wait for each other");
  CHECK_THROWS_AS(cuda::wait_for([]() -> WorkState { throw cuda::DeviceError("cudaErrorIllegalAddress"); }, [] {}),
                  cuda::DeviceError);
}
