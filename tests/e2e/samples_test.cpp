// Every sample of the formats that others write: read, or refused with the sentence that says why.
// The numbers were counted by an independent script.

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/engine/simulate.hpp"
#include "sim/import/importers.hpp"
#include "tests/e2e/shell.hpp"
#include "tests/support/paths.hpp"
#include "tracer/replay.hpp"

using namespace tracecast;
namespace fs = std::filesystem;

namespace {

const fs::path& samples() {
  static const fs::path folder = measurements_of_others() / "formats";
  return folder;
}

bool samples_are_here() {
  if (fs::exists(samples())) return true;
  WARN("skipped: no samples in " << measurements_of_others());
  return false;
}

struct Sample {
  const char* file;
  const char* says;  ///< in what is printed, spaces counted once
  bool refused = false;
};
constexpr bool kRefused = true;

struct Format {
  const char* name;
  const char* folder;
  std::vector<Sample> files;
  const char* options = "";
};

const char* const kNoGpu = "the GPU was not recorded (profile with ProfilerActivity.CUDA)";
const char* const kSystemLayer = "is of ASTRA-sim's system layer, which chooses algorithms of collectives";

std::vector<Format> formats() {
  const char* const on_a_node = "--model llama-3-8b --topology dgx-h100 --gpus 8 --set training.seq_length=4096";
  return {
      {"kineto",
       "kineto",
       {{"alexnet_cuda_sync_trace.json.gz", "kernels 79 copies and memsets 19 calls 361"},
        {"cpu_only_rank-34.json.gz", kNoGpu, kRefused},
        {"cupti_profiler_range.json.gz", kNoGpu, kRefused},
        {"distributed_info_not_found.json.gz", kNoGpu, kRefused},
        {"dlrm_worker0.pt.trace.json.gz", "kernels 245 copies and memsets 16 calls 525"},
        {"dlrm_worker1.pt.trace.json.gz", "kernels 310 copies and memsets 16 calls 527"},
        {"event_sync_multi_stream_trace.json.gz", "kernels 3 copies and memsets 3 calls 39"},
        {"hta_event_args_1.0.0.yaml", ":1: is not JSON from byte 1 on", kRefused},
        {"mi250_minitoy_train_ROCm6_2_kineto.json.gz", "kernels 14 copies and memsets 2 calls 21"},
        {"minimal_base.json.gz", "kernels 6 copies and memsets 12 calls 5"},
        {"nccl_data.json.gz", "kernels 2700 copies and memsets 1074 calls 8740"},
        {"sampled_rank-0.json.gz", "kernels 1154 copies and memsets 50 calls 1204"},
        {"triton_example.json.gz", "kernels 1 copies and memsets 0 calls 2"}}},
      {"nsight",
       "nsight",
       {{"cuda_gpu_kern_sum_sample.csv", "expected an SQLite export of nsys with CUDA activity", kRefused},
        {"h100_2gpu_1s.sqlite.gz", "kernels 3442 copies and memsets 926 calls 5796"},
        {"mfu_2gpu_before.sqlite.gz", "kernels 4010 copies and memsets 1289 calls 7466"},
        {"mock.sqlite.gz", "kernels 2 copies and memsets 1 calls 9"}}},
      {"nccl-inspector",
       "nccl-inspector",
       {{"allreduce_4x4090_rank0.jsonl", "calls measured 21"},
        {"allreduce_4x4090_rank1.jsonl", "calls measured 21"},
        {"exporter_summary_AllReduce_1GiB.csv", "does not say of which collective; import the .log files", kRefused}}},
      {"nccl-tests",
       "nccl-tests",
       {{"a100_16gpu_mpirun_tagged.log", "calls measured 25"},
        {"b200x8_all_reduce.txt", "calls measured 1"},
        {"constructed_v3.json", "calls measured 3"},
        {"h100x8_all_reduce_graph.log", "calls measured 6"},
        {"nccl_allreduce.log", "calls measured 32"},      // of 34 rows, two move nothing
        {"nccl_reducescatter.log", "calls measured 29"},  // of 34 rows, five move nothing
        {"p5_16gpu_nccl2.22.3_info.log.gz", "calls measured 32"},
        {"polaris_2n_all_reduce.txt", "calls measured 29"}}},
      {"nccl-log",
       "nccl-debug-log",
       {{"nccl2.12_4n32g_coll_tuning.txt", "collectives begun 206"},
        {"nccl2.2x_h200_2n16g_coll_tuning_excerpt.txt", "log of NCCL"},
        {"tuning_table_excerpt.txt", "log of NCCL"}}},
      {"nccl-topology",
       "nccl-topo-xml",
       {{"g5.48xl-topo.xml", "which of them are GPUs is not given", kRefused},
        {"ncv4-topo.xml", "CPUs 4 PCI devices 4"},
        {"ndv4-topo.xml", "CPUs 4 PCI devices 20"},
        {"p4d-24xl-topo.xml", "CPUs 2 PCI devices 16"},
        {"p5.48xl-topo.xml", "CPUs 1 PCI devices 48"},
        {"topo_8p_940.xml", "CPUs 2 PCI devices 40"},
        {"topo_a6000x4.xml", "CPUs 2 PCI devices 6"},
        {"topo_h100_ibm_vm.xml", "CPUs 2 PCI devices 24"},
        {"topo_h200_excerpt.xml", "CPUs 1 PCI devices 9"},
        {"topo_h200_vm_excerpt.xml", "CPUs 1 PCI devices 2"},
        {"topo_h800.xml", "CPUs 2 PCI devices 24"},
        {"topo_rtx4090x4.xml", "CPUs 4 PCI devices 5"}}},
      {"nvidia-smi",
       "nvidia-smi-topo",
       {{"dgx_h200x8_12nic.txt", "GPUs 8 NICs 12"},
        {"gcp_a3ultra_h200x8.txt", "GPUs 8 NICs 8"},
        {"h100x8_mlx5_columns.txt", "GPUs 8 "}}},
      {"simgrid",
       "simgrid-platform",
       {{"cluster_backbone.xml", "SimGrid platform"},
        {"cluster_fat_tree.xml", "SimGrid platform"},
        {"cluster_torus.xml", "SimGrid platform"},
        {"small_platform.xml", "a topology needs a <cluster>", kRefused},
        {"two_hosts.xml", "a topology needs a <cluster>", kRefused}}},
      {"chakra",
       "chakra-et",
       {{"all_reduce_4npus_1MB/all_reduce.0.et", "nodes 1 "},
        {"all_reduce_4npus_1MB/all_reduce.1.et", "nodes 1 "},
        {"all_reduce_4npus_1MB/all_reduce.2.et", "nodes 1 "},
        {"all_reduce_4npus_1MB/all_reduce.3.et", "nodes 1 "},
        {"custom_ring_allreduce_8npus_1MB/custom_allreduce.0.et", "nodes 35 "},
        {"custom_ring_allreduce_8npus_1MB/custom_allreduce.1.et", "nodes 35 "},
        {"custom_ring_allreduce_8npus_1MB/custom_allreduce.2.et", "nodes 35 "},
        {"custom_ring_allreduce_8npus_1MB/custom_allreduce.3.et", "nodes 35 "},
        {"custom_ring_allreduce_8npus_1MB/custom_allreduce.4.et", "nodes 35 "},
        {"custom_ring_allreduce_8npus_1MB/custom_allreduce.xml", "is XML, as custom collective algorithms are",
         kRefused},
        {"reduce_scatter_4npus_1MB/reduce_scatter.0.et", "nodes 1 "},
        {"reduce_scatter_4npus_1MB/reduce_scatter.1.et", "nodes 1 "},
        {"reduce_scatter_4npus_1MB/reduce_scatter.2.et", "nodes 1 "},
        {"reduce_scatter_4npus_1MB/reduce_scatter.3.et", "nodes 1 "},
        {"resnet_chakra.0.et.gz", "nodes 3664 "},
        {"small_chakra.0.json", "nodes 7 "}}},
      {"pytorch-et",
       "pytorch-et",
       {{"1.0.2-chakra.0.0.4.json.gz", "nodes 263 "},
        {"dlrm_eg_0.json.gz", "nodes 1675 "},
        {"dlrm_eg_1.json.gz", "nodes 1675 "},
        {"linear_et.json.gz", "nodes 931 "},
        {"pt2_et.json.gz", "nodes 20 "},
        {"resnet_2gpu_1.1.0-chakra.0.0.4_et.json.gz", "nodes 14392 "}}},
      {"simai",
       "simai",
       {{"L7B-D1-C01_Llama7B_zero2_mbs1.csv", "collectives 305"},
        {"L7B-M1-C04_Llama7B_megatron_tp2_pp1_mbs1_A100.txt", "layers 76 "},
        {"SimAI.conf", "configures SimAI's ns-3 and describes no step", kRefused},
        {"busbw.yaml", "is SimAI's table of bus bandwidths", kRefused},
        {"microAllReduce.txt", "layers 2 "},
        {"nvlink_ratio.csv", "is SimAI's table of efficiencies of links", kRefused},
        {"topo_DCN+SingleToR_16g_8gps_200Gbps_A100.txt", ":1: is not a workload of SimAI", kRefused},
        {"topo_Spectrum-X_16g_8gps_400Gbps_H100.txt", ":1: is not a workload of SimAI", kRefused},
        {"workload_analytical.txt", "layers 1789 "}}},
      {"astra-sim",
       "astra-sim",
       {{"Ring_FullyConnected_Switch.yml", "a link of its own to each of 7 other nodes is not modelled", kRefused},
        {"inputs__network__hgx_h100_16gpu.yml", "dimensions 2 GPUs 16"},
        {"inputs__network__tpu_v3_32_2dtorus.yml", "dimensions 2 GPUs 32"},
        {"inputs__system__analytical__hgx_h100_16gpu.json", kSystemLayer, kRefused},
        {"inputs__system__analytical__tpu_v3_32_2dtorus.json", kSystemLayer, kRefused},
        {"network__analytical__HGX-H100-validated.yml", "dimensions 1 GPUs 8"},
        {"network__analytical__Ring_16npus.yml", "dimensions 1 GPUs 16"},
        {"network__ns3__sample_16nodes_2D.json", "counts the dimensions for ns-3 and has no rates", kRefused},
        {"remote_memory__analytical__no_memory_expansion.json", "describes remote memory", kRefused},
        {"system__native_collectives__HGX-H100-validated.json", kSystemLayer, kRefused},
        {"system__native_collectives__Ring_4chunks.json", kSystemLayer, kRefused}}},
      {"calculon",
       "calculon",
       {{"3072_t4_p64_d12_mbs4_full.json", "Calculon"},
        {"a100_80g.json", "is a system of Calculon", kRefused},
        {"gpt3-175B.json", "training.seq_length=2048"},
        {"h100_80g_nvl8.json", "is a system of Calculon", kRefused},
        {"stats_gpt3-175B_3072procs.json", "is a result of Calculon, not one of its inputs", kRefused}}},
      {"megatron",
       "megatron-args",
       {{"deepseekv3_proxy_flex_tp1pp4emp16etp1cp1_release.yaml", "on 256 GPUs of dgx-h100"},
        {"golden_summary.csv", "has no argument (they begin with --)", kRefused},
        {"gpt3_15b_8t_release.yaml", "its last batch of 1152 sequences counts"},
        {"mixtral_8x7b_alltoall_tp2pp4ep4_release.yaml", "on 256 GPUs of dgx-h100"},
        {"llama3-nemo_8b_mr_mbs4_gbs64_mcore_te_tp1_pp1_cp2_dgx_a100_1N8G.yaml", "model.num_layers: is missing",
         kRefused}},
       "--topology dgx-h100 --gpus 256 --set model.vocab_size=128256"},
      {"megatron-bridge",
       "megatron-bridge",
       {{"llama32_1b_pretrain.yaml", "llama-3-8b on 8 GPUs of dgx-h100"},
        {"quantized_llama3_8b_pretrain_override_example.yaml", "which the file leaves open"}},
       on_a_node},
      {"deepspeed",
       "deepspeed-config",
       {{"ds_config_func_bs4_zero1.json", "is not a multiple of gradient_accumulation_steps = 1 x 8", kRefused},
        {"ds_config_func_bs8_zero2_offload.json", "activation_checkpointing.partition_activations"},
        {"ds_config_zero3.json", "on 8 GPUs of dgx-h100"},
        {"zero_stage3_offload_config.json", "on 8 GPUs of dgx-h100"}},
       on_a_node},
      {"accelerate",
       "accelerate-config",
       {{"deepspeed.yaml", "has the settings: import it (tracecast import deepspeed)", kRefused},
        {"fsdp.yaml", "on 8 GPUs of dgx-h100"},
        {"tp_hsdp.yaml", "on 8 GPUs of dgx-h100"}},
       on_a_node},
      {"torchtitan",
       "torchtitan-toml",
       {{"deepseek_v3_671b.toml", "training.global_batch_size = 1024"},
        {"llama3_405b.toml", "training.global_batch_size = 16: 2 sequences"},
        {"llama3_8b.toml", "training.global_batch_size = 64"},
        {"llama4_17bx16e.toml", "training.global_batch_size = 64"}},
       "--model llama-3-8b --topology dgx-h100 --gpus 64"},
  };
}

/// Words with one space between them and one at the end.
std::string squeezed(const std::string& text) {
  std::string words;
  for (const char c : text)
    if (c != ' ' && c != '\n')
      words += c;
    else if (!words.empty() && words.back() != ' ')
      words += ' ';
  return words + ' ';
}

std::set<std::string> files_below(const fs::path& folder) {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().filename() != "README.md")
      files.insert(fs::relative(entry.path(), folder).string());
  return files;
}

}  // namespace

TEST_CASE("samples: every importer reads every sample of its format or says why not", "[e2e][samples]") {
  if (!samples_are_here()) return;
  const Sandbox sandbox;
  for (const Format& format : formats()) {
    std::set<std::string> unnamed = files_below(samples() / format.folder);
    for (const Sample& sample : format.files) {
      unnamed.erase(sample.file);
      const Outcome outcome =
          sandbox.run(fmt::format("tracecast import {} '{}' {} -o imported", format.name,
                                  (samples() / format.folder / sample.file).string(), format.options));
      INFO(format.name << " " << sample.file << "\n" << outcome.out << outcome.err);
      CHECK(outcome.code == (sample.refused ? 2 : 0));
      CHECK(squeezed(sample.refused ? outcome.err : outcome.out + outcome.err).find(sample.says) != std::string::npos);
    }
    INFO(format.folder);
    CHECK(unnamed == std::set<std::string>{});
  }
}

TEST_CASE("samples: recorded steps of PyTorch's profiler come back as long as they were", "[e2e][samples][replay]") {
  if (!samples_are_here()) return;
  // Duration of the range ProfilerStep#N on the host, us, and whether the GPU was done when it ended. In `minimal_base`, which was
  // cut together by hand, kernels of a step run on for half a step.
  struct Step {
    const char* file;
    std::int64_t number;
    double range_us;
    bool gpu_is_done = true;
  };
  const Step steps[] = {{"dlrm_worker0.pt.trace.json.gz", 10, 14'455},
                        {"dlrm_worker1.pt.trace.json.gz", 10, 19'901},
                        {"mi250_minitoy_train_ROCm6_2_kineto.json.gz", 1, 9'288.291},
                        {"minimal_base.json.gz", 1009, 100'298, false},
                        {"minimal_base.json.gz", 1010, 122'149, false},
                        {"nccl_data.json.gz", 4, 222'442.191},
                        {"nccl_data.json.gz", 5, 219'726.905},
                        {"nccl_data.json.gz", 6, 224'936.243},
                        {"sampled_rank-0.json.gz", 551, 607'312},
                        {"sampled_rank-0.json.gz", 552, 622'928},
                        {"triton_example.json.gz", 1, 13'336'315.805}};
  for (const Step& step : steps) {
    const std::string file = (samples() / "kineto" / step.file).string();
    const Result<Trace> trace = read_any_recording(file);
    REQUIRE(trace);
    const Result<Replay> replay = replay_graph(*trace, step.number, file);
    REQUIRE(replay);
    const Result<Timeline> timeline = simulate(replay->graph);
    REQUIRE(timeline);
    const double recorded = 1e6 * seconds(replay->recorded);
    const double replayed = 1e6 * seconds(timeline->step_time);
    INFO(fmt::format("{} step {}: range {:.1f} us, recorded {:.1f}, replayed {:.1f}", step.file, step.number,
                     step.range_us, recorded, replayed));
    CHECK(replayed == Approx(recorded).epsilon(0.02));
    if (step.gpu_is_done) CHECK(replayed == Approx(step.range_us).epsilon(0.02));
    if (!step.gpu_is_done) CHECK(recorded > step.range_us);
  }
}
