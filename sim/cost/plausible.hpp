/// \file
/// Measurements that no GPU can have made: they come from a wrong unit, a wrong size, another GPU or a damaged file, and a
/// profile that holds them makes every forecast wrong.
///
///   computation    FLOPs / time <= 1.1 x peak of its precision (fp32: of TF32, half the 16-bit peak)
///   any operator   bytes that must move / time <= 8 x memory bandwidth (what fits caches is faster than memory)
///   collective     bus bandwidth <= memory bandwidth: a GPU reads or writes each byte that it sends or receives
///   between hosts  what a host must receive / time <= 1.02 x rate of its NICs; as many ranks on each host
///
/// CPUs are not checked: their profile's peak is that of some core.
#pragma once

#include <optional>
#include <string>

#include "sim/cost/profile.hpp"

namespace tracecast {

/// Why `measured` cannot be; nullopt: it can. "takes 1.2 us, which is 410 PFLOP/s (allowed: up to 1.1 of bf16's 989 TFLOP/s)"
std::optional<std::string> why_impossible(const Profile& profile, const MeasuredOperator& measured);
std::optional<std::string> why_impossible(const Profile& profile, const MeasuredCollective& measured);

/// The model of a GPU in a name that a driver, a tool or a profile gives it: "H100" of "NVIDIA H100 80GB HBM3" and of "H100 SXM
/// 80 GB", "MI250X", "V100", "4090". "": no such word.
std::string gpu_model(std::string_view name);

/// Whether two names may be of the same GPU: the same model, form (PCIe, NVL, SXM) and memory, as far as both say them. An H100 on a PCIe
/// card has three quarters of the peak of a module, and other memory.
bool may_be_same_gpu(std::string_view a, std::string_view b);

}  // namespace tracecast
