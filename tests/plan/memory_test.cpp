// Model states, what a schedule keeps in flight, and the peak they add up to.
#include "sim/plan/memory.hpp"

#include <catch2/catch.hpp>

#include "sim/io/data_files.hpp"
#include "sim/io/files.hpp"
#include "sim/plan/fine_tuning.hpp"
#include "sim/plan/parameter_states.hpp"
#include "sim/plan/sharding.hpp"
#include "tests/plan/memory_fixtures.hpp"
#include "tests/support/models.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;
using namespace tracecast::literals;
using namespace tracecast::test;

namespace {

double states_gb(double parameters, const Training& training, int zero_stage, int shards) {
  return static_cast<double>(
             model_states(static_cast<std::int64_t>(parameters), training, zero_stage, shards).total().count) /
         1e9;
}

/// Nothing but layers: no embedding, output layer or dropout that would make stages differ.
Plan middle_stages(const Model& model, int pp, int vpp, const Training& training) {
  const Parallel parallel{.pp = pp, .vpp = vpp};
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
  CHECK(bytes_per_parameter(t, 0) == StateBytes{2, 2, 4});  // the AWS P5 guide's "bf16 everything"
  t = zero_paper();
  t.optimizer = OptimizerKind::momentum;
  CHECK(bytes_per_parameter(t, 0) == StateBytes{2, 2, 8});
  t.optimizer = OptimizerKind::sgd;
  CHECK(bytes_per_parameter(t, 0) == StateBytes{2, 2, 4});
  t = megatron();
  t.dtype = Precision::fp8;
  CHECK(bytes_per_parameter(t, 0) == StateBytes{2, 4, 12});
}

TEST_CASE("the ZeRO paper's figure, 7.5e9 parameters over 64 ranks", "[oracle][memory]") {
  CHECK(states_gb(7.5e9, zero_paper(), 0, 64) == Approx(120));
  CHECK(states_gb(7.5e9, zero_paper(), 1, 64) == Approx(31.41).epsilon(1e-3));
  CHECK(states_gb(7.5e9, zero_paper(), 2, 64) == Approx(16.64).epsilon(1e-3));
  CHECK(states_gb(7.5e9, zero_paper(), 3, 64) == Approx(1.875));
}

TEST_CASE("GPT-2 1.5B at 16 bytes per parameter is 24 GB", "[oracle][memory]") {
  CHECK(states_gb(1.5e9, zero_paper(), 0, 1) == Approx(24));
}

TEST_CASE("70B in the AWS P5 guide's eight bytes and in sixteen", "[oracle][memory]") {
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

TEST_CASE("model states per GPU of known layouts, uniform stages", "[oracle][memory]") {
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
  Parallel parallel{.tp = 8, .pp = 16};
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
  Parallel parallel{.ep = 4, .zero_stage = 1};
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

TEST_CASE("with hybrid sharding every copy of the model has all experts", "[memory]") {
  const Model model = mixtral_8x7b();
  const auto of = [&](int gpus, int etp) {
    const Parallel parallel{.ep = 4, .etp = etp, .zero_stage = 3, .shard_group = 8};
    return peak(model, plan_of(model, parallel, megatron(), gpus));
  };
  for (const int etp : {1, 2}) {
    const MemoryByKind one = of(8, etp);
    for (const int gpus : {16, 64}) {
      CHECK(of(gpus, etp).weights == one.weights);
      CHECK(of(gpus, etp).optimizer == one.optimizer);
    }
  }
}

TEST_CASE("ZeRO-2 divides gradients, unless a pipeline accumulates them whole", "[oracle][memory]") {
  Parallel parallel{.zero_stage = 2};
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

TEST_CASE("in-flight micro-batches follow from the schedule", "[oracle][memory]") {
  const Model model = llama3_8b();
  Training training = megatron();
  training.global_batch_size = 8;
  struct Row {
    const char* name;
    int vpp;
    std::vector<int> in_flight;
  };
  // P = 4 and M = 8, in chunks.
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

TEST_CASE("an overlapped pair whose layers take turns holds one layer more, not a micro-batch more",
          "[oracle][memory]") {
  const Model model = llama3_8b();
  Plan plan = middle_stages(model, 1, 1, megatron());
  const auto activations = [&] {
    const Action f{ActionKind::forward}, pair{ActionKind::forward_backward}, b{ActionKind::backward};
    return peak_memory(model, plan, by_hand({f, pair, b}))[0].activations.count;
  };
  const std::int64_t kept = activation_bytes(model, plan, plan.stages[0]).count;
  const int layers = plan.stages[0].num_layers;
  CHECK(activations() == 2 * kept);  // without exchanges the forward comes first
  plan.parallel.ep = 8;
  CHECK(activations() == kept + kept / layers);
  plan.parallel.zero_stage = 3;
  CHECK_FALSE(interleaves_pairs(plan.parallel));  // passes one after the other
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
  Parallel parallel{.zero_stage = 3};
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
  // A root that is freed between them is one unit, whole in all of the forward and all of the backward.
  parallel.reshard_root = true;
  CHECK(peak(model, plan_of(model, parallel, training, 8)).transient == full_shard.transient);

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
  const MemoryByKind memory = peak_memory(model, plan, one_microbatch())[0];
  CHECK(memory.fixed == kFixedMemory);
  CHECK(memory.fragmentation.count ==
        static_cast<std::int64_t>(
            std::ceil(kFragmentation * static_cast<double>((memory.activations + memory.transient).count))));
  CHECK(memory.total() == memory.weights + memory.gradients + memory.optimizer + memory.activations + memory.transient +
                              memory.fixed + memory.fragmentation);
}

TEST_CASE("schedules with several copies of weights hold them", "[oracle][memory]") {
  const Model model = llama3_8b();
  Training training = megatron();
  training.global_batch_size = 8;
  const Parallel parallel{.pp = 4};
  const Plan plan = plan_of(model, parallel, training);
  const auto plain = peak_memory(model, plan, schedule_of(plan, "1f1b"));
  const auto stashed = peak_memory(model, plan, schedule_of(plan, "pipedream"));
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CHECK(stashed[rank].weights == plain[rank].weights * (4 - static_cast<int>(rank)));
  }
  // With one micro-batch in a step, those of the next steps are in flight, too.
  training.global_batch_size = 1;
  const Plan short_plan = plan_of(model, parallel, training);
  const auto short_steps = peak_memory(model, short_plan, schedule_of(short_plan, "pipedream"));
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CHECK(short_steps[rank].weights == stashed[rank].weights);
    CHECK(short_steps[rank].activations == stashed[rank].activations);
  }
  const auto both_ways = peak_memory(model, plan, schedule_of(plan, "chimera"));
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CHECK(both_ways[rank].weights == plain[rank].weights + plain[3 - rank].weights);
    CHECK(both_ways[rank].optimizer == plain[rank].optimizer + plain[3 - rank].optimizer);
  }
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
  training.keep_16bit_gradients = true;
  CHECK(peak(model, plan_of(model, {}, training)).gradients == Bytes{6 * parameters});
  training.reserved_memory_gib = 2.5;
  CHECK(peak(model, plan_of(model, {}, training)).fixed == 4_GiB);
}

TEST_CASE("a checkpoint saves what is trained, with the states of its optimizer", "[oracle][memory][reliability]") {
  const Model model = llama3_70b();
  const std::int64_t all = parameter_count(model).total();
  Training t = megatron();
  CHECK(saved_state(model, t, Parallel{}) == SavedState{all, Bytes{2 * all}, Bytes{4 * all}, Bytes{8 * all}});
  CHECK(saved_state(llama3_405b(), t, Parallel{}).total() == Bytes{14 * 405'853'388'800});  // 5.68 TB
  t.grad_reduce_dtype = Precision::bf16;
  t.dtype = Precision::fp16;  // fp32 copies of fp16 gradients are no state
  CHECK(saved_state(model, t, Parallel{}).total() == Bytes{14 * all});
  t.dtype = Precision::fp8;
  t.fp8_param_gather = t.offload_optimizer = true;
  CHECK(saved_state(model, t, Parallel{}).total() == Bytes{14 * all});
  t = megatron();
  const auto per_parameter = [&](const Training& training) {
    return static_cast<double>(saved_state(model, training, Parallel{}).total().count) / static_cast<double>(all);
  };
  t.optimizer = OptimizerKind::sgd;
  CHECK(per_parameter(t) == 2 + 4);
  t.optimizer = OptimizerKind::adam_8bit;
  CHECK(per_parameter(t) == 2 + 4 + 2);
  t.optimizer = OptimizerKind::muon;  // one momentum, but Adam for the tables
  CHECK(per_parameter(t) == Approx(2 + 4 + 4 + 4 * 2 * 128256 * 8192.0 / static_cast<double>(all)).epsilon(1e-4));
  t.optimizer = OptimizerKind::adam;
  t.optimizer_state_dtype = Precision::bf16;
  CHECK(per_parameter(t) == 2 + 4 + 4);
  t = megatron();
  t.master_weights = false;
  CHECK(per_parameter(t) == 2 + 4);
  t = megatron();
  t.dtype = Precision::fp32;
  CHECK(per_parameter(t) == 4 + 8);
  t = megatron();
  Parallel fsdp;
  fsdp.zero_stage = 3;
  CHECK(saved_state(model, t, fsdp) == SavedState{all, Bytes{4 * all}, Bytes{}, Bytes{8 * all}});
  fsdp.data_parallel = DataParallelKind::deepspeed;
  CHECK(saved_state(model, t, fsdp).total() == Bytes{14 * all});
  t.lora_rank = 16;
  CHECK(saved_state(model, t, Parallel{}).parameters == adapter_parameters(model, t));
  CHECK(saved_state(model, t, Parallel{}).total() == Bytes{14 * adapter_parameters(model, t)});
  t = megatron();
  t.frozen_fraction = 0.5;
  CHECK(saved_state(model, t, Parallel{}).total() == Bytes{14 * trainable_parameters(model, t)});
}

TEST_CASE("a checkpoint of Adam in 16 bits has 14 bytes of every parameter of the shipped models",
          "[memory][reliability]") {
  for (const std::filesystem::path& path : data_files(shipped_data().scenarios / "models")) {
    const Model model = value_of(read_model(path));
    INFO(model.name);
    CHECK(saved_state(model, megatron(), Parallel{}).total() == Bytes{14 * parameter_count(model).total()});
  }
}

TEST_CASE("DeepSpeed: tensors below the threshold stay whole, others are gathered ahead by elements",
          "[oracle][memory]") {
  const Model model = llama3_8b();
  Parallel parallel{.zero_stage = 3};
  parallel.data_parallel = DataParallelKind::deepspeed;
  parallel.reshard_root = true;
  parallel.reduce_bucket_size = 1;
  parallel.prefetch_bucket_size = 1;
  parallel.param_persistence_threshold = 1;
  const std::int64_t layer = layer_parameters(model, 0);
  const std::int64_t total = parameter_count(model).total();
  const auto transient = [&] { return peak(model, plan_of(model, parallel, megatron(), 8)).transient.count; };
  const std::int64_t divided = transient();
  // The norms of 32 layers and the last one stay, two of which were part of the largest pair: last layer and output layer.
  parallel.param_persistence_threshold = 8193;  // the norms of a layer count as one tensor
  CHECK(transient() == divided + 2 * (65 - 3) * 4096);
  parallel.param_persistence_threshold = 1'000'000'000;  // all
  const std::int64_t table = 128256LL * 4096;
  CHECK(transient() == divided + 2 * (total - (layer + table + 4096)));
  parallel.param_persistence_threshold = 1;
  parallel.prefetch_bucket_size = 2 * layer;  // beside the output layer, which is the largest unit
  CHECK(transient() == divided + 2 * layer);
}

TEST_CASE("DeepSpeed: gradients go through buffers as large as a bucket", "[oracle][memory]") {
  const Model model = llama3_8b();
  Training training = zero_paper();
  const auto transient = [&](int zero_stage, bool overlap, int dp, int pp, std::int64_t bucket) {
    Parallel parallel{.pp = pp, .zero_stage = zero_stage, .overlap_grad_reduce = overlap};
    parallel.data_parallel = DataParallelKind::deepspeed;
    parallel.reduce_bucket_size = bucket;
    const Plan plan = plan_of(model, parallel, training, dp);
    return peak_memory(model, plan, schedule_of(plan, "1f1b")).at(0).transient;
  };
  const auto buffers = [&](int zero_stage, bool overlap, int dp = 8, int pp = 1) {
    return transient(zero_stage, overlap, dp, pp, 0) - transient(zero_stage, overlap, dp, pp, 1);
  };
  const Bytes one{2 * (500'000'000LL - 1)};
  CHECK(buffers(1, false) == one);
  CHECK(buffers(2, false) == one);
  CHECK(buffers(2, true) == 2 * one);
  CHECK(buffers(3, true) == one);
  CHECK(buffers(1, true, 8, 2) == one);
  CHECK(buffers(2, true, 1) == Bytes{});
  CHECK(buffers(0, true) == Bytes{});
  training.keep_16bit_gradients = true;  // BF16_Optimizer
  CHECK(buffers(1, false) == Bytes{});
}

TEST_CASE("FSDP: a layer makes gradients while those of the one before are reduced", "[oracle][memory]") {
  Model model = llama3_8b();
  model.vocab_size = 1024;  // so that layers are the largest units
  const std::int64_t layer = layer_parameters(model, 0);
  const auto transient = [&](bool defer) {
    const Parallel parallel{.zero_stage = 3, .defer_grad_sync = defer};
    Training training = megatron();
    training.global_batch_size = 16;
    return peak(model, plan_of(model, parallel, training, 8)).transient;
  };
  CHECK(transient(false) - transient(true) == Bytes{(2 + 4) * layer});
}

TEST_CASE("FSDP that defers on one GPU ends with gradients as wide as its weights", "[oracle][memory]") {
  const Model model = llama3_8b();
  const Parallel parallel{.zero_stage = 3, .defer_grad_sync = true};
  const std::int64_t total = parameter_count(model).total();
  // The sums of micro-batches have 2 bytes; what is left after the reduction has 4 on each of the ranks that share them.
  CHECK(peak(model, plan_of(model, parallel, zero_paper(), 1)).gradients == Bytes{4 * total});
  CHECK(peak(model, plan_of(model, parallel, zero_paper(), 8)).gradients == Bytes{2 * total});
}

TEST_CASE("DDP: buckets are a second copy of the gradients", "[oracle][memory]") {
  const Model model = llama3_8b();
  Parallel parallel;
  parallel.data_parallel = DataParallelKind::ddp;
  const Bytes all{4 * parameter_count(model).total()};
  CHECK(peak(model, plan_of(model, parallel, megatron(), 1)).gradients == all);
  CHECK(peak(model, plan_of(model, parallel, megatron(), 2)).gradients == 2 * all);
}

TEST_CASE("a stage of prediction layers alone brings one of them back, too", "[memory]") {
  Model model = llama3_8b();
  model.num_layers = 4;
  model.mtp_layers = 1;
  Training training = megatron();
  training.recompute = Recompute::full;
  const Parallel parallel{.pp = 2, .pp_layout = {4, 0}};
  const Plan plan = plan_of(model, parallel, training, 1);
  const Schedule schedule = schedule_of(plan, "1f1b");
  training.cross_entropy = CrossEntropy::fused;  // needs no room itself
  training.transformer_engine = true;
  const Plan no_loss = plan_of(model, parallel, training, 1);
  const MemoryByKind last = peak_memory(model, no_loss, schedule).at(1);
  const MemoryByKind first = peak_memory(model, no_loss, schedule).at(0);
  CHECK(last.transient == first.transient);
  CHECK(last.transient > Bytes{});
}
