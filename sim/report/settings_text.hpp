/// \file
/// Sentences about the assumptions of a forecast on precision, attention, routing, experts and placement.
#pragma once

#include <string>
#include <vector>

#include "sim/forecast/forecast.hpp"
#include "sim/io/scenario.hpp"

namespace tracecast {

/// "linear layers in fp8_block but attention's (bf16); embedding, router, …": which tensors have which precision.
std::string precision_text(const Model& model, const Training& training);

/// "fused, kernel cudnn", or unfused attention; and the kernel of the scenario that the GPU does not have.
std::string attention_text(const Scenario& scenario);

/// Which parameters are trained; empty if all are.
std::string trained_text(const Model& model, const Training& training);

/// How the update of an optimizer other than Adam, SGD and momentum runs, and what is not measured of it; empty for those.
std::string optimizer_text(const Parallel& parallel, const Training& training);

/// Which loss is assumed where training.cross_entropy leaves it to the kind of data parallelism, and that is PyTorch's; else empty.
std::string loss_text(const Parallel& parallel, const Training& training);

/// Where the host has 1 % of the step: its time for an operator, and whose it is. From 5 % with a hint to CUDA graphs. Else empty.
std::string host_text(const Scenario& scenario, const Forecast& forecast);

/// The long links between the sites of the job; empty if it has one site.
std::string sites_text(const Sites& sites);

/// How many GPUs of each rack the job uses; empty if all, or if the machine has no racks.
std::string rack_text(const Scenario& scenario);

/// A sentence for each of tensor, context and expert parallelism whose groups have members in several scale-up domains.
std::vector<std::string> crossing_texts(const Cluster& cluster, const std::vector<AxisBandwidth>& bandwidth);

/// Sentences beside the step time: crossing_texts(), and one for each
///
///   axis that asks for more than 90 % of its links, with the time of its exposed communication
///   setting without effect
///   graph of the whole step that cannot be captured
///   schedule without a flush, and one that updates after every backward
std::vector<std::string> note_texts(const Scenario& scenario, const Forecast& forecast);

/// How tokens are routed to experts and moved; empty for models without experts.
std::string routing_text(const Model& model, const Parallel& parallel, const Training& training);

}  // namespace tracecast
