/// \file
/// What every importer of machines checks in the end.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/import/imported_topology.hpp"

namespace tracecast {

/// The function that passes an imported machine on.
/// Errors: rates that no machine has (impossible_values), which the reader of topology files would refuse too.
inline auto possible_in(const std::string& file) {
  return [file](ImportedTopology imported) -> Result<ImportedTopology> {
    const std::vector<ImpossibleValue> faults = impossible_values(imported.cluster);
    if (!faults.empty()) return fail({file, 0, faults.front().key, "", faults.front().message});
    return imported;
  };
}

}  // namespace tracecast
