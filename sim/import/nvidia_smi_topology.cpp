/// `nvidia-smi topo -m`: a matrix of how each GPU reaches each GPU and NIC.
#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/format.h>

#include "sim/base/quantity_text.hpp"
#include "sim/base/words.hpp"
#include "sim/import/gpu_facts.hpp"
#include "sim/import/importers.hpp"
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
    const bool header = columns_.empty() && words[0] == "GPU0" && (words.size() == 1 || words[1] != "X");
    if (header) {
      header_line_ = line;
      for (const std::string_view word : words) {
        if (word == "CPU" || word == "NUMA" || word == "GPU") break;
        gpus_ += is_numbered(word, "GPU") ? 1 : 0;
        columns_.emplace_back(word);
      }
    } else if (!columns_.empty() && is_numbered(words[0], "GPU") && words.size() > 1) {
      rows_.push_back({line, std::string(words[0]), {words.begin() + 1, words.end()}});
    } else if (!columns_.empty() && is_numbered(words[0], "NIC") && words.size() > 2) {
      ++nic_rows_;
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

  void join_gpus(NodeSpec& node, int& per_gpu) const {
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
  }

  const GpuFacts& facts(int links) const {
    for (const GpuFacts& facts : kGpuFacts)
      if (facts.links == links && facts.compute_capability > 0) return facts;
    return kGpuFacts[0];
  }

  ImportedTopology topology() const {
    ImportedTopology imported;
    imported.format = "nvidia-smi topo -m";
    NodeSpec& node = imported.cluster.node;
    node.gpus = node.gpus_per_host = static_cast<int>(gpus_);
    int links = 0;
    join_gpus(node, links);
    const GpuFacts& known = facts(links);
    imported.cluster.gpu = std::string(known.name);
    node.gpu_link = {known.link.bytes_per_second * links};
    node.link_latency = Duration{node.link == IntraLink::none ? 0 : 1'000'000};
    node.nvls = node.link == IntraLink::nvswitch && known.compute_capability >= 90;
    node.pcie = known.pcie;
    node.cpu = CpuKind::intel;
    node.nics = compute_nics();
    const int others = static_cast<int>(columns_.size() - gpus_) - node.nics;
    imported.cluster.fabric = node.nics > 0 ? FabricKind::fat_tree : FabricKind::none;
    if (node.nics > 0) {
      node.nic_rate = known.nic;
      node.nic_latency = Duration{1'500'000};
      imported.cluster.tiers = {{"fabric", 0, 1, {}}};
    } else {
      imported.cluster.max_nodes = 1;
    }
    imported.found = {{"GPUs", static_cast<std::int64_t>(gpus_)},
                      {"NICs", static_cast<std::int64_t>(columns_.size() - gpus_)},
                      {"NIC rows", nic_rows_},
                      {"NVLinks per GPU", links}};
    imported.notes.push_back(fmt::format(
        "the file names no GPU and no CPU: {} NVLinks are taken as a {}, the CPU as intel", links, known.name));
    imported.notes.push_back(fmt::format("the file has no rates: taken as {} a link, {} PCIe{}", to_text(known.link),
                                         to_text(known.pcie),
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
};

Result<ImportedTopology> read_nvidia_smi_topology(std::string_view text, const std::string& file) {
  return NvidiaSmiReader(text, file).read();
}

bool is_nvidia_smi(std::string_view content, std::string_view) {
  return head_contains(content, "GPU0") && head_contains(content, " X ") && !is_json_object(content);
}

}  // namespace

const Importer kNvidiaSmi{"nvidia-smi", "output of `nvidia-smi topo -m`: one node", "topology_import.md", is_nvidia_smi,
                          read_nvidia_smi_topology};

}  // namespace tracecast
