#include "sim/report/terminal_memory.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "sim/plan/optimizers.hpp"
#include "sim/plan/parameter_states.hpp"
#include "sim/plan/precision.hpp"

namespace tracecast {
namespace {

struct MemoryPart {
  std::string_view name;
  Bytes MemoryByKind::*bytes;
  Colour colour;
  std::string_view block;   ///< without colour
  std::string_view letter;  ///< plain
};
constexpr std::array<MemoryPart, 7> kMemoryParts = {{
    {"weights", &MemoryByKind::weights, Colour::blue, "█", "W"},
    {"gradients", &MemoryByKind::gradients, Colour::cyan, "▓", "G"},
    {"optimizer", &MemoryByKind::optimizer, Colour::magenta, "▒", "O"},
    {"activations", &MemoryByKind::activations, Colour::green, "░", "A"},
    {"transient", &MemoryByKind::transient, Colour::yellow, "▞", "T"},
    {"fixed", &MemoryByKind::fixed, Colour::grey, "▚", "F"},
    {"fragmentation", &MemoryByKind::fragmentation, Colour::red, "╱", "f"},
}};

std::string block(const MemoryPart& part, const TextStyle& style) {
  return std::string(!style.unicode ? part.letter : style.colour ? "█" : part.block);
}

/// One row's stacked bar. Each part ends where the running sum rounds to, so the whole bar has its correct length. If
/// some rank needs more memory than available, a line marks the capacity.
std::string memory_bar(const MemoryByKind& memory, Bytes capacity, Bytes full_scale, int width,
                       const TextStyle& style) {
  const auto column = [&](Bytes upto) {
    return static_cast<int>(
        std::lround(static_cast<double>(upto.count) / static_cast<double>(full_scale.count) * width));
  };
  const int limit = capacity < full_scale ? column(capacity) : width;
  std::string drawn;
  int at = 0;
  const auto draw = [&](int end, std::string_view glyph, Colour colour) {
    std::string piece;
    for (; at < end; ++at) piece += at == limit ? "|" : glyph;
    drawn += paint(piece, colour, style);
  };
  Bytes upto;
  for (const MemoryPart& part : kMemoryParts) {
    upto += memory.*part.bytes;
    draw(column(upto), block(part, style), part.colour);
  }
  draw(width, style.unicode ? "·" : ".", Colour::grey);
  return drawn;
}

/// Pipeline ranks with the same memory in a row: "pp 1-14".
struct MemoryRow {
  std::string name;
  MemoryByKind memory;
};

/// With more than kMaxRows of them, adjacent ones share a row, which shows the one with the most memory.
std::vector<MemoryRow> memory_rows(const Forecast& f) {
  constexpr std::size_t kMaxRows = 16;
  const std::size_t together = (f.memory.size() + kMaxRows - 1) / kMaxRows;
  std::vector<MemoryRow> rows;
  for (std::size_t first = 0; first < f.memory.size();) {
    std::size_t end = std::min(first + together, f.memory.size());
    while (together == 1 && end < f.memory.size() && f.memory[end] == f.memory[first]) ++end;
    const auto fullest = std::max_element(
        f.memory.begin() + static_cast<std::ptrdiff_t>(first), f.memory.begin() + static_cast<std::ptrdiff_t>(end),
        [](const MemoryByKind& a, const MemoryByKind& b) { return a.total() < b.total(); });
    rows.push_back({end - first > 1 ? fmt::format("pp {}-{}", first, end - 1) : fmt::format("pp {}", first), *fullest});
    first = end;
  }
  return rows;
}

/// Only the kinds that occur, on as many lines as needed.
std::string memory_legend(const Forecast& f, const TextStyle& style) {
  std::string text = " ";
  int used = 1;
  for (const MemoryPart& part : kMemoryParts) {
    if (std::ranges::all_of(f.memory, [&](const MemoryByKind& rank) { return rank.*part.bytes == Bytes{}; })) continue;
    const int length = 3 + columns(part.name);
    if (used + length > style.width) {
      text += "\n ";
      used = 1;
    }
    text += fmt::format(" {} {}", paint(block(part, style), part.colour, style), part.name);
    used += length;
  }
  return text + "\n";
}

/// "17.64 GB weights, 17.64 GB gradients": the parts that there are, in the GB that papers count in.
std::string memory_parts_text(const MemoryByKind& memory) {
  std::vector<std::string> parts;
  for (const MemoryPart& part : kMemoryParts)
    if (const Bytes bytes = memory.*part.bytes; bytes > Bytes{})
      parts.push_back(fmt::format("{:.2f} GB {}", static_cast<double>(bytes.count) * 1e-9, part.name));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string matrix_states_text(const Training& training) {
  const Optimizer& optimizer = optimizer_of(training.optimizer);
  if (optimizer.matrices == MatrixWork::newton_schulz)
    return "; one state less for the matrices that Muon orthogonalises";
  if (optimizer.matrices == MatrixWork::factored)
    return "; of matrices sums of rows and columns in place of the variance";
  return has_preconditioners(optimizer) ? "; of matrices also statistics of their sides and what is made of them" : "";
}

/// "states: 18 bytes per trained parameter (2 weights, 4 gradients, 12 optimizer), 9 times its 16-bit weight; …".
std::string bytes_text(const Plan& plan) {
  const Training& t = plan.training;
  const StateBytes bytes = bytes_per_parameter(t, plan.parallel.zero_stage);
  const std::int64_t weight = wide_size(t);
  return fmt::format(
      "states before they are divided: {} bytes per trained parameter ({} weights, {} gradients, {} "
      "optimizer), {:.3g} times its {}-bit weight{}",
      bytes.total(), bytes.weights, bytes.gradients, bytes.optimizer,
      static_cast<double>(bytes.total()) / static_cast<double>(weight), 8 * weight, matrix_states_text(t));
}

/// "host memory: a GPU offloads up to 145.5 GiB, the GPUs of a host 1,164.0 of 1,862.6 GiB".
std::string host_memory(const Forecast& f, const TextStyle& style) {
  if (f.host_peak == Bytes{}) return "";
  const std::string known =
      f.host_capacity == Bytes{}
          ? fmt::format("{} GiB; the topology does not say how much a host has", number(gib(f.host_used), 4))
          : fmt::format("{} of {} GiB", number(gib(f.host_used), 4), number(gib(f.host_capacity), 4));
  return paragraph("  ",
                   fmt::format("host memory: a GPU offloads up to {:.1f} GiB, the GPUs of a host together {}",
                               gib(f.host_peak), known),
                   style);
}

}  // namespace

std::string memory_section(const Forecast& f, const Plan& plan, const TextStyle& style) {
  const Bytes peak = f.memory[static_cast<std::size_t>(f.tightest_pp_rank)].total();
  std::string text = heading(fmt::format("Memory per GPU ({:.1f} GiB usable)", gib(f.memory_capacity)), style);
  const std::string_view verdict = f.fits ? "fits" : f.fits_gpus ? "does not fit the host" : "does not fit";
  std::string line = paragraph("  ",
                               fmt::format("{}: the peak is {:.1f} GiB, on pipeline rank {} (rank {})", verdict,
                                           gib(peak), f.tightest_pp_rank, f.peak_rank),
                               style);
  text += line.replace(2, verdict.size(), paint(verdict, f.fits ? Colour::green : Colour::red, style));
  text += paragraph("  ", memory_parts_text(f.memory[static_cast<std::size_t>(f.tightest_pp_rank)]) + " there", style);
  text += paragraph("  ", bytes_text(plan), style);
  const Bytes full_scale = std::max(peak, f.memory_capacity);
  for (const MemoryRow& row : memory_rows(f)) {
    const bool over = row.memory.total() > f.memory_capacity;
    const std::string figures = fmt::format("{:>7.1f} GiB", gib(row.memory.total()));
    const std::string name = pad_right(row.name, 9);
    const int width = style.width - 2 - columns(name) - columns(figures) - 1;
    text += fmt::format("  {}{}{}\n", name, memory_bar(row.memory, f.memory_capacity, full_scale, width, style),
                        over ? paint(figures, Colour::red, style) : figures);
  }
  return text + host_memory(f, style) + memory_legend(f, style);
}

}  // namespace tracecast
