/// \file
/// How long an operator takes on a GPU, and how that is known: measured, interpolated or analytic.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "sim/base/units.hpp"
#include "sim/cost/gemm.hpp"
#include "sim/cost/measured.hpp"
#include "sim/cost/profile.hpp"
#include "sim/model/operators.hpp"

namespace tracecast {

enum class Provenance {
  measured,      ///< this very shape on this very GPU
  interpolated,  ///< between measured shapes, or by a model fitted to measurements of this GPU
  analytic,      ///< from specifications, or a model fitted to another GPU
};
const char* to_string(Provenance provenance);

struct OperatorCost {
  Duration duration;  ///< median, in training
  double spread = 0;  ///< relative standard deviation of the true time around `duration`
  Provenance provenance = Provenance::analytic;
  /// Share of the duration that is added while a collective holds SMs, besides the loss of these SMs.
  double beside_collectives = 0;
};

/// Seconds of one isolated multiplication, as gemm_seconds.
using GemmSeconds = std::function<double(const GemmModel&, const GpuPeak&, const GemmShape&, GemmElements)>;

/// Costs of one GPU. Immutable and thread-safe.
///
/// An operator is looked up among the measured ones, else its model of gemm.hpp, attention.hpp, scan.hpp or memory_bound.hpp is
/// evaluated and, where a recorded profile has measured similar operators, scaled by what those took (measured.hpp).
/// Every duration is multiplied by the in-training factor of its class of operator.
///
/// Precisions without parameters of their own borrow: fp16 and bf16 each other's, the 8-bit formats fp8's, everything
/// else those of 16 bit with the peak of its own precision.
class Costs {
 public:
  /// `attention_kernel`: which of the profile's kernels fused attention runs on; "" is the profile's first.
  /// Requires it to be one of attention_kernels(profile): what a user asks for is checked by its reader.
  /// `gemm`: what evaluates the model of a multiplication.
  explicit Costs(Profile profile, std::string attention_kernel = "", GemmSeconds gemm = gemm_seconds);

  /// Requires sizes >= 1. Scores are batched GEMMs, one per operator.
  OperatorCost of(const Operator& op) const;
  /// Fused attention over documents of these lengths in sequences of `sequence` tokens (attention.hpp).
  Duration over_documents(const Operator& op, std::span<const std::int32_t> lengths, std::int64_t sequence) const;
  const Profile& profile() const { return profile_; }

 private:
  struct Modelled {
    double seconds = 0;  ///< isolated
    const Fit* fit = nullptr;
  };
  OperatorCost at_rated_clock(const Operator& op) const;
  /// `clock`: share of the rated one
  Modelled modelled(const Operator& op, double clock) const;
  Modelled modelled_gemm(const Operator& op, double clock) const;
  Modelled modelled_attention(const Operator& op, double clock) const;
  const AttentionModel& attention_model(const Operator& op) const;
  /// Interpolates between the head sizes of the nearest models, for which `seconds` gives the time.
  double between_head_sizes(const Operator& op,
                            const std::function<double(const AttentionModel&, const AttentionShape&)>& seconds) const;
  GpuPeak attention_peak(const Operator& op, const AttentionModel& model, double flops, double clock) const;
  Modelled modelled_memory_bound(const Operator& op) const;
  /// OperatorCost::beside_collectives: a multiplication takes `gemm_extra_waves` of its waves of tiles of 256 x 128 longer, at most
  /// as long again.
  double share_beside_collectives(const Operator& op) const;
  double factor_in_training(const Operator& op) const;

  Profile profile_;
  std::string attention_kernel_;
  GemmSeconds gemm_;
  bool in_training_;  ///< the profile has factors for work inside a step
  MeasuredTable measured_;
};

}  // namespace tracecast
