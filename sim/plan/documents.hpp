/// \file
/// The documents of a batch: the law of their lengths, and how they are packed to sequences.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "sim/base/enum_names.hpp"

namespace tracecast {

enum class LengthLaw { fixed, uniform, lognormal, histogram };
template <>
struct EnumNames<LengthLaw> {
  static constexpr NamedValue<LengthLaw> table[] = {{LengthLaw::fixed, "fixed"},
                                                    {LengthLaw::uniform, "uniform"},
                                                    {LengthLaw::lognormal, "lognormal"},
                                                    {LengthLaw::histogram, "histogram"}};
};

enum class Packing {
  concatenate,  ///< one after the other, cut where a sequence is full (Megatron-LM's and most pre-training data sets)
  first_fit,    ///< in the order of the data, each into the first sequence with room (NeMo)
  best_fit,     ///< the longest first, each into the fullest sequence with room (TRL)
  none,         ///< a sequence for each
  dynamic_cp    ///< best_fit into parts of sequences, on no more context ranks than a document needs (Megatron-Core)
};
template <>
struct EnumNames<Packing> {
  static constexpr NamedValue<Packing> table[] = {{Packing::concatenate, "concatenate"},
                                                  {Packing::first_fit, "first_fit"},
                                                  {Packing::best_fit, "best_fit"},
                                                  {Packing::none, "none"},
                                                  {Packing::dynamic_cp, "dynamic_cp"}};
};

struct Documents {
  LengthLaw law = LengthLaw::fixed;
  std::int64_t mean = 0;                         ///< fixed, lognormal: tokens
  double sigma = 1;                              ///< lognormal: standard deviation of the logarithm
  std::int64_t shortest = 1;                     ///< no document is shorter
  std::int64_t longest = 0;                      ///< nor longer; 0: seq_length, above which only concatenate goes
  std::map<std::string, double> histogram = {};  ///< [tokens] weight
  std::string file = {};                         ///< of lengths; the reader of the scenario makes it the histogram
  Packing packing = Packing::concatenate;
  std::int64_t buffer = 1000;  ///< first_fit, best_fit: documents packed at a time
  bool mask = true;            ///< tokens attend to their own document only
  int steps = 16;              ///< that are simulated
  std::int64_t seed = 1;
  bool operator==(const Documents&) const = default;
};

}  // namespace tracecast
