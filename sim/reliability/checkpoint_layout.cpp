#include "sim/reliability/checkpoint_layout.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/integers.hpp"
#include "sim/model/parameters.hpp"

namespace tracecast {
namespace {

using Ranges = std::vector<ParameterRange>;

std::int64_t cut(std::int64_t total, std::int64_t part, std::int64_t parts) {
  // Splits the quotient so that total x part cannot overflow.
  return total / parts * part + total % parts * part / parts;
}

/// Slice `rank` of a group whose first parameter is `begin`.
void add_slice(Ranges& ranges, const ParameterGroup& group, std::int64_t begin, int tp, int rank) {
  if (group.split == Split::replicated) {
    if (rank == 0) ranges.push_back({begin, begin + group.count});
    return;
  }
  const ParameterRange range{begin + cut(group.count, rank, tp), begin + cut(group.count, rank + 1, tp)};
  if (range.begin < range.end) ranges.push_back(range);
}

/// Parameters of tensor rank `tp_rank` of pipeline rank `pp_rank`, all its data-parallel ranks together.
Ranges model_shard(const Model& model, const ShardLayout& layout, int pp_rank, int tp_rank) {
  Ranges ranges;
  std::int64_t at = 0;
  const auto add = [&](const std::vector<ParameterGroup>& groups, bool mine) {
    for (const ParameterGroup& group : groups) {
      if (mine) add_slice(ranges, group, at, layout.tp, tp_rank);
      at += group.count;
    }
  };
  const int layers = model.layers();
  add(embedding_parameter_groups(model), pp_rank == 0);
  for (int layer = 0; layer < layers; ++layer) {
    const bool mine = layer >= cut(layers, pp_rank, layout.pp) && layer < cut(layers, pp_rank + 1, layout.pp);
    add(layer_parameter_groups(model, layer), mine);
  }
  add(head_parameter_groups(model), pp_rank == layout.pp - 1);
  for (int layer = 0; layer < model.mtp_layers; ++layer) add(mtp_parameter_groups(model), pp_rank == layout.pp - 1);
  return ranges;
}

/// Of a model shard, what data-parallel rank `dp_rank` of `dp` holds.
Ranges data_parallel_slice(const Ranges& model_shard, int dp_rank, int dp) {
  const std::int64_t total = count(model_shard);
  const std::int64_t first = cut(total, dp_rank, dp), last = cut(total, dp_rank + 1, dp);
  Ranges mine;
  std::int64_t before = 0;
  for (const ParameterRange& range : model_shard) {
    const std::int64_t size = range.end - range.begin;
    const std::int64_t from = std::clamp<std::int64_t>(first - before, 0, size);
    const std::int64_t to = std::clamp<std::int64_t>(last - before, 0, size);
    if (from < to) mine.push_back({range.begin + from, range.begin + to});
    before += size;
  }
  return mine;
}

std::vector<Ranges> all_shards(const Model& model, const ShardLayout& layout) {
  std::vector<Ranges> shards;
  for (int pp = 0; pp < layout.pp; ++pp)
    for (int tp = 0; tp < layout.tp; ++tp) {
      const Ranges all = model_shard(model, layout, pp, tp);
      for (int dp = 0; dp < layout.dp; ++dp) shards.push_back(data_parallel_slice(all, dp, layout.dp));
    }
  return shards;
}

struct OwnedRange {
  ParameterRange range;
  std::size_t shard = 0;
};

/// The ranges of all shards, ascending: every parameter is in one of them.
std::vector<OwnedRange> owners(const std::vector<Ranges>& shards) {
  std::vector<OwnedRange> owned;
  for (std::size_t shard = 0; shard < shards.size(); ++shard)
    for (const ParameterRange& range : shards[shard]) owned.push_back({range, shard});
  std::sort(owned.begin(), owned.end(),
            [](const OwnedRange& a, const OwnedRange& b) { return a.range.begin < b.range.begin; });
  return owned;
}

}  // namespace

std::vector<ParameterRange> shard(const Model& model, const ShardLayout& layout, int pp_rank, int tp_rank,
                                  int dp_rank) {
  TRACECAST_ASSERT(pp_rank < layout.pp && tp_rank < layout.tp && dp_rank < layout.dp, "a rank of the layout");
  return data_parallel_slice(model_shard(model, layout, pp_rank, tp_rank), dp_rank, layout.dp);
}

std::int64_t count(const std::vector<ParameterRange>& ranges) {
  std::int64_t total = 0;
  for (const ParameterRange& range : ranges) total += range.end - range.begin;
  return total;
}

ReshardRead reshard(const Model& model, const ShardLayout& from, const ShardLayout& to) {
  const std::vector<Ranges> old_shards = all_shards(model, from);
  const std::vector<Ranges> fresh_shards = all_shards(model, to);
  const std::vector<OwnedRange> old = owners(old_shards);
  std::vector<std::size_t> read_by(old_shards.size(), fresh_shards.size());  // the last fresh shard that read it
  ReshardRead read;
  for (std::size_t fresh = 0; fresh < fresh_shards.size(); ++fresh)
    for (const ParameterRange& range : fresh_shards[fresh]) {
      read.needed += range.end - range.begin;
      auto each =
          std::partition_point(old.begin(), old.end(), [&](const OwnedRange& o) { return o.range.end <= range.begin; });
      for (; each != old.end() && each->range.begin < range.end; ++each)
        if (std::exchange(read_by[each->shard], fresh) != fresh) read.whole_shards += count(old_shards[each->shard]);
    }
  return read;
}

}  // namespace tracecast
