#include "tools/accuracy/rows/model_names.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>
#include <vector>

#include "sim/base/words.hpp"
#include "tools/accuracy/rows/cell_words.hpp"

namespace tracecast::accuracy {
namespace {

/// "3", "3.1": a version, not "70b" or "0324".
bool is_version(std::string_view word) {
  return is_digit(word.front()) && parse_number<double>(word).value_or(10) < 10;
}

/// Words with hyphens between them, without a maker before them, and versions behind their names: "llama3.1-8b" of
/// "Meta Llama 3.1 (8B)".
std::string in_one_spelling(std::string_view model) {
  constexpr std::string_view kMakers[] = {"meta",       "openai",    "google", "nvidia", "alibaba", "moonshot",
                                          "moonshotai", "mistralai", "zhipu",  "huawei", "c4ai"};
  std::vector<std::string_view> words = split_words(model, " \t\r-_()[],:");
  if (words.size() > 1 && std::ranges::find(kMakers, words.front()) != std::end(kMakers)) words.erase(words.begin());
  std::string name;
  for (const std::string_view word : words) {
    const bool behind_letter = !name.empty() && std::isalpha(static_cast<unsigned char>(name.back())) != 0;
    name += (name.empty() || (behind_letter && is_version(word)) ? "" : "-") + std::string(word);
  }
  return name;
}

/// Models that other names stand for, or whose shape they have.
std::string without_short_name(std::string name) {
  struct Short {
    std::string_view begin;
    const char* family;
  };
  constexpr Short kShort[] = {{"dsv3", "deepseek-v3"},
                              {"ds-v3", "deepseek-v3"},
                              {"deepseekv3", "deepseek-v3"},
                              {"deepseek3", "deepseek-v3"},
                              {"deepseek-671b", "deepseek-v3"},
                              {"dsv2", "deepseek-v2"},
                              {"ds-v2", "deepseek-v2"},
                              {"deepseekv2", "deepseek-v2"},
                              {"deepseek-236b", "deepseek-v2"},
                              {"deepseekmoe", "deepseek-moe"},
                              {"deepseek-r1-0528-qwen3", "qwen3"},
                              {"deepseek-r1", "deepseek-v3"},
                              {"deepseekr1", "deepseek-v3"},
                              {"deepseek-coder-v2", "deepseek-v2"},
                              {"gptoss", "gpt-oss"}};
  const auto* found = std::ranges::find_if(kShort, [&](const Short& s) { return name.starts_with(s.begin); });
  return found == std::end(kShort) ? name : name.replace(0, found->begin.size(), found->family);
}

/// "llama3.1-8b" of "llama3.1-8b-instruct-fp8".
std::string without_tuning(std::string name) {
  constexpr std::string_view kEndings[] = {"-hf",   "-base", "-instruct", "-thinking", "-chat",
                                           "-v0.1", "-it",   "-bf16",     "-fp8",      "-2507"};
  const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
  for (const auto* found = std::ranges::find_if(kEndings, ends); found != std::end(kEndings);
       found = std::ranges::find_if(kEndings, ends))
    name.resize(name.size() - found->size());
  return name;
}

/// Names that leave out the sizes of the only model of their family.
std::string with_sizes(const std::string& name) {
  struct Short {
    std::string_view name;
    const char* full;
  };
  constexpr Short kOnly[] = {{"qwen3-next", "qwen3-next-80b-a3b"},
                             {"qwen3-next-80b", "qwen3-next-80b-a3b"},
                             {"qwen3-coder-next", "qwen3-next-80b-a3b"},
                             {"kimi-linear", "kimi-linear-48b-a3b"},
                             {"kimi-linear-48b", "kimi-linear-48b-a3b"},
                             {"nemotron3-nano", "nemotron3-nano-30b-a3b"},
                             {"nemotron3-nano-30b", "nemotron3-nano-30b-a3b"}};
  const auto* found = std::ranges::find(kOnly, std::string_view(name), &Short::name);
  return found == std::end(kOnly) ? name : found->full;
}

}  // namespace

std::string family_name(std::string_view model) {
  constexpr std::string_view kDistilled = "-distill-";
  if (const std::size_t owner = model.rfind('/'); owner != std::string_view::npos) model.remove_prefix(owner + 1);
  std::string name = in_one_spelling(lower_case(model));
  if (const std::size_t at = name.find(kDistilled); at != std::string::npos) name.erase(0, at + kDistilled.size());
  return without_short_name(std::move(name));
}

std::string shipped_name(std::string_view model) { return with_sizes(without_tuning(family_name(model))); }

}  // namespace tracecast::accuracy
