#include "sim/io/step_record.hpp"

#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/io/json_document.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "tracecast timeline 1";

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
      break;
    }
    case OpType::collective:
      work.name = to_string(graph.collectives[payload].call.collective);
      work.kind = to_string(graph.collectives[payload].traffic);
      work.provenance = to_string(graph.collectives[payload].cost.provenance);
      work.transfer = true;
      break;
    case OpType::send:
    case OpType::receive:
      work.name = op.type == OpType::send ? "send" : "receive";
      work.kind = to_string(Traffic::pipeline);
      work.provenance = to_string(graph.messages[payload].cost.provenance);
      work.transfer = true;
      break;
    case OpType::host_sync:
      break;
  }
  return work;
}

/// Numbers works in the order of their first span.
class Works {
 public:
  explicit Works(StepRecord& record) : record_(record) {}
  std::int32_t index(StepWork work) {
    const auto key = std::tuple(work.name, work.kind, work.pass, work.part, work.provenance);
    const auto [found, added] = known_.try_emplace(key, static_cast<std::int32_t>(record_.works.size()));
    if (added) record_.works.push_back(std::move(work));
    return found->second;
  }

 private:
  StepRecord& record_;
  std::map<std::tuple<std::string, std::string, std::string, std::string, std::string>, std::int32_t> known_;
};

Json json_of(const RankTime& time) {
  Json exposed = Json::object();
  for (std::size_t k = 0; k < time.exposed.size(); ++k)
    exposed[to_string(static_cast<Traffic>(k))] = time.exposed[k].picoseconds;
  return {{"compute", time.compute.picoseconds},
          {"exposed", exposed},
          {"bubble", time.bubble.picoseconds},
          {"host", time.host.picoseconds},
          {"optimizer", time.optimizer.picoseconds}};
}

Json json_of(const StepWork& work) {
  Json out{{"name", work.name}, {"kind", work.kind}};
  if (!work.pass.empty()) out["pass"] = work.pass;
  out["phase"] = work.phase;
  out["part"] = work.part;
  out["provenance"] = work.provenance;
  out["transfer"] = work.transfer;
  return out;
}

/// Takes the values of a parsed file and collects all errors.
class Reader {
 public:
  Reader(const JsonDocument& document, std::vector<Diagnostic>& errors)
      : root_(document.root, document.file, "", errors), errors_(errors) {}

  StepRecord read() {
    std::string format;
    root_.ignore("$schema");
    if (root_.require("format", format) && format != kFormat)
      root_.error("format", fmt::format("is not '{}'", kFormat));
    root_.require("scenario", record_.scenario);
    root_.require("origin", record_.origin, named_values<StepOrigin>());
    root_.require("step_time_ps", record_.step_time.picoseconds, std::int64_t{0});
    if (auto repeats = root_.get_object("repeats")) read_repeats(*repeats);
    root_.require("streams", record_.streams);
    each("works", [&](ObjectReader& item) { read_work(item); });
    each("ranks", [&](ObjectReader& item) { read_rank(item); });
    read_spans();
    root_.finish();
    return std::move(record_);
  }

 private:
  template <class Function>
  void each(const std::string& key, Function function) {
    const JsonNode* node = root_.get_node(key);
    if (node == nullptr) return root_.error(key, "is missing");
    if (node->kind != JsonNode::Kind::array) return root_.error(key, "is not a list");
    for (std::size_t i = 0; i < node->items.size(); ++i) {
      ObjectReader item(node->items[i], root_.file(), fmt::format("{}[{}]", key, i), errors_);
      function(item);
      item.finish();
    }
  }

  void read_repeats(ObjectReader& object) {
    StepRepeats repeats;
    object.require("count", repeats.count, 1);
    object.require("lower_quartile_s", repeats.lower_quartile_s);
    object.require("median_s", repeats.median_s);
    object.require("spread", repeats.spread);
    object.finish();
    record_.repeats = repeats;
  }

  void read_work(ObjectReader& item) {
    StepWork work;
    item.require("name", work.name);
    item.require("kind", work.kind);
    item.get("pass", work.pass);
    item.require("phase", work.phase);
    item.require("part", work.part);
    item.require("provenance", work.provenance);
    item.require("transfer", work.transfer);
    record_.works.push_back(std::move(work));
  }

  void read_rank(ObjectReader& item) {
    StepRank rank;
    item.require("rank", rank.number, 0);
    item.require("multiplicity", rank.multiplicity, 1);
    item.require("pp_rank", rank.pp_rank, 0);
    if (auto time = item.get_object("time_ps"))
      read_time(*time, rank.time);
    else
      item.error("time_ps", "is missing");
    record_.ranks.push_back(rank);
  }

  static void read_time(ObjectReader& object, RankTime& time) {
    object.require("compute", time.compute.picoseconds, std::int64_t{0});
    object.require("bubble", time.bubble.picoseconds, std::int64_t{0});
    object.require("host", time.host.picoseconds, std::int64_t{0});
    object.require("optimizer", time.optimizer.picoseconds, std::int64_t{0});
    if (auto exposed = object.get_object("exposed")) {
      for (std::size_t k = 0; k < time.exposed.size(); ++k)
        exposed->get(to_string(static_cast<Traffic>(k)), time.exposed[k].picoseconds, std::int64_t{0});
      exposed->finish();
    }
    object.finish();
  }

  /// Each span is a list of seven integers, one per line: millions of them are read faster than objects.
  void read_spans() {
    const JsonNode* node = root_.get_node("spans");
    if (node == nullptr || node->kind != JsonNode::Kind::array) return root_.error("spans", "is not a list");
    for (const JsonNode& item : node->items) {
      StepSpan span;
      if (!read_span(item, span)) {
        errors_.push_back(
            {root_.file(), item.line, "spans", item.text(),
             "is not [rank, work, micro-batch, stream, arrival, start, end] with indices of this file and "
             "arrival <= start <= end in picoseconds"});
        return;
      }
      record_.spans.push_back(span);
    }
  }

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

  ObjectReader root_;
  std::vector<Diagnostic>& errors_;
  StepRecord record_;
};

}  // namespace

StepRecord record_of(const StepGraph& graph, const Timeline& timeline, std::string scenario, StepOrigin origin) {
  StepRecord record;
  record.scenario = std::move(scenario);
  record.origin = origin;
  record.step_time = timeline.step_time;
  for (const StreamInfo& stream : graph.streams) record.streams.push_back(stream.name);
  for (std::size_t r = 0; r < graph.ranks.size(); ++r)
    record.ranks.push_back(
        {graph.ranks[r].representative, graph.ranks[r].multiplicity, graph.ranks[r].pp_rank, timeline.ranks[r]});
  Works works(record);
  for (const Span& span : timeline.spans) {
    const Template& part = graph.templates[static_cast<std::size_t>(span.template_index)];
    const Op& op = part.ops[static_cast<std::size_t>(span.op)];
    if (op.payload < 0 || op.type == OpType::host_sync) continue;
    record.spans.push_back({span.rank, works.index(work_of(graph, part, op)), span.microbatch, op.stream, span.arrival,
                            span.start, span.end});
  }
  return record;
}

std::string to_json(const StepRecord& record) {
  Json out{{"format", kFormat},
           {"scenario", record.scenario},
           {"origin", to_string(record.origin)},
           {"step_time_ps", record.step_time.picoseconds}};
  if (record.repeats)
    out["repeats"] = {{"count", record.repeats->count},
                      {"lower_quartile_s", record.repeats->lower_quartile_s},
                      {"median_s", record.repeats->median_s},
                      {"spread", record.repeats->spread}};
  out["streams"] = record.streams;
  Json& works = out["works"] = Json::array();
  for (const StepWork& work : record.works) works.push_back(json_of(work));
  Json& ranks = out["ranks"] = Json::array();
  for (const StepRank& rank : record.ranks)
    ranks.push_back({{"rank", rank.number},
                     {"multiplicity", rank.multiplicity},
                     {"pp_rank", rank.pp_rank},
                     {"time_ps", json_of(rank.time)}});
  std::string text = out.dump(1, ' ', false, Json::error_handler_t::replace);
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
  StepRecord record = Reader(*document, errors).read();
  if (!errors.empty()) return tl::unexpected(in_file_order(std::move(errors)));
  return record;
}

}  // namespace tracecast
