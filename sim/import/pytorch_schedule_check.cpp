/// From the rows of a file to a schedule: placement, completeness, order, communication.
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/import/pytorch_schedule.hpp"
#include "sim/import/pytorch_schedule_cells.hpp"

namespace tracecast {

namespace {

struct Cell {
  std::size_t rank = 0;
  std::size_t index = 0;
};
/// Kind, stage, micro-batch.
using StepPart = std::tuple<PipelineOpKind, int, int>;

/// A step as its parts: itself, or the two halves of an overlapped pair.
std::vector<StepPart> parts_of(const PipelineOp& step) {
  if (step.kind != PipelineOpKind::overlapped) return {{step.kind, step.stage, step.microbatch}};
  return {{PipelineOpKind::forward, step.stage, step.microbatch},
          {PipelineOpKind::backward, step.stage2, step.microbatch2}};
}

std::string token(PipelineOpKind kind, int stage, int microbatch) {
  return to_string(PipelineOp{kind, stage, microbatch, -1, -1});
}

class Checker {
 public:
  explicit Checker(const PytorchSchedule& file) : f_(file) {}

  Result<Schedule> run() {
    for (auto step : {&Checker::place, &Checker::even, &Checker::order, &Checker::complete, &Checker::communication}) {
      if (Result<void> ok = (this->*step)(); !ok) return tl::unexpected(ok.error());
    }
    Schedule schedule = build();
    if (Result<void> ok = check(schedule); !ok) {
      Diagnostic problem = ok.error().diagnostics.front();
      return fail({.file = f_.file, .line = 0, .key = {}, .value = {}, .message = problem.message});
    }
    return schedule;
  }

 private:
  tl::unexpected<Error> fail_at(std::size_t rank, std::size_t index, std::string message) const {
    return fail(cell_diagnostic(f_.file, rank, index, to_string(f_.rows[rank][index]), std::move(message)));
  }
  tl::unexpected<Error> fail_at(std::string message) const {
    return fail({.file = f_.file, .line = 0, .key = {}, .value = {}, .message = std::move(message)});
  }

  /// Calls visit(rank, index, step) until it fails.
  template <class Visit>
  Result<void> each(Visit visit) const {
    for (std::size_t rank = 0; rank < f_.rows.size(); ++rank) {
      for (std::size_t i = 0; i < f_.rows[rank].size(); ++i) {
        if (Result<void> ok = visit(rank, i, f_.rows[rank][i]); !ok) return ok;
      }
    }
    return {};
  }

  Result<void> place() {
    return each([this](std::size_t rank, std::size_t i, const PipelineOp& step) -> Result<void> {
      for (int stage : stages_of(step)) {
        const auto [at, fresh] = holder_.try_emplace(stage, rank);
        if (at->second != rank) {
          return fail_at(rank, i, fmt::format("stage {} is on rank {} already", stage, at->second));
        }
      }
      if (is_compute(step.kind)) microbatches_ = std::max({microbatches_, step.microbatch + 1, step.microbatch2 + 1});
      return {};
    });
  }

  Result<void> even() {
    int expected = 0;
    std::vector<int> held(f_.rows.size(), 0);
    for (const auto& [stage, rank] : holder_) {
      if (stage != expected++) return fail_at(fmt::format("stage {} is on no rank", expected - 1));
      ++held[rank];
    }
    for (std::size_t rank = 0; rank < held.size(); ++rank) {
      if (held[rank] == held[0] && held[rank] > 0) continue;
      return fail_at(fmt::format("rank {} holds {} stages and rank 0 holds {}", rank, held[rank], held[0]));
    }
    return {};
  }

  std::optional<Cell> find(PipelineOpKind kind, int stage, int microbatch) const {
    const auto found = parts_.find({kind, stage, microbatch});
    if (found == parts_.end()) return std::nullopt;
    return found->second;
  }

  /// Nothing twice, and on each rank the forward before the backward before the weight gradient.
  Result<void> order() {
    return each([this](std::size_t rank, std::size_t i, const PipelineOp& step) -> Result<void> {
      if (step.microbatch < 0) return {};
      for (const auto& [kind, stage, m] : parts_of(step)) {
        if (const auto before = find(kind, stage, m)) {
          return fail_at(rank, i, fmt::format("is in column {} already", before->index + 1));
        }
        if (Result<void> ok = after_its_inputs(rank, i, kind, stage, m); !ok) return ok;
        parts_[{kind, stage, m}] = {rank, i};
      }
      return {};
    });
  }

  Result<void> after_its_inputs(std::size_t rank, std::size_t i, PipelineOpKind kind, int stage, int m) const {
    const auto missing = [&](PipelineOpKind needed) { return !find(needed, stage, m); };
    const bool backward = kind == PipelineOpKind::backward || kind == PipelineOpKind::backward_input;
    if (backward && missing(PipelineOpKind::forward)) {
      return fail_at(rank, i,
                     fmt::format("its forward {} does not come before it", token(PipelineOpKind::forward, stage, m)));
    }
    if (kind == PipelineOpKind::backward && !missing(PipelineOpKind::backward_input)) {
      return fail_at(rank, i, "repeats an input gradient; a micro-batch has B, or I and W");
    }
    if ((kind == PipelineOpKind::backward_input || kind == PipelineOpKind::backward_weight) &&
        !missing(PipelineOpKind::backward)) {
      return fail_at(rank, i, "repeats a full backward; a micro-batch has B, or I and W");
    }
    if (kind == PipelineOpKind::backward_weight && missing(PipelineOpKind::backward_input)) {
      return fail_at(rank, i,
                     fmt::format("its input gradient {} does not come before it",
                                 token(PipelineOpKind::backward_input, stage, m)));
    }
    return {};
  }

  Result<void> complete() {
    for (const auto& [stage, rank] : holder_) {
      for (int m = 0; m < microbatches_; ++m) {
        std::optional<PipelineOpKind> lacks;
        const bool full = find(PipelineOpKind::backward, stage, m).has_value();
        const bool input = find(PipelineOpKind::backward_input, stage, m).has_value();
        if (!find(PipelineOpKind::forward, stage, m))
          lacks = PipelineOpKind::forward;
        else if (!full && !input)
          lacks = PipelineOpKind::backward;
        else if (input && !find(PipelineOpKind::backward_weight, stage, m))
          lacks = PipelineOpKind::backward_weight;
        if (lacks) return missing(rank, *lacks, stage, m);
      }
    }
    return {};
  }

  Result<void> missing(std::size_t rank, PipelineOpKind kind, int stage, int m) const {
    return fail(
        {.file = f_.file,
         .line = static_cast<int>(rank) + 1,
         .key = fmt::format("rank {}", rank),
         .value = {},
         .message = fmt::format("{} is missing (micro-batches are 0..{})", token(kind, stage, m), microbatches_ - 1)});
  }

  bool holds(std::size_t rank, int stage) const {
    const auto found = holder_.find(stage);
    return found != holder_.end() && found->second == rank;
  }

  /// Each side of a message is there, in its place, and nothing is sent that nobody needs.
  Result<void> communication() {
    if (!f_.with_communication) return {};
    const Result<void> places = each([this](std::size_t rank, std::size_t i, const PipelineOp& step) -> Result<void> {
      if (!is_send(step.kind) && !is_receive(step.kind)) return {};
      const bool down = step.kind == PipelineOpKind::send_forward || step.kind == PipelineOpKind::receive_backward;
      const auto other = holder_.find(step.stage + (down ? 1 : -1));
      if (!holds(rank, step.stage)) return fail_at(rank, i, fmt::format("stage {} is on another rank", step.stage));
      if (other == holder_.end() || other->second == rank || step.microbatch >= microbatches_) {
        return fail_at(rank, i, "no other rank is at the other end");
      }
      return {};
    });
    if (!places) return places;
    for (const auto& [stage, rank] : holder_) {
      const auto next = holder_.find(stage + 1);
      if (next == holder_.end() || next->second == rank) continue;
      for (int m = 0; m < microbatches_; ++m) {
        if (Result<void> ok =
                message({rank, PipelineOpKind::send_forward, stage, PipelineOpKind::forward},
                        {next->second, PipelineOpKind::receive_forward, stage + 1, PipelineOpKind::forward}, m);
            !ok)
          return ok;
        if (Result<void> ok =
                message({next->second, PipelineOpKind::send_backward, stage + 1, PipelineOpKind::backward},
                        {rank, PipelineOpKind::receive_backward, stage, PipelineOpKind::backward}, m);
            !ok)
          return ok;
      }
    }
    return {};
  }

  struct End {
    std::size_t rank;
    PipelineOpKind kind;
    int stage;
    PipelineOpKind
        compute;  ///< makes what is sent, or needs what is received; backward stands for the input gradient too
  };

  std::size_t column_of(const End& end, int m) const {
    const auto full = find(end.compute, end.stage, m);
    return full ? full->index : find(PipelineOpKind::backward_input, end.stage, m)->index;
  }

  Result<void> message(const End& from, const End& to, int m) const {
    for (const End* end : {&from, &to}) {
      if (!find(end->kind, end->stage, m)) return missing(end->rank, end->kind, end->stage, m);
    }
    const Cell send = *find(from.kind, from.stage, m);
    const Cell receive = *find(to.kind, to.stage, m);
    if (send.index < column_of(from, m)) return fail_at(send.rank, send.index, "comes before what it sends");
    if (receive.index > column_of(to, m))
      return fail_at(receive.rank, receive.index, "comes after the step that needs it");
    return {};
  }

  Schedule build() const {
    Schedule s;
    s.name = "imported";
    s.ranks = static_cast<int>(f_.rows.size());
    s.microbatches = microbatches_;
    s.chunks = static_cast<int>(holder_.size() / f_.rows.size());
    s.weight_versions.assign(f_.rows.size(), 1);
    s.stage_of.resize(f_.rows.size());
    for (const auto& [stage, rank] : holder_) s.stage_of[rank].push_back(stage);  // ascending: chunk 0 comes first
    s.replica_of.assign(f_.rows.size(), std::vector<int>(static_cast<std::size_t>(s.chunks), 0));
    s.actions.resize(f_.rows.size());
    for (std::size_t rank = 0; rank < f_.rows.size(); ++rank) {
      for (const PipelineOp& step : f_.rows[rank]) {
        if (is_compute(step.kind)) s.actions[rank].push_back(action_of(s.stage_of[rank], step));
      }
    }
    return s;
  }

  static Action action_of(const std::vector<int>& stages, const PipelineOp& step) {
    const auto chunk = [&](int stage) {
      return static_cast<std::int16_t>(std::find(stages.begin(), stages.end(), stage) - stages.begin());
    };
    const auto simple = [&](ActionKind kind) {
      return Action{.kind = kind, .chunk = chunk(step.stage), .microbatch = step.microbatch};
    };
    switch (step.kind) {
      case PipelineOpKind::forward:
        return simple(ActionKind::forward);
      case PipelineOpKind::backward:
        return simple(ActionKind::backward);
      case PipelineOpKind::backward_input:
        return simple(ActionKind::backward_input);
      case PipelineOpKind::backward_weight:
        return simple(ActionKind::backward_weight);
      default:
        break;
    }
    Action pair = simple(ActionKind::forward_backward);
    pair.chunk2 = chunk(step.stage2);
    pair.microbatch2 = step.microbatch2;
    return pair;
  }

  const PytorchSchedule& f_;
  std::map<int, std::size_t> holder_;  ///< stage -> rank
  std::map<StepPart, Cell> parts_;
  int microbatches_ = 0;
};

}  // namespace

Result<Schedule> schedule_of(const PytorchSchedule& file) { return Checker(file).run(); }

}  // namespace tracecast
