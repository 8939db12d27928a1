#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/import/collective_measurements.hpp"
#include "tests/import/samples.hpp"
#include "tests/support/results.hpp"

using namespace tracecast;
using namespace tracecast::literals;

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
  CHECK(read->calls[0].measured.spread == Approx((25.0 - 15) / 1.349 / 20));  // quartiles of 10, 20 and 30
  CHECK(read->notes == std::vector<std::string>{"3 collectives lack records of some of their ranks: their times may "
                                                "include waiting for others (give the files of all processes)",
                                                "the last line is cut and was left out"});
  CHECK(error_text(read_nccl_inspector("[]\n", "t")) == "t:1: '[]' is not a record of NCCL's inspector");
}

TEST_CASE("nccl-inspector: two times of a size have a spread", "[io][nccl-inspector]") {
  std::string text;
  for (const int us : {100, 300})
    text += fmt::format(R"({{"header":{{"id":"0xa","rank":0,"n_ranks":4,"nnodes":1}},"coll_perf":{{"coll":"AllReduce",)"
                        R"("coll_sn":{},"coll_msg_size_bytes":4096,"coll_exec_time_us":{}}}}}{})",
                        us, us, "\n");
  const std::string csv = to_csv(value_of(read_nccl_inspector(text, "t")));
  CHECK(csv.find("all_reduce,4,1,4096,200.000,0.031,0.3706,2\n") != std::string::npos);
}

// The kernel of a rank waits for the others: the time of the rank that came last is that of the collective.
TEST_CASE("nccl-inspector: of a collective that all processes recorded the shortest time counts",
          "[io][nccl-inspector]") {
  const auto record = [](int rank, int number, int us) {
    return fmt::format(R"({{"header":{{"id":"0xa","rank":{},"n_ranks":2,"nnodes":2}},"coll_perf":{{"coll":"AllReduce",)"
                       R"("coll_sn":{},"coll_msg_size_bytes":4096,"coll_exec_time_us":{}}}}}{})",
                       rank, number, us, "\n");
  };
  const auto read = read_nccl_inspector(record(0, 1, 30) + record(0, 2, 50) + record(0, 3, 20) + "\n" +
                                            record(1, 1, 90) + record(1, 2, 20) + record(1, 3, 21),
                                        "t");
  REQUIRE(read);
  REQUIRE(read->calls.size() == 1);
  CHECK(read->calls[0].nodes == 2);
  CHECK(read->calls[0].measured.samples == 3);
  CHECK(read->calls[0].measured.seconds == Approx(20e-6));  // of 30, 20 and 20
  CHECK(read->notes.empty());
}

// As inspector_plugin.cc of NCCL 2.28 fills them; the first is the example of its README (docs/references.md#nccl-inspector).
TEST_CASE("nccl-inspector: the size is one rank's share for all-gather and reduce-scatter", "[io][nccl-inspector]") {
  const auto record = [](const std::string& perf) {
    return R"({"header":{"id":"0xe62dedaa97644a","rank":4,"n_ranks":8,"nnodes":1},"metadata":{"inspector_output_format_version")"
           R"(:"v4.0"},"coll_perf":{)" +
           perf + "}}\n";
  };
  const std::string reduce_scatter =
      R"("coll":"ReduceScatter","coll_sn":1231,"coll_msg_size_bytes":2147483648,"coll_exec_time_us":41057,)"
      R"("coll_timing_source":"kernel_gpu","coll_algobw_gbs":418.439467,"coll_busbw_gbs":366.134533)";
  const std::string all_reduce =
      R"("coll":"AllReduce","coll_sn":1407,"coll_msg_size_bytes":17179869184,"coll_exec_time_us":61974,)"
      R"("coll_algobw_gbs":277.210914,"coll_busbw_gbs":485.119099)";
  const auto read = value_of(read_nccl_inspector(record(reduce_scatter) + record(all_reduce), "t"));
  REQUIRE(read.calls.size() == 2);
  CHECK(read.calls[0].measured.size == 16_GiB);
  CHECK(read.calls[1].measured.collective == Collective::reduce_scatter);
  CHECK(read.calls[1].measured.size == 16_GiB);
  CHECK(to_csv(read).find("reduce_scatter,8,1,17179869184,41057.000,366.135,") != std::string::npos);
  // without bandwidths, by what the writer means
  const auto gather = read_nccl_inspector(
      record(R"("coll":"AllGather","coll_sn":1,"coll_msg_size_bytes":1048576,"coll_exec_time_us":50)"), "t");
  REQUIRE(gather);
  CHECK(gather->calls[0].measured.size == 8_MiB);
  CHECK(
      error_text(read_nccl_inspector(
          record(R"("coll":"AllGather","coll_sn":1,"coll_msg_size_bytes":1048576,"coll_exec_time_us":50,)"
                 R"("coll_algobw_gbs":20.97152,"coll_busbw_gbs":18.35008)"),
          "t")) ==
      "t:1: coll_perf.coll_algobw_gbs = 20.97152: contradicts size and time of this all_gather over 8 ranks, which are "
      "167.772160 GB/s");
}

TEST_CASE("nccl-inspector: of messages in communicators of several hosts it is not known whether they leave the host",
          "[io][nccl-inspector]") {
  const auto message = [](int ranks, int nodes, int us) {
    return fmt::format(R"({{"header":{{"id":"0xa","rank":0,"n_ranks":{},"nnodes":{}}},"p2p_perf":{{"p2p":"Send",)"
                       R"("p2p_sn":1,"p2p_peer":1,"p2p_msg_size_bytes":1048576,"p2p_exec_time_us":{}}}}}{})",
                       ranks, nodes, us, "\n");
  };
  const auto read = read_nccl_inspector(message(16, 2, 60) + message(8, 1, 40) + message(2, 2, 90), "t");
  REQUIRE(read);
  REQUIRE(read->calls.size() == 2);
  CHECK(read->calls[0].nodes == 1);
  CHECK(read->calls[0].measured.seconds == Approx(40e-6));
  CHECK(read->calls[1].nodes == 2);
  CHECK(read->calls[1].measured.seconds == Approx(90e-6));
  CHECK(read->notes == std::vector<std::string>{
                           "1 messages in communicators of several hosts were left out: a record does not say "
                           "whether both ranks are on one host",
                           "2 messages lack the record of the other end, or follow one whose ends differ in size: "
                           "their times may include waiting for it (give the files of all processes)"});
}

TEST_CASE("nccl-inspector: of a message the end that came last counts", "[io][nccl-inspector]") {
  // p2p_sn counts each rank's own messages: rank 1 has received another one before.
  const auto message = [](int rank, const char* function, int number, int peer, int us) {
    return fmt::format(R"({{"header":{{"id":"0xa","rank":{},"n_ranks":4,"nnodes":1}},"p2p_perf":{{"p2p":"{}",)"
                       R"("p2p_sn":{},"p2p_peer":{},"p2p_msg_size_bytes":1048576,"p2p_exec_time_us":{}}}}}{})",
                       rank, function, number, peer, us, "\n");
  };
  const std::string sent = message(0, "Send", 2, 1, 24) + message(0, "Send", 1, 1, 20) + message(2, "Send", 1, 1, 22);
  const std::string received =
      message(1, "Recv", 1, 2, 900) + message(1, "Recv", 2, 0, 1'000) + message(1, "Recv", 3, 0, 18);
  const auto read = read_nccl_inspector(sent + received, "t");
  REQUIRE(read);
  REQUIRE(read->calls.size() == 1);
  CHECK(read->calls[0].measured.samples == 3);
  CHECK(read->calls[0].measured.seconds == Approx(20e-6));  // of 20, 18 and 22
  CHECK(read->notes.empty());
  // A cut file lacks the last one: those before it are still known.
  const auto cut = read_nccl_inspector(sent + message(1, "Recv", 1, 2, 900) + message(1, "Recv", 2, 0, 1'000), "t");
  REQUIRE(cut);
  CHECK(cut->calls[0].measured.samples == 3);
  CHECK(cut->calls[0].measured.seconds == Approx(22e-6));  // of 20, 24 and 22
  REQUIRE(cut->notes.size() == 1);
  CHECK(cut->notes[0].starts_with("1 messages lack"));
}

TEST_CASE("nccl-inspector: ranks that disagree on the size, and times of the host", "[io][nccl-inspector][error]") {
  const auto record = [](int rank, int bytes, const std::string& source) {
    return fmt::format(R"({{"header":{{"id":"0xa","rank":{},"n_ranks":2,"nnodes":1}},"coll_perf":{{"coll":"AllReduce",)"
                       R"("coll_sn":5,"coll_msg_size_bytes":{},"coll_exec_time_us":50,"coll_timing_source":"{}"}}}}{})",
                       rank, bytes, source, "\n");
  };
  CHECK(
      error_text(read_nccl_inspector(record(0, 4096, "kernel_gpu") + record(1, 8192, "kernel_gpu"), "t")) ==
      "t:2: coll_perf.coll_msg_size_bytes = 8192: contradicts another rank, whose all_reduce with coll_sn = 5 has 4096 "
      "bytes");
  const auto host = read_nccl_inspector(record(0, 4096, "kernel_cpu") + record(1, 4096, "collective_cpu"), "t");
  REQUIRE(host);
  CHECK(host->notes ==
        std::vector<std::string>{"2 times were taken on the host: they include launches, or how often it looked"});
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
  CHECK(error_text(read_nccl_inspector(sample("nccl-inspector/exporter_summary_AllReduce_1GiB.csv"), "s")) ==
        "s:1: is the summary of the example exporter, which does not say of which collective; import the .log files");
}

TEST_CASE("nccl-inspector: a size that does not fit is refused", "[io][nccl-inspector][error]") {
  const std::string text = fmt::format(
      R"({{"header":{{"id":"0xa","rank":0,"n_ranks":{},"nnodes":1}},"coll_perf":{{"coll":"AllGather","coll_sn":1,)"
      R"("coll_msg_size_bytes":{},"coll_exec_time_us":30}}}})",
      1 << 24, kMaxCollectiveBytes);
  CHECK(error_text(read_nccl_inspector(text + "\n", "t")).ends_with("is not a record of NCCL's inspector"));
}
