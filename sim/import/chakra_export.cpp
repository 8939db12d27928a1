#include "sim/import/chakra_export.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/result.hpp"
#include "sim/import/protobuf_wire.hpp"

namespace tracecast {
namespace {

constexpr const char* kVersion = "0.0.4";

/// Node::type and Node's fields by Chakra's numbers.
enum NodeType : std::uint64_t { kComputation = 4, kSend = 5, kReceive = 6, kCollective = 7 };
enum NodeField : std::uint32_t {
  kId = 1,
  kName = 2,
  kType = 3,
  kDataDeps = 5,
  kStart = 6,
  kDuration = 7,
  kAttribute = 10
};
/// Of an attribute: its name, and a value by type.
enum AttributeField : std::uint32_t {
  kAttributeName = 1,
  kInt32 = 7,
  kInt64 = 9,
  kUint64 = 13,
  kBool = 27,
  kString = 29
};

std::uint64_t collective_number(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return 0;
    case Collective::all_gather:
      return 2;
    case Collective::broadcast:
      return 5;
    case Collective::all_to_all:
      return 6;
    case Collective::reduce_scatter:
      return 7;
    case Collective::send_recv:
      break;
  }
  TRACECAST_ASSERT(false, "a ring of messages is not a collective of Chakra");
  return 0;
}

/// Ids of nodes; 0 is none, since zeros are not on the wire.
using NodeId = std::uint64_t;

class RankWriter {
 public:
  RankWriter(const StepGraph& graph, const Rank& rank)
      : graph_(graph), rank_(rank), last_(graph.streams.size(), 0), behind_(graph.streams.size() + 1) {
    number_events();
    WireWriter metadata;
    metadata.bytes(1, kVersion);
    file_.append(metadata.str());
  }

  std::string write() {
    for (run_ = 0; run_ < program().size(); ++run_) {
      const Template& part = part_of(program()[run_]);
      for (std::size_t i = 0; i < part.ops.size(); ++i) operation(part, part.ops[i], first_ids_[run_][i]);
    }
    return file_.str();
  }

 private:
  /// A node in the making.
  struct Node {
    NodeId id = 0;
    std::string name;
    NodeType type = kComputation;
    std::vector<NodeId> after;
    Duration duration;
    std::size_t clock = 0;  ///< index into behind_
    bool on_host = false;
    bool counted = false;  ///< has its FLOPs and bytes
    std::string attributes;
  };

  const std::vector<ProgramItem>& program() const { return graph_.programs[static_cast<std::size_t>(rank_.program)]; }
  const Template& part_of(const ProgramItem& item) const {
    return graph_.templates[static_cast<std::size_t>(item.template_index)];
  }

  bool is_ring(const Op& op) const {
    return op.type == OpType::collective && call_of(op).call.collective == Collective::send_recv;
  }
  const CostedCollective& call_of(const Op& op) const {
    return graph_.collectives[static_cast<std::size_t>(op.payload)];
  }

  /// Nodes of an operation: its launch, itself, and of a ring the receive. Events may be waited for before what records them is
  /// issued, so ids are given out first.
  void number_events() {
    NodeId next = 1;
    for (const ProgramItem& item : program()) {
      std::vector<NodeId>& ids = first_ids_.emplace_back();
      std::map<std::int32_t, NodeId>& local = local_events_.emplace_back();
      for (const Op& op : part_of(item).ops) {
        ids.push_back(next);
        next += 1 + (op.host > Duration{} ? 1 : 0) + (is_ring(op) ? 1 : 0);
        const EventRef& event = op.records;
        if (event.none()) continue;
        if (event.local())
          local[event.base] = next - 1;
        else
          rank_events_[event.base + event.stride * item.microbatch] = next - 1;
      }
    }
  }

  /// 0: nothing records it.
  NodeId recorder_of(const EventRef& event) const {
    const std::map<std::int32_t, NodeId>& events = event.local() ? local_events_[run_] : rank_events_;
    const std::int32_t number = event.local() ? event.base : event.base + event.stride * program()[run_].microbatch;
    const auto found = events.find(number);
    return found == events.end() ? 0 : found->second;
  }

  void operation(const Template& part, const Op& op, NodeId id) {
    Node node;
    node.clock = op.stream;
    if (op.host > Duration{}) {
      launch(op, id);
      ++id;
    }
    node.id = id;
    for (const NodeId before : {last_[op.stream], host_})
      if (before > 0) node.after.push_back(before);
    for (const EventRef& event : op.waits)
      if (const NodeId before = recorder_of(event); before > 0) node.after.push_back(before);
    node.duration = op.duration;
    switch (op.type) {
      case OpType::compute:
        computation(part, op, program()[run_].microbatch, node);
        break;
      case OpType::host_sync:
        node.name = part.name + " synchronize";
        node.on_host = true;
        node.clock = last_.size();
        put(node);
        host_ = node.id;
        return;
      case OpType::collective:
        if (is_ring(op)) return ring(part, op, node);
        collective(part, op, node);
        break;
      case OpType::send:
      case OpType::receive:
        message(part, op, node);
        break;
    }
    put(node);
    last_[op.stream] = node.id;
  }

  void launch(const Op& op, NodeId id) {
    Node node;
    node.id = id;
    node.name = "launch";
    node.duration = op.host;
    node.on_host = true;
    node.clock = last_.size();
    if (host_ > 0) node.after.push_back(host_);
    put(node);
    host_ = id;
  }

  void computation(const Template& part, const Op& op, std::int32_t microbatch, Node& node) const {
    if (op.payload < 0) return void(node.name = part.name + " wait");
    const Operator& what = graph_.operators[static_cast<std::size_t>(op.payload)].op;
    node.name = fmt::format("{} {} ({})", what.name, to_string(what.pass), part.name);
    if (op.stream == kComputeStream) node.duration = graph_.duration_of(rank_, op, microbatch);
    count(node, static_cast<std::uint64_t>(flops(what).count),
          static_cast<std::uint64_t>(compulsory_traffic(what).count));
  }

  static void count(Node& node, std::uint64_t flops, std::uint64_t bytes) {
    attribute(node, "num_ops", kInt64, flops);
    attribute(node, "tensor_size", kUint64, bytes);
    node.counted = true;
  }

  /// -1: the rank is alone in it.
  std::int32_t group_of(const CostedCollective& call) const {
    return rank_.communicators[static_cast<std::size_t>(call.slot)];
  }

  void collective(const Template& part, const Op& op, Node& node) const {
    const CostedCollective& call = call_of(op);
    const std::int32_t group = group_of(call);
    node.name = fmt::format("{} {} ({})", to_string(call.call.collective), to_string(call.traffic), part.name);
    if (group < 0) return;
    const Communicator& communicator = graph_.communicators[static_cast<std::size_t>(group)];
    const auto members = static_cast<std::int64_t>(communicator.members.size());
    const bool share = call.call.collective == Collective::all_gather;
    node.type = kCollective;
    attribute(node, "comm_type", kInt64, collective_number(call.call.collective));
    attribute(node, "comm_size", kInt64, static_cast<std::uint64_t>(call.moved().count / (share ? members : 1)));
    text_attribute(node, "pg_name", std::to_string(group + 1));
  }

  void message(const Template& part, const Op& op, Node& node) const {
    const Message& message = graph_.messages[static_cast<std::size_t>(op.payload)];
    const ChannelEnd& end = rank_.channels[static_cast<std::size_t>(message.channel)];
    const bool sends = op.type == OpType::send;
    node.name = fmt::format("{} ({})", sends ? "send" : "receive", part.name);
    if (end.rank < 0) return;
    // Both ends name the message by the sender's channel.
    const std::int32_t channel = sends ? message.channel : end.channel;
    point_to_point(node, sends, graph_.ranks[static_cast<std::size_t>(end.rank)].representative, message.size,
                   channel * std::max(1, graph_.microbatches) + program()[run_].microbatch);
  }

  void point_to_point(Node& node, bool sends, std::int32_t other, Bytes size, std::int32_t tag) const {
    node.type = sends ? kSend : kReceive;
    attribute(node, "comm_size", kInt64, static_cast<std::uint64_t>(size.count));
    attribute(node, "comm_src", kInt32, static_cast<std::uint64_t>(sends ? rank_.representative : other));
    attribute(node, "comm_dst", kInt32, static_cast<std::uint64_t>(sends ? other : rank_.representative));
    attribute(node, "comm_tag", kInt32, static_cast<std::uint64_t>(tag));
  }

  /// The receive takes no time of its own: both go on at once, and the duration is that of both.
  void ring(const Template& part, const Op& op, Node& send) {
    const CostedCollective& call = call_of(op);
    const std::int32_t group = group_of(call);
    send.name = fmt::format("ring send {} ({})", to_string(call.traffic), part.name);
    Node receive;
    receive.id = send.id + 1;
    receive.name = fmt::format("ring receive {} ({})", to_string(call.traffic), part.name);
    receive.clock = send.clock;
    receive.after = {send.id};
    if (group >= 0) {
      const std::vector<std::int32_t>& members = graph_.communicators[static_cast<std::size_t>(group)].members;
      const auto number = [&](std::size_t i) {
        return graph_.ranks[static_cast<std::size_t>(members[i])].representative;
      };
      const std::size_t count = members.size();
      std::size_t me = 0;
      while (me + 1 < count && number(me) != rank_.representative) ++me;
      // Tags of rings lie behind those of channels, one after the other in each group.
      const std::int32_t tag = (1 << 24) + rings_[group]++;
      point_to_point(send, true, number((me + 1) % count), call.call.size, tag);
      point_to_point(receive, false, number((me + count - 1) % count), call.call.size, tag);
    }
    put(send);
    put(receive);
    last_[op.stream] = receive.id;
  }

  static void attribute(Node& node, std::string_view name, AttributeField type, std::uint64_t value) {
    WireWriter attribute = named(name);
    attribute.number(type, value);
    append(node, attribute);
  }
  static void text_attribute(Node& node, std::string_view name, std::string_view value) {
    WireWriter attribute = named(name);
    attribute.bytes(kString, value);
    append(node, attribute);
  }
  static WireWriter named(std::string_view name) {
    WireWriter attribute;
    attribute.bytes(kAttributeName, name);
    return attribute;
  }
  static void append(Node& node, const WireWriter& attribute) {
    WireWriter field;
    field.bytes(kAttribute, attribute.str());
    node.attributes += field.str();
  }

  /// Whole microseconds, so that the sum over a stream is never half a microsecond off.
  std::uint64_t microseconds(const Node& node) {
    constexpr std::int64_t kMicrosecond = 1'000'000;
    std::int64_t& behind = behind_[node.clock];
    const std::int64_t exact = node.duration.picoseconds + behind;
    const std::int64_t whole = std::max<std::int64_t>(0, (exact + kMicrosecond / 2) / kMicrosecond);
    behind = exact - whole * kMicrosecond;
    return static_cast<std::uint64_t>(whole);
  }

  void put(Node& node) {
    // ASTRA-sim's roofline asks every computation of a GPU for both; without bytes it passes over the node.
    if (node.type == kComputation && !node.on_host && !node.counted) count(node, 0, 0);
    attribute(node, "is_cpu_op", kBool, node.on_host ? 1 : 0);
    if (node.duration > Duration{})
      attribute(node, kChakraDuration, kInt64, static_cast<std::uint64_t>(node.duration.picoseconds));
    std::sort(node.after.begin(), node.after.end());
    node.after.erase(std::unique(node.after.begin(), node.after.end()), node.after.end());
    WireWriter message;
    message.number(kId, node.id);
    message.bytes(kName, node.name);
    message.number(kType, node.type);
    for (const NodeId before : node.after) message.number(kDataDeps, before);
    if (const std::uint64_t us = microseconds(node); us > 0) message.number(kDuration, us);
    file_.append(message.str() + node.attributes);
  }

  const StepGraph& graph_;
  const Rank& rank_;
  std::size_t run_ = 0;                                       ///< index into the program
  std::vector<std::vector<NodeId>> first_ids_;                ///< [run][operation] of its first node
  std::vector<std::map<std::int32_t, NodeId>> local_events_;  ///< [run][event] the node that records it
  std::map<std::int32_t, NodeId> rank_events_;
  std::vector<NodeId> last_;                    ///< [stream] its last node
  NodeId host_ = 0;                             ///< the last node of the host
  std::vector<std::int64_t> behind_;            ///< [stream, then the host] picoseconds that rounding left
  std::map<std::int32_t, std::int32_t> rings_;  ///< [group] calls so far
  WireWriter file_;
};

}  // namespace

std::string to_chakra(const StepGraph& graph, std::size_t rank) {
  TRACECAST_ASSERT(graph.ranks[rank].multiplicity == 1, "a rank of a folded graph stands for several");
  return RankWriter(graph, graph.ranks[rank]).write();
}

std::string chakra_groups(const StepGraph& graph) {
  std::string text = "{";
  for (std::size_t group = 0; group < graph.communicators.size(); ++group) {
    std::vector<std::int32_t> numbers;
    for (const std::int32_t member : graph.communicators[group].members)
      numbers.push_back(graph.ranks[static_cast<std::size_t>(member)].representative);
    text += fmt::format("{}\n  \"{}\": [{}]", group == 0 ? "" : ",", group + 1, fmt::join(numbers, ", "));
  }
  return text + "\n}\n";
}

}  // namespace tracecast
