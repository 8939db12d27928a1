/// Rules of thumb that other people publish, as they publish them: to be shown beside our own numbers, never in their place.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/units.hpp"

namespace tracecast {

/// DeepSpeed's estimate_zero2_model_states_mem_needs: 2 N + 18 N / D bytes of model states per GPU, everything on GPUs.
/// Its 18 counts a 16-bit and a 32-bit copy of the gradients.   Source: DOMAIN.md 2.1
Bytes deepspeed_zero2_estimate(std::int64_t parameters, int ranks);
/// DeepSpeed's estimate_zero3_model_states_mem_needs: 18 N / D + 4 x the parameters of the largest layer.
Bytes deepspeed_zero3_estimate(std::int64_t parameters, std::int64_t largest_layer, int ranks);

/// S3's "activations = batch x sequence x hidden x layers x 16", bytes. Korthikanti's count without recomputation and with
/// fused attention is 34 in place of 16.   Source: DOMAIN.md 2.3
Bytes seed_activation_rule(std::int64_t batch, std::int64_t seq_length, std::int64_t hidden, std::int64_t layers);

/// S3's sizing rules.
/// Smallest tensor degree that divides a node's GPUs and is at least states / (memory - activations) (both of one GPU,
/// `states` = weights + gradients of the whole model); 0 when a node is not enough.
int seed_tensor_parallel(double states_gb, double memory_gb, double activations_gb, int gpus_per_node);
/// The tensor degrees that S3 allows: divisors of a node's GPUs.
std::vector<int> seed_tensor_degrees(int gpus_per_node);
/// S3's PP = ceil(G / (TP DP)) and DP = G / (TP PP) are each other's circle: one of them has to be given.
int seed_pipeline_parallel(int gpus, int tp, int dp);
/// S3's "P <= memory / (parameters + activations of a stage)", rounded down. It is no bound of the number of stages (it says
/// how many such stages one GPU could hold); whether a stage fits is peak_memory's to say.   Requires stage_gb > 0
int seed_most_stages(double memory_gb, double stage_gb);
/// S3's second step, which kinds of parallelism: the tensor degree that weights and gradients (2 + 2 bytes) ask for decides.
///
///   1                                            FSDP alone
///   2 or more, all GPUs in one node              TP alone
///   2 or more, several nodes                     TP in the node, FSDP across nodes
///   more than a node has                         TP, PP and FSDP
///
/// It gives the kinds of S3's own table: FSDP for 7B and 13B, TP + FSDP for 70B, all three for 405B.
enum class SeedStrategy { fsdp, tp, tp_fsdp, tp_pp_fsdp };
const char* to_string(SeedStrategy strategy);
SeedStrategy seed_strategy(double parameters, double memory_gb, double activations_gb, int gpus, int gpus_per_node);
/// M >= 4 P.
int seed_least_microbatches(int pp);
/// S3 advises 2 to 8 stages.
bool seed_pipeline_is_practical(int pp);

}  // namespace tracecast
