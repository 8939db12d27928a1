#include "sim/graph/shared_transfers.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/result.hpp"
#include "sim/graph/link_users.hpp"

namespace tracecast {
namespace {

constexpr std::int32_t kNone = -1;
constexpr std::int32_t kSeveral = -2;

/// One communicator's call, or the messages of one rank to another of equal size.
struct Candidate {
  std::int32_t user = 0;  ///< communicators, then channels of ranks; kSeveral: channels
  std::int32_t* kind = nullptr;
  std::vector<int> ranks;  ///< of the job
  CollectiveCall call;
  bool message = false;  ///< of a channel
  const CollectiveCost* cost = nullptr;
  TransferShape shape;
};

FlowSchedule flows_of(const Candidate& transfer, const FlowGroup& group) {
  return transfer.message ? message_flows(transfer.call.size, group.port[1])
                          : collective_flows(transfer.call, transfer.cost->algorithm, group);
}

}  // namespace

class SharedTransfers::Builder {
 public:
  Builder(SharedTransfers& out, const StepGraph& graph, const ClusterLinks& links)
      : out_(out), graph_(graph), links_(links), shapes_(links), slot_of_(graph.communicators.size(), kNone) {}

  void build(const AddKind& add_kind) {
    add_collectives();
    add_messages();
    find_users();
    for (Candidate& each : candidates_) {
      std::erase_if(each.shape.loads,
                    [this](const LinkWeight& load) { return users_[static_cast<std::size_t>(load.link)] != kSeveral; });
      if (each.shape.loads.empty() && !each.shape.collides) continue;
      const FlowGroup group = make_flow_group(links_, each.ranks);
      const FlowSchedule schedule = flows_of(each, group);
      *each.kind = add_kind({*each.cost, schedule, group, each.shape});
      ++out_.kinds_;
    }
    for (const auto& [place, like] : same_) out_.messages_[place] = out_.messages_[like];
  }

 private:
  /// The first of the channels of one rank whose messages are alike and load links.
  struct Sent {
    std::int32_t to = 0;
    const Message* message = nullptr;
    std::size_t place = 0;  ///< in SharedTransfers::messages_
    std::size_t candidate = 0;
  };

  void add_collectives() {
    for (const Rank& rank : graph_.ranks)
      for (std::size_t slot = 0; slot < rank.communicators.size(); ++slot)
        if (rank.communicators[slot] >= 0)
          slot_of_[static_cast<std::size_t>(rank.communicators[slot])] = static_cast<std::int32_t>(slot);
    for (std::size_t number = 0; number < graph_.collectives.size(); ++number) {
      const CostedCollective& each = graph_.collectives[number];
      for (std::size_t i = 0; i < slot_of_.size(); ++i)
        if (slot_of_[i] == each.slot)
          add(static_cast<std::int32_t>(i),
              &out_.collective(static_cast<std::int32_t>(i), static_cast<std::int32_t>(number)),
              ranks_of(graph_.communicators[i].members), each.call, each.cost);
    }
  }

  std::vector<int> ranks_of(const std::vector<std::int32_t>& members) const {
    std::vector<int> ranks;
    for (const std::int32_t member : members)
      ranks.push_back(graph_.ranks[static_cast<std::size_t>(member)].representative);
    return ranks;
  }

  void add_messages() {
    const ProgramTransfers transfers(graph_);
    for (std::size_t r = 0; r < graph_.ranks.size(); ++r) {
      sent_by_rank_.clear();
      for (const auto& [channel, payload] : transfers.sent[static_cast<std::size_t>(graph_.ranks[r].program)]) {
        const Message& message = graph_.messages[static_cast<std::size_t>(payload)];
        const ChannelEnd to = graph_.ranks[r].channels[static_cast<std::size_t>(channel)];
        const std::size_t place = r * out_.channels_ + static_cast<std::size_t>(channel);
        if (is_like_another(message, to.rank, place)) continue;
        const std::size_t before = candidates_.size();
        add(static_cast<std::int32_t>(graph_.communicators.size() + place), &out_.messages_[place],
            ranks_of({static_cast<std::int32_t>(r), to.rank}), {Collective::send_recv, message.size}, message.cost);
        if (candidates_.size() > before) sent_by_rank_.push_back({to.rank, &message, place, before});
      }
    }
  }

  /// True if the rank has another channel to the same rank, whose messages have the same size and cost. Two pipeline ranks
  /// have a channel for each pair of their chunks; all of them share one kind.
  bool is_like_another(const Message& message, std::int32_t to, std::size_t place) {
    const auto like = std::find_if(sent_by_rank_.begin(), sent_by_rank_.end(), [&](const Sent& other) {
      return other.to == to && other.message->size == message.size &&
             other.message->cost.duration == message.cost.duration &&
             other.message->cost.latency == message.cost.latency;
    });
    if (like == sent_by_rank_.end()) return false;
    candidates_[like->candidate].user = kSeveral;
    same_.emplace_back(place, like->place);
    return true;
  }

  void add(std::int32_t user, std::int32_t* kind, std::vector<int> ranks, const CollectiveCall& call,
           const CollectiveCost& cost) {
    if (!loads_links(call, cost, ranks.size())) return;
    const FlowGroup group = make_flow_group(links_, ranks);
    const bool message = user >= static_cast<std::int32_t>(graph_.communicators.size());
    Candidate candidate{user, kind, std::move(ranks), call, message, &cost, {}};
    candidate.shape = shapes_.shape(cost, flows_of(candidate, group), group);
    candidates_.push_back(std::move(candidate));
  }

  void find_users() {
    users_.assign(static_cast<std::size_t>(links_.count()), kNone);
    for (const Candidate& each : candidates_)
      for (const LinkWeight& load : each.shape.loads) {
        std::int32_t& user = users_[static_cast<std::size_t>(load.link)];
        user = user == kNone || user == each.user ? each.user : kSeveral;
      }
  }

  SharedTransfers& out_;
  const StepGraph& graph_;
  const ClusterLinks& links_;
  TransferShapes shapes_;
  std::vector<std::int32_t> slot_of_;  ///< [communicator]
  std::vector<Candidate> candidates_;
  std::vector<std::int32_t> users_;                        ///< [link]
  std::vector<Sent> sent_by_rank_;                         ///< of the rank whose messages are added
  std::vector<std::pair<std::size_t, std::size_t>> same_;  ///< places of messages, and of others that they are like
};

/// Of each communicator the collectives of its slot.
void SharedTransfers::number_collectives(const StepGraph& graph) {
  std::vector<std::int32_t> in_slot;  // how many
  for (const CostedCollective& each : graph.collectives) {
    const auto slot = static_cast<std::size_t>(each.slot);
    if (in_slot.size() <= slot) in_slot.resize(slot + 1);
    within_slot_.push_back(in_slot[slot]++);
  }
  std::vector<std::int32_t> own(graph.communicators.size());
  for (const Rank& rank : graph.ranks)
    for (std::size_t slot = 0; slot < std::min(in_slot.size(), rank.communicators.size()); ++slot)
      if (rank.communicators[slot] >= 0) own[static_cast<std::size_t>(rank.communicators[slot])] = in_slot[slot];
  std::int32_t sum = 0;
  for (const std::int32_t each : own) first_.push_back(std::exchange(sum, sum + each));
  collectives_.assign(static_cast<std::size_t>(sum), -1);
}

void SharedTransfers::number_messages(const StepGraph& graph) {
  for (const Rank& rank : graph.ranks) channels_ = std::max(channels_, rank.channels.size());
  messages_.assign(graph.ranks.size() * channels_, -1);
}

SharedTransfers::SharedTransfers(const StepGraph& graph, const ClusterLinks& links, const AddKind& add_kind) {
  for (const Rank& rank : graph.ranks)
    TRACECAST_ASSERT(rank.multiplicity == 1, "sharing is found between all ranks of the job");
  number_collectives(graph);
  number_messages(graph);
  Builder(*this, graph, links).build(add_kind);
}

SharedTransfers::SharedTransfers(const StepGraph& folded, const AddShape& add_shape) {
  const FoldedLoads& loads = *folded.loads;
  number_collectives(folded);
  number_messages(folded);
  for (const FoldedTransfer& each : loads.collectives) collective(each.owner, each.number) = add_shape(each.shape);
  // The messages of one rank to another are mostly alike. One kind for all of them stays in the cache.
  const FoldedTransfer* last = nullptr;
  std::int32_t kind = -1;
  for (const FoldedTransfer& each : loads.messages) {
    if (last == nullptr || each.shape != last->shape) kind = add_shape(each.shape);
    messages_[static_cast<std::size_t>(each.owner) * channels_ + static_cast<std::size_t>(each.number)] = kind;
    last = &each;
  }
  kinds_ = static_cast<std::int64_t>(loads.collectives.size() + loads.messages.size());
}

}  // namespace tracecast
