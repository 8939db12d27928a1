// What rows leave out, by the framework: docs/references.md#stack-rules and the entries named at each rule.
#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "tests/accuracy/rows/one_row.hpp"
#include "tools/accuracy/rows/row_part.hpp"

using namespace tracecast;
using namespace tracecast::accuracy;
using tracecast::test::assumes;
using tracecast::test::row;

namespace {

std::string stack_of(const std::string& framework) { return row(",framework", "," + framework).value().stack; }

}  // namespace

TEST_CASE("row: NeMo of September 2025 and later is Megatron-Bridge", "[accuracy]") {
  for (const char* name : {"NeMo 25.09", "NeMo 26.02", "NeMo Megatron-Bridge 26.06", "MegatronBridge",
                           "NVIDIA NeMo Framework 26.06 (Megatron-Bridge)"})
    CHECK(stack_of(name) == "megatron-bridge");
  CHECK(stack_of("NeMo 25.07") == "nemo-2025");
  CHECK(stack_of("NeMo/Megatron-Core") == "megatron-core");
  CHECK(stack_of("NeMo AutoModel 26.06") == "nemo-automodel-dense");
}

TEST_CASE("row: names of frameworks that tables may use", "[accuracy]") {
  CHECK(stack_of("Primus v25.10") == "primus-megatron");
  CHECK(stack_of("AMD Primus") == "primus-megatron");
  CHECK(stack_of("Primus torchtitan") == "primus-torchtitan");
  CHECK(stack_of("torchao") == "torchtitan");
  CHECK(stack_of("PyTorch") == "pytorch-fsdp");
  CHECK(stack_of("OLMo") == "olmo-core");
}

TEST_CASE("row: Megatron-Core divides sequences and optimizer states unless a row denies it", "[accuracy]") {
  const auto parallel = [](const std::string& framework, const std::string& columns, const std::string& values) {
    return row(",framework,tp" + columns, "," + framework + ",2" + values).value().scenario.parallel;
  };
  CHECK(parallel("Megatron-Bridge", "", "").sequence_parallel);
  CHECK(parallel("Megatron-Bridge", "", "").zero_stage == 1);
  CHECK_FALSE(parallel("Megatron-Bridge", ",seq_parallel", ",0").sequence_parallel);
  CHECK(parallel("Megatron-Bridge", ",distributed_optimizer", ",0").zero_stage == 0);
  CHECK(parallel("Megatron-Bridge", ",zero_stage", ",0").zero_stage == 0);
  CHECK_FALSE(parallel("Megatron-DeepSpeed", "", "").sequence_parallel);
  CHECK(parallel("Megatron-DeepSpeed", "", "").zero_stage == 0);
  CHECK(parallel("DeepSpeed ZeRO-3", "", "").zero_stage == 3);
  CHECK(parallel("DeepSpeed ZeRO-2", "", "").zero_stage == 2);
  CHECK(parallel("DeepSpeed", "", "").zero_stage == 0);
}

TEST_CASE("row: a note that denies something does not say it", "[accuracy]") {
  for (const char* text : {"no token drop", "dropless (no token drop)", "without token drop", "token drop: none",
                           "token drop off", "No token drop"})
    CHECK_FALSE(affirms(text, "token drop"));
  for (const char* text : {"token drop", "with token drop", "piano token drop", "no DeepEP, token drop"})
    CHECK(affirms(text, "token drop"));
  CHECK(affirms("no token drop in 2024, token drop since", "token drop"));
}

TEST_CASE("row: fine-tuning is packed where Megatron-Core or a note packs it", "[accuracy]") {
  const auto window = [](const std::string& framework, const std::string& note) {
    return row(",framework,task,notes", "," + framework + ",sft," + note).value().scenario.model.sliding_window;
  };
  CHECK(window("Megatron-Bridge", "") > 0);
  CHECK(window("torchtune", "") == 0);
  CHECK(window("torchtune", "packed samples") > 0);
  CHECK(window("TRL", "SQuAD") > 0);
}

TEST_CASE("row: MaxText recomputes everything, unless its policy saves all multiplications", "[accuracy]") {
  const auto training = [](const std::string& recompute, const std::string& policy) {
    return row(",framework,recompute,recompute_detail", ",MaxText," + recompute + "," + policy)
        .value()
        .scenario.training;
  };
  CHECK(training("", "").recompute == Recompute::full);
  CHECK(training("selective_other", "save_qkv_proj").recompute == Recompute::full);
  CHECK(training("selective_other", "minimal").recompute_modules == std::vector<std::string>{"norm", "activation"});
  CHECK(training("none", "").recompute == Recompute::none);
  CHECK(assumes(row(",framework,recompute,recompute_detail", ",MaxText,selective_other,save_qkv_proj").value(),
                "'save_qkv_proj': taken as full"));
}

TEST_CASE("row: whether something is compiled", "[accuracy]") {
  const auto compiled = [](const std::string& framework, const std::string& value) {
    return row(",framework,compiled", "," + framework + "," + value).value().scenario.training.compiled;
  };
  CHECK(compiled("torchtitan", "torch.compile"));
  CHECK(compiled("torchtitan", "1"));
  CHECK(compiled("torchtitan", "True"));
  CHECK_FALSE(compiled("torchtitan", ""));
  CHECK_FALSE(compiled("Megatron-Bridge", "1"));
  CHECK(compiled("OLMo-core", ""));
  CHECK_FALSE(compiled("OLMo-core", "none"));
}

TEST_CASE("row: PyTorch's attention on Hopper by its release", "[accuracy]") {
  const auto kernel = [](const std::string& framework, const std::string& note) {
    return row(",framework,notes", "," + framework + "," + note).value().scenario.profile.attention.front().kernel;
  };
  const std::string cudnn = kernel("Megatron-Bridge", "");
  CHECK(kernel("torchtitan", "") == "fa2");
  CHECK(kernel("torchtitan", "PyTorch 2.9 dev") == "fa2");
  CHECK(kernel("torchtitan", "PyTorch 2.10.0") == cudnn);
  CHECK(kernel("torchtune", "PyTorch 2.10") == "fa2");
  CHECK(kernel("torchtune", "PyTorch 2.11") == cudnn);
  CHECK(kernel("DeepSpeed", "") == "fa2");
}

TEST_CASE("row: experts in every second layer, if the parameters say so", "[accuracy]") {
  const auto interval = [](const std::string& billions) {
    const RowScenario r = row(",params_b,moe_experts,moe_topk,moe_ffn_hidden", "," + billions + ",16,1,11008").value();
    CHECK(assumes(r, "every second layer") == (r.scenario.model.moe->layer_interval == 2));
    return r.scenario.model.moe->layer_interval;
  };
  CHECK(interval("71.7") == 1);  // 32 layers of 16 experts
  CHECK(interval("39") == 2);
  CHECK(interval("") == 1);
  CHECK(interval("60") == 1);  // something else is missing
}
