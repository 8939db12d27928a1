#include "sim/import/launchers/megatron_model.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/base/integers.hpp"
#include "sim/import/launchers/argument_document.hpp"
#include "sim/import/launchers/bridge_document.hpp"
#include "sim/import/launchers/megatron_attention.hpp"
#include "sim/import/launchers/megatron_deepspeed.hpp"
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
    {"model.embedding_norm", "embed-layernorm", Kind::flag},  // of Megatron-DeepSpeed
};
constexpr SettingRow kExpertSizes[] = {
    {"model.moe.experts", "num-experts", Kind::size},
    {"model.moe.experts", "num-moe-experts", Kind::size},
    {"model.moe.topk", "moe-router-topk", Kind::size},
    {"model.moe.ffn_hidden", "moe-ffn-hidden-size", Kind::size},
    {"model.moe.shared_ffn_hidden", "moe-shared-expert-intermediate-size", Kind::size},
    {"model.moe.shared_expert_gate", "moe-shared-expert-gate", Kind::flag},
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
  const bool geglu = run.flag(run.first_of({"geglu", "quick-geglu"})).value_or(false);
  const bool swiglu = run.says("activation-func", "\"swiglu\"");  // of --yaml-cfg
  if (swiglu) run.take("activation-func");
  const bool gated = run.flag("swiglu").value_or(swiglu) || geglu;
  const bool squared = run.flag("squared-relu").value_or(false);
  if (squared) run.assume("squared-relu: counted as ReLU, which multiplies as much");
  run.put("model.activation",
          geglu     ? "geglu"
          : gated   ? "swiglu"
          : squared ? "relu"
                    : "gelu",
          geglu   ? run.first_of({"geglu", "quick-geglu"})
          : gated ? Name("swiglu")
                  : Name("squared-relu"));
  const std::int64_t hidden = std::min<std::int64_t>(run.given_count("model.hidden_size", 0), 1'000'000'000);
  default_to(run, "model.ffn_hidden_size", gated && !geglu ? hidden * 8 / 3 / 64 * 64 : 4 * hidden);
}

bool has_biases(RunImport& run) {
  const bool without = run.flag("disable-bias-linear").value_or(false);
  return run.flag("add-bias-linear").value_or(!without);  // as YAML has it
}

void import_norms_and_biases(RunImport& run) {
  constexpr std::pair<Name, Name> kNorms[] = {{"LayerNorm", "layer_norm"},
                                              {"RMSNorm", "rms_norm"},
                                              {"layernorm", "layer_norm"},  // of Megatron-DeepSpeed
                                              {"rmsnorm", "rms_norm"}};
  constexpr std::pair<Name, Name> kPositions[] = {{"learned_absolute", "learned"},
                                                  {"rope", "rope"},
                                                  {"mrope", "rope"},
                                                  {"yarn", "rope"},
                                                  {"alibi", "alibi"},  // of Megatron-DeepSpeed
                                                  {"none", "none"}};
  const Name norm = run.choice<Name>("normalization", kNorms).value_or("layer_norm");
  run.put("model.norm", norm, "normalization");
  run.put_flag("model.norm_bias", norm == "layer_norm", "normalization");
  const Name position = run.choice<Name>("position-embedding-type", kPositions)
                            .value_or(run.flag("use-rotary-position-embeddings").value_or(false) ? "rope" : "learned");
  run.put("model.position", position, "position-embedding-type");
  if (run.says("position-embedding-type", "\"yarn\"")) run.put_flag("model.yarn", true, "position-embedding-type");
  const bool bias = has_biases(run);
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

/// Padded, unless the file says the padded size. NullTokenizer has a token more than its argument, the end of a document; recipes
/// say the model's own size beside it.
void import_vocabulary(RunImport& run, bool recipe) {
  constexpr std::int64_t kMax = 1'000'000'000;
  const Name padded_key = run.first_of({"padded-vocab-size", "pad-vocab-size-to"});  // the latter of BLOOM's fork
  std::optional<std::int64_t> size = run.count("vocab-size");
  const std::int64_t multiple =
      std::clamp<std::int64_t>(run.count("make-vocab-size-divisible-by").value_or(128), 1, kMax) *
      std::clamp<std::int64_t>(run.given_count("parallel.tp", 1), 1, 1'000'000);
  const std::string tokenizer = run.word("tokenizer-type");
  if (const auto padded = run.count(padded_key)) return run.put("model.vocab_size", *padded, padded_key);
  if (!size && tokenizer == "GPT2BPETokenizer") size = 50257;
  if (!size) return;
  if (!recipe && tokenizer == "NullTokenizer") size = std::clamp<std::int64_t>(*size, 0, kMax) + 1;
  const std::int64_t padded = round_up(std::clamp<std::int64_t>(*size, 0, kMax), multiple);
  run.put("model.vocab_size", padded, run.has("vocab-size") ? "vocab-size" : "tokenizer-type");
  if (padded != *size)
    run.assume(fmt::format("model.vocab_size = {}: {} padded to a multiple of {}", padded, *size, multiple));
}

/// Dense layers at the start, then every n-th has experts.
struct ExpertLayers {
  int leading = 0;
  int interval = 1;
};

/// Experts in layers 0, n, 2n … of whole groups of n layers are as many as in the last one of each.
std::optional<ExpertLayers> expert_layers(const std::vector<int>& has_experts) {
  const auto layers = static_cast<int>(has_experts.size());
  const auto first = static_cast<int>(std::ranges::find(has_experts, 1) - has_experts.begin());
  if (first == layers) return std::nullopt;
  const auto second =
      static_cast<int>(std::find(has_experts.begin() + first + 1, has_experts.end(), 1) - has_experts.begin());
  const int interval = second < layers ? second - first : 1;
  const bool at_start = first == 0 && interval > 1;
  const int leading = at_start ? 0 : first - (interval - 1);
  if (leading < 0 || (at_start && layers % interval != 0)) return std::nullopt;
  for (int layer = 0; layer < layers; ++layer) {
    const bool expected = layer >= leading && (layer - leading) % interval == (at_start ? 0 : interval - 1);
    if (expected != (has_experts[static_cast<std::size_t>(layer)] == 1)) return std::nullopt;
  }
  return ExpertLayers{leading, interval};
}

void import_expert_layers(RunImport& run) {
  constexpr Name kFrequency = "moe-layer-freq";
  const JsonNode* const frequency = run.find(kFrequency);
  if (frequency == nullptr) return;
  const std::string text = frequency->items.empty() ? run.word(kFrequency) : frequency->setting_text();
  const auto layers = static_cast<int>(std::clamp<std::int64_t>(run.given_count("model.num_layers", 0), 0, 100'000));
  const std::optional<std::vector<int>> has_experts = parse_layer_frequency(text, layers);
  if (!has_experts)
    return run.error(kFrequency,
                     fmt::format("does not say which of {} layers have experts (allowed: 1, ([0]*3+[1]*11))", layers));
  const std::optional<ExpertLayers> found = expert_layers(*has_experts);
  if (!found)
    return run.error(kFrequency, "is not supported (allowed: experts in every n-th layer after the first dense ones)");
  if (found->interval > 1 && has_experts->front() == 1)
    run.assume(fmt::format("{}: experts are in the last of every {} layers here, in the run in the first", kFrequency,
                           found->interval));
  run.put("model.moe.leading_dense_layers", found->leading, kFrequency);
  run.put("model.moe.layer_interval", found->interval, kFrequency);
}

/// Biases of linear layers are those of the router and of experts, too. The clamp's value does not matter.
void import_experts(RunImport& run, bool own) {
  constexpr Name kClamp = "activation-func-clamp-value";
  import_rows(run, kExpertSizes, own ? AbsentFlag::is_false : AbsentFlag::is_open);
  if (run.says("deepspeed", "true")) import_deepspeed_experts(run);
  default_to(run, "model.moe.topk", 2);
  default_to(run, "model.moe.ffn_hidden", run.given_count("model.ffn_hidden_size", 0));
  if (own && has_biases(run))
    for (const char* bias : {"model.moe.router_bias", "model.moe.expert_bias"}) run.put_flag(bias, true);
  if (run.find(kClamp) != nullptr) run.put_flag("model.moe.clamped_activation", true, kClamp);
  import_expert_layers(run);
}

/// The model that was given, written out; nullptr: none was.
JsonNode* model_of(JsonNode& ours) {
  for (JsonMember& member : ours.members)
    if (member.key == "model" && member.value.kind == JsonNode::Kind::object) return &member.value;
  return nullptr;
}

/// A setting that says that the model cannot be described here. "": none does.
struct OtherModel {
  Name key;
  Name what = "one that is not a GPT";
  Name why = "a model that is not a GPT, and only a GPT's arguments are read";
};

OtherModel with_other_part(Name key) {
  constexpr Name kPart = "a part of the model that is not modelled";
  return {key, kPart, kPart};
}

OtherModel other_model(RunImport& run) {
  constexpr Name kPrograms[] = {"pretrain_bert", "pretrain_ict",    "pretrain_mamba", "pretrain_retro",
                                "pretrain_t5",   "pretrain_vision", "pretrain_vlm"};
  constexpr Name kHybrid[] = {"hybrid-override-pattern", "hybrid-layer-pattern", "hybrid-attention-ratio",
                              "hybrid-mlp-ratio"};
  constexpr Name kParts[] = {"moe-latent-size", "heterogeneous-layers-config-path",
                             "heterogeneous-layers-config-encoded-json"};
  const std::string program = run.word(kScriptProgram);
  if (std::ranges::any_of(kPrograms, [&](Name each) { return program.starts_with(each); })) return {kScriptProgram};
  for (const Name key : kHybrid)
    if (run.has(key)) return {key};
  if (run.has("spec") && run.word("spec").find("mamba") != std::string::npos) return {"spec"};
  for (const Name key : kParts)
    if (run.has(key)) return with_other_part(key);
  return with_other_part(unknown_attention_variant(run));
}

/// Arguments of such a model are not read, and are listed as not mapped.
void refuse(RunImport& run, const OtherModel& model) {
  if (run.given("model") != nullptr)
    return run.assume(fmt::format("model: {} names {}: --model is used", model.key, model.what));
  run.model_refused = true;
  run.error(model.key, fmt::format("names {}: give --model", model.why));
}

bool has_experts(RunImport& run) {
  if (!run.says("deepspeed", "true")) return run.has("num-experts") || run.has("num-moe-experts");
  return deepspeed_experts(run) > 1;
}

}  // namespace

void import_megatron_model(RunImport& run, bool recipe) {
  if (const OtherModel other = other_model(run); !other.key.empty()) return refuse(run, other);
  const bool whole = run.flag(kWholeConfiguration).value_or(false);
  const bool nemo = run.theirs().find("trainer") != nullptr;
  const bool own =
      (!recipe || whole || (nemo && run.given("model") == nullptr)) && run.has("num-layers") && run.has("hidden-size");
  const bool experts = has_experts(run);
  if (!own && run.given("model") == nullptr) return;
  if (own && run.given("model") != nullptr) {
    run.assume("model: the file describes one, --model is not used");
    std::erase_if(run.ours.members, [](const JsonMember& member) { return member.key == "model"; });
  }
  const bool resized = run.has("hidden-size") || run.has("num-attention-heads");
  if (JsonNode* model = model_of(run.ours); model != nullptr && resized)
    std::erase_if(model->members, [](const JsonMember& member) { return member.key == "head_dim"; });
  import_rows(run, kSizes, AbsentFlag::is_open);
  import_megatron_attention(run, recipe);
  if (own) {
    import_activation(run);
    import_norms_and_biases(run);
  }
  import_vocabulary(run, recipe);
  if (experts) return import_experts(run, own);
  constexpr Name kClamp = "activation-func-clamp-value";
  if (run.find(kClamp) != nullptr) run.assume(fmt::format("{}: not modelled in dense layers", kClamp));
}

}  // namespace tracecast
