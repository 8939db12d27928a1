// What tables leave out of a model and its name says: docs/references.md#families
#include "tools/accuracy/rows/model_families.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "tests/accuracy/rows/one_row.hpp"
#include "tools/accuracy/rows/model_names.hpp"

using namespace tracecast;
using namespace tracecast::accuracy;
using tracecast::test::assumes;

namespace {

/// A run of a model of 8 layers; `values` begin with its name, hidden size and heads.
Result<RowScenario> run(const std::string& columns, const std::string& values) {
  const std::string text = "layers,seq_len,global_batch_seqs,gpu,gpu_count,model_name,hidden,heads" + columns +
                           "\n8,4096,128,H100,16," + values + "\n";
  return scenario_of_row(CsvTable::parse(text, "t.csv").value(), 0, RowLibrary::open(shipped_data()).value());
}

Model model(const std::string& columns, const std::string& values) {
  return run(columns, values).value().scenario.model;
}

std::string skipped(const std::string& columns, const std::string& values) {
  const Result<RowScenario> result = run(columns, values);
  return result ? "" : to_string(result.error().diagnostics.front());
}

}  // namespace

TEST_CASE("model families: names in one spelling", "[accuracy]") {
  const std::pair<const char*, const char*> names[] = {
      {"Qwen 3 30B", "qwen3-30b"},
      {"Alibaba Qwen-3-30B-A3B", "qwen3-30b-a3b"},
      {"meta-llama/Meta-Llama-3-70B", "llama3-70b"},
      {"Llama 3 (8B)", "llama3-8b"},
      {"Llama-3.1_8B", "llama3.1-8b"},
      {"OpenAI GPT-OSS 120B", "gpt-oss-120b"},
      {"gptoss-120b", "gpt-oss-120b"},
      {"NVIDIA-Nemotron-4-15B", "nemotron4-15b"},
      {"Google Gemma 3 27B", "gemma3-27b"},
      {"GPT-3.6B", "gpt-3.6b"},
      {"DeepSeek-V3-0324", "deepseek-v3-0324"},
      {"DeepSeek-R1-Distill-Qwen-7B", "qwen-7b"},
      {"DeepSeek R1 Distill Llama 70B", "llama-70b"},
      {"DeepSeek-R1-0528-Qwen3-8B", "qwen3-8b"},
      {"Meta", "meta"},
  };
  for (const auto& [name, family] : names) CHECK(family_name(name) == family);
}

TEST_CASE("model families: the head size is the family's where it is not hidden / heads", "[accuracy]") {
  const std::pair<const char*, int> sizes[] = {
      {"Qwen3-32B,5120,64", 128},          {"Qwen 3 4B,2560,32", 128},
      {"OpenAI GPT-OSS 120B,2880,64", 64}, {"GLM-4.5,5120,96", 128},
      {"Mistral-Small-24B,5120,32", 128},  {"google/gemma-3-27b-it,5376,32", 128},
      {"Gemma 2 9B,3584,16", 256},         {"Ours,5120,64", 80}};
  for (const auto& [values, size] : sizes) {
    const RowScenario r = run("", values).value();
    CHECK(r.scenario.model.head_dim == size);
    CHECK(assumes(r, "head_dim not reported") == (size != 80));
  }
  CHECK(model(",head_dim", "Qwen3-32B,5120,64,80").head_dim == 80);
  // 8 layers of Qwen3-32B: with heads of 80 there are 5.2e9 parameters, with heads of 128 5.5e9.
  const char* columns = ",kv_heads,ffn_hidden,vocab,params_b";
  CHECK(model(columns, "Ours,5120,64,8,25600,151936,5.46").head_dim == 128);
  CHECK(model(columns, "Ours,5120,64,8,25600,151936,5.19").head_dim == 80);
  CHECK(model(columns, "Ours,5120,64,8,25600,151936,5.9").head_dim == 80);
}

TEST_CASE("model families: sizes that a row leaves out are those of the shipped model of its name", "[accuracy]") {
  const Model mixtral = model(",moe_experts,moe_topk", "mistralai/Mixtral 8x7B,4096,32,8,2");
  CHECK(mixtral.num_query_groups == 8);
  CHECK(mixtral.vocab_size == 32'000);
  CHECK(mixtral.moe->ffn_hidden == 14'336);
  CHECK(model("", "Llama-3-8B,4096,32").vocab_size == 128'256);
  CHECK(model("", "Llama-3-8B,4096,32").ffn_hidden_size == 14'336);
  CHECK(model(",ffn_hidden,vocab", "Llama-3-8B,4096,32,8192,64000").ffn_hidden_size == 8192);
  // Another width is another model, with the same tokenizer.
  CHECK(model("", "Llama-3-8B,2048,32").ffn_hidden_size == 8192);
  CHECK(model("", "Llama-3-8B,2048,32").vocab_size == 128'256);
  CHECK(assumes(run("", "Llama-3-8B,4096,32").value(), "vocab not reported: 128256, of the shipped model llama-3-8b"));
  const RowScenario phi = run(",ffn_hidden,moe_experts,moe_topk", "Phi-3.5-MoE,4096,32,6400,16,2").value();
  CHECK(phi.scenario.model.moe->ffn_hidden == 6400);
  CHECK(assumes(phi, "width of an expert not reported: ffn_hidden"));
}

TEST_CASE("model families: vocabularies, and whether they are tied, by the tokenizer", "[accuracy]") {
  struct Case {
    const char* name;
    int words;
    bool tied;
  };
  for (const Case& c : {Case{"Gemma-2B", 256'000, true},
                        Case{"google/gemma-2-9b", 256'000, true},
                        Case{"Gemma-3-12B", 262'144, true},
                        Case{"Llama-3.2-1B", 128'256, true},
                        Case{"Llama 3.3 70B", 128'256, false},
                        Case{"Qwen2.5-7B", 152'064, false},
                        Case{"Qwen2.5-0.5B", 151'936, true},
                        Case{"Qwen3-4B", 151'936, true},
                        Case{"Llama-2-70B", 32'000, false},
                        Case{"Mistral-7B-v0.1", 32'000, false},
                        Case{"mistralai/Mistral-7B-v0.3", 32'768, false},
                        Case{"Mistral-7B-Instruct-v0.3", 32'768, false},
                        Case{"Qwen2-57B-A14B", 151'936, false},
                        Case{"Qwen2-72B", 152'064, false},
                        Case{"Falcon-40B", 65'024, true},
                        Case{"OPT-66B", 50'272, true},
                        Case{"OLMo-3-7B", 100'278, false},
                        Case{"Phi-4", 100'352, false},
                        Case{"Phi-4-mini", 200'064, true},
                        Case{"GLM-4-9B-0414", 151'552, false},
                        Case{"GLM-4.7", 151'552, false},
                        Case{"GLM-4.7-Flash", 154'880, false},
                        Case{"Ministral-8B", 131'072, false},
                        Case{"Mistral-Small-3.2-24B", 131'072, false},
                        Case{"SmolLM3-3B", 128'256, true},
                        Case{"Seed-OSS-36B", 155'136, false},
                        Case{"EXAONE-4.0-32B", 102'400, false},
                        Case{"EXAONE-4.0-1.2B", 102'400, true},
                        Case{"CohereForAI/c4ai-command-r-plus", 256'000, true},
                        Case{"Granite-3.1-8B", 49'155, true},
                        Case{"Granite-3.3-8B", 49'159, true},
                        Case{"StarCoder2-7B", 49'152, true},
                        Case{"StarCoder2-15B", 49'152, false},
                        Case{"google/gemma-3n-E4B", 262'400, true},
                        Case{"MiniMax-M2.1", 200'064, false},
                        Case{"Ours", 51'200, false}}) {
    CAPTURE(c.name);
    const RowScenario read = run("", fmt::format("{},1024,16", c.name)).value();
    CHECK(read.scenario.model.vocab_size == c.words);
    CHECK(read.scenario.model.tied_embeddings == c.tied);
    CHECK(assumes(read, fmt::format("vocabulary not reported: {}", c.words)));
    CHECK(assumes(read, "embeddings not reported: tied") == c.tied);
  }
  const Model own = model(",vocab,tied_embeddings", "Gemma-2B,1024,16,32000,0");
  CHECK(own.vocab_size == 32'000);
  CHECK_FALSE(own.tied_embeddings);
}

TEST_CASE("model families: a gate by the number of parameters, also where sizes are guessed", "[accuracy]") {
  // 8 layers of 12 h^2 have 1.61e9 parameters, with a gate 16 h^2 and 2.15e9; the embeddings 0.26e9, if guessed 0.42e9.
  CHECK_FALSE(model(",params_b,ffn_hidden,vocab", "Ours,4096,32,1.87,16384,32000").gated());
  CHECK_FALSE(model(",params_b", "Ours,4096,32,2.03").gated());
  CHECK_FALSE(model(",params_b,vocab", "Ours,4096,32,1.87,32000").gated());
  CHECK_FALSE(model(",params_b,ffn_hidden", "Ours,4096,32,2.03,16384").gated());
  CHECK_FALSE(model(",params_b", "Ours,4096,32,1.9").gated());         // the guesses add 7 %
  CHECK(model(",params_b", "Ours,4096,32,2.24").gated());              // by 15 % too many, as guesses may add
  CHECK(model(",params_b", "Ours,4096,32,1.7").gated());               // something else is missing
  CHECK_FALSE(model(",params_b", "llm-jp-13b,5120,40,3.05").gated());  // a shipped one
  CHECK(model(",params_b", "Qwen3-0.6B,1024,16,0.275").gated());       // without a gate 0.29e9, with it 0.32e9
  CHECK(model(",params_b", "Baichuan-2-7B,4096,32,2.25").gated());     // a shipped one
}

TEST_CASE("model families: experts that the name says and the columns leave out", "[accuracy]") {
  const auto experts = [](const std::string& columns, const std::string& values) {
    const Model m = model(columns, values);
    return m.moe ? fmt::format("{} {} {} {} {}", m.moe->experts, m.moe->topk, m.moe->ffn_hidden,
                               m.moe->shared_ffn_hidden, m.moe->leading_dense_layers)
                 : "none";
  };
  CHECK(experts("", "Mixtral-8x7B,4096,32") == "8 2 14336 0 0");
  CHECK(experts("", "Mixtral,4096,32") == "8 2 14336 0 0");
  CHECK(experts("", "mistralai/Mixtral-8x22B,6144,48") == "8 2 16384 0 0");
  CHECK(experts(",arch", "Mixtral-8x7B,4096,32,dense") == "none");
  CHECK(experts(",moe_experts", "Mixtral-8x7B,4096,32,0") == "none");
  CHECK(experts(",moe_experts,moe_topk,moe_ffn_hidden", "Mixtral-8x7B,4096,32,16,4,2048") == "16 4 2048 0 0");
  const char* columns = ",moe_experts,moe_topk,moe_ffn_hidden";
  CHECK(experts(columns, "deepseek-v3,7168,128,256,8,2048") == "256 8 2048 2048 3");
  CHECK(experts(",moe_experts", "deepseek-v3,7168,128,256") == "256 8 2048 2048 3");
  CHECK(experts(columns, "Kimi-K2,7168,64,384,8,2048") == "384 8 2048 2048 1");
  CHECK(experts(columns, "GLM-4.5-Air,4096,96,128,8,1408") == "128 8 1408 1408 1");
  CHECK(experts(columns, "Llama-4-Scout,5120,40,16,1,8192") == "16 1 8192 8192 0");
  CHECK(experts("", "zai-org/GLM-4.7,5120,96") == "160 8 1536 1536 3");
  CHECK(experts("", "GLM-4.7-Flash,2048,20") == "64 4 1536 1536 1");
  CHECK(experts("", "MiniMax-M2.1,3072,48") == "256 8 1536 0 0");
  CHECK(experts("", "Qwen3-Coder-480B-A35B,6144,96") == "160 8 2560 0 0");
  CHECK(experts("", "Qwen3-VL-235B-A22B,4096,64") == "128 8 1536 0 0");
  CHECK(experts("", "Hunyuan-A13B,4096,32") == "64 8 3072 3072 0");
  CHECK(experts(columns, "DeepSeek-V2,2048,16,64,6,1408") == "64 6 1408 0 0");  // another width: another model
  CHECK(experts(",moe_experts,moe_topk,moe_ffn_hidden,moe_shared_ffn_hidden,moe_dense_layers",
                "deepseek-v3,7168,128,256,8,2048,0,0") == "256 8 2048 0 0");
  CHECK(assumes(run(columns, "Kimi-K2,7168,64,384,8,2048").value(),
                "moe_shared_ffn_hidden not reported: 2048, of the model's family"));
  CHECK(
      assumes(run("", "Mixtral-8x7B,4096,32").value(), "moe_topk not reported: 2, of the shipped model mixtral-8x7b"));
  CHECK(assumes(run("", "Qwen3-30B-A3B,1024,16").value(), "has experts, but not with this width"));
  for (const char* name :
       {"Qwen2-57B-A14B,3584,28", "JetMoE-8B,2048,32", "Phi-3.5-MoE,4096,32", "dots.llm1,4096,32", "Ling-1T,8192,64"})
    CHECK(assumes(run("", name).value(),
                  "the name says experts, which are not known here, and the row reports none: a dense model"));
  for (const char* name : {"Qwen3-8B,4096,32", "moebius-7b,4096,32"})
    CHECK_FALSE(assumes(run("", name).value(), "experts"));
  for (const char* name : {"DeepSeekV2", "DSv2", "DeepSeekV2-Lite", "DeepSeek-671B"})
    CHECK(model("", fmt::format("{},1024,16", name)).latent_attention.has_value());
}

TEST_CASE("model families: latent attention and its indexers and groups", "[accuracy]") {
  struct Case {
    const char* name;
    const char* kind;
    LatentAttention sizes;
    int index_heads;
    int groups;
  };
  const LatentAttention deepseek{1536, 512, 128, 64, 128}, glm{2048, 512, 192, 64, 256};
  for (const Case& c :
       {Case{"DeepSeek-V3", "", deepseek, 0, 8}, Case{"DeepSeek-V3.2-Exp", "", deepseek, 64, 8},
        Case{"deepseek-ai/DeepSeek-V3.2", "DSA", deepseek, 64, 8}, Case{"Ours", "dsa", deepseek, 64, 8},
        Case{"Ours", "mla", deepseek, 0, 8}, Case{"GLM-5", "", glm, 32, 0}, Case{"zai-org/GLM-5", "mla", glm, 32, 0},
        Case{"GLM-4.7-Flash", "", {768, 512, 192, 64, 256}, 0, 0}, Case{"Mistral-Large-3", "", deepseek, 0, 0},
        Case{"Pangu Ultra MoE", "", deepseek, 0, 0}, Case{"DeepSeek-V2-Lite", "mla", {0, 512, 128, 64, 128}, 0, 8}}) {
    CAPTURE(c.name, c.kind);
    const Model m = model(",attention_kind,moe_experts,moe_topk,moe_ffn_hidden",
                          fmt::format("{},7168,128,{},256,8,2048", c.name, c.kind));
    CHECK(m.latent_attention == c.sizes);
    CHECK((m.sparse_attention ? m.sparse_attention->index_heads : 0) == c.index_heads);
    CHECK(m.moe->routing_groups == c.groups);
    CHECK(m.head_dim == c.sizes.nope_dim + c.sizes.rope_dim);
  }
  // Words for any attention do not deny it; fewer heads of keys do.
  for (const char* kind : {"mha", "full", "causal", "multi-head"})
    CHECK(model(",attention_kind", fmt::format("DeepSeek-V3,7168,128,{}", kind)).latent_attention == deepseek);
  CHECK(model(",attention_kind,kv_heads", "Kimi-K2,7168,64,gqa,64").latent_attention == deepseek);
  const RowScenario grouped = run(",attention_kind,kv_heads", "Kimi-K2,7168,64,gqa,8").value();
  CHECK_FALSE(grouped.scenario.model.latent_attention.has_value());
  CHECK(assumes(grouped, "attention 'gqa': not the latent attention of kimi-k2"));
  CHECK_FALSE(model(",attention_kind", "DeepSeek-V3,7168,128,no MLA").latent_attention.has_value());
  CHECK(run(",cp", "DeepSeek-V3.2,7168,128,2").value().scenario.parallel.cp_comm_type == ContextExchange::all_gather);
  CHECK_FALSE(model("", "DeepSeek-R1-Distill-Llama-70B,8192,64").latent_attention.has_value());
  CHECK_FALSE(model(",attention_kind", "GPT-3-175B,12288,96,sparse").latent_attention.has_value());
}

TEST_CASE("model families: hybrids are the shipped ones or skipped", "[accuracy]") {
  const std::pair<const char*, const char*> shipped[] = {
      {"Nemotron 3 Nano,2688,32", "nemotron-3-nano-30b-a3b"},
      {"nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16,2688,32", "nemotron-3-nano-30b-a3b"},
      {"Qwen3-Next-80B-A3B-Thinking-FP8,2048,16", "qwen3-next-80b-a3b"},
      {"Qwen3-Next,2048,16", "qwen3-next-80b-a3b"},
      {"Kimi-Linear,2304,32", "kimi-linear-48b-a3b"}};
  for (const auto& [values, name] : shipped) CHECK(model("", values).name == name);
  for (const char* name : {"Nemotron-3-Super", "Nemotron-H-47B", "NVIDIA-Nemotron-Nano-9B-v2", "Qwen3.5-27B",
                           "Granite-4-H-Small", "ibm-granite/granite-4.0-h-small", "Falcon-H1-34B", "MiniMax-M1",
                           "MiniMax-Text-01", "Jamba-1.5-Large", "Ring-2.5-1T", "LongCat-Flash", "DeepSeek-V4"}) {
    CAPTURE(name);
    CHECK(skipped("", fmt::format("{},4096,32", name)).find("is not a shipped hybrid") != std::string::npos);
  }
  CHECK(skipped("", "Nemotron-H-47B,8192,64") ==
        "t.csv:2: model_name = Nemotron-H-47B: has layers of Mamba, for which tables have no columns, and is not a "
        "shipped hybrid (tracecast list models)");
  CHECK(skipped(",arch", "Ours,4096,32,hybrid") != "");
  for (const char* name : {"MiniMax-M2", "Nemotron-3-8B", "Llama-3.1-Nemotron-Nano-8B", "Falcon3-10B"})
    CHECK(skipped("", fmt::format("{},4096,32", name)) == "");
}

TEST_CASE("model families: a number of parameters that the shape does not have", "[accuracy]") {
  const auto parameters = [](const char* billions) {  // 1.62 in the layers, 0.26 in the embeddings
    const std::string values = fmt::format("Ours,4096,32,11008,32000,{},1", billions);
    const std::string error = skipped(",ffn_hidden,vocab,params_b,gated_mlp", values);
    if (!error.empty()) return error;
    const RowScenario r = run(",ffn_hidden,vocab,params_b,gated_mlp", values).value();
    return std::string(assumes(r, "params_b = ") ? "said" : "");
  };
  CHECK(parameters("1.88") == "");
  CHECK(parameters("1.62") == "");  // without embeddings
  CHECK(parameters("2.5") == "said");
  CHECK(parameters("1.3") == "said");
  CHECK(parameters("4") ==
        "t.csv:2: params_b = 4: the model as it is read has 1.88 billion parameters: the row lacks or misstates "
        "something "
        "of its shape");
  CHECK(skipped(",moe_experts,moe_topk,moe_ffn_hidden,params_b", "Ours,4096,32,64,2,2048,1.4") ==
        "");  // those of a token
}

TEST_CASE("model families: gates and layers with experts", "[accuracy]") {
  CHECK(model("", "Falcon3-10B,3072,12").gated());
  CHECK_FALSE(model("", "Falcon3-10B,3072,12").parallel_residual);
  CHECK_FALSE(model("", "Falcon (40B),8192,128").gated());
  CHECK(model("", "Falcon (40B),8192,128").parallel_residual);
  CHECK_FALSE(model("", "GPT-39B,8192,64").gated());
  CHECK(model("", "GPT-OSS-20B,2880,64").gated());
  const Model apertus = model("", "swiss-ai/Apertus-70B,8192,64");
  CHECK_FALSE(apertus.gated());
  CHECK(apertus.norm == Norm::rms_norm);
  CHECK(apertus.position == Position::rope);
  CHECK_FALSE((apertus.mlp_bias || apertus.norm_bias));
  const char* columns = ",moe_experts,moe_topk,moe_ffn_hidden";
  CHECK(model(columns, "Llama-4-Maverick,5120,40,128,1,8192").moe->layer_interval == 2);
  CHECK(model(columns, "Llama-4-Scout,5120,40,16,1,8192").moe->layer_interval == 1);
}

TEST_CASE("model families: blocks without a gate, by the name", "[accuracy]") {
  struct Case {
    const char* name;
    Activation activation;
    Position position;
    bool biases;
    bool parallel;
  };
  for (const Case& c : {Case{"bigcode/starcoder2-7b", Activation::gelu, Position::rope, true, false},
                        Case{"StarCoderBase", Activation::gelu, Position::learned, true, false},
                        Case{"Phi-1.5", Activation::gelu, Position::rope, true, true},
                        Case{"microsoft/phi-2", Activation::gelu, Position::rope, true, true},
                        Case{"CodeGen-16B-mono", Activation::gelu, Position::rope, true, true},
                        Case{"Cerebras-GPT-13B", Activation::gelu, Position::learned, true, false},
                        Case{"nvidia/Minitron-8B-Base", Activation::relu, Position::rope, false, false},
                        Case{"Nemotron-Mini-4B", Activation::relu, Position::rope, false, false},
                        Case{"Nemotron-3-8B", Activation::relu, Position::rope, false, false}}) {
    CAPTURE(c.name);
    const RowScenario read = run("", fmt::format("{},4096,32", c.name)).value();
    const Model& m = read.scenario.model;
    CHECK(m.activation == c.activation);
    CHECK(m.position == c.position);
    CHECK(m.norm == Norm::layer_norm);
    CHECK(m.mlp_bias == c.biases);
    CHECK(m.parallel_residual == c.parallel);
    CHECK(assumes(read, "not gated, as those of this family"));
  }
  for (const char* name : {"Phi-4", "Phi-3-mini", "CodeGen25-7B", "Llama-3.1-Minitron-4B", "Mistral-NeMo-Minitron-8B"})
    CHECK(model("", fmt::format("{},4096,32", name)).gated());
}

TEST_CASE("model families: windows of attention, as reported, else by the name", "[accuracy]") {
  struct Case {
    const char* values;  ///< with attention_kind and framework
    int tokens;
    int global_every;
    bool chunked;
    const char* said;
  };
  for (const Case& c :
       {Case{"Gemma 2 9B,3584,16,,", 4096, 2, false, "Gemma: a window of 4096 tokens, but for every 2nd layer"},
        Case{"Google Gemma 3 27B,5376,32,,", 1024, 6, false, "but for every 6th layer"},
        Case{"gemma-3-1b,1152,4,,", 512, 6, false, "512"}, Case{"Gemma 4 31B,5376,32,,", 1024, 6, false, "1024"},
        Case{"Gemma-3n-E4B,2048,8,,", 512, 5, false, "every 5th"}, Case{"Llama-3-8B,4096,32,,", 0, 0, false, ""},
        Case{"allenai/OLMo-3-7B,4096,32,,", 4096, 4, false, "OLMo 3: a window of 4096 tokens, but for every 4th layer"},
        Case{"Llama-4-Scout,5120,40,,", 8192, 4, true, "Llama 4: chunks of 8192 tokens, but for every 4th layer"},
        Case{"EXAONE-4.0-32B,5120,40,,", 4096, 4, false, ""}, Case{"EXAONE-4.0-1.2B,2048,32,,", 0, 0, false, ""},
        Case{"Command-A,12288,96,,", 4096, 4, false, ""},
        Case{"c4ai-command-r7b-12-2024,4096,32,,", 4096, 4, false, ""}, Case{"Command-R,8192,64,,", 0, 0, false, ""},
        Case{"GPT-OSS-20B,2880,64,,", 128, 2, false, "GPT-OSS: a window of 128"},
        // Software that takes the window from the checkpoint, or not.
        Case{"Mistral-7B-v0.1,4096,32,,Megatron-Bridge 25.11", 4096, 0, false, "in every layer"},
        Case{"Mistral-7B-v0.1,4096,32,,Megatron-LM", 0, 0, false, ""},
        Case{"Mistral-7B-v0.3,4096,32,,Megatron-Bridge 25.11", 0, 0, false, ""},
        // A reported window has the family's layers, unless it names others.
        Case{"Gemma-3-12B,3840,16,gqa; window 4096,", 4096, 6, false,
             "a window of 4096 tokens, but for every 6th layer"},
        Case{"Gemma-3-12B,3840,16,full attention; no window,", 0, 0, false, "without the windows of Gemma"},
        Case{"Gemma-3-12B,3840,16,3:1 local:global; sliding window,", 1024, 4, false, "every 4th"},
        Case{"GPT-OSS-20B,2880,64,sliding window 4096,", 4096, 2, false,
             "a window of 4096 tokens, but for every 2nd layer"},
        Case{"OLMo-3-7B,4096,32,window 4096 in all layers,", 4096, 0, false, "in every layer"},
        Case{"Ours,4096,32,3:1 sliding window 4096,", 4096, 4, false,
             "a window of 4096 tokens, but for every 4th layer"},
        Case{"Ours,4096,32,window 4k in 1 of 4 layers,", 4096, 0, false,
             "in every layer; the layers that it names are not read"},
        Case{"Ours,4096,32,sliding window,", 0, 0, false, "the window is not read"},
        Case{"Ours,4096,32,chunked attention of 8192 tokens,", 8192, 0, true,
             "chunks of 8192 tokens in every layer"}}) {
    CAPTURE(c.values);
    const RowScenario read = run(",attention_kind,framework", c.values).value();
    const Model& m = read.scenario.model;
    CHECK(m.sliding_window == c.tokens);
    CHECK(m.global_layer_interval == c.global_every);
    CHECK(m.chunked_attention == c.chunked);
    CHECK(assumes(read, c.said));
  }
  CHECK(model("", "GPT-OSS-20B,2880,64").attention_sinks);
  const Model packed = model(",task,notes", "OLMo-3-7B,4096,32,sft,packed sequences");
  CHECK(packed.sliding_window == 400);
  CHECK(packed.global_layer_interval == 0);
}

TEST_CASE("model families: norms over query and key, and those that are left out", "[accuracy]") {
  for (const char* name :
       {"Qwen3-8B,4096,32", "OLMo-2-7B,4096,32", "OLMo-3-7B,4096,32", "OLMoE-1B-7B,2048,16", "Gemma-3-12B,3840,16",
        "GLM-4.5,5120,96", "GLM-4.7,5120,96", "MiniMax-M2,3072,48", "Hunyuan-A13B,4096,32", "Llama-4-Scout,5120,40",
        "EXAONE-4.0-32B,5120,40", "dots.llm1,4096,32", "Ling-flash-2.0,4096,32"})
    CHECK(model("", name).qk_norm);
  for (const char* name : {"GLM-4.5-Air,4096,96", "GLM-4.7-Flash,2048,20", "Llama-4-Maverick,5120,40",
                           "Gemma-2-9B,3584,16", "Llama-3-8B,4096,32"})
    CHECK_FALSE(model("", name).qk_norm);
  for (const char* name : {"Gemma-2-9B,3584,16", "Gemma-3-12B,3840,16", "GLM-4-9B-0414,4096,32"})
    CHECK(
        assumes(run("", name).value(), "norms behind attention and feed-forward, which this family has, are left out"));
  CHECK_FALSE(assumes(run("", "OLMo-3-7B,4096,32").value(), "norms behind"));
}

TEST_CASE("model families: a family in one table is in those that it needs", "[accuracy]") {
  // The vocabularies of these were not found, or differ by the year.
  const auto has_no_vocabulary = [](const std::string& name) {
    for (const char* unknown : {"mistral-small", "mistral-large-3", "pangu-ultra-moe", "openpangu-ultra-moe", "apertus",
                                "ling-mini", "ling-flash", "ling-1t"})
      if (name.starts_with(family_name(unknown))) return true;
    return false;
  };
  const auto is_dense = [](const std::string& name) {
    for (const char* dense : {"qwen3", "mistral", "magistral", "devstral", "ministral", "seed-oss", "gemma", "olmo-2",
                              "olmo-3", "exaone-4", "command-", "apertus"})
      if (name.starts_with(family_name(dense))) return true;
    return false;
  };
  for (const std::string& name : families_with_entries()) {
    CAPTURE(name);
    CHECK((vocabulary_of(name) != nullptr || has_no_vocabulary(name)));
    const auto has_experts = [&] {  // entries of experts name the size
      for (const char* size : {"", "-20b", "-scout", "-1b-7b"})
        if (is_named_for_experts(name + size)) return true;
      return false;
    };
    CHECK((has_experts() || is_dense(name)));
  }
}
