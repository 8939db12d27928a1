/// \file
/// The double binary tree of NCCL's tree all-reduce over nodes: an inner node of one tree is a leaf of the other. Each tree
/// carries half of the buffer, and every node sends and receives the same amount.
///
/// Source: NCCL graph/trees.cc, docs/references.md#nccl-trees
#pragma once

#include <vector>

namespace tracecast {

/// Place of one rank in a tree over ranks 0 … n-1.
struct TreePlace {
  int parent = -1;            ///< -1: the root
  std::vector<int> children;  ///< at most two
  bool operator==(const TreePlace&) const = default;
};

/// First tree: with `bit` the lowest set bit of the rank, its parent is (rank ^ bit) | 2 bit, or rank ^ bit if that is
/// not a rank. Rank 0 is the root; its one child is the largest power of two below n.
/// Requires 0 <= rank < n
TreePlace first_tree(int rank, int n);

/// Second tree: the first one mirrored (rank r takes the place of n-1-r) for even n, shifted by one rank for odd n.
TreePlace second_tree(int rank, int n);

/// What the busiest of n nodes sends, and receives, through both trees, over the buffer: it has up to four neighbours, each for
/// half of the buffer.
double through_trees(int n);

}  // namespace tracecast
