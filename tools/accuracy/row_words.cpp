#include "tools/accuracy/row_words.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "tools/accuracy/cell_words.hpp"
#include "tools/accuracy/row_scenario.hpp"

namespace tracecast::accuracy {
namespace {

bool has(std::string_view text, std::string_view words) { return text.find(words) != std::string_view::npos; }

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::string_view digits_at(std::string_view text, std::size_t begin) {
  std::size_t end = begin;
  while (end < text.size() && is_digit(text[end])) ++end;
  return text.substr(begin, end - begin);
}

/// "24.07" in "NeMo Framework (24.07)"; empty: the name has no year and month.
std::string release_in(const std::string& name) {
  for (const std::string_view word : split_words(name, " ()/:,"))
    if (year_of_release(std::string(word)) > 0) return std::string(word);
  return {};
}

/// "0.12" in "mcore v0.12", "core_r0.12"; empty: there is none.
std::string version_in(std::string_view small) {
  for (std::size_t at = small.find("0."); at != std::string_view::npos; at = small.find("0.", at + 1)) {
    const bool begins = at == 0 || (!is_digit(small[at - 1]) && small[at - 1] != '.');
    const std::string_view minor = digits_at(small, at + 2);
    if (begins && !minor.empty() && minor.size() <= 2) return "0." + std::string(minor);
  }
  return {};
}

/// A year from 2015 to 2039 that stands alone: "Megatron-LM (2024)".
double written_year(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::string_view digits = digits_at(text, at);
    if (digits.empty()) continue;
    const int year = digits.size() == 4 ? parse_number<int>(digits).value_or(0) : 0;
    if (year >= 2015 && year < 2040) return year;
    at += digits.size();
  }
  return 0;
}

/// The copy inside of DeepSpeed's example has a stack of its own.
bool is_megatron_lm(std::string_view small) {
  return small == "megatron" || ((has(small, "megatron-lm") || has(small, "megatron lm")) && !has(small, "inside"));
}

bool is_megatron_core(std::string_view small) {
  return has(small, "mcore") || has(small, "megatron-core") || has(small, "megatron core");
}

/// True if Megatron of this age runs experts as NVIDIA's scripts of 2025 do, with DeepEP, which Megatron-Core has since version
/// 0.12. Megatron-LM without a version or a year is older. docs/references.md#megatron-deepep
bool has_scripts_of_experts(const TableFields& fields, const std::string& small) {
  constexpr int kFirstMinor = 12;
  constexpr double kFirstYear = 2025;
  if (const std::string version = version_in(small); !version.empty())
    return number_after(version, "0.") >= kFirstMinor;
  if (const double year = written_year(small); year > 0) return year >= kFirstYear;
  if (const double year = year_of_source(fields.text("source")); year > 0) return year >= kFirstYear;
  return is_megatron_core(small);
}

/// 0: nothing says it.
int year_of_megatron_lm(const TableFields& fields, std::string_view small) {
  constexpr int kWithCore = 2024;
  constexpr double kRunBefore = 2024.5;  // a publication of early 2024 tells of runs of 2023
  if (const double year = written_year(small); year > 0) return static_cast<int>(year);
  if (!version_in(small).empty() || has(small, "core")) return kWithCore;
  if (const double year = year_of_source(fields.text("source")); year > 0)
    return year < kRunBefore ? std::min(static_cast<int>(year), kWithCore - 1) : static_cast<int>(year);
  const auto yes = [&](const char* column) { return truth_in(fields.text(column)).value_or(false); };
  const bool grouped = fields.reported("kv_heads") && fields.text("kv_heads") != fields.text("heads");
  return yes("gated_mlp") || yes("flash_attention") || grouped ? kWithCore : 0;
}

std::string megatron_lm(const TableFields& fields, const std::string& small) {
  const int year = year_of_megatron_lm(fields, small);
  return year == 0 ? "Megatron-LM" : fmt::format("Megatron-LM ({})", std::clamp(year, 2020, 2026));
}

std::string megatron_bridge(const std::string& name) {
  if (const std::string release = release_in(name); !release.empty()) return "Megatron-Bridge " + release;
  struct Version {
    const char* number;
    const char* release;
  };
  constexpr Version kVersions[] = {{"0.1", "25.09"}, {"0.2", "25.11"}, {"0.3", "26.02"},
                                   {"0.4", "26.04"}, {"0.5", "26.06"}, {"0.6", "26.08"}};
  const std::string version = version_in(name);
  for (const Version& each : kVersions)
    if (version == each.number) return std::string("Megatron-Bridge ") + each.release;
  return "Megatron-Bridge";
}

std::string nemo(const TableFields& fields, const std::string& small) {
  constexpr double kFirstBridge = 2025.7, kLastOf2024 = 2024.6;
  const std::string& name = fields.text("framework");
  const double released = year_of_release(name);
  if (has(small, "bridge") || released >= kFirstBridge) return megatron_bridge(name);
  if (released > 0) return "NeMo " + release_in(name);
  const double year = year_of_source(fields.text("source"));
  return year > 0 && year < kLastOf2024 ? "NeMo of 2024" : name;
}

/// "3", "3.1": a version, not "70b" or "0324".
bool is_version(std::string_view word) {
  return is_digit(word.front()) && parse_number<double>(word).value_or(10) < 10;
}

/// Words with hyphens between them, without a maker before them, and versions behind their names: "llama3.1-8b" of
/// "Meta Llama 3.1 (8B)".
std::string in_one_spelling(std::string_view model) {
  constexpr std::string_view kMakers[] = {"meta",     "openai",     "google",    "nvidia", "alibaba",
                                          "moonshot", "moonshotai", "mistralai", "zhipu",  "huawei"};
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
                              {"deepseek-r1-0528-qwen3", "qwen3"},
                              {"deepseek-r1", "deepseek-v3"},
                              {"deepseekr1", "deepseek-v3"},
                              {"deepseek-coder-v2", "deepseek-v2"},
                              {"gptoss", "gpt-oss"}};
  const auto* found = std::ranges::find_if(kShort, [&](const Short& s) { return name.starts_with(s.begin); });
  return found == std::end(kShort) ? name : name.replace(0, found->begin.size(), found->family);
}

}  // namespace

int number_after(const std::string& text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string::npos) return 0;
  return static_cast<int>(std::clamp(std::strtol(text.c_str() + at + words.size(), nullptr, 10), 0L, 100'000L));
}

std::optional<int> zero_stage_in(std::string_view text) {
  const std::string small = lower_case(text);
  for (const char* name : {"zero", "fsdp"})
    for (std::size_t at = small.find(name); at != std::string::npos; at = small.find(name, at + 1)) {
      std::size_t digit = at + 4;
      while (digit < small.size() && (small[digit] == ' ' || small[digit] == '-' || small[digit] == '_')) ++digit;
      if (small.compare(digit, 5, "stage") == 0) digit += 5;
      while (digit < small.size() && (small[digit] == ' ' || small[digit] == '-' || small[digit] == '_')) ++digit;
      const bool zero = *name == 'z';
      const bool apart = digit + 1 >= small.size() || (!is_digit(small[digit + 1]) && small[digit + 1] != '.');
      // The tag "fsdp2" is a stage; "FSDP2" is PyTorch's second FSDP, which divides everything.
      if (!zero && text[at] == 'F' && digit < small.size() && apart && small[digit] == '2') return 3;
      if (digit < small.size() && apart && small[digit] >= (zero ? '0' : '2') && small[digit] <= '3')
        return small[digit] - '0';
    }
  for (const char* all : {"zero++", "full_shard", "hybrid_shard", "hsdp"})
    if (has(small, all)) return 3;
  if (has(small, "shard_grad_op")) return 2;
  return affirms(small, "fsdp") ? std::optional(3) : std::nullopt;
}

std::optional<int> named_zero_stage(const TableFields& fields) {
  const std::string& stage = fields.text("zero_stage");
  if (truth(stage) == false) return 0;
  if (fields.reported("zero_stage")) {
    const std::optional<int> digit = parse_number<int>(stage);
    return digit ? digit : zero_stage_in(stage);
  }
  if (const std::optional<int> tagged = zero_stage_in(fields.text("parallel_style"))) return tagged;
  const std::string framework = lower_case(fields.text("framework"));
  for (const char* with_parameters : {"ulysses", "infinity", "gemini"})
    if (has(framework, with_parameters)) return 3;
  return zero_stage_in(fields.text("framework"));
}

std::string family_name(std::string_view model) {
  constexpr std::string_view kDistilled = "-distill-";
  if (const std::size_t owner = model.rfind('/'); owner != std::string_view::npos) model.remove_prefix(owner + 1);
  std::string name = in_one_spelling(lower_case(model));
  if (const std::size_t at = name.find(kDistilled); at != std::string::npos) name.erase(0, at + kDistilled.size());
  return without_short_name(std::move(name));
}

double year_of_source(std::string_view source) {
  const std::string small = lower_case(source);
  if (const std::size_t at = small.find("arxiv"); at != std::string::npos) {
    std::size_t begin = at + 5;
    while (begin < small.size() && !is_digit(small[begin])) ++begin;
    const std::string_view digits = digits_at(small, begin);
    const int number = digits.size() == 4 ? parse_number<int>(digits).value_or(0) : 0;
    const int month = number % 100;
    if (number >= 1501 && number < 4000 && month >= 1 && month <= 12) return 2000 + number / 100 + (month - 0.5) / 12;
  }
  return written_year(small);
}

std::string framework_name(const TableFields& fields, bool experts) {
  const std::string& name = fields.text("framework");
  const std::string small = lower_case(name);
  if (has(small, "turing")) return "Megatron-DeepSpeed";  // Megatron-Turing NLG
  if (has(small, "primus")) return has(small, "torchtitan") ? "Primus torchtitan" : name;
  const bool megatron = has(small, "megatron") || has(small, "neox");
  if (has(small, "deepspeed") && !megatron && !small.starts_with("deepspeed")) return "DeepSpeed";  // TRL, Accelerate
  const bool other_megatron = small.starts_with("megatron-deepspeed") || has(small, "inside") || has(small, "neox");
  if (has(small, "deepspeed") && has(small, "megatron")) return other_megatron ? name : "Megatron-DeepSpeed";
  if (has(small, "nemo") && !has(small, "automodel") && !has(small, "nemotron")) return nemo(fields, small);
  if (has(small, "megatron-bridge") || has(small, "megatronbridge") || has(small, "megatron bridge"))
    return megatron_bridge(name);
  if (!is_megatron_lm(small) && !is_megatron_core(small)) return name;
  if (affirms(small, "fsdp")) return "Megatron-FSDP";
  if (has(small, "rocm")) return "ROCm Megatron-LM";
  if (experts && has_scripts_of_experts(fields, small)) return "Megatron MoE";
  if (is_megatron_lm(small)) return megatron_lm(fields, small);
  if (const std::string version = version_in(small); !version.empty()) return "Megatron-Core " + version;
  return name;
}

std::string similar_framework(const std::string& framework) {
  struct Alike {
    const char* word;
    const char* framework;
  };
  constexpr Alike kAlike[] = {{"ddp", "PyTorch DDP"},
                              {"megatron", "Megatron-LM (2024)"},  // Pai-Megatron-Patch, Megatron-SWIFT
                              {"fsdp", "PyTorch FSDP"},            // FairScale, Lightning
                              {"hsdp", "PyTorch FSDP"},
                              {"litgpt", "PyTorch FSDP"},
                              {"lit-gpt", "PyTorch FSDP"},
                              {"lit-llama", "PyTorch FSDP"},
                              {"lingua", "PyTorch FSDP"},
                              {"xlformers", "PyTorch FSDP"},
                              {"llamafactory", "Hugging Face"},
                              {"unsloth", "Hugging Face"},
                              {"xtuner", "Hugging Face"},
                              {"swift", "Hugging Face"},
                              {"verl", "Hugging Face"},
                              {"levanter", "MaxText"},
                              {"easylm", "MaxText"},
                              {"axlearn", "MaxText"},
                              {"jax", "MaxText"},
                              {"bignlp", "NeMo of 2024"}};
  const std::string small = lower_case(framework);
  const auto* found = std::ranges::find_if(kAlike, [&](const Alike& a) { return has(small, a.word); });
  return found == std::end(kAlike) ? std::string{} : found->framework;
}

}  // namespace tracecast::accuracy
