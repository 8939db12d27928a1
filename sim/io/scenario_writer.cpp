/// Writes scenarios and models with Tracecast's own keys. Default values are left out.
#include <nlohmann/json.hpp>

#include "sim/cost/slowest_rank.hpp"
#include "sim/io/files.hpp"
#include "sim/io/model_fields.hpp"
#include "sim/io/perturbation_fields.hpp"
#include "sim/io/scenario_fields.hpp"

namespace tracecast {
namespace {

using nlohmann::ordered_json;

/// The visitor that writes: every field of a group into an object.
class FieldWriter {
 public:
  explicit FieldWriter(ordered_json& object) : object_(&object) {}

  template <class T>
  void operator()(const char* key, const T& field, Range) const {
    (*object_)[key] = field;
  }
  template <class T>
  void operator()(const char* key, const T& field, const Names<T>& names) const {
    for (const auto& [name, value] : names)
      if (value == field) (*object_)[key] = name;
  }
  void operator()(const char* key, const bool& field, const int& number, Range) const {
    if (field && number != 0)
      (*object_)[key] = number;
    else
      (*object_)[key] = field;
  }
  template <class T>
  void operator()(const char* key, const T& field) const {
    (*object_)[key] = field;
  }

 private:
  ordered_json* object_;
};

/// The fields of `value` that differ from the defaults, or all fields. `visit(visitor, object)` is the table of keys.
template <class T, class Visit>
ordered_json fields(const T& value, Visit visit, bool all_of_them = false) {
  ordered_json all = ordered_json::object();
  ordered_json defaults = ordered_json::object();
  visit(FieldWriter(all), value);
  visit(FieldWriter(defaults), T{});
  ordered_json kept = ordered_json::object();
  for (const auto& [key, field] : all.items())
    if (all_of_them || field != defaults.at(key)) kept[key] = field;
  return kept;
}

ordered_json model_object(const Model& model) {
  ordered_json object = fields(model, [](auto&& visit, const Model& m) { visit_model(visit, m); });
  if (model.latent_attention)
    object["latent_attention"] = fields(
        *model.latent_attention, [](auto&& visit, const LatentAttention& l) { visit_latent_attention(visit, l); });
  if (model.moe)
    object["moe"] = fields(*model.moe, [](auto&& visit, const MixtureOfExperts& m) { visit_moe(visit, m); });
  return object;
}

ordered_json perturb_object(const Scenario& scenario) {
  const Perturbation& ranks = scenario.perturbation;
  const NetworkFaults& faults = scenario.cluster.faults;
  ordered_json object = ordered_json::object();
  for (const Perturbation::SlowRanks& slow : ranks.slow_ranks) object["slow_rank"][to_string(slow.ranks)] = slow.factor;
  for (const Perturbation::OtherGpus& other : ranks.gpus) object["gpus"][to_string(other.ranks)] = other.name;
  if (ranks.speed_spread > 0) object["speed_spread"] = ranks.speed_spread;
  if (ranks.seed != 0) object["seed"] = ranks.seed;
  for (const NetworkFaults::SlowNic& slow : faults.slow_nics)
    object["slow_nic"][std::to_string(slow.node)][std::to_string(slow.nic)] = slow.speed;
  if (!faults.lost_rails.empty()) object["lost_rails"] = faults.lost_rails;
  for (const auto& [tier, share] : faults.lost_uplinks) object["lost_uplinks"][tier] = share;
  for (const auto& [node, missing] : faults.missing_gpus) object["missing_gpus"][std::to_string(node)] = missing;
  return object;
}

/// Objects a member per line, lists on one.
std::string layout(const ordered_json& value, std::size_t depth) {
  if (!value.is_object() || value.empty()) return value.dump();
  const std::string indent(2 * depth, ' ');
  std::string text;
  for (const auto& [key, member] : value.items()) {
    text += text.empty() ? "{\n" : ",\n";
    text += indent + "  " + ordered_json(key).dump() + ": " + layout(member, depth + 1);
  }
  return text + "\n" + indent + "}";
}

}  // namespace

std::string to_json(const Model& model) { return layout(model_object(model), 0) + "\n"; }

std::string to_json(const Scenario& scenario) {
  ordered_json object;
  if (!scenario.description.empty()) object["description"] = scenario.description;
  if (!scenario.source.empty()) object["source"] = scenario.source;
  object["model"] = model_object(scenario.model);
  const bool has_stack = !scenario.stack.empty();  // a stack replaces the general defaults
  if (has_stack) object["stack"] = scenario.stack;
  object["parallel"] = fields(
      scenario.parallel, [](auto&& visit, const Parallel& p) { visit_parallel(visit, p); }, has_stack);
  object["training"] = fields(
      scenario.training, [](auto&& visit, const Training& t) { visit_training(visit, t); }, has_stack);
  object["cluster"] = {{"topology", scenario.topology.empty() ? scenario.cluster.name : scenario.topology},
                       {"world_size", scenario.cluster.world_size}};
  if (!scenario.profile_name.empty()) object["cluster"]["profile"] = scenario.profile_name;
  if (scenario.gpus_per_rack > 0) object["cluster"]["gpus_per_rack"] = scenario.gpus_per_rack;
  if (scenario.cluster.backend != Backend::nccl) object["cluster"]["backend"] = to_string(scenario.cluster.backend);
  if (scenario.gpu_spread != kGpuSpread || scenario.perturbation.speed_spread > 0)
    object["cluster"]["gpu_spread"] = scenario.gpu_spread;
  if (scenario.cluster.routing == RoutingPolicy::ecmp) {
    object["cluster"]["routing"] = "ecmp";
    object["cluster"]["routing_seed"] = scenario.cluster.routing_seed;
  }
  if (const ordered_json perturb = perturb_object(scenario); !perturb.empty()) object["perturb"] = perturb;
  if (scenario.measured)
    object["measured"] = {{"step_time_s", scenario.measured->step_time_s}, {"source", scenario.measured->source}};
  return layout(object, 0) + "\n";
}

}  // namespace tracecast
