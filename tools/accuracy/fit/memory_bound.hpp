/// \file
/// The memory-bound operators of a profile: which measurements each kind is fitted to, and what other GPUs take of them.
#pragma once

#include <string>
#include <vector>

#include "sim/cost/profile.hpp"
#include "sim/io/csv_table.hpp"
#include "tools/accuracy/fit/catalogue.hpp"

namespace tracecast::accuracy {

/// Measurements of others (docs/references.md#memory-bound-fit), and this project's own of an H100.
struct MemoryTables {
  const CsvTable* layers_a100;   ///< Vidur's
  const CsvTable* layers_h100;   ///< Vidur's
  const CsvTable* norms;         ///< cuDNN's
  const CsvTable* quantisation;  ///< aiconfigurator's
  const Profile* timed;
};

/// A fit to measurements of the profile's own GPU.
struct NamedFit {
  std::string group;  ///< "norm backward"
  Fit fit;
};

/// Sets profile.memory_bound: of each kind the fit to this GPU, else that to another one, whose share of the memory's bandwidth
/// changes as that of copies does.
std::vector<NamedFit> fit_memory_bound(const Gpu& gpu, const MemoryTables& tables, Profile& profile);

}  // namespace tracecast::accuracy
