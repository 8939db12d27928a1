#include "sim/network/rack_use.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/base/result.hpp"

namespace tracecast {

std::vector<int> rack_choices(const NodeSpec& node, int max_nodes, int world_size) {
  std::vector<int> choices;
  if (!is_rack(node) || world_size <= node.gpus) return choices;
  for (int gpus = node.gpus; 2 * gpus > node.gpus; gpus -= node.gpus_per_host)
    if (world_size % gpus == 0 && (max_nodes == 0 || world_size / gpus <= max_nodes)) choices.push_back(gpus);
  return choices;
}

int gpus_used_per_rack(const NodeSpec& node, int max_nodes, int world_size, std::span<const int> spans) {
  int best = node.gpus;
  std::ptrdiff_t most_aligned = -1;
  for (const int gpus : rack_choices(node, max_nodes, world_size)) {
    const auto kinds = std::ranges::count_if(spans, [&](int span) { return aligned(gpus, span); });
    if (kinds <= most_aligned) continue;
    most_aligned = kinds;
    best = gpus;
  }
  return best;
}

std::string gpus_per_rack_error(const NodeSpec& node, int max_nodes, int world_size, int gpus) {
  if (!is_rack(node)) return "needs a topology with several hosts in a scale-up domain (node.gpus_per_host)";
  if (gpus < 1 || gpus > node.gpus || gpus % node.gpus_per_host != 0)
    return fmt::format("must be whole hosts of {} GPUs (allowed: multiples of {} up to {})", node.gpus_per_host,
                       node.gpus_per_host, node.gpus);
  const std::int64_t most = std::int64_t{max_nodes} * gpus;
  if (max_nodes > 0 && world_size > most)
    return fmt::format("leaves {} GPUs of {} racks, fewer than cluster.world_size = {}", most, max_nodes, world_size);
  return "";
}

NodeSpec whole_racks(NodeSpec node) {
  if (node.installed_gpus > 0) node.gpus = std::exchange(node.installed_gpus, 0);
  return node;
}

void use_gpus_per_rack(NodeSpec& node, int gpus) {
  node = whole_racks(node);
  TRACECAST_ASSERT(gpus >= 1 && gpus % node.gpus_per_host == 0, "a job uses whole hosts of a rack");
  if (gpus == node.gpus) return;
  node.installed_gpus = std::exchange(node.gpus, gpus);
}

}  // namespace tracecast
