#include "sim/io/scenario_fields.hpp"

#include "sim/cost/power_limit.hpp"
#include "sim/plan/activations.hpp"
#include "sim/plan/fine_tuning.hpp"
#include "sim/plan/precision.hpp"

namespace tracecast {
namespace {

const Allowed kDegree{.minimum = 1, .maximum = 1e6};
const Allowed kDegreeOrDerived{.minimum = 0, .maximum = 1e6};
const Allowed kLength{.minimum = 1, .maximum = 1e9};
const Allowed kCount{.minimum = 0, .maximum = 1e15};
const Allowed kSize{.minimum = 0, .maximum = 1e12};  // `validated` has the tighter limits of a model
const Allowed kNumber{.minimum = 0};
const Allowed kNotNegative{.minimum = 0, .later = true};

}  // namespace

#include "sim/io/keys/scenario.def"

std::vector<KeyTable> scenario_keys() {
  return {{"scenario", texts_of<Scenario>()},   {"parallel", texts_of<Parallel>()},
          {"training", texts_of<Training>()},   {"documents", texts_of<Documents>()},
          {"cluster", texts_of<ClusterKeys>()}, {"perturb", texts_of<Perturbation>()}};
}
std::vector<KeyTable> model_keys() {
  return {{"model", texts_of<Model>()},
          {"moe", texts_of<MixtureOfExperts>()},
          {"latent_attention", texts_of<LatentAttention>()},
          {"linear_attention", texts_of<LinearAttention>()},
          {"sparse_attention", texts_of<SparseAttention>()}};
}

}  // namespace tracecast
