/// \file
/// The four steps by which a published guide chooses a layout by hand, with their numbers for a job: memory, kinds of
/// parallelism, degrees, bandwidth. Reports show them beside what is simulated; the search does not use them.
///
///   1  memory   weights 2 N, gradients 2 T, optimizer 4 T bytes (the guide's AdamW in bf16), activations 16 b s h L
///   2  kinds    by the tensor degree that weights and gradients need (RuleOfThumb)
///   3  degrees  TP = smallest divisor of a node's GPUs >= (P + G) / (memory - A)
///               PP = ceil((P + G) / (TP (memory - A))) where a node is not enough, else 1
///               DP = GPUs / (TP PP)
///   4  network  what each axis asks of its links: required_bandwidth of the simulated step
///
/// The guide writes PP = ceil(GPUs / (TP DP)) and DP = GPUs / (TP PP). They are one equation with two unknowns, so PP
/// is taken from memory here. In step 3, A is what the guide's example sets aside, a quarter of the memory (20 of 80
/// GB), or one sequence with full recomputation, 2 s h L bytes, if that is more.
/// b micro-batch, s sequence length, h hidden size, L layers, N parameters, T those that are trained (the guide trains all),
/// P weights, G gradients.
/// Source: docs/references.md#case-studies
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/enum_names.hpp"
#include "sim/io/scenario.hpp"

namespace tracecast {

/// Which kinds of parallelism to use, before any trial: it depends on the tensor degree that the memory of weights and
/// gradients (2 + 2 bytes per parameter) requires.
///
///   1                                            FSDP alone
///   2 or more, all GPUs in one node              TP alone
///   2 or more, several nodes                     TP in the node, FSDP across nodes
///   more than the GPUs of a node                 TP, PP and FSDP
///
/// It reproduces the table of its publication: FSDP for 7B and 13B, TP + FSDP for 70B, all three for 405B.
enum class RuleOfThumb { fsdp, tp, tp_fsdp, tp_pp_fsdp };
template <>
struct EnumNames<RuleOfThumb> {
  static constexpr NamedValue<RuleOfThumb> table[] = {{RuleOfThumb::fsdp, "FSDP"},
                                                      {RuleOfThumb::tp, "TP"},
                                                      {RuleOfThumb::tp_fsdp, "TP + FSDP"},
                                                      {RuleOfThumb::tp_pp_fsdp, "TP + PP + FSDP"}};
};
RuleOfThumb rule_of_thumb(double parameters, double memory_gb, double activations_gb, int gpus, int gpus_per_node);

/// The smallest divisor of the GPUs of a node that is at least states / (memory - activations), with `states` = weights
/// + gradients of the whole model and the others of one GPU; 0 if a node is not enough.
int least_tensor_parallel(double states_gb, double memory_gb, double activations_gb, int gpus_per_node);

/// The guide's activations without recomputation, 16 b s h L bytes. Counted term by term they are about 34 b s h L.
double activation_rule_gb(double micro_batch, double seq_length, double hidden, double layers);

/// The guide's limit P <= memory / (parameters + activations of a stage). It says how many stages of this size one GPU
/// would hold, not how many a model may have: more stages make each smaller and the limit larger.
int most_stages(double memory_gb, double stage_gb);

struct Guideline {
  double memory_gb = 0;  ///< of a GPU
  double weights_gb = 0;
  double gradients_gb = 0;
  double optimizer_gb = 0;
  double activations_gb = 0;  ///< the guide's 16 b s h L, of the whole model
  double reserved_gb = 0;     ///< A of step 3
  int gpus = 1;
  int node_gpus = 1;
  RuleOfThumb rule = RuleOfThumb::fsdp;
  int tp = 1, pp = 1, dp = 1;
  int most_stages = 0;         ///< for stages of pp
  int least_microbatches = 1;  ///< 4 pp
  std::vector<std::string> notes;
  double total_gb() const { return weights_gb + gradients_gb + optimizer_gb + activations_gb; }
};
Guideline guideline(const Scenario& scenario);

/// What such guides advise against in a layout, a sentence each: more than 8 stages, tensor parallelism beyond a node,
/// fewer than 4 micro-batches per stage.
std::vector<std::string> against_rules(int tp, int pp, std::int64_t microbatches, int node_gpus);

}  // namespace tracecast
