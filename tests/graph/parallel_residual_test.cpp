#include <map>

#include <catch2/catch.hpp>

#include "sim/graph/layer.hpp"
#include "sim/plan/plan.hpp"
#include "tests/graph/layers.hpp"

using namespace tracecast;
using tracecast::test::calls_of;
using tracecast::test::layer_plan;

namespace {

Model neox() {
  return {.num_layers = 2,
          .hidden_size = 1024,
          .num_attention_heads = 16,
          .num_query_groups = 16,
          .ffn_hidden_size = 4096,
          .vocab_size = 50432,
          .parallel_residual = true};
}

using Calls = std::map<Collective, int>;

}  // namespace

TEST_CASE("parallel residual: attention and feed-forward are summed before the tensor ranks reduce", "[graph]") {
  Model model = neox();
  // y = x + attention(norm(x)) + mlp(norm(x)): one reduction of the sum, backward one for each column-parallel layer.
  const Plan plain = layer_plan(model, 4, false);
  CHECK(calls_of(LayerWork(model, plain).forward(0)) == Calls{{Collective::all_reduce, 1}});
  CHECK(calls_of(LayerWork(model, plain).backward(0, BackwardPart::all, false)) == Calls{{Collective::all_reduce, 2}});
  // With sequence parallelism both read one gathered input, whose gradient is scattered once: 2 of 2 + 2, 3 of 4 + 2 calls.
  const Plan sequence = layer_plan(model, 4, true);
  CHECK(calls_of(LayerWork(model, sequence).forward(0)) ==
        Calls{{Collective::all_gather, 1}, {Collective::reduce_scatter, 1}});
  CHECK(calls_of(LayerWork(model, sequence).backward(0, BackwardPart::all, false)) ==
        Calls{{Collective::all_gather, 2}, {Collective::reduce_scatter, 1}});
  model.parallel_residual = false;
  CHECK(calls_of(LayerWork(model, plain).forward(0)) == Calls{{Collective::all_reduce, 2}});
}

TEST_CASE("parallel residual: weight gradients apart gather what they multiply", "[graph]") {
  const Model model = neox();
  const Plan sequence = layer_plan(model, 4, true);
  const LayerWork work(model, sequence);
  // The gathers of the output gradient belong to both parts, that of the input to the weight gradients only.
  CHECK(calls_of(work.backward(0, BackwardPart::weight_gradients, false)) == Calls{{Collective::all_gather, 2}});
  CHECK(calls_of(work.backward(0, BackwardPart::input_gradients, false)) ==
        Calls{{Collective::all_gather, 1}, {Collective::reduce_scatter, 1}});
}

TEST_CASE("parallel residual: adapters of attention alone gather the input that a frozen feed-forward does not",
          "[graph]") {
  const Model model = neox();
  Plan sequence = layer_plan(model, 4, true);
  sequence.training.lora_rank = 8;
  sequence.training.lora_targets = {"qkv"};
  CHECK(calls_of(LayerWork(model, sequence).backward(0, BackwardPart::all, false)) ==
        Calls{{Collective::all_gather, 2}, {Collective::reduce_scatter, 1}});
}
