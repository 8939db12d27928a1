#include <cmath>

#include <fmt/format.h>

#include "sim/cost/gemm.hpp"
#include "sim/cost/plausible.hpp"
#include "sim/io/fields.hpp"
#include "sim/io/files.hpp"
/// Profiles as JSON (docs/formats/profile.md).
namespace tracecast {
namespace {

const Allowed kRequired{.required = true};
const Allowed kWritten{.always = true};
const Allowed kPositive{.minimum = 0, .above = true, .error = "is not positive", .always = true};
const Allowed kNotNegative{.minimum = 0, .error = "is negative", .always = true};
// Limits that real parts are far from, but other units are not.
const Allowed kShare{
    .minimum = 0, .maximum = 1.1, .above = true, .always = true};  // of rated clocks, which boost exceeds
const Allowed kFactor{.minimum = 0.1, .maximum = 10, .always = true};
const Allowed kCallTime{.minimum = 0, .maximum = 1, .always = true};
const Allowed kPeak{.minimum = 1e6, .maximum = 1e18, .always = true};
const Allowed kFraction{.minimum = 0, .maximum = 1, .error = "is not between 0 and 1", .always = true};

/// Written only where it differs from the default.
Allowed rare(Allowed allowed) {
  allowed.always = false;
  return allowed;
}

/// A rate with its unit in the file, bytes per second in the struct; 0: absent.
template <class Number>
struct Rate {
  Number& bytes_per_second;
};
template <class Number>
Rate(Number&) -> Rate<Number>;  // clang 16 deduces no aggregates itself
bool read_value(ObjectReader& reader, const char* key, const Allowed&, Rate<double> rate) {
  Bandwidth read;
  if (!reader.get(key, read)) return false;
  rate.bytes_per_second = static_cast<double>(read.bytes_per_second);
  if (read.bytes_per_second <= 0) reader.error(key, "is not positive");
  return read.bytes_per_second > 0;
}
JsonNode node_of(Rate<const double> rate) {
  const std::int64_t count = std::llround(rate.bytes_per_second);
  return count > 0 ? node_of(Bandwidth{count}) : JsonNode{};
}
std::string type_of(const Rate<double>*, const Allowed& allowed) {
  return type_of(static_cast<const Bandwidth*>(nullptr), allowed);
}

/// The shape of an operator, whose kind says which one it is.
template <class Op>
struct ShapeOf {
  Op& op;
};
template <class Op>
ShapeOf(Op&) -> ShapeOf<Op>;
bool read_value(ObjectReader& reader, const char* key, const Allowed& allowed, ShapeOf<Operator> shape) {
  shape.op.shape = shape_for(shape.op.kind);
  return std::visit([&](auto& value) { return read_value(reader, key, allowed, value); }, shape.op.shape);
}
JsonNode node_of(ShapeOf<const Operator> shape) {
  return std::visit([](const auto& value) { return node_of(value); }, shape.op.shape);
}
std::string type_of(const ShapeOf<Operator>*, const Allowed&) {
  return fmt::format(R"("oneOf": [{{ {} }}, {{ {} }}, {{ {} }}, {{ {} }}])", object_type(texts_of<GemmShape>()),
                     object_type(texts_of<AttentionShape>()), object_type(texts_of<ElementwiseShape>()),
                     object_type(texts_of<ScanShape>()));
}

/// Checks across several keys.
void check_whole(ObjectReader& object, const Profile& profile) {
  if (object.get_node("peak_flops_per_s") != nullptr && profile.peak_flops.empty())
    object.error("peak_flops_per_s", "has no precision");
  const auto check_tiles = [&](const std::string& key, const GemmModel& model) {
    if (!model.tiles.empty() && model.tiles.back().rows != 0)
      object.error(key, "has no tile for any number of rows (the last one without up_to_rows)");
    if (!model.benchmark.choices.empty() && model.benchmark.choices.size() != GemmBenchmark::kChoiceNodes)
      object.error(key, fmt::format("has choices at {} nodes (allowed: none or {})", model.benchmark.choices.size(),
                                    GemmBenchmark::kChoiceNodes));
  };
  for (const auto& [precision, model] : profile.gemm) check_tiles("gemm", model);
  check_tiles("grouped_gemm", profile.grouped_gemm);
  if (object.get_node("memory") != nullptr && profile.memory.count <= 0) object.error("memory", "is not positive");
  for (const MeasuredOperator& each : profile.measured)
    if (const auto fault = why_impossible(profile, each))
      return object.error("measured", fmt::format("{} ({} {}): {}", each.op.name, to_string(each.op.kind),
                                                  to_string(each.op.pass), *fault));
  for (const MeasuredCollective& each : profile.measured_collectives)
    if (const auto fault = why_impossible(profile, each))
      return object.error("measured_collectives",
                          fmt::format("{} of {} bytes over {} ranks: {}", to_string(each.collective), each.size.count,
                                      each.ranks, *fault));
}

/// An entry of `memory_bound`.
struct MemoryEntry {
  std::optional<OperatorKind> kind = {};
  std::optional<Pass> pass = {};
  MemoryModel model = {};
};

}  // namespace

using MemoryModels = std::map<std::pair<OperatorKind, Pass>, MemoryModel>;

static bool read_value(ObjectReader& reader, const char* key, const Allowed&, MemoryModels& models) {
  for (ObjectReader& item : reader.get_objects(key)) {
    MemoryEntry entry;
    read_fields(item, entry);
    if (entry.kind && entry.pass && !models.emplace(std::pair{*entry.kind, *entry.pass}, entry.model).second)
      item.error("kind", fmt::format("{} {} is given twice", to_string(*entry.kind), to_string(*entry.pass)));
    item.finish();
  }
  return true;
}
static JsonNode node_of(const MemoryModels& models) {
  std::vector<MemoryEntry> entries;
  for (const auto& [kind_and_pass, model] : models)
    entries.push_back({kind_and_pass.first, kind_and_pass.second, model});
  return node_of(entries);
}
static std::string type_of(const MemoryModels*, const Allowed& allowed) {
  return type_of(static_cast<const std::vector<MemoryEntry>*>(nullptr), allowed);
}

#include "sim/io/keys/profile.def"

std::vector<KeyTable> profile_keys() {
  return {{"profile", texts_of<Profile>()},
          {"profile.gemm", texts_of<GemmModel>()},
          {"profile.attention", texts_of<AttentionModel>()},
          {"profile.in_training", texts_of<InTraining>()},
          {"profile.host", texts_of<HostModel>()},
          {"profile.measured", texts_of<MeasuredOperator>()},
          {"profile.measured_collectives", texts_of<MeasuredCollective>()}};
}

Result<Profile> read_profile(const std::filesystem::path& path) {
  const Result<JsonDocument> document = read_json(path);
  if (!document) return tl::unexpected(document.error());
  std::vector<Diagnostic> errors;
  Profile profile;
  profile.name = path.stem().string();
  ObjectReader object(document->root, document->file, "", errors);
  read_fields(object, profile);
  check_whole(object, profile);
  if (profile.host.call == 0) profile.host.call = profile.host.launch;
  object.finish();
  if (!errors.empty()) return tl::unexpected(in_file_order(std::move(errors)));
  return profile;
}

std::string to_json(const Profile& profile) { return indented_json(write_fields(profile)) + "\n"; }

}  // namespace tracecast
