/// \file
/// A queue of events in the order of their times, for times that never run backwards.
///
/// Keys differ from the last one taken at some highest bit; entries wait in the bucket of that bit and are dealt out anew
/// when their bucket comes first, so each moves at most 64 times and mostly once or twice. As long as there are few entries,
/// they are kept sorted instead, which is faster.
///
/// Source: Ahuja, Mehlhorn, Orlin, Tarjan, "Faster algorithms for the shortest path problem", J. ACM 37 (1990).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "sim/base/result.hpp"

namespace tracecast {

template <class Value>
class RadixHeap {
 public:
  bool empty() const { return few_.empty() && filled_ == 0; }

  /// Requires a key that is not below the last one that `front` has looked at, and not negative.
  void push(std::int64_t key, Value value) {
    TRACECAST_ASSERT(key >= last_, "events do not come before what has happened");
    if (filled_ == 0 && few_.size() < kFew) return insert({key, value});
    for (const Entry& entry : few_) put(entry);
    few_.clear();
    put({key, value});
  }

  /// The smallest key. Requires that the heap is not empty.
  std::int64_t front() {
    deal_out();
    return last_;
  }

  /// The smallest key, without the promise that no smaller key follows. Requires that the heap is not empty.
  std::int64_t peek() const {
    if (!few_.empty()) return few_.back().key;
    const std::size_t first = first_bucket();
    return first == 0 ? last_ : smallest_[first];
  }

  /// Whether more entries have the key that `front` gave last: looks no further.
  bool more_now() const { return few_.empty() ? !buckets_[0].empty() : few_.back().key == last_; }

  /// The entry that is taken after `others` more of those with this key; null: there are not so many.
  const Value* ahead(std::size_t others) const {
    const std::vector<Entry>& from = few_.empty() ? buckets_[0] : few_;
    if (others >= from.size()) return nullptr;
    const Entry& entry = from[from.size() - 1 - others];
    return entry.key == last_ ? &entry.value : nullptr;
  }

  /// Takes one entry of the smallest key.
  Value pop() {
    deal_out();
    const bool few = !few_.empty();
    std::vector<Entry>& from = few ? few_ : buckets_[0];
    const Value value = from.back().value;
    from.pop_back();
    if (!few && from.empty()) filled_ &= ~std::uint64_t{1};
    return value;
  }

 private:
  struct Entry {
    std::int64_t key;
    Value value;
  };

  static constexpr std::size_t kFew = 128;

  void insert(const Entry& entry) {
    const auto later = [](const Entry& each, std::int64_t key) { return each.key >= key; };
    few_.insert(std::lower_bound(few_.begin(), few_.end(), entry.key, later), entry);
  }

  std::size_t bucket_of(std::int64_t key) const {
    return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(key ^ last_)));
  }

  std::size_t first_bucket() const { return static_cast<std::size_t>(std::countr_zero(filled_)); }

  void put(const Entry& entry) {
    const std::size_t bucket = bucket_of(entry.key);
    const std::uint64_t bit = std::uint64_t{1} << bucket;
    if ((filled_ & bit) == 0 || entry.key < smallest_[bucket]) smallest_[bucket] = entry.key;
    buckets_[bucket].push_back(entry);
    filled_ |= bit;
  }

  /// Brings the entries of the smallest key to the end of few_, or into bucket 0.
  void deal_out() {
    if (!few_.empty()) {
      last_ = few_.back().key;
      return;
    }
    const std::size_t first = first_bucket();
    if (first == 0) return;
    last_ = smallest_[first];
    filled_ &= ~(std::uint64_t{1} << first);
    if (buckets_[first].size() == 1) {  // as in most small heaps
      buckets_[0].swap(buckets_[first]);
      filled_ |= 1;
      return;
    }
    moving_.swap(buckets_[first]);
    for (const Entry& entry : moving_) put(entry);
    moving_.clear();
  }

  std::vector<Entry> few_;  ///< all entries, the first ones last; empty if there are too many
  std::array<std::vector<Entry>, 64> buckets_;
  std::array<std::int64_t, 64> smallest_{};  ///< key of each bucket with entries
  std::uint64_t filled_ = 0;                 ///< one bit for each bucket with entries
  std::vector<Entry> moving_;
  std::int64_t last_ = 0;
};

}  // namespace tracecast
