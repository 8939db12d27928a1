#include "tools/accuracy/nested_report.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/report/text.hpp"
#include "tools/accuracy/errors.hpp"
#include "tools/accuracy/percent.hpp"

namespace tracecast::accuracy {
namespace {

using Json = nlohmann::ordered_json;
using Cells = std::vector<std::string>;

/// A table whose first column is text and whose others are numbers.
std::string render(const std::vector<Cells>& lines, bool markdown) {
  std::vector<int> widths(lines.front().size(), 0);
  for (const Cells& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], columns(line[i]));
  std::string text;
  for (const Cells& line : lines) {
    if (markdown) {
      for (const std::string& cell : line) text += "| " + cell + " ";
      text += "|\n";
      if (&line == &lines.front()) {
        text += "| --- |";
        for (std::size_t i = 1; i < line.size(); ++i) text += " ---: |";
        text += "\n";
      }
      continue;
    }
    std::string row = "  " + pad_right(line[0], widths[0]);
    for (std::size_t i = 1; i < line.size(); ++i) row += "  " + pad_left(line[i], widths[i]);
    text += without_trailing_blanks(std::move(row)) + "\n";
  }
  return text;
}

std::string title(const char* words, bool markdown) {
  return markdown ? fmt::format("\n### {}\n\n", words) : fmt::format("\n{}\n\n", words);
}

/// The rows of a way with or without experts.
std::vector<const RowForecast*> rows_of(const Way& way, bool experts) {
  std::vector<const RowForecast*> rows;
  for (const RowForecast* row : scored(way.held_out))
    if (row->moe == experts) rows.push_back(row);
  return rows;
}

double worst(const std::vector<Way>& ways, bool experts) {
  double most = 0;
  for (const Way& way : ways) most = std::max(most, measure(rows_of(way, experts)).mean_of_medians);
  return most;
}

Cells score_line(const std::string& name, const std::vector<const RowForecast*>& rows, std::size_t folds) {
  const ErrorSummary s = summarise(rows);
  return {name,
          std::to_string(folds),
          std::to_string(s.rows),
          percent_number(measure(rows).mean_of_medians),
          percent_number(s.median),
          percent_number(s.mean),
          percent_number(s.within_10),
          percent_number(s.coverage),
          percent_number(s.half_width)};
}

std::string score_table(const std::vector<Way>& ways, bool markdown) {
  std::vector<Cells> lines{
      {"left out", "folds", "rows", "error", "median", "mean", "within 10 %", "in band", "half-width"}};
  for (const bool experts : {false, true})
    for (const Way& way : ways)
      lines.push_back(
          score_line(way.name + (experts ? ", experts" : ", dense"), rows_of(way, experts), way.folds.size()));
  return render(lines, markdown);
}

std::string fold_table(const Way& way, bool markdown) {
  std::vector<Cells> lines{{"left out: " + way.name, "rows", "median", "bias", "in band", "half-width", "rules"}};
  for (const Fold& fold : way.folds) {
    std::vector<const RowForecast*> rows;
    for (const std::size_t row : fold.tested)
      if (way.held_out[row].scored()) rows.push_back(&way.held_out[row]);
    const ErrorSummary s = summarise(rows);
    lines.push_back({fold.left_out, std::to_string(s.rows), percent_number(s.median), signed_percent_number(s.bias),
                     percent_number(s.coverage), percent_number(s.half_width),
                     std::to_string(std::count(fold.used.begin(), fold.used.end(), true))});
  }
  return render(lines, markdown);
}

/// "source 5.1 -> 5.3": with and without.
std::string change_text(const std::array<double, 2>& score) {
  return fmt::format("{} {}", percent_number(score[0]), signed_percent_number(score[1] - score[0]));
}

std::string rule_table(const Nested& nested, bool markdown) {
  std::vector<Cells> lines{{"rule", "forecast without it", "evidence outside the table", "rows", "used in folds"}};
  for (const Way& way : nested.ways) lines.front().push_back(way.name);
  lines.front().emplace_back("experts, source");
  for (const RuleScore& rule : nested.rules) {
    Cells line{rule.rule->name, rule.rule->left_out, *rule.rule->evidence == '\0' ? "none" : rule.rule->evidence,
               std::to_string(rule.rows), fmt::format("{} of {}", rule.folds_used, rule.folds)};
    for (const Way& way : nested.ways) line.push_back(change_text(rule.dense.at(way.name)));
    line.push_back(change_text(rule.experts.at("source")));
    lines.push_back(std::move(line));
  }
  return render(lines, markdown);
}

std::string factor_table(const Nested& nested, bool markdown) {
  std::vector<Cells> lines{{"factor of"}};
  for (const Way& way : nested.ways) lines.front().push_back(way.name);
  lines.front().emplace_back("experts, source");
  for (const FactorScore& factor : nested.factors) {
    Cells line{std::string(to_string(factor.kind))};
    for (const Way& way : nested.ways) line.push_back(change_text(factor.dense.at(way.name)));
    line.push_back(change_text(factor.experts.at("source")));
    lines.push_back(std::move(line));
  }
  return render(lines, markdown);
}

std::string lever_table(const std::vector<LeverErrors>& levers, bool markdown) {
  std::vector<Cells> lines{{"lever", "pairs", "median", "mean", "clear changes", "right sign"}};
  for (const LeverErrors& lever : levers)
    if (lever.pairs > 0)
      lines.push_back({lever.lever, std::to_string(lever.pairs), percent_number(lever.median),
                       percent_number(lever.mean), std::to_string(lever.clear),
                       lever.clear > 0 ? percent_number(static_cast<double>(lever.right) / lever.clear) : ""});
  return render(lines, markdown);
}

std::string pair_table(const std::vector<PublishedPair>& pairs, bool markdown) {
  std::vector<Cells> lines{{"published pair", "measured", "forecast", "error"}};
  for (const PublishedPair& pair : pairs)
    lines.push_back({fmt::format("{}: {}", pair.id, pair.lever), fmt::format("{:.3f}", pair.measured),
                     pair.forecast > 0 ? fmt::format("{:.3f}", pair.forecast) : "no such run",
                     pair.forecast > 0 ? signed_percent_number(pair.forecast / pair.measured - 1) : ""});
  return render(lines, markdown);
}

int count_rules(bool with_evidence) {
  const auto has = [](const LeftOut& rule) { return *rule.evidence != '\0'; };
  return static_cast<int>(
      std::count_if(rules().begin(), rules().end(), [&](const LeftOut& rule) { return has(rule) == with_evidence; }));
}

Json summary_json(const std::vector<const RowForecast*>& rows) {
  const ErrorSummary s = summarise(rows);
  return {{"rows", s.rows},
          {"error", measure(rows).mean_of_medians},
          {"median", s.median},
          {"mean", s.mean},
          {"within_10", s.within_10},
          {"in_band", s.coverage},
          {"half_width", s.half_width}};
}

Json ways_json(const std::vector<Way>& ways) {
  Json out = Json::object();
  for (const Way& way : ways) {
    Json folds = Json::array();
    for (const Fold& fold : way.folds) {
      Json used = Json::array();
      for (std::size_t rule = 0; rule < fold.used.size(); ++rule)
        if (fold.used[rule]) used.push_back(rules()[rule].name);
      folds.push_back({{"left_out", fold.left_out},
                       {"train", fold.train.size()},
                       {"tested", fold.tested.size()},
                       {"rules", std::move(used)}});
    }
    Json rows = Json::array();
    for (const RowForecast* row : scored(way.held_out))
      rows.push_back({{"id", row->id},
                      {"forecast_s", row->predicted_s},
                      {"measured_s", row->measured_s},
                      {"p5_s", row->band.p5_s},
                      {"p95_s", row->band.p95_s}});
    out[way.name] = {{"dense", summary_json(rows_of(way, false))},
                     {"experts", summary_json(rows_of(way, true))},
                     {"folds", std::move(folds)},
                     {"rows", std::move(rows)}};
  }
  return out;
}

Json scores_json(const std::map<std::string, std::array<double, 2>>& scores) {
  Json out = Json::object();
  for (const auto& [way, score] : scores) out[way] = {{"with", score[0]}, {"without", score[1]}};
  return out;
}

}  // namespace

std::string nested_page(const NestedReport& report, bool markdown) {
  const Nested& nested = report.nested;
  std::string text = fmt::format("Worst of the four ways: dense {} %, with experts {} %.\n",
                                 percent_number(worst(nested.ways, false)), percent_number(worst(nested.ways, true)));
  text += title("Runs left out of the fits", markdown) + score_table(nested.ways, markdown);
  text += title("Everything published after a date", markdown) + score_table(nested.dates, markdown);
  const RunBand& band = nested.band;
  text += fmt::format(
      "\nHalf-widths of 90 % bands, fitted to all runs (sim/forecast/evidence.hpp): dense {:.3f}, experts {:.3f}, "
      "architecture {:.3f}, stack {:.3f}, kernels {:.2f}.\n",
      band.dense, band.experts, band.architecture, band.stack, band.kernels);
  for (const Way& way : nested.ways)
    if (way.name != "source") text += title(("By " + way.name).c_str(), markdown) + fold_table(way, markdown);
  text += title("Levers", markdown) + lever_table(report.levers, markdown);
  if (!report.pairs.empty()) text += title("Published pairs", markdown) + pair_table(report.pairs, markdown);
  text += title("Rules", markdown);
  text += fmt::format(
      "{} rules with evidence outside the table, {} without; {} factors that runs determine.\nDense error with the "
      "rule, and by how much it grows without it; the factors are fitted again, approximately (first order).\n\n",
      count_rules(true), count_rules(false), nested.free_factors);
  text += rule_table(nested, markdown);
  text += title("Factors", markdown) + factor_table(nested, markdown);
  return text;
}

std::string nested_json(const NestedReport& report) {
  Json rule_list = Json::array(), factors = Json::array(), levers = Json::array(), pairs = Json::array();
  for (const RuleScore& rule : report.nested.rules)
    rule_list.push_back({{"name", rule.rule->name},
                         {"without", rule.rule->left_out},
                         {"evidence", *rule.rule->evidence == '\0' ? Json(nullptr) : Json(rule.rule->evidence)},
                         {"rows", rule.rows},
                         {"folds_used", rule.folds_used},
                         {"folds", rule.folds},
                         {"dense", scores_json(rule.dense)},
                         {"experts", scores_json(rule.experts)}});
  for (const FactorScore& factor : report.nested.factors)
    factors.push_back({{"kind", to_string(factor.kind)},
                       {"dense", scores_json(factor.dense)},
                       {"experts", scores_json(factor.experts)}});
  for (const LeverErrors& lever : report.levers)
    levers.push_back({{"lever", lever.lever},
                      {"pairs", lever.pairs},
                      {"median", lever.median},
                      {"mean", lever.mean},
                      {"clear", lever.clear},
                      {"right", lever.right}});
  for (const PublishedPair& pair : report.pairs)
    pairs.push_back({{"id", pair.id},
                     {"lever", pair.lever},
                     {"measured", pair.measured},
                     {"forecast", pair.forecast > 0 ? Json(pair.forecast) : Json(nullptr)}});
  return Json{{"worst", {{"dense", worst(report.nested.ways, false)}, {"experts", worst(report.nested.ways, true)}}},
              {"ways", ways_json(report.nested.ways)},
              {"dates", ways_json(report.nested.dates)},
              {"rules", std::move(rule_list)},
              {"band",
               {{"dense", report.nested.band.dense},
                {"experts", report.nested.band.experts},
                {"architecture", report.nested.band.architecture},
                {"stack", report.nested.band.stack},
                {"kernels", report.nested.band.kernels}}},
              {"free_factors", report.nested.free_factors},
              {"factors", std::move(factors)},
              {"levers", std::move(levers)},
              {"pairs", std::move(pairs)}}
             .dump(2, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace tracecast::accuracy
