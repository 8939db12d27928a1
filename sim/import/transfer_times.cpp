#include "sim/import/transfer_times.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/network/measured_network.hpp"

namespace tracecast {
namespace {

bool is_message(const ImportedNode& node) {
  return node.kind == ImportedNode::Kind::send || node.kind == ImportedNode::Kind::receive;
}

class TransferTimer {
 public:
  TransferTimer(const Cluster& cluster, const Profile& profile, const ImportedGraph& step, int ranks)
      : cluster_(cluster), step_(step), ranks_(ranks), network_(make_network(cluster, profile)) {}

  /// An all-gather may be counted by the share of one rank; the network counts all shares.
  Duration collective(const ImportedNode& node) {
    const auto [known, added] = groups_.try_emplace(node.group);
    if (added) known->second = group(node.group);
    const auto& [ranks, placement] = known->second;
    if (ranks < 2) return {};
    const bool share = node.collective == Collective::all_gather && step_.sizes == ImportedGraph::Sizes::of_input;
    return network_->cost({node.collective, Bytes{node.size.count * (share ? ranks : 1)}}, placement).duration;
  }

  /// nullopt: the file does not name both ranks.
  std::optional<Duration> message(const ImportedNode& node) const {
    if (node.from < 0 || node.to < 0) return std::nullopt;
    if (node.from == node.to) return Duration{};
    const std::array<int, 2> ends{std::min(node.from, node.to), std::max(node.from, node.to)};
    return network_->cost({Collective::send_recv, node.size}, place(cluster_, ends, 1)).duration;
  }

 private:
  /// The group of rank 0.
  std::pair<int, GroupPlacement> group(const std::string& name) const {
    const ImportedGroup group = step_.group_of ? step_.group_of(name, ranks_) : ImportedGroup{ranks_, 1};
    std::vector<int> members(static_cast<std::size_t>(group.ranks));
    for (std::size_t i = 0; i < members.size(); ++i) members[i] = static_cast<int>(i) * group.stride;
    return {group.ranks,
            group.ranks < 2 ? GroupPlacement{} : place(cluster_, members, std::min(group.stride, cluster_.node.gpus))};
  }

  const Cluster& cluster_;
  const ImportedGraph& step_;
  int ranks_;
  std::unique_ptr<NetworkModel> network_;
  std::map<std::string, std::pair<int, GroupPlacement>> groups_;
};

/// Errors: a file without sizes, another number of ranks than the file has, groups or messages beyond them.
Result<void> check_ranks(const ImportedGraph& step, const std::string& machine, int ranks, const std::string& file) {
  const auto fail_gpus = [&](std::string message) {
    return fail_key("--gpus", std::to_string(ranks), std::move(message));
  };
  if (step.sizes == ImportedGraph::Sizes::unknown)
    return fail_key("--topology", machine,
                    fmt::format("is for a Chakra trace or a workload of SimAI, not for: {}", step.format));
  if (ranks == 0) return fail({file, 0, "", "", "does not say of how many ranks: give --gpus to time its collectives"});
  if (ranks < 2) return fail_gpus("has no collectives to time (allowed: 2 and more)");
  if (step.ranks > 0 && ranks != step.ranks)
    return fail_gpus(fmt::format("is not the {} ranks that {} is for (leave it out)", step.ranks, file));
  if (!step.group_of) return {};
  for (const ImportedNode& node : step.nodes) {
    const ImportedGroup group = step.group_of(node.group, ranks);
    if (node.kind == ImportedNode::Kind::collective && std::int64_t{group.ranks - 1} * group.stride >= ranks)
      return fail_gpus(fmt::format("is too few: a group of {} has {} ranks", file, group.ranks));
  }
  return {};
}

Result<void> check_messages(const ImportedGraph& step, int ranks, const std::string& file) {
  for (const ImportedNode& node : step.nodes)
    if (is_message(node) && std::max(node.from, node.to) >= ranks)
      return fail({file, 0, node.name, std::to_string(std::max(node.from, node.to)),
                   fmt::format("is the rank of a message, beyond --gpus {}", ranks)});
  return {};
}

}  // namespace

Result<void> time_transfers(ImportedGraph& step, Cluster cluster, const Profile& profile, int ranks,
                            const std::string& file) {
  if (ranks == 0) ranks = step.ranks;
  if (const auto ok = check_ranks(step, cluster.name, ranks, file); !ok) return ok;
  cluster.world_size = ranks;
  if (const auto faults = impossible_values(cluster); !faults.empty())
    return fail_key("--gpus", std::to_string(ranks), faults.front().message);
  if (const auto ok = check_messages(step, ranks, file); !ok) return ok;
  TransferTimer timer(cluster, profile, step, ranks);
  std::int64_t collectives = 0;
  std::int64_t messages = 0;
  std::int64_t unknown = 0;
  for (ImportedNode& node : step.nodes) {
    if (node.duration > Duration{}) continue;
    if (node.kind == ImportedNode::Kind::collective) {
      node.duration = timer.collective(node);
      ++collectives;
    } else if (is_message(node)) {
      const std::optional<Duration> time = timer.message(node);
      node.duration = time.value_or(Duration{});
      ++(time ? messages : unknown);
    }
  }
  step.notes.push_back(
      fmt::format("collectives without a time in the file: {}; they take that of {} on {}", collectives,
                  step.group_of ? fmt::format("their groups among {} ranks", ranks) : fmt::format("{} ranks", ranks),
                  cluster.name));
  if (messages > 0)
    step.notes.push_back(
        fmt::format("messages without a time in the file: {}; they take that between their two ranks", messages));
  if (unknown > 0)
    step.notes.push_back(
        fmt::format("messages without a time and ranks (comm_src, comm_dst): {}; they take none", unknown));
  return check_durations(step, file);
}

std::int64_t untimed_transfers(const ImportedGraph& step) {
  return std::count_if(step.nodes.begin(), step.nodes.end(), [](const ImportedNode& node) {
    const bool transfer = node.kind == ImportedNode::Kind::collective || is_message(node);
    return transfer && node.size.count > 0 && node.duration == Duration{};
  });
}

std::string advice_for_untimed(const ImportedGraph& step) {
  return step.sizes == ImportedGraph::Sizes::unknown ? "the file does not say what their sizes count"
                                                     : "give --topology and --gpus, which time them";
}

}  // namespace tracecast
