#include "sim/import/imported_topology.hpp"

#include <fmt/format.h>

#include "sim/io/files.hpp"

namespace tracecast {

void complete(Cluster& imported) {
  const bool own_export = !imported.source.empty();
  if (!own_export && imported.node.link == IntraLink::pcie) imported.tuning = unmeasured_pcie();
}

std::string to_topology_json(const ImportedTopology& imported, const std::string& origin) {
  Cluster cluster = imported.cluster;
  complete(cluster);
  cluster.source = fmt::format("{} {}", imported.format, origin);
  for (const std::string& note : imported.notes) cluster.source += "; " + note;
  if (!imported.cluster.source.empty()) cluster.source += "\n" + imported.cluster.source;  // of an own export
  return to_json(cluster, fmt::format("{}, read from {}", cluster.name, imported.format));
}

}  // namespace tracecast
