#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "sim/import/importers.hpp"
#include "sim/import/kernel_names.hpp"
#include "sim/import/recognise.hpp"
#include "sim/io/json_document.hpp"

namespace tracecast {
namespace {

bool holds(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

constexpr std::pair<std::string_view, Collective> kPytorchCollectives[] = {
    {"allreduce", Collective::all_reduce},          {"all_reduce", Collective::all_reduce},
    {"allgather", Collective::all_gather},          {"all_gather", Collective::all_gather},
    {"reduce_scatter", Collective::reduce_scatter}, {"alltoall", Collective::all_to_all},
    {"all_to_all", Collective::all_to_all},         {"broadcast", Collective::broadcast}};

/// A value of a node's attributes (schema 1.0.2 and later); nullptr: not there.
const JsonNode* attribute_of(const JsonNode& node, std::string_view name) {
  const JsonNode* const attributes = node.find("attrs");
  if (attributes == nullptr) return nullptr;
  for (const JsonNode& each : attributes->items)
    if (const JsonNode* key = each.find("name"); key != nullptr && key->string == name) return each.find("value");
  return nullptr;
}

/// Bytes of the first tensor in a list, possibly nested: [id, storage, offset, elements, bytes of an element, device]; 0: none.
std::int64_t tensor_bytes(const JsonNode& value, int depth = 0) {
  const std::vector<JsonNode>& items = value.items;
  if (items.size() == 6 && items[5].kind == JsonNode::Kind::string) {
    const std::int64_t elements = std::clamp<std::int64_t>(items[3].integer, 0, kMaxCollectiveBytes);
    return elements * std::clamp<std::int64_t>(items[4].integer, 0, 64);
  }
  if (depth < 4)
    for (const JsonNode& item : items)
      if (const std::int64_t bytes = tensor_bytes(item, depth + 1); bytes > 0) return bytes;
  return 0;
}

/// What a node says of the collective that it starts.
struct PytorchCall {
  std::optional<Collective> collective;
  Bytes size;  ///< the larger of its buffers; 0: not known
  std::string group;
};

/// record_param_comms names its collective, buffers and group among its attributes, in older schemas among its inputs.
/// Source: docs/references.md#format-pytorch-et
PytorchCall call_of(const JsonNode& node, const std::string& name) {
  PytorchCall call;
  const bool record = holds(name, "record_param_comms");
  if (!record && !name.starts_with("nccl:") && !name.starts_with("c10d::")) return call;
  std::string words = name;
  const JsonNode* const inputs = node.find("inputs");
  const JsonNode* const values = inputs == nullptr ? nullptr : inputs->find("values");
  if (inputs != nullptr)
    for (const JsonNode& value : (values == nullptr ? *inputs : *values).items)
      if (value.kind == JsonNode::Kind::string) words += ' ' + value.string;
  if (const JsonNode* collective = attribute_of(node, "collective_name")) words += ' ' + collective->string;
  for (const auto& [word, kind] : kPytorchCollectives)
    if (!call.collective && holds(words, word)) call.collective = kind;
  const JsonNode* const dtype = attribute_of(node, "dtype");
  for (const char* key : {"in_msg_nelems", "out_msg_nelems"})
    if (const JsonNode* elements = attribute_of(node, key); elements != nullptr && dtype != nullptr)
      call.size.count = std::max(call.size.count, std::clamp<std::int64_t>(elements->integer, 0, kMaxCollectiveBytes) *
                                                      type_size(dtype->string));
  if (const JsonNode* group = attribute_of(node, "pg_name")) call.group = shortened(group->string);
  if (call.size.count == 0 && inputs != nullptr) call.size.count = tensor_bytes(values == nullptr ? *inputs : *values);
  call.size.count = std::min(call.size.count, kMaxCollectiveBytes);
  return call;
}

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
    take_calls();
    if (step_.nodes.empty()) return fail({file_, 0, "nodes", "", "has no operator"});
    step_.found = {{"operators", static_cast<std::int64_t>(step_.nodes.size())}, {"collectives", collectives_}};
    if (nested_ > 0)
      step_.notes.push_back(fmt::format(
          "{} records inside a collective's own call (record_param_comms, nccl:…) are not counted again", nested_));
    if (others_ > 0)
      step_.notes.push_back(fmt::format(
          "{} other calls of c10d (messages, reduce, gather, scatter, barriers) are taken as operators", others_));
    step_.notes.push_back("an execution trace has no times: durations are 0");
    if (const auto ok = order_nodes(step_, after_, file_); !ok) return tl::unexpected(ok.error());
    return std::move(step_);
  }

 private:
  void add(const JsonNode& node, std::int64_t id, const std::string& name, const char* parent_key) {
    ImportedNode out;
    out.id = id;
    out.name = shortened(name);
    index_.try_emplace(id, step_.nodes.size());
    calls_.push_back(call_of(node, name));
    if (name.starts_with("c10d::") && !calls_.back().collective) ++others_;
    std::vector<std::int64_t> after;
    if (const JsonNode* parent = node.find(parent_key); parent != nullptr && parent->kind == JsonNode::Kind::integer)
      after.push_back(parent->integer);
    step_.nodes.push_back(std::move(out));
    after_.push_back(std::move(after));
  }

  /// PyTorch writes up to three nodes for one call: c10d::allreduce_ contains record_param_comms, which contains nccl:all_reduce.
  /// The outermost one is the collective; sizes and group are the first that any of them knows.
  void take_calls() {
    for (std::size_t i = 0; i < step_.nodes.size(); ++i) {
      if (!calls_[i].collective) continue;
      std::size_t outermost = i;
      for (std::optional<std::size_t> parent = parent_of(i); parent && calls_[*parent].collective && *parent != i;
           parent = parent_of(outermost)) {
        if (outermost == *parent) break;
        outermost = *parent;
        if (++steps_ > 64 * static_cast<std::int64_t>(step_.nodes.size())) break;  // parents in a circle
      }
      ImportedNode& node = step_.nodes[outermost];
      if (outermost == i) {
        node.kind = ImportedNode::Kind::collective;
        node.collective = *calls_[i].collective;
        ++collectives_;
      } else {
        ++nested_;
      }
      node.size.count = std::max(node.size.count, calls_[i].size.count);
      if (node.group.empty()) node.group = calls_[i].group;
    }
  }

  std::optional<std::size_t> parent_of(std::size_t node) const {
    if (after_[node].empty()) return std::nullopt;
    const auto found = index_.find(after_[node].front());
    return found == index_.end() ? std::nullopt : std::optional(found->second);
  }

  const JsonNode& root_;
  std::string file_;
  ImportedGraph step_;
  std::vector<std::vector<std::int64_t>> after_;
  std::vector<PytorchCall> calls_;                       ///< of each node
  std::unordered_map<std::int64_t, std::size_t> index_;  ///< [id] of the node
  std::int64_t collectives_ = 0;
  std::int64_t nested_ = 0;
  std::int64_t others_ = 0;
  std::int64_t steps_ = 0;  ///< from nodes to their parents
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
