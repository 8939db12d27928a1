#include "sim/report/settings_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/quantity_text.hpp"
#include "sim/cost/attention.hpp"
#include "sim/graph/slow_groups.hpp"
#include "sim/network/rack_use.hpp"
#include "sim/plan/activations.hpp"
#include "sim/plan/expert_routing.hpp"
#include "sim/plan/fine_tuning.hpp"
#include "sim/plan/optimizer_matrices.hpp"
#include "sim/plan/plan_check.hpp"
#include "sim/plan/sharding.hpp"

namespace tracecast {

std::string precision_text(const Model& model, const Training& training) {
  std::string text = fmt::format("precision: linear layers {}", to_string(training.dtype));
  if (training.row_scales)
    text += " with a scale for each row";
  else if (training.dtype == Precision::fp8)
    text += fmt::format(" with {} scales", to_string(training.fp8_scaling));
  if (is_narrow(training.dtype)) {
    std::vector<std::string> wide;
    if (!training.bf16_modules.empty())
      wide.push_back(fmt::format("those of {}", fmt::join(training.bf16_modules, " and ")));
    if (training.bf16_layers_start > 0) wide.push_back(fmt::format("the first {} layers", training.bf16_layers_start));
    if (training.bf16_layers_end > 0) wide.push_back(fmt::format("the last {} layers", training.bf16_layers_end));
    if (!wide.empty()) text += fmt::format(" but {} (bf16)", fmt::join(wide, ", "));
    text += fmt::format("; embedding,{}{} norms and attention bf16", model.moe ? " router," : "",
                        training.fp8_output_layer ? "" : " output layer,");
    text += training.fp8_param_gather ? "; no 16-bit copy of quantised weights"
                                      : "; quantised copies beside 16-bit weights";
    if (!training.low_precision_activations.empty())
      text += fmt::format("; waiting for the backward in fewer bits: {}",
                          fmt::join(training.low_precision_activations, ", "));
  }
  return text + fmt::format("; gradients {}, optimizer states {}", to_string(training.grad_reduce_dtype),
                            to_string(training.optimizer_state_dtype));
}

std::string attention_text(const Scenario& scenario) {
  const Training& training = scenario.training;
  if (!training.flash_attention)
    return fmt::format("attention: unfused, scores and softmax pass through memory{}",
                       scenario.parallel.cp > 1 ? "; context-parallel ranks gather keys and values" : "");
  const std::vector<std::string> kernels = attention_kernels(scenario.profile);
  const std::string kernel = !training.attention_kernel.empty() ? training.attention_kernel
                             : kernels.empty()                  ? "unknown"
                                                                : kernels.front();
  const auto asked = scenario.locations.find("training.attention_kernel");
  const bool names_kernel =
      asked != scenario.locations.end() && !asked->second.value.empty() && asked->second.value != R"("")";
  if (training.attention_kernel.empty() && names_kernel)
    return fmt::format("attention: fused, kernel {}; the scenario asks for {}, which is not known on {}", kernel,
                       asked->second.value, scenario.profile.name);
  const std::string dtype(to_string(training.dtype));
  if (training.fp8_attention) return fmt::format("attention: fused, kernel {} in {}", kernel, dtype);
  const auto narrow = scenario.locations.find("training.fp8_attention");
  if (narrow != scenario.locations.end() && narrow->second.value == "true")
    return fmt::format("attention: fused, kernel {} in bf16; the scenario asks for {}, which is not known on {}",
                       kernel, dtype, scenario.profile.name);
  return fmt::format("attention: fused, kernel {}", kernel);
}

std::string trained_text(const Model& model, const Training& training) {
  if (training.lora_rank == 0 && training.frozen_fraction == 0) return "";
  const auto trained = static_cast<double>(trainable_parameters(model, training));
  const auto all = static_cast<double>(parameter_count(model).total());
  std::string text =
      fmt::format("trained: {:.4g} M parameters, {:.3g} % of the model", trained / 1e6, 100 * trained / all);
  if (training.lora_rank > 0)
    text += fmt::format("; adapters of rank {} on {}", training.lora_rank,
                        training.lora_targets.empty() ? all_names<LoraTarget>(", ")
                                                      : fmt::format("{}", fmt::join(training.lora_targets, ", ")));
  if (training.frozen_fraction > 0)
    text += fmt::format("; the first {} layers and the embedding are frozen", frozen_layers(model, training));
  return text;
}

namespace {

/// What an optimizer does with matrices, and how sure its times are.
std::string matrix_work_text(const Training& training) {
  const char* rest = "adam for tables, output layer, norms and biases";
  switch (optimizer_of(training.optimizer).matrices) {
    case MatrixWork::none:
      break;
    case MatrixWork::newton_schulz:
      return fmt::format(
          "{} Newton-Schulz iterations in bf16, at the rate of other matrix multiplications, which no measurement of "
          "them has confirmed; {}",
          training.muon_steps, rest);
    case MatrixWork::factored:
      return "sums of rows and columns in place of variances of matrices, in three passes of fused kernels";
    case MatrixWork::roots:
    case MatrixWork::eigenbasis: {
      const bool roots = optimizer_of(training.optimizer).matrices == MatrixWork::roots;
      return fmt::format(
          "{} up to {} long, {} every {} steps (the times are of the mean step, not measured by anyone here); "
          "products in fp32; {}",
          roots ? "blocks with sides" : "preconditioners of sides", preconditioner_block(training),
          roots ? "inverse roots from eigenvectors" : "a new eigenbasis by QR", preconditioner_interval(training),
          rest);
    }
  }
  return "";
}

}  // namespace

std::string optimizer_text(const Parallel& parallel, const Training& training) {
  const Optimizer& optimizer = optimizer_of(training.optimizer);
  if (optimizer.byte_states)
    return fmt::format("optimizer: {}, both states in a byte each", to_string(training.optimizer));
  if (optimizer.matrices == MatrixWork::none) return "";
  std::string text = fmt::format("optimizer: {}", to_string(training.optimizer));
  if (needs_whole_matrices(optimizer))
    text += fmt::format(", {} over data parallelism", to_string(matrix_sharding(parallel, training)));
  if (optimizer.kind == OptimizerKind::muon && parallel.tp > 1)
    text += fmt::format(", {} over tensor parallelism", to_string(training.muon_tensor));
  return text + "; " + matrix_work_text(training);
}

namespace {

/// The stage that a sharding strategy stands for.
int zero_stage_of(Parallel parallel) {
  PlanCheck check;
  apply_strategy(check, parallel);
  return parallel.zero_stage;
}

}  // namespace

std::string loss_text(const Parallel& parallel, const Training& training) {
  Parallel plain = parallel;
  plain.zero_stage = zero_stage_of(parallel);
  if (training.cross_entropy != CrossEntropy::automatic || loss_of(plain, training) != CrossEntropy::pytorch) return "";
  return fmt::format(
      "loss: PyTorch's, with fp32 copies of the logits, as training.cross_entropy = automatic takes it {}",
      plain.zero_stage >= 2 ? fmt::format("with ZeRO-{}", plain.zero_stage) : "with DTensor");
}

std::string host_text(const Scenario& scenario, const Forecast& forecast) {
  constexpr double kVisible = 0.01, kLarge = 0.05;
  const HostModel& host = scenario.profile.host;
  if (forecast.host_s <= kVisible * forecast.step_time_s || scenario.training.cuda_graphs) return "";
  const double launch = host.launch / host.relative / scenario.profile.in_training.slowest_gpu;
  std::string text = fmt::format("host: {:.3g} us for each operator", 1e6 * launch);
  if (!host.fit.data.empty()) text += fmt::format(" (fitted on {})", host.fit.data);
  if (host.relative != 1) text += fmt::format(", times {:.3g} as on hosts with Grace", host.relative);
  if (forecast.host_s > kLarge * forecast.step_time_s)
    text += "; CUDA graphs (training.cuda_graphs, cuda_graph_modules) would leave less of it";
  return text;
}

std::string rack_text(const Scenario& scenario) {
  const NodeSpec& node = scenario.cluster.node;
  if (node.installed_gpus == 0) return "";
  return fmt::format("racks: the job uses {} of the {} GPUs of each rack{}", node.gpus, node.installed_gpus,
                     scenario.gpus_per_rack > 0 ? "" : ", so that groups do not cross racks (cluster.gpus_per_rack)");
}

std::string sites_text(const Sites& sites) {
  if (sites.count == 1) return "";
  return fmt::format(
      "{} sites: {:.4g} Gb/s from one to all others, {} one way (cluster.wan_rate, wan_latency); no other traffic, no "
      "lost "
      "packets",
      sites.count, 8e-9 * static_cast<double>(sites.wan_rate.bytes_per_second), to_text(sites.wan_latency));
}

std::vector<std::string> crossing_texts(const Cluster& cluster, const std::vector<AxisBandwidth>& bandwidth) {
  constexpr std::pair<const char*, const char*> kAxisTexts[] = {
      {"tp", "tensor-parallel"}, {"cp", "context-parallel"}, {"ep", "expert-parallel"}};
  std::vector<std::string> lines;
  const NodeSpec& node = cluster.node;
  if (node.gpus == 1) return lines;
  for (const auto& [axis, name] : kAxisTexts)
    for (const AxisBandwidth& each : bandwidth)
      if (each.axis == axis && each.nodes > 1 && each.link == link_name(LinkClass::network, cluster))
        lines.push_back(fmt::format("{} groups of {} ranks cross {} {} of {} GPUs{}: part of their traffic leaves {}",
                                    name, each.ranks, each.nodes, is_rack(node) ? "racks" : "nodes", node.gpus,
                                    each.axis == "tp" ? fmt::format(" (within one: {})", divisors(node.gpus)) : "",
                                    link_name(LinkClass::gpu_link, cluster)));
  return lines;
}

namespace {

/// Overlap that is switched off without an effect. That gathers wait may also be a stack's default, which is for other stages.
std::vector<std::string> unused_overlap_texts(const Scenario& scenario) {
  std::vector<std::string> lines;
  Parallel parallel = scenario.parallel;
  parallel.zero_stage = zero_stage_of(parallel);
  if (!parallel.overlap_grad_reduce && reduces_every_microbatch(parallel, 2) && !reduction_blocks(parallel))
    lines.push_back(fmt::format(
        "parallel.overlap_grad_reduce = false has no effect: ZeRO-{} reduces gradients in every micro-batch",
        parallel.zero_stage));
  const bool given = scenario.locations.empty() || scenario.locations.contains("parallel.overlap_param_gather");
  if (!parallel.overlap_param_gather && given && parallel.zero_stage == 3)
    lines.emplace_back(
        "parallel.overlap_param_gather = false has no effect: ZeRO-3 gathers the parameters of each layer when it "
        "needs them");
  const ScheduleVariant* schedule = find_schedule(parallel.pp_schedule);
  if (schedule != nullptr && schedule->has_pairs && parallel.ep > 1 && !interleaves_pairs(parallel))
    lines.push_back(fmt::format(
        "parallel.pp_schedule = {} hides no exchange of experts: with zero_stage 3 the passes of a pair run one after "
        "the other",
        schedule->name));
  return lines;
}

/// Megatron-Core's all-to-all copies the router's counts to the host, which needs them as arguments. docs/models.md
std::string capture_text(const Scenario& scenario) {
  const bool counts = scenario.model.moe && scenario.parallel.ep > 1 &&
                      scenario.parallel.moe_dispatcher == MoeDispatcher::alltoall &&
                      !scenario.training.expert_capacity_padding;
  if (!scenario.training.cuda_graphs || !counts) return "";
  return "training.cuda_graphs = true: a graph of the whole step cannot capture experts' exchanges by alltoall, whose "
         "counts the host waits for; a run needs training.expert_capacity_padding with "
         "training.expert_capacity_factor, or another parallel.moe_dispatcher";
}

}  // namespace

std::vector<std::string> note_texts(const Scenario& scenario, const Forecast& forecast) {
  std::vector<std::string> lines = crossing_texts(scenario.cluster, forecast.bandwidth);
  for (const AxisBandwidth& row : forecast.bandwidth)
    if (row.ratio() > kBusyLinks)
      lines.push_back(
          fmt::format("{} asks for {:.0f} % of its {} links: its exposed communication takes {:.3g} s of the step",
                      row.axis, 100 * row.ratio(), row.link, exposed_of(row, forecast.exposed_s)));
  for (std::string& line : unused_overlap_texts(scenario)) lines.push_back(std::move(line));
  if (std::string line = capture_text(scenario); !line.empty()) lines.push_back(std::move(line));
  if (groups_slow_ranks(scenario.perturbation, scenario.parallel))
    lines.push_back(fmt::format(
        "{} entries of perturb.slow_rank: each tensor group computes as slowly as its slowest rank, so that ranks can "
        "still be of one class (which changes the step by about 0.001 %)",
        scenario.perturbation.slow_ranks.size()));
  if (!forecast.flushes)
    lines.push_back(
        "the schedule has no flush: this single step fills and drains the pipeline, which a long run does not "
        "(tracecast schedule --times-from has the steady state)");
  if (updates_every_backward(scenario.parallel)) {
    std::string line =
        "the schedule updates after every backward: each micro-batch has its own reduction of gradients and its own "
        "update, and each stage its own gradient norm";
    if (scenario.model.tied_embeddings && scenario.parallel.pp > 1)
      line += "; the first and the last stage wait for each other to add up the gradients of their common table";
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string routing_text(const Model& model, const Parallel& parallel, const Training& training) {
  if (!model.moe) return "";
  const ExpertLoad load = expert_load(*model.moe, parallel, training);
  std::string by;
  if (!training.expert_tokens.empty())
    by = " by the counted tokens";
  else if (training.expert_routing != ExpertRouting::even)
    by = fmt::format(" by {} routing", to_string(training.expert_routing));
  std::string text = fmt::format("experts: {} of {} per token", model.moe->topk, model.moe->experts);
  if (training.expert_capacity_padding)
    text += fmt::format("{}, every expert is filled to {:.3g} times the mean", by, load.fullest);
  else
    text += fmt::format(", the fullest rank has {:.3g} times the mean{}", load.fullest, by);
  if (training.redundant_experts > 0)
    text += fmt::format(", with {} copies of popular experts in each layer", training.redundant_experts);
  if (training.expert_rebalance_steps > 0)
    text += fmt::format(", placed anew every {} steps", training.expert_rebalance_steps);
  if (load.dropped > 0.0005)
    text += fmt::format(", {:.1f} % of the copies are dropped (MFU counts them, HFU does not)", 100 * load.dropped);
  text += fmt::format("; tokens dispatched in {} by {}", to_string(training.moe_dispatch_dtype),
                      to_string(parallel.moe_dispatcher));
  if (parallel.moe_chunks > 1) text += fmt::format(", in {} chunks", parallel.moe_chunks);
  if (parallel.etp == 0 && parallel.tp > 1 && parallel.ep > 1)
    text += fmt::format("; each expert on {} tensor ranks: parallel.etp is not set, and Megatron-Core then takes tp",
                        parallel.tp);
  if (model.moe->shared_ffn_hidden > 0)
    text +=
        parallel.moe_shared_overlap ? "; shared experts beside the exchange" : "; shared experts after the exchange";
  return text;
}

}  // namespace tracecast
