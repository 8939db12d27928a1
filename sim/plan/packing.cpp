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

/// Documents a buffer at a time, cut to the length of a sequence.
class Buffers {
 public:
  Buffers(const Documents& law, std::int64_t sequence, std::int64_t multiple)
      : law_(law),
        sequence_(sequence),
        multiple_(multiple),
        source_(law, law.longest > 0 ? law.longest : sequence),
        shuffle_(static_cast<std::uint64_t>(law.seed), 0, kShuffle) {}

  std::int64_t next() { return round_up(source_.next(), multiple_); }
  std::vector<std::int64_t> next_buffer() {
    std::vector<std::int64_t> documents;
    const std::int64_t count = law_.packing == Packing::none ? 1 : law_.buffer;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t drawn = source_.next();
      const std::int64_t kept = std::min(drawn, sequence_);
      dropped_ += drawn - kept;
      documents.push_back(round_up(kept, multiple_));
    }
    return documents;
  }
  void shuffle(std::vector<std::vector<std::int32_t>>& packs) {
    for (std::size_t i = packs.size(); i > 1; --i) std::swap(packs[i - 1], packs[shuffle_.below(i)]);
  }
  std::int64_t dropped() const { return dropped_; }

 private:
  const Documents& law_;
  const std::int64_t sequence_;
  const std::int64_t multiple_;
  std::int64_t dropped_ = 0;
  LengthSource source_;
  RandomStream shuffle_;
};

/// The longest first, each into the fullest pack with room; a new pack has room for `capacity(length)` tokens.
template <class Capacity>
std::vector<std::vector<std::int32_t>> best_fit(std::vector<std::int64_t> documents, Capacity capacity) {
  std::ranges::sort(documents, std::greater<>());
  std::set<std::pair<std::int64_t, std::size_t>> open;  // room, pack
  std::vector<std::vector<std::int32_t>> packs;
  for (const std::int64_t length : documents) {
    const auto found = open.lower_bound({length, 0});
    std::pair<std::int64_t, std::size_t> into{capacity(length), packs.size()};
    if (found == open.end())
      packs.emplace_back();
    else
      into = open.extract(found).value();
    packs[into.second].push_back(static_cast<std::int32_t>(length));
    open.emplace(into.first - length, into.second);
  }
  return packs;
}

/// Fills the sequences of all steps.
class Packer {
 public:
  Packer(const Documents& law, std::int64_t sequence, std::size_t wanted, std::int64_t multiple)
      : packing_(law.packing), sequence_(sequence), wanted_(wanted), buffers_(law, sequence, multiple) {}

  PackedSteps run() {
    PackedSteps result;
    result.sequence = sequence_;
    if (packing_ == Packing::concatenate) concatenate(result.packs);
    while (result.packs.size() < wanted_) {
      std::vector<std::vector<std::int32_t>> packs = pack(buffers_.next_buffer());
      buffers_.shuffle(packs);
      std::ranges::move(packs, std::back_inserter(result.packs));
    }
    result.packs.resize(wanted_);
    result.dropped = buffers_.dropped();
    return result;
  }

 private:
  /// The last document of a sequence goes on in the next.
  void concatenate(std::vector<std::vector<std::int32_t>>& packs) {
    std::int64_t left = 0;
    while (packs.size() < wanted_) {
      std::vector<std::int32_t>& pack = packs.emplace_back();
      for (std::int64_t room = sequence_; room > 0;) {
        if (left == 0) left = buffers_.next();
        const std::int64_t piece = std::min(left, room);
        pack.push_back(static_cast<std::int32_t>(piece));
        left -= piece;
        room -= piece;
      }
    }
  }

  std::vector<std::vector<std::int32_t>> pack(const std::vector<std::int64_t>& documents) const {
    if (packing_ == Packing::best_fit) return best_fit(documents, [this](std::int64_t) { return sequence_; });
    return first_fit(documents);
  }

  /// The room of all sequences is a tree of maxima, which finds the first that is large enough.
  std::vector<std::vector<std::int32_t>> first_fit(const std::vector<std::int64_t>& documents) const {
    std::size_t leaves = 1;
    while (leaves < documents.size()) leaves *= 2;
    std::vector<std::int64_t> room(2 * leaves, sequence_);
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

  const Packing packing_;
  const std::int64_t sequence_;
  const std::size_t wanted_;
  Buffers buffers_;
};

/// Packs bins, and deals them to the micro-batches of all ranks.
class BinPacker {
 public:
  BinPacker(const Documents& law, std::int64_t sequence, std::int64_t sequences, int cp, int ranks)
      : sequence_(sequence),
        cp_(cp),
        ranks_(ranks),
        slots_(sequences * cp),
        buffers_(law, sequence, cp > 1 ? 2 * cp : 1) {}

  PackedSteps run(int steps) {
    result_.sequence = sequence_;
    for (int step = 0; step < steps; ++step) deal(next_step());
    result_.dropped = buffers_.dropped();
    return std::move(result_);
  }

 private:
  struct Bin {
    std::vector<std::int32_t> documents;
    int ranks = 1;
    double work = 0;  ///< pairs of query and key, of each of its ranks
  };

  /// The fewest of 1, 2, 4 ... cp ranks that have room for a document.
  int ranks_for(std::int64_t length) const {
    int ranks = 1;
    while (sequence_ / cp_ * ranks < length) ranks *= 2;
    return ranks;
  }

  void draw_bins() {
    std::vector<std::vector<std::int32_t>> packs =
        best_fit(buffers_.next_buffer(), [this](std::int64_t length) { return sequence_ / cp_ * ranks_for(length); });
    buffers_.shuffle(packs);
    for (std::vector<std::int32_t>& pack : packs) {
      Bin bin{std::move(pack), 1, 0};
      bin.ranks = ranks_for(bin.documents.front());  // the longest
      for (const double length : bin.documents) bin.work += length * length / bin.ranks;
      waiting_.push_back(std::move(bin));
    }
  }

  /// Bins in the order of the data; those that no longer fit wait for the next step. What no bin fits into stays empty.
  std::vector<Bin> next_step() {
    std::vector<Bin> taken;
    std::int64_t free = slots_;
    for (bool drawn = false; free > 0; drawn = true) {
      const std::int64_t before = free;
      if (drawn) draw_bins();
      std::vector<Bin> left;
      for (Bin& bin : waiting_) {
        const bool fits = bin.ranks <= free;
        if (fits) free -= bin.ranks;
        (fits ? taken : left).push_back(std::move(bin));
      }
      waiting_ = std::move(left);
      if (drawn && free == before) break;
    }
    taken.resize(taken.size() + static_cast<std::size_t>(free));
    return taken;
  }

  /// Bins of falling size, so that each begins at a multiple of its size.
  void deal(std::vector<Bin> bins) {
    std::ranges::stable_sort(bins, std::greater<>(), [](const Bin& bin) { return std::pair(bin.ranks, bin.work); });
    const std::size_t begin = result_.bins.size();
    const std::int64_t microbatches = slots_ / ranks_;
    result_.bins.resize(begin + static_cast<std::size_t>(slots_));
    std::int64_t position = 0;
    for (Bin& bin : bins) {
      const std::int64_t microbatch = position / ranks_;
      const std::int64_t along = position % ranks_;
      const std::int64_t first = microbatch % 2 == 0 ? along : ranks_ - along - bin.ranks;
      for (std::int64_t rank = first; rank < first + bin.ranks; ++rank)
        result_.bins[begin + static_cast<std::size_t>(rank * microbatches + microbatch)] =
            static_cast<std::int32_t>(result_.packs.size());
      position += bin.ranks;
      result_.packs.push_back(std::move(bin.documents));
      result_.bin_ranks.push_back(bin.ranks);
    }
  }

  const std::int64_t sequence_;
  const int cp_;
  const int ranks_;
  const std::int64_t slots_;  ///< of a step: a micro-batch of a rank each
  Buffers buffers_;
  std::vector<Bin> waiting_;
  PackedSteps result_;
};

/// Sums over all packs.
PackedSteps summed(PackedSteps packed, int steps, std::int64_t sequences) {
  packed.steps = steps;
  packed.sequences = static_cast<int>(sequences);
  packed.varies = packed.dynamic();
  for (std::vector<std::int32_t>& each : packed.packs) {
    std::ranges::sort(each, std::greater<>());
    packed.varies |= each != packed.packs.front();
    for (const std::int32_t length : each) {
      ++packed.lengths[length];
      packed.useful += length;
    }
  }
  return packed;
}

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
  return summed(Packer(documents, sequence, static_cast<std::size_t>(wanted), multiple).run(), documents.steps,
                sequences);
}

PackedSteps pack_bins(const Documents& documents, std::int64_t sequence, std::int64_t sequences, int cp, int ranks) {
  TRACECAST_ASSERT(sequence % cp == 0 && ranks % cp == 0 && sequences * cp % ranks == 0,
                   "ranks have equal parts of sequences and as many micro-batches");
  return summed(BinPacker(documents, sequence, sequences, cp, ranks).run(documents.steps), documents.steps, sequences);
}

PackedSteps bins_of_size(const PackedSteps& packed, int bin_ranks, int cp) {
  PackedSteps result;
  result.sequence = packed.sequence / cp * bin_ranks;
  for (std::size_t bin = 0; bin < packed.packs.size(); ++bin)
    if (packed.bin_ranks[bin] == bin_ranks) result.packs.push_back(packed.packs[bin]);
  const auto sequences = static_cast<std::int64_t>(result.packs.size());
  return summed(std::move(result), 1, sequences);
}

}  // namespace tracecast
