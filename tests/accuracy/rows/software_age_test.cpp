#include "tools/accuracy/rows/software_age.hpp"

#include <algorithm>
#include <cmath>

#include <catch2/catch.hpp>

#include "sim/cost/attention.hpp"
#include "tests/accuracy/rows/one_row.hpp"
#include "tests/support/results.hpp"
#include "tools/accuracy/rows/framework_names.hpp"

using namespace tracecast;
using namespace tracecast::accuracy;
using test::assumes;
using test::row;

namespace {

/// A run on H100 with its framework and source.
RowScenario on_hopper(const std::string& framework, const std::string& source = "") {
  return row(",framework,source,gated_mlp", "," + framework + "," + source + ",1").value();
}

/// Time of its multiplications, relative to that of other runs on H100.
double gemm_factor(const std::string& framework, const std::string& source = "") {
  return on_hopper(framework, source).scenario.profile.in_training.gemm;
}
std::string kernel(const std::string& framework, const std::string& source = "") {
  return on_hopper(framework, source).scenario.profile.attention.front().kernel;
}

double year(const std::string& framework, const std::string& source = "") {
  const CsvTable table = CsvTable::parse("framework,source\n" + framework + "," + source + "\n", "t.csv").value();
  const TableFields fields(table, 0);
  return year_of_megatron(framework_name(fields), fields);
}

const AttentionModel& first_of(const Profile& profile, const std::string& kernel) {
  return *std::ranges::find_if(profile.attention, [&](const AttentionModel& model) { return model.kernel == kernel; });
}

/// The profile of a run on MI355X.
Profile on_cdna4(const std::string& framework, const std::string& notes, const std::string& source = "") {
  const std::string text =
      "layers,hidden,heads,ffn_hidden,vocab,seq_len,global_batch_seqs,gpu,gpu_count,framework,notes,"
      "source\n32,4096,32,11008,32000,4096,128,MI355X,16," +
      framework + "," + notes + "," + source + "\n";
  return scenario_of_row(CsvTable::parse(text, "t.csv").value(), 0, RowLibrary::open(shipped_data()).value())
      .value()
      .scenario.profile;
}

}  // namespace

TEST_CASE("software age: Megatron's by version, name or source", "[accuracy]") {
  CHECK(year("Megatron-Core 0.8") == Approx(2024.5));
  CHECK(year("Megatron-Core 0.18") == Approx(2026.5));  // June 2026
  CHECK(year("Megatron-LM core_r0.13") == Approx(2025.5));
  CHECK(year("Megatron-LM (2023)") == Approx(2023.5));
  CHECK(year("PyTorch 24.07 container; Megatron-LM") == Approx(2024 + 6.5 / 12));
  CHECK(year("Megatron-LM", "arXiv 2311.1") == Approx(2023 + 10.5 / 12));
  CHECK(year("Megatron-LM") == 0);
  CHECK(year("NeMo 24.07") == 0);
  CHECK(year("Megatron-Bridge 0.4") == 0);
}

TEST_CASE("software age: a later Megatron is not slower", "[property][accuracy]") {
  double last = 1e9;
  for (const char* name : {"Megatron-LM (2023)", "Megatron-Core 0.7", "Megatron-Core 0.8", "Megatron-LM core_r0.9",
                           "Megatron-Core 0.12", "Megatron-Core 0.16", "Megatron-LM 2026"}) {
    CAPTURE(name);
    CHECK(gemm_factor(name) < last);
    last = gemm_factor(name);
  }
  // 5 % per year, from mid 2023 to mid 2026
  CHECK(gemm_factor("Megatron-LM (2023)") / gemm_factor("Megatron-LM (2026)") == Approx(std::exp(0.05 * 3)));
  CHECK(assumes(on_hopper("Megatron-Core 0.13"), "Megatron of 2025.5"));
}

TEST_CASE("software age: Megatron before mid 2024 has cuDNN 8 on Hopper", "[accuracy]") {
  for (const char* name : {"Megatron-LM (2023)", "Megatron-Core 0.6", "Megatron-Core 0.8"})
    CHECK(kernel(name) == "cudnn8");
  CHECK(kernel("Megatron-LM", "arXiv 2311.1") == "cudnn8");
  for (const char* name : {"Megatron-LM", "Megatron-Core 0.9", "Megatron-Core 0.12", "Megatron-LM 2026"})
    CHECK(kernel(name) == "cudnn");
  CHECK(assumes(on_hopper("Megatron-LM (2023)"), "with attention of cuDNN 8"));
}

TEST_CASE("software age: PyTorch's attention on AMD's GPUs by its release", "[accuracy]") {
  const Profile megatron = on_cdna4("Megatron-Core", "");
  const AttentionModel aiter = megatron.attention.front();
  REQUIRE(aiter.kernel == "aiter");
  const AttentionModel old = on_cdna4("torchtitan", "").attention.front();
  CHECK(old.backward_efficiency < 0.5 * aiter.backward_efficiency);
  for (const char* before : {"PyTorch 2.8", "PyTorch 2.9 dev", "PyTorch 2.9.0.dev20250811+rocm6.4; torchao"})
    CHECK(on_cdna4("torchtitan", before).attention.front() == old);
  for (const char* since : {"PyTorch 2.9", "PyTorch 2.12.1", "PyTorch 2.13 nightly"}) {
    const AttentionModel model = on_cdna4("PyTorch FSDP", since).attention.front();
    CAPTURE(since);
    CHECK(model.kernel == "aotriton");
    CHECK(model.forward_efficiency == old.forward_efficiency);
    CHECK(model.backward_efficiency == aiter.backward_efficiency);
    CHECK(model.backward_s0 == aiter.backward_s0);
    CHECK(model.fit.residual >= aiter.fit.residual);
  }
  CHECK(on_cdna4("PyTorch FSDP", "PyTorch 2.13").attention.front() == aiter);
  // Without a release by the year.
  CHECK(on_cdna4("PyTorch FSDP", "", "arXiv 2509.1").attention.front() == old);
  CHECK(on_cdna4("PyTorch FSDP", "", "arXiv 2512.1").attention.front().backward_efficiency ==
        aiter.backward_efficiency);
  CHECK(first_of(on_cdna4("Megatron-Core", "PyTorch 2.9"), "aotriton") == first_of(megatron, "aotriton"));
}

TEST_CASE("software age: stacks that call PyTorch's attention have the same kernel", "[accuracy]") {
  for (const char* framework :
       {"PyTorch FSDP", "torchtitan", "DeepSpeed", "Hugging Face", "OLMo-core", "fms-fsdp", "torchtune"})
    CHECK(on_cdna4(framework, "").attention.front().kernel == "aotriton");
  for (const char* framework : {"LLM Foundry", "Nanotron", "Primus Megatron", "MaxText"})
    CHECK(on_cdna4(framework, "").attention.front().kernel == "aiter");
}
