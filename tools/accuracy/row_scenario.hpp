/// \file
/// A published run as a scenario: one row of a table of measured runs, by one rule for what its source does not print.
///
/// The table's columns are those of docs/formats/runs.md; a table may have fewer. The rule, which holds for every row alike:
///
///   degrees             1; data parallelism from the GPU count; of experts spread over ranks the stack's tensor degree
///   micro-batch         global batch / (micro-batches x dp) where those are printed, else 1, and the band is wider
///   schedule            1F1B; interleaved where neither it nor virtual stages are printed and the stack overlaps messages
///   virtual stages      of an interleaved schedule: one layer each where layers divide by the stages, else none
///   ZeRO stage          1 with a distributed optimizer, else the stack's; 3, whatever is printed, where without a pipeline
///                       not even recomputing everything would make a run fit that completed
///   recomputation       the least that fits the GPU's memory: none, the attention scores, layer after layer of every
///                       virtual stage, everything; none where nothing makes it fit
///   stages              even; where layers do not divide, embedding and loss count as layers where that makes them divide,
///                       else the layers that are left over go to the stages after the first
///   vocabulary          the stack's, else 51,200; padded to a multiple of 128 tp where tp does not divide it
///   attention           causal; packed fine-tuning attends to 400 tokens (docs/references.md#packed-sequences)
///   dispatcher          of experts: named in what the source calls the run or in a note, else the stack's
///   fp8                 one scale for a tensor; slower with scales by row, where the row says so
///   everything else     the software stack's (sim/io/stack.hpp), found by the framework's name
///   dropout             of GPT-like models: the stack's
///   nodes               as many GPUs of each as divide the job: of a rack of 72, 64 where the job is 256
///   machine             tools/accuracy/row_machine.hpp
///   global batch        micro-batch x micro-batches x dp
///
/// What was filled in is listed for each row.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/io/csv_table.hpp"
#include "sim/io/files.hpp"
#include "sim/io/stack.hpp"

namespace tracecast::accuracy {

/// A row and what became of it.
struct RowScenario {
  Scenario scenario;
  std::string stack;           ///< "" when the framework is unknown
  double stack_spread = 0.10;  ///< of whole runs on it
  MemoryReport memory_report = MemoryReport::allocated;
  bool steps_overlap = false;            ///< the stack's, of runs without data parallelism
  bool guessed_layout = false;           ///< micro-batch or virtual stages were not printed
  bool guess_micro_batch = false;        ///< to be chosen by time; 1 until then
  bool guess_recompute = false;          ///< to be chosen by memory
  std::vector<std::string> assumptions;  ///< sentences
};

/// Data files that rows refer to, each read once. Thread-safe.
class RowLibrary {
 public:
  /// Errors: a stack that cannot be read.
  static Result<RowLibrary> open(const DataPaths& data);
  Result<Cluster> topology(const std::string& name) const;
  Result<Profile> profile(const std::string& name) const;
  const std::vector<Stack>& stacks() const { return stacks_; }

 private:
  struct Cache {
    std::mutex mutex;
    std::map<std::string, Result<Cluster>> topologies;
    std::map<std::string, Result<Profile>> profiles;
  };
  DataPaths data_;
  std::vector<Stack> stacks_;
  std::shared_ptr<Cache> cache_ = std::make_shared<Cache>();
};

/// Errors: a field that is needed and absent (model shape, GPU, GPU count, sequence length, global batch) or out of range;
/// a GPU without a machine. One sentence, which names the column.
Result<RowScenario> scenario_of_row(const CsvTable& table, std::size_t row, const RowLibrary& library);

}  // namespace tracecast::accuracy
