#include "tools/accuracy/row_machine.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/words.hpp"
#include "tools/accuracy/row_part.hpp"

namespace tracecast::accuracy {
namespace {

/// The machine of a row is the first entry that has its GPU and whose other fields match.
struct Fabric {
  const char* gpu;
  const char* network;    ///< words of inter_node_link, or of a cloud's instance in `gpu`; "" any
  const char* framework;  ///< beginning of framework, in small letters; "" any
  double memory_gb;       ///< 0 any
  int gpus_per_node;      ///< 0 any; below 0: so many, and they are reported
  MachineClass machine;
};
constexpr Fabric kFabrics[] = {
    {"A100", "Omni-Path", "", 0, 8, {"jean-zay", "", true}},
    {"A100", "4x 100Gb/s RoCE", "", 0, 8, {"internevo-a100", "", true}},
    {"A100", "4x HDR", "", 40, 8, {"a100-4hdr", "a100-40gb", true}},
    {"A100", "4x HDR", "", 0, 8, {"a100-4hdr", "", true}},
    {"A100", "1600Gb/s RoCE", "", 40, 8, {"hgx-a100-8x200g", "", true}},
    {"A100", "1600Gb/s RoCE", "", 0, 8, {"hgx-a100-8x200g", "a100", true}},
    {"A100", "8x HDR", "", 80, 8, {"selene", "", true}},
    {"A100", "p4de", "", 0, 8, {"aws-p4de", "", true}},
    {"A100", "p4d", "", 0, 8, {"aws-p4d", "", true}},
    {"A100", "EFA", "", 40, 8, {"aws-p4d", "", true}},
    {"A100", "EFA", "", 0, 8, {"aws-p4de", "", true}},
    {"A100", "", "", 40, 0, {"dgx-a100", "a100-40gb", false}},
    {"A100", "", "", 0, 0, {"dgx-a100", "", false}},
    {"A100-PCIE", "", "", 0, 0, {"rtx-pro-6000-pcie", "a100-pcie", false}},
    {"A800", "", "", 0, 0, {"hgx-a800", "", false}},
    {"A800-PCIE", "", "", 0, 0, {"rtx-pro-6000-pcie", "a100-pcie", false}},
    {"H100", "pods of 3072", "", 0, 0, {"meta-24k-h100", "", true}},
    {"H100", "EFA", "", 0, 8, {"aws-p5", "", true}},
    {"H100", "p5", "", 0, 8, {"aws-p5", "", true}},
    {"H100", "TCPXO", "", 0, 8, {"gcp-a3mega", "", true}},
    {"H100", "a3-mega", "", 0, 8, {"gcp-a3mega", "", true}},
    {"H200", "EFA", "", 0, 8, {"aws-p5en", "", true}},
    {"H200", "p5en", "", 0, 8, {"aws-p5en", "", true}},
    {"H100", "", "torchtitan", 94, 0, {"grand-teton", "h100-96gb-500w", false}},
    {"H100", "", "torchtitan", 96, 0, {"grand-teton", "h100-96gb-500w", false}},
    {"H100", "", "", 94, 0, {"dgx-h100", "h100-96gb-500w", false}},  // TSUBAME 4's, HBM2e
    {"H100", "", "", 96, 0, {"dgx-h100", "h100-96gb-500w", false}},
    {"H100", "", "", 0, 0, {"dgx-h100", "", false}},
    {"H100-PCIE", "", "", 0, 0, {"rtx-pro-6000-pcie", "h100-pcie", false}},
    {"H20", "", "", 0, 0, {"hgx-h20", "", false}},
    {"GH200", "", "", 0, 0, {"jupiter", "", false}},
    {"H800", "", "", 0, 0, {"dgx-h800", "", false}},
    {"H800-PCIE", "", "", 0, 0, {"rtx-pro-6000-pcie", "h100-pcie", false}},
    {"H200", "", "", 0, 0, {"dgx-h200", "", false}},
    {"B200", "", "", 0, 0, {"dgx-b200", "", false}},
    {"B300", "", "", 0, 0, {"hgx-b300", "", false}},
    {"GB200", "", "", 0, 0, {"gb200-nvl72", "", false}},
    {"GB300", "", "", 0, 0, {"gb300-nvl72", "", false}},
    {"V100", "", "", 16, 0, {"dgx-v100", "v100-16gb", false}},
    {"V100", "", "", 0, -16, {"dgx-2h", "", false}},
    {"V100", "", "", 0, 0, {"dgx-v100", "", false}},
    {"MI250X-GCD", "", "", 0, 0, {"frontier", "", false}},
    {"MI250X", "", "", 128, 0, {"frontier", "mi250x-module", false}},
    {"MI250X", "", "", 0, -4, {"frontier", "mi250x-module", false}},
    {"MI250X", "", "", 0, 0, {"frontier", "", false}},
    {"MI300X", "", "", 0, 0, {"hgx-mi300x", "", false}},
    {"MI325X", "", "", 0, 0, {"hgx-mi300x", "mi325x", false}},
    {"MI350X", "", "", 0, 0, {"hgx-mi355x", "mi350x", false}},
    {"MI355X", "", "", 0, 0, {"hgx-mi355x", "", false}},
    {"RTX-PRO-6000", "", "", 0, 0, {"rtx-pro-6000-pcie", "", false}},
    {"L40S", "", "", 0, 0, {"rtx-pro-6000-pcie", "l40s", false}},
    {"L4", "", "", 0, 0, {"rtx-pro-6000-pcie", "l4", false}},
    {"A40", "", "", 0, 0, {"rtx-pro-6000-pcie", "a40", false}},
    {"RTX-4090", "", "", 0, 0, {"rtx-pro-6000-pcie", "rtx-4090", false}},
    {"MI210", "", "", 0, 0, {"rtx-pro-6000-pcie", "mi210", false}},
    {"MAX-1550", "", "", 0, 0, {"aurora", "", false}},
    {"PVC", "", "", 0, 0, {"aurora", "", false}},
};

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
constexpr int kMaxGpus = 64;

bool has(std::string_view text, std::string_view words) { return text.find(words) != std::string_view::npos; }

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_letter_or_digit(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// The same in any case, but "4x HDR" is neither in "4x HDR100" nor in "14x HDR".
bool has_words(std::string_view text, std::string_view words) {
  const std::string small = lower_case(text), wanted = lower_case(words);
  const std::size_t at = small.find(wanted);
  if (at == std::string::npos || words.empty()) return at != std::string::npos;
  const std::size_t end = at + wanted.size();
  return (at == 0 || !is_letter_or_digit(small[at - 1])) && (end >= small.size() || !is_digit(small[end]));
}

/// True for words of a GPU's name that do not identify the part.
bool is_filler(const std::string& word) {
  static constexpr std::array kWords{"NVIDIA", "AMD",    "INTEL",      "INSTINCT", "TESLA",     "GPU",       "SXM",
                                     "SXM2",   "SXM3",   "SXM4",       "SXM5",     "SXM6",      "HBM2",      "HBM2E",
                                     "HBM3",   "HBM3E",  "OAM",        "SERVER",   "BLACKWELL", "EDITION",   "DGX",
                                     "HGX",    "TENSOR", "CORE",       "GB",       "NVL72",     "SUPERCHIP", "GEFORCE",
                                     "DATA",   "CENTER", "WORKSTATION"};
  return std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

/// "80GB" or "80G" and, before "GB", "80"; but "8g" counts the GPUs of an instance.
double memory_of(std::string_view word, std::string_view next) {
  constexpr double kLeast = 16;
  if (next == "GB") return parse_number<double>(word).value_or(0);
  const std::size_t unit = word.ends_with("GB") ? 2 : word.ends_with("G") ? 1 : 0;
  const double memory = unit > 0 ? parse_number<double>(word.substr(0, word.size() - unit)).value_or(0) : 0;
  return unit == 1 && memory < kLeast ? 0 : memory;
}

/// False for the memory of GH200's CPU, 120 to 480 GB, which its name carries: "NVIDIA GH200 480GB".
bool is_of_gpu(double memory_gb, const std::string& part) {
  return part != "GH200" || memory_gb == 96 || memory_gb == 141 || memory_gb == 144;
}

/// The amount before "HBM", else the first; 0: the name has none of the GPU.
double memory_in(const std::vector<std::string_view>& words, const std::string& part) {
  double first = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto word = [&](std::size_t at) { return at < words.size() ? words[at] : std::string_view{}; };
    const double memory = memory_of(words[i], word(i + 1));
    if (memory <= 0 || !is_of_gpu(memory, part)) continue;
    if (word(word(i + 1) == "GB" ? i + 2 : i + 1).starts_with("HBM")) return memory;
    if (first == 0) first = memory;
  }
  return first;
}

bool is_part(std::string_view name) {
  return std::ranges::any_of(kFabrics, [&](const Fabric& f) { return name == f.gpu; });
}

/// "H100" of "8XH100" and "H100X8".
std::string_view without_count(std::string_view word) {
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t first = word.find_first_not_of(kDigits), last = word.find_last_not_of(kDigits);
  if (first == std::string_view::npos) return word;
  if (first > 0 && word[first] == 'X') return word.substr(first + 1);
  return last + 1 < word.size() && word[last] == 'X' && is_part(word.substr(0, last)) ? word.substr(0, last) : word;
}

/// A word of a name in the singular, without a count and a socket, in full: "H100S", "H100SXM5", "MI300".
std::string plain_word(std::string_view word) {
  struct Short {
    const char* name;
    const char* part;
  };
  constexpr Short kShort[] = {{"MI250", "MI250X"}, {"MI300", "MI300X"}, {"MI325", "MI325X"},  {"MI350", "MI350X"},
                              {"MI355", "MI355X"}, {"PONTE", "PVC"},    {"4090", "RTX-4090"}, {"RTX4090", "RTX-4090"}};
  word = without_count(word);
  if (const std::size_t socket = word.find("SXM"); socket != std::string_view::npos && socket > 0)
    word = word.substr(0, socket);
  if (word.ends_with('S') && is_part(word.substr(0, word.size() - 1))) word.remove_suffix(1);
  const auto* found = std::ranges::find_if(kShort, [&](const Short& s) { return word == s.name; });
  return found == std::end(kShort) ? std::string(word) : found->part;
}

/// The part among the words of a name: "GH200" of "GRACE-HOPPER-GH200"; of several parts a superchip, "B200 (GB200)". A PCIe board,
/// which "NVL" is too, and a die of a module are other parts.
std::string part_among(const std::vector<std::string>& words) {
  const auto has_word = [&](const char* word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  auto found = std::find_if(words.begin(), words.end(), is_part);
  if (found == words.end()) return {};
  const auto superchip =
      std::find_if(found, words.end(), [](const std::string& word) { return is_part(word) && word.front() == 'G'; });
  if (superchip != words.end()) found = superchip;
  std::string part = *found;
  if (has_word("PCIE") || (has_word("NVL") && is_part(part + "-PCIE"))) part += "-PCIE";
  return has_word("GCD") && is_part(part + "-GCD") ? part + "-GCD" : part;
}

/// The GPU of a rack of 72: B200 and B300 are those of GB200 and GB300.
std::string part_in_rack(const std::string& part) {
  return part.starts_with('B') && is_part("G" + part) ? "G" + part : part;
}

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

/// "8 NICs per node", "4 HCAs", "HDR (8 per node)". 0: none.
int count_of_nics(std::string_view small) {
  for (const char* name : {"nic", "hca", "port", "rail", "adapter", "interface", "per node"}) {
    const double count = number_before(small, std::min(small.find(name), small.size()));
    if (has(small, name) && is_nic_count(count)) return static_cast<int>(count);
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
  if (has(small, "per gpu")) return ReportedNetwork::Rate::gpu;
  for (const char* each : {"per nic", "per port", "per link", "per hca", "per adapter", "per rail", "each"})
    if (has(small, each)) return ReportedNetwork::Rate::nic;
  if (has(small, "per rack")) return ReportedNetwork::Rate::rack;
  for (const char* all : {"per node", "total", "aggregate"})
    if (has(small, all)) return ReportedNetwork::Rate::node;
  return ReportedNetwork::Rate::nic;
}

bool only_pcie(const ReportedMachine& reported) {
  const std::string links = lower_case(reported.links_in_node);
  for (const char* faster : {"nvlink", "nvswitch", "nvl", "sxm", "xgmi", "infinity"})
    if (affirms(links, faster)) return false;
  return has(links, "pcie") && !has(lower_case(reported.gpu), "sxm");
}

/// Sets the GPUs of one host, with their share of NICs.
void adapt_gpus(NodeSpec& node, int gpus) {
  const int before = node.gpus_per_host;
  const bool rack = node.gpus > before;
  if (gpus < 1 || gpus > kMaxGpus || gpus == before || rack) return;
  node.nics =
      node.nics == 0 ? 0 : std::max(1, static_cast<int>(std::lround(static_cast<double>(node.nics) * gpus / before)));
  node.gpus = node.gpus_per_host = gpus;
  if (gpus > 4 || node.link != IntraLink::nvswitch) return;
  node.link = IntraLink::nvlink_mesh;  // up to four GPUs are connected without a switch
  node.nvls = false;
  node.nvswitches = 1;
}

/// Gives a machine without NICs a non-blocking network, with the latency of InfiniBand in the shipped topologies.
void connect_nodes(Cluster& cluster) {
  cluster.fabric = FabricKind::fat_tree;
  cluster.tiers = {FabricTier{"fabric", 0, 1, {}}};
  cluster.node.nic_latency = Duration{1'500'000};
}

/// True if the rate is that of the node: reported so, or higher than a NIC of the reference system ("EFA 3200Gb/s").
bool of_whole_node(const ReportedNetwork& network, const NodeSpec& node) {
  if (network.nics > 0 || network.of == ReportedNetwork::Rate::gpu) return false;
  return network.of != ReportedNetwork::Rate::nic || (node.nics > 0 && network.rate > node.nic_rate);
}

void adapt_network(Cluster& cluster, const ReportedNetwork& network) {
  NodeSpec& node = cluster.node;
  const bool of_gpu = network.of == ReportedNetwork::Rate::gpu;
  int nics = network.nics > 0 ? network.nics : of_gpu ? node.gpus_per_host : std::max(1, node.nics);
  if (network.each_gpu && network.nics < node.gpus_per_host) nics *= node.gpus_per_host;
  std::int64_t rate = network.rate.bytes_per_second;
  if (network.of == ReportedNetwork::Rate::rack) rate /= std::max(1, node.gpus / node.gpus_per_host);
  if (of_whole_node(network, node)) rate /= nics;
  if (rate < 1) return;
  const double before = static_cast<double>(node.nics) * static_cast<double>(node.nic_rate.bytes_per_second);
  const double now = static_cast<double>(nics) * static_cast<double>(rate);
  if (std::abs(now - before) <= 0.01 * before) return;
  if (node.nics == 0) connect_nodes(cluster);
  node.nics = nics;
  node.nic_rate.bytes_per_second = rate;
}

}  // namespace

GpuName gpu_name(std::string_view reported) {
  std::string capitals;
  for (const char c : reported) capitals += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const std::vector<std::string_view> words = split_words(capitals, " \t\r-_(),/");
  GpuName name;
  std::vector<std::string> others;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool memory = memory_of(words[i], i + 1 < words.size() ? words[i + 1] : std::string_view{}) > 0;
    const std::string word = plain_word(words[i]);
    if (memory || word.empty() || is_filler(word)) continue;
    others.push_back(word);
    name.part += (name.part.empty() ? "" : "-") + word;
  }
  if (const std::string part = is_part(name.part) ? "" : part_among(others); !part.empty()) name.part = part;
  if (std::ranges::find(words, "NVL72") != words.end()) name.part = part_in_rack(name.part);
  name.memory_gb = memory_in(words, name.part);
  return name;
}

double memory_of(const ReportedMachine& reported) {
  const GpuName gpu = gpu_name(reported.gpu);
  return reported.memory_gb > 0 && is_of_gpu(reported.memory_gb, gpu.part) ? reported.memory_gb : gpu.memory_gb;
}

std::optional<ReportedNetwork> reported_network(std::string_view words) {
  const std::string small = plain_network(words);
  for (const char* unsure : {"not printed", "about", "assumed", "none"})
    if (has(small, unsure)) return std::nullopt;
  ReportedNetwork network;
  network.nics = first_count(small);
  if (network.nics == 0) network.nics = count_behind_rate(small);
  double gigabits = first_rate(words);
  if (gigabits > 0) {
    network.of = owner_of_rate(small);
  } else {
    const auto known = std::ranges::find_if(kGenerations, [&](const Generation& g) { return has(small, g.name); });
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

std::string known_gpus() {
  std::vector<std::string_view> names;
  for (const Fabric& each : kFabrics)
    if (std::find(names.begin(), names.end(), each.gpu) == names.end()) names.emplace_back(each.gpu);
  return fmt::format("{}", fmt::join(names, " "));
}

const MachineClass* find_machine(const ReportedMachine& reported) {
  std::string part = gpu_name(reported.gpu).part;
  if (only_pcie(reported) && is_part(part + "-PCIE")) part += "-PCIE";
  if (affirms(reported.links_in_node, "NVL72")) part = part_in_rack(part);
  const double memory = memory_of(reported);
  const std::string framework = lower_case(reported.framework);
  const std::string network = reported.links_between_nodes + " " + reported.gpu;
  const auto fits = [&](const Fabric& f) {
    return part == f.gpu && has_words(network, f.network) && framework.starts_with(f.framework) &&
           (f.memory_gb == 0 || f.memory_gb == memory) &&
           (f.gpus_per_node == 0 || f.gpus_per_node == -reported.gpus_per_node ||
            (f.gpus_per_node > 0 && (reported.gpus_per_node == 0 || f.gpus_per_node == reported.gpus_per_node)));
  };
  const auto found = std::ranges::find_if(kFabrics, fits);
  return found == std::end(kFabrics) ? nullptr : &found->machine;
}

std::string adapt_node(Cluster& cluster, const ReportedMachine& reported, bool by_network) {
  const NodeSpec before = cluster.node;
  adapt_gpus(cluster.node, reported.gpus_per_node);
  const std::optional<ReportedNetwork> network = reported_network(reported.links_between_nodes);
  if (network && !by_network) adapt_network(cluster, *network);
  const NodeSpec& node = cluster.node;
  if (node.gpus_per_host == before.gpus_per_host && node.nics == before.nics && node.nic_rate == before.nic_rate)
    return "";
  return fmt::format("nodes of {} GPUs and {} NICs of {:.0f} Gb/s, as reported or in proportion; otherwise {}",
                     node.gpus_per_host, node.nics, static_cast<double>(node.nic_rate.bytes_per_second) / 125e6,
                     cluster.name);
}

}  // namespace tracecast::accuracy
