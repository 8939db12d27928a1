// `tracecast record` from beginning to end: the real recorder in a process of its own, with a driver and a CUPTI that need no GPU.

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <sys/wait.h>

#include "sim/import/importers.hpp"
#include "sim/io/trace_reader.hpp"
#include "tests/support/files.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tracer/driver_version.hpp"
#include "tracer/recorded_steps.hpp"
#include "tracer/replay.hpp"

using namespace tracecast;

namespace {

namespace fs = std::filesystem;

/// A recorded run and what came of it.
class Run {
 public:
  /// `program`: what the program does (tests/tracer/fakes/recorded_program.cpp). `variables`: "A=1 B=2".
  explicit Run(const std::string& program, const std::string& variables = "", const std::string& options = "",
               const std::string& out = "run.trace", const std::string& launcher = "") {
    const std::string fakes = (test_programs() / "tracer/fakes").string();
    const std::string command = fmt::format(
        "cd {0} && env LD_LIBRARY_PATH={1} TRACECAST_CUPTI={1}/libcupti.so.13 TRACECAST_FLUSH_MS=20 {2} {3} record "
        "-o {4} {5} -- {6} {1}/recorded_program {7} > out.txt 2> err.txt",
        folder_.path().string(), fakes, variables, tracecast_binary(), out, options, launcher, program);
    const int state = std::system(command.c_str());
    status = WIFEXITED(state) ? WEXITSTATUS(state) : -1;
    output = content_of(folder_.path() / "out.txt");
    errors = content_of(folder_.path() / "err.txt");
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      if (const std::string name = entry.path().filename().string(); !name.ends_with(".txt")) files.push_back(name);
    std::sort(files.begin(), files.end());
  }

  Trace trace(const std::string& name = "run.trace") const {
    const Result<Trace> read = read_any_recording(folder_.path() / name);
    if (!read) FAIL(to_string(read.error()) << "\n" << output << errors);
    return *read;
  }
  fs::path path(const std::string& name) const { return folder_.path() / name; }

  int status = -1;
  std::string output;
  std::string errors;
  std::vector<std::string> files;

 private:
  TemporaryFolder folder_;
};

using Files = std::vector<std::string>;

}  // namespace

TEST_CASE("recorder: a program that exits leaves a whole trace", "[recorder][e2e]") {
  const Run run("init kernels 1000 copies 3");
  CAPTURE(run.output, run.errors);
  CHECK(run.status == 0);
  CHECK(run.files == Files{"run.trace"});
  const Trace trace = run.trace();
  CHECK(trace.complete);
  CHECK(trace.kernels.size() == 1000);
  const std::string driver = nvidia_driver_version();  // of a machine with a real one
  CHECK(trace.header.driver == (driver.empty() ? "13.0" : driver));
  CHECK(trace.header.cuda == "12.8");  // the program's, not that of the recorder's build
  CHECK(trace.header.gpu == "NVIDIA H100 80GB HBM3");
  CHECK(trace.header.recorder == "cupti 130001");
  CHECK(trace.devices.size() == 2);
  REQUIRE(trace.copies.size() == 3);
  CHECK(trace.copies[0].kind == "device to other device");
  CHECK(trace.copies[0].bytes == 1 << 20);
  CHECK(run.output.find("1000 kernels, 3 copies, 0 ranges, 0 collectives\n") != std::string::npos);
  // The names are those of the program's source, not symbols.
  CHECK(std::count_if(trace.kernels.begin(), trace.kernels.end(), [](const TraceKernel& k) {
          return k.name == "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
        }) == 333);
  const Result<Replay> replay = replay_graph(trace, std::nullopt, "run.trace");
  REQUIRE(replay);
  CHECK(replay->works == 1003);
}

TEST_CASE("recorder: a program that is killed leaves what came before the last write", "[recorder][e2e]") {
  const std::string end = GENERATE("signal 15", "signal 9", "_exit 0");
  const Run run("init kernels 500 sleep 500 kernels 7 " + end);
  CAPTURE(end, run.output, run.errors);
  CHECK(run.status == (end == "_exit 0" ? 0 : 1));
  const Trace trace = run.trace();
  CHECK_FALSE(trace.complete);
  CHECK(trace.kernels.size() >= 500);
  CHECK(trace.header.gpu == "NVIDIA H100 80GB HBM3");
  CHECK(run.output.find("cut before its end") != std::string::npos);
}

TEST_CASE("recorder: a program that ends during a flush loses nothing", "[recorder][e2e]") {
  const Run run("init kernels 300 sleep 100", "FAKE_CUPTI_SLOW_MS=400");
  CAPTURE(run.output, run.errors);
  CHECK(run.status == 0);
  const Trace trace = run.trace();
  CHECK(trace.complete);
  CHECK(trace.kernels.size() == 300);
}

TEST_CASE("recorder: a forked child does not touch its parent's trace", "[recorder][e2e]") {
  const std::string child = GENERATE("fork", "fork-_exit");
  const Run run("init kernels 300 " + child + " kernels 300 " + child);
  CAPTURE(child, run.output, run.errors);
  CHECK(run.status == 0);
  CHECK(run.files == Files{"run.trace"});
  const Trace trace = run.trace();
  CHECK(trace.complete);
  CHECK(trace.kernels.size() == 600);
}

TEST_CASE("recorder: a program that starts another one in its place is recorded twice", "[recorder][e2e]") {
  const Run run("init kernels 10 sleep 300 exec init kernels 20");
  CAPTURE(run.output, run.errors);
  CHECK(run.status == 0);
  REQUIRE(run.files == Files{"run.trace.0", "run.trace.1"});
  CHECK(run.trace("run.trace.0").kernels.size() + run.trace("run.trace.1").kernels.size() == 30);
}

TEST_CASE("recorder: ranks have the numbers of their launcher", "[recorder][e2e]") {
  const auto [variables, rank, ranks] = GENERATE(table<std::string, int, int>(
      {{"RANK=3 WORLD_SIZE=8 LOCAL_RANK=3", 3, 8},
       {"OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=16 OMPI_COMM_WORLD_LOCAL_RANK=5", 5, 16},
       {"PMI_RANK=1 PMI_SIZE=2", 1, 2},
       {"SLURM_PROCID=7 SLURM_STEP_NUM_TASKS=8 SLURM_NTASKS=8 SLURM_LOCALID=7", 7, 8},
       {"RANK=2 WORLD_SIZE=4 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1", 2, 4},
       {"SLURM_PROCID=0 SLURM_NTASKS=8", -1, -1}}));
  const Run run("init kernels 3", variables);
  CAPTURE(variables, run.output, run.errors);
  const Trace trace = run.trace(ranks > 1 ? "run.trace." + std::to_string(rank) : "run.trace");
  CHECK(trace.header.rank == rank);
  CHECK(trace.header.ranks == ranks);
}

TEST_CASE("recorder: the files of several ranks have their numbers, helpers have no file", "[recorder][e2e]") {
  // As torchrun: a process that only initialises CUDA, and two ranks.
  const Run run("init", "", "", "run.trace.gz",
                "sh -c 'for r in 1 0; do RANK=$r WORLD_SIZE=2 \"$0\" init kernels 1$r & done; RANK=1 WORLD_SIZE=2 "
                "\"$0\" init; wait; \"$0\" \"$@\"'");
  CAPTURE(run.output, run.errors);
  CHECK(run.status == 0);
  REQUIRE(run.files == Files{"run.trace.0.gz", "run.trace.1.gz"});
  CHECK(content_of(run.path("run.trace.0.gz")).starts_with("\x1F\x8B"));
  for (const int rank : {0, 1}) {
    const Trace trace = run.trace(fmt::format("run.trace.{}.gz", rank));
    CHECK(trace.complete);
    CHECK(trace.header.rank == rank);
    CHECK(trace.kernels.size() == static_cast<std::size_t>(10 + rank));
  }
}

TEST_CASE("recorder: processes of one rank have files of their own, under its number", "[recorder][e2e]") {
  const Run run(
      "init", "", "", "run.trace",
      "sh -c 'for r in 4 4 5; do RANK=$r WORLD_SIZE=8 \"$0\" init kernels 1$r & done; wait; \"$0\" init kernels "
      "3; \"$0\" \"$@\"'");
  CAPTURE(run.output, run.errors);
  CHECK(run.status == 0);
  // A node with ranks 0 to 3 may write beside them.
  CHECK(run.files == Files{"run.trace.4.0", "run.trace.4.1", "run.trace.5", "run.trace.other.0"});
}

TEST_CASE("recorder: why there is no trace is said as it is", "[recorder][e2e][error]") {
  const auto errors = [](const std::string& program, const std::string& options, int status) {
    const Run run(program, "", options);
    CAPTURE(run.output, run.errors);
    CHECK(run.status == status);
    return run.errors;
  };
  const auto ends = [](const std::string& text, const std::string& end) { return text.ends_with(end); };
  CHECK(ends(errors("exit", "", 1), " used no GPU: nothing was recorded\n"));
  CHECK(ends(errors("init", "", 1), " gave the GPU no work: nothing was recorded\n"));
  CHECK(ends(errors("init kernels 10", "--range cuda-profiler", 1),
             " gave the GPU no work between cudaProfilerStart and cudaProfilerStop: nothing was recorded\n"));
  CHECK(ends(errors("init kernels 10", "--delay 30", 1),
             " gave the GPU no work after the first 30 s (--delay): nothing was recorded\n"));
  CHECK(errors("init kernels 10 signal 9", "", 1).find(" was ended by signal 9 (Killed)\n") != std::string::npos);
}

TEST_CASE("recorder: a program that is not there is said to be so", "[recorder][e2e][error]") {
  const Run run("init", "", "", "run.trace", "/nowhere/python");
  CHECK(run.status == 2);
  CHECK(run.errors == "/nowhere/python: cannot be started: No such file or directory\n");
}

TEST_CASE("recorder: an older trace is not taken for that of this run", "[recorder][e2e][error]") {
  const Run run("exit", "", "", "run.trace", "sh -c 'touch run.trace; exec \"$0\" \"$@\"'");
  CHECK(run.status == 1);
  CHECK(run.errors.ends_with("run.trace is of an earlier recording\n"));
}

TEST_CASE("recorder: the files of a run that was killed are none of this one's", "[recorder][e2e]") {
  const Run run(
      "init kernels 10", "", "", "run.trace",
      "sh -c 'RANK=0 WORLD_SIZE=2 TRACECAST_TRACE=run.trace.pid.0badf00d \"$0\" init kernels 99; \"$0\" \"$@\"'");
  CAPTURE(run.output, run.errors);
  CHECK(run.status == 0);
  REQUIRE(run.files.size() == 2);
  CHECK(run.files[0] == "run.trace");
  CHECK(run.files[1].starts_with("run.trace.pid.0badf00d."));
  CHECK(run.trace().kernels.size() == 10);
  CHECK(run.trace(run.files[1]).kernels.size() == 99);
}

TEST_CASE("recorder: a signal to record ends the program, and the trace is named", "[recorder][e2e]") {
  // The shell becomes the program; its child ends `record`, which is its parent.
  const Run run("init kernels 500 sleep 60000", "", "", "run.trace",
                "sh -c '(sleep 1; kill -TERM $PPID) & exec \"$0\" \"$@\"'");
  CAPTURE(run.output, run.errors);
  CHECK(run.status == 1);
  CHECK(run.files == Files{"run.trace"});
  CHECK(run.trace().kernels.size() == 500);
  CHECK(run.output.find("500 kernels, 0 copies, 0 ranges, 0 collectives, cut before its end") != std::string::npos);
}

TEST_CASE("recorder: the program's CUPTI comes before those of this machine", "[recorder][e2e]") {
  // Copies in numbered folders: a copy's version is its folder's number.
  const TemporaryFolder folder;
  const fs::path fakes = test_programs() / "tracer/fakes";
  const fs::path library = fakes / "libcupti.so.13";
  const auto copy = [&](const fs::path& to) {
    fs::create_directories(to);
    fs::copy_file(library, to / "libcupti.so.13", fs::copy_options::overwrite_existing);
    return (to / "libcupti.so.13").string();
  };
  const fs::path root = folder.path();
  const std::string named = copy(root / "11");
  const std::string loaded = copy(root / "12");
  const std::string beside = copy(root / "13");
  const std::string on_path = copy(root / "14");
  copy(root / "home/lib64");  // taken last
  fs::create_directories(root / "driver");
  fs::copy_file(fakes / "libcuda.so.1", root / "driver/libcuda.so.1");
  const fs::path tracecast = tracecast_binary();
  for (const char* file : {"tracecast", "libtracecast_inject.so"})
    fs::copy_file(tracecast.parent_path() / file, root / "13" / file);
  const auto version = [&](const std::string& used, const std::string& variables, const std::string& program,
                           const fs::path& tool) {
    const std::string command = fmt::format(
        "cd {0} && env LD_LIBRARY_PATH={0}/driver:{0}/14 CUDA_HOME={0}/home FAKE_CUPTI={1} TRACECAST_FLUSH_MS=20 {2} "
        "{3} "
        "record -o run.trace -- {4}/recorded_program {5} kernels 3 > out.txt 2>&1",
        root.string(), used, variables, tool.string(), fakes.string(), program);
    const int state = std::system(command.c_str());
    INFO(command << "\n" << content_of(root / "out.txt"));
    CHECK(state == 0);
    const Result<Trace> trace = read_any_recording(root / "run.trace");
    if (!trace) FAIL(to_string(trace.error()) << content_of(root / "out.txt"));
    fs::remove(root / "run.trace");
    return trace->header.recorder;
  };
  const fs::path own = root / "13/tracecast";
  CHECK(version(named, "TRACECAST_CUPTI=" + named, "load-cupti init", own) == "cupti 11");
  CHECK(version(loaded, "", "load-cupti init", own) == "cupti 12");
  CHECK(version(beside, "", "init", own) == "cupti 13");
  CHECK(version(on_path, "", "init", tracecast) == "cupti 14");
}

TEST_CASE("recorder: what CUPTI refuses is a sentence, and the program runs", "[recorder][e2e]") {
  const auto [variable, sentence] = GENERATE(table<std::string, std::string>(
      {{"FAKE_CUPTI_REFUSE=cuptiActivityEnable", "cuptiActivityEnable: the fake refuses (14)"},
       {"FAKE_CUPTI_REFUSE=cuptiActivityRegisterCallbacks", "cuptiActivityRegisterCallbacks: the fake refuses (15)"},
       {"FAKE_CUPTI_OTHER='CUPTI for Nsight Systems'",
        "another profiler records this program: CUPTI for Nsight Systems"},
       {"TRACECAST_CUPTI=/nowhere/libcupti.so.13",
        "CUPTI was not found (libcupti.so.13; set TRACECAST_CUPTI to its path)"}}));
  const Run run(variable.starts_with("TRACECAST") ? "init" : "init kernels 5", variable);
  CAPTURE(variable, run.output);
  CHECK(run.status == 1);
  CHECK(run.files.empty());
  CHECK(run.errors ==
        "tracecast: the program runs without a recording: " + sentence + "\nnothing was recorded: " + sentence + "\n");
}

TEST_CASE("recorder: kernels that never ended and records that CUPTI dropped are counted", "[recorder][e2e]") {
  const Run run("init kernels 40 incomplete 2 drop 5 kernels 10");
  CAPTURE(run.output, run.errors);
  const Trace trace = run.trace();
  CHECK(trace.complete);
  CHECK(trace.kernels.size() == 50);
  CHECK(trace.dropped == 7);
  CHECK(replay_graph(trace, std::nullopt, "run.trace"));
  CHECK(run.output.find("7 records were dropped") != std::string::npos);
}

TEST_CASE("recorder: only calls that launch, copy or wait are recorded", "[recorder][e2e]") {
  const Run run("init kernels 20 calls 500 copies 1");
  CHECK(run.trace().calls.size() == 21);
}

TEST_CASE("recorder: what the recording itself took is said", "[recorder][e2e]") {
  const Run run("init kernels 1 sleep 300 overhead 3000000 overhead 6000000 kernels 1");
  CAPTURE(run.output, run.errors);
  const Trace trace = run.trace();
  CHECK(trace.overhead_ns == 9'000'000);
  const double span = static_cast<double>(trace.kernels[1].end_ns - trace.kernels[0].start_ns);
  CHECK(span > 300e6);
  CHECK(run.output.find(fmt::format(
            "2 kernels, 0 copies, 0 ranges, 0 collectives, recording took {:.1f} % of the time\n", 9e6 / span * 100)) !=
        std::string::npos);
}

TEST_CASE("recorder: a range of the program or of the clock", "[recorder][e2e]") {
  const Run part("init kernels 10 profiler-start kernels 20 profiler-stop kernels 40 profiler-start kernels 80", "",
                 "--range cuda-profiler");
  CAPTURE(part.output, part.errors);
  CHECK(part.trace().kernels.size() == 100);
  const Run later("init kernels 10 sleep 600 kernels 20 sleep 800 kernels 40", "", "--delay 0.3 --duration 0.7");
  CAPTURE(later.output, later.errors);
  CHECK(later.trace().kernels.size() == 20);
}

TEST_CASE("recorder: a collective has the times of its kernel", "[recorder][e2e]") {
  const int version = GENERATE(4, 5);
  const Run run(fmt::format("init kernels 30 nccl {} 50", version));
  CAPTURE(version, run.output, run.errors);
  const Trace trace = run.trace();
  CHECK(trace.header.nccl == "2.28.9");
  REQUIRE(trace.collectives.size() == 50);
  std::set<std::int64_t> starts;
  for (const TraceCollective& c : trace.collectives) {
    CHECK(c.end_ns - c.start_ns == 4'000);
    CHECK(c.ranks == 8);
    CHECK(c.nodes == 2);
    CHECK(c.rank == 3);
    starts.insert(c.start_ns);
    const auto kernel = std::find_if(trace.kernels.begin(), trace.kernels.end(),
                                     [&c](const TraceKernel& k) { return k.start_ns == c.start_ns; });
    REQUIRE(kernel != trace.kernels.end());
    CHECK(kernel->name.starts_with("ncclDevKernel_AllReduce"));
  }
  CHECK(starts.size() == 50);
  const Result<Replay> replay = replay_graph(trace, std::nullopt, "run.trace");
  REQUIRE(replay);
}

TEST_CASE("recorder: a collective by a symmetric kernel has its size and time", "[recorder][e2e]") {
  const Run run("init kernels 3 symmetric 20");
  CAPTURE(run.output, run.errors);
  const Trace trace = run.trace();
  REQUIRE(trace.collectives.size() == 20);
  std::set<std::int64_t> starts;
  for (const TraceCollective& c : trace.collectives) {
    CHECK(c.name == "AllReduce");
    CHECK(c.count == 1 << 20);
    CHECK(c.end_ns - c.start_ns == 4'000);
    const auto kernel = std::find_if(trace.kernels.begin(), trace.kernels.end(),
                                     [&c](const TraceKernel& k) { return k.start_ns == c.start_ns; });
    REQUIRE(kernel != trace.kernels.end());
    CHECK(kernel->name.starts_with("ncclSymkDevKernel"));
    starts.insert(c.start_ns);
  }
  CHECK(starts.size() == 20);
}

TEST_CASE("recorder: a collective of copy engines has the times of its copies", "[recorder][e2e]") {
  const Run run("init kernels 1 nccl 6 5");
  CAPTURE(run.output, run.errors);
  const Trace trace = run.trace();
  CHECK(trace.copies.size() == 15);
  REQUIRE(trace.collectives.size() == 5);
  for (std::size_t i = 0; i < 5; ++i) {
    const TraceCollective& c = trace.collectives[i];
    CHECK(c.name == "AllGather");
    CHECK(c.algorithm == "CE");
    CHECK(c.count == 8 << 20);  // of all 8 ranks
    CHECK(c.sequence % (std::int64_t{1} << 40) == static_cast<std::int64_t>(i));
    CHECK(c.start_ns == trace.copies[3 * i].start_ns);
    CHECK(c.end_ns == trace.copies[3 * i + 1].end_ns);
  }
}

TEST_CASE("recorder: of a long run the last whole steps are kept", "[recorder][e2e]") {
  const Run run("init steps 6 kernels 5", "", "--steps 2");
  CAPTURE(run.output, run.errors);
  CHECK(run.status == 0);
  const Trace trace = run.trace();
  CHECK(trace.complete);
  CHECK(trace.kernels.size() == 42);  // 20 multiplications and an optimizer each; the last 5 are no whole step
  CHECK(trace.calls.size() == 42);
  CHECK(run.output.find("42 kernels, 0 copies, 0 ranges, 0 collectives, the last 2 steps\n") != std::string::npos);
  CHECK(recorded_steps(trace) == std::vector<std::int64_t>{1, 2});

  const Run few("init steps 2", "", "--steps 3");
  CHECK(few.status == 0);
  CHECK(few.trace().kernels.size() == 42);
  CHECK(few.output.find("fewer than 3 whole steps found: everything was kept") != std::string::npos);
}

TEST_CASE("recorder: PyTorch's ranges and the program's ids say which operator a kernel is", "[recorder][e2e]") {
  // The texts are those of torch.autograd.profiler.emit_nvtx(record_shapes=True). Thread ids of ranges and calls are the same.
  const Run run(
      "init range 'aten::linear, seq = 4, op_id = 11, sizes = [[1, 8192, 4096], [512, 4096], []]' "
      "range 'aten::addmm, seq = 5, op_id = 12, sizes = [[512], [8192, 4096], [4096, 512], [], []], "
      "input_op_ids = [(3,0), (4,0)]' kernels 1 end-range end-range "
      "push fc2 kernels 2 push 'aten::mm, sizes = [[16, 32], [32, 64]]' kernels 1 nccl 5 1 pop kernels 1 pop kernels 1 "
      "range 'autograd::engine::evaluate_function: MmBackward0, op_id = 20' push fc2 kernels 1 pop end-range");
  CAPTURE(run.output, run.errors);
  CHECK(run.status == 0);
  const Trace trace = run.trace();
  CHECK(trace.ranges.size() == 3);
  CHECK(trace.operators.size() == 3);
  // The all-reduce belongs to its launch, and so to its NCCL call, inside a push as well.
  REQUIRE(trace.collectives.size() == 1);
  CHECK(trace.collectives[0].end_ns > trace.collectives[0].start_ns);

  const auto steps = steps_of_devices(trace, {"fc2"});
  REQUIRE(steps.size() == 1);
  std::vector<KernelGroup> groups;
  for (const RecordedStep& step : steps.at(0)) groups.insert(groups.end(), step.work.begin(), step.work.end());
  const auto named = [](const KernelGroup& g) {
    return std::tuple(g.traits.name, g.traits.sizes, g.traits.backward, g.kernels.size());
  };
  const std::optional<MatrixSizes> none;
  REQUIRE(groups.size() == 8);
  CHECK(named(groups[0]) == std::tuple("", std::optional(sizes_of(8192, 512, 4096)), false, 1));
  CHECK(named(groups[1]) == std::tuple("fc2", none, false, 1));
  CHECK(named(groups[3]) == std::tuple("", std::optional(sizes_of(16, 64, 32)), false, 1));
  CHECK(named(groups[5]) == std::tuple("fc2", none, false, 1));
  CHECK(named(groups[6]) == std::tuple("", none, false, 1));
  CHECK(named(groups[7]) == std::tuple("fc2", none, true, 1));
}

TEST_CASE("recorder: the last steps keep the ids of their kernels", "[recorder][e2e]") {
  const Run run("init push early steps 1 pop push late steps 2 pop", "", "--steps 1");
  CAPTURE(run.output, run.errors);
  CHECK(run.trace().operators == std::vector<TraceOperator>{{kFirstOperatorId + 1, "late"}});
}
