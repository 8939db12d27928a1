// Rows that say the same in other words: each table lists spellings and what they must mean.
#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "tests/accuracy/rows/one_row.hpp"
#include "tools/accuracy/rows/cell_words.hpp"
#include "tools/accuracy/validate.hpp"

using namespace tracecast;
using namespace tracecast::accuracy;
using tracecast::test::assumes;
using tracecast::test::row;

namespace {

/// Of the row with this cell.
Scenario with(const std::string& column, const std::string& cell) {
  INFO(column << " = " << cell);
  const Result<RowScenario> read = row("," + column, ",\"" + cell + "\"");
  INFO((read ? "" : to_string(read.error().diagnostics.front())));
  REQUIRE(read.has_value());
  return read->scenario;
}

/// A mixture of experts over 8 ranks, with more columns.
RowScenario experts(const std::string& columns, const std::string& values) {
  const Result<RowScenario> read = row(",ep,moe_experts,moe_topk,moe_ffn_hidden" + columns, ",8,8,2,1024" + values);
  INFO(columns << values << (read ? "" : to_string(read.error().diagnostics.front())));
  REQUIRE(read.has_value());
  return *read;
}

std::string skipped(const std::string& columns, const std::string& values) {
  const std::string text =
      std::string(test::kNeeded) + columns + "\n32,4096,32,11008,32000,4096,128,H100,16" + values + "\n";
  const CsvTable table = CsvTable::parse(text, "t.csv").value();
  return validate(table, RowLibrary::open(shipped_data()).value(), {}).value().front().skipped;
}

}  // namespace

TEST_CASE("row spelling: a placeholder is an empty field", "[accuracy]") {
  const Scenario empty = with("notes", "");
  for (const char* cell : {"-", "\u2013", "n/a", "N/A", "na", "null", "NaN", "unknown", "not printed", "Not reported",
                           "?", "auto", "none"}) {
    for (const char* column : {"vp", "cp", "dp", "etp", "gpu_mem_gb", "gpus_per_node", "moe_experts", "seq_parallel",
                               "distributed_optimizer", "tp_comm_overlap", "moe_a2a_overlap", "zero_stage"}) {
      const Scenario read = with(column, cell);
      CHECK(read.parallel == empty.parallel);
      CHECK(read.model == empty.model);
    }
    if (std::string(cell) != "none")
      for (const char* column : {"cuda_graph", "compiled", "moe_dispatcher", "routing", "precision", "schedule"})
        CHECK(with(column, cell).training == empty.training);
  }
  for (const char* one : {"0", "1", "-", "dense"}) CHECK_FALSE(with("moe_experts", one).model.moe.has_value());
  CHECK_FALSE(with("cuda_graph", "eager").training.cuda_graphs);
  CHECK(row(",framework,zero_stage", ",torchtitan,none").value().scenario.parallel.zero_stage == 0);
  CHECK(experts(",framework,moe_dispatcher", ",Megatron-Core 0.15,n/a").scenario.parallel.moe_dispatcher ==
        MoeDispatcher::deepep);
}

TEST_CASE("row spelling: what is in scope", "[accuracy]") {
  for (const char* note : {"design-space exploration", "exploratory run", "no LoRA", "LoRA: none"})
    CHECK(skipped(",notes", fmt::format(",{}", note)).empty());
  for (const char* note : {"LoRA", "QLoRA rank 16", "DoRA adapters"})
    CHECK(skipped(",notes", fmt::format(",{}", note)).starts_with("adapters"));
  for (const char* values :
       {",pretraining,success", ",Pre-training,OK", ",fine-tuning,Completed", ",SFT,OOM", ",-,n/a"})
    CHECK(skipped(",task,outcome", values).empty());
  CHECK(skipped(",task", ",inference").starts_with("task"));
  CHECK(usual_word("outcome", "OOM") == "oom");
  CHECK(usual_word("outcome", "Out of memory") == "oom");
  CHECK(usual_word("task", "Fine-Tuning") == "sft");
}

TEST_CASE("row spelling: the stack does not depend on capitals, or on the words of arch", "[accuracy]") {
  for (const char* arch : {"moe", "", "MoE", "sparse", "Mixture-of-Experts", "dense"})
    CHECK(experts(",framework,arch", fmt::format(",Megatron-Core 0.15,{}", arch)).stack == "megatron-moe");
  for (const char* arch : {"dense", "Dense", "DENSE", ""})
    CHECK(row(",framework,arch", fmt::format(",NeMo AutoModel,{}", arch)).value().stack == "nemo-automodel-dense");
  for (const char* task : {"sft", "SFT", "fine-tuning"})
    CHECK(row(",framework,task", fmt::format(",NeMo 24.07,{}", task)).value().stack == "nemo-2024-fine-tuning");
  CHECK_FALSE(row(",arch", ",MoE").has_value());  // without the number of experts
}

TEST_CASE("row spelling: Megatron with experts is that of its version", "[accuracy]") {
  struct Case {
    const char *framework, *stack;
    MoeDispatcher dispatcher;
  };
  for (const Case& each : {Case{"Megatron-Core 0.15", "megatron-moe", MoeDispatcher::deepep},
                           Case{"Megatron-LM (Megatron-Core 0.15)", "megatron-moe", MoeDispatcher::deepep},
                           Case{"Megatron-LM core_v0.15.0", "megatron-moe", MoeDispatcher::deepep},
                           Case{"Megatron-LM / Megatron-Core 0.16", "megatron-moe", MoeDispatcher::deepep},
                           Case{"Megatron-Core", "megatron-moe", MoeDispatcher::deepep},
                           Case{"Megatron-Core 0.11", "megatron-lm-2024", MoeDispatcher::alltoall},
                           Case{"Megatron-LM core_r0.11", "megatron-lm-2024", MoeDispatcher::alltoall},
                           Case{"Megatron-Core 0.8", "megatron-core-2024", MoeDispatcher::alltoall}}) {
    INFO(each.framework);
    const RowScenario read = experts(",framework", fmt::format(",{}", each.framework));
    CHECK(read.stack == each.stack);
    CHECK(read.scenario.parallel.moe_dispatcher == each.dispatcher);
    CHECK(assumes(read, fmt::format("dispatcher of experts not reported: {}", to_string(each.dispatcher))));
  }
}

TEST_CASE("row spelling: a note names or denies the dispatcher of experts", "[accuracy]") {
  struct Case {
    const char* note;
    MoeDispatcher dispatcher;
  };
  for (const Case& each :
       {Case{"alltoall dispatcher", MoeDispatcher::alltoall}, Case{"AlltoAll", MoeDispatcher::alltoall},
        Case{"all2all", MoeDispatcher::alltoall}, Case{"allgather dispatcher", MoeDispatcher::alltoall},
        Case{"DeepEP is not used", MoeDispatcher::alltoall}, Case{"DeepEP disabled", MoeDispatcher::alltoall},
        Case{"DeepEP replaced with all-to-all", MoeDispatcher::alltoall},
        Case{"does not use DeepEP", MoeDispatcher::alltoall}, Case{"Hybrid-EP", MoeDispatcher::hybridep},
        Case{"Hybrid EP dispatcher", MoeDispatcher::hybridep},
        Case{"all-to-all replaced by DeepEP", MoeDispatcher::deepep}, Case{"", MoeDispatcher::deepep}}) {
    INFO(each.note);
    CHECK(experts(",framework,notes", fmt::format(",Megatron-Core,{}", each.note)).scenario.parallel.moe_dispatcher ==
          each.dispatcher);
  }
}

TEST_CASE("row spelling: denials stand behind whole words and verbs", "[accuracy]") {
  for (const char* denied :
       {"token dropping disabled", "token dropping off", "token dropping: none", "token-dropless", "no token dropping",
        "token drop is not used", "token drop = 0", "aux loss instead of token dropping", "token drop=false"})
    CHECK(mentioned(denied, "token drop") == false);
  for (const char* affirmed : {"token dropping", "token-drop", "with token drop, not capped", "token drop 0.5"})
    CHECK(mentioned(affirmed, "token drop") == true);
  CHECK_FALSE(mentioned("broken drops", "token drop").has_value());

  for (const char* off :
       {"CUDA graphs not enabled", "CUDA graphs are off", "CUDA graphs were not used", "CUDA graphs=off"})
    CHECK_FALSE(with("notes", off).training.cuda_graphs);
  for (const char* off : {"activation offloading disabled", "optimizer offloading disabled", "AdamW instead of Muon"}) {
    CHECK_FALSE(with("notes", off).training.offload_activations);
    CHECK_FALSE(with("notes", off).training.offload_optimizer);
    CHECK(with("notes", off).training.optimizer == OptimizerKind::adam);
  }
  CHECK(with("notes", "CPU offload of activations").training.offload_activations);
  CHECK(with("notes", "optimizer-cpu-offload").training.offload_optimizer);
  for (const char* none : {"MTP layers disabled", "MTP layers: 0", "MTP layer not included", "MTP layer excluded"})
    CHECK(with("notes", none).model.mtp_layers == 0);
}

TEST_CASE("row spelling: overlap, graphs, multi-token prediction and dropped tokens in notes", "[accuracy]") {
  for (const char* note : {"EP A2A overlap on", "expert-exchange overlap on", "overlap_moe_expert_parallel_comm",
                           "EP communication overlap"})
    CHECK(experts(",framework,notes", fmt::format(",Megatron-Core,{}", note)).scenario.parallel.pp_schedule ==
          "combined-1f1b");
  CHECK(experts(",framework,notes", ",Megatron-Core,EP A2A overlap off").scenario.parallel.pp_schedule !=
        "combined-1f1b");
  for (const char* note : {"MTP=1", "MTP enabled", "MTP on", "mtp_num_layers=1", "MTP layers: 1"})
    CHECK(with("notes", note).model.mtp_layers == 1);
  for (const char* note : {"MTP=0", "MTP is off", "mtp_num_layers=0"}) CHECK(with("notes", note).model.mtp_layers == 0);
  CHECK(with("notes", "CUDA graph").training.cuda_graphs);
  for (const char* note : {"full CUDA graph", "full iteration CUDA graphs", "full-iteration CUDA graph"})
    CHECK(experts(",notes", fmt::format(",{}", note)).scenario.training.cuda_graphs);
  for (const char* note : {"token-drop", "tokens dropped", "drop-and-pad"})
    CHECK(experts(",notes", fmt::format(",{}", note)).scenario.training.expert_capacity_factor == 1);
  const auto overlaps = [](const char* note) {
    return row(",framework,tp,seq_parallel,notes", fmt::format(",torchtitan,8,1,{}", note))
        .value()
        .scenario.parallel.tp_comm_overlap;
  };
  CHECK(overlaps("async TP"));
  CHECK_FALSE(overlaps("without async TP"));
}

TEST_CASE("row spelling: FSDP and ZeRO++ in the name of a framework", "[accuracy]") {
  struct Case {
    const char *framework, *stack;
  };
  for (const Case& each :
       {Case{"Megatron-Bridge (Megatron-FSDP)", "megatron-bridge"},
        Case{"Megatron-LM (Megatron-FSDP)", "megatron-fsdp"}, Case{"Megatron-Core custom FSDP", "megatron-fsdp"},
        Case{"DeepSpeed ZeRO++", "deepspeed"}, Case{"Primus Megatron (FSDP)", "primus-megatron-fsdp"}}) {
    const RowScenario read = row(",framework", fmt::format(",{}", each.framework)).value();
    INFO(each.framework);
    CHECK(read.stack == each.stack);
    CHECK(read.scenario.parallel.zero_stage == 3);
  }
  for (const char* stage : {"3", "ZeRO-3", "fsdp3", "FULL_SHARD", "FSDP"})
    CHECK(row(",framework,zero_stage", fmt::format(",Primus Megatron,{}", stage)).value().stack ==
          "primus-megatron-fsdp");
  CHECK(row(",framework,zero_stage", ",Primus Megatron,1").value().stack == "primus-megatron");
  for (const char* rocm : {"ROCm Megatron-LM", "Megatron-LM (ROCm)", "rocm/megatron-lm:v25.8_py310"})
    CHECK(row(",framework", fmt::format(",{}", rocm)).value().stack == "rocm-megatron");
}

TEST_CASE("row spelling: data parallelism is what the other degrees leave", "[accuracy]") {
  for (const char* values : {",4,2,2,2", ",1,1,1,4"}) {  // context ranks counted in; shards of copies
    const RowScenario read = row(",tp,cp,pp,dp", values).value();
    CHECK(read.scenario.parallel.dp ==
          16 / (read.scenario.parallel.tp * read.scenario.parallel.pp * read.scenario.parallel.cp));
    CHECK(assumes(read, "as the GPUs and the other degrees say"));
  }
  CHECK_FALSE(assumes(row(",tp,dp", ",4,4").value(), "as the GPUs and the other degrees say"));
}

TEST_CASE("row spelling: schedules with chunks of their own", "[accuracy]") {
  struct Case {
    const char *schedule, *vp, *name;
    int chunks;
  };
  for (const Case& each :
       {Case{"dualpipe", "2", "dualpipe", 1}, Case{"GPipe", "2", "gpipe", 1}, Case{"ZB-H1", "4", "zb-h1", 1},
        Case{"DualPipe-V", "", "dualpipev", 2}, Case{"dualpipe_v", "2", "dualpipev", 2}, Case{"v_min", "", "v-min", 2},
        Case{"1F1B", "2", "interleaved-1f1b", 2}, Case{"zb_1p", "", "zb-auto-1p", 1},
        Case{"interleaved_zero_bubble", "2", "interleaved-zb", 2}, Case{"VPP=4", "", "interleaved-1f1b", 4}}) {
    INFO(each.schedule);
    const RowScenario read = row(",pp,schedule,vp", fmt::format(",4,{},{}", each.schedule, each.vp)).value();
    CHECK(read.scenario.parallel.pp_schedule == each.name);
    CHECK(read.scenario.parallel.vpp == each.chunks);
    const bool other = *each.vp != '\0' && each.chunks != std::stoi(each.vp);
    CHECK(assumes(read, "virtual stages") == other);
    CHECK_FALSE(assumes(read, "is not known"));
  }
  const RowScenario guessed = row(",pp,schedule", ",4,interleaved_zero_bubble").value();
  CHECK(guessed.scenario.parallel.vpp == 8);
  CHECK(guessed.scenario.parallel.pp_schedule == "interleaved-zb");
  CHECK(assumes(guessed, "virtual stages not reported: one layer each"));
}

TEST_CASE("row spelling: layers that are recomputed", "[accuracy]") {
  struct Case {
    const char *recompute, *detail;
    int layers;  ///< of each of 2 stages of 2 chunks of 8 layers; 0: all
    bool spread = false;
  };
  for (const Case& each : {Case{"full", "block, 1 layer per virtual stage", 1},
                           Case{"full", "recompute_num_layers 2 (block)", 2},
                           Case{"full", "full on 1 layers of each stage", 1},
                           Case{"full", "block, 5", 5},
                           Case{"full (block, 3 layers)", "", 3},
                           Case{"full", "8 of 32 layers", 2, true},
                           Case{"full", "full for 16 of the 32 layers", 4, true},
                           Case{"full", "every 2nd layer", 4},
                           Case{"full", "every 4th layer", 2},
                           Case{"full", "uniform, 1", 0},
                           Case{"full", "uniform, one layer per block", 0},
                           Case{"full", "1 layer per checkpoint", 0},
                           Case{"full", "recompute_num_layers=1", 0},
                           Case{"full", "32 layers", 0},
                           Case{"full (1 layer)", "", 0},
                           Case{"uniform", "", 0},
                           Case{"full", "all but 2 layers", 0},
                           Case{"full on 3 layers of each stage", "", 3},
                           Case{"partial_layers", "full on 1 layers of each stage", 1},
                           Case{"partial_layers", "5 layers per stage", 5},
                           Case{"partial_layers", "block, 5 layers", 5},
                           Case{"partial_layers", "recompute_num_layers=5", 5},
                           Case{"partial_layers", "full for 20 of 32 layers", 5, true},
                           Case{"partial_layers", "first 8 layers", 2, true},
                           Case{"partial_layers", "two layers per stage", 2},
                           Case{"16/32 layers", "", 4, true},
                           Case{"full on 16/32 layers", "", 4, true},
                           Case{"full (16 layers)", "", 4, true},
                           Case{"full recompute of 16 layers", "", 4, true},
                           Case{"full", "16/32", 4, true},
                           Case{"full", "first 16 layers", 4, true},
                           Case{"full", "50%", 4, true},
                           Case{"partial_layers", "layers 0-15", 4, true},
                           Case{"partial_layers", "4 layers per vp stage", 4},
                           Case{"partial_layers", "50%", 4, true},
                           Case{"full", "50% of the layers", 4, true},
                           Case{"full", "every layer, costs 30% more FLOPs", 0},
                           Case{"full", "uses 60% of memory", 0},
                           Case{"full", "measured on 8/16 nodes", 0},
                           Case{"full", "(batch 1/4)", 0},
                           Case{"", "block, 2 layers", 2}}) {
    INFO(each.recompute << ": " << each.detail);
    const RowScenario read = row(",framework,pp,vp,recompute,recompute_detail",
                                 fmt::format(",Megatron-Core,2,2,\"{}\",\"{}\"", each.recompute, each.detail))
                                 .value();
    CHECK(read.scenario.training.recompute == Recompute::full);
    CHECK(read.scenario.training.recompute_num_layers == each.layers);
    CHECK(assumes(read, "spread evenly over the stages") == each.spread);
  }
}

TEST_CASE("row spelling: modules that are recomputed are whole words, also of the field itself", "[accuracy]") {
  const auto training = [](const char* framework, const std::string& recompute, const std::string& detail) {
    return row(",framework,recompute,recompute_detail", fmt::format(",{},\"{}\",\"{}\"", framework, recompute, detail))
        .value();
  };
  struct Case {
    const char *recompute, *detail;
    Recompute kind;
    std::vector<std::string> modules;
  };
  const std::vector<std::string> norm{"norm"}, none;
  for (const Case& each :
       {Case{"selective_other", "selective activation checkpointing (of attention)", Recompute::selective, none},
        Case{"selective_other", "core attention", Recompute::selective, none},
        Case{"selective_other", "exactly the norm", Recompute::none, norm},
        Case{"selective", "layernorm, moe_act", Recompute::none, {"norm", "activation"}},
        Case{"selective", "", Recompute::selective, none}, Case{"moe_act", "", Recompute::none, {"activation"}},
        Case{"layernorm, mlp", "", Recompute::none, {"norm", "mlp"}},
        Case{"shared_experts, moe_act", "", Recompute::none, {"activation", "shared_experts"}},
        Case{"mla_up_proj", "", Recompute::none, {"mla_up"}}, Case{"mlp", "", Recompute::none, {"mlp"}},
        Case{"", "core_attn", Recompute::selective, none}, Case{"", "full", Recompute::full, none}}) {
    INFO(each.recompute << ": " << each.detail);
    const RowScenario read = training("Megatron-Core", each.recompute, each.detail);
    CHECK(read.scenario.training.recompute == each.kind);
    CHECK(read.scenario.training.recompute_modules == each.modules);
    CHECK_FALSE(read.guess_recompute);
  }
  CHECK(assumes(training("Megatron-Core", "mlp", ""), "recomputation of 'mlp': mlp"));
  CHECK(training("torchtitan", "selective_other", "selective activation checkpointing").scenario.training.recompute ==
        Recompute::selective_op);
  CHECK(training("torchtitan", "selective", "every 2nd layer").scenario.training.recompute_num_layers == 16);
  CHECK(training("Megatron-Core", "full", "optimal").scenario.training.recompute == Recompute::full);
  CHECK(training("Megatron-Core", "", "recipe default").guess_recompute);
  CHECK(training("Megatron-Core", "", "not printed (recipe default)").guess_recompute);
}

TEST_CASE("row spelling: yes and no by the name of a kernel, a compiler or an activation", "[accuracy]") {
  const auto training = [](const char* framework, const char* column, const char* cell) {
    return row(fmt::format(",framework,{}", column), fmt::format(",{},{}", framework, cell)).value().scenario.training;
  };
  for (const char* fused : {"FA3", "FlashAttention-2", "cuDNN", "TE", "yes (FA2)", "sdpa"})
    CHECK(training("Our Trainer", "flash_attention", fused).flash_attention);
  for (const char* unfused : {"eager", "no (eager)", "unfused", "without flash attention"})
    CHECK_FALSE(training("Megatron-Core", "flash_attention", unfused).flash_attention);
  for (const char* compiler : {"XLA", "inductor", "jit", "max-autotune", "torch.compile"})
    CHECK(training("Our Trainer", "compiled", compiler).compiled);
  for (const char* eager : {"eager", "not compiled", "no torch.compile"})
    CHECK_FALSE(training("torchtitan", "compiled", eager).compiled);
  CHECK(with("gated_mlp", "SwiGLU").model.gated());
  for (const char* plain : {"GELU", "squared ReLU"}) CHECK_FALSE(with("gated_mlp", plain).model.gated());
  for (const char* column : {"flash_attention", "compiled", "gated_mlp"})
    CHECK(assumes(row(fmt::format(",{}", column), ",perhaps").value(),
                  fmt::format("{} 'perhaps' is neither yes nor no", column)));
}

TEST_CASE("row spelling: scales, gradients and four bits", "[accuracy]") {
  const auto read = [](const std::string& framework, const std::string& gpu, const std::string& precision,
                       const std::string& detail) {
    const std::string text =
        std::string(test::kNeeded) + ",framework,precision,precision_detail\n" +
        fmt::format("32,4096,32,11008,32000,4096,128,{},16,{},{},\"{}\"\n", gpu, framework, precision, detail);
    const CsvTable table = CsvTable::parse(text, "t.csv").value();
    return scenario_of_row(table, 0, RowLibrary::open(shipped_data()).value()).value();
  };
  const auto gradients = [&](const char* framework, const char* detail) {
    return read(framework, "H100", "bf16", detail).scenario.training.grad_reduce_dtype;
  };
  struct Case {
    const char *precision, *detail;
    Precision read;
  };
  for (const Case& each :
       {Case{"fp8", "block-wise", Precision::fp8_block}, Case{"fp8", "block scaling", Precision::fp8_block},
        Case{"fp8", "1x128 and 128x128", Precision::fp8_block}, Case{"fp8", "tile-wise", Precision::fp8_block},
        Case{"fp8", "DeepSeek-style fine-grained", Precision::fp8_block}, Case{"fp8", "mx", Precision::mxfp8},
        Case{"MX FP8", "", Precision::mxfp8}, Case{"fp8", "no block scaling", Precision::fp8},
        Case{"bf16 (fp8 off)", "", Precision::bf16}, Case{"fp8", "first and last blocks in bf16", Precision::fp8}})
    CHECK(read("Megatron-Core", "H100", each.precision, each.detail).scenario.training.dtype == each.read);
  for (const char* wide : {"FP32 gradients", "(fp32 grad accumulation)", "accumulate_allreduce_grads_in_fp32",
                           "reduce in fp32", "fp32 reduction"})
    CHECK(gradients("Megatron-Core", wide) == Precision::fp32);
  for (const char* narrow : {"bf16 gradients", "grad_reduce_in_bf16", "--grad-reduce-in-bf16", "bf16 reduce",
                             "reduce_dtype=bf16", "reduce_dtype=bfloat16", "grads reduced in bf16"})
    CHECK(gradients("Megatron-LM (2024)", narrow) == Precision::bf16);
  CHECK(gradients("Megatron-LM (2024)", "no bf16 gradients") == Precision::fp32);
  const RowScenario four_bits = read("Megatron-Core", "MI355X", "mxfp4", "");
  CHECK(four_bits.scenario.training.dtype == Precision::nvfp4);
  CHECK(assumes(four_bits, "mxfp4: as nvfp4"));
}

TEST_CASE("row spelling: the router of experts", "[accuracy]") {
  const auto routing = [](const char* cell, const char* note) {
    return experts(",routing,notes", fmt::format(",{},{}", cell, note));
  };
  for (const char* note : {"real router", "real routing", "natural routing"})
    CHECK(routing("", note).scenario.training.expert_routing == ExpertRouting::skewed);
  CHECK(routing("real router", "").scenario.training.expert_routing == ExpertRouting::skewed);
  for (const char* cell : {"forced", "force balanced", "not printed", "uniform"}) {
    CHECK(routing(cell, "").scenario.training.expert_routing != ExpertRouting::skewed);
    CHECK_FALSE(assumes(routing(cell, ""), "is not known"));
  }
  CHECK(assumes(routing("round robin", ""), "routing 'round robin' is not known: experts equally loaded"));
}

TEST_CASE("row spelling: data parallelism without shards", "[accuracy]") {
  for (const auto& [column, cell] :
       {std::pair{"parallel_style", "ddp"}, std::pair{"parallel_style", "NO_SHARD"}, std::pair{"zero_stage", "ddp"},
        std::pair{"notes", "torch DDP"}, std::pair{"notes", "DistributedDataParallel"}}) {
    INFO(column << " = " << cell);
    const Scenario read = row(std::string(",framework,") + column, std::string(",PyTorch,") + cell).value().scenario;
    CHECK(read.parallel.zero_stage == 0);
  }
  CHECK(row(",framework,parallel_style", ",PyTorch,fsdp3").value().scenario.parallel.zero_stage == 3);
  for (const char* stage : {"stage3", "stage-3", "stage 3"}) CHECK(with("zero_stage", stage).parallel.zero_stage == 3);
}

TEST_CASE("row spelling: the kernel of attention", "[accuracy]") {
  const auto kernel = [](const std::string& column, const std::string& cell) {
    return row(",framework," + column, ",torchtitan," + cell).value().scenario.training.attention_kernel;
  };
  CHECK(kernel("flash_attention", "1").empty());
  CHECK(kernel("flash_attention", "FA2").empty());  // the stack's
  CHECK(kernel("flash_attention", "FA3") == "fa3");
  CHECK(kernel("notes", "FlashAttention-3") == "fa3");
  CHECK(kernel("flash_attention", "cuDNN") == "cudnn");
  CHECK(kernel("notes", "cuDNN 9.1").empty());  // not only attention uses it
  CHECK(row(",framework,flash_attention,notes", ",torchtitan,FA3,with FA2 it is 5 % slower")
            .value()
            .scenario.training.attention_kernel == "fa3");
  CHECK(assumes(row(",flash_attention", ",aiter").value(), "attention kernel aiter: the profile has none"));
}

TEST_CASE("row spelling: layers of stages as numbers", "[accuracy]") {
  const auto layout = [](const std::string& column, const std::string& cell) {
    return row(",pp,vp,schedule," + column, ",4,1,1f1b,\"" + cell + "\"").value();
  };
  for (const char* cell : {"7,8,8,9", "[7, 8, 8, 9]", "7-8-8-9"})
    for (const char* column : {"pp_layout", "pipeline_split"})
      CHECK(layout(column, cell).scenario.parallel.pp_layout == std::vector<int>{7, 8, 8, 9});
  for (const char* cell : {"7,8,8", "7,8,8,8", "nonsense"}) {
    CHECK(layout("pp_layout", cell).scenario.parallel.pp_layout.empty());
    CHECK(assumes(layout("pp_layout", cell), "is not one of 32 layers on 4 virtual stages"));
  }
}

TEST_CASE("row spelling: ranks of experts that are not reported", "[accuracy]") {
  const auto read = [](const std::string& framework) {
    return row(",framework,moe_experts,moe_topk,moe_ffn_hidden", "," + framework + ",64,2,1024").value();
  };
  CHECK(read("Megatron-Core 0.15").scenario.parallel.ep == 8);
  CHECK(read("PyTorch FSDP").scenario.parallel.ep == 1);
  CHECK(row(",framework,tp,pp,moe_experts,moe_topk,moe_ffn_hidden", ",Megatron-LM (2024),4,2,8,2,1024")
            .value()
            .scenario.parallel.ep == 2);  // each expert is divided by four
  CHECK(row(",framework,tp,moe_experts,moe_topk,moe_ffn_hidden", ",Megatron-Core 0.15,2,7,2,1024")
            .value()
            .scenario.parallel.etp == 0);  // no number of ranks divides seven experts
  for (const char* framework : {"Megatron-Core 0.15", "PyTorch FSDP"}) {
    CHECK(read(framework).guessed_layout);
    CHECK(assumes(read(framework), "expert-parallel degree not reported"));
  }
}

TEST_CASE("row spelling: models of other kinds are refused or said", "[accuracy]") {
  for (const char* arch : {"encoder-decoder", "ssm", "diffusion"})
    CHECK_FALSE(skipped(",arch", fmt::format(",{}", arch)).empty());
  CHECK_FALSE(skipped(",attention_kind", ",linear").empty());
  CHECK(assumes(row(",arch", ",vlm").value(), "arch 'vlm': as a decoder"));
  CHECK(assumes(row(",attention_kind", ",sparse").value(), "attention 'sparse' is not known"));
  for (const char* kind : {"sliding window 4096", "window of 4k", "window 4,096"}) {
    CHECK(with("attention_kind", kind).model.sliding_window == 4096);
    CHECK(assumes(row(",attention_kind", fmt::format(",\"{}\"", kind)).value(),
                  "a window of 4096 tokens in every layer"));
  }
  CHECK(skipped(",arch", ",dense (no SSM layers)").empty());
  CHECK(skipped(",attention_kind", ",\"gqa, linear scaling RoPE\"").empty());
}

TEST_CASE("row spelling: racks of other sizes", "[accuracy]") {
  const auto domain = [](const std::string& gpu) {
    const std::string text = std::string(test::kNeeded) + "\n32,4096,32,11008,32000,4096,128," + gpu + ",144\n";
    const CsvTable table = CsvTable::parse(text, "t.csv").value();
    return scenario_of_row(table, 0, RowLibrary::open(shipped_data()).value()).value().scenario.cluster.node.gpus;
  };
  CHECK(domain("GB200 NVL72") == 72);
  CHECK(domain("GB200 NVL36") == 36);
  CHECK(domain("GB200 NVL4") == 4);
  const std::string text =
      std::string(test::kNeeded) + ",intra_node_link\n32,4096,32,11008,32000,4096,128,GB200,144,NVLink 5 (NVL36x2)\n";
  const CsvTable table = CsvTable::parse(text, "t.csv").value();
  CHECK(scenario_of_row(table, 0, RowLibrary::open(shipped_data()).value()).value().scenario.cluster.node.gpus == 36);
}

TEST_CASE("row spelling: numbers, schedules, graphs and words of precision", "[accuracy]") {
  CHECK_FALSE(skipped(",kv_heads", ",8k").empty());
  const auto chunks = [](const char* schedule) {
    return row(",pp,schedule", fmt::format(",4,\"{}\"", schedule)).value().scenario.parallel.vpp;
  };
  CHECK(chunks("interleaved 1f1b (2 virtual stages)") == 2);
  CHECK(chunks("interleaved 1f1b (16 micro-batches, 4 virtual stages)") == 4);
  CHECK(chunks("interleaved (pp 4, vpp 2)") == 2);
  CHECK(chunks("1F1B (interleaved)") == chunks("1F1B-interleaved"));
  CHECK(row(",pp,schedule", ",4,zero-bubble V").value().scenario.parallel.pp_schedule == "zb-v");
  for (const char* whole : {"full", "full-iter", "whole step"}) CHECK(with("cuda_graph", whole).training.cuda_graphs);
  for (const char* mixed : {"amp", "mixed"}) CHECK(with("precision", mixed).training.dtype == Precision::bf16);
  CHECK(with("precision", "16-mixed").training.dtype == Precision::fp16);
  CHECK(with("precision", "16").training.dtype == Precision::fp16);
  CHECK(with("precision", "float32").training.dtype == Precision::fp32);
  // Several times as fast as fp32, whose rates are without it.
  CHECK(skipped(",precision", ",TF32") ==
        "precision: TF32 is not modelled, and fp32 is without it (allowed: fp32 fp16 bf16 fp8 fp8_block mxfp8 nvfp4)");
  CHECK_FALSE(skipped(",precision,precision_detail", ",fp32,TF32 multiplications").empty());
  CHECK(with("precision_detail", "TF32 outside autocast").training.dtype == Precision::bf16);
  CHECK(with("precision", "e4m3").training.dtype == Precision::fp8);
  for (const char* other : {"example", "fp32 mixed", "mixed fp32/tf32"})
    CHECK_FALSE(skipped(",precision", fmt::format(",{}", other)).empty());
  CHECK(with("precision_detail", "gradients all-reduced in fp32").training.grad_reduce_dtype == Precision::fp32);
  CHECK(with("precision_detail", "reduce_dtype=fp32").training.grad_reduce_dtype == Precision::fp32);
  CHECK(row(",precision,precision_detail", ",fp8,enable_fsdp_float8_all_gather")
            .value()
            .scenario.training.fp8_param_gather);
  CHECK(assumes(row(",precision", ",nvfp4").value(), "has no arithmetic in nvfp4: the rate of bf16 is taken"));
  CHECK(assumes(row(",precision", ",mxfp8").value(), "has no arithmetic in mxfp8: the rate of fp8 is taken"));
  for (const char* known : {"fp8", "fp8_block"})
    CHECK_FALSE(assumes(row(",precision", fmt::format(",{}", known)).value(), "no arithmetic"));
  for (const char* released : {"NeMo 1.23", "NeMo 2.0", "NeMo-Megatron"})
    CHECK(row(",framework", fmt::format(",{}", released)).value().stack == "nemo-2024");
  CHECK(row(",framework", ",NeMo 2.3").value().stack == "nemo-2025");
  CHECK(experts(",framework,routing", ",Megatron-Core 0.15,learned").scenario.training.expert_routing ==
        ExpertRouting::skewed);
  CHECK(experts(",framework,routing", ",Megatron-Core 0.15,forced balance of a learned router")
            .scenario.training.expert_routing == ExpertRouting::even);
  CHECK(
      experts(",framework,notes", ",Megatron-Core 0.15,all-to-all replaces DeepEP").scenario.parallel.moe_dispatcher ==
      MoeDispatcher::alltoall);
  CHECK(experts(",framework,notes", ",Megatron-Core 0.15,tokens dropped (CF=1.25)")
            .scenario.training.expert_capacity_factor == 1.25);
  CHECK(experts(",framework,notes", ",Megatron-Core 0.15,token drop; capacity_factor: 1.5")
            .scenario.training.expert_capacity_factor == 1.5);
  CHECK(experts(",framework,notes", ",Megatron-Core 0.15,token drop; HBM capacity 8 TB")
            .scenario.training.expert_capacity_factor == 1);
  CHECK(row(",framework,task,notes", ",Megatron-Bridge,sft,not packed").value().scenario.model.sliding_window == 0);
  CHECK(row(",framework,task,notes", ",Megatron-Bridge,sft,packed; vocabulary padded to a multiple of 128")
            .value()
            .scenario.model.sliding_window > 0);
}
