/// \file
/// A queue of events in the order of their times, for times that never run backwards.
///
/// Keys differ from the last one taken at some highest bit; entries wait in the bucket of that bit and are dealt out anew
/// when their bucket comes first, so each moves at most 64 times and mostly once or twice.
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
  bool empty() const { return size_ == 0; }

  /// Requires a key that is not below the last one that `front` has looked at, and not negative.
  void push(std::int64_t key, Value value) {
    TRACECAST_ASSERT(key >= last_, "events do not come before what has happened");
    put({key, value});
    ++size_;
  }

  /// The smallest key. Requires that the heap is not empty.
  std::int64_t front() {
    deal_out();
    return last_;
  }

  /// The smallest key, without the promise that no smaller key follows. Requires that the heap is not empty.
  std::int64_t peek() const {
    const std::size_t first = first_bucket();
    return first == 0 ? last_ : smallest_[first];
  }

  /// Whether more entries have the key that `front` gave last: looks no further.
  bool more_now() const { return !buckets_[0].empty(); }

  /// The entry that is taken after `others` more of those with this key; null: there are not so many.
  const Value* ahead(std::size_t others) const {
    const std::size_t count = buckets_[0].size();
    return others < count ? &buckets_[0][count - 1 - others].value : nullptr;
  }

  /// Takes one entry of the smallest key.
  Value pop() {
    deal_out();
    const Value value = buckets_[0].back().value;
    buckets_[0].pop_back();
    if (buckets_[0].empty()) filled_ &= ~std::uint64_t{1};
    --size_;
    return value;
  }

 private:
  struct Entry {
    std::int64_t key;
    Value value;
  };

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

  /// Brings the entries of the smallest key into bucket 0.
  void deal_out() {
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

  std::array<std::vector<Entry>, 64> buckets_;
  std::array<std::int64_t, 64> smallest_{};  ///< key of each bucket with entries
  std::uint64_t filled_ = 0;                 ///< one bit for each bucket with entries
  std::vector<Entry> moving_;
  std::int64_t last_ = 0;
  std::size_t size_ = 0;
};

}  // namespace tracecast
