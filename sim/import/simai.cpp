#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/import/importers.hpp"
#include "sim/io/csv_table.hpp"
#include "sim/io/json_document.hpp"

namespace tracecast {
namespace {

constexpr std::int64_t kMaxNanoseconds = std::int64_t{86'400} * 1'000'000'000;
constexpr std::size_t kMaxLayers = 1'000'000;
constexpr int kMaxRanks = 1 << 24;

constexpr std::pair<std::string_view, Collective> kSimaiCollectives[] = {{"ALLREDUCE", Collective::all_reduce},
                                                                         {"ALLGATHER", Collective::all_gather},
                                                                         {"REDUCESCATTER", Collective::reduce_scatter},
                                                                         {"ALLTOALL", Collective::all_to_all},
                                                                         {"BROADCAST", Collective::broadcast}};

/// One pass of one layer.
struct LayerPart {
  std::int64_t nanoseconds = 0;
  std::optional<Collective> collective;
  std::string group;
  std::int64_t bytes = 0;
};

struct Layer {
  std::string name;
  LayerPart forward;
  LayerPart input_gradient;
  LayerPart weight_gradient;
  std::int64_t update_ns = 0;
};

/// Line 1 names the layout, line 2 counts the layers, then each has a line of 12 fields.
class Workload {
 public:
  explicit Workload(std::string file) : file_(std::move(file)) {}

  Result<ImportedGraph> read(std::string_view content) {
    std::int64_t declared = -1;
    for (const std::string_view line : split_lines(content)) {
      const std::vector<std::string_view> words = split_words(line);
      if (++line_ == 1) {
        if (const auto ok = layout(words); !ok) return tl::unexpected(ok.error());
      }
      if (line_ == 1 || words.empty()) continue;
      if (declared < 0) {
        declared = parse_number<std::int64_t>(words[0]).value_or(-1);
        if (declared < 0) return fail_at(words[0], "must be a number of layers");
      } else if (layers_.size() < kMaxLayers) {
        if (const auto ok = layer(words); !ok) return tl::unexpected(ok.error());
      }
    }
    if (declared != static_cast<std::int64_t>(layers_.size()))
      return fail({file_, 2, "", "", fmt::format("{} layers are declared, and {} follow", declared, layers_.size())});
    return step();
  }

 private:
  tl::unexpected<Error> fail_at(std::string_view value, const std::string& message) const {
    return fail({file_, line_, "", "", fmt::format("'{}' {}", shortened(value), message)});
  }

  /// The sizes of its groups, of which older files have that of tensor parallelism only.
  Result<void> layout(const std::vector<std::string_view>& words) {
    const std::pair<std::string_view, int*> keys[] = {{"model_parallel_NPU_group:", &tensor_},
                                                      {"ep:", &expert_},
                                                      {"expert_parallel_npu_group:", &expert_},
                                                      {"pp:", &pipeline_},
                                                      {"all_gpus:", &ranks_}};
    for (std::size_t i = 0; i + 1 < words.size(); ++i)
      for (const auto& [key, into] : keys) {
        if (words[i] != key) continue;
        const auto count = parse_number<int>(words[i + 1]);
        if (!count || *count < 1 || *count > kMaxRanks)
          return fail_at(words[i + 1], fmt::format("of {} must be a number of ranks (1 to {})", key, kMaxRanks));
        *into = *count;
      }
    const std::int64_t model = std::int64_t{tensor_} * pipeline_;
    if (model > kMaxRanks || model * expert_ > kMaxRanks)
      return fail_at(words[0], fmt::format("names a layout of more than {} ranks: {} (tensor) x {} (pipeline) x {} "
                                           "(experts)",
                                           kMaxRanks, tensor_, pipeline_, expert_));
    if (ranks_ > 0 && (ranks_ % model != 0 || ranks_ / model % expert_ != 0))
      return fail_at(std::to_string(ranks_),
                     fmt::format("ranks are not a multiple of {} (tensor) x {} (pipeline) x {} (experts)", tensor_,
                                 pipeline_, expert_));
    return {};
  }

  /// Tensor ranks are neighbours, then come those of experts, of data, of the pipeline.
  static ImportedGroup group(const std::string& name, int ranks, int tensor, int expert, int pipeline) {
    const int data = std::max(1, ranks / tensor / pipeline);
    if (name == "EP") return {expert, tensor};
    if (name == "DP") return {data, tensor};
    if (name == "DP_EP") return {std::max(1, data / expert), tensor * expert};
    return {tensor, 1};
  }

  /// name dependency, then thrice (time collective bytes), then the time of the update
  Result<void> layer(const std::vector<std::string_view>& words) {
    if (words.size() != 12)
      return fail_at(words[0], fmt::format("begins a layer of {} fields (allowed: 12)", words.size()));
    Layer layer;
    layer.name = shortened(words[0]);
    LayerPart* const parts[] = {&layer.forward, &layer.input_gradient, &layer.weight_gradient};
    for (std::size_t p = 0; p < 3; ++p) {
      const auto time = parse_number<std::int64_t>(words[2 + 3 * p]);
      const auto bytes = parse_number<std::int64_t>(words[4 + 3 * p]);
      if (!time || *time < 0 || *time > kMaxNanoseconds) return fail_at(words[2 + 3 * p], "must be a time in ns");
      if (!bytes || *bytes < 0 || *bytes > kMaxCollectiveBytes)
        return fail_at(words[4 + 3 * p], "must be a size in bytes");
      parts[p]->nanoseconds = *time;
      parts[p]->bytes = *bytes;
      parts[p]->group = p == 2 ? "DP" : "TP";
      if (!collective(words[3 + 3 * p], *parts[p]))
        return fail_at(
            words[3 + 3 * p],
            "unknown collective of SimAI (allowed: NONE ALLREDUCE ALLGATHER REDUCESCATTER ALLTOALL BROADCAST, with "
            "_EP, _DP_EP)");
    }
    const auto update = parse_number<std::int64_t>(words[11]);
    if (!update || *update < 0 || *update > kMaxNanoseconds) return fail_at(words[11], "must be a time in ns");
    layer.update_ns = *update;
    layers_.push_back(std::move(layer));
    return {};
  }

  static bool collective(std::string_view word, LayerPart& part) {
    if (word == "NONE") return true;
    for (const auto& [name, kind] : kSimaiCollectives) {
      if (!word.starts_with(name)) continue;
      part.collective = kind;
      const std::string_view suffix = word.substr(name.size());
      if (!suffix.empty()) part.group = suffix.substr(1);
      return suffix.empty() || suffix == "_EP" || suffix == "_DP_EP";
    }
    return false;
  }

  /// Forward through the layers, backward through them in reverse, updates at the end. The next computation waits for the
  /// collective of a forward or of an input gradient; those of weight gradients run beside it, and the update waits.
  Result<ImportedGraph> step() {
    ImportedGraph result;
    result.format = "SimAI workload";
    result.sizes = ImportedGraph::Sizes::of_larger_buffer;
    result.ranks = ranks_;
    result.group_of = [tensor = tensor_, expert = expert_, pipeline = pipeline_](const std::string& name, int ranks) {
      return group(name, ranks, tensor, expert, pipeline);
    };
    std::int32_t last = -1;
    std::vector<std::int32_t> reduced(layers_.size(), -1);
    for (const Layer& layer : layers_) last = run(result, layer.name + " forward", layer.forward, last);
    for (std::size_t i = layers_.size(); i-- > 0;) {
      last = run(result, layers_[i].name + " input gradient", layers_[i].input_gradient, last);
      const std::int32_t computed =
          compute(result, layers_[i].name + " weight gradient", layers_[i].weight_gradient.nanoseconds, last);
      reduced[i] = communicate(result, layers_[i].name + " weight gradient", layers_[i].weight_gradient, computed);
      last = computed;
    }
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const std::int32_t updated = compute(result, layers_[i].name + " update", layers_[i].update_ns, last);
      if (updated != last && reduced[i] >= 0) result.nodes.back().after.push_back(reduced[i]);
      last = updated;
    }
    const auto collectives = std::count_if(result.nodes.begin(), result.nodes.end(), [](const ImportedNode& n) {
      return n.kind == ImportedNode::Kind::collective;
    });
    result.found = {{"layers", static_cast<std::int64_t>(layers_.size())}, {"collectives", collectives}};
    result.notes.push_back("times are taken as ns; collectives have no times in it, only sizes: --topology gives them");
    if (const auto ok = check_durations(result, file_); !ok) return tl::unexpected(ok.error());
    return result;
  }

  static std::int32_t add(ImportedGraph& step, ImportedNode node, std::int32_t after) {
    node.id = static_cast<std::int64_t>(step.nodes.size());
    if (after >= 0) node.after.push_back(after);
    step.nodes.push_back(std::move(node));
    return static_cast<std::int32_t>(step.nodes.size()) - 1;
  }
  static std::int32_t compute(ImportedGraph& step, std::string name, std::int64_t nanoseconds, std::int32_t after) {
    if (nanoseconds == 0) return after;
    ImportedNode node;
    node.name = std::move(name);
    node.duration = Duration{nanoseconds * 1000};
    return add(step, std::move(node), after);
  }
  static std::int32_t communicate(ImportedGraph& step, std::string name, const LayerPart& part, std::int32_t after) {
    if (!part.collective) return after;
    ImportedNode node;
    node.name = std::move(name);
    node.kind = ImportedNode::Kind::collective;
    node.collective = *part.collective;
    node.group = part.group;
    node.size = Bytes{part.bytes};
    return add(step, std::move(node), after);
  }
  static std::int32_t run(ImportedGraph& step, const std::string& name, const LayerPart& part, std::int32_t after) {
    return communicate(step, name, part, compute(step, name, part.nanoseconds, after));
  }

  std::string file_;
  int line_ = 0;
  int tensor_ = 1;
  int expert_ = 1;
  int pipeline_ = 1;
  int ranks_ = 0;
  std::vector<Layer> layers_;
};

/// AICB's log of what a run sent: one call a row, in order.
Result<ImportedGraph> read_log(std::string_view content, const std::string& file) {
  const Result<CsvTable> table = CsvTable::parse(content, file);
  if (!table) return tl::unexpected(table.error());
  ImportedGraph step;
  step.format = "AICB communication log";
  std::int64_t others = 0;
  for (std::size_t row = 0; row < table->rows(); ++row) {
    std::string word = table->text(row, "comm_type");
    word.erase(0, word.starts_with("CommType.") ? 9 : 0);
    word.erase(std::remove(word.begin(), word.end(), '_'), word.end());
    for (const std::string_view form : {"intotensor", "tensor"})  // all_gather_into_tensor, reduce_scatter_tensor
      if (word.ends_with(form)) word.erase(word.size() - form.size());
    const auto known = std::find_if(std::begin(kSimaiCollectives), std::end(kSimaiCollectives),
                                    [&word](const auto& entry) { return lower_case(entry.first) == lower_case(word); });
    const auto size = parse_number<std::int64_t>(table->text(row, "msg_size"));
    if (known == std::end(kSimaiCollectives) || !size || *size < 0 || *size > kMaxCollectiveBytes) {
      ++others;
      continue;
    }
    ImportedNode node;
    node.id = static_cast<std::int64_t>(step.nodes.size());
    node.name = shortened(table->text(row, "stage"));
    node.kind = ImportedNode::Kind::collective;
    node.collective = known->second;
    node.group = shortened(table->text(row, "comm_group"));
    node.size = Bytes{*size};
    if (!step.nodes.empty()) node.after.push_back(static_cast<std::int32_t>(step.nodes.size()) - 1);
    step.nodes.push_back(std::move(node));
  }
  if (step.nodes.empty()) return fail({file, 0, "comm_type", "", "has no collective with a size"});
  step.found = {{"collectives", static_cast<std::int64_t>(step.nodes.size())}};
  if (others > 0) step.notes.push_back(fmt::format("{} rows without a collective or size were left out", others));
  return step;
}

Result<ImportedGraph> read_simai_workload(std::string_view content, const std::string& file) {
  if (content.find("comm_type,") < 64) {  // a line that says of which ranks may come before the header
    return read_log(content.substr(content.find("comm_type,")), file);
  }
  if (content.starts_with("HYBRID_")) return Workload(file).read(content);
  const auto has = [content](std::string_view part) { return content.find(part) != std::string_view::npos; };
  if (has("busbw:") || has("allreduce,:"))
    return fail(
        {file, 0, "", "", "is SimAI's table of bus bandwidths, which has no sizes: measure with nccl-tests instead"});
  if (has("PACKET_PAYLOAD_SIZE")) return fail({file, 0, "", "", "configures SimAI's ns-3 and describes no step"});
  if (has("NVLink"))
    return fail(
        {file, 0, "", "",
         "is SimAI's table of efficiencies of links, which names no collective: measure with nccl-tests instead"});
  return fail(
      {file, 1, "", "", "is not a workload of SimAI: the first line must begin with HYBRID_TRANSFORMER or comm_type"});
}

bool is_simai(std::string_view content, std::string_view) {
  return content.starts_with("HYBRID_") || content.find("comm_type,comm_group") < 64;
}

}  // namespace

const Importer kSimai{"simai", "workload of SimAI or AICB (text), or AICB's communication log (CSV)", "steps.md",
                      is_simai, read_simai_workload};

}  // namespace tracecast
