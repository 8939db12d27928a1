// Runs of published recipes: what launchers' recipes do that a source does not print.
#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "tests/accuracy/rows/one_row.hpp"

using namespace tracecast;
using namespace tracecast::accuracy;
using tracecast::test::kNeeded;
using tracecast::test::row;

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
  CHECK(modules("mlp") == std::vector<std::string>{"mlp"});
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

TEST_CASE("row: graphs of NVIDIA's recipes for Blackwell", "[accuracy]") {
  // docs/references.md#nemo-graphs
  const auto on = [](const std::string& gpu, const std::string& framework, const std::string& columns,
                     const std::string& values) {
    const std::string text = fmt::format("{},framework{}\n32,4096,32,11008,32000,4096,128,{},64,{}{}\n", kNeeded,
                                         columns, gpu, framework, values);
    const CsvTable table = CsvTable::parse(text, "t.csv").value();
    return scenario_of_row(table, 0, RowLibrary::open(shipped_data()).value()).value().scenario.training;
  };
  const auto captured = [&](const std::string& gpu, const std::string& framework, const std::string& model,
                            const std::string& precision = "fp8") {
    return on(gpu, framework, ",model_name,precision", "," + model + "," + precision).cuda_graphs;
  };
  CHECK(captured("GB200", "NeMo 25.04", "GPT-3-175B"));
  CHECK(captured("B200", "NeMo 25.04", "Nemotron-4-340B", "bf16"));
  CHECK_FALSE(captured("GB200", "NeMo 25.04", "Nemotron-4-340B", "bf16"));
  CHECK_FALSE(captured("B200", "NeMo 25.04", "GPT-3-175B"));
  CHECK(captured("B200", "NeMo 25.07", "Llama-3-70B", "fp8"));
  CHECK_FALSE(captured("B200", "NeMo 25.07", "Llama-3-70B", "mxfp8"));
  CHECK_FALSE(captured("GB200", "NeMo 25.04", "Llama-3.1-405B"));
  CHECK_FALSE(captured("H100", "NeMo 25.04", "GPT-3-175B"));
  CHECK_FALSE(captured("H100", "NeMo 24.12", "GPT-3-175B"));
  CHECK(captured("GB300", "Megatron-Bridge 25.11", "Llama-3-8B"));
  CHECK_FALSE(captured("GB300", "Megatron-Bridge 25.11", "Llama-3-8B", "nvfp4"));
  CHECK_FALSE(captured("GB300", "Megatron-Bridge 25.11", "Llama-3-70B"));
  // Experts are not captured, and what is reported counts.
  constexpr const char* kExperts = ",model_name,moe_experts,moe_topk,moe_ffn_hidden";
  const Training experts = on("GB200", "NeMo 25.07", kExperts, ",Mixtral-8x7B,8,2,4096");
  CHECK_FALSE(experts.cuda_graphs);
  CHECK(experts.cuda_graph_modules == std::vector<std::string>{"attn", "moe_router"});
  const auto reported = [&](const std::string& words) {
    return on("GB200", "NeMo 25.04", ",model_name,cuda_graph", ",GPT-3-175B," + words);
  };
  for (const char* none : {"none", "0", "False", ":"}) CHECK_FALSE(reported(none).cuda_graphs);
  for (const char* all : {"1", "enabled", "full iteration", "full-iteration", "TE"}) CHECK(reported(all).cuda_graphs);
}

TEST_CASE("row: torchtitan divides a rank's batch into micro-batches of its pipeline", "[accuracy]") {
  // docs/references.md#titan-microbatches: 16 GPUs, a batch of 128
  const auto micro_batch = [](const std::string& framework, const std::string& pp, const std::string& more,
                              const std::string& values) {
    return row(",framework,pp" + more, "," + framework + "," + pp + values).value().scenario.training.micro_batch_size;
  };
  CHECK(micro_batch("torchtitan (2024)", "4", ",micro_batch", ",32") == 8);
  CHECK(micro_batch("torchtitan (2024)", "4", "", "") == 8);
  CHECK(micro_batch("torchtitan", "4", ",micro_batch", ",32") == 1);
  CHECK(micro_batch("torchtitan", "4", ",micro_batch,num_microbatches", ",32,1") == 32);
  CHECK(micro_batch("torchtitan", "4", ",micro_batch", ",4") == 4);
  CHECK(micro_batch("torchtitan", "1", ",micro_batch", ",8") == 8);
  CHECK(micro_batch("Megatron-Core", "4", ",micro_batch", ",32") == 32);
}
