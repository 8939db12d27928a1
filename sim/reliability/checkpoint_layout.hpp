/// \file
/// Which parameters are in which shard of a checkpoint, and what a job reads to resume in another layout.
///
/// The parameters of a model are numbered consecutively: tables, layers, head, each group of parameters
/// (model/parameters.hpp) in its order. A shard of layout (tp, pp, dp) holds ranges of these numbers: pipeline rank p
/// the layers [L p / pp, L (p+1) / pp), tensor rank i the i-th of tp slices of every split group (replicated groups are
/// written by tensor rank 0 alone), and data-parallel rank d the d-th of dp slices of the rest. Every parameter is in
/// exactly one shard, so all layouts have the same number of bytes.   Source: docs/references.md#checkpoint-size
#pragma once

#include <cstdint>
#include <vector>

#include "sim/model/model.hpp"

namespace tracecast {

struct ShardLayout {
  int tp = 1;
  int pp = 1;
  int dp = 1;
  bool operator==(const ShardLayout&) const = default;
};

/// Parameters [begin, end).
struct ParameterRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool operator==(const ParameterRange&) const = default;
};

/// Ranges of one shard, ascending, without overlap. Requires ranks inside the layout.
std::vector<ParameterRange> shard(const Model& model, const ShardLayout& layout, int pp_rank, int tp_rank, int dp_rank);

std::int64_t count(const std::vector<ParameterRange>& ranges);

/// What one replica of the new layout reads, in parameters.
struct ReshardRead {
  std::int64_t needed = 0;        ///< if slices can be read: every parameter once
  std::int64_t whole_shards = 0;  ///< if not: each new rank reads every old shard that it needs a part of
  double amplification() const { return static_cast<double>(whole_shards) / static_cast<double>(needed); }
};
ReshardRead reshard(const Model& model, const ShardLayout& from, const ShardLayout& to);

}  // namespace tracecast
