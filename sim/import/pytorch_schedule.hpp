/// \file
/// Pipeline schedules as torch.distributed.pipelining writes them: CSV without header, a row per pipeline rank, a cell per
/// action in execution order.
///
///   0F3, 0B3, 0I3, 0W3                    forward, full backward, input and weight gradients of micro-batch 3, stage 0
///   (0F7;7B3)OVERLAP_F_B                  forward and backward that run together
///   0SEND_F3, 1RECV_F3, 1SEND_B3, 0RECV_B3    communication
///   0UNSHARD, 0RESHARD, 0REDUCE_GRAD      parameters and gradients of a stage (FSDP)
///   (nothing)                             an idle slot, in files of computation only
///
/// Files of computation only are a grid of time slots; files with communication are lists. Early files have B for the
/// input gradient and BW for the full backward; that dialect is recognised and converted.
///
/// Source: docs/references.md#pytorch-pipelining; docs/formats/pytorch_schedule.md.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "sim/base/result.hpp"
#include "sim/schedule/program.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {

enum class ScheduleDialect {
  detect,  ///< legacy when there is W but no I, and every stage and micro-batch that has a B has a W; or when there is BW
  current,
  legacy,
};

struct PytorchSchedule {
  std::string file;      ///< for messages
  PipelineProgram rows;  ///< as in the file, idle slots included
  bool with_communication = false;
  bool was_legacy = false;  ///< B and BW were read as I and B
  bool operator==(const PytorchSchedule&) const = default;
};

/// Errors, each with row and column: a cell that is no action; an idle slot in a file with communication; no rows.
Result<PytorchSchedule> parse_pytorch_schedule(std::string_view text, std::string file,
                                               ScheduleDialect dialect = ScheduleDialect::detect);
Result<PytorchSchedule> read_pytorch_schedule(const std::filesystem::path& path,
                                              ScheduleDialect dialect = ScheduleDialect::detect);

/// The computation of a file as a schedule that `check` accepts.
/// Errors name rank and column where they can:
///
///   stages          one on two ranks; ranks with different numbers of them
///   actions         one that repeats or is missing; a backward before its forward, a weight before its input gradient
///   waits           ranks that wait for each other in a circle
///   communication   where the file has it: a send or receive that is missing, repeated, or not between neighbours
Result<Schedule> schedule_of(const PytorchSchedule& file);

/// A row per line, line ends "\n" or "\r\n" (PyTorch's own dump has "\r\n"). Reading it gives the program back.
std::string to_pytorch_csv(const PipelineProgram& program, bool carriage_returns = false);

/// Errors: a schedule with two copies of the model, which the format cannot say.
Result<std::string> to_pytorch_csv(const Schedule& schedule, bool carriage_returns = false);

}  // namespace tracecast
