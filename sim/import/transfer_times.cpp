#include "sim/import/transfer_times.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
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
  TransferTimer(const Cluster& cluster, const Profile& profile, int ranks)
      : cluster_(cluster), ranks_(ranks), network_(make_network(cluster, profile)) {
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    group_ = place(cluster, all, 1);
  }

  /// Of an all-gather the size is the share of one rank, and the network counts all shares.
  Duration collective(const ImportedNode& node) const {
    const int shares = node.collective == Collective::all_gather ? ranks_ : 1;
    return network_->cost({node.collective, Bytes{node.size.count * shares}}, group_).duration;
  }

  /// nullopt: the file does not name both ranks.
  std::optional<Duration> message(const ImportedNode& node) const {
    if (node.from < 0 || node.to < 0) return std::nullopt;
    if (node.from == node.to) return Duration{};
    const std::array<int, 2> ends{std::min(node.from, node.to), std::max(node.from, node.to)};
    return network_->cost({Collective::send_recv, node.size}, place(cluster_, ends, 1)).duration;
  }

 private:
  const Cluster& cluster_;
  int ranks_;
  std::unique_ptr<NetworkModel> network_;
  GroupPlacement group_;
};

}  // namespace

Result<void> time_transfers(ImportedGraph& step, Cluster cluster, const Profile& profile, int ranks,
                            const std::string& file) {
  if (!step.sizes_of_input)
    return fail({"", 0, "--topology", cluster.name, fmt::format("is for a Chakra trace, not a {}", step.format)});
  cluster.world_size = ranks;
  if (const auto faults = impossible_values(cluster); !faults.empty())
    return fail({"", 0, "--gpus", std::to_string(ranks), faults.front().message});
  for (const ImportedNode& node : step.nodes)
    if (is_message(node) && std::max(node.from, node.to) >= ranks)
      return fail({file, 0, node.name, std::to_string(std::max(node.from, node.to)),
                   fmt::format("is the rank of a message, beyond --gpus {}", ranks)});
  const TransferTimer timer(cluster, profile, ranks);
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
  step.notes.push_back(fmt::format("collectives without a time in the file: {}; they take that of {} ranks on {}",
                                   collectives, ranks, cluster.name));
  if (messages > 0)
    step.notes.push_back(
        fmt::format("messages without a time in the file: {}; they take that between their two ranks", messages));
  if (unknown > 0)
    step.notes.push_back(
        fmt::format("messages without a time and ranks (comm_src, comm_dst): {}; they take none", unknown));
  return {};
}

}  // namespace tracecast
