#include "tools/accuracy/rows/model_families.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "sim/base/words.hpp"
#include "tools/accuracy/rows/model_names.hpp"

namespace tracecast::accuracy {
namespace {

struct HeadSize {
  const char* family;
  std::int64_t size;
};
constexpr HeadSize kHeadSizes[] = {
    {"qwen3", 128},         {"glm-4.5", 128},    {"glm-4.6", 128},       {"glm-4.7", 128},      {"gpt-oss", 64},
    {"mistral-small", 128}, {"magistral", 128},  {"devstral", 128},      {"ministral", 128},    {"mistral-nemo", 128},
    {"seed-oss", 128},      {"minimax-m2", 128}, {"ernie-4.5-21b", 128}, {"hunyuan-a13b", 128}, {"gemma-2-27b", 128},
    {"gemma-3-27b", 128},   {"gemma", 256},
};

constexpr VocabularyFamily kVocabularies[] = {
    {"llama-2", 32'000, false},
    {"llama-3.2-1b", 128'256, true},
    {"llama-3.2-3b", 128'256, true},
    {"llama-3", 128'256, false},
    {"llama-4", 202'048, false},
    {"mistral-7b-v0.3", 32'768, false},
    {"mistral-7b-instruct-v0.3", 32'768, false},
    {"mistral-7b", 32'000, false},
    {"mixtral", 32'000, false},
    {"mistral-nemo", 131'072, false},
    {"mistral-small-24b", 131'072, false},
    {"mistral-small-3", 131'072, false},
    {"magistral", 131'072, false},
    {"devstral", 131'072, false},
    {"ministral", 131'072, false},
    {"gemma-3n", 262'400, true},
    {"gemma-3", 262'144, true},
    {"gemma-4", 262'144, true},
    {"gemma", 256'000, true},
    {"qwen3-0.6b", 151'936, true},
    {"qwen3-1.7b", 151'936, true},
    {"qwen3-4b", 151'936, true},
    {"qwen3", 151'936, false},
    {"qwen2.5-0.5b", 151'936, true},
    {"qwen2.5-1.5b", 151'936, true},
    {"qwen2.5-3b", 151'936, true},
    {"qwen2.5", 152'064, false},
    {"qwen2-0.5b", 151'936, true},
    {"qwen2-1.5b", 151'936, true},
    {"qwen2-57b", 151'936, false},
    {"qwen2", 152'064, false},
    {"deepseek-v3", 129'280, false},
    {"deepseek-v2", 102'400, false},
    {"deepseek-moe", 102'400, false},
    {"kimi-k2", 163'840, false},
    {"moonlight", 163'840, false},
    {"glm-4.7-flash", 154'880, false},
    {"glm-4", 151'552, false},
    {"glm-5", 154'880, false},
    {"minimax-m2", 200'064, false},
    {"hunyuan-a13b", 128'167, true},
    {"ernie-4.5-21b", 103'424, true},
    {"dots.llm1", 152'064, false},
    {"seed-oss", 155'136, false},
    {"gpt-oss", 201'088, false},
    {"falcon-7b", 65'024, true},
    {"falcon-40b", 65'024, true},
    {"falcon-180b", 65'024, true},
    {"phi-3-mini", 32'064, false},
    {"phi-3-medium", 32'064, false},
    {"phi-1", 51'200, false},
    {"phi-2", 51'200, false},
    {"phi-4-mini", 200'064, true},
    {"phi-4", 100'352, false},
    {"smollm3", 128'256, true},
    {"exaone-4.0-1.2b", 102'400, true},
    {"exaone-4", 102'400, false},
    {"command-r", 256'000, true},
    {"command-a", 256'000, true},
    {"granite-3.3", 49'159, true},
    {"granite-3", 49'155, true},
    {"starcoder-2-15b", 49'152, false},
    {"starcoder", 49'152, true},
    {"cerebras-gpt", 50'257, true},
    {"opt-", 50'272, true},
    {"bloom", 250'880, true},
    {"nemotron-4", 256'000, false},
    {"nemotron-3-8b", 256'000, false},
    {"nemotron-mini", 256'000, false},
    {"minitron", 256'000, false},
    {"yi-34b", 64'000, false},
    {"yi-6b", 64'000, false},
    {"olmo-2", 100'352, false},
    {"olmo-3", 100'278, false},
    {"olmoe", 50'304, false},
    {"dbrx", 100'352, false},
};

constexpr ExpertFamily kExperts[] = {
    {"mixtral", 4096, 8, 2, 14'336, 0, 0},
    {"mixtral", 6144, 8, 2, 16'384, 0, 0},
    {"deepseek-v3", 7168, 256, 8, 2048, 2048, 3},
    {"deepseek-v2-lite", 2048, 64, 6, 1408, 2816, 1},
    {"deepseek-v2", 5120, 160, 6, 1536, 3072, 1},
    {"deepseek-moe-16b", 2048, 64, 6, 1408, 2816, 1},
    {"moonlight", 2048, 64, 6, 1408, 2816, 1},
    {"kimi-k2", 7168, 384, 8, 2048, 2048, 1},
    {"llama-4-scout", 5120, 16, 1, 8192, 8192, 0},
    {"llama-4-maverick", 5120, 128, 1, 8192, 8192, 0},
    {"glm-4.5-air", 4096, 128, 8, 1408, 1408, 1},
    {"glm-4.5", 5120, 160, 8, 1536, 1536, 3},
    {"glm-4.6", 5120, 160, 8, 1536, 1536, 3},
    {"gpt-oss-20b", 2880, 32, 4, 2880, 0, 0},
    {"gpt-oss-120b", 2880, 128, 4, 2880, 0, 0},
    {"qwen3-30b-a3b", 2048, 128, 8, 768, 0, 0},
    {"qwen3-235b-a22b", 4096, 128, 8, 1536, 0, 0},
    {"dbrx", 6144, 16, 4, 10'752, 0, 0},
    {"olmoe-1b-7b", 2048, 64, 8, 1024, 0, 0},
    {"glm-4.7-flash", 2048, 64, 4, 1536, 1536, 1},
    {"glm-4.7", 5120, 160, 8, 1536, 1536, 3},
    {"glm-5", 6144, 256, 8, 2048, 2048, 3},
    {"minimax-m2", 3072, 256, 8, 1536, 0, 0},
    {"qwen3-coder-30b", 2048, 128, 8, 768, 0, 0},
    {"qwen3-coder-480b", 6144, 160, 8, 2560, 0, 0},
    {"qwen3-vl-30b-a3b", 2048, 128, 8, 768, 0, 0},
    {"qwen3-vl-235b-a22b", 4096, 128, 8, 1536, 0, 0},
    {"hunyuan-a13b", 4096, 64, 8, 3072, 3072, 0},
    {"ernie-4.5-21b", 2560, 64, 6, 1536, 3072, 1},
};

/// Models with experts of which there is no entry above.
constexpr const char* kOtherExperts[] = {"dots.llm1", "ling-mini", "ling-flash", "ling-1t", "mistral-large-3"};

constexpr AttentionWindow kWindows[] = {
    {"gemma-2", "Gemma", 4096, 2},
    {"gemma-3n", "Gemma", 512, 5},
    {"gemma-3-270m", "Gemma", 512, 6},
    {"gemma-3-1b", "Gemma", 512, 6},
    {"gemma-3", "Gemma", 1024, 6},
    {"gemma-4-e2b", "Gemma", 512, 5},
    {"gemma-4-e4b", "Gemma", 512, 6},
    {"gemma-4", "Gemma", 1024, 6},
    {"gpt-oss", "GPT-OSS", 128, 2},
    {"olmo-3", "OLMo 3", 4096, 4},
    {"llama-4", "Llama 4", 8192, 4, true},
    {"exaone-4.0-32b", "EXAONE 4", 4096, 4},
    {"exaone-4-32b", "EXAONE 4", 4096, 4},
    {"command-r7b", "Command R7B", 4096, 4},
    {"command-a", "Command A", 4096, 4},
    {"mistral-7b-v0.1", "Mistral 7B v0.1", 4096, 0, false, true},
    {"mistral-7b-instruct-v0.1", "Mistral 7B v0.1", 4096, 0, false, true},
};

constexpr const char* kQkNorm[] = {"qwen3",         "apertus",    "olmo-2",     "olmo-3",    "olmoe",
                                   "gemma-3",       "gemma-3n",   "gemma-4",    "glm-4.5",   "glm-4.6",
                                   "glm-4.7",       "minimax-m2", "exaone-4",   "dots.llm1", "hunyuan-a13b",
                                   "llama-4-scout", "ling-mini",  "ling-flash", "ling-1t"};
constexpr const char* kNoQkNorm[] = {"glm-4.5-air"};

constexpr const char* kFourNorms[] = {"gemma-2", "gemma-3", "gemma-3n", "glm-4-9b-0414", "glm-4-32b-0414"};

constexpr const char* kAlternating[] = {"llama-4-maverick"};

constexpr LatentAttention kDeepSeek{1536, 512, 128, 64, 128};
constexpr LatentAttention kWholeQuery{0, 512, 128, 64, 128};
constexpr LatentFamily kLatent[] = {
    {"deepseek-v2-lite", kWholeQuery, 0},
    {"deepseek-v2", kDeepSeek, 0},
    {"deepseek-v3.2", kDeepSeek, 64},
    {"deepseek-v3", kDeepSeek, 0},
    {"kimi-k2", kDeepSeek, 0},
    {"moonlight", kWholeQuery, 0},
    {"mistral-large-3", kDeepSeek, 0},
    {"pangu-ultra-moe", kDeepSeek, 0},
    {"openpangu-ultra-moe", kDeepSeek, 0},
    {"glm-5", {2048, 512, 192, 64, 256}, 32},
    {"glm-4.7-flash", {768, 512, 192, 64, 256}, 0},
};

constexpr UngatedFamily kGpt{"", Activation::gelu, Norm::layer_norm, Position::learned, true};
constexpr UngatedFamily kUngated[] = {
    {"starcoder-2", Activation::gelu, Norm::layer_norm, Position::rope, true},
    {"phi-1", Activation::gelu, Norm::layer_norm, Position::rope, true},
    {"phi-2", Activation::gelu, Norm::layer_norm, Position::rope, true},
    {"codegen", Activation::gelu, Norm::layer_norm, Position::rope, true},
    {"minitron", Activation::relu, Norm::layer_norm, Position::rope, false},
    {"nemotron", Activation::relu, Norm::layer_norm, Position::rope, false},
    {"apertus", Activation::gelu, Norm::rms_norm, Position::rope, false},
};

/// Falcon 3 and Falcon-H1 are gated and have other layers.
constexpr const char* kFalcons[] = {"falcon-7b", "falcon-11b", "falcon-40b", "falcon-180b", "falcon-2"};
constexpr const char* kUngatedNames[] = {"gpt",      "opt-",       "bloom",      "pythia",        "mpt-",
                                         "mt-nlg",   "nemotron-4", "apertus",    "nemotron-3-8b", "nemotron-mini",
                                         "minitron", "starcoder",  "santacoder", "cerebras-gpt",  "codegen",
                                         "phi-1",    "phi-2"};
/// Later models of those names that have a gate.
constexpr const char* kGatedNames[] = {"gpt-oss", "codegen-2.5", "codegen25"};
constexpr const char* kParallel[] = {"gpt-neox",  "gpt-j",   "pythia", "palm", "command-r",
                                     "command-a", "codegen", "phi-1",  "phi-2"};

constexpr const char* kLinear = "layers of linear attention";
constexpr const char* kMamba = "layers of Mamba";
struct UnmodelledFamily {
  const char* family;
  const char* layers;
};
constexpr UnmodelledFamily kUnmodelled[] = {
    {"qwen3-next", kLinear},
    {"qwen3-coder-next", kLinear},
    {"qwen3.5", kLinear},
    {"kimi-linear", kLinear},
    {"minimax-m1", kLinear},
    {"minimax-text-01", kLinear},
    {"minimax-01", kLinear},
    {"ling-2.5", kLinear},
    {"ring-2.5", kLinear},
    {"ring-linear", kLinear},
    {"ring-mini-linear", kLinear},
    {"ring-flash-linear", kLinear},
    {"rwkv", kLinear},
    {"recurrentgemma", kLinear},
    {"nemotron-h", kMamba},
    {"nemotron-3-nano", kMamba},
    {"nemotron-3-super", kMamba},
    {"nemotron-3-ultra", kMamba},
    {"nemotron-nano-9b", kMamba},
    {"nemotron-nano-12b", kMamba},
    {"nemotron-nano-2", kMamba},
    {"granite-4-h", kMamba},
    {"granite-4.0-h", kMamba},
    {"granite-4.0-tiny", kMamba},
    {"falcon-h1", kMamba},
    {"falcon-mamba", kMamba},
    {"mamba", kMamba},
    {"jamba", kMamba},
    {"bamba", kMamba},
    {"zamba", kMamba},
    {"lfm2", "layers of convolution"},
    {"longcat-flash", "two attentions in each layer"},
    {"deepseek-v4", "attention to compressed keys"},
};

/// True if the name is of that family; both in one spelling.
bool is_of(std::string_view name, const char* family) { return name.starts_with(family_name(family)); }

template <class Entry, std::size_t n>
const Entry* find(const Entry (&entries)[n], std::string_view name) {
  const auto* found = std::ranges::find_if(entries, [&](const Entry& entry) { return is_of(name, entry.family); });
  return found == std::end(entries) ? nullptr : found;
}

template <std::size_t n>
bool is_of_any(const char* const (&families)[n], std::string_view name) {
  return std::ranges::any_of(families, [&](const char* family) { return is_of(name, family); });
}

}  // namespace

std::int64_t head_size_of(std::string_view name) {
  const HeadSize* found = find(kHeadSizes, name);
  return found == nullptr ? 0 : found->size;
}

const VocabularyFamily* vocabulary_of(std::string_view name) { return find(kVocabularies, name); }

const ExpertFamily* experts_of(std::string_view name, std::int64_t hidden) {
  const auto* found = std::ranges::find_if(
      kExperts, [&](const ExpertFamily& each) { return is_of(name, each.family) && hidden == each.hidden; });
  return found == std::end(kExperts) ? nullptr : found;
}

bool has_known_experts(std::string_view name) { return find(kExperts, name) != nullptr; }

bool is_named_for_experts(std::string_view name) {
  const auto says = [](std::string_view word) {
    const bool active = word.size() > 2 && word[0] == 'a' && is_digit(word[1]) && word.back() == 'b';
    return active || word.ends_with("moe");  // also "JetMoE"
  };
  return has_known_experts(name) || is_of_any(kOtherExperts, name) || std::ranges::any_of(split_words(name, "-"), says);
}

const AttentionWindow* window_of(std::string_view name) { return find(kWindows, name); }

const LatentFamily* latent_family(std::string_view name) { return find(kLatent, name); }

SparseAttention sparse_attention(int index_heads) { return {2048, index_heads, 128}; }

const UngatedFamily& ungated_family(std::string_view name) {
  const UngatedFamily* found = find(kUngated, name);
  return found == nullptr ? kGpt : *found;
}

bool is_ungated(std::string_view name) {
  return (is_of_any(kUngatedNames, name) && !is_of_any(kGatedNames, name)) || is_of_any(kFalcons, name);
}

bool has_qk_norm(std::string_view name) { return is_of_any(kQkNorm, name) && !is_of_any(kNoQkNorm, name); }

bool has_four_norms(std::string_view name) { return is_of_any(kFourNorms, name); }

bool alternates_experts(std::string_view name) { return is_of_any(kAlternating, name); }

bool has_parallel_residual(std::string_view name) { return is_of_any(kParallel, name) || is_of_any(kFalcons, name); }

std::vector<std::string> families_with_entries() {
  std::vector<std::string> names;
  const auto add = [&](const auto& entries) {
    for (const auto& entry : entries) names.push_back(family_name(entry.family));
  };
  add(kHeadSizes);
  add(kExperts);
  add(kWindows);
  add(kLatent);
  for (const char* name : kQkNorm) names.push_back(family_name(name));
  return names;
}

std::string_view unmodelled_layers(std::string_view name) {
  const UnmodelledFamily* found = find(kUnmodelled, name);
  return found == nullptr ? std::string_view{} : found->layers;
}

}  // namespace tracecast::accuracy
