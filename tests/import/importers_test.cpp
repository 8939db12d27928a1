// The table of importers: what each file is recognised as, and the error for a file that does not fit.
#include "sim/import/importers.hpp"

#include <fstream>
#include <iterator>
#include <map>

#include <catch2/catch.hpp>

#include "sim/io/compressed.hpp"
#include "tests/support/files.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace tracecast;
namespace fs = std::filesystem;

namespace {

/// The name of the format, or the error.
std::string recognised(std::string_view content, const std::string& file) {
  const Result<const Importer*> importer = find_importer(content, file);
  return importer ? std::string((*importer)->name) : to_string(importer.error());
}

}  // namespace

TEST_CASE("importers: a file is recognised by its content", "[import]") {
  const std::map<std::string, std::string> files{{"docs/formats/samples/kineto.json", "kineto"},
                                                 {"docs/formats/samples/nccl-tests.txt", "nccl-tests"},
                                                 {"docs/formats/samples/nccl-topology.xml", "nccl-topology"},
                                                 {"docs/formats/samples/nccl.log", "nccl-log"},
                                                 {"docs/formats/samples/nvidia-smi.txt", "nvidia-smi"},
                                                 {"docs/formats/samples/pretrain.sh", "megatron"},
                                                 {"tests/fuzz/corpus/accelerate.yaml", "accelerate"},
                                                 {"tests/fuzz/corpus/aicb.csv", "simai"},
                                                 {"tests/fuzz/corpus/astra-sim.yml", "astra-sim"},
                                                 {"tests/fuzz/corpus/automodel.yaml", "automodel"},
                                                 {"tests/fuzz/corpus/calculon-application.json", "calculon"},
                                                 {"tests/fuzz/corpus/calculon-execution.json", "calculon"},
                                                 {"tests/fuzz/corpus/chakra.et", "chakra"},
                                                 {"tests/fuzz/corpus/chakra.json", "chakra"},
                                                 {"tests/fuzz/corpus/deepspeed.json", "deepspeed"},
                                                 {"tests/fuzz/corpus/iblinkinfo.txt", "iblinkinfo"},
                                                 {"tests/fuzz/corpus/ibnetdiscover.txt", "ibnetdiscover"},
                                                 {"tests/fuzz/corpus/megatron.sh", "megatron"},
                                                 {"tests/fuzz/corpus/megatron.yaml", "megatron"},
                                                 {"tests/fuzz/corpus/model-hugging-face.json", "hugging-face"},
                                                 {"tests/fuzz/corpus/nccl-graph.xml", "nccl-graph"},
                                                 {"tests/fuzz/corpus/nccl-inspector.jsonl", "nccl-inspector"},
                                                 {"tests/fuzz/corpus/nccl-tests.json", "nccl-tests"},
                                                 {"tests/fuzz/corpus/nsight.sqlite", "nsight"},
                                                 {"tests/fuzz/corpus/pytorch-et.json", "pytorch-et"},
                                                 {"tests/fuzz/corpus/simai.txt", "simai"},
                                                 {"tests/fuzz/corpus/simai-topology.txt", "simai-topology"},
                                                 {"tests/fuzz/corpus/simgrid-network.xml", "simgrid"},
                                                 {"tests/fuzz/corpus/torchtitan.toml", "torchtitan"}};
  for (const auto& [file, format] : files) CHECK(recognised(content_of(source_dir() / file), file) == format);
}

TEST_CASE("importers: a byte order mark before a file changes nothing", "[import]") {
  const TemporaryFolder folder;
  const fs::path marked = folder.path() / "marked.json";
  const auto write = [&](const std::string& file) {
    std::ofstream(marked, std::ios::binary) << "\xEF\xBB\xBF" << content_of(source_dir() / "tests/fuzz/corpus" / file);
    return read_packed(marked).value();
  };
  CHECK(import_as<CollectiveMeasurements>(write("nccl-tests.json"), "t").has_value());
  CHECK(import_as<ImportedGraph>(write("chakra.json"), "t").has_value());
  CHECK(import_as<ImportedTopology>(write("astra-sim.yml"), "t").has_value());
  CHECK(recognised(write("pytorch-et.json"), "t") == "pytorch-et");
  CHECK(recognised(write("simgrid-network.xml"), "t") == "simgrid");
  // The project's own reader refuses it in its own file.
  write("topology.json");
  CHECK(to_string(read_any_topology(marked).error()) ==
        marked.string() + ":1: begins with a byte order mark (save it as UTF-8 without one)");
}

TEST_CASE("importers: a recording of another tool is read by its path, and one that is not there is an error",
          "[import][error]") {
  CHECK(read_any_recording(source_dir() / "tests/fuzz/corpus/nsight-graph.sqlite")->kernels.size() == 2);
  const Result<Trace> missing = read_any_recording("no-such-recording.json");
  REQUIRE_FALSE(missing);
  CHECK(to_string(missing.error()) == "no-such-recording.json: does not exist");
}

TEST_CASE("importers: files of the project are not taken for foreign ones", "[import]") {
  for (const char* folder : {"scenarios", "topologies", "kernels/profiles"})
    for (const auto& entry : fs::recursive_directory_iterator(source_dir() / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".json" && extension != ".csv") continue;
      const std::string file = entry.path().string();
      CHECK(recognised(content_of(entry.path()), file).starts_with(file + ": matches none of the formats "));
    }
}

TEST_CASE("importers: rows have a page, and names are unique", "[import]") {
  std::map<std::string_view, int> names;
  for (const Importer* each : importers()) {
    CHECK(fs::exists(source_dir() / "docs/formats" / each->page));
    CHECK(++names[each->name] == 1);
  }
}

TEST_CASE("importers: what does not fit is one error message", "[import][error]") {
  CHECK(recognised("a,b\n", "t.csv").starts_with("t.csv: matches none of the formats nccl-topology nccl-graph "));
  CHECK(recognised("NCCL INFO 4 Bytes -> Algo 0\n# redop algbw busbw\n", "t.txt") ==
        "t.txt: may be several formats: name one (allowed: nccl-tests nccl-log)");
  CHECK(to_string(import_as<ImportedTrace>("<system version=\"1\"/>", "t.xml").error()) ==
        "t.xml: is a machine (nccl-topology), not a recording (tracecast topology reads it)");
  CHECK(to_string(import_as<ImportedTrace>("", "t.xml", "simgrid").error()) ==
        "format = simgrid: unknown format (allowed: kineto nsight)");
}

TEST_CASE("importers: commands take a launcher's file as a scenario, and a machine's as a topology", "[import]") {
  const fs::path script = source_dir() / "docs/formats/samples/pretrain.sh";
  const Result<Scenario> scenario = read_any_scenario(script, shipped_data(), {"cluster.topology=dgx-h100"});
  REQUIRE(scenario.has_value());
  CHECK(scenario->cluster.world_size == 16);
  CHECK(scenario->source.starts_with("imported from "));
  CHECK(to_string(read_any_scenario(source_dir() / "docs/formats/samples/kineto.json", shipped_data()).error())
            .ends_with(
                "kineto.json: is a recording (kineto), not a launcher's configuration (tracecast replay reads it)"));
  const Result<Cluster> machine = read_any_topology(source_dir() / "docs/formats/samples/nvidia-smi.txt");
  REQUIRE(machine.has_value());
  CHECK(machine->node.gpus == 2);
  CHECK(to_string(read_any_topology(script).error())
            .ends_with(
                "pretrain.sh: is a launcher's configuration (megatron), not a machine (tracecast predict reads it)"));
}

TEST_CASE("importers: launchers that are not read are named, with what to give instead", "[import][error]") {
  const std::string instead =
      ", which is not read: import the model's config.json (hugging-face) or the file of DeepSpeed (deepspeed), and "
      "give "
      "the rest with --set";
  for (const auto& [content, launcher] : std::vector<std::pair<std::string, std::string>>{
           {"{\n  \"pipe-parallel-size\": 4,\n  \"model-parallel-size\": 2,\n  \"num-layers\": 44\n}\n", "GPT-NeoX"},
           {"base_model: a/b\nsequence_len: 512\noptimizer: adamw_torch_fused\n", "Axolotl"},
           {"model_name_or_path: a/b\nstage: sft\nfinetuning_type: full\n", "LLaMA-Factory"},
           {"max_seq_len: 2048\nmodel: {n_layers: 32}\ntrain_loader: {name: text}\n", "llm-foundry"},
           {"parallelism: {dp: 4}\ntokens: {micro_batch_size: 3}\n", "Nanotron"}}) {
    const std::string message = "t.yml: is a configuration of " + launcher + instead;
    CHECK(recognised(content, "t.yml") == message);
    CHECK(to_string(import_run("megatron", content, "t.yml", {}, shipped_data()).error()) == message);
  }
  const std::string primus =
      "work_group: amd\nmodules:\n  pre_trainer:\n    framework: megatron\n    config: pre_trainer.yaml\n"
      "    overrides:\n      micro_batch_size: 2\n      seq_length: 8192\n";
  CHECK(to_string(import_run("megatron", primus, "p.yaml", {}, shipped_data()).error()) ==
        "p.yaml: is a configuration of Primus, which is not read: its own files set the rest: give all settings of the "
        "run as arguments of Megatron-LM (megatron), with --bf16 and what its pre_trainer.yaml has, or as the TOML of "
        "torchtitan");
  for (const std::string by : {" ", "    "})
    CHECK(to_string(import_run("megatron",
                               "modules:\n" + by + "pre_trainer:\n" + by + by + "\"framework\": megatron\n" + by + by +
                                   "micro_batch_size: 2\n",
                               "p.yaml", {}, shipped_data())
                        .error())
              .starts_with("p.yaml: is a configuration of Primus"));
  const std::string titan = "from torchtitan.trainer import Trainer\n", nemo = "import nemo_run as run\n";
  CHECK(recognised(titan, "config_registry.py") ==
        "config_registry.py: is a configuration of torchtitan in Python: give the JSON that a run saves with "
        "--debug.save_config_file");
  CHECK(to_string(import_run("megatron", nemo, "r.py", {}, shipped_data()).error()) ==
        "r.py: is a recipe of NeMo in Python: give the YAML of what it makes, which NeMo-Run writes with --to-yaml");
}
