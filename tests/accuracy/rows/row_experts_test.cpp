// Models with experts: dispatchers, routing and layouts that a source does not print.
#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "tests/accuracy/rows/one_row.hpp"

using namespace tracecast;
using namespace tracecast::accuracy;
using tracecast::test::assumes;
using tracecast::test::row;

namespace {

/// The parallelism of a run of a model with experts; `values` of kColumnsWithExperts.
constexpr const char* kColumnsWithExperts =
    "layers,hidden,heads,vocab,seq_len,global_batch_seqs,gpu,gpu_count,framework,attention_kind,moe_experts,"
    "moe_topk,moe_ffn_hidden,pp,vp";
Parallel parallel_with_experts(const std::string& values) {
  const CsvTable table = CsvTable::parse(std::string(kColumnsWithExperts) + "\n" + values + "\n", "t.csv").value();
  return scenario_of_row(table, 0, RowLibrary::open(shipped_data()).value()).value().scenario.parallel;
}

}  // namespace

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

TEST_CASE("row: that experts of Transformers are grouped is said", "[accuracy]") {
  const auto says = [](const std::string& framework, const std::string& columns, const std::string& values) {
    return assumes(test::row(",framework" + columns, "," + framework + values).value(), "as since Transformers 5");
  };
  const std::string experts = ",moe_experts,moe_topk,moe_ffn_hidden";
  CHECK(says("Hugging Face", experts, ",64,8,1408"));
  CHECK(says("DeepSpeed ZeRO-3", experts, ",64,8,1408"));
  CHECK_FALSE(says("Megatron-Bridge", experts, ",64,8,1408"));
  CHECK_FALSE(says("Hugging Face", "", ""));
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
  CHECK(dispatcher("Megatron-Core 0.15", "H100", ",128") == MoeDispatcher::deepep);
  CHECK(dispatcher("Megatron-Core 0.15", "GB200", ",128") == MoeDispatcher::hybridep);
  CHECK(dispatcher("Megatron-Core 0.13", "GB200", ",128") == MoeDispatcher::deepep);  // before there was another
}

TEST_CASE("row: Megatron-Bridge has no DeepEP on racks", "[accuracy]") {
  const auto dispatcher = [](const char* framework, const char* gpu) {
    const std::string text =
        fmt::format("{},moe_dispatcher,ep\n4,4096,32,32000,4096,128,{},16,{},,128,8,1024,,,deepep,8\n",
                    kColumnsWithExperts, gpu, framework);
    return scenario_of_row(CsvTable::parse(text, "t.csv").value(), 0, RowLibrary::open(shipped_data()).value()).value();
  };
  const RowScenario rack = dispatcher("Megatron-Bridge 26.04", "GB200");
  CHECK(rack.scenario.parallel.moe_dispatcher == MoeDispatcher::alltoall);
  CHECK(assumes(rack, "to which Megatron-Bridge falls back"));
  CHECK(dispatcher("Megatron-Bridge 26.04", "H100").scenario.parallel.moe_dispatcher == MoeDispatcher::deepep);
  CHECK(dispatcher("Megatron-Core (MoE guide)", "GB200").scenario.parallel.moe_dispatcher == MoeDispatcher::deepep);
}

TEST_CASE("row: dropped tokens go by all-to-all, which overlaps with nothing", "[accuracy]") {
  const auto drops = [](const char* notes) {
    return row(",framework,moe_experts,moe_topk,moe_ffn_hidden,ep,moe_dispatcher,moe_a2a_overlap,notes",
               std::string(",Megatron-Bridge 25.09,8,2,1024,8,hybridep,True,") + notes)
        .value();
  };
  const RowScenario dropping = drops("MoE with token drop");
  CHECK(dropping.scenario.training.expert_capacity_factor == 1);
  CHECK(dropping.scenario.training.expert_capacity_padding);
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
