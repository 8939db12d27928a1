/// What a forecast assumed about precision, attention and experts, in sentences: nothing that costs time stays unsaid.
#pragma once

#include <string>
#include <vector>

#include "sim/io/scenario.hpp"

namespace tracecast {

/// "linear layers in fp8_block but attention's (bf16); embedding, router, …": which tensors have which precision.
std::string precision_text(const Model& model, const Training& training);

/// That the GPU has no arithmetic in the training's precision, and whose rate is taken; empty when it has.
std::string rate_text(const Profile& profile, const Training& training);

/// "fused, kernel cudnn", or that scores pass through memory; and which kernel of the scenario the GPU does not have.
std::string attention_text(const Scenario& scenario);

/// Which parameters are trained; empty when all are.
std::string trained_text(const Model& model, const Training& training);

/// "each flow takes one way through the fabric, by a hash with seed 3 (ECMP)"; empty where traffic is split evenly.
std::string ways_text(const Cluster& cluster);

/// How tokens are routed and moved; empty for models without experts.
std::string routing_text(const Model& model, const Parallel& parallel, const Training& training);

}  // namespace tracecast
