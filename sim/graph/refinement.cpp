#include "sim/graph/refinement.hpp"

#include "sim/base/dense_numbers.hpp"

namespace tracecast {

std::vector<std::int32_t> NodeClasses::of_kind(const Nodes& nodes, std::size_t kind) const {
  std::vector<std::int32_t> own;
  own.reserve(nodes.begins[kind + 1] - nodes.begins[kind]);
  for (std::size_t i = nodes.begins[kind]; i < nodes.begins[kind + 1]; ++i) own.push_back(of[i] - begins[kind]);
  return own;
}

std::vector<std::int32_t> number_colours(const std::vector<NodeColour>& colours, std::int32_t& count) {
  std::vector<std::int32_t> numbers;
  numbers.reserve(colours.size());
  DenseNumbers<NodeColour> known;
  for (const NodeColour colour : colours) numbers.push_back(known.number(colour, colour));
  count = known.count();
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

bool classes_agree(const Nodes& nodes, const std::vector<std::int32_t>& class_of, const std::vector<ListSum>& seen) {
  std::vector<std::int32_t> first;  // [class] its first node; -1: none yet
  for (std::size_t node = 0; node < seen.size(); ++node) {
    const auto own = static_cast<std::size_t>(class_of[node]);
    if (own >= first.size()) first.resize(own + 1, -1);
    if (first[own] < 0) first[own] = static_cast<std::int32_t>(node);
    const auto expected = static_cast<std::size_t>(first[own]);
    if (nodes.labels[node] != nodes.labels[expected] || seen[node] != seen[expected]) return false;
  }
  return true;
}

}  // namespace tracecast
