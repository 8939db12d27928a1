// validate and calibrate as a user runs them.
#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/report/text.hpp"
#include "tests/e2e/shell.hpp"
#include "tests/support/paths.hpp"

using namespace tracecast;
using Json = nlohmann::json;

namespace {

int widest(const std::string& text) {
  std::istringstream lines(text);
  int widest = 0;
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, columns(line));
  return widest;
}

std::string csv_row(const std::string& id, int micro_batch, const std::string& step_time, const char* gpu = "A100") {
  return fmt::format("{},one cluster,16,6144,48,2048,64,{},8,8,{},full,Megatron-LM,fp16,{}\n", id, gpu, micro_batch,
                     step_time);
}
const std::string kHeader =
    "id,source,layers,hidden,heads,seq_len,global_batch_seqs,gpu,gpu_count,tp,micro_batch,recompute,framework,"
    "precision,"
    "step_time_s\n";

}  // namespace

TEST_CASE("validate: pages fit 80 columns, single runs, the documented JSON keys", "[e2e]") {
  const Sandbox sandbox;
  for (const char* by : {"gpu", "source"}) {
    const Outcome page = sandbox.run(fmt::format("tracecast validate korthikanti --by {}", by));
    CAPTURE(by, page.err);
    CHECK(page.code == 0);
    CHECK(widest(page.out) <= 80);
  }
  const Outcome one = sandbox.run(
      "tracecast validate korthikanti --only korthikanti-22b-full --set recompute=none --json > a.json; tracecast "
      "validate korthikanti --only korthikanti-22b-full --json > b.json");
  REQUIRE(one.code == 0);
  const Json changed = Json::parse(content_of(sandbox.path() / "a.json"));
  const Json plain = Json::parse(content_of(sandbox.path() / "b.json"));
  REQUIRE(plain["rows"].size() == 1);
  for (const char* key : {"id", "predicted_step_time_s", "measured_step_time_s", "band", "predicted_peak_memory_gib",
                          "assumptions", "skipped"})
    CHECK(plain["rows"][0].contains(key));
  for (const char* key : {"p5_s", "p50_s", "p95_s"}) CHECK(plain["rows"][0]["band"].contains(key));
  CHECK(plain.contains("summary"));
  CHECK(changed["rows"][0]["predicted_step_time_s"] < plain["rows"][0]["predicted_step_time_s"]);
  const auto error = [&](const char* arguments) {
    return complaint_of(sandbox, std::string("tracecast validate korthikanti ") + arguments);
  };
  CHECK(error("--only korthikanti-22b-ful") ==
        "--only = korthikanti-22b-ful: not an id of the table (did you mean 'korthikanti-22b-full'?)\n");
  CHECK(error("--set tp") == "--set = tp: expected COLUMN=VALUE\n");
  CHECK(error("--by gpus") == "--by = gpus: not a column of the table (did you mean 'gpu'?)\n");
}

TEST_CASE("validate: a table of which nothing can be forecast is answered with no; ids are unique", "[e2e][error]") {
  const Sandbox sandbox;
  std::ofstream(sandbox.path() / "none.csv") << kHeader << csv_row("a", 1, "nan") << csv_row("b", 1, "nan");
  const Outcome none = sandbox.run("tracecast validate none.csv");
  CHECK(none.code == 1);
  CHECK(none.out.find("no row could be forecast and compared") != std::string::npos);
  CHECK(none.out.find("0.0") == std::string::npos);
  const Outcome json = sandbox.run("tracecast validate none.csv --json");
  CHECK(json.code == 1);
  CHECK(Json::parse(json.out)["summary"] == Json{{"rows", 0}});
  std::ofstream(sandbox.path() / "twice.csv") << kHeader << csv_row("a", 1, "10") << csv_row("a", 1, "10");
  const Outcome twice = sandbox.run("tracecast validate twice.csv");
  CHECK(twice.code == 2);
  CHECK(twice.err == "twice.csv: id = a: occurs in two rows\n");
}

TEST_CASE("validate: tables of kernels and collectives, several or a folder of them", "[e2e]") {
  const Sandbox sandbox;
  std::filesystem::create_directory(sandbox.path() / "tables");
  const auto file = [&](const char* name, const char* text) {
    std::ofstream(sandbox.path() / "tables" / name) << text;
  };
  file("a.csv", "gpu,src,dtype,m,n,k,latency_us\nH100-SXM,trtllm-1,bfloat16,4096,4096,4096,180\n");
  file("b.csv", "profile,op,m,n,k,precision,time_us\na100,gemm,4096,4096,4096,bf16,520\n");
  file("notes.csv", "what,else\n1,2\n");
  const Outcome page = sandbox.run("tracecast validate --kernels tables");
  CAPTURE(page.out, page.err);
  CHECK(page.code == 0);
  CHECK(widest(page.out) <= 80);
  for (const char* words : {"h100 gemm bf16", "a100 gemm bf16", "gemm 1.", "Not read, other tables: notes.csv"})
    CHECK(page.out.find(words) != std::string::npos);
  const Json json = Json::parse(sandbox.run("tracecast validate --kernels tables/a.csv tables/b.csv --json").out);
  CHECK(json["rows"].size() == 2);
  CHECK(json["rows"][1]["table"] == 1);
  CHECK(json["groups"][0]["group"] == "all");
  // A profile's file is looked for beside the table, as that of a scenario beside it.
  std::filesystem::copy_file(source_dir() / "kernels/profiles/a100.json", sandbox.path() / "tables/mine.json");
  file("c.csv", "profile,op,m,n,k,precision,time_us\nmine.json,gemm,4096,4096,4096,bf16,520\n");
  const Outcome beside = sandbox.run("tracecast validate --kernels tables/c.csv --json");
  CAPTURE(beside.err);
  CHECK(beside.code == 0);
  CHECK(Json::parse(beside.out)["rows"].size() == 1);
  const Outcome other = sandbox.run("tracecast validate --kernels tables/notes.csv");
  CHECK(other.code == 2);
  CHECK(other.err.starts_with("tables/notes.csv:1: unknown columns of a table of operators"));
  const Outcome swapped = sandbox.run("tracecast validate --collectives tables/a.csv");
  CHECK(swapped.err.starts_with("tables/a.csv:1: unknown columns of a table of collectives"));
}

TEST_CASE("validate: measured collectives that import writes are compared on their hosts", "[e2e]") {
  const Sandbox sandbox;
  std::ofstream(sandbox.path() / "two.csv")
      << "collective,ranks,nodes,bytes,time_us\nall_reduce,4,2,1073741824,11000\nall_reduce,4,1,1073741824,11000\n";
  const Outcome bare = sandbox.run("tracecast validate --collectives two.csv");
  CHECK(bare.code == 2);
  CHECK(bare.err ==
        "two.csv:1: has no column topology, the machine that was measured (tracecast import --topology MACHINE writes "
        "it)\n");
  std::ofstream(sandbox.path() / "named.csv")
      << "topology,collective,ranks,nodes,bytes,time_us\ndgx-h100,all_reduce,4,2,1073741824,11000\n"
      << "dgx-h100,all_reduce,4,1,1073741824,11000\n";
  const Json rows = Json::parse(sandbox.run("tracecast validate --collectives named.csv --json").out)["rows"];
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["predicted_us"].get<double>() > 1.5 * rows[1]["predicted_us"].get<double>());
  const std::filesystem::path sample = source_dir() / "docs/formats/samples/nccl-tests.txt";
  REQUIRE(sandbox.run("tracecast import nccl-tests " + sample.string() + " --topology dgx-h100 -o mine.csv").code == 0);
  const Outcome own = sandbox.run("tracecast validate --collectives mine.csv");
  CHECK(own.code == 0);
  CHECK(own.out.find("dgx-h100") != std::string::npos);
  const Outcome unknown = sandbox.run("tracecast import nccl-tests " + sample.string() + " --topology dgx-h10");
  CHECK(unknown.code == 2);
  CHECK(unknown.out.empty());
  // A table cannot name a file: no reader of it would find the machine.
  std::filesystem::copy(source_dir() / "topologies/dgx-h100.json", sandbox.path() / "a,b.json");
  CHECK(complaint_of(sandbox, "tracecast import nccl-tests " + sample.string() + " --topology a,b.json") ==
        "--topology = a,b.json: is a file, which a table cannot name (allowed: the name of a shipped machine; a file "
        "with --into)\n");
}

TEST_CASE("validate: a table that names shipped models needs no columns of their shape", "[e2e]") {
  const Sandbox sandbox;
  std::ofstream(sandbox.path() / "named.csv")
      << "id,model_name,seq_len,global_batch_seqs,gpu,gpu_count,framework,zero_stage,micro_batch,step_time_s\n"
      << "a,Llama-3.1-8B,8192,32,H100,8,torchtitan,3,1,6.1\n";
  const Outcome named = sandbox.run("tracecast validate named.csv --json");
  CAPTURE(named.err);
  CHECK(named.code == 0);
  CHECK(Json::parse(named.out)["rows"][0]["predicted_step_time_s"].get<double>() > 1);
  std::ofstream(sandbox.path() / "nameless.csv") << "id,seq_len,global_batch_seqs,gpu,gpu_count\na,8192,32,H100,8\n";
  CHECK(sandbox.run("tracecast validate nameless.csv").err ==
        "nameless.csv:1: layers: not a column of the table; runs cannot be forecast without it\n");
}

TEST_CASE("calibrate: runs like the measured ones are corrected, others are not", "[e2e]") {
  const Sandbox sandbox;
  std::ofstream(sandbox.path() / "plain.csv")
      << kHeader << csv_row("a", 1, "1") << csv_row("b", 2, "1") << csv_row("c", 4, "1") << csv_row("d", 8, "1");
  const Json plain = Json::parse(sandbox.run("tracecast validate plain.csv --json").out)["rows"];
  REQUIRE(plain.size() == 4);
  // A cluster that is slower than forecast by a quarter.
  const auto slower = [&](int row) {
    return fmt::format("{}", 1.25 * plain[static_cast<std::size_t>(row)]["predicted_step_time_s"].get<double>());
  };
  std::ofstream(sandbox.path() / "mine.csv") << kHeader << csv_row("a", 1, slower(0)) << csv_row("b", 2, slower(1))
                                             << csv_row("c", 4, slower(2)) << csv_row("d", 8, "");
  const Outcome scaled = sandbox.run("tracecast calibrate --runs mine.csv --like d --out mine.json");
  CAPTURE(scaled.out, scaled.err);
  CHECK(scaled.code == 0);
  CHECK(scaled.out.starts_with("run "));
  CHECK(scaled.out.find("by the others") != std::string::npos);
  const Json fit = Json::parse(sandbox.run("tracecast calibrate --runs mine.csv --like d --json").out);
  const Json& d = fit["runs"][0];
  CHECK(d["measured_runs"] == 3);
  CHECK(d["factor"].get<double>() > 1.1);
  CHECK(d["factor"].get<double>() <= 1.25);
  CHECK(d["p5_s"].get<double>() < d["corrected_s"].get<double>());
  CHECK(fit["measured"].size() == 3);
  CHECK(d["levers"] == "fp16, full recomputation, megatron-lm");
  CHECK_FALSE(fit.contains("profile"));
  const std::string profile = content_of(sandbox.path() / "mine.json");
  CHECK(profile.find("for runs like d (") != std::string::npos);
  CHECK(profile.find("from 3 runs of mine.csv") != std::string::npos);
  const std::string others = csv_row("b", 2, "1", "H100") + csv_row("c", 4, "1", "B200") + csv_row("d", 8, "");
  std::ofstream(sandbox.path() / "one.csv") << kHeader << csv_row("a", 1, slower(0)) << others;
  const Json one = Json::parse(sandbox.run("tracecast calibrate --runs one.csv --like d --json").out)["runs"][0];
  CHECK(one["measured_runs"] == 1);  // other GPUs say nothing
  CHECK(one["factor"].get<double>() > 1);
  CHECK(one["factor"].get<double>() < d["factor"].get<double>());
  std::ofstream(sandbox.path() / "unlike.csv") << kHeader << others;
  const Outcome unlike = sandbox.run("tracecast calibrate --runs unlike.csv --like d");
  CHECK(unlike.code == 1);
  CHECK(unlike.out.find("no measured run is similar") != std::string::npos);
  CHECK(sandbox.run("tracecast calibrate --runs plain.csv").err.starts_with("--like: is required"));
}

TEST_CASE("calibrate: with the profile that it writes, a run takes its corrected time, or none is written", "[e2e]") {
  const Sandbox sandbox;
  // Llama 3.1 8B by FSDP on 64 GPUs, and the same as a scenario. Much slower than forecast, and over slow links.
  const auto table =
      [&](const char* file, const char* link, const char* step_time) {
        std::ofstream(sandbox.path() / file)
            << "id,source,model_name,layers,hidden,heads,seq_len,gpu,gpu_count,inter_node_link,framework,micro_batch,"
               "global_batch_seqs,precision,recompute,step_time_s\n"
            << fmt::format(
                   "a,mine,llama-3.1-8b,,,,8192,H100,64,{0},PyTorch FSDP,1,64,bf16,full,{1}\n"
                   "want,mine,llama-3.1-8b,,,,8192,H100,64,{0},PyTorch FSDP,1,64,bf16,full,\n",
                   link, step_time);
      };
  table("fast.csv", "", "1.9");
  const Outcome fitted = sandbox.run("tracecast calibrate --runs fast.csv --like want --out fast.json --json");
  CAPTURE(fitted.out, fitted.err);
  REQUIRE(fitted.code == 0);
  const Json page = Json::parse(fitted.out);
  const double promised = page["runs"][0]["corrected_s"];
  CHECK(page["profile"]["step_time_s"].get<double>() == Approx(promised).epsilon(0.001));
  CHECK(page["profile"]["scale"].get<double>() > page["runs"][0]["factor"].get<double>());
  std::ofstream(sandbox.path() / "s.json") << R"({"model": "llama-3.1-8b", "stack": "pytorch-fsdp",
      "cluster": {"topology": "dgx-h100", "world_size": 64, "profile": "fast.json"}, "parallel": {"dp": 64, "zero_stage": 3},
      "training": {"seq_length": 8192, "micro_batch_size": 1, "global_batch_size": 64, "dtype": "bf16",
                   "recompute": "full"}})";
  const Json run = Json::parse(sandbox.run("tracecast predict s.json --json").out);
  CHECK(run["step_time_s"].get<double>() == Approx(promised).epsilon(0.005));
  table("slow.csv", "1x 100Gb/s per node", "6.1");
  const Outcome refused = sandbox.run("tracecast calibrate --runs slow.csv --like want --out slow.json");
  CAPTURE(refused.out);
  CHECK(refused.code == 1);
  CHECK(refused.out.find("no profile is written: with kernels and host four times as long") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(sandbox.path() / "slow.json"));
}

TEST_CASE("calibrate: spelling does not count; rows that are left out are named with the reason", "[e2e]") {
  const Sandbox sandbox;
  std::ofstream(sandbox.path() / "t.csv")
      << "id,source,model_name,layers,hidden,heads,seq_len,gpu,gpu_count,framework,tp,pp,micro_batch,global_batch_seqs,"
         "precision,zero_stage,step_time_s\n"
         "a,mine,llama-3.1-8b,,,,8192,H100,64,Megatron-LM,2,1,1,128,bf16,1,2.2\n"
         "b,mine,llama-3.1-8b,,,,8192,H100,64,Megatron-LM,2,1,1,128,bf16,1,2.2s\n"
         "c,mine,llama-3.1-8b,,,,8192,H100,64,Megatron-LM,2,1,1,128,bf16,1,2200\n"
         "same,mine,llama-3.1-8b,,,,8192,H100,64,Megatron-LM,2,1,1,128,bf16,1,\n"
         "spelt,mine,Llama-3.1-8B,,,,8192,NVIDIA H100 80GB HBM3,64,megatron-lm,2,,1,128,BF16,,\n"
         "large,mine,llama-3.1-70b,,,,8192,H100,64,Megatron-LM,2,1,1,128,bf16,1,\n"
         "experts,mine,mixtral-8x7b,,,,8192,H100,64,Megatron-LM,2,1,1,128,bf16,1,\n";
  const Outcome outcome = sandbox.run("tracecast calibrate --runs t.csv --json");
  CHECK(outcome.code == 1);  // nothing is known of experts
  const Json page = Json::parse(outcome.out);
  const auto factor = [&](std::size_t run) { return page["runs"][run]["factor"].get<double>(); };
  CHECK(factor(0) > 1.1);
  CHECK(factor(1) == factor(0));
  CHECK(factor(2) < factor(0));
  CHECK(factor(2) > 1);
  CHECK(factor(3) == 1);
  REQUIRE(page["left_out"].size() == 2);
  CHECK(page["left_out"][0] == Json{{"id", "b"}, {"reason", "step_time_s: must be a positive number"}});
  CHECK(page["left_out"][1]["id"] == "c");
  CHECK(page["left_out"][1]["reason"].get<std::string>().ends_with("(allowed: 1/4 to 4 times; is it in seconds?)"));
  const Outcome text = sandbox.run("tracecast calibrate --runs t.csv --like same");
  CHECK(text.code == 0);
  CHECK(text.out.find("\nb                         step_time_s: must be a positive number\n") != std::string::npos);
  // The run's own measurement counts in the profile, and is left out of the forecast that it is compared with.
  const Outcome alone = sandbox.run("tracecast calibrate --runs t.csv --like a");
  CHECK(alone.code == 1);
  CHECK(alone.out.find("measured 2.2 s, which is not used") != std::string::npos);
  const Outcome own = sandbox.run("tracecast calibrate --runs t.csv --like a --out a.json");
  CHECK(own.code == 0);
  CHECK(own.out.find("measured 2.2 s, which is used") != std::string::npos);
}

TEST_CASE("validate: options that a table or a mode has no use for are refused", "[e2e][error]") {
  const Sandbox sandbox;
  const auto error = [&](const std::string& options) { return complaint_of(sandbox, "tracecast validate " + options); };
  for (const std::string pair :
       {"--nested --memory", "--nested --by gpu", "--nested --svg a.svg", "--nested --html a.html", "--memory --json",
        "--memory --by gpu", "--memory --markdown", "--ablation --json", "--ablation --by gpu", "--ablation --markdown",
        "--json --markdown"})
    CHECK(error("korthikanti " + pair).find(" excludes --") != std::string::npos);
  CHECK(error("korthikanti --markdown") == "--markdown: is for operators, collectives and --nested\n");
  CHECK(error("korthikanti --kernels k.csv") == "RUNS = korthikanti: is not read with --kernels or --collectives\n");
  for (const std::string option : {"--by gpu", "--only a", "--set gpu=b", "--memory", "--nested", "--svg a.svg"})
    CHECK(error("published-failures " + option) ==
          option.substr(0, option.find(' ')) +
              ": is for tables of runs, and this is a table of failures (allowed: --json --threads)\n");
}
