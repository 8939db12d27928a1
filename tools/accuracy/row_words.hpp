/// \file
/// What the words of a source mean: stages of ZeRO, the family of a model, the framework and its age.
///
/// Names of frameworks that a table may use for a stack of scenarios/stacks:
///
///   Megatron-LM         with its year: of its name or version, else of the source, else 2024 if the row has what only later ones
///                       had (gated MLPs, grouped queries, fused attention)
///                       with experts as Megatron-Core
///   Megatron-Core       with experts of version 0.12 or of 2025, or without either: Megatron's scripts for experts ("Megatron MoE")
///   NeMo                with a release wherever the name has it; of September 2025 and later it is Megatron-Bridge
///                       (docs/references.md#nemo-bridge); without a release by the year of the source
///   Megatron-Bridge     0.1 to 0.6 are the releases 25.09, 25.11, 26.02, 26.04, 26.06 and 26.08
///   others              by a word in their name: "Lightning Fabric (FSDP)" is PyTorch FSDP
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tools/accuracy/table_fields.hpp"

namespace tracecast::accuracy {

/// The number behind `words` in a text, at most 100,000; 0: there is none.
int number_after(const std::string& text, std::string_view words);

/// The stage in "ZeRO-3", "zero stage 2", "ZeRO++", "FULL_SHARD", the tags "fsdp2" and "fsdp3"; "FSDP2" is a version, of stage 3, as other
/// FSDP is; empty: there is none.
std::optional<int> zero_stage_in(std::string_view text);

/// A model's name in one spelling, small letters with hyphens for blanks and brackets, without owner and maker, the version behind the
/// name: "nvidia/Meta-Llama-3 (8B)" is "llama3-8b"; of a distilled model that of the smaller one.
std::string family_name(std::string_view model);

/// The year in a source: of arXiv's number ("arXiv 2402.15627"), else one that is written out; 0: it has none.
double year_of_source(std::string_view source);

/// The framework of a row in the words of stacks, with the release in the end: "Megatron-Bridge 26.02".   experts: of the model
std::string framework_name(const TableFields& fields, bool experts = false);

/// The stage of ZeRO that a row names: in its column, else in a tag of parallel_style, else in the framework's name ("DeepSpeed
/// ZeRO-3"; DeepSpeed-Ulysses divides sequences beside ZeRO-3). Empty: it names none, or the column has another word.
std::optional<int> named_zero_stage(const TableFields& fields);

/// For a framework without a stack: one that works alike; empty if none is known.
std::string similar_framework(const std::string& framework);

}  // namespace tracecast::accuracy
