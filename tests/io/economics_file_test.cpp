#include "sim/io/economics_file.hpp"

#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace tracecast;

namespace {

std::string complaint(const std::string& text) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "prices.json";
  std::ofstream(file) << text;
  const auto read = read_economics(file);
  return read ? "" : to_string(read.error()) + "\n";
}

}  // namespace

TEST_CASE("economics file: the shipped one is read as it stands", "[io][search]") {
  const auto economics = read_economics(source_dir() / "scenarios/economics/prices-2026.json").value();
  CHECK(economics.name == "prices-2026");
  CHECK(economics.price_per_gpu_hour("h100", {}) == Range3{1.99, 2.99, 6.88});
  CHECK(economics.price_per_gpu_hour("mi300x", {}) == Range3{1.5, 1.99, 6});
  CHECK_FALSE(economics.price_per_gpu_hour("mi355x", {}).has_value());
  // A DGX H100 of 10.2 kW, network and building on top.
  CHECK(economics.kilowatts_per_gpu("h100", 1)->high == Approx((700 * 1.82 + 80) * 1.58 / 1000));
  for (const auto& profile : std::filesystem::directory_iterator(source_dir() / "kernels/profiles")) {
    const std::string gpu = profile.path().stem().string();
    INFO(gpu);
    CHECK((economics.kilowatts_per_gpu(gpu, 1).has_value() || gpu == "cpu"));
  }
}

TEST_CASE("economics file: every shipped price has a date and a source, and every figure of owning has one",
          "[io][search]") {
  auto economics = read_economics(source_dir() / "scenarios/economics/prices-2026.json").value();
  int quotes = 0;
  for (const auto& [gpu, known] : economics.gpus) {
    CHECK(known.tdp_watts > 0);
    CHECK_FALSE(known.price.has_value());
    for (const PriceQuote& each : known.quotes) {
      INFO(gpu << " " << each.usd);
      CHECK(each.source.find('.') != std::string::npos);  // an address
      CHECK((each.date == "undated" || each.date.starts_with("20")));
      CHECK((each.region.empty() || economics.grids.contains(each.region)));
      ++quotes;
    }
  }
  CHECK(quotes > 50);
  for (const char* key :
       {"years", "usd_per_kwh", "usd_per_port_gbps", "usd_per_cable_gbps", "storage_share", "building_usd_per_kw",
        "building_years", "capital_rate", "operations_usd_per_kw_year", "utilisation"})
    CHECK(economics.sources.contains(std::string("ownership.") + key));
  for (const auto& [name, grid] : economics.grids) CHECK_FALSE(grid.source.empty());
  // The GPUs of the five machines that the planner's page compares, in every term.
  for (const Term term : {Term::on_demand, Term::reserved_1y, Term::reserved_3y, Term::owned}) {
    economics.term = term;
    for (const char* gpu : {"a100", "h100", "h200", "b200", "gb200", "b300", "mi300x"}) {
      INFO(gpu << " " << to_string(term));
      const auto price = economics.price_per_gpu_hour(gpu, {});
      REQUIRE(price.has_value());
      CHECK(price->low < price->typical);
      CHECK(price->typical < price->high);
    }
  }
}

TEST_CASE("economics file: prices are of owned GPUs where no GPU has a rent", "[io][search]") {
  const TemporaryFolder folder;
  const auto term_of = [&](const std::string& term) {
    std::ofstream(folder.path() / "p.json")
        << R"({"gpus": {"h100": {"quotes": [{"usd": 1, "term": "owned", "date": "2026", "source": "x"},)"
        << R"({"usd": 2, "term": ")" << term << R"(", "date": "2026", "source": "y"}]}}})";
    return read_economics(folder.path() / "p.json").value().term;
  };
  CHECK(term_of("owned") == Term::owned);
  CHECK(term_of("reserved-1y") == Term::on_demand);
}

TEST_CASE("economics file: every error is one message", "[io][search][error]") {
  CHECK(complaint("{}").ends_with("prices.json:1: gpus: is missing\n"));
  CHECK(complaint(R"({"gpus": {"h100": {"price": [3, 2, 1]}}})")
            .ends_with("prices.json:1: gpus.h100.price = [3 items]: is not a band (allowed: [low, typical, high], "
                       "ascending, none negative)\n"));
  CHECK(complaint("{\"gpus\": {\n\"h100\": {\"tdp\": -1}}}")
            .ends_with("prices.json:2: gpus.h100.tdp = -1: is not a power in watts (allowed: 0 to 1e6)\n"));
  CHECK(complaint(R"({"gpus": {}, "pue": 1.1})")
            .ends_with("pue = 1.1: is not a band (allowed: [low, typical, high], ascending, none negative)\n"));
  CHECK(complaint(R"({"gpus": {"h100": {"quotes": [{"usd": 1, "term": "weekly", "date": "2026", "source": "x"}]}}})")
            .ends_with("gpus.h100.quotes[0].term = \"weekly\": is unknown (allowed: on-demand reserved-1y reserved-3y "
                       "owned)\n"));
  CHECK(complaint(R"({"gpus": {}, "ownership": {"years": [1, 2, 3], "utilisation": [0.5, 1, 1.5]}})")
            .ends_with("ownership.utilisation = [3 items]: must be a band above 0, at most 1\n"));
  CHECK(complaint(R"({"gpus": {}, "powr": 1})").find("unknown key") != std::string::npos);
  CHECK(complaint(R"({"gpus": []})").ends_with("gpus = [0 items]: is not an object (GPU: price and tdp)\n"));
}
