// A file of every format leads to a time in one line, as docs/formats/README.md says.

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/import/importers.hpp"
#include "tests/e2e/shell.hpp"
#include "tests/support/files.hpp"
#include "tests/support/paths.hpp"

using namespace tracecast;

namespace {

struct Chain {
  std::string format;
  std::string command;  ///< after "tracecast "; {} is tests/fuzz/corpus
  std::string says;
};

std::vector<Chain> chains() {
  const std::string step =
      "predict tensor-parallel --set model=gpt2-medium --set training.seq_length=1024 --set parallel.tp=1";
  const auto machine = [&step](const std::string& file, int gpus) {
    return fmt::format("{} --set cluster.topology={{}}/{} --set cluster.world_size={}", step, file, gpus);
  };
  const std::string cluster = " --set cluster.topology=dgx-h100 --set cluster.world_size=8";
  const std::string rest = " --set model=gpt2-medium --set training.seq_length=1024" + cluster;
  return {
      {"nccl-topology", machine("nccl-topology.xml", 4), "step time"},
      {"nccl-graph", machine("nccl-graph.xml", 4), "step time"},
      {"nvidia-smi", machine("nvidia-smi.txt", 4), "step time"},
      {"ibnetdiscover", machine("ibnetdiscover.txt", 2), "step time"},
      {"iblinkinfo", machine("iblinkinfo.txt", 1), "step time"},
      {"astra-sim", machine("astra-sim.yml", 4), "step time"},
      {"simai-topology", machine("simai-topology.txt", 2), "step time"},
      {"simgrid", machine("simgrid-fat-tree.xml", 4), "step time"},
      {"kineto", "replay {}/kineto.json", "replayed 3.12 ms"},
      {"nsight", "replay {}/nsight.sqlite", "replayed 290 ns"},
      {"chakra", "replay {}/chakra.json --topology dgx-h100 --gpus 8", "simulated 60.0 us"},
      {"simai", "replay {}/simai.txt --topology dgx-h100 --gpus 8", "simulated 29.0 us"},
      {"megatron", "predict {}/megatron.yaml" + rest, "step time"},
      {"megatron-bridge", "predict {}/megatron-bridge.yaml" + cluster, "step time"},
      {"deepspeed", "predict deepspeed.json" + rest, "step time"},
      {"torchtitan", "predict {}/torchtitan.toml" + rest, "step time"},
      {"accelerate", "predict {}/accelerate.yaml" + rest, "step time"},
      {"automodel", "predict automodel.yaml" + rest, "step time"},
      {"hugging-face", "predict {}/model-hugging-face.json --set training.seq_length=1024" + cluster, "step time"},
      {"calculon",
       "plan {}/calculon-application.json --topology dgx-h100 --gpus 8 --set training.seq_length=2048 --set "
       "training.global_batch_size=8",
       "8 x dgx-h100"},
      {"nccl-tests",
       "import nccl-tests nccl-tests.txt --into h100 -o mine.json && tracecast predict tensor-parallel --set "
       "cluster.profile=$PWD/mine.json",
       "step time"},
      {"nccl-inspector",
       "import nccl-inspector {}/nccl-inspector.jsonl --into h100 -o mine.json && tracecast predict tensor-parallel "
       "--set cluster.profile=$PWD/mine.json",
       "step time"}};
}

/// Cells of the rows of the table under this heading, by the first.
std::map<std::string, std::vector<std::string>> table_below(const std::string& heading) {
  std::ifstream page(source_dir() / "docs/formats/README.md");
  std::map<std::string, std::vector<std::string>> rows;
  std::string line;
  while (std::getline(page, line) && line != heading) continue;
  while (std::getline(page, line)) {
    if (line.starts_with("#")) break;
    if (!line.starts_with("| `")) continue;
    std::vector<std::string> cells;
    std::istringstream text(line.substr(2));
    for (std::string cell; std::getline(text, cell, '|');) {
      cell.erase(cell.find_last_not_of(' ') + 1);
      cells.push_back(cell.substr(std::min(cell.find_first_not_of(' '), cell.size())));
    }
    rows[cells.front().substr(1, cells.front().size() - 2)] = cells;
  }
  return rows;
}

/// The file that a cell links to; "": no link.
std::string linked(const std::string& cell) {
  const std::size_t begin = cell.find("](");
  return begin == std::string::npos ? "" : cell.substr(begin + 2, cell.find(')', begin) - begin - 2);
}

}  // namespace

TEST_CASE("format chains: a file of every format gives a time in one line", "[e2e][import]") {
  const Sandbox sandbox;
  const std::filesystem::path corpus = source_dir() / "tests/fuzz/corpus";
  std::ofstream(sandbox.path() / "deepspeed.json") << R"({"train_batch_size": 8, "zero_optimization": {"stage": 2}})";
  std::ofstream(sandbox.path() / "automodel.yaml")
      << "recipe: TrainFinetuneRecipeForNextTokenPrediction\nstep_scheduler:\n  global_batch_size: 8\n  "
         "local_batch_size: 1\nmodel:\n  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_config\n"
         "distributed:\n  strategy: fsdp2\n";
  std::filesystem::copy_file(source_dir() / "docs/formats/samples/nccl-tests.txt", sandbox.path() / "nccl-tests.txt");
  for (const Chain& chain : chains()) {
    std::string command = chain.command;
    for (std::size_t at = command.find("{}"); at != std::string::npos; at = command.find("{}"))
      command.replace(at, 2, corpus.string());
    const Outcome outcome = sandbox.run("tracecast " + command);
    INFO(chain.format << ": " << command << "\n" << outcome.out << outcome.err);
    CHECK(outcome.code == 0);
    CHECK(outcome.out.find(chain.says) != std::string::npos);
  }
}

TEST_CASE("format chains: the table of formats is true", "[docs][import]") {
  const auto rows = table_below("## How each was checked");
  std::set<std::string> chained;
  for (const Chain& chain : chains()) chained.insert(chain.format);
  const std::filesystem::path folder = source_dir() / "docs/formats";
  CHECK(rows.size() == importers().size() + 1);  // and PyTorch's schedules
  for (const Importer* importer : importers()) {
    const std::string name(importer->name);
    INFO(name);
    REQUIRE(rows.contains(name));
    const std::vector<std::string>& cells = rows.at(name);
    REQUIRE(cells.size() == 5);
    CHECK(content_of(folder / linked(cells[1])).find("TEST_CASE") != std::string::npos);  // read
    const std::string source = linked(cells[2]);
    const std::size_t anchor = source.find('#');
    if (anchor != std::string::npos)
      CHECK(content_of(folder / source.substr(0, anchor)).find("id=\"" + source.substr(anchor + 1) + "\"") !=
            std::string::npos);
    if (!linked(cells[3]).empty()) CHECK(std::filesystem::exists(folder / linked(cells[3])));
    CHECK(chained.contains(name) == (linked(cells[4]) == "../../tests/e2e/format_chains_test.cpp"));
  }
}

TEST_CASE("format chains: each page says who writes the file, what is assumed, refused, and how it was checked",
          "[docs][import]") {
  std::set<std::string> pages{"pytorch_schedule.md"};
  for (const Importer* importer : importers()) pages.insert(std::string(importer->page));
  for (const std::string& page : pages) {
    const std::string text = content_of(source_dir() / "docs/formats" / page);
    INFO(page);
    CHECK((text.find("ritten by") != std::string::npos || text.find("writes") != std::string::npos));
    for (const char* part : {"ssumed", "efused", "Checked"}) {
      INFO(part);
      CHECK(text.find(part) != std::string::npos);
    }
  }
}
