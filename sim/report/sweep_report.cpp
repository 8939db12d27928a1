#include "sim/report/sweep_report.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/markup.hpp"

namespace tracecast {
namespace {

/// Efficiency per GPU relative to the first valid point: 1 is perfect scaling.
double efficiency(const std::vector<GridPoint>& points, const GridPoint& point) {
  for (const GridPoint& first : points)
    if (first.error.empty()) return point.tokens_per_s_per_gpu / first.tokens_per_s_per_gpu;
  return 0;
}

/// The column header: "tp" of "parallel.tp", "slow_rank.0" of "perturb.slow_rank.0", or the whole key if two axes have the
/// same last part.
std::string_view column_head(const Sweep& sweep, const SweepAxis& axis) {
  const auto last = [](std::string_view key) {
    std::size_t dot = key.rfind('.');
    while (dot != std::string_view::npos && dot > 0 &&
           key.find_first_not_of("0123456789.", dot) == std::string_view::npos)
      dot = key.rfind('.', dot - 1);
    return key.substr(dot + 1);
  };
  const auto same_name =
      std::ranges::count(sweep.axes, last(axis.key), [&](const SweepAxis& a) { return last(a.key); });
  return same_name == 1 ? last(axis.key) : std::string_view(axis.key);
}

/// Of tokens/s per GPU, which compares batches and numbers of GPUs as well.
double relative_change(const Sweep& sweep, const GridPoint& point) {
  return point.tokens_per_s_per_gpu / sweep.unchanged.tokens_per_s_per_gpu - 1;
}

std::string change_of(const Sweep& sweep, const GridPoint& point) {
  if (!sweep.unchanged.error.empty()) return "";
  const double change = relative_change(sweep, point);
  return std::abs(change) < 5e-4 ? "same" : signed_percent(change);
}

void add_table(std::string& text, const Sweep& sweep, const std::vector<GridPoint>& points, const TextStyle& style) {
  std::vector<int> widths;
  int width_of_axes = 0;
  for (const SweepAxis& axis : sweep.axes) {
    int width = columns(column_head(sweep, axis));
    for (const std::string& value : axis.values) width = std::max(width, columns(value));
    widths.push_back(width);
    width_of_axes += width + 2;
    text += "  " + pad_left(column_head(sweep, axis), width);
  }
  const bool scaling = !sweep.weak.empty();
  constexpr int kChange = 12;  // columns of the last one
  const TextTable whole({8, 11, 10, 8, 6, 7}, 0);
  const TextTable small({8, 8, 6, 7}, 0);  // on narrow terminals
  const int needed = width_of_axes + columns(whole.line("", "", "", "", "", "GiB")) + kChange;
  const bool narrow = style.width < std::min(needed, 80);
  text += (narrow ? small.line("step s", "per GPU", "MFU %", "GiB")
                  : whole.line("step s", "90 %", "tokens/s", "per GPU", "MFU %", "GiB")) +
          (scaling ? "    of ideal\n" : "     change\n");
  bool all_fit = true;
  for (const GridPoint& point : points) {
    std::string line;
    for (std::size_t a = 0; a < sweep.axes.size(); ++a) line += "  " + pad_left(point.values[a], widths[a]);
    if (!point.error.empty()) {
      text += paragraph(line + "  ", point.error, style);
      continue;
    }
    const std::string step = number(point.step_time_s);
    const std::string rate = number(point.tokens_per_s_per_gpu);
    const std::string mfu = fmt::format("{:.1f}", 100 * point.mfu);
    const std::string memory = fmt::format("{:.1f}", point.memory_gib);
    line += narrow ? small.line(step, rate, mfu, memory)
                   : whole.line(step, fmt::format("{}-{}", number(point.p5_s, 3), number(point.p95_s, 3)),
                                number(point.tokens_per_s), rate, mfu, memory);
    line += point.fits ? "  " : paint(" !", Colour::red, style);
    line += pad_left(scaling ? percent(efficiency(points, point)) : change_of(sweep, point), scaling ? 10 : 9);
    text += without_trailing_blanks(line) + "\n";
    all_fit = all_fit && point.fits;
  }
  if (!all_fit) text += "  ! does not fit\n";
  std::set<std::string_view> notes;
  for (const GridPoint& point : points)
    if (!point.note.empty() && notes.insert(point.note).second) text += paragraph("  ", point.note, style);
}

/// "parallel.tp x training.micro_batch_size": the full keys of the columns.
std::string axis_names(const Sweep& sweep, const TextStyle& style) {
  std::vector<std::string_view> names;
  for (const SweepAxis& axis : sweep.axes) names.emplace_back(axis.key);
  return fmt::format("{}", fmt::join(names, style.unicode ? " × " : " x "));
}

/// A field of CSV.
std::string field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

void add_lines(std::string& text, const Sweep& sweep, const std::vector<GridPoint>& points, const char* scaling) {
  const bool unchanged = sweep.unchanged.error.empty();
  for (const GridPoint& p : points) {
    for (const std::string& value : p.values) text += field(value) + ",";
    if (p.error.empty())
      text += fmt::format("{},{},{:.9g},{:.9g},{:.9g},{:.6g},{:.6g},{},{:.9g},{:.9g},{},\n", scaling, p.gpus,
                          p.step_time_s, p.tokens_per_s, p.tokens_per_s_per_gpu, p.mfu, p.memory_gib, p.fits, p.p5_s,
                          p.p95_s, unchanged ? fmt::format("{:.6g}", relative_change(sweep, p)) : "");
    else
      text += fmt::format("{},,,,,,,,,,,{}\n", scaling, field(p.error));
  }
}

nlohmann::ordered_json objects(const Sweep& sweep, const std::vector<GridPoint>& points) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const GridPoint& p : points) {
    nlohmann::ordered_json object;
    for (std::size_t a = 0; a < sweep.axes.size(); ++a) object["values"][sweep.axes[a].key] = p.values[a];
    if (p.error.empty()) {
      object["gpus"] = p.gpus;
      object["step_time_s"] = p.step_time_s;
      object["p5_s"] = p.p5_s;
      object["p95_s"] = p.p95_s;
      object["tokens_per_s"] = p.tokens_per_s;
      object["tokens_per_s_per_gpu"] = p.tokens_per_s_per_gpu;
      object["mfu"] = p.mfu;
      object["memory_gib"] = p.memory_gib;
      object["fits"] = p.fits;
      if (sweep.unchanged.error.empty()) object["change"] = relative_change(sweep, p);
    } else {
      object["refused"] = p.error;
    }
    list.push_back(std::move(object));
  }
  return list;
}

}  // namespace

std::string sweep_page(const Sweep& sweep, const TextStyle& style) {
  const bool scaling = !sweep.weak.empty();
  std::string text = heading(scaling ? sweep.scenario + ": strong scaling, constant global batch"
                                     : fmt::format("{}: {}", sweep.scenario, axis_names(sweep, style)),
                             style) +
                     "\n";
  add_table(text, sweep, sweep.points, style);
  if (!scaling && sweep.unchanged.error.empty())
    text += paragraph("  ",
                      fmt::format("change: tokens per second per GPU against the scenario as it is, {} in {} s",
                                  number(sweep.unchanged.tokens_per_s_per_gpu), number(sweep.unchanged.step_time_s)),
                      style);
  if (!scaling) return text;
  text += "\n" + heading("Weak scaling, the global batch grows with the GPUs", style) + "\n";
  add_table(text, sweep, sweep.weak, style);
  return text;
}

std::string sweep_csv(const Sweep& sweep) {
  std::string text;
  for (const SweepAxis& axis : sweep.axes) text += field(axis.key) + ",";
  text += "scaling,gpus,step_time_s,tokens_per_s,tokens_per_s_per_gpu,mfu,memory_gib,fits,p5_s,p95_s,change,refused\n";
  add_lines(text, sweep, sweep.points, sweep.weak.empty() ? "" : "strong");
  add_lines(text, sweep, sweep.weak, "weak");
  return text;
}

std::string sweep_json(const Sweep& sweep) {
  nlohmann::ordered_json root;
  root["scenario"] = sweep.scenario;
  root["points"] = objects(sweep, sweep.points);
  if (!sweep.weak.empty()) root["weak"] = objects(sweep, sweep.weak);
  return json_file(root);
}

}  // namespace tracecast
