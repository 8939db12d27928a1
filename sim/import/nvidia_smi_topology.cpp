/// `nvidia-smi topo -m`: a matrix of how each GPU reaches each GPU and NIC.
#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/format.h>

#include "sim/base/quantity_text.hpp"
#include "sim/base/words.hpp"
#include "sim/cost/plausible.hpp"
#include "sim/import/gpu_facts.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/linked_groups.hpp"
#include "sim/import/possible_topology.hpp"
#include "sim/import/recognise.hpp"
#include "sim/io/json_document.hpp"

namespace tracecast {
namespace {

/// Without escape sequences that colour or underline.
std::string without_escapes(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\x1b') {
      out += text[i];
      continue;
    }
    while (i + 1 < text.size() && !(text[i] >= '@' && text[i] <= '~' && text[i] != '[')) ++i;
  }
  return out;
}

bool is_numbered(std::string_view word, std::string_view prefix) {
  return word.size() > prefix.size() && word.starts_with(prefix) &&
         word.find_first_not_of("0123456789", prefix.size()) == std::string_view::npos;
}

/// A row of the matrix, from its line.
struct NvidiaSmiRow {
  int line = 0;
  std::string name;
  std::vector<std::string> cells;
};

class NvidiaSmiReader {
 public:
  NvidiaSmiReader(std::string_view text, std::string file) : text_(without_escapes(text)), file_(std::move(file)) {}

  Result<ImportedTopology> read() {
    read_lines();
    if (columns_.empty()) return fail_at(1, "", "", "has no header of GPUs (GPU0 GPU1 …)");
    if (rows_.empty()) return fail_at(header_line_, "", "", "has a header, but no row of a GPU below it");
    if (rows_.size() != gpus_)
      return fail_at(header_line_, "", "",
                     fmt::format("has {} GPUs in its header and {} rows of GPUs", gpus_, rows_.size()));
    for (std::size_t i = 0; i < rows_.size(); ++i)
      if (const auto ok = check_row(i); !ok) return tl::unexpected(ok.error());
    return topology();
  }

 private:
  tl::unexpected<Error> fail_at(int line, const std::string& key, const std::string& value,
                                const std::string& message) const {
    return fail({file_, line, shortened(key), shortened(value), message});
  }

  void read_lines() {
    int number = 0;
    for (const std::string_view line : split_lines(text_)) read_line(++number, split_words(line));
  }

  void read_line(int line, const std::vector<std::string_view>& words) {
    if (words.empty()) return;
    read_name(words);
    // A terminal wraps long lines: what follows the header until the first row belongs to it, and what follows a row and is
    // neither a row nor the legend belongs to that row.
    const bool names_column =
        is_numbered(words[0], "GPU") || is_numbered(words[0], "NIC") || words[0].starts_with("mlx");
    const bool is_row = is_numbered(words[0], "GPU") && words.size() > 1 && !is_column(words[1]);
    if (!columns_.empty() && rows_.empty() && !header_ended_ && names_column && !is_row) return add_columns(words);
    const bool header = columns_.empty() && words[0] == "GPU0" && (words.size() == 1 || words[1] != "X");
    if (header) {
      header_line_ = line;
      add_columns(words);
    } else if (!columns_.empty() && is_numbered(words[0], "GPU") && words.size() > 1) {
      rows_.push_back({line, std::string(words[0]), {words.begin() + 1, words.end()}});
      open_row_ = true;
    } else if (!columns_.empty() && is_numbered(words[0], "NIC") && words.size() > 2) {
      ++nic_rows_;
      open_row_ = false;
    } else if (open_row_ && is_connection(words[0]) && rows_.back().cells.size() < columns_.size()) {
      rows_.back().cells.insert(rows_.back().cells.end(), words.begin(), words.end());
    }
  }

  /// "GPU 0: NVIDIA H200 (UUID: GPU-…)" of `nvidia-smi -L`; the UUID is not kept. Older drivers leave the maker out.
  void read_name(const std::vector<std::string_view>& words) {
    if (words.size() < 4 || words[0] != "GPU" || !words[1].ends_with(':')) return;
    std::string name;
    for (std::size_t i = words[2] == "NVIDIA" ? 3 : 2; i < words.size() && !words[i].starts_with('('); ++i)
      name += (name.empty() ? "" : " ") + std::string(words[i]);
    if (names_.empty()) gpu_ = known_by_name(name);
    if (names_.empty() && gpu_ == nullptr) similar_ = named(lower_case(gpu_model(name)));
    if (std::ranges::find(names_, name) == names_.end()) names_.push_back(name);
  }

  /// The GPU of a driver's name: it has all words of ours, and neither another form or memory nor a word of another part.
  static const GpuFacts* known_by_name(std::string name) {
    name = lower_case(name);
    std::ranges::replace(name, '-', ' ');
    const std::vector<std::string_view> words = split_words(name);
    const auto has = [&words](std::string_view word) { return std::ranges::find(words, word) != words.end(); };
    if (has("laptop") || has("max") || has("d")) return nullptr;
    // GH200 144G HBM3e and H20-3e: other memory, which the name does not say as others do ("80GB").
    if (has("144g") || has("3e")) return nullptr;
    const auto* const found = std::ranges::find_if(kGpuFacts, [&](const GpuFacts& facts) {
      const std::vector<std::string_view> ours = split_words(facts.name, "-");
      const std::string described = fmt::format("{} {}", ours.front(), facts.form);
      return std::ranges::all_of(ours, has) && (facts.form.empty() || may_be_same_gpu(name, described));
    });
    return found == std::end(kGpuFacts) ? nullptr : found;
  }

  static bool is_column(std::string_view word) {
    return is_numbered(word, "GPU") || is_numbered(word, "NIC") || word.starts_with("mlx");
  }
  static bool is_connection(std::string_view word) {
    static const std::set<std::string_view> kKinds{"X", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC"};
    return kKinds.count(word) != 0 || is_numbered(word, "NV");
  }

  void add_columns(const std::vector<std::string_view>& words) {
    for (const std::string_view word : words) {
      if (word == "CPU" || word == "NUMA" || word == "GPU") {
        header_ended_ = true;
        return;
      }
      gpus_ += is_numbered(word, "GPU") ? 1 : 0;
      columns_.emplace_back(word);
    }
  }

  static int links_of(const std::string& cell) {
    int links = 0;
    if (is_numbered(cell, "NV")) std::from_chars(cell.data() + 2, cell.data() + cell.size(), links);
    return links;
  }

  Result<void> check_row(std::size_t i) const {
    const NvidiaSmiRow& row = rows_[i];
    if (row.name != columns_[i])
      return fail_at(row.line, row.name, "", fmt::format("is not the next GPU of the header ({})", columns_[i]));
    if (row.cells.size() < columns_.size())
      return fail_at(row.line, row.name, "",
                     fmt::format("has {} cells for {} columns", row.cells.size(), columns_.size()));
    static const std::set<std::string> kKinds{"X", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC"};
    for (std::size_t j = 0; j < columns_.size(); ++j) {
      const std::string& cell = row.cells[j];
      const int links = links_of(cell);
      if ((kKinds.count(cell) == 0 && (links < 1 || links > 64)) || (cell == "X") != (i == j))
        return fail_at(row.line, row.name + "." + columns_[j], cell,
                       i == j ? "must be X" : "unknown kind of connection (allowed: NV# PIX PXB PHB NODE SYS)");
      if (j < gpus_ && i < rows_[j].cells.size() && rows_[j].cells[i] != cell)
        return fail_at(row.line, row.name + "." + columns_[j], cell,
                       fmt::format("differs from {} in the other direction", rows_[j].cells[i]));
    }
    return {};
  }

  /// NICs with a GPU on the same PCIe switches; all, where no GPU is so near to any (Grace).
  int compute_nics() const {
    int near = 0;
    for (std::size_t j = gpus_; j < columns_.size(); ++j)
      near += std::any_of(rows_.begin(), rows_.end(),
                          [&](const NvidiaSmiRow& row) { return row.cells[j] == "PIX" || row.cells[j] == "PXB"; })
                  ? 1
                  : 0;
    return near > 0 ? near : static_cast<int>(columns_.size() - gpus_);
  }

  std::size_t groups_on_links() const {
    const std::vector<std::size_t> group_of =
        joined_groups(gpus_, [this](std::size_t i, std::size_t j) { return links_of(rows_[i].cells[j]) > 0; });
    return std::set<std::size_t>(group_of.begin(), group_of.end()).size();
  }

  void join_gpus(NodeSpec& node, int& per_gpu, std::vector<std::string>& notes) const {
    int fewest = 64;
    int most = 0;
    per_gpu = 0;
    for (std::size_t i = 0; i < gpus_; ++i) {
      int sum = 0;
      for (std::size_t j = 0; j < gpus_; ++j) {
        if (i == j) continue;
        const int links = links_of(rows_[i].cells[j]);
        fewest = std::min(fewest, links);
        most = std::max(most, links);
        sum += links;
      }
      per_gpu = std::max(per_gpu, sum);
    }
    const bool behind_switch = most > 0 && fewest == most && per_gpu > 18;
    if (behind_switch || (gpus_ == 2 && most > 0)) per_gpu = most;
    node.link = gpus_ == 1      ? IntraLink::none
                : most == 0     ? IntraLink::pcie
                : behind_switch ? IntraLink::nvswitch
                                : IntraLink::nvlink_mesh;
    if (node.link != IntraLink::nvlink_mesh) return;
    if (const std::size_t groups = groups_on_links(); groups > 1) {
      notes.push_back(take_groups_as_pcie(node, groups));
    } else if (fewest != most) {
      notes.push_back(fmt::format("pairs of GPUs have {} to {} links: taken as {} of each GPU, spread evenly", fewest,
                                  most, per_gpu));
    }
  }

  static const GpuFacts* named(std::string_view name) {
    const auto found = std::ranges::find(kGpuFacts, name, &GpuFacts::name);
    return found == std::end(kGpuFacts) ? nullptr : found;
  }

  /// Grace has 72 cores, and each GPU's column "CPU Affinity" holds those of its own CPU.
  bool on_grace() const {
    return std::all_of(rows_.begin(), rows_.end(), [this](const NvidiaSmiRow& row) {
      if (row.cells.size() <= columns_.size()) return false;
      const std::string_view cores = row.cells[columns_.size()];
      const std::size_t dash = cores.find('-');
      const auto first = parse_number<int>(cores.substr(0, dash));
      const auto last = dash == std::string_view::npos ? std::nullopt : parse_number<int>(cores.substr(dash + 1));
      return first && last && *last - *first == 71;
    });
  }

  /// By the name that `nvidia-smi -L` gives, where its output stands beside the matrix; else by the number of links.
  const GpuFacts& facts(const NodeSpec& node, int links, bool grace) const {
    static const GpuFacts kUnknown{"", 0, kGpuFacts[0].link, 0, kGpuFacts[0].pcie, kGpuFacts[0].nic};
    if (gpu_ != nullptr || similar_ != nullptr) return gpu_ != nullptr ? *gpu_ : *similar_;
    if (!names_.empty()) return kUnknown;
    if (grace && node.link == IntraLink::nvswitch) return *named("gb200");
    if (grace) return *named("gh200");
    const bool switched = node.link == IntraLink::nvswitch;  // and so on modules, not on cards with bridges
    for (const GpuFacts& facts : kGpuFacts)
      if (facts.links == links && facts.compute_capability > 0 && !facts.only_by_name &&
          !(switched && facts.name.ends_with("-pcie")))
        return facts;
    return kGpuFacts[0];
  }

  /// Other GPUs that look the same in the matrix.
  static std::string others_like(const GpuFacts& known, int links, bool grace) {
    std::string names;
    for (const GpuFacts& other : kGpuFacts)
      if (other.links == links && other.compute_capability > 0 && !other.only_by_name && other.name != known.name &&
          other.name.starts_with('g') == grace && other.name.find('-') == std::string_view::npos)
        names += fmt::format("{}{}", names.empty() ? "" : " ", other.name);
    return names;
  }

  ImportedTopology topology() const {
    ImportedTopology imported;
    imported.format = "nvidia-smi topo -m";
    NodeSpec& node = imported.cluster.node;
    node.gpus = node.gpus_per_host = static_cast<int>(gpus_);
    int links = 0;
    join_gpus(node, links, imported.notes);
    const bool grace = on_grace();
    const GpuFacts& known = facts(node, links, grace);
    imported.cluster.gpu = std::string(known.name);
    const bool without_profile = !names_.empty() && gpu_ == nullptr;
    if (without_profile) {
      imported.cluster.gpu = lower_case(names_.front());
      std::ranges::replace(imported.cluster.gpu, ' ', '-');
    }
    node.gpu_link = {known.link.bytes_per_second * links};
    node.link_latency = node.link == IntraLink::none ? Duration{} : kAssumedLinkLatency;
    node.nvls = node.link == IntraLink::nvswitch && known.compute_capability >= 90;
    node.pcie = known.pcie;
    node.cpu = grace ? CpuKind::grace : CpuKind::intel;
    node.nics = compute_nics();
    const int others = static_cast<int>(columns_.size() - gpus_) - node.nics;
    imported.cluster.fabric = node.nics > 0 ? FabricKind::fat_tree : FabricKind::none;
    if (node.nics > 0) {
      node.nic_rate = known.nic;
      node.nic_latency = kAssumedNicLatency;
      imported.cluster.tiers = {{"fabric", 0, 1, {}}};
    } else {
      imported.cluster.max_nodes = 1;
    }
    imported.found = {{"GPUs", static_cast<std::int64_t>(gpus_)},
                      {"NICs", static_cast<std::int64_t>(columns_.size() - gpus_)},
                      {"NIC rows", nic_rows_},
                      {"NVLinks per GPU", links}};
    const std::string others_alike = others_like(known, links, grace);
    if (names_.size() > 1)
      imported.notes.push_back(fmt::format("GPUs of {} kinds: all are taken as the first", names_.size()));
    if (without_profile)
      imported.notes.push_back(fmt::format("there is no profile of the GPU {}", shortened(names_.front())));
    else if (gpu_ == nullptr)
      imported.notes.push_back(fmt::format(
          "the file does not name the GPU: {} NVLinks{} are taken as a {}{}", links, grace ? " beside a Grace CPU" : "",
          known.name,
          others_alike.empty() ? "" : fmt::format("; {} would look the same, so set \"gpu\"", others_alike)));
    if (!grace) imported.notes.emplace_back("the file does not name the CPU: taken as intel");
    if (known.name.starts_with("gb") && node.gpus == 4)
      imported.notes.emplace_back(
          "a rack joins the NVSwitches of 18 hosts, which the matrix of one host does not show: "
          "node.gpus = 72 and gpus_per_host = 4 describe it (topologies/gb200-nvl72.json)");
    imported.notes.push_back(fmt::format("the file has no rates: taken as {}{} PCIe{}",
                                         links > 0 ? to_text(known.link) + " a link, " : "", to_text(known.pcie),
                                         node.nics > 0 ? ", " + to_text(known.nic) + " a NIC" : ""));
    if (others > 0)
      imported.notes.push_back(fmt::format("{} NICs without a GPU on their PCIe switches are left out", others));
    return imported;
  }

  std::string text_;
  std::string file_;
  int header_line_ = 0;
  std::size_t gpus_ = 0;
  std::vector<std::string> columns_;  ///< GPUs, then NICs
  std::vector<NvidiaSmiRow> rows_;
  int nic_rows_ = 0;
  std::vector<std::string> names_;     ///< of `nvidia-smi -L`, each kind once
  const GpuFacts* gpu_ = nullptr;      ///< of the first of them; nullptr: no name, or an unknown one
  const GpuFacts* similar_ = nullptr;  ///< without gpu_: of its model, in another form or with other memory
  bool header_ended_ = false;          ///< the words after the last column were there
  bool open_row_ = false;              ///< the last row may go on
};

Result<ImportedTopology> read_nvidia_smi_topology(std::string_view text, const std::string& file) {
  return NvidiaSmiReader(text, file).read().and_then(possible_in(file));
}

bool is_nvidia_smi(std::string_view content, std::string_view) {
  return head_contains(content, "GPU0") && head_contains(content, " X ") && !is_json_object(content);
}

}  // namespace

const Importer kNvidiaSmi{"nvidia-smi", "output of `nvidia-smi topo -m`: one node", "topology_import.md", is_nvidia_smi,
                          read_nvidia_smi_topology};

}  // namespace tracecast
