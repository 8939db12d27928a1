#include "tools/accuracy/calibration_report.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <boost/math/distributions/binomial.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/accuracy/decisions.hpp"
#include "tools/accuracy/errors.hpp"
#include "tools/accuracy/percent.hpp"

namespace tracecast::accuracy {
namespace {

using Rows = std::vector<const RowForecast*>;

std::string factors_table(const ArchitectureFactors& factors) {
  std::string text = "| kind of work |";
  std::string rule = "| --- |";
  for (const auto& [architecture, values] : factors) {
    text += " " + architecture + " |";
    rule += " ---: |";
  }
  text += "\n" + rule + "\n";
  for (const CostParameter kind : kFittedKinds) {
    text += fmt::format("| {} |", to_string(kind));
    for (const auto& [architecture, values] : factors)
      text += fmt::format(" {:.2f} |", values[static_cast<std::size_t>(kind)]);
    text += "\n";
  }
  return text;
}

std::string family_of(const RowForecast& row) {
  if (row.architecture == "Ampere") return "A100";
  if (row.architecture == "Hopper") return "H100";
  return row.architecture;
}

/// The rows of one line of a table.
struct Subset {
  std::string name;
  Rows rows;
};

/// All, dense, full rows, MoE; the dense ones also by GPU family.
std::vector<Subset> subsets(const CsvTable& table, const std::vector<RowForecast>& rows) {
  const auto kept = [&](const std::string& name, auto keep) {
    Subset subset{name, {}};
    for (const RowForecast* row : scored(rows))
      if (keep(*row)) subset.rows.push_back(row);
    return subset;
  };
  const auto full = [&](const RowForecast& r) { return table.text(r.row, "row_class") == "full"; };
  std::vector<Subset> out{kept("all", [](const RowForecast&) { return true; }),
                          kept("dense", [](const RowForecast& r) { return !r.moe; })};
  for (const char* family : {"A100", "H100", "Blackwell"})
    out.push_back(
        kept(std::string("dense, ") + family, [&](const RowForecast& r) { return !r.moe && family_of(r) == family; }));
  out.push_back(kept("class full", full));
  out.push_back(kept("dense, class full", [&](const RowForecast& r) { return !r.moe && full(r); }));
  out.push_back(kept("MoE", [](const RowForecast& r) { return r.moe; }));
  return out;
}

std::string subset_table(const CsvTable& table, const CrossValidation& result) {
  const std::vector<Subset> a = subsets(table, result.plain), b = subsets(table, result.fitted),
                            c = subsets(table, result.held_out);
  std::string text =
      "| rows | n | sources | as shipped | fitted | cross-validated | scatter | within 10 % | in band | half-width |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  for (std::size_t i = 0; i < c.size(); ++i) {
    if (c[i].rows.empty()) continue;
    const Measure held = measure(c[i].rows);
    const ErrorSummary s = summarise(c[i].rows);
    text += fmt::format("| {} | {} | {} | {} | {} | **{}** | {} | {} | {} | {} |\n", c[i].name, s.rows, held.sources,
                        percent_number(measure(a[i].rows).mean_of_medians),
                        percent_number(measure(b[i].rows).mean_of_medians), percent_number(held.mean_of_medians),
                        held.scatter ? percent_number(*held.scatter) : "-", percent_number(s.within_10),
                        percent_number(s.coverage), percent_number(s.half_width));
  }
  return text;
}

std::string ratio_line(const char* name, const RatioErrors& r) {
  return fmt::format("| {} | {} pairs | mean {} %, median {} %, worst {} % |\n", name, r.pairs, percent_number(r.mean),
                     percent_number(r.median), percent_number(r.worst));
}

std::string decision_table(const CsvTable& table, const std::vector<RowForecast>& held_out) {
  Rows rows;
  for (const RowForecast* row : scored(held_out))
    if (!row->moe) rows.push_back(row);
  const OrderOfPairs order = order_of_pairs(table, rows, 0.15);
  const CostOfChoice choice = cost_of_choice(table, rows);
  const OwnCluster own = own_cluster(table, rows);
  std::string text = "| decision (dense rows) | | |\n| --- | --- | --- |\n";
  text += ratio_line("scaling with GPU count, ratio error", scaling_ratios(table, rows));
  text += ratio_line("schedule against schedule, ratio error", schedule_ratios(table, rows));
  text += fmt::format("| order of pairs that differ by more than 15 % | {} pairs | {} % right |\n", order.pairs,
                      percent_number(order.share()));
  text += fmt::format("| cost of choosing the forecast's best layout | {} groups | {} %; the best in {} |\n",
                      choice.groups, percent_number(choice.mean), choice.best);
  text += fmt::format(
      "| own cluster: corrected by the three most similar runs | {} rows of {} sources; {} more have fewer than three "
      "similar runs | {} % before, {} % after |\n",
      own.rows, own.sources, own.without_similar, percent_number(own.before), percent_number(own.after));
  return text;
}

/// Rows of one source, all or those whose detail has these words.
Rows rows_of(const CsvTable& table, const std::vector<RowForecast>& rows, const std::string& source,
             const char* detail) {
  Rows out;
  for (const RowForecast* row : scored(rows))
    if (row->source.starts_with(source) && table.text(row->row, "source_detail").find(detail) != std::string::npos)
      out.push_back(row);
  return out;
}

/// Runs on which other simulators publish their errors.
std::string peers_table(const CsvTable& table, const std::vector<RowForecast>& plain,
                        const std::vector<RowForecast>& held_out) {
  struct Peer {
    const char* source;
    const char* detail;
    const char* claim;
  };
  std::string text =
      "| rows | n | peer's figure | as shipped: mean, worst | cross-validated: mean, worst |\n"
      "| --- | ---: | --- | ---: | ---: |\n";
  for (const Peer& peer :
       {Peer{"Korthikanti", "", "Calculon: 3.65 % mean, 8.9 % worst, on the set it was calibrated to"},
        Peer{"torchtitan", "", "Phantora: 2.9 % mean, 8.5 % worst, on 8 of these rows"},
        Peer{"vTrain", "multi-node", "vTrain: 14.7 % mean, profiled on the same machine"}}) {
    const ErrorSummary a = summarise(rows_of(table, plain, peer.source, peer.detail));
    const ErrorSummary b = summarise(rows_of(table, held_out, peer.source, peer.detail));
    text +=
        fmt::format("| {}{} | {} | {} | {} %, {} % | {} %, {} % |\n", peer.source,
                    *peer.detail == '\0' ? "" : std::string(", ") + peer.detail, a.rows, peer.claim,
                    percent_number(a.mean), percent_number(a.worst), percent_number(b.mean), percent_number(b.worst));
  }
  return text;
}

std::string memory_lines(const std::vector<RowForecast>& rows) {
  const MemorySummary m = summarise_memory(rows);
  return fmt::format(
      "{} rows report a peak: mean absolute error {} %, bias {:+.1f} %. {} of {} completed runs are forecast to fit; "
      "{} "
      "of {} "
      "that ended out of memory are forecast not to.\n",
      m.rows, percent_number(m.mean), 100 * m.bias, m.completed_fit, m.completed, m.out_of_memory_seen,
      m.out_of_memory);
}

std::string worst_table(const std::vector<RowForecast>& held_out) {
  Rows rows = scored(held_out);
  std::sort(rows.begin(), rows.end(), [](const RowForecast* a, const RowForecast* b) {
    const double x = std::abs(std::log(a->predicted_s / a->measured_s)),
                 y = std::abs(std::log(b->predicted_s / b->measured_s));
    return x != y ? x > y : a->row < b->row;
  });
  constexpr double kFarOff = 0.25;  // docs/validation/misses.md explains each
  std::erase_if(rows, [](const RowForecast* r) { return std::abs(r->error()) <= kFarOff; });
  std::string text = "| row | source | forecast, s | measured, s | error |\n| --- | --- | ---: | ---: | ---: |\n";
  for (const RowForecast* r : rows)
    text += fmt::format("| {} | {} | {:.4g} | {:.4g} | {:+.1f} % |\n", r->id, r->source, r->predicted_s, r->measured_s,
                        100 * r->error());
  return text;
}

/// Errors of every source on every GPU family, one line each: as shipped, and without the source.
std::string source_table(const std::vector<RowForecast>& plain, const std::vector<RowForecast>& held_out) {
  std::map<std::pair<std::string, std::string>, std::array<Rows, 2>> groups;
  for (const RowForecast* row : scored(plain)) groups[{row->source, family_of(*row)}][0].push_back(row);
  for (const RowForecast* row : scored(held_out)) groups[{row->source, family_of(*row)}][1].push_back(row);
  std::string text =
      "| source | GPU | rows | as shipped | bias | cross-validated | bias | worst | in band | half-width |\n| --- | "
      "--- | "
      "---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  for (const auto& [name, group] : groups) {
    const ErrorSummary shipped = summarise(group[0]);
    const ErrorSummary s = summarise(group[1]);
    text +=
        fmt::format("| {} | {} | {} | {} | {:+.1f} | {} | {:+.1f} | {} | {} | {} |\n", name.first, name.second,
                    shipped.rows, percent_number(shipped.median), 100 * shipped.bias, percent_number(s.median),
                    100 * s.bias, percent_number(s.worst), percent_number(s.coverage), percent_number(s.half_width));
  }
  return text;
}

/// Sources with fewer runs inside their bands than chance explains.
std::string band_sentence(const std::vector<RowForecast>& rows) {
  constexpr double kAsked = 0.85;
  constexpr double kSignificant = 0.05;
  std::map<std::string, Rows> sources;
  for (const RowForecast* row : scored(rows)) sources[row->source].push_back(row);
  int below = 0;
  std::vector<std::string> significant;
  for (const auto& [name, group] : sources) {
    const ErrorSummary s = summarise(group);
    const int inside = static_cast<int>(std::lround(s.coverage * s.rows));
    const double chance = boost::math::cdf(boost::math::binomial(s.rows, kAsked), inside);
    below += s.coverage < kAsked ? 1 : 0;
    if (chance < kSignificant) significant.push_back(name);
  }
  return fmt::format(
      "{} of {} sources hold fewer than {:.0f} % of their runs inside the 90 % bands of left-out runs; significantly "
      "fewer "
      "(binomial,\np < {:.2f}): {}.\n\n",
      below, sources.size(), 100 * kAsked, kSignificant,
      significant.empty() ? "none" : fmt::format("{}", fmt::join(significant, ", ")));
}

}  // namespace

std::string calibration_page(const CsvTable& table, const CrossValidation& result) {
  const std::vector<RowForecast>& plain = result.plain;
  std::string text = "## Errors\n\nPercent. Median absolute error of the step time per source, mean over sources.\n\n";
  text += subset_table(table, result);
  text += "\n## Decisions, cross-validated\n\n" + decision_table(table, result.held_out);
  text += "\n## Tables that peers publish\n\n" + peers_table(table, plain, result.held_out);
  text += "\n## Sources, as shipped and cross-validated\n\n" + band_sentence(result.held_out) +
          source_table(plain, result.held_out);
  text += "\n## Memory\n\n" + memory_lines(plain);
  text += "\n## Factors fitted to all rows\n\nOn the time of each kind of work, on top of the shipped profiles.\n\n";
  text += factors_table(result.fit.factors);
  text +=
      "\n## Worst rows, cross-validated\n\nAll that are off by more than 25 %; [misses.md](misses.md) explains "
      "each.\n\n" +
      worst_table(result.held_out);
  return text;
}

Result<std::string> evidence_table(const CsvTable& table, const RowLibrary& library, const CrossValidation& result) {
  std::string text =
      "id,source,gpu,architecture,stack,precision,experts,parameters,ranks,seq_length,measured_s,error\n";
  for (const RowForecast* row : scored(result.held_out)) {
    const Result<RowScenario> run = scenario_of_row(table, row->row, library);
    if (!run) return tl::unexpected(run.error());
    const Scenario& s = run->scenario;
    text += fmt::format("{},\"{}\",{},{},{},{},{},{:.4g},{},{},{:.5g},{:.4f}\n", row->id, row->source, s.profile.name,
                        row->architecture, row->stack, to_string(s.training.dtype), row->moe ? 1 : 0,
                        static_cast<double>(parameter_count(s.model).total()), s.cluster.world_size,
                        s.training.seq_length, row->measured_s, row->error());
  }
  return text;
}

}  // namespace tracecast::accuracy
