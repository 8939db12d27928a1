#include "tools/accuracy/row_scenario.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/cost/slowest_rank.hpp"
#include "sim/io/json_document.hpp"
#include "tools/accuracy/row_machine.hpp"
#include "tools/accuracy/row_part.hpp"

namespace tracecast::accuracy {
namespace {

class MachineReader : RowPart {
 public:
  explicit MachineReader(RowReading& row) : RowPart(row) {}

  void read() {
    Scenario& s = result_.scenario;
    const ReportedMachine reported_machine{text("gpu"),
                                           fields_.number("gpu_mem_gb", 0),
                                           gpus_per_node(),
                                           text("intra_node_link"),
                                           text("inter_node_link"),
                                           text("framework")};
    const std::int64_t ranks = fields_.required_size("gpu_count");
    const MachineClass* machine = find_machine(reported_machine);
    if (machine == nullptr) add_error("gpu", "unknown GPU (allowed: " + known_gpus() + ")");
    if (failed()) return;
    Result<Cluster> cluster = library_.topology(machine->topology);
    if (!cluster) return add_error("gpu", "the topology of its machine cannot be read");
    s.topology = machine->topology;
    s.cluster = std::move(*cluster);
    s.profile_name = machine->profile;
    Result<Profile> profile = library_.profile(s.profile_name.empty() ? s.cluster.gpu : s.profile_name);
    if (!profile) return add_error("gpu", "its profile cannot be read");
    s.profile = std::move(*profile);
    adapt_memory(s.profile, memory_of(reported_machine));
    s.cluster.world_size = static_cast<int>(std::min<std::int64_t>(ranks, 16'777'216));
    s.cluster.max_nodes = 0;  // a machine of this kind, of any size
    if (const Bandwidth board = pcie_of(s.profile); s.cluster.node.link == IntraLink::pcie && board > Bandwidth{})
      s.cluster.node.pcie = board;
    if (std::string changed = adapt_node(s.cluster, reported_machine, machine->by_network); !changed.empty())
      assume(std::move(changed));
    if (!reported("gpus_per_node") && reported_machine.gpus_per_node == s.cluster.node.gpus)
      assume(fmt::format("GPUs per node not reported: {}, of gpu_count and nodes", s.cluster.node.gpus));
    if (s.cluster.node.nics == 0 && s.cluster.world_size > s.cluster.node.gpus)
      return add_error("inter_node_link",
                       fmt::format("must say how nodes of {} GPUs are connected", s.cluster.node.gpus));
    if (!machine->by_network) assume_network(*machine);
    prepare(s);
  }

 private:
  /// Those of a column, else as many as there are to each of `nodes`. A single node may have more than the run uses.
  int gpus_per_node() {
    constexpr int kUsual = 8;
    const int ranks = fields_.small_count("gpu_count", 0), nodes = fields_.small_count("nodes", 0);
    if (reported("gpus_per_node") || nodes == 0 || ranks % nodes != 0) return fields_.small_count("gpus_per_node", 0);
    return nodes > 1 || ranks > kUsual ? ranks / nodes : 0;
  }

  void assume_network(const MachineClass& machine) {
    const std::string& words = text("inter_node_link");
    if (words.empty() || words.find("not printed") != std::string::npos)
      assume(fmt::format("network between nodes not reported: {}", machine.topology));
    else if (!reported_network(words) && result_.scenario.cluster.world_size > result_.scenario.cluster.node.gpus)
      assume(fmt::format("no rate read in '{}': the network of {}", shortened(words), machine.topology));
  }

  /// A part with less or more memory than that of the profile, "H100 64 GB".
  void adapt_memory(Profile& profile, double gigabytes) {
    constexpr double kOther = 0.15, kGiB = 1024.0 * 1024 * 1024;
    const double bytes = std::min(gigabytes, 10'000.0) * kGiB;
    if (bytes <= 0 || std::abs(bytes / static_cast<double>(profile.memory.count) - 1) < kOther) return;
    profile.memory = Bytes{std::llround(bytes)};
    assume(fmt::format("memory of {:g} GB as reported; otherwise {}", gigabytes, profile.name));
  }

  /// PyTorch's fused attention is cuDNN's on Hopper since 2.11, torchtitan's, which asks for it, since 2.10.
  /// docs/references.md#attention-by-year
  bool prefers_cudnn(const Stack& stack) const {
    const auto kernel = stack.attention_kernels.find("Hopper");
    if (kernel == stack.attention_kernels.end() || kernel->second != "fa2") return false;
    const int minor = std::max(number_after(text("notes"), "PyTorch 2."), number_after(framework_, "PyTorch 2."));
    return minor >= (stack.name == "torchtitan" ? 10 : 11);
  }

  /// The release in a framework's name, "NeMo 24.07", dates the stack.
  void prepare(Scenario& s) {
    s.gpu_spread = kGpuSpread;
    std::optional<Stack> stack;
    if (stack_ != nullptr) stack = *stack_;
    if (const double year = year_of_release(framework_); stack && stack->released > 0 && year > 0)
      stack->released = year;
    if (stack && prefers_cudnn(*stack)) {
      stack->attention_kernels.erase("Hopper");
      assume("attention of cuDNN, which PyTorch of that release prefers on Hopper");
    }
    prepare_profile(s.profile, stack ? &*stack : nullptr, s.model.moe.has_value(), std::max(1, s.cluster.world_size),
                    s.gpu_spread);
  }
};

/// True if the row says that its model has experts, or names a shipped one that has.
bool has_experts(RowReading& row) {
  if (reports_experts(row.fields)) return true;
  if (row.fields.reported("layers")) return false;
  const std::optional<Model> shipped = row.library.model(row.fields.text("model_name"));
  return shipped && shipped->moe;
}

/// A column as stacks ask for it: the GPU by its part number, `arch` (dense, moe) by the experts, the stage of ZeRO as a number.
std::string column_for_stack(RowReading& row, const std::string& column) {
  const std::string& text = row.fields.text(column.c_str());
  if (column == "gpu") return gpu_name(text).part;
  if (column == "arch") return has_experts(row) ? "moe" : "dense";
  if (column == "task") return usual_word("task", text);
  if (column != "zero_stage") return text;
  const std::optional<int> stage = named_zero_stage(row.fields);
  return stage ? std::to_string(*stage) : text;
}

/// The stack by the framework, else by one that works alike.
void choose_stack(RowReading& row) {
  const auto find = [&](const std::string& framework) {
    return find_stack(row.library.stacks(), framework, row.fields.text("source"),
                      [&](const std::string& column) { return column_for_stack(row, column); });
  };
  row.framework = framework_name(row.fields, has_experts(row));
  row.stack = find(row.framework);
  if (row.stack != nullptr) return;
  const std::string similar = similar_framework(row.framework);
  if (!similar.empty()) row.stack = find(similar);
  row.result.assumptions.push_back(row.stack == nullptr ? "unknown software stack: general defaults"
                                                        : fmt::format("{} is taken as {}", row.framework, similar));
}

}  // namespace

bool reports_experts(TableFields& fields) {
  if (lower_case(fields.text("moe_experts")) == "dense") return false;
  if (fields.reported("moe_experts")) return fields.number("moe_experts", 0) > 1;
  const std::string& arch = fields.text("arch");
  return affirms(arch, "moe") || affirms(arch, "mixture of experts") || lower_case(arch) == "sparse";
}

double year_of_release(const std::string& framework) {
  for (const std::string_view word : split_words(framework, " ()/:,")) {
    const auto digit = [&](std::size_t at) { return at < word.size() && word[at] >= '0' && word[at] <= '9'; };
    if (!digit(0) || !digit(1) || word.size() < 5 || word[2] != '.' || !digit(3) || !digit(4)) continue;
    const int year = 10 * (word[0] - '0') + word[1] - '0', month = 10 * (word[3] - '0') + word[4] - '0';
    if (year >= 18 && month >= 1 && month <= 12) return 2000 + year + (month - 0.5) / 12;
  }
  return 0;
}

Result<RowScenario> scenario_of_row(const CsvTable& table, std::size_t row, const RowLibrary& library) {
  RowReading reading{TableFields(table, row), library, {}, nullptr, {}};
  TableFields& fields = reading.fields;
  RowScenario& result = reading.result;
  result.row = row;
  choose_stack(reading);
  if (reading.stack != nullptr) {
    result.stack = reading.stack->name;
    result.memory_report = reading.stack->memory_report;
  }
  read_model(reading);
  MachineReader(reading).read();
  for (const auto read : {read_parallel, read_training, complete_model})
    if (!fields.problem()) read(reading);
  if (fields.problem()) return fail(*fields.problem());
  Scenario& s = result.scenario;
  s.name = fields.text("id").empty() ? fmt::format("row {}", fields.line()) : fields.text("id");
  s.source = fields.text("source");
  if (const double time = fields.number("step_time_s", 0); time > 0) s.measured = Measured{time, fields.text("source")};
  return std::move(result);
}

}  // namespace tracecast::accuracy
