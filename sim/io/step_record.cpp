#include "sim/io/step_record.hpp"

#include <map>
#include <utility>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/graph/operator_text.hpp"
#include "sim/io/fields.hpp"

namespace tracecast {
namespace {

constexpr const char* kFormat = "tracecast timeline 1";
constexpr const char* kSpans =
    R"("type": "array", "items": { "type": "array", "items": { "type": "integer", "minimum": 0 }, "minItems": 7 })";
const Allowed kTime{.minimum = 0, .required = true};  ///< picoseconds

}  // namespace

/// Exposed communication by traffic.
template <>
FieldTable<decltype(RankTime::exposed)> rows_of() {
  FieldTable<decltype(RankTime::exposed)> rows;
  for (std::size_t k = 0; k < kTrafficKinds; ++k)
    rows.push_back({to_string(static_cast<Traffic>(k)),
                    [k](auto& exposed) -> auto& { return exposed[k].picoseconds; },
                    {.minimum = 0, .always = true},
                    ""});
  return rows;
}

#include "sim/io/keys/steps.def"

std::vector<KeyTable> step_keys() {
  return {{"timeline", texts_of<StepRecord>()},
          {"timeline.repeats", texts_of<StepRepeats>()},
          {"timeline.works", texts_of<StepWork>()},
          {"timeline.ranks", texts_of<StepRank>()},
          {"timeline.time_ps", texts_of<RankTime>()}};
}

namespace {

const char* phase_name(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::weight_gradient:
      return "weight_gradient";
    case Phase::optimizer:
      return "optimizer";
  }
  return "";
}

StepWork work_of(const StepGraph& graph, const Template& part, const Op& op) {
  StepWork work;
  work.chunk = part.chunk;
  work.layer = op.layer;
  work.phase = phase_name(part.phase);
  work.part = part.name;
  const auto payload = static_cast<std::size_t>(op.payload);
  switch (op.type) {
    case OpType::compute: {
      const CostedOperator& costed = graph.operators[payload];
      work.name = costed.op.name;
      work.kind = to_string(costed.op.kind);
      work.pass = to_string(costed.op.pass);
      work.provenance = to_string(costed.cost.provenance);
      work.details = shape_text(costed.op);
      work.flop = flops(costed.op).count;
      work.bytes = compulsory_traffic(costed.op).count;
      break;
    }
    case OpType::collective: {
      const CostedCollective& used = graph.collectives[payload];
      work.name = to_string(used.call.collective);
      work.kind = to_string(used.traffic);
      work.provenance = to_string(used.cost.provenance);
      work.details = fmt::format("{}, {}, {} channel{}", to_string(used.cost.algorithm), to_string(used.cost.protocol),
                                 used.cost.channels, plural(used.cost.channels));
      work.bytes = used.call.size.count;
      work.transfer = true;
      break;
    }
    case OpType::send:
    case OpType::receive:
      work.name = op.type == OpType::send ? "send" : "receive";
      work.kind = to_string(Traffic::pipeline);
      work.provenance = to_string(graph.messages[payload].cost.provenance);
      work.bytes = graph.messages[payload].size.count;
      work.transfer = true;
      break;
    case OpType::host_sync:
      break;
  }
  return work;
}

/// Numbers works in the order of their first span; equal works of several templates have one number.
class Works {
 public:
  Works(const StepGraph& graph, StepRecord& record) : graph_(graph), record_(record) {}

  std::int32_t index(const Span& span) {
    const Template& part = graph_.templates[static_cast<std::size_t>(span.template_index)];
    const auto [seen, first] = of_operation_.try_emplace(std::pair(span.template_index, span.op), -1);
    if (first) seen->second = number(work_of(graph_, part, part.ops[static_cast<std::size_t>(span.op)]));
    return seen->second;
  }

 private:
  std::int32_t number(StepWork work) {
    std::vector<std::int32_t>& same = of_name_[{work.name, work.part}];
    for (const std::int32_t index : same)
      if (record_.works[static_cast<std::size_t>(index)] == work) return index;
    same.push_back(static_cast<std::int32_t>(record_.works.size()));
    record_.works.push_back(std::move(work));
    return same.back();
  }

  const StepGraph& graph_;
  StepRecord& record_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> of_operation_;  ///< [template, operation]
  std::map<std::pair<std::string, std::string>, std::vector<std::int32_t>> of_name_;
};

std::vector<int> first_layers(const StepGraph& graph, const Rank& rank) {
  const auto program = static_cast<std::size_t>(rank.program);
  return program < graph.first_layers.size() ? graph.first_layers[program] : std::vector<int>{};
}

/// Takes the spans of a parsed file, whose lists have been read.
class SpanReader {
 public:
  SpanReader(const JsonDocument& document, StepRecord& record, std::vector<Diagnostic>& errors)
      : document_(document), record_(record), errors_(errors) {}

  /// Each span is a list of seven integers, one per line: millions of them are read faster than objects.
  void read(ObjectReader& root) {
    const JsonNode* node = root.get_node("spans");
    if (node == nullptr) return;
    if (node->kind != JsonNode::Kind::array) return root.error("spans", "is not a list");
    for (const JsonNode& item : node->items) {
      StepSpan span;
      if (!read_span(item, span)) {
        errors_.push_back(
            {document_.file, item.line, "spans", item.text(),
             "is not [rank, work, micro-batch, stream, arrival, start, end] with indices of this file and "
             "arrival <= start <= end in picoseconds"});
        return;
      }
      record_.spans.push_back(span);
    }
  }

 private:
  bool read_span(const JsonNode& item, StepSpan& span) const {
    if (item.kind != JsonNode::Kind::array || item.items.size() != 7) return false;
    std::array<std::int64_t, 7> value{};
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (item.items[i].kind != JsonNode::Kind::integer || item.items[i].integer < 0) return false;
      value[i] = item.items[i].integer;
    }
    const auto below = [](std::int64_t index, std::size_t size) { return index < static_cast<std::int64_t>(size); };
    if (!below(value[0], record_.ranks.size()) || !below(value[1], record_.works.size()) || value[2] > INT32_MAX ||
        !below(value[3], record_.streams.size()) || value[4] > value[5] || value[5] > value[6])
      return false;
    span = {static_cast<std::int32_t>(value[0]),
            static_cast<std::int32_t>(value[1]),
            static_cast<std::int32_t>(value[2]),
            static_cast<std::int32_t>(value[3]),
            {value[4]},
            {value[5]},
            {value[6]}};
    return true;
  }

  const JsonDocument& document_;
  StepRecord& record_;
  std::vector<Diagnostic>& errors_;
};

}  // namespace

StepRecord record_of(const StepGraph& graph, const Timeline& timeline, std::string scenario, StepOrigin origin) {
  StepRecord record;
  record.scenario = std::move(scenario);
  record.origin = origin;
  record.step_time = timeline.step_time;
  for (const StreamInfo& stream : graph.streams) record.streams.push_back(stream.name);
  for (std::size_t r = 0; r < graph.ranks.size(); ++r)
    record.ranks.push_back({graph.ranks[r].representative, graph.ranks[r].multiplicity, graph.ranks[r].pp_rank,
                            first_layers(graph, graph.ranks[r]), timeline.ranks[r]});
  Works works(graph, record);
  for (const Span& span : timeline.spans) {
    const Template& part = graph.templates[static_cast<std::size_t>(span.template_index)];
    const Op& op = part.ops[static_cast<std::size_t>(span.op)];
    if (op.payload < 0 || op.type == OpType::host_sync) continue;
    record.spans.push_back(
        {span.rank, works.index(span), span.microbatch, op.stream, span.arrival, span.start, span.end});
  }
  return record;
}

std::string to_json(const StepRecord& record) {
  std::string text = indented_json(write_fields(record), 1);
  text.resize(text.size() - 2);  // the closing brace: spans follow, a line each
  text += ",\n \"spans\": [";
  for (std::size_t i = 0; i < record.spans.size(); ++i) {
    const StepSpan& s = record.spans[i];
    text += fmt::format("{}\n[{},{},{},{},{},{},{}]", i == 0 ? "" : ",", s.rank, s.work, s.microbatch, s.stream,
                        s.arrival.picoseconds, s.start.picoseconds, s.end.picoseconds);
  }
  return text + "\n ]\n}\n";
}

Result<StepRecord> read_step_record(const std::filesystem::path& path) {
  std::error_code ignored;
  const Result<JsonDocument> document =
      read_json(std::filesystem::is_directory(path, ignored) ? path / "timeline.json" : path);
  if (!document) return tl::unexpected(document.error());
  std::vector<Diagnostic> errors;
  ObjectReader root(document->root, document->file, "", errors);
  StepRecord record;
  root.ignore("$schema");
  read_fields(root, record);
  if (std::string format; root.get("format", format) && format != kFormat)
    root.error("format", fmt::format("is not '{}'", kFormat));
  SpanReader(*document, record, errors).read(root);
  root.finish();
  if (!errors.empty()) return tl::unexpected(in_file_order(std::move(errors)));
  return record;
}

}  // namespace tracecast
