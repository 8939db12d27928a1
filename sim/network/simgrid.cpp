#include "sim/network/simgrid.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace tracecast {
namespace {

/// Name of an end of flows with this rate: a GPU with the rail that it uses, the switch of a domain, or the network.
std::string end_name(const ClusterLinks& links, const FlowGroup& group, std::int32_t end, std::int32_t rail,
                     std::int64_t rate) {
  if (end == group.network()) return fmt::format("network at {}", rate);
  if (end < group.ranks())
    return fmt::format("gpu {} rail {} at {}", group.global[static_cast<std::size_t>(end)], rail, rate);
  const auto& node = group.nodes[static_cast<std::size_t>(end - group.ranks())];
  const int domain = links.domain_of(group.global[static_cast<std::size_t>(node.front())]);
  return fmt::format("switch {} at {}", domain, rate);
}

}  // namespace

std::int32_t SimGridNetwork::host(const std::string& name) {
  return hosts_.try_emplace(name, static_cast<std::int32_t>(hosts_.size())).first->second;
}

std::int32_t SimGridNetwork::add_kind(const CollectiveCost& cost, const FlowSchedule& schedule,
                                      const FlowGroup& group) {
  Kind kind;
  const auto rate_of_largest = static_cast<double>(rate_alone(cost, schedule).bytes_per_second);
  kind.round_latency_s = seconds(cost.latency) / static_cast<double>(std::max<std::int64_t>(1, schedule.round_count()));
  schedule.each_round([&](const tracecast::Round& round) {
    Round own{{}, round.count};
    Bytes largest;
    for (const tracecast::Flow& flow : round.flows) largest = std::max(largest, flow.size);
    for (const tracecast::Flow& flow : round.flows) {
      if (flow.size.count == 0) continue;
      const double share = static_cast<double>(flow.size.count) / static_cast<double>(largest.count);
      const std::int64_t rate = std::max<std::int64_t>(1, std::llround(rate_of_largest * share));
      const int parts = parts_of(links_, group, flow);
      for (int part = 0; part < parts; ++part) {
        const std::string name = end_name(links_, group, flow.from, flow.rail, rate);
        const std::int32_t source = host(parts == 1 ? name : fmt::format("{} part {} of {}", name, part, parts));
        const std::int32_t target = host(end_name(links_, group, flow.to, flow.rail, rate));
        own.flows.push_back({source, target, part_size(flow.size, part, parts).count});
        if (!known_paths_.insert({source, target}).second) continue;
        Path path{source, target, std::max<std::int64_t>(1, rate / parts), {}};
        append_route(links_, group, flow, path.links, part);
        for (const std::int32_t link : path.links) capacities_.emplace(link, links_.capacity(link).bytes_per_second);
        paths_.push_back(std::move(path));
      }
    }
    kind.rounds.push_back(std::move(own));
  });
  kinds_.push_back(std::move(kind));
  return static_cast<std::int32_t>(kinds_.size()) - 1;
}

}  // namespace tracecast
