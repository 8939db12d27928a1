/// \file
/// Pre-training loss of a model and its tokens by published scaling laws, and the best sizes for a compute budget under
/// such a law. Loss is in nats per token on the law's own data and tokenizer: compare values of one law only.
///
///   additive   L = E + A / N^alpha + B / D^beta                  Hoffmann et al. 2022, eq. 10
///   nested     L = ((Nc / N)^(alpha/beta) + Dc / D)^beta         Kaplan et al. 2020, eq. 1.5; N without embeddings
///
/// N parameters, D tokens. With C = 6 N D fixed, the additive law is least at N = G (C/6)^(beta/(alpha+beta)),
/// G = (alpha A / (beta B))^(1/(alpha+beta)). The nested one has its minimum
/// where the two terms are as beta to alpha: (Nc/N)^(alpha/beta) alpha/beta = Dc/D.
/// Source: docs/references.md#hoffmann-2022, docs/references.md#kaplan-2020
#pragma once

#include <string>

#include "sim/base/enum_names.hpp"
#include "sim/model/scaling.hpp"

namespace tracecast {

enum class LossForm { additive, nested };
template <>
struct EnumNames<LossForm> {
  static constexpr NamedValue<LossForm> table[] = {{LossForm::additive, "additive"}, {LossForm::nested, "nested"}};
};

struct LossLaw {
  std::string name;
  LossForm form = LossForm::additive;
  double irreducible = 0;  ///< E; additive only
  double parameters = 0;   ///< A, or Nc
  double tokens = 0;       ///< B, or Dc
  double alpha = 0;        ///< of N
  double beta = 0;         ///< of D
};

/// Hoffmann et al. 2022, approach 3: E 1.69, A 406.4, B 410.7, alpha 0.34, beta 0.28.
LossLaw chinchilla_law();
/// Kaplan et al. 2020, table 2: Nc 6.4e13, Dc 1.8e13, alpha 0.076, beta 0.103.
LossLaw kaplan_law();

/// Requires positive sizes and a law with positive coefficients.
double loss_of(const LossLaw& law, const ModelBudget& budget);
/// The sizes of least loss that take this compute by the rule.
ModelBudget least_loss(const LossLaw& law, double compute, ComputeRule rule = ComputeRule::six_nd);

}  // namespace tracecast
