#include "tools/calibrate/collective_samples.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "tools/calibrate/table.hpp"

namespace tracecast::calibrate {
namespace {

using Samples = std::vector<CollectiveSample>;

/// nccl-tests' systems and the topologies that stand for them.
const std::map<std::string, std::string>& topology_of_system() {
  static const std::map<std::string, std::string> kSystems{{"abci-a", "abci-a"},
                                                           {"polaris", "polaris"},
                                                           {"sirius", "polaris"},
                                                           {"sophia", "dgx-a100"},
                                                           {"aac10-mi300x", "hgx-mi300x"},
                                                           {"BM.GPU.MI300X.8", "hgx-mi300x"},
                                                           {"p4de.24xlarge", "aws-p4de"},
                                                           {"p5.48xlarge", "aws-p5"},
                                                           {"p5en.48xlarge", "aws-p5en"},
                                                           {"cw-gb200-1rack", "gb200-nvl72"},
                                                           {"cw-gb200-20rack", "gb200-nvl72"},
                                                           {"BM.GPU.GB200-v3.4(2 racks)", "oci-gb200"},
                                                           {"a3-megagpu-8g", "gcp-a3mega"},
                                                           {"a4-highgpu-8g", "gcp-a4"},
                                                           {"smc", "dgx-h100"},
                                                           {"issue309-vmware-vm", "dgx-h100"},
                                                           {"issue309b", "dgx-h100"},
                                                           {"nebius-h200", "dgx-h200"},
                                                           {"azure-ndv4-like", "azure-ndv4"},
                                                           {"ndv4-1node", "azure-ndv4"},
                                                           {"kestrel", "kestrel"},
                                                           {"dgxc-h100", "dgx-h100"},
                                                           {"BM.GPU.H100.8", "azure-ndv5"},
                                                           {"BM.GPU4.8", "oci-bm-gpu4"},
                                                           {"BM.GPU4.8(2024)", "oci-bm-gpu4"},
                                                           {"snellius", "snellius"},
                                                           {"li-plus-playground", "dgx-a100"}};
  return kSystems;
}

const std::map<std::string, std::string>& topology_of_gpu() {
  static const std::map<std::string, std::string> kGpus{{"A100-SXM-80GB", "dgx-a100"},
                                                        {"H100-SXM", "dgx-h100"},
                                                        {"H200-SXM", "dgx-h200"},
                                                        {"B200-SXM", "dgx-b200"},
                                                        {"B300-SXM", "hgx-b300"},
                                                        {"GB300", "gb300-nvl72"},
                                                        {"RTX-PRO-6000", "rtx-pro-6000-pcie"}};
  return kGpus;
}

const std::map<std::string, Collective>& collectives() {
  static const std::map<std::string, Collective> kNames{{"all_reduce", Collective::all_reduce},
                                                        {"all_gather", Collective::all_gather},
                                                        {"reduce_scatter", Collective::reduce_scatter},
                                                        {"alltoall", Collective::all_to_all},
                                                        {"broadcast", Collective::broadcast},
                                                        {"sendrecv", Collective::send_recv},
                                                        {"send_recv", Collective::send_recv}};
  return kNames;
}

template <class T>
const T* look_up(const std::map<std::string, T>& map, const std::string& key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

bool usable(double seconds) { return std::isfinite(seconds) && seconds > 0; }

/// Out-of-place rows begin with warm-up spikes: the smaller of both times counts.
double best_us(double out_of_place, double in_place) {
  if (!usable(out_of_place)) return in_place;
  return usable(in_place) ? std::min(out_of_place, in_place) : out_of_place;
}

void add_nccl_tests(const Table& table, Samples& samples) {
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const auto text = [&](const char* column) { return table.text(row, table.column(column)); };
    const auto* topology = look_up(topology_of_system(), text("system"));
    const auto* collective = look_up(collectives(), text("collective"));
    const double us =
        best_us(table.number(row, table.column("time_us_oop")), table.number(row, table.column("time_us_ip")));
    if (topology == nullptr || collective == nullptr || text("recommended") != "True" || !usable(us)) continue;
    const Bytes size{table.integer(row, table.column("size_bytes"))};
    CollectiveSample sample{
        "nccl-tests: " + text("source"), text("system"), *topology, 0, {*collective, size}, us * 1e-6};
    sample.ranks = static_cast<int>(table.integer(row, table.column("nranks")));
    if (text("settings").find("ALGO=Ring") != std::string::npos) sample.call.algorithm = Algorithm::ring;
    if (sample.topology == "aws-p5" && sample.ranks <= 8)
      sample.topology = "dgx-h100";                              // the same board, no NIC in use
    if (*collective == Collective::send_recv) sample.ranks = 2;  // each rank sends to its neighbour, all at once
    samples.push_back(sample);
  }
}

void add_aiconfigurator(const Table& table, Samples& samples) {
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const auto text = [&](const char* column) { return table.text(row, table.column(column)); };
    const auto* topology = look_up(topology_of_gpu(), text("gpu"));
    const auto* collective = look_up(collectives(), text("collective"));
    const double us = table.number(row, table.column("time_us"));
    if (topology == nullptr || collective == nullptr || text("dtype") != "half" || !usable(us)) continue;
    const int ranks = static_cast<int>(table.integer(row, table.column("nranks")));
    const Bytes size{table.integer(row, table.column("size_bytes"))};
    samples.push_back(
        {"aiconfigurator: nccl_intranode", text("gpu"), *topology, ranks, {*collective, size}, us * 1e-6});
  }
}

/// One row in 16, and only groups inside one node: the second node of that testbed hung on a single slow NIC.
void add_vidur(const Table& table, Samples& samples) {
  const std::map<std::string, std::string> kSystems{{"a100_dgx", "dgx-a100"}, {"h100_dgx", "dgx-h100"}};
  for (std::size_t row = 0; row < table.rows(); row += 16) {
    const auto* topology = look_up(kSystems, table.text(row, table.column("system")));
    const auto* collective = look_up(collectives(), table.text(row, table.column("collective")));
    const std::int64_t ranks = table.integer(row, table.column("num_workers"));
    const std::int64_t bytes = table.integer(row, table.column("size"));
    const double ms = table.number(row, table.column("time_ms_median"));
    const bool one_node = table.integer(row, table.column("devices_per_node")) == ranks;
    if (topology == nullptr || collective == nullptr || !one_node || bytes < 64 << 10 || !usable(ms)) continue;
    samples.push_back({"vidur",
                       table.text(row, table.column("system")),
                       *topology,
                       static_cast<int>(ranks),
                       {*collective, {bytes}},
                       ms * 1e-3});
  }
}

/// Ratios of 400 GB/s per node for rings over 2 to 128 nodes of 8 GPUs, turned back into times.
void add_simai(const Table& table, Samples& samples) {
  const std::map<std::string, int> kColumns{{"2Node-16GPU(NIC )", 16},     {"4Node-32GPU(NIC)", 32},
                                            {"8Node-64GPU(NIC)", 64},      {"16Node-128GPU(NIC)", 128},
                                            {"32Node-256GPU(NIC)", 256},   {"64Node-512GPU(NIC)", 512},
                                            {"128Node-1024GPU(NIC)", 1024}};
  for (std::size_t row = 0; row < table.rows(); ++row) {
    for (const auto& [column, ranks] : kColumns) {
      const double ratio = table.number(row, table.column(column));
      const std::int64_t bytes = table.integer(row, table.column("Size"));
      if (!usable(ratio)) continue;
      const double seconds = 2.0 * (ranks - 1) / ranks * static_cast<double>(bytes) / (ratio * 400e9);
      samples.push_back({"simai: nic_ratio",
                         "8 x 400G",
                         "dgx-h100",
                         ranks,
                         {Collective::all_reduce, {bytes}, Algorithm::ring},
                         seconds});
    }
  }
}

}  // namespace

Result<std::vector<CollectiveSample>> read_collective_samples(const std::filesystem::path& data) {
  Samples samples;
  const std::vector<std::pair<std::string, void (*)(const Table&, Samples&)>> kSources{
      {"nccl-tests/nccl_tests.csv", add_nccl_tests},
      {"aiconfigurator/nccl_intranode.csv.gz", add_aiconfigurator},
      {"vidur/network_profiles.csv.gz", add_vidur},
      {"simai-ratio/nic_ratio.csv", add_simai}};
  for (const auto& [file, add] : kSources) {
    const Result<Table> table = Table::read(data / "collectives" / file);
    if (!table) return tl::unexpected(table.error());
    add(*table, samples);
  }
  return samples;
}

}  // namespace tracecast::calibrate
