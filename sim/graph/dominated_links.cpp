#include "sim/graph/dominated_links.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "sim/base/integers.hpp"

namespace tracecast {
namespace {

/// A transfer that loads a link, with its weight there.
struct Crossing {
  const TransferShape* transfer = nullptr;
  std::size_t position = 0;  ///< of the transfer, among all
  std::int64_t weight = 0;
};

struct LoadedLink {
  std::vector<Crossing> crossings;  ///< by position
  bool dropped = false;
};
using LoadedLinks = std::map<std::int32_t, LoadedLink>;

/// Of transfers in a row with equal loads, one is enough.
void add_crossings(const std::vector<FoldedTransfer>& transfers, std::size_t begin, LoadedLinks& links) {
  const TransferShape* last = nullptr;
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    const TransferShape& shape = transfers[i].shape;
    if (last != nullptr && shape.loads == last->loads) continue;
    last = &shape;
    for (const LinkWeight& load : shape.loads) links[load.link].crossings.push_back({&shape, begin + i, load.weight});
  }
}

/// Of all transfers on the link; only links that it crosses can dominate.
const TransferShape& with_fewest_loads(const LoadedLink& link) {
  return *std::min_element(link.crossings.begin(), link.crossings.end(), [](const Crossing& a, const Crossing& b) {
            return a.transfer->loads.size() < b.transfer->loads.size();
          })->transfer;
}

bool dominates(const LoadedLink& link, Bandwidth capacity, const LoadedLink& other, Bandwidth other_capacity) {
  if (link.crossings.size() < other.crossings.size()) return false;
  auto own = link.crossings.begin();
  return std::all_of(other.crossings.begin(), other.crossings.end(), [&](const Crossing& each) {
    while (own != link.crossings.end() && own->position < each.position) ++own;
    return own != link.crossings.end() && own->position == each.position &&
           wide(own->weight) * wide(other_capacity.bytes_per_second) >=
               wide(each.weight) * wide(capacity.bytes_per_second);
  });
}

}  // namespace

void drop_dominated_links(FoldedLoads& loads, const ClusterLinks& links) {
  LoadedLinks loaded;
  add_crossings(loads.collectives, 0, loaded);
  add_crossings(loads.messages, loads.collectives.size(), loaded);
  for (auto& [link, own] : loaded) {
    const std::vector<LinkWeight>& candidates = with_fewest_loads(own).loads;
    own.dropped =
        std::any_of(candidates.begin(), candidates.end(), [&, number = link, &link = own](const LinkWeight& load) {
          if (load.link == number) return false;
          const LoadedLink& other = loaded.at(load.link);
          return !other.dropped && dominates(other, links.capacity(load.link), link, links.capacity(number));
        });
  }
  for (std::vector<FoldedTransfer>* const transfers : {&loads.collectives, &loads.messages})
    for (FoldedTransfer& each : *transfers)
      std::erase_if(each.shape.loads, [&](const LinkWeight& load) { return loaded.at(load.link).dropped; });
}

}  // namespace tracecast
