/// \file
/// GPUs of a node whose links join only some of them.
#pragma once

#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/network/cluster.hpp"

namespace tracecast {

/// For each of `count` GPUs, the first GPU of its group: a group is what links join, directly or through others.
/// linked(i, j)   whether GPU i has a link to GPU j
template <class Linked>
std::vector<std::size_t> joined_groups(std::size_t count, const Linked& linked) {
  std::vector<std::size_t> group_of(count);
  std::iota(group_of.begin(), group_of.end(), std::size_t{0});
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t j = 0; j < count; ++j)
        if (group_of[j] < group_of[i] && linked(i, j)) {
          group_of[i] = group_of[j];
          changed = true;
        }
  }
  return group_of;
}

/// A topology has one kind of link for all GPUs of a node. Returns the note.
inline std::string take_groups_as_pcie(NodeSpec& node, std::size_t groups) {
  node.link = IntraLink::pcie;
  return fmt::format(
      "links join only groups of GPUs ({} groups): taken as PCIe, so groups on links are faster than forecast", groups);
}

}  // namespace tracecast
