/// \file
/// The collectives by name: the vocabulary that profiles and network models share.
#pragma once

#include <cstdint>

#include "sim/base/enum_names.hpp"

namespace tracecast {

enum class Collective { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send_recv };
inline constexpr int kCollectiveKinds = 6;
/// Largest size of one call that files and options may give: 1 PiB. Sums and times of such sizes are far from 64 bits.
inline constexpr std::int64_t kMaxCollectiveBytes = std::int64_t{1} << 50;
template <>
struct EnumNames<Collective> {
  static constexpr NamedValue<Collective> table[] = {
      {Collective::all_reduce, "all_reduce"},         {Collective::all_gather, "all_gather"},
      {Collective::reduce_scatter, "reduce_scatter"}, {Collective::all_to_all, "all_to_all"},
      {Collective::broadcast, "broadcast"},           {Collective::send_recv, "send_recv"}};
};

}  // namespace tracecast
