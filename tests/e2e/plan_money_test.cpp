// Money, spares, regions, networks and the decision page of `tracecast plan`, from the command line.
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/io/economics_file.hpp"
#include "tests/e2e/shell.hpp"
#include "tests/support/paths.hpp"

using namespace tracecast;
using Json = nlohmann::json;

namespace {

Json answer(const Sandbox& sandbox, const std::string& arguments) {
  return json_of(
      sandbox,
      "tracecast plan llama2-7b-abci --set training.global_batch_size=256 --no-upgrades --best 1 --json " + arguments);
}

double typical(const Json& range) { return range["typical"].get<double>(); }

const std::string kTwo = "--topology abci-a,dgx-h100 --gpus 32 --tp 1,2 --pp 1,2 --tokens 100B ";

}  // namespace

TEST_CASE("plan: the spreadsheet of docs/planning.md agrees line by line", "[e2e][search][oracle]") {
  const Sandbox sandbox;
  const Json plan =
      answer(sandbox, "--topology dgx-h100 --gpus 64 --term owned --objective cost --tokens 100B --spares 1");
  const Json& first = plan["offers"][0];
  const Json& parts = plan["prices"]["h100"]["parts"];
  // A to F: from the command's tokens per second and goodput, and from figures of the file of prices.
  const double a = 100e9 / (first["tokens_per_s"].get<double>() * first["goodput"].get<double>()) / 86400;
  const double b = a * 24 * 64;
  const double c = a * 24 * 8;
  const double d = 29850;
  const double e = (700 * 1.34 + 55) / 1000;
  const double f = e * 1.3;
  // G to O: US dollars per hour.
  const auto annuity = [](double rate, double years) { return rate / (1 - std::pow(1 + rate, -years)); };
  const double g = d / 5 / 8766;
  const double network = 400 * (3 * 0.97 + 2 * 2.25);
  const double h = network / 5 / 8766;
  const double i = 0.023 * g;
  const double j = e * 11300 / 14 / 8766;
  const double k = ((d * 1.023 + network) * (annuity(0.1, 5) - 0.2) + e * 11300 * (annuity(0.1, 14) - 1.0 / 14)) / 8766;
  const double l = e * 400 / 8766;
  const double m = (g + h + i + j + k + l) * (1 / 0.85 - 1);
  const double n = f * 0.0872;
  const double o = g + h + i + j + k + l + m + n;
  CHECK(first["days"].get<double>() == Approx(a));
  CHECK(typical(parts["GPUs"]) == Approx(g));
  CHECK(typical(parts["network"]) == Approx(h));
  CHECK(typical(parts["storage"]) == Approx(i));
  CHECK(typical(parts["building"]) == Approx(j));
  CHECK(typical(parts["capital"]) == Approx(k));
  CHECK(typical(parts["people"]) == Approx(l));
  CHECK(typical(parts["idle time"]) == Approx(m));
  CHECK(typical(parts["electricity"]) == Approx(n));
  CHECK(typical(plan["prices"]["h100"]["usd_per_gpu_hour"]) == Approx(o));
  CHECK(first["spare_gpus"] == 8);
  CHECK(first["money_usd"]["GPUs"].get<double>() == Approx(b * g));
  CHECK(first["money_usd"]["spare nodes"].get<double>() == Approx(c * o));
  CHECK(typical(first["cost_usd"]) == Approx((b + c) * o));
  double sum = 0;
  for (const auto& [line, usd] : first["money_usd"].items()) sum += usd.get<double>();
  CHECK(sum == Approx(typical(first["cost_usd"])));
  CHECK(typical(first["energy_mwh"]) == Approx(b * f / 1000));
  // The page has the same figures, rounded.
  const std::string page = content_of(source_dir() / "docs/planning.md");
  const auto shown = [&](const std::string& before, double value, double digits) {
    const std::size_t at = page.find(before);
    REQUIRE(at != std::string::npos);
    CHECK(std::stod(page.substr(at + before.size())) == Approx(value).margin(0.51 * std::pow(10, -digits)));
  };
  shown("29,850 | USD |\n| E computers and network | 700 W × 1.34 + 55 W = ", e, 3);
  shown("E × 1.3 = ", f, 3);
  shown("D / 5 / 8,766 = ", g, 3);
  shown("2 cables × 2.25) / 5 / 8,766 = ", h, 4);
  shown("0.023 G = ", i, 4);
  shown("E × 11,300 / 14 / 8,766 = ", j, 4);
  shown("less repayment = ", k, 3);
  shown("E × 400 / 8,766 = ", l, 4);
  shown("(1 / 0.85 − 1) = ", m, 3);
  shown("F × 0.0872 = ", n, 3);
  shown("G + … + N = ", o, 2);
}

TEST_CASE("plan: each candidate has the measured run closest to it", "[e2e][search]") {
  const Sandbox sandbox;
  const Json plan = answer(sandbox, kTwo + "--failures none");
  REQUIRE(plan["offers"].size() == 2);
  std::set<std::string> ids;
  for (const Json& offer : plan["offers"]) ids.insert(offer["closest_run"]["id"].get<std::string>());
  CHECK(ids.size() == 2);
  const std::string page = sandbox
                               .run(
                                   "tracecast plan llama2-7b-abci --set training.global_batch_size=256 --no-upgrades "
                                   "--best 1 --failures none " +
                                   kTwo)
                               .out;
  for (const std::string& id : ids) CHECK(page.find(id) != std::string::npos);
  CHECK(page.find("Measured run closest to 2:") != std::string::npos);
}

TEST_CASE("plan: GPUs whose power is not known have no energy, and the page says so", "[e2e][search]") {
  const Sandbox sandbox;
  std::ofstream(sandbox.path() / "prices.json") << R"({"gpus": {"h100": {"price": [2, 3, 4]}}})";
  const std::string arguments =
      "--topology dgx-h100 --gpus 32 --tp 1 --pp 1 --tokens 100B --failures none --economics ";
  const Json plan = answer(sandbox, arguments + "prices.json");
  CHECK(plan["without_power"] == Json{"h100"});
  CHECK_FALSE(plan["offers"][0].contains("energy_mwh"));
  const Outcome page =
      sandbox.run("tracecast plan llama2-7b-abci --set training.global_batch_size=256 --no-upgrades --best 1 " +
                  arguments + "prices.json");
  CHECK(page.out.find("Money and energy: prices; no power (tdp) for h100, so no energy.") != std::string::npos);
}

TEST_CASE("plan: an owned machine with fewer cables costs less, a rented one the same", "[e2e][search]") {
  const Sandbox sandbox;
  const auto usd_per_hour = [&](int oversubscription, const std::string& term) {
    const std::string arguments =
        "--topology dgx-h100 --gpus 64 --tokens 100B --failures none --spares 0 --objective cost ";
    const Json plan = answer(sandbox, arguments + "--set topology.fabric.tiers.leaf.oversubscription=" +
                                          std::to_string(oversubscription) + " --term " + term);
    const Json& first = plan["offers"][0];
    return typical(first["cost_usd"]) / first["days"].get<double>() / 24 / 64;
  };
  // 300 of 400 Gb/s of uplinks are spared per GPU: two ports and a cable each. Interest and idle hours on top.
  const double spared = 300 * (2 * 0.97 + 2.25);
  const double annuity = 0.1 / (1 - std::pow(1.1, -5));
  CHECK(usd_per_hour(1, "owned") - usd_per_hour(4, "owned") == Approx(spared * annuity / 8766 / 0.85));
  CHECK(usd_per_hour(1, "on-demand") == Approx(usd_per_hour(4, "on-demand")));
}

TEST_CASE("plan: prices of single machines, terms and regions", "[e2e][search]") {
  const Sandbox sandbox;
  const Json both = answer(sandbox, kTwo + "--price h100=2,a100-40gb=1 --failures none");
  CHECK(typical(both["prices"]["h100"]["usd_per_gpu_hour"]) == 2);
  CHECK(typical(both["prices"]["a100-40gb"]["usd_per_gpu_hour"]) == 1);
  const Json one = answer(sandbox, kTwo + "--price h100=2 --failures none");
  CHECK(typical(one["prices"]["h100"]["usd_per_gpu_hour"]) == 2);
  CHECK(typical(one["prices"]["a100-40gb"]["usd_per_gpu_hour"]) == Approx(1.3));
  const Json reserved = answer(sandbox, kTwo + "--term reserved-1y --failures none");
  CHECK(typical(reserved["prices"]["h100"]["usd_per_gpu_hour"]) == 2.35);
  CHECK(typical(reserved["prices"]["a100-40gb"]["usd_per_gpu_hour"]) == Approx(1.3 * 0.63));
  CHECK(reserved["prices"]["a100-40gb"]["note"] == "rent on demand less a discount");
  const Json france = answer(sandbox, kTwo + "--region france --failures none");
  CHECK(typical(france["offers"][0]["co2_tonnes"]) == Approx(typical(france["offers"][0]["energy_mwh"]) * 56 / 1000));
  const auto complaint = [&](const std::string& arguments) {
    return sandbox.run("tracecast plan llama2-7b-abci --set training.global_batch_size=256 " + arguments).err;
  };
  CHECK(complaint("--price cheap")
            .starts_with("--price = cheap: is not a price (allowed: 2.1 for all GPUs, or h100=2.1,gb200=5.5)"));
  CHECK(complaint("--price h100=2").starts_with("--price = h100: is not a GPU of the machines (allowed: a100-40gb)"));
  CHECK(complaint("--price a100-40gb=1,a100-40gb=2") == "--price = a100-40gb=1,a100-40gb=2: prices a100-40gb twice\n");
  CHECK(complaint("--price a100-40gb=1,2").starts_with("--price = a100-40gb=1,2: prices a100-40gb twice"));
  CHECK(complaint("--region mars").starts_with("--region = mars: is not in prices-2026 (allowed: brazil "));
}

TEST_CASE("plan: spares follow the objective and the option, and are paid for", "[e2e][search]") {
  const Sandbox sandbox;
  const std::string job = "--topology dgx-h100 --gpus 64 --tp 1 --pp 1 --tokens 100B ";
  const auto spares = [&](const std::string& more) {
    const Json plan = answer(sandbox, job + more);
    return plan["offers"][0].value("spare_gpus", 0);
  };
  CHECK(spares("--spares 3") == 24);
  const int enough = spares("--objective time");
  const int cheap = spares("--objective cost");
  CHECK(cheap < enough);
  CHECK(enough >= 8);
  // Without failures as well, and without tokens.
  CHECK(spares("--failures none") == 0);
  CHECK(spares("--failures none --spares 3") == 24);
  const auto usd = [&](const std::string& more) {
    const Json plan =
        json_of(sandbox,
                "tracecast plan llama3-405b-1024 --tp 8 --pp 16 --micro-batch 1 --best 1 --no-upgrades --json " + more);
    CHECK(plan["tokens"] == 0);
    return typical(plan["offers"][0]["usd_per_million_tokens"]);
  };
  CHECK(usd("--spares 64") == Approx(1.5 * usd("")));
}

TEST_CASE("plan: hosts of a rack that is paid for are spares", "[e2e][search]") {
  const Sandbox sandbox;
  for (const std::string objective : {"time", "cost"}) {
    // 64 of 72 GPUs: two trays of 4 are left.
    const Json plan =
        json_of(sandbox,
                "tracecast plan nemotron-3-nano-gb200 --gpus 64 --term owned --tokens 1T --best 1 --no-upgrades --tp 1 "
                "--pp 1 --ep 8 --micro-batch 2 --json --objective " +
                    objective);
    CAPTURE(objective);
    CHECK(plan["offers"][0]["spare_gpus"] == 8);
    CHECK_FALSE(plan["offers"][0]["money_usd"].contains("unused GPUs"));
  }
}

TEST_CASE("plan and goodput: networks are compared without files", "[e2e][search]") {
  const Sandbox sandbox;
  const Json plan = answer(sandbox,
                           "--topology dgx-h100 --gpus 64 --tp 8 --pp 1 --failures none --sweep topology.node.nics=1,8 "
                           "--sweep \"topology.node.nic_rate=10 GB/s,50 GB/s\"");
  REQUIRE(plan["offers"].size() == 4);
  CHECK(plan["offers"][0]["variant"] == "node.nics=8, node.nic_rate=50 GB/s");
  CHECK(plan["offers"][3]["variant"] == "node.nics=1, node.nic_rate=10 GB/s");
  // What is printed can be run, the network included.
  std::string command = "tracecast predict llama2-7b-abci --set training.global_batch_size=256 --json";
  for (const Json& setting : plan["offers"][3]["settings"]) command += " --set '" + setting.get<std::string>() + "'";
  const Json again = Json::parse(sandbox.run(command).out);
  CHECK(again["step_time_s"].get<double>() == Approx(plan["offers"][3]["step_time_s"].get<double>()));
  const auto step = [&](const std::string& set) {
    const Outcome outcome = sandbox.run(
        "tracecast goodput llama2-7b-abci --set training.global_batch_size=256 --histories 64 --no-best --json " + set);
    REQUIRE(outcome.code == 0);
    return Json::parse(outcome.out)["tokens_per_s"].get<double>();
  };
  CHECK(step("--set \"topology.node.nic_rate=1 GB/s\"") < 0.9 * step(""));
  CHECK(sandbox.run("tracecast plan llama2-7b-abci --set training.global_batch_size=256 --sweep topology.node.nics")
            .err.starts_with("--sweep"));
}

TEST_CASE("plan: the summary for decision makers has every part", "[e2e][search]") {
  const Sandbox sandbox;
  const Outcome outcome =
      sandbox.run("tracecast plan llama2-7b-abci --set training.global_batch_size=256 --no-upgrades --best 1 " + kTwo +
                  "--objective cost --days 10 --page decision.html");
  REQUIRE(outcome.code == 0);
  const std::string page = content_of(sandbox.path() / "decision.html");
  for (const char* part :
       {"question", "answer", "trade-off", "candidates", "money", "limits", "changes", "assumptions"})
    CHECK(page.find(std::string("id=\"section-") + part + '"') != std::string::npos);
  CHECK(page.find("for the least money, on 32 GPUs of abci-a or dgx-h100, within 10 days?") != std::string::npos);
  CHECK(page.find("Take 32 GPUs of dgx-h100 (tp 1, pp 1, dp 32") != std::string::npos);
  // The answer has the money of the table.
  const std::size_t end = page.find(" USD at typical prices");
  REQUIRE(end != std::string::npos);
  const std::size_t begin = page.rfind(' ', end - 1) + 1;
  CHECK(page.find("<td>" + page.substr(begin, end - begin) + "</td>") != std::string::npos);
  CHECK(page.find("mercatus-ai.com") != std::string::npos);
  CHECK(page.find("<script") == std::string::npos);
  CHECK(page.find("<!--") == std::string::npos);           // every mark was replaced
  CHECK(page.find("section-sizes") == std::string::npos);  // one size only
}

TEST_CASE("plan: only candidates that meet the target equal the first", "[e2e][search]") {
  const Sandbox sandbox;
  const Outcome outcome = sandbox.run(
      "tracecast plan llama2-7b-abci --topology abci-a,dgx-h100 --gpus 32,64 --tp 1,2 --pp 1,2 --objective cost "
      "--tokens 100B --days 4 --no-upgrades --page decision.html --json");
  REQUIRE(outcome.code == 0);
  const Json offers = Json::parse(outcome.out)["offers"];
  int meeting = 0;
  int missing = 0;
  for (const Json& offer : offers) ++(offer["meets_constraints"].get<bool>() ? meeting : missing);
  REQUIRE(missing > 0);
  const std::string page = content_of(sandbox.path() / "decision.html");
  CHECK(page.find("of the " + std::to_string(meeting - 1) + " others that meet the target equal it") !=
        std::string::npos);
}

TEST_CASE("plan: a number with a comma is not two numbers", "[e2e][search]") {
  const Sandbox sandbox;
  const Outcome outcome = sandbox.run("tracecast plan llama2-7b-abci --gpus 1,024");
  CHECK(outcome.code == 2);
  CHECK(outcome.err == "--gpus = 1,024: '024' starts with a zero: write 1,024 as 1024\n");
}

TEST_CASE("plan: a number of GPUs that the batch does not allow is the reason that is named", "[e2e][search]") {
  const Sandbox sandbox;
  const Outcome outcome = sandbox.run(
      "tracecast plan p5-llama3-70b-64 --set training.global_batch_size=2048 --gpus 1000 --topology dgx-h200");
  CHECK(outcome.code == 1);
  CHECK(outcome.out.find("No layout is possible on 1,000 GPUs of dgx-h200: 1000 GPUs have a factor") !=
        std::string::npos);
  CHECK(outcome.out.find("(--global-batch 2000") != std::string::npos);
  // Here the batch is not the reason.
  const Outcome degrees =
      sandbox.run("tracecast plan llama2-7b-abci --gpus 12 --tp 8 --no-upgrades --failures none --topology dgx-h100");
  CHECK(degrees.code == 1);
  CHECK(degrees.out.find("12 GPUs of dgx-h100: parallel: tp 8 x ") != std::string::npos);
  CHECK(degrees.out.find("factor") == std::string::npos);
}

TEST_CASE("plan: whole racks are paid, and no line is wider than the page", "[e2e][search]") {
  const Sandbox sandbox;
  const std::string arguments =
      "--topology gb200-nvl72,dgx-h100 --gpus 576 --set training.global_batch_size=2304 --tp 8 --pp 1 --tokens 100B "
      "--objective cost --failures none";
  const Json plan = answer(sandbox, arguments + " --term owned");
  CHECK(plan["prices"]["h100"]["topology"] == "dgx-h100");
  CHECK(plan["prices"]["h100"]["gpus"] == 576);
  for (const Json& offer : plan["offers"])
    CHECK(offer.value("unused_gpus", 0) == (offer.value("gpus_per_rack", 72) == 64 ? 72 : 0));
  const Outcome page = sandbox.run("tracecast plan llama2-7b-abci --no-upgrades --best 1 " + arguments);
  std::istringstream lines(page.out);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
}

TEST_CASE("predict --sweep: a name with a dot stays whole", "[e2e]") {
  const Sandbox sandbox;
  const Outcome outcome = sandbox.run("tracecast predict zero-1-7.5b --sweep training.micro_batch_size=1,2");
  CHECK(outcome.out.find("zero-1-7.5b") != std::string::npos);
}

TEST_CASE("plan: days that failures do not tell are not known", "[e2e][search]") {
  const Sandbox sandbox;
  sandbox.run("sed 's/\"mode\": \"sync\"/\"mode\": \"off\"/' '" +
              (source_dir() / "scenarios/failures/llama3-54-days.json").string() + "' > off.json");
  const std::string plan =
      "tracecast plan p5-llama2-13b-16 --tokens 100B --tp 1,2 --pp 1 --best 1 --no-upgrades --failures off.json ";
  const Outcome page = sandbox.run(plan);
  REQUIRE(page.code == 0);
  CHECK(page.out.find("not known: without checkpoints the goodput depends on") != std::string::npos);
  CHECK(page.out.find("no price") == std::string::npos);
  const Outcome limited = sandbox.run(plan + "--days 30 --json");
  CHECK(limited.code == 1);
  const Json offer = Json::parse(limited.out)["offers"][0];
  CHECK(offer["days_unknown"] == "without checkpoints the goodput depends on the length of a history");
  CHECK_FALSE(offer.contains("days"));
  CHECK_FALSE(offer.contains("cost_usd"));
}
