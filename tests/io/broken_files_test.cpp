// Broken input, word for word: every file of tests/data/broken with the sentences that its reader gives.

#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/io/files.hpp"
#include "sim/plan/plan.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;
namespace fs = std::filesystem;

namespace {

struct Broken {
  const char* file;
  std::vector<std::string> sentences;
};

/// One line per mistake, without the path of the source tree.
std::vector<std::string> lines(const Error& error) {
  std::vector<std::string> result;
  const std::string folder = (source_dir() / "tests/data/broken/").string();
  for (const Diagnostic& diagnostic : error.diagnostics) {
    std::string line = to_string(diagnostic);
    for (std::size_t at = line.find(folder); at != std::string::npos; at = line.find(folder))
      line.erase(at, folder.size());
    result.push_back(std::move(line));
  }
  return result;
}

template <class T>
std::vector<std::string> complaint(const Result<T>& result) {
  return result ? std::vector<std::string>{"accepted"} : lines(result.error());
}

/// A scenario as `predict` takes it: read, then planned, with the plan's mistakes located in the file.
std::vector<std::string> complaint_about_scenario(const fs::path& file) {
  const Result<Scenario> scenario = read_scenario(file, shipped_data());
  if (!scenario) return lines(scenario.error());
  const Result<Plan> plan =
      make_plan(scenario->model, scenario->parallel, scenario->training, scenario->cluster.world_size);
  return plan ? std::vector<std::string>{"accepted"} : lines(located(plan.error(), *scenario));
}

std::vector<std::string> complaint_about(const fs::path& file) {
  const std::string name = file.filename().string();
  if (name.starts_with("topology-")) return complaint(read_topology(file));
  if (name.starts_with("profile-")) return complaint(read_profile(file));
  return complaint_about_scenario(file);
}

// clang-format off
const std::vector<Broken> kBroken{
    {"profile-measured-shape.json",
     {"profile-measured-shape.json:24: measured[0].shape.m = 0: is not positive"}},
    {"profile-negative-efficiency.json",
     {"profile-negative-efficiency.json:13: gemm.bf16.efficiency = -0.8: is out of range (allowed: above 0, to 1.1)"}},
    {"profile-no-fit.json",
     {"profile-no-fit.json:11: gemm.bf16.fit: is missing"}},
    {"profile-rate-without-unit.json",
     {"profile-rate-without-unit.json:8: memory_bandwidth = \"3350\": has no unit (for example \"400 Gb/s\"; allowed: B/s kB/s MB/s GB/s TB/s MiB/s GiB/s TiB/s b/s kb/s Mb/s Gb/s Tb/s)"}},
    {"profile-unknown-kind.json",
     {"profile-unknown-kind.json:3: kind = \"guessed\": is unknown (allowed: fitted recorded specification)"}},
    {"profile-unknown-precision.json",
     {"profile-unknown-precision.json:11: gemm.bfp16: unknown key (did you mean 'fp16'?)"}},
    {"scenario-392-gpus.json",
     {"scenario-392-gpus.json:7: parallel.dp = 2: tp 2 x cp 1 x pp 49 x dp 2 make 196 ranks, not the 392 of the cluster (needed here: dp 4)"}},
    {"scenario-batch-not-divisible.json",
     {"scenario-batch-not-divisible.json:7: training.global_batch_size = 64: is not a multiple of micro_batch_size 3 x dp 8 = 24 (nearest: 48 or 72)"}},
    {"scenario-batch-zero.json",
     {"scenario-batch-zero.json:4: training.global_batch_size = 0: is out of range (allowed: 1 to 1000000000)"}},
    {"scenario-byte-order-mark.json",
     {"scenario-byte-order-mark.json:1: begins with a byte order mark (save it as UTF-8 without one)"}},
    {"scenario-comment.json",
     {"scenario-comment.json:2: syntax error: invalid literal at '/'"}},
    {"scenario-duplicate-key.json",
     {"scenario-duplicate-key.json:5: parallel.tp: duplicate key"}},
    {"scenario-empty.json",
     {"scenario-empty.json: is empty"}},
    {"scenario-half-a-gpu.json",
     {"scenario-half-a-gpu.json:5: cluster.world_size = 0.5: is not an integer"}},
    {"scenario-hf-config-missing.json",
     {"scenario-hf-config-missing.json:2: model.hf_config = \"models/config.json\": does not exist"}},
    {"scenario-inline-model-heads.json",
     {"scenario-inline-model-heads.json:4: model.num_attention_heads = 6: does not divide model.hidden_size = 64, and model.head_dim is not given"}},
    {"scenario-is-a-list.json",
     {"scenario-is-a-list.json:1: is not an object"}},
    {"scenario-latin-1.json",
     {"scenario-latin-1.json:2: syntax error: invalid string: ill-formed UTF-8 byte"}},
    {"scenario-measured-nothing.json",
     {"scenario-measured-nothing.json:5: measured.step_time_s = 0: is not a positive number"}},
    {"scenario-missing-comma.json",
     {"scenario-missing-comma.json:3: syntax error: unexpected string literal; expected '}'"}},
    {"scenario-model-is-a-number.json",
     {"scenario-model-is-a-number.json:2: model = 7: is not the name of a model, an object or {\"hf_config\": path}"}},
    {"scenario-no-training.json",
     {"scenario-no-training.json:1: training: is missing"}},
    {"scenario-not-a-number.json",
     {"scenario-not-a-number.json:5: syntax error: invalid literal at 'N' (JSON has no NaN and no Infinity)"}},
    {"scenario-number-too-large.json",
     {"scenario-number-too-large.json:4: training.seq_length = 99999999999999999999: is out of range"}},
    {"scenario-several-mistakes.json",
     {"scenario-several-mistakes.json:1: model: is missing",
      "scenario-several-mistakes.json:2: modle: unknown key (did you mean 'model'?)",
      "scenario-several-mistakes.json:3: parallel.tp = 0: is out of range (allowed: 1 to 1000000)",
      "scenario-several-mistakes.json:3: parallel.zero_stage = 4: is out of range (allowed: 0 to 3)",
      "scenario-several-mistakes.json:3: parallel.rank_order = 3: is not a string",
      "scenario-several-mistakes.json:4: training.seq_length: is missing",
      "scenario-several-mistakes.json:5: training.seq_len: unknown key (did you mean 'seq_length'?)",
      "scenario-several-mistakes.json:8: cluster.world_size: is missing"}},
    {"scenario-text-for-number.json",
     {"scenario-text-for-number.json:3: parallel.tp = \"2\": is not an integer"}},
    {"scenario-too-deep.json",
     {"scenario-too-deep.json:2: nested deeper than 100 levels"}},
    {"scenario-no-fp8-attention.json",
     {"scenario-no-fp8-attention.json:3: training.fp8_attention = true: the profile h100 has no attention in mxfp8"}},
    {"scenario-tp-and-heads.json",
     {"scenario-tp-and-heads.json:4: parallel.tp = 64: does not divide model.num_attention_heads = 32 (allowed: 1 2 4 8 16 32)"}},
    {"scenario-trailing-comma.json",
     {"scenario-trailing-comma.json:3: syntax error: unexpected '}'; expected string literal"}},
    {"scenario-truncated.json",
     {"scenario-truncated.json:4: syntax error: invalid string: missing closing quote"}},
    {"scenario-two-documents.json",
     {"scenario-two-documents.json:7: syntax error: unexpected '{'; expected end of input"}},
    {"scenario-unknown-attention-kernel.json",
     {"scenario-unknown-attention-kernel.json:3: training.attention_kernel = \"flash9\": is not a kernel of the profile h100 (allowed: cudnn fa3 fa2 cudnn8 triton)"}},
    {"scenario-unknown-dtype.json",
     {"scenario-unknown-dtype.json:4: training.dtype = \"bfloat16\": is unknown (allowed: fp32 fp16 bf16 fp8 fp8_block mxfp8 nvfp4)"}},
    {"scenario-unknown-key.json",
     {"scenario-unknown-key.json:4: parallel.tpp: unknown key (did you mean 'tp'?)"}},
    {"scenario-unknown-model.json",
     {"scenario-unknown-model.json:2: model = \"gpt2-smal\": unknown model 'gpt2-smal' (did you mean 'gpt2-small'?)"}},
    {"scenario-unknown-profile.json",
     {"scenario-unknown-profile.json:5: cluster.profile = \"./my-h100.json\": does not exist"}},
    {"scenario-unknown-topology.json",
     {"scenario-unknown-topology.json:5: cluster.topology = \"dgx-h10\": unknown topology 'dgx-h10' (did you mean 'dgx-h100'?)"}},
    {"topology-misspelt-key.json",
     {"topology-misspelt-key.json:4: node.gpu_link: is missing",
      "topology-misspelt-key.json:7: node.gpu_lnk: unknown key (did you mean 'gpu_link'?)"}},
    {"topology-negative-rate.json",
     {"topology-negative-rate.json:7: node.gpu_link = \"-450 GB/s\": is negative"}},
    {"topology-no-gpus.json",
     {"topology-no-gpus.json:5: node.gpus = 0: is out of range (allowed: 1 to 16777216)"}},
    {"topology-no-source.json",
     {"topology-no-source.json:14: fabric.tiers.nodes = 4: has no source (name one in 'sources', for this key or the group it is in)"}},
    {"topology-oversubscribed-backwards.json",
     {"topology-oversubscribed-backwards.json:14: fabric.tiers[0].oversubscription = 0.5: must be at least 1 (downlink / uplink bandwidth)"}},
    {"topology-rate-without-unit.json",
     {"topology-rate-without-unit.json:7: node.gpu_link = \"450\": has no unit (for example \"400 Gb/s\"; allowed: B/s kB/s MB/s GB/s TB/s MiB/s GiB/s TiB/s b/s kb/s Mb/s Gb/s Tb/s)"}},
    {"topology-tiers-shrink.json",
     {"topology-tiers-shrink.json:14: fabric.tiers = [2 items]: tier 1 holds 4 nodes, not more than the tier below (8)"}},
    {"topology-unknown-link.json",
     {"topology-unknown-link.json:6: node.link = \"nvlink\": is unknown (allowed: nvswitch nvlink-mesh pcie xgmi none)"}},
};
// clang-format on

}  // namespace

TEST_CASE("broken files: every one gives its sentence", "[io][error]") {
  for (const Broken& broken : kBroken) {
    INFO(broken.file);
    CHECK(complaint_about(source_dir() / "tests/data/broken" / broken.file) == broken.sentences);
  }
}

TEST_CASE("broken files: every file of the folder has its sentence", "[io][error]") {
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(source_dir() / "tests/data/broken")) {
    INFO(entry.path().string());
    const std::string name = entry.path().filename().string();
    CHECK(std::any_of(kBroken.begin(), kBroken.end(), [&name](const Broken& broken) { return broken.file == name; }));
    ++files;
  }
  CHECK(files == kBroken.size());
}
