#include "sim/import/infiniband_fabric.hpp"

#include <algorithm>
#include <charconv>
#include <vector>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/io/json_document.hpp"

namespace tracecast {
namespace {

std::string plain_guid(std::string_view text) {
  if (text.starts_with("S-") || text.starts_with("H-")) text.remove_prefix(2);
  if (text.starts_with("0x")) text.remove_prefix(2);
  const std::size_t first = text.find_first_not_of('0');
  return std::string(first == std::string_view::npos ? "0" : text.substr(first));
}

/// Mb/s of a lane by its name (docs/references.md#format-topology); 0: unknown.
std::int64_t lane_megabits(std::string_view name) {
  constexpr std::pair<std::string_view, std::int64_t> kLanes[] = {{"SDR", 2500},    {"DDR", 5000},   {"QDR", 10000},
                                                                  {"FDR10", 10000}, {"FDR", 14000},  {"EDR", 25000},
                                                                  {"HDR", 50000},   {"NDR", 100000}, {"XDR", 200000}};
  for (const auto& [lane, rate] : kLanes)
    if (lane == name) return rate;
  return 0;
}

/// The nominal rate of a lane whose rate with coding is printed: 106.25 is 100.
std::int64_t lane_of_rate(double gigabits) {
  for (const std::int64_t lane : {2500, 5000, 10000, 14000, 25000, 50000, 100000, 200000})
    if (gigabits * 1000 >= static_cast<double>(lane) * 0.999 && gigabits * 1000 <= static_cast<double>(lane) * 1.07)
      return lane;
  return 0;
}

class InfinibandReader {
 public:
  InfinibandReader(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {}

  Result<IbFabric> read() {
    for (std::string_view line : split_lines(text_)) {
      ++line_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (const auto ok = read_line(line); !ok) return tl::unexpected(ok.error());
    }
    return std::move(fabric_);
  }

 private:
  tl::unexpected<Error> fail_at(std::string_view value, const std::string& message) const {
    return fail({file_, line_, "", "", fmt::format("'{}' {}", shortened(value), message)});
  }

  Result<void> read_line(std::string_view line) {
    if (line.find("==(") != std::string_view::npos) return read_link_line(line);
    if (line.starts_with("Switch\t") || line.starts_with("Switch ") || line.starts_with("Ca\t") ||
        line.starts_with("Ca ")) {
      if (line.find('"') != std::string_view::npos) return read_block_head(line);
    }
    if (line.starts_with("CA: ") || line.starts_with("Switch: ")) return read_info_head(line);
    if (line.starts_with("[")) return read_port(line);
    if (line.starts_with("CA ") || line.starts_with("SW ")) return read_report(line);
    return {};
  }

  /// The text between the `i`-th pair of quotation marks.
  static std::string quoted(std::string_view line, int i, char mark = '"') {
    std::size_t at = 0;
    for (int skip = 0; skip < 2 * i + 1; ++skip) {
      at = line.find(mark, at);
      if (at == std::string_view::npos) return "";
      ++at;
    }
    const std::size_t end = line.find(mark, at);
    return std::string(line.substr(at, end == std::string_view::npos ? end : end - at));
  }

  /// A number at `at`, blanks before it skipped; -1: there is none.
  static int number_at(std::string_view line, std::size_t at) {
    while (at < line.size() && (line[at] == ' ' || line[at] == '\t')) ++at;
    int value = -1;
    if (at < line.size()) std::from_chars(line.data() + at, line.data() + line.size(), value);
    return value;
  }

  IbElement& element(const std::string& guid, std::string name, bool is_switch) {
    IbElement& element = fabric_.elements[guid];
    if (element.name.empty()) element.name = std::move(name);
    element.is_switch = element.is_switch || is_switch;
    return element;
  }

  /// Switch<TAB>64 "S-0000000000200007"  # "leaf-r7" base port 0 lid 12 lmc 0
  Result<void> read_block_head(std::string_view line) {
    const bool is_switch = line.starts_with("Switch");
    const int ports = number_at(line, is_switch ? 6 : 2);
    const std::string guid = quoted(line, 0);
    if (ports < 1 || ports > 4096 || guid.size() < 3) return fail_at(line, "is not the header of a switch or adapter");
    owner_ = plain_guid(guid);
    IbElement& e = element(owner_, quoted(line, 1), is_switch);
    e.ports = ports;
    e.listed = true;
    return {};
  }

  /// [33]  "S-0000000000200008"[8]  # "spine-0" lid 13 4xSDR
  Result<void> read_port(std::string_view line) {
    if (!fabric_.elements.contains(owner_)) return fail_at(line, "is a port before any switch or adapter");
    const int port = number_at(line, 1);
    const std::string peer = quoted(line, 0);
    const std::size_t bracket = line.find("\"[", line.find('"') + 1);
    const int peer_port = bracket == std::string_view::npos ? -1 : number_at(line, bracket + 2);
    if (port < 1 || peer_port < 1 || peer.size() < 3) return fail_at(line, "is not a port with its peer");
    element(plain_guid(peer), quoted(line, 1), peer.starts_with("S-"));
    return add({owner_, port}, {plain_guid(peer), peer_port}, rate_at_end(line), line);
  }

  /// 0: no link is so wide.
  static Bandwidth rate_of(int lanes, std::int64_t megabits) {
    return {lanes >= 1 && lanes <= 12 ? lanes * megabits * 125'000 : 0};
  }

  /// "4xNDR", the last word.
  static Bandwidth rate_at_end(std::string_view line) {
    const std::string_view trimmed = trim(line);
    const std::string_view word = trimmed.substr(trimmed.find_last_of(kBlanks) + 1);
    const std::size_t x = word.find('x');
    if (x == std::string_view::npos) return {};
    return rate_of(number_at(word, 0), lane_megabits(word.substr(x + 1)));
  }

  Result<void> add(IbPort a, IbPort b, Bandwidth rate, std::string_view line) {
    if (rate.bytes_per_second <= 0) return fail_at(line, "has no rate such as 4xNDR or 4X 106.25 Gbps");
    if (b < a) std::swap(a, b);
    const auto [place, is_new] = fabric_.cables.insert({{std::move(a), std::move(b)}, {rate, line_}});
    if (!is_new && place->second.rate != rate)
      return fail_at(
          line, fmt::format("has another rate than the other end of the same cable in line {}", place->second.line));
    return {};
  }

  /// CA: node03_mlx5_7:            Switch: 0x0000000000200007 leaf-r7:
  Result<void> read_info_head(std::string_view line) {
    owner_is_switch_ = line.starts_with("Switch");
    owner_name_ = std::string(line.substr(line.find(' ') + 1));
    const std::size_t blank = owner_name_.find(' ');
    owner_.clear();
    if (owner_is_switch_ && blank != std::string::npos) {
      owner_ = plain_guid(owner_name_.substr(0, blank));
      owner_name_.erase(0, blank + 1);
    }
    while (!owner_name_.empty() && (owner_name_.back() == ':' || owner_name_.back() == ' ')) owner_name_.pop_back();
    return {};
  }

  /// 0x…3f ["name"] 44 1[ ] ==( 4X 2.5 Gbps Active/ LinkUp)==> [0x…07] 12 4[ ] "leaf-r7" (Could be …)
  Result<void> read_link_line(std::string_view line) {
    const std::size_t arrow = line.find("==(");
    const std::size_t head = line.find(")==>");
    if (head == std::string_view::npos || head < arrow) return fail_at(line, "is a link without its end )==>");
    const std::string_view left = line.substr(0, arrow);
    const std::string_view state = line.substr(arrow + 3, head - arrow - 3);
    const std::string_view right = line.substr(head + 4);
    if (state.find("Down") != std::string_view::npos || right.find('"') == std::string_view::npos) return {};
    const bool is_line = left.find('"') != std::string_view::npos;
    const std::size_t guid_at = left.find("0x");
    const auto [lid, port] = port_before(left);
    const auto [peer_lid, peer_port] = port_before(right.substr(0, right.find('"')));
    const std::size_t x = state.find('X');
    const std::size_t unit = state.find("Gbps");
    if (port < 1 || peer_port < 1 || (guid_at == std::string_view::npos && owner_.empty()))
      return fail_at(line, "is a link without the ports of its ends");
    const double lane = x == std::string_view::npos || unit == std::string_view::npos
                            ? 0
                            : parse_number<double>(trim(state.substr(x + 1, unit - x - 1))).value_or(0);
    const Bandwidth rate = rate_of(number_at(state, 0), lane_of_rate(lane));
    const std::string guid = guid_at == std::string_view::npos
                                 ? owner_
                                 : plain_guid(left.substr(guid_at, left.find_first_of(" \t", guid_at) - guid_at));
    std::string name = is_line ? quoted(left, 0) : owner_name_;
    name.erase(0, std::min(name.find_first_not_of(' '), name.size()));
    element(guid, name, !is_line && owner_is_switch_).listed = true;
    if (lid > 0) guid_of_lid_[lid] = guid;
    const std::size_t peer_at = right.find("0x");
    const std::string peer_name = quoted(right, 0);
    if (peer_at > right.find('"')) {  // none, or a part of the name
      named_.push_back({{guid, port}, peer_name, peer_lid, peer_port, rate, line_});
      return rate.bytes_per_second > 0 ? Result<void>{} : fail_at(line, "has no rate such as 4X 106.25 Gbps");
    }
    const std::string peer = plain_guid(right.substr(peer_at, right.find_first_of(" \t", peer_at) - peer_at));
    element(peer, peer_name, false);
    return add({guid, port}, {peer, peer_port}, rate, line);
  }

  /// LID and port of " 44    1[  ] ", before the last '['; -1: there is none.
  static std::pair<int, int> port_before(std::string_view text) {
    const std::size_t bracket = text.rfind('[');
    if (bracket == std::string_view::npos) return {-1, -1};
    text = text.substr(0, bracket);
    const int port = cut_last_number(text);
    text = trim(text);
    return {cut_last_number(text), port};
  }

  /// Removes the number that `text` ends with; -1: it ends with none.
  static int cut_last_number(std::string_view& text) {
    std::size_t begin = text.size();
    while (begin > 0 && is_digit(text[begin - 1])) --begin;
    const int number = begin == text.size() ? -1 : number_at(text, begin);
    text = text.substr(0, begin);
    return number;
  }

  /// CA 44 1 0x…3f 4x SDR - SW 12 4 0x…07 ( 'node03_mlx5_7' - 'leaf-r7' )
  Result<void> read_report(std::string_view line) {
    const std::vector<std::string_view> words = split_words(line);
    if (words.size() < 6) return fail_at(line, "is not a port of the report");
    const std::string guid = plain_guid(words[3]);
    IbElement& e = element(guid, quoted(line, 0, '\''), words[0] == "SW");
    e.listed = true;
    if (words.size() < 7 || words[6] != "-") return {};  // nothing is plugged in
    if (words.size() < 11) return fail_at(line, "is not a port of the report with its peer");
    element(plain_guid(words[10]), quoted(line, 1, '\''), words[7] == "SW");
    const Bandwidth rate = rate_of(number_at(words[4], 0), lane_megabits(words[5]));
    return add({guid, number_at(words[2], 0)}, {plain_guid(words[10]), number_at(words[9], 0)}, rate, line);
  }

 public:
  /// Blocks of iblinkinfo tell LID and name of a peer, not its GUID: joined here by the LID, else by the name. Several elements may
  /// have one name (switches as they were delivered): without a LID their cables are left out.
  void join_peers(IbFabric& fabric) const {
    std::map<std::string, std::vector<std::string>> guids;
    for (const auto& [guid, e] : fabric.elements) guids[e.name].push_back(guid);
    for (const Named& named : named_) {
      const auto by_lid = guid_of_lid_.find(named.lid);
      const auto by_name = guids.find(named.name);
      if (by_lid == guid_of_lid_.end() && by_name == guids.end()) continue;  // a dump of a part
      if (by_lid == guid_of_lid_.end() && by_name->second.size() > 1) {
        ++fabric.ambiguous;
        continue;
      }
      IbPort a = named.from;
      IbPort b{by_lid != guid_of_lid_.end() ? by_lid->second : by_name->second.front(), named.port};
      if (b < a) std::swap(a, b);
      fabric.cables.insert({{std::move(a), std::move(b)}, {named.rate, named.line}});
    }
  }

 private:
  struct Named {
    IbPort from;
    std::string name;
    int lid = 0;
    int port = 0;
    Bandwidth rate;
    int line = 0;
  };

  std::string_view text_;
  std::string file_;
  int line_ = 0;
  IbFabric fabric_;
  std::string owner_;
  std::string owner_name_;
  bool owner_is_switch_ = false;
  std::vector<Named> named_;
  std::map<int, std::string> guid_of_lid_;
};

/// In lines of iblinkinfo -l nothing says which end is a switch: a GUID with several cables is.
void tell_switches(IbFabric& fabric) {
  if (std::any_of(fabric.elements.begin(), fabric.elements.end(),
                  [](const auto& item) { return item.second.is_switch; }))
    return;
  std::map<std::string, int> cables;
  for (const auto& [ends, cable] : fabric.cables) {
    ++cables[ends.first.guid];
    ++cables[ends.second.guid];
  }
  for (auto& [guid, e] : fabric.elements) e.is_switch = cables[guid] > 2;
}

}  // namespace

Result<IbFabric> read_cables(std::string_view text, const std::string& file) {
  InfinibandReader reader(text, file);
  Result<IbFabric> fabric = reader.read();
  if (!fabric) return fabric;
  reader.join_peers(*fabric);
  tell_switches(*fabric);
  return fabric;
}

}  // namespace tracecast
