#include "sim/graph/dominated_links.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "sim/base/integers.hpp"

namespace tracecast {
namespace {

/// The transfers that load a link, with their weights.
struct Crossing {
  std::vector<std::pair<const TransferShape*, std::int64_t>> transfers;
  bool dropped = false;
};
using Crossings = std::map<std::int32_t, Crossing>;

/// Of transfers in a row with equal loads, one is enough.
void add_crossings(const std::vector<FoldedTransfer>& transfers, Crossings& crossings) {
  const TransferShape* last = nullptr;
  for (const FoldedTransfer& each : transfers) {
    if (last != nullptr && each.shape.loads == last->loads) continue;
    last = &each.shape;
    for (const LinkWeight& load : each.shape.loads)
      crossings[load.link].transfers.emplace_back(&each.shape, load.weight);
  }
}

std::int64_t weight_on(const TransferShape& transfer, std::int32_t link) {
  const auto found = std::find_if(transfer.loads.begin(), transfer.loads.end(),
                                  [link](const LinkWeight& load) { return load.link == link; });
  return found == transfer.loads.end() ? 0 : found->weight;
}

bool dominates(std::int32_t link, Bandwidth capacity, const Crossing& other, Bandwidth other_capacity) {
  return std::all_of(other.transfers.begin(), other.transfers.end(), [&](const auto& each) {
    return wide(weight_on(*each.first, link)) * wide(other_capacity.bytes_per_second) >=
           wide(each.second) * wide(capacity.bytes_per_second);
  });
}

}  // namespace

void drop_dominated_links(FoldedLoads& loads, const ClusterLinks& links) {
  Crossings crossings;
  add_crossings(loads.collectives, crossings);
  add_crossings(loads.messages, crossings);
  for (auto& [link, own] : crossings) {
    const std::vector<LinkWeight>& crossed = own.transfers.front().first->loads;
    own.dropped = std::any_of(crossed.begin(), crossed.end(), [&, link = link](const LinkWeight& load) {
      return load.link != link && !crossings[load.link].dropped &&
             dominates(load.link, links.capacity(load.link), crossings[link], links.capacity(link));
    });
  }
  for (std::vector<FoldedTransfer>* const transfers : {&loads.collectives, &loads.messages})
    for (FoldedTransfer& each : *transfers)
      std::erase_if(each.shape.loads, [&](const LinkWeight& load) { return crossings[load.link].dropped; });
}

}  // namespace tracecast
