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

/// Written as a topology file and read again it is the same node and fabric, and has no fault.
inline void check_round_trip(const ImportedTopology& imported) {
  const Cluster again =
      value_of(read_topology_text(to_topology_json(imported, "sample"), imported.cluster.name + ".json"));
  const NodeSpec& a = imported.cluster.node;
  const NodeSpec& b = again.node;
  CHECK(b.gpus == a.gpus);
  CHECK(b.link == a.link);
  CHECK(b.nics == a.nics);
  CHECK(b.nvls == a.nvls);
  CHECK(b.nvswitches == a.nvswitches);
  CHECK(b.pcie == a.pcie);
  CHECK(b.cpu == a.cpu);
  if (a.link != IntraLink::pcie && a.link != IntraLink::none) CHECK(b.gpu_link == a.gpu_link);
  if (a.nics > 0) CHECK(b.nic_rate == a.nic_rate);
  if (a.nics > 0) CHECK(b.nic_latency == a.nic_latency);
  CHECK(again.gpu == imported.cluster.gpu);
  CHECK(again.fabric == imported.cluster.fabric);
  CHECK(again.shape == imported.cluster.shape);
  CHECK(again.max_nodes == imported.cluster.max_nodes);
  REQUIRE(again.tiers.size() == imported.cluster.tiers.size());
  for (std::size_t i = 0; i < again.tiers.size(); ++i) {
    CHECK(again.tiers[i].nodes == imported.cluster.tiers[i].nodes);
    CHECK(again.tiers[i].oversubscription == imported.cluster.tiers[i].oversubscription);
    CHECK(again.tiers[i].hop_latency == imported.cluster.tiers[i].hop_latency);
  }
}

}  // namespace tracecast::foreign
