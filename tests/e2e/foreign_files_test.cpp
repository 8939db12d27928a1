// Files of other programs given to commands that do not import them.
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/e2e/shell.hpp"
#include "tests/support/files.hpp"
#include "tests/support/paths.hpp"

using namespace tracecast;

namespace {

/// 10 us of computation, then an all-gather of 1 MiB of each rank, then a message from rank 1 to rank 9 and one of unknown ranks.
constexpr const char* kAstra = R"({"workload_graph": [{"Id": 1, "Name": "c", "NodeType": 4, "runtime": 10},
      {"Id": 2, "Name": "g", "NodeType": 7, "comm_type": 2, "comm_size": 1048576, "data_deps": [1]},
      {"Id": 3, "Name": "m", "NodeType": 5, "comm_src": 1, "comm_dst": 9, "comm_size": 4194304, "data_deps": [2]},
      {"Id": 4, "Name": "u", "NodeType": 5, "comm_size": 4194304, "data_deps": [3]}]})";

double microseconds(const Sandbox& sandbox, const std::string& collective) {
  const Outcome outcome = sandbox.run("tracecast collective --network isolated --json " + collective);
  REQUIRE(outcome.code == 0);
  return nlohmann::json::parse(outcome.out)["results"][0]["time_us"].get<double>();
}

}  // namespace

TEST_CASE("replay: a rank is given once, all of one run, and what was left out is said", "[e2e][replay]") {
  const Sandbox sandbox;
  const auto recording =
      [&](const std::string& name, int rank, int ranks) {
        std::ofstream(sandbox.path() / name)
            << R"({"distributedInfo":{"rank":)" << rank << R"(,"world_size":)" << ranks << R"(},"traceEvents":[)"
            << R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":10,"args":{"device":0,"stream":7}},)"
            << R"({"ph":"X","cat":"python_function","name":"f","pid":1,"tid":1,"ts":1,"dur":10}]})";
        return (sandbox.path() / name).string();
      };
  const std::string first = recording("a.json", 0, 2);
  const std::string second = recording("b.json", 1, 2);
  const Outcome good = sandbox.run("tracecast replay --json " + first + " " + second);
  CHECK(good.code == 0);
  CHECK(nlohmann::json::parse(good.out)["notes"] ==
        nlohmann::json{first + ": 1 events of category python_function were left out",
                       second + ": 1 events of category python_function were left out"});
  CHECK(sandbox.run("tracecast replay " + first).out.find("python_function") != std::string::npos);
  const Outcome twice = sandbox.run("tracecast replay " + first + " " + recording("c.json", 0, 2));
  CHECK(twice.code == 2);
  CHECK(twice.err == (sandbox.path() / "c.json").string() + ": rank = 0: is that of " + first +
                         " too (allowed: one recording of each rank)\n");
  const Outcome other = sandbox.run("tracecast replay " + first + " " + recording("d.json", 1, 4));
  CHECK(other.code == 2);
  CHECK(other.err ==
        (sandbox.path() / "d.json").string() + ": ranks = 4: is another run than that of " + first + ", which has 2\n");
}

TEST_CASE("import: a recording is packed if its name says so", "[e2e][import]") {
  const Sandbox sandbox;
  const std::string sample = (source_dir() / "docs/formats/samples/kineto.json").string();
  for (const char* name : {"plain.trace", "packed.trace.gz"}) {
    REQUIRE(sandbox.run("tracecast import kineto " + sample + " -o " + name).code == 0);
    CHECK(sandbox.run(std::string("tracecast replay --step 3 --json ") + name).code == 0);
  }
  const auto first_byte = [&](const char* name) {
    std::ifstream file(sandbox.path() / name, std::ios::binary);
    return file.get();
  };
  CHECK(first_byte("packed.trace.gz") == 0x1F);
  CHECK(first_byte("plain.trace") == '{');
  for (const auto& each : std::filesystem::directory_iterator(sandbox.path()))
    CHECK(each.path().string().find(".partial") == std::string::npos);
}

TEST_CASE("profile: a place that cannot be written is said before anything is timed", "[e2e][error]") {
  const Sandbox sandbox;
  const Outcome outcome = sandbox.run("tracecast profile --suite full --passes 100000 --out nowhere/mine.json");
  CHECK(outcome.code == 2);
  CHECK(outcome.err == "nowhere/mine.json: cannot be written (does the folder exist, and is it writable?)\n");
}

TEST_CASE("foreign files: every command names the format and the command that reads it", "[e2e][import]") {
  const Sandbox sandbox;
  std::ofstream(sandbox.path() / "order.csv") << "0F0,0B0\n";
  const std::string machine = "docs/formats/samples/nccl-topology.xml";
  const std::string is_machine = machine + ": is a machine (nccl-topology), not ";
  const std::pair<std::string, std::string> cases[] = {
      {"predict " + machine, is_machine + "a launcher's configuration"},
      {"plan " + machine + " --gpus 64", is_machine + "a launcher's configuration"},
      {"goodput " + machine + " --days 2", is_machine + "a launcher's configuration"},
      {"goodput tensor-parallel --days 2 --incidents " + machine, is_machine + "a log of incidents"},
      {"goodput tensor-parallel --days 2 --failures " + machine, is_machine + "a failure model"},
      {"compare " + machine + " " + machine, is_machine + "a step graph"},
      {"replay " + machine, is_machine + "a recording"},
      {"schedule --file " + machine, is_machine + "a pipeline schedule"},
      {"profile --from " + machine + " --for tensor-parallel", is_machine + "a recording"},
      {"validate " + machine, is_machine + "a table of runs"},
      {"validate --kernels " + machine, is_machine + "a table of measured kernels or collectives"},
      {"calibrate --runs " + machine, is_machine + "a table of runs"},
      {"scaling --model " + machine, is_machine + "a model"},
      {"strategies " + machine, is_machine + "a launcher's configuration"},
      {"execute " + machine, is_machine + "a launcher's configuration"},
      {"plan tensor-parallel --gpus 8 --economics " + machine, is_machine + "an economics file"},
      {"predict tensor-parallel --set model=" + machine, is_machine + "a file of this project"},
      {"import nccl-tests docs/formats/samples/nccl-tests.txt --into " + machine, is_machine + "a profile"}};
  for (const auto& [command, sentence] : cases) {
    INFO(command);
    const Outcome outcome = sandbox.run("tracecast " + command);
    CHECK(outcome.code == 2);
    CHECK(outcome.err == sentence + " (tracecast topology reads it)\n");
  }
  CHECK(
      sandbox.run("tracecast predict tensor-parallel --set cluster.profile=docs/formats/samples/nccl-tests.txt").err ==
      "docs/formats/samples/nccl-tests.txt: is a table of measured collectives (nccl-tests), not a file of this "
      "project "
      "(tracecast import reads it)\n");
  CHECK(sandbox.run("tracecast topology docs/formats/samples/kineto.json").err ==
        "docs/formats/samples/kineto.json: is a recording (kineto), not a machine (tracecast replay reads it)\n");
  CHECK(sandbox.run("tracecast predict order.csv").err ==
        "order.csv: is a pipeline schedule (tracecast schedule --file reads it)\n");
}

TEST_CASE("foreign files: replay runs a step graph, its transfers timed by a machine", "[e2e][chakra]") {
  const Sandbox sandbox;
  std::ofstream(sandbox.path() / "astra.json") << kAstra;
  const Outcome replayed = sandbox.run("tracecast replay astra.json --topology dgx-h100 --gpus 16 --json");
  REQUIRE(replayed.code == 0);
  const auto json = nlohmann::json::parse(replayed.out);
  // Ranks 1 and 9 are on two nodes: a message of ranks 0 and 8 has the same path.
  const double gather = microseconds(sandbox, "--topology dgx-h100 --op all_gather --ranks 16 --bytes 16MiB");
  const double inside = microseconds(sandbox, "--topology dgx-h100 --op send_recv --ranks 2 --bytes 4MiB");
  const double message = json["seconds_by_name"]["nccl send_recv"].get<double>() * 1e6;
  CHECK(message > 2 * inside);      // NVLink has nine times the rate of a NIC
  CHECK(message > 4194304 / 50e3);  // 400 Gb/s
  CHECK(message < 2 * 4194304 / 50e3);
  CHECK(json["replayed_s"].get<double>() * 1e6 == Approx(10 + gather + message).epsilon(1e-6));
  CHECK(json["notes"][1] == "messages without a time in the file: 1; they take that between their two ranks");
  CHECK(json["notes"][2] == "messages without a time and ranks (comm_src, comm_dst): 1; they take none");
  CHECK(sandbox.run("tracecast replay astra.json --topology dgx-h100 --gpus 8").err ==
        "astra.json: m = 9: is the rank of a message, beyond --gpus 8\n");
  const Outcome page = sandbox.run("tracecast replay astra.json --topology dgx-h100 --gpus 16 --out replayed");
  CHECK(page.out.find("Chakra execution trace: 4 nodes, simulated ") != std::string::npos);
  CHECK(sandbox.run("tracecast compare replayed replayed").code == 0);
}

TEST_CASE("foreign files: only a recording that names its rank is compared with the forecast of that rank",
          "[e2e][kineto]") {
  const Sandbox sandbox;
  std::string recording = content_of(source_dir() / "docs/formats/samples/kineto.json");
  std::ofstream(sandbox.path() / "named.json") << recording;
  const std::string rank = R"("rank": 0, )";
  REQUIRE(recording.find(rank) != std::string::npos);
  recording.erase(recording.find(rank), rank.size());
  std::ofstream(sandbox.path() / "unnamed.json") << recording;
  REQUIRE(sandbox.run("tracecast predict pipeline-1f1b --out pp").code == 0);
  const Outcome named = sandbox.run("tracecast compare pp named.json");
  CHECK(named.out.find("Largest disagreements") != std::string::npos);
  CHECK(named.err.find("ranks recorded: 1 of 4; they are compared with the forecast of the same ranks") !=
        std::string::npos);
  const std::string refusal = "different layouts: 4 and 1 pipeline ranks";
  const Outcome unnamed = sandbox.run("tracecast compare pp unnamed.json");
  CHECK(unnamed.code == 2);
  CHECK(unnamed.err.find("ranks recorded: 1 of 4; not all say which they are") != std::string::npos);
  CHECK(unnamed.err.find(refusal) != std::string::npos);
  CHECK(sandbox.run("tracecast diagnose pipeline-1f1b --actual unnamed.json").err.find(refusal) != std::string::npos);
}

TEST_CASE("foreign files: of another library than NCCL a replay names the kernels", "[e2e][kineto]") {
  const Sandbox sandbox;
  std::ofstream(sandbox.path() / "r.json")
      << R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "void deep_ep::intranode::dispatch<8>", "pid": 0,)"
         R"( "tid": 7, "ts": 5, "dur": 2, "args": {}}, {"ph": "X", "cat": "kernel", "name": )"
         R"("ncclDevKernel_AllGather_RING_LL", "pid": 0, "tid": 7, "ts": 8, "dur": 2, "args": {}}]})";
  const auto json = nlohmann::json::parse(sandbox.run("tracecast replay r.json --json").out);
  CHECK(json["seconds_by_name"].contains("deep_ep::intranode::dispatch"));
  CHECK(json["seconds_by_name"].contains("nccl all_gather"));
  CHECK_FALSE(json["seconds_by_name"].contains("nccl all_to_all"));
}

TEST_CASE("foreign files: of a scenario's model that is not modelled the error names the part", "[e2e][hugging-face]") {
  const Sandbox sandbox;
  std::ofstream(sandbox.path() / "gemma3.json") << R"({"model_type": "gemma3_text", "hidden_size": 1152})";
  const std::string said = sandbox.run("tracecast predict tensor-parallel --set model=gemma3.json").err;
  INFO(said);
  CHECK(
      said.starts_with("gemma3.json:1: model_type = \"gemma3_text\": has norms after attention and MLP besides those "
                       "before, which are not modelled (allowed: "));
  // What is good, but in the wrong place, is named as what it is.
  std::ofstream(sandbox.path() / "gpt2.json")
      << R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257, "n_positions": 1024})";
  const std::string other = sandbox.run("tracecast predict tensor-parallel --set cluster.profile=gpt2.json").err;
  INFO(other);
  CHECK(other.find("gpt2.json: is a launcher's configuration (hugging-face), not a file of this project") !=
        std::string::npos);
}

TEST_CASE("foreign files: transfers without a time are said to take none", "[e2e][chakra]") {
  const Sandbox sandbox;
  std::ofstream(sandbox.path() / "astra.json") << kAstra;
  const std::string said =
      "transfers without a time in the file: 3; they take none: give --topology and --gpus, which time them";
  const Outcome replayed = sandbox.run("tracecast replay astra.json --json");
  CHECK(replayed.code == 0);
  CHECK(nlohmann::json::parse(replayed.out)["notes"].back() == said);
  const Outcome imported = sandbox.run("tracecast import chakra astra.json -o step.json");
  CHECK(imported.code == 0);
  CHECK(imported.out.find("note: transfers without a time in the file: 3;") != std::string::npos);
  CHECK(sandbox.run("tracecast compare astra.json astra.json").err ==
        "astra.json: has 3 transfers without a time (allowed: what tracecast replay --topology NAME --gpus N --out DIR "
        "writes, "
        "where they have those of a machine)\n");
  std::ofstream(sandbox.path() / "one.json")
      << R"({"workload_graph": [{"Id": 2, "Name": "g", "NodeType": 7, "comm_type": 2, "comm_size": 1048576}]})";
  // Sizes that may be of either buffer cannot be timed on a machine.
  const std::string log = (source_dir() / "tests/fuzz/corpus/aicb.csv").string();
  CHECK(sandbox.run(fmt::format("tracecast compare {0} {0}", log)).err ==
        log + ": has 1 transfers without a time, and the file does not say what their sizes count\n");
  std::ofstream(sandbox.path() / "two.json")
      << R"({"workload_graph": [{"Id": 1, "NodeType": 4, "runtime": 100}, {"Id": 2, "NodeType": 4, "data_deps": [1]}]})";
  CHECK(sandbox.run("tracecast compare two.json two.json").err ==
        "two.json: has 1 computations without a duration (allowed: what tracecast replay --out DIR writes, where they "
        "take no time)\n");
  CHECK(sandbox.run("tracecast replay one.json").err ==
        "one.json: has 1 transfers and no times: give --topology and --gpus, which time them\n");
}

TEST_CASE("foreign files: measurements that do not name their GPU are said to be taken as the profile's",
          "[e2e][import]") {
  const Sandbox sandbox;
  const std::string corpus = (source_dir() / "tests/fuzz/corpus/nccl-inspector.jsonl").string();
  const Outcome unnamed = sandbox.run("tracecast import nccl-inspector " + corpus + " --into h100 -o mine.json");
  CHECK(unnamed.code == 0);
  CHECK((unnamed.out + unnamed.err).find("does not name the GPU: taken as H100 SXM 80 GB, that of h100") !=
        std::string::npos);
  const Outcome other = sandbox.run(
      "sed 's/GPU made up/NVIDIA A100-SXM4-80GB/' docs/formats/samples/nccl-tests.txt > a100.txt; "
      "tracecast import nccl-tests a100.txt --into h100 -o mine.json");
  CHECK(other.err.find("profile h100 is of another GPU") != std::string::npos);
}

TEST_CASE("foreign files: sizes in NCCL's log that are one rank's share are said to be", "[e2e][import]") {
  const Sandbox sandbox;
  const auto printed = [&](const std::string& lines) {
    std::ofstream(sandbox.path() / "nccl.log") << lines;
    const Outcome outcome = sandbox.run("tracecast import nccl-log nccl.log");
    CHECK(outcome.code == 0);
    return outcome.out;
  };
  const std::string said = "note: bytes of all_gather and reduce_scatter are one rank's share";
  const std::string choice = ": 64 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3}\n";
  CHECK(printed("h:1:1 [0] NCCL INFO AllGather" + choice).find(said) != std::string::npos);
  CHECK(printed("h:1:1 [0] NCCL INFO ReduceScatter" + choice).find(said) != std::string::npos);
  CHECK(printed("h:1:1 [0] NCCL INFO AllReduce" + choice).find(said) == std::string::npos);
  CHECK(printed("h:1:1 [0] NCCL INFO AllGather: opCount 0 count 16 [nranks=32] stream 0x4\n"
                "h:1:1 [0] NCCL INFO 64 Bytes -> Algo 1 proto 2 time 12.5\n")
            .find(said) == std::string::npos);  // older lines have the whole buffer
}

TEST_CASE("foreign files: a step without times is not compared or replayed", "[e2e][import]") {
  const Sandbox sandbox;
  std::ofstream(sandbox.path() / "et.json")
      << R"({"schema": "1.1.1-chakra.0.0.4", "nodes": [{"id": 1, "name": "aten::mm", "ctrl_deps": 0}]})";
  CHECK(sandbox.run("tracecast compare et.json et.json").err ==
        "et.json: has no times, so that there is nothing to compare (allowed: a step with times)\n");
  CHECK(sandbox.run("tracecast replay et.json").err == "et.json: has no times, so that there is nothing to replay\n");
  const Outcome several = sandbox.run("tracecast replay et.json et.json");
  CHECK(several.err ==
        "et.json: is a step of one rank, PyTorch execution trace: give this file alone, without --step\n");
  CHECK(sandbox.run("tracecast replay docs/formats/samples/kineto.json --topology dgx-h100 --gpus 8").err ==
        "--topology = dgx-h100: is for a step graph, not a recording, whose transfers have times\n");
}

TEST_CASE("foreign files: packed fabrics are read, and a GPU without a profile is named", "[e2e][import]") {
  const Sandbox sandbox;
  const std::string fabric = (source_dir() / "tests/fuzz/corpus/iblinkinfo.txt").string();
  const Outcome plain = sandbox.run("tracecast import '" + fabric + "'");
  const Outcome packed =
      sandbox.run("gzip -c '" + fabric + "' > iblinkinfo.txt.gz; tracecast import iblinkinfo.txt.gz");
  CHECK(packed.code == 0);
  CHECK(nlohmann::json::parse(packed.out)["node"] == nlohmann::json::parse(plain.out)["node"]);
  // An RTX A6000 by its compute capability, 8.6.
  std::ofstream(sandbox.path() / "node.xml") << R"(<system version="1">
  <cpu numaid="0" affinity="ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
    <pci busid="0000:1b:00.0" class="0x030200" vendor="0x10de" device="0x2230" subsystem_vendor="0x10de" subsystem_device="0x1459" link_speed="16.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="86" rank="0" gdr="1"/>
    </pci>
    <pci busid="0000:1c:00.0" class="0x030200" vendor="0x10de" device="0x2230" subsystem_vendor="0x10de" subsystem_device="0x1459" link_speed="16.0 GT/s PCIe" link_width="16">
      <gpu dev="1" sm="86" rank="1" gdr="1"/>
    </pci>
  </cpu>
</system>
)";
  const std::string forecast =
      "tracecast predict tensor-parallel --set cluster.topology=node.xml --set cluster.world_size=2 --set "
      "parallel.tp=2";
  CHECK(sandbox.run(forecast).err ==
        "--set: cluster.topology = \"node.xml\": has GPUs without a profile, 'sm-86': give cluster.profile (nearest: "
        "a40 or a100-pcie), or a file: a copy with the peaks of its data sheet, or what tracecast profile "
        "records on "
        "it (docs/adding.md#a-gpu)\n");
  // A file of a machine that lacks what makes it one: its own fault, not that of another kind of file.
  std::ofstream(sandbox.path() / "cloud.xml") << "<system version=\"1\">\n  <cpu numaid=\"0\">\n"
                                                 "    <pci busid=\"0000:1b:00.0\" link_speed=\"16 GT/s\"/>\n  </cpu>\n"
                                                 "</system>\n";
  const Outcome cloud = sandbox.run("tracecast predict tensor-parallel --set cluster.topology=cloud.xml");
  CHECK(cloud.code == 2);
  CHECK(cloud.err.find("which of them are GPUs is not given") != std::string::npos);
  CHECK(sandbox.run(forecast + " --set cluster.profile=a100").out.find("2 x A100") != std::string::npos);
}
