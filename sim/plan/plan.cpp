#include "sim/plan/plan.hpp"

#include <algorithm>

#include "sim/base/integers.hpp"
#include "sim/model/scaling.hpp"
#include "sim/plan/expert_checks.hpp"
#include "sim/plan/layout_checks.hpp"
#include "sim/plan/optimizer_matrices.hpp"
#include "sim/plan/plan_check.hpp"
#include "sim/plan/sharding.hpp"
#include "sim/plan/stages.hpp"
#include "sim/plan/training_checks.hpp"

namespace tracecast {
namespace {

void fill_defaults(Parallel& p) {
  if (p.etp == 0) p.etp = p.tp;
  if (p.pp_schedule.empty()) p.pp_schedule = default_schedule(p.vpp);
}

}  // namespace

PackedSteps packed_steps(const Plan& plan) {
  const Parallel& p = plan.parallel;
  const Training& t = plan.training;
  if (t.documents->packing == Packing::dynamic_cp)
    return pack_bins(*t.documents, t.seq_length, t.global_batch_size, p.cp, plan.gradient_group());
  return pack_steps(*t.documents, t.seq_length, t.global_batch_size, p.cp > 1 ? 2 * p.cp : 1);
}

std::int32_t Plan::first_batch(const Coordinates& at) const {
  if (!batches_vary()) return -1;
  const int owner = context_varies() ? at[Axis::dp] * parallel.cp + at[Axis::cp] : at[Axis::dp];
  return owner * num_microbatches;
}

std::int64_t Plan::tokens() const { return training.micro_batch_size * training.seq_length / parallel.cp; }

int Plan::gradient_group() const { return parallel.dp * parallel.cp; }

bool Plan::gathers_again(bool root) const {
  return parallel.reshard_after_forward && !stays_gathered_in_pipeline(parallel) && (!root || parallel.reshard_root);
}

int Plan::expert_token_parts() const {
  const int etp = parallel.expert_tensor_ranks();
  return parallel.sequence_parallel ? etp : std::max(1, etp / parallel.tp);
}

int Plan::shard_group() const { return parallel.shard_group > 0 ? parallel.shard_group : gradient_group(); }

std::int64_t steps_of_epoch(const Training& training) {
  return ceil_div(training.dataset_samples, training.global_batch_size);
}

double tokens_to_train(const Training& training) {
  const double batch = static_cast<double>(training.global_batch_size) * static_cast<double>(training.seq_length);
  return tokens_with_batch(static_cast<double>(training.train_tokens), batch,
                           static_cast<double>(training.critical_batch_tokens));
}

Result<Plan> make_plan(const Model& model, const Parallel& parallel, const Training& training, int world_size) {
  TRACECAST_ASSERT(world_size >= 1, "a cluster has at least one rank");
  Plan plan;
  plan.parallel = parallel;
  plan.training = training;
  plan.world_size = world_size;
  Parallel& p = plan.parallel;

  PlanCheck check;
  const bool degrees = check_degrees(check, p);
  const bool sizes = check_sizes(check, training);
  if (!degrees || !sizes) return tl::unexpected(check.take());
  fill_defaults(p);
  apply_strategy(check, p);

  const bool dp = fill_dp(check, p, world_size);
  const auto order = parse_rank_order(p.rank_order);
  if (!order) check.append(order.error());
  check_layout(check, model, p, training);
  check_training(check, model, training);
  check_encoder(check, model, p);
  check_experts(check, model, p, training);
  if (dp) {
    check_expert_parallel(check, model, p);
    check_sharding(check, p);
    check_data_parallel(check, p);
    check_offloading(check, p, training);
    check_optimizer(check, p, training);
    check_batch(check, p, training);
    check_documents(check, model, p, training);
    if (order) check_rank_order(check, p);
  }
  auto stages = cut_stages(model, p);
  if (!stages) check.append(stages.error());
  if (!check.passed()) return tl::unexpected(check.take());

  plan.stages = std::move(*stages);
  plan.grid = RankGrid({p.tp, p.cp, p.dp, p.pp}, *order);
  if (model.moe) plan.expert_load = expert_load(*model.moe, p, training);
  plan.num_microbatches = static_cast<int>(training.global_batch_size / (training.micro_batch_size * p.dp));
  if (training.documents) plan.packed = std::make_shared<const PackedSteps>(packed_steps(plan));
  return plan;
}

}  // namespace tracecast
