#include "sim/model/loss.hpp"

#include <cmath>

namespace tracecast {

LossLaw chinchilla_law() { return {"chinchilla", LossForm::additive, 1.69, 406.4, 410.7, 0.34, 0.28}; }
LossLaw kaplan_law() { return {"kaplan", LossForm::nested, 0, 6.4e13, 1.8e13, 0.076, 0.103}; }

double loss_of(const LossLaw& law, const ModelBudget& budget) {
  if (law.form == LossForm::additive)
    return law.irreducible + law.parameters / std::pow(budget.parameters, law.alpha) +
           law.tokens / std::pow(budget.tokens, law.beta);
  return std::pow(std::pow(law.parameters / budget.parameters, law.alpha / law.beta) + law.tokens / budget.tokens,
                  law.beta);
}

ModelBudget least_loss(const LossLaw& law, double compute, ComputeRule rule) {
  const double product = compute / compute_of(1, 1, rule);  // N D
  double parameters = 0;
  if (law.form == LossForm::additive) {
    const double g = std::pow(law.alpha * law.parameters / (law.beta * law.tokens), 1 / (law.alpha + law.beta));
    parameters = g * std::pow(product, law.beta / (law.alpha + law.beta));
  } else {
    // d/dN of (Nc/N)^r + Dc N / (N D) is zero where r Nc^r N^-r = Dc N / (N D), r = alpha / beta.
    const double r = law.alpha / law.beta;
    parameters = std::pow(r * std::pow(law.parameters, r) * product / law.tokens, 1 / (1 + r));
  }
  return {parameters, product / parameters};
}

}  // namespace tracecast
