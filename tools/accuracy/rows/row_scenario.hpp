/// \file
/// A published run as a scenario: one row of a table of runs. One rule fills in what a source does not report.
///
/// How a row becomes a scenario. Sources print the same thing in many words, leave most of it out, and name software whose
/// defaults decide the rest. So scenario_of_row
///
///   1  finds the software stack by the framework's name          framework_names, scenarios/stacks
///   2  reads the model                                           row_model, model_names, model_families
///   3  reads the machine                                         row_machine, machine_table, gpu_names, network_words
///   4  reads the layout, starting from the stack's               row_parallel, zero_stage
///   5  reads the training, starting from the stack's             row_training, row_graphs, row_recompute, recomputed_layers
///   6  pads and checks the model for that layout                 row_model
///
/// Steps 2 to 6 are classes derived from RowPart (row_part.hpp). They ask TableFields (table_fields) for numbers and cell_words for
/// what words mean, take files from RowLibrary (row_library), change one RowScenario, and add a sentence to `assumptions` for whatever
/// the row does not say. Callers: validate() forecasts every row of a table (validate.hpp), and chooses the recomputation that a row
/// does not report by memory.
///
/// The columns are those of docs/formats/runs.md; a table may have fewer. The same rule holds for every row:
///
///   degrees             1; data parallelism from the GPU count; ranks of experts as many as NVLink connects with Megatron-Core's
///                       stacks; of experts spread over ranks the stack's tensor degree
///   micro-batch         global batch / (micro-batches x dp) where those are reported, else 1, with a wider
///                       interval
///   schedule            1F1B; interleaved if neither it nor virtual stages are reported and the stack is Megatron-Core in
///                       NVIDIA's recipes, which overlaps messages only there
///   virtual stages      of an interleaved schedule: one layer each if the stages divide the layers, else none
///   ZeRO stage          1 with a distributed optimizer; if nothing is reported, the framework's name ("ZeRO-3"), 1 of Megatron-Core,
///                       else the stack's
///   sequences           divided with tensors by Megatron-Core, if the row does not say otherwise; else the stack's
///   recomputation       the least that fits in memory, with ZeRO-1 and fewer virtual stages where those are guesses
///                       (least_recompute.hpp)
///   stages              equal; if the stages do not divide the layers, embedding and loss count as layers where that
///                       helps, else the remaining layers go to the stages after the first
///   model               of a row without layers: the shipped one of that name (scenarios/models)
///   experts             of the shipped model or the family that is named, with the same width
///   vocabulary          the shipped model's, the family's, the stack's, else 51,200; padded to a multiple of 128 tp if tp does not divide it
///   attention           causal; fine-tuning that is packed, as all of Megatron-Core is, attends to 400 tokens
///                       (docs/references.md#packed-sequences)
///   dispatcher          of experts: named in the name of the run or a note, else the stack's
///   fp8                 one scale for a tensor; slower with a scale for each row
///   everything else     the software stack's (sim/io/stack.hpp), found by the framework's name (framework_names.hpp)
///   dropout             of GPT-like models: the stack's
///   racks               as many GPUs of each as divide the job (use_racks): 64 of 72 for a job of 256
///   machine             row_machine.hpp
///   global batch        micro-batch x micro-batches x dp; rounded where it is nearly a multiple of micro-batch x dp
///
/// Everything that was filled in is listed in `assumptions`.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/io/csv_table.hpp"
#include "tools/accuracy/rows/row_library.hpp"

namespace tracecast::accuracy {

/// The scenario of a row.
struct RowScenario {
  std::size_t row = 0;  ///< of the table
  Scenario scenario;
  std::string stack;     ///< "": unknown framework
  std::string software;  ///< stack, or in lower case a framework without one; with the release that the row names
  MemoryReport memory_report = MemoryReport::allocated;
  bool steps_overlap = false;            ///< by the stack, in runs without data parallelism
  bool guessed_schedule = false;         ///< interleaved by the stack; neither it nor virtual stages are reported
  bool guessed_layout = false;           ///< micro-batch, virtual stages or ranks of experts are not reported
  bool guessed_chunks = false;           ///< of these, virtual stages
  bool guess_recompute = false;          ///< to be chosen by memory, from training.recompute on
  int highest_zero_stage = 0;            ///< to be chosen by memory, up to this one; 0: something says it
  std::vector<std::string> assumptions;  ///< sentences
};

/// Errors: a required field that is absent (model shape, GPU, GPU count, sequence length, global batch) or out of
/// range; an unknown GPU. The first error only; it names the column.
Result<RowScenario> scenario_of_row(const CsvTable& table, std::size_t row, const RowLibrary& library);

}  // namespace tracecast::accuracy
