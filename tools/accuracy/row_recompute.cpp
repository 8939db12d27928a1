#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sim/base/integers.hpp"
#include "sim/base/words.hpp"
#include "sim/io/json_document.hpp"
#include "sim/model/parameters.hpp"
#include "tools/accuracy/row_part.hpp"

namespace tracecast::accuracy {
namespace {

class RecomputeReader : RowPart {
 public:
  explicit RecomputeReader(RowReading& row) : RowPart(row) {}

  void read() {
    Training& t = result_.scenario.training;
    choose(t);
    if (t.recompute == Recompute::full) t.recompute_modules.clear();  // a stack's
  }

 private:
  void choose(Training& t) {
    const std::string detail = lower_case(text("recompute_detail"));
    const std::string recompute = recompute_word(detail);
    t.recompute = Recompute::none;
    if (recompute.empty() && reported("recipe")) return read_recipe(t);
    if (recompute.empty() && recomputed_as_in_recipes(t)) return;
    if (runs("maxtext") && read_policy(t)) return;
    if (recompute == "full") {
      t.recompute = Recompute::full;
    } else if (recompute == "selective_attention") {
      t.recompute = Recompute::selective;
    } else if (recompute == "op") {
      t.recompute = Recompute::selective_op;
    } else if (detail == "every 2nd layer" || detail == "every second layer" || detail == "every other layer") {
      t.recompute = Recompute::full;
      t.recompute_num_layers = std::max(
          1, result_.scenario.model.num_layers / (2 * result_.scenario.parallel.pp * result_.scenario.parallel.vpp));
    } else if (recompute == "selective_other" && read_modules(t, detail)) {
      return;
    } else if (const int layers = layers_in(detail.empty() ? lower_case(text("recompute")) : detail); layers > 0) {
      t.recompute = Recompute::full;
      t.recompute_num_layers = layers;
    } else if (recompute.starts_with("selective") || recompute == "partial_layers") {
      assume(fmt::format("recomputation of '{}' is left out of the time", detail.empty() ? recompute : detail));
    } else if (recompute.empty()) {
      result_.guess_recompute = true;
    } else if (recompute != "none") {
      result_.guess_recompute = true;
      assume(fmt::format("recomputation '{}' is not known: the least that fits", shortened(text("recompute"))));
    }
  }

  /// The field in the words of the table, "op" for torchtitan's selective recomputation of operators.
  std::string recompute_word(const std::string& detail) const {
    const std::string word = lower_case(text("recompute"));
    if (word.empty()) return word;
    const std::optional<bool> yes = truth(word);
    if (yes) return *yes ? "full" : "none";
    if (!affirms(word, "checkpointing") && word.find("checkpointing") != std::string::npos) return "none";
    if (denies(word)) return "none";
    const bool of_operators = detail.starts_with("op") || detail.find("selective op") != std::string::npos ||
                              has_word(detail, "sac") || has_word(word, "sac") || has_word(word, "op");
    const bool of_pytorch = stack_ != nullptr && stack_->name.find("torchtitan") != std::string::npos;
    if (of_operators || (word == "selective" && of_pytorch)) return "op";
    if (word == "partial_layers" || word.starts_with("selective_")) return word;
    if (word.starts_with("selective ")) return of_pytorch ? "op" : "selective_attention";
    if (word.starts_with("full on ") && detail.empty()) return "partial_layers";
    if (word.starts_with("full") || word.find("checkpointing") != std::string::npos) return "full";
    if (word == "selective" || word.find("core_attn") != std::string::npos) return "selective_attention";
    return word;
  }

  /// What the recipes of a framework recompute where neither the source nor a column says it: of Pax by size
  /// (docs/references.md#pax-recipes), of DeepSeek-V3 in Megatron-Bridge the up-projections of latent attention, as in all of release
  /// 25.11; tables of later ones name their recipes.
  bool recomputed_as_in_recipes(Training& t) {
    if (is_bridge() && is_deepseek()) return read_modules(t, "mla_up_proj");
    if (const char* recipes = framework_that_checkpoints()) {
      t.recompute = Recompute::full;
      assume(fmt::format("recomputation not reported: full, as in {}", recipes));
      return true;
    }
    if (runs("torchtitan") || runs("torchtitan-2024")) return recomputed_as_in_torchtitan(t);
    if (!runs("pax")) return false;
    // 768 of its 126M, 4,096 of its 5B, 12,288 of its 175B
    const std::int64_t hidden = result_.scenario.model.hidden_size;
    if (hidden > 768 && hidden < 12'288) return read_modules(t, "core_attn, norm, act");
    if (hidden >= 12'288) t.recompute = Recompute::full;
    assume(fmt::format("recomputation not reported: {}, as in paxml's recipes", to_string(t.recompute)));
    return true;
  }

  /// docs/references.md#recompute-defaults; nullptr: the framework has no such default.
  const char* framework_that_checkpoints() const {
    const std::string small = lower_case(text("framework"));
    for (const auto& [word, recipes] :
         {std::pair{"factory", "LLaMA-Factory's default"}, std::pair{"llamafactory", "LLaMA-Factory's default"},
          std::pair{"trl", "TRL's default"}, std::pair{"axolotl", "Axolotl's examples"}})
      if (small.find(word) != std::string::npos) return recipes;
    return runs("gpt-neox") ? "GPT-NeoX's configurations" : nullptr;
  }

  /// By size: operators of its 8B, whole layers of its 70B, 405B and 671B. docs/references.md#recompute-defaults
  bool recomputed_as_in_torchtitan(Training& t) {
    constexpr std::int64_t kLarge = 30'000'000'000;
    const bool large = parameter_count(result_.scenario.model).total() > kLarge;
    t.recompute = large ? Recompute::full : Recompute::selective_op;
    result_.guess_recompute = !large;
    assume(fmt::format("recomputation not reported: {}, as in torchtitan's configurations of that size",
                       large ? "full" : "of operators"));
    return true;
  }

  /// MaxText's remat_policy, whose default is full. Policies that save some multiplications have no key here: the one that saves
  /// all of them repeats norms and activations, the others everything. docs/references.md#maxtext
  bool read_policy(Training& t) {
    const std::string& policy = text("recompute_detail");
    if (text("recompute") == "none") return false;
    if (policy.find("minimal") != std::string::npos) return read_modules(t, "norm, act");
    if (!text("recompute").empty() && text("recompute") != "selective_other") return false;
    t.recompute = Recompute::full;
    assume(policy.find("save_") == std::string::npos
               ? "recomputation not reported: full, as MaxText's default"
               : fmt::format("recomputation of '{}': taken as full, which repeats what it saves, too", policy));
    return true;
  }

  /// "full on 5 layers of each stage", or "full on 10 of 80 layers" of the model; 0: the text says something else.
  int layers_in(const std::string& detail) {
    const Parallel& p = result_.scenario.parallel;
    const std::string word = lower_case(text("recompute"));
    if ((word != "partial_layers" && !word.starts_with("full on ")) || !detail.starts_with("full on ")) return 0;
    const int layers = number_after(detail, "full on ");
    const bool each = p.pp * p.vpp == 1 || detail.find("each stage") != std::string::npos;
    if (each || number_after(detail, " of ") != result_.scenario.model.num_layers) return each ? layers : 0;
    assume(fmt::format("recomputation of '{}': spread evenly over the stages", detail));
    return ceil_div(layers, p.pp * p.vpp);
  }

  /// What the launcher's recipe recomputes: modules, or all of some layers of every virtual stage.
  void read_recipe(Training& t) {
    if (const int layers = fields_.small_count("recompute_full_block_layers", 0); layers > 0) {
      t.recompute = Recompute::full;
      t.recompute_num_layers = layers;
    } else if (const std::string& modules = text("recompute_modules"); !modules.empty() && modules != "[]") {
      read_modules(t, modules);
    }
  }

  /// Megatron-Core's --recompute-modules that are modelled. False: there is none.
  bool read_modules(Training& t, const std::string& detail) {
    const bool attention = has_word(detail, "core_attn");
    if (attention) t.recompute = Recompute::selective;
    t.recompute_modules.clear();  // a stack's
    for (const auto& [word, module] :
         {std::pair{"norm", "norm"}, std::pair{"act", "activation"}, std::pair{"up_proj", "mla_up"}})
      if (detail.find(word) != std::string::npos) t.recompute_modules.emplace_back(module);
    if (has_word(detail, "moe")) t.recompute_modules.emplace_back("moe");
    if (t.recompute_modules.empty()) return attention;
    assume(fmt::format("recomputation of '{}': norms, activations, up-projections and experts of it", detail));
    return true;
  }
};

}  // namespace

void read_recompute(RowReading& row) { RecomputeReader(row).read(); }

}  // namespace tracecast::accuracy
