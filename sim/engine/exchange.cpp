#include "sim/engine/exchange.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/base/integers.hpp"

namespace tracecast::engine {
namespace {

/// Disjoint sets of ranks; the root of a set is its first rank.
class RankSets {
 public:
  explicit RankSets(std::size_t ranks) : parent_(ranks), size_(ranks, 1) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }

  std::int32_t root(std::int32_t rank) {
    std::int32_t& parent = parent_[static_cast<std::size_t>(rank)];
    while (parent != parent_[static_cast<std::size_t>(parent)]) parent = parent_[static_cast<std::size_t>(parent)];
    return parent;
  }
  std::int64_t size(std::int32_t rank) { return size_[static_cast<std::size_t>(root(rank))]; }
  void join(std::int32_t a, std::int32_t b) {
    const std::int32_t first = std::min(root(a), root(b));
    const std::int32_t second = std::max(root(a), root(b));
    if (first == second) return;
    parent_[static_cast<std::size_t>(second)] = first;
    size_[static_cast<std::size_t>(first)] += size_[static_cast<std::size_t>(second)];
  }

 private:
  std::vector<std::int32_t> parent_;
  std::vector<std::int64_t> size_;  ///< of roots
};

void join_channel_peers(const StepGraph& graph, RankSets& sets) {
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank)
    for (const ChannelEnd& end : graph.ranks[rank].channels)
      if (end.rank >= 0) sets.join(static_cast<std::int32_t>(rank), end.rank);
}

void join_communicators(const StepGraph& graph, RankSets& sets, std::int64_t limit) {
  std::vector<std::int32_t> order(graph.communicators.size());
  std::iota(order.begin(), order.end(), 0);
  const auto members = [&graph](std::int32_t i) -> const std::vector<std::int32_t>& {
    return graph.communicators[static_cast<std::size_t>(i)].members;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return members(a).size() < members(b).size(); });
  for (const std::int32_t index : order) {
    std::vector<std::int32_t> roots;
    for (const std::int32_t member : members(index)) roots.push_back(sets.root(member));
    std::sort(roots.begin(), roots.end());
    roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
    std::int64_t together = 0;
    for (const std::int32_t root : roots) together += sets.size(root);
    if (together > limit) continue;
    for (const std::int32_t root : roots) sets.join(roots.front(), root);
  }
}

}  // namespace

Ownership assign_ranks(const StepGraph& graph, int threads) {
  const std::size_t ranks = graph.ranks.size();
  Ownership result{std::vector<std::int32_t>(ranks), std::vector<bool>(graph.communicators.size())};
  RankSets sets(ranks);
  join_channel_peers(graph, sets);
  join_communicators(graph, sets, static_cast<std::int64_t>(ranks) / threads);
  const auto share = ceil_div(static_cast<std::int64_t>(ranks), threads);
  std::int64_t assigned = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::int32_t root = sets.root(static_cast<std::int32_t>(rank));
    if (root != static_cast<std::int32_t>(rank)) {
      result.owner[rank] = result.owner[static_cast<std::size_t>(root)];
      continue;
    }
    result.owner[rank] = static_cast<std::int32_t>(std::min<std::int64_t>(assigned / share, threads - 1));
    assigned += sets.size(root);
  }
  for (std::size_t i = 0; i < graph.communicators.size(); ++i)
    for (const std::int32_t member : graph.communicators[i].members)
      if (result.owner[static_cast<std::size_t>(member)] !=
          result.owner[static_cast<std::size_t>(graph.communicators[i].members.front())])
        result.shared[i] = true;
  return result;
}

Exchange::Exchange(Ownership ownership, int workers)
    : ownership_(std::move(ownership)), inboxes_(static_cast<std::size_t>(workers)) {}

void Exchange::send(std::int32_t worker, const std::vector<Release>& releases) {
  const std::lock_guard lock(mutex_);
  std::vector<Release>& inbox = inboxes_[static_cast<std::size_t>(worker)];
  inbox.insert(inbox.end(), releases.begin(), releases.end());
  changed_.notify_all();
}

std::vector<Release> Exchange::receive(std::int32_t worker) {
  std::unique_lock lock(mutex_);
  std::vector<Release>& inbox = inboxes_[static_cast<std::size_t>(worker)];
  ++idle_;
  if (idle_ == static_cast<std::int32_t>(inboxes_.size()))
    finished_ = std::all_of(inboxes_.begin(), inboxes_.end(), [](const auto& each) { return each.empty(); });
  if (finished_) changed_.notify_all();
  changed_.wait(lock, [&] { return finished_ || !inbox.empty(); });
  --idle_;
  return std::exchange(inbox, {});
}

}  // namespace tracecast::engine
