#include "tools/accuracy/row_scenario.hpp"

#include <algorithm>
#include <cmath>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "tests/accuracy/one_row.hpp"

using namespace tracecast;
using namespace tracecast::accuracy;
using tracecast::test::assumes;
using tracecast::test::kNeeded;
using tracecast::test::row;

namespace {

/// The parallelism of a run of a model with experts; `values` of kColumnsWithExperts.
constexpr const char* kColumnsWithExperts =
    "layers,hidden,heads,vocab,seq_len,global_batch_seqs,gpu,gpu_count,framework,attention_kind,moe_experts,"
    "moe_topk,moe_ffn_hidden,pp,vp\n";
Parallel parallel_with_experts(const std::string& values) {
  const CsvTable table = CsvTable::parse(kColumnsWithExperts + values + "\n", "t.csv").value();
  return scenario_of_row(table, 0, RowLibrary::open(shipped_data()).value()).value().scenario.parallel;
}

}  // namespace

TEST_CASE("row: what is reported is used", "[accuracy]") {
  const RowScenario r = row(",framework,tp,pp,vp,micro_batch,precision,recompute,schedule,seq_parallel,zero_stage,id",
                            ",NeMo,2,4,2,2,fp8,full,interleaved_1f1b,1,1,mine")
                            .value();
  const Scenario& s = r.scenario;
  CHECK(s.name == "mine");
  CHECK(r.stack == "megatron-core");
  CHECK(s.model.num_layers == 32);
  CHECK(s.model.gated());
  CHECK(s.parallel.tp == 2);
  CHECK(s.parallel.vpp == 2);
  CHECK(s.parallel.pp_schedule == "interleaved-1f1b");
  CHECK(s.parallel.sequence_parallel);
  CHECK(s.parallel.zero_stage == 1);
  CHECK(s.training.micro_batch_size == 2);
  CHECK(s.training.dtype == Precision::fp8);
  CHECK(s.training.grad_reduce_dtype == Precision::bf16);  // the stack's
  CHECK(s.training.recompute == Recompute::full);
  CHECK(s.training.low_precision_activations == std::vector<std::string>{"linear_inputs"});  // the stack's, in 8 bit
  CHECK(row(",framework,precision", ",NeMo,bf16").value().scenario.training.low_precision_activations.empty());
  CHECK(s.topology == "dgx-h100");
  CHECK(s.profile.name == "h100");
  CHECK_FALSE(r.guessed_layout);
  CHECK_FALSE(r.guess_recompute);
}

TEST_CASE("row: ZeRO-2 of PyTorch's FSDP is SHARD_GRAD_OP, of other frameworks Megatron's", "[accuracy]") {
  const auto parallel = [](const char* framework) {
    return row(",framework,zero_stage", fmt::format(",{},2", framework)).value().scenario.parallel;
  };
  const Parallel fsdp = parallel("Composer/FSDP");
  CHECK(fsdp.zero_stage == 3);
  CHECK_FALSE(fsdp.reshard_after_forward);
  const Parallel megatron = parallel("Megatron-LM");
  CHECK(megatron.zero_stage == 2);
  CHECK(megatron.reshard_after_forward);
}

TEST_CASE("row: what recipes do that a source does not print", "[accuracy]") {
  const auto training = [](const char* columns, const char* values) {
    return row(columns, values).value().scenario.training;
  };
  const Training offloaded = training(",framework,notes", ",Megatron-Bridge 26.04,activation offload of 20 layers");
  CHECK(offloaded.offload_activations);
  CHECK(offloaded.offload_layers == 20);
  CHECK(training(",framework,notes", ",Megatron-Bridge 26.04,activation offload").offload_layers == 0);  // all
  const Training pax = training(",framework,precision_detail", ",Pax (JAX/XLA),TransformerEngine");
  CHECK(pax.recompute == Recompute::selective);
  CHECK(pax.recompute_modules == std::vector<std::string>{"norm", "activation"});
  CHECK(pax.flash_attention);
  CHECK_FALSE(training(",framework", ",Pax (JAX/XLA)").flash_attention);
  CHECK(training(",framework,notes", ",Megatron-Bridge 26.06,full-iteration CUDA graph").cuda_graphs);
  const auto zero_stage = [](const char* values) {
    return row(",framework,model_name,pp,zero_stage", values).value().scenario.parallel.zero_stage;
  };
  CHECK(zero_stage(",Megatron-Bridge 26.02,Llama-3-70B,1,1") == 3);
  CHECK(zero_stage(",Megatron-Bridge 26.02,Llama-3-70B,4,1") == 1);
  CHECK(zero_stage(",Megatron-Bridge 26.02,Llama-3-8B,1,1") == 1);
}

TEST_CASE("row: what Pax recomputes follows from the size of the model", "[accuracy]") {
  const auto recompute = [](const char* hidden) {
    const std::string text =
        std::string("layers,hidden,heads,vocab,seq_len,global_batch_seqs,gpu,gpu_count,framework\n12,") + hidden +
        ",12,51200,2048,256,A100,64,Pax (JAX/XLA)\n";
    const CsvTable table = CsvTable::parse(text, "t.csv").value();
    return scenario_of_row(table, 0, RowLibrary::open(shipped_data()).value()).value().scenario.training.recompute;
  };
  CHECK(recompute("768") == Recompute::none);
  CHECK(recompute("3072") == Recompute::selective);
  CHECK(recompute("12288") == Recompute::full);
}

TEST_CASE("row: what recipes of experts do that a source does not print", "[accuracy]") {
  // Columns behind those of the model: model_name, attention_kind, source, assumptions, notes.
  const auto scenario = [](const char* framework, const char* gpu, const char* behind) {
    const std::string text = fmt::format(
        "layers,hidden,heads,vocab,seq_len,global_batch_seqs,gpu_count,moe_experts,moe_topk,moe_ffn_hidden,framework,"
        "gpu,"
        "model_name,attention_kind,source,assumptions,notes\n"
        "4,2048,16,32000,4096,64,64,64,4,1024,{},{},{}\n",
        framework, gpu, behind);
    const CsvTable table = CsvTable::parse(text, "t.csv").value();
    return scenario_of_row(table, 0, RowLibrary::open(shipped_data()).value()).value().scenario;
  };
  CHECK(scenario("NeMo 25.07", "H100", "DeepSeek-V3,mla,,,").parallel.moe_dispatcher == MoeDispatcher::deepep);
  CHECK(scenario("NeMo 25.07", "GB200", "DeepSeek-V3,mla,,,").parallel.moe_dispatcher == MoeDispatcher::alltoall);
  CHECK(scenario("NeMo 25.07", "H100", "Mixtral,,,,").parallel.moe_dispatcher == MoeDispatcher::alltoall);
  CHECK(scenario("Megatron-Bridge 25.11", "H100", "DeepSeek-V3,mla,,,").training.recompute_modules ==
        std::vector<std::string>{"mla_up"});
  const auto routing = [&](const char* behind) {
    return scenario("Megatron-Core", "H100", behind).training.expert_routing;
  };
  CHECK(routing("Q,,,,tokens routed by the real router") == ExpertRouting::skewed);
  CHECK(routing("Q,,Zoo (real routing),,") == ExpertRouting::skewed);
  CHECK(routing("Q,,,,") != ExpertRouting::skewed);
  // Graphs that a table took from the next release: those of the recipes that drop tokens.
  const auto graphs = [&](const char* behind) {
    return scenario("Megatron-Bridge 25.09", "B200", behind).training.cuda_graphs;
  };
  CHECK(graphs("Qwen3-30B-A3B,,,graphs of the next release,token drop"));
  CHECK_FALSE(graphs("Qwen3-235B-A22B,,,graphs of the next release,token drop"));
  CHECK_FALSE(graphs("Qwen3-30B-A3B,,,,token drop"));
  CHECK(scenario("Megatron-Bridge 26.08", "H100", "Q,,,,CUDA graphs of router and preprocessing")
            .training.cuda_graph_modules == std::vector<std::string>{"moe_router"});
}

TEST_CASE("row: what is not reported is filled in and listed", "[accuracy]") {
  const RowScenario r = row("", "").value();
  CHECK(r.stack.empty());
  CHECK(r.scenario.training.micro_batch_size == 1);
  CHECK(r.guessed_layout);
  CHECK(r.guess_recompute);
  CHECK(assumes(r, "micro-batch not reported"));
  CHECK(assumes(r, "unknown software stack"));
  CHECK(assumes(r, "network between nodes not reported: dgx-h100"));
  CHECK(row(",num_microbatches", ",4").value().scenario.training.micro_batch_size == 2);  // 128 / (4 x 16)
}

TEST_CASE("row: layers that do not divide", "[accuracy]") {
  const auto cut = [](const char* layers_pp, const char* split) {
    const std::string text =
        "layers,hidden,heads,seq_len,global_batch_seqs,gpu,gpu_count,gated_mlp,pp,pipeline_split\n" +
        std::string(layers_pp) + "," + split + "\n";
    return scenario_of_row(CsvTable::parse(text, "t.csv").value(), 0, RowLibrary::open(shipped_data()).value())
        .value()
        .scenario.parallel;
  };
  CHECK(cut("30,1024,16,1024,64,A100,8,0,8", "even").account_for_loss);
  CHECK(cut("22,1024,16,1024,64,A100,8,0,8", "first_and_last_stage_one_layer_less").account_for_embedding);
  CHECK(cut("32,1024,16,1024,64,A100,8,0,8", "even") == [] {
    Parallel p;
    p.pp = 8;
    p.pp_layout.clear();
    return p;
  }());
  CHECK(cut("27,1024,16,1024,64,A100,8,0,8", "uneven").pp_layout == std::vector<int>{3, 4, 4, 4, 3, 3, 3, 3});
}

TEST_CASE("row: fabrics by GPU, memory and words", "[accuracy]") {
  const auto machine = [](const std::string& gpu, const std::string& more) {
    const std::string text =
        "layers,hidden,heads,seq_len,global_batch_seqs,gpu_count,gpu,gpu_mem_gb,inter_node_link,framework\n"
        "32,4096,32,4096,64,8," +
        gpu + "," + more + "\n";
    const Scenario s =
        scenario_of_row(CsvTable::parse(text, "t.csv").value(), 0, RowLibrary::open(shipped_data()).value())
            .value()
            .scenario;
    return s.topology + " " + s.profile.name;
  };
  CHECK(machine("A100", "80,4x Omni-Path 100Gb/s,") == "jean-zay a100");
  CHECK(machine("A100", "40,1600Gb/s RoCE per node,Composer/FSDP") == "hgx-a100-8x200g a100-40gb");
  CHECK(machine("A100", "40,not printed,") == "dgx-a100 a100-40gb");
  CHECK(machine("H100", "96,RDMA 400Gb/s per GPU,torchtitan") == "grand-teton h100-96gb-500w");
  CHECK(machine("GB200", "186,,NeMo") == "gb200-nvl72 gb200");
}

TEST_CASE("row: what cannot be forecast says why, with line and column", "[error][accuracy]") {
  const auto message = [](const std::string& columns, const std::string& values) {
    return to_string(row(columns, values).error());
  };
  CHECK(message(",tp", ",3") == "t.csv:2: gpu_count = 16: is not a multiple of tp x pp x cp = 3");
  CHECK(message(",precision", ",int3") ==
        "t.csv:2: precision = int3: unknown precision (allowed: fp32 fp16 bf16 fp8 fp8_block mxfp8 nvfp4)");
  CHECK(message(",routing", ",rael") == "t.csv:2: routing = rael: unknown routing (allowed: forced real)");
  CHECK(message(",micro_batch", ",many") == "t.csv:2: micro_batch = many: must be a number of at least 0");
  const CsvTable table = CsvTable::parse("layers,hidden\n4,\n", "t.csv").value();
  CHECK(to_string(scenario_of_row(table, 0, RowLibrary::open(shipped_data()).value()).error()) ==
        "t.csv:2: hidden: is not reported");
}

TEST_CASE("row: machines that lack something say what", "[error][accuracy]") {
  const auto message = [](const std::string& gpu_and_count, const std::string& more) {
    const std::string text =
        "layers,hidden,heads,seq_len,global_batch_seqs,gpu,gpu_count,intra_node_link,inter_node_link\n32,4096,32,4096,"
        "64," +
        gpu_and_count + "," + more + "\n";
    const auto read =
        scenario_of_row(CsvTable::parse(text, "t.csv").value(), 0, RowLibrary::open(shipped_data()).value());
    return read ? read->scenario.topology : to_string(read.error());
  };
  CHECK(message("H100,", ",") == "t.csv:2: gpu_count: is not reported");
  CHECK(message("abacus,8", ",") == "t.csv:2: gpu = abacus: unknown GPU: no machine has it");
  CHECK(message("A100,16", "PCIe Gen4,") == "t.csv:2: inter_node_link: must say how nodes of 8 GPUs are connected");
  CHECK(message("A100,16", "PCIe Gen4,2x HDR") == "rtx-pro-6000-pcie");
}

TEST_CASE("row: a node as reported, and listed", "[accuracy]") {
  const RowScenario r =
      row(",gpus_per_node,inter_node_link,framework", ",4,4x NDR200 per node,NVIDIA NeMo (25.02)").value();
  CHECK(r.scenario.cluster.node.gpus == 4);
  CHECK(r.scenario.cluster.node.nics == 4);
  CHECK(r.scenario.cluster.nodes() == 4);
  CHECK(assumes(r, "nodes of 4 GPUs and 4 NICs of 200 Gb/s"));
  CHECK(r.stack == "nemo-2025");
}

TEST_CASE("row: a batch that is not reported is what its micro-batches make", "[accuracy]") {
  const std::string text =
      "layers,hidden,heads,seq_len,gpu,gpu_count,tp,micro_batch,num_microbatches,precision\n32,4096,32,4096,H100,16,2,"
      "2,5,BF16\n";
  const RowScenario r =
      scenario_of_row(CsvTable::parse(text, "t.csv").value(), 0, RowLibrary::open(shipped_data()).value()).value();
  CHECK(r.scenario.training.global_batch_size == 2 * 5 * 8);
  CHECK(r.scenario.training.dtype == Precision::bf16);
}

TEST_CASE("row: jobs leave the trays of a rack idle that do not divide them", "[accuracy]") {
  const auto gpus_of_rack = [](const char* gpu, const char* count) {
    const std::string text = "layers,hidden,heads,seq_len,global_batch_seqs,gpu,gpu_count\n4,1024,16,1024,512," +
                             std::string(gpu) + "," + count + "\n";
    return scenario_of_row(CsvTable::parse(text, "t.csv").value(), 0, RowLibrary::open(shipped_data()).value())
        .value()
        .scenario.cluster.node.gpus;
  };
  CHECK(gpus_of_rack("GB200", "256") == 64);
  CHECK(gpus_of_rack("GB200", "144") == 72);
  CHECK(gpus_of_rack("GB200", "8") == 72);     // less than one
  CHECK(gpus_of_rack("GB200", "1006") == 72);  // nothing divides: as the rack is
  CHECK(gpus_of_rack("H100", "12") == 8);
}

TEST_CASE("row: GPT-like models have the dropout of their stack, others none", "[accuracy]") {
  CHECK(row(",framework,gated_mlp", ",Megatron-LM (2021),0").value().scenario.model.dropout == 0.1);
  CHECK(row(",framework,gated_mlp", ",Megatron-LM (2021),1").value().scenario.model.dropout == 0);
  CHECK(row(",framework,gated_mlp", ",NeMo,0").value().scenario.model.dropout == 0);
}

TEST_CASE("row: the dispatcher of a stack is for models with experts", "[accuracy]") {
  CHECK(row(",framework", ",Megatron-Bridge 25.11").value().scenario.parallel.moe_dispatcher ==
        MoeDispatcher::alltoall);
  CHECK(row(",framework,moe_experts,moe_topk,moe_ffn_hidden", ",Megatron-Bridge,8,2,1024")
            .value()
            .scenario.parallel.moe_dispatcher == MoeDispatcher::hybridep);
}

TEST_CASE("row: an unreported dispatcher is that of the release's recipes", "[accuracy]") {
  const auto dispatcher = [](const char* framework, const char* gpu, const char* experts) {
    return parallel_with_experts(fmt::format("4,4096,32,32000,4096,128,{},16,{},{},8,1024,,", gpu, framework, experts))
        .moe_dispatcher;
  };
  CHECK(dispatcher("Megatron-Bridge 25.11", "H100", ",128") == MoeDispatcher::alltoall);
  CHECK(dispatcher("Megatron-Bridge 26.02", "B200", ",128") == MoeDispatcher::alltoall);
  CHECK(dispatcher("Megatron-Bridge 25.11", "H100", "mla,256") == MoeDispatcher::deepep);  // DeepSeek-V3
  CHECK(dispatcher("Megatron-Bridge 25.11", "GB200", ",128") == MoeDispatcher::hybridep);  // NVLink between hosts
  CHECK(dispatcher("Megatron-Bridge 26.04", "H100", ",128") == MoeDispatcher::hybridep);
  CHECK(dispatcher("Megatron-Bridge", "H100", ",128") == MoeDispatcher::hybridep);
  CHECK(dispatcher("Megatron-Core (MoE dev)", "H100", ",128") == MoeDispatcher::deepep);
}

TEST_CASE("row: dropped tokens go by all-to-all, which overlaps with nothing", "[accuracy]") {
  const auto drops = [](const char* notes) {
    return row(",framework,moe_experts,moe_topk,moe_ffn_hidden,ep,moe_dispatcher,moe_a2a_overlap,notes",
               std::string(",Megatron-Bridge 25.09,8,2,1024,8,hybridep,True,") + notes)
        .value();
  };
  const RowScenario dropping = drops("MoE with token drop");
  CHECK(dropping.scenario.training.expert_capacity_factor == 1);
  CHECK(dropping.scenario.parallel.moe_dispatcher == MoeDispatcher::alltoall);
  CHECK(dropping.scenario.parallel.pp_schedule != "combined-1f1b");
  CHECK(assumes(dropping, "tokens are dropped"));
  CHECK(drops("").scenario.training.expert_capacity_factor == 0);
  CHECK(drops("").scenario.parallel.moe_dispatcher == MoeDispatcher::hybridep);
  CHECK(drops("").scenario.parallel.pp_schedule == "combined-1f1b");
}

TEST_CASE("row: parts of Qwen3 and DeepSeek-V3 that their tables leave out", "[accuracy]") {
  CHECK(row(",model_name", ",Qwen3-14B").value().scenario.model.qk_norm);
  CHECK_FALSE(row(",model_name", ",Llama-3-8B").value().scenario.model.qk_norm);

  const auto predicting = [](const char* columns, const char* values) {
    return row(columns, values).value().scenario.model.mtp_layers;
  };
  CHECK(predicting(",notes", ",MTP layer trained as well") == 1);
  CHECK(predicting(",assumptions", ",MTP layer assumed") == 1);
  CHECK(predicting(",notes", ",") == 0);
  // The launcher's layout takes precedence.
  CHECK(predicting(",pp,vp,pp_layout,notes", ",2,1,Et*16|t*16mL,") == 1);
  CHECK(predicting(",pp,vp,pp_layout,notes", ",2,1,Et*16|t*16L,MTP layer counted") == 0);

  const auto stages = [](const char* layers, int pp, int vp) {
    return parallel_with_experts(
               fmt::format("{},7168,128,129280,4096,512,H100,256,NeMo 25.07,mla,256,8,2048,{},{}", layers, pp, vp))
        .pp_layout;
  };
  CHECK(stages("61", 8, 1) == std::vector{8, 8, 8, 8, 8, 8, 8, 5});
  CHECK(stages("61", 4, 1) == std::vector{16, 16, 16, 13});
  CHECK(stages("61", 8, 2).back() == 1);
  CHECK(stages("61", 8, 4).back() == 0);
  CHECK(stages("61", 8, 4).front() == 1);
  CHECK(stages("60", 8, 1).back() == 7);  // another model
}

TEST_CASE("row: a pipeline of which only the depth is reported is interleaved where the stack overlaps messages",
          "[accuracy]") {
  const RowScenario core = row(",framework,pp,micro_batch", ",NeMo,4,1").value();
  CHECK(core.scenario.parallel.pp_schedule == "interleaved-1f1b");
  CHECK(core.scenario.parallel.vpp == 8);  // 32 layers, one each
  CHECK(core.guessed_layout);
  CHECK(row(",framework,pp", ",Megatron-LM (2021),4").value().scenario.parallel.pp_schedule !=
        "interleaved-1f1b");  // nothing overlaps
  CHECK(row(",framework,pp,vp", ",NeMo,4,1").value().scenario.parallel.pp_schedule != "interleaved-1f1b");  // reported
}

TEST_CASE("row: DeepSeek-V3 routes a token to 4 of 8 groups of experts, other models to any", "[accuracy]") {
  const auto limit = [](const char* values) {
    return row(",attention_kind,moe_experts,moe_topk,moe_ffn_hidden", values)
        .value()
        .scenario.model.moe->routing_group_limit;
  };
  CHECK(limit(",mla,256,8,2048") == 4);
  CHECK(limit(",mla,384,8,2048") == 0);  // Kimi K2
  CHECK(limit(",,256,8,2048") == 0);
}

TEST_CASE("row: what a note says about dispatcher and launches takes precedence over the stack", "[accuracy]") {
  const auto said = [](const std::string& stack, const std::string& note) {
    return row(",framework,notes,moe_experts,moe_topk,moe_ffn_hidden", "," + stack + "," + note + ",8,2,1024")
        .value()
        .scenario;
  };
  CHECK(said("Megatron-Bridge", "all-to-all dispatcher").parallel.moe_dispatcher == MoeDispatcher::alltoall);
  CHECK(said("Megatron-Core", "HybridEP + CUDA graphs").parallel.moe_dispatcher == MoeDispatcher::hybridep);
  CHECK(said("Megatron-Core", "DeepEP").parallel.moe_dispatcher == MoeDispatcher::deepep);
  // Graphs of an unknown scope leave dropless experts eager.
  const Training captured = said("Megatron-Core", "HybridEP + CUDA graphs").training;
  CHECK_FALSE(captured.cuda_graphs);
  CHECK(captured.cuda_graph_modules == std::vector<std::string>{"attn", "moe_router"});
  CHECK(row(",framework,notes", ",NeMo,CUDA graphs").value().scenario.training.cuda_graphs);
  CHECK(said("Megatron-Core", "").training.cuda_graph_modules.empty());
  CHECK(row(",framework,notes", ",NeMo,DeepEP").value().scenario.parallel.moe_dispatcher ==
        MoeDispatcher::alltoall);  // no experts
}

TEST_CASE("row: switches of a launcher's recipe", "[accuracy]") {
  constexpr const char* kExperts = ",framework,moe_experts,moe_topk,moe_ffn_hidden,ep,pp,vp,";
  const auto with = [&](const char* layout, const std::string& columns, const std::string& values) {
    return row(kExperts + columns, fmt::format(",Megatron-Bridge,8,2,1024,{},{}", layout, values)).value().scenario;
  };
  // With and without a pipeline; without an exchange there is nothing to hide.
  CHECK(with("8,1,1", "moe_a2a_overlap", "True").parallel.pp_schedule == "combined-1f1b");
  CHECK(with("8,2,4", "moe_a2a_overlap,schedule", "True,interleaved_1f1b").parallel.pp_schedule == "combined-1f1b");
  CHECK(with("8,2,4", "moe_a2a_overlap,schedule", "False,interleaved_1f1b").parallel.pp_schedule == "interleaved-1f1b");
  CHECK(with("1,1,1", "moe_a2a_overlap", "True").parallel.pp_schedule.empty());
  CHECK(with("8,2,1", "moe_a2a_overlap,schedule", "True,dualpipe").parallel.pp_schedule == "dualpipe");
  CHECK(with("8,1,1", "routing", "real").training.expert_routing == ExpertRouting::skewed);
  CHECK(with("8,1,1", "routing", "forced").training.expert_routing == ExpertRouting::even);
  CHECK(with("8,1,1", "routing", "").training.expert_routing == ExpertRouting::even);
  CHECK(row(",routing", ",real").value().scenario.training.expert_routing == ExpertRouting::even);  // no experts
  CHECK(with("8,1,1", "cuda_graph", "local:full_iteration").training.cuda_graphs);
  CHECK_FALSE(with("8,1,1", "cuda_graph", "none:full_iteration").training.cuda_graphs);
  const Training modules =
      with("8,1,1", "cuda_graph", "transformer_engine over attn;moe_router;moe_preprocess").training;
  CHECK_FALSE(modules.cuda_graphs);
  CHECK(modules.cuda_graph_modules == std::vector<std::string>{"attn", "moe_router"});
  CHECK(with("8,1,1", "cuda_graph", "none:attn").training.cuda_graph_modules.empty());
  CHECK(with("8,1,1", "moe_dispatcher", "deepep").parallel.moe_dispatcher == MoeDispatcher::deepep);
  CHECK(with("8,1,1", "moe_dispatcher", "hybridep").parallel.moe_dispatcher == MoeDispatcher::hybridep);
  // Whole steps of experts in MXFP8 are captured with the fused grouped MLP.
  CHECK(with("8,1,1", "cuda_graph,precision", "full_iteration,mxfp8").training.fused_experts);
  CHECK(with("8,1,1", "notes,precision", "fused grouped MLP,mxfp8").training.fused_experts);
  CHECK_FALSE(with("8,1,1", "cuda_graph,precision", "full_iteration,bf16").training.fused_experts);
  CHECK_FALSE(row(",cuda_graph,precision", ",full_iteration,mxfp8").value().scenario.training.fused_experts);
  // So is attention in 8 bits, on GPUs that have it: H100's is per tensor.
  CHECK_FALSE(with("8,1,1", "cuda_graph,precision", "full_iteration,mxfp8").training.fp8_attention);
  const auto on_gb200 = [](const char* graph, const char* precision) {
    const std::string text = fmt::format(
        "{},framework,moe_experts,moe_topk,moe_ffn_hidden,ep,cuda_graph,precision\n"
        "32,4096,32,11008,32000,4096,128,GB200,8,Megatron-Bridge,8,2,1024,8,{},{}\n",
        kNeeded, graph, precision);
    const CsvTable table = CsvTable::parse(text, "t.csv").value();
    return scenario_of_row(table, 0, RowLibrary::open(shipped_data()).value()).value().scenario.training;
  };
  CHECK(on_gb200("full_iteration", "mxfp8").fp8_attention);
  CHECK_FALSE(on_gb200("transformer_engine over attn", "mxfp8").fp8_attention);
  CHECK_FALSE(on_gb200("full_iteration", "bf16").fp8_attention);
  // A prediction layer m is left out.
  CHECK(with("8,2,2", "pp_layout", "Et*8|t*8|t*15|tmL;").parallel.pp_layout == std::vector<int>{8, 8, 15, 1});
  CHECK(with("8,2,2", "pp_layout", "Et*8|t*8|t*8|tmL").parallel.pp_layout.empty());  // not 32 layers
}

TEST_CASE("row: a recipe says what is recomputed where the source prints nothing", "[accuracy]") {
  const auto read = [](const std::string& recompute, const std::string& modules, const std::string& layers) {
    return row(",recipe,recompute,recompute_modules,recompute_full_block_layers",
               fmt::format(",A_RECIPE,{},{},{}", recompute, modules, layers))
        .value();
  };
  const RowScenario none = read("", "", "");
  CHECK(none.scenario.training.recompute == Recompute::none);
  CHECK_FALSE(none.guess_recompute);
  CHECK(read("", "\"[\"\"mla_up_proj\"\", \"\"moe_act\"\"]\"", "").scenario.training.recompute_modules ==
        std::vector<std::string>{"activation", "mla_up"});
  CHECK(read("", "", "20").scenario.training.recompute == Recompute::full);
  CHECK(read("", "", "20").scenario.training.recompute_num_layers == 20);
  CHECK(read("full", "", "20").scenario.training.recompute_num_layers == 0);  // printed
}

TEST_CASE("row: modules that are recomputed alone", "[accuracy]") {
  const auto modules = [](const char* detail) {
    return row(",recompute,recompute_detail", std::string(",selective_other,") + detail)
        .value()
        .scenario.training.recompute_modules;
  };
  CHECK(modules("moe_act + layernorm") == std::vector<std::string>{"norm", "activation"});
  CHECK(modules("mla up_proj") == std::vector<std::string>{"mla_up"});
  CHECK(modules("layernorm + moe") == std::vector<std::string>{"norm", "moe"});
  CHECK(modules("moe_act") == std::vector<std::string>{"activation"});
  CHECK(modules("mlp").empty());
}

TEST_CASE("row: experts are split as reported, else as the stack does, else as all layers", "[accuracy]") {
  const auto cut = [](const char* framework, const char* ep, const char* etp) {
    return row(",framework,tp,ep,etp,moe_experts,moe_topk,moe_ffn_hidden",
               fmt::format(",{},4,{},{},8,2,1024", framework, ep, etp))
        .value()
        .scenario.parallel.etp;
  };
  CHECK(cut("Megatron-Core", "2", "") == 1);
  CHECK(cut("Megatron-Core", "2", "4") == 4);
  CHECK(cut("Megatron-Core", "1", "") == 0);  // tp
  CHECK(cut("torchtitan", "2", "") == 0);
}

TEST_CASE("row: quantised parameters are 8-bit recipes'", "[accuracy]") {
  const auto quantised = [](const char* precision) {
    return row(",framework,precision", std::string(",Megatron-Bridge,") + precision)
        .value()
        .scenario.training.fp8_param_gather;
  };
  CHECK(quantised("fp8"));
  CHECK(quantised("mxfp8"));
  CHECK_FALSE(quantised("nvfp4"));
  CHECK_FALSE(quantised("bf16"));
}

TEST_CASE("row: a vocabulary that is not reported is the stack's, else the general one", "[accuracy]") {
  const auto vocabulary = [](const char* source) {
    const std::string text =
        "layers,hidden,heads,seq_len,global_batch_seqs,gpu,gpu_count,framework,source\n"
        "4,1024,16,1024,64,A100,8,Megatron-LM fork," +
        std::string(source) + "\n";
    return scenario_of_row(CsvTable::parse(text, "t.csv").value(), 0, RowLibrary::open(shipped_data()).value())
        .value()
        .scenario.model.vocab_size;
  };
  CHECK(vocabulary("Zero Bubble ICLR24") == 32000);
  CHECK(vocabulary("somebody") == 51200);
}

TEST_CASE("row: scales by row, of fp8", "[accuracy]") {
  const auto by_row = [](const char* values) {
    return row(",precision,precision_detail", values).value().scenario.training.row_scales;
  };
  CHECK(by_row(",fp8,rowwise"));
  CHECK_FALSE(by_row(",fp8,tensorwise"));
  CHECK_FALSE(by_row(",bf16,rowwise"));
}

TEST_CASE("row: a release in the framework's name is the age of its libraries", "[oracle][accuracy]") {
  const auto gemm = [](const char* framework) {
    return row(",framework", std::string(",") + framework).value().scenario.profile.in_training.gemm;
  };
  const double newer = gemm("NeMo 24.07"), older = gemm("NeMo 24.03");
  CHECK(older / newer == Approx(std::exp(kFasterPerYear / 3)));  // four months
  CHECK(gemm("NeMo 24.13") == gemm("NeMo"));                     // no month: the stack's own
}

TEST_CASE("row: what recipes of Megatron-Bridge say by release, precision and model", "[accuracy]") {
  const auto experts = [](const char* model, const char* gpu, const char* framework, const char* more,
                          const char* values) {
    const std::string text = fmt::format(
        "{},model_name,attention_kind,framework,moe_experts,moe_topk,moe_ffn_hidden,moe_shared_ffn_hidden,ep{}\n"
        "61,7168,128,18432,129280,4096,1024,{},64,{},{},{},256,8,2048,2048,8{}\n",
        kNeeded, more, gpu, model, std::string(model) == "DeepSeek-V3" ? "mla" : "mha", framework, values);
    const CsvTable table = CsvTable::parse(text, "t.csv").value();
    const Result<RowScenario> read = scenario_of_row(table, 0, RowLibrary::open(shipped_data()).value());
    REQUIRE(read.has_value());
    return read->scenario;
  };
  const auto narrow = [&](const char* model, const char* gpu, const char* framework) {
    return experts(model, gpu, framework, ",cuda_graph,precision", ",full_iteration,mxfp8").training;
  };
  const Training later = narrow("DeepSeek-V3", "GB300", "Megatron-Bridge 26.06");
  CHECK(later.fp8_output_layer);
  CHECK(later.fp8_attention);
  CHECK_FALSE(later.padded_experts);
  CHECK_FALSE(narrow("DeepSeek-V3", "GB200", "Megatron-Bridge 26.06").fp8_attention);
  CHECK(narrow("DeepSeek-V3", "GB200", "Megatron-Bridge 26.06").fp8_output_layer);
  CHECK_FALSE(narrow("DeepSeek-V3", "B200", "Megatron-Bridge 26.06").fp8_output_layer);
  CHECK_FALSE(narrow("Qwen3-235B", "GB200", "Megatron-Bridge 26.06").fp8_output_layer);
  CHECK(narrow("Qwen3-235B", "GB200", "Megatron-Bridge 26.06").fp8_attention);
  CHECK(narrow("GPT-OSS-120B", "B200", "Megatron-Bridge 26.06").fp8_output_layer);
  const Training earlier = narrow("Qwen3-30B", "GB200", "Megatron-Bridge 25.09");
  CHECK_FALSE((earlier.fused_experts || earlier.fp8_attention || earlier.fp8_output_layer));
  CHECK(earlier.padded_experts);
  // Shared experts run beside an all-to-all of DeepSeek-V3, unless exchanges overlap.
  const auto beside = [&](const char* model, const char* more, const char* values) {
    return experts(model, "B200", "Megatron-Bridge 25.09", more, values).parallel.moe_shared_overlap;
  };
  CHECK(beside("DeepSeek-V3", ",notes", ",token drop"));
  CHECK_FALSE(beside("DeepSeek-V3", ",moe_dispatcher", ",deepep"));
  CHECK_FALSE(beside("DeepSeek-V3", ",moe_dispatcher,moe_a2a_overlap", ",alltoall,True"));
  CHECK_FALSE(beside("Qwen3-235B", ",notes", ",token drop"));
  // Graphs of parts of layers are guessed for releases that have them.
  const auto guessed = [&](const char* framework) {
    return experts("DeepSeek-V3", "GB200", framework, "", "").training.cuda_graph_modules.size();
  };
  CHECK(guessed("Megatron-Bridge 25.09") == 0);
  CHECK(guessed("Megatron-Bridge 25.11") == 2);
  CHECK(guessed("Megatron-Bridge") == 2);
  // A reported scope says more than a capacity.
  const Training scoped = experts("DeepSeek-V3", "GB200", "Megatron-Bridge 25.09", ",notes,compiled,cuda_graph",
                                  ",token drop,cuda_graph,none")
                              .training;
  CHECK_FALSE(scoped.cuda_graphs);
  CHECK(experts("DeepSeek-V3", "GB200", "Megatron-Bridge 25.09", ",notes,compiled", ",token drop,cuda_graph")
            .training.cuda_graphs);
  // Muon.
  const Scenario muon =
      experts("Kimi-K2", "GB300", "Megatron-Bridge 26.04", ",notes,precision", ",Muon optimizer,mxfp8");
  CHECK(muon.training.optimizer == OptimizerKind::muon);
  CHECK_FALSE((muon.training.fp8_param_gather || muon.parallel.overlap_param_gather));
}

TEST_CASE("row: tensor-parallel overlap of recipes, and what a row says of it", "[accuracy]") {
  const auto overlaps = [](const char* precision, const char* reported, const char* experts) {
    return row(",framework,tp,seq_parallel,precision,tp_comm_overlap,moe_experts,moe_topk,moe_ffn_hidden",
               fmt::format(",Megatron-Bridge,4,1,{},{},{}", precision, reported, experts))
        .value()
        .scenario.parallel.tp_comm_overlap;
  };
  CHECK(overlaps("fp8", "", ",,"));
  CHECK_FALSE(overlaps("nvfp4", "", ",,"));
  CHECK_FALSE(overlaps("fp8", "", "8,2,1024"));
  CHECK_FALSE(overlaps("fp8", "0", ",,"));
  CHECK(overlaps("nvfp4", "1", ",,"));
  const auto qwen = [](const char* framework) {
    return row(",model_name,framework,tp,seq_parallel,precision,moe_experts,moe_topk,moe_ffn_hidden",
               fmt::format(",Qwen3-235B-A22B,{},2,1,fp8,8,2,1024", framework))
        .value()
        .scenario.parallel.tp_comm_overlap;
  };
  CHECK(qwen("Megatron-Bridge 25.11"));
  CHECK_FALSE(qwen("Megatron-Bridge 26.04"));
  CHECK_FALSE(qwen("Megatron-Core"));
}

TEST_CASE("row: families of models whose tables print sizes only", "[accuracy]") {
  const auto model = [](const char* name, const char* gated) {
    return row(",model_name,gated_mlp,moe_experts,moe_topk,moe_ffn_hidden",
               fmt::format(",{},{},{}", name, gated, std::string(name).starts_with("GPT-OSS") ? "8,2,1024" : ",,"))
        .value()
        .scenario.model;
  };
  const Model nemotron = model("Nemotron-4-15B", "0"), mpt = model("MPT-1B", "0"), oss = model("GPT-OSS-120B", "1");
  CHECK(nemotron.position == Position::rope);
  CHECK(nemotron.activation == Activation::relu);
  CHECK_FALSE((nemotron.qkv_bias || nemotron.attention_output_bias || nemotron.mlp_bias));
  CHECK(mpt.position == Position::learned);
  CHECK((mpt.qkv_bias && mpt.attention_output_bias && mpt.mlp_bias && mpt.norm_bias));
  CHECK(oss.sliding_window == 128);
  CHECK(oss.global_layer_interval == 2);
  CHECK((oss.attention_sinks && oss.qkv_bias && oss.moe->expert_bias));
}

TEST_CASE("row: offloaded layers, layers that are recomputed, orders of ranks, and other words", "[accuracy]") {
  const auto training = [](const char* columns, const char* values) {
    return row(columns, values).value().scenario.training;
  };
  CHECK(training(",cpu_offload_layers", ",20").offload_activations);
  CHECK(training(",cpu_offload_layers", ",20").offload_layers == 20);
  CHECK(training(",notes", ",activation offload").offload_layers == 0);
  CHECK(training(",notes", ",activation offload").offload_activations);
  CHECK_FALSE(training(",notes", ",nothing").offload_activations);
  const auto partial = [](const char* values) {
    const Training t = row(",recompute,recompute_detail,pp", values).value().scenario.training;
    return t.recompute == Recompute::full ? t.recompute_num_layers : 0;
  };
  CHECK(partial(",partial_layers,full on 5 layers of each stage,2") == 5);
  CHECK(partial(",partial_layers,full on 21 of 32 layers,1") == 21);
  CHECK(partial(",partial_layers,full on 21 of 32 layers,2") == 11);  // spread evenly
  CHECK(partial(",partial_layers,some,1") == 0);
  CHECK(partial(",partial_layers,full on 99999999999999999999 layers,1") == 100'000);
  CHECK(training(",recompute,recompute_detail", ",selective_other,core_attn norm").recompute == Recompute::selective);
  CHECK(training(",recompute,recompute_detail", ",selective_other,norm").recompute == Recompute::none);
  CHECK_FALSE(
      assumes(row(",recompute,recompute_detail", ",selective_other,core_attn").value(), "left out of the time"));
  // A stack repeats norms, unless the row says what is repeated.
  CHECK(training(",framework,recompute", ",InternEvo,none").recompute_modules == std::vector<std::string>{"norm"});
  CHECK(training(",framework,recompute", ",InternEvo,full").recompute_modules.empty());
  CHECK(training(",framework,recompute,recompute_detail", ",InternEvo,selective_other,norm act").recompute_modules ==
        std::vector<std::string>{"norm", "activation"});
  CHECK(training(",precision,precision_detail", ",fp8,fp8 all-gather").fp8_param_gather);
  CHECK_FALSE(training(",precision,precision_detail", ",fp8,tensorwise").fp8_param_gather);
  const auto parallel = [](const char* note) {
    return row(",notes", std::string(",") + note).value().scenario.parallel;
  };
  CHECK(parallel("ranks in the order tp-cp-pp-dp").rank_order == "tp-cp-ep-pp-dp");
  CHECK(parallel("").rank_order == Parallel{}.rank_order);
  CHECK(parallel("torch DDP").data_parallel == DataParallelKind::ddp);
  CHECK(parallel("").data_parallel == DataParallelKind::automatic);
  const auto schedule = [](const char* word) {
    return row(",schedule,pp", fmt::format(",{},2", word)).value().scenario.parallel.pp_schedule;
  };
  CHECK(schedule("zb_1p") == "zb-auto-1p");
  CHECK(schedule("zb_2p") == "zb-auto-2p");
}
