#include <utility>

#include "sim/import/importers.hpp"
#include "sim/import/recognise.hpp"
#include "sim/io/json_document.hpp"

namespace tracecast {
namespace {

bool holds(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// Operators that call others are not work of their own, but the ones that they call.
constexpr std::pair<std::string_view, Collective> kPytorchCollectives[] = {
    {"allreduce", Collective::all_reduce},          {"all_reduce", Collective::all_reduce},
    {"allgather", Collective::all_gather},          {"all_gather", Collective::all_gather},
    {"reduce_scatter", Collective::reduce_scatter}, {"alltoall", Collective::all_to_all},
    {"all_to_all", Collective::all_to_all},         {"broadcast", Collective::broadcast}};

class PytorchEtReader {
 public:
  PytorchEtReader(const JsonDocument& document, std::string file) : root_(document.root), file_(std::move(file)) {
    step_.format = "PyTorch execution trace";
  }

  Result<ImportedGraph> read() {
    const JsonNode* nodes = root_.find("nodes");
    const JsonNode* schema = root_.find("schema");
    if (nodes == nullptr || nodes->kind != JsonNode::Kind::array || schema == nullptr)
      return fail({file_, 0, "nodes", "", "is missing: expected an execution trace of PyTorch"});
    const bool flat = schema->string == "1.0.1" || schema->string == "1.0.0";
    for (const JsonNode& node : nodes->items) {
      const JsonNode* id = node.find("id");
      const JsonNode* name = node.find("name");
      if (id == nullptr || id->kind != JsonNode::Kind::integer || name == nullptr)
        return fail({file_, node.line, "nodes", node.text(), "must be a node with id and name"});
      add(node, id->integer, name->string, flat ? "parent" : "ctrl_deps");
    }
    if (step_.nodes.empty()) return fail({file_, 0, "nodes", "", "has no operator"});
    step_.found = {{"operators", static_cast<std::int64_t>(step_.nodes.size())}, {"collectives", collectives_}};
    step_.notes.push_back("an execution trace has no times: durations are 0");
    if (const auto ok = order_nodes(step_, after_, file_); !ok) return tl::unexpected(ok.error());
    return std::move(step_);
  }

 private:
  void add(const JsonNode& node, std::int64_t id, const std::string& name, const char* parent_key) {
    ImportedNode out;
    out.id = id;
    out.name = shortened(name);
    if (holds(name, "record_param_comms") || name.starts_with("nccl:") || name.starts_with("c10d::"))
      collective(node, out);
    std::vector<std::int64_t> after;
    if (const JsonNode* parent = node.find(parent_key); parent != nullptr && parent->kind == JsonNode::Kind::integer)
      after.push_back(parent->integer);
    step_.nodes.push_back(std::move(out));
    after_.push_back(std::move(after));
  }

  /// record_param_comms names its collective among its inputs.
  void collective(const JsonNode& node, ImportedNode& out) {
    std::string words = out.name;
    if (const JsonNode* inputs = node.find("inputs")) {
      const JsonNode* values = inputs->find("values");
      for (const JsonNode& value : (values == nullptr ? *inputs : *values).items)
        if (value.kind == JsonNode::Kind::string) words += ' ' + value.string;
    }
    for (const auto& [word, kind] : kPytorchCollectives) {
      if (!holds(words, word)) continue;
      out.kind = ImportedNode::Kind::collective;
      out.collective = kind;
      ++collectives_;
      return;
    }
  }

  const JsonNode& root_;
  std::string file_;
  ImportedGraph step_;
  std::vector<std::vector<std::int64_t>> after_;
  std::int64_t collectives_ = 0;
};

Result<ImportedGraph> read_pytorch_et(std::string_view content, const std::string& file) {
  const Result<JsonDocument> document = parse_json(std::string(content), file);
  if (!document) return tl::unexpected(document.error());
  return PytorchEtReader(*document, file).read();
}

bool is_pytorch_et(std::string_view content, std::string_view) {
  const std::string_view begin = content.substr(0, 4096);
  return head_contains(begin, "\"schema\"") && head_contains(begin, "\"nodes\"");
}

}  // namespace

const Importer kPytorchEt{"pytorch-et", "execution trace of PyTorch: operators with shapes, no times", "steps.md",
                          is_pytorch_et, read_pytorch_et};

}  // namespace tracecast
