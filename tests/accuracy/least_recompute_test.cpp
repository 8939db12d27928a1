#include "tools/accuracy/least_recompute.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"
#include "tools/accuracy/validate.hpp"

using namespace tracecast;
using namespace tracecast::accuracy;

namespace {

std::vector<RowForecast> forecasts(const std::string& text) {
  return validate(CsvTable::parse(text, "t.csv").value(), RowLibrary::open(shipped_data()).value()).value();
}

bool says(const RowForecast& row, const std::string& words) {
  return std::ranges::any_of(row.assumptions, [&](const std::string& each) { return each.find(words) != each.npos; });
}

/// A model of Llama's shape on 64 GPUs of 80 GB.
RowForecast llama(const std::string& framework, const std::string& shape, const std::string& stage,
                  const std::string& gpu = "H100") {
  return forecasts(
             fmt::format("layers,hidden,heads,ffn_hidden,vocab,seq_len,global_batch_seqs,gpu,gpu_mem_gb,gpu_count,"
                         "framework,zero_stage,micro_batch,step_time_s\n{},4096,256,{},80,64,{},{},1,1\n",
                         shape, gpu, framework, stage))
      .front();
}
constexpr const char* k7B = "32,4096,32,11008,32000";

}  // namespace

TEST_CASE("recomputation that is not reported is the least that fits", "[accuracy]") {
  // A Llama 2 7B with its states over eight GPUs: 32 layers of activations, of which eight samples at once keep fewer.
  const std::string header =
      "layers,hidden,heads,ffn_hidden,vocab,seq_len,global_batch_seqs,gpu,gpu_count,framework,zero_stage,"
      "flash_attention,step_time_s,micro_batch\n";
  const std::string model = "32,4096,32,11008,32000,4096,64,H100,8,PyTorch FSDP,3,1,1,";
  const CsvTable table = CsvTable::parse(header + model + "1\n" + model + "8\n", "t.csv").value();
  const std::vector<RowForecast> rows = validate(table, RowLibrary::open(shipped_data()).value()).value();
  CHECK(rows[0].assumptions.back() == "recomputation not reported: none fits");
  const std::string& assumed = rows[1].assumptions.back();
  CHECK(assumed.find(" of the 32 layers of a virtual stage, the least that fits") != std::string::npos);
  CHECK(rows[1].fits);
  // With a layer less it would not: what is left over is less than a layer's share of the activations.
  CHECK(rows[1].predicted_memory_gib > 0.9 * rows[1].capacity_gib);
}

TEST_CASE("everything is recomputed where not even that would make a run fit", "[accuracy]") {
  // 70 billion parameters on 16 GPUs of 80 GB: states of 2 + 4 + 12 bytes over two replicas of eight are more than that.
  const CsvTable table =
      CsvTable::parse(
          "layers,hidden,heads,ffn_hidden,vocab,seq_len,global_batch_seqs,gpu,gpu_count,framework,tp,pp,zero_stage,"
          "flash_attention,step_time_s,micro_batch,recompute\n"
          "80,8192,64,28672,32000,4096,64,H100,16,,4,2,1,1,1,1,\n"
          "80,8192,64,28672,32000,4096,64,H100,16,,4,2,1,1,1,1,full\n",
          "t.csv")
          .value();
  const std::vector<RowForecast> rows = validate(table, RowLibrary::open(shipped_data()).value()).value();
  CHECK(rows[0].assumptions.back() == "recomputation not reported: everything, though even that does not make it fit");
  CHECK_FALSE(rows[0].fits);
  CHECK_FALSE(rows[1].fits);
  CHECK(rows[0].predicted_s == rows[1].predicted_s);
  CHECK(rows[0].layout_spread > rows[1].layout_spread);
}

TEST_CASE("a larger model is not forecast faster because nothing makes it fit", "[accuracy]") {
  // Of the stage of ZeRO nothing is said. At 18 bytes per parameter the larger one takes more than the 80 GB of its GPU.
  const auto forecast = [](const std::string& vocabulary) {
    const CsvTable table = CsvTable::parse(
                               "layers,hidden,heads,kv_heads,ffn_hidden,gated_mlp,vocab,seq_len,global_batch_seqs,gpu,"
                               "gpu_count,framework,tp,step_time_s,micro_batch\n"
                               "8,6144,48,8,24576,0," +
                                   vocabulary + ",4096,16,A100,16,Megatron-DeepSpeed,1,1,1\n",
                               "t.csv")
                               .value();
    return validate(table, RowLibrary::open(shipped_data()).value()).value().front();
  };
  const RowForecast small = forecast("32000"), large = forecast("256000");
  CHECK(small.fits);
  CHECK(large.fits);
  CHECK_FALSE(says(small, "distributed optimizer"));
  CHECK(says(large, "ZeRO stage not reported: 1, the least that fits"));
  CHECK(says(large, "recomputation not reported: the attention scores, the least that fits"));
  CHECK(large.predicted_s > small.predicted_s);
}

TEST_CASE("an optimizer of which nothing is said is divided before anything is recomputed", "[accuracy]") {
  // 7 billion parameters at 18 bytes are 121 GB, and 16 in 64 parts less 30 GB: with ZeRO-1 no recomputation is needed.
  const RowForecast guessed = llama("DeepSpeed", k7B, ""), divided = llama("DeepSpeed", k7B, "1");
  CHECK(says(guessed, "ZeRO stage not reported: 1, the least that fits"));
  CHECK(says(guessed, "recomputation not reported: none fits"));
  CHECK(guessed.fits);
  CHECK(guessed.predicted_s == divided.predicted_s);
  const RowForecast whole = llama("DeepSpeed", k7B, "0");  // said, so that it is not changed
  CHECK_FALSE(whole.fits);
  CHECK(says(whole, "everything, though even that does not make it fit"));
}

TEST_CASE("a ZeRO stage that is not reported is the least that fits with the reported recomputation", "[accuracy]") {
  const auto row = [](const char* framework, const char* shape, const char* recompute, const char* pp) {
    return forecasts(
               fmt::format("layers,hidden,heads,kv_heads,ffn_hidden,vocab,seq_len,global_batch_seqs,gpu,gpu_count,"
                           "framework,recompute,tp,pp,micro_batch,step_time_s\n{},4096,256,H100,128,{},{},1,{},1,1\n",
                           shape, framework, recompute, pp))
        .front();
  };
  const char *small = "32,4096,32,8,14336,128256", *large = "80,8192,64,8,28672,128256";
  for (const char* recompute : {"none", "full"}) {
    const RowForecast one = row("DeepSpeed", small, recompute, "1");
    CHECK(says(one, "ZeRO stage not reported: 1, the least that fits"));
    CHECK(one.fits);
  }
  const RowForecast three = row("DeepSpeed", large, "full", "1");
  CHECK(says(three, "ZeRO stage not reported: 3, the least that fits"));
  CHECK(three.fits);
  // DeepSpeed's pipelines and Megatron have no higher stage.
  CHECK(
      says(row("DeepSpeed", large, "full", "2"), "ZeRO stage not reported: 1, though even that does not make it fit"));
  CHECK(says(llama("Megatron-LM (2022)", "80,8192,64,28672,128256", "", "A100"), "ZeRO stage not reported: 1, though"));
  const RowForecast nothing_said = row("DeepSpeed", large, "", "1");
  CHECK(says(nothing_said, "ZeRO stage not reported: 3, the least that fits"));
  CHECK(says(nothing_said, "recomputation not reported: everything, less does not fit with a lower ZeRO stage"));
}

TEST_CASE("a deeper model is not forecast faster because its optimizer is divided", "[property][accuracy]") {
  double last = 0;
  for (const int layers : {4, 8, 12, 16, 20, 24, 32, 48, 96, 160, 240, 480}) {
    const RowForecast row = llama("DeepSpeed", fmt::format("{},4096,32,11008,32000", layers), "");
    CAPTURE(layers, row.assumptions);
    CHECK(row.predicted_s > last);
    last = row.predicted_s;
  }
}

TEST_CASE("Megatron-LM of 2021 had no distributed optimizer", "[accuracy]") {
  const RowForecast early = llama("Megatron-LM (2021)", k7B, "", "A100");
  CHECK_FALSE(says(early, "ZeRO"));
  CHECK_FALSE(early.fits);
  const RowForecast later = llama("Megatron-LM (2022)", k7B, "", "A100");
  CHECK(says(later, "ZeRO stage not reported: 1"));
  CHECK(later.fits);
}

TEST_CASE("where virtual stages are a guess, fewer are taken before everything is recomputed", "[accuracy]") {
  const auto forecast = [](const std::string& layers, const std::string& job, const std::string& stages,
                           const std::string& recompute) {
    return forecasts(fmt::format("hidden,heads,kv_heads,ffn_hidden,vocab,seq_len,gpu,framework,micro_batch,precision,"
                                 "step_time_s,layers,gpu_mem_gb,gpu_count,global_batch_seqs,tp,pp,vp,recompute\n"
                                 "8192,64,8,28672,128256,8192,H100,Megatron-Core 0.8,1,bf16,1,{},{},{},{}\n",
                                 layers, job, stages, recompute))
        .front();
  };
  const auto long_stages = [&](const std::string& stages, const std::string& recompute) {
    return forecast("80", "80,64,64,4,4", stages, recompute);
  };
  const RowForecast guessed = long_stages("", "");
  CHECK(guessed.fits);
  CHECK(says(guessed, "virtual stages: "));
  CHECK(says(guessed, " layers of a virtual stage, the least that fits"));
  // 20 layers of a stage: 20, 10, 5, 4, 2 or 1 virtual stages. Of those that are reported none is faster.
  CHECK(guessed.predicted_s < 0.9 * long_stages("", "full").predicted_s);
  for (const char* stages : {"10", "5", "4", "2", "1"})
    CHECK(guessed.predicted_s <= long_stages(stages, "").predicted_s);
  const RowForecast reported = long_stages("20", "");
  CHECK_FALSE(says(reported, "virtual stages: "));
  CHECK(says(reported, "everything, less does not fit"));
  // Two layers of a stage and as many micro-batches as stages: a longer bubble costs more than the second layer's recomputation.
  const RowForecast short_stages = forecast("32", "40,32,16,2,16", "", "");
  CHECK(says(short_stages, "everything, less does not fit"));
  CHECK(short_stages.predicted_s < forecast("32", "40,32,16,2,16", "1", "").predicted_s);
}
