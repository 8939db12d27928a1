#include "tools/documented_keys.hpp"

#include <fstream>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include "sim/io/fields.hpp"

namespace tracecast::cli {
namespace {

struct Format {
  const char* schema;
  const char* title;
  std::vector<KeyTable> (*keys)();
};
constexpr Format kFormats[] = {
    {"scenario", "A scenario: one training run to be forecast (docs/formats/scenario.md)", scenario_keys},
    {"model", "A model, in scenarios/models (docs/formats/scenario.md)", model_keys},
    {"topology", "A topology: nodes and the fabric between them (docs/formats/topology.md)", topology_keys},
    {"profile", "A profile: what is known about one GPU (docs/formats/profile.md)", profile_keys},
    {"stack", "A software stack (docs/formats/stack.md)", stack_keys},
    {"failures", "A failure model: what breaks, and how a job comes back (docs/formats/failures.md)", failure_keys},
    {"economics", "Prices and power of GPUs (docs/formats/economics.md)", economics_keys},
    {"timeline", "A timeline: one forecast or executed step (docs/formats/timeline.md)", step_keys}};

void insert(const KeyTable& table, std::string& page) {
  const std::string begin = fmt::format("<!-- keys of {} -->\n", table.name);
  const std::size_t at = page.find(begin);
  if (at == std::string::npos) return;
  const std::size_t from = at + begin.size();
  page.replace(from, page.find("<!-- end of keys -->", from) - from, key_table(table.rows));
}

}  // namespace

std::map<std::string, std::string> documented_keys(const std::filesystem::path& docs) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(docs / "formats")) {
    if (entry.path().extension() != ".md") continue;
    std::ifstream stream(entry.path(), std::ios::binary);
    files["formats/" + entry.path().filename().string()] = {std::istreambuf_iterator<char>(stream), {}};
  }
  for (const Format& format : kFormats) {
    const std::vector<KeyTable> tables = format.keys();
    files[fmt::format("schema/{}.schema.json", format.schema)] = json_schema(format.title, tables.front().rows);
    for (auto& [path, text] : files)
      if (path.ends_with(".md"))
        for (const KeyTable& table : tables) insert(table, text);
  }
  return files;
}

}  // namespace tracecast::cli
