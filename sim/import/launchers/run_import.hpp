/// \file
/// What an importer works with: the settings of a launcher, each asked for by its name, and the scenario that they become.
///
/// Every setting that nobody asks for is listed in the end, so that nothing is lost silently: either among those that
/// have no effect on the time of a step (learning rates, logging, paths: each importer names them), or as not mapped.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/io/json_document.hpp"

namespace tracecast {

/// A setting of a launcher that no key of a scenario stands for.
struct UnmappedSetting {
  std::string key;
  std::string value;
  int line = 0;
  bool operator==(const UnmappedSetting&) const = default;
};

/// A number that a launcher says, and its key, for messages.
struct KeyedCount {
  std::int64_t value = 0;
  std::string key;
};

/// Stages that do not divide over the pipeline ranks are an error, or become the next larger or smaller number that does.
enum class StageRounding { none, up, down };

class RunImport {
 public:
  enum class Names {
    dotted,   ///< "zero_optimization.stage"
    flagged,  ///< "seq-length", whatever it is nested in: "--seq_length", "model.seq_length"
  };
  RunImport(const JsonDocument& theirs, Names names);

  /// The setting, which counts as mapped from now on; nullptr when absent, null or "auto".
  const JsonNode* find(std::string_view key);
  bool has(std::string_view key) const;
  /// One of several names of the same setting: the first that is there, else the first.   Requires a name
  std::string_view first_of(std::initializer_list<std::string_view> names) const;
  /// The setting is left to another program, which fills it in.
  bool is_auto(std::string_view key);
  /// `our_key`: of a scenario. If the user sets it, it stands for a value that the file leaves to a variable.
  std::optional<std::int64_t> count(std::string_view key, std::string_view our_key = "");
  std::optional<double> number(std::string_view key, std::string_view our_key = "");
  std::optional<bool> flag(std::string_view key, std::string_view our_key = "");
  /// "" when absent.
  std::string word(std::string_view key);
  /// Of a list, or of one text of several.
  std::vector<std::string> words(std::string_view key);
  /// The value must be one of the names; the error lists them.
  template <class T>
  std::optional<T> choice(std::string_view key, std::span<const std::pair<std::string_view, T>> names);

  /// Puts a value of the scenario, with the line of the setting `from` (none: line 0).
  void put(const std::string& ours, JsonNode value, std::string_view from = "");
  void put(const std::string& ours, std::int64_t value, std::string_view from = "");
  void put(const std::string& ours, std::string_view value, std::string_view from = "");
  void put_flag(const std::string& ours, bool value, std::string_view from = "");
  /// A value that the file does not say, and the sentence that tells so, unless the user sets it.
  void put_default(const std::string& ours, JsonNode value, std::string sentence);
  /// What was put, or given from outside; nullptr: nothing was.
  const JsonNode* given(const std::string& ours) const;
  std::int64_t given_count(const std::string& ours, std::int64_t otherwise) const;
  /// What a pipeline divides: the layers, and the embedding and the loss where each counts as one.
  std::int64_t pipeline_items(std::int64_t layers) const;

  void error(std::string_view key, const std::string& message);
  void assume(std::string sentence) { assumptions.push_back(std::move(sentence)); }
  /// A setting, or all of a section, that was read in the file itself counts as mapped.
  void take(std::string_view key);
  /// Settings whose name begins with one of these words have no effect on the time of a step.
  void pass_over(std::string_view beginnings);
  /// All settings that are left have no effect either.
  void pass_over_rest();
  /// The setting has this value, as a message repeats it; of numbers any way to write them is the same.
  bool says(std::string_view key, std::string_view value) const;
  /// With this value the setting is what is forecast anyway.
  void pass_over_if(std::string_view key, std::string_view value);
  /// Fusions of kernels are forecast: those that are on have no effect.
  void pass_over_fusions();
  /// Switches that are off, but for fusions, have none either: of a configuration that says every setting.
  void pass_over_off();
  /// Everything left is not mapped.
  void list_unmapped();
  /// The launcher's key that `ours` came from; "" when none did.
  std::string name_of(const std::string& ours) const;
  const std::string& file() const { return file_; }
  /// The launcher's file as it is.
  const JsonNode& theirs() const { return *theirs_; }

  JsonNode ours;          ///< of a scenario
  std::int64_t gpus = 0;  ///< as the user gives them; 0: the file may say
  /// Micro-batches of a step and data-parallel rank, where the launcher says them; 0: it does not.
  KeyedCount accumulation;
  /// Sequences that a rank takes through its pipeline at once, filling and draining it; 0: those of the global batch.
  KeyedCount local_batch;
  /// Hybrid sharding: copies of the model, each divided over a group of ranks. 0 or 1: none.
  KeyedCount shard_copies;
  /// Ranks of data parallelism, copies times shards, where the launcher says them; 0: what is left.
  KeyedCount data_ranks;
  /// Layers of a virtual stage, embedding and loss counted as account_for_* says; 0: open.
  KeyedCount layers_per_stage;
  StageRounding stage_rounding =
      StageRounding::none;  ///< of the stages that follow from these; the first then have a layer more
  /// Every such layer of a virtual stage is recomputed; up to 1: as training.recompute says.
  KeyedCount recompute_interval;
  /// The kernel of fused attention that a setting asks for. GPUs whose profile does not have it keep the profile's first.
  std::string attention_kernel;
  std::string attention_key;                                   ///< of that setting
  std::map<std::string, std::string, std::less<>> overridden;  ///< [key of a scenario] what the user sets
  bool is_overridden(std::string_view key) const { return overridden.contains(key); }
  bool model_refused = false;  ///< the file describes a model, and an error says what is wrong with it
  std::vector<Diagnostic> errors;
  std::vector<std::string> assumptions;
  std::vector<UnmappedSetting> unmapped;
  std::vector<std::string> passed_over;

 private:
  struct Setting {
    std::string key;
    const JsonNode* value;
    bool used = false;
    const JsonNode* other = nullptr;  ///< what another line says in its place
    std::string variable = {};        ///< of the environment, whose default the value is; "": none, or it was said
  };
  template <class Predicate>
  void pass_over_where(const Predicate& has_no_effect);
  void flatten(const JsonNode& node, const std::string& path, Names names, int depth);
  Setting* lookup(std::string_view key);
  Setting setting_of(const std::string& key, const JsonNode& node);
  /// What stands in place of a value that is a variable, for a message
  std::string unknown_variable(const std::string& text, std::string_view what, std::string_view our_key) const;
  std::optional<std::size_t> index_of(std::string_view key) const;

  const JsonNode* theirs_;
  std::deque<JsonNode> defaults_;  ///< of variables of the environment
  std::string file_;
  std::vector<Setting> settings_;
  std::map<std::string, std::size_t, std::less<>> index_;
  std::map<std::string, std::string> names_;
};

template <class T>
std::optional<T> RunImport::choice(std::string_view key, std::span<const std::pair<std::string_view, T>> names) {
  if (find(key) == nullptr) return std::nullopt;
  const std::string value = word(key);
  std::string allowed;
  for (const auto& [name, meaning] : names) {
    if (name == value) return meaning;
    allowed += (allowed.empty() ? "" : " ") + std::string(name);
  }
  error(key, "is not supported (allowed: " + allowed + ")");
  return std::nullopt;
}

}  // namespace tracecast
