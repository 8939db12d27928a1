#include "tools/accuracy/rows/network_words.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/words.hpp"
#include "tools/accuracy/rows/cell_words.hpp"

namespace tracecast::accuracy {
namespace {

/// Rates of one port in Gb/s by the name of the generation. A name stands before its own prefixes.
struct Generation {
  const char* name;
  int gigabits;
};
constexpr Generation kGenerations[] = {{"hdr100", 100},    {"ndr200", 200},   {"xdr", 800}, {"ndr", 400},
                                       {"hdr", 200},       {"edr", 100},      {"fdr", 56},  {"slingshot-10", 100},
                                       {"slingshot", 200}, {"omni-path", 100}};

/// Gb/s, of XDR and Ethernet in 2026; faster is a whole node.
constexpr double kFastestPort = 800;

/// Larger numbers in one host are misprints.
constexpr int kMaxNics = 64;

/// The number that ends before `end` and blanks. Negative: none.
double number_before(std::string_view text, std::size_t end) {
  while (end > 0 && text[end - 1] == ' ') --end;
  std::size_t begin = end;
  while (begin > 0 && (is_digit(text[begin - 1]) || text[begin - 1] == '.')) --begin;
  return parse_number<double>(text.substr(begin, end - begin)).value_or(-1);
}

/// "8x 200G", "4x100G RoCE": the number before a lone g, from 25 on, behind a count; 0: none.
double rate_in_g(std::string_view small) {
  constexpr double kSlowest = 25;
  for (std::size_t at = small.find('g'); at != std::string_view::npos; at = small.find('g', at + 1)) {
    const bool ends = at + 1 >= small.size() || !is_letter_or_digit(small[at + 1]);
    const double rate = ends ? number_before(small, at) : 0;
    if (rate >= kSlowest) return rate;
  }
  return 0;
}

/// The first rate in a text, Gb/s; 0: none. Its case distinguishes bits from bytes.
double first_rate(std::string_view text) {
  const std::string small = lower_case(text);
  struct Unit {
    const char* name;
    double bits, bytes;
  };
  double rate = 0;
  std::size_t at = std::string_view::npos;
  for (const Unit& unit : {Unit{"gb/s", 1, 8}, Unit{"gbps", 1, 1}, Unit{"gbit/s", 1, 1}, Unit{"tb/s", 1000, 8000},
                           Unit{"tbps", 1000, 1000}, Unit{"tbit/s", 1000, 1000}, Unit{"gbe", 1, 1}}) {
    const std::size_t found = small.find(unit.name);
    if (found >= at || number_before(text, found) <= 0) continue;
    at = found;
    rate = number_before(text, found) * (text[found + 1] == 'B' ? unit.bytes : unit.bits);
  }
  return rate > 0 ? rate : rate_in_g(small);
}

bool is_nic_count(double count) { return count >= 1 && count <= kMaxNics && count == std::trunc(count); }

/// The count before the x at `at`, times that before an x behind it: "8x2x200Gb/s" is 16 of 200 Gb/s. Below 1: none.
double count_before(std::string_view small, std::size_t at) {
  const char next = at + 1 < small.size() ? small[at + 1] : ' ';
  const bool apart = at > 0 && small[at - 1] == ' ';  // "8 x 400", but not "Gen4 x16"
  const double count = next == ' ' || (!apart && is_digit(next)) ? number_before(small, at) : -1;
  const std::size_t behind = small.find_first_not_of("0123456789 ", at + 1);
  if (!is_nic_count(count) || behind == std::string_view::npos || small[behind] != 'x') return count;
  return count * std::max(1.0, count_before(small, behind));
}

/// "8x NDR", "8 x 400Gb/s". 0: none.
int first_count(std::string_view small) {
  for (std::size_t at = small.find('x'); at != std::string_view::npos; at = small.find('x', at + 1))
    if (const double count = count_before(small, at); is_nic_count(count)) return static_cast<int>(count);
  return 0;
}

/// "200Gb/s x8", "200 Gb/s x 8". 0: none.
int count_behind_rate(std::string_view small) {
  for (const char* unit : {"b/s", "bps", "hdr", "ndr", "xdr", "edr"}) {
    std::size_t at = small.find(unit);
    if (at == std::string_view::npos) continue;
    at += 3;
    while (at < small.size() && small[at] == ' ') ++at;
    if (at >= small.size() || small[at] != 'x') continue;
    ++at;
    while (at < small.size() && small[at] == ' ') ++at;
    std::size_t end = at;
    while (end < small.size() && is_digit(small[end])) ++end;
    const double count = parse_number<double>(small.substr(at, end - at)).value_or(0);
    if (is_nic_count(count)) return static_cast<int>(count);
  }
  return 0;
}

/// True for words that say what kind of NIC it is: "ndr", "gb/s", "400g", "infiniband", "dual-port".
bool describes_nic(std::string_view word) {
  constexpr std::string_view kWords[] = {"infiniband", "ib",       "roce",     "rocev2", "ethernet", "efa",
                                         "nvidia",     "mellanox", "connectx", "cx7",    "cx6",      "bluefield",
                                         "gb/s",       "gbps",     "gbit/s",   "gbe",    "g",        "ports",
                                         "port",       "rdma",     "network",  "compute"};
  if (std::ranges::find(kWords, word) != std::end(kWords) || contains(word, "-port") || word.starts_with("connectx-"))
    return true;
  if (std::ranges::any_of(kGenerations, [&](const Generation& g) { return word.starts_with(g.name); })) return true;
  return word.size() > 1 && is_digit(word.front()) && !is_digit(word.back());  // "400g", "200gb/s"
}

/// "2", "one", "single", "dual"; 0: another word.
int counted(std::string_view word) {
  constexpr std::pair<std::string_view, int> kNames[] = {{"one", 1},  {"single", 1}, {"two", 2},  {"dual", 2},
                                                         {"four", 4}, {"quad", 4},   {"eight", 8}};
  for (const auto& [name, count] : kNames)
    if (word == name) return count;
  const double count = parse_number<double>(word).value_or(0);
  return is_nic_count(count) ? static_cast<int>(count) : 0;
}

/// The count before words that describe what ends there: "one 200 gb/s ", "4 hdr ", "quad-". 0: there is none.
int count_of_described(std::string_view before) {
  const bool hyphen = before.ends_with('-');
  std::vector<std::string_view> words = split_words(hyphen ? before.substr(0, before.size() - 1) : before, " (,;:");
  while (!words.empty() && describes_nic(words.back())) {
    const bool unit = !is_digit(words.back().front()) && words.back().find('g') == 0;
    words.pop_back();
    if (unit && !words.empty() && parse_number<double>(words.back())) words.pop_back();  // the rate
  }
  return words.empty() ? 0 : counted(words.back());
}

/// "8 NICs per node", "4 HDR NICs", "one 200 Gb/s HCA", "dual-rail NDR", "HDR (8 per node)". 0: none.
int count_of_nics(std::string_view small) {
  for (const char* name : {"nic", "hca", "rail", "adapter", "interface"})
    if (const std::size_t at = small.find(name); at != std::string_view::npos)
      if (const int count = count_of_described(small.substr(0, at)); count > 0) return count;
  for (const char* name : {"port", "per node"}) {
    const double count = number_before(small, std::min(small.find(name), small.size()));
    if (contains(small, name) && is_nic_count(count)) return static_cast<int>(count);
  }
  return 0;
}

/// In small letters, with "x" for other signs of multiplication and figures for words.
std::string plain_network(std::string_view words) {
  std::string small = lower_case(words);
  for (const auto& [from, to] : {std::pair{"\xc3\x97", "x"}, std::pair{"*", "x"}, std::pair{"sixteen ", "16x "},
                                 std::pair{"eight ", "8x "}, std::pair{"four ", "4x "}, std::pair{"two ", "2x "}})
    for (std::size_t at = small.find(from); at != std::string::npos; at = small.find(from, at + 1))
      small.replace(at, std::string_view(from).size(), to);
  return small;
}

/// What a rate belongs to, by the words behind it: that of a GPU or of a NIC takes precedence over a sum in brackets.
ReportedNetwork::Rate owner_of_rate(std::string_view small) {
  if (contains(small, "per gpu")) return ReportedNetwork::Rate::gpu;
  for (const char* each : {"per nic", "per port", "per link", "per hca", "per adapter", "per rail", "each"})
    if (contains(small, each)) return ReportedNetwork::Rate::nic;
  if (contains(small, "per rack")) return ReportedNetwork::Rate::rack;
  for (const char* all : {"per node", "total", "aggregate"})
    if (contains(small, all)) return ReportedNetwork::Rate::node;
  return ReportedNetwork::Rate::nic;
}

}  // namespace

std::optional<ReportedNetwork> reported_network(std::string_view words) {
  const std::string small = plain_network(words);
  for (const char* unsure : {"not printed", "about", "assumed", "none"})
    if (contains(small, unsure)) return std::nullopt;
  ReportedNetwork network;
  network.nics = first_count(small);
  if (network.nics == 0) network.nics = count_behind_rate(small);
  double gigabits = first_rate(words);
  if (gigabits > 0) {
    network.of = owner_of_rate(small);
  } else {
    const auto known = std::ranges::find_if(kGenerations, [&](const Generation& g) { return contains(small, g.name); });
    if (known == std::end(kGenerations)) return std::nullopt;
    gigabits = known->gigabits;
  }
  if (gigabits > 1e5) return std::nullopt;
  // "2x 200Gb/s per GPU", but not "4x 400Gb/s (200Gb/s per GPU)"
  const std::string_view before_owner = std::string_view(small).substr(0, small.find("per gpu"));
  network.each_gpu = network.nics > 0 && network.of == ReportedNetwork::Rate::gpu &&
                     before_owner.find_first_of("(,;") == std::string_view::npos;
  if (network.nics == 0 && network.of != ReportedNetwork::Rate::gpu) network.nics = count_of_nics(small);
  if (network.nics > 0 && gigabits > kFastestPort) gigabits /= network.nics;
  network.rate.bytes_per_second = std::llround(gigabits * 125e6);
  return network;
}

}  // namespace tracecast::accuracy
