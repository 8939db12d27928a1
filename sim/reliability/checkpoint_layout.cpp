#include "sim/reliability/checkpoint_layout.hpp"

#include <algorithm>

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

bool overlap(const Ranges& a, const Ranges& b) {
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i].end <= b[j].begin)
      ++i;
    else if (b[j].end <= a[i].begin)
      ++j;
    else
      return true;
  }
  return false;
}

std::vector<Ranges> all_shards(const Model& model, const ShardLayout& layout) {
  std::vector<Ranges> shards;
  for (int pp = 0; pp < layout.pp; ++pp)
    for (int tp = 0; tp < layout.tp; ++tp)
      for (int dp = 0; dp < layout.dp; ++dp) shards.push_back(shard(model, layout, pp, tp, dp));
  return shards;
}

}  // namespace

std::vector<ParameterRange> shard(const Model& model, const ShardLayout& layout, int pp_rank, int tp_rank,
                                  int dp_rank) {
  TRACECAST_ASSERT(pp_rank < layout.pp && tp_rank < layout.tp && dp_rank < layout.dp, "a rank of the layout");
  const Ranges all = model_shard(model, layout, pp_rank, tp_rank);
  const std::int64_t total = count(all);
  const std::int64_t first = cut(total, dp_rank, layout.dp), last = cut(total, dp_rank + 1, layout.dp);
  Ranges mine;
  std::int64_t before = 0;
  for (const ParameterRange& range : all) {
    const std::int64_t size = range.end - range.begin;
    const std::int64_t from = std::clamp<std::int64_t>(first - before, 0, size);
    const std::int64_t to = std::clamp<std::int64_t>(last - before, 0, size);
    if (from < to) mine.push_back({range.begin + from, range.begin + to});
    before += size;
  }
  return mine;
}

std::int64_t count(const std::vector<ParameterRange>& ranges) {
  std::int64_t total = 0;
  for (const ParameterRange& range : ranges) total += range.end - range.begin;
  return total;
}

ReshardRead reshard(const Model& model, const ShardLayout& from, const ShardLayout& to) {
  ReshardRead read;
  const std::vector<Ranges> old_shards = all_shards(model, from);
  for (const Ranges& fresh : all_shards(model, to)) {
    read.needed += count(fresh);
    for (const Ranges& old : old_shards)
      if (overlap(fresh, old)) read.whole_shards += count(old);
  }
  return read;
}

}  // namespace tracecast
