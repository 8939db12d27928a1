/// Writes scenarios and models with Tracecast's own keys. Default values are left out.
#include "sim/cost/slowest_rank.hpp"
#include "sim/io/files.hpp"
#include "sim/io/overrides.hpp"
#include "sim/io/perturbation_fields.hpp"
#include "sim/io/scenario_fields.hpp"

namespace tracecast {
namespace {

JsonNode perturb_object(const Scenario& scenario) {
  const Perturbation& ranks = scenario.perturbation;
  const NetworkFaults& faults = scenario.cluster.faults;
  JsonNode object = write_fields(ranks);
  const auto at = [&object](const char* key, const std::string& name) -> JsonNode& {
    return member_of(member_of(object, key), name);
  };
  for (const Perturbation::SlowRanks& slow : ranks.slow_ranks)
    at("slow_rank", to_string(slow.ranks)) = node_of(slow.factor);
  for (const Perturbation::OtherGpus& other : ranks.gpus) at("gpus", to_string(other.ranks)) = node_of(other.name);
  for (const NetworkFaults::SlowNic& slow : faults.slow_nics)
    member_of(at("slow_nic", std::to_string(slow.node)), std::to_string(slow.nic)) = node_of(slow.speed);
  if (!faults.lost_rails.empty()) member_of(object, "lost_rails") = node_of(faults.lost_rails);
  for (const auto& [tier, share] : faults.lost_uplinks) at("lost_uplinks", tier) = node_of(share);
  for (const auto& [node, missing] : faults.missing_gpus) at("missing_gpus", std::to_string(node)) = node_of(missing);
  return object;
}

ClusterKeys cluster_keys(const Scenario& s) {
  ClusterKeys keys{.topology = s.topology.empty() ? s.cluster.name : s.topology,
                   .world_size = s.cluster.world_size,
                   .profile = s.profile_name,
                   .backend = s.cluster.backend,
                   .routing = s.cluster.routing};
  if (s.gpus_per_rack > 0) keys.gpus_per_rack = s.gpus_per_rack;
  if (s.cluster.routing == RoutingPolicy::ecmp) keys.routing_seed = s.cluster.routing_seed;
  if (s.gpu_spread != kGpuSpread || s.perturbation.speed_spread > 0) keys.gpu_spread = s.gpu_spread;
  if (const Sites& sites = s.cluster.sites; sites.count > 1) {
    keys.sites = sites.count;
    keys.wan_rate = sites.wan_rate;
    keys.wan_latency = sites.wan_latency;
  }
  if (s.rack_watts > 0) {
    keys.rack_watts = s.rack_watts;
    keys.rack_hosts = s.rack_hosts;
  } else {
    keys.power_limit = s.power_limit;
  }
  return keys;
}

/// A stack replaces the general defaults, so that all keys are written; an empty text only where the stack has another one.
template <class Group>
JsonNode group_object(const Scenario& scenario, const std::string& name, const Group& group) {
  JsonNode object = write_fields(group, !scenario.stack.empty());
  std::erase_if(object.members, [&](const JsonMember& each) {
    return each.value.kind == JsonNode::Kind::string && each.value.string.empty() &&
           !scenario.against_stack.contains(name + "." + std::string(each.key));
  });
  return object;
}

}  // namespace

std::string to_json(const Model& model) { return to_json(write_fields(model)) + "\n"; }

std::string to_json(const Scenario& scenario) {
  JsonNode object;
  object.kind = JsonNode::Kind::object;
  if (!scenario.description.empty()) member_of(object, "description") = node_of(scenario.description);
  if (!scenario.source.empty()) member_of(object, "source") = node_of(scenario.source);
  member_of(object, "model") = write_fields(scenario.model);
  if (!scenario.stack.empty()) member_of(object, "stack") = node_of(scenario.stack);
  member_of(object, "parallel") = group_object(scenario, "parallel", scenario.parallel);
  member_of(object, "training") = group_object(scenario, "training", scenario.training);
  member_of(object, "cluster") = write_fields(cluster_keys(scenario));
  if (JsonNode perturb = perturb_object(scenario); !perturb.members.empty())
    member_of(object, "perturb") = std::move(perturb);
  if (scenario.measured) member_of(object, "measured") = node_of(scenario.measured);
  return to_json(object) + "\n";
}

}  // namespace tracecast
