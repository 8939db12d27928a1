// Workloads and topologies of SimAI, and logs of AICB.
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/import/transfer_times.hpp"
#include "sim/io/files.hpp"
#include "sim/network/measured_network.hpp"
#include "tests/import/imported_steps.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;
using namespace tracecast::literals;
using namespace tracecast::test;

TEST_CASE("simai: a workload's layers, forward and backward", "[io][simai]") {
  const Result<ImportedGraph> read = import_as<ImportedGraph>(
      "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8\n2\n"
      "a -1 1000 ALLREDUCE 64 2000 NONE 0 3000 ALLGATHER_DP_EP 32 500\n"
      "b -1 1000 NONE 0 2000 ALLTOALL_EP 16 3000 NONE 0 500 \n",
      "t");
  REQUIRE(read);
  CHECK(nodes_of_kind(*read, ImportedNode::Kind::collective) == 3);
  CHECK(nodes_of_kind(*read, ImportedNode::Kind::compute) == 8);
  CHECK(replayed(*read) == 13_us);  // 2 (1 + 2 + 3) + 2 x 0.5, in us
  CHECK(error_text(import_as<ImportedGraph>("HYBRID_X\n1\na -1 x NONE 0 1 NONE 0 1 NONE 0 1\n", "t")) ==
        "t:3: 'x' must be a time in ns");
  CHECK(error_text(import_as<ImportedGraph>("HYBRID_X\n2\na -1 1 NONE 0 1 NONE 0 1 NONE 0 1\n", "t")) ==
        "t:2: 2 layers are declared, and 1 follow");
  for (const char* suffix : {"_TP", "_", "_EP_DP", "EP"})  // in SimAI groups of no kind
    CHECK(error_text(import_as<ImportedGraph>(
              "HYBRID_X\n1\na -1 1 ALLREDUCE" + std::string(suffix) + " 8 1 NONE 0 1 NONE 0 1\n", "t")) ==
          "t:3: 'ALLREDUCE" + std::string(suffix) +
              "' unknown collective of SimAI (allowed: NONE ALLREDUCE ALLGATHER REDUCESCATTER ALLTOALL BROADCAST, with "
              "_EP, _DP_EP)");
}

TEST_CASE("aicb: the tensor forms of torch.distributed are the collectives that they name", "[io][simai]") {
  const Result<ImportedGraph> log = import_as<ImportedGraph>(
      "comm_type,comm_group,comm_group_size,msg_size,stage\nCommType.all_gather_into_tensor,dp_group,8,64,init\n"
      "reduce_scatter_tensor,dp_group,8,128,init\nbarrier,dp_group,8,,init\n",
      "t");
  REQUIRE(log);
  REQUIRE(log->nodes.size() == 2);
  CHECK(log->nodes[0].collective == Collective::all_gather);
  CHECK(log->nodes[1].collective == Collective::reduce_scatter);
}

TEST_CASE("simai: transfers that take more than the engine counts are refused", "[error][simai]") {
  ImportedGraph step = import_as<ImportedGraph>(
                           "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 all_gpus: 8\n1\n"
                           "a -1 0 ALLGATHER 67108864 0 NONE 0 0 NONE 0 0\n",
                           "t")
                           .value();
  Cluster machine = shipped_topology("dgx-h100");
  machine.node.gpu_link = {1};
  CHECK(error_text(time_transfers(step, machine, shipped_profile("h100"), 0, "t")) ==
        "t: has nodes of more than 100 days together");
}

TEST_CASE("simai: collectives take the time of their group on a machine", "[io][simai]") {
  const std::string header = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 ep: 8 pp: 2 vpp: 1 ga: 1";
  const std::string layers =
      "\n4\na -1 0 ALLGATHER 67108864 0 NONE 0 0 NONE 0 0\nb -1 0 ALLTOALL_EP 67108864 0 NONE 0 0 NONE 0 0\n"
      "c -1 0 NONE 0 0 NONE 0 0 ALLREDUCE 67108864 0\nd -1 0 NONE 0 0 NONE 0 0 REDUCESCATTER_DP_EP 67108864 0\n";
  const Cluster machine = shipped_topology("dgx-h100");
  const Profile profile = shipped_profile("h100");
  const auto timed = [&](const std::string& text, int ranks) -> Result<ImportedGraph> {
    ImportedGraph step = import_as<ImportedGraph>(text, "t").value();
    if (const auto ok = time_transfers(step, machine, profile, ranks, "t"); !ok) return tl::unexpected(ok.error());
    return step;
  };
  // 128 ranks: dp 16. Sizes are those of the larger buffer, as SimAI's bus bandwidths divide them (Layer.cc, compute_busbw).
  const Result<ImportedGraph> step = timed(header + " all_gpus: 128" + layers, 0);
  REQUIRE(step);
  Cluster cluster = machine;
  cluster.world_size = 128;
  const auto network = make_network(cluster, profile);
  const auto expected = [&](Collective collective, std::vector<int> ranks, int sharing) {
    return network->cost({collective, 64_MiB}, place(cluster, ranks, sharing)).duration;
  };
  std::map<std::string, Duration> found;
  for (const ImportedNode& node : step->nodes) found[node.group] = node.duration;
  REQUIRE(found.size() == 4);
  CHECK(found["TP"] == expected(Collective::all_gather, {0, 1, 2, 3}, 1));
  CHECK(found["EP"] == expected(Collective::all_to_all, {0, 4, 8, 12, 16, 20, 24, 28}, 4));
  std::vector<int> data;
  for (int i = 0; i < 16; ++i) data.push_back(4 * i);
  CHECK(found["DP"] == expected(Collective::all_reduce, data, 4));
  CHECK(found["DP_EP"] == expected(Collective::reduce_scatter, {0, 32}, 8));
  CHECK(found["TP"] < found["EP"]);  // NVLink against NICs

  CHECK(error_text(timed(header + layers, 0)) ==
        "t: does not say of how many ranks: give --gpus to time its collectives");
  CHECK(error_text(timed(header + layers, 8)) == "--gpus = 8: is too few: a group of t has 8 ranks");
  CHECK(error_text(timed(header + " all_gpus: 128" + layers, 64)) ==
        "--gpus = 64: is not the 128 ranks that t is for (leave it out)");
  CHECK(error_text(import_as<ImportedGraph>(header + " all_gpus: 12" + layers, "t")) ==
        "t:1: '12' ranks are not a multiple of 4 (tensor) x 2 (pipeline) x 8 (experts)");
  CHECK(error_text(timed("comm_type,comm_group,comm_group_size,msg_size,stage\nall_reduce,dp,8,64,init\n", 8)) ==
        "--topology = dgx-h100: is for a Chakra trace or a workload of SimAI, not for: AICB communication log");
}

TEST_CASE("simai: every sample is read, or rejected with the reason", "[io][simai]") {
  if (!have_samples()) return;
  CHECK(read_step("simai/microAllReduce.txt").found[0].second == 2);
  CHECK(read_step("simai/workload_analytical.txt").found[0].second == 1789);
  CHECK(read_step("simai/L7B-M1-C04_Llama7B_megatron_tp2_pp1_mbs1_A100.txt").found[0].second == 76);
  CHECK(read_step("simai/L7B-D1-C01_Llama7B_zero2_mbs1.csv").nodes.size() == 305);
  for (const char* file : {"busbw.yaml", "nvlink_ratio.csv", "SimAI.conf"})
    CHECK(error_text(import_as<ImportedGraph>(sample(std::string("simai/") + file), file, "simai"))
              .starts_with(std::string(file) + ": "));
  for (const auto& [file, nodes, gpus, rate] :
       {std::tuple("topo_DCN+SingleToR_16g_8gps_200Gbps_A100.txt", 2, "a100", 200),
        {"topo_Spectrum-X_16g_8gps_400Gbps_H100.txt", 2, "h100", 400}}) {
    const Result<ImportedTopology> machine = import_as<ImportedTopology>(sample(std::string("simai/") + file), file);
    REQUIRE(machine);
    CHECK(machine->cluster.max_nodes == nodes);
    CHECK(machine->cluster.gpu == gpus);
    CHECK(machine->cluster.node.gpus == 8);
    CHECK(machine->cluster.node.nics == 8);
    CHECK(machine->cluster.node.nic_rate.bytes_per_second == rate * 125'000'000LL);
    CHECK(read_topology_text(to_topology_json(*machine, file), "t.json"));
  }
}

TEST_CASE("simai: rails, dual ToR and oversubscription are in the links between switches", "[io][simai]") {
  // 8 servers of 2 GPUs, an NVSwitch each. `leaf_of(server, gpu)` lists the leaves, which have `uplinks` links of 400 Gb/s to two spines.
  const auto machine = [](const auto& leaf_of, int leaves, int uplinks) {
    std::string links;
    int count = 0;
    const auto add = [&](int from, int to, const char* rate) {
      links += fmt::format("{} {} {} 0.0005ms 0\n", from, to, rate);
      ++count;
    };
    for (int gpu = 0; gpu < 16; ++gpu) {
      add(gpu, 16 + gpu / 2, "2880Gbps");
      for (const int leaf : leaf_of(gpu / 2, gpu % 2)) add(gpu, 24 + leaf, "200Gbps");
    }
    for (int leaf = 0; leaf < leaves; ++leaf)
      for (int up = 0; up < uplinks; ++up) add(24 + leaf, 24 + leaves + up % 2, "400Gbps");
    const std::string text = fmt::format("{} 2 8 {} {} H100\n16 17\n{}", 16 + 8 + leaves + 2, leaves + 2, count, links);
    return value_of(import_as<ImportedTopology>(text, "t", "simai-topology")).cluster;
  };
  // Segments of 4 servers, two leaves for each of the two rails: 4 ports of 200 Gb/s below a leaf.
  const auto dual_rails = [](int server, int gpu) {
    const int segment = server / 4;
    return std::vector<int>{4 * segment + gpu, 4 * segment + 2 + gpu};
  };
  const Cluster dual = machine(dual_rails, 8, 1);
  CHECK(dual.fabric == FabricKind::rail_optimized);
  CHECK(dual.node.nics == 4);
  CHECK(dual.node.nic_rate == 25_GBps);
  REQUIRE(dual.tiers.size() == 2);
  CHECK(dual.tiers[0].nodes == 4);
  CHECK(dual.tiers[0].oversubscription == 2);  // 800 Gb/s below, 400 above
  CHECK(machine(dual_rails, 8, 4).tiers[0].oversubscription == 1);
  // Both GPUs of a server on one leaf, as DCN+ has them.
  const auto one_leaf = [](int server, int) { return std::vector<int>{server / 4}; };
  const Cluster tree = machine(one_leaf, 2, 2);
  CHECK(tree.fabric == FabricKind::fat_tree);
  CHECK(tree.tiers[0].nodes == 4);
  CHECK(tree.tiers[0].oversubscription == 2);  // 8 x 200 below, 800 above
  // All servers below the same leaves: what is above them carries nothing.
  const auto all = [](int, int gpu) { return std::vector<int>{gpu}; };
  CHECK(machine(all, 2, 0).tiers.size() == 1);
  CHECK(machine(all, 2, 0).fabric == FabricKind::rail_optimized);
}

TEST_CASE("simai-topology: a million of anything is a count, more is not", "[io][simai][error]") {
  const auto refusal = [](const char* nodes) {
    return error_text(import_as<ImportedTopology>(std::string(nodes) + " 3 0 0 0 H100\n\n\n", "t", "simai-topology"));
  };
  CHECK(refusal("1000000") == "t:1: has 1000000 GPUs in servers of 3");
  CHECK(refusal("1000001").ends_with("must be a count"));
}

TEST_CASE("simai: a layout of more ranks than there can be is refused", "[io][simai][error]") {
  const std::string text =
      "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 65536 expert_parallel_npu_group: 65536 pp: 1\n1\n";
  CHECK(error_text(import_as<ImportedGraph>(text, "w.txt")) ==
        "w.txt:1: 'HYBRID_TRANSFORMER_FWD_IN_BCKWD' names a layout of more than 16777216 ranks: 65536 (tensor) x 1 "
        "(pipeline) x 65536 (experts)");
}
