// Recordings on GPUs, as far as they need none: who sits where, what was measured so far, the profile that comes of it,
// where the time of overlapping streams goes.

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <sys/wait.h>

#include "kernels/cuda/rendezvous.hpp"
#include "kernels/executor.hpp"
#include "kernels/measurement_log.hpp"
#include "kernels/recording.hpp"
#include "sim/cost/costs.hpp"
#include "sim/io/files.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace tracecast;
using namespace tracecast::literals;

namespace {

cuda::Environment environment_of(const std::map<std::string, std::string>& values) {
  return [values](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  };
}

/// Two operators on the compute stream and an all-reduce on another: the first records, the all-reduce waits for it, the
/// second operator for the all-reduce.
StepGraph one_all_reduce() {
  StepGraph graph;
  graph.streams = {{"compute"}, {"tp"}};
  graph.rank_events = 2;
  graph.microbatches = 1;
  graph.operators.resize(1);
  graph.collectives.resize(1);
  graph.communicators.push_back({"tp", {}, {0, 1}});
  Template work{"forward", Phase::forward, 0, {}, {}, {}};
  work.ops.push_back({OpType::compute, 0, -1, 0, {}, {}, {}, {0, 0}});
  work.ops.push_back({OpType::collective, 1, -1, 0, {}, {}, {{0, 0}}, {1, 0}});
  work.ops.push_back({OpType::compute, 0, -1, -1, {}, {}, {{1, 0}}, {}});
  work.ops.push_back({OpType::compute, 0, -1, 0, {}, {}, {}, {}});
  graph.templates.push_back(work);
  graph.programs.push_back({{0, 0}});
  for (std::int32_t r = 0; r < 2; ++r) graph.ranks.push_back({r, 1, kNoSlowdown, -1, 0, 0, {0}, {}});
  return graph;
}

}  // namespace

TEST_CASE("gpu ranks: the launcher's environment says who is who", "[kernels][cuda]") {
  CHECK(*cuda::job_rank_from(environment_of({})) == cuda::JobRank{0, 1, 0});
  CHECK(*cuda::job_rank_from(environment_of({{"OMPI_COMM_WORLD_RANK", "5"},
                                             {"OMPI_COMM_WORLD_SIZE", "8"},
                                             {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                             {"SLURM_PROCID", "7"}})) == cuda::JobRank{5, 8, 1});
  CHECK(*cuda::job_rank_from(environment_of({{"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "4"}})) ==
        cuda::JobRank{2, 4, 2});
  // A batch script of eight tasks that starts one process without srun.
  CHECK(*cuda::job_rank_from(environment_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}})) == cuda::JobRank{});
}

TEST_CASE("gpu ranks: one process is alone, whatever the job says that it runs in", "[kernels][cuda]") {
  const cuda::Environment step = environment_of({{"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "4"}});
  CHECK(*cuda::job_rank_from(step, 1) == cuda::JobRank{});
  CHECK(*cuda::job_rank_from(step, 4) == cuda::JobRank{2, 4, 2});
  CHECK(error_text(cuda::job_rank_from(step, 2)) == "2 ranks were started, and the launcher's variables say 4");
}

TEST_CASE("gpu ranks: an environment that cannot be is a sentence", "[kernels][cuda][error]") {
  const auto error = [](const std::map<std::string, std::string>& values) {
    return error_text(cuda::job_rank_from(environment_of(values)));
  };
  CHECK(error({{"PMI_RANK", "x"}, {"PMI_SIZE", "2"}}) == "PMI_RANK = x: not a number of ranks");
  CHECK(error({{"OMPI_COMM_WORLD_RANK", "-1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}) ==
        "OMPI_COMM_WORLD_RANK = -1: not a number of ranks");
  CHECK(error({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}) == "PMI_RANK = 2: must be below PMI_SIZE = 2");
}

TEST_CASE("gpu ranks: what is left in the folder is fetched, whole, in order", "[kernels][cuda]") {
  const TemporaryFolder folder;
  const cuda::Rendezvous first({0, 3, 0}, folder.path());
  const std::string bytes("a\0b\n", 4);
  REQUIRE(cuda::Rendezvous({2, 3, 2}, folder.path()).gather_at_root("times", "two")->empty());
  REQUIRE(cuda::Rendezvous({1, 3, 1}, folder.path()).gather_at_root("times", bytes)->empty());
  CHECK(*first.gather_at_root("times", "zero") == std::vector<std::string>{"zero", bytes, "two"});
  const Result<std::string> nobody = first.fetch("never", 1, std::chrono::milliseconds(10));
  REQUIRE_FALSE(nobody);
  CHECK(to_string(nobody.error()).find("rank 1 did not arrive within") != std::string::npos);
  CHECK(cuda::Rendezvous({0, 1, 0}, "/nowhere").gather_at_root("times", "alone")->size() == 1);
}

TEST_CASE("measurement log: goes on after an interruption, not after a change", "[kernels][cuda]") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "r.measured";
  MeasurementLog(path, "H200").add("gemm 1", {{0.5, 0.25}, ""});
  MeasurementLog(path, "H200").add("gemm 2", {{}, "no kernel"});
  std::ofstream(path, std::ios::app) << R"({"label":"gemm 3","sec)";  // cut off
  MeasurementLog again(path, "H200");
  CHECK(again.size() == 2);
  REQUIRE(again.find("gemm 1") != nullptr);
  CHECK(*again.find("gemm 1") == Measurement{{0.5, 0.25}, ""});
  CHECK(again.find("gemm 2")->skipped == "no kernel");
  CHECK(again.find("gemm 3") == nullptr);
  again.add("gemm 3", {{1.0}, ""});  // behind what was cut off
  CHECK(MeasurementLog(path, "H200").size() == 3);
  CHECK(MeasurementLog(path, "H100").size() == 0);
  CHECK(MeasurementLog(path, "H200").size() == 0);  // begun anew by the other
}

TEST_CASE("gpu recording: a log with other values than numbers ends before them", "[kernels][cuda]") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "r.measured";
  std::ofstream(path) << "H200\n"
                      << R"({"label":"gemm 1","seconds":["0.5"],"skipped":""})"
                      << "\n";
  CHECK(MeasurementLog(path, "H200").size() == 0);
  CHECK(MeasurementLog(path, "H200").add("gemm 1", {{0.5}, ""}));
  CHECK_FALSE(MeasurementLog(folder.path() / "absent" / "r.measured", "H200").add("gemm 1", {{0.5}, ""}));
}

TEST_CASE("gpu profile: the shipped one is that of the same model, form and memory", "[kernels][cuda]") {
  std::vector<ShippedGpu> shipped;
  for (const auto& entry : std::filesystem::directory_iterator(shipped_data().profiles)) {
    const Profile profile = shipped_profile(entry.path().stem().string());
    if (profile.kind != "recorded") shipped.push_back({profile.name, profile.gpu, profile.memory});
  }
  using Names = std::vector<std::string>;
  // Names as drivers report them, memory in MiB as nvidia-smi shows it.
  const auto names = [&](const char* gpu, std::int64_t mib) {
    return shipped_profiles_of(gpu, Bytes{mib << 20}, shipped);
  };
  CHECK(names("NVIDIA H200", 143'771) == Names{"h200"});
  CHECK(names("NVIDIA H100 80GB HBM3", 81'559) == Names{"h100"});
  CHECK(names("NVIDIA H100 PCIe", 81'559) == Names{"h100-pcie"});
  CHECK(names("NVIDIA H100 NVL", 95'830) == Names{"h100-nvl"});
  CHECK(names("NVIDIA H200 NVL", 143'771) == Names{"h200-nvl"});
  CHECK(names("NVIDIA A100-SXM4-40GB", 40'960) == Names{"a100-40gb"});
  CHECK(names("NVIDIA A100-SXM4-80GB", 81'920) == Names{"a100"});
  CHECK(names("NVIDIA A100 80GB PCIe", 81'920) == Names{"a100-pcie"});
  CHECK(names("NVIDIA A100-PCIE-40GB", 40'960) == Names{});
  CHECK(names("Tesla V100-SXM2-16GB", 16'160) == Names{"v100-16gb"});
  CHECK(names("Tesla V100-SXM2-32GB", 32'510) == Names{"v100"});
  CHECK(names("Tesla V100-SXM3-32GB-H", 32'510) == Names{"v100-sxm3"});
  CHECK(names("NVIDIA L40S", 46'068) == Names{"l40s"});
  CHECK(names("NVIDIA L4", 23'034) == Names{"l4"});
  CHECK(names("NVIDIA A40", 46'068) == Names{"a40"});
  CHECK(names("NVIDIA H20", 97'871) == Names{"h20"});
  CHECK(names("NVIDIA GeForce RTX 4090", 24'564) == Names{"rtx-4090"});
  CHECK(names("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97'887) == Names{"rtx-pro-6000"});
  CHECK(names("NVIDIA RTX 6000 Ada Generation", 49'140) == Names{});
  CHECK(names("NVIDIA GB200", 189'471) == Names{"gb200"});
  CHECK(names("NVIDIA GH200 480GB", 97'871) == Names{"gh200"});
  CHECK(names("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 9'856) == Names{});
  CHECK(names("GeForce RTX 3060", 12'288) == Names{});
  shipped.push_back({"h200-b", "H200 SXM 141 GB", Bytes{std::int64_t{150} << 30}});
  shipped.back().memory = Bytes{std::int64_t{143'771} << 20};
  CHECK(names("NVIDIA H200", 143'771).size() == 2);
}

TEST_CASE("gpu profile: a measurement that no GPU can have made is left out", "[kernels][cuda]") {
  const Profile base = shipped_profile("h200");
  const Operator op{OperatorKind::gemm, Pass::forward, Precision::bf16, "fc1", GemmShape{4096, 4096, 4096, 1, false}};
  std::vector<MeasuredOperator> operators{{op, 1e-3, 0.01, 15}, {op, 1e-6, 0.01, 15}};
  std::vector<MeasuredCollective> collectives{{Collective::all_reduce, 2, Bytes{1 << 30}, 1e-9, 0, 15}};
  const std::vector<std::string> removed = remove_impossible(base, operators, collectives);
  REQUIRE(removed.size() == 2);
  CHECK(removed[0].starts_with("gemm fc1 forward: takes 1 us, which is 1.374e+05 TFLOP/s (allowed"));
  CHECK(removed[1].starts_with("all_reduce of 1073741824 bytes: takes 0.001 us"));
  CHECK(operators.size() == 1);
  CHECK(operators[0].seconds == 1e-3);
  CHECK(collectives.empty());
}

TEST_CASE("gpu profile: the shipped one behind, what was measured before it", "[kernels][cuda]") {
  const Operator op{OperatorKind::gemm, Pass::forward, Precision::bf16, "fc1", GemmShape{4096, 4096, 4096, 1, false}};
  const RecordedOn where{"NVIDIA H200", "a test", 1, Bytes{std::int64_t{150} << 30}};
  const Profile profile = recorded_gpu_profile(shipped_profile("h200"), {{op, 1e-3, 0.01, 15}}, {}, where);
  CHECK(profile.kind == "recorded");
  CHECK(profile.overlap);
  CHECK(profile.host == shipped_profile("h200").host);  // a framework's, not that of the timing loop
  const OperatorCost cost = Costs(profile).of(op);
  CHECK(cost.provenance == Provenance::measured);
  CHECK(seconds(cost.duration) == Approx(1e-3));  // no in-training factor on top
  const TemporaryFolder folder;
  REQUIRE(write_file(folder.path() / "r.json", to_json(profile)));
  const Result<Profile> back = read_profile(folder.path() / "r.json");
  REQUIRE(back);
  CHECK(back->source == "a test");
  CHECK(back->measured == profile.measured);
}

TEST_CASE("overlapped timeline: idle time goes to what the compute stream waited for", "[kernels][cuda]") {
  const StepGraph graph = one_all_reduce();
  // Rank 0 computes for 10 us and then waits for rank 1, which comes 5 us later; the all-reduce moves for 8 us; 2 us after it
  // the host launches the next operator. Rank 1 has no more idle time than the transfer and the launch.
  const std::vector<ExecutedOp> early{
      {0, 0, 0_us, 10_us}, {0, 1, 10_us, 23_us}, {0, 2, 23_us, 23_us}, {0, 3, 25_us, 30_us}};
  const std::vector<ExecutedOp> late{
      {0, 0, 0_us, 15_us}, {0, 1, 15_us, 23_us}, {0, 2, 23_us, 23_us}, {0, 3, 25_us, 31_us}};
  const Timeline timeline = overlapped_timeline_of(graph, {early, late});
  CHECK(timeline.step_time == 31_us);
  const auto tp = static_cast<std::size_t>(Traffic::tensor_parallel);
  const RankTime& a = timeline.ranks[0];
  CHECK(a.compute == 15_us);
  CHECK(a.bubble == 6_us);  // 5 for rank 1, 1 at the end
  CHECK(a.exposed[tp] == 8_us);
  CHECK(a.host == 2_us);
  const RankTime& b = timeline.ranks[1];
  CHECK(b.compute == 21_us);
  CHECK(b.bubble == 0_us);
  CHECK(b.exposed[tp] == 8_us);
  CHECK(b.host == 2_us);
  for (const RankTime& rank : timeline.ranks) CHECK(rank.total() == timeline.step_time);
  CHECK(timeline.spans.size() == 8);
}

TEST_CASE("overlapped timeline: a transfer that is hidden costs nothing", "[kernels][cuda]") {
  StepGraph graph = one_all_reduce();
  std::swap(graph.templates[0].ops[2], graph.templates[0].ops[3]);  // the second operator does not wait
  const std::vector<ExecutedOp> rank{
      {0, 0, 0_us, 10_us}, {0, 1, 10_us, 18_us}, {0, 2, 10_us, 20_us}, {0, 3, 20_us, 20_us}};
  const Timeline timeline = overlapped_timeline_of(graph, {rank, rank});
  CHECK(timeline.step_time == 20_us);
  CHECK(timeline.ranks[0].compute == 20_us);
  CHECK(timeline.ranks[0].total() == 20_us);
}

TEST_CASE("gpu checks: kernels of two runs without fixed clocks may differ by 5 %", "[kernels][cuda]") {
  if (std::system("python3 -c '' 2> /dev/null") != 0) {
    WARN("skipped: no python3, which records PyTorch in tools/gpu-checks");
    return;
  }
  // 40 launches of a multiplication and of a copy, the first ten while the GPU warms up; the copy is too short to be compared.
  const auto exit_code = [](int multiplication_ns) {
    const TemporaryFolder folder;
    std::ofstream trace(folder.path() / "t");
    trace << "[\"tracecast\"]\n[\"string\", 1, \"_Z3mulv\"]\n[\"string\", 2, \"copy\"]\n";
    for (int i = 0; i < 40; ++i)
      trace << fmt::format("[\"kernel\", 1, 0, 7, {0}, 1000, {1}]\n[\"kernel\", 2, 0, 7, {0}, 1000, 9000]\n", i,
                           1000 + (i < 10 ? 900'000 : multiplication_ns));
    trace.close();
    std::ofstream(folder.path() / "table") << "100000\t30\tmul()\n4000\t30\tcopy\n";
    const int state = std::system(fmt::format("cd {} && python3 {}/tests/gpu/torch_step.py compare t table > page",
                                              folder.path().string(), source_dir().string())
                                      .c_str());
    return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
  };
  CHECK(exit_code(104'500) == 0);
  CHECK(exit_code(95'500) == 0);
  CHECK(exit_code(105'500) == 1);
  CHECK(exit_code(94'500) == 1);
}

TEST_CASE("gpu checks: a wrong option is found before anything is built", "[kernels][cuda][error]") {
  const auto exit_code = [](const std::string& options) {
    const int state = std::system(
        fmt::format("'{}/tools/gpu-checks' {} > /dev/null 2>&1 < /dev/null", source_dir().string(), options).c_str());
    return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
  };
  CHECK(exit_code("--parts steps,suit") == 2);
  CHECK(exit_code("--suite ful") == 2);
  CHECK(exit_code("--parts steps,suite --suite quick --help") == 0);
}

TEST_CASE("gpu checks: what two ranks asked of NCCL is what was recorded on an H100", "[kernels][cuda][h100]") {
  if (std::system("python3 -c '' 2> /dev/null") != 0) {
    WARN("skipped: no python3, which starts the ranks in tools/gpu-checks");
    return;
  }
  const auto exit_code = [](int first, int second) {
    const std::string root = source_dir().string();
    const std::string trace = root + "/tests/data/recordings/h100-two-ranks.trace.";
    const int state =
        std::system(fmt::format("python3 {0}/tests/gpu/torch_ranks.py compare {1}{2}.gz {1}{3}.gz > /dev/null", root,
                                trace, first, second)
                        .c_str());
    return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
  };
  CHECK(exit_code(0, 1) == 0);
  CHECK(exit_code(1, 1) == 1);  // rank 0 is missing
}
