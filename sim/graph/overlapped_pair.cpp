#include "sim/graph/overlapped_pair.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace tracecast {
namespace {

constexpr StreamId kExchanges = static_cast<StreamId>(Lane::expert);

/// Where an operation is: in which part between exchanges, and in which block of the host.
struct Place {
  int part = 0;
  int block = 0;
  bool operator==(const Place&) const = default;
};

std::vector<Place> places_of(const Template& whole, bool at_exchanges) {
  std::set<std::int32_t> exchanged;  // local events at the end of an exchange
  std::vector<Place> places;
  Place place;
  for (const Op& op : whole.ops) {
    const bool arrives = at_exchanges && op.stream == kComputeStream &&
                         std::any_of(op.waits.begin(), op.waits.end(),
                                     [&](EventRef e) { return e.local() && exchanged.contains(e.base); });
    if (arrives) ++place.part;
    places.push_back(place);
    if (op.type == OpType::host_sync) ++place.block;
    if (op.stream == kExchanges && op.records.local()) exchanged.insert(op.records.base);
  }
  return places;
}

/// Local events that connect two templates, and with `at_exchanges` those that the exchanges' stream records or waits for.
std::set<std::int32_t> lasting_events(const Template& whole, const std::vector<Place>& places, bool at_exchanges) {
  std::map<std::int32_t, Place> recorded_in;
  std::set<std::int32_t> lasting;
  for (std::size_t i = 0; i < whole.ops.size(); ++i) {
    const Op& op = whole.ops[i];
    const bool exchange = at_exchanges && op.stream == kExchanges;
    for (const EventRef event : op.waits)
      if (event.local() && (exchange || recorded_in.at(event.base) != places[i])) lasting.insert(event.base);
    if (!op.records.local()) continue;
    recorded_in[op.records.base] = places[i];
    if (exchange) lasting.insert(op.records.base);
  }
  return lasting;
}

}  // namespace

std::vector<std::vector<Template>> cut_template(Template whole, BuildContext& context, const char* purpose, int chunk,
                                                bool at_exchanges) {
  const std::vector<Place> places = places_of(whole, at_exchanges);
  std::map<std::int32_t, EventRef> renamed;
  for (const std::int32_t event : lasting_events(whole, places, at_exchanges))
    renamed[event] = context.rank_event(purpose, chunk, static_cast<int>(renamed.size()), true);
  const auto rename = [&](EventRef& event) {
    if (const auto found = renamed.find(event.base); event.local() && found != renamed.end()) event = found->second;
  };
  std::vector<std::vector<Template>> cut;
  for (std::size_t i = 0; i < whole.ops.size(); ++i) {
    if (i == 0 || places[i].part != places[i - 1].part) cut.emplace_back();
    if (i == 0 || places[i] != places[i - 1]) {
      Template& block = cut.back().emplace_back();
      block.name = whole.name;
      block.phase = whole.phase;
      block.chunk = whole.chunk;
    }
    Op op = std::move(whole.ops[i]);
    for (EventRef& event : op.waits) rename(event);
    rename(op.records);
    cut.back().back().ops.push_back(std::move(op));
  }
  cut.back().back().allocates = whole.allocates;
  cut.back().back().releases = whole.releases;
  return cut;
}

}  // namespace tracecast
