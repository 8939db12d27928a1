#include "sim/report/terminal.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/forecast/job_length.hpp"
#include "sim/plan/optimizers.hpp"
#include "sim/report/assumptions.hpp"
#include "sim/report/evidence_page.hpp"
#include "sim/report/explain.hpp"
#include "sim/report/perfetto.hpp"
#include "sim/report/settings_text.hpp"
#include "sim/report/terminal_memory.hpp"
#include "sim/report/terminal_time.hpp"

namespace tracecast {
namespace {

constexpr int kWidest = 110;
constexpr int kLabelWidth = 14;

std::string joined(const std::vector<std::string>& parts, const TextStyle& style) {
  return fmt::format("{}", fmt::join(parts, separator(style)));
}

std::string fact(std::string_view label, std::string_view text, const TextStyle& style) {
  const std::string name = pad_right(label, kLabelWidth);
  if (columns(name) + columns(text) + 4 > style.width) return paragraph("  " + name + "  ", text, style);
  return fmt::format("  {}  {}\n", paint(name, Colour::grey, style), text);
}

// ---- Header: the scenario ----------------------------------------------------------------------------------------

/// " in groups of 8": hybrid sharding.
std::string shard_groups(const Plan& plan) {
  if (plan.parallel.zero_stage == 0 || plan.shard_group() >= plan.gradient_group()) return "";
  return fmt::format(" in groups of {}{}", plan.shard_group(),
                     plan.shard_group() == 1 ? ", which divides nothing" : "");
}

std::string layout(const Plan& plan, const TextStyle& style) {
  const Parallel& p = plan.parallel;
  std::vector<std::string> parts = {fmt::format("tp {}", p.tp)};
  if (p.sequence_parallel) parts.emplace_back("sp");
  if (p.cp > 1) parts.push_back(fmt::format("cp {}", p.cp));
  if (p.ep > 1) parts.push_back(fmt::format("ep {}", p.ep));
  parts.push_back(fmt::format("pp {}", p.pp));
  parts.push_back(fmt::format("dp {}", plan.grid.size(Axis::dp)));
  if (p.pp > 1) parts.push_back(p.vpp > 1 ? fmt::format("{} with {} chunks", p.pp_schedule, p.vpp) : p.pp_schedule);
  parts.push_back(fmt::format("zero {}{}", p.zero_stage, shard_groups(plan)));
  return joined(parts, style);
}

/// "full recomputation", "recomputation of norm and activation", "selective recomputation, and of mla_up".
std::string recomputation(const Training& t) {
  const std::string modules = fmt::format("{}", fmt::join(t.recompute_modules, " and "));
  if (t.recompute == Recompute::full) return "full recomputation";
  if (t.recompute == Recompute::none) return modules.empty() ? "no recomputation" : "recomputation of " + modules;
  return modules.empty() ? "selective recomputation" : "selective recomputation, and of " + modules;
}

/// "405.9 B", "46.7 B, 12.88 B active": parameters.
std::string size_text(const Model& model) {
  const auto text = [](std::int64_t parameters) {
    const auto count = static_cast<double>(parameters);
    return count < 1e9 ? fmt::format("{:.4g} M", count * 1e-6) : fmt::format("{:.4g} B", count * 1e-9);
  };
  const std::string all = text(parameter_count(model).total());
  return model.moe ? fmt::format("{}, {} active", all, text(active_parameters(model))) : all;
}

std::string training_line(const Plan& plan, const TextStyle& style) {
  const Training& t = plan.training;
  return joined({fmt::format("batch {} {} {} tokens", number(static_cast<double>(t.global_batch_size), 1), times(style),
                             number(static_cast<double>(t.seq_length), 1)),
                 fmt::format("{} micro-batch{} of {}", plan.num_microbatches, plan.num_microbatches == 1 ? "" : "es",
                             t.micro_batch_size),
                 to_string(t.dtype), recomputation(t)},
                style);
}

std::string head(const Scenario& scenario, const Plan& plan, const TextStyle& style) {
  const std::string machine = gpu_counts(scenario, times(style));
  const std::string model = fmt::format("{} ({})", scenario.model.name, size_text(scenario.model));
  std::string text = paint(paragraph("", joined({model, machine, scenario.name}, style), style), Colour::bold, style);
  for (const std::string& line : {layout(plan, style), training_line(plan, style)})
    text += paragraph("  ", line, style);
  return text;
}

// ---- Result ------------------------------------------------------------------------------------------------------

std::string measured_text(const Measured& measured, double forecast_s) {
  const double error = forecast_s / measured.step_time_s - 1;
  return fmt::format("{}   the forecast is {}", time_text(measured.step_time_s), error_text(error));
}

/// "rank 37 computes 1.3 times as long: 6.69 s without it, 5.1 % less"; "… 7.04 s with it alone, 5.4 % more than undisturbed".
std::string perturbation_text(const PerturbationEffect& effect, const Forecast& f) {
  if (!effect.step_without_s && !effect.step_alone_s)
    return effect.what + " (what it costs beside other jobs is not forecast)";
  const bool alone = effect.step_alone_s.has_value();
  const double step = alone ? *effect.step_alone_s : effect.step_without_s.value_or(0);
  const double change = step / (alone ? f.undisturbed_step_s : f.step_time_s) - 1;
  return fmt::format("{}: {} {}, {:.2g} % {}{}", effect.what, time_text(step), alone ? "with it alone" : "without it",
                     100 * std::abs(change), change > 0 ? "more" : "less", alone ? " than undisturbed" : "");
}

/// "+1.2 s", "-8.05 s", "none".
std::string change_text(double seconds) {
  if (seconds == 0) return "none";
  return (seconds < 0 ? "-" : "+") + time_text(std::abs(seconds));
}

/// "54 days for 15.6 T tokens, without interruptions".
std::string training_text(const Training& training, const Forecast& f) {
  const auto tokens = static_cast<double>(training.train_tokens);
  const double needed = tokens_to_train(training);
  const double share = counted_share(f, training);
  std::string text = fmt::format("{} for {}{}", duration_in_words(needed / counted_tokens_per_s(f, training)),
                                 tokens_text(needed), share < 1 ? " without padding" : "");
  if (needed > tokens) text += fmt::format(" ({} with small batches)", tokens_text(tokens));
  return text + ", without interruptions";
}

/// "10 of 128 samples, 4 steps each: 40 steps, 2.13 s".
std::string epochs_text(const Training& training, double step_s) {
  const std::int64_t steps = steps_of_epoch(training);
  const auto all = static_cast<double>(steps * training.epochs);
  return fmt::format("{} of {} samples, {} step{} each: {} steps, {}", number(static_cast<double>(training.epochs), 1),
                     number(static_cast<double>(training.dataset_samples), 1), number(static_cast<double>(steps), 1),
                     plural(steps), number(all, 1), duration_in_words(all * step_s));
}

/// "8 parts, each every 100 steps beside 5 steps", "every step".
std::string averaging_times(const Averaging& averaging, const Parallel& parallel) {
  std::string text =
      parallel.averaging_fragments > 1 ? fmt::format("{} parts, each ", parallel.averaging_fragments) : "";
  text += averaging.period == 1 ? "every step" : fmt::format("every {} steps", number(averaging.period, 1));
  const int overlap = parallel.averaging_overlap;
  if (overlap > 0) text += overlap == 1 ? " beside a step" : fmt::format(" beside {} steps", overlap);
  return text;
}

/// "every 100 steps over 4 replicas: 1.31 s with it, 1.02 s without; 21.2 GB sent per GPU, 212 MB per step; …".
std::string averaging_text(const Averaging& averaging, const Parallel& parallel) {
  const auto bytes = [](double count) {
    return count < 1e9 ? fmt::format("{:.3g} MB", count * 1e-6) : fmt::format("{:.3g} GB", count * 1e-9);
  };
  return fmt::format(
      "{} over {} replicas: {} with it, {} without; {} sent per GPU, {} per step; of {} of transfers in {} step{} {} "
      "are "
      "waited for; the loss is not forecast",
      averaging_times(averaging, parallel), number(averaging.replicas, 1), time_text(averaging.averaging_step_s),
      time_text(averaging.local_step_s), bytes(averaging.sent_bytes), bytes(averaging.sent_bytes / averaging.period),
      time_text(averaging.transfer_s), averaging.steps, plural(averaging.steps),
      averaging.waited_s > 0 ? time_text(averaging.waited_s) : "0 s");
}

/// "16 steps: 1.21 to 1.40 s (90 %); 1.18 s if all micro-batches were alike; 97.1 % of the tokens are not padding: …".
std::string packed_text(const PackedForecast& packed, double step_s) {
  std::string text = fmt::format("documents of {} tokens in the mean; ", number(packed.mean_length));
  if (packed.balanced_s != step_s)
    text += fmt::format("{} steps: 90 % take {} to {}", packed.steps, time_text(packed.p5_s), time_text(packed.p95_s));
  if (packed.balanced_s > 0 && packed.balanced_s != step_s)
    text += fmt::format(", {} if all micro-batches were alike (imbalance {})", time_text(packed.balanced_s),
                        percent(1 - packed.balanced_s / step_s));
  if (packed.balanced_s != step_s) text += "; ";
  text +=
      fmt::format("{} of the tokens are not padding: {} useful tokens/s; attention sees {} of the pairs in a sequence",
                  percent(packed.useful_share), number(packed.useful_tokens_per_s), percent(packed.attended));
  if (packed.dropped_share > 0)
    text += fmt::format("; {} of the documents' tokens do not fit and are dropped", percent(packed.dropped_share));
  return text;
}

/// "37.2 s; with it 22.6 % less, mostly exposed parameters (-8.05 s)".
std::string unchanged_text(const Unchanged& unchanged, const Forecast& f) {
  const double change = f.step_time_s / unchanged.forecast.step_time_s - 1;
  std::string text = time_text(unchanged.forecast.step_time_s);
  if (change == 0) return text + ", the same";
  text += fmt::format("; with it {} {}", percent(std::abs(change)), change < 0 ? "less" : "more");
  const MovedPart most = moved_parts(unchanged.forecast, f).front();
  if ((most.by_s() < 0) == (change < 0)) text += fmt::format(", mostly {} ({})", most.name, change_text(most.by_s()));
  return text;
}

std::string answer(const Scenario& scenario, const Forecast& f, const TextStyle& style, const Unchanged* unchanged) {
  std::string text =
      fact("step time",
           fmt::format("{}   90 % between {} and {}", paint(time_text(f.step_time_s), Colour::bold, style),
                       time_text(f.band.p5_s), time_text(f.band.p95_s)),
           style);
  if (unchanged != nullptr) text += fact("without --set", unchanged_text(*unchanged, f), style);
  for (const PerturbationEffect& each : f.perturbations) text += fact("perturbed", perturbation_text(each, f), style);
  for (const CoLocatedJob& each : f.co_located)
    text += fact("co-located",
                 fmt::format("{} takes {}: {} alone, {} more", each.name, time_text(each.step_s),
                             time_text(each.alone_s), percent(each.step_s / each.alone_s - 1)),
                 style);
  if (scenario.measured)
    text += fact("measured", measured_text(*scenario.measured, f.step_time_s), style);
  else if (unchanged != nullptr && unchanged->measured)
    text += fact("measured", "without --set " + measured_text(*unchanged->measured, unchanged->forecast.step_time_s),
                 style);
  text +=
      fact("throughput",
           fmt::format("{} tokens/s   {} tokens/s per GPU", number(f.tokens_per_s), number(f.tokens_per_s / f.ranks)),
           style);
  text += fact("efficiency",
               fmt::format("{} TFLOP/s per GPU   MFU {}   HFU {}", number(f.model_tflops_per_gpu, 3), percent(f.mfu),
                           percent(f.hfu)),
               style);
  if (f.packed)
    text += paragraph("  " + pad_right("documents", kLabelWidth) + "  ", packed_text(*f.packed, f.step_time_s), style);
  if (f.averaging)
    text += paragraph("  " + pad_right("averaging", kLabelWidth) + "  ",
                      averaging_text(*f.averaging, scenario.parallel), style);
  if (scenario.training.dataset_samples > 0)
    text +=
        paragraph("  " + pad_right("epochs", kLabelWidth) + "  ", epochs_text(scenario.training, f.step_time_s), style);
  if (scenario.training.train_tokens > 0) {
    text += fact("training", training_text(scenario.training, f), style);
  }
  text += paragraph("  " + pad_right("closest run", kLabelWidth) + "  ", closest_run_text(scenario), style);
  for (const std::string& line : note_texts(scenario, f))
    text += paint(paragraph("  ", line, style), Colour::yellow, style);
  return text;
}

// ---- What --set changes ------------------------------------------------------------------------------------------

/// The parts that move by at least half a percent of the step, and the sum of the others.
std::vector<MovedPart> large_moves(const Forecast& before, const Forecast& after) {
  constexpr double kSmall = 0.005;
  std::vector<MovedPart> rows;
  MovedPart other{"other", 0, 0};
  for (const MovedPart& part : moved_parts(before, after)) {
    if (std::abs(part.by_s()) >= kSmall * before.step_time_s) {
      rows.push_back(part);
    } else {
      other.before_s += part.before_s;
      other.after_s += part.after_s;
    }
  }
  rows.push_back(other);
  return rows;
}

double peak_gib(const Forecast& f) { return gib(f.memory[static_cast<std::size_t>(f.tightest_pp_rank)].total()); }

std::string fits_text(const Forecast& before, const Forecast& after) {
  if (before.fits == after.fits) return after.fits ? "" : "does not fit either";
  return after.fits ? "now fits" : "no longer fits";
}

std::string what_changes(const Scenario& scenario, const Unchanged& unchanged, const Forecast& after,
                         const TextStyle& style) {
  const Forecast& before = unchanged.forecast;
  const bool narrow = style.width < kNarrow;
  const TextTable table(narrow ? std::vector{-26, 9, 9, 9} : std::vector{-26, 11, 11, 10, 9});
  const auto row = [&](const std::string& name, const std::string& without, const std::string& with,
                       const std::string& change, const std::string& share) {
    return narrow ? table.row(name, without, with, change.empty() ? share : change)
                  : table.row(name, without, with, change, share);
  };
  const auto relative = [](double a, double b) { return a == 0 ? std::string() : signed_percent(b / a - 1); };
  std::string text = heading("What --set changes", style) + table.row("", "without", "with", "change");
  text += row("step time", time_text(before.step_time_s), time_text(after.step_time_s),
              change_text(after.step_time_s - before.step_time_s), relative(before.step_time_s, after.step_time_s));
  for (const MovedPart& part : large_moves(before, after))
    text += table.row("  " + part.name, time_text(part.before_s), time_text(part.after_s), change_text(part.by_s()));
  text += row("tokens/s per GPU", number(before.tokens_per_s / before.ranks), number(after.tokens_per_s / after.ranks),
              "", relative(before.tokens_per_s / before.ranks, after.tokens_per_s / after.ranks));
  if (before.ranks != after.ranks)
    text += row("tokens/s", number(before.tokens_per_s), number(after.tokens_per_s), "",
                relative(before.tokens_per_s, after.tokens_per_s));
  text += table.row("MFU", percent(before.mfu), percent(after.mfu));
  const double memory = peak_gib(after) - peak_gib(before);
  text += table.row("memory of the fullest GPU", fmt::format("{:.1f} GiB", peak_gib(before)),
                    fmt::format("{:.1f} GiB", peak_gib(after)),
                    std::abs(memory) < 0.05 ? "none" : fmt::format("{:+.1f} GiB", memory));
  if (const std::string fits = fits_text(before, after); !fits.empty())
    text += paint(fmt::format("    {}\n", fits), after.fits ? Colour::green : Colour::red, style);
  const auto per_million_tokens = [&](const char* unit, const std::optional<Range3>& was,
                                      const std::optional<Range3>& is) {
    if (was && is)
      text += row(fmt::format("{} per million tokens", unit), number(was->typical), number(is->typical), "",
                  relative(was->typical, is->typical));
  };
  per_million_tokens("USD", unchanged.usd_per_million_tokens, unchanged.usd_per_million_tokens_after);
  per_million_tokens("kWh", unchanged.kwh_per_million_tokens, unchanged.kwh_per_million_tokens_after);
  for (const std::string& note : scenario.notes)
    if (note.find("follows from") != std::string::npos) text += paragraph("  ", note, style);
  return text;
}

// ---- Where the numbers come from ---------------------------------------------------------------------------------

std::string where_it_comes_from(const Scenario& scenario, const Forecast& f, const TextStyle& style) {
  std::string text = heading("Where the numbers come from", style);
  for (const std::string& line : sources_of_numbers(scenario, f, style))
    text += paragraph(style.unicode ? "  • " : "  - ", line, style);
  text += paint(paragraph("  ",
                          fmt::format("{} {} of ranks, {} operations simulated in {}, {:.0f} MiB", number(f.classes, 1),
                                      f.classes == 1 ? "class" : "classes", number(static_cast<double>(f.events), 1),
                                      time_text(f.wall_s), f.peak_rss_mib),
                          style),
                Colour::grey, style);
  return text;
}

}  // namespace

std::string terminal_page(const Scenario& scenario, const Plan& plan, const Forecast& forecast, const TextStyle& wanted,
                          const Unchanged* unchanged) {
  TextStyle style = wanted;
  style.width = std::min(style.width, kWidest);
  std::string page = head(scenario, plan, style) + "\n" + answer(scenario, forecast, style, unchanged);
  if (unchanged != nullptr) page += "\n" + what_changes(scenario, *unchanged, forecast, style);
  page += "\n" + time_section(forecast, style);
  if (!forecast.causes.empty()) page += "\n" + explain_page(forecast, style);
  page += "\n" + memory_section(forecast, plan, style);
  if (!forecast.bandwidth.empty()) page += "\n" + bandwidth_section(forecast, scenario.cluster, style);
  return page + "\n" + where_it_comes_from(scenario, forecast, style);
}

}  // namespace tracecast
