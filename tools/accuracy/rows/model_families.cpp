#include "tools/accuracy/rows/model_families.hpp"

#include <algorithm>
#include <iterator>
#include <string>

#include "tools/accuracy/rows/model_names.hpp"

namespace tracecast::accuracy {
namespace {

struct HeadSize {
  const char* family;
  std::int64_t size;
};
constexpr HeadSize kHeadSizes[] = {
    {"qwen3", 128},         {"glm-4.5", 128},       {"glm-4.6", 128},     {"glm-4.7", 128},
    {"gpt-oss", 64},        {"mistral-small", 128}, {"magistral", 128},   {"devstral", 128},
    {"ministral", 128},     {"mistral-nemo", 128},  {"seed-oss", 128},    {"minimax-m2", 128},
    {"ernie-4.5-21b", 128}, {"gemma-2-27b", 128},   {"gemma-3-27b", 128}, {"gemma", 256},
};

constexpr AttentionWindow kWindows[] = {{"gemma-2", 4096, 2}, {"gemma-3-270m", 512, 6}, {"gemma-3-1b", 512, 6},
                                        {"gemma-3", 1024, 6}, {"gemma-4-e2b", 512, 5},  {"gemma-4-e4b", 512, 6},
                                        {"gemma-4", 1024, 6}};

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
    {"nemotron", Activation::relu, Norm::layer_norm, Position::rope, false},
    {"apertus", Activation::gelu, Norm::rms_norm, Position::rope, false},
};

/// Falcon 3 and Falcon-H1 are gated and have other layers.
constexpr const char* kFalcons[] = {"falcon-7b", "falcon-11b", "falcon-40b", "falcon-180b", "falcon-2"};
/// All of GPT but GPT-OSS.
constexpr const char* kUngatedNames[] = {"gpt", "opt-", "bloom", "pythia", "mpt-", "mt-nlg", "nemotron-4", "apertus"};
constexpr const char* kParallel[] = {"gpt-neox", "gpt-j", "pythia", "palm", "command-r"};

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

const AttentionWindow* window_of(std::string_view name) { return find(kWindows, name); }

const LatentFamily* latent_family(std::string_view name) { return find(kLatent, name); }

SparseAttention sparse_attention(int index_heads) { return {2048, index_heads, 128}; }

const UngatedFamily& ungated_family(std::string_view name) {
  const UngatedFamily* found = find(kUngated, name);
  return found == nullptr ? kGpt : *found;
}

bool is_ungated(std::string_view name) {
  return (is_of_any(kUngatedNames, name) && !is_of(name, "gpt-oss")) || is_of_any(kFalcons, name);
}

bool has_parallel_residual(std::string_view name) { return is_of_any(kParallel, name) || is_of_any(kFalcons, name); }

std::string_view unmodelled_layers(std::string_view name) {
  const UnmodelledFamily* found = find(kUnmodelled, name);
  return found == nullptr ? std::string_view{} : found->layers;
}

}  // namespace tracecast::accuracy
