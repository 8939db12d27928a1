#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/import/chakra_export.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/protobuf_wire.hpp"
#include "sim/import/recognise.hpp"
#include "sim/io/json_document.hpp"

namespace tracecast {
namespace {

constexpr std::int64_t kMaxMicroseconds = 8'640'000'000'000;  // 100 days
constexpr std::int64_t kMaxPicoseconds = kMaxMicroseconds * 1'000'000;
constexpr std::uint64_t kMaxRank = (1 << 24) - 1;

/// By Chakra's number; those that we do not have count as the nearest one.
constexpr std::array<Collective, 9> kCollectives{
    Collective::all_reduce, Collective::broadcast,      Collective::all_gather,
    Collective::all_gather, Collective::broadcast,      Collective::broadcast,
    Collective::all_to_all, Collective::reduce_scatter, Collective::reduce_scatter};

constexpr std::array<bool, 9> kNearest{false, true, false, true, true, false, false, false, false};

/// Chakra's types: 2 and 3 memory, 4 compute, 5 send, 6 receive, 7 collective.
std::optional<ImportedNode::Kind> kind_of(std::uint64_t type) {
  switch (type) {
    case 2:
    case 3:
      return ImportedNode::Kind::memory;
    case 4:
      return ImportedNode::Kind::compute;
    case 5:
      return ImportedNode::Kind::send;
    case 6:
      return ImportedNode::Kind::receive;
    case 7:
      return ImportedNode::Kind::collective;
    default:
      return std::nullopt;
  }
}

Duration microseconds_of(std::uint64_t us) {
  return Duration{static_cast<std::int64_t>(std::min<std::uint64_t>(us, kMaxMicroseconds)) * 1'000'000};
}

/// What attributes say of a node.
struct Attributes {
  std::int64_t collective = -1;  ///< Chakra's number
  bool on_host = false;
  std::int64_t picoseconds = -1;  ///< of a trace that we exported
  bool timed = true;              ///< a duration is there; protobuf leaves out that of 0 us
};

struct Dependencies {
  std::vector<std::int64_t> control;  ///< ids of nodes
  std::vector<std::int64_t> data;
};

class ChakraReader {
 public:
  explicit ChakraReader(std::string file) : file_(std::move(file)) {
    step_.format = "Chakra execution trace";
    step_.sizes = ImportedGraph::Sizes::of_input;
  }

  /// Lengths and messages: the metadata, then nodes.
  Result<ImportedGraph> read(std::string_view content) {
    WireReader stream(content);
    for (bool first = true; stream.good() && !stream.at_end(); first = false) {
      const std::size_t begin = stream.position();
      const std::string_view message = stream.take(stream.varint());
      if (!stream.good() || (!first && !node(message)))
        return fail({file_, 0, "", "", fmt::format("is damaged or cut at byte {}", begin)});
    }
    return finish();
  }

  /// Keys are spelled in several ways.
  Result<ImportedGraph> read_json(std::string_view content) {
    const Result<JsonDocument> document = parse_json(std::string(content), file_);
    if (!document) return tl::unexpected(document.error());
    const JsonNode* graph = document->root.find("workload_graph");
    if (graph == nullptr || graph->kind != JsonNode::Kind::array)
      return fail({file_, 0, "workload_graph", "", "is missing: expected a workload of Chakra"});
    for (const JsonNode& each : graph->items) {
      ImportedNode node;
      const auto id = integer_of(any(each, {"Id", "id"}));
      const auto type = integer_of(any(each, {"NodeType", "type"}));
      if (!id || !type)
        return fail({file_, each.line, "workload_graph", each.text(), "must be a node with Id and NodeType"});
      node.id = *id;
      if (const JsonNode* name = any(each, {"Name", "name"})) node.name = shortened(name->string);
      Attributes attributes;
      attributes.timed = false;
      for (const char* key : {"runtime", "duration_micros"})
        if (const JsonNode* time = each.find(key); time != nullptr && time->kind != JsonNode::Kind::null) {
          const auto us = number_of(*time);
          if (!us || *us < 0 || *us > static_cast<double>(kMaxMicroseconds))
            return fail({file_, time->line, key, time->text(), "must be a time in microseconds, up to 100 days"});
          node.duration = Duration{static_cast<std::int64_t>(*us * 1e6 + 0.5)};
          attributes.timed = true;
          break;
        }
      if (const auto size = integer_of(each.find("comm_size")))
        node.size.count = std::clamp<std::int64_t>(*size, 0, kMaxCollectiveBytes);
      Dependencies after;
      for (const std::string_view key : {"ctrlDeps", "ctrl_deps", "dataDeps", "data_deps"})
        if (const JsonNode* deps = each.find(key))
          for (const JsonNode& dep : deps->items)
            if (const auto on = integer_of(&dep)) (key.front() == 'c' ? after.control : after.data).push_back(*on);
      for (const char* key : {"is_cpu_op", "comm_type", "pg_name", "comm_src", "comm_dst"})
        if (const JsonNode* value = each.find(key)) set(key, *value, node, attributes);
      if (const JsonNode* list = any(each, {"attr", "attrs", "attribute"}); list != nullptr)
        for (const JsonNode& entry : list->items) json_attribute(entry, node, attributes);
      add(std::move(node), static_cast<std::uint64_t>(*type), attributes, std::move(after));
    }
    return finish();
  }

 private:
  static const JsonNode* any(const JsonNode& object, std::initializer_list<const char*> keys) {
    for (const char* key : keys)
      if (const JsonNode* found = object.find(key)) return found;
    return nullptr;
  }

  /// Protobuf's own JSON writes 64-bit numbers as strings.
  static std::optional<double> number_of(const JsonNode& node) {
    if (node.kind == JsonNode::Kind::string) return parse_number<double>(node.string);
    const bool is_number = node.kind == JsonNode::Kind::integer || node.kind == JsonNode::Kind::number;
    return is_number ? std::optional(node.number) : std::nullopt;
  }
  static std::optional<std::int64_t> integer_of(const JsonNode* node) {
    if (node == nullptr) return std::nullopt;
    if (node->kind == JsonNode::Kind::string) return parse_number<std::int64_t>(node->string);
    return node->kind == JsonNode::Kind::integer ? std::optional(node->integer) : std::nullopt;
  }

  /// {"name": "comm_size", "int64_val": 1048576}: protobuf's own JSON.
  static void json_attribute(const JsonNode& entry, ImportedNode& node, Attributes& attributes) {
    const JsonNode* const name = entry.find("name");
    if (name == nullptr || name->kind != JsonNode::Kind::string) return;
    for (const JsonMember& member : entry.members)
      if (member.key != "name" && member.key != "doc_string") set(name->string, member.value, node, attributes);
  }

  static void set(std::string_view name, const JsonNode& value, ImportedNode& node, Attributes& attributes) {
    const std::int64_t number = value.kind == JsonNode::Kind::boolean ? (value.boolean ? 1 : 0)
                                : value.kind == JsonNode::Kind::string
                                    ? parse_number<std::int64_t>(value.string).value_or(0)
                                    : value.integer;
    const std::string_view text =
        value.kind == JsonNode::Kind::string ? std::string_view(value.string) : std::string_view{};
    set(name, static_cast<std::uint64_t>(std::max<std::int64_t>(0, number)), text, node, attributes);
  }

  bool node(std::string_view message) {
    WireReader reader(message);
    ImportedNode node;
    std::uint64_t type = 0;
    Attributes attributes;
    Dependencies after;
    while (const auto field = reader.next()) {
      if (field->number == 1) node.id = static_cast<std::int64_t>(field->value);
      if (field->number == 2) node.name = shortened(field->bytes);
      if (field->number == 3) type = field->value;
      if (field->number == 4) dependencies(*field, after.control);
      if (field->number == 5) dependencies(*field, after.data);
      if (field->number == 7) node.duration = microseconds_of(field->value);
      if (field->number == 10) attribute(field->bytes, node, attributes);
    }
    if (!reader.good()) return false;
    add(std::move(node), type, attributes, std::move(after));
    return true;
  }

  /// Packed, or one a field.
  static void dependencies(const WireField& field, std::vector<std::int64_t>& after) {
    if (field.type != 2) return after.push_back(static_cast<std::int64_t>(field.value));
    WireReader packed(field.bytes);
    while (packed.good() && !packed.at_end()) after.push_back(static_cast<std::int64_t>(packed.varint()));
  }

  static void attribute(std::string_view message, ImportedNode& node, Attributes& attributes) {
    WireReader reader(message);
    std::string_view name;
    std::uint64_t number = 0;
    std::string_view text;
    while (const auto field = reader.next()) {
      if (field->number == 1)
        name = field->bytes;
      else if (field->type == 2)
        text = field->bytes;
      else
        number = field->value;
    }
    set(name, number, text, node, attributes);
  }

  static void set(std::string_view name, std::uint64_t number, std::string_view text, ImportedNode& node,
                  Attributes& attributes) {
    if (name == "comm_type") attributes.collective = static_cast<std::int64_t>(std::min<std::uint64_t>(number, 100));
    if (name == "is_cpu_op") attributes.on_host = number != 0;
    if (name == kChakraDuration)
      attributes.picoseconds = static_cast<std::int64_t>(std::min<std::uint64_t>(number, kMaxPicoseconds));
    if (name == "comm_size")
      node.size.count = static_cast<std::int64_t>(std::min<std::uint64_t>(number, kMaxCollectiveBytes));
    if (name == "comm_src") node.from = static_cast<int>(std::min<std::uint64_t>(number, kMaxRank));
    if (name == "comm_dst") node.to = static_cast<int>(std::min<std::uint64_t>(number, kMaxRank));
    if (name == "pg_name") node.group = shortened(text);
  }

  void add(ImportedNode node, std::uint64_t type, const Attributes& attributes, Dependencies after) {
    const auto kind = kind_of(type);
    if (!kind) return void(++others_);
    const bool timed = attributes.timed || attributes.picoseconds >= 0;
    if (attributes.picoseconds >= 0) node.duration = Duration{attributes.picoseconds};
    const std::int64_t collective = attributes.collective;
    node.kind = *kind;
    if (node.kind == ImportedNode::Kind::compute && attributes.on_host) node.kind = ImportedNode::Kind::host;
    if (node.kind == ImportedNode::Kind::compute && !timed) ++step_.untimed_computations;
    if (node.kind == ImportedNode::Kind::collective) {
      if (collective >= static_cast<std::int64_t>(kCollectives.size())) return void(++others_);  // a barrier
      if (collective < 0) ++without_type_;
      node.collective = kCollectives[static_cast<std::size_t>(std::max<std::int64_t>(0, collective))];
      if (kNearest[static_cast<std::size_t>(std::max<std::int64_t>(0, collective))]) ++nearest_;
    }
    step_.nodes.push_back(std::move(node));
    data_.push_back(after.data);
    all_.push_back(std::move(after.data));
    all_.back().insert(all_.back().end(), after.control.begin(), after.control.end());
  }

  Result<ImportedGraph> finish() {
    if (step_.nodes.empty()) return fail({file_, 0, "", "", "has no node that computes or communicates"});
    if (others_ > 0)
      step_.notes.push_back(fmt::format("{} nodes of metadata, barriers or unknown types were left out", others_));
    if (step_.untimed_computations > 0)
      step_.notes.push_back(fmt::format("{} computations without a duration take no time", step_.untimed_computations));
    if (without_type_ > 0)
      step_.notes.push_back(fmt::format("{} collectives without comm_type are taken as all_reduce", without_type_));
    if (nearest_ > 0)
      step_.notes.push_back(
          fmt::format("{} collectives that there are none of here are taken as the nearest: reduce and scatter as "
                      "broadcast, gather as "
                      "all_gather",
                      nearest_));
    ImportedGraph with_control = step_;
    if (order_nodes(with_control, all_, file_)) return with_control;
    // Converted from PyTorch: control dependencies are the call stack there, and go in circles with the data's order.
    if (const auto ok = order_nodes(step_, data_, file_); !ok) return tl::unexpected(ok.error());
    step_.notes.emplace_back("control dependencies form a cycle and were left out; data dependencies were taken");
    return std::move(step_);
  }

  std::string file_;
  ImportedGraph step_;
  std::vector<std::vector<std::int64_t>> data_;  ///< of each node, what its data comes from
  std::vector<std::vector<std::int64_t>> all_;   ///< the same and its control dependencies
  std::int64_t others_ = 0;
  std::int64_t without_type_ = 0;
  std::int64_t nearest_ = 0;  ///< collectives that stand for others
};

Result<ImportedGraph> read_chakra(std::string_view content, const std::string& file) {
  if (first_character(content) == '<')
    return fail({file, 0, "", "", "is XML, as custom collective algorithms are, not an execution trace"});
  return is_json_object(content) ? ChakraReader(file).read_json(content) : ChakraReader(file).read(content);
}

bool is_text(std::string_view content) {
  return std::ranges::none_of(content.substr(0, 256), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r' && c != '\x1B';
  });
}

bool is_chakra(std::string_view content, std::string_view) {
  if (is_json_object(content)) return has_key(content, "workload_graph");
  // The length of the first message, then its field 1 or 2 as a string: version, or an attribute.
  WireReader stream(content);
  const std::string_view message = stream.take(stream.varint());
  return stream.good() && !message.empty() && (message[0] == '\x0A' || message[0] == '\x12') && !is_text(content);
}

}  // namespace

const Importer kChakra{"chakra", "MLCommons Chakra execution trace (.et or JSON): one rank", "steps.md", is_chakra,
                       read_chakra};

}  // namespace tracecast
