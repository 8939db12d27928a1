#include "sim/import/launchers/megatron_model.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/base/integers.hpp"
#include "sim/base/words.hpp"
#include "sim/import/launchers/argument_document.hpp"
#include "sim/import/launchers/bridge_document.hpp"
#include "sim/import/launchers/megatron_words.hpp"
#include "sim/import/launchers/setting_rows.hpp"

namespace tracecast {
namespace {

using Kind = SettingRow::Kind;
using Name = std::string_view;

constexpr SettingRow kSizes[] = {
    {"model.num_layers", "num-layers", Kind::size},
    {"model.hidden_size", "hidden-size", Kind::size},
    {"model.ffn_hidden_size", "ffn-hidden-size", Kind::size},
    {"model.num_attention_heads", "num-attention-heads", Kind::size},
    {"model.head_dim", "kv-channels", Kind::size},
    {"model.max_position_embeddings", "max-position-embeddings", Kind::size},
    {"model.mtp_layers", "mtp-num-layers", Kind::size},
};
constexpr SettingRow kLatentSizes[] = {
    {"model.latent_attention.q_rank", "q-lora-rank", Kind::size},
    {"model.latent_attention.kv_rank", "kv-lora-rank", Kind::size},
    {"model.latent_attention.nope_dim", "qk-head-dim", Kind::size},
    {"model.latent_attention.rope_dim", "qk-pos-emb-head-dim", Kind::size},
    {"model.latent_attention.v_dim", "v-head-dim", Kind::size},
};
constexpr SettingRow kExpertSizes[] = {
    {"model.moe.experts", "num-experts", Kind::size},
    {"model.moe.experts", "num-moe-experts", Kind::size},
    {"model.moe.topk", "moe-router-topk", Kind::size},
    {"model.moe.ffn_hidden", "moe-ffn-hidden-size", Kind::size},
    {"model.moe.shared_ffn_hidden", "moe-shared-expert-intermediate-size", Kind::size},
    {"model.moe.router_bias", "moe-router-enable-expert-bias", Kind::flag},
    {"model.moe.routing_groups", "moe-router-num-groups", Kind::size},
    {"model.moe.routing_group_limit", "moe-router-group-topk", Kind::size},
};

/// Puts `value` where nothing was said.
void default_to(RunImport& run, const std::string& ours, std::int64_t value) {
  if (run.given(ours) == nullptr) run.put(ours, value);
}

void import_activation(RunImport& run) {
  if (run.flag("gated-linear-unit").value_or(false))
    return run.error("activation-func", "is not supported with gated_linear_unit (allowed: silu gelu)");
  const bool geglu = run.flag("geglu").value_or(false);
  const bool swiglu = run.says("activation-func", "\"swiglu\"");  // of --yaml-cfg
  if (swiglu) run.take("activation-func");
  const bool gated = run.flag("swiglu").value_or(swiglu) || geglu;
  const bool squared = run.flag("squared-relu").value_or(false);
  if (squared) run.assume("squared-relu: counted as ReLU, which multiplies as much");
  run.put("model.activation",
          std::string(geglu     ? "geglu"
                      : gated   ? "swiglu"
                      : squared ? "relu"
                                : "gelu"),
          gated ? "swiglu" : "squared-relu");
  const std::int64_t hidden = std::min<std::int64_t>(run.given_count("model.hidden_size", 0), 1'000'000'000);
  default_to(run, "model.ffn_hidden_size", gated ? hidden * 8 / 3 / 64 * 64 : 4 * hidden);
}

void import_norms_and_biases(RunImport& run) {
  constexpr std::pair<Name, Name> kNorms[] = {{"LayerNorm", "layer_norm"}, {"RMSNorm", "rms_norm"}};
  constexpr std::pair<Name, Name> kPositions[] = {
      {"learned_absolute", "learned"}, {"rope", "rope"}, {"mrope", "rope"}, {"none", "none"}};
  const Name norm = run.choice<Name>("normalization", kNorms).value_or("layer_norm");
  run.put("model.norm", std::string(norm), "normalization");
  run.put_flag("model.norm_bias", norm == "layer_norm", "normalization");
  const Name position = run.choice<Name>("position-embedding-type", kPositions)
                            .value_or(run.flag("use-rotary-position-embeddings").value_or(false) ? "rope" : "learned");
  run.put("model.position", std::string(position), "position-embedding-type");
  const bool without = run.flag("disable-bias-linear").value_or(false);
  const bool bias = run.flag("add-bias-linear").value_or(!without);  // as YAML has it
  const bool qkv_bias = run.flag("add-qkv-bias").value_or(false) || bias;
  run.put_flag("model.qkv_bias", qkv_bias, "disable-bias-linear");
  run.put_flag("model.attention_output_bias", bias, "disable-bias-linear");
  run.put_flag("model.mlp_bias", bias, "disable-bias-linear");
  run.put_flag("model.tied_embeddings", !run.flag("untie-embeddings-and-output-weights").value_or(false),
               "untie-embeddings-and-output-weights");
  JsonNode dropout;
  dropout.kind = JsonNode::Kind::number;
  dropout.number = run.number("hidden-dropout").value_or(0.1);
  run.put("model.dropout", std::move(dropout), "hidden-dropout");
}

void import_vocabulary(RunImport& run) {
  constexpr std::int64_t kMax = 1'000'000'000;
  std::optional<std::int64_t> size = run.count("vocab-size");
  const std::int64_t multiple =
      std::clamp<std::int64_t>(run.count("make-vocab-size-divisible-by").value_or(128), 1, kMax) *
      std::clamp<std::int64_t>(run.given_count("parallel.tp", 1), 1, 1'000'000);
  if (!size && run.word("tokenizer-type") == "GPT2BPETokenizer") size = 50257;
  if (!size) return;
  const std::int64_t padded = round_up(std::clamp<std::int64_t>(*size, 0, kMax), multiple);
  run.put("model.vocab_size", padded, run.has("vocab-size") ? "vocab-size" : "tokenizer-type");
  if (padded != *size)
    run.assume(fmt::format("model.vocab_size = {}: {} padded to a multiple of {}", padded, *size, multiple));
}

/// Leading dense layers, then every n-th has experts.
void import_expert_layers(RunImport& run) {
  constexpr Name kFrequency = "moe-layer-freq";
  const JsonNode* const frequency = run.find(kFrequency);
  if (frequency == nullptr) return;
  const std::string text = frequency->items.empty() ? run.word(kFrequency) : frequency->setting_text();
  const auto layers = static_cast<int>(std::clamp<std::int64_t>(run.given_count("model.num_layers", 0), 0, 100'000));
  const std::optional<std::vector<int>> has_experts = parse_layer_frequency(text, layers);
  if (!has_experts)
    return run.error(kFrequency,
                     fmt::format("does not say which of {} layers have experts (allowed: 2, ([0]*3+[1]*11))", layers));
  const auto first = static_cast<int>(std::find(has_experts->begin(), has_experts->end(), 1) - has_experts->begin());
  const auto second = static_cast<int>(
      first < layers ? std::find(has_experts->begin() + first + 1, has_experts->end(), 1) - has_experts->begin()
                     : layers);
  const int interval = second < layers ? second - first : 1;
  const int leading = first - (interval - 1);
  bool regular = leading >= 0 && first < layers;
  for (int layer = 0; layer < layers && regular; ++layer) {
    const bool expected = layer >= leading && (layer - leading) % interval == interval - 1;
    regular = expected == ((*has_experts)[static_cast<std::size_t>(layer)] == 1);
  }
  if (!regular)
    return run.error(kFrequency, "is not supported (allowed: experts in every n-th layer after the first dense ones)");
  run.put("model.moe.leading_dense_layers", leading, kFrequency);
  run.put("model.moe.layer_interval", interval, kFrequency);
}

void import_experts(RunImport& run, AbsentFlag absent) {
  import_rows(run, kExpertSizes, absent);
  default_to(run, "model.moe.topk", 2);
  default_to(run, "model.moe.ffn_hidden", run.given_count("model.ffn_hidden_size", 0));
  import_expert_layers(run);
}

/// Without its flag Megatron-LM's number of groups has no effect: every head has its own keys and values. Recipes have
/// no such flag.
void import_query_groups(RunImport& run, bool recipe) {
  constexpr Name kGroups = "num-query-groups";
  constexpr Name kFlag = "group-query-attention";
  const bool grouped = run.flag(kFlag).value_or(recipe);
  const auto groups = run.count(kGroups);
  if (grouped && groups) run.put("model.num_query_groups", *groups, kGroups);
  if (grouped && !groups && !recipe) default_to(run, "model.num_query_groups", 1);
  if (!grouped && groups) run.assume(fmt::format("{} has no effect without --{}", kGroups, kFlag));
}

/// Keys before and behind that of a query, "127,0", so a window of one more; with -1 before it all. In every n-th layer the window
/// has no effect.
void import_windows(RunImport& run) {
  constexpr Name kWindow = "window-size";
  constexpr Name kFrequency = "window-attn-skip-freq";
  const JsonNode* const window = run.find(kWindow);
  if (window == nullptr || window->kind == JsonNode::Kind::null) return;
  const std::string text = window->items.empty() ? run.word(kWindow) : window->setting_text();
  const std::vector<std::string_view> sides = split_words(text, " ,()[]");
  const auto before = sides.empty() ? std::nullopt : parse_number<std::int64_t>(sides.front());
  if (sides.size() != 2 || !before || *before < -1 || sides.back() != "0")
    return run.error(kWindow, "is not a causal window (allowed: 127,0)");
  if (*before == -1) return;
  run.put("model.sliding_window", *before + 1, kWindow);
  if (const auto every = run.count(kFrequency)) run.put("model.global_layer_interval", *every, kFrequency);
}

/// The model that was given, written out; nullptr: none was.
JsonNode* model_of(JsonNode& ours) {
  for (JsonMember& member : ours.members)
    if (member.key == "model" && member.value.kind == JsonNode::Kind::object) return &member.value;
  return nullptr;
}

/// The setting that says that the model is not a GPT; "": none.
Name other_family(RunImport& run) {
  constexpr Name kPrograms[] = {"pretrain_bert", "pretrain_ict",    "pretrain_mamba", "pretrain_retro",
                                "pretrain_t5",   "pretrain_vision", "pretrain_vlm"};
  constexpr Name kHybrid[] = {"hybrid-override-pattern", "hybrid-layer-pattern", "hybrid-attention-ratio",
                              "hybrid-mlp-ratio"};
  const std::string program = run.word(kScriptProgram);
  if (std::ranges::any_of(kPrograms, [&](Name each) { return program.starts_with(each); })) return kScriptProgram;
  for (const Name key : kHybrid)
    if (run.has(key)) return key;
  return run.has("spec") && run.word("spec").find("mamba") != std::string::npos ? Name("spec") : Name();
}

/// Arguments of such a model are not read, and are listed as not mapped.
void refuse_family(RunImport& run, Name key) {
  if (run.given("model") != nullptr)
    return run.assume(fmt::format("model: {} names one that is not a GPT: --model is used", key));
  run.model_refused = true;
  run.error(key, "names a model that is not a GPT, and only a GPT's arguments are read: give --model");
}

}  // namespace

void import_megatron_model(RunImport& run, bool recipe) {
  if (const Name key = other_family(run); !key.empty()) return refuse_family(run, key);
  const bool whole = run.flag(kWholeConfiguration).value_or(false);
  const bool nemo = run.theirs().find("trainer") != nullptr;
  const bool own =
      (!recipe || whole || (nemo && run.given("model") == nullptr)) && run.has("num-layers") && run.has("hidden-size");
  const bool experts = run.has("num-experts") || run.has("num-moe-experts");
  if (!own && run.given("model") == nullptr) return;
  if (own && run.given("model") != nullptr) {
    run.assume("model: the file describes one, --model is not used");
    std::erase_if(run.ours.members, [](const JsonMember& member) { return member.key == "model"; });
  }
  const bool resized = run.has("hidden-size") || run.has("num-attention-heads");
  if (JsonNode* model = model_of(run.ours); model != nullptr && resized)
    std::erase_if(model->members, [](const JsonMember& member) { return member.key == "head_dim"; });
  import_rows(run, kSizes, AbsentFlag::is_open);
  import_query_groups(run, recipe);
  import_windows(run);
  if (own) {
    import_activation(run);
    import_norms_and_biases(run);
  }
  import_vocabulary(run);
  if (run.flag("multi-latent-attention").value_or(false)) {
    import_rows(run, kLatentSizes, AbsentFlag::is_open);
    default_to(run, "model.latent_attention.kv_rank", 32);
    default_to(run, "model.latent_attention.nope_dim", 128);
    default_to(run, "model.latent_attention.rope_dim", 64);
    default_to(run, "model.latent_attention.v_dim", 128);
    run.flag("qk-layernorm");  // the norms inside latent attention
  } else if (const auto qk_norm = run.flag("qk-layernorm")) {
    run.put_flag("model.qk_norm", *qk_norm, "qk-layernorm");
  }
  if (experts) import_experts(run, own ? AbsentFlag::is_false : AbsentFlag::is_open);
}

}  // namespace tracecast
