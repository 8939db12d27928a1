#include "sim/graph/shared_transfers.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/base/result.hpp"

namespace tracecast {
namespace {

constexpr std::int32_t kNobody = -1;
constexpr std::int32_t kSeveral = -2;

/// One communicator's call or one channel's message.
struct Candidate {
  std::int32_t user = 0;  ///< communicators, then channels of ranks
  std::int32_t* kind = nullptr;
  std::vector<int> ranks;  ///< of the job
  CollectiveCall call;
  const CollectiveCost* cost = nullptr;
  TransferShape shape;
};

/// Messages that a program sends, by channel.
std::map<std::int32_t, std::int32_t> sent_messages(const StepGraph& graph, std::size_t program) {
  std::map<std::int32_t, std::int32_t> sent;
  for (const ProgramItem& item : graph.programs[program])
    for (const Op& op : graph.templates[static_cast<std::size_t>(item.template_index)].ops) {
      if (op.type != OpType::send) continue;
      const std::int32_t channel = graph.messages[static_cast<std::size_t>(op.payload)].channel;
      const auto [found, added] = sent.try_emplace(channel, op.payload);
      TRACECAST_ASSERT(added || found->second == op.payload, "a channel carries messages of one kind");
    }
  return sent;
}

}  // namespace

class SharedTransfers::Builder {
 public:
  Builder(SharedTransfers& out, const StepGraph& graph, const ClusterLinks& links)
      : out_(out), graph_(graph), links_(links), shapes_(links) {}

  void build(const AddKind& add_kind) {
    number_collectives();
    add_collectives();
    add_messages();
    find_users();
    for (Candidate& each : candidates_) {
      std::erase_if(each.shape.loads,
                    [this](const LinkWeight& load) { return users_[static_cast<std::size_t>(load.link)] != kSeveral; });
      if (each.shape.loads.empty()) continue;
      const FlowGroup group = make_flow_group(links_, each.ranks);
      const FlowSchedule schedule = collective_flows(each.call, each.cost->algorithm, group);
      *each.kind = add_kind({*each.cost, schedule, group, each.shape});
      ++out_.kinds_;
    }
  }

 private:
  void number_collectives() {
    for (const CostedCollective& each : graph_.collectives) {
      const auto slot = static_cast<std::size_t>(each.slot);
      if (of_slot_.size() <= slot) of_slot_.resize(slot + 1);
      out_.within_slot_.push_back(static_cast<std::int32_t>(of_slot_[slot].size()));
      of_slot_[slot].push_back(&each);
    }
  }

  void add_collectives() {
    std::vector<std::int32_t> slot_of(graph_.communicators.size(), kNobody);
    for (const Rank& rank : graph_.ranks)
      for (std::size_t slot = 0; slot < rank.communicators.size(); ++slot)
        if (rank.communicators[slot] >= 0)
          slot_of[static_cast<std::size_t>(rank.communicators[slot])] = static_cast<std::int32_t>(slot);
    for (const std::int32_t slot : slot_of) {
      out_.first_.push_back(static_cast<std::int32_t>(out_.collectives_.size()));
      const bool used = slot >= 0 && static_cast<std::size_t>(slot) < of_slot_.size();
      out_.collectives_.resize(out_.collectives_.size() + (used ? of_slot_[static_cast<std::size_t>(slot)].size() : 0),
                               -1);
    }
    for (std::size_t i = 0; i < slot_of.size(); ++i) {
      if (slot_of[i] < 0 || static_cast<std::size_t>(slot_of[i]) >= of_slot_.size()) continue;
      std::int32_t* kind = out_.collectives_.data() + out_.first_[i];
      for (const CostedCollective* each : of_slot_[static_cast<std::size_t>(slot_of[i])])
        add(static_cast<std::int32_t>(i), kind++, ranks_of(graph_.communicators[i].members), each->call, each->cost);
    }
  }

  std::vector<int> ranks_of(const std::vector<std::int32_t>& members) const {
    std::vector<int> ranks;
    for (const std::int32_t member : members)
      ranks.push_back(graph_.ranks[static_cast<std::size_t>(member)].representative);
    return ranks;
  }

  void add_messages() {
    for (const Rank& rank : graph_.ranks) out_.channels_ = std::max(out_.channels_, rank.channels.size());
    out_.messages_.assign(graph_.ranks.size() * out_.channels_, -1);
    std::vector<std::map<std::int32_t, std::int32_t>> sent;
    for (std::size_t program = 0; program < graph_.programs.size(); ++program)
      sent.push_back(sent_messages(graph_, program));
    for (std::size_t r = 0; r < graph_.ranks.size(); ++r)
      for (const auto& [channel, payload] : sent[static_cast<std::size_t>(graph_.ranks[r].program)]) {
        const Message& message = graph_.messages[static_cast<std::size_t>(payload)];
        const ChannelEnd to = graph_.ranks[r].channels[static_cast<std::size_t>(channel)];
        const std::size_t place = r * out_.channels_ + static_cast<std::size_t>(channel);
        add(static_cast<std::int32_t>(graph_.communicators.size() + place), &out_.messages_[place],
            ranks_of({static_cast<std::int32_t>(r), to.rank}), {Collective::send_recv, message.size}, message.cost);
      }
  }

  void add(std::int32_t user, std::int32_t* kind, std::vector<int> ranks, const CollectiveCall& call,
           const CollectiveCost& cost) {
    if (ranks.size() < 2 || cost.duration <= cost.latency) return;
    const FlowGroup group = make_flow_group(links_, ranks);
    TransferShape shape = shapes_.shape(cost, collective_flows(call, cost.algorithm, group), group);
    candidates_.push_back({user, kind, std::move(ranks), call, &cost, std::move(shape)});
  }

  void find_users() {
    users_.assign(static_cast<std::size_t>(links_.count()), kNobody);
    for (const Candidate& each : candidates_)
      for (const LinkWeight& load : each.shape.loads) {
        std::int32_t& user = users_[static_cast<std::size_t>(load.link)];
        user = user == kNobody || user == each.user ? each.user : kSeveral;
      }
  }

  SharedTransfers& out_;
  const StepGraph& graph_;
  const ClusterLinks& links_;
  TransferShapes shapes_;
  std::vector<std::vector<const CostedCollective*>> of_slot_;
  std::vector<Candidate> candidates_;
  std::vector<std::int32_t> users_;  ///< [link]
};

SharedTransfers::SharedTransfers(const StepGraph& graph, const ClusterLinks& links, const AddKind& add_kind) {
  for (const Rank& rank : graph.ranks)
    TRACECAST_ASSERT(rank.multiplicity == 1, "sharing is found between all ranks of the job");
  Builder(*this, graph, links).build(add_kind);
}

}  // namespace tracecast
