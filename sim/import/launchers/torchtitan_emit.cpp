/// A scenario as torchtitan's TOML.
#include <algorithm>

#include <fmt/format.h>

#include "sim/base/integers.hpp"
#include "sim/import/launchers/torchtitan_settings.hpp"
#include "sim/plan/sharding.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {
namespace {

using Name = std::string_view;

class Toml {
 public:
  void section(const char* name) { text_ += fmt::format("{}[{}]\n", text_.empty() ? "" : "\n", name); }
  void set(std::string_view key, std::int64_t value) { text_ += fmt::format("{} = {}\n", key, value); }
  void set_flag(std::string_view key, bool value) { text_ += fmt::format("{} = {}\n", key, value); }
  void set(std::string_view key, std::string_view value) { text_ += fmt::format("{} = \"{}\"\n", key, value); }
  void set_list(std::string_view key, const std::vector<Name>& items) {
    text_ +=
        items.empty() ? fmt::format("{} = []\n", key) : fmt::format("{} = [\"{}\"]\n", key, fmt::join(items, "\", \""));
  }
  std::string text() && { return std::move(text_); }

 private:
  std::string text_;
};

/// The name that PyTorch has for a schedule; empty: none.
std::string_view pytorch_schedule(const Parallel& p) {
  const std::string& name = p.pp_schedule;
  if (name.empty()) return p.vpp > 1 ? "Interleaved1F1B" : "1F1B";
  if (name == "1f1b") return "1F1B";
  constexpr std::array kNames{"GPipe",         "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble",
                              "ZBVZeroBubble", "DualPipeV"};
  for (const char* theirs : kNames)
    if (const ScheduleVariant* variant = find_schedule(theirs); variant != nullptr && variant->name == name)
      return theirs;
  return "";
}

/// Converters for linear layers and for experts, and the filter that keeps layers from them.
void emit_converters(Toml& toml, RunSettings& settings, const Scenario& scenario) {
  const Training& t = scenario.training;
  const bool fp8 = t.dtype == Precision::fp8;
  if (!fp8 && t.dtype != Precision::mxfp8) return;
  const auto narrow = [&](Name part) { return std::ranges::find(t.bf16_modules, part) == t.bf16_modules.end(); };
  const bool experts = scenario.model.moe && narrow("experts");
  const bool linear = narrow("attention") || narrow("mlp");
  if (!linear && !experts) return;
  std::vector<Name> names;
  if (linear) names.push_back(fp8 ? kFloat8Section : kMxSection);
  if (experts) names.push_back(fp8 ? "quantize.grouped_mm.float8" : "quantize.grouped_mm.mx");
  toml.section("model");
  toml.set_list("converters", names);
  for (const char* said : {"training.dtype", "training.bf16_modules", "training.row_scales"}) settings.take(said);
  if (!linear) return;
  settings.take("training.fp8_output_layer");
  const bool gathers = fp8 && t.fp8_param_gather && !t.row_scales;
  if (gathers || !t.fp8_param_gather) settings.take("training.fp8_param_gather");
  std::vector<Name> filter;
  if (!t.fp8_output_layer) filter.push_back("output");
  if (!narrow("attention")) filter.push_back("attention");
  if (!narrow("mlp")) filter.insert(filter.end(), {"feed_forward", "shared_experts"});
  toml.section(fp8 ? kFloat8Section : kMxSection);
  toml.set_list("filter_fqns", filter);
  if (fp8 && t.row_scales) toml.set("recipe_name", "rowwise");
  if (gathers) toml.set_flag("enable_fsdp_float8_all_gather", true);
}

void emit_training(Toml& toml, RunSettings& settings, const Scenario& scenario) {
  const Parallel& p = scenario.parallel;
  const Training& t = scenario.training;
  const std::int64_t dp = scenario.cluster.world_size / p.model_ranks();
  toml.section("training");
  toml.set("seq_len", settings.take("training.seq_length").integer);
  toml.set("local_batch_size", p.pp > 1 ? t.global_batch_size / dp : t.micro_batch_size);
  toml.set("global_batch_size", settings.take("training.global_batch_size").integer);
  settings.take("training.micro_batch_size");
  const bool fp32 = t.dtype == Precision::fp32;
  toml.set("mixed_precision_param", fp32 ? "float32" : "bfloat16");
  settings.list_unless(t.grad_reduce_dtype == Precision::fp32, "training.grad_reduce_dtype");
  toml.set("mixed_precision_reduce", "float32");  // the only type that torchtitan reduces in
  if (t.dtype == Precision::bf16 || fp32) settings.take("training.dtype");
  if (!t.master_weights && t.optimizer_state_dtype == Precision::bf16) {
    settings.take("training.master_weights");
    settings.take("training.optimizer_state_dtype");
    toml.set("dtype", "bfloat16");
  }
  if (t.offload_parameters) {  // with FSDP, and then the optimizer, too
    settings.take("training.offload_parameters");
    settings.take("training.offload_optimizer");
    toml.set_flag("enable_cpu_offload", true);
  }
  emit_converters(toml, settings, scenario);
}

void emit_parallelism(Toml& toml, RunSettings& settings, const Scenario& scenario) {
  const Parallel& p = scenario.parallel;
  toml.section("parallelism");
  const std::int64_t data_ranks = scenario.cluster.world_size / (std::int64_t{p.tp} * p.pp);
  const bool sharded = p.zero_stage == 3;
  const std::int64_t group = p.shard_group > 0 ? p.shard_group : data_ranks;
  settings.list_unless(sharded || (p.zero_stage == 0 && p.cp == 1), "parallel.zero_stage");  // FSDP is on with cp
  toml.set("data_parallel_replicate_degree", sharded ? data_ranks / group : data_ranks / p.cp);
  toml.set("data_parallel_shard_degree", sharded ? std::int64_t{-1} : std::int64_t{1});
  settings.list_unless(sharded || (p.shard_group == 0 && p.cp == 1), "parallel.shard_group");
  if (!sharded && p.cp > 1) settings.list_unless(false, "parallel.reshard_after_forward");
  if (sharded) {
    if (p.reshard_group == 0) settings.take("parallel.reshard_after_forward");
    toml.set("fsdp_reshard_after_forward",
             p.reshard_after_forward && !stays_gathered_in_pipeline(p) ? "always" : "never");
  }
  if (sharded && p.pp > 1) {
    const bool always =
        !p.torch_pipelining && p.reshard_after_forward && !p.reshard_after_backward && p.defer_grad_sync;
    for (const char* key : {"parallel.reshard_after_backward", "parallel.defer_grad_sync"})
      settings.list_unless(p.torch_pipelining || always, key);
    if (always)
      settings.take("parallel.torch_pipelining");
    else
      settings.list_unless_of_stack("torchtitan", p.torch_pipelining, "parallel.torch_pipelining");
  } else {
    settings.take("parallel.torch_pipelining");  // without effect
  }
  constexpr std::string_view kPrefix = "parallelism.";
  constexpr auto kDegrees = std::span(kTorchtitanRows).first(5);
  for (const auto& [key, value] : emit_rows(settings, kDegrees)) {
    const std::string name = key.substr(kPrefix.size());
    if (value.kind == JsonNode::Kind::boolean)
      toml.set_flag(name, value.boolean);
    else
      toml.set(name, value.integer);
  }
  if (p.ep > 1) {
    settings.take("parallel.etp");
    const int tensor = p.expert_tensor_ranks();
    toml.set("expert_tensor_parallel_degree", std::int64_t{tensor});
    // torchtitan refuses the other kernels beside experts that are divided.
    if (p.moe_dispatcher != MoeDispatcher::alltoall && tensor == 1)
      toml.set("expert_parallel_comm_backend", settings.take("parallel.moe_dispatcher").string);
  }
  if (p.cp > 1 && p.cp_comm_type != ContextExchange::a2a) {
    settings.take("parallel.cp_comm_type");
    toml.set("context_parallel_rotate_method", p.cp_comm_type == ContextExchange::p2p ? "alltoall" : "allgather");
  }
  settings.list_unless(p.sequence_parallel == (p.tp > 1), "parallel.sequence_parallel");
  settings.list_unless_of_stack("torchtitan", p.dtensor, "parallel.dtensor");
}

void emit_pipeline(Toml& toml, RunSettings& settings, const Scenario& scenario) {
  const Parallel& p = scenario.parallel;
  if (p.pp == 1) {
    for (const char* key : {"parallel.account_for_embedding", "parallel.account_for_loss"}) settings.take(key);
    return;
  }
  const std::string_view schedule = pytorch_schedule(p);
  if (!schedule.empty()) {
    settings.take("parallel.pp_schedule");
    toml.set("pipeline_parallel_schedule", schedule);
    const int items = scenario.model.layers() + (p.account_for_embedding ? 1 : 0) + (p.account_for_loss ? 1 : 0);
    const int stages = p.pp * p.vpp;
    const int per_stage = ceil_div(items, stages);
    const bool usual = p.vpp == find_schedule(std::string(schedule))->default_chunks;
    // torchtitan derives the stages from this number: some numbers of stages follow from none.
    if (usual || ceil_div(items, per_stage) == stages) settings.take("parallel.vpp");
    if (!usual) toml.set("pipeline_parallel_layers_per_stage", std::int64_t{per_stage});
  }
  toml.set("pipeline_parallel_microbatch_size", scenario.training.micro_batch_size);
  toml.set("pipeline_parallel_first_stage_less_layers",
           settings.take("parallel.account_for_embedding").boolean ? std::int64_t{1} : std::int64_t{0});
  toml.set("pipeline_parallel_last_stage_less_layers",
           settings.take("parallel.account_for_loss").boolean ? std::int64_t{1} : std::int64_t{0});
}

/// With one of model and loss compiled, the other one is PyTorch's own.
void emit_compile(Toml& toml, RunSettings& settings, const Training& t) {
  const bool model = settings.take("training.compiled").boolean;
  const bool alone = t.cross_entropy == (model ? CrossEntropy::pytorch : CrossEntropy::compiled);
  toml.section("compile");
  toml.set_flag("enable", model || alone);
  if (alone) toml.set_list("components", {model ? "model" : "loss"});
  settings.list_unless(alone || t.cross_entropy == CrossEntropy::automatic, "training.cross_entropy");
  settings.list_unless(t.unfused_elementwise != t.compiled, "training.unfused_elementwise");
}

void emit_recompute(Toml& toml, RunSettings& settings, const Training& t) {
  toml.section("activation_checkpoint");
  if (t.recompute != Recompute::selective) settings.take("training.recompute");
  const bool op = t.recompute == Recompute::selective_op;
  toml.set("mode", op ? "selective" : t.recompute == Recompute::full ? "full" : "none");
  if (op) toml.set("selective_ac_option", "op");
  toml.set_flag("early_stop", settings.take("training.recompute_early_stop").boolean);
  emit_compile(toml, settings, t);
}

}  // namespace

EmittedRun emit_torchtitan(const Scenario& scenario) {
  RunSettings settings(scenario);
  Toml toml;
  emit_parallelism(toml, settings, scenario);
  emit_pipeline(toml, settings, scenario);
  emit_training(toml, settings, scenario);
  emit_recompute(toml, settings, scenario.training);
  for (const char* covered : {"parallel.dp", "training.train_tokens"}) settings.take(covered);
  return {std::move(toml).text(), settings.left()};
}

}  // namespace tracecast
