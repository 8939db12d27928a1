#include "sim/graph/link_users.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include "sim/base/result.hpp"

namespace tracecast {
namespace {

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

void sort_once_each(std::vector<std::int32_t>& numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

/// [template] payloads of its operations of this type, each once.
std::vector<std::vector<std::int32_t>> payloads_of(const StepGraph& graph, OpType type) {
  std::vector<std::vector<std::int32_t>> payloads;
  for (const Template& each : graph.templates) {
    payloads.emplace_back();
    for (const Op& op : each.ops)
      if (op.type == type) payloads.back().push_back(op.payload);
    sort_once_each(payloads.back());
  }
  return payloads;
}

}  // namespace

ProgramTransfers::ProgramTransfers(const StepGraph& graph) {
  const std::vector<std::vector<std::int32_t>> calls = payloads_of(graph, OpType::collective);
  const std::vector<std::vector<std::int32_t>> sends = payloads_of(graph, OpType::send);
  for (const std::vector<ProgramItem>& program : graph.programs) {
    std::vector<bool> known(graph.templates.size());
    std::vector<std::int32_t> collectives;
    std::vector<std::int32_t> messages;
    for (const ProgramItem& item : program) {
      const std::size_t own = at(item.template_index);
      if (known[own]) continue;
      known[own] = true;
      collectives.insert(collectives.end(), calls[own].begin(), calls[own].end());
      messages.insert(messages.end(), sends[own].begin(), sends[own].end());
    }
    sort_once_each(collectives);
    sort_once_each(messages);
    called.emplace_back();
    for (const std::int32_t each : collectives) called.back()[graph.collectives[at(each)].slot].push_back(each);
    sent.emplace_back();
    for (const std::int32_t each : messages) {
      const bool added = sent.back().try_emplace(graph.messages[at(each)].channel, each).second;
      TRACECAST_ASSERT(added, "a channel carries messages of one kind");
    }
  }
}

bool loads_links(const CollectiveCall& call, const CollectiveCost& cost, std::size_t ranks) {
  return ranks >= 2 && cost.duration > cost.latency && call.size > kLoadsNothing;
}

std::int32_t LinkUsers::number_of(const Weights& weights) {
  const auto [found, added] = known_.try_emplace(weights, static_cast<std::int32_t>(weights_.size()));
  if (added) weights_.push_back(weights);
  return found->second;
}

std::int32_t LinkUsers::add(const std::vector<Load>& loads, std::int32_t copies) {
  TRACECAST_ASSERT(copies == 1 || order_ > 1, "without symmetry each user stands for itself");
  if (order_ > 1) user_copies_.push_back(copies);
  loads_.insert(loads_.end(), loads.begin(), loads.end());
  first_.push_back(loads_.size());
  return count() - 1;
}

void LinkUsers::drop_unshared_links(std::int32_t links, const std::vector<std::int32_t>& own) {
  std::vector<std::int64_t> together(static_cast<std::size_t>(links));  // times order()
  for (std::int32_t user = 0; user < count(); ++user)
    for (const Load* load = begin(user); load != end(user); ++load)
      together[static_cast<std::size_t>(load->link)] +=
          std::int64_t{own[static_cast<std::size_t>(user)]} * copies(user, load->link);
  std::size_t kept = 0;
  std::size_t from = 0;
  for (std::size_t user = 0; user + 1 < first_.size(); ++user) {
    const std::size_t until = first_[user + 1];
    for (; from < until; ++from)
      if (together[static_cast<std::size_t>(loads_[from].link)] > order_) loads_[kept++] = loads_[from];
    first_[user + 1] = kept;
  }
  loads_.resize(kept);
  if (loads_.capacity() > kept + kept / 2) loads_.shrink_to_fit();  // refinement follows, which needs the memory
}

std::int32_t MessageWeights::on_link_of(std::int64_t capacity, LinkUsers& users) {
  for (const auto& [known, number] : known_)
    if (known == capacity) return number;
  LinkUsers::Weights list;
  for (const Bandwidth limit : limits_)
    list.push_back(limit.bytes_per_second == 0 ? 0 : lone_flow_weight({capacity}, limit));
  return known_.emplace_back(capacity, users.number_of(list)).second;
}

std::vector<LinkUsers::Load> loads_of(const std::vector<TransferShape>& shapes, LinkUsers& users) {
  constexpr std::int32_t kNoLink = std::numeric_limits<std::int32_t>::max();
  std::vector<std::size_t> next(shapes.size());  // [transfer] the first of its loads that are left
  const auto link_of = [&](std::size_t transfer) {
    const std::vector<LinkWeight>& own = shapes[transfer].loads;
    return next[transfer] < own.size() ? own[next[transfer]].link : kNoLink;
  };
  std::vector<LinkUsers::Load> loads;
  LinkUsers::Weights weights(shapes.size());
  LinkUsers::Weights last;  // most links of a user bear the same
  std::int32_t last_number = -1;
  while (true) {
    std::int32_t link = kNoLink;
    for (std::size_t transfer = 0; transfer < shapes.size(); ++transfer) link = std::min(link, link_of(transfer));
    if (link == kNoLink) return loads;
    for (std::size_t transfer = 0; transfer < shapes.size(); ++transfer)
      weights[transfer] = link_of(transfer) == link ? shapes[transfer].loads[next[transfer]++].weight : 0;
    if (last_number < 0 || weights != last) std::tie(last, last_number) = std::pair(weights, users.number_of(weights));
    loads.push_back({link, last_number});
  }
}

}  // namespace tracecast
