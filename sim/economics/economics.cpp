#include "sim/economics/economics.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "sim/base/integers.hpp"
#include "sim/base/quantile.hpp"
#include "sim/base/units.hpp"

namespace tracecast {
namespace {

constexpr double kHoursPerYear = kSecondsPerYear / kSecondsPerHour;

/// Of a figure that makes the price higher as it grows.
double at(const Range3& range, double level) { return quantile_of(range, level); }
/// Of a figure that makes it lower.
double against(const Range3& range, double level) { return quantile_of(range, 1 - level); }

/// Yearly payment for a loan of 1 that is paid back in equal parts over these years (annuity).
double annuity(double rate, double years) { return rate > 0 ? rate / (1 - std::pow(1 + rate, -years)) : 1 / years; }

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

/// Who published a quote: "gpu.blog/gpus: 42.00 an hour" without what is said about it.
std::string_view publisher(const PriceQuote& quote) {
  return std::string_view(quote.source).substr(0, quote.source.find(": "));
}

/// Lowest and highest / median of the quotes of a term: medians over the GPUs with at least three. Where no GPU has as many
/// of a reserved term, those on demand.
Range3 usual_spread(const std::map<std::string, GpuEconomics>& gpus, Term term, const std::string& region) {
  std::vector<double> low, high;
  for (const auto& [name, gpu] : gpus) {
    const std::vector<PriceQuote> quotes = quotes_of(gpu, term, region);
    if (quotes.size() < 3) continue;
    const Range3 range = range_of(quotes);
    low.push_back(range.low / range.typical);
    high.push_back(range.high / range.typical);
  }
  const bool rented_longer = term == Term::reserved_1y || term == Term::reserved_3y;
  if (low.empty() && rented_longer) return usual_spread(gpus, Term::on_demand, region);
  if (low.empty()) return {1, 1, 1};
  return {median(low), 1, median(high)};
}

/// The range of the quotes, and a note if they are of one source.
std::optional<std::pair<Range3, std::string>> quoted(const std::map<std::string, GpuEconomics>& gpus,
                                                     const std::vector<PriceQuote>& quotes, Term term,
                                                     const std::string& region) {
  if (quotes.empty()) return std::nullopt;
  const bool one_source =
      std::ranges::all_of(quotes, [&](const PriceQuote& each) { return publisher(each) == publisher(quotes.front()); });
  if (!one_source || quotes.size() > 2) return std::pair(range_of(quotes), std::string{});
  const Range3 range = range_of(quotes);
  const Range3 usual = usual_spread(gpus, term, region) * range.typical;
  return std::pair(Range3{std::min(range.low, usual.low), range.typical, std::max(range.high, usual.high)},
                   std::string("one source; spread as the quotes of other GPUs"));
}

}  // namespace

double quantile_of(const Range3& range, double probability) {
  if (probability == 0.5) return range.typical;
  if (probability < 0.5) return range.low + (range.typical - range.low) * std::sqrt(2 * probability);
  return range.high - (range.high - range.typical) * std::sqrt(2 * (1 - probability));
}

Range3 PriceBasis::price() const {
  Range3 sum;
  for (const PricePart& part : parts)
    sum = {sum.low + part.usd.low, sum.typical + part.usd.typical, sum.high + part.usd.high};
  return sum;
}

std::vector<std::pair<const char*, double>> PriceSpread::lines_at(double own, double shared) const {
  if (!owned_) return {};
  const Ownership& terms = owned_->ownership;
  const double purchase = at(quotes_, own);
  const double it_kw = at(owned_->it_kw, shared);
  const double years = against(terms.years, shared);
  const double building_years = against(terms.building_years, shared);
  const double rate = at(terms.capital_rate, shared);
  const double network = owned_->network.ports * at(terms.usd_per_port_gbps, shared) +
                         owned_->network.cables * at(terms.usd_per_cable_gbps, shared);
  const double storage = purchase * at(terms.storage_share, shared);
  const double building = it_kw * at(terms.building_usd_per_kw, shared);
  const double interest = (purchase + network + storage) * (annuity(rate, years) - 1 / years) +
                          building * (annuity(rate, building_years) - 1 / building_years);
  std::vector<std::pair<const char*, double>> lines{
      {"GPUs", purchase / years / kHoursPerYear},
      {"network", network / years / kHoursPerYear},
      {"storage", storage / years / kHoursPerYear},
      {"building", building / building_years / kHoursPerYear},
      {"capital", interest / kHoursPerYear},
      {"people", it_kw * at(terms.operations_usd_per_kw_year, shared) / kHoursPerYear},
  };
  double fixed = 0;
  for (const auto& [name, usd] : lines) fixed += usd;
  lines.emplace_back("idle time", fixed * (1 / against(terms.utilisation, shared) - 1));
  lines.emplace_back("electricity", at(owned_->grid_kw, shared) * at(owned_->usd_per_kwh, shared));
  return lines;
}

double PriceSpread::usd_at(double own, double shared) const {
  if (!owned_) return quantile_of(quotes_, own);
  double sum = 0;
  for (const auto& [name, usd] : lines_at(own, shared)) sum += usd;
  return sum;
}

PaidGpus paid_gpus(Term term, const NodeSpec& node, int used, int spare_gpus) {
  if (term != Term::owned && used <= node.gpus_per_host) return {used, spare_gpus, 0};
  const int host = std::min(node.gpus_per_host, node.gpus);
  const int installed = std::max(node.gpus, node.installed_gpus);
  const int hosts =
      used / node.gpus * (node.gpus / host) + ceil_div(used % node.gpus, host) + ceil_div(spare_gpus, host);
  const int domains = std::max(ceil_div(used, node.gpus), ceil_div(hosts * host, installed));
  const int paid = term == Term::owned ? domains * installed : hosts * host;
  return {used, spare_gpus, paid - used - spare_gpus};
}

std::optional<Economics::Quoted> Economics::quoted_of(const GpuEconomics& known) const {
  if (term == Term::owned && known.purchase)
    return Quoted{*known.purchase, quotes_of(known, term, region), std::string{}};
  std::vector<PriceQuote> quotes = quotes_of(known, term, region);
  if (const auto range = quoted(gpus, quotes, term, region))
    return Quoted{range->first, std::move(quotes), range->second};
  if (term == Term::owned || !discounts.contains(term)) return std::nullopt;
  quotes = quotes_of(known, Term::on_demand, region);
  const auto on_demand = quoted(gpus, quotes, Term::on_demand, region);
  if (!on_demand) return std::nullopt;
  return Quoted{on_demand->first * discounts.at(term), std::move(quotes), "rent on demand less a discount"};
}

std::optional<PriceSpread> Economics::price_spread(const std::string& gpu, const NetworkHardware& network,
                                                   double power_limit) const {
  const auto found = gpus.find(gpu);
  if (found == gpus.end()) return std::nullopt;
  if (found->second.price) return PriceSpread(*found->second.price);
  const std::optional<Quoted> known = quoted_of(found->second);
  if (!known) return std::nullopt;
  if (term != Term::owned) return PriceSpread(known->range);
  const std::optional<Range3> power = kilowatts_per_gpu(gpu, power_limit);
  if (!ownership || !power) return std::nullopt;
  const auto grid = grids.find(region);
  const bool of_region = grid != grids.end() && grid->second.usd_per_kwh;
  const Range3 computers{power->low / pue.low, power->typical / pue.typical, power->high / pue.high};
  return PriceSpread(known->range, {*ownership, network, *power, computers,
                                    of_region ? *grid->second.usd_per_kwh : ownership->usd_per_kwh});
}

std::optional<PriceBasis> Economics::price_basis(const std::string& gpu, const NetworkHardware& network,
                                                 double power_limit) const {
  const std::optional<PriceSpread> spread = price_spread(gpu, network, power_limit);
  if (!spread) return std::nullopt;
  const GpuEconomics& known = gpus.at(gpu);
  if (known.price) return PriceBasis{{{"rent", *known.price}}, {}, ""};
  const Quoted quoted = *quoted_of(known);
  PriceBasis basis{{}, quoted.quotes, quoted.note};
  const auto low = spread->lines_at(0, 0);
  const auto typical = spread->lines_at(0.5, 0.5);
  const auto high = spread->lines_at(1, 1);
  for (std::size_t i = 0; i < low.size(); ++i)
    basis.parts.push_back({low[i].first, {low[i].second, typical[i].second, high[i].second}});
  if (basis.parts.empty()) basis.parts = {{"rent", quoted.range}};
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
