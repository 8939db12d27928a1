#include "sim/import/collective_measurements.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/network/measured_network.hpp"
#include "tests/import/samples.hpp"
#include "tests/network/clusters.hpp"
#include "tests/support/results.hpp"

using namespace tracecast;
using namespace tracecast::literals;

namespace {

CollectiveMeasurements tests(const std::string& text) { return value_of(read_nccl_tests(text, "t")); }

const std::string kTwoRanks =
    "# Using devices\n#  Rank  0 Group  0 Pid 1 on a device  0 [0x1b] GPU X\n"
    "#  Rank  1 Group  0 Pid 2 on b device  0 [0x40] GPU X\n";
const std::string kHead = "#       size         count      type   redop    root     time   algbw   busbw #wrong\n";

struct Expected {
  const char* file;
  Collective collective;
  int ranks;
  int nodes;
  std::size_t sizes;
};

}  // namespace

TEST_CASE("nccl-tests: a row is a size with its time, hosts are counted", "[io][nccl-tests]") {
  const CollectiveMeasurements read =
      tests(kTwoRanks + kHead + " 1048576  131072  float  none  -1  50.0 20.97 10.49 0  49.0 21.40 10.70 0\n");
  REQUIRE(read.calls.size() == 1);
  CHECK(read.calls[0].measured.collective == Collective::all_gather);
  CHECK(read.calls[0].measured.ranks == 2);
  CHECK(read.calls[0].nodes == 2);
  CHECK(read.calls[0].measured.seconds == Approx(50e-6));
  CHECK(read.gpu == "GPU X");
  std::string windows = kTwoRanks;
  for (std::size_t at = 0; (at = windows.find('\n', at)) != std::string::npos; at += 2) windows.insert(at, "\r");
  CHECK(tests(windows + kHead + " 1048576  131072  float  none  -1  50.0 20.97 10.49 0  49.0 21.40 10.70 0\n").gpu ==
        "GPU X");
  CHECK(to_csv(read) ==
        "collective,ranks,nodes,bytes,time_us,busbw_gb_s,spread,samples\nall_gather,2,2,1048576,50.000,10.486,0.0000,"
        "1\n");
}

TEST_CASE("nccl-tests: what one host measured goes into a profile, and a call takes that long", "[io][nccl-tests]") {
  const MeasuredCall one_host{{Collective::all_reduce, 8, 1_MiB, 40e-6, 0.1, 3}, 1};
  const MeasuredCall two_hosts{{Collective::all_reduce, 16, 1_MiB, 70e-6, 0.1, 3}, 2};
  Profile base;
  base.measured_collectives = {{Collective::all_reduce, 8, 1_MiB, 90e-6, 0, 1},
                               {Collective::all_reduce, 8, 2_MiB, 95e-6, 0, 1}};
  const Result<ProfileWithCollectives> with = with_collectives(base, {"nccl-tests", "", {one_host, two_hosts}, {}});
  REQUIRE(with);
  const ProfileWithCollectives& made = *with;
  CHECK(made.taken == 1);
  CHECK(made.left_out == 1);  // no machine is given
  REQUIRE(made.profile.measured_collectives.size() == 2);
  CHECK(made.profile.measured_collectives[0].size == 2_MiB);
  CHECK(made.profile.measured_collectives[1] == one_host.measured);
  const GroupPlacement group = place(dgx_h100(8), range(8), 8);
  const auto network = make_network(dgx_h100(8), made.profile);
  const CollectiveCost cost = network->cost({Collective::all_reduce, 1_MiB}, group);
  CHECK(cost.duration == 40_us);
  CHECK(cost.latency <= cost.duration);
  CHECK(cost.algorithm != Algorithm::automatic);  // its flows follow from it
}

TEST_CASE("nccl-tests: what several hosts measured goes into a profile for groups on as many such hosts",
          "[io][nccl-tests]") {
  const Cluster machine = dgx_h100(256);
  const std::string head = "# all_reduce_perf\n# Using devices\n";
  std::string devices;
  for (int rank = 0; rank < 16; ++rank)
    devices += "#  Rank " + std::to_string(rank) + " Group 0 Pid 1 on node" + std::to_string(rank / 8) +
               " device 0 [0x1b] NVIDIA H100 80GB HBM3\n";
  // 1 GiB in 6 ms: 179 GB/s, 335.5 GB/s on the bus
  const CollectiveMeasurements read = tests(
      head + devices + kHead + " 1073741824 268435456 float sum -1 6000.0 178.96 335.54 0 6000.0 178.96 335.54 0\n");
  Profile base;
  base.name = "h100";
  base.gpu = "H100 SXM 80 GB";
  base.architecture = "Hopper";
  base.memory_bandwidth = 3350e9;
  const auto with = value_of(with_collectives(base, read, &machine));
  CHECK(with.taken_between == 1);
  const CollectiveMeasurements on_one{"nccl-tests", "", {{{Collective::all_reduce, 8, 1_GiB, 5e-3, 0, 1}, 1}}, {}};
  const auto kept = [&](const Cluster* where) {
    return value_of(with_collectives(base, on_one, where)).profile.measured_collectives.front().network;
  };
  CHECK(kept(&machine) == machine.node.gpu_link);
  CHECK(kept(nullptr) == Bandwidth{});
  CHECK(with.left_out == 0);
  REQUIRE(with.profile.measured_collectives.size() == 1);
  const MeasuredCollective& m = with.profile.measured_collectives[0];
  CHECK(m.nodes == 2);
  CHECK(m.network == 400_GBps);

  const auto network = make_network(machine, with.profile);
  const auto model = make_network(machine, base);
  const CollectiveCall call{Collective::all_reduce, 1_GiB};
  const auto cost_on = [&](const std::vector<int>& ranks, int sharing) {
    return network->cost(call, place(machine, ranks, sharing));
  };
  CHECK(cost_on(range(16), 1).duration == 6_ms);
  CHECK(cost_on(range(16), 1).provenance == Provenance::measured);
  CHECK(cost_on(range(16, 32), 1).duration == 6_ms);
  // other numbers of hosts, other ranks on each, NICs shared with other groups: the model
  for (const auto& [ranks, sharing] : {std::pair(range(32), 1), std::pair(range(16, 0, 2), 1),
                                       std::pair(range(16, 0, 8), 1), std::pair(range(16), 2)}) {
    const GroupPlacement group = place(machine, ranks, sharing);
    CHECK(network->cost(call, group).duration == model->cost(call, group).duration);
  }
  // another machine, or a lost NIC
  Cluster slower = machine;
  slower.node.nic_rate = 200_Gbps;
  const GroupPlacement group = place(slower, range(16), 1);
  CHECK(make_network(slower, with.profile)->cost(call, group).duration ==
        make_network(slower, base)->cost(call, group).duration);
  Cluster lost = machine;
  lost.faults.lost_rails = {3};
  CHECK(make_network(lost, with.profile)->cost(call, place(lost, range(16), 1)).duration != 6_ms);

  // faster than the NICs of a host
  CollectiveMeasurements wrong = read;
  wrong.calls[0].measured.seconds = 2.5e-3;
  const auto refused = with_collectives(base, wrong, &machine);
  REQUIRE_FALSE(refused);
  CHECK(to_string(refused.error()) ==
        "all_reduce of 1073741824 bytes over 16 ranks: takes 2.5e+03 us, in which each host receives 429.5 GB/s "
        "(allowed: up to 400, its NICs)");
  // not as many ranks on each host
  wrong.calls[0].measured.ranks = 15;
  wrong.calls[0].measured.seconds = 6e-3;
  CHECK(with_collectives(base, wrong, &machine)->left_out == 1);
}

// run() of nccl-tests' common.cu: the communicators of NCCL_TESTS_SPLIT_MASK run at once, rank 0 prints.
TEST_CASE("nccl-tests: of ranks that are split into groups the table is of the first group", "[io][nccl-tests]") {
  std::string devices = "# Using devices\n";
  for (int rank = 0; rank < 4; ++rank)
    devices += fmt::format("#  Rank {} Group {} Pid 1 on node{} device 0 [0x1b] GPU X\n", rank, rank % 2, rank / 2);
  const CollectiveMeasurements read =
      tests("# sendrecv_perf\n" + devices + kHead + " 8388608 2097152 float none -1 100.0 83.89 83.89 0 N/A\n");
  REQUIRE(read.calls.size() == 1);
  CHECK(read.calls[0].measured.ranks == 2);
  CHECK(read.calls[0].nodes == 2);
  CHECK(read.notes == std::vector<std::string>{"2 groups of ranks ran at the same time; the table is of the first, and "
                                               "its times include what the others sent"});
}

TEST_CASE("nccl-tests: the JSON form has the groups, too, and bandwidths that follow from them", "[io][nccl-tests]") {
  const auto json = [](double busbw) {
    std::string devices;
    for (int rank = 0; rank < 8; ++rank)
      devices += fmt::format(R"({}{{"rank": {}, "group": {}, "hostname": "node{}"}})", rank > 0 ? ", " : "", rank,
                             rank % 2, rank / 4);
    return fmt::format(R"({{"devices": [{}], "results": [{{"size": 67108864, "experiment_name": "AllReduce", )"
                       R"("out_of_place": {{"time": 300.0, "alg_bw": 223.696, "bus_bw": {}}}}}]}})",
                       devices, busbw);
  };
  const CollectiveMeasurements read = tests(json(335.544));  // 2 (4-1)/4 of alg_bw
  REQUIRE(read.calls.size() == 1);
  CHECK(read.calls[0].measured.ranks == 4);
  CHECK(read.calls[0].nodes == 2);
  CHECK(read.notes == std::vector<std::string>{"2 groups of ranks ran at the same time; the table is of the first, and "
                                               "its times include what the others sent"});
  CHECK(error_text(read_nccl_tests(json(391.468), "t")) ==  // that of 8 ranks
        "t:1: results.out_of_place.bus_bw = 391.468: contradicts size and time, which are 335.544 GB/s for all_reduce "
        "over 4 ranks");
}

TEST_CASE("nccl-tests: a row whose check failed is no measurement", "[io][nccl-tests][error]") {
  const auto row = [](const std::string& wrong) {
    return error_text(read_nccl_tests("# all_reduce_perf\n" + kTwoRanks + kHead +
                                          " 8388608 2097152 float sum -1 100.0 83.89 83.89 " + wrong +
                                          " 101.0 83.06 83.06 0\n",
                                      "t"));
  };
  CHECK(row("12") == "t:6: #wrong = 12: the check of this row failed: the collective did not compute what it should");
  CHECK(row("0").empty());
  CHECK(row("4e-07").empty());  // the largest deviation, in versions to 2.12
  CHECK(row("N/A").empty());
}

// Headers and rows as print_header and print_line_header of each version write them (docs/references.md#nccl-tests-columns).
TEST_CASE("nccl-tests: each version's columns tell the collective", "[io][nccl-tests]") {
  const auto collective = [](const std::string& table) {
    return tests(kTwoRanks + table).calls.at(0).measured.collective;
  };
  // version 2.0 to 2.12: broadcast has a root and no reduction
  CHECK(
      collective(
          "#       size         count    type    root     time   algbw   busbw  error     time   algbw   busbw  error\n"
          "   134217728      33554432   float       0    91250    1.47    1.47  0e+00    91248    1.47    1.47  "
          "0e+00\n") == Collective::broadcast);
  // all-gather has neither, and its two bandwidths leave out a rank's own share
  CHECK(collective(
            "#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error\n"
            "   134217728      16777216   float    87825    0.76    0.76  0e+00    85704    0.78    0.78  0e+00\n") ==
        Collective::all_gather);
  // all-to-all prints an empty reduction, and does not check in place
  CHECK(
      collective(
          "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
          "     8388608       1048576   float            105.2   79.74   39.87  0e+00    104.1   80.58   40.29    "
          "N/A\n") == Collective::all_to_all);
  // version 2.13 and later: all-to-all prints "none"
  CHECK(collective(kHead + " 8388608 1048576 float none -1 105.2 79.74 39.87 0 104.1 80.58 40.29 N/A\n") ==
        Collective::all_to_all);
  CHECK(collective(kHead + " 8388608 1048576 float none -1 105.2 79.74 39.87 0 104.1 80.58 40.29 0\n") ==
        Collective::all_gather);
  // version 2.18: statistics of the iterations stand before the second time
  const CollectiveMeasurements read = tests(
      kTwoRanks +
      "# size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv% time algbw busbw #wrong i_min "
      "i_max "
      "i_p99 i_cv%\n 8388608 2097152 float sum -1 100.0 83.89 83.89 0 99.0 140.0 139.0 8.10 101.0 83.06 83.06 0 98.0 "
      "120.0 118.0 5.00\n");
  CHECK(read.calls.at(0).measured.collective == Collective::all_reduce);
  CHECK(read.calls.at(0).measured.seconds == Approx(100e-6));
  // the program's name counts, where the output or the file has it
  CHECK(collective("# Collective test starting: all_reduce_perf_mpi\n" + kHead +
                   " 8388608 2097152 float sum -1 100.0 83.89 83.89 0 101.0 83.06 83.06 0\n") ==
        Collective::all_reduce);
  const auto by_file =
      read_nccl_tests(kTwoRanks + kHead + " 8388608 2097152 float sum -1 100.0 83.89 83.89 0 101.0 83.06 83.06 0\n",
                      "sendrecv_perf.log");
  REQUIRE(by_file);
  CHECK(by_file->calls.at(0).measured.collective == Collective::send_recv);
}

TEST_CASE("nccl-tests: the size of a type says whether a row counts the whole buffer", "[io][nccl-tests]") {
  const std::vector<std::pair<const char*, int>> types{{"int8", 1},     {"fp8_e4m3", 1}, {"half", 2},   {"fp16", 2},
                                                       {"bfloat16", 2}, {"float", 4},    {"double", 8}, {"uint64", 8}};
  for (const auto& [type, size] : types) {
    INFO(type);
    const auto read = [&, type = type](int count) {
      return read_nccl_tests(fmt::format("{}{} 8388608 {} {} none -1 100.0 83.89 83.89 0 101.0 83.06 83.06 0\n",
                                         kTwoRanks, kHead, count, type),
                             "t");
    };
    const auto whole = read(8'388'608 / size);
    REQUIRE(whole);
    CHECK(whole->calls.at(0).measured.collective == Collective::send_recv);
    // Of the programs that count the share of one rank, none has these bandwidths.
    CHECK(error_text(read(8'388'608 / size / 2)) ==
          "t:5: has a table whose collective is not named and cannot be told from its bandwidths");
  }
}

TEST_CASE("nccl-tests: collectives that a profile does not have are left out by name", "[io][nccl-tests]") {
  const std::string reduce =
      "# nThread 1\n" + kTwoRanks + kHead + " 8388608 2097152 float sum 0 100.0 83.89 83.89 0 101.0 83.06 83.06 0\n";
  CHECK(error_text(read_nccl_tests(reduce, "t")) ==
        "t: has reduce_perf alone, and a profile has no such collective (allowed: all_reduce_perf all_gather_perf "
        "reduce_scatter_perf "
        "alltoall_perf broadcast_perf sendrecv_perf)");
  const CollectiveMeasurements both = tests(reduce + "# nThread 1\n" + kTwoRanks + kHead +
                                            " 8388608 1048576 float none -1 105.2 79.74 39.87 0 1 2 3 0\n");
  CHECK(both.calls.size() == 1);
  CHECK(both.notes == std::vector<std::string>{"1 rows of reduce_perf were left out: a profile has no such collective",
                                               "the collective is not named; bandwidths and columns are those of "
                                               "all_gather_perf"});
}

TEST_CASE("nccl-tests: a bandwidth may differ from size over time as much as few digits of the time do",
          "[io][nccl-tests]") {
  // 1 MiB in 4.86 us are 215.76 GB/s; the time is printed as 4.9, which makes 213.99.
  const CollectiveMeasurements read =
      tests("# all_reduce_perf\n" + kTwoRanks + kHead + " 1048576 262144 float sum -1 4.9 215.76 215.76 0\n");
  REQUIRE(read.calls.size() == 1);
  CHECK(read.calls[0].measured.seconds == Approx(4.9e-6));
}

TEST_CASE("nccl-tests: a bandwidth that is not a number contradicts nothing", "[io][nccl-tests]") {
  const CollectiveMeasurements read =
      tests("# all_reduce_perf\n" + kTwoRanks + kHead + " 8388608 2097152 float sum -1 100.0 N/A N/A 0\n");
  REQUIRE(read.calls.size() == 1);
  CHECK(read.calls[0].measured.seconds == Approx(100e-6));
}

TEST_CASE("nccl-tests: figures that contradict each other are rejected", "[io][nccl-tests][error]") {
  CHECK(error_text(read_nccl_tests(
            kTwoRanks + "# all_reduce_perf\n" + kHead + " 8388608 2097152 float sum -1 100.0 8.39 8.39 0\n", "t")) ==
        "t:6: algbw = 8.39: contradicts the row's size and time, which are 83.89 GB/s for all_reduce over 2 ranks");
  CHECK(error_text(read_nccl_tests(
            kTwoRanks + "# all_gather_perf\n" + kHead + " 8388608 1048576 float none -1 100.0 83.89 83.89 0\n", "t")) ==
        "t:6: busbw = 83.89: contradicts the row's size and time, which are 41.94 GB/s for all_gather over 2 ranks");
  CHECK(error_text(read_nccl_tests(kTwoRanks + "# size count type redop root cputime algbw busbw #wrong\n"
                                               " 8388608 2097152 float sum -1 3.1 83.89 83.89 0\n",
                                   "t")) == "t:5: has times of the host (-C 1), which are not those of the collective");
  const auto json = [](const std::string& place) {
    return R"({"devices": [{"hostname": "a"}, {"hostname": "a"}], "results": [{"size": 8388608, "experiment_name": )"
           R"("AllReduce", "out_of_place": )" +
           place + "}]}";
  };
  CHECK(read_nccl_tests(json(R"({"time": 100.0, "alg_bw": 83.886, "bus_bw": 83.886})"), "t"));
  // Rows whose time is missing, zero or endless are left out, and said to be.
  const std::string good = R"({"time": 100.0}}, {"size": 8388608, "experiment_name": "AllReduce", "out_of_place": )";
  for (const char* bad : {R"({})", R"({"time": 0})", R"({"time": -1.0})", R"({"time": 1e30})"}) {
    const auto rows = read_nccl_tests(json(good + bad), "t");
    REQUIRE(rows);
    REQUIRE(rows->calls.size() == 1);
    CHECK(rows->calls.front().measured.samples == 1);
    CHECK(rows->calls.front().measured.seconds == Approx(100e-6));
    CHECK(rows->notes == std::vector<std::string>{"1 rows without an out-of-place time were left out"});
  }
  CHECK(error_text(read_nccl_tests(json(R"({"time": 100.0, "alg_bw": 41.9})"), "t")) ==
        "t:1: results.out_of_place.alg_bw = 41.900: contradicts size and time, which are 83.886 GB/s");
  CHECK(error_text(read_nccl_tests(json(R"({"cpu_time": 3.0, "alg_bw": 83.886})"), "t")) ==
        "t:1: results.out_of_place.cpu_time: is a time of the host (-C 1), which is not that of the collective");
  CHECK(error_text(read_nccl_tests(json(R"({"time": 100.0, "nwrong": 3.0})"), "t")) ==
        "t:1: results.out_of_place.nwrong = 3: the check of this row failed: the collective did not compute what it "
        "should");
}

TEST_CASE("nccl-tests: fields of the JSON form that are missing or of another type are named",
          "[io][nccl-tests][error]") {
  const auto json = [](const std::string& device, const std::string& row) {
    return error_text(read_nccl_tests(R"({"devices": [{"hostname": "a"}, {)" + device + R"(}], "results": [{)" + row +
                                          R"(, "experiment_name": "AllReduce"}]})",
                                      "t"));
  };
  const std::string host = R"("hostname": "b")";
  CHECK(json(host, R"("size": "8388608", "out_of_place": {"time": 100.0})") ==
        "t:1: results.size = \"8388608\": is not a number");
  CHECK(json(host, R"("out_of_place": {"time": 100.0})") == "t:1: results.size: is missing");
  CHECK(json(host, R"("size": 8388608, "out_of_place": {"time": "100.0"})") ==
        "t:1: results.out_of_place.time = \"100.0\": is not a number");
  CHECK(json(host, R"("size": 8388608, "out_of_place": {"time": 100.0, "alg_bw": [83.9]})") ==
        "t:1: results.out_of_place.alg_bw = [1 item]: is not a number");
  CHECK(json("\"rank\": 1", R"("size": 8388608, "out_of_place": {"time": 100.0})") ==
        "t:1: devices.hostname: is missing, or not a name");
}

TEST_CASE("nccl-tests: what a GPU cannot do does not enter its profile", "[io][nccl-tests][error]") {
  Profile h100;
  h100.name = "h100";
  h100.gpu = "H100 SXM 80 GB";
  h100.memory_bandwidth = 3350e9;
  const auto put = [&](MeasuredCollective m, const std::string& gpu = "NVIDIA H100 80GB HBM3") {
    return error_text(with_collectives(h100, {"nccl-tests", gpu, {{m, 1}}, {}}));
  };
  CHECK(put({Collective::all_reduce, 8, 1_GiB, 2.4e-3, 0, 1}).empty());  // 783 GB/s of bus bandwidth, with NVLS
  CHECK(put({Collective::all_reduce, 8, 1_GiB, 2.2e-3, 0, 1}) ==
        "all_reduce of 1073741824 bytes over 8 ranks: takes 2200.000 us, which sends 488.1 GB/s from each GPU "
        "(allowed: up "
        "to 450, its links)");
  CHECK(put({Collective::all_gather, 8, 1_GiB, 2.2e-3, 0, 1}).empty());  // 427 GB/s
  CHECK(
      put({Collective::all_gather, 8, 8_GiB, 2.2e-3, 0, 1}) ==
      "all_gather of 8589934592 bytes over 8 ranks: takes 2.2e+03 us, which is 3416 GB/s of bus bandwidth (allowed: up "
      "to 3350, the memory's rate)");
  CHECK(put({Collective::all_reduce, 8, 1_GiB, 2.4e-3, 0, 1}, "NVIDIA A100-SXM4-80GB") ==
        "gpu = NVIDIA A100-SXM4-80GB: measured, but profile h100 is of another GPU, H100 SXM 80 GB (allowed: "
        "measurements "
        "of the same GPU)");
}

// Found by tools/fuzz: the cell was looked for behind the end of the row.
TEST_CASE("nccl-tests: a damaged header names no columns behind the times", "[io][nccl-tests]") {
  const std::string row = " 1048576  262144  float  50.0 20.97 20.97 0\n";
  for (const char* late : {"redop", "root"}) {
    const CollectiveMeasurements read = tests("# all_reduce_perf\n" + kTwoRanks +
                                              "# size count type time algbw busbw #wrong a b c " + late + "\n" + row);
    REQUIRE(read.calls.size() == 1);
    CHECK(read.calls[0].measured.seconds == Approx(50e-6));
  }
}

// Found by tools/fuzz: the size of such a buffer does not fit into 64 bits.
TEST_CASE("nccl-tests: a count that no machine has says nothing about the buffers", "[io][nccl-tests]") {
  const std::string counts[] = {"262144", "2653722867280912144"};
  for (const std::string& count : counts) {
    const CollectiveMeasurements read = tests("# all_reduce_perf\n" + kTwoRanks + kHead + " 1048576  " + count +
                                              "  float  sum  -1  50.0 20.97 20.97 0\n");
    REQUIRE(read.calls.size() == 1);
    CHECK(read.calls[0].measured.seconds == Approx(50e-6));
  }
}

TEST_CASE("nccl-tests: ambiguous output is rejected", "[io][nccl-tests][error]") {
  CHECK(error_text(read_nccl_tests("nothing", "t")) ==
        "t: has no whole row of a table of nccl-tests (size, count, type, redop, times)");
  CHECK(error_text(read_nccl_tests(kHead + " 8 2 float sum -1 50.0 1.00 1.00 0\n", "t")) ==
        "t:2: has a table without the list of its ranks (# Using devices)");
  CHECK(error_text(read_nccl_tests(kTwoRanks + kHead + " 8 2 float sum -1 50.0 1.00 0.30 0\n", "t")) ==
        "t:5: has a table whose collective is not named and cannot be told from its bandwidths");
}

TEST_CASE("nccl-tests: every sample of every generation", "[io][nccl-tests]") {
  if (!have_samples()) return;
  for (const Expected& expected : {Expected{"a100_16gpu_mpirun_tagged.log", Collective::all_reduce, 16, 2, 25},
                                   {"b200x8_all_reduce.txt", Collective::all_reduce, 8, 1, 1},
                                   {"constructed_v3.json", Collective::all_reduce, 8, 1, 3},
                                   {"h100x8_all_reduce_graph.log", Collective::all_reduce, 8, 1, 6},
                                   {"nccl_allreduce.log", Collective::all_reduce, 8, 1, 32},
                                   {"nccl_reducescatter.log", Collective::reduce_scatter, 8, 1, 29},
                                   {"p5_16gpu_nccl2.22.3_info.log.gz", Collective::all_reduce, 16, 2, 32},
                                   {"polaris_2n_all_reduce.txt", Collective::all_reduce, 8, 2, 29}}) {
    INFO(expected.file);
    const CollectiveMeasurements read = tests(sample(std::string("nccl-tests/") + expected.file));
    CHECK(read.calls.size() == expected.sizes);
    CHECK(read.calls[0].measured.collective == expected.collective);
    CHECK(read.calls[0].measured.ranks == expected.ranks);
    CHECK(read.calls[0].nodes == expected.nodes);
  }
}
