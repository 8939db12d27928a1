#include "sim/import/pytorch_schedule.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sim/base/words.hpp"
#include "sim/import/pytorch_schedule_cells.hpp"
#include "sim/io/read_file.hpp"

namespace tracecast {

namespace {

struct Token {
  std::string_view letters;
  PipelineOpKind kind;
  bool has_microbatch;
};

/// Longer letters first where one is the beginning of another: BW is legacy for the full backward.
constexpr Token kTokens[] = {
    {"SEND_F", PipelineOpKind::send_forward, true},      {"RECV_F", PipelineOpKind::receive_forward, true},
    {"SEND_B", PipelineOpKind::send_backward, true},     {"RECV_B", PipelineOpKind::receive_backward, true},
    {"UNSHARD", PipelineOpKind::unshard, false},         {"RESHARD", PipelineOpKind::reshard, false},
    {"REDUCE_GRAD", PipelineOpKind::reduce_grad, false}, {"F", PipelineOpKind::forward, true},
    {"I", PipelineOpKind::backward_input, true},         {"B", PipelineOpKind::backward, true},
    {"W", PipelineOpKind::backward_weight, true},
};
constexpr std::string_view kFullBackwardLegacy = "BW";
constexpr std::string_view kOverlap = "OVERLAP_F_B";
constexpr const char* kAllowed =
    "unknown action (allowed: stage, then F B I W SEND_F RECV_F SEND_B RECV_B and micro-batch, or UNSHARD RESHARD "
    "REDUCE_GRAD; (0F1;3B0)OVERLAP_F_B)";

/// Takes decimal digits off the front; at most seven, which no real schedule exceeds.
std::optional<int> take_number(std::string_view& text) {
  constexpr std::size_t kDigits = 7;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto length = static_cast<std::size_t>(end - text.data());
  if (error != std::errc{} || length == 0 || length > kDigits || value < 0 || text.front() == '-') return std::nullopt;
  text.remove_prefix(length);
  return value;
}

std::optional<PipelineOp> parse_simple(std::string_view text, bool& full_backward_legacy) {
  const std::optional<int> stage = take_number(text);
  if (!stage) return std::nullopt;
  if (text.starts_with(kFullBackwardLegacy)) {
    full_backward_legacy = true;
    text.remove_prefix(1);  // what is left reads as W, which the caller makes a full backward
  }
  const auto token = std::ranges::find_if(kTokens, [&](const Token& t) { return text.starts_with(t.letters); });
  if (token == std::end(kTokens)) return std::nullopt;
  text.remove_prefix(token->letters.size());
  PipelineOp step{token->kind, *stage, -1, -1, -1};
  if (token->has_microbatch) {
    const std::optional<int> microbatch = take_number(text);
    if (!microbatch) return std::nullopt;
    step.microbatch = *microbatch;
  }
  if (!text.empty()) return std::nullopt;
  return step;
}

/// (0F7;7B3)OVERLAP_F_B
std::optional<PipelineOp> parse_overlap(std::string_view text) {
  if (!text.ends_with(kOverlap)) return std::nullopt;
  text.remove_suffix(kOverlap.size());
  if (!text.starts_with('(') || !text.ends_with(')')) return std::nullopt;
  text = text.substr(1, text.size() - 2);
  const std::size_t middle = text.find(';');
  if (middle == std::string_view::npos) return std::nullopt;
  bool legacy = false;
  const auto first = parse_simple(trim(text.substr(0, middle)), legacy);
  const auto second = parse_simple(trim(text.substr(middle + 1)), legacy);
  if (!first || !second || legacy || first->kind != PipelineOpKind::forward ||
      second->kind != PipelineOpKind::backward) {
    return std::nullopt;
  }
  return PipelineOp{PipelineOpKind::overlapped, first->stage, first->microbatch, second->stage, second->microbatch};
}

/// Cells of one file, and which of them were written BW.
struct Cells {
  PipelineProgram rows;
  std::set<std::pair<std::size_t, std::size_t>> full_backwards;
};

Result<void> parse_row(std::string_view line, const std::string& file, Cells& cells) {
  const std::size_t rank = cells.rows.size();
  std::vector<PipelineOp>& row = cells.rows.emplace_back();
  for (const std::string_view each : split(line)) {
    const std::string_view cell = trim(each);
    bool full_backward = false;
    std::optional<PipelineOp> step = PipelineOp{};
    if (!cell.empty()) step = cell.starts_with('(') ? parse_overlap(cell) : parse_simple(cell, full_backward);
    if (!step) return fail(cell_diagnostic(file, rank, row.size(), std::string(cell.substr(0, 60)), kAllowed));
    if (full_backward) cells.full_backwards.emplace(rank, row.size());
    row.push_back(*step);
  }
  return {};
}

Result<Cells> parse_cells(std::string_view text, const std::string& file) {
  Cells cells;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() && trim(text, " \t\r\n").empty()) break;  // blank lines at the end
    if (Result<void> row = parse_row(line, file, cells); !row) return tl::unexpected(row.error());
  }
  if (cells.rows.empty()) return fail({.file = file, .line = 0, .key = {}, .value = {}, .message = "has no rows"});
  return cells;
}

/// Is it the old dialect, where B is the input gradient? Then there is W but no I, and a W for every B.
bool looks_legacy(const Cells& cells) {
  if (!cells.full_backwards.empty()) return true;
  std::set<std::pair<int, int>> backwards;
  std::set<std::pair<int, int>> weights;
  for (const auto& row : cells.rows) {
    for (const PipelineOp& step : row) {
      if (step.kind == PipelineOpKind::backward_input || step.kind == PipelineOpKind::overlapped) return false;
      if (step.kind == PipelineOpKind::backward) backwards.emplace(step.stage, step.microbatch);
      if (step.kind == PipelineOpKind::backward_weight) weights.emplace(step.stage, step.microbatch);
    }
  }
  return !weights.empty() && weights == backwards;
}

void convert_legacy(Cells& cells) {
  for (std::size_t rank = 0; rank < cells.rows.size(); ++rank) {
    for (std::size_t i = 0; i < cells.rows[rank].size(); ++i) {
      PipelineOp& step = cells.rows[rank][i];
      if (step.kind == PipelineOpKind::backward) step.kind = PipelineOpKind::backward_input;
      if (cells.full_backwards.contains({rank, i})) step.kind = PipelineOpKind::backward;
    }
  }
}

bool communicates(const PipelineOp& step) { return step.kind != PipelineOpKind::idle && !is_compute(step.kind); }

}  // namespace

Result<PytorchSchedule> parse_pytorch_schedule(std::string_view text, std::string file, ScheduleDialect dialect) {
  Result<Cells> cells = parse_cells(text, file);
  if (!cells) return tl::unexpected(cells.error());
  PytorchSchedule schedule;
  schedule.was_legacy =
      dialect == ScheduleDialect::legacy || (dialect == ScheduleDialect::detect && looks_legacy(*cells));
  if (schedule.was_legacy) {
    convert_legacy(*cells);
  } else if (!cells->full_backwards.empty()) {
    const auto [rank, column] = *cells->full_backwards.begin();
    return fail(cell_diagnostic(file, rank, column, "BW", "is of the old dialect (B for input gradients)"));
  }
  schedule.rows = std::move(cells->rows);
  schedule.file = std::move(file);
  for (const auto& row : schedule.rows) {
    schedule.with_communication = schedule.with_communication || std::any_of(row.begin(), row.end(), communicates);
  }
  for (std::size_t rank = 0; schedule.with_communication && rank < schedule.rows.size(); ++rank) {
    const auto& row = schedule.rows[rank];
    const auto idle = std::find(row.begin(), row.end(), PipelineOp{});
    if (idle == row.end()) continue;
    return fail(cell_diagnostic(schedule.file, rank, static_cast<std::size_t>(idle - row.begin()), "",
                                "is empty, in a file with communication, where columns are no time slots"));
  }
  return schedule;
}

Result<PytorchSchedule> read_pytorch_schedule(const std::filesystem::path& path, ScheduleDialect dialect) {
  const Result<std::string> text = read_file(path, kMaxOwnFile);
  if (!text) return tl::unexpected(text.error());
  return parse_pytorch_schedule(*text, path.string(), dialect);
}

std::string to_pytorch_csv(const PipelineProgram& program, bool carriage_returns) {
  std::string text;
  for (const std::vector<PipelineOp>& row : program) {
    for (std::size_t i = 0; i < row.size(); ++i) text += (i == 0 ? "" : ",") + to_string(row[i]);
    text += carriage_returns ? "\r\n" : "\n";
  }
  return text;
}

Result<std::string> to_pytorch_csv(const Schedule& schedule, bool carriage_returns) {
  if (schedule.replicas > 1) {
    return fail_key("schedule", schedule.name,
                    "holds two copies of the model; PyTorch's format has one rank per stage");
  }
  if (!schedule.flush) {
    return fail_key("schedule", schedule.name,
                    "has no flush; PyTorch's format has one step, which fills and drains the pipeline");
  }
  return to_pytorch_csv(program_of(schedule), carriage_returns);
}

}  // namespace tracecast
