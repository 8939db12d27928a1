/// Profiles as JSON (docs/formats/profile.md, docs/schema/profile.schema.json).
///
/// The keys of each group are listed once, in a function that visits key and value together. `Writer` and
/// `ProfileReader` both use it, so the two cannot drift apart.
#include <array>
#include <string>
#include <type_traits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/cost/gemm.hpp"
#include "sim/io/field_limits.hpp"
#include "sim/io/files.hpp"
#include "sim/io/json_document.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

template <class E>
const Names<E>& choices(E) {
  static const Names<E> kAll = named_values<E>();
  return kAll;
}

/// What a number must satisfy; the reader says so when it does not.
enum class ProfileRange { any, positive, not_negative, fraction };

template <class Io, class T>
void visit(Io& io, T& fit)
  requires std::is_same_v<std::remove_const_t<T>, Fit>
{
  io.required("data", fit.data);
  io.required("samples", fit.samples, ProfileRange::not_negative);
  io.required("residual", fit.residual, ProfileRange::not_negative);
}

template <class Io, class T>
void visit(Io& io, T& tile)
  requires std::is_same_v<std::remove_const_t<T>, GemmTile>
{
  io.optional("up_to_rows", tile.rows, ProfileRange::not_negative);
  io.required("m", tile.m, ProfileRange::positive);
  io.required("n", tile.n, ProfileRange::positive);
  io.optional("together", tile.together, ProfileRange::positive);
  io.optional("latency_s", tile.latency, ProfileRange::not_negative);
}

template <class Io, class T>
void visit(Io& io, T& model)
  requires std::is_same_v<std::remove_const_t<T>, GemmModel>
{
  io.required("t0_s", model.t0, ProfileRange::not_negative);
  io.required("efficiency", model.efficiency, ProfileRange::positive);
  io.required("memory_efficiency", model.memory_efficiency, ProfileRange::positive);
  io.optional("k0", model.k0, ProfileRange::not_negative);
  io.optional("tile_exponent", model.tile_exponent, ProfileRange::not_negative);
  io.optional("split_cost_s", model.split_cost, ProfileRange::not_negative);
  io.optional("reread", model.reread, ProfileRange::not_negative);
  io.optional("norm", model.norm, ProfileRange::positive);
  io.optional("wave_weight", model.wave_weight, ProfileRange::fraction);
  io.optional("dgrad_factor", model.dgrad_factor, ProfileRange::positive);
  io.optional("wgrad_factor", model.wgrad_factor, ProfileRange::positive);
  io.optional("power_knee_flops", model.power_knee, ProfileRange::not_negative);
  io.optional("power_exponent", model.power_exponent, ProfileRange::not_negative);
  io.optional("unaligned_factor", model.unaligned_factor, ProfileRange::positive);
  io.optional("tile_latency_s", model.tile_latency, ProfileRange::not_negative);
  io.optional("l2_bytes", model.benchmark.l2_bytes, ProfileRange::not_negative);
  io.optional("l2_speedup", model.benchmark.l2_speedup, ProfileRange::positive);
  io.unless_usual("result_weight", model.result_weight, 1, ProfileRange::positive);
  io.true_unless_given("splits", model.splits);
  io.list_if_any("tiles", model.tiles);
  io.unless_usual("ragged_factor", model.ragged_factor, 1, ProfileRange::positive);
  io.unless_usual("node_rate", model.benchmark.node_rate, 1, ProfileRange::positive);
  io.unless_usual("quantise_t0_s", model.benchmark.quantise_t0, 0, ProfileRange::not_negative);
  io.unless_usual("quantise_efficiency", model.benchmark.quantise_efficiency, 0, ProfileRange::not_negative);
  io.numbers("choices", model.benchmark.choices);
  io.group("fit", model.fit);
}

template <class Io, class T>
void visit(Io& io, T& model)
  requires std::is_same_v<std::remove_const_t<T>, AttentionModel>
{
  io.required("kernel", model.kernel);
  io.required("head_dim", model.head_dim, ProfileRange::positive);
  io.required("causal", model.causal);
  io.required("t0_s", model.t0, ProfileRange::not_negative);
  io.required("forward_efficiency", model.forward_efficiency, ProfileRange::positive);
  io.required("forward_s0", model.forward_s0, ProfileRange::not_negative);
  io.required("backward_efficiency", model.backward_efficiency, ProfileRange::positive);
  io.required("backward_s0", model.backward_s0, ProfileRange::not_negative);
  io.unless_usual("power_knee_flops", model.power_knee, 0, ProfileRange::not_negative);
  io.unless_usual("power_exponent", model.power_exponent, 0, ProfileRange::not_negative);
  io.group("fit", model.fit);
}

template <class Io, class T>
void visit(Io& io, T& model)
  requires std::is_same_v<std::remove_const_t<T>, MemoryModel>
{
  io.required("t0_s", model.t0, ProfileRange::not_negative);
  io.required("efficiency", model.efficiency, ProfileRange::positive);
  io.group("fit", model.fit);
}

template <class Io, class T>
void visit(Io& io, T& factors)
  requires std::is_same_v<std::remove_const_t<T>, InTraining>
{
  io.optional("gemm", factors.gemm, ProfileRange::positive);
  io.optional("gemm_fp8", factors.gemm_fp8, ProfileRange::positive);
  io.optional("gemm_fp8_block", factors.gemm_fp8_block, ProfileRange::positive);
  io.optional("gemm_fp4", factors.gemm_fp4, ProfileRange::positive);
  io.optional("weight_gradient", factors.weight_gradient, ProfileRange::positive);
  io.optional("attention", factors.attention, ProfileRange::positive);
  io.optional("scores", factors.scores, ProfileRange::positive);
  io.optional("softmax", factors.softmax, ProfileRange::positive);
  io.optional("memory", factors.memory, ProfileRange::positive);
  io.group("fit", factors.fit);
}

template <class Io, class T>
void visit(Io& io, T& host)
  requires std::is_same_v<std::remove_const_t<T>, HostModel>
{
  io.required("launch_s", host.launch, ProfileRange::not_negative);
  io.required("graph_launch_s", host.graph_launch, ProfileRange::not_negative);
  io.optional("step_overhead_s", host.step_overhead, ProfileRange::not_negative);
  io.optional("step_overhead_per_rank_s", host.step_overhead_per_rank, ProfileRange::not_negative);
  io.group("fit", host.fit);
}

template <class Io, class T>
void visit(Io& io, T& shape)
  requires std::is_same_v<std::remove_const_t<T>, GemmShape>
{
  io.required("m", shape.m, ProfileRange::positive);
  io.required("n", shape.n, ProfileRange::positive);
  io.required("k", shape.k, ProfileRange::positive);
  io.optional("batch", shape.batch, ProfileRange::positive);
  io.optional("accumulate_fp32", shape.accumulate_fp32);
}

template <class Io, class T>
void visit(Io& io, T& shape)
  requires std::is_same_v<std::remove_const_t<T>, AttentionShape>
{
  io.required("batch", shape.batch, ProfileRange::positive);
  io.required("q_len", shape.q_len, ProfileRange::positive);
  io.required("kv_len", shape.kv_len, ProfileRange::positive);
  io.required("heads", shape.heads, ProfileRange::positive);
  io.required("kv_heads", shape.kv_heads, ProfileRange::positive);
  io.required("qk_dim", shape.qk_dim, ProfileRange::positive);
  io.required("v_dim", shape.v_dim, ProfileRange::positive);
  io.required("causal", shape.causal);
  io.optional("window", shape.window, ProfileRange::not_negative);
}

template <class Io, class T>
void visit(Io& io, T& shape)
  requires std::is_same_v<std::remove_const_t<T>, ElementwiseShape>
{
  io.optional("elements", shape.elements, ProfileRange::not_negative);
  io.required("traffic", shape.traffic);
}

template <class Io, class T>
void visit(Io& io, T& measured)
  requires std::is_same_v<std::remove_const_t<T>, MeasuredOperator>
{
  io.required("kind", measured.op.kind);
  io.required("pass", measured.op.pass);
  io.required("precision", measured.op.precision);
  io.optional("name", measured.op.name);
  io.shape("shape", measured.op.kind, measured.op.shape);
  io.required("seconds", measured.seconds, ProfileRange::positive);
  io.optional("spread", measured.spread, ProfileRange::not_negative);
  io.optional("samples", measured.samples, ProfileRange::not_negative);
}

template <class Io, class T>
void visit(Io& io, T& measured)
  requires std::is_same_v<std::remove_const_t<T>, MeasuredCollective>
{
  io.required("collective", measured.collective);
  io.required("ranks", measured.ranks, ProfileRange::positive);
  io.required("size", measured.size);
  io.required("seconds", measured.seconds, ProfileRange::positive);
  io.optional("spread", measured.spread, ProfileRange::not_negative);
  io.optional("samples", measured.samples, ProfileRange::not_negative);
}

template <class Io, class T>
void visit(Io& io, T& profile)
  requires std::is_same_v<std::remove_const_t<T>, Profile>
{
  io.required("gpu", profile.gpu);
  io.required("kind", profile.kind);
  io.required("source", profile.source);
  io.required("architecture", profile.architecture);
  io.required("sms", profile.sms, ProfileRange::positive);
  io.by_precision("peak_flops_per_s", profile.peak_flops);
  io.rate("memory_bandwidth", profile.memory_bandwidth);
  io.required("memory", profile.memory);
  io.optional_rate("host_bandwidth", profile.host_bandwidth);
  io.by_precision("gemm", profile.gemm);
  io.group("grouped_gemm", profile.grouped_gemm);
  io.list("attention", profile.attention);
  io.memory_models("memory_bound", profile.memory_bound);
  io.group("in_training", profile.in_training);
  io.group("host", profile.host);
  io.list("measured", profile.measured);
  io.list_if_any("measured_collectives", profile.measured_collectives);
  io.true_unless_given("overlap", profile.overlap);
}

/// The index of OperatorShape's alternative that a kind has.
std::size_t shape_index(OperatorKind kind) {
  if (kind == OperatorKind::gemm || kind == OperatorKind::grouped_gemm || kind == OperatorKind::scores) return 0;
  return kind == OperatorKind::attention ? 1 : 2;
}

class Writer {
 public:
  static Json write(const auto& value) {
    Writer writer;
    visit(writer, value);
    return std::move(writer.object_);
  }

  template <class T>
  void required(const char* key, const T& value, ProfileRange = ProfileRange::any) {
    if constexpr (std::is_enum_v<T>)
      object_[key] = to_string(value);
    else if constexpr (std::is_same_v<T, Bytes>)
      object_[key] = fmt::format("{} B", value.count);
    else
      object_[key] = value;
  }
  void optional(const char* key, const auto& value, ProfileRange = ProfileRange::any) { required(key, value); }
  void group(const char* key, const auto& value) { object_[key] = write(value); }
  void rate(const char* key, double bytes_per_second) { object_[key] = text_of_rate(bytes_per_second); }
  void optional_rate(const char* key, double bytes_per_second) {
    if (bytes_per_second > 0) rate(key, bytes_per_second);
  }
  template <class T>
  void by_precision(const char* key, const std::map<Precision, T>& values) {
    Json& object = object_[key] = Json::object();
    for (const auto& [precision, value] : values) {
      if constexpr (std::is_same_v<T, double>)
        object[to_string(precision)] = value;
      else
        object[to_string(precision)] = write(value);
    }
  }
  void list(const char* key, const auto& values) {
    Json& array = object_[key] = Json::array();
    for (const auto& value : values) array.push_back(write(value));
  }
  /// Keys that most profiles omit are written only when they differ from the default.
  void list_if_any(const char* key, const auto& values) {
    if (!values.empty()) list(key, values);
  }
  void true_unless_given(const char* key, bool value) {
    if (!value) object_[key] = value;
  }
  void unless_usual(const char* key, double value, double usual, ProfileRange) {
    if (value != usual) object_[key] = value;
  }
  void numbers(const char* key, const std::vector<int>& values) {
    if (!values.empty()) object_[key] = values;
  }
  void memory_models(const char* key, const std::map<std::pair<OperatorKind, Pass>, MemoryModel>& models) {
    Json& array = object_[key] = Json::array();
    for (const auto& [kind_and_pass, model] : models) {
      Json entry{{"kind", to_string(kind_and_pass.first)}, {"pass", to_string(kind_and_pass.second)}};
      entry.update(write(model));
      array.push_back(std::move(entry));
    }
  }
  void shape(const char* key, OperatorKind, const OperatorShape& shape) {
    object_[key] = std::visit([](const auto& value) { return write(value); }, shape);
  }

 private:
  /// In the largest unit that leaves an integer: "3350 GB/s".
  static std::string text_of_rate(double bytes_per_second) {
    const std::int64_t count = std::llround(bytes_per_second);
    if (count % 1'000'000'000 == 0) return fmt::format("{} GB/s", count / 1'000'000'000);
    if (count % 1'000'000 == 0) return fmt::format("{} MB/s", count / 1'000'000);
    return fmt::format("{} B/s", count);
  }

  Json object_ = Json::object();
};

class ProfileReader {
 public:
  ProfileReader(ObjectReader& object, std::vector<Diagnostic>& errors) : object_(object), errors_(errors) {}

  void required(const char* key, auto& value, ProfileRange range = ProfileRange::any) {
    check(key, take<true>(key, value), value, range);
  }
  void optional(const char* key, auto& value, ProfileRange range = ProfileRange::any) {
    check(key, take<false>(key, value), value, range);
  }

  template <class T>
  void group(const char* key, T& value) {
    read_object(key, [&](ObjectReader& object) { read(object, value); });
  }
  void rate(const char* key, double& bytes_per_second) {
    Bandwidth bandwidth;
    if (!object_.require(key, bandwidth)) return;
    bytes_per_second = static_cast<double>(bandwidth.bytes_per_second);
    check(key, true, bytes_per_second, ProfileRange::positive);
  }
  void optional_rate(const char* key, double& bytes_per_second) {
    if (object_.get_node(key) != nullptr) rate(key, bytes_per_second);
  }
  template <class T>
  void by_precision(const char* key, std::map<Precision, T>& values) {
    read_object(key, [&](ObjectReader& object) {
      for (const auto& [precision, name] : EnumNames<Precision>::table) {
        T value{};
        if constexpr (std::is_same_v<T, double>) {
          if (!object.get(name, value)) continue;
          if (value <= 0) object.error(name, "is not positive");
        } else {
          std::optional<ObjectReader> member = object.get_object(name);
          if (!member) continue;
          read(*member, value);
        }
        values[precision] = value;
      }
      object.finish();
    });
  }
  template <class T>
  void list(const char* key, std::vector<T>& values) {
    each_item(key, [&](ObjectReader& item) { read(item, values.emplace_back()); });
  }
  void list_if_any(const char* key, auto& values) { list(key, values); }
  void true_unless_given(const char* key, bool& value) { optional(key, value); }
  void unless_usual(const char* key, double& value, double, ProfileRange range) { optional(key, value, range); }
  void numbers(const char* key, std::vector<int>& values) { take<false>(key, values); }
  void memory_models(const char* key, std::map<std::pair<OperatorKind, Pass>, MemoryModel>& models) {
    each_item(key, [&](ObjectReader& item) {
      OperatorKind kind{};
      Pass pass{};
      const bool has_kind = item.require("kind", kind, choices(kind));
      const bool has_pass = item.require("pass", pass, choices(pass));
      MemoryModel model;
      read(item, model);
      if (has_kind && has_pass && !models.emplace(std::pair{kind, pass}, model).second)
        item.error("kind", fmt::format("{} {} is given twice", to_string(kind), to_string(pass)));
    });
  }
  void shape(const char* key, OperatorKind kind, OperatorShape& shape) {
    if (shape_index(kind) == 0)
      group(key, shape.emplace<GemmShape>());
    else if (shape_index(kind) == 1)
      group(key, shape.emplace<AttentionShape>());
    else
      group(key, shape.emplace<ElementwiseShape>());
  }

 private:
  template <class T>
  void read(ObjectReader& object, T& value) {
    ProfileReader reader(object, errors_);
    visit(reader, value);
    object.finish();
  }
  void read_object(const char* key, const auto& function) {
    if (object_.get_node(key) == nullptr) return object_.error(key, "is missing");
    std::optional<ObjectReader> member = object_.get_object(key);
    if (member) function(*member);
  }
  void each_item(const char* key, const auto& function) {
    const JsonNode* node = object_.get_node(key);
    if (node == nullptr) return;
    if (node->kind != JsonNode::Kind::array) return object_.error(key, "is not a list");
    for (std::size_t i = 0; i < node->items.size(); ++i) {
      ObjectReader item(node->items[i], object_.file(), fmt::format("{}[{}]", object_.dotted(key), i), errors_);
      function(item);
    }
  }
  template <bool kRequired, class T>
  bool take(const char* key, T& value) {
    if constexpr (std::is_enum_v<T>)
      return kRequired ? object_.require(key, value, choices(value)) : object_.get(key, value, choices(value));
    else
      return kRequired ? object_.require(key, value) : object_.get(key, value);
  }
  template <class T>
  void check(const char* key, bool present, const T& value, ProfileRange range) {
    if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
      if (!present) return;
      const auto number = static_cast<double>(value);
      if (range == ProfileRange::positive && !(number > 0)) object_.error(key, "is not positive");
      if (range == ProfileRange::not_negative && !(number >= 0)) object_.error(key, "is negative");
      if (range == ProfileRange::fraction && !(number >= 0 && number <= 1))
        object_.error(key, "is not between 0 and 1");
    }
  }

  ObjectReader& object_;
  std::vector<Diagnostic>& errors_;
};

const std::vector<std::string>& profile_kinds() {
  static const std::vector<std::string> kKinds{"fitted", "recorded", "specification"};
  return kKinds;
}

/// Checks across several keys.
void check_whole(ObjectReader& object, const Profile& profile) {
  const auto& kinds = profile_kinds();
  if (object.get_node("kind") != nullptr && std::find(kinds.begin(), kinds.end(), profile.kind) == kinds.end())
    object.error("kind", fmt::format("is unknown (allowed: {})", fmt::join(kinds, " ")));
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
}

}  // namespace

Result<Profile> read_profile(const std::filesystem::path& path) {
  const Result<JsonDocument> document = read_json(path);
  if (!document) return tl::unexpected(document.error());
  std::vector<Diagnostic> errors;
  Profile profile;
  profile.name = path.stem().string();
  ObjectReader object(document->root, document->file, "", errors);
  object.ignore("$schema");
  ProfileReader reader(object, errors);
  visit(reader, profile);
  check_whole(object, profile);
  object.finish();
  if (!errors.empty()) return tl::unexpected(in_file_order(std::move(errors)));
  return profile;
}

std::string to_json(const Profile& profile) { return Writer::write(profile).dump(2) + "\n"; }

}  // namespace tracecast
