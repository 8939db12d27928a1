#include "tools/accuracy/rows/framework_names.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "tools/accuracy/rows/cell_words.hpp"

namespace tracecast::accuracy {
namespace {

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
  if (const double year = written_year(small); year > 0) return year >= kFirstYear;
  if (const double year = year_of_source(fields.text("source")); year > 0) return year >= kFirstYear;
  return is_megatron_core(small);
}

/// 0: nothing says it.
int year_of_megatron_lm(const TableFields& fields, std::string_view small) {
  constexpr int kWithCore = 2024;
  constexpr double kRunBefore = 2024.5;  // a publication of early 2024 tells of runs of 2023
  if (const double year = written_year(small); year > 0) return static_cast<int>(year);
  if (!version_in(small).empty() || contains(small, "core")) return kWithCore;
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
  if (contains(small, "bridge") || released >= kFirstBridge) return megatron_bridge(name);
  if (released > 0) return "NeMo " + release_in(name);
  struct Version {
    const char* number;
    const char* release;
  };
  constexpr Version kVersions[] = {{"nemo 1.", "of 2024"},      {"nemo 2.0", "24.09"}, {"nemo 2.1", "24.12"},
                                   {"nemo 2.2", "25.02"},       {"nemo 2.3", "25.04"}, {"nemo 2.4", "25.07"},
                                   {"nemo-megatron", "of 2024"}};
  for (const Version& each : kVersions)
    if (contains(small, each.number)) return std::string("NeMo ") + each.release;
  const double year = year_of_source(fields.text("source"));
  return year > 0 && year < kLastOf2024 ? "NeMo of 2024" : name;
}

}  // namespace

double year_of_release(const std::string& framework) {
  for (const std::string_view word : split_words(framework, " ()/:,")) {
    const auto digit = [&](std::size_t at) { return at < word.size() && word[at] >= '0' && word[at] <= '9'; };
    if (!digit(0) || !digit(1) || word.size() < 5 || word[2] != '.' || !digit(3) || !digit(4)) continue;
    const int year = 10 * (word[0] - '0') + word[1] - '0', month = 10 * (word[3] - '0') + word[4] - '0';
    if (year >= 18 && month >= 1 && month <= 12) return 2000 + year + (month - 0.5) / 12;
  }
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

std::string framework_name(const TableFields& fields, bool experts) {
  const std::string& name = fields.text("framework");
  const std::string small = lower_case(name);
  if (contains(small, "turing")) return "Megatron-DeepSpeed";  // Megatron-Turing NLG
  if (contains(small, "primus")) return contains(small, "torchtitan") ? "Primus torchtitan" : name;
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
  const auto* found = std::ranges::find_if(kAlike, [&](const Alike& a) { return contains(small, a.word); });
  return found == std::end(kAlike) ? std::string{} : found->framework;
}

}  // namespace tracecast::accuracy
