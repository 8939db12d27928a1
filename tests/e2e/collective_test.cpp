// `tracecast collective` as a user runs it.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/e2e/shell.hpp"

using namespace tracecast;

TEST_CASE("collective: one object with time, algbw, busbw and what was chosen", "[e2e][network]") {
  const Sandbox sandbox;
  const Outcome outcome =
      sandbox.run("tracecast collective --topology dgx-a100 --ranks 16 --bytes '64 MiB' --algorithm ring --json");
  REQUIRE(outcome.code == 0);
  const auto json = nlohmann::json::parse(outcome.out);
  CHECK(json["topology"] == "dgx-a100");
  CHECK(json["nodes"] == 2);
  REQUIRE(json["results"].size() == 1);
  const auto& row = json["results"][0];
  CHECK(row["bytes"] == 64 << 20);
  CHECK(row["algorithm"] == "ring");
  const double algbw = 67108864 / (row["time_us"].get<double>() * 1e3);
  CHECK(row["algbw_gb_s"].get<double>() == Approx(algbw).epsilon(1e-4));
  CHECK(row["busbw_gb_s"].get<double>() == Approx(algbw * 30 / 16).epsilon(1e-4));
}

TEST_CASE("collective: a sweep to less than 1 KiB is refused", "[e2e][error][network]") {
  const Sandbox sandbox;
  for (const char* what : {"--sweep", "--svg curve.svg", "--sweep --json"}) {
    const Outcome outcome =
        sandbox.run(std::string("tracecast collective --topology dgx-h100 --ranks 16 --bytes 100B ") + what);
    CHECK(outcome.code == 2);
    CHECK(outcome.err == "--bytes = 100B: is less than 1 KiB, at which a sweep starts\n");
  }
}

TEST_CASE("collective: more than a day is refused", "[e2e][error][network]") {
  const Sandbox sandbox;
  auto machine = nlohmann::json::parse(content_of(source_dir() / "topologies/dgx-h100.json"));
  machine["node"]["nic_rate"] = "1 B/s";
  std::ofstream(sandbox.path() / "slow.json") << machine;
  for (const char* network : {"isolated", "fluid"}) {
    const Outcome outcome =
        sandbox.run(std::string("tracecast collective --topology slow.json --ranks 16 --network ") + network);
    CHECK(outcome.code == 2);
    CHECK(outcome.err.find("takes more than a day on slow (allowed: up to a day") != std::string::npos);
  }
}

TEST_CASE("import chakra --topology: collectives without a time take the network's", "[e2e][network][chakra]") {
  const Sandbox sandbox;
  // 10 us of computation, then an all-gather of 1 MiB of each of 16 ranks.
  std::ofstream(sandbox.path() / "astra.json")
      << R"({"workload_graph": [{"Id": 1, "Name": "c", "NodeType": 4, "runtime": 10},
      {"Id": 2, "Name": "g", "NodeType": 7, "comm_type": 2, "comm_size": 1048576, "data_deps": [1]}]})";
  const Outcome imported =
      sandbox.run("tracecast import chakra astra.json --topology dgx-h100 --gpus 16 -o step.json; cat step.json >&2");
  REQUIRE(imported.code == 0);
  CHECK(imported.out.find("note: collectives without a time in the file: 1; they take that of") != std::string::npos);
  const Outcome alone = sandbox.run(
      "tracecast collective --topology dgx-h100 --op all_gather --ranks 16 --bytes 16MiB --network isolated --json");
  REQUIRE(alone.code == 0);
  const double gather_us = nlohmann::json::parse(alone.out)["results"][0]["time_us"].get<double>();
  const double step_ps = nlohmann::json::parse(imported.err)["step_time_ps"].get<double>();
  CHECK(step_ps == Approx(1e6 * (10 + gather_us)).epsilon(1e-6));
  CHECK(sandbox.run("tracecast import chakra astra.json --topology dgx-h100").err ==
        "astra.json: does not say of how many ranks: give --gpus to time its collectives\n");
}

TEST_CASE("import: measurements of several files and hosts go into one profile", "[e2e][network][import]") {
  const Sandbox sandbox;
  for (int rank = 0; rank < 2; ++rank)
    std::ofstream(sandbox.path() / ("rank" + std::to_string(rank) + ".log"))
        << R"({"header":{"id":"0xa","rank":)" << rank
        << R"(,"n_ranks":2,"nnodes":2},"coll_perf":{"coll":"AllReduce","coll_sn":1,"coll_msg_size_bytes":1048576,)"
        << R"("coll_exec_time_us":)" << (rank == 0 ? 900 : 60) << "}}\n";
  const Outcome put = sandbox.run("tracecast import rank0.log rank1.log --into h100 --topology dgx-h100 -o mine.json");
  CHECK(put.err.empty());
  CHECK(
      put.out.find("put into h100: 0 of one host, 1 between hosts of dgx-h100; 0 across hosts are left to the network "
                   "model\n") != std::string::npos);
  const auto profile = nlohmann::json::parse(content_of(sandbox.path() / "mine.json"));
  CHECK(profile["measured_collectives"][0]["seconds"].get<double>() == Approx(60e-6));
  CHECK(profile["measured_collectives"][0]["nodes"] == 2);
  CHECK(profile["measured_collectives"][0]["network"] == "400 GB/s");
  CHECK(sandbox.run("tracecast predict tensor-parallel --set cluster.profile=$PWD/mine.json").code == 0);
  CHECK(sandbox.run("tracecast import rank0.log rank1.log --into h100 -o mine.json").err ==
        "rank0.log: has no collective of one host; those between hosts need the machine: give --topology\n");
  CHECK(sandbox.run("tracecast import nccl-inspector rank0.log docs/formats/samples/nccl.log")
            .err.starts_with("docs/formats/samples/nccl.log:1: "));
  CHECK(sandbox.run("tracecast import kineto docs/formats/samples/kineto.json rank0.log").err ==
        "rank0.log: is a second file; kineto takes one (allowed: several of measured collectives)\n");
}

TEST_CASE("collective: a size that no call has is refused, and names are escaped in --json", "[e2e][network][error]") {
  const Sandbox sandbox;
  const Outcome outcome = sandbox.run("tracecast collective --topology dgx-h100 --bytes 9000000TB");
  CHECK(outcome.code == 2);
  CHECK(outcome.err == "--bytes = 9000000TB: is more than one call may have (allowed: up to 1024 TiB)\n");
  CHECK(sandbox.run("tracecast collective --topology dgx-h100 --bytes 1024TiB --sweep").code == 0);
  const Outcome quoted =
      sandbox.run(R"(cp topologies/dgx-h100.json 'a"b.json'; tracecast collective --topology "$PWD/a\"b.json" --json)");
  INFO(quoted.err);
  REQUIRE(quoted.code == 0);
  CHECK(nlohmann::json::parse(quoted.out)["topology"] == "a\"b");
}

TEST_CASE("collective: --sweep has a line for every power of two from 1 KiB", "[e2e][network]") {
  const Sandbox sandbox;
  const Outcome outcome = sandbox.run("tracecast collective --topology dgx-h100 --bytes 1MiB --sweep --json");
  REQUIRE(outcome.code == 0);
  const auto rows = nlohmann::json::parse(outcome.out)["results"];
  REQUIRE(rows.size() == 11);
  for (std::size_t i = 0; i < rows.size(); ++i) CHECK(rows[i]["bytes"] == 1024 << i);
}

TEST_CASE("collective: --svg draws the sweep", "[e2e][network]") {
  const Sandbox sandbox;
  const Outcome outcome =
      sandbox.run("tracecast collective --topology dgx-h100 --ranks 64 --bytes 1GiB --svg curve.svg && cat curve.svg");
  REQUIRE(outcome.code == 0);
  CHECK(outcome.out.find("algorithm") != std::string::npos);
  CHECK(outcome.out.find("<svg ") != std::string::npos);
  std::size_t points = 0;
  for (std::size_t at = 0; (at = outcome.out.find("<circle", at)) != std::string::npos; ++at) ++points;
  CHECK(points == 21);  // 1 KiB to 1 GiB
  CHECK(sandbox.run("tracecast collective --topology dgx-h100 --bytes 100B --svg curve.svg").code == 2);
}

TEST_CASE("collective: sizes with and without a blank before their unit", "[e2e][network]") {
  const Sandbox sandbox;
  const std::string run = "tracecast collective --topology dgx-h100 --ranks 64 --bytes ";
  const Outcome outcome = sandbox.run(run + "1GiB");
  CHECK(outcome.code == 0);
  CHECK(outcome.out == sandbox.run(run + "'1 GiB'").out);
}

TEST_CASE("collective: siblings on shared NICs by formula and by links", "[e2e][network]") {
  const Sandbox sandbox;
  const auto time_us = [&](const std::string& network) {
    const Outcome outcome = sandbox.run(
        "tracecast collective --topology dgx-h100 --op all_gather --ranks 8 --stride 8 "
        "--bytes 64MiB --json --network " +
        network);
    REQUIRE(outcome.code == 0);
    return nlohmann::json::parse(outcome.out)["results"][0]["time_us"].get<double>();
  };
  // 8 groups, each on the NICs beside its own GPUs.
  CHECK(time_us("fluid") == Approx(time_us("analytic")).epsilon(0.03));
}

TEST_CASE("collective: flows that take one path each share cables", "[e2e][network]") {
  const Sandbox sandbox;
  const auto time_us = [&](const std::string& options) {
    const Outcome outcome = sandbox.run(
        "tracecast collective --topology meta-24k-h100 --ranks 128 --bytes 1GiB --algorithm ring --json --network " +
        options);
    REQUIRE(outcome.code == 0);
    return nlohmann::json::parse(outcome.out)["results"][0]["time_us"].get<double>();
  };
  const double even = time_us("fluid");
  CHECK(time_us("fluid --routing ecmp") > 1.5 * even);  // two rings on one cable get half of it each
  CHECK(time_us("fluid --routing ecmp") == time_us("fluid --routing ecmp --routing-seed 1"));
  const Outcome page = sandbox.run(
      "tracecast collective --topology meta-24k-h100 --ranks 128 --network fluid --routing ecmp --routing-seed 5");
  CHECK(page.out.find("by a hash with seed 5 (ECMP)") != std::string::npos);
}

TEST_CASE("collective: impossible options are one error message, with exit code 2", "[e2e][error][network]") {
  const Sandbox sandbox;
  const auto error = [&](const std::string& options) {
    return complaint_of(sandbox, "tracecast collective " + options);
  };
  CHECK(error("--topology mdx --ranks 5000").find("--ranks = 5000: mdx has 320 GPUs") != std::string::npos);
  CHECK(error("--topology dgx-a100 --algorithm nvls").find("nvls needs an NVSwitch with multicast (H100 or later)") !=
        std::string::npos);
  CHECK(error("--topology dgx-a100 --bytes 5").find("--bytes = 5: has no unit") != std::string::npos);
  CHECK(error("--topology dgx-a100 --ranks 1").find("--ranks = 1: a collective needs at least 2 GPUs") !=
        std::string::npos);
  CHECK(error("--topology dgx-a100 --op send_recv --ranks 4").find("is between two ranks: --ranks 2") !=
        std::string::npos);
  CHECK(error("--topology dgx-a100 --routing ecmp").find("--routing = ecmp: needs single cables") != std::string::npos);
  CHECK(
      error("--topology dgx-a100 --network fluid --routing-seed 2").find("--routing-seed = 2: needs --routing ecmp") !=
      std::string::npos);
  CHECK(error("--topology dgx-a10").find("dgx-a100") != std::string::npos);
}
