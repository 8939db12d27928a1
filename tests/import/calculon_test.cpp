// Applications and executions of Calculon.
#include "sim/import/calculon.hpp"

#include <algorithm>
#include <filesystem>
#include <string>

#include <catch2/catch.hpp>

#include "sim/import/importers.hpp"
#include "tests/import/samples.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;

// docs/references.md#format-calculon
TEST_CASE("calculon: one head of keys, scattered messages, and inference, which is refused", "[io][calculon]") {
  const auto read = [](const std::string& more) {
    return read_calculon(
        R"({"num_procs": 8, "tensor_par": 4, "pipeline_par": 2, "data_par": 1, "pipeline_interleaving": 1, "batch_size": 8,
            "microbatch_size": 1, )" +
            more + "}",
        "c.json");
  };
  const auto has = [](const Result<CalculonInput>& input, const std::string& setting) {
    if (!input) FAIL(to_string(input.error()));
    return std::count(input->settings.begin(), input->settings.end(), setting) == 1;
  };
  const auto scattered =
      read(R"("attention_type": "multiquery", "tensor_par_comm_type": "p2p_rs_ag", "training": true)");
  CHECK(has(scattered, "model.num_query_groups=1"));
  CHECK(has(scattered, "parallel.sequence_parallel=false"));
  CHECK(has(scattered, "parallel.scatter_gather_p2p=true"));
  const auto sequence = read(R"("attention_type": "multihead", "tensor_par_comm_type": "rs_ag")");
  CHECK_FALSE(has(sequence, "model.num_query_groups=1"));
  CHECK(has(sequence, "parallel.sequence_parallel=true"));
  CHECK_FALSE(has(sequence, "parallel.scatter_gather_p2p=true"));
  CHECK(error_text(read(R"("training": false)")) == "c.json:2: training = false: is inference, which is not forecast");
  CHECK(error_text(read(R"("attention_type": "linear")")) ==
        "c.json:2: attention_type = \"linear\": is unknown (allowed: multihead multiquery)");
}

TEST_CASE("calculon: settings without a counterpart are named", "[io][calculon]") {
  const auto read = value_of(read_calculon(
      R"({"num_procs": 8, "tensor_par": 8, "pipeline_par": 1, "data_par": 1, "pipeline_interleaving": 1, "batch_size": 8,
          "microbatch_size": 1, "seq_par_ag_redo": true, "fused_activation": true, "weight_offload": false})",
      "c.json"));
  CHECK(read.notes == std::vector<std::string>{"seq_par_ag_redo has no counterpart and was left out",
                                               "fused_activation has no counterpart and was left out"});
}

TEST_CASE("calculon: an application or an execution given as a scenario", "[io][calculon]") {
  const std::filesystem::path corpus = source_dir() / "tests/fuzz/corpus";
  const Scenario planned = value_of(
      read_any_scenario(corpus / "calculon-application.json", shipped_data(),
                        {"cluster.topology=dgx-h100", "cluster.world_size=64", "training.global_batch_size=128"}));
  CHECK(planned.model.num_layers == 24);
  CHECK(planned.model.hidden_size == 1024);
  CHECK(planned.training.seq_length == 2048);
  const Result<Scenario> asked = read_any_scenario(corpus / "calculon-application.json", shipped_data());
  REQUIRE_FALSE(asked);
  CHECK(to_string(asked.error())
            .ends_with(".json: does not say the machine, the number of GPUs: give --set cluster.topology=NAME --set "
                       "cluster.world_size=N (NAME: shipped, or a file)"));
  const Scenario run = value_of(read_any_scenario(
      corpus / "calculon-execution.json", shipped_data(),
      {"model=gpt3-175b", "model.vocab_size=51200", "cluster.topology=dgx-h100", "training.seq_length=2048"}));
  CHECK(run.model.num_layers == 96);
  CHECK(run.cluster.world_size > 1);
}

TEST_CASE("calculon: an application is a model, an execution its settings", "[io][calculon]") {
  if (!have_samples()) return;
  const Result<CalculonInput> gpt = read_calculon(sample("calculon/gpt3-175B.json"), "gpt");
  REQUIRE(gpt);
  REQUIRE(gpt->model);
  CHECK(gpt->model->hidden_size == 12288);
  CHECK(gpt->model->num_layers == 96);
  const Result<CalculonInput> run = read_calculon(sample("calculon/3072_t4_p64_d12_mbs4_full.json"), "run");
  REQUIRE(run);
  for (const char* setting : {"parallel.tp=4", "parallel.pp=64", "parallel.dp=12", "training.global_batch_size=3072",
                              "training.recompute=full", "parallel.sequence_parallel=true", "parallel.zero_stage=1"})
    CHECK(std::count(run->settings.begin(), run->settings.end(), setting) == 1);
  for (const char* file : {"a100_80g.json", "h100_80g_nvl8.json"})
    CHECK(error_text(read_calculon(sample(std::string("calculon/") + file), "s"))
              .starts_with("s: is a system of Calculon"));
  CHECK(error_text(read_calculon(sample("calculon/stats_gpt3-175B_3072procs.json"), "s")) ==
        "s: is a result of Calculon, not one of its inputs");
}
