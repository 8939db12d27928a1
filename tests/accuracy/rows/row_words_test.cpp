// How sources word what the table has columns for: names of frameworks and models, stages of ZeRO, and the readers of row_*.cpp.
#include <catch2/catch.hpp>

#include "tests/accuracy/rows/one_row.hpp"
#include "tools/accuracy/rows/framework_names.hpp"
#include "tools/accuracy/rows/model_names.hpp"
#include "tools/accuracy/rows/row_part.hpp"
#include "tools/accuracy/rows/zero_stage.hpp"

using namespace tracecast;
using namespace tracecast::accuracy;
using namespace tracecast::literals;
using tracecast::test::assumes;
using tracecast::test::row;

namespace {

std::string named(const std::string& framework, const std::string& columns = "", const std::string& values = "") {
  const std::string text = "framework,heads" + columns + "\n\"" + framework + "\",32" + values + "\n";
  const CsvTable table = CsvTable::parse(text, "t.csv").value();
  return framework_name(TableFields(table, 0));
}

std::string stack_of(const std::string& framework) { return row(",framework", "," + framework).value().stack; }

std::string first_error(const Result<RowScenario>& result) {
  return result ? "" : to_string(result.error().diagnostics.front());
}

}  // namespace

TEST_CASE("row words: yes and no", "[accuracy]") {
  for (const char* yes : {"1", "1.0", "True", "yes", "ON", " true ", "enabled"}) CHECK(truth(yes) == true);
  for (const char* no : {"0", "0.0", "FALSE", "no", "off", "None", "disabled"}) CHECK(truth(no) == false);
  CHECK_FALSE(truth("perhaps").has_value());
  CHECK(row(",seq_parallel,tp", ",yes,2").value().scenario.parallel.sequence_parallel);
  CHECK(assumes(row(",gated_mlp", ",sometimes").value(), "gated_mlp 'sometimes' is neither yes nor no"));
}

TEST_CASE("row words: stages of ZeRO", "[accuracy]") {
  for (const char* three : {"ZeRO-3", "zero stage 3", "DeepSpeed ZeRO3", "ZeRO-Stage-3", "FULL_SHARD", "HSDP", "fsdp3"})
    CHECK(zero_stage_in(three) == 3);
  CHECK(zero_stage_in("SHARD_GRAD_OP") == 2);
  CHECK(zero_stage_in("tp+pp+sp+fsdp2") == 2);
  for (const char* version : {"FSDP2", "FSDP2 + TP", "PyTorch FSDP 2", "FSDP"}) CHECK(zero_stage_in(version) == 3);
  CHECK(zero_stage_in("tp+pp+sp+zero1") == 1);
  for (const char* none : {"", "3", "no FSDP", "zero bubble", "tp+pp"}) CHECK_FALSE(zero_stage_in(none).has_value());
  const auto stage = [](const std::string& columns, const std::string& values) {
    return row(columns, values).value().scenario.parallel.zero_stage;
  };
  CHECK(stage(",parallel_style", ",tp+zero1") == 1);
  CHECK(stage(",parallel_style,zero_stage", ",tp+zero1,0") == 0);
  CHECK(stage(",framework", ",DeepSpeed-Ulysses") == 3);
  CHECK(stage(",framework", ",GPT-NeoX") == 1);
  CHECK(stage(",framework", ",PyTorch DDP") == 0);
  CHECK(row(",framework", ",PyTorch DDP").value().scenario.parallel.data_parallel == DataParallelKind::ddp);
}

TEST_CASE("row words: what recipes of Megatron-Core set for buckets and sharded parameters", "[accuracy]") {
  const auto parallel = [](const std::string& columns, const std::string& values) {
    return row(columns, values).value().scenario.parallel;
  };
  CHECK(parallel(",framework", ",NeMo 25.04").ddp_bucket_size == 128 << 20);
  CHECK(parallel(",framework", ",Megatron-Bridge 26.02").ddp_bucket_size == 128 << 20);
  CHECK(parallel(",framework", ",NeMo 24.12").ddp_bucket_size == 40'000'000);
  CHECK(parallel(",framework", ",Megatron-LM").ddp_bucket_size == 0);
  CHECK(parallel(",framework,zero_stage", ",Megatron-Bridge 26.02,3").gathers_in_place);
  CHECK_FALSE(parallel(",framework,zero_stage", ",Megatron-Bridge 26.02,1").gathers_in_place);
  CHECK_FALSE(parallel(",framework", ",torchtitan").gathers_in_place);
}

TEST_CASE("row words: Megatron-LM is that of its year", "[accuracy]") {
  CHECK(named("Megatron-LM") == "Megatron-LM");
  CHECK(named("Megatron-LM", ",source", ",SC21 (arXiv 2104.04473)") == "Megatron-LM (2021)");
  CHECK(named("Megatron-LM", ",source", ",MegaScale NSDI24 (arXiv 2402.15627)") == "Megatron-LM (2023)");
  CHECK(named("Megatron-LM", ",source", ",arXiv 2509.14233") == "Megatron-LM (2025)");
  CHECK(named("Megatron-LM", ",gated_mlp", ",1") == "Megatron-LM (2024)");
  CHECK(named("Megatron-LM", ",kv_heads", ",8") == "Megatron-LM (2024)");
  CHECK(named("Megatron-LM", ",kv_heads", ",32") == "Megatron-LM");
  CHECK(named("NVIDIA Megatron-LM 2023") == "Megatron-LM (2023)");
  CHECK(named("Megatron-LM core_r0.5.0") == "Megatron-Core 0.5");
  CHECK(named("PyTorch 24.07 container, Megatron-LM") == "Megatron-LM (2024)");
  CHECK(named("DeepSpeed ZeRO-3 inside Megatron-LM") == "DeepSpeed ZeRO-3 inside Megatron-LM");
  const auto stack = [](const std::string& source, const std::string& gpu) {
    const std::string text = std::string(test::kNeeded) +
                             ",framework,source,gated_mlp\n32,4096,32,11008,32000,4096,128," + gpu +
                             ",16,Megatron-LM," + source + ",0\n";
    const CsvTable table = CsvTable::parse(text, "t.csv").value();
    return scenario_of_row(table, 0, RowLibrary::open(shipped_data()).value()).value().stack;
  };
  CHECK(stack("arXiv 2104.1", "A100") == "megatron-lm-2021");
  CHECK(stack("arXiv 2205.05198", "A100") == "megatron-lm");
  CHECK(stack("arXiv 2311.1", "A100") == "megatron-lm-2023");
  CHECK(stack("arXiv 2311.1", "H100") == "megatron-lm-2024");
}

TEST_CASE("row words: NeMo, Megatron-Bridge and Megatron-Core by release", "[accuracy]") {
  CHECK(named("NVIDIA NeMo Framework 24.07") == "NeMo 24.07");
  CHECK(named("nemo:25.11") == "Megatron-Bridge 25.11");
  CHECK(named("NeMo", ",source", ",Nemotron-4 (arXiv 2402.16819)") == "NeMo of 2024");
  CHECK(named("NeMo/Megatron-Core") == "NeMo/Megatron-Core");
  CHECK(named("NeMo AutoModel 26.06") == "NeMo AutoModel 26.06");
  CHECK(named("Megatron Bridge v0.2.0") == "Megatron-Bridge 25.11");
  CHECK(named("Megatron-Bridge 0.6") == "Megatron-Bridge 26.08");
  CHECK(named("Megatron-Bridge 0.8") == "Megatron-Bridge 26.12");  // as if one came every second month
  CHECK(named("Megatron-Bridge 0.9") == "Megatron-Bridge 27.02");
  CHECK(named("mcore v0.12") == "Megatron-Core 0.12");
  CHECK(named("Megatron-Core") == "Megatron-Core");
  CHECK(stack_of("NeMo 23.08") == "nemo-2024");
  CHECK(stack_of("Megatron/DeepSpeed") == "megatron-deepspeed");
  CHECK(stack_of("Primus v25.9 (torchtitan)") == "primus-torchtitan");
}

TEST_CASE("row words: versions and releases of NeMo in other spellings", "[accuracy]") {
  for (const char* name :
       {"NeMo-Framework-24.07", "NeMo 24.7", "NeMo 2024.07", "NeMo v24.07", "nvcr.io/nvidia/nemo:24.07-py3"})
    CHECK(named(name) == "NeMo 24.07");
  for (const char* name : {"NeMo v2.1.0", "NeMo framework 2.1", "NVIDIA NeMo r2.1.0", "nemo_2.1"})
    CHECK(named(name) == "NeMo 24.12");
  for (const char* name : {"NeMo r1.22", "NeMo 1.23.0", "NeMo Megatron", "NeMo-Megatron", "NeMo (2023)"})
    CHECK(named(name) == "NeMo of 2024");
  CHECK(stack_of("NeMo 22.11") == "nemo-2024");
  CHECK(named("NeMo 2.5") == "Megatron-Bridge 25.09");
  CHECK(named("NeMo 2.6.1") == "Megatron-Bridge 25.11");
  CHECK(named("NeMo 2.7") == "Megatron-Bridge 26.02");
  CHECK(named("NeMo 2.10") == "Megatron-Bridge 26.08");
  CHECK(named("NeMo (PyTorch 2.1)") == "NeMo (PyTorch 2.1)");
}

TEST_CASE("row words: torchtitan of 2024 by its name, version or source", "[accuracy]") {
  for (const char* name : {"torchtitan 2024", "TorchTitan (Oct 2024)", "torchtitan v0.0.2", "torchtitan (2024)"})
    CHECK(stack_of(name) == "torchtitan-2024");
  CHECK(stack_of("torchtitan 0.1.0") == "torchtitan");
  CHECK(stack_of("torchtitan 2025") == "torchtitan");
  const auto stack = [](const char* source, const char* name = "torchtitan") {
    return row(",source,framework", std::string(",") + source + "," + name).value().stack;
  };
  CHECK(stack("TorchTitan paper (arXiv 2410.06511)") == "torchtitan-2024");
  CHECK(stack("TorchTitan paper (arXiv 2410.06511)", "torchtitan 0.2") == "torchtitan");
  CHECK(stack("a blog of 2025") == "torchtitan");
  CHECK(stack("torchtitan benchmarks") == "torchtitan");
}

TEST_CASE("row words: a framework without a stack is taken as one that works alike, aloud", "[accuracy]") {
  CHECK(stack_of("Lightning Fabric (FSDP)") == "pytorch-fsdp");
  CHECK(stack_of("LlamaFactory") == "hugging-face");
  CHECK(stack_of("Levanter (JAX)") == "maxtext");
  CHECK(stack_of("Pai-Megatron-Patch") == "megatron-lm-2024");
  CHECK(stack_of("Nanotron") == "nanotron");
  CHECK(stack_of("Our Trainer").empty());
  CHECK(assumes(row(",framework", ",xlformers").value(), "xlformers is taken as PyTorch FSDP"));
  CHECK(assumes(row(",framework", ",Our Trainer").value(), "unknown software stack"));
}

TEST_CASE("row words: years of sources", "[accuracy]") {
  CHECK(year_of_source("MegaScale (arXiv 2402.15627)") == Approx(2024 + 1.5 / 12));
  CHECK(year_of_source("arXiv:2104.04473") == Approx(2021 + 3.5 / 12));
  CHECK(year_of_source("Megatron-LM README 2020") == 2020);
  CHECK(year_of_source("2016 GPUs in 2023") == 2023);
  for (const char* none :
       {"", "NeMo 24.07 performance summary", "Megatron-LM SC21", "1024 GPUs", "arXiv", "scaling to 2016 GPUs",
        "2016 NVIDIA A100s", "2016 A100 SXM4 80GB GPUs", "2016x A100", "2016xA100", "2016 x H100", "2016-GPU run"})
    CHECK(year_of_source(none) == 0);
  for (const char* blog : {"Blog 2024 H100 results", "Results of 2024, H100 GPUs", "2024 NVIDIA DGX H100", "2024 L40S"})
    CHECK(year_of_source(blog) == 2024);
  CHECK(row(",framework,source", ",NeMo,Blog 2024 H100 results").value().stack == "nemo-2024");
}

TEST_CASE("row words: names of models", "[accuracy]") {
  CHECK(family_name("deepseek-ai/DeepSeek-V3") == "deepseek-v3");
  CHECK(family_name("GPT OSS_20B") == "gpt-oss-20b");
  for (const char* name : {"DeepSeekV3 671B", "DSV3", "deepseek-ai/DeepSeek-R1", "DeepSeek-V3-0324"})
    CHECK(family_name(name).starts_with("deepseek-v3"));
  const RowLibrary library = RowLibrary::open(shipped_data()).value();
  for (const char* name : {"Llama 3.1 8B", "meta-llama/Meta-Llama-3.1-8B-Instruct", "llama3.1-8b"})
    CHECK(library.model(name).value().name == library.model("llama-3.1-8b").value().name);
  CHECK_FALSE(library.model("Llama-9-8B").has_value());
  CHECK_FALSE(library.model("").has_value());
  CHECK(row(",model_name", ",openai/gpt-oss-20b").value().scenario.model.sliding_window == 128);
  CHECK(row(",model_name", ",Gemma-3-27B").value().scenario.model.global_layer_interval == 6);
  // Columns cannot express a hybrid: the shipped model is taken, whatever they say.
  CHECK(row(",model_name", ",Nemotron-H-8B").value().scenario.model.linear_attention.has_value());
  CHECK(row(",model_name", ",Llama-3.1-8B").value().scenario.model.hidden_size == 4096);
}

TEST_CASE("row words: recomputation by the names of options, and of an unknown number of layers", "[accuracy]") {
  const auto recompute = [](const std::string& word) { return row(",recompute", "," + word).value(); };
  for (const char* word : {"AC full", "granularity=full", "with recompute", "with full recomputation"}) {
    CHECK(recompute(word).scenario.training.recompute == Recompute::full);
    CHECK_FALSE(recompute(word).guess_recompute);
  }
  CHECK(recompute("granularity=selective").scenario.training.recompute == Recompute::selective);
  CHECK(recompute("recompute_granularity: selective").scenario.training.recompute == Recompute::selective);
  CHECK(assumes(recompute("partial_layers"), "recomputation of some layers, the row does not say of how many"));
  CHECK(recompute("partial_layers").guess_recompute);
  CHECK(tokens_in("1M") == 1024.0 * 1024);
}

TEST_CASE("row words: recomputation", "[accuracy]") {
  const auto recompute = [](const std::string& framework, const std::string& word, const std::string& detail) {
    return row(",framework,recompute,recompute_detail", "," + framework + "," + word + "," + detail).value();
  };
  for (const char* full : {"Full", "full (uniform)", "1", "activation checkpointing"})
    CHECK(recompute("Megatron-Core", full, "").scenario.training.recompute == Recompute::full);
  for (const char* none :
       {"no gradient checkpointing", "gradient checkpointing: no", "disabled", "AC off", "without AC", "without SAC"}) {
    CHECK(recompute("Megatron-Core", none, "").scenario.training.recompute == Recompute::none);
    CHECK_FALSE(recompute("Megatron-Core", none, "").guess_recompute);
  }
  CHECK(recompute("Megatron-Core", "selective", "").scenario.training.recompute == Recompute::selective);
  CHECK(recompute("torchtitan", "selective", "").scenario.training.recompute == Recompute::selective_op);
  CHECK(recompute("torchtitan", "selective_other", "SAC (op)").scenario.training.recompute == Recompute::selective_op);
  CHECK(
      recompute("Megatron-Core", "partial_layers", "full on 10 of 32 layers").scenario.training.recompute_num_layers ==
      10);
  const RowScenario unknown = recompute("Megatron-Core", "sometimes", "");
  CHECK(unknown.guess_recompute);
  CHECK(assumes(unknown, "recomputation 'sometimes' is not known: the least that fits"));
  // What frameworks turn on by themselves: docs/references.md#recompute-defaults
  CHECK(recompute("torchtitan", "", "").scenario.training.recompute == Recompute::selective_op);
  for (const char* framework : {"LLaMA-Factory", "TRL", "Axolotl", "GPT-NeoX"})
    CHECK(recompute(framework, "", "").scenario.training.recompute == Recompute::full);
  CHECK(recompute("Hugging Face", "", "").guess_recompute);
}

TEST_CASE("row words: precision, schedule, dispatcher, routing", "[accuracy]") {
  const auto precision = [](const std::string& word) {
    return row(",precision", "," + word).value().scenario.training.dtype;
  };
  for (const char* word : {"bfloat16", "bf16-mixed", "BF16 mixed"}) CHECK(precision(word) == Precision::bf16);
  for (const char* word : {"fp8-hybrid", "FP8 (delayed)", "float8"}) CHECK(precision(word) == Precision::fp8);
  for (const char* word : {"fp8_blockwise", "fp8_sc", "FP8 subchannel"}) CHECK(precision(word) == Precision::fp8_block);
  for (const char* word : {"mxfp8", "fp8-mx", "FP8_MX", "fp8 mx"}) CHECK(precision(word) == Precision::mxfp8);
  for (const char* word : {"fp8_cs", "fp8 scaling"}) CHECK(precision(word) == Precision::fp8);
  const auto detailed = [](const std::string& word, const std::string& detail) {
    return row(",precision,precision_detail", "," + word + "," + detail).value().scenario.training;
  };
  CHECK(detailed("fp8", "MXFP8 block scaling").dtype == Precision::mxfp8);
  CHECK(detailed("fp8", "Blockwise").dtype == Precision::fp8_block);
  CHECK(detailed("bf16", "no MXFP8").dtype == Precision::bf16);
  for (const char* detail : {"rowwise", "Rowwise scaling", "row-wise"}) CHECK(detailed("fp8", detail).row_scales);
  CHECK(detailed("float8 rowwise", "").row_scales);
  CHECK_FALSE(detailed("fp8", "tensorwise").row_scales);
  CHECK(detailed("fp8", "current scaling").fp8_scaling == Fp8Scaling::current);
  CHECK(detailed("fp8_cs", "").fp8_scaling == Fp8Scaling::current);
  CHECK(detailed("fp8", "delayed scaling").fp8_scaling == Fp8Scaling::delayed);
  CHECK(detailed("bf16", "current scaling").fp8_scaling == Fp8Scaling::delayed);  // which has no scales
  CHECK(first_error(row(",precision", ",int8")).find("allowed: fp32 fp16 bf16 fp8") != std::string::npos);
  const auto schedule = [](const std::string& word) {
    return row(",pp,schedule", ",4," + word).value().scenario.parallel.pp_schedule;
  };
  CHECK(schedule("GPipe") == "gpipe");
  CHECK(schedule("AFAB") == "gpipe");
  CHECK(schedule("ZB-H1") == "zb-h1");
  CHECK(schedule("zbv") == "zb-v");
  CHECK(assumes(row(",pp,schedule", ",4,spiral").value(), "schedule 'spiral' is not known: 1F1B"));
  const auto dispatcher = [](const std::string& word) {
    return row(",ep,moe_experts,moe_topk,moe_ffn_hidden,moe_dispatcher", ",8,8,2,4096," + word)
        .value()
        .scenario.parallel.moe_dispatcher;
  };
  for (const char* word : {"flex (DeepEP)", "deep_ep", "DeepEP v2", "UCCL-EP"})
    CHECK(dispatcher(word) == MoeDispatcher::deepep);
  for (const char* word : {"HybridEP", "hybrid-ep"}) CHECK(dispatcher(word) == MoeDispatcher::hybridep);
  for (const char* word : {"all-to-all", "A2A", "allgather"}) CHECK(dispatcher(word) == MoeDispatcher::alltoall);
  const RowScenario gathers =
      row(",ep,moe_experts,moe_topk,moe_ffn_hidden,moe_dispatcher", ",8,8,2,4096,allgather").value();
  CHECK(assumes(gathers, "dispatcher 'allgather': as all-to-all"));
  CHECK(row(",routing", ",Forced").has_value());
}

TEST_CASE("row words: numbers as people write them", "[accuracy]") {
  const auto of = [](const std::string& batch, const std::string& gpus) {
    const std::string text =
        std::string(test::kNeeded) + "\n32,4096,32,\"11,008\",32000,4096,\"" + batch + "\",H100, " + gpus + " \n";
    const CsvTable table = CsvTable::parse(text, "t.csv").value();
    return scenario_of_row(table, 0, RowLibrary::open(shipped_data()).value());
  };
  CHECK(of("1,024", "16").value().scenario.training.global_batch_size == 1024);
  CHECK(of("1,024", "16").value().scenario.model.ffn_hidden_size == 11008);
  const RowScenario rounded = of("1953.125", "64").value();  // 4M tokens of 2,048
  CHECK(rounded.scenario.training.global_batch_size == 1984);
  CHECK(assumes(rounded, "global batch of 1953.125 sequences: the nearest whole number"));
  CHECK(assumes(rounded, "global batch of 1953: 1984, so that it is a multiple of micro-batch x dp"));
  CHECK(of("100", "64").value().scenario.training.global_batch_size == 100);  // too far from a multiple
  for (const char* wrong : {"1,02", "10,2400", ",100", "1,,000"}) CHECK_FALSE(of(wrong, "16").has_value());
}

TEST_CASE("row words: what a dense model or a smaller board lacks", "[accuracy]") {
  CHECK(row(",framework", ",HAI-LLM").value().scenario.training.moe_dispatch_dtype == Precision::bf16);
  const RowScenario small = row(",gpu_mem_gb", ",64").value();
  CHECK(small.scenario.profile.memory == 64_GiB);
  CHECK(assumes(small, "memory of 64 GB as reported; otherwise h100"));
  CHECK_FALSE(assumes(row(",gpu_mem_gb", ",80").value(), "as reported; otherwise h100"));
  CHECK(row(",notes", ",uses a parallel transformer block").value().scenario.model.parallel_residual);
  CHECK(row(",model_name", ",GPT-NeoX-20B").value().scenario.model.parallel_residual);
}

TEST_CASE("row words: latent attention and MLPs without a gate", "[accuracy]") {
  const auto model = [](const std::string& name, const std::string& kind) {
    return row(",model_name,attention_kind", "," + name + "," + kind).value().scenario.model;
  };
  for (const char* name : {"DeepSeek-V3", "DeepSeekV3 671B", "DeepSeek-R1", "DeepSeek-V2-Lite", "Kimi-K2"})
    CHECK(model(name, "").latent_attention.has_value());
  CHECK(model("Ours", "MLA (latent)").latent_attention.has_value());
  CHECK(model("DeepSeek-V2-Lite", "mla").latent_attention->q_rank == 0);
  CHECK(model("DeepSeek-V3", "mha").latent_attention.has_value());  // as of any model that has not fewer heads of keys
  // With three matrices a layer the model has 6.7e9 parameters, with two 5.3e9.
  const auto gated = [](const std::string& columns, const std::string& values) {
    const RowScenario r = row(columns, values).value();
    CHECK(assumes(r, "not gated") == !r.scenario.model.gated());
    return r.scenario.model.gated();
  };
  CHECK(gated(",params_b", ",6.74"));
  CHECK_FALSE(gated(",params_b", ",5.3"));
  CHECK(gated(",params_b", ",9"));  // something else is missing
  CHECK(gated(",params_b,gated_mlp", ",5.3,1"));
  for (const char* plain : {"GPT-3-175B", "OPT-175B", "BLOOM-176B", "Pythia-12B"})
    CHECK_FALSE(gated(",model_name", std::string(",") + plain));
  CHECK(gated("", ""));
}

TEST_CASE("row words: exchanges of context, shard groups and offloading", "[accuracy]") {
  const RowScenario ulysses = row(",framework,cp", ",DeepSpeed-Ulysses,8").value();
  CHECK(ulysses.scenario.parallel.cp_comm_type == ContextExchange::a2a);
  CHECK(assumes(ulysses, "Ulysses"));
  CHECK(row(",framework,cp", ",Megatron-Core,8").value().scenario.parallel.cp_comm_type == ContextExchange::p2p);
  // 16 GPUs, eight in each host.
  const auto group = [](const std::string& columns, const std::string& values) {
    return row(",framework" + columns, ",PyTorch FSDP" + values).value().scenario.parallel.shard_group;
  };
  CHECK(group(",zero_stage", ",HYBRID_SHARD") == 8);
  CHECK(group(",parallel_style", ",hsdp") == 8);
  CHECK(group(",parallel_style,fsdp_shard_size", ",hsdp,4") == 4);
  CHECK(group(",zero_stage", ",FULL_SHARD") == 0);
  const auto training = [](const std::string& framework, const std::string& note) {
    return row(",framework,notes", "," + framework + "," + note).value().scenario.training;
  };
  CHECK(training("DeepSpeed ZeRO-2", "ZeRO-Offload").offload_optimizer);
  CHECK_FALSE(training("DeepSpeed ZeRO-2", "no ZeRO-Offload").offload_optimizer);
  CHECK(training("DeepSpeed ZeRO-Infinity", "").offload_parameters);
  CHECK(row(",framework", ",DeepSpeed ZeRO-Infinity").value().scenario.parallel.zero_stage == 3);
  for (const char* framework : {"TRL (DeepSpeed ZeRO-2)", "Axolotl + DeepSpeed", "HF Accelerate DeepSpeed"})
    CHECK(stack_of(framework) == "deepspeed");
  CHECK(row(",parallel_style,tp", ",TP+SP,2").value().scenario.parallel.sequence_parallel);
}

TEST_CASE("row words: memory in the name of a GPU, dies and modules", "[accuracy]") {
  const auto on = [](const std::string& gpu, const std::string& columns, const std::string& values) {
    const std::string text =
        std::string(test::kNeeded) + columns + "\n32,4096,32,11008,32000,4096,128," + gpu + ",16" + values + "\n";
    const CsvTable table = CsvTable::parse(text, "t.csv").value();
    return scenario_of_row(table, 0, RowLibrary::open(shipped_data()).value()).value().scenario;
  };
  CHECK(on("A100-SXM-64GB", "", "").profile.memory == 64_GiB);
  CHECK(on("MI250X", "", "").profile.name == on("MI250X", ",gpus_per_node", ",8").profile.name);
  CHECK(on("MI250X", "", "").profile.name != on("MI250X", ",gpus_per_node", ",4").profile.name);
  CHECK(on("V100", "", "").cluster.node.gpus == 8);
  CHECK(on("V100", ",gpus_per_node", ",16").cluster.node.gpus == 16);
  const auto link = [&](const std::string& words) {
    return on("A100", ",intra_node_link,inter_node_link", "," + words + ",100GbE").cluster.node.link;
  };
  for (const char* boards : {"PCIe Gen4", "PCIe Gen4 x16 (no NVLink)", "PCIe without NVLink"})
    CHECK(link(boards) == IntraLink::pcie);
  CHECK(link("NVLink; PCIe to the host") == IntraLink::nvswitch);
}
