/// \file
/// The framework that a row names, and its age, in the words of the stacks of scenarios/stacks:
///
///   Megatron-LM         of a version of Megatron-Core, "core_r0.12", as that; else with its year: of its name, else of the source,
///                       else 2024 if the row has what only later ones had (gated MLPs, grouped queries, fused attention)
///                       with experts as Megatron-Core
///   Megatron-Core       with experts of version 0.12 or of 2025, or without either: Megatron's scripts for experts ("Megatron MoE")
///   NeMo                with a release wherever the name has it ("24.07", "24.7", "2024.07"), else by its version, 1.x or 2.x; of
///                       September 2025 and later it is Megatron-Bridge (docs/references.md#nemo-bridge); else by the year in the name
///                       or the source
///   torchtitan          "torchtitan (2024)" by the year in the name, version 0.0, or the year of the source
///   Megatron-Bridge     0.1 to 0.6 are the releases 25.09, 25.11, 26.02, 26.04, 26.06 and 26.08
///   others              by a word in their name: "Lightning Fabric (FSDP)" is PyTorch FSDP
#pragma once

#include <string>
#include <string_view>

#include "tools/accuracy/rows/table_fields.hpp"

namespace tracecast::accuracy {

/// The framework of a row in the words of stacks, with the release in the end: "Megatron-Bridge 26.02".   experts: of the model
std::string framework_name(const TableFields& fields, bool experts = false);

/// For a framework without a stack: one that works alike; empty if none is known.
std::string similar_framework(const std::string& framework);

/// The middle of the month in a framework's name with a word that begins with year and month, "NeMo 26.02.01", "v24.7", "2024.07"; 0:
/// it has none.
double year_of_release(const std::string& framework);

/// The same, else a year that stands alone, "torchtitan 2024".
double year_in_name(const std::string& framework);

/// When the software of Megatron-LM or Megatron-Core came out: by its version (0.8 in mid 2024, then five a year), else by the year in
/// its name, of which the middle counts, else by the source; 0: another framework, or nothing says it.
/// framework: framework_name   Source: docs/references.md#megatron-versions
double year_of_megatron(const std::string& framework, const TableFields& fields);

/// The year in a source: of arXiv's number ("arXiv 2402.15627"), else one that is written out and counts no GPUs; 0: it has none.
double year_of_source(std::string_view source);

}  // namespace tracecast::accuracy
