// Requirements on machines and models that are shipped.
#include <utility>

#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"
#include "sim/network/bisection.hpp"
#include "tests/requirements/predicted.hpp"
#include "tests/support/models.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;
using namespace tracecast::test;

TEST_CASE("ABCI's A nodes and mdx", "[row-0-15][row-0-16][requirements][network]") {
  const Cluster abci = shipped_topology("abci-a");
  CHECK(abci.max_nodes == 120);
  CHECK(abci.node.gpus == 8);
  CHECK(abci.node.nics == 4);
  CHECK(abci.node.nic_rate.bytes_per_second == 25'000'000'000);
  CHECK(abci.node.gpu_link.bytes_per_second == 300'000'000'000);
  CHECK(abci.gpu == "a100-40gb");
  const Scenario mdx = shipped_scenario("llm-jp-13b-mdx");
  CHECK(mdx.cluster.world_size == 12 * 8);
  CHECK(mdx.profile.name == "a100-40gb");
}

TEST_CASE("rotary positions have no parameters", "[row-0-31][requirements][model]") {
  Model model = llama(4, 512, 2048, 8, 8, 32000);
  model.max_position_embeddings = 2048;
  const std::int64_t rope = parameter_count(model).total();
  model.position = Position::none;
  CHECK(parameter_count(model).total() == rope);
  model.position = Position::learned;
  CHECK(parameter_count(model).total() == rope + 2048 * 512);
}

TEST_CASE("the machines of the lecture",
          "[row-1-8][row-1-9][row-1-10][row-1-11][row-1-12][row-1-13][requirements][network]") {
  const auto devices = [](const Cluster& cluster) { return cluster.max_nodes * cluster.node.gpus; };
  CHECK(devices(shipped_topology("frontier")) == 2 * 37'888);  // two dies of each module are GPUs
  CHECK(devices(shipped_topology("lumi")) >= 20'480);
  CHECK(devices(shipped_topology("fugaku")) == 158'976);
  CHECK(shipped_topology("aurora").max_nodes == 10'624);
  CHECK(devices(shipped_topology("abci-a")) == 960);
  CHECK(devices(shipped_topology("abci-v")) == 4'352);
  for (const auto& [gpu, dies] : {std::pair{"mi250x", 1}, std::pair{"mi250x-module", 2}}) {
    const Profile die = shipped_profile(gpu);
    CHECK(2 * die.peak_flops.at(Precision::bf16) == Approx(dies * 383e12).epsilon(1e-3));
    // rocBLAS multiplies fp32 on the matrix units, which are twice as fast as the vector units.
    CHECK(4 * die.peak_flops.at(Precision::fp32) == Approx(die.peak_flops.at(Precision::bf16)).epsilon(1e-3));
    CHECK(die.gemm.at(Precision::fp32).efficiency == die.gemm.at(Precision::bf16).efficiency);
  }
  CHECK(shipped_profile("v100").peak_flops.at(Precision::fp16) == Approx(125e12).epsilon(1e-2));
}

TEST_CASE("models of the documents are shipped with their counts", "[row-1-37][row-2-1][requirements][model]") {
  CHECK(parameter_count(shipped_model("mixtral-8x7b")).total() == 46'702'792'704);
  CHECK(active_parameters(shipped_model("mixtral-8x7b")) == 12'879'925'248);
  const Model small = shipped_model("baichuan-2-7b");
  CHECK(small.num_layers == 32);
  CHECK(small.vocab_size == 125696);
  CHECK(parameter_count(small).total() == 7'505'973'248);
  const Model large = shipped_model("baichuan-2-13b");
  CHECK(large.hidden_size == 5120);
  CHECK(large.ffn_hidden_size == 13696);
  CHECK(parameter_count(large).total() == 13'896'668'160);
  // Trained with Megatron-DeepSpeed.
  CHECK(predicted("llama2-7b-abci", {"model=baichuan-2-7b", "stack=megatron-deepspeed"}).step_time_s >
        predicted("llama2-7b-abci", {"model=baichuan-2-7b"}).step_time_s);
}

TEST_CASE("the small translation transformer runs with DDP on four GPUs", "[row-4-10][requirements][model][encoder]") {
  const Model model = shipped_model("translation-transformer");
  // Encoder layer: attention 4 h h + 4 h, MLP 2 h f + f + h, two norms 4 h; decoder: attention twice, three norms.
  const std::int64_t h = 512;
  const std::int64_t attention = 4 * h * h + 4 * h;
  const std::int64_t mlp = 2 * h * 512 + 512 + h;
  const std::int64_t layers = 6 * (attention + mlp + 4 * h) + 6 * (2 * attention + mlp + 6 * h);
  const std::int64_t ends = 2 * 32000 * h + 128 * h + 2 * 2 * h;
  CHECK(parameter_count(model).total() == layers + ends);
  const ForecastRun run = forecast(shipped_scenario("translation-ddp-4")).value();
  CHECK(run.forecast.fits);
  CHECK(run.forecast.ranks == 4);
  int cross = 0;
  for (const CostedOperator& op : run.graph.operators) cross += op.op.name == "cross_kv" ? 1 : 0;
  CHECK(cross == 3);  // forward, dgrad, wgrad
}

TEST_CASE("an UltraCluster of 20,000 GPUs does not block: each half sends to the other at line rate",
          "[row-3-51][requirements][network]") {
  Cluster p5 = shipped_topology("aws-p5");
  CHECK((p5.max_nodes == 0 || p5.max_nodes * p5.node.gpus >= 20'000));  // 0: any number
  p5.world_size = 20'000;
  const Topology topology(p5);
  // 1,250 nodes of 400 GB/s in each half.
  CHECK(static_cast<double>(bisect(topology).rate.bytes_per_second) == Approx(1250 * 400e9));
}
