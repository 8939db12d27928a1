#include "sim/io/economics_file.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/io/fields.hpp"

namespace tracecast {

static bool read_value(ObjectReader& reader, const char* key, const Allowed&, Range3& band) {
  const JsonNode& node = *reader.get_node(key);
  const auto is_number = [](const JsonNode& item) {
    return item.kind == JsonNode::Kind::integer || item.kind == JsonNode::Kind::number;
  };
  const bool three = node.kind == JsonNode::Kind::array && node.items.size() == 3 &&
                     std::all_of(node.items.begin(), node.items.end(), is_number);
  if (three) band = {node.items[0].number, node.items[1].number, node.items[2].number};
  if (three && band.low >= 0 && band.low <= band.typical && band.typical <= band.high) return true;
  reader.error(key, "is not a band (allowed: [low, typical, high], ascending, none negative)");
  return false;
}
static JsonNode node_of(const Range3& band) { return node_of(std::vector<double>{band.low, band.typical, band.high}); }
static std::string type_of(const Range3*, const Allowed&) {
  return R"("type": "array", "items": { "type": "number", "minimum": 0 }, "minItems": 3)";
}

#include "sim/io/keys/economics.def"

std::vector<KeyTable> economics_keys() {
  return {{"economics", texts_of<Economics>()},
          {"economics.gpus", texts_of<GpuEconomics>()},
          {"economics.gpus.quotes", texts_of<PriceQuote>()},
          {"economics.ownership", texts_of<Ownership>()},
          {"economics.grids", texts_of<Grid>()}};
}

/// A file without any rent is one of owned GPUs.
static bool only_purchases(const Economics& economics) {
  bool bought = false;
  for (const auto& [name, gpu] : economics.gpus) {
    if (gpu.price) return false;
    bought = bought || gpu.purchase;
    for (const PriceQuote& each : gpu.quotes) {
      if (each.term != Term::owned) return false;
      bought = true;
    }
  }
  return bought;
}

Result<Economics> read_usual_economics(const DataPaths& data) {
  return read_economics(data.scenarios / "economics" / fmt::format("{}.json", kUsualPrices));
}

Result<Economics> read_economics(const std::filesystem::path& path) {
  const Result<JsonDocument> document = read_json(path);
  if (!document) return tl::unexpected(document.error());
  std::vector<Diagnostic> errors;
  Economics economics;
  ObjectReader root(document->root, document->file, "", errors);
  economics.name = path.stem().string();
  read_fields(root, economics);
  const JsonNode* gpus = root.get_node("gpus");
  if (gpus != nullptr && gpus->kind != JsonNode::Kind::object)
    root.error("gpus", "is not an object (GPU: price and tdp)");
  else if (gpus != nullptr)
    read_value(root, "gpus", {}, economics.gpus);
  if (std::optional<ObjectReader> reader = root.get_object("ownership")) {
    Ownership& own = economics.ownership.emplace();
    read_fields(*reader, own);
    if (!(own.years.low > 0)) reader->error("years", "must be a band above 0");
    if (!(own.building_years.low > 0)) reader->error("building_years", "must be a band above 0");
    if (!(own.utilisation.low > 0) || own.utilisation.high > 1)
      reader->error("utilisation", "must be a band above 0, at most 1");
    reader->finish();
  }
  root.finish();
  if (only_purchases(economics)) economics.term = Term::owned;
  if (!errors.empty()) return tl::unexpected(in_file_order(std::move(errors)));
  return economics;
}

}  // namespace tracecast
