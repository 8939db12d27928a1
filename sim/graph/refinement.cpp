#include "sim/graph/refinement.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace tracecast {
namespace {

/// Compares the nodes of each class with the first of them.
class EquivalenceChecker {
 public:
  EquivalenceChecker(const Nodes& nodes, const SeenLists& seen) : nodes_(nodes), seen_(seen) {}

  /// True if `node` has the label and, in any order, the list of the first node of its class.
  bool agree(std::size_t node, std::int32_t own_class) {
    const auto own = static_cast<std::size_t>(own_class);
    if (firsts_.size() <= own) firsts_.resize(own + 1);
    First& first = firsts_[own];
    if (!first.known) {
      first = {true, node, {}};
      return true;
    }
    if (nodes_.labels[node] != nodes_.labels[first.node]) return false;
    const std::span<const std::uint64_t> items = seen_.of(node);
    const std::span<const std::uint64_t> expected = seen_.of(first.node);
    if (items.size() != expected.size()) return false;
    if (std::equal(items.begin(), items.end(), expected.begin())) return true;  // most have the same order
    if (first.sorted.empty()) first.sorted = sorted(expected);
    return sorted(items) == first.sorted;
  }

 private:
  struct First {
    bool known = false;
    std::size_t node = 0;
    std::vector<std::uint64_t> sorted;  ///< its list, where that has been needed
  };

  static std::vector<std::uint64_t> sorted(std::span<const std::uint64_t> items) {
    std::vector<std::uint64_t> copy(items.begin(), items.end());
    std::sort(copy.begin(), copy.end());
    return copy;
  }

  const Nodes& nodes_;
  const SeenLists& seen_;
  std::vector<First> firsts_;  ///< [class]
};

}  // namespace

std::vector<std::int32_t> NodeClasses::of_kind(const Nodes& nodes, std::size_t kind) const {
  std::vector<std::int32_t> own;
  own.reserve(nodes.begins[kind + 1] - nodes.begins[kind]);
  for (std::size_t i = nodes.begins[kind]; i < nodes.begins[kind + 1]; ++i) own.push_back(of[i] - begins[kind]);
  return own;
}

std::vector<std::int32_t> number_colours(const std::vector<NodeColour>& colours, std::int32_t& count) {
  std::unordered_map<NodeColour, std::int32_t> known;
  std::vector<std::int32_t> numbers(colours.size());
  for (std::size_t i = 0; i < colours.size(); ++i)
    numbers[i] = known.try_emplace(colours[i], static_cast<std::int32_t>(known.size())).first->second;
  count = static_cast<std::int32_t>(known.size());
  return numbers;
}

std::vector<NodeColour> first_colours(const Nodes& nodes, NodeColour salt) {
  std::vector<NodeColour> colours;
  colours.reserve(nodes.labels.size());
  for (std::size_t kind = 0; kind < nodes.kinds(); ++kind)
    for (std::size_t i = nodes.begins[kind]; i < nodes.begins[kind + 1]; ++i)
      colours.push_back(combine(combine(salt, kind), nodes.labels[i]));
  return colours;
}

void SeenLists::allocate() {
  std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
  items_.resize(ends_.back());
}

bool classes_agree(const Nodes& nodes, const std::vector<std::int32_t>& class_of, const SeenLists& seen,
                   std::size_t first, std::size_t last) {
  EquivalenceChecker checker(nodes, seen);
  for (std::size_t node = first; node < last; ++node)
    if (!checker.agree(node, class_of[node])) return false;
  return true;
}

}  // namespace tracecast
