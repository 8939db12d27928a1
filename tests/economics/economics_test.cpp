#include "sim/economics/economics.hpp"

#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/search/outcomes.hpp"

using namespace tracecast;
using namespace tracecast::test;

TEST_CASE("economics: the power of a GPU includes its share of node, network and building", "[economics][oracle]") {
  const Economics economics = prices();
  const Range3 power = economics.kilowatts_per_gpu("fast", 1).value();
  CHECK(power.low == Approx(1.0));  // 1000 W x 1
  CHECK(power.typical == Approx((1500 + 50) * 1.2 / 1000));
  CHECK(power.high == Approx((2000 + 100) * 1.5 / 1000));
  // Of 1500 W the GPU may draw 600 instead of 1000.
  CHECK(economics.kilowatts_per_gpu("fast", 0.6)->typical == Approx((1100 + 50) * 1.2 / 1000));
  CHECK_FALSE(economics.kilowatts_per_gpu("other", 1).has_value());
  CHECK_FALSE(economics.price_per_gpu_hour("other", {}).has_value());
}

TEST_CASE("an owned GPU costs depreciation and power per hour", "[economics]") {
  Economics economics;
  economics.term = Term::owned;
  economics.gpus["h100"].purchase = Range3{8766, 17532, 26298};
  economics.gpus["h100"].tdp_watts = 1000;
  CHECK_FALSE(economics.price_per_gpu_hour("h100", {}).has_value());  // years are not known
  economics.ownership = Ownership{.years = {1, 2, 4}, .usd_per_kwh = {0.25, 0.5, 1}};
  // 1 dollar an hour over one year each 8,766 dollars; the cheapest is used longest. 1 kW at 25, 50 and 100 cents.
  const Range3 price = economics.price_per_gpu_hour("h100", {}).value();
  CHECK(price.low == Approx(1.0 / 4 + 0.25));
  CHECK(price.typical == Approx(2.0 / 2 + 0.5));
  CHECK(price.high == Approx(3.0 / 1 + 1));
  economics.gpus["h100"].price = Range3{7, 8, 9};  // a price of the command line counts first
  CHECK(economics.price_per_gpu_hour("h100", {}) == Range3{7, 8, 9});
}

TEST_CASE("an owned GPU costs network, storage, building, capital, people and idle time as well",
          "[economics][oracle]") {
  Economics economics;
  economics.term = Term::owned;
  economics.pue = {1.25, 1.25, 1.25};
  economics.gpus["h100"].quotes = {{87660, Term::owned, "", "2026", "one"},
                                   {87660, Term::owned, "", "2026", "another"}};
  economics.gpus["h100"].tdp_watts = 2000;
  const auto just = [](double value) { return Range3{value, value, value}; };
  economics.ownership = Ownership{.years = just(2),
                                  .usd_per_kwh = just(0.1),
                                  .usd_per_port_gbps = just(4383),
                                  .usd_per_cable_gbps = just(8766),
                                  .storage_share = just(0.1),
                                  .building_usd_per_kw = just(8766),
                                  .building_years = just(10),
                                  .capital_rate = just(0.1),
                                  .operations_usd_per_kw_year = just(876.6),
                                  .utilisation = just(0.8)};
  const PriceBasis basis = economics.price_basis("h100", {.ports = 2, .cables = 1}).value();
  // Per hour of 8,766 in a year: 87,660 over two years are 5, a tenth of it 0.5; two ports and a cable 17,532, over two years 1; 2 kW of building over ten years
  // 0.2; two years of people 0.2. A loan of 1 at 10 % is paid back by 0.57619 a year over two years (1.1^2 x 0.1 / 0.21) and
  // 0.162745 over ten: interest of 130 % of 10 x 0.07619, and of 2 x 0.062745. A quarter more for idle hours. 2.5 kW from the
  // grid.
  const std::vector<std::pair<std::string, double>> expected{
      {"GPUs", 5},    {"network", 1}, {"storage", 0.5}, {"building", 0.2}, {"capital", 13 * 0.0761905 + 2 * 0.0627454},
      {"people", 0.2}};
  double fixed = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(basis.parts[i].name == expected[i].first);
    CHECK(basis.parts[i].usd.typical == Approx(expected[i].second).epsilon(1e-5));
    fixed += expected[i].second;
  }
  CHECK(basis.parts[6].name == "idle time");
  CHECK(basis.parts[6].usd.typical == Approx(fixed / 4).epsilon(1e-5));
  CHECK(basis.parts[7].name == "electricity");
  CHECK(basis.parts[7].usd.typical == Approx(0.25));
  CHECK(basis.price().typical == Approx(1.25 * fixed + 0.25).epsilon(1e-5));
  economics.grids["there"] = {.gco2_per_kwh = 50, .usd_per_kwh = just(0.2), .source = ""};
  economics.region = "there";
  CHECK(economics.price_basis("h100", {.ports = 2, .cables = 1})->parts[7].usd.typical == Approx(0.5));
}

TEST_CASE("a price is the median of the quotes of a term, with their spread", "[economics][oracle]") {
  Economics economics;
  economics.gpus["many"].quotes = {{3, Term::on_demand, "", "2026", "a"},
                                   {1, Term::on_demand, "", "2026", "b"},
                                   {8, Term::on_demand, "", "2026", "c"},
                                   {4, Term::on_demand, "there", "2026", "d"},
                                   {2, Term::reserved_1y, "", "2026", "a"}};
  economics.gpus["single"].quotes = {{10, Term::on_demand, "", "2026", "a"}};
  CHECK(economics.price_per_gpu_hour("many", {}) == Range3{1, 3.5, 8});
  CHECK(economics.price_basis("many", {})->quotes.front().usd == 1);
  economics.region = "elsewhere";  // quotes without a region count everywhere
  CHECK(economics.price_per_gpu_hour("many", {}) == Range3{1, 3, 8});
  // A single source gets the spread of the others: a third to 8/3 of the middle.
  const Range3 single = economics.price_per_gpu_hour("single", {}).value();
  CHECK(single.low == Approx(10.0 / 3));
  CHECK(single.typical == 10);
  CHECK(single.high == Approx(80.0 / 3));
  CHECK(economics.price_basis("single", {})->note == "one source; spread as the quotes of other GPUs");
  // So do two of one publisher, whatever each is about; two publishers have their own range.
  economics.gpus["single"].quotes = {{9, Term::on_demand, "", "2026", "a.com/x: small"},
                                     {11, Term::on_demand, "", "2026", "a.com/x: large"}};
  CHECK(economics.price_per_gpu_hour("single", {})->low == Approx(10.0 / 3));
  economics.gpus["single"].quotes.back().source = "b.com: large";
  CHECK(economics.price_per_gpu_hour("single", {}) == Range3{9, 10, 11});
  economics.gpus["single"].quotes = {{10, Term::on_demand, "", "2026", "a"}};
  // Terms: of its own quotes, else the discount, else none.
  economics.term = Term::reserved_1y;
  CHECK(economics.price_per_gpu_hour("many", {})->typical == 2);
  CHECK(economics.price_per_gpu_hour("many", {})->low == Approx(2.0 / 3));  // no GPU has three quotes: as on demand
  CHECK_FALSE(economics.price_per_gpu_hour("single", {}).has_value());
  economics.discounts[Term::reserved_1y] = {0.5, 0.6, 0.7};
  CHECK(economics.price_per_gpu_hour("single", {})->typical == Approx(6));
  CHECK(economics.price_basis("single", {})->note == "rent on demand less a discount");
  CHECK_FALSE(economics.price_per_gpu_hour("unknown", {}).has_value());
}

TEST_CASE("economics: a job pays for whole machines", "[economics][oracle]") {
  NodeSpec rack{.gpus = 64, .installed_gpus = 72, .gpus_per_host = 4};
  // 576 GPUs in nine racks of 72, of which it uses 64: 72 others, the first 12 of them as spares.
  CHECK(paid_gpus(Term::owned, rack, 576, 12) == PaidGpus{576, 12, 60});
  CHECK(paid_gpus(Term::owned, rack, 576, 76) == PaidGpus{576, 76, 68});  // a tenth rack
  CHECK(paid_gpus(Term::on_demand, rack, 576, 12) == PaidGpus{576, 12, 0});
  const NodeSpec whole{.gpus = 72, .gpus_per_host = 4};
  CHECK(paid_gpus(Term::owned, whole, 576, 8) == PaidGpus{576, 8, 64});
  CHECK(paid_gpus(Term::owned, whole, 576, 0) == PaidGpus{576, 0, 0});
  const NodeSpec node{};  // of eight GPUs
  CHECK(paid_gpus(Term::on_demand, node, 20, 8) == PaidGpus{20, 8, 4});
  CHECK(paid_gpus(Term::on_demand, node, 4, 0) == PaidGpus{4, 0, 0});  // a part of one host
  CHECK(paid_gpus(Term::owned, node, 4, 0) == PaidGpus{4, 0, 4});
}
