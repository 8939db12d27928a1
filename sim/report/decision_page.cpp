#include "sim/report/decision_page.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/markup.hpp"
#include "sim/report/decision_svg.hpp"
#include "sim/report/page_sources.hpp"
#include "sim/report/plan_money.hpp"
#include "sim/report/text.hpp"
#include "sim/search/space.hpp"

namespace tracecast {
namespace {

std::string element(std::string_view tag, std::string_view text) {
  return fmt::format("<{0}>{1}</{0}>\n", tag, markup_text(text));
}

std::string section(std::string_view id, std::string_view title, const std::string& content) {
  if (content.empty()) return "";
  return fmt::format("<section id=\"section-{}\">\n<h2>{}</h2>\n{}</section>\n", id, markup_text(title), content);
}

std::string figure(const std::string& svg) {
  return svg.empty() ? "" : "<figure class=\"wide\" tabindex=\"0\">" + svg + "</figure>\n";
}

std::string list(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& each : items) text += element("li", each);
  return text.empty() ? "" : "<ul>\n" + text + "</ul>\n";
}

/// A table; cells of columns named in `words` are text, the others numbers.
std::string table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows,
                  const std::vector<std::size_t>& words) {
  const auto cell = [&](std::string_view tag, std::size_t column, const std::string& text) {
    const bool word = std::ranges::find(words, column) != words.end();
    return fmt::format("<{0}{1}>{2}</{0}>", tag, word ? " class=\"text\"" : "", markup_text(text));
  };
  std::string text = "<div class=\"wide\"><table>\n<thead><tr>";
  for (std::size_t i = 0; i < head.size(); ++i) text += cell("th", i, head[i]);
  text += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : rows) {
    text += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) text += cell("td", i, row[i]);
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

std::string usd_text(double usd) {
  return usd >= 1e6 ? number(usd / 1e6, 3) + " million USD" : number(usd, 3) + " USD";
}

/// "a, b or c".
std::string alternatives(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return text;
}

/// "512, 1,024 or 2,048"; of many sizes "8 to 4,096 (10 sizes)".
std::string sizes_text(const std::set<int>& sizes) {
  constexpr std::size_t kListed = 5;
  if (sizes.size() > kListed)
    return fmt::format("{} to {} ({} sizes)", number(*sizes.begin(), 1), number(*sizes.rbegin(), 1), sizes.size());
  std::vector<std::string> words;
  for (const int gpus : sizes) words.push_back(number(gpus, 1));
  return alternatives(words);
}

/// "8 or 16 GPUs of dgx-h100 or dgx-a100", "8 GPUs of dgx-h100 or 16 GPUs of dgx-a100": all that were compared.
std::string machines_text(const CapacityPlan& plan) {
  std::vector<std::pair<std::string, std::set<int>>> machines;
  for (const MachineOutcome& machine : plan.machines) {
    const std::string name = machine_text(machine.choice);
    auto known = std::ranges::find(machines, name, &std::pair<std::string, std::set<int>>::first);
    if (known == machines.end()) known = machines.insert(known, {name, {}});
    known->second.insert(machine.choice.gpus);
  }
  if (machines.empty()) return "no machine";  // all were too small
  const auto& first = machines.front().second;
  const bool alike = std::ranges::all_of(machines, [&](const auto& each) { return each.second == first; });
  std::vector<std::string> words;
  for (const auto& [name, sizes] : machines) words.push_back(alike ? name : sizes_text(sizes) + " GPUs of " + name);
  return (alike ? sizes_text(first) + " GPUs of " : "") + alternatives(words);
}

std::string_view goal(Objective objective) {
  switch (objective) {
    case Objective::time:
      return "in the shortest time";
    case Objective::throughput:
      return "with the most tokens per GPU";
    case Objective::cost:
      return "for the least money";
    case Objective::energy:
      return "with the least energy";
    case Objective::gpus:
      return "on the fewest GPUs";
  }
  return "";
}

std::string question(const PlanReport& report) {
  const JobTarget& target = report.plan.target;
  std::string text = "How should " + report.scenario + " be trained";
  if (target.tokens > 0) text += " on " + tokens_text(target.tokens);
  text += fmt::format(" {}, on {}", goal(report.plan.objective), machines_text(report.plan));
  if (target.days > 0) text += ", within " + given_days(target.days);
  if (target.budget_usd > 0) text += ", for at most " + usd_text(target.budget_usd);
  return text + "?";
}

/// "64 GPUs of dgx-h100 meet it with 91 % probability": the likeliest candidate, where the first is not likely to meet the target;
/// else empty.
std::string likelier(const CapacityPlan& plan) {
  constexpr double kLikely = 0.8;  // as of the sizes that `plan` names
  constexpr double kMore = 0.005;  // that rounded percentages show
  const auto probability = [](const Candidate& each) { return each.within_target.value_or(0); };
  const Candidate& first = plan.candidates.front();
  const Candidate& most = *std::ranges::max_element(plan.candidates, {}, probability);
  if (!first.within_target || *first.within_target >= kLikely || probability(most) < *first.within_target + kMore)
    return "";
  const MachineChoice& machine = choice_of(plan, most);
  return fmt::format("{} GPUs of {} ({}) meet it with {} probability", number(machine.gpus, 1), machine_text(machine),
                     describe(most.evaluation.layout, machine.gpus), percent(probability(most), 0));
}

/// Two sentences: what to do with which result, and how sure that is.
std::string answer(const PlanReport& report) {
  const CapacityPlan& plan = report.plan;
  const Candidate& first = plan.candidates.front();
  const MachineChoice& machine = choice_of(plan, first);
  std::string text = fmt::format("Take {} GPUs of {} ({})", number(machine.gpus, 1), machine_text(machine),
                                 describe(first.evaluation.layout, machine.gpus));
  if (first.days > 0) {
    text += ": " + days_text(first.days);
    if (first.cost_usd) text += " and " + usd_text(first.cost_usd->typical) + " at typical prices";
  } else {
    text += ": a step of " + time_text(first.evaluation.step_time_s);
    if (!first.facts.why_no_days.empty())
      text += fmt::format(", of which the days are not known ({})", first.facts.why_no_days);
  }
  text += first.misses.empty() ? ". " : ", but it " + first.misses + ". ";
  std::string sure;
  const auto add = [&](const std::string& part) { sure += (sure.empty() ? "" : "; ") + part; };
  if (first.days_quantiles)
    add(fmt::format("with 80 % probability it takes {} to {} days", number(first.days_quantiles->p10, 3),
                    number(first.days_quantiles->p90, 3)) +
        (first.cost_quantiles_usd ? fmt::format(" and costs {} to {}", usd_text(first.cost_quantiles_usd->p10),
                                                usd_text(first.cost_quantiles_usd->p90))
                                  : ""));
  if (first.within_target)
    add(fmt::format("it meets the target with {} probability", percent(*first.within_target, 0)));
  if (const std::string other = likelier(plan); !other.empty()) add(other);
  const auto meets = [&](const Candidate& each) { return &each != &first && each.misses.empty(); };
  const auto others = std::ranges::count_if(plan.candidates, meets);
  const auto equal =
      std::ranges::count_if(plan.candidates, [&](const Candidate& each) { return meets(each) && each.equals_first; });
  const bool all_meet = others + 1 == static_cast<std::ptrdiff_t>(plan.candidates.size());
  if (equal > 0)
    add(fmt::format("{} of the {} others{} equal it within the error of the forecast", equal, others,
                    all_meet ? "" : " that meet the target"));
  if (sure.empty()) add("its uncertainty is not known");
  sure[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(sure[0])));
  return text + sure + ".";
}

std::string candidates_table(const CapacityPlan& plan) {
  std::vector<std::vector<std::string>> rows;
  double unit = 1;
  for (const Candidate& each : plan.candidates)
    if (each.cost_usd && each.cost_usd->typical >= 1e6) unit = 1e6;
  for (std::size_t i = 0; i < plan.candidates.size(); ++i) {
    const Candidate& each = plan.candidates[i];
    const MachineChoice& machine = choice_of(plan, each);
    const auto range = [](const std::optional<Quantiles>& q, double by) {
      return q ? fmt::format("{} to {}", number(q->p10 / by, 3), number(q->p90 / by, 3)) : std::string("");
    };
    const std::string unknown = each.facts.why_no_days.empty() ? "" : "not known";
    const std::string no_price = unknown.empty() ? "no price" : unknown;
    rows.push_back(
        {std::to_string(i + 1), number(machine.gpus, 1), machine_text(machine),
         each.days > 0 ? number(each.days, 3) : unknown, range(each.days_quantiles, 1),
         each.cost_usd ? number(each.cost_usd->typical / unit, 3) : no_price, range(each.cost_quantiles_usd, unit),
         each.energy_mwh && each.days > 0 ? number(each.energy_mwh->typical, 3) : "",
         each.co2_tonnes ? number(each.co2_tonnes->typical, 3) : "", percent(each.goodput),
         describe(each.evaluation.layout, machine.gpus) + (each.misses.empty() ? "" : "; misses: " + each.misses) +
             (each.equals_first ? "; " + equal_text(plan, each) : "")});
  }
  return table({"", "GPUs", "machine", "days", "P10 to P90", unit > 1 ? "million USD" : "USD", "P10 to P90", "MWh",
                "t CO2", "goodput", "layout"},
               rows, {2, 10});
}

/// Machines that were asked for and have no candidate, with the reason.
std::vector<std::string> not_offered(const PlanReport& report) {
  std::vector<std::string> sentences;
  for (const std::string& each : report.left_out) sentences.push_back("Left out: " + each + ".");
  sentences.insert(sentences.end(), report.refusals.begin(), report.refusals.end());
  return sentences;
}

std::string limits(const PlanReport& report) {
  const Evaluation& best = report.plan.candidates.front().evaluation;
  std::vector<std::vector<std::string>> rows;
  auto parts = step_parts(best);
  std::ranges::stable_sort(parts, [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [name, seconds] : parts)
    if (seconds > 0.005 * best.step_time_s)
      rows.push_back({name, time_text(seconds), percent(seconds / best.step_time_s)});
  std::string text = element("p", "Parts of the step of the first candidate, mean over ranks:") +
                     table({"part", "time", "share"}, rows, {0});
  if (report.upgrades.empty()) return text;
  rows.clear();
  for (const Upgrade& each : report.upgrades)
    rows.push_back({each.what, percent(std::max(0.0, each.faster_by)), each.layout.empty() ? "the same" : each.layout});
  return text + element("p", "Time saved by a better machine or a larger batch, each with a new search:") +
         table({"with", "saves", "layout"}, rows, {0, 2});
}

std::string idle_sentence(const PaidGpus& paid) {
  std::vector<std::string> parts;
  if (paid.spares > 0)
    parts.push_back(fmt::format("{} GPUs of spare nodes, to which nodes in repair belong", number(paid.spares, 1)));
  if (paid.unused > 0)
    parts.push_back(fmt::format("{} GPUs of these machines that the job does not use", number(paid.unused, 1)));
  return parts.empty() ? "" : fmt::format(", and so are {}", fmt::join(parts, " and "));
}

std::string money_table(const Candidate& first) {
  if (first.money.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (const MoneyLine& line : first.money)
    rows.push_back({line.name, number(line.usd, 3), percent(line.usd / first.cost_usd->typical, 0)});
  rows.push_back({"in all", number(first.cost_usd->typical, 3), "100 %"});
  return element("p", "The first candidate, at typical prices:") + table({"", "USD", "share"}, rows, {0}) +
         element("p",
                 fmt::format("{} of the time brings no progress: failures, checkpoints and restarts. It is paid for "
                             "as the rest is{}.",
                             percent(1 - first.goodput), idle_sentence(first.paid)));
}

/// Every quote of every GPU.
std::string quotes_table(const PlanReport& report) {
  std::vector<std::vector<std::string>> rows;
  std::string missing;
  for (const MachineChoice* machine : priced_machines(report.plan)) {
    const std::string& gpu = machine->scenario.profile.name;
    const std::optional<PriceBasis> basis = price_of(report.economics, *machine);
    if (!basis) {
      missing += element("p", "No price was found for " + gpu + ": it is left out of cost comparisons.");
      continue;
    }
    const Range3 price = basis->price();
    rows.push_back({gpu,
                    fmt::format("{} ({} to {})", number(price.typical, 3), number(price.low, 3), number(price.high, 3)),
                    term_text(report.economics) + network_text(report, *machine, {}), "", basis_text(*basis)});
    for (const PriceQuote& each : basis->quotes)
      rows.push_back({"", number(each.usd, 3), to_string(each.term), each.date, each.source});
  }
  return table({"GPU", "USD per GPU-hour; owned: quotes per GPU", "term", "date", "source"}, rows, {0, 2, 3, 4}) +
         missing;
}

std::string assumptions(const PlanReport& report) {
  const CapacityPlan& plan = report.plan;
  std::vector<std::string> items = closest_run_sentences(plan);
  items.push_back(
      "Step times are simulated; their errors are those of published runs that were forecast without their source "
      "(docs/validation).");
  items.push_back(report.failures.empty() ? "No failures are counted."
                                          : "Failures, repair and checkpoints: model " + report.failures + ".");
  if (const std::vector<std::string> keys = unsearched_keys(plan); !keys.empty())
    items.push_back(fmt::format("Not searched, but as in the scenario: {}.", fmt::join(keys, ", ")));
  items.push_back("P10 to P90: step, goodput, prices and power vary together as docs/planning.md says.");
  std::string text = list(items);
  if (report.economics.name.empty()) return text;
  text += element("p", fmt::format("Prices and power: {} ({}).", report.economics.name, report.economics.description)) +
          quotes_table(report);
  std::vector<std::vector<std::string>> rows;
  for (const auto& [key, source] : report.economics.sources) {
    const bool of_owned = key.starts_with("ownership");
    const bool of_term = key.starts_with("discounts");
    if ((of_owned && report.economics.term != Term::owned) ||
        (of_term && key != fmt::format("discounts.{}", to_string(report.economics.term))))
      continue;
    rows.push_back({key, source});
  }
  if (const auto grid =
          report.economics.grids.find(report.economics.region.empty() ? "world" : report.economics.region);
      grid != report.economics.grids.end())
    rows.push_back({"CO2 and electricity of " + grid->first, grid->second.source});
  return text + table({"figure", "source"}, rows, {0, 1});
}

}  // namespace

std::string decision_page(const PlanReport& report, const PageMetadata& metadata) {
  const CapacityPlan& plan = report.plan;
  std::string body =
      element("h1", "Decision: " + report.scenario) + section("question", "Question", element("p", question(report)));
  if (plan.candidates.empty()) {
    const std::string none = report.refusals.empty() ? element("p", "No layout fits.") : list(report.refusals);
    body += section("answer", "Answer", none);
  } else {
    const TextStyle plain;
    body += section("answer", "Answer", fmt::format("<p class=\"answer\">{}</p>\n", markup_text(answer(report))));
    if (const std::string picture = trade_off_svg(plan); !picture.empty())
      body += section("trade-off", "Days against money",
                      figure(picture) + element("p",
                                                "Lines: P10 to P90. Broken line: candidates that no other beats in "
                                                "both. Numbers: places in the table."));
    body += section("sizes", "Days against GPUs", figure(sizes_svg(plan)));
    body += section("candidates", "Candidates", candidates_table(plan) + list(not_offered(report)));
    body += section("money", "Money", figure(money_svg(plan)) + money_table(plan.candidates.front()));
    body += section("limits", "What limits", limits(report));
    if (report.sensitivity.tried > 0)
      body += section("changes", "What would change the answer", list(changes_of(report, plain)));
    body += section("assumptions", "Assumptions", assumptions(report));
  }
  body += section("again", "Again",
                  fmt::format("<pre class=\"command\">{}</pre>\n<p class=\"soft\">{}</p>\n",
                              markup_text(metadata.command), markup_text(metadata.version)));
  std::string page(kDecisionPage);
  const auto put = [&](std::string_view mark, const std::string& text) {
    page.replace(page.find(mark), mark.size(), text);
  };
  put("<!--TITLE-->", markup_text("Decision: " + report.scenario));
  put("<!--BODY-->", body);
  return page;
}

}  // namespace tracecast
