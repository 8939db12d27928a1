#include "sim/io/economics_file.hpp"

#include "sim/io/json_document.hpp"

namespace tracecast {
namespace {

bool is_number(const JsonNode& node) {
  return node.kind == JsonNode::Kind::integer || node.kind == JsonNode::Kind::number;
}

/// True if the key is present and valid.
bool read_band(ObjectReader& reader, const std::string& key, Range3& band) {
  const JsonNode* node = reader.get_node(key);
  if (node == nullptr) return false;
  const bool three = node->kind == JsonNode::Kind::array && node->items.size() == 3 && is_number(node->items[0]) &&
                     is_number(node->items[1]) && is_number(node->items[2]);
  if (three) band = {node->items[0].number, node->items[1].number, node->items[2].number};
  if (three && band.low >= 0 && band.low <= band.typical && band.typical <= band.high) return true;
  reader.error(key, "is not a band (allowed: [low, typical, high], ascending, none negative)");
  return false;
}

GpuEconomics read_gpu(ObjectReader& reader) {
  GpuEconomics gpu;
  Range3 price;
  if (read_band(reader, "price", price)) gpu.price = price;
  if (read_band(reader, "purchase", price)) gpu.purchase = price;
  reader.get("tdp", gpu.tdp_watts);
  if (!(gpu.tdp_watts >= 0 && gpu.tdp_watts <= 1e6)) reader.error("tdp", "is not a power in watts (allowed: 0 to 1e6)");
  reader.finish();
  return gpu;
}

void read_gpus(ObjectReader& root, Economics& economics, std::vector<Diagnostic>& errors) {
  const JsonNode* gpus = root.get_node("gpus");
  if (gpus == nullptr) return root.error("gpus", "is missing");
  if (gpus->kind != JsonNode::Kind::object) return root.error("gpus", "is not an object (GPU: price and tdp)");
  for (const JsonMember& member : gpus->members) {
    ObjectReader reader(member.value, root.file(), "gpus." + member.key, errors);
    economics.gpus[member.key] = read_gpu(reader);
  }
}

void read_ownership(ObjectReader& root, Economics& economics) {
  std::optional<ObjectReader> reader = root.get_object("ownership");
  if (!reader) return;
  Ownership& own = economics.ownership.emplace();
  if (!read_band(*reader, "years", own.years) || !(own.years.low > 0)) reader->error("years", "must be a band above 0");
  read_band(*reader, "usd_per_kwh", own.usd_per_kwh);
  reader->finish();
}

}  // namespace

Result<Economics> read_economics(const std::filesystem::path& path) {
  const Result<JsonDocument> document = read_json(path);
  if (!document) return tl::unexpected(document.error());
  std::vector<Diagnostic> errors;
  Economics economics;
  ObjectReader root(document->root, document->file, "", errors);
  economics.name = path.stem().string();
  root.get("description", economics.description);
  root.get("source", economics.source);
  read_gpus(root, economics, errors);
  read_band(root, "node_power", economics.node_power);
  read_band(root, "network_watts", economics.network_watts);
  read_band(root, "pue", economics.pue);
  read_ownership(root, economics);
  root.ignore("sources");
  root.finish();
  if (!errors.empty()) return tl::unexpected(in_file_order(std::move(errors)));
  return economics;
}

}  // namespace tracecast
