#include "sim/graph/refinement.hpp"

#include <algorithm>
#include <cstddef>

#include "sim/base/dense_numbers.hpp"

namespace tracecast {

std::vector<std::int32_t> NodeClasses::of_kind(const Nodes& nodes, std::size_t kind) const {
  std::vector<std::int32_t> own;
  own.reserve(nodes.begins[kind + 1] - nodes.begins[kind]);
  for (std::size_t i = nodes.begins[kind]; i < nodes.begins[kind + 1]; ++i) own.push_back(of[i] - begins[kind]);
  return own;
}

Partition first_partition(const Nodes& nodes, NodeColour salt) {
  Partition partition;
  partition.of.reserve(nodes.labels.size());
  DenseNumbers<NodeColour> known;
  for (std::size_t kind = 0; kind < nodes.kinds(); ++kind) {
    const NodeColour of_kind = combine(salt, kind);
    for (std::size_t i = nodes.begins[kind]; i < nodes.begins[kind + 1]; ++i) {
      if (i > nodes.begins[kind] && nodes.labels[i] == nodes.labels[i - 1]) {  // neighbours are often alike
        partition.of.push_back(partition.of.back());
        continue;
      }
      const NodeColour colour = combine(of_kind, nodes.labels[i]);
      partition.of.push_back(known.number(colour, colour));
    }
  }
  partition.before = partition.of;
  partition.seen.assign(partition.of.size(), 0);
  partition.count = known.count();
  return partition;
}

bool split(Partition& partition, std::size_t begin, std::size_t end, bool news) {
  std::copy(partition.of.begin() + static_cast<std::ptrdiff_t>(begin),
            partition.of.begin() + static_cast<std::ptrdiff_t>(end),
            partition.before.begin() + static_cast<std::ptrdiff_t>(begin));
  if (!news) return false;
  struct Piece {
    std::int32_t of = 0;  ///< the class that it is a part of
    NodeColour seen = 0;
    bool operator==(const Piece&) const = default;
  };
  DenseNumbers<Piece> parts;
  std::vector<std::int32_t> size;       // [part]
  std::vector<std::int32_t> new_class;  // [part]; at first the class that it is a part of
  Piece last;                           // neighbours are often alike
  std::size_t last_part = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const Piece own{partition.of[i], partition.seen[i]};
    if (i == begin || !(own == last)) {
      const auto hash = own.seen + static_cast<NodeColour>(own.of) * 0x9e3779b97f4a7c15;
      last = own;
      last_part = static_cast<std::size_t>(parts.number(own, hash));
    }
    if (last_part == size.size()) {
      size.push_back(0);
      new_class.push_back(own.of);
    }
    ++size[last_part];
    partition.of[i] = static_cast<std::int32_t>(last_part);
  }
  // The largest part keeps the number of the class; of equal ones the first.
  std::vector<std::int32_t> largest(static_cast<std::size_t>(partition.count), -1);  // [class] part
  for (std::size_t part = 0; part < size.size(); ++part) {
    std::int32_t& known = largest[static_cast<std::size_t>(new_class[part])];
    if (known < 0 || size[static_cast<std::size_t>(known)] < size[part]) known = static_cast<std::int32_t>(part);
  }
  const std::int32_t count = partition.count;
  for (std::size_t part = 0; part < size.size(); ++part)
    if (largest[static_cast<std::size_t>(new_class[part])] != static_cast<std::int32_t>(part))
      new_class[part] = partition.count++;
  for (std::size_t i = begin; i < end; ++i) partition.of[i] = new_class[static_cast<std::size_t>(partition.of[i])];
  return partition.count > count;
}

std::vector<std::int32_t> numbered_by_first(Partition partition) {
  // Memory is highest here: a million ranks are eight million nodes.
  partition.before = std::vector<std::int32_t>();
  partition.seen = std::vector<NodeColour>();
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(partition.count), -1);  // [class]
  std::int32_t count = 0;
  for (std::int32_t& own : partition.of) {
    std::int32_t& number = numbers[static_cast<std::size_t>(own)];
    if (number < 0) number = count++;
    own = number;
  }
  return std::move(partition.of);
}

bool classes_agree(const Nodes& nodes, const std::vector<std::int32_t>& class_of, std::size_t kind,
                   const std::vector<NodeColour>& seen) {
  const std::size_t begin = nodes.begins[kind];
  std::vector<std::int32_t> first;  // [class] its first node of the kind; -1: none yet
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const auto own = static_cast<std::size_t>(class_of[begin + i]);
    if (own >= first.size()) first.resize(own + 1, -1);
    if (first[own] < 0) first[own] = static_cast<std::int32_t>(i);
    const auto expected = static_cast<std::size_t>(first[own]);
    if (nodes.labels[begin + i] != nodes.labels[begin + expected] || seen[i] != seen[expected]) return false;
  }
  return true;
}

}  // namespace tracecast
