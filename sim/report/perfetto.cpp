#include "sim/report/perfetto.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "sim/base/markup.hpp"
#include "sim/graph/operator_text.hpp"
#include "sim/report/template_runs.hpp"

namespace tracecast {
namespace {

constexpr int kScheduleThread = 1;
constexpr int kFirstStreamThread = 2;
constexpr std::size_t kPiece = std::size_t{1} << 20;  ///< bytes per call of the sink

/// Microseconds with whole nanoseconds, rounded down. Perfetto multiplies a number by 1000 in double precision and drops the
/// fraction, so where that would lose a nanosecond, and slices overlap, a hundredth of one is added.
struct Microseconds {
  std::int64_t nanoseconds;
  explicit Microseconds(Duration t) : nanoseconds(t.picoseconds / 1000) {}
  explicit Microseconds(std::int64_t ns) : nanoseconds(ns) {}
};

}  // namespace
}  // namespace tracecast

template <>
struct fmt::formatter<tracecast::Microseconds> : fmt::formatter<std::int64_t> {
  auto format(tracecast::Microseconds t, fmt::format_context& context) const {
    const bool exact = static_cast<std::int64_t>(static_cast<double>(t.nanoseconds) / 1000 * 1000) == t.nanoseconds;
    return fmt::format_to(context.out(), "{}.{:03}{}", t.nanoseconds / 1000, t.nanoseconds % 1000, exact ? "" : "01");
  }
};

namespace tracecast {
namespace {

/// Shared by all spans of one operation: name, category, what it computes or moves, and whether it is drawn.
struct Label {
  std::string text;     ///< "name":…,"cat":…
  std::string details;  ///< ,"shape":…,"flop":…,"bytes":…
  bool drawn = true;
  bool transfer = false;
};

std::string bytes(Bytes size) { return fmt::format(",\"bytes\":{}", size.count); }

std::string details(const CostedOperator& used) {
  return fmt::format(",\"shape\":{},\"flop\":{:.0f}{},\"time_from\":\"{}\"", json_text(shape_text(used.op)),
                     flops(used.op).count, bytes(compulsory_traffic(used.op)), to_string(used.cost.provenance));
}

std::string details(const CostedCollective& used) {
  return fmt::format("{},\"algorithm\":\"{}\",\"protocol\":\"{}\",\"channels\":{},\"time_from\":\"{}\"",
                     bytes(used.moved()), to_string(used.cost.algorithm), to_string(used.cost.protocol),
                     used.cost.channels, to_string(used.cost.provenance));
}

Label label(const StepGraph& graph, const Op& op) {
  const auto named = [](std::string_view name, std::string_view category, std::string details, bool transfer) {
    return Label{fmt::format("\"name\":{},\"cat\":{}", json_text(name), json_text(category)), std::move(details), true,
                 transfer};
  };
  const auto message = [&](std::string_view name) {
    return named(name, "pipeline", bytes(graph.messages[static_cast<std::size_t>(op.payload)].size), true);
  };
  switch (op.type) {
    case OpType::compute: {
      if (op.payload < 0) return {.text = {}, .details = {}, .drawn = false};  // only waits
      const CostedOperator& used = graph.operators[static_cast<std::size_t>(op.payload)];
      return named(operator_name(used), to_string(used.op.kind), details(used), false);
    }
    case OpType::collective: {
      const CostedCollective& used = graph.collectives[static_cast<std::size_t>(op.payload)];
      return named(to_string(used.call.collective), to_string(used.traffic), details(used), true);
    }
    case OpType::send:
      return message("send");
    case OpType::receive:
      return message("receive");
    case OpType::host_sync:
      break;
  }
  return {.text = {}, .details = {}, .drawn = false};
}

std::vector<std::vector<Label>> labels(const StepGraph& graph) {
  std::vector<std::vector<Label>> all;
  for (const Template& part : graph.templates) {
    std::vector<Label> row;
    for (const Op& op : part.ops) row.push_back(label(graph, op));
    all.push_back(std::move(row));
  }
  return all;
}

/// The receiving end of a message, by channel: sends look up their receives here.
struct Arrival {
  std::int32_t rank;
  std::int32_t channel;
  std::int32_t microbatch;
  Duration start;
  StreamId stream;
  auto key() const { return std::tuple(rank, channel, microbatch); }
};

class Writer {
 public:
  Writer(const StepGraph& graph, const Timeline& timeline, const TraceSink& sink)
      : graph_(graph), timeline_(timeline), sink_(sink), labels_(labels(graph)) {}

  bool write(std::span<const TracedRank> ranks, std::string_view scenario) {
    emit("{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"scenario\":{},\"step_time_us\":\"{}\"}},\n\"traceEvents\":[\n",
         json_text(scenario), Microseconds(timeline_.step_time));
    for (const TracedRank& rank : ranks) {
      const std::span<const Span> spans = spans_of(timeline_, rank.index);
      name_threads(rank, spans);
      for (const Span& span : spans) slice(rank.number, span);
      const std::vector<TemplateRun> runs = template_runs(graph_, spans);
      for (const TemplateRun& run : runs) schedule_slice(rank.number, run);
      memory(rank, runs);
    }
    arrows(ranks);
    // The last event closes the list, because JSON does not allow a comma after it.
    emit("{{\"ph\":\"I\",\"s\":\"g\",\"name\":\"end of step\",\"pid\":{},\"tid\":{},\"ts\":{}}}\n]}}\n",
         ranks.empty() ? 0 : ranks.front().number, kScheduleThread, Microseconds(timeline_.step_time));
    flush();
    return good_;
  }

 private:
  template <class... Args>
  void emit(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<Args>(args)...);
    if (buffer_.size() >= kPiece) flush();
  }

  void flush() {
    good_ = good_ && sink_({buffer_.data(), buffer_.size()});
    buffer_.clear();
  }

  const Op& op(const Span& span) const {
    return graph_.templates[static_cast<std::size_t>(span.template_index)].ops[static_cast<std::size_t>(span.op)];
  }

  void name_thread(std::int32_t pid, int tid, std::string_view name) {
    emit("{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}}},\n", pid, tid,
         json_text(name));
    emit("{{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":{},\"tid\":{},\"args\":{{\"sort_index\":{}}}}},\n", pid,
         tid, tid);
  }

  void name_threads(const TracedRank& rank, std::span<const Span> spans) {
    emit("{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{},\"args\":{{\"name\":{}}}}},\n", rank.number,
         json_text(rank.name));
    emit("{{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":{},\"args\":{{\"sort_index\":{}}}}},\n", rank.number,
         rank.number);
    name_thread(rank.number, kScheduleThread, "schedule");
    std::vector<bool> used(graph_.streams.size(), false);
    for (const Span& span : spans) used[op(span).stream] = true;
    for (std::size_t stream = 0; stream < used.size(); ++stream) {
      if (used[stream])
        name_thread(rank.number, kFirstStreamThread + static_cast<int>(stream), graph_.streams[stream].name);
    }
  }

  void slice(std::int32_t pid, const Span& span) {
    const Label& what = labels_[static_cast<std::size_t>(span.template_index)][static_cast<std::size_t>(span.op)];
    if (!what.drawn) return;
    const int tid = kFirstStreamThread + op(span).stream;
    if (what.transfer && span.start > span.arrival) {
      emit("{{\"ph\":\"X\",\"name\":\"wait\",\"cat\":\"wait\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{}}},\n", pid,
           tid, Microseconds(span.arrival), length(span.arrival, span.start));
    }
    emit("{{\"ph\":\"X\",{},\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"args\":{{\"mb\":{}{}{}{}}}}},\n", what.text,
         pid, tid, Microseconds(span.start), length(span.start, span.end), span.microbatch, layer(span), what.details,
         group(span));
  }

  std::string layer(const Span& span) const {
    const Rank& rank = graph_.ranks[static_cast<std::size_t>(span.rank)];
    const Template& in = graph_.templates[static_cast<std::size_t>(span.template_index)];
    const auto program = static_cast<std::size_t>(rank.program);
    const auto chunk = static_cast<std::size_t>(in.chunk);
    const auto& first = graph_.first_layers;
    if (op(span).layer < 0 || program >= first.size() || chunk >= first[program].size()) return "";
    return fmt::format(",\"layer\":{}", first[program][chunk] + op(span).layer);
  }

  /// The communicator of a collective, which differs from rank to rank.
  std::string group(const Span& span) const {
    if (op(span).type != OpType::collective) return "";
    const CostedCollective& used = graph_.collectives[static_cast<std::size_t>(op(span).payload)];
    const Rank& rank = graph_.ranks[static_cast<std::size_t>(span.rank)];
    const std::int32_t index = rank.communicators[static_cast<std::size_t>(used.slot)];
    if (index < 0) return "";
    const Communicator& with = graph_.communicators[static_cast<std::size_t>(index)];
    return fmt::format(",\"group\":{},\"ranks\":{},\"nodes\":{}", json_text(with.name), with.placement.ranks,
                       with.placement.nodes);
  }

  /// The difference of the rounded ends, so that a slice ends exactly where the next one begins.
  static Microseconds length(Duration start, Duration end) {
    return Microseconds(Microseconds(end).nanoseconds - Microseconds(start).nanoseconds);
  }

  const Template& run_template(const TemplateRun& run) const {
    return graph_.templates[static_cast<std::size_t>(run.template_index)];
  }

  void schedule_slice(std::int32_t pid, const TemplateRun& run) {
    const Template& what = run_template(run);
    const std::string name =
        what.phase == Phase::optimizer ? what.name : fmt::format("{} mb {}", what.name, run.microbatch);
    emit("{{\"ph\":\"X\",\"name\":{},\"cat\":\"schedule\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{}}},\n",
         json_text(name), pid, kScheduleThread, Microseconds(run.start), length(run.start, run.end));
  }

  void memory(const TracedRank& rank, std::span<const TemplateRun> runs) {
    for (const MemoryPoint& point : memory_over_time(graph_, runs, rank.resident))
      emit("{{\"ph\":\"C\",\"name\":\"memory\",\"pid\":{},\"ts\":{},\"args\":{{\"GiB\":{:.4f}}}}},\n", rank.number,
           Microseconds(point.at), gib(point.in_use));
  }

  /// Arrows from the start of every send to the start of its receive, between the first processes of the classes.
  void arrows(std::span<const TracedRank> ranks) {
    std::vector<std::int32_t> process(graph_.ranks.size(), -1);
    for (const TracedRank& rank : ranks) {
      std::int32_t& first = process[static_cast<std::size_t>(rank.index)];
      if (first < 0) first = rank.number;
    }
    const std::vector<Arrival> receives = all_receives();
    std::int64_t id = 0;
    for (const Span& span : timeline_.spans) {
      const std::int32_t from = process[static_cast<std::size_t>(span.rank)];
      if (op(span).type != OpType::send || from < 0) continue;
      const std::optional<Arrival> receive = receive_of(span, receives);
      if (!receive) continue;
      const std::int32_t to = process[static_cast<std::size_t>(receive->rank)];
      if (to < 0) continue;
      ++id;
      emit("{{\"ph\":\"s\",\"id\":{},\"name\":\"message\",\"cat\":\"pipeline\",\"pid\":{},\"tid\":{},\"ts\":{}}},\n",
           id, from, kFirstStreamThread + op(span).stream, Microseconds(span.start));
      emit(
          "{{\"ph\":\"f\",\"bp\":\"e\",\"id\":{},\"name\":\"message\",\"cat\":\"pipeline\",\"pid\":{},\"tid\":{},"
          "\"ts\":{}}},\n",
          id, to, kFirstStreamThread + receive->stream, Microseconds(receive->start));
    }
  }

  std::int32_t channel(const Span& span) const {
    return graph_.messages[static_cast<std::size_t>(op(span).payload)].channel;
  }

  std::vector<Arrival> all_receives() const {
    std::vector<Arrival> receives;
    for (const Span& span : timeline_.spans) {
      if (op(span).type != OpType::receive) continue;
      receives.push_back({span.rank, channel(span), span.microbatch, span.start, op(span).stream});
    }
    std::ranges::sort(receives, {}, &Arrival::key);
    return receives;
  }

  std::optional<Arrival> receive_of(const Span& send, std::span<const Arrival> receives) const {
    const ChannelEnd end =
        graph_.ranks[static_cast<std::size_t>(send.rank)].channels[static_cast<std::size_t>(channel(send))];
    const auto found =
        std::ranges::lower_bound(receives, std::tuple(end.rank, end.channel, send.microbatch), {}, &Arrival::key);
    if (found == receives.end() || found->key() != std::tuple(end.rank, end.channel, send.microbatch)) return {};
    return *found;
  }

  const StepGraph& graph_;
  const Timeline& timeline_;
  const TraceSink& sink_;
  const std::vector<std::vector<Label>> labels_;
  fmt::memory_buffer buffer_;
  bool good_ = true;
};

/// Index into StepGraph::ranks of the representative of global rank `number`.
std::int32_t class_of(const ForecastRun& run, int number) {
  const std::vector<Rank>& ranks = run.graph.ranks;
  if (static_cast<int>(ranks.size()) == run.plan.world_size) {
    const auto same = std::ranges::find(ranks, number, &Rank::representative);
    return static_cast<std::int32_t>(same - ranks.begin());
  }
  const int pp_rank = run.plan.grid.coordinates(number)[Axis::pp];
  const auto same = std::ranges::find(ranks, pp_rank, &Rank::pp_rank);
  return static_cast<std::int32_t>(same - ranks.begin());
}

/// Memory of a pipeline rank before the step: everything except activations and buffers that live as long as they do.
Bytes resident_memory(const ForecastRun& run, std::int32_t pp_rank) {
  const MemoryByKind& memory = run.forecast.memory[static_cast<std::size_t>(pp_rank)];
  return memory.weights + memory.gradients + memory.optimizer + memory.fixed;
}

std::string class_name(const ForecastRun& run, const Rank& rank) {
  if (rank.multiplicity == 1) return fmt::format("rank {} (pp {})", rank.representative, rank.pp_rank);
  Coordinates somewhere;
  somewhere[Axis::pp] = rank.pp_rank;
  const std::vector<int> members = run.plan.grid.group(run.plan.grid.rank(somewhere), {Axis::tp, Axis::cp, Axis::dp});
  return fmt::format("ranks {} (pp {})", ranges(members), rank.pp_rank);
}

}  // namespace

bool write_trace(const StepGraph& graph, const Timeline& timeline, std::span<const TracedRank> ranks,
                 std::string_view scenario, const TraceSink& sink) {
  return Writer(graph, timeline, sink).write(ranks, scenario);
}

Result<std::vector<TracedRank>> traced_ranks(const ForecastRun& run, std::span<const int> chosen) {
  std::vector<TracedRank> traced;
  for (std::size_t index = 0; index < run.graph.ranks.size(); ++index) {
    const Rank& rank = run.graph.ranks[index];
    traced.push_back({rank.representative, static_cast<std::int32_t>(index), class_name(run, rank),
                      resident_memory(run, rank.pp_rank)});
  }
  for (const int number : chosen) {
    if (number < 0 || number >= run.plan.world_size)
      return fail_key("--trace-ranks", std::to_string(number),
                      fmt::format("is not a rank of this job (allowed: 0 to {})", run.plan.world_size - 1));
    if (std::ranges::find(traced, number, &TracedRank::number) != traced.end()) continue;
    const std::int32_t index = class_of(run, number);
    const std::int32_t pp_rank = run.graph.ranks[static_cast<std::size_t>(index)].pp_rank;
    traced.push_back({number, index, fmt::format("rank {} (pp {})", number, pp_rank), resident_memory(run, pp_rank)});
  }
  return traced;
}

Result<void> write_trace_file(AtomicFile& file, const ForecastRun& run, std::span<const int> chosen) {
  const Result<std::vector<TracedRank>> traced = traced_ranks(run, chosen);
  if (!traced) return tl::unexpected(traced.error());
  write_trace(run.graph, run.timeline, *traced, run.forecast.scenario,
              [&](std::string_view piece) { return file.write(piece); });
  return file.finish();
}

std::string ranges(std::span<const int> ascending) {
  std::string text;
  std::size_t written = 0;
  for (std::size_t i = 0; i < ascending.size(); ++written) {
    std::size_t last = i;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
    if (written == 3) return text + fmt::format(", … {}", ascending.back());
    text += (text.empty() ? "" : ", ") + std::to_string(ascending[i]);
    if (last > i) text += "-" + std::to_string(ascending[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace tracecast
