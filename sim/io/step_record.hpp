/// \file
/// A step as a file: the timeline of a forecast or of an executed step, readable without its scenario. `predict --out`
/// and `execute --out` write it as timeline.json, and `compare` reads it. Format: docs/formats/timeline.md.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/enum_names.hpp"
#include "sim/base/result.hpp"
#include "sim/engine/timeline.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast {

enum class StepOrigin { simulated, executed };
template <>
struct EnumNames<StepOrigin> {
  static constexpr NamedValue<StepOrigin> table[] = {{StepOrigin::simulated, "simulated"},
                                                     {StepOrigin::executed, "executed"}};
};

/// What a span executes: an operator, a collective or a message in one phase of the step.
struct StepWork {
  std::string name;        ///< "qkv", "all_reduce", "send"
  std::string kind;        ///< of the operator ("gemm") or of the traffic ("tensor_parallel")
  std::string pass;        ///< "dgrad"; "" for transfers
  std::string phase;       ///< "forward", "backward", "weight_gradient", "optimizer"
  std::string part;        ///< name of the template: "forward chunk 0"
  std::string provenance;  ///< of its forecast duration: "measured", "interpolated", "analytic"
  std::string details;     ///< "bf16 8192 x 4608 x 16384", "ring, simple, 16 channels"; "": unknown
  double flop = 0;
  std::int64_t bytes = 0;  ///< moved at least: to and from memory, or the size of a transfer
  int chunk = 0;           ///< of the pipeline rank
  int layer = -1;          ///< counted from the first layer of the chunk; -1: not of a layer
  bool transfer = false;
  bool operator==(const StepWork&) const = default;
};

struct StepSpan {
  std::int32_t rank = 0;  ///< index into StepRecord::ranks
  std::int32_t work = 0;  ///< index into StepRecord::works
  std::int32_t microbatch = 0;
  std::int32_t stream = 0;
  Duration arrival = {};
  Duration start = {};
  Duration end = {};
  bool operator==(const StepSpan&) const = default;
};

struct StepRank {
  std::int32_t number = 0;  ///< global rank, or the first rank of a folded class
  std::int32_t multiplicity = 1;
  std::int32_t pp_rank = 0;
  std::vector<int> first_layers;  ///< [chunk]: layer of the model that StepWork::layer counts from
  RankTime time;
  bool operator==(const StepRank&) const = default;
};

/// Repetitions of an executed step, and the spread of their durations.
struct StepRepeats {
  int count = 0;
  double lower_quartile_s = 0;
  double median_s = 0;
  double spread = 0;  ///< relative standard deviation of a normal distribution with the same quartiles
  bool operator==(const StepRepeats&) const = default;
};

struct StepRecord {
  std::string scenario;
  StepOrigin origin = StepOrigin::simulated;
  Duration step_time;  ///< of the step that the spans belong to
  std::optional<StepRepeats> repeats;
  std::vector<std::string> streams;
  std::vector<StepWork> works;
  std::vector<StepRank> ranks;
  std::vector<StepSpan> spans;  ///< with time or waiting, by rank and stream
  bool operator==(const StepRecord&) const = default;

  /// Duration for comparisons: the lower quartile of the repeats, if any.
  double seconds_to_compare() const { return repeats ? repeats->lower_quartile_s : seconds(step_time); }
};

/// Requires a timeline with spans.
StepRecord record_of(const StepGraph& graph, const Timeline& timeline, std::string scenario, StepOrigin origin);

std::string to_json(const StepRecord& record);
/// `path`: the file, or a folder with a timeline.json in it. Errors: not readable, not this format, a later version, an
/// index or time out of range.
Result<StepRecord> read_step_record(const std::filesystem::path& path);

}  // namespace tracecast
