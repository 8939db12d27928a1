#include "sim/io/failure_file.hpp"

#include <charconv>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "sim/base/units.hpp"
#include "sim/io/fields.hpp"
#include "sim/io/overrides.hpp"

namespace tracecast {
namespace {

const Allowed kAtLeast1{.minimum = 1};
const Allowed kNotNegative{.minimum = 0};
const Allowed kPositive{.minimum = 0, .above = true, .error = "is not positive"};

/// An entry of `kinds`, whose rate is given in one of three ways.
struct FailureKeys : FailureKind {
  std::optional<double> count;
  std::optional<double> rate;
};

/// A key whose value is checked, but not kept.
constexpr auto kUnread = [](const auto&) { return std::string(); };

}  // namespace

/// "6334.6 h"; with `words` = "best" also that, which leaves the time alone.
template <class Number>
struct LongTime {
  Number& seconds;
};
template <class Number>
LongTime(Number&) -> LongTime<Number>;  // clang 16 deduces no aggregates itself

static bool read_value(ObjectReader& reader, const char* key, const Allowed& allowed, LongTime<double> time) {
  std::string text;
  if (!reader.get(key, text)) return false;
  if (!allowed.words.empty() && text == allowed.words) return true;
  const Result<double> parsed = parse_long_time_s(text);
  if (parsed && *parsed == 0 && !allowed.words.empty()) {
    reader.error(key, fmt::format("is out of range (allowed: above 0, or {})", allowed.words));
    return false;
  }
  if (parsed)
    time.seconds = *parsed;
  else
    reader.error(key, parsed.error().diagnostics.front().message);
  return parsed.has_value();
}
static JsonNode node_of(LongTime<const double> time) {
  return node_of(Duration{std::llround(std::min(time.seconds, 9e6) * 1e12)});
}
static std::string type_of(const LongTime<double>*, const Allowed& allowed) {
  return fmt::format(
      R"("type": "string", "pattern": "^({}[0-9.]+(e[-+]?[0-9]+)? ?(ps|ns|us|ms|s|min|h|d))$", "examples": ["24 h"])",
      allowed.words.empty() ? "" : allowed.words + "|");
}

static bool read_value(ObjectReader& reader, const char* key, const Allowed& allowed, JobTime& time) {
  double read = 0;
  if (!read_value(reader, key, allowed, LongTime<double>{read})) return false;
  time = job_time(read);
  if (time == kNever) reader.error(key, "is out of range (allowed: up to 292 years)");
  return time != kNever;
}
static JsonNode node_of(JobTime time) { return node_of(Duration{time.nanoseconds * 1000}); }
static std::string type_of(const JobTime*, const Allowed& allowed) {
  return type_of(static_cast<const LongTime<double>*>(nullptr), allowed);
}

/// "24 h", or an object with the keys of a law.
static bool read_value(ObjectReader& reader, const char* key, const Allowed& allowed, Law& law) {
  if (reader.get_node(key)->kind != JsonNode::Kind::object) {
    law.kind = LawKind::exponential;
    return read_value(reader, key, allowed, LongTime<double>{law.mean_s});
  }
  ObjectReader object = *reader.get_object(key);
  read_fields(object, law);
  object.finish();
  return true;
}
static JsonNode node_of(const Law& law) { return node_of(LongTime<const double>{law.mean_s}); }
static std::string type_of(const Law*, const Allowed& allowed) {
  return fmt::format(R"("oneOf": [{{ {} }}, {{ {} }}])",
                     type_of(static_cast<const LongTime<double>*>(nullptr), allowed), object_type(texts_of<Law>()));
}

#include "sim/io/keys/failures.def"

std::vector<KeyTable> failure_keys() {
  return {{"failures", texts_of<FailureFile>()},
          {"failures.observed", texts_of<Observed>()},
          {"failures.kinds", texts_of<FailureKeys>()},
          {"failures.recovery", texts_of<RecoveryPolicy>()},
          {"failures.checkpoint", texts_of<CheckpointSettings>()},
          {"failures.run", texts_of<TrainingCourse>()}};
}

namespace {

class FailureFileReader {
 public:
  FailureFileReader(const JsonDocument& document, std::vector<Diagnostic>& errors) : name_(document.file) {
    ObjectReader root(document.root, document.file, "", errors);
    file_.model.name = std::filesystem::path(document.file).stem().string();
    read_fields(root, file_);
    const JsonNode* recovery = document.root.find("recovery");
    file_.spares_given = recovery != nullptr && recovery->find("spares") != nullptr;
    file_.reconfigure_given = recovery != nullptr && recovery->find("reconfigure") != nullptr;
    file_.rollback_given = recovery != nullptr && recovery->find("elastic_rollback") != nullptr;
    for (ObjectReader& kind : root.get_objects("kinds")) read_kind(kind);
    if (std::optional<ObjectReader> course = root.get_object("run")) read_course(*course);
    root.finish();
  }
  FailureFile& file() { return file_; }

 private:
  void read_kind(ObjectReader& reader) {
    FailureKeys kind;
    read_fields(reader, kind);
    if (reader.get_node("scope") == nullptr && kind.effect != Effect::crash && kind.effect != Effect::hang)
      kind.scope = RateUnit::job;
    set_rate(reader, kind);
    if (kind.growth > 0 && kind.per != RateUnit::job) reader.error("growth", "is only for kinds per job");
    if (kind.growth > 0 && file_.observed.duration_s <= 0) reader.error("growth", "needs the file's 'observed'");
    kind.growth_from_gpus = file_.observed.machine.gpus;
    reader.finish();
    file_.model.kinds.push_back(std::move(kind));
  }

  void set_rate(ObjectReader& reader, FailureKeys& kind) {
    double mtbf = 0;
    const bool counted = kind.count.has_value(), rated = kind.rate.has_value();
    const bool timed = reader.get_node("mtbf") != nullptr && read_value(reader, "mtbf", {}, LongTime<double>{mtbf});
    if (counted + timed + rated != 1)
      return reader.error(counted ? "count"
                          : timed ? "mtbf"
                                  : "name",
                          "needs exactly one of count, mtbf and rate_per_1000_days");
    if (counted && file_.observed.duration_s <= 0) return reader.error("count", "needs the file's 'observed'");
    if (timed) kind.law.mean_s = mtbf;
    if (rated) kind.law.mean_s = 1000 * kSecondsPerDay / *kind.rate;
    if (counted)
      kind.law.mean_s =
          exact_parts(kind, file_.model, file_.observed.machine) * file_.observed.duration_s / *kind.count;
  }

  void read_course(ObjectReader& reader) {
    read_fields(reader, file_.course);
    if (const JsonNode* ramp = reader.get_node("batch_ramp")) {
      const bool overridden = ramp->line == kOverrideLine;
      file_.ramp_file = overridden ? "--set" : name_;
      file_.ramp_line = overridden ? 0 : ramp->line;
    }
    if (const JsonNode* spikes = reader.get_node("spikes_at_tokens")) read_spikes(reader, *spikes);
    for (ObjectReader& step : reader.get_objects("batch_ramp")) {
      BatchRamp next;
      read_fields(step, next);
      std::vector<BatchRamp>& ramp = file_.course.ramp;
      if (step.get_node("from_tokens") != nullptr && !ramp.empty() && next.from_tokens <= ramp.back().from_tokens)
        step.error("from_tokens", "must be larger than the previous one");
      step.finish();
      ramp.push_back(next);
    }
    reader.finish();
  }

  void read_spikes(ObjectReader& reader, const JsonNode& spikes) {
    if (spikes.kind != JsonNode::Kind::array)
      return reader.error("spikes_at_tokens", "is not a list (allowed: ascending numbers of tokens)");
    std::vector<std::int64_t>& at = file_.course.spikes_at_tokens;
    for (const JsonNode& node : spikes.items) {
      const std::int64_t token = whole(node);
      if (token <= (at.empty() ? 0 : at.back()))
        return reader.error("spikes_at_tokens", "is not a list of ascending numbers of tokens");
      at.push_back(token);
    }
  }

  /// An integer, written as 72e9 or 72000000000. -1: not an integer.
  static std::int64_t whole(const JsonNode& node) {
    constexpr double kExact = 9007199254740992.0;  // 2^53
    if (node.kind == JsonNode::Kind::integer) return node.integer;
    const bool exact = node.kind == JsonNode::Kind::number && std::abs(node.number) <= kExact;
    return exact && std::trunc(node.number) == node.number ? static_cast<std::int64_t>(node.number) : -1;
  }

  std::string name_;
  FailureFile file_;
};

}  // namespace

Result<double> parse_long_time_s(const std::string& text) {
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number))
    return fail("is not a time with a unit (for example \"6334.6 h\")");
  if (number < 0) return fail("is negative");
  // The blank keeps what follows the number, as in "3.0.5 h", from becoming a part of the 1.
  const Result<Duration> unit = parse_duration("1 " + std::string(rest, text.data() + text.size()));
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
