/// \file
/// What the words of a source mean: yes and no, denials, stages of ZeRO, the family of a model, the framework and its age.
///
/// Names of frameworks that a table may use for a stack of scenarios/stacks:
///
///   Megatron-LM         with its year: of its name or version, else of the source, else 2024 if the row has what only later ones
///                       had (gated MLPs, grouped queries, fused attention)
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

/// "1", "1.0", "true", "yes", "on", "enabled" and their opposites in any case, "none"; empty: another word.
std::optional<bool> truth(std::string_view word);

/// True if `text` has these words somewhere without "no", "not" or "without" before them and "none" or "off" behind; in
/// any case.
bool affirms(const std::string& text, std::string_view words);

/// True if a whole cell, in small letters, begins or ends with a denial: "no recomputation", "recomputation: off". One that begins
/// with "not" need not: "not printed".
bool denies(std::string_view cell);

/// True if `word` is in the text as a whole word: "moe" is in "layernorm, moe" and not in "moe_act".
bool has_word(std::string_view text, std::string_view word);

/// The number behind `words` in a text, at most 100,000; 0: there is none.
int number_after(const std::string& text, std::string_view words);

/// The stage in "ZeRO-3", "zero stage 2", "FULL_SHARD", the tags "fsdp2" and "fsdp3"; "FSDP2" is a version, of stage 3; empty: there is
/// none.
std::optional<int> zero_stage_in(std::string_view text);

/// A model's name in one spelling, small letters with hyphens for blanks and brackets, without owner and maker, the version behind the
/// name: "nvidia/Meta-Llama-3 (8B)" is "llama3-8b"; of a distilled model that of the smaller one.
std::string family_name(std::string_view model);

/// The year in a source: of arXiv's number ("arXiv 2402.15627"), else one that is written out; 0: it has none.
double year_of_source(std::string_view source);

/// The framework of a row in the words of stacks, with the release in the end: "Megatron-Bridge 26.02".
std::string framework_name(const TableFields& fields);

/// For a framework without a stack: one that works alike; empty if none is known.
std::string similar_framework(const std::string& framework);

}  // namespace tracecast::accuracy
