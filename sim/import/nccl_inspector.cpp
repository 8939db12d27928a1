#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/words.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/measurement_sums.hpp"
#include "sim/import/recognise.hpp"
#include "sim/io/json_document.hpp"
#include "sim/network/network_model.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::json;

using InspectorCollective = std::pair<std::string_view, Collective>;
constexpr InspectorCollective kInspectorCollectives[] = {{"AllReduce", Collective::all_reduce},
                                                         {"AllGather", Collective::all_gather},
                                                         {"ReduceScatter", Collective::reduce_scatter},
                                                         {"AlltoAll", Collective::all_to_all},
                                                         {"AllToAll", Collective::all_to_all},
                                                         {"Broadcast", Collective::broadcast},
                                                         {"Send", Collective::send_recv},
                                                         {"Recv", Collective::send_recv}};

std::int64_t integer(const Json& object, const std::string& key, std::int64_t most) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return -1;
  const double value = found->get<double>();
  return value >= 0 && value <= static_cast<double>(most) ? static_cast<std::int64_t>(value) : -1;
}

class InspectorReader {
 public:
  explicit InspectorReader(std::string file) : file_(std::move(file)) {}

  Result<CollectiveMeasurements> read(std::string_view text) {
    // Records of several processes may follow each other.
    for (const std::string_view line : split_lines(text)) {
      ++line_;
      const bool last = line.end() == text.end();
      if (!trim(line).empty() && !take(line, last)) return fail_at(line);
    }
    if (error_) return fail(*error_);
    std::int64_t waiting = 0;
    for (const auto& [key, call] : calls_) {
      sums_.add(call.collective, call.ranks, call.nodes, call.bytes, call.seconds);
      if (call.recorded < call.ranks) ++waiting;
    }
    const std::int64_t alone = add_messages();
    if (sums_.empty())
      return fail({file_, 0, "", "", "has no record of a collective with its size and time (coll_perf, p2p_perf)"});
    CollectiveMeasurements result;
    result.format = "NCCL inspector";
    result.calls = sums_.calls();
    if (others_ > 0) result.notes.push_back(fmt::format("{} records of other kinds were left out", others_));
    if (of_any_host_ > 0)
      result.notes.push_back(
          fmt::format("{} messages in communicators of several hosts were left out: a record does not say whether both "
                      "ranks are on one host",
                      of_any_host_));
    if (host_timed_ > 0)
      result.notes.push_back(
          fmt::format("{} times were taken on the host: they include launches, or how often it looked", host_timed_));
    if (waiting > 0)
      result.notes.push_back(
          fmt::format("{} collectives lack records of some of their ranks: their times may include waiting for others "
                      "(give the files of all processes)",
                      waiting));
    if (alone > 0)
      result.notes.push_back(
          fmt::format("{} messages lack the record of the other end, or follow one whose ends differ in size: their "
                      "times may include waiting for it (give the files of all processes)",
                      alone));
    if (cut_) result.notes.emplace_back("the last line is cut and was left out");
    return result;
  }

 private:
  tl::unexpected<Error> fail_at(std::string_view line) const {
    if (line.starts_with("id,coll_sn,"))
      return fail(
          {file_, line_, "", "",
           "is the summary of the example exporter, which does not say of which collective; import the .log files"});
    return fail({file_, line_, "", "", fmt::format("'{}' is not a record of NCCL's inspector", shortened(line))});
  }

  /// What a line holds.
  enum class Line { record, another_kind, nothing };

  /// One time of one rank. Numbers are -1 where the line does not say them.
  struct Record {
    const Json* perf = nullptr;  ///< of the line
    bool message = false;        ///< of p2p_perf
    bool sends = false;
    bool timed_on_host = false;
    Collective collective = Collective::all_reduce;
    int members = 0;         ///< two of a message
    std::int64_t ranks = 0;  ///< of the communicator
    std::int64_t nodes = 0;
    std::int64_t bytes = 0;  ///< as the line has them
    std::int64_t size = 0;
    double seconds = 0;
    std::int64_t number = -1;
    std::optional<std::string> communicator = {};
    std::int64_t rank = -1;
    std::int64_t peer = -1;
    int hosts() const { return static_cast<int>(std::max<std::int64_t>(1, nodes)); }
  };

  /// False: the line is no record.
  bool take(std::string_view text, bool last) {
    const Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded() && last && line_ > 1) {
      cut_ = true;
      return true;
    }
    Record record;
    const Line line = read_record(json, record);
    if (line == Line::another_kind) ++others_;
    if (line == Line::record) add(record);
    return line != Line::nothing;
  }

  static Line read_record(const Json& json, Record& record) {
    if (!json.is_object() || !json.contains("header") || !json["header"].is_object()) return Line::nothing;
    const Json& header = json["header"];
    record.message = !json.contains("coll_perf");
    const std::string kind = record.message ? "p2p" : "coll";
    const std::string key = kind + "_perf";
    if (!json.contains(key) || !json[key].is_object()) return Line::another_kind;
    const Json& perf = json[key];
    record.perf = &perf;
    record.ranks = integer(header, "n_ranks", 1 << 24);
    record.nodes = integer(header, "nnodes", 1 << 24);
    record.bytes = integer(perf, kind + "_msg_size_bytes", kMaxCollectiveBytes);
    const auto name = perf.find(kind);
    const auto time = perf.find(kind + "_exec_time_us");
    if (record.ranks < 1 || name == perf.end() || !name->is_string() || record.bytes < 0 || time == perf.end() ||
        !time->is_number())
      return Line::nothing;
    const auto& function = name->get_ref<const std::string&>();
    const auto* const known = std::ranges::find(kInspectorCollectives, function, &InspectorCollective::first);
    const double us = time->get<double>();
    if (known == std::end(kInspectorCollectives) || record.bytes == 0 || !(us > 0) || us > 1e12)
      return Line::another_kind;
    record.collective = known->second;
    record.sends = function == "Send";
    record.seconds = us * 1e-6;
    read_places(header, perf, kind, record);
    const std::int64_t parts = shares(record.collective, record.members);
    if (record.bytes > kMaxCollectiveBytes / parts) return Line::nothing;
    record.size = record.bytes * parts;
    return Line::record;
  }

  static void read_places(const Json& header, const Json& perf, const std::string& kind, Record& record) {
    record.members = record.collective == Collective::send_recv ? 2 : static_cast<int>(record.ranks);
    record.number = integer(perf, kind + "_sn", std::int64_t{1} << 60);
    record.rank = integer(header, "rank", 1 << 24);
    record.peer = integer(perf, "p2p_peer", 1 << 24);
    if (const auto id = header.find("id"); id != header.end() && id->is_string())
      record.communicator = id->get<std::string>();
    const auto source = perf.find(kind + "_timing_source");
    record.timed_on_host = source != perf.end() && (*source == "collective_cpu" || *source == "kernel_cpu");
  }

  void add(const Record& r) {
    if (r.timed_on_host) ++host_timed_;
    if (r.message && r.nodes > 1 && r.nodes != r.ranks) {
      ++of_any_host_;
      return;
    }
    if (!r.message && !agrees(*r.perf, {r.collective, r.members, Bytes{r.size}, r.seconds, 0, 1})) return;
    if (r.collective == Collective::send_recv && r.communicator) {
      Messages& pair = messages_[{*r.communicator, r.sends ? r.rank : r.peer, r.sends ? r.peer : r.rank}];
      (r.sends ? pair.sent : pair.received).push_back({r.number, r.size, r.hosts(), r.seconds});
    } else if (r.number < 0 || !r.communicator) {
      sums_.add(r.collective, r.members, r.hosts(), r.size, r.seconds);
    } else {
      add_call(r);
    }
  }

  void add_call(const Record& r) {
    const Name name{*r.communicator, {r.collective, r.number}};
    const std::int64_t again = times_of_rank_[{name, r.rank}]++;
    const auto [call, added] =
        calls_.try_emplace(std::pair(name, again), Call{r.collective, r.members, r.hosts(), r.size, r.seconds, 0});
    if (call->second.bytes != r.size && !error_)
      error_ = Diagnostic{
          file_, line_, "coll_perf.coll_msg_size_bytes", fmt::format("{}", r.bytes),
          fmt::format("contradicts another rank, whose {} with coll_sn = {} has {} bytes", to_string(r.collective),
                      r.number, call->second.bytes / shares(r.collective, r.members))};
    call->second.seconds = std::min(call->second.seconds, r.seconds);
    ++call->second.recorded;
  }

  /// Both ends of a message last until the later one is there, so the shorter time counts. `p2p_sn` counts a rank's own messages: those
  /// from one rank to another are paired in its order, up to the first whose sizes differ (a file may be cut or begin late). Returns the
  /// number of messages whose other end is not known.
  std::int64_t add_messages() {
    std::int64_t alone = 0;
    for (auto& [pair, both] : messages_) {
      std::ranges::stable_sort(both.sent, {}, &End::number);
      std::ranges::stable_sort(both.received, {}, &End::number);
      auto [sent, received] = std::ranges::mismatch(both.sent, both.received, {}, &End::bytes, &End::bytes);
      for (std::size_t i = 0; i < static_cast<std::size_t>(sent - both.sent.begin()); ++i)
        add(both.sent[i], std::min(both.sent[i].seconds, both.received[i].seconds));
      alone += (both.sent.end() - sent) + (both.received.end() - received);
      for (; sent != both.sent.end(); ++sent) add(*sent, sent->seconds);
      for (; received != both.received.end(); ++received) add(*received, received->seconds);
    }
    return alone;
  }

  /// The inspector's size is NCCL's count times the type: of all-gather and reduce-scatter the share of one rank.
  static std::int64_t shares(Collective collective, int ranks) {
    return collective == Collective::all_gather || collective == Collective::reduce_scatter ? ranks : 1;
  }

  /// The bandwidths of a record are those of its size and time; otherwise the record's error is set.
  bool agrees(const Json& perf, const MeasuredCollective& measured) {
    const double algbw = static_cast<double>(measured.size.count) / measured.seconds * 1e-9;
    const double busbw =
        bus_bandwidth(measured.collective, measured.ranks, measured.size, from_seconds(measured.seconds)) * 1e-9;
    for (const auto& [key, expected] : {std::pair("coll_algobw_gbs", algbw), std::pair("coll_busbw_gbs", busbw)}) {
      const auto found = perf.find(key);
      if (found == perf.end() || !found->is_number()) continue;
      const double given = found->get<double>();
      if (std::abs(given - expected) <= 0.01 * expected + 1e-5) continue;
      if (!error_)
        error_ = Diagnostic{file_, line_, fmt::format("coll_perf.{}", key), fmt::format("{}", given),
                            fmt::format("contradicts size and time of this {} over {} ranks, which are {:.6f} GB/s",
                                        to_string(measured.collective), measured.ranks, expected)};
      return false;
    }
    return true;
  }

  /// A collective as all of its ranks recorded it. The kernel of a rank waits for the others, so the shortest time counts.
  struct Call {
    Collective collective;
    int ranks;
    int nodes;
    std::int64_t bytes;
    double seconds;
    int recorded;  ///< by so many ranks
  };
  /// What one of the ranks of a message recorded of it.
  struct End {
    std::int64_t number;
    std::int64_t bytes;
    int nodes;
    double seconds;
  };
  struct Messages {
    std::vector<End> sent;
    std::vector<End> received;
  };
  void add(const End& end, double seconds) { sums_.add(Collective::send_recv, 2, end.nodes, end.bytes, seconds); }

  using Name = std::pair<std::string, std::pair<Collective, std::int64_t>>;  ///< communicator, function and its number

  std::string file_;
  int line_ = 0;
  MeasurementSums sums_;
  std::map<std::pair<Name, std::int64_t>, std::int64_t> times_of_rank_;  ///< [name, rank] a number may come again
  std::map<std::pair<Name, std::int64_t>, Call> calls_;                  ///< [name, repetition]
  std::map<std::tuple<std::string, std::int64_t, std::int64_t>, Messages> messages_;  ///< [communicator, from, to]
  std::int64_t others_ = 0;
  std::int64_t host_timed_ = 0;
  std::int64_t of_any_host_ = 0;
  std::optional<Diagnostic> error_;
  bool cut_ = false;
};

}  // namespace

Result<CollectiveMeasurements> read_nccl_inspector(std::string_view text, const std::string& file) {
  return InspectorReader(file).read(text);
}

namespace {

bool is_nccl_inspector(std::string_view content, std::string_view) {
  return has_key(content, "header") && (has_key(content, "coll_perf") || has_key(content, "p2p_perf"));
}

}  // namespace

const Importer kNcclInspector{"nccl-inspector", "JSON lines of NCCL's inspector plug-in: one process", "collectives.md",
                              is_nccl_inspector, read_nccl_inspector};

}  // namespace tracecast
