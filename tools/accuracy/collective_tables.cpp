#include "tools/accuracy/collective_tables.hpp"

#include <algorithm>
#include <map>

#include "tools/accuracy/kernel_tables.hpp"
#include "tools/accuracy/rows/table_fields.hpp"

namespace tracecast::accuracy {
namespace {

using Samples = std::vector<CollectiveSample>;

/// Systems of the nccl-tests table, and their topologies.
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
                                                           {"li-plus-playground", "dgx-a100"},
                                                           {"a100_dgx", "dgx-a100"},
                                                           {"h100_dgx", "dgx-h100"}};
  return kSystems;
}

/// The reference system of a GPU, by its profile.
const std::map<std::string, std::string>& topology_of_profile() {
  static const std::map<std::string, std::string> kGpus{{"a100", "dgx-a100"},
                                                        {"a100-40gb", "dgx-a100"},
                                                        {"h100", "dgx-h100"},
                                                        {"h200", "dgx-h200"},
                                                        {"h800", "dgx-h800"},
                                                        {"b200", "dgx-b200"},
                                                        {"b300", "hgx-b300"},
                                                        {"gb200", "gb200-nvl72"},
                                                        {"gb300", "gb300-nvl72"},
                                                        {"mi300x", "hgx-mi300x"},
                                                        {"mi325x", "hgx-mi300x"},
                                                        {"mi355x", "hgx-mi355x"},
                                                        {"rtx-pro-6000", "rtx-pro-6000-pcie"}};
  return kGpus;
}

const std::vector<std::pair<std::string, Collective>> kCollectives{
    {"all_reduce", Collective::all_reduce},         {"all_gather", Collective::all_gather},
    {"reduce_scatter", Collective::reduce_scatter}, {"all_to_all", Collective::all_to_all},
    {"alltoall", Collective::all_to_all},           {"broadcast", Collective::broadcast},
    {"send_recv", Collective::send_recv},           {"sendrecv", Collective::send_recv}};

std::string look_up(const std::map<std::string, std::string>& map, const std::string& key) {
  const auto found = map.find(key);
  return found == map.end() ? "" : found->second;
}

int ranks_of(TableFields& fields, const char* column) {
  constexpr std::int64_t kMaxRanks = 1 << 20;
  const std::int64_t ranks = fields.size(column);
  if (ranks > kMaxRanks) fields.add_error(column, "must be at most 1048576");
  return static_cast<int>(std::min(ranks, kMaxRanks));
}

void read_own(TableFields& fields, const CsvTable& table, Samples& out) {
  CollectiveSample sample;
  sample.row = fields.row();
  sample.source = fields.text("source");
  sample.topology = sample.system = fields.text("topology");
  sample.call = {fields.word("collective", kCollectives, Collective::all_reduce), {fields.size("bytes")}};
  sample.ranks = ranks_of(fields, "ranks");
  if (!table.text(fields.row(), "ranks_per_domain").empty())
    sample.ranks_per_domain = ranks_of(fields, "ranks_per_domain");
  if (!table.text(fields.row(), "nodes").empty()) sample.nodes = ranks_of(fields, "nodes");
  if (sample.nodes > 0 && sample.ranks % sample.nodes != 0)
    fields.add_error("nodes", "must divide the number of ranks");
  sample.seconds = fields.positive("time_us") * 1e-6;
  out.push_back(std::move(sample));
}

/// The smaller of both times, in microseconds; 0: neither is reported.
double best_us(const TableFields& fields, const CsvTable& table) {
  double best = 0;
  for (const char* column : {"time_us_oop", "time_us_ip"})
    if (const std::optional<double> us = table.number(fields.row(), column); us && *us > 0)
      best = best > 0 ? std::min(best, *us) : *us;
  return best;
}

/// False for collectives that the network models do not have (reduce, gather).
bool is_modelled(const std::string& collective) {
  return std::any_of(kCollectives.begin(), kCollectives.end(),
                     [&](const auto& known) { return known.first == collective; });
}

void read_nccl_tests(TableFields& fields, const CsvTable& table, Samples& out) {
  const double us = best_us(fields, table);
  if (!is_modelled(fields.text("collective")) || us <= 0) return;
  CollectiveSample sample;
  sample.row = fields.row();
  sample.source = "nccl-tests: " + fields.text("source");
  sample.system = fields.text("system");
  sample.topology = look_up(topology_of_system(), sample.system);
  sample.ranks = ranks_of(fields, "nranks");
  sample.call = {fields.word("collective", kCollectives, Collective::all_reduce), {fields.size("size_bytes")}};
  sample.seconds = us * 1e-6;
  if (sample.topology.empty()) {
    sample.guessed = true;
    sample.topology = look_up(topology_of_profile(), profile_of_gpu(fields.text("gpu")));
  }
  if (fields.text("settings").find("ALGO=Ring") != std::string::npos) sample.call.algorithm = Algorithm::ring;
  if (sample.topology == "aws-p5" && sample.ranks <= 8) sample.topology = "dgx-h100";  // the same board, no NIC in use
  // All ranks send to the next rank at the same time.
  if (sample.call.collective == Collective::send_recv) sample.ranks = 2;
  if (fields.text("recommended") != "True") sample.excluded = "settings that the source itself calls bad";
  out.push_back(std::move(sample));
}

void read_aiconfigurator(TableFields& fields, const CsvTable&, Samples& out) {
  if (!is_modelled(fields.text("collective"))) return;
  CollectiveSample sample;
  sample.row = fields.row();
  sample.source = "aiconfigurator: nccl_intranode";
  sample.system = fields.text("gpu");
  sample.topology = look_up(topology_of_profile(), profile_of_gpu(sample.system));
  sample.ranks = ranks_of(fields, "nranks");
  sample.call = {fields.word("collective", kCollectives, Collective::all_reduce), {fields.size("size_bytes")}};
  sample.seconds = fields.positive("time_us") * 1e-6;
  if (fields.text("dtype") != "half") sample.excluded = "integers, which cannot use NVLS";
  out.push_back(std::move(sample));
}

void read_vidur(TableFields& fields, const CsvTable&, Samples& out) {
  constexpr std::int64_t kTimerLimit = 64 << 10;
  if (!is_modelled(fields.text("collective"))) return;
  CollectiveSample sample;
  sample.row = fields.row();
  sample.source = "vidur";
  sample.system = fields.text("system");
  sample.topology = look_up(topology_of_system(), sample.system);
  sample.ranks = ranks_of(fields, "num_workers");
  sample.call = {fields.word("collective", kCollectives, Collective::all_reduce), {fields.size("size")}};
  sample.seconds = fields.positive("time_ms_median") * 1e-3;
  if (fields.size("devices_per_node") != sample.ranks)
    sample.excluded = "two nodes behind one slow NIC";
  else if (sample.call.size.count < kTimerLimit)
    sample.excluded = "below what a timer of 1 us resolves";
  out.push_back(std::move(sample));
}

/// Ratios of 400 GB/s per node for rings over 2 to 128 nodes of 8 GPUs, turned back into times.
void read_simai(TableFields& fields, const CsvTable& table, Samples& out) {
  const std::map<std::string, int> columns{{"2Node-16GPU(NIC )", 16},     {"4Node-32GPU(NIC)", 32},
                                           {"8Node-64GPU(NIC)", 64},      {"16Node-128GPU(NIC)", 128},
                                           {"32Node-256GPU(NIC)", 256},   {"64Node-512GPU(NIC)", 512},
                                           {"128Node-1024GPU(NIC)", 1024}};
  constexpr double kNominal = 400e9;
  const std::int64_t bytes = fields.size("Size");
  for (const auto& [column, ranks] : columns) {
    const std::optional<double> ratio = table.number(fields.row(), column);
    if (!ratio || *ratio <= 0) continue;
    CollectiveSample sample;
    sample.row = fields.row();
    sample.source = "simai: nic_ratio";
    sample.system = "8 x 400G";
    sample.topology = "dgx-h100";
    sample.ranks = ranks;
    sample.call = {Collective::all_reduce, {bytes}, Algorithm::ring};
    sample.seconds = 2.0 * (ranks - 1) / ranks * static_cast<double>(bytes) / (*ratio * kNominal);
    out.push_back(std::move(sample));
  }
}

struct Format {
  std::vector<const char*> columns;
  const char* file;  ///< part of its name, where other tables have the same columns
  void (*read)(TableFields&, const CsvTable&, Samples&);
};

const Format* format_of(const CsvTable& table) {
  static const std::vector<Format> kFormats{
      {{"topology", "collective", "ranks", "bytes", "time_us"}, "", read_own},
      {{"source", "system", "gpu", "collective", "nranks", "size_bytes", "time_us_oop", "time_us_ip"},
       "",
       read_nccl_tests},
      {{"gpu", "nccl", "collective", "dtype", "nranks", "size_bytes", "time_us"}, "", read_aiconfigurator},
      {{"system", "collective", "num_workers", "devices_per_node", "size", "time_ms_median"}, "", read_vidur},
      {{"Size", "2Node-16GPU(NIC )", "128Node-1024GPU(NIC)"}, "nic_ratio", read_simai}};
  const auto format = std::find_if(kFormats.begin(), kFormats.end(), [&](const Format& f) {
    return has_all(table, f.columns) && table.file().find(f.file) != std::string::npos;
  });
  return format == kFormats.end() ? nullptr : &*format;
}

}  // namespace

std::vector<int> ranks_of_group(const Cluster& cluster, const CollectiveSample& sample) {
  int in_domain = cluster.node.gpus;
  if (sample.nodes > 0 && cluster.node.gpus == cluster.node.gpus_per_host) in_domain = sample.ranks / sample.nodes;
  if (sample.ranks_per_domain > 0) in_domain = sample.ranks_per_domain;
  std::vector<int> all(static_cast<std::size_t>(sample.ranks));
  for (int i = 0; i < sample.ranks; ++i)
    all[static_cast<std::size_t>(i)] = i / in_domain * cluster.node.gpus + i % in_domain;
  return all;
}

bool is_collective_table(const CsvTable& table) { return format_of(table) != nullptr; }

Result<Samples> read_collectives(const CsvTable& table) {
  const Format* format = format_of(table);
  if (format == nullptr)
    return fail({table.file(), 1, "", "",
                 has_all(table, {"collective", "ranks", "bytes", "time_us"})
                     ? "has no column topology, the machine that was measured (tracecast import --topology MACHINE "
                       "writes it)"
                     : "unknown columns of a table of collectives (allowed: "
                       "topology,collective,ranks,bytes,time_us and the tables of docs/formats/runs.md)"});
  Samples samples;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    TableFields fields(table, row);
    format->read(fields, table, samples);
    if (fields.problem()) return fail(*fields.problem());
  }
  return samples;
}

}  // namespace tracecast::accuracy
