#include "sim/graph/overlapped_pair.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace tracecast {
namespace {

constexpr StreamId kExchanges = static_cast<StreamId>(Lane::expert);

/// Which part each operation is in.
std::vector<int> parts_of(const Template& whole) {
  std::set<std::int32_t> exchanged;  // local events at the end of an exchange
  std::vector<int> parts;
  int part = 0;
  for (const Op& op : whole.ops) {
    const bool arrives = op.stream == kComputeStream && std::any_of(op.waits.begin(), op.waits.end(), [&](EventRef e) {
                           return e.local() && exchanged.contains(e.base);
                         });
    if (arrives) ++part;
    parts.push_back(part);
    if (op.stream == kExchanges && op.records.local()) exchanged.insert(op.records.base);
  }
  return parts;
}

/// Local events that live longer than a part, or that the exchanges' stream records or waits for.
std::set<std::int32_t> lasting_events(const Template& whole, const std::vector<int>& parts) {
  std::map<std::int32_t, int> recorded_in;
  std::set<std::int32_t> lasting;
  for (std::size_t i = 0; i < whole.ops.size(); ++i) {
    const Op& op = whole.ops[i];
    const bool exchange = op.stream == kExchanges;
    for (const EventRef event : op.waits)
      if (event.local() && (exchange || recorded_in.at(event.base) != parts[i])) lasting.insert(event.base);
    if (!op.records.local()) continue;
    recorded_in[op.records.base] = parts[i];
    if (exchange) lasting.insert(op.records.base);
  }
  return lasting;
}

}  // namespace

std::vector<Template> cut_at_exchanges(Template whole, BuildContext& context, const char* purpose, int chunk) {
  const std::vector<int> parts = parts_of(whole);
  std::map<std::int32_t, EventRef> renamed;
  for (const std::int32_t event : lasting_events(whole, parts))
    renamed[event] = context.rank_event(purpose, chunk, static_cast<int>(renamed.size()), true);
  const auto rename = [&](EventRef& event) {
    if (const auto found = renamed.find(event.base); event.local() && found != renamed.end()) event = found->second;
  };
  std::vector<Template> cut;
  for (std::size_t i = 0; i < whole.ops.size(); ++i) {
    if (cut.size() <= static_cast<std::size_t>(parts[i])) {
      Template& part = cut.emplace_back();
      part.name = whole.name;
      part.phase = whole.phase;
      part.chunk = whole.chunk;
    }
    Op op = std::move(whole.ops[i]);
    for (EventRef& event : op.waits) rename(event);
    rename(op.records);
    cut.back().ops.push_back(std::move(op));
  }
  cut.back().allocates = whole.allocates;
  cut.back().releases = whole.releases;
  return cut;
}

}  // namespace tracecast
