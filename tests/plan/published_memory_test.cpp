// The memory of runs as it was published: what fitted, and peaks.
#include <algorithm>

#include <catch2/catch.hpp>

#include "sim/plan/memory.hpp"
#include "tests/plan/memory_fixtures.hpp"
#include "tests/support/models.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;
using namespace tracecast::literals;
using namespace tracecast::test;

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
  CHECK_FALSE(fits({"training.low_precision_activations=[]"}));
  CHECK_FALSE(fits({"training.recompute_modules=[]"}));
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

TEST_CASE("peak memory of published runs", "[memory][published]") {
  // scenarios/runs/published.csv, Zero Bubble (arXiv 2401.10241): 22 layers of 2304, eight stages, micro-batches of
  // six, fp16; what PyTorch calls max_memory_allocated. The vocabulary is not printed; 51,200 is assumed. Its automatic
  // schedule fills every rank up to the limit that it calls 2p, zb-h2 only the first.
  Model model = gpt(22, 2304, 24, 51200, 1024);
  model.tied_embeddings = false;
  Training training = zero_paper();
  training.dtype = Precision::fp16;
  training.grad_reduce_dtype = Precision::fp16;
  training.flash_attention = false;
  training.seq_length = 1024;
  training.micro_batch_size = 6;
  training.global_batch_size = 6 * 64;
  Parallel parallel{.pp = 8};
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
    most = std::max(most, static_cast<double>(memory.allocated().count) / 1e9);
  INFO(row.schedule);
  CHECK(most == Approx(row.reported).epsilon(row.tolerance));
}

TEST_CASE("torchtitan's peaks, as its allocator holds them, within 5 %", "[memory][published]") {
  // torchtitan-bf47f950, -1732447d and -c102b430: Llama 3 8B, FSDP over eight H100, full and op-level recomputation.
  Training titan = megatron();
  titan.seq_length = 32768;
  titan.global_batch_size = 8;
  titan.recompute = Recompute::full;
  titan.cross_entropy = CrossEntropy::pytorch;  // not compiled with the model in 2024
  Parallel fsdp{.zero_stage = 3};
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
  fsdp.sequence_parallel = fsdp.dtensor = true;
  CHECK(reserved(llama3_70b(), plan_of(llama3_70b(), fsdp, titan, 32)) == Approx(71.9).epsilon(0.05));
  fsdp.tp_comm_overlap = true;
  CHECK(reserved(llama3_70b(), plan_of(llama3_70b(), fsdp, titan, 32)) == Approx(67.6).epsilon(0.05));
}
