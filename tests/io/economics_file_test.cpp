#include "sim/io/economics_file.hpp"

#include <fstream>

#include <catch2/catch.hpp>

#include "tests/io/temporary_folder.hpp"
#include "tests/support/paths.hpp"

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
  const auto economics = read_economics(source_dir() / "scenarios/economics/rental-2026.json").value();
  CHECK(economics.name == "rental-2026");
  CHECK(economics.price_per_gpu_hour("h100") == Range3{1.99, 3.0, 5.0});
  CHECK_FALSE(economics.price_per_gpu_hour("mi300x").has_value());
  // A DGX H100 of 10.2 kW, network and building on top.
  CHECK(economics.kilowatts_per_gpu("h100")->high == Approx((700 * 1.82 + 80) * 1.58 / 1000));
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
  CHECK(complaint(R"({"gpus": {}, "powr": 1})").find("unknown key") != std::string::npos);
  CHECK(complaint(R"({"gpus": []})").ends_with("gpus = [0 items]: is not an object (GPU: price and tdp)\n"));
}
