/// \file
/// Colour refinement: the coarsest partition of labelled nodes in which all nodes of a class have one label and see,
/// over edges of every label, as many nodes of every class.
///
/// A node's colour is a 64-bit hash. In each round it takes in the colours of the nodes that it sees, until the
/// number of colours stops growing. The partition is then checked by sums of 128 bits (ListSum). If two nodes that differ
/// got the same colour, refinement starts again with another salt.
///
/// Nodes are of kinds (ranks, communicators, links), which never share a class. Edges are given by a function
/// `each_edge(kind, see)` that calls see(node, seen, label) for the nodes of a kind, so that they need not be stored.
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

/// True if in each class all nodes have one label and equal sums of what they see.
bool classes_agree(const Nodes& nodes, const std::vector<std::int32_t>& class_of, const std::vector<ListSum>& seen);

struct NodeClasses {
  std::vector<std::int32_t> of;      ///< [node] numbered by first node, so that a kind's classes are consecutive
  std::vector<std::int32_t> begins;  ///< [kind] its first class; at last the number of classes
  std::int32_t count(std::size_t kind) const { return begins[kind + 1] - begins[kind]; }
  /// Of the nodes of one kind, numbered from 0.
  std::vector<std::int32_t> of_kind(const Nodes& nodes, std::size_t kind) const;
};

/// Classes of equal colours, numbered in the order of their first nodes; `count` of them.
std::vector<std::int32_t> number_colours(const std::vector<NodeColour>& colours, std::int32_t& count);
std::vector<NodeColour> first_colours(const Nodes& nodes, NodeColour salt);

/// One more round. A kind sees the new colours of the kinds before it: news travels through all kinds in one round. A round
/// that splits no class leaves each kind stable against all others, as one does in which all see old colours.
template <class EachEdge>
void next_round(const Nodes& nodes, std::vector<NodeColour>& colours, const EachEdge& each_edge) {
  std::vector<NodeColour> seen(colours.size());
  for (std::size_t kind = 0; kind < nodes.kinds(); ++kind) {
    each_edge(kind, [&](std::int32_t node, std::int32_t other, std::uint32_t label) {
      seen[static_cast<std::size_t>(node)] += combine(colours[static_cast<std::size_t>(other)], label);
    });
    for (std::size_t i = nodes.begins[kind]; i < nodes.begins[kind + 1]; ++i) colours[i] = combine(colours[i], seen[i]);
  }
}

/// True if the partition satisfies what is said above. `class_of`: [node]
template <class EachEdge>
bool is_stable(const Nodes& nodes, const std::vector<std::int32_t>& class_of, const EachEdge& each_edge) {
  std::vector<ListSum> seen(nodes.labels.size());
  for (std::size_t kind = 0; kind < nodes.kinds(); ++kind)
    each_edge(kind, [&](std::int32_t node, std::int32_t other, std::uint32_t label) {
      seen[static_cast<std::size_t>(node)] += ListSum::of(class_of[static_cast<std::size_t>(other)], label);
    });
  return classes_agree(nodes, class_of, seen);
}

/// Nothing when two nodes that differ got one colour.
template <class EachEdge>
std::optional<NodeClasses> refine_with_salt(const Nodes& nodes, const EachEdge& each_edge, NodeColour salt) {
  NodeClasses classes;
  std::int32_t count = 0;
  std::vector<NodeColour> colours = first_colours(nodes, salt);
  classes.of = number_colours(colours, count);
  for (std::int32_t before = -1; before != count;) {
    before = count;
    next_round(nodes, colours, each_edge);
    classes.of = number_colours(colours, count);
  }
  for (const std::size_t begin : nodes.begins)
    classes.begins.push_back(begin < nodes.labels.size() ? classes.of[begin] : count);
  if (!is_stable(nodes, classes.of, each_edge)) return std::nullopt;
  return classes;
}

/// The coarsest stable partition. Takes edges x rounds; as many rounds as the longest path that news travels.
template <class EachEdge>
NodeClasses refine(const Nodes& nodes, const EachEdge& each_edge) {
  constexpr NodeColour kAttempts = 8;  // one in 10^7 of a million nodes fails, by the birthday bound
  for (NodeColour salt = 1; salt <= kAttempts; ++salt)
    if (std::optional<NodeClasses> classes = refine_with_salt(nodes, each_edge, salt)) return std::move(*classes);
  TRACECAST_ASSERT(false, "refinement finds colours that differ");
  return {};
}

}  // namespace tracecast
