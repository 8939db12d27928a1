/// Which measured shapes no fit of a shipped profile has ever seen.
#pragma once

#include <cstdint>

namespace tracecast {

/// True for one in five keys, the same ones on every machine: measurements with such keys are never fitted to.
bool held_out(std::int64_t key);

/// GEMMs are held out by their weight, (n, k), with all m.
bool held_out_weight(std::int64_t n, std::int64_t k);

}  // namespace tracecast
