#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/recognise.hpp"
#include "sim/io/json_document.hpp"

namespace tracecast {
namespace {

constexpr std::pair<std::string_view, Collective> kLogCollectives[] = {
    {"AllReduce", Collective::all_reduce},         {"AllGather", Collective::all_gather},
    {"ReduceScatter", Collective::reduce_scatter}, {"AllToAll", Collective::all_to_all},
    {"Broadcast", Collective::broadcast},          {"Reduce", Collective::broadcast}};
/// In the order of NCCL's numbers.
constexpr std::pair<std::string_view, Algorithm> kAlgorithms[] = {{"TREE", Algorithm::tree},
                                                                  {"RING", Algorithm::ring},
                                                                  {"COLLNET_DIRECT", Algorithm::collnet_direct},
                                                                  {"COLLNET_CHAIN", Algorithm::collnet_chain},
                                                                  {"NVLS", Algorithm::nvls},
                                                                  {"NVLS_TREE", Algorithm::nvls_tree},
                                                                  {"PAT", Algorithm::pat}};
constexpr std::pair<std::string_view, Protocol> kProtocols[] = {
    {"LL", Protocol::ll}, {"LL128", Protocol::ll128}, {"SIMPLE", Protocol::simple}};

/// By name, in any case, or by number.
template <class T, std::size_t n>
std::optional<T> named(const std::pair<std::string_view, T> (&table)[n], std::string_view word) {
  if (word.size() == 1 && word[0] >= '0' && word[0] < '0' + static_cast<char>(n)) return table[word[0] - '0'].second;
  const std::string lower = lower_case(word);
  for (const auto& [name, value] : table)
    if (lower == lower_case(name)) return value;
  return std::nullopt;
}

class NcclLogReader {
 public:
  explicit NcclLogReader(std::string file) : file_(std::move(file)) {}

  Result<NcclLog> read(std::string_view text) {
    for (const std::string_view line : split_lines(text)) {
      ++line_;
      if (const auto ok = read_line(line); !ok) return tl::unexpected(ok.error());
    }
    for (auto& [key, choice] : choices_) log_.choices.push_back(choice);
    if (log_.calls == 0 && log_.choices.empty() && log_.table.empty())
      return fail(
          {file_, 0, "", "", "has no line of NCCL about a collective (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL,TUNING)"});
    return std::move(log_);
  }

 private:
  tl::unexpected<Error> fail_at(std::string_view value, const std::string& message) const {
    return fail({file_, line_, "", "", fmt::format("'{}' {}", shortened(value), message)});
  }

  Result<void> read_line(std::string_view line) {
    constexpr std::string_view kMark = "NCCL INFO ";
    const std::size_t mark = line.find(kMark);
    if (mark == std::string_view::npos) return {};
    const std::string_view sender = line.substr(0, mark);
    const std::string_view said = line.substr(mark + kMark.size());
    if (said.find(" Bytes -> Algo ") != std::string_view::npos) return read_choice(sender, said);
    if (said.find(": opCount ") != std::string_view::npos) return read_call(sender, said);
    if (said.find('|') != std::string_view::npos) return read_row(said);
    return {};
  }

  Result<void> read_call(std::string_view sender, std::string_view said) {
    const auto collective = named(kLogCollectives, said.substr(0, said.find(':')));
    if (!collective) {
      ++log_.left_out;
      return {};
    }
    ++log_.calls;
    last_[std::string(sender)] = *collective;
    constexpr std::string_view kRanks = "[nranks=";
    const std::size_t at = said.find(kRanks);
    if (at == std::string_view::npos) return {};
    const std::string_view number = said.substr(at + kRanks.size(), said.find(']', at) - at - kRanks.size());
    const auto ranks = parse_number<int>(number);
    if (!ranks || *ranks < 1) return fail_at(number, "must be a number of ranks");
    log_.ranks = std::max(log_.ranks, *ranks);
    return {};
  }

  /// [AllReduce:] N Bytes -> Algo A proto P [time T] [channel{Lo..Hi}={a..b}]
  Result<void> read_choice(std::string_view sender, std::string_view said) {
    std::vector<std::string_view> words = split_words(said);
    std::optional<Collective> collective;
    if (words[0].ends_with(':')) {
      collective = named(kLogCollectives, words[0].substr(0, words[0].size() - 1));
      words.erase(words.begin());
    } else if (const auto last = last_.find(std::string(sender)); last != last_.end()) {
      collective = last->second;
    }
    if (words.size() < 7 || words[1] != "Bytes" || words[5] != "proto" || !collective) {
      ++log_.left_out;  // cut in two by another rank, or not of a collective that is known
      return {};
    }
    NcclChoice choice;
    choice.collective = *collective;
    const auto bytes = parse_number<std::int64_t>(words[0]);
    const auto algorithm = named(kAlgorithms, words[4]);
    const auto protocol = named(kProtocols, words[6]);
    if (!bytes || *bytes < 0) return fail_at(words[0], "must be a size in bytes");
    if (!algorithm)
      return fail_at(
          words[4],
          "unknown algorithm of NCCL (allowed: 0 to 6, TREE RING COLLNET_DIRECT COLLNET_CHAIN NVLS NVLS_TREE PAT)");
    if (!protocol) return fail_at(words[6], "unknown protocol of NCCL (allowed: 0 to 2, LL LL128 SIMPLE)");
    choice.bytes = *bytes;
    choice.algorithm = *algorithm;
    choice.protocol = *protocol;
    for (std::size_t i = 7; i < words.size(); ++i) {
      if (words[i] == "time" && i + 1 < words.size()) {
        const auto time = parse_number<double>(words[i + 1]);
        if (!time) return fail_at(words[i + 1], "must be a time in microseconds");
        choice.time_us = *time;
      }
      if (words[i].starts_with("channel{Lo..Hi}=")) choice.channels = channels_of(words[i].substr(16));
    }
    NcclChoice& kept = choices_[{choice.collective, choice.bytes, choice.algorithm, choice.protocol}];
    choice.seen = kept.seen + 1;
    kept = choice;
    return {};
  }

  /// {0..3}: 4
  static int channels_of(std::string_view range) {
    const std::size_t dots = range.find("..");
    if (dots == std::string_view::npos || range.size() < dots + 4) return 0;
    const auto low = parse_number<int>(range.substr(1, dots - 1));
    const auto high = parse_number<int>(range.substr(dots + 2, range.size() - dots - 3));
    return low && high && *low >= 0 && *high >= *low && *high < 1024 ? *high - *low + 1 : 0;
  }

  /// Heads of the table, then a row for each collective: cells of latency / bandwidth.
  Result<void> read_row(std::string_view said) {
    std::vector<std::string_view> cells = split_words(said, "|\r");
    for (std::string_view& cell : cells) {
      const auto words = split_words(cell);
      cell = words.size() == 1 || (words.size() == 2 && words[0].ends_with('/')) ? cell : std::string_view{};
    }
    if (cells.size() < 2 || split_words(cells[0]).empty()) return {};
    const std::string_view name = split_words(cells[0]).front();
    if (name == "Algorithm") algorithms_.assign(cells.begin() + 1, cells.end());
    if (name == "Protocol") protocols_.assign(cells.begin() + 1, cells.end());
    const auto collective = named(kLogCollectives, name);
    if (!collective || algorithms_.empty() || name.size() == 1) return {};
    for (std::size_t i = 1; i < cells.size() && i - 1 < protocols_.size(); ++i)
      if (const auto ok = read_cell(*collective, i - 1, cells[i]); !ok) return ok;
    return {};
  }

  Result<void> read_cell(Collective collective, std::size_t column, std::string_view cell) {
    const std::size_t slash = cell.find('/');
    const std::size_t per_algorithm = std::max<std::size_t>(1, protocols_.size() / algorithms_.size());
    if (slash == std::string_view::npos || column / per_algorithm >= algorithms_.size()) return {};
    const auto algorithm = split_words(algorithms_[column / per_algorithm]);
    const auto protocol = split_words(protocols_[column]);
    const auto a = algorithm.empty() ? std::nullopt : named(kAlgorithms, algorithm[0]);
    const auto p = protocol.empty() ? std::nullopt : named(kProtocols, protocol[0]);
    if (!a || !p) return {};
    const auto latency = parse_number<double>(trim(cell.substr(0, slash)));
    const auto bandwidth = parse_number<double>(trim(cell.substr(slash + 1)));
    if (!latency || !bandwidth) return fail_at(trim(cell), "must be a latency and a bandwidth, as 22.4/ 2.4");
    log_.table.push_back({collective, *a, *p, *latency, *bandwidth});
    return {};
  }

  std::string file_;
  int line_ = 0;
  NcclLog log_;
  std::map<std::string, Collective> last_;  ///< by host, process and thread
  std::map<std::tuple<Collective, std::int64_t, Algorithm, Protocol>, NcclChoice> choices_;
  std::vector<std::string_view> algorithms_;
  std::vector<std::string_view> protocols_;
};

}  // namespace

Result<NcclLog> read_nccl_log(std::string_view text, const std::string& file) { return NcclLogReader(file).read(text); }

namespace {

bool is_nccl_log(std::string_view content, std::string_view) {
  return head_contains(content, "NCCL INFO") &&
         (head_contains(content, ": opCount ") || head_contains(content, " -> Algo ") ||
          head_contains(content, "Broadcast |"));
}

}  // namespace

const Importer kNcclLog{"nccl-log", "log of NCCL (NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=COLL,TUNING)", "nccl_log.md",
                        is_nccl_log, read_nccl_log};

}  // namespace tracecast
