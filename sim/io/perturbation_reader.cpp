#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/io/perturbation_fields.hpp"
#include "sim/io/scenario_fields.hpp"
#include "sim/network/possible_faults.hpp"

namespace tracecast {
namespace {

/// All of `text` as a number from 0 to `last`.
std::optional<int> parse_index(std::string_view text, int last) {
  const std::optional<int> value = parse_number<int>(text);
  return value && *value >= 0 && *value <= last ? value : std::nullopt;
}

class PerturbationReader {
 public:
  PerturbationReader(ObjectReader& perturb, Scenario& scenario, const ProfileFinder& find_profile)
      : perturb_(perturb), scenario_(scenario), cluster_(scenario.cluster), find_profile_(find_profile) {}

  /// Missing GPUs before NICs: the job has more nodes with them.
  void read() {
    read_fields(perturb_, scenario_.perturbation);
    each("slow_rank", [this](ObjectReader& group, const std::string& key) { read_slow_rank(group, key); });
    each("gpus", [this](ObjectReader& group, const std::string& key) { read_gpus(group, key); });
    each("missing_gpus", [this](ObjectReader& group, const std::string& key) { read_missing_gpus(group, key); });
    each("slow_nic", [this](ObjectReader& group, const std::string& key) { read_node_nics(group, key); });
    read_lost_rails();
    each("lost_uplinks", [this](ObjectReader& group, const std::string& key) { read_lost_uplinks(group, key); });
    perturb_.finish();
    for (const ImpossibleValue& each : impossible_faults(cluster_)) perturb_.error(each.key, each.message);
    check_nodes();
  }

 private:
  /// Calls `read(reader, key)` for every member of the object under `name`.
  template <class Read>
  void each(const std::string& name, Read read) {
    std::optional<ObjectReader> group = perturb_.get_object(name);
    if (!group) return;
    for (const JsonMember& member : perturb_.get_node(name)->members) read(*group, member.key);
    group->finish();
  }

  std::optional<RankRange> ranks_of(ObjectReader& group, const std::string& key) {
    const int last = cluster_.world_size - 1;
    const std::size_t dash = std::min(key.find('-'), key.size());
    const std::optional<int> begin = parse_index(std::string_view(key).substr(0, dash), last);
    const std::optional<int> end =
        dash == key.size() ? begin : parse_index(std::string_view(key).substr(dash + 1), last);
    if (begin && end && *begin <= *end) return RankRange{*begin, *end};
    group.ignore(key);
    group.error(key, fmt::format("must be a rank or a range of ranks (allowed: 0 to {}, or 8-15)", last));
    return std::nullopt;
  }

  /// A number in [lowest, highest] under `key`.
  static std::optional<double> number(ObjectReader& group, const std::string& key, double lowest, double highest) {
    double value = 0;
    if (!group.get(key, value)) return std::nullopt;
    if (value >= lowest && value <= highest) return value;
    group.error(key, fmt::format("is out of range (allowed: {} to {})", lowest, highest));
    return std::nullopt;
  }

  std::optional<int> index(ObjectReader& group, const std::string& key, const char* what, int count) {
    const std::optional<int> found = parse_index(key, count - 1);
    if (found) return found;
    group.ignore(key);
    group.error(key, fmt::format("is not a {} (allowed: 0 to {})", what, count - 1));
    return std::nullopt;
  }

  void read_slow_rank(ObjectReader& group, const std::string& key) {
    const std::optional<RankRange> ranks = ranks_of(group, key);
    if (!ranks) return;
    if (const std::optional<double> factor = number(group, key, 0.01, 100))
      scenario_.perturbation.slow_ranks.push_back({*ranks, *factor});
  }

  void read_gpus(ObjectReader& group, const std::string& key) {
    const std::optional<RankRange> ranks = ranks_of(group, key);
    Perturbation::OtherGpus other;
    if (!ranks || !group.get(key, other.name)) return;
    other.ranks = *ranks;
    if (find_profile_(group, key, other.name, other.profile)) scenario_.perturbation.gpus.push_back(std::move(other));
  }

  void read_node_nics(ObjectReader& group, const std::string& key) {
    const std::optional<int> node = index(group, key, "node of the job", cluster_.nodes());
    if (!node) return;
    std::optional<ObjectReader> nics = group.get_object(key);
    if (!nics) return;
    const int count = cluster_.node.nics * std::max(1, cluster_.node.gpus / cluster_.node.gpus_per_host);
    for (const JsonMember& member : group.get_node(key)->members) {
      const std::optional<int> nic = index(*nics, member.key, "NIC of a node", count);
      if (!nic) continue;
      if (const std::optional<double> speed = number(*nics, member.key, 0, 1))
        cluster_.faults.slow_nics.push_back({*node, *nic, *speed});
    }
    nics->finish();
  }

  void read_lost_rails() {
    std::vector<int> rails;
    if (!perturb_.get("lost_rails", rails)) return;
    std::sort(rails.begin(), rails.end());
    rails.erase(std::unique(rails.begin(), rails.end()), rails.end());
    cluster_.faults.lost_rails = std::move(rails);
  }

  void read_lost_uplinks(ObjectReader& group, const std::string& key) {
    std::string names;
    for (const FabricTier& tier : cluster_.tiers)
      if (tier.nodes > 0) names += (names.empty() ? "" : " ") + tier.name;
    double share = 0;
    const bool known = std::any_of(cluster_.tiers.begin(), cluster_.tiers.end(),
                                   [&](const FabricTier& tier) { return tier.nodes > 0 && tier.name == key; });
    if (!known) {
      group.ignore(key);
      group.error(key, fmt::format("is not a tier with uplinks (allowed: {})", names.empty() ? "none here" : names));
    } else if (group.get(key, share)) {
      if (share >= 0 && share < 1)
        cluster_.faults.lost_uplinks[key] = share;
      else
        group.error(key, "is out of range (allowed: 0 to below 1)");
    }
  }

  void read_missing_gpus(ObjectReader& group, const std::string& key) {
    const std::optional<int> node = index(group, key, "node", cluster_.max_nodes > 0 ? cluster_.max_nodes : 1 << 20);
    int missing = 0;
    if (node && group.get(key, missing, 0, cluster_.node.gpus) && missing > 0)
      cluster_.faults.missing_gpus[*node] = missing;
  }

  void check_nodes() {
    if (cluster_.faults.missing_gpus.empty() || cluster_.world_size == 0) return;
    if (const int last = cluster_.faults.missing_gpus.rbegin()->first; last >= cluster_.nodes())
      perturb_.error("missing_gpus",
                     fmt::format("names node {}; the job has nodes 0 to {}", last, cluster_.nodes() - 1));
    if (cluster_.max_nodes > 0 && cluster_.nodes() > cluster_.max_nodes)
      perturb_.error("missing_gpus", fmt::format("leaves too few GPUs: the job needs {} nodes of {}", cluster_.nodes(),
                                                 cluster_.max_nodes));
  }

  ObjectReader& perturb_;
  Scenario& scenario_;
  Cluster& cluster_;
  const ProfileFinder& find_profile_;
};

}  // namespace

void read_perturbation(ObjectReader& perturb, Scenario& scenario, const ProfileFinder& find_profile) {
  PerturbationReader(perturb, scenario, find_profile).read();
}

std::string to_string(const RankRange& range) {
  return range.first == range.last ? std::to_string(range.first) : fmt::format("{}-{}", range.first, range.last);
}

}  // namespace tracecast
