#include "sim/import/launchers/megatron_attention.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/import/launchers/megatron_words.hpp"
#include "sim/import/launchers/setting_rows.hpp"

namespace tracecast {
namespace {

using Kind = SettingRow::Kind;
using Name = std::string_view;

constexpr SettingRow kLatentSizes[] = {
    {"model.latent_attention.q_rank", "q-lora-rank", Kind::size},
    {"model.latent_attention.kv_rank", "kv-lora-rank", Kind::size},
    {"model.latent_attention.nope_dim", "qk-head-dim", Kind::size},
    {"model.latent_attention.rope_dim", "qk-pos-emb-head-dim", Kind::size},
    {"model.latent_attention.v_dim", "v-head-dim", Kind::size},
};
constexpr SettingRow kLinearSizes[] = {
    {"model.linear_attention.heads", "linear-num-value-heads", Kind::size},
    {"model.linear_attention.head_dim", "linear-value-head-dim", Kind::size},
    {"model.linear_attention.key_heads", "linear-num-key-heads", Kind::size},
    {"model.linear_attention.key_dim", "linear-key-head-dim", Kind::size},
    {"model.linear_attention.conv_kernel", "linear-conv-kernel-dim", Kind::size},
};
constexpr SettingRow kIndexerSizes[] = {
    {"model.sparse_attention.topk", "dsa-indexer-topk", Kind::size},
    {"model.sparse_attention.index_heads", "dsa-indexer-n-heads", Kind::size},
    {"model.sparse_attention.index_dim", "dsa-indexer-head-dim", Kind::size},
};

/// A size that the file leaves open, as TransformerConfig has it.
struct Size {
  const char* ours;
  std::int64_t value;
};
constexpr Size kLatentDefaults[] = {{"model.latent_attention.kv_rank", 32},
                                    {"model.latent_attention.nope_dim", 128},
                                    {"model.latent_attention.rope_dim", 64},
                                    {"model.latent_attention.v_dim", 128}};
constexpr Size kLinearDefaults[] = {{"model.linear_attention.heads", 32},
                                    {"model.linear_attention.head_dim", 128},
                                    {"model.linear_attention.key_heads", 16},
                                    {"model.linear_attention.key_dim", 128},
                                    {"model.linear_attention.conv_kernel", 4}};

void import_sizes(RunImport& run, std::span<const SettingRow> rows, std::span<const Size> defaults) {
  import_rows(run, rows, AbsentFlag::is_open);
  for (const auto& [ours, value] : defaults)
    if (run.given(ours) == nullptr) run.put(ours, value);
}

/// Without its flag Megatron-LM's number of groups has no effect: every head has its own keys and values. Recipes have
/// no such flag, and Megatron-DeepSpeed has a number without one.
void import_query_groups(RunImport& run, bool recipe) {
  constexpr Name kGroups = "num-query-groups", kHeads = "num-key-value-heads";
  constexpr Name kFlag = "group-query-attention";
  const bool grouped = run.flag(kFlag).value_or(recipe);
  const auto groups = run.count(kGroups);
  const auto heads = run.count(kHeads);
  if (!grouped && heads) return run.put("model.num_query_groups", *heads, kHeads);
  if (grouped && groups) run.put("model.num_query_groups", *groups, kGroups);
  if (grouped && !groups && !recipe && run.given("model.num_query_groups") == nullptr)
    run.put("model.num_query_groups", 1);
  if (!grouped && groups) run.assume(fmt::format("{} has no effect without --{}", kGroups, kFlag));
}

/// Layers by a number or a list: "4", "([1,1,1,0]*8)".
std::string layers_text(RunImport& run, Name key) {
  const JsonNode* const node = run.find(key);
  return node == nullptr ? "" : node->items.empty() ? run.word(key) : node->setting_text();
}

int layers_of(const RunImport& run) {
  return static_cast<int>(std::clamp<std::int64_t>(run.given_count("model.num_layers", 0), 0, 100'000));
}

/// Every n-th layer attends to everything: n, or a list that has 0 for it. 0: none does; nothing: not so regular, which is an error.
std::optional<std::int64_t> global_interval(RunImport& run) {
  constexpr Name kFrequency = "window-attn-skip-freq";
  const std::string text = layers_text(run, kFrequency);
  if (text.empty()) return 0;
  if (text.find('[') == std::string::npos) return run.count(kFrequency);
  const std::optional<std::vector<int>> windows = parse_layer_list(text, layers_of(run));
  const auto global = windows ? std::ranges::find(*windows, 0) - windows->begin() + 1 : 0;
  for (std::ptrdiff_t layer = 0; windows && layer < std::ssize(*windows); ++layer)
    if (((layer + 1) % global == 0) != ((*windows)[static_cast<std::size_t>(layer)] == 0)) {
      run.error(kFrequency, "is not supported (allowed: 4, or ([1,1,1,0]*8): every n-th layer without the window)");
      return std::nullopt;
    }
  if (windows) return global > std::ssize(*windows) ? 0 : global;
  run.error(kFrequency,
            fmt::format("does not say which of {} layers have a window (allowed: 4, ([1,1,1,0]*8))", layers_of(run)));
  return std::nullopt;
}

/// Keys before and behind that of a query, "127,0", so a window of one more; with -1 before it all.
void import_windows(RunImport& run) {
  constexpr Name kWindow = "window-size";
  const JsonNode* const window = run.find(kWindow);
  if (window == nullptr || window->kind == JsonNode::Kind::null) return;
  const std::string text = window->items.empty() ? run.word(kWindow) : window->setting_text();
  const std::vector<std::string_view> sides = split_words(text, " ,()[]");
  const auto before = sides.empty() ? std::nullopt : parse_number<std::int64_t>(sides.front());
  if (sides.size() != 2 || !before || *before < -1 || sides.back() != "0")
    return run.error(kWindow, "is not a causal window (allowed: 127,0)");
  const std::optional<std::int64_t> interval = global_interval(run);
  if (*before == -1 || !interval || *interval == 1) return;
  run.put("model.sliding_window", *before + 1, kWindow);
  if (*interval > 0) run.put("model.global_layer_interval", *interval, "window-attn-skip-freq");
}

/// An offset of the softmax that is learned, one for each head; one that is not costs the same, and has no parameters.
void import_softmax(RunImport& run) {
  constexpr Name kSoftmax = "softmax-type", kGate = "attention-output-gate";
  constexpr std::pair<Name, bool> kTypes[] = {{"vanilla", false}, {"off-by-one", false}, {"learnable", true}};
  if (const auto sinks = run.choice<bool>(kSoftmax, kTypes)) run.put_flag("model.attention_sinks", *sinks, kSoftmax);
  if (const auto gate = run.flag(kGate)) run.put_flag("model.attention_output_gate", *gate, kGate);
}

Name variant_key(const RunImport& run) {
  return run.first_of({"experimental-attention-variant", "linear-attention-type"});  // now, and at first
}

/// Gated delta nets but for every n-th layer, or where a list has 1.
void import_delta_nets(RunImport& run) {
  constexpr Name kFrequency = "linear-attention-freq";
  import_sizes(run, kLinearSizes, kLinearDefaults);
  const std::string text = layers_text(run, kFrequency);
  if (text.find('[') == std::string::npos) {
    const std::int64_t every = run.count(kFrequency).value_or(0);
    if (every < 1 || every > 1000)
      return run.error(kFrequency, "is not a number of layers (allowed: 4, or ([1,1,1,0]*12))");
    return run.put("model.layer_pattern", std::string(static_cast<std::size_t>(every - 1), 'G') + "*", kFrequency);
  }
  const std::optional<std::vector<int>> linear = parse_layer_list(text, layers_of(run));
  if (!linear)
    return run.error(kFrequency, fmt::format("does not say which of {} layers are linear (allowed: 4, ([1,1,1,0]*12))",
                                             layers_of(run)));
  std::string pattern;
  for (const int each : *linear) pattern += each == 1 ? 'G' : '*';
  run.put("model.layer_pattern", pattern, kFrequency);
}

}  // namespace

std::string_view unknown_attention_variant(RunImport& run) {
  const Name key = variant_key(run);
  const std::string variant = run.word(key);
  const bool latent = run.flag("multi-latent-attention").value_or(false);
  const bool known = variant.empty() || variant == "gated_delta_net" || (variant == "dsa" && latent);
  return known ? Name() : key;
}

void import_megatron_attention(RunImport& run, bool recipe) {
  import_query_groups(run, recipe);
  import_windows(run);
  import_softmax(run);
  const std::string variant = run.word(variant_key(run));
  if (variant == "gated_delta_net")
    import_delta_nets(run);
  else
    run.pass_over("linear-");
  if (variant == "dsa")
    import_rows(run, kIndexerSizes, AbsentFlag::is_open);
  else
    run.pass_over("dsa-");
  if (run.flag("multi-latent-attention").value_or(false)) {
    import_sizes(run, kLatentSizes, kLatentDefaults);
    run.flag("qk-layernorm");  // the norms inside latent attention
  } else if (const auto qk_norm = run.flag("qk-layernorm")) {
    run.put_flag("model.qk_norm", *qk_norm, "qk-layernorm");
  }
}

}  // namespace tracecast
