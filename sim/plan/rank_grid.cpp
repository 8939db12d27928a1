#include <algorithm>

#include <fmt/format.h>

#include "sim/plan/plan.hpp"

namespace tracecast {
namespace {

constexpr std::array<const char*, kAxes> kAxisNames{"tp", "cp", "dp", "pp"};
constexpr const char* kDefaultOrder = "tp-cp-ep-dp-pp";

/// kAxes for "ep", which has no stride; -1 for an unknown word.
int axis_index(const std::string& name) {
  if (name == "ep") return kAxes;
  const auto found = std::find(kAxisNames.begin(), kAxisNames.end(), name);
  return found == kAxisNames.end() ? -1 : static_cast<int>(found - kAxisNames.begin());
}

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == '-') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

tl::unexpected<Error> bad_order(const std::string& order, const std::string& message) {
  return fail_key("parallel.rank_order", order,
                  fmt::format("{} (allowed: the axes tp cp ep dp pp in any order, fastest first, as in {})", message,
                              kDefaultOrder));
}

}  // namespace

RankGrid::RankGrid(std::array<int, kAxes> sizes, std::array<Axis, kAxes> order) : sizes_(sizes) {
  int stride = 1;
  std::array<bool, kAxes> seen{};
  for (const Axis axis : order) {
    const auto index = static_cast<std::size_t>(axis);
    TRACECAST_ASSERT(!seen[index], "every axis stands in the order once");
    TRACECAST_ASSERT(sizes_[index] >= 1, "an axis has at least one rank");
    seen[index] = true;
    strides_[index] = stride;
    stride *= sizes_[index];
  }
}

int RankGrid::ranks() const {
  int product = 1;
  for (const int size : sizes_) product *= size;
  return product;
}

Coordinates RankGrid::coordinates(int rank) const {
  TRACECAST_ASSERT(rank >= 0 && rank < ranks(), "a rank of the grid");
  Coordinates coordinates;
  for (std::size_t axis = 0; axis < kAxes; ++axis) coordinates.at[axis] = rank / strides_[axis] % sizes_[axis];
  return coordinates;
}

int RankGrid::rank(const Coordinates& coordinates) const {
  int rank = 0;
  for (std::size_t axis = 0; axis < kAxes; ++axis) rank += coordinates.at[axis] * strides_[axis];
  return rank;
}

std::vector<int> RankGrid::group(int rank, std::vector<Axis> axes) const {
  // The slowest axis outermost: the ranks come out ascending.
  std::sort(axes.begin(), axes.end(),
            [&](Axis a, Axis b) { return std::pair(stride(a), size(a)) > std::pair(stride(b), size(b)); });
  Coordinates origin = coordinates(rank);
  for (const Axis axis : axes) origin[axis] = 0;
  std::vector<int> members{this->rank(origin)};
  for (const Axis axis : axes) {
    const auto width = static_cast<std::size_t>(size(axis));
    std::vector<int> wider(members.size() * width);
    for (std::size_t m = 0; m < members.size(); ++m)
      for (std::size_t i = 0; i < width; ++i) wider[m * width + i] = members[m] + static_cast<int>(i) * stride(axis);
    members = std::move(wider);
  }
  return members;
}

Result<std::array<Axis, kAxes>> parse_rank_order(const std::string& order) {
  std::vector<int> named;
  for (const std::string& word : words(order)) {
    const int index = axis_index(word);
    if (index < 0) return bad_order(order, fmt::format("unknown axis '{}'", word));
    if (std::find(named.begin(), named.end(), index) != named.end()) {
      return bad_order(order, fmt::format("'{}' appears twice", word));
    }
    named.push_back(index);
  }
  std::erase(named, kAxes);
  for (int index = 0; index < kAxes; ++index) {
    if (std::find(named.begin(), named.end(), index) == named.end()) named.push_back(index);
  }
  std::array<Axis, kAxes> axes{};
  std::transform(named.begin(), named.end(), axes.begin(), [](int index) { return static_cast<Axis>(index); });
  return axes;
}

}  // namespace tracecast
