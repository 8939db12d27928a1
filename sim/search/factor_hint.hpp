/// \file
/// Whether the factors of a number of GPUs fit those of the batch.
#pragma once

#include <cstdint>
#include <string>

namespace tracecast {

/// A sentence if the factors of a number of GPUs spoil the batch: an odd factor that the batch does not have must go into
/// tensor, pipeline or context parallelism. It names the batch with all odd factors and the largest power of two that
/// differs by at most a quarter. Empty: they do not.
std::string factor_hint(int gpus, std::int64_t global_batch);

}  // namespace tracecast
