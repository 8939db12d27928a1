#include "sim/plan/sharding.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/plan/precision.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {
namespace {

bool is_hybrid(ShardingStrategy strategy) {
  return strategy == ShardingStrategy::hybrid_shard || strategy == ShardingStrategy::hybrid_shard_zero2;
}

bool keeps_parameters(ShardingStrategy strategy) {
  return strategy == ShardingStrategy::shard_grad_op || strategy == ShardingStrategy::hybrid_shard_zero2;
}

/// What the other keys may not say beside the strategy.
void check_strategy(PlanCheck& check, const Parallel& p, int zero_stage) {
  const std::string name = to_string(p.sharding_strategy);
  if (p.zero_stage != 0 && p.zero_stage != zero_stage)
    check.fault("parallel.zero_stage", fmt::to_string(p.zero_stage),
                fmt::format("contradicts parallel.sharding_strategy = {} (allowed: {})", name, zero_stage));
  if (is_hybrid(p.sharding_strategy)) {
    if (p.shard_group == 0)
      check.fault("parallel.sharding_strategy", name,
                  "needs parallel.shard_group, the ranks that share one copy (as a rule a node's)");
  } else if (p.shard_group != 0) {
    check.fault("parallel.shard_group", fmt::to_string(p.shard_group),
                fmt::format("contradicts parallel.sharding_strategy = {} (allowed: 0; or HYBRID_SHARD)", name));
  }
  if (!p.reshard_after_forward && !keeps_parameters(p.sharding_strategy))
    check.fault("parallel.reshard_after_forward", "false",
                fmt::format("contradicts parallel.sharding_strategy = {} (SHARD_GRAD_OP keeps the parameters)", name));
  if (p.reshard_group != 0 && (keeps_parameters(p.sharding_strategy) || zero_stage == 0))
    check.fault("parallel.reshard_after_forward", fmt::to_string(p.reshard_group),
                fmt::format("contradicts parallel.sharding_strategy = {}, which does not reshard", name));
}

}  // namespace

bool has_servers(const Parallel& p) {
  return p.data_parallel == DataParallelKind::parameter_server ||
         p.data_parallel == DataParallelKind::async_parameter_server;
}

bool averages_parameters(const Parallel& p) { return p.data_parallel == DataParallelKind::parameter_averaging; }

bool updates_every_backward(const Parallel& p) {
  const ScheduleVariant* schedule = find_schedule(p.pp_schedule);
  return schedule != nullptr && schedule->updates_every_backward;
}

std::int64_t averaging_steps(const Parallel& p) {
  return std::int64_t{p.averaging_fragments} * std::max(1, p.averaging_overlap);
}

namespace {

/// How often and in how many bits replicas exchange a part of the model.
void check_fragments(PlanCheck& check, const Parallel& p) {
  check.at_least("parallel.averaging_fragments", p.averaging_fragments, 1);
  check.at_least("parallel.averaging_overlap", p.averaging_overlap, 0);
  const std::int64_t steps = averaging_steps(p);
  if (p.averaging_period > 0 && steps > p.averaging_period)
    check.fault("parallel.averaging_fragments", fmt::to_string(p.averaging_fragments),
                fmt::format("parts of {} steps each do not fit into a period of {} steps (parallel.averaging_period)",
                            std::max(1, p.averaging_overlap), p.averaging_period));
  const int bits = p.averaging_bits;
  if (bits != 0 && bits != 4 && bits != 8 && bits != 16 && bits != 32)
    check.fault("parallel.averaging_bits", fmt::to_string(bits), "is unknown (allowed: 0 4 8 16 32)");
  if (p.outer_optimizer == OuterOptimizer::none && (bits == 4 || bits == 8))
    check.fault("parallel.averaging_bits", fmt::to_string(bits),
                "is too few for parameters (allowed: 0 16 32; or parallel.outer_optimizer = nesterov, which exchanges "
                "changes)");
}

/// Replicas that train on their own hold all that they update.
void check_averaging(PlanCheck& check, const Parallel& p) {
  if (!averages_parameters(p)) {
    const auto needs = [&](const char* key, int value, int usual) {
      if (value != usual)
        check.fault(fmt::format("parallel.{}", key), fmt::to_string(value),
                    "needs parallel.data_parallel = parameter_averaging");
    };
    needs("averaging_period", p.averaging_period, 1);
    needs("averaging_fragments", p.averaging_fragments, 1);
    needs("averaging_overlap", p.averaging_overlap, 0);
    needs("averaging_bits", p.averaging_bits, 0);
    if (p.outer_optimizer != OuterOptimizer::none)
      check.fault("parallel.outer_optimizer", std::string(to_string(p.outer_optimizer)),
                  "needs parallel.data_parallel = parameter_averaging");
    return;
  }
  check.at_least("parallel.averaging_period", p.averaging_period, 0);
  check_fragments(check, p);
  const int all = p.dp * p.cp;
  if (p.zero_stage > 0 && (p.shard_group == 0 || p.shard_group == all))
    check.fault("parallel.zero_stage", fmt::to_string(p.zero_stage),
                "divides one copy over all ranks, which leaves nothing to average (allowed: 0, or a smaller "
                "parallel.shard_group)");
  if (p.cp > 1 || p.ep > 1) check.fault("parallel.data_parallel", "parameter_averaging", "needs cp and ep 1");
}

}  // namespace

bool takes_ddp_bucket_size(const Parallel& p) {
  return p.data_parallel == DataParallelKind::automatic || p.data_parallel == DataParallelKind::fsdp1 || has_servers(p);
}

void check_data_parallel(PlanCheck& check, const Parallel& p) {
  const auto needs = [&](const char* key, std::int64_t value, bool there, const char* kind) {
    if (value != 0 && !there)
      check.fault(fmt::format("parallel.{}", key), fmt::to_string(value),
                  fmt::format("needs parallel.data_parallel = {}", kind));
  };
  const bool deepspeed = p.data_parallel == DataParallelKind::deepspeed;
  needs("bucket_cap_mb", p.bucket_cap_mb, p.data_parallel == DataParallelKind::ddp, "ddp");
  needs("reduce_bucket_size", p.reduce_bucket_size, deepspeed, "deepspeed");
  needs("allgather_bucket_size", p.allgather_bucket_size, deepspeed, "deepspeed");
  needs("prefetch_bucket_size", p.prefetch_bucket_size, deepspeed, "deepspeed");
  needs("param_persistence_threshold", p.param_persistence_threshold, deepspeed, "deepspeed");
  needs("servers", p.servers - 1, has_servers(p), "parameter_server or async_parameter_server");
  needs("ddp_bucket_size", p.ddp_bucket_size, takes_ddp_bucket_size(p), "automatic, fsdp1 or parameter servers");
  check_averaging(check, p);
  if ((has_servers(p) || averages_parameters(p)) && updates_every_backward(p))
    check.fault("parallel.pp_schedule", p.pp_schedule,
                "updates after every micro-batch, where parameter servers and parameter_averaging act once in a step");
  const bool whole = p.data_parallel == DataParallelKind::ddp || has_servers(p);
  if (whole && p.zero_stage != 0)
    check.fault("parallel.zero_stage", fmt::to_string(p.zero_stage),
                "divides what ddp and parameter servers keep whole (allowed: 0)");
  if (has_servers(p) && (p.tp * p.pp * p.cp != 1 || p.ep != 1))
    check.fault("parallel.data_parallel", "", "parameter servers need workers with the whole model (tp, pp, cp, ep 1)");
}

bool multiplication_adds(const Parallel& parallel, const Training& training) {
  return training.grad_reduce_dtype == Precision::fp32 && !adds_gradients_apart(training) && !reduces_units(parallel);
}

void check_offloading(PlanCheck& check, const Parallel& p, const Training& training) {
  if (training.offload_optimizer && has_servers(p))
    check.fault("training.offload_optimizer", "true", "has nothing to move: parameter servers hold the states");
  if (!training.offload_parameters) return;
  if (p.zero_stage != 3 || p.dp * p.cp == 1)
    check.fault("training.offload_parameters", "true", "needs parallel.zero_stage 3 over several ranks");
  if (!training.offload_optimizer)
    check.fault("training.offload_parameters", "true",
                "needs training.offload_optimizer: parameters wait where they are updated");
}

void apply_strategy(PlanCheck& check, Parallel& p) {
  if (p.sharding_strategy == ShardingStrategy::by_zero_stage) return;
  const int zero_stage = p.sharding_strategy == ShardingStrategy::no_shard ? 0 : 3;
  check_strategy(check, p, zero_stage);
  p.zero_stage = zero_stage;
  if (keeps_parameters(p.sharding_strategy)) p.reshard_after_forward = false;
}

void check_sharding(PlanCheck& check, const Parallel& p) {
  if (p.zero_stage < 0 || p.zero_stage > 3) {
    check.fault("parallel.zero_stage", fmt::to_string(p.zero_stage), "is unknown (allowed: 0 1 2 3)");
  }
  const int all = p.dp * p.cp;
  if (p.shard_group != 0) {
    if (p.zero_stage == 0) {
      check.fault("parallel.shard_group", fmt::to_string(p.shard_group), "needs parallel.zero_stage 1, 2 or 3");
    }
    if (!check.divides("parallel.shard_group", p.shard_group, "dp x cp", all)) return;
  }
  if (p.reshard_group == 0) return;
  const int group = p.shard_group != 0 ? p.shard_group : all;
  if (p.zero_stage != 3) {
    check.fault("parallel.reshard_after_forward", fmt::to_string(p.reshard_group), "needs parallel.zero_stage 3");
  } else if (p.reshard_group < 2 || p.reshard_group >= group || group % p.reshard_group != 0) {
    check.fault(
        "parallel.reshard_after_forward", fmt::to_string(p.reshard_group),
        fmt::format("must be a smaller group of the {} ranks that share a copy (allowed: true, false, or a divisor "
                    "of {} between 2 and {})",
                    group, group, group / 2));
  }
}

namespace {
std::int64_t or_default(std::int64_t value, std::int64_t fallback) { return value > 0 ? value : fallback; }
}  // namespace

std::int64_t deepspeed_bucket(const Parallel& p) { return or_default(p.reduce_bucket_size, 500'000'000); }
std::int64_t deepspeed_gather(const Parallel& p) { return or_default(p.allgather_bucket_size, 500'000'000); }
std::int64_t deepspeed_prefetch(const Parallel& p) { return or_default(p.prefetch_bucket_size, 50'000'000); }
std::int64_t deepspeed_persistence(const Parallel& p) { return or_default(p.param_persistence_threshold, 100'000); }

std::int64_t ddp_bucket_mib(const Parallel& p) { return or_default(p.bucket_cap_mb, 25); }
std::int64_t megatron_bucket(const Parallel& p) {
  return or_default(p.ddp_bucket_size, std::max<std::int64_t>(40'000'000, 1'000'000LL * p.dp * p.cp));
}

int shard_group_of_host(const Parallel& p, int gpus_per_host, int world_size) {
  if (!is_hybrid(p.sharding_strategy)) return 0;
  const std::int64_t of_stage = world_size / std::max<std::int64_t>(1, std::int64_t{p.tp} * p.pp);
  return static_cast<int>(std::min<std::int64_t>(gpus_per_host / std::max(1, p.tp), of_stage));
}

}  // namespace tracecast
