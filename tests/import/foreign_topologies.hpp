/// \file
/// Machines that tests import from files of other tools.
#pragma once

#include <filesystem>
#include <string>

#include <catch2/catch.hpp>

#include "sim/import/importers.hpp"
#include "sim/io/files.hpp"
#include "tests/support/files.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"

namespace tracecast::foreign {

inline const std::filesystem::path kFormats = measurements_of_others() / "formats";

inline bool samples_missing() {
  if (std::filesystem::exists(kFormats)) return false;
  WARN("skipped: no samples of foreign formats at " << kFormats.string());
  return true;
}

inline ImportedTopology read_sample(const std::string& name) {
  INFO(name);
  return value_of(import_as<ImportedTopology>(content_of(kFormats / name), name));
}

inline std::int64_t found(const ImportedTopology& imported, const std::string& what) {
  for (const auto& [name, count] : imported.found)
    if (name == what) return count;
  return -1;
}

inline std::string error_of(std::string_view text, const std::string& file = "f.xml") {
  return error_text(import_as<ImportedTopology>(text, file));
}

/// Written as a topology file and read again it is the same machine.
inline void check_round_trip(const ImportedTopology& imported) {
  const Cluster again =
      value_of(read_topology_text(to_topology_json(imported, "sample"), imported.cluster.name + ".json"));
  Cluster expected = imported.cluster;
  expected.name = again.name;
  expected.source = again.source;
  expected.reference = again.reference;
  if (expected.node.link == IntraLink::pcie || expected.node.link == IntraLink::none) expected.node.gpu_link = {};
  if (expected.node.link == IntraLink::pcie) expected.tuning = again.tuning;  // a reader assumes what PCIe reaches
  CHECK(again == expected);
}

}  // namespace tracecast::foreign
