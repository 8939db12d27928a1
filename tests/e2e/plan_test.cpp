#include <set>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/random.hpp"
#include "tests/e2e/shell.hpp"
#include "tests/support/cases.hpp"

using namespace tracecast;
using Json = nlohmann::json;

namespace {

Json answer(const Sandbox& sandbox, const std::string& arguments) {
  const Json plan = json_of(sandbox, "tracecast plan --json " + arguments);
  static const std::string page = content_of(source_dir() / "docs/formats/plan.md");
  for (const auto& [key, _] : plan.items()) {
    INFO(key);
    CHECK((page.find("`" + key + "`") != std::string::npos));
  }
  return plan;
}

std::string complaint(const Sandbox& sandbox, const std::string& arguments) {
  return complaint_of(sandbox, "tracecast plan " + arguments);
}

// A quarter of the scenario's batch: each layout is simulated in a quarter of the time.
const std::string kSearch =
    "plan llama2-7b-abci --set training.global_batch_size=256 --zero 1,3 --exhaustive --no-upgrades --failures none ";
const std::string kFew = kSearch + "--tp 1,2 --pp 1,2 --vpp 1 --micro-batch 1 ";
/// A search of more than a hundred layouts; with sanitizers of some.
const std::string kSmall = test::kSanitized ? kFew : kSearch + "--tp 1,2,4 --pp 1,2,4 --vpp 1,2 --micro-batch 1,2 ";
const int kSmallLayouts = test::kSanitized ? 6 : 100;  // at least

}  // namespace

TEST_CASE("plan: finds the layout that Meta trained with, and says what it would cost", "[e2e][search]") {
  const Sandbox sandbox;
  const Json plan =
      answer(sandbox, "llama3-405b-16k --gpus 8192..16384 --tokens 15.6T --best 2 --tp 4,8 --vpp 4,8 --no-upgrades");
  REQUIRE(plan["offers"].size() == 4);
  const Json& first = plan["offers"][0];
  CHECK(first["gpus"] == 16384);
  CHECK(first["layout"]["tp"] == 8);
  CHECK(first["layout"]["pp"] == 16);
  CHECK(first["layout"]["dp"] == 128);
  CHECK(first["memory_gib"] < 79.7);
  CHECK(first["step_time_s"].get<double>() >= first["bound_s"].get<double>());
  double parts = 0;
  for (const auto& [name, seconds] : first["parts_s"].items()) parts += seconds.get<double>();
  CHECK(parts == Approx(first["step_time_s"].get<double>()));
  // 15.6e12 tokens: at goodput g they take tokens / (g x tokens per second).
  const double days = 15.6e12 / (first["tokens_per_s"].get<double>() * first["goodput"].get<double>()) / 86400;
  CHECK(first["days"].get<double>() == Approx(days));
  CHECK(first["cost_usd"]["typical"].get<double>() ==
        Approx(days * 24 * (16384 + first["spare_gpus"].get<int>()) * 2.99));
  CHECK(first["spare_gpus"].get<int>() >= 8 * 8);  // enough for 99.9 % of the time
  for (const Json& machine : plan["machines"]) {
    const Json& counts = machine["counts"];
    CHECK(counts["layouts"] == counts["impossible"].get<int>() + counts["out_of_memory"].get<int>() +
                                   counts["refused"].get<int>() + counts["pruned"].get<int>() +
                                   counts["given_up"].get<int>() + counts["simulated"].get<int>());
  }
}

TEST_CASE("plan: constraints decide, and an answer of no has its exit code", "[e2e][search]") {
  const Sandbox sandbox;
  const std::string job =
      "llama3-405b-16k --gpus 4096..16384 --tokens 15.6T --best 1 --no-upgrades --tp 8 --pp 16 --vpp 8 --micro-batch 1 "
      "--zero 2 --recompute none,full ";
  const Json fewest = answer(sandbox, job + "--objective gpus --days 200");
  CHECK(fewest["offers"][0]["gpus"] == 8192);  // 4,096 take longer
  CHECK(fewest["offers"][2]["meets_constraints"] == false);
  const Outcome no = sandbox.run("tracecast plan " + job + "--days 10");
  CHECK(no.code == 1);
  CHECK(no.out.find("misses: takes") != std::string::npos);
  const Json priced = answer(sandbox, job + "--price 10 --objective cost");
  CHECK(priced["offers"][0]["cost_usd"]["low"] == priced["offers"][0]["cost_usd"]["high"]);
}

TEST_CASE("plan: says what each upgrade of the machine would bring", "[e2e][search]") {
  const Sandbox sandbox;
  const Json plan = answer(
      sandbox,
      "llama2-7b-abci --set training.global_batch_size=256 --tp 1 --pp 1,2 --vpp 1 --zero 1 --best 1 --failures none");
  REQUIRE(plan["upgrades"].size() == 7);
  // A step that computes for most of its time: at most a third faster with 1.5 times the rate.
  CHECK(plan["upgrades"][0]["what"] == "1.5x tensor-core rate");
  CHECK(plan["upgrades"][0]["faster_by"].get<double>() > 0.2);
  for (const Json& upgrade : plan["upgrades"]) {
    CHECK(upgrade["faster_by"].get<double>() >= 0);
    CHECK(upgrade["faster_by"].get<double>() < 1.0 / 3);
  }
}

TEST_CASE("plan: offloading, sequence parallelism and the global batch are free choices", "[e2e][search]") {
  const Sandbox sandbox;
  const std::string job =
      "llama2-7b-abci --set training.global_batch_size=256 --tp 1,2 --pp 1 --vpp 1 --micro-batch 1 --no-upgrades "
      "--failures none ";
  const Json plan =
      answer(sandbox, job + "--best 50 --offload none,optimizer --sequence-parallel on,off --recompute none,full");
  std::set<std::string> offloads;
  std::set<bool> sequence_parallel;
  for (const Json& offer : plan["offers"]) {
    offloads.insert(offer["layout"]["offload"]);
    if (offer["layout"]["tp"] == 2) sequence_parallel.insert(offer["layout"]["sequence_parallel"].get<bool>());
  }
  CHECK(offloads == std::set<std::string>{"none", "optimizer"});
  CHECK(sequence_parallel.size() == 2);
  const Json batches = answer(sandbox, job + "--global-batch 64..256 --best 1");
  REQUIRE(batches["offers"].size() == 3);
  CHECK(batches["offers"][0]["global_batch_size"] == 256);  // the same traffic of gradients for more tokens
  CHECK(batches["offers"][1]["slower_by"] > 0);
}

TEST_CASE("plan: several objectives make a front of all of them", "[e2e][search]") {
  const Sandbox sandbox;
  const std::string job =
      "llama2-7b-abci --set training.global_batch_size=256 --topology abci-a,dgx-h100 --gpus 32,64 --tp 1,2 --pp 1 "
      "--no-upgrades --failures none --best 1 ";
  const Json plan = answer(sandbox, job + "--objective energy,time,gpus");
  CHECK(plan["objective"] == "energy");
  CHECK(plan["trade_offs"] == Json{"energy", "time", "gpus"});
  const Json& offers = plan["offers"];
  for (const Json& offer : offers) CHECK(offers[0]["energy_mwh"]["typical"] <= offer["energy_mwh"]["typical"]);
  CHECK(plan["pareto"].size() > 1);
  const Outcome page = sandbox.run("tracecast plan " + job + "--objective energy,time,gpus");
  CHECK(page.out.find("Best trade-offs of energy, time and gpus") != std::string::npos);
  const Outcome twice = sandbox.run("tracecast plan " + job + "--objective time,time");
  CHECK(twice.code == 2);
  CHECK(twice.err.find("--objective = time,time: names time twice") != std::string::npos);
}

TEST_CASE("plan: any key of a scenario can be searched, and the answer names those that were not", "[e2e][search]") {
  const Sandbox sandbox;
  const std::string job =
      "deepseek-v3-2048 --tp 1,2 --pp 16 --vpp 1 --ep 32 --micro-batch 1 --recompute none --zero 1 --no-upgrades "
      "--failures none --best 1 ";
  const auto unsearched = [](const Json& plan) { return plan["not_searched"].get<std::set<std::string>>(); };
  const Json as_it_is = answer(sandbox, job);
  CHECK(unsearched(as_it_is) == std::set<std::string>{"training.dtype", "training.recompute_modules",
                                                      "parallel.shard_group", "parallel.rank_order", "parallel.etp",
                                                      "parallel.moe_dispatcher"});
  const Json swept = answer(sandbox, job + "--sweep parallel.etp=1,2 --set parallel.rank_order=tp-cp-ep-dp-pp");
  CHECK(unsearched(swept) == std::set<std::string>{"training.dtype", "training.recompute_modules",
                                                   "parallel.shard_group", "parallel.moe_dispatcher"});
  REQUIRE(swept["machines"].size() == 2);
  // A job without experts has no keys of theirs.
  CHECK_FALSE(unsearched(answer(sandbox,
                                "llama2-7b-abci --set training.global_batch_size=256 --tp 1 --pp 1 --no-upgrades "
                                "--failures none --best 1"))
                  .contains("parallel.etp"));
  // Without ZeRO there is no group of shards, and so the search sets it.
  const std::string hybrid =
      "p5-llama2-13b-hybrid-32 --tp 1 --pp 1 --micro-batch 1 --recompute full --no-upgrades --failures none --best 1 ";
  CHECK_FALSE(unsearched(answer(sandbox, hybrid + "--zero 0,3")).contains("parallel.shard_group"));
  CHECK(unsearched(answer(sandbox, hybrid + "--zero 3")).contains("parallel.shard_group"));
  // What the page advises is possible.
  const std::string small =
      "llama2-7b-abci --set training.global_batch_size=256 --tp 1 --pp 1 --no-upgrades --failures none --best 1 ";
  CHECK(sandbox.run("tracecast plan " + small + "| tr -s '\\n ' ' '")
            .out.find("searches one; parallel.shard_group together with --zero 1,3).") != std::string::npos);
  CHECK(answer(sandbox, small + "--sweep parallel.shard_group=8,16 --zero 1,3")["machines"].size() == 2);
}

TEST_CASE("plan: what the search sets itself cannot be swept", "[e2e][search][error]") {
  const Sandbox sandbox;
  const auto error = [&](const std::string& arguments) {
    return complaint(sandbox, "llama2-7b-abci --no-upgrades --failures none " + arguments);
  };
  CHECK(error("--sweep parallel.tp=1,2") ==
        "--sweep = parallel.tp=1,2: the search sets parallel.tp for each layout (use --tp)\n");
  CHECK(error("--sweep parallel.pp_schedule=1f1b,zb-h1 --pp 4") ==
        "--sweep = parallel.pp_schedule=1f1b,zb-h1: the search sets parallel.pp_schedule for each layout (use "
        "--schedule)\n");
  CHECK(error("--sweep training.recompute=none,full").find("(use --recompute)") != std::string::npos);
  CHECK(error("--sweep training.offload_optimizer=false,true").find("(use --offload)") != std::string::npos);
  CHECK(error("--sweep parallel.sharding_strategy=FULL_SHARD,SHARD_GRAD_OP").find("(use --zero, ") !=
        std::string::npos);
  CHECK(error("--sweep parallel.account_for_loss=false,true") ==
        "--sweep = parallel.account_for_loss=false,true: the search sets parallel.account_for_loss for each layout\n");
  CHECK(error("--sweep cluster.world_size=8,16 --gpus 16") ==
        "--sweep = cluster.world_size=8,16: --gpus sets this key as well: leave one of them out\n");
  // ZeRO-3 keeps FSDP's strategy, so that both are simulated.
  const Json plan =
      answer(sandbox,
             "llama2-7b-abci --no-upgrades --failures none --best 1 --zero 3 --tp 1 --pp 1 --micro-batch 1 "
             "--recompute none --set training.global_batch_size=256 "
             "--sweep parallel.sharding_strategy=FULL_SHARD,SHARD_GRAD_OP");
  REQUIRE(plan["offers"].size() == 2);
  CHECK(plan["offers"][0]["step_time_s"] < plan["offers"][1]["step_time_s"]);
}

TEST_CASE("plan: jobs of different numbers of tokens are not compared", "[e2e][search][error]") {
  const Sandbox sandbox;
  const std::string job =
      "llama2-7b-abci --no-upgrades --failures none --best 1 --zero 1 --tp 1 --pp 4 --vpp 1 --micro-batch 1 "
      "--set training.global_batch_size=256 --sweep training.train_tokens=100000000000,200000000000 ";
  CHECK(complaint(sandbox, job) ==
        "--sweep: makes jobs of 1e+11 and 2e+11 tokens, which are not compared (--tokens gives all as many; or plan "
        "each by itself)\n");
  CHECK(answer(sandbox, job + "--tokens 100B")["offers"].size() == 1);  // the same job twice
}

TEST_CASE("plan: what fits no GPU is tried with the host's memory", "[e2e][search]") {
  const Sandbox sandbox;
  const std::string job =
      "llama2-13b-abci --set cluster.world_size=2 --set training.global_batch_size=32 --tp 1 --pp 1 ";
  const Json plan = answer(sandbox, job + "--best 1 --no-upgrades --failures none");
  CHECK(plan["offers"][0]["layout"]["offload"] != "none");
  const Outcome refused = sandbox.run("tracecast plan " + job + "--offload none --no-upgrades --failures none");
  CHECK(refused.code == 1);
  CHECK(refused.out.find("No layout fits") != std::string::npos);
}

TEST_CASE("plan: what offloaded states take of a host, and what it has", "[e2e][search]") {
  const Sandbox sandbox;
  const std::string job =
      "llama2-13b-abci --gpus 2 --set training.global_batch_size=32 --tp 1 --pp 1 --micro-batch 1 --recompute full "
      "--offload optimizer --best 1 --no-upgrades --failures none ";
  const Json unknown = answer(sandbox, job)["offers"][0];
  CHECK(unknown["host_used_gib"] > 100);
  CHECK_FALSE(unknown.contains("host_capacity_gib"));
  CHECK(sandbox.run("tracecast plan " + job).out.find("GiB per host") != std::string::npos);
  const Json known = answer(sandbox, job + "--topology dgx-h100")["offers"][0];
  CHECK(known["host_capacity_gib"] == Approx(2e12 / (1 << 30)));
  const Outcome refused =
      sandbox.run("tracecast plan " + job + "--topology dgx-h100 --set 'topology.node.host_memory=100 GB'");
  CHECK(refused.code == 1);
  CHECK(refused.out.find("which has 93.1 GiB") != std::string::npos);
}

TEST_CASE("plan: machines of other GPUs and of other sizes stand beside each other", "[e2e][search]") {
  const Sandbox sandbox;
  const std::string rest = " --no-upgrades --failures none --best 1";
  const Json gpus = answer(sandbox, "llama3-405b-16k --topology dgx-h100,dgx-b200" + rest);
  REQUIRE(gpus["offers"].size() == 2);  // the scenario's attention kernel is none of the B200's
  CHECK(gpus["offers"][0]["topology"] == "dgx-b200");
  const Json sizes = answer(sandbox, "megatron-sc21-1.7b --topology abci-a --gpus 512..1024" + rest);
  CHECK(sizes["machines"].size() == 1);
  CHECK_FALSE(sizes.contains("refusals"));
  // 70B has no layout on 8 GPUs of either; on 64 of one.
  const std::string fits = "p5-llama3-70b-64 --offload none --tp 8 --pp 1,8 --topology aws-p5,aws-p4d --gpus 8,64 ";
  const Json left = answer(sandbox, fits + rest);
  CHECK(left["offers"].size() + left["refusals"].size() == 4);
  REQUIRE(left["refusals"].size() >= 2);
  const std::string first = left["refusals"][0];
  CHECK(first.starts_with("No layout fits 8 GPUs of aws-p5: the smallest needs at least "));
  sandbox.run("tracecast plan " + fits + rest + " --page decision.html > page.txt");
  for (const char* file : {"page.txt", "decision.html"}) {
    CAPTURE(file);
    const std::string page = sandbox.run(std::string("tr -s '\\n ' ' ' < ") + file).out;
    for (const Json& each : left["refusals"]) CHECK(page.find(each.get<std::string>()) != std::string::npos);
  }
  CHECK(sizes["left_out"] == Json{"1024 GPUs: is more than abci-a has (allowed: 1 to 960)"});
  CHECK(complaint(sandbox, "megatron-sc21-1.7b --topology abci-a --gpus 1024,2048") ==
        "--gpus = 1024: is more than abci-a has (allowed: 1 to 960)\n");
}

TEST_CASE("plan: global batches of more tokens than the training are left out", "[e2e][search]") {
  const Sandbox sandbox;
  const std::string command =
      "tracecast plan p5-llama2-7b-8 --tokens 3M --tp 1 --no-upgrades --failures none --global-batch ";
  const Outcome both = sandbox.run(command + "512,1024");
  CHECK(both.code == 0);
  CHECK(both.out.find("batches of 1024 sequences: --tokens") != std::string::npos);
  CHECK(sandbox.run(command + "1024,2048").code == 2);
}

TEST_CASE("plan: every error is one message", "[e2e][search][error]") {
  const Sandbox sandbox;
  CHECK(complaint(sandbox, "llama3-405b-16k --gpus 16..x") ==
        "--gpus = 16..x: is not a number of GPUs (allowed: 1 to 4194304: 1024, 256,384,512, 256..16384, which "
        "doubles, or 1024..2048:128, of at most 1000 steps)\n");
  CHECK(complaint(sandbox, "llama3-405b-16k --gpus 4194305")
            .starts_with("--gpus = 4194305: is not a number of GPUs (allowed: 1 to 4194304: "));
  CHECK(complaint(sandbox, "llama3-405b-16k --global-batch 7..") ==
        "--global-batch = 7..: is not a global batch (allowed: 1 to 4194304: 1024, 256,384,512, 256..16384, which "
        "doubles, or 1024..2048:128, of at most 1000 steps)\n");
  CHECK(complaint(sandbox, "llama3-405b-16k --offload disk") ==
        "--offload = disk: cannot be offloaded to the host (allowed: none, or of optimizer parameters "
        "activations, in "
        "this order, joined by +)\n");
  CHECK(complaint(sandbox, "llama3-405b-16k --sequence-parallel yes") ==
        "--sequence-parallel = yes: must be on, off, or on,off\n");
  CHECK(complaint(sandbox, "llama3-405b-16k --objective speed") ==
        "--objective = speed: unknown objective (allowed: time throughput cost energy gpus)\n");
  CHECK(complaint(sandbox, "llama3-405b-16k --tokens 3X") ==
        "--tokens = 3X: is not a number of tokens (allowed: 2T, 300B, 50M, 300k, 15.6e12)\n");
  // The count is read, and the search begins: what is wrong is another option.
  CHECK(complaint(sandbox, "llama3-405b-16k --tokens 300M --economics none").starts_with("unknown economics file"));
  CHECK(complaint(sandbox, "llama3-405b-16k --recompute some") ==
        "--recompute = some: is unknown (allowed: none selective selective_op full)\n");
  CHECK(complaint(sandbox, "llama3-405b-16k --schedule 2f2b") ==
        "--schedule = 2f2b: unknown schedule (see tracecast schedule --help)\n");
  CHECK(complaint(sandbox, "llama3-405b-16k --topology dgx-h101") ==
        "--topology = \"dgx-h101\": unknown topology 'dgx-h101' (did you mean 'dgx-h100'?)\n");
  CHECK(
      complaint(sandbox, "llama3-405b-16k --set cluster.topology=dgx-h101").starts_with("--set: cluster.topology = "));
  CHECK(complaint(sandbox, "p5-llama3-70b-64 --topology laptop --gpus 4096") ==
        "--gpus = 4096: is more than laptop has (allowed: 1 to 1)\n");
  CHECK(complaint(sandbox, "pipeline-1f1b --days 3").starts_with("--tokens: is needed for --days and --budget"));
}

TEST_CASE("plan: a search killed twenty times resumes, and its export is the same to the byte", "[e2e][search]") {
  const Sandbox sandbox;
  REQUIRE(sandbox.run("tracecast " + kSmall + "--csv whole.csv").code == 0);
  RandomStream random(11, 0, 0);
  for (int kill = 0; kill < test::cases(20); ++kill)
    sandbox.run(fmt::format("timeout -s KILL {:.3f} tracecast {} --out results.db --csv killed.csv",
                            0.01 + 0.05 * random.uniform(), kSmall));
  REQUIRE(sandbox.run("tracecast " + kSmall + "--out results.db --csv resumed.csv").code == 0);
  CHECK(sandbox.run("cmp whole.csv resumed.csv").code == 0);
  CHECK(sandbox.run(fmt::format("test $(wc -l < whole.csv) -gt {}", kSmallLayouts)).code == 0);
}

TEST_CASE("plan: a store answers nothing after its topology file has changed", "[e2e][search]") {
  const Sandbox sandbox;
  const auto topology = [&sandbox](const std::string& rate) {
    REQUIRE(sandbox
                .run("sed -e '/nic_rate/s/400 Gb/" + rate + " Gb/' " + source_dir().string() +
                     "/topologies/dgx-h100.json > mine.json && grep -q '\"" + rate + " Gb' mine.json")
                .code == 0);
  };
  const std::string search =
      "tracecast plan llama2-7b-abci --set training.global_batch_size=256 --set cluster.topology=$PWD/mine.json --set "
      "cluster.world_size=32 --tp 1,4 --pp "
      "1,2 "
      "--vpp 1 --micro-batch 1 --no-upgrades --failures none --json ";
  topology("400");
  const Outcome fast = sandbox.run(search + "--out store.db");
  REQUIRE(fast.code == 0);
  CHECK(sandbox.run(search + "--out store.db").out == fast.out);
  topology("10");
  const Outcome slow = sandbox.run(search + "--out store.db");
  CHECK(slow.out == sandbox.run(search).out);
  CHECK(slow.out != fast.out);
}

TEST_CASE("plan: a store that fails does not cost the answer", "[e2e][search][error]") {
  const Sandbox sandbox;
  const Outcome whole = sandbox.run("tracecast " + kFew);
  REQUIRE(sandbox.run("tracecast " + kFew + "--out results.db").code == 0);
  // The head of the database stays, so that it can be opened; its tables are lost.
  REQUIRE(sandbox.run("printf '%65536s' | tr ' ' x | dd of=results.db bs=4096 seek=1 conv=notrunc").code == 0);
  const Outcome damaged = sandbox.run("tracecast " + kFew + "--out results.db");
  CHECK(damaged.code == 2);
  CHECK(damaged.out == whole.out);
  CHECK(
      damaged.err ==
      "--out = results.db: does not keep all results (database disk image is malformed); the answer does not depend on "
      "it\n");
}

TEST_CASE("plan: two processes under mpirun give the answer and the export of one", "[e2e][search]") {
  const Sandbox sandbox;
  if (sandbox.run("command -v mpirun && ldconfig -p | grep libmpi.so").code != 0) {
    WARN("skipped: no Open MPI here");
    return;
  }
  // Open MPI does not give back all its memory at the end.
  const std::string mpirun =
      "ASAN_OPTIONS=detect_leaks=0 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -n 2 "
      "--oversubscribe tools/tracecast ";
  // JSON, since mpirun may give its first process a terminal.
  const Outcome one = sandbox.run("tracecast " + kSmall + "--json --csv one.csv");
  const Outcome two = sandbox.run(mpirun + kSmall + "--json --csv two.csv --out results.db");
  INFO(two.err);
  REQUIRE(two.code == 0);
  CHECK(Json::parse(two.out) == Json::parse(one.out));
  CHECK(sandbox.run("cmp one.csv two.csv").code == 0);
  CHECK(sandbox.run(mpirun + kSmall + "--csv again.csv --out results.db && cmp one.csv again.csv").code == 0);
}

TEST_CASE("plan: degrees that no machine has are refused, word for word", "[e2e][search][error]") {
  const Sandbox sandbox;
  const auto error = [&sandbox](const std::string& options) {
    return complaint_of(sandbox, "tracecast plan zero-1-7.5b " + options);
  };
  for (const std::string name : {"--tp", "--pp", "--vpp", "--cp", "--ep", "--micro-batch"})
    for (const std::string value : {"0", "-1", "2,0"})
      CHECK(error(name + " " + value) ==
            fmt::format("tracecast plan: {} = {}: is out of range (allowed: 1 to {}); see `tracecast plan --help`\n",
                        name, value == "2,0" ? "0" : value, name == "--micro-batch" ? 1'000'000 : 16384));
  CHECK(error("--zero 4") ==
        "tracecast plan: --zero = 4: is out of range (allowed: 0 to 3); see `tracecast plan --help`\n");
}

TEST_CASE("plan: the documents' layouts are judged: what is better, and why", "[e2e][search]") {
  const Sandbox sandbox;
  // Gathers of ZeRO-3 that nothing hides, of a large model; kernels beside such transfers.
  const auto [name, cause] = GENERATE(table<std::string, std::string>(
      {{"llama3-405b-1024", "exposed parameters"}, {"p5-llama2-7b-8", "compute"}, {"p5-llama3-70b-64", "compute"}}));
  CAPTURE(name);
  const Outcome predicted = sandbox.run("tracecast predict --json " + name);
  REQUIRE(predicted.code == 0);
  const Json plan = answer(sandbox, name + " --best 1 --no-upgrades --failures none");
  const Json& own = plan["own"];
  CHECK(own["step_time_s"] == Json::parse(predicted.out)["step_time_s"]);
  const Json& best = plan["offers"][0];
  CHECK(own["slower_by"].get<double>() > 0.03);
  CHECK(own["slower_by"].get<double>() ==
        Approx(own["step_time_s"].get<double>() / best["step_time_s"].get<double>() - 1));
  CHECK(own["slower_because"]["cause"] == cause);
  const Outcome page = sandbox.run("tracecast plan " + name + " --best 1 --no-upgrades --failures none");
  CHECK(page.out.find("The scenario's own layout") != std::string::npos);
}

TEST_CASE("plan: --recipe ends with its gap to the best of the search", "[row-0-27][requirements][e2e][search]") {
  const Sandbox sandbox;
  const std::string job =
      "llm-jp-13b-mdx --tp 1,2 --pp 1,2,3 --vpp 1 --micro-batch 1,2 --failures none --best 1 "
      "--no-upgrades --recipe";
  const Json plan = answer(sandbox, job);
  const Json& recipe = plan["recipe"];
  const double best = plan["offers"][0]["step_time_s"];
  CHECK(recipe["gap"].get<double>() == Approx(recipe["step_time_s"].get<double>() / best - 1));
  CHECK(recipe["gap"].get<double>() > 0.05);  // the most data parallelism that fits needs full recomputation
  // From the most data parallelism on: tp x pp only grow until a layout fits.
  int divided = 1;
  for (const Json& step : recipe["steps"]) {
    const int now = step["layout"]["tp"].get<int>() * step["layout"]["pp"].get<int>();
    CHECK(now >= divided);
    divided = now;
    if (step["taken"].get<bool>()) break;
    CHECK_FALSE(step["fits"].get<bool>());
  }
  const std::string page = sandbox.run("tracecast plan " + job).out;
  CHECK(page.find(fmt::format("{:.1f} % slower than the best of the search", 100 * recipe["gap"].get<double>())) !=
        std::string::npos);
}

TEST_CASE("plan: --recipe says why the guide's degrees need one more condition",
          "[row-3-46][requirements][e2e][search]") {
  const Sandbox sandbox;
  const std::string page = sandbox
                               .run(
                                   "tracecast plan p5-llama3-405b-256 --tp 8 --pp 4 --vpp 1 --micro-batch 1 --zero 3 "
                                   "--best 1 --failures none --no-upgrades --recipe")
                               .out;
  CHECK(page.find("3 Degrees: TP 8, PP 4, DP 8.") != std::string::npos);
  CHECK(page.find("PP is from memory") != std::string::npos);
}

TEST_CASE("plan: --recipe shows how a guide reaches its degrees", "[e2e][search]") {
  // 2 + 2 bytes for each of 13.0 billion parameters, over 85.5 GB less a quarter for activations.
  const Outcome outcome =
      Sandbox().run("tracecast plan p5-llama2-13b-16 --tp 1 --pp 1 --best 1 --no-upgrades --failures none --recipe");
  REQUIRE(outcome.code == 0);
  CHECK_THAT(outcome.out, Catch::Contains("3 Degrees: TP 1, PP 1, DP 16. 52.1 GB of weights and gradients over 85.5 -\n"
                                          "  21.4 GB are 0.81, in nodes of 8; DP = 16 / (1 x 1).\n"));
}

TEST_CASE("plan: the scenario's own layout is among the candidates", "[e2e][search]") {
  // Uneven stages and DualPipe are outside the default choices: no layout of the search is as fast.
  const Sandbox sandbox;
  const Json plan = answer(sandbox, "deepseek-v3-2048 --tp 1 --pp 16 --ep 64 --best 2 --no-upgrades --failures none");
  CHECK(plan["offers"][0].value("own", false));
  CHECK(plan["offers"][0]["settings"] == Json::array());
  CHECK(plan["complete"] == true);
}

TEST_CASE("plan: what is printed can be forecast, and sizes go in steps", "[e2e][search]") {
  const Sandbox sandbox;
  const std::string job =
      "llama2-7b-abci --set training.global_batch_size=256 --gpus 16..48:16 --tp 1,2 --best 2 --no-upgrades ";
  const Json plan = answer(sandbox, job);
  CHECK(plan["machines"].size() == 3);
  CHECK(plan["machines"][2]["gpus"] == 48);
  CHECK(plan["hints"].size() == 1);  // 48 has a factor of 3
  const Json& first = plan["offers"][0];
  std::string set;
  for (const Json& setting : first["settings"]) set += fmt::format(" --set '{}'", setting.get<std::string>());
  const Outcome again =
      sandbox.run("tracecast predict llama2-7b-abci --set training.global_batch_size=256 --json" + set);
  CAPTURE(again.err, set);
  REQUIRE(again.code == 0);
  CHECK(Json::parse(again.out)["step_time_s"].get<double>() == Approx(first["step_time_s"].get<double>()));
  const Outcome emitted = sandbox.run("tracecast plan " + job + "--emit scenario --pick 2 > second.json");
  REQUIRE(emitted.code == 0);
  const Outcome second = sandbox.run("tracecast predict second.json --json");
  CHECK(Json::parse(second.out)["step_time_s"].get<double>() == Approx(plan["offers"][1]["step_time_s"].get<double>()));
}

TEST_CASE("plan --launcher: layouts are forecast with the launcher's stack, and the page says so", "[e2e][plan]") {
  const Sandbox sandbox;
  const std::string job = "pipeline-1f1b --tp 1 --pp 4 --failures none --no-upgrades --launcher megatron ";
  const std::string all = "All layouts are accepted by megatron, and are forecast with the stack ";
  const auto page = [&](const std::string& more) {
    return sandbox.run("tracecast plan " + job + more + "| tr -s '\\n ' ' '").out;
  };
  CHECK(page("").find(all + "megatron-core, which an import of its settings sets.") != std::string::npos);
  CHECK(page("--set stack=megatron-lm ").find(all + "megatron-lm.") != std::string::npos);
  // The stack's own precision of gradients, bf16, is not the scenario's.
  const Json own = answer(sandbox, job);
  const Json given = answer(sandbox, job + "--set stack=megatron-core --set training.grad_reduce_dtype=fp32");
  CHECK(own["offers"][0]["step_time_s"] == given["offers"][0]["step_time_s"]);
}

TEST_CASE("plan --emit: the stack of the launcher changes no numbers of the training", "[e2e][plan]") {
  const Sandbox sandbox;
  const std::string job = "tracecast plan llama2-7b-abci --tp 1,2 --no-upgrades --failures none ";
  const Outcome emitted = sandbox.run(job + "--emit megatron > run.sh");
  REQUIRE(emitted.code == 0);
  CHECK(sandbox.run("cat run.sh").out.find("--accumulate-allreduce-grads-in-fp32") != std::string::npos);
  const Outcome page = sandbox.run(job + "--launcher megatron");
  CHECK(page.out.find("--set 'training.grad_reduce_dtype=fp32'") != std::string::npos);
  const Outcome narrow = sandbox.run(job + "--set training.grad_reduce_dtype=bf16 --emit megatron");
  CHECK(narrow.out.find("--grad-reduce-in-bf16") != std::string::npos);
}

TEST_CASE("plan: a machine may have a size of its own, and fewer tokens than a step are refused", "[e2e][plan]") {
  const Sandbox sandbox;
  const std::string rest = " --no-upgrades --failures none --best 1 --tp 1,2 --pp 1,2 --vpp 1 --micro-batch 1 ";
  const Json sized = answer(sandbox, "llama2-7b-abci --topology dgx-h100:16,dgx-b200:8" + rest);
  REQUIRE(sized["offers"].size() == 2);
  for (const Json& offer : sized["offers"]) CHECK(offer["gpus"] == (offer["topology"] == "dgx-h100" ? 16 : 8));
  CHECK(complaint(sandbox, "llama2-7b-abci --tokens 5" + rest)
            .starts_with("--tokens = 5: is less than a step, which has "));
}

TEST_CASE("plan: the scenario's own layout is on its own machine and size, where they are searched", "[e2e][plan]") {
  const Sandbox sandbox;
  const std::string rest = " --no-upgrades --failures none --best 1 --tp 1 --micro-batch 1 ";
  const Json scenario = Json::parse(sandbox.run("tracecast predict llama2-7b-abci --json").out);
  const int gpus = scenario["ranks"];
  const Json own =
      answer(sandbox, "llama2-7b-abci --gpus " + std::to_string(gpus) + "," + std::to_string(2 * gpus) + rest)["own"];
  CHECK(own["gpus"] == gpus);
  CHECK(own["step_time_s"].get<double>() == Approx(scenario["step_time_s"].get<double>()));
  const std::string page = sandbox.run("tracecast plan llama2-7b-abci --topology dgx-h100 --gpus 64" + rest).out;
  CHECK(page.find("  64 x dgx-h100: ") != std::string::npos);
}

TEST_CASE("plan --emit: what is emitted fits with the launcher's stack", "[e2e][plan]") {
  const Sandbox sandbox;
  const Outcome emitted =
      sandbox.run("tracecast plan p5-llama3-70b-64 --emit torchtitan --no-upgrades --failures none > t.toml");
  REQUIRE(emitted.code == 0);
  CHECK(emitted.err.find("planned with stack=torchtitan, which an import of these settings sets") != std::string::npos);
  REQUIRE(sandbox.run("tracecast import torchtitan t.toml --model llama-3-70b --topology aws-p5 --gpus 64 -o t.json")
              .code == 0);
  CHECK(sandbox.run("tracecast predict t.json").code == 0);  // 1: it does not fit
}

TEST_CASE("plan: options without effect are refused", "[e2e][plan][error]") {
  const Sandbox sandbox;
  CHECK(complaint(sandbox, "pipeline-1f1b --pick 3").find("--emit") != std::string::npos);
  CHECK(complaint(sandbox, "pipeline-1f1b --json --emit megatron").find("--json") != std::string::npos);
}

TEST_CASE("plan: degrees whose product does not fit into 32 bits", "[e2e][plan][error]") {
  const Sandbox sandbox;
  const std::string plan = "tracecast plan gpu-1b --gpus 64 --failures none --no-upgrades ";
  CHECK(sandbox.run(plan + "--tp 65536 --cp 65536 --pp 1").err ==
        "tracecast plan: --tp = 65536: is out of range (allowed: 1 to 16384); see `tracecast plan --help`\n");
  // 2^42 ranks, and 2^28 virtual stages
  CHECK(sandbox.run(plan + "--tp 16384 --cp 16384 --pp 16384").code == 1);
  CHECK(sandbox.run(plan + "--pp 16384 --vpp 16384").code == 1);
}
