#include "sim/import/nccl_log.hpp"

#include <filesystem>

#include <catch2/catch.hpp>

#include "tests/support/files.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"

namespace tracecast {
namespace {

namespace fs = std::filesystem;

const fs::path kSamples = measurements_of_others() / "formats" / "nccl-debug-log";

NcclLog read_sample(const std::string& name) {
  const std::string text = content_of(kSamples / name);
  return value_of(read_nccl_log(text, name));
}

TEST_CASE("NCCL's log: choices by name, channels counted", "[io][network]") {
  const Result<NcclLog> log = read_nccl_log(
      "h:1:1 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count 1 datatype 7 op 0 root 0 comm 0x3 "
      "[nranks=16] stream 0x4\n"
      "h:1:1 [0] NCCL INFO AllReduce: 4 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..0}\n"
      "h:2:2 [1] NCCL INFO AllReduce: 4 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..0}\n"
      "h:1:1 [0] NCCL INFO Broadcast: 85711360 Bytes -> Algo TREE proto LL128 channel{Lo..Hi}={0..3}\n",
      "log");
  REQUIRE(log);
  CHECK(log->calls == 1);
  CHECK(log->ranks == 16);
  CHECK(log->choices ==
        std::vector<NcclChoice>{{Collective::all_reduce, 4, Algorithm::ring, Protocol::simple, 1, 0, 2},
                                {Collective::broadcast, 85711360, Algorithm::tree, Protocol::ll128, 4, 0, 1}});
}

TEST_CASE("NCCL's log: a range of channels that cannot be is not counted", "[io][network]") {
  const auto channels = [](const std::string& range) {
    const Result<NcclLog> log = read_nccl_log(
        "h:1:1 [0] NCCL INFO AllReduce: 4 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}=" + range + "\n", "log");
    REQUIRE(log);
    return log->choices.at(0).channels;
  };
  CHECK(channels("{2..5}") == 4);
  CHECK(channels("{0..1023}") == 1024);
  for (const char* range : {"{0..1024}", "{3..2}", "{-1..2}", "{0..}", "{0,3}"}) CHECK(channels(range) == 0);
}

TEST_CASE("NCCL's log: lines that say nothing of a collective are counted", "[io][network]") {
  const Result<NcclLog> log = read_nccl_log(
      "h:1:1 [0] NCCL INFO Mystery: opCount 0 count 1 [nranks=16] stream 0x4\n"
      "h:1:1 [0] NCCL INFO AllReduce: 4 Bytes -> Algo RING\n"
      "h:1:1 [0] NCCL INFO AllReduce: 4 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..0}\n",
      "log");
  REQUIRE(log);
  CHECK(log->choices.size() == 1);
  CHECK(log->left_out == 2);
}

TEST_CASE("NCCL's log: what is not a number is refused", "[io][error]") {
  const auto error = [](const std::string& said) {
    return error_text(read_nccl_log("NCCL INFO " + said + "\n", "log"));
  };
  CHECK(error("AllReduce: opCount 0 count 1 [nranks=x16] stream 0x4") == "log:1: 'x16' must be a number of ranks");
  CHECK(error("AllReduce: 4 Bytes -> Algo RING proto SIMPLE time soon") ==
        "log:1: 'soon' must be a time in microseconds");
  CHECK(error_text(read_nccl_log(
            "NCCL INFO Algorithm | Ring |\nNCCL INFO Protocol | LL |\nNCCL INFO AllReduce | 9.3/ ? |\n", "log")) ==
        "log:3: '9.3/ ?' must be a latency and a bandwidth, as 22.4/ 2.4");
}

TEST_CASE("NCCL's log: older ones have numbers, and the collective in the line before", "[io][network]") {
  const Result<NcclLog> log = read_nccl_log(
      "a:1:1 [0] NCCL INFO ReduceScatter: opCount 0 count 16 [nranks=32] stream 0x4\n"
      "b:1:1 [0] NCCL INFO AllGather: opCount 0 count 16 [nranks=32] stream 0x4\n"
      "a:1:1 [0] NCCL INFO 64 Bytes -> Algo 0 proto 0 time 49.675526\n"
      "b:1:1 [0] NCCL INFO 64 Bytes -> Algo 1 proto 2 time 12.5\n",
      "log");
  REQUIRE(log);
  CHECK(log->choices ==
        std::vector<NcclChoice>{{Collective::all_gather, 64, Algorithm::ring, Protocol::simple, 0, 12.5, 1},
                                {Collective::reduce_scatter, 64, Algorithm::tree, Protocol::ll, 0, 49.675526, 1}});
}

TEST_CASE("NCCL's log: the table of latencies and bandwidths", "[io][network]") {
  const Result<NcclLog> log = read_nccl_log(
      "NCCL INFO   Algorithm   |            Tree                  |            Ring                  |\n"
      "NCCL INFO   Protocol    |     LL |    LL128 |       Simple |     LL |    LL128 |       Simple |\n"
      "NCCL INFO     Broadcast |     0.0/   0.0 |     0.0/   0.0 |     0.0/   0.0 |     9.3/   1.2 |    18.0/   0.0 |  "
      "  22.4/   2.4 |\n"
      "NCCL INFO     AllReduce |     0.0/   0.0 |     0.0/   0.0 |     0.0/   0.0 |1234567.5/   1.2 |    18.0/   0.0 | "
      " "
      "  22.4/   2.4 |\n",
      "log");
  REQUIRE(log);
  REQUIRE(log->table.size() == 12);
  CHECK(log->table[9] == NcclTableCell{Collective::all_reduce, Algorithm::ring, Protocol::ll, 1234567.5, 1.2});
  CHECK(log->table[3] == NcclTableCell{Collective::broadcast, Algorithm::ring, Protocol::ll, 9.3, 1.2});
  CHECK(log->table[5] == NcclTableCell{Collective::broadcast, Algorithm::ring, Protocol::simple, 22.4, 2.4});
}

TEST_CASE("NCCL's log: samples", "[io][network]") {
  if (!fs::exists(kSamples)) {
    WARN("skipped: no samples of foreign formats at " << kSamples.string());
    return;
  }
  const NcclLog old = read_sample("nccl2.12_4n32g_coll_tuning.txt");
  CHECK(old.ranks == 32);
  REQUIRE(old.choices.size() == 3);  // 64, 128 and 256 bytes
  CHECK(old.choices[0].bytes == 64);
  CHECK(old.choices[0].algorithm == Algorithm::tree);
  CHECK(old.choices[0].protocol == Protocol::ll);
  CHECK(old.choices[0].time_us == 49.675526);
  const NcclLog recent = read_sample("nccl2.2x_h200_2n16g_coll_tuning_excerpt.txt");
  CHECK(recent.ranks == 16);
  CHECK_FALSE(recent.choices.empty());
  CHECK(read_sample("tuning_table_excerpt.txt").table.size() == 6);
}

TEST_CASE("NCCL's log: errors name the line", "[error][io]") {
  const auto error = [](const std::string& text) { return error_text(read_nccl_log(text, "log")); };
  CHECK(error("nothing") ==
        "log: has no line of NCCL about a collective (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL,TUNING)");
  CHECK(
      error("\nNCCL INFO AllReduce: 4 Bytes -> Algo STAR proto LL\n") ==
      "log:2: 'STAR' unknown algorithm of NCCL (allowed: 0 to 6, TREE RING COLLNET_DIRECT COLLNET_CHAIN NVLS NVLS_TREE "
      "PAT)");
  CHECK(error("NCCL INFO AllReduce: 4 Bytes -> Algo RING proto FAST\n") ==
        "log:1: 'FAST' unknown protocol of NCCL (allowed: 0 to 2, LL LL128 SIMPLE)");
  CHECK(error("NCCL INFO AllReduce: x Bytes -> Algo RING proto LL\n") == "log:1: 'x' must be a size in bytes");
}

}  // namespace
}  // namespace tracecast
