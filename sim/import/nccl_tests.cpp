#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/measurement_sums.hpp"
#include "sim/import/recognise.hpp"
#include "sim/io/json_document.hpp"
#include "sim/network/network_model.hpp"

namespace tracecast {
namespace {

constexpr double kMaxSeconds = 1e6;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 50;

constexpr std::pair<std::string_view, Collective> kPrograms[] = {{"all_reduce_perf", Collective::all_reduce},
                                                                 {"all_gather_perf", Collective::all_gather},
                                                                 {"reduce_scatter_perf", Collective::reduce_scatter},
                                                                 {"alltoall_perf", Collective::all_to_all},
                                                                 {"broadcast_perf", Collective::broadcast},
                                                                 {"sendrecv_perf", Collective::send_recv},
                                                                 {"AllReduce", Collective::all_reduce},
                                                                 {"AllGather", Collective::all_gather},
                                                                 {"ReduceScatter", Collective::reduce_scatter},
                                                                 {"AlltoAll", Collective::all_to_all},
                                                                 {"Broadcast", Collective::broadcast},
                                                                 {"SendRecv", Collective::send_recv}};

std::optional<Collective> named(std::string_view text) {
  for (const auto& [name, collective] : kPrograms)
    if (text.find(name) != std::string_view::npos) return collective;
  return std::nullopt;
}

/// mpirun's "[1,0]<stdout>:", which may stand in the middle of a line too.
std::string without_tags(std::string_view line) {
  std::string out;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t open = std::min(line.find('[', at), line.size());
    out += line.substr(at, open - at);
    if (open == line.size()) break;
    const std::size_t close = line.find(">:", open);
    const std::string_view tag = close == std::string_view::npos ? "" : line.substr(open, close - open);
    const bool is_tag = tag.size() < 32 && (tag.ends_with("]<stdout") || tag.ends_with("]<stderr"));
    if (!is_tag) out += '[';
    at = is_tag ? close + 2 : open + 1;
  }
  return out;
}

/// A row of the table. The last four or five columns of each half are time, algbw, busbw and the check.
struct NcclTestsRow {
  std::int64_t bytes = 0;
  bool reduces = false;
  bool rooted = false;
  bool in_place = false;  ///< has times for it
  double seconds = 0;
  double factor = 0;  ///< busbw / algbw; 0: too small to tell
  double busbw = 0;
};

class NcclTestsReader {
 public:
  explicit NcclTestsReader(std::string file) : file_(std::move(file)) {}

  Result<CollectiveMeasurements> read(std::string_view text) {
    for (const std::string_view line : split_lines(text)) {
      ++line_;
      take(without_tags(line));
    }
    close();
    if (error_) return tl::unexpected(*error_);
    if (sums_.empty())
      return fail({file_, 0, "", "", "has no whole row of a table of nccl-tests (size, count, type, redop, times)"});
    result_.format = "nccl-tests";
    result_.calls = sums_.calls();
    if (cut_ > 0) result_.notes.push_back(fmt::format("{} rows that another line had cut in two were left out", cut_));
    if (guessed_)
      result_.notes.push_back(
          fmt::format("the collective is not named; bandwidths and columns are those of {}", to_string(*guessed_)));
    return std::move(result_);
  }

 private:
  void take(const std::string& line) {
    if (line.starts_with("# nThread")) close();
    if (const auto collective = named(line); collective && line.find("NCCL INFO") == std::string::npos)
      collective_ = collective;
    const std::vector<std::string_view> words = split_words(line);
    if (line.starts_with('#')) return header(line, words);
    row(words);
  }

  /// "#  Rank  0 Group  0 Pid 25 on HOST device  0 [0x53] NVIDIA H100 80GB HBM3". The host is counted, never kept.
  void header(const std::string& line, const std::vector<std::string_view>& words) {
    if (words.size() < 2 || words[1] != "Rank") {
      for (std::size_t i = 0; i + 1 < words.size(); ++i)
        if (words[i] == "redop") has_root_ = words[i + 1] == "root";
      return;
    }
    if (rows_.empty() == false) return;
    ++ranks_;
    const std::size_t on = line.find(" on ");
    const std::size_t device = line.find(" device ", on);
    if (on != std::string::npos && device != std::string::npos) hosts_.insert(line.substr(on, device - on));
    const std::size_t bus = line.find("] ");
    if (result_.gpu.empty() && bus != std::string::npos) result_.gpu = shortened(line.substr(bus + 2));
  }

  /// size count type redop [root] (time algbw busbw check) twice
  void row(const std::vector<std::string_view>& words) {
    const std::size_t first = has_root_ ? 5 : 4;
    if (words.size() < 3) return;
    const auto bytes = parse_number<std::int64_t>(words[0]);
    const auto count = parse_number<std::int64_t>(words[1]);
    if (!bytes || !count || *bytes < 0 || *bytes > kMaxBytes || parse_number<double>(words[2])) return;
    if (words.size() < first + 4) {
      ++cut_;
      return;
    }
    NcclTestsRow row;
    row.bytes = *bytes;
    row.reduces = words[3] != "none";
    row.rooted = has_root_ && parse_number<int>(words[4]).value_or(-1) >= 0;
    const auto out_of_place = parse_number<double>(words[first]);
    const bool both = words.size() >= first + 8;
    const auto in_place = both ? parse_number<double>(words[first + 4]) : std::nullopt;
    row.in_place = in_place.has_value();
    const auto time = out_of_place ? out_of_place : in_place;
    const std::size_t at = out_of_place ? first : first + 4;
    if (!time) {
      ++cut_;
      return;
    }
    row.seconds = *time * 1e-6;
    const double algbw = parse_number<double>(words[at + 1]).value_or(0);
    row.busbw = parse_number<double>(words[at + 2]).value_or(0);
    row.factor = algbw > 0 ? row.busbw / algbw : 0;
    if (row.bytes > 0 && row.seconds > 0 && row.seconds < kMaxSeconds) rows_.push_back(row);
  }

  /// The end of one table.
  void close() {
    if (!rows_.empty() && !error_) {
      const std::optional<Collective> collective = collective_ ? collective_ : concluded();
      if (ranks_ == 0)
        error_ = fail({file_, line_, "", "", "has a table without the list of its ranks (# Using devices)"}).value();
      else if (!collective)
        error_ = fail({file_, line_, "", "",
                       "has a table whose collective is not named and cannot be told from its bandwidths"})
                     .value();
      else
        for (const NcclTestsRow& row : rows_)
          sums_.add(*collective, ranks_, std::max(1, static_cast<int>(hosts_.size())), row.bytes, row.seconds);
    }
    if (!rows_.empty()) {
      collective_.reset();
      ranks_ = 0;
      hosts_.clear();
    }
    rows_.clear();
  }

  /// From the fastest row, whose two bandwidths have the most digits.
  std::optional<Collective> concluded() {
    if (ranks_ < 2) return std::nullopt;
    const auto best = std::max_element(rows_.begin(), rows_.end(),
                                       [](const NcclTestsRow& a, const NcclTestsRow& b) { return a.busbw < b.busbw; });
    const double share = (ranks_ - 1.0) / ranks_;
    const auto is = [&](double factor) { return std::abs(best->factor - factor) < 0.02; };
    if (best->reduces && is(2 * share) && !(ranks_ == 2 && best->rooted))
      guessed_ = Collective::all_reduce;
    else if (best->reduces && is(share))
      guessed_ = Collective::reduce_scatter;
    else if (is(share))
      guessed_ = best->in_place ? Collective::all_gather : Collective::all_to_all;
    else if (is(1) && best->rooted)
      guessed_ = Collective::broadcast;
    else if (is(1))
      guessed_ = Collective::send_recv;
    return guessed_;
  }

  std::string file_;
  int line_ = 0;
  CollectiveMeasurements result_;
  MeasurementSums sums_;
  std::vector<NcclTestsRow> rows_;
  int ranks_ = 0;
  std::set<std::string> hosts_;
  std::optional<Collective> collective_;
  std::optional<Collective> guessed_;
  std::optional<Error> error_;
  bool has_root_ = false;
  std::int64_t cut_ = 0;
};

double number(const JsonNode* node) {
  const bool there = node != nullptr && (node->kind == JsonNode::Kind::integer || node->kind == JsonNode::Kind::number);
  return there ? node->number : 0;
}

std::string_view string(const JsonNode* node) {
  return node != nullptr && node->kind == JsonNode::Kind::string ? std::string_view(node->string) : std::string_view{};
}

/// -J, version 3. The environment that it records is not looked at.
Result<CollectiveMeasurements> read_json_table(std::string_view text, const std::string& file) {
  const Result<JsonDocument> document = parse_json(std::string(text), file);
  if (!document) return tl::unexpected(document.error());
  const JsonNode* devices = document->root.find("devices");
  const JsonNode* results = document->root.find("results");
  if (devices == nullptr || results == nullptr || devices->items.empty())
    return fail({file, 0, "", "", "has no \"devices\" and \"results\" of nccl-tests"});
  CollectiveMeasurements out;
  out.format = "nccl-tests (JSON)";
  std::set<std::string_view> hosts;
  for (const JsonNode& device : devices->items) hosts.insert(string(device.find("hostname")));
  out.gpu = shortened(string(devices->items[0].find("device_info")));
  MeasurementSums sums;
  for (const JsonNode& row : results->items) {
    const auto collective = named(string(row.find("experiment_name")));
    if (!collective)
      return fail({file, row.line, "results.experiment_name", shortened(string(row.find("experiment_name"))),
                   "unknown collective of nccl-tests"});
    const JsonNode* place = row.find("out_of_place");
    double time = place == nullptr ? 0 : number(place->find("time"));
    if (time <= 0 && place != nullptr) time = number(place->find("cpu_time"));
    const auto bytes = number(row.find("size"));
    if (time > 0 && time < kMaxSeconds && bytes >= 1 && bytes < static_cast<double>(kMaxBytes))
      sums.add(*collective, static_cast<int>(devices->items.size()), static_cast<int>(hosts.size()),
               static_cast<std::int64_t>(bytes), time * 1e-6);
  }
  if (sums.empty()) return fail({file, results->line, "results", "", "has no size with a time"});
  out.calls = sums.calls();
  return out;
}

}  // namespace

Result<CollectiveMeasurements> read_nccl_tests(std::string_view text, const std::string& file) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') return read_json_table(text, file);
  return NcclTestsReader(file).read(text);
}

std::string to_csv(const CollectiveMeasurements& measurements) {
  std::string text = "collective,ranks,nodes,bytes,time_us,busbw_gb_s,spread,samples\n";
  for (const MeasuredCall& call : measurements.calls) {
    const MeasuredCollective& m = call.measured;
    text +=
        fmt::format("{},{},{},{},{:.3f},{:.3f},{:.4f},{}\n", to_string(m.collective), m.ranks, call.nodes, m.size.count,
                    m.seconds * 1e6, bus_bandwidth(m.collective, m.ranks, m.size, from_seconds(m.seconds)) * 1e-9,
                    m.spread, m.samples);
  }
  return text;
}

ProfileWithCollectives with_collectives(Profile base, const CollectiveMeasurements& measurements) {
  ProfileWithCollectives result;
  for (const MeasuredCall& call : measurements.calls) {
    if (call.nodes > 1) {
      ++result.across_hosts;
      continue;
    }
    std::erase_if(base.measured_collectives, [&call](const MeasuredCollective& known) {
      return known.collective == call.measured.collective && known.ranks == call.measured.ranks &&
             known.size == call.measured.size;
    });
    base.measured_collectives.push_back(call.measured);
    ++result.taken;
  }
  result.profile = std::move(base);
  return result;
}

namespace {

bool is_nccl_tests(std::string_view content, std::string_view) {
  if (is_json_object(content)) return has_key(content, "devices") && has_key(content, "results");
  return head_contains(content, "# nThread") ||
         (head_contains(content, "redop") && head_contains(content, "algbw") && head_contains(content, "busbw"));
}

}  // namespace

const Importer kNcclTests{"nccl-tests", "output of nccl-tests (all_reduce_perf, …): table or JSON", "collectives.md",
                          is_nccl_tests, read_nccl_tests};

}  // namespace tracecast
