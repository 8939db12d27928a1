#include "sim/report/terminal_time.hpp"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/report/settings_text.hpp"

namespace tracecast {
namespace {

struct Share {
  std::string name;
  double time_s = 0;
  bool part = false;  ///< of the row above
  Colour colour = Colour::green;
};

/// The parts of a row, largest first. Parts below half a percent of the step are merged, except for the first.
void add_parts(std::vector<Share>& rows, std::vector<Share> parts, double step_s, Colour colour) {
  std::ranges::stable_sort(parts, std::greater{}, &Share::time_s);
  std::erase_if(parts, [](const Share& part) { return part.time_s <= 0; });
  const auto large = [&](const Share& part) { return part.time_s >= 0.005 * step_s; };
  std::size_t named = static_cast<std::size_t>(std::ranges::count_if(parts, large));
  if (named == 0 || named + 1 == parts.size()) named = std::min(named + 1, parts.size());
  double small = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i < named)
      rows.push_back({spaced(parts[i].name), parts[i].time_s, true, colour});
    else
      small += parts[i].time_s;
  }
  if (small > 0) rows.push_back({"other", small, true, colour});
}

double sum(const std::vector<Share>& parts) {
  double total = 0;
  for (const Share& part : parts) total += part.time_s;
  return total;
}

std::vector<Share> shares(const Forecast& f) {
  std::vector<Share> kinds;
  for (const auto& [kind, time_s] : f.compute_s) kinds.push_back({kind, time_s});
  std::vector<Share> traffic;
  for (std::size_t kind = 0; kind < kTrafficKinds; ++kind)
    traffic.push_back({to_string(static_cast<Traffic>(kind)), f.exposed_s[kind]});
  std::vector<Share> rows = {{"compute", sum(kinds), false, Colour::green}};
  add_parts(rows, std::move(kinds), f.step_time_s, Colour::green);
  rows.push_back({"exposed communication", sum(traffic), false, Colour::yellow});
  add_parts(rows, std::move(traffic), f.step_time_s, Colour::yellow);
  rows.push_back({"pipeline bubble", f.bubble_fraction * f.step_time_s, false, Colour::red});
  rows.push_back({"optimizer", f.optimizer_s, false, Colour::blue});
  rows.push_back({"host", f.host_s, false, Colour::magenta});
  return rows;
}

/// "7.7 GB/s of 50.0 GB/s".
std::string bandwidth_text(const AxisBandwidth& each) {
  return fmt::format("{:>7.4g} of {:>6.4g} GB/s", each.required * 1e-9, each.available * 1e-9);
}

/// "a node's 3,200 Gb/s are 400 GB/s for 8 GPUs, 50 GB/s for each": vendors name the first, a rank has the last.
std::string node_rate_text(const NodeSpec& node) {
  const double rate = static_cast<double>(node.nic_rate.bytes_per_second) * node.nics * node.hosts() * 1e-9;
  return fmt::format("network: a node's {} Gb/s are {:.4g} GB/s for {} GPUs, {:.4g} GB/s for each", number(8 * rate, 1),
                     rate, node.gpus, rate / node.gpus);
}

std::string site_rate_text(const Cluster& cluster) {
  const double rate = static_cast<double>(cluster.sites.wan_rate.bytes_per_second) * 1e-9;
  const int gpus = cluster.world_size / cluster.sites.count;
  return fmt::format("wan: a site's {} Gb/s are {:.4g} GB/s for {} GPUs, {:.4g} GB/s for each", number(8 * rate, 1),
                     rate, number(gpus, 1), rate / gpus);
}

}  // namespace

std::string time_section(const Forecast& f, const TextStyle& style) {
  constexpr int kName = 24;
  std::string text = heading("Where the time goes (mean over all GPUs)", style);
  for (const Share& row : shares(f)) {
    const std::string name = pad_right((row.part ? "  " : "") + row.name, kName, style);
    const double share = row.time_s / f.step_time_s;
    const std::string time = row.time_s > 0 ? time_text(row.time_s) : "none";
    std::string figures = fmt::format("  {}{:>9} {:>7}  ", name, time, percent(share));
    const std::string drawn = without_trailing_blanks(bar(share, style.width - columns(figures), style));
    if (drawn.empty()) figures = without_trailing_blanks(figures);
    text += row.part ? paint(figures, Colour::grey, style) : figures;
    text += (drawn.empty() ? "" : paint(drawn, row.colour, style)) + "\n";
  }
  if (f.schedule_bubble)
    text += paragraph(
        "  ", fmt::format("the schedule alone, without host and messages: {} bubble", percent(*f.schedule_bubble)),
        style);
  return text;
}

std::string bandwidth_section(const Forecast& f, const Cluster& cluster, const TextStyle& style) {
  std::string text = heading("Bandwidth that each axis asks of its links (per GPU)", style);
  for (const AxisBandwidth& each : f.bandwidth) {
    const std::string group = each.nodes > 1 ? fmt::format("{} ranks on {} nodes", each.ranks, each.nodes)
                                             : fmt::format("{} ranks of a node", each.ranks);
    const std::string figures =
        fmt::format("  {} {} {} {} {:>7}  ", pad_right(each.axis, 3), pad_right(each.link, 8),
                    style.width < kNarrow ? pad_right(fmt::format("{} ranks", each.ranks), 11) : pad_right(group, 24),
                    bandwidth_text(each), percent(each.ratio()));
    const std::string drawn =
        without_trailing_blanks(bar(std::min(1.0, each.ratio()), style.width - columns(figures), style));
    text += drawn.empty() ? without_trailing_blanks(figures)
                          : figures + paint(drawn, each.ratio() > kBusyLinks ? Colour::red : Colour::yellow, style);
    text += "\n";
  }
  if (std::ranges::any_of(f.bandwidth, [](const AxisBandwidth& each) { return each.nodes > 1; }))
    text += paragraph("  ", node_rate_text(cluster.node), style);
  if (std::ranges::find(f.bandwidth, link_name(LinkClass::wan, cluster), &AxisBandwidth::link) != f.bandwidth.end())
    text += paragraph("  ", site_rate_text(cluster), style);
  return text;
}

}  // namespace tracecast
