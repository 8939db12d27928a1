#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/quantile.hpp"
#include "sim/base/quantity_text.hpp"
#include "sim/base/units.hpp"
#include "sim/base/words.hpp"
#include "sim/report/goodput_report.hpp"

namespace tracecast {
namespace {

constexpr int kLabel = 20;

/// A labelled line; text that does not fit continues on the next line, indented.
std::string fact(std::string_view label, const std::string& text, const TextStyle& style, int width = kLabel) {
  const std::string name = pad_right(label, width);
  std::string lines = paragraph("  " + name + "  ", text, style);
  return lines.replace(2, name.size(), paint(name, Colour::grey, style));
}

/// Failures during an outage belong to it, so a history has fewer interruptions than this rate gives.
std::string rate_text(double mtbf_s) {
  return std::isfinite(mtbf_s) ? fmt::format("one every {} while the job runs", duration_in_words(mtbf_s)) : "never";
}

/// "1 history", "2,048 histories".
std::string counted(double count, std::string_view one, std::string_view many) {
  return number(count, 1) + " " + std::string(count == 1 ? one : many);
}

std::string histories(const GoodputForecast& r, const TextStyle& style) {
  const Estimate& g = r.goodput.goodput;
  const std::string mean = percent(g.mean, 2);
  const std::string count = counted(r.goodput.histories, "history", "histories");
  const bool known = g.has_interval();
  std::string text = fact("goodput",
                          known ? fmt::format("{}, 95 % interval {} to {}, {}", mean, percent(g.low, 2),
                                              percent(std::min(1.0, g.high), 2), count)
                                : fmt::format("{}, {}, which gives no interval", mean, count),
                          style);
  text = paint_first(text, mean, Colour::bold, style);
  if (!known) return text;
  return text + fact("one history",
                     fmt::format("90 % of them between {} and {}", percent(quantile(r.goodput.goodputs, 0.05), 2),
                                 percent(quantile(r.goodput.goodputs, 0.95), 2)),
                     style);
}

/// Empty if it fits.
std::string memory_text(const GoodputForecast& r) {
  if (r.fits_memory()) return "";
  const MemoryNeed& memory = *r.memory;
  if (!memory.fits_gpus)
    return fmt::format("does not fit: the peak is {:.1f} of {:.1f} GiB, so this job cannot run", gib(memory.peak),
                       gib(memory.capacity));
  return fmt::format("does not fit the host: {} of {} GiB, so this job cannot run", number(gib(memory.host_used)),
                     number(gib(memory.host_capacity)));
}

/// How long a replica takes to leave, and why.
std::string reconfigure_text(const GoodputForecast& r) {
  return fmt::format("a replica leaves or rejoins in {} ({})", duration_in_words(seconds(r.spec.recovery.reconfigure)),
                     r.reconfigure_given ? "recovery.reconfigure" : "communicators and warm-up");
}

/// How the job goes on without a lost node, and whether the layout allows that.
std::string elastic_text(const GoodputForecast& r) {
  const RecoveryPolicy& recovery = r.spec.recovery;
  const bool as_layout = recovery.elastic_rollback != r.states_survive;
  const char* holders =
      r.states_survive ? "other nodes hold the states of a lost node" : "no other node holds the states of a lost node";
  const char* does = recovery.elastic_rollback ? "rolls back to the last checkpoint" : "goes on without a rollback";
  const std::string rollback =
      as_layout
          ? fmt::format("{} in this layout: the job {}", holders, does)
          : fmt::format("the job {}, as recovery.elastic_rollback says, although {} in this layout", does, holders);
  return fmt::format("{}; {}; {}", to_string(recovery.elastic), rollback, reconfigure_text(r));
}

std::string to_finish(const GoodputForecast& r) {
  const std::string tokens = tokens_text(static_cast<double>(r.goal_tokens));
  if (r.goal_days == 0) return fmt::format("{}: not known; {}", tokens, unknown_goal(r));
  std::string goal = fmt::format("{} in {}, {} GPU-hours", tokens,
                                 days_text(r.goal_days, r.goal_days_p10, r.goal_days_p90), number(r.goal_gpu_hours));
  if (r.goal_usd > 0) goal += fmt::format(", {} USD with spare nodes", number(r.goal_usd));
  return goal;
}

std::string answer(const GoodputForecast& r, const TextStyle& style) {
  std::string text;
  if (!r.fits_memory()) text += paint_first(fact("memory", memory_text(r), style), "does not fit", Colour::red, style);
  text += histories(r, style);
  text += fact(
      "step",
      fmt::format("{} healthy; {} tokens/s, {} including failures{}", to_text(r.healthy.time), number(r.tokens_per_s()),
                  number(r.effective_tokens_per_s), r.spec.course.ramp.empty() ? "" : " and the batch ramp"),
      style);
  text += fact("interruptions",
               fmt::format("{:.1f} in {}; {}", r.goodput.interruptions.mean, duration_in_words(r.goodput.wall_s.mean),
                           rate_text(r.mtbf_s)),
               style);
  if (std::isfinite(r.mtbf_s))
    text += fact("restart",
                 fmt::format("{} after a crash{}, of which communicators {}; {} spare node{}, {}{}",
                             duration_in_words(r.restart_s),
                             r.spec.recovery.elastic == Elastic::off ? "" : " that stops the whole job",
                             duration_in_words(seconds(communicator_time(r.spec.recovery, r.machine))),
                             number(r.spec.recovery.spares, 1), plural(r.spec.recovery.spares),
                             to_string(r.spec.recovery.spare_state), r.spares_given ? "" : " (for 99.9 % of the time)"),
                 style);
  if (r.spec.recovery.elastic != Elastic::off) text += fact("elastic", elastic_text(r), style);
  if (r.spec.course.target_tokens > 0)
    text += fact("trained",
                 fmt::format("{} on average, after {}", tokens_text(r.goodput.tokens.mean),
                             duration_in_words(r.goodput.wall_s.mean)),
                 style);
  if (r.goal_tokens > 0) text += fact("to finish", to_finish(r), style);
  return text;
}

std::string waterfall(const GoodputForecast& r, const TextStyle& style) {
  std::string text = "\n" + heading("Where the time goes", style) + "\n";
  const int width = std::clamp(style.width - kLabel - 24, 10, 60);
  for (std::size_t i = 0; i < kTimeCategories; ++i) {
    const auto what = static_cast<TimeCategory>(i);
    const double share = r.goodput.share[i];
    if (share <= 0) continue;
    text += fmt::format("  {} {} {} {}\n", pad_right(to_string(what), kLabel), pad_left(percent(share, 2), 8),
                        pad_left(duration_in_words(share * r.goodput.wall_s.mean), 10),
                        paint(bar(share, width, style), style_of(what).colour, style));
  }
  return text;
}

const char* storage_words(StorageFrom from) {
  if (from == StorageFrom::failures) return "from the failure model";
  return from == StorageFrom::topology ? "from the topology" : "assumed: 1 GB/s for each node";
}

std::string trained_parameters(std::int64_t count) {
  const bool large = count >= 1'000'000'000;
  return fmt::format("{:.4g} {} trained parameters", static_cast<double>(count) / (large ? 1e9 : 1e6),
                     large ? "billion" : "million");
}

/// "weights 756 GiB, master weights 1.48 TiB, optimizer states 2.95 TiB of 405.9 billion trained parameters".
std::string what_is_saved(const GoodputForecast& r) {
  if (r.checkpoint.bytes_per_parameter > 0)
    return fmt::format("as checkpoint.bytes_per_parameter says, of {}", trained_parameters(r.saved.parameters));
  std::string text = fmt::format("weights {}", to_text(r.saved.weights));
  if (r.saved.master_weights > Bytes{}) text += fmt::format(", master weights {}", to_text(r.saved.master_weights));
  if (r.saved.optimizer > Bytes{}) text += fmt::format(", optimizer states {}", to_text(r.saved.optimizer));
  return fmt::format("{} of {}", text, trained_parameters(r.saved.parameters));
}

std::string checkpoints(const GoodputForecast& r, const TextStyle& style) {
  std::string text = "\n" + heading("Checkpoints", style) + "\n";
  if (r.spec.checkpoint.interval_steps == 0) return text + "  none: every failure restarts the run from step 0\n";
  text += fact(
      "size",
      fmt::format("{} ({}, {:.3g} bytes per trained parameter)", to_text(r.shape.size), to_string(r.checkpoint.mode),
                  static_cast<double>(r.shape.size.count) / static_cast<double>(r.saved.parameters)),
      style);
  text += fact("saved", what_is_saved(r), style);
  for (const CheckpointTier& tier : r.spec.checkpoint.tiers)
    text += fact(tier.name,
                 fmt::format("stall {}, safe {} later, load {}, every {}", duration_in_words(seconds(tier.stall)),
                             duration_in_words(seconds(tier.persist)), duration_in_words(seconds(tier.load)),
                             tier.every == 1 ? std::string("checkpoint") : fmt::format("{} checkpoints", tier.every)),
                 style);
  text += fact("file system",
               fmt::format("{} written, {} read ({})", to_text(r.checkpoint.storage_write),
                           to_text(r.checkpoint.storage_read), storage_words(r.storage_from)),
               style);
  text += fact("interval",
               fmt::format("{} ({} steps)", duration_in_words(r.interval_s), r.spec.checkpoint.interval_steps), style);
  if (r.optimal_s > 0)
    text += fact("best in closed form",
                 fmt::format("Young {}, Daly {}, exact {}{}", duration_in_words(r.young_s), duration_in_words(r.daly_s),
                             duration_in_words(r.optimal_s),
                             r.spec.recovery.elastic == Elastic::off ? "" : ", if every failure stopped the whole job"),
                 style);
  if (r.best) {
    const double step = seconds(r.healthy.time);
    const auto interval = [step](std::int64_t steps) { return duration_in_words(static_cast<double>(steps) * step); };
    std::string words = interval(r.best->interval_steps);
    if (r.best->at_least < r.best->at_most)
      words += fmt::format("; from {} to {} differences are within the noise", interval(r.best->at_least),
                           interval(r.best->at_most));
    text += fact("best simulated", words, style);
  }
  if (r.closed_goodput > 0)
    text += fact("closed form",
                 fmt::format("goodput {} for crashes with restarts of {}", percent(r.closed_goodput, 2),
                             duration_in_words(r.restart_s)),
                 style);
  return text;
}

/// Empty if the events are all interruptions.
std::string uninterrupted_text(const GoodputForecast& r) {
  double events = 0;
  for (const double each : r.goodput.events) events += each;
  if (events < r.goodput.interruptions.mean + 0.05) return "";
  return "Not every event is an interruption: some are planned or only slow the job, and what fails during an outage "
         "belongs to it.";
}

/// All kinds, or those that happen most.
std::string causes(const GoodputForecast& r, bool all, const TextStyle& style) {
  std::string text = "\n" + heading("What happens, per history", style) + "\n";
  std::vector<std::pair<double, std::string>> rows;
  for (std::size_t k = 0; k < r.goodput.events.size(); ++k)
    rows.emplace_back(r.goodput.events[k], r.spec.failures.kinds[k].name);
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  const double most = rows.empty() ? 1 : std::max(rows.front().first, 1e-9);
  constexpr std::size_t kShown = 5;
  if (!all && rows.size() > kShown + 1) {
    double others = 0;
    for (std::size_t k = kShown; k < rows.size(); ++k) others += rows[k].first;
    const std::string name = fmt::format("{} other kinds", rows.size() - kShown);
    rows.resize(kShown);
    rows.emplace_back(others, name);
  }
  for (const auto& [count, name] : rows)
    text += fmt::format("  {} {} {}\n", pad_right(name, 28), pad_left(fmt::format("{:.1f}", count), 8),
                        bar(count / most, std::clamp(style.width - 44, 8, 40), style));
  if (const std::string others = uninterrupted_text(r); !others.empty()) text += paragraph("  ", others, style);
  return text;
}

/// What takes most of a slice of time, other than running; productive if nothing does. `first`: a span before those of the slice.
TimeCategory longest_outage(const std::vector<JobSpan>& spans, std::size_t first, double begin, double end) {
  std::array<double, kTimeCategories> in{};
  for (std::size_t i = first; i < spans.size() && seconds(spans[i].begin) < end; ++i)
    in[static_cast<std::size_t>(spans[i].category)] +=
        std::max(0.0, std::min(end, seconds(spans[i].end)) - std::max(begin, seconds(spans[i].begin)));
  in[static_cast<std::size_t>(TimeCategory::productive)] = 0;
  return static_cast<TimeCategory>(std::max_element(in.begin(), in.end()) - in.begin());
}

/// ". runs, d detection, l load": of the letters that occur.
std::string legend(const std::array<bool, kTimeCategories>& occurs) {
  std::vector<std::string> entries;
  for (std::size_t i = 0; i < occurs.size(); ++i)
    if (occurs[i]) entries.push_back(fmt::format("{} {}", kTimeStyles[i].letter, kTimeStyles[i].words));
  return fmt::format("{}", fmt::join(entries, ", "));
}

/// One letter per slice of a day: the longest kind of outage in it, or '.' while the job runs.
std::string timeline(const GoodputForecast& r, const TextStyle& style) {
  constexpr int kShownDays = 60;
  const double wall = seconds(r.sample.wall);
  const int days = static_cast<int>(std::ceil(wall / kSecondsPerDay)), shown = std::min(days, kShownDays);
  const std::string part = shown < days ? fmt::format(", first {} of {} days", shown, days) : "";
  std::string text = "\n" + heading("One history (number 0)" + part, style) + "\n";
  const int width = std::clamp(style.width - 12, 24, 96);
  const std::vector<JobSpan>& spans = r.sample.spans;
  std::array<bool, kTimeCategories> occurs{};
  std::size_t first = 0;
  for (int d = 0; d < shown; ++d) {
    std::string line;
    for (int c = 0; c < width; ++c) {
      const double begin = kSecondsPerDay * (d + c / static_cast<double>(width));
      if (begin >= wall) break;
      while (first < spans.size() && seconds(spans[first].end) <= begin) ++first;
      const auto longest =
          static_cast<std::size_t>(longest_outage(spans, first, begin, begin + kSecondsPerDay / width));
      occurs[longest] = true;
      line += kTimeStyles[longest].letter;
    }
    text += fmt::format("  day {:>3}  {}\n", d + 1, line);
  }
  return text + paragraph("  ", legend(occurs), style);
}

std::string fits(const GoodputForecast& r, const TextStyle& style) {
  if (r.fits.empty()) return "";
  std::string text = "\n" + heading("Fitted to the log, per part, 95 % intervals", style) + "\n";
  for (const FittedKind& fit : r.fits) {
    const IntervalEstimate& mean = fit.exponential_mean_s;
    text += fact(fit.name,
                 fmt::format("{} of {}: one every {} ({} to {})", counted(fit.failures, "failure", "failures"),
                             counted(static_cast<double>(fit.parts), "part", "parts"), duration_in_words(mean.value),
                             duration_in_words(mean.low), duration_in_words(mean.high)),
                 style);
    if (fit.weibull)
      text += fact(
          "",
          fmt::format("Weibull shape {:.2f} ({:.2f} to {:.2f}), p {:.2g} for exponential", fit.weibull->shape.value,
                      fit.weibull->shape.low, fit.weibull->shape.high, fit.weibull->p_value),
          style);
  }
  return text;
}

std::string resume(const GoodputForecast& r, const TextStyle& style) {
  if (!r.resume) return "";
  const auto layout = [](const ShardLayout& l) { return fmt::format("tp {} pp {} dp {}", l.tp, l.pp, l.dp); };
  return fact("resume",
              fmt::format("from {} in {}: {} of slices, {} of whole shards ({:.2f} times the bytes); "
                          "{} in its own layout",
                          layout(r.resume->from), layout(r.resume->to), duration_in_words(r.resume->slices_s),
                          duration_in_words(r.resume->whole_shards_s), r.resume->read.amplification(),
                          duration_in_words(r.resume->same_layout_s)),
              style);
}

std::string state_text(const MachineState& state) {
  std::vector<std::string> parts;
  if (state.lost_replicas > 0) parts.push_back(counted(state.lost_replicas, "replica", "replicas") + " out");
  if (state.gpu_speed_percent < 100) parts.push_back(fmt::format("a GPU at {} %", state.gpu_speed_percent));
  if (state.link_speed_percent < 100) parts.push_back(fmt::format("links at {} %", state.link_speed_percent));
  if (state.uplink_speed_percent < 100) parts.push_back(fmt::format("uplinks at {} %", state.uplink_speed_percent));
  if (state.lost_rails > 0) parts.push_back("a rail lost");
  if (state.global_batch > 0) parts.push_back(fmt::format("batch {}", state.global_batch));
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// A label that leaves no room for the step is a line of its own.
std::string states(const GoodputForecast& r, const TextStyle& style) {
  if (r.states.size() < 2) return "";
  constexpr int kStep = 36;  // "999.9 ms for 1,234,567,890 tokens"
  const int most = std::max(kLabel, style.width - kStep);
  int width = kLabel;
  for (const auto& [state, step] : r.states)
    if (const int own = columns(state_text(state)); own <= most) width = std::max(width, own);
  std::string text = "\n" + heading("Steps on a degraded machine", style) + "\n";
  for (const auto& [state, step] : r.states) {
    if (state == MachineState{}) continue;
    std::string label = state_text(state);
    if (columns(label) > width) {
      text += paragraph("  ", label, style);
      label.clear();
    }
    text +=
        fact(label, fmt::format("{} for {} tokens", to_text(step.time), number(static_cast<double>(step.tokens), 1)),
             style, width);
  }
  return text;
}

}  // namespace

std::string unknown_goal(const GoodputForecast& r) {
  const std::string why = r.why_no_goal();
  if (r.goodput_holds_longer()) return why;
  if (r.interval_s > 0) return why + " (longer --days)";
  return fmt::format("{} (--until {:.6g} simulates all)", why, static_cast<double>(r.goal_tokens));
}

std::string goodput_page(const GoodputForecast& r, const TextStyle& style, bool history) {
  std::string text =
      paint(fmt::format("{}, {}, failures as {}", r.scenario, counted(r.machine.gpus, "GPU", "GPUs"), r.failures),
            Colour::bold, style) +
      "\n\n";
  return text + answer(r, style) + waterfall(r, style) + checkpoints(r, style) + resume(r, style) +
         causes(r, history, style) + fits(r, style) + states(r, style) + (history ? timeline(r, style) : "");
}

namespace {

/// A column of the table of a sweep: its head, and a cell for each point.
using SweepColumn = std::vector<std::string>;

/// The most important ones first.
std::vector<SweepColumn> sweep_columns(const std::string& key, const std::vector<SweepPoint>& points) {
  std::vector<SweepColumn> table;
  const auto add = [&](std::string_view head, auto cell) {
    SweepColumn& column = table.emplace_back(1, std::string(head));
    for (const SweepPoint& p : points) column.push_back(cell(p.report));
  };
  const auto any = [&](auto has) {
    return std::ranges::any_of(points, [&](const SweepPoint& p) { return has(p.report); });
  };
  const auto share = [](const GoodputForecast& r, TimeCategory what) {
    return percent(r.goodput.share[static_cast<std::size_t>(what)], 2);
  };
  add("goodput", [](const GoodputForecast& r) { return percent(r.goodput.goodput.mean, 2); });
  add("+-", [](const GoodputForecast& r) {
    const Estimate& g = r.goodput.goodput;
    return g.has_interval() ? percent((g.high - g.low) / 2, 2) : "-";
  });
  add("tokens/s", [](const GoodputForecast& r) { return number(r.effective_tokens_per_s); });
  if (any([](const GoodputForecast& r) { return r.goal_days > 0; }))
    add("days", [](const GoodputForecast& r) { return r.goal_days > 0 ? number(r.goal_days, 3) : "-"; });
  if (any([](const GoodputForecast& r) { return r.goal_usd > 0; }))
    add("USD", [](const GoodputForecast& r) { return r.goal_usd > 0 ? number(r.goal_usd) : "-"; });
  if (any([](const GoodputForecast& r) { return r.resume.has_value(); }))
    add("resume", [](const GoodputForecast& r) { return duration_in_words(r.resume->slices_s); });
  add("stops", [](const GoodputForecast& r) { return fmt::format("{:.1f}", r.goodput.interruptions.mean); });
  if (!key.ends_with("spares"))
    add("spares", [](const GoodputForecast& r) { return number(r.spec.recovery.spares, 1); });
  add("step", [](const GoodputForecast& r) { return to_text(r.healthy.time); });
  add("lost", [&](const GoodputForecast& r) { return share(r, TimeCategory::lost); });
  add("waiting", [&](const GoodputForecast& r) { return share(r, TimeCategory::waiting); });
  return table;
}

int width_of(const SweepColumn& column) { return columns(std::ranges::max(column, {}, columns)); }

/// What the table does not say.
std::string sweep_notes(const std::vector<SweepPoint>& points, const std::vector<std::string>& left_out,
                        const TextStyle& style) {
  std::string text;
  std::set<std::string> unknown;
  for (const SweepPoint& p : points) {
    const GoodputForecast& r = p.report;
    if (!r.fits_memory()) text += paragraph("  ! ", fmt::format("{}: {}", p.value, memory_text(r)), style);
    if (r.goal_tokens > 0 && r.goal_days == 0) unknown.insert(unknown_goal(r));
  }
  for (const std::string& why : unknown) text += paragraph("  ", "days to finish are not known where " + why, style);
  if (std::ranges::any_of(points, [](const SweepPoint& p) { return !p.report.spares_given; }))
    text += paragraph("  ", "spares: enough for 99.9 % of the time", style);
  if (!left_out.empty())
    text += paragraph("  ", fmt::format("not shown: {} (--json has them)", fmt::join(left_out, ", ")), style);
  return text;
}

}  // namespace

std::string sweep_page(const std::string& key, const std::vector<SweepPoint>& points, const TextStyle& style) {
  SweepColumn values{key.substr(key.rfind('.') + 1)};
  for (const SweepPoint& p : points) values.push_back(p.value + (p.report.fits_memory() ? "" : " !"));
  std::vector<std::string> lines;
  for (const std::string& value : values) lines.push_back("  " + pad_right(value, width_of(values)));
  std::vector<std::string> left_out;
  for (const SweepColumn& column : sweep_columns(key, points)) {
    if (!left_out.empty() || columns(lines[0]) + 2 + width_of(column) > style.width) {
      left_out.push_back(column[0]);
      continue;
    }
    for (std::size_t i = 0; i < lines.size(); ++i) lines[i] += "  " + pad_left(column[i], width_of(column));
  }
  return fmt::format("{}{}\n{}", heading(fmt::format("{}: {}", points.front().report.scenario, key), style),
                     fmt::join(lines, "\n"), sweep_notes(points, left_out, style));
}

}  // namespace tracecast
