/// \file
/// Colour refinement: the coarsest partition of labelled nodes in which all nodes of a class have one label and see,
/// over edges of every label, as many nodes of every class.
///
/// In each round a class is divided into parts whose nodes see as much of every class, by sums of 64-bit hashes. The largest
/// part keeps the number of the class, and later rounds add only what has changed: the edges to nodes with a new class. The
/// last partition is checked by sums of other hashes, so that 128 bits tell nodes apart. If two nodes that differ stayed in
/// one class, refinement starts again with another salt.
///
/// Nodes are of kinds (ranks, communicators, links), which never share a class. Edges are given by a function
/// `each_edge(kind, see)` that calls see(node, seen, label) for the nodes of a kind, or see(node, seen, label, times) for as many
/// edges at once, so that they need not be stored.
/// Source: colour refinement, or the one-dimensional Weisfeiler-Leman algorithm (1968)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "sim/base/result.hpp"

namespace tracecast {

using NodeColour = std::uint64_t;

/// Spreads the bits (the finaliser of splitmix64, Steele et al. 2014).
constexpr NodeColour mix(NodeColour x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
/// Of a node that is seen over an edge.
constexpr NodeColour colour_of(std::int32_t seen_class, std::uint32_t label, NodeColour salt) {
  return mix((static_cast<std::uint64_t>(static_cast<std::uint32_t>(seen_class)) << 32 | label) + salt);
}
constexpr NodeColour combine(NodeColour a, NodeColour b) { return mix(a * 0x9e3779b97f4a7c15 + b); }

/// The sum over a list of (class, label), in any order. Two lists that differ have equal sums with probability 2^-128.
struct ListSum {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  /// Of one entry.
  static ListSum of(std::int32_t seen_class, std::uint32_t label) {
    const auto packed = static_cast<std::uint64_t>(static_cast<std::uint32_t>(seen_class)) << 32 | label;
    return {mix(packed + 0x9e3779b97f4a7c15), mix(packed + 0xd1b54a32d192ed03)};
  }
  /// Of a list and a number beside it.
  ListSum beside(std::int64_t number) const {
    const auto other = static_cast<std::uint64_t>(number);
    return {combine(low, other), combine(high, other)};
  }
  ListSum& operator+=(const ListSum& other) {
    low += other.low;
    high += other.high;
    return *this;
  }
  /// Of a list in which each entry occurs that many times as often.
  ListSum times(std::int32_t count) const {
    return {low * static_cast<std::uint64_t>(count), high * static_cast<std::uint64_t>(count)};
  }
  bool operator==(const ListSum&) const = default;
};

/// Nodes, kind after kind.
struct Nodes {
  std::vector<std::uint64_t> labels;   ///< [node]
  std::vector<std::size_t> begins{0};  ///< [kind] its first node; at last the number of nodes
  void add(std::uint64_t label) { labels.push_back(label); }
  void end_kind() { begins.push_back(labels.size()); }
  std::size_t kinds() const { return begins.size() - 1; }
};

/// True if in each class of a kind all nodes have one label and equal sums of what they see. `seen`: [node of the kind]
bool classes_agree(const Nodes& nodes, const std::vector<std::int32_t>& class_of, std::size_t kind,
                   const std::vector<NodeColour>& seen);

struct NodeClasses {
  std::vector<std::int32_t> of;      ///< [node] numbered by first node, so that a kind's classes are consecutive
  std::vector<std::int32_t> begins;  ///< [kind] its first class; at last the number of classes
  std::int32_t count(std::size_t kind) const { return begins[kind + 1] - begins[kind]; }
  /// Of the nodes of one kind, numbered from 0.
  std::vector<std::int32_t> of_kind(const Nodes& nodes, std::size_t kind) const;
};

/// A partition while it is refined.
struct Partition {
  std::vector<std::int32_t> of;      ///< [node] its class
  std::vector<std::int32_t> before;  ///< [node] its class before the last split of its kind
  std::vector<NodeColour> seen;      ///< [node] sum over what it sees
  std::int32_t count = 0;            ///< of classes
};

/// Nodes of one kind and label are of one class; they have seen nothing.
Partition first_partition(const Nodes& nodes, NodeColour salt);
/// Divides the classes of a kind by what its nodes see; without `news` they see what they saw. True if any was divided.
bool split(Partition& partition, std::size_t begin, std::size_t end, bool news);
/// [node] the classes, numbered by their first node.
std::vector<std::int32_t> numbered_by_first(Partition partition);

/// One more round; true if it divides any class. A kind sees the new classes of the kinds before it: news travels through
/// all kinds in one round. Of each node, every kind has seen `before` when the node's kind is split again.
template <class EachEdge>
bool next_round(const Nodes& nodes, Partition& partition, bool first, NodeColour salt, const EachEdge& each_edge) {
  const auto colour = [salt](std::int32_t seen_class, std::uint32_t label) {
    return colour_of(seen_class, label, salt);
  };
  const auto add_all = [&](std::int32_t node, std::int32_t other, std::uint32_t label, NodeColour times = 1) {
    partition.seen[static_cast<std::size_t>(node)] +=
        times * colour(partition.of[static_cast<std::size_t>(other)], label);
  };
  bool news = first;  // for the kind at hand
  const auto add_changed = [&](std::int32_t node, std::int32_t other, std::uint32_t label, NodeColour times = 1) {
    const std::int32_t now = partition.of[static_cast<std::size_t>(other)];
    const std::int32_t before = partition.before[static_cast<std::size_t>(other)];
    if (now == before) return;
    partition.seen[static_cast<std::size_t>(node)] += times * (colour(now, label) - colour(before, label));
    news = true;
  };
  bool splits = false;
  for (std::size_t kind = 0; kind < nodes.kinds(); ++kind) {
    first ? each_edge(kind, add_all) : each_edge(kind, add_changed);
    splits |= split(partition, nodes.begins[kind], nodes.begins[kind + 1], std::exchange(news, first));
  }
  return splits;
}

/// True if the partition satisfies what is said above; wrong with probability 2^-64. `class_of`: [node]
template <class EachEdge>
bool is_stable(const Nodes& nodes, const std::vector<std::int32_t>& class_of, const EachEdge& each_edge) {
  std::vector<NodeColour> seen;
  for (std::size_t kind = 0; kind < nodes.kinds(); ++kind) {
    const std::size_t begin = nodes.begins[kind];
    seen.assign(nodes.begins[kind + 1] - begin, 0);
    each_edge(kind, [&](std::int32_t node, std::int32_t other, std::uint32_t label, NodeColour times = 1) {
      seen[static_cast<std::size_t>(node) - begin] +=
          times * colour_of(class_of[static_cast<std::size_t>(other)], label, 0xd1b54a32d192ed03);
    });
    if (!classes_agree(nodes, class_of, kind, seen)) return false;
  }
  return true;
}

/// Nothing when two nodes that differ stayed in one class.
template <class EachEdge>
std::optional<NodeClasses> refine_with_salt(const Nodes& nodes, const EachEdge& each_edge, NodeColour salt) {
  NodeClasses classes;
  {
    Partition partition = first_partition(nodes, salt);
    for (bool first = true; next_round(nodes, partition, first, mix(salt), each_edge);) first = false;
    const std::int32_t count = partition.count;
    classes.of = numbered_by_first(std::move(partition));
    for (const std::size_t begin : nodes.begins)
      classes.begins.push_back(begin < nodes.labels.size() ? classes.of[begin] : count);
  }
  if (!is_stable(nodes, classes.of, each_edge)) return std::nullopt;
  return classes;
}

/// The coarsest stable partition. Takes as many rounds as the longest path that news travels; later rounds are short.
template <class EachEdge>
NodeClasses refine(const Nodes& nodes, const EachEdge& each_edge) {
  constexpr NodeColour kAttempts = 8;  // one in 10^7 of a million nodes fails, by the birthday bound
  for (NodeColour salt = 1; salt <= kAttempts; ++salt)
    if (std::optional<NodeClasses> classes = refine_with_salt(nodes, each_edge, salt)) return std::move(*classes);
  TRACECAST_ASSERT(false, "refinement finds colours that differ");
  return {};
}

}  // namespace tracecast
