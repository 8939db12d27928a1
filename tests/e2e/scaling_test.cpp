// `tracecast scaling` as a user runs it.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/e2e/shell.hpp"

using namespace tracecast;

TEST_CASE("scaling: GPT-3 on 1,024 A100, days and rate", "[e2e][scaling]") {
  const Sandbox sandbox;
  const std::string gpt3 = "tracecast scaling --parameters 175e9 --tokens 300e9 --topology dgx-a100 --gpus 1024";
  const Outcome outcome = sandbox.run(gpt3 + " --utilisation 0.4 --json");
  REQUIRE(outcome.code == 0);
  const auto json = nlohmann::json::parse(outcome.out);
  CHECK(json["flops"].get<double>() == Approx(3.15e23));
  CHECK(json["rule"] == "6ND");
  // 3.15e23 / (1024 x 0.4 x 312e12) s
  CHECK(json["machine"]["days"].get<double>() == Approx(28.53).epsilon(1e-3));
  const Outcome days = sandbox.run(gpt3 + " --rule 5.7nd --days 1000");
  CHECK(days.out.find("2.992e+23 FLOPs (5.7ND)") != std::string::npos);
  CHECK(days.out.find("  warning      training sustains 10 to 60 % of the peak\n") != std::string::npos);
}

TEST_CASE("scaling: optimal sizes are by the rule that gave the compute", "[e2e][scaling]") {
  const Sandbox sandbox;
  const auto sizes = [&](const std::string& rule) {
    return json_of(sandbox,
                   "tracecast scaling --parameters 70e9 --tokens 1.4T --loss chinchilla --json --rule " + rule);
  };
  const auto by_57 = sizes("5.7nd");
  CHECK(by_57["optimal"]["parameters"].get<double>() == Approx(70e9));
  CHECK(by_57["optimal"]["tokens"].get<double>() == Approx(1.4e12));
  // N D is the same by both rules, and so are the sizes of least loss.
  CHECK(by_57["loss"]["parameters"].get<double>() == Approx(sizes("6nd")["loss"]["parameters"].get<double>()));
}

TEST_CASE("scaling: the tables have the tokens per parameter, and mark what cannot be",
          "[row-1-4][row-1-7][requirements][e2e][scaling]") {
  const Sandbox sandbox;
  const Outcome outcome = sandbox.run("tracecast scaling --tables");
  REQUIRE(outcome.code == 0);
  CHECK(outcome.out.find("Chinchilla          70     1400  20.00") != std::string::npos);
  CHECK(outcome.out.find("GPT-3              175      300   1.71") != std::string::npos);
  CHECK(outcome.out.find("3.2 %!") != std::string::npos);    // Frontier at 3e24
  CHECK(outcome.out.find("31.9 %\n") != std::string::npos);  // and at 3e25
  const Outcome json = sandbox.run("tracecast scaling --tables --json");
  const auto tables = nlohmann::json::parse(json.out);
  CHECK(tables["models"].size() == 6);
  CHECK(tables["machines"].size() == 12);  // six machines, each at 3e24 and at 3e25
  CHECK_FALSE(tables["machines"][0]["plausible"].get<bool>());
}

TEST_CASE("scaling: Llama 3 8B has 1,868 tokens for each parameter: cheap inference is paid with training",
          "[row-1-5][requirements][e2e][scaling]") {
  const Sandbox sandbox;
  const auto ratio_line = [&sandbox](const std::string& options) {
    const std::string text = sandbox.run("tracecast scaling --model llama-3-8b " + options).out;
    const std::size_t at = text.find("  ratio ");
    return at == std::string::npos ? text : text.substr(at, text.find('\n', at) - at);
  };
  CHECK(ratio_line("--tokens 15T") == "  ratio        1868 tokens per parameter (compute-optimal: 20)");
  CHECK(ratio_line("--tokens 7.5T") == "  ratio        934 tokens per parameter (compute-optimal: 20)");
}

TEST_CASE("scaling: a missing option is one error message", "[e2e][error][scaling]") {
  const Sandbox sandbox;
  const auto error = [&](const std::string& options) { return complaint_of(sandbox, "tracecast scaling " + options); };
  CHECK(error("--tokens 7e9")
            .find("give --parameters or --model (and --tokens), or --flops; see `tracecast scaling --help`") !=
        std::string::npos);
  CHECK(error("--parameters 7e9 --loss gpt").find("--loss = gpt: is neither chinchilla nor kaplan nor a .json file") !=
        std::string::npos);
  CHECK(error("--flops 1e24 --topology dgx-a100").find("--topology = dgx-a100: needs --gpus") != std::string::npos);
  CHECK(error("--flops 1e24 --topology dgx-a100 --gpus 8").find("a machine needs either --days or --utilisation") !=
        std::string::npos);
  for (const std::string option : {"--gpus 8", "--dtype fp8", "--modules", "--days 8", "--utilisation 0.4"})
    CHECK(error("--parameters 7e9 " + option).find("requires --topology") != std::string::npos);
  CHECK(error("--flops 1e24 --rule 5.7nd").find("--flops excludes --rule") != std::string::npos);
  CHECK(error("--tables --parameters 7e9").find("--parameters excludes --tables") != std::string::npos);
}

TEST_CASE("scaling: the tokens of a size, and the loss by published coefficients and by one's own",
          "[row-1-1][row-1-3][requirements][e2e][scaling]") {
  const Sandbox sandbox;
  const Outcome seventy = sandbox.run("tracecast scaling --parameters 70e9 --loss chinchilla");
  REQUIRE(seventy.code == 0);
  CHECK(seventy.out.find("70 B parameters, 1.4 T tokens (20 per parameter)") != std::string::npos);
  CHECK(seventy.out.find("loss         1.9366 by chinchilla") != std::string::npos);
  const Outcome model = sandbox.run("tracecast scaling --model gpt3-175b --tokens 300e9 --json");
  CHECK(nlohmann::json::parse(model.out)["asked"]["parameters"].get<double>() == Approx(174.6e9).epsilon(2e-3));
  const Outcome experts = sandbox.run("tracecast scaling --model deepseek-v3 --tokens 14.8T");
  CHECK(experts.out.find("37.55 B parameters active of 671 B, 14.8 T tokens") != std::string::npos);
  CHECK(experts.out.find("compute      3.335e+24 FLOPs (6ND)") != std::string::npos);
  const Outcome own = sandbox.run(
      R"(echo '{"irreducible": 2, "parameters": 100, "tokens": 1000, "alpha": 0.5, "beta": 0.5}' > law.json
tracecast scaling --parameters 1e10 --tokens 1e12 --loss law.json --json)");
  REQUIRE(own.code == 0);
  CHECK(nlohmann::json::parse(own.out)["loss"]["asked"].get<double>() == Approx(2 + 0.001 + 0.001));
  const Outcome quoted =
      sandbox.run("cp law.json 'my\"law.json'; tracecast scaling --parameters 1e10 --loss 'my\"law.json' --json");
  CHECK(nlohmann::json::parse(quoted.out)["loss"]["law"] == "my\"law.json");
}

TEST_CASE("scaling: 25,000 A100 for 90 days sustain half of their peak", "[row-1-8][requirements][e2e][scaling]") {
  const Sandbox sandbox;
  const Outcome outcome =
      sandbox.run("tracecast scaling --flops 3e25 --topology dgx-a100 --gpus 25000 --days 90 --json");
  REQUIRE(outcome.code == 0);
  const auto machine = nlohmann::json::parse(outcome.out)["machine"];
  CHECK(machine["gpus"] == 25'000);
  CHECK(machine["flops_per_s_per_gpu"].get<double>() == Approx(154.3e12).epsilon(1e-3));
  CHECK(machine["utilisation"].get<double>() == Approx(0.495).margin(0.001));
}

TEST_CASE("scaling: dies and modules of MI250X give the answers of the tables",
          "[row-1-9][row-1-10][requirements][e2e][scaling]") {
  const Sandbox sandbox;
  const auto machine = [&](const std::string& options) {
    const Outcome outcome = sandbox.run("tracecast scaling --flops 3e25 --json " + options);
    REQUIRE(outcome.code == 0);
    return nlohmann::json::parse(outcome.out)["machine"];
  };
  const auto tables = nlohmann::json::parse(sandbox.run("tracecast scaling --tables --json").out)["machines"];
  const auto claimed = [&](const std::string& name) {
    for (const auto& row : tables)
      if (row["machine"] == name && row["flops"].get<double>() == 3e25) return row["utilisation"].get<double>();
    return 0.0;
  };
  const auto modules = machine("--topology frontier --gpus 37888 --days 75 --modules");
  CHECK(sandbox.run("tracecast scaling --flops 3e24 --topology frontier --gpus 37888 --days 75 --modules")
            .out.find(" TFLOP/s per module, ") != std::string::npos);
  CHECK(modules["utilisation"].get<double>() == Approx(0.319).margin(0.0005));
  CHECK(modules["utilisation"].get<double>() == Approx(claimed("Frontier")).epsilon(1e-3));
  CHECK(machine("--topology lumi --gpus 20480 --days 140 --modules")["utilisation"].get<double>() ==
        Approx(claimed("LUMI")).epsilon(1e-3));
  // Twice the dies are the same modules; as many dies are half of them.
  const auto dies = machine("--topology frontier --gpus 75776 --days 75");
  CHECK(dies["utilisation"].get<double>() == Approx(0.319).margin(0.0005));
  CHECK(dies["dies_per_module"] == 2);
  const std::string text = sandbox.run("tracecast scaling --flops 3e25 --topology lumi --gpus 20480 --days 140").out;
  CHECK(text.find("63.2 % of the peak\n  warning      training sustains 10 to 60 % of the peak\n") !=
        std::string::npos);
  CHECK(text.find("these are dies, 2 to a module; as modules (--modules): 31.6 %\n") != std::string::npos);
  CHECK(sandbox.run("tracecast scaling --tables").out.find("63.2 %") != std::string::npos);
  CHECK(sandbox.run("tracecast scaling --flops 1e24 --topology dgx-a100 --gpus 8 --days 9 --modules")
            .err.find("--modules = dgx-a100: has GPUs that are whole modules") != std::string::npos);
  // Fugaku counts its fp32 peak in the table.
  CHECK(machine("--topology fugaku --gpus 158976 --days 2100 --dtype fp32")["utilisation"].get<double>() ==
        Approx(claimed("Fugaku")).epsilon(1e-2));
}

TEST_CASE("scaling: ABCI's A100 and V100 together, with batches by speed and with equal ones",
          "[row-1-13][requirements][e2e][scaling]") {
  const Sandbox sandbox;
  const std::string both = "tracecast scaling --flops 3e25 --topology abci-a,abci-v --gpus 960,4352";
  const auto machine = nlohmann::json::parse(sandbox.run(both + " --days 770 --json").out)["machine"];
  // 960 x 312 + 4352 x 125 TFLOP/s; equal work: 5312 x 125.
  CHECK(machine["gpus"] == 5312);
  CHECK(machine["flops_per_s"].get<double>() == Approx(451e15).epsilon(1e-3));
  CHECK(machine["utilisation"].get<double>() == Approx(0.535).margin(0.0005));
  CHECK(machine["equal_work"]["peak_flops_per_s"].get<double>() == Approx(664e15).epsilon(1e-3));
  CHECK(machine["equal_work"]["utilisation"].get<double>() == Approx(0.679).margin(0.0005));
  CHECK(machine["parts"].size() == 2);
  CHECK(machine["gpu"] == "a100-40gb + v100-16gb");
  const std::string text = sandbox.run(both + " --days 770").out;
  CHECK(text.find("450.9 of 843.5 PFLOP/s") != std::string::npos);
  // At 40 % of the peak: 3e25 / (0.4 x 843.5e15) s.
  const auto days = nlohmann::json::parse(sandbox.run(both + " --utilisation 0.4 --json").out)["machine"]["days"];
  CHECK(days.get<double>() == Approx(1029).epsilon(1e-3));
  CHECK(sandbox.run("tracecast scaling --flops 3e25 --topology abci-a,abci-v --gpus 960 --days 9")
            .err.find("--topology = abci-a,abci-v: needs as many numbers of --gpus") != std::string::npos);
}

TEST_CASE("scaling: each optimum has its rule, and trillions are T", "[e2e][model]") {
  const Sandbox sandbox;
  const std::string page = sandbox.run("tracecast scaling --flops 1e26 --loss chinchilla").out;
  CHECK(page.find(" T tokens take the same compute") != std::string::npos);
  CHECK(page.find("of thumb: 20 tokens per parameter)") != std::string::npos);
  CHECK(page.find("of approach 3)") != std::string::npos);
  const std::string days = sandbox
                               .run(
                                   "tracecast scaling --model llama-3.1-70b --tokens 15T --topology dgx-h200 "
                                   "--gpus 1024 --utilisation 0.5")
                               .out;
  CHECK(days.find("15 T tokens") != std::string::npos);
  CHECK(days.find("the MFU of `predict` counts attention as well") != std::string::npos);
}

TEST_CASE("list: tables of runs are listed, and a misspelt kind is answered with the right one", "[e2e]") {
  const Sandbox sandbox;
  CHECK(sandbox.run("tracecast list runs korthikanti").out.find("korthikanti  8 measured runs") != std::string::npos);
  CHECK(sandbox.run("tracecast list scenario").out ==
        "no name or description contains 'scenario' (did you mean the kind 'scenarios'?); `tracecast list` shows what "
        "there is\n");
  CHECK(sandbox.run("tracecast validate korthikant").err ==
        "korthikant: does not exist (allowed: a CSV file, or a name that `tracecast list runs` shows)\n");
}
