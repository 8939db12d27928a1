// The order of a GPU worker's calls: the real tracecast-cuda-worker with libraries that need no GPU (fakes/fake_gpu.cpp).

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <sys/wait.h>

#include "tests/support/files.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace tracecast;

namespace {

struct Ran {
  int status = -1;
  std::string output;  ///< and errors
  std::string log;

  int count(const std::string& call) const {
    std::istringstream lines(log);
    int found = 0;
    for (std::string line; std::getline(lines, line);) found += line.starts_with(call) ? 1 : 0;
    return found;
  }
};

Ran run(const std::string& program, const std::string& variables = "") {
  const TemporaryFolder folder;
  const std::string command = fmt::format(
      "cd {0} && env LD_LIBRARY_PATH={1} TRACECAST_DATA={2} FAKE_GPU_LOG={0}/calls {3} timeout -k 1 60 {4} > out 2>&1",
      folder.path().string(), (test_programs() / "kernels/fake_gpu").string(), source_dir().string(), variables,
      program);
  const int state = std::system(command.c_str());
  return {WIFEXITED(state) ? WEXITSTATUS(state) : -1, content_of(folder.path() / "out"),
          content_of(folder.path() / "calls")};
}

const std::string kWorker =
    std::filesystem::path(tracecast_binary()).replace_filename("tracecast-cuda-worker").string();
const std::string kTwoRanks =
    kWorker +
    " execute gpu-1b --set cluster.world_size=2 --set parallel.tp=2 --set parallel.sequence_parallel=true --set "
    "model.num_layers=2 --set training.global_batch_size=8 --steps 1 --out . --rendezvous .";
const std::string kFirstOfTwo = "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 ";

}  // namespace

TEST_CASE("cuda calls: nothing waits for the whole GPU while a collective runs", "[kernels][cuda][fake-gpu]") {
  // The second rank, beside the first one; its log is not looked at.
  const Ran ran =
      run("sh -c '" + kTwoRanks + " & OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_LOCAL_RANK=1 FAKE_GPU_LOG=/dev/null " +
              kTwoRanks + "; wait $!'",
          kFirstOfTwo);
  INFO(ran.output);
  CHECK(ran.status == 0);
  CHECK(ran.count("environment EAGER 32") > 0);
  CHECK(ran.count("environment") == ran.count("environment EAGER 32"));
  CHECK(ran.count("multiply") > 100);
  CHECK(ran.count("attend") > 10);
  CHECK(ran.count("collective") > 20);
  CHECK(ran.count("waits") == 0);
  CHECK(ran.count("abort") == 0);
  CHECK(ran.count("destroy") > 0);
}

TEST_CASE("cuda calls: groups are connected before a step, whatever its order", "[kernels][cuda][fake-gpu]") {
  // In the steps of both bidirectional schedules two ranks send to each other first.
  const auto [layout, ranks] = GENERATE(table<std::string, int>({
      {"parallel.pp=2 parallel.pp_schedule=dualpipe", 2},
      {"parallel.pp=4 parallel.pp_schedule=dualpipe", 4},
      {"parallel.pp=2 parallel.pp_schedule=chimera", 2},
      {"parallel.pp=2 parallel.pp_schedule=1f1b parallel.tp=2 parallel.sequence_parallel=true", 4},
      {"parallel.pp=2 parallel.pp_schedule=1f1b parallel.zero_stage=1", 4},
  }));
  std::string settings = " --set " + layout;
  for (std::size_t at = settings.find(" parallel", 7); at != std::string::npos; at = settings.find(" parallel", at + 7))
    settings.replace(at, 1, " --set ");
  const Ran ran = run(
      fmt::format("sh -c 'mkdir met; for r in $(seq 0 {0}); do OMPI_COMM_WORLD_RANK=$r OMPI_COMM_WORLD_LOCAL_RANK=$r "
                  "{1} execute "
                  "gpu-1b{2} --set cluster.world_size={3} --set model.num_layers=8 --set training.micro_batch_size=1 "
                  "--set training.global_batch_size=16 --set training.seq_length=256 --steps 1 --warm-up 0 --out o "
                  "--rendezvous . & "
                  "pids=\"$pids $!\"; done; for p in $pids; do wait $p || exit 1; done'",
                  ranks - 1, kWorker, settings, ranks),
      fmt::format("LD_PRELOAD={} FAKE_NCCL_FOLDER=met FAKE_NCCL_SECONDS=20 OMPI_COMM_WORLD_SIZE={}",
                  (test_programs() / "kernels/libconnecting_nccl.so").string(), ranks));
  INFO(layout << "\n" << ran.output);
  CHECK(ran.status == 0);
}

TEST_CASE("cuda calls: a rank that does not find the first one says so", "[kernels][cuda][fake-gpu][error]") {
  const Ran ran = run("sh -c 'printf short > nccl-id.0; " + kTwoRanks + "'",
                      "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1");
  CHECK(ran.status == 2);
  CHECK(ran.output == "NCCL's unique id has the wrong size (do two jobs use the same folder?)\n");
}

TEST_CASE("cuda calls: a process alone is no rank of the job that it runs in", "[kernels][cuda][fake-gpu]") {
  const Ran ran = run(kWorker + " --ranks 1 check gpu-1b --set model.num_layers=2",
                      "SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4 SLURM_LOCALID=3");
  INFO(ran.output);
  CHECK(ran.status == 0);
}

TEST_CASE("cuda calls: what was timed and means nothing is left out of the profile", "[kernels][cuda][fake-gpu]") {
  // On the fake GPU every launch takes 0.05 us, which is impossible for all of these operators.
  const Ran ran = run("sh -c '" + kWorker +
                      " --ranks 1 profile --suite none --for gpu-1b --passes 1 --out p.json && cat p.json && ls'");
  CHECK(ran.status == 0);
  const auto has = [&](const std::string& text) { return ran.output.find(text) != std::string::npos; };
  CHECK(
      has("not timed: norm rms_norm backward bf16 16777216 elements 167772160 bytes: the kernel here moves 6 bytes per "
          "element, the operator 10\n"));
  CHECK(has("not timed: rope rope forward bf16"));
  CHECK(has("not timed: gemm qkv forward: takes 0.05 us, which is "));
  CHECK(has("what was not timed: profile h100\""));
  CHECK(has("\"measured\": []"));
  CHECK(has("\"call_s\": 1.3e-05"));  // of a framework
  CHECK_FALSE(has("p.json.measured"));
}

TEST_CASE("cuda calls: a rank that lost another one says so and aborts its communicators",
          "[kernels][cuda][fake-gpu][error]") {
  const Ran ran = run(kTwoRanks, kFirstOfTwo + "FAKE_GPU_LOST=5");
  CHECK(ran.status == 2);
  CHECK(ran.output.ends_with("NCCL lost another rank: remote process exited or there was a network error\n"));
  CHECK(ran.count("abort") > 0);
  CHECK(ran.count("destroy") == 0);
}

TEST_CASE("cuda calls: a rank that cannot hand over its times aborts its communicators",
          "[kernels][cuda][fake-gpu][error]") {
  // The second rank, where the first has left and folders take the names of the files that it would write.
  const Ran ran =
      run("sh -c 'head -c 128 /dev/zero > nccl-id.0; for s in 0 1 2 3 4 5; do mkdir step-$s.1.partial; done; " +
              kTwoRanks + "'",
          "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1");
  INFO(ran.output);
  CHECK(ran.status == 2);
  CHECK(ran.output.ends_with(".1: cannot be written\n"));
  CHECK(ran.count("abort") > 0);
  CHECK(ran.count("destroy") == 0);
}

TEST_CASE("cuda calls: streams share no workspace", "[kernels][cuda][fake-gpu]") {
  const Ran ran = run((test_programs() / "kernels/two_streams").string());
  INFO(ran.output << ran.log);
  CHECK(ran.status == 0);
  for (const char* call : {"multiply", "attend"}) {
    CAPTURE(call);
    std::istringstream lines(ran.log);
    std::map<std::string, std::set<std::string>> workspaces;  // by stream
    std::set<std::string> all;
    for (std::string name, stream, workspace; lines >> name >> stream >> workspace;)
      if (name == call) {
        workspaces[stream].insert(workspace);
        all.insert(workspace);
      }
    REQUIRE(workspaces.size() == 2);
    CHECK(workspaces.begin()->second.size() == 1);
    CHECK(workspaces.rbegin()->second.size() == 1);
    CHECK(all.size() == 2);
    CHECK_FALSE(all.contains("(nil)"));
  }
}

TEST_CASE("cuda calls: a launch that is refused is named with the reason", "[kernels][cuda][fake-gpu][error]") {
  const Ran ran = run(kWorker + " verify --only norm", "FAKE_GPU_REFUSE=norm_forward_kernel");
  INFO(ran.output);
  CHECK(ran.status == 1);
  CHECK(ran.output.find("| norm | | | **cudaGetLastError() at norm.cu:") != std::string::npos);
  CHECK(ran.output.find("invalid") != std::string::npos);
  CHECK(ran.output.find("wrong") == std::string::npos);
}
