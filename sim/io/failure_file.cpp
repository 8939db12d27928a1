#include "sim/io/failure_file.hpp"

#include <charconv>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "sim/io/json_document.hpp"
#include "sim/io/overrides.hpp"

namespace tracecast {
namespace {

constexpr double kDay = 86400;

class FailureFileReader {
 public:
  FailureFileReader(const JsonDocument& document, std::vector<Diagnostic>& errors) : errors_(&errors) {
    ObjectReader root(document.root, document.file, "", errors);
    file_.model.name = std::filesystem::path(document.file).stem().string();
    root.ignore("$schema");
    root.get("description", file_.model.description);
    root.get("source", file_.model.source);
    root.get("nodes_per_rack", file_.model.nodes_per_rack, 1);
    root.get("nodes_per_switch", file_.model.nodes_per_switch, 1);
    if (std::optional<ObjectReader> observed = root.get_object("observed")) read_observed(*observed);
    if (const JsonNode* kinds = root.get_node("kinds")) read_kinds(root, *kinds);
    if (std::optional<ObjectReader> recovery = root.get_object("recovery")) read_recovery(*recovery);
    if (std::optional<ObjectReader> checkpoint = root.get_object("checkpoint")) read_checkpoint(*checkpoint);
    if (std::optional<ObjectReader> course = root.get_object("run")) read_course(*course);
    root.finish();
  }
  FailureFile& file() { return file_; }

 private:
  void read_observed(ObjectReader& reader) {
    reader.require("gpus", file_.observed.machine.gpus, 1);
    reader.get("gpus_per_node", file_.observed.machine.gpus_per_node, 1);
    if (!long_time(reader, "duration", file_.observed.duration_s))
      reader.error("duration", "is missing or not a time with a unit");
    reader.finish();
  }

  void read_kinds(ObjectReader& root, const JsonNode& kinds) {
    if (kinds.kind != JsonNode::Kind::array) return root.error("kinds", "is not a list");
    for (std::size_t i = 0; i < kinds.items.size(); ++i) {
      ObjectReader reader(kinds.items[i], root.file(), fmt::format("kinds[{}]", i), *errors_);
      file_.model.kinds.push_back(read_kind(reader));
    }
  }

  FailureKind read_kind(ObjectReader& reader) {
    FailureKind kind;
    reader.require("name", kind.name);
    reader.get("component", kind.component, named_values<Component>());
    reader.get("per", kind.per, named_values<RateUnit>());
    positive(reader, "parts_per_unit", kind.parts_per_unit);
    reader.get("law", kind.law.kind, named_values<LawKind>());
    positive(reader, "shape", kind.law.shape);
    reader.get("age", kind.age, named_values<FleetAge>());
    reader.get("effect", kind.effect, named_values<Effect>());
    if (!reader.get("scope", kind.scope, named_values<RateUnit>()) && kind.effect != Effect::crash &&
        kind.effect != Effect::hang)
      kind.scope = RateUnit::job;
    fraction(reader, "replace_probability", kind.replace_probability, 0);
    fraction(reader, "magnitude", kind.magnitude, 1e-3);
    read_law(reader, "lasts", kind.lasts);
    read_law(reader, "latency", kind.latency);
    reader.get("notice_steps", kind.notice_steps, 0);
    reader.get("rollback_steps", kind.rollback_steps, 0);
    reader.get("source", kind.source);
    read_rate(reader, kind);
    reader.finish();
    return kind;
  }

  void read_rate(ObjectReader& reader, FailureKind& kind) {
    double count = 0, mtbf = 0, rate = 0;
    const bool counted = positive(reader, "count", count);
    const bool timed = long_time(reader, "mtbf", mtbf);
    const bool rated = positive(reader, "rate_per_1000_days", rate);
    if (counted + timed + rated != 1)
      return reader.error(counted ? "count"
                          : timed ? "mtbf"
                                  : "name",
                          "needs exactly one of count, mtbf and rate_per_1000_days");
    if (counted && file_.observed.duration_s <= 0) return reader.error("count", "needs the file's 'observed'");
    if (timed) kind.law.mean_s = mtbf;
    if (rated) kind.law.mean_s = 1000 * kDay / rate;
    if (counted)
      kind.law.mean_s =
          static_cast<double>(parts(kind, file_.model, file_.observed.machine)) * file_.observed.duration_s / count;
  }

  void read_recovery(ObjectReader& reader) {
    RecoveryPolicy& r = file_.recovery;
    for (const auto& [key, field] : std::initializer_list<std::pair<const char*, JobTime*>>{
             {"crash_detection", &r.crash_detection},
             {"collective_timeout", &r.collective_timeout},
             {"watchdog_poll", &r.watchdog_poll},
             {"watchdog_threshold", &r.watchdog_threshold},
             {"diagnosis", &r.diagnosis},
             {"scheduler", &r.scheduler},
             {"container", &r.container},
             {"communicators", &r.communicators},
             {"communicators_per_1k_ranks", &r.communicators_per_1k_ranks},
             {"warm_up", &r.warm_up},
             {"spare_swap", &r.spare_swap},
             {"spare_mtbf", &r.spare_mtbf},
             {"reconfigure", &r.reconfigure},
             {"flap_budget", &r.flap_budget}}) {
      double value = 0;
      if (long_time(reader, key, value)) *field = job_time(value);
    }
    reader.get("spares", r.spares, 0);
    reader.get("hot_spares", r.hot_spares);
    read_law(reader, "repair", r.repair);
    reader.get("elastic", r.elastic, named_values<Elastic>());
    reader.get("elastic_rollback", r.elastic_rollback);
    reader.get("failures_in_restart", r.failures_in_restart);
    reader.get("source", ignored_);
    reader.finish();
  }

  void read_checkpoint(ObjectReader& reader) {
    CheckpointSettings& c = file_.checkpoint;
    reader.get("mode", c.mode, named_values<CheckpointMode>());
    if (const JsonNode* node = reader.get_node("interval"); node != nullptr && node->string != "best")
      long_time(reader, "interval", c.interval_s);
    reader.get("bytes_per_parameter", c.bytes_per_parameter, 1, 64);
    reader.get("storage_write", c.storage_write);
    reader.get("storage_read", c.storage_read);
    reader.get("rank_storage", c.rank_storage);
    reader.get("host_copy", c.host_copy);
    reader.get("peer_copy", c.peer_copy);
    reader.get("metadata", c.metadata);
    positive(reader, "read_amplification", c.read_amplification);
    reader.get("storage_every", c.storage_every, 1);
    reader.get("source", ignored_);
    reader.finish();
  }

  void read_course(ObjectReader& reader) {
    TrainingCourse& c = file_.course;
    reader.get("target_tokens", c.target_tokens, 1);
    reader.get("spike_notice_steps", c.spike_notice_steps, 0);
    reader.get("spike_rollback_steps", c.spike_rollback_steps, 0);
    if (const JsonNode* spikes = list(reader, "spikes_at_tokens")) read_spikes(reader, *spikes);
    if (const JsonNode* ramp = list(reader, "batch_ramp")) read_ramp(reader, *ramp);
    reader.get("source", ignored_);
    reader.finish();
  }

  void read_spikes(ObjectReader& reader, const JsonNode& spikes) {
    std::vector<std::int64_t>& at = file_.course.spikes_at_tokens;
    for (const JsonNode& node : spikes.items) {
      const std::int64_t token = whole(node);
      if (token <= (at.empty() ? 0 : at.back()))
        return reader.error("spikes_at_tokens", "is not a list of ascending numbers of tokens");
      at.push_back(token);
    }
  }

  void read_ramp(ObjectReader& reader, const JsonNode& ramp) {
    std::vector<BatchRamp>& steps = file_.course.ramp;
    for (std::size_t i = 0; i < ramp.items.size(); ++i) {
      ObjectReader step(ramp.items[i], reader.file(), fmt::format("{}[{}]", reader.dotted("batch_ramp"), i), *errors_);
      BatchRamp next;
      if (step.require("from_tokens", next.from_tokens, 0) && !steps.empty() &&
          next.from_tokens <= steps.back().from_tokens)
        step.error("from_tokens", "must be larger than the previous one");
      step.require("global_batch", next.global_batch, 1);
      step.finish();
      steps.push_back(next);
    }
  }

  /// An integer, written as 72e9 or 72000000000. -1: not an integer.
  static std::int64_t whole(const JsonNode& node) {
    constexpr double kExact = 9007199254740992.0;  // 2^53
    if (node.kind == JsonNode::Kind::integer) return node.integer;
    const bool exact = node.kind == JsonNode::Kind::number && std::abs(node.number) <= kExact;
    return exact && std::trunc(node.number) == node.number ? static_cast<std::int64_t>(node.number) : -1;
  }

  static const JsonNode* list(ObjectReader& reader, const std::string& key) {
    const JsonNode* node = reader.get_node(key);
    if (node == nullptr || node->kind == JsonNode::Kind::array) return node;
    reader.error(key, "is not a list");
    return nullptr;
  }

  /// "24 h", or an object with mean, law and shape.
  void read_law(ObjectReader& reader, const std::string& key, Law& law) {
    const JsonNode* node = reader.get_node(key);
    if (node == nullptr) return;
    if (node->kind != JsonNode::Kind::object) {
      law.kind = LawKind::exponential;
      long_time(reader, key, law.mean_s);
      return;
    }
    std::optional<ObjectReader> inner = reader.get_object(key);
    inner->get("law", law.kind, named_values<LawKind>());
    positive(*inner, "shape", law.shape);
    long_time(*inner, "mean", law.mean_s);
    inner->finish();
  }

  bool long_time(ObjectReader& reader, const std::string& key, double& value_s) {
    std::string text;
    if (!reader.get(key, text)) return false;
    const Result<double> parsed = parse_long_time_s(text);
    if (parsed)
      value_s = *parsed;
    else
      reader.error(key, parsed.error().diagnostics.front().message);
    return parsed.has_value();
  }

  static bool positive(ObjectReader& reader, const std::string& key, double& value) {
    double read = 0;
    if (!reader.get(key, read)) return false;
    if (read > 0)
      value = read;
    else
      reader.error(key, "is not positive");
    return read > 0;
  }

  static void fraction(ObjectReader& reader, const std::string& key, double& value, double minimum) {
    double read = 0;
    if (!reader.get(key, read)) return;
    if (read >= minimum && read <= 1)
      value = read;
    else
      reader.error(key, fmt::format("is out of range (allowed: {} to 1)", minimum));
  }

  FailureFile file_;
  std::string ignored_;
  std::vector<Diagnostic>* errors_;
};

}  // namespace

Result<double> parse_long_time_s(const std::string& text) {
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number))
    return fail("is not a time with a unit (for example \"6334.6 h\")");
  if (number < 0) return fail("is negative");
  const Result<Duration> unit = parse_duration("1" + std::string(rest, text.data() + text.size()));
  if (!unit) return tl::unexpected(unit.error());
  return number * seconds(*unit);
}

Result<FailureFile> read_failure_file(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  Result<JsonDocument> document = read_json(path);
  if (!document) return tl::unexpected(document.error());
  std::vector<Diagnostic> errors;
  apply_overrides(document->root, overrides, errors);
  FailureFileReader reader(*document, errors);
  if (!errors.empty()) return tl::unexpected(in_file_order(std::move(errors)));
  return std::move(reader.file());
}

}  // namespace tracecast
