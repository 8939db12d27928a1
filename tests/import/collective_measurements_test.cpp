#include "sim/import/collective_measurements.hpp"

#include <catch2/catch.hpp>

#include "sim/network/measured_network.hpp"
#include "tests/import/samples.hpp"
#include "tests/network/clusters.hpp"

using namespace tracecast;
using namespace tracecast::literals;

namespace {

CollectiveMeasurements tests(const std::string& text) {
  const Result<CollectiveMeasurements> read = read_nccl_tests(text, "t");
  if (!read) FAIL(to_string(read.error()));
  return *read;
}

std::string sentence(const Result<CollectiveMeasurements>& result) { return result ? "" : to_string(result.error()); }

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
      tests(kTwoRanks + kHead + " 1048576  262144  float  none  -1  50.0 20.97 10.49 0  49.0 21.40 10.70 0\n");
  REQUIRE(read.calls.size() == 1);
  CHECK(read.calls[0].measured.collective == Collective::all_gather);
  CHECK(read.calls[0].measured.ranks == 2);
  CHECK(read.calls[0].nodes == 2);
  CHECK(read.calls[0].measured.seconds == Approx(50e-6));
  CHECK(read.gpu == "GPU X");
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
  const ProfileWithCollectives made = with_collectives(base, {"nccl-tests", "", {one_host, two_hosts}, {}});
  CHECK(made.taken == 1);
  CHECK(made.across_hosts == 1);
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

TEST_CASE("nccl-tests: ambiguous output is rejected", "[io][nccl-tests][error]") {
  CHECK(sentence(read_nccl_tests("nothing", "t")) ==
        "t: has no whole row of a table of nccl-tests (size, count, type, redop, times)");
  CHECK(sentence(read_nccl_tests(kHead + " 8 2 float sum -1 50.0 1.00 1.00 0\n", "t")) ==
        "t:2: has a table without the list of its ranks (# Using devices)");
  CHECK(sentence(read_nccl_tests(kTwoRanks + kHead + " 8 2 float sum -1 50.0 1.00 0.30 0\n", "t")) ==
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

TEST_CASE("nccl-inspector: repeats of a size become one, with their spread", "[io][nccl-inspector]") {
  std::string text;
  for (const char* us : {"10", "30", "20"})
    text += std::string(R"({"header":{"id":"0x1","rank":0,"n_ranks":4,"nnodes":1},"coll_perf":{"coll":"AllReduce",)") +
            R"("coll_sn":8,"coll_msg_size_bytes":4096,"coll_exec_time_us":)" + us + "}}\n";
  const Result<CollectiveMeasurements> read = read_nccl_inspector(text + "{\"header\":", "t");
  REQUIRE(read);
  REQUIRE(read->calls.size() == 1);
  CHECK(read->calls[0].measured.seconds == Approx(20e-6));
  CHECK(read->calls[0].measured.samples == 3);
  CHECK(read->notes == std::vector<std::string>{"the last line is cut and was left out"});
  CHECK(sentence(read_nccl_inspector("[]\n", "t")) == "t:1: '[]' is not a record of NCCL's inspector");
}

TEST_CASE("nccl-inspector: the samples", "[io][nccl-inspector]") {
  if (!have_samples()) return;
  for (const char* file : {"allreduce_4x4090_rank0.jsonl", "allreduce_4x4090_rank1.jsonl"}) {
    const Result<CollectiveMeasurements> read =
        read_nccl_inspector(sample(std::string("nccl-inspector/") + file), file);
    REQUIRE(read);
    CHECK(read->calls.size() == 21);
    int records = 0;
    for (const MeasuredCall& call : read->calls) records += call.measured.samples;
    CHECK(records == 400);
  }
  CHECK(sentence(read_nccl_inspector(sample("nccl-inspector/exporter_summary_AllReduce_1GiB.csv"), "s")) ==
        "s:1: is the summary of the example exporter, which does not say of which collective; import the .log files");
}
