/// Reads what Megatron-LM, Megatron-Bridge and NeMo set. Source: docs/references.md#format-megatron
#include <algorithm>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/import/launchers/bridge_document.hpp"
#include "sim/import/launchers/megatron_deepspeed.hpp"
#include "sim/import/launchers/megatron_experts.hpp"
#include "sim/import/launchers/megatron_model.hpp"
#include "sim/import/launchers/megatron_pipeline.hpp"
#include "sim/import/launchers/megatron_precision.hpp"
#include "sim/import/launchers/megatron_settings.hpp"
#include "sim/import/launchers/megatron_words.hpp"
#include "sim/io/fields.hpp"
#include "sim/plan/fine_tuning.hpp"

namespace tracecast {
namespace {

using Kind = SettingRow::Kind;
using Name = std::string_view;

/// The rows of YAML (Megatron-Bridge, NeMo, --yaml-cfg) that differ.
constexpr SettingRow kYamlRows[] = {
    {"parallel.overlap_p2p", "overlap-p2p-comm", Kind::flag},
    {"parallel.ddp_bucket_size", "bucket-size", Kind::count},
};

/// Arguments whose names begin so change nothing that is forecast.
constexpr Name kWithoutEffect = R"(
    adam- apply-layernorm-1p async-save attention-dropout auto-detect calculate-per-token check-for ckpt clip-grad
    data- decoupled- dist-ckpt distributed-timeout enable-experimental eval exit- finetune glu-linear-offset
    init-method limit-val load log lr manual-gc master- max-steps merge-file min-lr
    mmap moe-aux moe-router-bias moe-router-dtype moe-router-load moe-router-pre
    moe-router-score moe-router-topk-scaling moe-z mscale mtp-loss no-check-for no-ckpt no-create-attention no-load
    no-mmap no-save no-yarn node-rank norm-epsilon num-workers params-dtype pipeline-dtype
    pretrained-checkpoint rdzv reuse-grad-buf rotary- save seed split tensorboard tokenizer use-mcore-models
    use-persistent-ckpt use-precision-aware val-check wandb weight-decay yarn-)";

/// Those of a whole configuration of Megatron-Bridge, which says every setting.
constexpr Name kWithoutEffectOfWhole = R"(
    add-extra-token align- autocast- average-in-collective barrier-with batch-p2p
    clone-scatter config-logger cpu-offloading-double create-attention-mask cuda-graph-warmup dataloader-type
    distributed-backend drop-last embedding-init empty-unused-memory end-weight-decay
    filter-warnings finalize-model-grads fp4-recipe fp8-amax fp8-interval fp8-margin fully-parallel-
    grad-scale-func grad-sync-func gradient-reduce-div high-freq-factor hysteresis inference-
    initial-loss layernorm-epsilon local-rank loss-scale low-freq-factor
    mid-level min-loss mlp-chunks-for-prefill mock most-recent-k no-sync-func no-weight-decay non-persistent
    num-dataset-builder old-context-len output-layer-init override-opt parallel-output param-sync-func pin-memory
    preserve-fp32 random-seed replication scale-factor scatter-embedding skip-getting timers timing-
    tp-comm-atomic tp-comm-bootstrap tp-comm-overlap-cfg tp-comm-split)";

/// Switches of a whole configuration that are on by default. Off, a step takes longer or more memory, which a scenario cannot say.
void import_usual_switches(RunImport& run) {
  const JsonNode* const dtype = run.given("training.dtype");
  const JsonNode* const overlap = run.given("parallel.tp_comm_overlap");
  const bool narrow = dtype != nullptr && dtype->string != "bf16" && dtype->string != "fp16" && dtype->string != "fp32";
  const bool overlaps = overlap != nullptr && overlap->boolean;
  const std::pair<Name, bool> switches[] = {{"deallocate-pipeline-outputs", run.given_count("parallel.pp", 1) > 1},
                                            {"fp8-wgrad", narrow},
                                            {"tp-comm-bulk-dgrad", overlaps},
                                            {"tp-comm-bulk-wgrad", overlaps},
                                            {"tp-comm-overlap-ag", overlaps},
                                            {"tp-comm-overlap-rs", overlaps}};
  for (const auto& [key, matters] : switches) {
    if (matters && run.says(key, "false")) run.assume(fmt::format("{} = false: not modelled, forecast as true", key));
    run.take(key);
  }
}

/// Those of NeMo, whose files have more sections: of the experiment, of the job, classes of Python.
constexpr Name kWithoutEffectOfNemo = R"(
    -target- -partial- -call- accelerator accumulate-grad-batches average-in-collective batch-p2p betas constant-steps
    contiguous- dependency enable-checkpointing enabled explicit-log-dir gc-interval grad-allreduce-chunk
    gradient-as-bucket-view gradient-clip-val hysteresis layernorm-epsilon library limit-test max-epochs max-time
    model-parallel-size monitor name persist-layer-norm post-process pre-process ranks results-dir seconds-to-sleep
    sync-batch-comm time-limit trace use-distributed-sampler use-fast use-scaled-init warmup-steps)";

void import_gpus(RunImport& run) {
  const Name nodes = run.first_of({"nnodes", "num-nodes"});
  const Name per_node = run.first_of({"nproc-per-node", "num-gpus", "devices"});
  const JsonNode* const devices = run.find(per_node);
  const bool one = run.find(nodes) == nullptr && devices != nullptr && devices->kind == JsonNode::Kind::integer;
  if (run.gpus > 0 || devices == nullptr || !(one || run.has(nodes))) return;
  const auto n = one ? 1 : run.count(nodes, "cluster.world_size");
  const auto g = run.count(per_node, "cluster.world_size");
  if (!n || !g || *n <= 0 || *g <= 0 || *n >= 1'000'000 || *g >= 1'000'000) return;
  run.put("cluster.world_size", *n * *g, one ? per_node : nodes);
  if (one)
    run.assume(fmt::format("cluster.world_size = {}: one node, as {} without a number of nodes says", *g, per_node));
}

/// Overrides leave open what their recipe sets.
void assume_of_recipe(RunImport& run) {
  const bool pipeline = run.given_count("parallel.pp", 1) > 1 && run.given("parallel.pp_layout") == nullptr;
  const std::pair<const char*, bool> degrees[] = {{"parallel.tp", true},
                                                  {"parallel.pp", true},
                                                  {"parallel.vpp", pipeline},
                                                  {"parallel.cp", true},
                                                  {"parallel.ep", has_megatron_experts(run)}};
  std::string open;
  for (const auto& [key, matters] : degrees)
    if (matters && run.given(key) == nullptr && !run.is_overridden(key))
      open += (open.empty() ? "" : ", ") + std::string(key);
  if (!open.empty()) run.assume(open + " = 1: the file leaves this to its recipe, which may set more");
  if (run.given("training.grad_reduce_dtype") == nullptr && !run.is_overridden("training.grad_reduce_dtype"))
    run.assume("training.grad_reduce_dtype is the stack's: the file leaves grad_reduce_in_fp32 to its recipe");
}

/// Parameters of PyTorch's FSDP2 are freed after the forward unless a flag says otherwise.
void import_torch_fsdp2(RunImport& run) {
  constexpr Name kFsdp = "use-torch-fsdp2", kKeep = "torch-fsdp2-no-reshard-after-forward";
  run.put("parallel.zero_stage", 3, kFsdp);
  if (run.flag(kKeep).value_or(false)) run.put_flag("parallel.reshard_after_forward", false, kKeep);
}

/// By its flag, of which one name is older, or as the strategy of NeMo 2 has it: fsdp: megatron.
bool uses_megatron_fsdp(RunImport& run) {
  constexpr Name kNemo = "fsdp";
  const bool of_nemo = run.says(kNemo, "\"megatron\"");
  if (of_nemo) run.take(kNemo);
  return run.flag(run.first_of({"use-megatron-fsdp", "use-custom-fsdp"})).value_or(of_nemo);
}

/// PyTorch's FSDP in NeMo 1.
void import_nemo_fsdp(RunImport& run) {
  constexpr Name kFsdp = "fsdp", kStrategy = "fsdp-sharding-strategy", kGradients = "fsdp-grad-reduce-dtype";
  constexpr std::pair<Name, int> kStrategies[] = {{"full", 3}, {"grad", 2}};
  run.put("parallel.zero_stage", run.choice<int>(kStrategy, kStrategies).value_or(3),
          run.has(kStrategy) ? kStrategy : kFsdp);
  const std::string type = run.word(kGradients);
  if (!type.empty())
    run.put("training.grad_reduce_dtype", says_type(run, kGradients, "bf16") ? "bf16" : "fp32", kGradients);
  run.pass_over("fsdp-sharded-checkpoint fsdp-use-orig-params");
}

/// The strategy is Megatron FSDP's. Configurations set it beside the distributed optimizer, too, which does not read it.
void import_sharding(RunImport& run, bool bridge) {
  constexpr std::pair<Name, int> kStrategies[] = {
      {"no_shard", 0}, {"optim", 1}, {"optim_grads", 2}, {"optim_grads_params", 3}};
  constexpr Name kStrategy = "data-parallel-sharding-strategy";
  const bool fsdp = uses_megatron_fsdp(run);
  const std::optional<bool> distributed = run.flag("use-distributed-optimizer");
  const std::optional<int> strategy = run.choice<int>(kStrategy, kStrategies);
  const bool nemo = run.says("fsdp", "true");
  if (nemo) run.take("fsdp");
  if (nemo)
    import_nemo_fsdp(run);
  else if (run.flag("use-torch-fsdp2").value_or(false))
    import_torch_fsdp2(run);
  else if (fsdp && (strategy || !bridge))
    import_megatron_fsdp(run, strategy.value_or(0), kStrategy);
  else if (distributed.value_or(bridge))
    run.put("parallel.zero_stage", 1, "use-distributed-optimizer");
  else
    run.put("parallel.zero_stage", 0, "use-distributed-optimizer");
  if (fsdp && !strategy && !bridge)
    run.put_default("parallel.zero_stage", node_of(0),
                    fmt::format("parallel.zero_stage = 0: {} is no_shard, Megatron-LM's default", kStrategy));
  if (strategy && !fsdp) run.assume(fmt::format("{} has no effect without use-megatron-fsdp", kStrategy));
  if (bridge && !nemo && !distributed && !(strategy && fsdp))
    run.put_default("parallel.zero_stage", node_of(1),
                    "parallel.zero_stage = 1: the recipes of Megatron-Bridge use the distributed optimizer");
  // Without shards nothing is gathered, and Megatron-LM refuses the flag.
  if (const auto gather = run.flag("overlap-param-gather"))
    run.put_flag("parallel.overlap_param_gather", *gather, "overlap-param-gather");
  else if (!bridge && run.given_count("parallel.zero_stage", 0) > 0)
    run.put_flag("parallel.overlap_param_gather", false);
  if (const auto copies = run.count("num-distributed-optimizer-instances")) {
    run.shard_copies = {*copies, "num-distributed-optimizer-instances"};
  }
}

/// Megatron-LM 2.5 to 3.0 had no granularity: a method alone is full recomputation. NeMo's method is one of a granularity.
void import_megatron_recompute(RunImport& run, bool bridge) {
  constexpr std::pair<Name, Name> kGranularities[] = {{"selective", "selective"}, {"full", "full"}};
  const Name granularity_key = run.first_of({"recompute-granularity", "activations-checkpoint-granularity"});
  const Name method_key = run.first_of({"recompute-method", "activations-checkpoint-method"});
  const Name layers_key = run.first_of({"recompute-num-layers", "activations-checkpoint-num-layers"});
  const std::optional<Name> granularity = run.choice<Name>(granularity_key, kGranularities);
  const std::string method = run.word(method_key);
  const auto layers = run.count(layers_key);
  const Name old = run.first_of({"recompute-activations", "checkpoint-activations"});
  const bool by_method = !bridge && !granularity && !method.empty() && method_key.starts_with("activations");
  if (granularity)
    run.put("training.recompute", *granularity, granularity_key);
  else if (by_method)
    run.put("training.recompute", "full", method_key);
  else if (run.flag(old).value_or(false))
    run.put("training.recompute", old == "recompute-activations" ? "selective" : "full", old);
  if (!(by_method || granularity == Name("full")) || !(by_method || layers)) return;
  const std::int64_t count = layers.value_or(1);
  if (method == "block") run.put("training.recompute_num_layers", count, layers ? layers_key : method_key);
  if (method == "uniform" && count > 1)
    run.assume(fmt::format("{} = {}: every layer keeps its input, not every {}th", layers_key, count, count));
}

/// --recompute-modules, with selective granularity; core_attn alone is Megatron's default. --moe-layer-recompute adds experts to them.
void import_recompute_modules(RunImport& run) {
  constexpr Name kModules = "recompute-modules", kExperts = "moe-layer-recompute";
  std::vector<std::string> words = run.words(kModules);
  const bool experts = has_megatron_experts(run) && run.flag(kExperts).value_or(false);
  if (!run.has(kModules) && !experts) return;
  if (!run.has(kModules)) words.emplace_back("core_attn");
  if (experts && std::ranges::find(words, "moe") == words.end()) words.emplace_back("moe");
  if (experts && run.given("training.recompute") == nullptr) run.put("training.recompute", "selective", kExperts);
  std::vector<std::string> modules;
  bool core = false;
  std::string others;
  for (const std::string& word : words) {
    core = core || word == "core_attn";
    const Name known = module_of_megatron(word);
    if (word != "core_attn" && known.empty()) others += (others.empty() ? "" : " ") + shortened(word);
    if (!known.empty()) modules.emplace_back(known);
  }
  const JsonNode* const recompute = run.given("training.recompute");
  if (recompute == nullptr || recompute->string != "selective") return;
  if (!core) run.put("training.recompute", "none", kModules);
  if (!modules.empty()) run.put("training.recompute_modules", node_of(modules), kModules);
  if (!others.empty())
    run.assume(
        fmt::format("recompute-modules: {} are kept, since a scenario cannot repeat them alone: the forecast has "
                    "more memory and less work than the run",
                    others));
}

/// Graphs of whole iterations or layers leave no launches; those of parts of a layer leave those of all other work.
void import_cuda_graphs(RunImport& run) {
  constexpr Name kScope = "cuda-graph-scope";
  const std::string impl = run.word("cuda-graph-impl");
  const Name old = run.first_of({"enable-cuda-graph", "external-cuda-graph", "use-te-cuda-graph"});
  const bool on = (!impl.empty() && impl != "none") || run.flag(old).value_or(false);
  const std::vector<std::string> scope = run.words(kScope);
  if (!on) return;
  std::vector<std::string> modules;
  for (const auto& each : EnumNames<GraphModule>::table)
    if (std::find(scope.begin(), scope.end(), each.name) != scope.end()) modules.emplace_back(each.name);
  if (modules.empty())
    run.put_flag("training.cuda_graphs", true, impl.empty() ? old : Name("cuda-graph-impl"));
  else
    run.put("training.cuda_graph_modules", node_of(modules), kScope);
}

/// Switches that change the time of a step in a way that a scenario cannot say.
void name_what_is_not_modelled(RunImport& run) {
  constexpr Name kDelay = "delay-wgrad-compute";
  if (run.flag(kDelay).value_or(false))
    run.assume("delay-wgrad-compute: not modelled; weight gradients stay beside their input gradients");
}

/// dist_muon assigns whole matrices to the data-parallel ranks, which is stage 1 of ZeRO here; its distributed optimizer stays off, so that
/// gradients are all-reduced. Only buckets that are laid out by matrices can be scattered. docs/references.md#muon
void import_optimizer(RunImport& run) {
  constexpr std::pair<Name, Name> kOptimizers[] = {
      {"adam", "adam"}, {"sgd", "sgd"}, {"muon", "muon"}, {"dist_muon", "dist_muon"}};
  constexpr std::pair<Name, Name> kModes[] = {
      {"blockwise", "blockwise"}, {"duplicated", "duplicated"}, {"distributed", "distributed"}};
  const auto mode = run.choice<Name>("muon-tp-mode", kModes);
  const auto steps = run.count("muon-num-ns-steps");
  const auto optimizer = run.choice<Name>("optimizer", kOptimizers);
  if (!optimizer) return;
  const bool dealt = *optimizer == "dist_muon";
  const bool muon = dealt || *optimizer == "muon";
  run.put("training.optimizer", muon ? "muon" : *optimizer, "optimizer");
  if (dealt && run.given_count("parallel.zero_stage", 0) == 0) {
    run.put("parallel.zero_stage", 1, "optimizer");
    run.put_flag("parallel.zero1_allreduce", !run.flag("use-layer-wise-param-layout").value_or(false));
    if (!run.has("overlap-param-gather")) run.put_flag("parallel.overlap_param_gather", false);
  }
  if (muon && mode) run.put("training.muon_tensor", *mode, "muon-tp-mode");
  if (muon && steps) run.put("training.muon_steps", *steps, "muon-num-ns-steps");
}

/// Recipes of Megatron-Bridge choose Transformer Engine's fused loss. docs/references.md#loss-fusion
void import_loss(RunImport& run, bool bridge) {
  constexpr Name kFusion = "cross-entropy-loss-fusion", kImplementation = "cross-entropy-fusion-impl";
  constexpr std::pair<Name, Name> kImplementations[] = {
      {"native", "fused_native"}, {"te", "fused"}, {"linear", "fused"}};
  const std::optional<bool> fusion = run.flag(kFusion);
  const std::optional<Name> implementation = run.choice<Name>(kImplementation, kImplementations);
  const bool fused = fusion.value_or(bridge);
  if (fused && run.word(kImplementation) == "linear")
    run.assume("cross-entropy-fusion-impl linear: counted as te, after the output layer");
  if (bridge && !fusion && !implementation)
    run.assume("training.cross_entropy = fused, as Megatron-Bridge's recipes choose");
  if (fused && implementation == "fused" && run.word("transformer-impl") == "local")
    run.assume(
        "cross-entropy-fusion-impl te beside transformer-impl local: counted with three all-reduces, as other fused "
        "losses");
  const Name single = run.given_count("parallel.zero_stage", 0) < 2 ? "automatic" : "vocab_parallel";
  run.put("training.cross_entropy", fused ? implementation.value_or(bridge ? "fused" : "fused_native") : single,
          run.has(kFusion)           ? kFusion
          : run.has(kImplementation) ? kImplementation
                                     : Name());
}

void import_context_parallel(RunImport& run) {
  constexpr std::pair<Name, Name> kTypes[] = {
      {"p2p", "p2p"}, {"all_gather", "all_gather"}, {"allgather", "all_gather"}, {"a2a", "a2a"}};
  if (const auto type = run.choice<Name>("cp-comm-type", kTypes))
    run.put("parallel.cp_comm_type", *type, "cp-comm-type");
}

/// The last batch of "0:384 200B:768 400B:1152" or of "32 32 1000000" beside a global batch.
void import_batch_ramp(RunImport& run) {
  constexpr Name kSchedule = "step-batch-size-schedule";
  if (run.find("rampup-batch-size") != nullptr) run.assume("rampup-batch-size: the full global batch counts");
  const std::string schedule = run.word(kSchedule);
  if (schedule.empty()) return;
  const std::size_t colon = schedule.rfind(':');
  const auto last =
      colon == std::string::npos ? std::nullopt : parse_number<std::int64_t>(Name(schedule).substr(colon + 1));
  if (!last || *last < 1) return run.error(kSchedule, "is not a schedule (allowed: \"0:384 200B:768\")");
  run.put("training.global_batch_size", *last, kSchedule);
  run.assume(fmt::format("{}: its last batch of {} sequences counts", kSchedule, *last));
}

void import_duration(RunImport& run) {
  constexpr std::int64_t kMax = 1'000'000'000'000;
  const auto known = [&run](Name key) -> std::optional<std::int64_t> {
    const std::string word = run.word(key);
    if (word.find_first_of("$`") == std::string::npos) return run.count(key);
    run.assume(fmt::format("{} = {}: not known, so the length of training is left open", key, shortened(word)));
    return std::nullopt;
  };
  const auto samples = known("train-samples");
  const auto steps = known("train-iters");
  const std::int64_t sequence = std::min<std::int64_t>(run.given_count("training.seq_length", 0), 10'000'000);
  const std::int64_t batch = std::min<std::int64_t>(run.given_count("training.global_batch_size", 0), 100'000);
  const std::int64_t total = samples ? std::clamp<std::int64_t>(*samples, 0, kMax)
                             : steps ? std::clamp<std::int64_t>(*steps, 0, 1'000'000) * batch
                                     : 0;
  if (total > 0 && sequence > 0 && total < 1'000'000'000'000'000 / sequence)
    run.put("training.train_tokens", total * sequence, samples ? "train-samples" : "train-iters");
}

/// The optimizer, whole unless a fraction is left over, and activations of the first layers of a rank.
void import_offloading(RunImport& run) {
  constexpr Name kOptimizer = "optimizer-cpu-offload";
  if (run.flag(kOptimizer).value_or(false)) run.put_flag("training.offload_optimizer", true, kOptimizer);
  run.pass_over_if("optimizer-offload-fraction", "1");
  constexpr Name kLayers = "cpu-offloading-num-layers";
  const std::int64_t layers = run.count(kLayers).value_or(0);
  const bool on = run.flag("cpu-offloading").value_or(true);
  const bool activations = run.flag("cpu-offloading-activations").value_or(true);
  const bool weights = run.flag("cpu-offloading-weights").value_or(false);
  if (!on || layers <= 0) return;
  if (weights) run.assume(fmt::format("{}: weights stay on the GPU here", kLayers));
  if (!activations) return;
  run.put_flag("training.offload_activations", true, kLayers);
  run.put("training.offload_layers", layers, kLayers);
}

/// The layer of an adapter, by Megatron-Bridge's name; CanonicalLoRA has adapters for the parts of a fused layer. "": another one.
std::string adapted_layer(std::string_view module) {
  constexpr Name kPrefix = "linear_";
  constexpr std::pair<Name, Name> kParts[] = {
      {"q", "qkv"}, {"k", "qkv"}, {"v", "qkv"}, {"fc1_up", "fc1"}, {"fc1_gate", "fc1"}};
  if (module.starts_with(kPrefix)) module.remove_prefix(kPrefix.size());
  const auto* const part = std::ranges::find(kParts, module, &std::pair<Name, Name>::first);
  const std::string layer(part == std::end(kParts) ? module : part->second);
  return parse_enum<LoraTarget>(layer) ? layer : "";
}

/// LoRA of Megatron-Bridge.
void import_adapters(RunImport& run) {
  constexpr Name kTargets = "target-modules";
  constexpr Name kWithoutEffectOfAdapters = "alpha dropout lora- a2a-experimental";
  const JsonNode* const peft = run.theirs().find("peft");
  const bool adapts = peft != nullptr && peft->kind == JsonNode::Kind::object;
  const auto rank = adapts ? run.count("dim") : std::nullopt;
  if (!rank) return;
  run.put("training.lora_rank", *rank, "dim");
  if (const JsonNode* const kind = peft->find(kAdapterKind); kind != nullptr && kind->string.ends_with("DoRA"))
    run.assume("peft is DoRA: taken as LoRA, without the norms of its weights");
  run.take(kAdapterKind);
  std::vector<std::string> targets;
  const std::vector<std::string> words = run.words(kTargets);
  for (const std::string& word : words) {
    const std::string layer = adapted_layer(word);
    if (layer.empty()) run.assume(fmt::format("{}: {} has no adapter here", kTargets, shortened(word)));
    if (!layer.empty() && word != layer && word != "linear_" + layer)
      run.assume(fmt::format("{}: {} is counted as linear_{}", kTargets, word, layer));
    if (!layer.empty() && std::ranges::find(targets, layer) == targets.end()) targets.push_back(layer);
  }
  if (!words.empty() && targets.empty())
    return run.error(kTargets, "has no layer that is known (allowed: linear_qkv linear_proj linear_fc1 linear_fc2)");
  if (!targets.empty() && targets.size() < std::size(EnumNames<LoraTarget>::table))
    run.put("training.lora_targets", node_of(targets), kTargets);
  if (has_megatron_experts(run)) run.assume("peft: routed experts have no adapters here");
  run.pass_over(kWithoutEffectOfAdapters);
}

/// Transformer Engine's FlashAttention excludes cuDNN's kernel, and the other way round (Megatron-Core's language_module.py sets
/// NVTE_FLASH_ATTN and NVTE_FUSED_ATTN); auto prefers as the GPU's profile does. FlashAttention is version 3 where that is installed.
void import_backend(RunImport& run, std::string_view backend) {
  constexpr Name kBackend = "attention-backend";
  if (const std::size_t dot = backend.rfind('.'); dot != Name::npos)
    backend.remove_prefix(dot + 1);  // AttnBackend.flash
  if (backend != "flash" && backend != "fused") return;
  run.attention_kernel = backend == "flash" ? "fa2" : "cudnn";
  run.attention_key = fmt::format("{} = {}", kBackend, backend);
}

}  // namespace

void import_megatron_settings(RunImport& run, bool bridge) {
  import_gpus(run);
  import_rows(run, kMegatronRows, bridge ? AbsentFlag::is_open : AbsentFlag::is_false);
  import_rows(run, kYamlRows, AbsentFlag::is_open);
  if (run.given_count("parallel.tp", 1) <= 1) run.put_flag("parallel.sequence_parallel", false);  // as Megatron does
  const bool deepspeed = run.flag("deepspeed").value_or(false);
  const bool from_local = deepspeed || run.word("transformer-impl") == "local";
  if (from_local)
    run.put_flag("parallel.overlap_p2p_1f1b", false);
  else
    run.put("stack", "megatron-core");
  import_batch_ramp(run);
  import_megatron_model(run, bridge);
  const std::int64_t layers = run.given_count("model.num_layers", 0);
  import_megatron_pipeline(run, layers);
  import_sharding(run, bridge);
  import_megatron_precision(run, bridge);
  if (deepspeed) import_megatron_deepspeed(run);
  const bool whole = run.flag(kWholeConfiguration).value_or(false);
  if (bridge && !whole) assume_of_recipe(run);
  import_megatron_recompute(run, bridge);
  import_recompute_modules(run);
  import_cuda_graphs(run);
  name_what_is_not_modelled(run);
  import_optimizer(run);
  import_loss(run, bridge);
  import_offloading(run);
  import_adapters(run);
  if (run.flag("no-async-tensor-model-parallel-allreduce").value_or(false))
    run.put_flag("parallel.tp_async_allreduce", false, "no-async-tensor-model-parallel-allreduce");
  import_megatron_experts(run, bridge);
  import_megatron_optimizer_types(run);
  import_context_parallel(run);
  import_duration(run);
  if (run.flag("use-tp-pp-dp-mapping").value_or(false))
    run.put("parallel.rank_order", "tp-cp-ep-pp-dp", "use-tp-pp-dp-mapping");
  const std::string backend = run.word("attention-backend");
  const Name flash =
      run.first_of({"use-flash-attn", "use-flash-attn-v2", "use-flash-attn-v1", "use-flash-attn-triton"});
  const bool fused = run.flag(flash).value_or(!from_local);
  if (!bridge) run.put_flag("training.flash_attention", fused && backend != "unfused" && backend != "local", flash);
  import_backend(run, backend);
  run.pass_over_fusions();
  run.pass_over(kWithoutEffect);
  if (run.theirs().find("trainer") != nullptr) run.pass_over(kWithoutEffectOfNemo);
  if (whole) {
    import_usual_switches(run);
    run.pass_over(kWithoutEffectOfWhole);
    run.pass_over_off();
  }
}

}  // namespace tracecast
