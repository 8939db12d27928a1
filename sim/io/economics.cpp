#include "sim/io/economics.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/quantile.hpp"

namespace tracecast {
namespace {

constexpr double kHoursPerYear = 8766;

enum class End { cheap, middle, dear };

/// Of a figure that makes the price higher as it grows.
double at(const Range3& range, End end) {
  return end == End::cheap ? range.low : end == End::middle ? range.typical : range.high;
}
/// Of a figure that makes it lower.
double against(const Range3& range, End end) {
  return end == End::cheap ? range.high : end == End::middle ? range.typical : range.low;
}

/// Yearly payment for a loan of 1 that is paid back in equal parts over these years (annuity).
double annuity(double rate, double years) { return rate > 0 ? rate / (1 - std::pow(1 + rate, -years)) : 1 / years; }

/// The lines of an owned GPU at one end of all ranges, in US dollars per hour of use.
std::vector<std::pair<const char*, double>> owned_lines(double purchase, const NetworkHardware& hardware, double it_kw,
                                                        double grid_kw, double usd_per_kwh, const Ownership& own,
                                                        End end) {
  const double years = against(own.years, end);
  const double building_years = against(own.building_years, end);
  const double rate = at(own.capital_rate, end);
  const double network =
      hardware.ports * at(own.usd_per_port_gbps, end) + hardware.cables * at(own.usd_per_cable_gbps, end);
  const double storage = purchase * at(own.storage_share, end);
  const double building = it_kw * at(own.building_usd_per_kw, end);
  const double interest = (purchase + network + storage) * (annuity(rate, years) - 1 / years) +
                          building * (annuity(rate, building_years) - 1 / building_years);
  std::vector<std::pair<const char*, double>> lines{
      {"GPUs", purchase / years / kHoursPerYear},
      {"network", network / years / kHoursPerYear},
      {"storage", storage / years / kHoursPerYear},
      {"building", building / building_years / kHoursPerYear},
      {"capital", interest / kHoursPerYear},
      {"people", it_kw * at(own.operations_usd_per_kw_year, end) / kHoursPerYear},
  };
  double fixed = 0;
  for (const auto& [name, usd] : lines) fixed += usd;
  lines.emplace_back("idle time", fixed * (1 / against(own.utilisation, end) - 1));
  lines.emplace_back("electricity", grid_kw * usd_per_kwh);
  return lines;
}

std::vector<double> amounts(const std::vector<PriceQuote>& quotes) {
  std::vector<double> usd;
  for (const PriceQuote& each : quotes) usd.push_back(each.usd);
  return usd;
}

/// Quotes of a term in a region, cheapest first.
std::vector<PriceQuote> quotes_of(const GpuEconomics& gpu, Term term, const std::string& region) {
  std::vector<PriceQuote> found;
  for (const PriceQuote& each : gpu.quotes)
    if (each.term == term && (each.region.empty() || region.empty() || each.region == region)) found.push_back(each);
  std::ranges::stable_sort(found, {}, &PriceQuote::usd);
  return found;
}

Range3 range_of(const std::vector<PriceQuote>& quotes) {
  return {quotes.front().usd, median(amounts(quotes)), quotes.back().usd};
}

/// Lowest and highest / median of the quotes of a term: medians over the GPUs with at least three.
Range3 usual_spread(const std::map<std::string, GpuEconomics>& gpus, Term term, const std::string& region) {
  std::vector<double> low, high;
  for (const auto& [name, gpu] : gpus) {
    const std::vector<PriceQuote> quotes = quotes_of(gpu, term, region);
    if (quotes.size() < 3) continue;
    const Range3 range = range_of(quotes);
    low.push_back(range.low / range.typical);
    high.push_back(range.high / range.typical);
  }
  if (low.empty()) return {1, 1, 1};
  return {median(low), 1, median(high)};
}

/// The range of the quotes, and a note if they are of one source.
std::optional<std::pair<Range3, std::string>> quoted(const std::map<std::string, GpuEconomics>& gpus,
                                                     const std::vector<PriceQuote>& quotes, Term term,
                                                     const std::string& region) {
  if (quotes.empty()) return std::nullopt;
  const bool one_source =
      std::ranges::all_of(quotes, [&](const PriceQuote& each) { return each.source == quotes.front().source; });
  if (!one_source || quotes.size() > 2) return std::pair(range_of(quotes), std::string{});
  const Range3 range = range_of(quotes);
  const Range3 usual = usual_spread(gpus, term, region) * range.typical;
  return std::pair(Range3{std::min(range.low, usual.low), range.typical, std::max(range.high, usual.high)},
                   std::string("one source; spread as the quotes of other GPUs"));
}

}  // namespace

Range3 PriceBasis::price() const {
  Range3 sum;
  for (const PricePart& part : parts)
    sum = {sum.low + part.usd.low, sum.typical + part.usd.typical, sum.high + part.usd.high};
  return sum;
}

std::optional<PriceBasis> Economics::price_basis(const std::string& gpu, const NetworkHardware& network,
                                                 double power_limit) const {
  const auto found = gpus.find(gpu);
  if (found == gpus.end()) return std::nullopt;
  const GpuEconomics& known = found->second;
  if (known.price) return PriceBasis{{{"rent", *known.price}}, {}, ""};
  PriceBasis basis;
  basis.quotes = quotes_of(known, term, region);
  auto range = quoted(gpus, basis.quotes, term, region);
  if (term == Term::owned) {
    const std::optional<Range3> power = kilowatts_per_gpu(gpu, power_limit);
    if (known.purchase) range = std::pair(*known.purchase, std::string{});
    if (!range || !ownership || !power) return std::nullopt;
    basis.note = range->second;
    const auto grid = grids.find(region);
    const Range3 usd_per_kwh =
        grid != grids.end() && grid->second.usd_per_kwh ? *grid->second.usd_per_kwh : ownership->usd_per_kwh;
    for (const End end : {End::cheap, End::middle, End::dear}) {
      const double it_kw = at(*power, end) / at(pue, end);
      const auto lines =
          owned_lines(at(range->first, end), network, it_kw, at(*power, end), at(usd_per_kwh, end), *ownership, end);
      basis.parts.resize(lines.size());
      for (std::size_t i = 0; i < lines.size(); ++i) {
        basis.parts[i].name = lines[i].first;
        double& value = end == End::cheap    ? basis.parts[i].usd.low
                        : end == End::middle ? basis.parts[i].usd.typical
                                             : basis.parts[i].usd.high;
        value = lines[i].second;
      }
    }
    return basis;
  }
  if (!range && discounts.contains(term)) {
    basis.quotes = quotes_of(known, Term::on_demand, region);
    range = quoted(gpus, basis.quotes, Term::on_demand, region);
    if (range) range = std::pair(range->first * discounts.at(term), std::string("rent on demand less a discount"));
  }
  if (!range) return std::nullopt;
  basis.parts = {{"rent", range->first}};
  basis.note = range->second;
  return basis;
}

std::optional<Range3> Economics::price_per_gpu_hour(const std::string& gpu, const NetworkHardware& network,
                                                    double power_limit) const {
  const std::optional<PriceBasis> basis = price_basis(gpu, network, power_limit);
  return basis ? std::optional(basis->price()) : std::nullopt;
}

std::optional<Range3> Economics::kilowatts_per_gpu(const std::string& gpu, double power_limit) const {
  const auto found = gpus.find(gpu);
  if (found == gpus.end() || found->second.tdp_watts <= 0) return std::nullopt;
  const double tdp = found->second.tdp_watts;
  const auto drawn = [&](double node, double network, double pue_factor) {
    return (tdp * (node - 1 + power_limit) + network) * pue_factor / 1000;
  };
  return Range3{drawn(node_power.low, network_watts.low, pue.low),
                drawn(node_power.typical, network_watts.typical, pue.typical),
                drawn(node_power.high, network_watts.high, pue.high)};
}

std::optional<double> Economics::gco2_per_kwh() const {
  const auto grid = grids.find(region.empty() ? "world" : region);
  if (grid == grids.end() || grid->second.gco2_per_kwh <= 0) return std::nullopt;
  return grid->second.gco2_per_kwh;
}

}  // namespace tracecast
