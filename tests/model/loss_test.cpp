#include "sim/model/loss.hpp"

#include <cmath>

#include <catch2/catch.hpp>

using namespace tracecast;

TEST_CASE("published laws give the losses of their papers", "[row-1-1][requirements][oracle][model][scaling]") {
  // Chinchilla: 1.69 + 406.4 / 70e9^0.34 + 410.7 / 1.4e12^0.28 = 1.69 + 0.0835 + 0.1632.
  CHECK(loss_of(chinchilla_law(), {70e9, 1.4e12}) == Approx(1.9366).epsilon(1e-4));
  // Gopher had four times the parameters and a fifth of the tokens, and a higher loss: 1.69 + 0.0521 + 0.2511.
  CHECK(loss_of(chinchilla_law(), {280e9, 300e9}) == Approx(1.9933).epsilon(1e-4));
  // Kaplan, 1.5 B parameters and 22 B tokens: ((6.4e13/1.5e9)^0.7379 + 1.8e13/22e9)^0.103 = (2608.4 + 818.2)^0.103.
  CHECK(loss_of(kaplan_law(), {1.5e9, 22e9}) == Approx(2.3125).epsilon(1e-3));
}

TEST_CASE("no other sizes of the same compute have a smaller loss", "[property][model][scaling]") {
  for (const LossLaw& law : {chinchilla_law(), kaplan_law()})
    for (const double compute : {1e19, 5.88e23, 1e27}) {
      const ModelBudget best = least_loss(law, compute);
      CHECK(6 * best.parameters * best.tokens == Approx(compute));
      const double least = loss_of(law, best);
      for (const double factor : {0.5, 0.9, 1.1, 2.0})
        CHECK(loss_of(law, {best.parameters * factor, best.tokens / factor}) > least);
    }
}

TEST_CASE("the two laws divide a budget differently", "[row-1-1][oracle][model][scaling]") {
  // Exponents of C in N: beta / (alpha + beta) = 0.452, and 1 / (1 + alpha/beta) = 0.575.
  const auto growth = [](const LossLaw& law) {
    return std::log10(least_loss(law, 1e24).parameters / least_loss(law, 1e23).parameters);
  };
  CHECK(growth(chinchilla_law()) == Approx(0.28 / 0.62));
  CHECK(growth(kaplan_law()) == Approx(0.103 / 0.179));
}
