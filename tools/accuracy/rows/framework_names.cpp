#include "tools/accuracy/rows/framework_names.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "tools/accuracy/rows/cell_words.hpp"
#include "tools/accuracy/rows/gpu_names.hpp"
#include "tools/accuracy/rows/machine_table.hpp"

namespace tracecast::accuracy {
namespace {

std::string_view digits_at(std::string_view text, std::size_t begin) {
  std::size_t end = begin;
  while (end < text.size() && is_digit(text[end])) ++end;
  return text.substr(begin, end - begin);
}

/// The words of a framework's name, without the letter before a version: "nemo", "24.07" of "nemo:v24.07".
std::vector<std::string_view> words_of_name(std::string_view small) {
  std::vector<std::string_view> words = split_words(small, " ()/:,-_");
  for (std::string_view& word : words)
    if (word.size() > 1 && (word[0] == 'v' || word[0] == 'r') && is_digit(word[1])) word.remove_prefix(1);
  return words;
}

/// "2.1" of "2.1.0"; first: -1 for another word.
std::pair<int, int> major_and_minor(std::string_view word) {
  const std::string_view major = digits_at(word, 0);
  const bool dotted = major.size() < word.size() && word[major.size()] == '.';
  const std::string_view minor = dotted ? digits_at(word, major.size() + 1) : std::string_view{};
  if (minor.empty() || minor.size() > 2) return {-1, 0};
  return {parse_number<int>(major).value_or(-1), parse_number<int>(minor).value_or(0)};
}

/// Years since 2000 and month of "24.07", "24.7", "2024.07"; first 0: another word.
std::pair<int, int> year_and_month(std::string_view word) {
  const auto [major, month] = major_and_minor(word);
  const int year = major >= 2000 ? major - 2000 : major;
  return year >= 18 && year < 40 && month >= 1 && month <= 12 ? std::pair(year, month) : std::pair(0, 0);
}

/// "24.07" in "NeMo Framework (24.07)"; empty: the name has no year and month.
std::string release_in(std::string_view name) {
  const std::string small = lower_case(name);
  for (const std::string_view word : words_of_name(small))
    if (const auto [year, month] = year_and_month(word); year > 0) return fmt::format("{}.{:02}", year, month);
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

/// True of what follows a number of GPUs: " GPUs", "x A100", " NVIDIA A100 80GB GPUs", " A100s", " nodes"; not of " H100 results".
bool counts_devices(std::string_view behind) {
  const std::vector<std::string_view> words = split_words(behind.substr(0, behind.find_first_of(",;.()")), " -");
  if (!words.empty() && (words[0] == "x" || (words[0][0] == 'x' && is_part(gpu_name(words[0].substr(1)).part))))
    return true;
  for (const std::string_view word : words) {
    for (const char* device : {"gpu", "gcd", "node", "accelerator", "chip", "device"})
      if (word.starts_with(device)) return true;
    const std::string part = gpu_name(word).part;  // of "nvidia" or "80gb" none
    if (!part.empty() && !is_part(part)) return false;
    if (word.ends_with('s') && !part.empty() && part.size() < word.size()) return true;
  }
  return false;
}

/// A year from 2015 to 2039 that stands alone: "Megatron-LM (2024)", but not in "2016 GPUs".   0: there is none
double written_year(std::string_view small) {
  for (std::size_t at = 0; at < small.size(); ++at) {
    const std::string_view digits = digits_at(small, at);
    if (digits.empty()) continue;
    const int year = digits.size() == 4 ? parse_number<int>(digits).value_or(0) : 0;
    if (year >= 2015 && year < 2040 && !counts_devices(small.substr(at + 4))) return year;
    at += digits.size();
  }
  return 0;
}

/// The copy inside of DeepSpeed's example has a stack of its own.
bool is_megatron_lm(std::string_view small) {
  return small == "megatron" ||
         ((contains(small, "megatron-lm") || contains(small, "megatron lm")) && !contains(small, "inside"));
}

bool is_megatron_core(std::string_view small) {
  return contains(small, "mcore") || contains(small, "megatron-core") || contains(small, "megatron core");
}

/// True if Megatron of this age runs experts as NVIDIA's scripts of 2025 do, with DeepEP, which Megatron-Core has since version
/// 0.12. Megatron-LM without a version or a year is older. docs/references.md#megatron-deepep
bool has_scripts_of_experts(const TableFields& fields, const std::string& small) {
  constexpr int kFirstMinor = 12;
  constexpr double kFirstYear = 2025;
  if (const std::string version = version_in(small); !version.empty())
    return number_after(version, "0.") >= kFirstMinor;
  if (const double year = year_in_name(small); year > 0) return year >= kFirstYear;
  if (const double year = year_of_source(fields.text("source")); year > 0) return year >= kFirstYear;
  return is_megatron_core(small);
}

/// 0: nothing says it.
int year_of_megatron_lm(const TableFields& fields, const std::string& small) {
  constexpr int kWithCore = 2024;
  constexpr double kRunBefore = 2024.5;  // a publication of early 2024 tells of runs of 2023
  if (const double year = year_in_name(small); year > 0) return static_cast<int>(year);
  if (contains(small, "core")) return kWithCore;
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

/// Releases since February 2026 came every second month, and later ones are taken to.
std::string release_after_february_2026(int releases) {
  const int months = 1 + 2 * releases;  // since January
  return fmt::format("{}.{:02}", 26 + months / 12, 1 + months % 12);
}

std::string megatron_bridge(const std::string& name) {
  if (const std::string release = release_in(name); !release.empty()) return "Megatron-Bridge " + release;
  struct Version {
    const char* number;
    const char* release;
  };
  constexpr Version kVersions[] = {{"0.1", "25.09"}, {"0.2", "25.11"}};
  constexpr int kMinorOfFebruary2026 = 3;
  const std::string version = version_in(name);
  for (const Version& each : kVersions)
    if (version == each.number) return std::string("Megatron-Bridge ") + each.release;
  const int minor = number_after(version, "0.");
  return "Megatron-Bridge" + (minor == 0 ? "" : " " + release_after_february_2026(minor - kMinorOfFebruary2026));
}

/// What follows a framework's name, but for words like "framework": "2.1.0" of "nvidia nemo framework v2.1.0".
std::string_view word_behind(const std::vector<std::string_view>& words, std::string_view name) {
  auto word = std::ranges::find(words, name);
  constexpr std::string_view kFillers[] = {"framework", "toolkit", "version", "release"};
  do {
    if (word == words.end() || ++word == words.end()) return {};
  } while (std::ranges::find(kFillers, *word) != std::end(kFillers));
  return *word;
}

/// NeMo Megatron was the product of 2022 and 2023; "NeMo/Megatron-Core" is not.
bool is_nemo_megatron(const std::vector<std::string_view>& words) {
  constexpr std::string_view kOthers[] = {"core", "lm", "bridge"};
  return word_behind(words, "nemo") == "megatron" &&
         std::ranges::find(kOthers, word_behind(words, "megatron")) == std::end(kOthers);
}

/// Versions 2.x are containers: docs/references.md#nemo-bridge
std::string nemo(const TableFields& fields, const std::string& small) {
  constexpr double kFirstBridge = 2025.7, kLastOf2024 = 2024.6;
  constexpr const char* kContainers[] = {"24.09", "24.12", "25.02", "25.04", "25.07", "25.09", "25.11"};
  const std::string& name = fields.text("framework");
  const std::vector<std::string_view> words = words_of_name(small);
  const auto [major, minor] = major_and_minor(word_behind(words, "nemo"));
  std::string release = release_in(name);
  if (contains(small, "bridge")) return megatron_bridge(name);
  if (const int later = minor - static_cast<int>(std::size(kContainers)); release.empty() && major == 2)
    release = later < 0 ? kContainers[minor] : release_after_february_2026(later);
  const double released = year_of_release(release);
  if (released >= kFirstBridge) return "Megatron-Bridge " + release;
  if (released > 0) return "NeMo " + release;
  const double written = written_year(small), year = written > 0 ? written : year_of_source(fields.text("source"));
  return major == 1 || is_nemo_megatron(words) || (year > 0 && year < kLastOf2024) ? "NeMo of 2024" : name;
}

/// That of 2024 had no version, or 0.0.
std::string torchtitan(const TableFields& fields, const std::string& small) {
  constexpr double kFirstYear = 2025;
  const std::string& name = fields.text("framework");
  const std::pair<int, int> version = major_and_minor(word_behind(words_of_name(small), "torchtitan"));
  const double written = year_in_name(small), year = written > 0 ? written : year_of_source(fields.text("source"));
  const bool early = version.first == 0 ? version.second == 0 : year > 0 && year < kFirstYear;
  return early ? "torchtitan (2024)" : name;
}

}  // namespace

double year_of_release(const std::string& framework) {
  const std::string small = lower_case(framework);
  for (const std::string_view word : words_of_name(small))
    if (const auto [year, month] = year_and_month(word); year > 0) return 2000 + year + (month - 0.5) / 12;
  return 0;
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

double year_in_name(const std::string& framework) {
  const double released = year_of_release(framework);
  return released > 0 ? released : written_year(lower_case(framework));
}

double year_of_megatron(const std::string& framework, const TableFields& fields) {
  constexpr int kMinor = 8;
  constexpr double kYear = 2024.5, kYearsPerMinor = 0.2;
  const auto begins = [&](const char* name) { return framework.starts_with(name); };
  if (!begins("Megatron-LM") && !begins("Megatron-Core") && !begins("Megatron MoE")) return 0;
  const std::string small = lower_case(fields.text("framework"));
  if (const std::string version = version_in(small); !version.empty())
    return kYear + kYearsPerMinor * (number_after(version, "0.") - kMinor);
  if (const double release = year_of_release(small); release > 0) return release;
  if (const double written = written_year(small); written > 0) return written + 0.5;
  return year_of_source(fields.text("source"));
}

std::string framework_name(const TableFields& fields, bool experts) {
  const std::string& name = fields.text("framework");
  const std::string small = lower_case(name);
  if (contains(small, "turing")) return "Megatron-DeepSpeed";  // Megatron-Turing NLG
  if (contains(small, "primus")) return contains(small, "torchtitan") ? "Primus torchtitan" : name;
  if (contains(small, "torchtitan") || contains(small, "torch titan")) return torchtitan(fields, small);
  const bool megatron = contains(small, "megatron") || contains(small, "neox");
  if (contains(small, "deepspeed") && !megatron && !small.starts_with("deepspeed"))
    return "DeepSpeed";  // TRL, Accelerate
  const bool other_megatron =
      small.starts_with("megatron-deepspeed") || contains(small, "inside") || contains(small, "neox");
  if (contains(small, "deepspeed") && contains(small, "megatron")) return other_megatron ? name : "Megatron-DeepSpeed";
  if (contains(small, "nemo") && !contains(small, "automodel") && !contains(small, "nemotron"))
    return nemo(fields, small);
  if (contains(small, "megatron-bridge") || contains(small, "megatronbridge") || contains(small, "megatron bridge"))
    return megatron_bridge(name);
  if (!is_megatron_lm(small) && !is_megatron_core(small)) return name;
  if (affirms(small, "fsdp")) return "Megatron-FSDP";
  if (contains(small, "rocm")) return "ROCm Megatron-LM";
  if (experts && has_scripts_of_experts(fields, small)) return "Megatron MoE";
  if (const std::string version = version_in(small); !version.empty()) return "Megatron-Core " + version;
  return is_megatron_lm(small) ? megatron_lm(fields, small) : name;
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
  const auto* found = std::ranges::find_if(kAlike, [&](const Alike& a) { return contains(small, a.word); });
  return found == std::end(kAlike) ? std::string{} : found->framework;
}

}  // namespace tracecast::accuracy
