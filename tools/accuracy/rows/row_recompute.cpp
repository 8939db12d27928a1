#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/words.hpp"
#include "sim/io/json_document.hpp"
#include "sim/model/parameters.hpp"
#include "tools/accuracy/rows/recomputed_layers.hpp"
#include "tools/accuracy/rows/row_part.hpp"

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
    const std::string field = without_option(lower_case(text("recompute"))),
                      detail = lower_case(text("recompute_detail"));
    const std::string& said = detail.empty() ? field : detail;  // where modules and numbers of layers stand
    const std::string recompute = field.empty() ? word_of_detail(detail) : recompute_word(field, detail);
    t.recompute = Recompute::none;
    if (recompute.empty() && reported("recipe")) return read_recipe(t);
    if (recompute.empty() && recomputed_as_in_recipes(t)) return;
    if (runs("maxtext") && read_policy(t)) return;
    if (recompute.empty()) {
      result_.guess_recompute = true;
    } else if (recompute == "none") {
      return;
    } else if (recompute == "selective_attention") {
      t.recompute = Recompute::selective;
    } else if (recompute == "op") {
      t.recompute = Recompute::selective_op;
    } else if (recompute != "selective" && read_layers(t, said, recompute != "full")) {
      return;
    } else if (recompute == "full") {
      t.recompute = Recompute::full;
    } else if (modules_in(said).any()) {
      read_modules(t, said);
    } else if (recompute == "selective") {
      t.recompute = Recompute::selective;
    } else if (recompute == "selective_other") {
      assume(fmt::format("recomputation of '{}' is left out of the time", said));
    } else {
      result_.guess_recompute = true;
      assume(recompute == "partial_layers"
                 ? "recomputation of some layers, the row does not say of how many: the least that fits"
                 : fmt::format("recomputation '{}' is not known: the least that fits", shortened(text("recompute"))));
    }
  }

  /// "full" of "AC full" and "with full", "selective" of "recompute_granularity=selective".
  static std::string without_option(const std::string& field) {
    constexpr std::string_view kOptions[] = {"ac",
                                             "with",
                                             "granularity",
                                             "recompute",
                                             "recompute_granularity",
                                             "recompute-granularity",
                                             "--recompute-granularity"};
    std::vector<std::string_view> words = split_words(field, " =:");
    const std::size_t all = words.size();
    while (words.size() > 1 && std::ranges::find(kOptions, words.front()) != std::end(kOptions))
      words.erase(words.begin());
    return words.size() == all ? field : fmt::format("{}", fmt::join(words, " "));
  }

  /// The field in the words of the table, "op" for torchtitan's selective recomputation of operators, "selective" for Megatron's, of
  /// modules that the row may name.
  std::string recompute_word(const std::string& field, const std::string& detail) const {
    const std::optional<bool> yes = truth(field);
    if (yes) return *yes ? "full" : "none";
    if (mentioned(field, "checkpointing") == false || denies(field)) return "none";
    const bool of_operators = has_word(detail, "op") || has_word(detail, "ops") || has_word(detail, "operators") ||
                              detail.find("selective op") != std::string::npos || has_word(detail, "sac") ||
                              has_word(field, "sac") || has_word(field, "op");
    if (of_operators) return "op";
    if (field == "selective_attention" || field == "partial_layers") return field;
    if (field.starts_with("full on ")) return "partial_layers";
    if (field.starts_with("selective")) return selective_word(field, detail);
    constexpr std::string_view kFull[] = {"all",        "everything", "every layer", "uniform",      "ac",
                                          "checkpoint", "remat",      "recompute",   "recomputation"};
    if (field.starts_with("full") || std::ranges::find(kFull, field) != std::end(kFull)) return "full";
    if (modules_in(field).any()) return field;
    return field.find("checkpointing") != std::string::npos ? "full" : field;
  }

  /// torchtitan selects operators or, by a number, layers.
  std::string selective_word(const std::string& field, const std::string& detail) const {
    const bool of_pytorch = stack_ != nullptr && stack_->name.find("torchtitan") != std::string::npos;
    if (of_pytorch) return recomputed_layers(detail) == RecomputedLayers{} ? "op" : "partial_layers";
    return field.starts_with("selective_") ? "selective_other" : "selective";
  }

  /// The detail of a row whose field is empty, if it says what the field could have said.
  std::string word_of_detail(const std::string& detail) const {
    if (detail.empty()) return {};
    const std::string word = recompute_word(detail, "");
    for (const char* known : {"none", "full", "op", "selective", "selective_other", "selective_attention"})
      if (word == known) return word;
    const bool says = modules_in(detail).any() || !(recomputed_layers(detail) == RecomputedLayers{});
    return says ? "partial_layers" : "";
  }

  /// All of some layers of every virtual stage. False: the text does not say of how many.
  bool read_layers(Training& t, const std::string& said, bool partial) {
    const Parallel& p = result_.scenario.parallel;
    const int model_layers = result_.scenario.model.num_layers, stages = p.pp * p.vpp;
    const RecomputedLayers layers = recomputed_layers(said);
    const int per_stage = recomputed_per_stage(layers, model_layers, stages, partial);
    if (per_stage == 0) return false;
    t.recompute = Recompute::full;
    t.recompute_num_layers = per_stage;
    if (stages > 1 && layers.every == 0 && !layers.of_each_stage && !layers.of_option)
      assume(fmt::format("recomputation of '{}': spread evenly over the stages", said));
    return true;
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

  /// What the launcher's recipe recomputes: modules, or all of some layers of every virtual stage.
  void read_recipe(Training& t) {
    if (const int layers = fields_.small_count("recompute_full_block_layers", 0); layers > 0) {
      t.recompute = Recompute::full;
      t.recompute_num_layers = layers;
    } else if (const std::string& modules = text("recompute_modules"); !modules.empty() && modules != "[]") {
      read_modules(t, modules);
    }
  }

  /// Megatron-Core's --recompute-modules, and others' words for them.
  struct Modules {
    bool attention = false;          ///< the scores
    std::vector<std::string> named;  ///< Training::recompute_modules
    bool any() const { return attention || !named.empty(); }
  };
  static Modules modules_in(std::string said) {
    struct ModuleWord {
      const char *word, *module;
    };
    constexpr ModuleWord kModules[] = {{"core_attn", "scores"},
                                       {"attn", "scores"},
                                       {"attention", "scores"},
                                       {"norm", "norm"},
                                       {"norms", "norm"},
                                       {"layernorm", "norm"},
                                       {"layernorms", "norm"},
                                       {"rmsnorm", "norm"},
                                       {"act", "activation"},
                                       {"moe_act", "activation"},
                                       {"activation", "activation"},
                                       {"activations", "activation"},
                                       {"swiglu", "activation"},
                                       {"up_proj", "mla_up"},
                                       {"mla_up_proj", "mla_up"},
                                       {"moe", "moe"},
                                       {"mlp", "mlp"},
                                       {"shared_experts", "shared_experts"}};
    for (const char* whole : {"activation checkpointing", "activation recompute", "activation recomputation"})
      if (const std::size_t at = said.find(whole); at != std::string::npos)
        said.erase(at, std::string_view(whole).size());
    Modules modules;
    for (const auto& [word, module] : kModules) {
      if (!has_word(said, word)) continue;
      const std::string_view name = module;
      modules.attention |= name == "scores";
      if (name != "scores" && std::ranges::find(modules.named, name) == modules.named.end())
        modules.named.emplace_back(name);
    }
    return modules;
  }

  /// False: the text names no module that is modelled.
  bool read_modules(Training& t, const std::string& said) {
    Modules modules = modules_in(said);
    if (modules.attention) t.recompute = Recompute::selective;
    t.recompute_modules = std::move(modules.named);  // not a stack's
    if (t.recompute_modules.empty()) return modules.attention;
    assume(fmt::format("recomputation of '{}': {}{}", said, modules.attention ? "attention, " : "",
                       fmt::join(t.recompute_modules, ", ")));
    return true;
  }
};

}  // namespace

void read_row_recompute(RowReading& row) { RecomputeReader(row).read(); }

}  // namespace tracecast::accuracy
