/// \file
/// Cost, energy and carbon of a GPU-hour, from the assumptions of a file in scenarios/economics/ (docs/formats/economics.md).
///
///   power of one GPU, from the grid = (thermal design power x node_power + network_watts) x PUE
///   rent                            = lowest, median and highest of the quotes of a term
///   price of an owned GPU           = depreciation of GPU, network, storage and building + interest on them
///                                     + running costs + idle time + electricity, per hour of use
///
/// A term without quotes of its own is the rent on demand times the discount of that term. One or two quotes from a single
/// source (its name is the text before ": ") get the spread that the quotes of other GPUs have.
///
/// A job pays for whole machines (paid_gpus): of an owned machine for whole nodes or racks, of a rented one for whole hosts.
///
/// Leaves out: data transfer, taxes, resale value, and electricity of owned GPUs while they are idle.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/enum_names.hpp"
#include "sim/network/network_hardware.hpp"

namespace tracecast {

/// A value with its range.
struct Range3 {
  double low = 0;
  double typical = 0;
  double high = 0;
  bool operator==(const Range3&) const = default;
};
inline Range3 operator*(const Range3& a, double factor) {
  return {a.low * factor, a.typical * factor, a.high * factor};
}
inline Range3 operator*(const Range3& a, const Range3& b) {
  return {a.low * b.low, a.typical * b.typical, a.high * b.high};
}
/// The value at this probability of a distribution whose median is typical, since candidates are ranked by that: on
/// either side the density falls linearly to zero at low and at high.
double quantile_of(const Range3& range, double probability);

/// Contract term of a price.
enum class Term { on_demand, reserved_1y, reserved_3y, owned };
template <>
struct EnumNames<Term> {
  static constexpr NamedValue<Term> table[] = {{Term::on_demand, "on-demand"},
                                               {Term::reserved_1y, "reserved-1y"},
                                               {Term::reserved_3y, "reserved-3y"},
                                               {Term::owned, "owned"}};
};

/// One published price.
struct PriceQuote {
  double usd = 0;  ///< per GPU-hour; owned: per GPU with its share of the node
  Term term = Term::on_demand;
  std::string region;  ///< a name of `grids`; empty: not stated, counts in all regions
  std::string date;    ///< "2026-05", "2026", "undated"
  std::string source;
  bool operator==(const PriceQuote&) const = default;
};

struct GpuEconomics {
  std::optional<Range3> price{};  ///< US dollars per GPU-hour in place of all quotes
  double tdp_watts = 0;
  std::optional<Range3> purchase{};  ///< in place of quotes of owned GPUs
  std::vector<PriceQuote> quotes{};
  bool operator==(const GpuEconomics&) const = default;
};

/// What owning costs besides the purchase. "Share": of the purchase.
struct Ownership {
  Range3 years;                         ///< until GPUs, network and storage are written off
  Range3 usd_per_kwh;                   ///< of electricity, unless the region has its own
  Range3 usd_per_port_gbps{};           ///< of switches, per Gb/s of a port
  Range3 usd_per_cable_gbps{};          ///< with its transceivers, per Gb/s
  Range3 storage_share{};               ///< of the job's share of the file system
  Range3 building_usd_per_kw{};         ///< building, power and cooling, per kW of computers and network
  Range3 building_years{1, 1, 1};       ///< until the building is written off
  Range3 capital_rate{};                ///< interest per year
  Range3 operations_usd_per_kw_year{};  ///< people, maintenance, insurance: running costs but electricity
  Range3 utilisation{1, 1, 1};          ///< share of the hours in which somebody uses the GPUs
  bool operator==(const Ownership&) const = default;
};

/// Electricity of a region.
struct Grid {
  double gco2_per_kwh = 0;
  std::optional<Range3> usd_per_kwh{};
  std::string source;
  bool operator==(const Grid&) const = default;
};

/// A line of a price.
struct PricePart {
  std::string
      name;    ///< "rent"; "GPUs", "network", "storage", "building", "capital", "people", "electricity", "idle time"
  Range3 usd;  ///< per GPU-hour
  bool operator==(const PricePart&) const = default;
};

/// A price and what it rests on.
struct PriceBasis {
  std::vector<PricePart> parts;    ///< the price is their sum
  std::vector<PriceQuote> quotes;  ///< that were used, cheapest first; empty: a price given without source
  std::string note;                ///< how it was derived, if not from two or more quotes of this very term
  Range3 price() const;
};

/// The price of one GPU as its assumptions move. Owned machines have all of them in common but the purchase.
class PriceSpread {
 public:
  /// `quotes`: of rent, or of the purchase of an owned GPU; `terms`: of an owned one.
  struct OwnedTerms {
    Ownership ownership;
    NetworkHardware network;
    Range3 grid_kw;  ///< drawn from the grid
    Range3 it_kw;    ///< of these by computers and network
    Range3 usd_per_kwh;
  };
  explicit PriceSpread(const Range3& quotes) : quotes_(quotes) {}
  PriceSpread(const Range3& quotes, const OwnedTerms& terms) : quotes_(quotes), owned_(terms) {}

  /// US dollars per GPU-hour; each probability is that of a cheaper one. `own`: of the quotes; `shared`: of what
  /// all owned machines have in common.
  double usd_at(double own, double shared) const;
  /// The lines of that price; of rent none.
  std::vector<std::pair<const char*, double>> lines_at(double own, double shared) const;

 private:
  Range3 quotes_;
  std::optional<OwnedTerms> owned_;
};

/// GPUs that a job pays for while it runs.
struct PaidGpus {
  int used = 0;
  int spares = 0;  ///< of hosts that wait for a failure or are repaired
  int unused = 0;  ///< the rest of the machines that are paid
  int all() const { return used + spares + unused; }
  /// GPU-hours that are paid in so many days.
  double hours(double days) const { return days * 24 * all(); }
  bool operator==(const PaidGpus&) const = default;
};

/// An owned machine is paid by whole scale-up domains (nodes, racks), a rented one by whole hosts; inside one host rent
/// is by the GPU. Hosts that the job leaves unused are the first spares.
PaidGpus paid_gpus(Term term, const NodeSpec& node, int used, int spare_gpus);

struct Economics {
  std::string name;
  std::string description;
  std::string source;
  std::map<std::string, GpuEconomics> gpus;  ///< by name of the profile
  Range3 node_power{1, 1, 1};                ///< power of a node / thermal design power of its GPUs
  Range3 network_watts;                      ///< per GPU
  Range3 pue{1, 1, 1};
  std::optional<Ownership> ownership;
  std::map<Term, Range3> discounts{};          ///< reserved / on demand
  std::map<std::string, Grid> grids{};         ///< by region
  std::map<std::string, std::string> sources;  ///< of single figures, by key
  Term term = Term::on_demand;                 ///< that prices are asked for
  std::string region;                          ///< empty: any
  bool operator==(const Economics&) const = default;

  /// nullopt: nothing is known of this GPU for the term and the region. `network`: of an owned machine; rent includes it.
  /// `power_limit`: share of the thermal design power that the GPUs may draw, as of cluster.power_limit.
  std::optional<PriceBasis> price_basis(const std::string& gpu, const NetworkHardware& network,
                                        double power_limit = 1) const;
  std::optional<Range3> price_per_gpu_hour(const std::string& gpu, const NetworkHardware& network,
                                           double power_limit = 1) const;
  /// How that price is distributed.
  std::optional<PriceSpread> price_spread(const std::string& gpu, const NetworkHardware& network,
                                          double power_limit = 1) const;
  /// Kilowatts drawn from the grid for one GPU: (tdp x (node_power - 1 + power_limit) + network_watts) x PUE.
  std::optional<Range3> kilowatts_per_gpu(const std::string& gpu, double power_limit) const;
  /// Grams of CO2 per kWh of the region, or of "world"; nullopt: not in `grids`.
  std::optional<double> gco2_per_kwh() const;

 private:
  struct Quoted {
    Range3 range;
    std::vector<PriceQuote> quotes;
    std::string note;
  };
  std::optional<Quoted> quoted_of(const GpuEconomics& known) const;
};

}  // namespace tracecast
