#include "sim/io/incident_log.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sim/base/units.hpp"
#include "sim/base/words.hpp"
#include "sim/io/csv_table.hpp"
#include "sim/io/read_file.hpp"

namespace tracecast {
namespace {

/// A number of exactly so many digits, without a sign.
std::optional<int> digits(std::string_view text, std::size_t at, std::size_t count) {
  unsigned value = 0;
  if (at + count > text.size()) return std::nullopt;
  const char* begin = text.data() + at;
  const auto [end, error] = std::from_chars(begin, begin + count, value);
  if (error != std::errc{} || end != begin + count) return std::nullopt;
  return static_cast<int>(value);
}

/// Seconds since 1970 of 2025-01-03, 2025-01-03T04:05 or 2025-01-03 04:05:06, with or without Z.
std::optional<double> date_of(std::string_view text) {
  namespace ch = std::chrono;
  if (!text.empty() && text.back() == 'Z') text.remove_suffix(1);
  const std::optional<int> year = digits(text, 0, 4), month = digits(text, 5, 2), day = digits(text, 8, 2);
  if (!year || !month || !day || text[4] != '-' || text[7] != '-') return std::nullopt;
  const ch::year_month_day date{ch::year{*year}, ch::month{static_cast<unsigned>(*month)},
                                ch::day{static_cast<unsigned>(*day)}};
  if (!date.ok()) return std::nullopt;
  double time = static_cast<double>(ch::sys_days(date).time_since_epoch().count()) * kSecondsPerDay;
  if (text.size() == 10) return time;
  const std::optional<int> hour = digits(text, 11, 2), minute = digits(text, 14, 2);
  if (!hour || !minute || *hour > 23 || *minute > 59 || (text[10] != 'T' && text[10] != ' ')) return std::nullopt;
  time += *hour * kSecondsPerHour + *minute * 60;
  if (text.size() == 16) return time;
  const std::optional<int> second = digits(text, 17, 2);
  if (!second || text.size() != 19 || *second > 60) return std::nullopt;
  return time + *second;
}

struct Incident {
  double time_s = 0;  ///< since the start
  std::string part;
};

using Incidents = std::vector<Incident>;

constexpr double kConfidence = 0.95;  // of the intervals

class LogReader {
 public:
  explicit LogReader(std::string file) : file_(std::move(file)) {}

  Result<IncidentLog> read(const std::string& text) {
    for (const std::string_view line : split_lines(text)) {
      ++line_;
      std::string_view content = trim(line);
      if (line_ == 1 && content.starts_with("\xEF\xBB\xBF")) content.remove_prefix(3);
      if (content.empty()) continue;
      if (content.front() == '#')
        read_fact(trim(content.substr(1)));
      else if (columns_.empty())
        read_columns(content);
      else
        read_incident(content);
    }
    check_head();
    if (!errors_.empty()) return tl::unexpected(Error{errors_});
    fit();
    return std::move(log_);
  }

 private:
  void add_error(std::string key, std::string_view value, std::string message) {
    errors_.push_back({file_, line_, std::move(key), std::string(value), std::move(message)});
  }

  void read_fact(std::string_view fact) {
    const std::size_t equals = fact.find('=');
    if (equals == std::string_view::npos) return;  // a plain comment
    const std::string_view key = trim(fact.substr(0, equals)), value = trim(fact.substr(equals + 1));
    const std::optional<double> number = parse_number<double>(value);
    if (!facts_.emplace(key).second) return add_error(std::string(key), value, "is given twice");
    if (key == "gpus" || key == "gpus_per_node") {
      if (!number || *number < 1 || std::trunc(*number) != *number)
        return add_error(std::string(key), value, "is not a count of at least 1");
      if (*number > 1e9) return add_error(std::string(key), value, "is out of range (allowed: up to 1000000000)");
      (key == "gpus" ? log_.machine.gpus : log_.machine.gpus_per_node) = static_cast<int>(*number);
      has_gpus_ |= key == "gpus";
    } else if (key == "start" || key == "end") {
      const std::optional<double> date = number ? std::optional(*number * kSecondsPerHour) : date_of(value);
      if (!date) return add_error(std::string(key), value, "must be a date (2025-01-31T12:00) or a number of hours");
      (key == "start" ? start_ : end_) = date;
    } else {
      add_error(std::string(key), value, "is unknown (allowed: gpus gpus_per_node start end)");
    }
  }

  void read_columns(std::string_view line) {
    columns_ = csv_fields(line);
    if (columns_.empty()) return add_error("", "", "a quote is not closed");
    for (auto column = columns_.begin(); column != columns_.end(); ++column)
      if (std::find(columns_.begin(), column, *column) != column) add_error(*column, "", "is a column twice");
    for (const char* needed : {"time", "component"})
      if (std::find(columns_.begin(), columns_.end(), needed) == columns_.end())
        add_error("", "", fmt::format("the first line names the columns; '{}' is missing", needed));
    for (const std::string& column : columns_)
      if (column != "time" && column != "component" && column != "part" && column != "effect")
        add_error("", "", fmt::format("unknown column '{}' (allowed: time component part effect)", column));
  }

  void read_incident(std::string_view line) {
    const std::vector<std::string> cells = csv_fields(line);
    if (cells.empty()) return add_error("", "", "a quote is not closed");
    if (cells.size() != columns_.size())
      return add_error("", "", fmt::format("has {} columns, not {}", cells.size(), columns_.size()));
    std::map<std::string, std::string> cell;
    for (std::size_t i = 0; i < cells.size(); ++i) cell[columns_[i]] = cells[i];
    if (!start_ || !end_) return;  // reported once, at the end
    const std::optional<double> hours = parse_number<double>(cell["time"]);
    const std::optional<double> time =
        hours ? std::optional(*start_ + *hours * kSecondsPerHour) : date_of(cell["time"]);
    if (!time) return add_error("time", cell["time"], "must be a date (2025-01-31T12:00) or a number of hours");
    if (*time < *start_ || *time > *end_) return add_error("time", cell["time"], "must be between start and end");
    const std::string& effect = cell["effect"];
    if (!effect.empty() && effect != "crash" && effect != "hang")
      return add_error("effect", effect, "is unknown (allowed: crash hang)");
    if (cell["component"].empty()) return add_error("component", "", "is empty");
    groups_[{lower_case(cell["component"]), effect == "hang" ? Effect::hang : Effect::crash}].push_back(
        {*time - *start_, cell["part"]});
  }

  void check_head() {
    line_ = 0;
    if (!has_gpus_) add_error("gpus", "", "is missing: a line '# gpus = 1024' before the columns");
    if (!start_ || !end_ || *end_ <= *start_)
      add_error("start", "", "is missing, or not before end: lines '# start = …' and '# end = …' before the columns");
  }

  void fit() {
    log_.duration_s = *end_ - *start_;
    log_.model.name = std::filesystem::path(file_).stem().string();
    log_.model.source = file_;
    for (const auto& [group, incidents] : groups_) add_kind(group.first, group.second, incidents);
  }

  void add_kind(const std::string& component, Effect effect, const Incidents& incidents) {
    FailureKind kind;
    const bool crashes_as_well = effect == Effect::hang && groups_.count({component, Effect::crash}) > 0;
    kind.name = component + (crashes_as_well ? " (hang)" : "");
    kind.component = parse_enum<Component>(component).value_or(Component::unknown);
    const Component c = kind.component;
    const bool of_gpu = c == Component::gpu || c == Component::hbm || c == Component::nvlink || c == Component::nic;
    const bool of_node = c == Component::host || c == Component::power;
    kind.per = of_gpu ? RateUnit::gpu : of_node ? RateUnit::node : RateUnit::job;
    kind.scope = of_gpu || of_node ? RateUnit::node : RateUnit::job;
    kind.effect = effect;

    FittedKind fitted;
    fitted.name = kind.name;
    fitted.failures = static_cast<int>(incidents.size());
    fitted.parts = parts(kind, log_.model, log_.machine);
    fitted.exponential_mean_s =
        exponential_mean_s(fitted.failures, static_cast<double>(fitted.parts) * log_.duration_s, kConfidence);
    if (const Result<WeibullFit> weibull = fit_weibull(lifetimes(incidents, fitted.parts), kConfidence); weibull)
      fitted.weibull = *weibull;
    kind.law = {LawKind::exponential, fitted.exponential_mean_s.value, 1};
    if (fitted.weibull && fitted.weibull->p_value < 0.05)
      kind.law = {LawKind::weibull, fitted.weibull->mean_s.value, fitted.weibull->shape.value};
    log_.model.kinds.push_back(kind);
    log_.fits.push_back(fitted);
  }

  /// Times from the start, or from the part's last failure, to its next one. Parts that still work are censored. Nothing
  /// unless each failure names one of `count` parts, and at least three parts failed.
  Lifetimes lifetimes(const Incidents& incidents, std::int64_t count) const {
    std::map<std::string, std::vector<double>> by_part;
    for (const Incident& incident : incidents) by_part[incident.part].push_back(incident.time_s);
    const auto failed = static_cast<std::int64_t>(by_part.size());
    if (by_part.count("") > 0 || failed < 3 || failed > count) return {};
    Lifetimes lifetimes;
    for (auto& [part, times] : by_part) {
      std::sort(times.begin(), times.end());
      double before = 0;
      for (const double time : times) {
        lifetimes.failed_s.push_back(std::max(time - before, 1.0));
        before = time;
      }
      lifetimes.censored.push_back({log_.duration_s - before, 1});
    }
    lifetimes.censored.push_back({log_.duration_s, count - failed});
    return lifetimes;
  }

  std::string file_;
  int line_ = 0;
  std::vector<std::string> columns_;
  std::set<std::string> facts_;  ///< keys of the comment lines so far
  std::optional<double> start_;
  std::optional<double> end_;
  bool has_gpus_ = false;
  std::map<std::pair<std::string, Effect>, Incidents> groups_;  ///< of a component and an effect
  std::vector<Diagnostic> errors_;
  IncidentLog log_;
};

}  // namespace

Result<IncidentLog> parse_incident_log(const std::string& text, const std::string& file) {
  return LogReader(file).read(text);
}

Result<IncidentLog> read_incident_log(const std::filesystem::path& path) {
  const Result<std::string> text = read_file(path, kMaxOwnFile);
  if (!text) return tl::unexpected(text.error());
  return parse_incident_log(*text, path.string());
}

}  // namespace tracecast
