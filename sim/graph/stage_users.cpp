#include "sim/graph/stage_users.hpp"

#include <algorithm>

namespace tracecast {

bool StageUsers::add() {
  if (orbits_.order() > 1 && !rotations_keep_stages()) return false;
  const auto ranks = as_index(plan_.world_size / orbits_.order());
  users_.reserve(4 * ranks, 16 * ranks);
  owners_.reserve(4 * ranks);
  user_class_.reserve(4 * ranks);
  together_.reserve(4 * ranks);
  if (orbits_.order() > 1) users_.use_symmetry(orbits_.order(), link_copies());
  for (int slot = 0; slot < kSlots; ++slot)
    if (loads_links_in(slot) && !add_groups(static_cast<Slot>(slot))) return false;
  senders_ = plan_.grid.group(0, {Axis::dp, Axis::cp, Axis::tp});
  std::erase_if(senders_, [&](int sender) { return !orbits_.is_first_rank(sender); });
  for (int pp = 0; pp < plan_.parallel.pp; ++pp)
    if (!add_messages(pp)) return false;
  users_.drop_unshared_links(orbits_.count(), together_);
  return true;
}

/// True if nodes are full, and each pipeline rank has whole blocks of nodes.
bool StageUsers::rotations_keep_stages() const {
  const int last = plan_.world_size - 1;
  const int block = links_.gpus() * orbits_.block();
  return plan_.world_size % block == 0 && links_.domain_of(last) == last / links_.gpus() &&
         (plan_.parallel.pp == 1 || plan_.grid.stride(Axis::pp) % block == 0);
}

std::vector<std::int32_t> StageUsers::link_copies() const {
  std::vector<std::int32_t> copies(as_index(orbits_.count()));
  for (std::int32_t orbit = 0; orbit < orbits_.count(); ++orbit)
    copies[as_index(orbit)] = orbits_.order() / orbits_.size(orbit);
  return copies;
}

bool StageUsers::loads_links_in(int slot) const {
  return std::any_of(graph_.collectives.begin(), graph_.collectives.end(), [&](const CostedCollective& each) {
    return each.slot == slot && loads_links(each.call, each.cost, 2);
  });
}

// ---- Communicators -----------------------------------------------------------------------------------------------

bool StageUsers::add_groups(Slot slot) {
  slot_ = slot;
  offsets_ = groups_.block(0, slot);
  parts_.assign(offsets_.size(), {});
  for (std::size_t i = 0; i < offsets_.size(); ++i)
    parts_[as_index(groups_.part(slot, static_cast<int>(i)))].push_back(offsets_[i]);
  patterns_.clear();
  const std::vector<int> begins = groups_.block_begins(slot);
  std::int64_t found = 0;    // groups that call collectives
  std::int64_t covered = 0;  // by the users that were added and their rotations
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    patterns_of_program_.assign(graph_.programs.size(), nullptr);
    if (parts_[part].size() < 2) continue;
    for (const int begin : begins) {
      const std::optional<std::int32_t> copies = add_group({begin, static_cast<int>(part)});
      if (!copies) return false;
      found += *copies >= 0 ? 1 : 0;
      covered += std::max(*copies, 0);
    }
  }
  return covered == found;
}

/// The collectives that a group calls; null: none.
const std::vector<std::int32_t>* StageUsers::calls_of(const Group& group) const {
  const Rank& rank = graph_.ranks[as_index(pp_of(first_rank(group)))];
  const auto& called = transfers_.called[as_index(rank.program)];
  const auto found = called.find(static_cast<std::int32_t>(slot_));
  const bool calls = rank.communicators[static_cast<std::size_t>(slot_)] >= 0 && found != called.end();
  return calls ? &found->second : nullptr;
}

/// How many groups the group stands for, itself one of them; 0: another one stands for it; -1: it calls nothing.
/// Nothing if rotations do not map groups to groups.
std::optional<std::int32_t> StageUsers::add_group(const Group& group) {
  const int first = first_rank(group);
  const Rank& rank = graph_.ranks[as_index(pp_of(first))];
  Patterns*& patterns = patterns_of_program_[as_index(rank.program)];
  if (patterns == nullptr) {
    const std::vector<std::int32_t>* calls = calls_of(group);
    if (calls == nullptr) return -1;
    patterns = &patterns_of(group, *calls);
  }
  const Pattern* pattern = pattern_at(*patterns, first);
  if (pattern == nullptr) pattern = new_pattern(*patterns, group);
  if (pattern == nullptr) return std::nullopt;
  if (pattern->copies == 0) return 0;
  const int domains = links_.domain_of(first) - links_.domain_of(pattern->first);
  moved_.clear();
  for (const LinkUsers::Load& load : pattern->orbits)
    moved_.push_back({orbits_.translated(load.link, domains), load.weights});
  const std::int32_t communicator = rank.communicators[static_cast<std::size_t>(slot_)];
  if (list_of_class_[as_index(communicator)] < 0) list_of_class_[as_index(communicator)] = pattern->list;
  add_user({first, static_cast<std::int32_t>(slot_), -1, pattern->list}, communicator, moved_, pattern->copies);
  return pattern->copies;
}

StageUsers::Patterns& StageUsers::patterns_of(const Group& group, const std::vector<std::int32_t>& calls) {
  Patterns& patterns = patterns_[{group.part, calls}];
  patterns.resize(static_cast<std::size_t>(orbits_.block() * links_.gpus()));
  return patterns;
}

/// The pattern of a group with this first rank; null: not known.
const StageUsers::Pattern* StageUsers::pattern_at(const Patterns& patterns, int first) const {
  for (const Pattern& pattern : patterns[place_of(first)]) {
    const int domains = links_.domain_of(first) - links_.domain_of(pattern.first);
    if (links_.is_translation(pattern.first, pattern.last, domains)) return &pattern;
  }
  return nullptr;
}

/// Adds the patterns of a group and of its images. Null if an image is no group, or has other loads.
const StageUsers::Pattern* StageUsers::new_pattern(Patterns& patterns, const Group& group) {
  Pattern& own = patterns[place_of(first_rank(group))].emplace_back(pattern_of(group));
  const std::optional<std::vector<int>> symmetries = distinct_images(own, group);
  if (!symmetries) return nullptr;
  own.copies = static_cast<std::int32_t>(symmetries->size()) + 1;
  for (const int symmetry : *symmetries) {
    const Group image = group_of(orbits_.rotated_rank(own.first, symmetry));
    const std::vector<std::int32_t>* calls = calls_of(image);
    if (calls == nullptr) return nullptr;
    Patterns& all = patterns_of(image, *calls);
    const int first = first_rank(image);
    if (pattern_at(all, first) != nullptr) return nullptr;
    std::list<Pattern>& others = all[place_of(first)];
    if (keeps_order(group, image, symmetry)) {
      others.push_back({first, first + own.last - own.first, 0, {}, {}, -1});
      continue;
    }
    others.push_back(pattern_of(image));
    others.back().copies = 0;
    if (!is_rotation(own, others.back(), symmetry)) return nullptr;
  }
  return &own;
}

/// Symmetries that map the group to each of its images once, without itself. A rotation that maps it to itself ends those of its
/// kind: later ones only repeat. Nothing if such a rotation changes its loads.
std::optional<std::vector<int>> StageUsers::distinct_images(const Pattern& pattern, const Group& group) const {
  std::vector<int> symmetries;
  const auto add = [&](int generator, int count) {
    const std::vector<int> before = symmetries;
    for (int times = 1; times < count; ++times) {
      const int symmetry = times * generator;
      if (group_of(orbits_.rotated_rank(pattern.first, symmetry)) == group)
        return is_rotation(pattern, pattern, symmetry);
      symmetries.push_back(symmetry);
      for (const int other : before) symmetries.push_back(other + symmetry);
    }
    return true;
  };
  if (!add(1, orbits_.rotations()) || !add(orbits_.rotations(), orbits_.block())) return std::nullopt;
  return symmetries;
}

/// True if the members of `to` are the rotated members of `from`, in the same order. Then its loads are the rotated ones:
/// algorithms know the members of a group by their order and nodes, and ports by their order.
bool StageUsers::keeps_order(const Group& from, const Group& to, int times) const {
  const std::vector<int>& before = parts_[as_index(from.part)];
  const std::vector<int>& after = parts_[as_index(to.part)];
  if (before.size() != after.size() || *calls_of(from) != *calls_of(to)) return false;
  const int moved = to.begin + after.front() - from.begin - before.front();
  for (std::size_t i = 0; i < before.size(); ++i)
    if (to.begin + after[i] != from.begin + before[i] + moved ||
        to.begin + after[i] != orbits_.rotated_rank(from.begin + before[i], times))
      return false;
  return true;
}

StageUsers::Group StageUsers::group_of(int rank) const {
  const int begin = groups_.block_begin(rank, slot_);
  const auto position = std::lower_bound(offsets_.begin(), offsets_.end(), rank - begin) - offsets_.begin();
  return {begin, groups_.part(slot_, static_cast<int>(position))};
}

/// True if a rotation maps the loads of one group to those of the other. Groups of one stage call the same collectives, and
/// with equal loads these are as fast alone.
bool StageUsers::is_rotation(const Pattern& from, const Pattern& to, int times) const {
  std::vector<LinkUsers::Load> loads = from.loads;
  for (LinkUsers::Load& load : loads) load.link = orbits_.rotated(load.link, times);
  std::sort(loads.begin(), loads.end());
  return loads == to.loads;
}

StageUsers::Pattern StageUsers::pattern_of(const Group& group) {
  std::vector<int> ranks = parts_[as_index(group.part)];
  for (int& rank : ranks) rank += group.begin;
  const FlowGroup flow_group = make_flow_group(links_, ranks);
  Pattern pattern{ranks.front(), ranks.back(), 1, {}, {}, -1};
  std::vector<FoldedTransfer> transfers;
  std::vector<TransferShape> shapes;
  for (const std::int32_t number : *calls_of(group)) {
    const CostedCollective& each = graph_.collectives[as_index(number)];
    shapes.emplace_back();
    if (loads_links(each.call, each.cost, ranks.size()))
      shapes.back() =
          shapes_.shape(each.cost, collective_flows(each.call, each.cost.algorithm, flow_group), flow_group);
    const TransferShape& shape = shapes.back();
    transfers.push_back({0, number, {shape.latency, shape.moving, shape.limit, {}}});
  }
  pattern.list = add_list(std::move(transfers));
  pattern.loads = loads_of(shapes, users_);
  for (const LinkUsers::Load& load : pattern.loads)
    pattern.orbits.push_back({orbits_.orbit_of(load.link), load.weights});
  return pattern;
}

std::int64_t StageUsers::capacity_of(std::int32_t orbit) {
  std::int64_t& known = capacities_[as_index(orbit)];
  if (known == 0) known = links_.capacity(orbits_.first_link(orbit)).bytes_per_second;
  return known;
}

/// `loads`: on orbits of links; `copies`: users it stands for.
void StageUsers::add_user(const User& user, std::int32_t user_class, const std::vector<LinkUsers::Load>& loads,
                          std::int32_t copies) {
  for (const LinkUsers::Load& load : loads) capacity_of(load.link);
  users_.add(loads, copies);
  owners_.push_back(user);
  user_class_.push_back(user_class);
  // A communicator runs one call at a time; messages on several channels can be in flight together.
  together_.push_back(user.slot >= 0 ? 1 : static_cast<std::int32_t>(transfers(user).size()));
}

std::int32_t StageUsers::add_list(std::vector<FoldedTransfer> transfers) {
  lists_.push_back(std::move(transfers));
  return static_cast<std::int32_t>(lists_.size()) - 1;
}

const std::vector<FoldedTransfer>& StageUsers::transfers_of_class(std::int32_t user_class) const {
  static const std::vector<FoldedTransfer> kNone;
  const std::int32_t list = list_of_class_[as_index(user_class)];
  return list < 0 ? kNone : lists_[as_index(list)];
}

// ---- Messages ----------------------------------------------------------------------------------------------------

/// False if the path of a message is not rotated with its ranks.
bool StageUsers::add_messages(int pp) {
  const Rank& rank = graph_.ranks[as_index(pp)];
  std::map<std::int32_t, std::vector<FoldedTransfer>> by_receiver;  // messages that load links, by pipeline rank
  for (const auto& [channel, payload] : transfers_.sent[as_index(rank.program)]) {
    const Message& message = graph_.messages[as_index(payload)];
    if (!loads_links({Collective::send_recv, message.size}, message.cost, 2)) continue;
    by_receiver[rank.channels[as_index(channel)].rank].push_back(
        {pp,
         channel,
         {message.cost.latency,
          message.cost.duration - message.cost.latency,
          rate_alone(message.cost, message_flows(message.size)),
          {}}});
  }
  for (auto& [to, transfers] : by_receiver) {
    const std::int32_t user_class = class_count();
    list_of_class_.push_back(add_list(std::move(transfers)));
    if (!add_senders(pp, to, list_of_class_.back(), user_class)) return false;
  }
  return true;
}

bool StageUsers::add_senders(int pp, int to, std::int32_t list, std::int32_t user_class) {
  std::vector<Bandwidth> limits;
  for (const FoldedTransfer& each : lists_[as_index(list)]) limits.push_back(each.shape.limit);
  MessageWeights weights(std::move(limits));
  const int ahead = (to - pp) * plan_.grid.stride(Axis::pp);
  const int first = pp * plan_.grid.stride(Axis::pp);
  if (!rotates_path(first, first + ahead)) return false;
  for (const int sender : senders_) {
    const int rank = first + sender;
    path_.clear();
    links_.append_route(rank, rank + ahead, links_.port_of(rank + ahead), path_);
    moved_.clear();
    for (const std::int32_t link : path_) {
      const std::int32_t orbit = orbits_.orbit_of(link);
      moved_.push_back({orbit, weights.on_link_of(capacity_of(orbit), users_)});
    }
    add_user({rank, -1, to, list}, user_class, moved_, orbits_.order());
  }
  return true;
}

/// True if rotations of two ranks rotate the path between them. Of blocks by one domain: paths know domains only by their units.
bool StageUsers::rotates_path(int from, int to) const {
  LinkPath path;
  links_.append_route(from, to, links_.port_of(to), path);
  const auto is_kept = [&](int symmetry) {
    LinkPath expected = path;
    for (std::int32_t& link : expected) link = orbits_.rotated(link, symmetry);
    LinkPath rotated;
    const int end = orbits_.rotated_rank(to, symmetry);
    links_.append_route(orbits_.rotated_rank(from, symmetry), end, links_.port_of(end), rotated);
    return rotated == expected;
  };
  for (int times = 1; times < orbits_.rotations(); ++times)
    if (!is_kept(times)) return false;
  return orbits_.block() == 1 || is_kept(orbits_.rotations());
}

}  // namespace tracecast
