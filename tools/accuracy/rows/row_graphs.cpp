#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/io/json_document.hpp"
#include "tools/accuracy/rows/row_part.hpp"

namespace tracecast::accuracy {
namespace {

class GraphsReader : RowPart {
 public:
  explicit GraphsReader(RowReading& row) : RowPart(row) {}

  /// What CUDA graphs launch: whole steps, or parts of layers. Dropless experts have no fixed shapes, so that graphs of an
  /// unknown scope leave them eager; those filled up to a capacity have. docs/references.md#dispatcher-work
  /// True if the row names whole steps.
  bool read() {
    Training& t = result_.scenario.training;
    const std::string graph = reported_graphs();
    const bool experts = result_.scenario.model.moe.has_value();
    const bool some = text("compiled").find("graph") != std::string::npos || mentions("CUDA graph") ||
                      (graph.empty() && (reported("cuda_graph") || captures_in_nemo() || captures_in_bridge()));
    if (drops_tokens()) {
      t.expert_capacity_factor = capacity_factor();
      t.expert_capacity_padding = true;
    }
    if (some && graph.empty() && (!experts || t.expert_capacity_padding)) {
      t.cuda_graphs = true;
    } else if (!graph.empty() && !graph.starts_with("none")) {
      t.cuda_graphs = has_word(graph, "full_iteration");
      for (const auto& each : EnumNames<GraphModule>::table)
        if (!t.cuda_graphs && has_word(graph, each.name)) t.cuda_graph_modules.emplace_back(each.name);
    } else if (graph.empty() && experts && (some || guesses_graphs())) {
      t.cuda_graph_modules = {"attn", "moe_router"};
    }
    return has_word(graph, "full_iteration") && !graph.starts_with("none");
  }

 private:
  /// "CF=1.25", "capacity factor 1.25", "capacity_factor: 1.25"; 1 where a note says none.
  double capacity_factor() const {
    constexpr double kMost = 16;
    std::string notes = lower_case(text("notes"));
    std::ranges::replace(notes, '_', ' ');
    for (const std::string_view words : {"cf=", "capacity factor"}) {
      const std::size_t at = notes.find(words);
      const std::size_t digit = at == std::string::npos ? at : notes.find_first_not_of(" :=of", at + words.size());
      if (digit == std::string::npos || !is_digit(notes[digit])) continue;
      if (const double factor = std::strtod(notes.c_str() + digit, nullptr); factor > 0 && factor < kMost)
        return factor;
    }
    return 1;
  }

  /// The column, else what a note says, in the words of the column. Where a table took the next release's graphs for
  /// Megatron-Bridge 25.09: those of its own recipes that drop tokens (docs/references.md#token-drop).
  std::string reported_graphs() {
    if (is_bridge() && drops_tokens() && text("assumptions").find("of the next release") != std::string::npos) {
      const bool whole = is_of("qwen3-30b");
      assume(fmt::format("CUDA graphs of {}, as in recipes of that release", whole ? "whole steps" : "nothing"));
      return whole ? "full_iteration" : "none";
    }
    if (reported("cuda_graph")) return known_graphs(text("cuda_graph"));
    if (noted({"full-iteration CUDA graph", "full CUDA graph"}).value_or(false)) return "full_iteration";
    return mentions("CUDA graphs of router and preprocessing") ? "moe_router,moe_preprocess" : "";
  }

  /// In the words of the column; empty: graphs of an unknown scope.
  std::string known_graphs(const std::string& reported) {
    std::string graph = lower_case(reported);
    if (graph == "eager") return "none";
    if (const std::optional<bool> yes = truth(graph); yes) return *yes ? "" : "none";
    if (graph == "full" || graph == "full-iter" || graph == "whole step" || graph == "full step")
      return "full_iteration";
    for (const std::string_view spelled : {"full iteration", "full-iteration", "full cuda graph"})
      if (const std::size_t at = graph.find(spelled); at != std::string::npos)
        graph.replace(at, spelled.size(), "full_iteration");
    constexpr std::array kWords{"none", "full_iteration", "attn", "mlp", "mamba", "moe_router", "moe_preprocess"};
    const auto named = [&](const char* word) { return has_word(graph, word); };
    const bool nothing = graph.find_first_not_of(": ") == std::string::npos;
    if (nothing || std::any_of(kWords.begin(), kWords.end(), named)) return graph;
    assume(fmt::format("CUDA graphs '{}': of an unknown scope", shortened(reported)));
    return {};
  }

  /// NeMo's recipes of 2025 capture on Blackwell, but for some models. docs/references.md#nemo-graphs
  bool captures_in_nemo() {
    const Training& t = result_.scenario.training;
    const Parallel& p = result_.scenario.parallel;
    if (!framework_.starts_with("NeMo 25") || result_.scenario.profile.architecture != "Blackwell") return false;
    const auto has_size = [&](const char* size) { return family_.find(size) != std::string::npos; };
    if (!is_fine_tuning() && (is_deepseek() || has_size("405b") || p.zero_stage == 3)) return false;
    if (t.dtype == Precision::mxfp8 && has_size("70b")) return false;
    if (!has_racks() && (is_of("gpt-3") || is_of("gpt3") || is_of("llama-4") || is_of("llama4"))) return false;
    if (has_racks() && (is_of("nemotron-4-340b") || is_of("nemotron4-340b")) && t.dtype == Precision::bf16)
      return false;
    assume("CUDA graphs not reported: as in NeMo's recipes of 2025 for Blackwell");
    return true;
  }

  /// Megatron-Bridge's recipes of Llama 3 8B capture whole steps on Blackwell, but in NVFP4. docs/references.md#nemo-graphs
  bool captures_in_bridge() {
    if (!is_bridge() || !is_llama_3("8b") || reported("recipe") || is_fine_tuning()) return false;
    if (result_.scenario.profile.architecture != "Blackwell" || result_.scenario.training.dtype == Precision::nvfp4)
      return false;
    assume("CUDA graphs not reported: of whole steps, as in Megatron-Bridge's recipes of this model");
    return true;
  }

  /// Megatron-Bridge's recipes of experts since 25.11 capture attention and router on racks (docs/references.md#rack-graphs); a row
  /// that reports the exchange reports graphs, too.
  bool guesses_graphs() {
    if (!is_bridge_since(2025.85) || !has_racks()) return false;
    if (reported("recipe") || reported("moe_dispatcher") || reported("moe_a2a_overlap")) return false;
    assume("CUDA graphs not reported: of attention and router, as in recipes for racks");
    return true;
  }
};

}  // namespace

bool read_row_graphs(RowReading& row) { return GraphsReader(row).read(); }

}  // namespace tracecast::accuracy
