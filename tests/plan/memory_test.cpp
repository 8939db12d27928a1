#include "sim/plan/memory.hpp"

#include <algorithm>

#include <catch2/catch.hpp>

#include "sim/plan/activations.hpp"
#include "tests/support/models.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;
using namespace tracecast::literals;
using namespace tracecast::test;

namespace {

constexpr double kGB = 1e9;
/// The settings of DOMAIN.md's "2 + 2 + 12" and "2 + 4 + 12".
Training zero_paper() {
  Training training;
  training.grad_reduce_dtype = Precision::bf16;
  training.seq_length = 2048;
  training.global_batch_size = 64;
  return training;
}
Training megatron() {
  Training training = zero_paper();
  training.grad_reduce_dtype = Precision::fp32;
  return training;
}

double states_gb(double parameters, const Training& training, int zero_stage, int shards) {
  return static_cast<double>(
             model_states(static_cast<std::int64_t>(parameters), training, zero_stage, shards).total().count) /
         kGB;
}

Plan plan_of(const Model& model, const Parallel& parallel, const Training& training, int dp = 1) {
  const auto plan = make_plan(model, parallel, training, parallel.tp * parallel.pp * parallel.cp * dp);
  if (!plan) FAIL(to_string(plan.error()));
  return *plan;
}

Schedule schedule_of(const Plan& plan, const std::string& name) {
  ScheduleRequest request;
  request.ranks = plan.parallel.pp;
  request.microbatches = plan.num_microbatches;
  request.chunks = plan.parallel.vpp;
  const auto schedule = make_schedule(name, request);
  if (!schedule) FAIL(to_string(schedule.error()));
  return *schedule;
}

/// One rank, one chunk, the given actions.
Schedule by_hand(std::vector<Action> actions) {
  Schedule schedule;
  schedule.name = "by hand";
  schedule.ranks = 1;
  schedule.stage_of = {{0}};
  schedule.actions = {std::move(actions)};
  return schedule;
}

Schedule one_microbatch() { return by_hand({{ActionKind::forward}, {ActionKind::backward}}); }

MemoryByKind peak(const Model& model, const Plan& plan) { return peak_memory(model, plan, one_microbatch()).at(0); }

/// Nothing but layers: no embedding, output layer or dropout that would make stages differ.
Plan middle_stages(const Model& model, int pp, int vpp, const Training& training) {
  Parallel parallel;
  parallel.pp = pp;
  parallel.vpp = vpp;
  Plan plan = plan_of(model, parallel, training);
  for (Stage& stage : plan.stages) stage.embedding = stage.head = false;
  return plan;
}

}  // namespace

TEST_CASE("bytes per parameter of every recipe", "[oracle][memory]") {
  Training t = zero_paper();
  CHECK(bytes_per_parameter(t, 0) == StateBytes{2, 2, 12});
  CHECK(bytes_per_parameter(megatron(), 1) == StateBytes{2, 4, 12});
  CHECK(bytes_per_parameter(megatron(), 3) == StateBytes{4, 4, 8});  // FSDP mixed precision
  t.dtype = t.grad_reduce_dtype = Precision::fp16;
  CHECK(bytes_per_parameter(t, 1) == StateBytes{2, 2, 16});  // Megatron copies fp16 gradients to fp32
  CHECK(bytes_per_parameter(t, 2) == StateBytes{2, 2, 12});
  t.dtype = t.grad_reduce_dtype = Precision::fp32;
  CHECK(bytes_per_parameter(t, 0) == StateBytes{4, 4, 8});
  t = zero_paper();
  t.master_weights = false;
  CHECK(bytes_per_parameter(t, 0) == StateBytes{2, 2, 4});  // S3's "bf16 everything"
  t = zero_paper();
  t.optimizer = OptimizerKind::momentum;
  CHECK(bytes_per_parameter(t, 0) == StateBytes{2, 2, 8});
  t.optimizer = OptimizerKind::sgd;
  CHECK(bytes_per_parameter(t, 0) == StateBytes{2, 2, 4});
  t = megatron();
  t.dtype = Precision::fp8;
  CHECK(bytes_per_parameter(t, 0) == StateBytes{2, 4, 12});
}

TEST_CASE("T-B1: the ZeRO paper's figure, 7.5e9 parameters over 64 ranks", "[oracle][memory]") {
  CHECK(states_gb(7.5e9, zero_paper(), 0, 64) == Approx(120));
  CHECK(states_gb(7.5e9, zero_paper(), 1, 64) == Approx(31.41).epsilon(1e-3));
  CHECK(states_gb(7.5e9, zero_paper(), 2, 64) == Approx(16.64).epsilon(1e-3));
  CHECK(states_gb(7.5e9, zero_paper(), 3, 64) == Approx(1.875));
}

TEST_CASE("T-B2: GPT-2 1.5B at 16 bytes per parameter is 24 GB", "[oracle][memory]") {
  CHECK(states_gb(1.5e9, zero_paper(), 0, 1) == Approx(24));
}

TEST_CASE("T-B3: 70B in S3's eight bytes and in sixteen", "[oracle][memory]") {
  Training eight = zero_paper();
  eight.master_weights = false;
  const MemoryByKind ddp = model_states(70'000'000'000, eight, 0, 8);
  CHECK(ddp.weights == Bytes{140'000'000'000});
  CHECK(ddp.gradients == Bytes{140'000'000'000});
  CHECK(ddp.optimizer == Bytes{280'000'000'000});
  const MemoryByKind fsdp = model_states(70'000'000'000, eight, 3, 8);
  CHECK(fsdp.weights == Bytes{17'500'000'000});
  CHECK(fsdp.gradients == Bytes{17'500'000'000});
  CHECK(fsdp.optimizer == Bytes{35'000'000'000});
  CHECK(states_gb(70e9, zero_paper(), 0, 8) == Approx(1120));
  CHECK(states_gb(70e9, zero_paper(), 3, 8) == Approx(140));
}

TEST_CASE("T-B4: model states per GPU of known layouts, uniform stages", "[oracle][memory]") {
  const double llama_70b = 70'553'706'496.0 / 8;
  CHECK(states_gb(llama_70b, zero_paper(), 3, 4) == Approx(35.28).epsilon(2e-4));
  CHECK(states_gb(llama_70b, zero_paper(), 1, 4) == Approx(61.73).epsilon(2e-4));
  CHECK(states_gb(llama_70b, megatron(), 1, 4) == Approx(79.37).epsilon(2e-4));
  CHECK(states_gb(llama_70b, zero_paper(), 3, 8) == Approx(17.64).epsilon(2e-4));
  CHECK(states_gb(llama_70b, zero_paper(), 1, 8) == Approx(48.51).epsilon(2e-4));
  CHECK(states_gb(llama_70b, megatron(), 1, 8) == Approx(66.14).epsilon(2e-4));
  const double llama_405b = 405'853'388'800.0;
  CHECK(states_gb(llama_405b / (8 * 16), zero_paper(), 1, 8) == Approx(17.44).epsilon(4e-4));
  CHECK(states_gb(llama_405b / (8 * 16), zero_paper(), 3, 8) == Approx(6.34).epsilon(4e-4));
  CHECK(states_gb(llama_405b / (8 * 4), zero_paper(), 1, 8) == Approx(69.76).epsilon(2e-4));
  CHECK(states_gb(llama_405b / (8 * 4), zero_paper(), 3, 8) == Approx(25.37).epsilon(2e-4));
  CHECK(states_gb(llama_405b / (8 * 4), zero_paper(), 1, 16) == Approx(60.24).epsilon(2e-4));
  CHECK(states_gb(llama_405b / (8 * 4), zero_paper(), 3, 16) == Approx(12.68).epsilon(4e-4));
  const double llm_jp_13b = 12'854'988'800.0 / 8;
  CHECK(states_gb(llm_jp_13b, zero_paper(), 0, 12) == Approx(25.71).epsilon(2e-4));
  CHECK(states_gb(llm_jp_13b, zero_paper(), 1, 12) == Approx(8.03).epsilon(1e-3));
  const double llm_jp_175b = 174'604'259'328.0 / 49;
  CHECK(states_gb(llm_jp_175b / 4, zero_paper(), 1, 2) == Approx(8.91).epsilon(1e-3));
  CHECK(states_gb(llm_jp_175b / 2, zero_paper(), 1, 4) == Approx(12.47).epsilon(1e-3));
}

TEST_CASE("a rank's own parameters: ends of the pipeline, replicated norms, key/value heads", "[oracle][memory]") {
  Parallel parallel;
  parallel.tp = 8;
  parallel.pp = 16;
  parallel.account_for_embedding = parallel.account_for_loss = true;
  const Plan plan = plan_of(llama3_405b(), parallel, megatron());
  // Per layer: Q and O 2 h a d, K and V 2 h k d, MLP 3 h f, all over 8; two norms whole.
  const std::int64_t layer = (2LL * 16384 * 16384 + 2LL * 16384 * 1024 + 3LL * 16384 * 53248) / 8 + 2 * 16384;
  const std::int64_t table = 128256LL * 16384 / 8;
  CHECK(rank_parameters(llama3_405b(), plan, 5) == 8 * layer);
  CHECK(rank_parameters(llama3_405b(), plan, 0) == 7 * layer + table);
  CHECK(rank_parameters(llama3_405b(), plan, 15) == 7 * layer + table + 16384);
  // Twice as many ranks as key/value heads: each rank keeps a whole head.
  parallel.tp = 16;
  const Plan wide = plan_of(llama3_405b(), parallel, megatron());
  CHECK(rank_parameters(llama3_405b(), wide, 5) ==
        8 * ((2LL * 16384 * 16384 + 3LL * 16384 * 53248) / 16 + 2LL * 16384 * 1024 / 8 + 2 * 16384));
}

TEST_CASE("a tied table is kept on both ends, or once", "[oracle][memory]") {
  const Model model = gpt(12, 768, 12, 50304, 2048);
  Parallel parallel;
  CHECK(rank_parameters(model, plan_of(model, parallel, megatron()), 0) == parameter_count(model).total());
  parallel.pp = 2;
  const Plan plan = plan_of(model, parallel, megatron());
  CHECK(rank_parameters(model, plan, 0) + rank_parameters(model, plan, 1) ==
        parameter_count(model).total() + 50304 * 768);
  // A V-shaped placement has both ends on rank 0.
  parallel.vpp = 2;
  const Plan folded = plan_of(model, parallel, megatron());
  Schedule schedule = schedule_of(folded, "zb-v");
  const auto memory = peak_memory(model, folded, schedule);
  CHECK(memory[0].weights + memory[1].weights == Bytes{2 * parameter_count(model).total()});
}

TEST_CASE("experts are divided by ep and etp, their states by their own group", "[oracle][memory]") {
  const Model model = mixtral_8x7b();
  Parallel parallel;
  parallel.ep = 4;
  parallel.zero_stage = 1;
  const Plan plan = plan_of(model, parallel, megatron(), 8);
  const std::int64_t experts = parameter_count(model).experts;
  const std::int64_t dense = parameter_count(model).total() - experts;
  CHECK(rank_parameters(model, plan, 0) == dense + experts / 4);
  // Dense states over 8 ranks; each expert lives on 8 / 4 of them.
  const MemoryByKind memory = peak(model, plan);
  CHECK(memory.weights == Bytes{2 * (dense + experts / 4)});
  CHECK(memory.optimizer == Bytes{12 * dense / 8 + 12 * (experts / 4) / 2});
  // One expert over the tensor-parallel group, or whole on one of its ranks.
  parallel.tp = 2;
  parallel.sequence_parallel = true;
  const std::int64_t split = rank_parameters(model, plan_of(model, parallel, megatron(), 8), 0);
  parallel.etp = 1;
  const std::int64_t whole = rank_parameters(model, plan_of(model, parallel, megatron(), 8), 0);
  CHECK(whole - split == experts / 4 - experts / 8);
}

TEST_CASE("T-B5: activations per layer in MiB, Korthikanti's modes", "[oracle][memory]") {
  struct Row {
    std::int64_t hidden;
    int heads;
    int batch;
    std::vector<double> mib;
  };
  const auto row = GENERATE(
      Row{6144, 64, 4, {6752, 1264, 844, 624, 204, 96}}, Row{12288, 96, 1, {2736, 552, 342, 312, 102, 48}},
      Row{20480, 128, 1, {3920, 840, 490, 520, 170, 80}}, Row{25600, 160, 1, {4900, 1050, 612.5, 650, 212.5, 100}});
  const Model model = gpt(2, row.hidden, row.heads, 51200, 2048);
  const auto mib = [&](int tp, bool sequence_parallel, Recompute recompute) {
    Training training = megatron();
    training.micro_batch_size = row.batch;
    training.flash_attention = false;
    training.recompute = recompute;
    Parallel parallel;
    parallel.tp = tp;
    parallel.sequence_parallel = sequence_parallel;
    const Plan plan = plan_of(model, parallel, training);
    return static_cast<double>(layer_activation_bytes(model, plan, 0).count) / (1 << 20);
  };
  CHECK(mib(1, false, Recompute::none) == row.mib[0]);
  CHECK(mib(8, false, Recompute::none) == row.mib[1]);
  CHECK(mib(8, true, Recompute::none) == row.mib[2]);
  CHECK(mib(8, false, Recompute::selective) == row.mib[3]);
  CHECK(mib(8, true, Recompute::selective) == row.mib[4]);
  CHECK(mib(8, false, Recompute::full) == row.mib[5]);
  CHECK(mib(8, true, Recompute::full) == row.mib[5] / 8);
}

TEST_CASE("T-B6: Llama-3 70B keeps 274,432 bytes per token and layer, 281.0 MB at t = 8", "[oracle][memory]") {
  Training training = megatron();
  training.seq_length = 8192;
  Parallel parallel;
  parallel.tp = 8;
  parallel.sequence_parallel = true;
  const Plan plan = plan_of(llama3_70b(), parallel, training);
  const std::int64_t log_sum_exp = 4 * 64;  // of flash attention, which the 281.0 MB leave out
  CHECK(layer_activation_bytes(llama3_70b(), plan, 0) == Bytes{281'018'368 + log_sum_exp * 8192 / 8});
  // Context parallelism divides the sequence.
  parallel.cp = 2;
  CHECK(layer_activation_bytes(llama3_70b(), plan_of(llama3_70b(), parallel, training), 0) ==
        Bytes{(274'432 + log_sum_exp) * 4096 / 8});
}

TEST_CASE("recompute_modules: results of norms, activation functions and up-projections are not kept",
          "[oracle][memory]") {
  Training training = megatron();
  training.seq_length = 8192;
  Parallel parallel;
  parallel.tp = 8;
  parallel.sequence_parallel = true;
  const Model model = llama3_70b();
  const auto per_token = [&](const std::vector<std::string>& modules) {
    training.recompute_modules = modules;
    return layer_activation_bytes(model, plan_of(model, parallel, training), 0).count / 1024;  // 8192 tokens / t
  };
  // [8h + 2(a+2k)d + 2ad + 6f] + 4a: two norms' results are 4h, the activation's 2f.
  const std::int64_t all = 274'432 + 4 * 64;
  CHECK(per_token({}) == all);
  CHECK(per_token({"norm"}) == all - 4 * 8192);
  CHECK(per_token({"activation"}) == all - 2 * 28672);
  CHECK(per_token({"norm", "activation"}) == all - 4 * 8192 - 2 * 28672);
  CHECK(per_token({"mla_up"}) == all);  // no latent attention here
  // The layer in work has everything again.
  training.recompute_modules = {"norm", "activation"};
  const Plan plan = plan_of(model, parallel, training);
  CHECK(peak_memory(model, plan, schedule_of(plan, "1f1b"))[0].transient >= Bytes{1024 * (4 * 8192 + 2 * 28672)});

  training = megatron();
  training.seq_length = 1024;
  training.recompute_modules = {"norm", "activation", "mla_up"};
  const Model deepseek = deepseek_v3();
  // Inputs of two norms; latent vectors once, rope 64; output of 128 heads; up and gate.
  const std::int64_t latent = 4 * 7168 + 2 * (1536 + 512 + 64) + 2 * 128 * 128 + 4 * 128;
  CHECK(layer_activation_bytes(deepseek, plan_of(deepseek, {}, training), 0) == Bytes{1024 * (latent + 4 * 18432)});
  CHECK(layer_activation_bytes(deepseek, plan_of(deepseek, {}, training), 3) ==
        Bytes{1024 * (latent + 4 * 256 + 4 * 2048 + 8 * (2 * 7168 + 4 * 2048))});
}

TEST_CASE("narrow_activations: fp8 training keeps what multiplications read in fp8", "[oracle][memory]") {
  Training training = megatron();
  training.seq_length = 1024;
  training.dtype = Precision::fp8_block;
  const Model model = llama3_8b();
  const auto per_token = [&](const std::vector<std::string>& names, const std::vector<std::string>& wide = {}) {
    training.narrow_activations = names;
    training.bf16_linears = wide;
    return static_cast<double>(layer_activation_bytes(model, plan_of(model, {}, training), 0).count) / 1024;
  };
  const double h = 4096;
  const double f = 14336;
  const double fp8 = 1 + 4.0 / 128;  // an fp32 scale for 128 elements
  // Residual stream, QKV (4 + 1 + 1 thousand wide) and log-sum-exp stay; norm results, attention's result, up and gate, fc2's input.
  const double stays = 4 * h + 2 * (h + 2 * 1024) + 4 * 32;
  CHECK(per_token({}) == Approx(stays + 4 * h + 2 * h + 6 * f));
  CHECK(per_token({"linear_inputs"}) == Approx(stays + 2 * fp8 * h + (2 + fp8) * h + (4 + fp8) * f));
  CHECK(per_token({"linear_inputs", "attention_output"}) == Approx(stays + 2 * fp8 * h + 1.5 * h + (4 + fp8) * f));
  CHECK(per_token({"linear_inputs", "attention_output", "activation_inputs"}) ==
        Approx(stays + 2 * fp8 * h + 1.5 * h + 3 * fp8 * f));
  // A linear layer that multiplies in bf16 reads bf16.
  CHECK(per_token({"linear_inputs"}, {"attention"}) == Approx(stays + (2 + fp8) * h + 2 * h + (4 + fp8) * f));
}

TEST_CASE("narrow_activations: DeepSeek-V3 keeps 156 KB of a token and MoE layer, and waiting weight gradients in fp8",
          "[oracle][memory]") {
  Training training = megatron();
  training.seq_length = 1024;
  training.dtype = Precision::fp8_block;
  training.recompute_modules = {"norm", "activation", "mla_up"};
  training.narrow_activations = {"linear_inputs", "attention_output", "activation_inputs"};
  const Model model = deepseek_v3();
  const Plan plan = plan_of(model, {}, training);
  const double fp8 = 1 + 4.0 / 128;
  // Inputs of two norms, latent vectors, attention's result in 12 bits, log-sum-exp, router; up and gate of the shared
  // expert; of eight experts the row and both inner results.
  const double bytes = 4 * 7168 + 2 * (1536 + 512 + 64) + 1.5 * 128 * 128 + 4 * 128 + 4 * 256 + 2 * fp8 * 2048 +
                       8 * (fp8 * 7168 + 2 * fp8 * 2048);
  CHECK(static_cast<double>(layer_activation_bytes(model, plan, 3).count) / 1024 == Approx(bytes).epsilon(1e-6));
  Training wide = training;
  wide.narrow_activations.clear();
  const Stage one{.first_layer = 3, .num_layers = 1};
  const auto waits = [&](const Training& each) {
    return static_cast<double>(weight_gradient_bytes(model, plan_of(model, {}, each), one).count);
  };
  CHECK(waits(training) / waits(wide) == Approx(fp8 / 2));
}

TEST_CASE("DeepSeek-V3 on 2,048 H800 of 80 GB fits, as it did, and does not without what its report does",
          "[memory][published]") {
  const auto fits = [&](const std::vector<std::string>& overrides) {
    const Scenario s = shipped_scenario("deepseek-v3-2048", overrides);
    const Plan plan = make_plan(s.model, s.parallel, s.training, s.cluster.world_size).value();
    const std::vector<MemoryByKind> ranks = peak_memory(s.model, plan, schedule_of(plan, "dualpipe"));
    return std::all_of(ranks.begin(), ranks.end(),
                       [&](const MemoryByKind& rank) { return rank.total() <= s.profile.memory; });
  };
  CHECK(fits({}));
  CHECK_FALSE(fits({"training.narrow_activations=[]"}));
  CHECK_FALSE(fits({"training.recompute_modules=[]"}));
}

TEST_CASE("ZeRO-2 divides gradients, unless a pipeline accumulates them whole", "[oracle][memory]") {
  Parallel parallel;
  parallel.zero_stage = 2;
  const auto gradients = [&](int pp) {
    parallel.pp = pp;
    const Plan plan = plan_of(llama3_8b(), parallel, megatron(), 4);
    const Schedule schedule = schedule_of(plan, "1f1b");
    return std::pair(peak_memory(llama3_8b(), plan, schedule)[0].gradients.count,
                     rank_parameters(llama3_8b(), plan, 0));
  };
  const auto [alone, all] = gradients(1);
  CHECK(alone == all * 4 / 4);
  const auto [staged, share] = gradients(4);
  CHECK(staged == share * 4);
}

TEST_CASE("Llama 3.1 405B on 8,192 H100 fits, as it did", "[memory][published]") {
  const auto peak = [&](const std::string& name, const std::vector<std::string>& overrides = {}) {
    const Scenario s = shipped_scenario(name, overrides);
    const Plan plan = make_plan(s.model, s.parallel, s.training, s.cluster.world_size).value();
    Bytes most;
    for (const MemoryByKind& rank : peak_memory(s.model, plan, schedule_of(plan, "interleaved-1f1b")))
      most = std::max(most, rank.total());
    return most;
  };
  const Bytes h100{85'520'809'984};  // 79.65 GiB
  for (const char* name : {"llama3-405b-8k", "llama3-405b-16k", "llama3-405b-131k-context"}) {
    CAPTURE(name);
    CHECK(peak(name) < h100);
  }
  // Rank 1 has 141 one-layer chunks in flight (2 x 14 + 7 x 16 + 1); the first rank's first chunk is the embedding alone.
  CHECK(peak("llama3-405b-8k", {"training.recompute_modules=[]"}) > h100);
}

TEST_CASE("activations of other layers: experts, latent attention, norms over heads", "[oracle][memory]") {
  Training training = megatron();
  training.seq_length = 1024;
  const Model mixtral = mixtral_8x7b();
  // norm inputs 4h, QKV and expert inputs 4h, QKV 2(a+2k)d, projection input 2ad, log-sum-exp 4a, router 4E,
  // and two experts of 2h + 6f each.
  const std::int64_t attention = 8 * 4096 + 2 * (32 + 16) * 128 + 2 * 4096 + 4 * 32;
  CHECK(layer_activation_bytes(mixtral, plan_of(mixtral, {}, training), 0) ==
        Bytes{1024 * (attention + 4 * 8 + 2 * (2 * 4096 + 6 * 14336))});
  // Tensor parallelism with sequence parallelism: the ranks of an expert gather its rows and split its width.
  Parallel parallel;
  parallel.tp = 2;
  parallel.sequence_parallel = true;
  CHECK(layer_activation_bytes(mixtral, plan_of(mixtral, parallel, training), 0) ==
        Bytes{1024 * (attention + 4 * 8) / 2 + 1024 * 2 * (2 * 4096 + 3 * 14336)});

  const Model deepseek = deepseek_v3();
  // h: four times; q 1536 and c 512 twice, rope 64; Q and K of 192, V and output of 128, 128 heads.
  const std::int64_t latent = 8 * 7168 + 2 * (2 * 1536 + 2 * 512 + 64) + 2 * 128 * (2 * 192 + 2 * 128) + 4 * 128;
  CHECK(layer_activation_bytes(deepseek, plan_of(deepseek, {}, training), 0) == Bytes{1024 * (latent + 6 * 18432)});
  CHECK(layer_activation_bytes(deepseek, plan_of(deepseek, {}, training), 3) ==
        Bytes{1024 * (latent + 4 * 256 + 6 * 2048 + 8 * (2 * 7168 + 6 * 2048))});

  Model normed = llama3_8b();
  const Bytes plain = layer_activation_bytes(normed, plan_of(normed, {}, training), 0);
  normed.qk_norm = true;
  CHECK(layer_activation_bytes(normed, plan_of(normed, {}, training), 0) - plain == Bytes{1024 * 2 * (32 + 8) * 128});
  normed.qk_norm = false;
  normed.parallel_residual = true;
  CHECK(plain - layer_activation_bytes(normed, plan_of(normed, {}, training), 0) == Bytes{1024 * 2 * 4096});

  // More ranks than key/value heads: every rank keeps a whole head of each.
  normed = llama3_8b();
  parallel.tp = 16;
  CHECK(layer_activation_bytes(normed, plan_of(normed, parallel, training), 0) ==
        Bytes{1024 * (8 * 4096 + 2 * (32 + 2 * 16) * 128 + 2 * 4096 + 4 * 32 + 6 * 14336) / 16});

  // Without flash attention and without dropout only the softmax output is kept: 2 a s per token.
  training.flash_attention = false;
  CHECK(layer_activation_bytes(llama3_8b(), plan_of(llama3_8b(), {}, training), 0) - plain ==
        Bytes{1024 * (2 * 32 * 1024 - 4 * 32)});
}

TEST_CASE("the ends of the model: embedding dropout, norm and head inputs, fp32 logits (T-A4)", "[oracle][memory]") {
  Training training = megatron();
  training.seq_length = 8192;
  Parallel parallel;
  parallel.tp = 8;
  parallel.sequence_parallel = true;
  const Model model = llama3_70b();
  const Plan plan = plan_of(model, parallel, training);
  const Bytes head = activation_bytes(model, plan, {0, 0, false, true});
  const Bytes logits{525'336'576};
  CHECK(head == logits + Bytes{4LL * 8192 * 8192 / 8});  // 4sbh(1 + V/h)/t
  // While a layer works, a gathered tensor and sums that are still to be scattered; the loss's gradient of 16-bit logits, which
  // is a little less, comes when they have gone, and finds no block of its size.
  const Bytes whole{2LL * 2 * 8192 * 8192};
  CHECK(peak(model, plan).transient == whole);
  CHECK(peak(model, plan).cached == Bytes{logits.count / 2});
  parallel.tp_comm_overlap = true;  // collectives in pieces: neither is ever whole
  CHECK(peak(model, plan_of(model, parallel, training)).transient == Bytes{logits.count / 2});
  CHECK(peak(model, plan_of(model, parallel, training)).cached == Bytes{0});
  training.loss_mask_fraction = 0.5;
  CHECK(head - activation_bytes(model, plan_of(model, parallel, training), {0, 0, false, true}) ==
        Bytes{logits.count / 2});

  const Model with_dropout = gpt(12, 768, 12, 51200, 2048);
  const Plan gpt_plan = plan_of(with_dropout, {}, megatron());
  CHECK(activation_bytes(with_dropout, gpt_plan, {0, 0, true, false}) == Bytes{2048 * 768});
}

TEST_CASE("in-flight micro-batches follow from the schedule", "[oracle][memory]") {
  const Model model = llama3_8b();
  Training training = megatron();
  training.global_batch_size = 8;
  struct Row {
    const char* name;
    int vpp;
    std::vector<int> in_flight;
  };
  // DOMAIN.md 5.5, P = 4 and M = 8, in chunks.
  const auto row = GENERATE(Row{"gpipe", 1, {8, 8, 8, 8}}, Row{"1f1b", 1, {4, 3, 2, 1}},
                            Row{"interleaved-1f1b", 2, {11, 9, 7, 5}}, Row{"interleaved-1f1b", 4, {19, 17, 15, 13}});
  const Plan plan = middle_stages(model, 4, row.vpp, training);
  const auto memory = peak_memory(model, plan, schedule_of(plan, row.name));
  const Bytes chunk = activation_bytes(model, plan, plan.stages[0]);
  REQUIRE(memory.size() == 4);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CHECK(memory[rank].activations == chunk * row.in_flight[rank]);
  }
}

TEST_CASE("interleaving: L (1 + (P-1)/(PV)) layers on the first rank, 1f1b L whatever P is", "[oracle][memory]") {
  const Model model = llama3_8b();
  Training training = megatron();
  const int pp = GENERATE(2, 4, 8);
  const Plan plain = middle_stages(model, pp, 1, training);
  const Bytes layer = layer_activation_bytes(model, plain, 0);
  CHECK(peak_memory(model, plain, schedule_of(plain, "1f1b"))[0].activations == layer * 32);
  const Plan interleaved = middle_stages(model, pp, 2, training);
  CHECK(peak_memory(model, interleaved, schedule_of(interleaved, "interleaved-1f1b"))[0].activations ==
        layer * (32 + 32 * (pp - 1) / (pp * 2)));
}

TEST_CASE("a split backward keeps what the weight gradients need until they are computed", "[oracle][memory]") {
  const Model model = llama3_8b();
  Training training = megatron();
  Plan plan = middle_stages(model, 1, 1, training);
  const auto activations = [&](std::vector<Action> actions) {
    return peak_memory(model, plan, by_hand(std::move(actions)))[0].activations;
  };
  const Action f{ActionKind::forward}, input{ActionKind::backward_input}, weight{ActionKind::backward_weight};
  const Bytes kept = activation_bytes(model, plan, plan.stages[0]);
  // Inputs and output gradients: 8h, QKV 2(a+2k)d, projection 2ad, 6f; all but the log-sum-exp of what a forward keeps.
  const Bytes left = weight_gradient_bytes(model, plan, plan.stages[0]);
  CHECK(left == Bytes{32LL * 2048 * (8 * 4096 + 2 * (32 + 16) * 128 + 2 * 4096 + 6 * 14336)});
  CHECK(kept - left == Bytes{32LL * 2048 * 4 * 32});
  CHECK(activations({f, input, weight}) == kept);
  CHECK(activations({f, input, f, weight, input, weight}) == left + kept);
  CHECK(activations({f, input, weight, f, input, weight}) == kept);
  CHECK(activations({f, {ActionKind::forward_backward}, {ActionKind::backward}}) == kept * 2);
  // Recomputed layers need their inputs again: more is alive after the input gradients than before.
  plan.training.recompute = Recompute::full;
  CHECK(activations({f, input, weight}) == left);
}

TEST_CASE("full recomputation keeps layer inputs and brings one layer back", "[oracle][memory]") {
  Model model = llama3_8b();
  Training training = megatron();
  const Plan none = middle_stages(model, 1, 1, training);
  const Bytes layer = layer_activation_bytes(model, none, 0);
  training.recompute = Recompute::full;
  const Plan full = middle_stages(model, 1, 1, training);
  const Bytes input{2LL * 2048 * 4096};
  CHECK(peak(model, full).activations == input * 32);
  CHECK(peak(model, full).transient == layer - input);
  training.recompute_num_layers = 3;
  const Plan some = middle_stages(model, 1, 1, training);
  CHECK(peak(model, some).activations == input * 3 + layer * 29);
  // Op-level: input 2h, attention's result 2ad and 4a; of the multiplications the first, third, fifth, seventh: queries,
  // values, gate, down, of which nothing but eager PyTorch keeps the last.
  training.recompute = Recompute::selective_op;
  training.recompute_num_layers = 0;
  const Plan op_level = middle_stages(model, 1, 1, training);
  CHECK(layer_activation_bytes(model, op_level, 0) ==
        Bytes{2048LL * (2 * 4096 + 2 * 4096 + 4 * 32 + 2 * (4096 + 1024 + 14336 + 4096))});
  training.compiled = true;
  CHECK(layer_activation_bytes(model, op_level, 0) -
            layer_activation_bytes(model, middle_stages(model, 1, 1, training), 0) ==
        Bytes{2048LL * 2 * 4096});
  // Selective recomputation brings the scores of one layer back.
  training.recompute = Recompute::selective;
  training.flash_attention = false;
  const Plan selective = middle_stages(model, 1, 1, training);
  CHECK(peak(model, selective).transient == Bytes{2048LL * 2 * 32 * 2048});
}

TEST_CASE("FSDP: two units gathered ahead, one gradient before it is reduced", "[oracle][memory]") {
  const Model model = llama3_8b();
  Parallel parallel;
  parallel.zero_stage = 3;
  const Training training = megatron();
  const std::int64_t total = parameter_count(model).total();
  const std::int64_t layer = layer_parameters(model, 0);
  const std::int64_t table = 128256LL * 4096;
  // fp32 gradients of the log-likelihood and of the log-softmax: PyTorch's cross_entropy.
  const Bytes logits{(4LL + 4) * 2048 * 128256};
  const MemoryByKind full_shard = peak(model, plan_of(model, parallel, training, 8));
  CHECK(full_shard.weights == Bytes{4 * total / 8});
  CHECK(full_shard.gradients == Bytes{4 * total / 8});
  CHECK(full_shard.optimizer == Bytes{8 * total / 8});
  // Two layers, and the root: embedding and output layer with its norm, whose gradients are the largest and leave together.
  const std::int64_t root = 2 * table + 4096;
  CHECK(full_shard.transient == logits + Bytes{2 * (2 * layer + root) + 4 * root});
  // A stream of its own gathers a unit before it is copied out.
  CHECK(full_shard.cached == Bytes{2 * root});
  CHECK(full_shard.reserved() == full_shard.allocated() + full_shard.cached);
  parallel.reshard_group = 4;  // between forward and backward every rank keeps a quarter of the layers
  CHECK(peak(model, plan_of(model, parallel, training, 8)).transient ==
        full_shard.transient + Bytes{2 * 32 * layer / 4});
  parallel.reshard_group = 0;
  // With the root freed, too, the largest pair is the last layer and the output layer.
  parallel.reshard_root = true;
  CHECK(peak(model, plan_of(model, parallel, training, 8)).transient ==
        logits + Bytes{2 * (layer + table + 4096) + 4 * root});

  parallel.reshard_after_forward = false;
  CHECK(peak(model, plan_of(model, parallel, training, 8)).transient == logits + Bytes{2 * total + 4 * root});

  parallel.reshard_after_forward = true;
  parallel.shard_group = 4;  // hybrid: states over 4 of 8 ranks
  CHECK(peak(model, plan_of(model, parallel, training, 8)).weights == Bytes{4 * total / 4});

  parallel = Parallel{};
  parallel.zero_stage = 2;
  const MemoryByKind grad_shard = peak(model, plan_of(model, parallel, training, 8));
  CHECK(grad_shard.weights == Bytes{2 * total});
  CHECK(grad_shard.gradients == Bytes{4 * total / 8});
  CHECK(grad_shard.transient == logits + Bytes{4 * (table + 4096)});
}

TEST_CASE("the peak is the sum of its parts, with fragmentation of what moves", "[oracle][memory]") {
  const Model model = llama3_8b();
  const Plan plan = plan_of(model, {}, megatron());
  MemoryOptions options;
  options.fragmentation = 0.25;
  options.fixed = 1_GiB;
  const MemoryByKind memory = peak_memory(model, plan, one_microbatch(), options)[0];
  CHECK(memory.fixed == 1_GiB);
  CHECK(memory.fragmentation == Bytes{(memory.activations + memory.transient).count / 4});
  CHECK(memory.total() == memory.weights + memory.gradients + memory.optimizer + memory.activations + memory.transient +
                              memory.fixed + memory.fragmentation);
}

TEST_CASE("schedules with several copies of weights hold them", "[oracle][memory]") {
  const Model model = llama3_8b();
  Training training = megatron();
  training.global_batch_size = 8;
  Parallel parallel;
  parallel.pp = 4;
  const Plan plan = plan_of(model, parallel, training);
  const auto plain = peak_memory(model, plan, schedule_of(plan, "1f1b"));
  const auto stashed = peak_memory(model, plan, schedule_of(plan, "pipedream"));
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CHECK(stashed[rank].weights == plain[rank].weights * (4 - static_cast<int>(rank)));
  }
  const auto both_ways = peak_memory(model, plan, schedule_of(plan, "chimera"));
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CHECK(both_ways[rank].weights == plain[rank].weights + plain[3 - rank].weights);
    CHECK(both_ways[rank].optimizer == plain[rank].optimizer + plain[3 - rank].optimizer);
  }
}

TEST_CASE("what the loss works in: fp32 in place, fp32 copies, 16 bit", "[oracle][memory]") {
  const Model model = llama3_8b();
  const std::int64_t logits = 2048LL * 128256;
  const auto bytes_per_logit = [&](const char* loss, int zero_stage, int tp) {
    Training training = megatron();
    training.cross_entropy = loss;
    Parallel parallel;
    parallel.zero_stage = zero_stage;
    parallel.tp = tp;
    const Plan plan = plan_of(model, parallel, training);
    const Bytes kept = activation_bytes(model, plan, {0, 0, false, true}) - Bytes{4LL * 2048 * 4096};
    Plan alone = plan;  // nothing but the loss works
    alone.stages = {{0, 0, false, true}};
    Bytes works = peak(model, alone).transient;
    if (zero_stage == 2) works -= Bytes{4 * (logits / 2048 * 4096 / tp + 4096)};  // the output layer's gradient
    return std::pair(static_cast<double>(tp * kept.count) / static_cast<double>(logits),
                     static_cast<double>(tp * works.count) / static_cast<double>(logits));
  };
  CHECK(bytes_per_logit("", 1, 1) == std::pair(4.0, 2.0));
  CHECK(bytes_per_logit("vocab_parallel", 2, 1) == std::pair(4.0, 2.0));
  CHECK(bytes_per_logit("", 2, 1) == std::pair(4.0, 8.0));
  CHECK(bytes_per_logit("pytorch", 0, 1) == std::pair(4.0, 8.0));
  CHECK(bytes_per_logit("pytorch", 0, 2).second == 12);
  CHECK(bytes_per_logit("fused", 2, 1) == std::pair(2.0, 2.0));
}

TEST_CASE("gradients of fp16 are copied to fp32 when activations are gone; DeepSpeed's bf16 keeps both",
          "[oracle][memory]") {
  const Model model = llama3_8b();
  const std::int64_t parameters = parameter_count(model).total();
  Training training = zero_paper();
  training.dtype = Precision::fp16;
  training.grad_reduce_dtype = Precision::fp16;
  // With 2,048 tokens the copies are more than the activations and take their place; with 32,768 they are less.
  const MemoryByKind few = peak(model, plan_of(model, {}, training));
  CHECK(few.optimizer == Bytes{12 * parameters});
  CHECK(few.activations + few.transient == Bytes{4 * parameters});
  training.micro_batch_size = 16;
  const MemoryByKind many = peak(model, plan_of(model, {}, training));
  CHECK(many.optimizer == Bytes{12 * parameters});
  CHECK(many.activations > Bytes{4 * parameters});
  CHECK(many.transient == Bytes{2LL * 16 * 2048 * 128256});

  training = megatron();
  CHECK(peak(model, plan_of(model, {}, training)).gradients == Bytes{4 * parameters});
  training.gradients_16_bit_too = true;
  CHECK(peak(model, plan_of(model, {}, training)).gradients == Bytes{6 * parameters});
  training.memory_beside_gib = 2.5;
  CHECK(peak(model, plan_of(model, {}, training)).fixed == 4_GiB);
}

TEST_CASE("recompute_modules: experts that run again keep neither rows nor scores", "[oracle][memory]") {
  Training training = megatron();
  training.seq_length = 1024;
  training.recompute_modules = {"moe"};
  const Model model = mixtral_8x7b();
  const Plan plan = plan_of(model, {}, training);
  const std::int64_t attention =
      8 * 4096 + 2 * (32 + 16) * 128 + 2 * 4096 + 4 * 32;  // with both norms' inputs and results
  CHECK(layer_activation_bytes(model, plan, 0) == Bytes{1024 * attention});
  // The layer in work has them.
  CHECK(peak_memory(model, plan, schedule_of(plan, "1f1b"))[0].transient ==
        Bytes{1024 * (4 * 8 + 2 * (2 * 4096 + 6 * 14336))});
}

TEST_CASE("sequence parallelism: whole tensors of the layer in work", "[oracle][memory]") {
  Training training = megatron();
  training.recompute = Recompute::full;
  const Model model = llama3_70b();
  const auto whole_tensors = [&](int zero_stage, bool overlap) {
    Parallel parallel;
    parallel.tp = 8;
    parallel.zero_stage = zero_stage;
    parallel.sequence_parallel = true;
    parallel.tp_comm_overlap = overlap;
    const TokenBytes bytes = gathered_workspace(model, plan_of(model, parallel, training, 8));
    return bytes.local / (2 * 8192);
  };
  CHECK(whole_tensors(1, false) == 2);  // a gathered one, and sums to scatter
  CHECK(whole_tensors(1, true) == 0);
  CHECK(whole_tensors(3, false) == 4);  // and what DTensor keeps: two norms' results, gathered
  CHECK(whole_tensors(3, true) == 2);
}

TEST_CASE("peak memory of published runs", "[memory][published]") {
  // data/validation/runs.csv, Zero Bubble (arXiv 2401.10241): 22 layers of 2304, eight stages, micro-batches of six, fp16;
  // what PyTorch calls max_memory_allocated. The vocabulary is not printed; 51,200 is assumed. Its automatic schedule fills
  // every rank up to the limit that it calls 2p, zb-h2 only the first.
  Model model = gpt(22, 2304, 24, 51200, 1024);
  model.tied_embeddings = false;
  Training training = zero_paper();
  training.dtype = Precision::fp16;
  training.grad_reduce_dtype = Precision::fp16;
  training.flash_attention = false;
  training.seq_length = 1024;
  training.micro_batch_size = 6;
  training.global_batch_size = 6 * 64;
  Parallel parallel;
  parallel.pp = 8;
  parallel.account_for_embedding = parallel.account_for_loss = true;
  struct Row {
    const char* schedule;
    int vpp;
    double reported;
    double tolerance;
  };
  const auto row = GENERATE(Row{"1f1b", 1, 30, 0.05}, Row{"interleaved-1f1b", 3, 40, 0.05}, Row{"zb-h1", 1, 32, 0.06},
                            Row{"zb-h2", 1, 59, 0.10});
  parallel.vpp = row.vpp;
  const Plan plan = plan_of(model, parallel, training);
  double most = 0;
  for (const MemoryByKind& memory : peak_memory(model, plan, schedule_of(plan, row.schedule)))
    most = std::max(most, static_cast<double>(memory.allocated().count) / kGB);
  INFO(row.schedule);
  CHECK(most == Approx(row.reported).epsilon(row.tolerance));
}

TEST_CASE("torchtitan's peaks, as its allocator holds them, within 5 %", "[memory][published]") {
  // torchtitan-bf47f950, -1732447d and -c102b430: Llama 3 8B, FSDP over eight H100, full and op-level recomputation.
  Training titan = megatron();
  titan.seq_length = 32768;
  titan.global_batch_size = 8;
  titan.recompute = Recompute::full;
  Parallel fsdp;
  fsdp.zero_stage = 3;
  const auto reserved = [](const Model& model, const Plan& plan) { return gib(peak(model, plan).reserved()); };
  CHECK(reserved(llama3_8b(), plan_of(llama3_8b(), fsdp, titan, 8)) == Approx(83.9).epsilon(0.05));
  titan.seq_length = 8192;
  titan.micro_batch_size = 2;
  titan.global_batch_size = 16;
  titan.recompute = Recompute::selective_op;
  CHECK(reserved(llama3_8b(), plan_of(llama3_8b(), fsdp, titan, 8)) == Approx(82.4).epsilon(0.05));
  titan.compiled = true;
  CHECK(reserved(llama3_8b(), plan_of(llama3_8b(), fsdp, titan, 8)) == Approx(77.0).epsilon(0.05));
  // torchtitan-e5042841 and -d9fcf242: Llama 3 70B on 256, without and with asynchronous tensor parallelism.
  titan.micro_batch_size = 16;
  titan.global_batch_size = 512;
  titan.recompute = Recompute::full;
  fsdp.tp = 8;
  fsdp.sequence_parallel = true;
  CHECK(reserved(llama3_70b(), plan_of(llama3_70b(), fsdp, titan, 32)) == Approx(71.9).epsilon(0.05));
  fsdp.tp_comm_overlap = true;
  CHECK(reserved(llama3_70b(), plan_of(llama3_70b(), fsdp, titan, 32)) == Approx(67.6).epsilon(0.05));
}
