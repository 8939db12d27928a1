#include "sim/plan/packing.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "sim/base/integers.hpp"
#include "sim/base/random.hpp"
#include "sim/base/result.hpp"

namespace tracecast {
namespace {

enum Process : std::uint32_t { kLengths, kShuffle };

/// Lengths of documents, one after the other.
class LengthSource {
 public:
  LengthSource(const Documents& law, std::int64_t longest)
      : law_(law), longest_(longest), random_(static_cast<std::uint64_t>(law.seed), 0, kLengths) {
    double sum = 0;
    for (const auto& [length, weight] : law.histogram) sums_.emplace_back(sum += weight, std::stoll(length));
  }

  std::int64_t next() { return std::clamp(draw(), std::max<std::int64_t>(1, law_.shortest), longest_); }

 private:
  std::int64_t draw() {
    switch (law_.law) {
      case LengthLaw::fixed:
        break;
      case LengthLaw::uniform:
        return law_.shortest +
               static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(longest_ - law_.shortest + 1)));
      case LengthLaw::lognormal:
        return std::llround(std::exp(std::log(static_cast<double>(law_.mean)) - law_.sigma * law_.sigma / 2 +
                                     law_.sigma * random_.normal()));
      case LengthLaw::histogram: {
        const double at = random_.uniform() * sums_.back().first;
        return std::lower_bound(sums_.begin(), sums_.end(), at,
                                [](const auto& each, double sum) { return each.first < sum; })
            ->second;
      }
    }
    return law_.mean;
  }

  const Documents& law_;
  const std::int64_t longest_;
  RandomStream random_;
  std::vector<std::pair<double, std::int64_t>> sums_;  ///< of the weights so far, and the length
};

/// Fills the sequences of all steps.
class Packer {
 public:
  Packer(const Documents& law, std::int64_t sequence, std::size_t wanted, std::int64_t multiple)
      : law_(law),
        multiple_(multiple),
        wanted_(wanted),
        source_(law, law.longest > 0 ? law.longest : sequence),
        shuffle_(static_cast<std::uint64_t>(law.seed), 0, kShuffle) {
    result_.sequence = sequence;
  }

  PackedSteps run() {
    if (law_.packing == Packing::concatenate)
      concatenate();
    else
      while (result_.packs.size() < wanted_) pack_buffer();
    result_.packs.resize(wanted_);
    return std::move(result_);
  }

 private:
  /// The last document of a sequence goes on in the next.
  void concatenate() {
    std::int64_t left = 0;
    while (result_.packs.size() < wanted_) {
      std::vector<std::int32_t>& pack = result_.packs.emplace_back();
      for (std::int64_t room = result_.sequence; room > 0;) {
        if (left == 0) left = round_up(source_.next(), multiple_);
        const std::int64_t piece = std::min(left, room);
        pack.push_back(static_cast<std::int32_t>(piece));
        left -= piece;
        room -= piece;
      }
    }
  }

  void pack_buffer() {
    std::vector<std::int64_t> documents;
    const std::int64_t count = law_.packing == Packing::none ? 1 : law_.buffer;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t drawn = source_.next();
      const std::int64_t kept = std::min(drawn, result_.sequence);
      result_.dropped += drawn - kept;
      documents.push_back(round_up(kept, multiple_));
    }
    if (law_.packing == Packing::best_fit) std::ranges::sort(documents, std::greater<>());
    std::vector<std::vector<std::int32_t>> packs =
        law_.packing == Packing::best_fit ? best_fit(documents) : first_fit(documents);
    for (std::size_t i = packs.size(); i > 1; --i) std::swap(packs[i - 1], packs[shuffle_.below(i)]);
    std::ranges::move(packs, std::back_inserter(result_.packs));
  }

  /// The room of all sequences is a tree of maxima, which finds the first that is large enough.
  std::vector<std::vector<std::int32_t>> first_fit(const std::vector<std::int64_t>& documents) const {
    std::size_t leaves = 1;
    while (leaves < documents.size()) leaves *= 2;
    std::vector<std::int64_t> room(2 * leaves, result_.sequence);
    std::vector<std::vector<std::int32_t>> packs;
    for (const std::int64_t length : documents) {
      std::size_t at = 1;
      while (at < leaves) at = 2 * at + (room[2 * at] >= length ? 0 : 1);
      room[at] -= length;
      if (at - leaves >= packs.size()) packs.resize(at - leaves + 1);
      packs[at - leaves].push_back(static_cast<std::int32_t>(length));
      while ((at /= 2) > 0) room[at] = std::max(room[2 * at], room[2 * at + 1]);
    }
    return packs;
  }

  std::vector<std::vector<std::int32_t>> best_fit(const std::vector<std::int64_t>& documents) const {
    std::set<std::pair<std::int64_t, std::size_t>> open;  // room, sequence
    std::vector<std::vector<std::int32_t>> packs;
    for (const std::int64_t length : documents) {
      const auto found = open.lower_bound({length, 0});
      std::pair<std::int64_t, std::size_t> into{result_.sequence, packs.size()};
      if (found == open.end())
        packs.emplace_back();
      else
        into = open.extract(found).value();
      packs[into.second].push_back(static_cast<std::int32_t>(length));
      open.emplace(into.first - length, into.second);
    }
    return packs;
  }

  const Documents& law_;
  const std::int64_t multiple_;
  const std::size_t wanted_;
  LengthSource source_;
  RandomStream shuffle_;
  PackedSteps result_;
};

}  // namespace

std::int64_t PackedSteps::documents() const {
  std::int64_t sum = 0;
  for (const auto& [length, count] : lengths) sum += count;
  return sum;
}

PackedSteps pack_steps(const Documents& documents, std::int64_t sequence, std::int64_t sequences,
                       std::int64_t multiple) {
  TRACECAST_ASSERT(multiple >= 1 && sequence % multiple == 0, "a sequence is divided like its documents");
  const std::int64_t wanted = sequences * documents.steps;
  PackedSteps result = Packer(documents, sequence, static_cast<std::size_t>(wanted), multiple).run();
  result.steps = documents.steps;
  result.sequences = static_cast<int>(sequences);
  for (std::vector<std::int32_t>& each : result.packs) {
    std::ranges::sort(each, std::greater<>());
    result.varies |= each != result.packs.front();
    for (const std::int32_t length : each) {
      ++result.lengths[length];
      result.useful += length;
    }
  }
  return result;
}

}  // namespace tracecast
