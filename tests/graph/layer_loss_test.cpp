// The loss behind the output layer: what its kernels move, and what tensor ranks exchange.
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/graph/layers.hpp"
#include "tests/support/models.hpp"

using namespace tracecast;
using namespace tracecast::test;

TEST_CASE("layer: the loss moves what the framework's kernels read and write", "[oracle][graph]") {
  const Model model = llama3_70b();
  Plan plan = layer_plan(model, 8, true);
  const std::int64_t logits = 8192 * (model.vocab_size / 8);
  const auto moved = [&](CrossEntropy kind) {
    plan.training.cross_entropy = kind;
    const LayerWork work(model, plan);
    const auto bytes = [&](const WorkList& list, Pass pass) {
      return std::get<ElementwiseShape>(find_operator(list, "cross_entropy", pass).shape).traffic.count;
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
  Plan plan = layer_plan(model, 8, true);
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

TEST_CASE("layer: metrics take the loss of all logits again", "[graph][oracle]") {
  const Model model = llama3_70b();
  Plan plan = layer_plan(model, 1, false);
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

TEST_CASE("layer: positions without a label cost neither logits nor loss", "[graph][property]") {
  const Model model = llama3_70b();
  Plan plan = layer_plan(model, 8, true);
  const auto work_of = [&] {
    const LayerWork work(model, plan);
    const WorkList forward = work.head_forward(), backward = work.head_backward(BackwardPart::all);
    const auto moved = [](const WorkList& list, Pass pass) {
      return static_cast<double>(
          std::get<ElementwiseShape>(find_operator(list, "cross_entropy", pass).shape).traffic.count);
    };
    return std::vector<double>{matrix_flops(forward), matrix_flops(backward), moved(forward, Pass::forward),
                               moved(backward, Pass::backward)};
  };
  const std::vector<double> all = work_of();
  plan.training.loss_mask_fraction = 0.25;
  const std::vector<double> labelled = work_of();
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(labelled[i] == all[i] / 4);
  // The norm before the output layer sees every token.
  const auto norm = [&] { return find_operator(LayerWork(model, plan).head_forward(), "rms_norm").shape; };
  const OperatorShape part = norm();
  plan.training.loss_mask_fraction = 1;
  CHECK(part == norm());
}
