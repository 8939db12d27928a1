#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/measurement_sums.hpp"
#include "sim/import/nccl_tests_programs.hpp"
#include "sim/import/recognise.hpp"
#include "sim/io/json_document.hpp"

namespace tracecast {
namespace {

/// Bytes of an element as nccl-tests names types; 0: another name.
std::int64_t element_size(std::string_view type) {
  if (type == "int8" || type == "uint8" || type == "fp8_e4m3" || type == "fp8_e5m2" || type == "f8e4m3" ||
      type == "f8e5m2" || type == "char")
    return 1;
  if (type == "half" || type == "bfloat16" || type == "fp16") return 2;
  if (type == "float" || type == "int32" || type == "uint32" || type == "int") return 4;
  if (type == "double" || type == "int64" || type == "uint64") return 8;
  return 0;
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

/// A row of the table.
struct NcclTestsRow {
  int line = 0;
  std::int64_t bytes = 0;
  /// Size over count times type: 1, or the ranks where `count` is one rank's share; 0: not known.
  std::int64_t buffers = 0;
  bool reduces = false;
  bool rooted = false;
  bool no_in_place = false;  ///< the columns in place are empty, or not checked where those out of place are
  double seconds = 0;
  double algbw = 0;
  double busbw = 0;
};

/// Columns of a table, by the header line above it: each version and program has its own.
///
///   to 2.12   size count type [redop] [root] time algbw busbw error, the last four twice
///   to 2.17   size count type redop root time algbw busbw #wrong, likewise
///   later     likewise, with #bitdiff, i_min, i_max, i_p99, i_cv% after #wrong (-P), and a time stamp at the end (-S)
struct NcclTestsColumns {
  std::vector<std::string> names;
  std::size_t redop = 0;  ///< 0: none
  std::size_t root = 0;   ///< 0: none
  std::size_t time = 0;   ///< out of place
  std::size_t again = 0;  ///< in place; 0: none
  bool host_time = false;
};

/// nullopt: no header of a table.
std::optional<NcclTestsColumns> columns_of(const std::vector<std::string_view>& words) {
  NcclTestsColumns columns;
  std::size_t begin = 0;
  while (begin < words.size() && words[begin] != "size") ++begin;
  for (std::size_t i = begin; i < words.size(); ++i) {
    const std::size_t at = i - begin;
    columns.names.emplace_back(words[i]);
    if (words[i] == "redop" && columns.time == 0) columns.redop = at;
    if (words[i] == "root" && columns.time == 0) columns.root = at;
    const bool host = words[i] == "cputime";
    if (words[i] != "time" && !host) continue;
    columns.host_time = columns.host_time || host;
    (columns.time == 0 ? columns.time : columns.again) = at;
  }
  if (columns.time < 3 || columns.names.size() < columns.time + 3) return std::nullopt;
  return columns;
}

NcclTestsColumns columns_without_header(std::size_t words) {
  static const std::vector<std::string_view> kNew{"size",  "count",  "type", "redop", "root",  "time",  "algbw",
                                                  "busbw", "#wrong", "time", "algbw", "busbw", "#wrong"};
  static const std::vector<std::string_view> kOld{"size",  "count", "type", "redop", "time",  "algbw",
                                                  "busbw", "error", "time", "algbw", "busbw", "error"};
  return *columns_of(words >= kNew.size() ? kNew : kOld);
}

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
    if (sums_.empty() && !others_.empty())
      return fail({file_, 0, "", "",
                   fmt::format("has {} alone, and a profile has no such collective (allowed: all_reduce_perf "
                               "all_gather_perf reduce_scatter_perf alltoall_perf broadcast_perf sendrecv_perf)",
                               others_.begin()->first)});
    if (sums_.empty())
      return fail({file_, 0, "", "", "has no whole row of a table of nccl-tests (size, count, type, redop, times)"});
    result_.format = "nccl-tests";
    result_.calls = sums_.calls();
    if (groups_ > 1) result_.notes.push_back(note_of_groups(groups_));
    if (cut_ > 0) result_.notes.push_back(fmt::format("{} rows that another line had cut in two were left out", cut_));
    for (const auto& [program, rows] : others_)
      result_.notes.push_back(
          fmt::format("{} rows of {} were left out: a profile has no such collective", rows, program));
    if (!guessed_.empty())
      result_.notes.push_back(
          fmt::format("the collective is not named; bandwidths and columns are those of {}", guessed_));
    return std::move(result_);
  }

 private:
  void take(const std::string& line) {
    if (line.starts_with("# nThread")) close();
    if (const NcclTestsProgram* program = nccl_tests_program(line);
        program != nullptr && line.find("NCCL INFO") == std::string::npos)
      program_ = program;
    const std::vector<std::string_view> words = split_words(line);
    if (line.starts_with('#')) return header(line, words);
    row(words);
  }

  /// "#  Rank  0 Group  0 Pid 25 on HOST device  0 [0x53] NVIDIA H100 80GB HBM3". The host is counted, never kept.
  void header(const std::string& line, const std::vector<std::string_view>& words) {
    if (words.size() < 2 || words[1] != "Rank") {
      if (const auto columns = columns_of(words)) columns_ = columns;
      return;
    }
    if (!rows_.empty()) return;
    if (groups_of_table_.insert(std::string(group_of(words))).second)
      groups_ = std::max(groups_, static_cast<int>(groups_of_table_.size()));
    if (ranks_ > 0 && group_of(words) != first_group_) return;
    first_group_ = group_of(words);
    ++ranks_;
    const std::size_t on = line.find(" on ");
    const std::size_t device = line.find(" device ", on);
    if (on != std::string::npos && device != std::string::npos) hosts_.insert(line.substr(on, device - on));
    const std::size_t bus = line.find("] ");
    if (result_.gpu.empty() && bus != std::string::npos)
      result_.gpu = shortened(std::string(trim(line.substr(bus + 2))));
  }

  /// NCCL_TESTS_SPLIT_MASK divides the ranks into groups with communicators of their own; rank 0's prints the table.
  static std::string_view group_of(const std::vector<std::string_view>& words) {
    const auto group = std::find(words.begin(), words.end(), "Group");
    return group == words.end() || group + 1 == words.end() ? std::string_view{} : *(group + 1);
  }

  void row(const std::vector<std::string_view>& words) {
    if (words.size() < 3) return;
    const auto bytes = parse_number<std::int64_t>(words[0]);
    const auto count = parse_number<std::int64_t>(words[1]);
    if (!bytes || !count || *bytes < 0 || *bytes > kMaxCollectiveBytes || parse_number<double>(words[2])) return;
    const NcclTestsColumns columns = columns_ ? *columns_ : columns_without_header(words.size());
    if (columns.host_time)
      return fail_row("", "", "has times of the host (-C 1), which are not those of the collective");
    // Programs without a reduction leave its cell empty in old versions, and so the row has one word less.
    const bool no_redop = columns.redop > 0 && words.size() > 3 && parse_number<double>(words[3]) &&
                          (columns.root == 0 || words.size() + 1 <= columns.names.size());
    const std::size_t shift = no_redop ? 1 : 0;
    if (words.size() + shift < std::min(columns.time + 4, columns.names.size())) {
      ++cut_;
      return;
    }
    NcclTestsRow row;
    row.line = line_;
    row.bytes = *bytes;
    const std::int64_t element = element_size(words[2]);
    if (element > 0 && *count > 0 && *count <= kMaxCollectiveBytes / element && *bytes % (element * *count) == 0)
      row.buffers = *bytes / (element * *count);
    row.reduces = columns.redop > 0 && !no_redop && words[columns.redop] != "none";
    row.rooted = columns.root > 0 && parse_number<int>(words[columns.root - shift]).value_or(-1) >= 0;
    if (read_times(row, words, columns, shift) && row.bytes > 0 && row.seconds > 0 &&
        row.seconds < kMaxNcclTestsSeconds)
      rows_.push_back(row);
  }

  /// The time out of place, or in place if there is no other. `shift`: words that the row has less than its header.
  /// False: the row is cut, or its check failed.
  bool read_times(NcclTestsRow& row, const std::vector<std::string_view>& words, const NcclTestsColumns& columns,
                  std::size_t shift) {
    const std::size_t first = columns.time - shift;
    const std::size_t again = (columns.again > 0 ? columns.again : columns.time + 4) - shift;  // a header may be cut
    const bool both = words.size() > again + 2;
    const auto out_of_place = parse_number<double>(words[first]);
    const auto in_place = both ? parse_number<double>(words[again]) : std::nullopt;
    const auto is_checked = [&](std::size_t at) { return at < words.size() && words[at] != "N/A"; };
    row.no_in_place = !in_place || (both && is_checked(first + 3) && !is_checked(again + 3));
    const auto time = out_of_place ? out_of_place : in_place;
    const std::size_t at = out_of_place ? first : again;
    if (!time || words.size() < at + 3) {
      ++cut_;
      return false;
    }
    row.seconds = *time * 1e-6;
    row.algbw = parse_number<double>(words[at + 1]).value_or(0);
    row.busbw = parse_number<double>(words[at + 2]).value_or(0);
    if (at + 3 >= words.size() || parse_number<double>(words[at + 3]).value_or(0) <= kMaxWrong) return true;
    fail_row(columns.time + 3 < columns.names.size() ? columns.names[columns.time + 3] : "#wrong",
             std::string(words[at + 3]), std::string(kWrongResult));
    return false;
  }

  void fail_row(const std::string& key, const std::string& value, const std::string& message) {
    if (!error_) error_ = fail({file_, line_, key, value, message}).value();
  }

  /// The end of one table.
  void close() {
    if (!rows_.empty() && !error_) take_table();
    if (!rows_.empty()) {
      program_ = nullptr;
      ranks_ = 0;
      first_group_.clear();
      groups_of_table_.clear();
      hosts_.clear();
      columns_.reset();
    }
    rows_.clear();
  }

  void take_table() {
    if (ranks_ == 0) return fail_row("", "", "has a table without the list of its ranks (# Using devices)");
    if (program_ == nullptr) program_ = nccl_tests_program(file_);
    if (program_ == nullptr) program_ = concluded();
    if (program_ == nullptr)
      return fail_row("", "", "has a table whose collective is not named and cannot be told from its bandwidths");
    if (!program_->collective) {
      others_[program_->program] += static_cast<std::int64_t>(rows_.size());
      return;
    }
    for (const NcclTestsRow& row : rows_) {
      if (!agrees(row, *program_->collective)) return;
      sums_.add(*program_->collective, ranks_, std::max(1, static_cast<int>(hosts_.size())), row.bytes, row.seconds);
    }
  }

  double share() const { return (ranks_ - 1.0) / ranks_; }

  /// Size, time and bandwidths say the same thing: algbw is size over time (versions to 2.0 leave out a rank's own share of
  /// all-gather and reduce-scatter), busbw is algbw times the factor of the collective. Printed digits are few.
  bool agrees(const NcclTestsRow& row, Collective collective) {
    if (ranks_ < 2 || row.algbw < 0.1) return true;
    const double tolerance = 0.02 + 0.01 / row.algbw + 0.01e-6 / row.seconds;
    const double rate = static_cast<double>(row.bytes) / row.seconds * 1e-9;
    const auto is = [tolerance](double found, double expected) { return std::abs(found / expected - 1) <= tolerance; };
    const bool moves_shares = collective == Collective::all_gather || collective == Collective::reduce_scatter;
    const double factor = collective == Collective::all_reduce                   ? 2 * share()
                          : moves_shares || collective == Collective::all_to_all ? share()
                                                                                 : 1;
    const bool rates = is(row.algbw, rate) || (moves_shares && is(row.algbw, rate * share()));
    if (rates && is(row.busbw, rate * factor)) return true;
    line_ = row.line;
    fail_row(rates ? "busbw" : "algbw", fmt::format("{:.2f}", rates ? row.busbw : row.algbw),
             fmt::format("contradicts the row's size and time, which are {:.2f} GB/s for {} over {} ranks",
                         rates ? rate * factor : rate, to_string(collective), ranks_));
    return false;
  }

  /// From the fastest row, whose two bandwidths have the most digits: what its bytes on the bus are, relative to its size.
  const NcclTestsProgram* concluded() {
    if (ranks_ < 2) return nullptr;
    const auto best = std::max_element(rows_.begin(), rows_.end(),
                                       [](const NcclTestsRow& a, const NcclTestsRow& b) { return a.busbw < b.busbw; });
    const double factor = best->busbw * 1e9 * best->seconds / static_cast<double>(best->bytes);
    const auto is = [&](double expected) { return best->busbw > 0 && std::abs(factor - expected) < 0.02 * expected; };
    const auto program = [&](std::string_view name) {
      guessed_ = name;
      return nccl_tests_program(name);
    };
    const bool whole_buffers = best->buffers == 1;  // count is that of the whole buffer
    if (best->reduces && best->rooted && is(1)) return program("reduce_perf");
    if (best->reduces && is(2 * share()) && (ranks_ > 2 || whole_buffers || best->buffers == 0))
      return program("all_reduce_perf");
    if (best->reduces && is(share())) return program("reduce_scatter_perf");
    if (best->rooted && is(share())) return program(best->no_in_place ? "gather_perf" : "scatter_perf");
    if (is(share()) && !whole_buffers) return program(best->no_in_place ? "alltoall_perf" : "all_gather_perf");
    if (best->rooted && is(1)) return program("broadcast_perf");
    if (!best->rooted && is(1) && (whole_buffers || best->buffers == 0)) return program("sendrecv_perf");
    return nullptr;
  }

  std::string file_;
  int line_ = 0;
  CollectiveMeasurements result_;
  MeasurementSums sums_;
  std::vector<NcclTestsRow> rows_;
  int ranks_ = 0;
  std::string first_group_;  ///< rank 0's
  std::set<std::string> groups_of_table_;
  int groups_ = 0;  ///< of the table with most
  std::set<std::string> hosts_;
  const NcclTestsProgram* program_ = nullptr;
  std::string_view guessed_;
  std::optional<Error> error_;
  std::optional<NcclTestsColumns> columns_;
  std::map<std::string_view, std::int64_t> others_;  ///< [program] rows of collectives that a profile does not have
  std::int64_t cut_ = 0;
};

}  // namespace

Result<CollectiveMeasurements> read_nccl_tests(std::string_view text, const std::string& file) {
  if (is_json_object(text)) return read_nccl_tests_json(text, file);
  return NcclTestsReader(file).read(text);
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
