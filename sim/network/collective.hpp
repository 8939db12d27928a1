/// \file
/// The collectives by name: the vocabulary that profiles and network models share.
#pragma once

namespace tracecast {

enum class Collective { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send_recv };
inline constexpr int kCollectiveKinds = 6;
const char* to_string(Collective collective);

}  // namespace tracecast
