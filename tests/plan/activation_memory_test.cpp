// What the layers and the ends of a model keep between forward and backward.
#include <catch2/catch.hpp>

#include "sim/plan/activations.hpp"
#include "sim/plan/memory.hpp"
#include "tests/plan/memory_fixtures.hpp"
#include "tests/support/models.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;
using namespace tracecast::literals;
using namespace tracecast::test;

TEST_CASE("activations per layer in MiB, Korthikanti's modes", "[oracle][memory]") {
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
    const Parallel parallel{.tp = tp, .sequence_parallel = sequence_parallel};
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

TEST_CASE("Llama-3 70B keeps 274,432 bytes per token and layer, 281.0 MB at t = 8", "[oracle][memory]") {
  Training training = megatron();
  training.seq_length = 8192;
  Parallel parallel{.tp = 8, .sequence_parallel = true};
  const Plan plan = plan_of(llama3_70b(), parallel, training);
  const std::int64_t log_sum_exp = 4 * 64;  // of flash attention, which the 281.0 MB leave out
  CHECK(layer_activation_bytes(llama3_70b(), plan, 0) == Bytes{281'018'368 + log_sum_exp * 8192 / 8});
  // Context parallelism divides the sequence.
  parallel.cp = 2;
  CHECK(layer_activation_bytes(llama3_70b(), plan_of(llama3_70b(), parallel, training), 0) ==
        Bytes{(274'432 + log_sum_exp) * 4096 / 8});
}

TEST_CASE("DeepSpeed keeps outputs of stages until their backward, each tensor rank a part", "[oracle][memory]") {
  const Model model = gpt(4, 1024, 16, 51200, 2048);
  Training training = megatron();
  training.micro_batch_size = 2;
  Parallel parallel{.tp = 2, .pp = 2};
  const Plan freed = plan_of(model, parallel, training);
  parallel.keep_stage_outputs = true;
  const Plan kept = plan_of(model, parallel, training);
  const auto activations = [&](const Plan& plan, std::size_t rank) {
    return peak_memory(model, plan, schedule_of(plan, "1f1b"))[rank].activations;
  };
  // 2 h of 2 x 2048 tokens over 2 tensor ranks; 1F1B's first of two ranks has two micro-batches in flight.
  CHECK(activations(kept, 0) - activations(freed, 0) == 2 * Bytes{2 * 1024 * 2 * 2048 / 2});
  CHECK(activations(kept, 1) == activations(freed, 1));
}

TEST_CASE("Megatron-LM's buffer of scores is there once, unless attention is fused", "[oracle][memory]") {
  const Model model = gpt(4, 1024, 16, 51200, 2048);
  Training training = megatron();
  training.micro_batch_size = 2;
  training.flash_attention = false;
  const Parallel parallel{.tp = 2};
  const auto transient = [&] { return peak(model, plan_of(model, parallel, training)).transient; };
  const Bytes without = transient();
  training.score_buffer = true;
  // 16 / 2 heads, 2 sequences, 16 bit.
  CHECK(transient() - without == Bytes{2 * 8 * 2 * 2048 * 2048});
  training.flash_attention = true;
  CHECK(transient() == without);
}

TEST_CASE("recompute_modules: results of norms, activation functions and up-projections are not kept",
          "[oracle][memory]") {
  Training training = megatron();
  training.seq_length = 8192;
  const Parallel parallel{.tp = 8, .sequence_parallel = true};
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
  CHECK(per_token({"mlp"}) == all - 6 * 28672);
  CHECK(per_token({"mlp", "activation"}) == all - 6 * 28672);
  CHECK(per_token({"shared_experts"}) == all);  // no experts
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
  training.recompute_modules = {"norm", "activation", "mla_up", "mlp", "shared_experts"};
  CHECK(layer_activation_bytes(deepseek, plan_of(deepseek, {}, training), 0) == Bytes{1024 * latent});
  CHECK(layer_activation_bytes(deepseek, plan_of(deepseek, {}, training), 3) ==
        Bytes{1024 * (latent + 4 * 256 + 8 * (2 * 7168 + 4 * 2048))});
}

TEST_CASE("low_precision_activations: fp8 training keeps what multiplications read in fp8", "[oracle][memory]") {
  Training training = megatron();
  training.seq_length = 1024;
  training.dtype = Precision::fp8_block;
  const Model model = llama3_8b();
  const auto per_token = [&](const std::vector<std::string>& names, const std::vector<std::string>& wide = {}) {
    training.low_precision_activations = names;
    training.bf16_modules = wide;
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

TEST_CASE(
    "low_precision_activations: DeepSeek-V3 keeps 156 KB of a token and MoE layer, and waiting weight gradients in fp8",
    "[oracle][memory]") {
  Training training = megatron();
  training.seq_length = 1024;
  training.dtype = Precision::fp8_block;
  training.recompute_modules = {"norm", "activation", "mla_up"};
  training.low_precision_activations = {"linear_inputs", "attention_output", "activation_inputs"};
  const Model model = deepseek_v3();
  const Plan plan = plan_of(model, {}, training);
  const double fp8 = 1 + 4.0 / 128;
  // Inputs of two norms, latent vectors, attention's result in 12 bits, log-sum-exp, router; up and gate of the shared
  // expert; of eight experts the row and both inner results.
  const double bytes = 4 * 7168 + 2 * (1536 + 512 + 64) + 1.5 * 128 * 128 + 4 * 128 + 4 * 256 + 2 * fp8 * 2048 +
                       8 * (fp8 * 7168 + 2 * fp8 * 2048);
  CHECK(static_cast<double>(layer_activation_bytes(model, plan, 3).count) / 1024 == Approx(bytes).epsilon(1e-6));
  Training wide = training;
  wide.low_precision_activations.clear();
  const Stage one{.first_layer = 3, .num_layers = 1};
  const auto waits = [&](const Training& each) {
    return static_cast<double>(weight_gradient_bytes(model, plan_of(model, {}, each), one).count);
  };
  CHECK(waits(training) / waits(wide) == Approx(fp8 / 2));
  // Both ends of the matrices: the layer's and the latent vectors', Q of 192 dimensions, K without the 64 of positions, V and its
  // result; of the shared expert and of eight others rows and inner results.
  const double attention = 2 * 7168 + 2 * (1536 + 512) + 64 + 128 * (192 + 128 + 2 * 128);
  CHECK(waits(wide) / 1024 == Approx(2 * (attention + 2 * 7168 + 3 * 2048 + 8 * (2 * 7168 + 3 * 2048))));
  // Without a shared expert only the router reads the layer's own rows.
  Model routed = model;
  routed.moe->shared_ffn_hidden = 0;
  CHECK((waits(wide) - static_cast<double>(weight_gradient_bytes(routed, plan_of(routed, {}, wide), one).count)) /
            1024 ==
        Approx(2 * (2 * 7168 + 3 * 2048)));
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
  Parallel parallel{.tp = 2, .sequence_parallel = true};
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

TEST_CASE("the ends of the model: embedding dropout, norm and head inputs, fp32 logits", "[oracle][memory]") {
  Training training = megatron();
  training.seq_length = 8192;
  Parallel parallel{.tp = 8, .sequence_parallel = true};
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

TEST_CASE("keys and values of the whole sequence, and their gradients, where context ranks gather them",
          "[oracle][memory]") {
  Training training = megatron();
  training.seq_length = 65536;
  Model model = shipped_model("deepseek-v3");  // 128 heads of 192 for keys and 128 for values
  const auto transient = [&](ContextExchange exchange) {
    Plan plan = plan_of(model, {.tp = 8, .cp = 4, .cp_comm_type = exchange}, training);
    for (Stage& stage : plan.stages) stage.head = false;  // the loss works when layers have ended
    return peak(model, plan).transient;
  };
  CHECK(transient(ContextExchange::all_gather) - transient(ContextExchange::p2p) ==
        Bytes{2 * 2LL * 65536 * (128 / 8) * (192 + 128)});
  model = llama3_70b();  // 8 heads of keys and values, a rank has one
  CHECK(transient(ContextExchange::all_gather) - transient(ContextExchange::p2p) == Bytes{2 * 2LL * 65536 * 2 * 128});
  CHECK(transient(ContextExchange::a2a) == transient(ContextExchange::p2p));
  training.flash_attention = false;  // has no other exchange
  CHECK(transient(ContextExchange::p2p) == transient(ContextExchange::all_gather));
}

TEST_CASE("Transformer Engine's ring holds keys, values and results of all its steps", "[oracle][memory]") {
  Training training = megatron();
  training.seq_length = 1 << 20;
  training.recompute = Recompute::full;
  const Model model = llama3_8b();
  const auto transient = [&](bool transformer_engine, ContextExchange exchange) {
    training.transformer_engine = transformer_engine;
    Plan plan = plan_of(model, {.cp = 64, .cp_comm_type = exchange}, training);
    for (Stage& stage : plan.stages) stage.head = false;
    return peak(model, plan).transient;
  };
  // 8 heads of keys and of values, 32 of results, of the whole sequence in 16 bit.
  CHECK(transient(true, ContextExchange::p2p) == Bytes{2LL * (1 << 20) * (8 + 8 + 32) * 128});
  CHECK(transient(false, ContextExchange::p2p) < transient(true, ContextExchange::p2p));
}

TEST_CASE("heads of keys that several context ranks have wait on each of them", "[oracle][memory]") {
  Training training = megatron();
  training.seq_length = 65536;
  const Model model = llama3_70b();  // 8 heads of keys and values of 128
  const auto kept = [&](int cp, ContextExchange exchange) {
    return layer_activation_bytes(model, plan_of(model, {.cp = cp, .cp_comm_type = exchange}, training), 0);
  };
  CHECK(kept(8, ContextExchange::a2a) == kept(8, ContextExchange::p2p));
  CHECK(kept(32, ContextExchange::a2a) - kept(32, ContextExchange::p2p) ==
        Bytes{65536LL * (32 - 8) / 32 * 2 * 128 * 2});
}

TEST_CASE("what the loss works in: fp32 in place, fp32 copies, 16 bit", "[oracle][memory]") {
  const Model model = llama3_8b();
  const std::int64_t logits = 2048LL * 128256;
  Training training = megatron();
  const auto bytes_per_logit = [&](CrossEntropy loss, int zero_stage, int tp) {
    training.cross_entropy = loss;
    const Parallel parallel{.tp = tp, .zero_stage = zero_stage};
    const Plan plan = plan_of(model, parallel, training);
    const Bytes kept = activation_bytes(model, plan, {0, 0, false, true}) - Bytes{4LL * 2048 * 4096};
    Plan alone = plan;  // nothing but the loss works
    alone.stages = {{0, 0, false, true}};
    Bytes works = peak(model, alone).transient;
    if (zero_stage == 2) works -= Bytes{4 * (logits / 2048 * 4096 / tp + 4096)};  // the output layer's gradient
    return std::pair(static_cast<double>(tp * kept.count) / static_cast<double>(logits),
                     static_cast<double>(tp * works.count) / static_cast<double>(logits));
  };
  CHECK(bytes_per_logit(CrossEntropy::automatic, 1, 1) == std::pair(4.0, 2.0));
  CHECK(bytes_per_logit(CrossEntropy::vocab_parallel, 2, 1) == std::pair(4.0, 2.0));
  CHECK(bytes_per_logit(CrossEntropy::fused_native, 2, 1) == std::pair(4.0, 2.0));
  CHECK(bytes_per_logit(CrossEntropy::automatic, 2, 1) == std::pair(4.0, 8.0));
  CHECK(bytes_per_logit(CrossEntropy::pytorch, 0, 1) == std::pair(4.0, 8.0));
  CHECK(bytes_per_logit(CrossEntropy::pytorch, 0, 2).second == 12);
  CHECK(bytes_per_logit(CrossEntropy::fused, 2, 1) == std::pair(2.0, 2.0));
  training.compiled = true;  // a compiled loss keeps 16-bit logits only, unless another is asked for
  CHECK(bytes_per_logit(CrossEntropy::automatic, 2, 1) == std::pair(2.0, 2.0));
  CHECK(bytes_per_logit(CrossEntropy::pytorch, 2, 1) == std::pair(4.0, 8.0));
  training.compiled = false;
  training.transformer_engine = true;
  CHECK(bytes_per_logit(CrossEntropy::fused, 2, 1) == std::pair(2.0, 0.0));
  CHECK(bytes_per_logit(CrossEntropy::fused_native, 2, 1) == std::pair(4.0, 2.0));
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
  const auto whole_tensors = [&](bool dtensor, bool overlap) {
    const Parallel parallel{.tp = 8, .sequence_parallel = true, .dtensor = dtensor, .tp_comm_overlap = overlap};
    const TokenBytes bytes = gathered_workspace(model, plan_of(model, parallel, training, 8));
    return bytes.local / (2 * 8192);
  };
  CHECK(whole_tensors(false, false) == 2);  // a gathered one, and sums to scatter
  CHECK(whole_tensors(false, true) == 0);
  CHECK(whole_tensors(true, false) == 4);  // and what DTensor keeps: two norms' results, gathered
  CHECK(whole_tensors(true, true) == 2);
  training.dtype = Precision::fp8;
  CHECK(whole_tensors(true, true) == 2);
  training.row_scales = true;  // what is gathered is quantised then
  CHECK(whole_tensors(true, true) == 3);
  training = megatron();
  // Without recomputation they wait since the forward, in every layer: seven eighths more of two results than
  // Megatron-LM keeps.
  training.recompute = Recompute::none;
  CHECK(whole_tensors(true, false) == 2);
  const auto kept = [&](bool dtensor) {
    const Parallel parallel{.tp = 8, .sequence_parallel = true, .dtensor = dtensor};
    return layer_activation_bytes(model, plan_of(model, parallel, training, 8), 0).count;
  };
  CHECK(kept(true) - kept(false) == 2 * 7 * (2 * 8192 / 8) * training.seq_length);
}

TEST_CASE("hybrid layers keep what the kernels of their mixers read again", "[oracle][memory][hybrid]") {
  const auto shipped = [](const std::string& name) { return shipped_model(name); };
  const auto kept = [&](const std::string& name, int layer, int tp, Training training = megatron()) {
    const Model model = shipped(name);
    const Parallel parallel{.tp = tp, .sequence_parallel = tp > 1};
    const Plan plan = plan_of(model, parallel, training);
    return layer_activation_bytes(model, plan, layer).count / plan.tokens();
  };
  // Mamba-2 of Nemotron-H 8B, bytes of a token: input and norm; z, x, B, C, steps; the scan's result and the normed one.
  const std::int64_t whole = 2 * 2 * 4096;
  const std::int64_t split = 2 * ((2 * 8192 + 2 * 1024 + 128) + 8192 + 8192);
  CHECK(kept("nemotron-h-8b", 0, 1) == whole + split);
  CHECK(kept("nemotron-h-8b", 0, 8) == (whole + split) / 8);
  // Its feed-forward alone: input, norm, both inner tensors.
  CHECK(kept("nemotron-h-8b", 1, 1) == 2 * 2 * 4096 + 2 * 2 * 21504);
  // Gated delta net of Qwen3-Next: projections; q, k, v with keys of every head; the 64 x 64 matrix; two fp32 gates of each
  // head; result and normed result. Its experts: two tensors over the hidden state, the shared expert and ten routed ones, fp32
  // scores of the router.
  const std::int64_t mixer =
      2 * 2 * 2048 + 2 * (2 * 2048 + 2 * 4096 + 64) + 2 * (3 * 4096 + 32 * 64) + 8 * 32 + 2 * 2 * 4096;
  const std::int64_t experts = 2 * 2 * 2048 + 2 * 3 * 512 + 10 * 2 * (2048 + 3 * 512) + 4 * 512;
  CHECK(kept("qwen3-next-80b-a3b", 0, 1) == mixer + experts);
  // Gated attention: also the gate, and the result before it.
  const std::int64_t attention =
      2 * 2 * 2048 + 2 * (4096 + 2 * 512) + 2 * (4096 + 512) + 2 * 2 * 4096 + 2 * 4096 + 4 * 16;
  CHECK(kept("qwen3-next-80b-a3b", 3, 1) == attention + experts);
  Training full = megatron();
  full.recompute = Recompute::full;
  CHECK(kept("qwen3-next-80b-a3b", 0, 1, full) == 2 * 2048);
  Training again = megatron();
  again.recompute_modules = {"norm"};
  CHECK(kept("nemotron-h-8b", 0, 1) - kept("nemotron-h-8b", 0, 1, again) == 2 * 4096);
}

TEST_CASE("eager PyTorch keeps the activated gate, which an operator of its own multiplies", "[oracle][memory]") {
  const Model model = llama3_8b();
  Training training = megatron();
  const auto per_token = [&] {
    return layer_activation_bytes(model, plan_of(model, {}, training), 0).count / training.seq_length;
  };
  const std::int64_t fused = per_token();
  training.unfused_elementwise = true;
  CHECK(per_token() == fused + 2 * 14336);  // silu(gate)
  training.recompute_modules = {"activation"};
  CHECK(per_token() == fused - 2 * 14336);
  training.recompute_modules = {};
  training.compiled = true;
  CHECK(per_token() == fused);
}
