/// \file
/// Settings that a launcher and a scenario share one to one, each named once for the importer and the emitter.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/import/launchers/run_import.hpp"
#include "sim/io/scenario.hpp"

namespace tracecast {

struct SettingRow {
  enum class Kind {
    size,     ///< a count that is always written
    count,    ///< a count that is written where it differs from a scenario's default
    flag,     ///< true or false
    negated,  ///< the launcher's flag says the opposite
  };
  const char* ours;
  const char* theirs;
  Kind kind;
};

/// What a launcher's flag that is not there means.
enum class AbsentFlag { is_false, is_open };

/// Puts every row that the launcher has; flags that are not there as `absent` says.
void import_rows(RunImport& run, std::span<const SettingRow> rows, AbsentFlag absent);

/// Ulysses, over the ranks that the setting says: the sequence is divided, and in attention the heads.
void import_ulysses(RunImport& run, std::string_view key);

/// Megatron-FSDP at a ZeRO stage: parameters that are gathered are views, and its units are its own, whatever the stack says of FSDP2's.
void import_megatron_fsdp(RunImport& run, std::int64_t stage, std::string_view key);

/// A schedule by its name, with its usual chunks. Error: unknown, which is false.
bool put_schedule(RunImport& run, const std::string& name, std::string_view key);

/// Whether a setting names the type of numbers `type` (bf16, fp16, fp32), as we, PyTorch or its module do.
bool says_type(const RunImport& run, std::string_view key, std::string_view type);

/// The settings of a scenario's `parallel` and `training`, of which an emitter takes what its launcher can express.
class RunSettings {
 public:
  explicit RunSettings(const Scenario& scenario);

  /// Counts as said from now on.   Requires a key of a scenario: "parallel.tp"
  const JsonNode& take(const std::string& ours);
  bool is_default(const std::string& ours) const;
  /// The launcher has a default of its own: taken if it is the same, else listed, even if it is a scenario's default.
  void list_unless(bool same, const std::string& ours) {
    listed_[ours] = true;
    if (same) take(ours);
  }
  /// The same of what the stack sets that an import has. A run with another stack lists that, and what differs from it.
  void list_unless_of_stack(std::string_view stack, bool same, const std::string& ours) {
    if (stack == stack_) list_unless(same, ours);
  }
  /// The launcher cannot have this value, whatever was taken.
  void list(const std::string& ours) {
    taken_.erase(ours);
    listed_[ours] = true;
  }
  /// "parallel.tp=8", as --set takes it, of each setting that was not taken and differs from a scenario's default, or from what its
  /// stack sets in place of that.
  std::vector<std::string> left() const;

 private:
  std::string stack_;
  std::map<std::string, JsonNode> values_;
  std::map<std::string, JsonNode> defaults_;
  std::map<std::string, bool> taken_;
  std::map<std::string, bool> listed_;
};

/// (the launcher's key, its value) of each row to be written, flags only where they are true.
std::vector<std::pair<std::string, JsonNode>> emit_rows(RunSettings& settings, std::span<const SettingRow> rows);

}  // namespace tracecast
