/// \file
/// Classes of ranks, users of links, and links, refined together (refinement.hpp): what folding a step with shared
/// links needs.
///
/// A partition is stable when
///
///   ranks  of a class have one program, slowdown and batches, users of the same classes (their communicators, and themselves as
///          senders), and partners of the same classes
///   users  of a class have as many members of every class, transfers that take the same time alone, and cross as many
///          links of every class with the same weights
///   links  of a class have one capacity, and are crossed by as many users of every class with the same weights
///
/// In it all copies of a transfer begin together, get one rate and end together (docs/folding.md).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/graph/link_users.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast {

/// A rank as the sender of its messages to one other rank.
struct Sender {
  std::int32_t rank = 0;
  std::int32_t to = 0;
  std::int32_t channel = 0;  ///< the first of its channels there
  std::int32_t label = 0;    ///< equal: its messages take the same time alone
};

/// A step graph of all ranks of a job with its users of links: the communicators of the graph, then the senders.
struct LinkedStep {
  const StepGraph& graph;
  LinkUsers users;
  std::vector<Sender> senders;       ///< by rank
  std::vector<std::int32_t> labels;  ///< [communicator] equal: the same slot and placement, and times of calls alone
  std::vector<std::int64_t> capacities;  ///< [link] bytes per second
  std::int32_t user_of(std::size_t sender) const {
    return static_cast<std::int32_t>(graph.communicators.size() + sender);
  }
};

/// Classes are numbered by their first element.
struct LinkClasses {
  std::vector<std::int32_t> rank;  ///< [rank] its class
  std::vector<std::int32_t> user;
  std::vector<std::int32_t> link;
  std::int32_t ranks = 0;  ///< how many classes
  std::int32_t user_count = 0;
  std::int32_t links = 0;
};

LinkClasses refine(const LinkedStep& step);

/// The classes of links that these classes of users make: links of equal capacity that users of the same classes cross
/// with the same weights. Nothing when they and the users are not stable about each other, in the words above.
/// `user_class`: [user] numbers below `user_classes`
struct CrossedLinks {
  std::vector<std::int32_t> of;  ///< [link] its class; -1: no user crosses it
  std::int32_t count = 0;
};
std::optional<CrossedLinks> link_classes(const LinkUsers& users, const std::vector<std::int32_t>& user_class,
                                         std::int32_t user_classes, const std::vector<std::int64_t>& capacities);

/// The summed weights of the users of each class on one link of each class that they cross: [class of users][transfer]
/// weights on the first link of each class.   Requires link classes that are numbered by their first link
using FoldedWeights = std::vector<std::vector<std::vector<LinkWeight>>>;
FoldedWeights folded_weights(const LinkUsers& users, const std::vector<std::int32_t>& user_class,
                             std::int32_t user_classes, const std::vector<std::int32_t>& link_class,
                             std::int32_t link_classes);

}  // namespace tracecast
