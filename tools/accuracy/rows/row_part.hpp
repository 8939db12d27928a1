/// \file
/// What the parts of scenario_of_row share: the fields of a row, the stack that ran it, and its scenario so far.
/// row_scenario.hpp says how the parts work together.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/io/json_document.hpp"
#include "sim/io/stack.hpp"
#include "tools/accuracy/rows/cell_words.hpp"
#include "tools/accuracy/rows/framework_names.hpp"
#include "tools/accuracy/rows/model_names.hpp"
#include "tools/accuracy/rows/row_library.hpp"
#include "tools/accuracy/rows/row_scenario.hpp"
#include "tools/accuracy/rows/table_fields.hpp"
#include "tools/accuracy/rows/zero_stage.hpp"

namespace tracecast::accuracy {

/// A row that is being read. Each part of its scenario is read by a class derived from RowPart.
struct RowReading {
  TableFields fields;
  const RowLibrary& library;
  std::string framework;         ///< framework_name, or one that works alike
  const Stack* stack = nullptr;  ///< null: unknown
  bool experts = false;          ///< the model has some
  RowScenario result;
};

/// The shipped model that the row names, if it has the row's `hidden` and `heads`. row_model.cpp
std::optional<Model> shipped_of_same_width(TableFields fields, const RowLibrary& library);
/// Experts of that model, else of the family that the row names (model_families.hpp); empty: neither has any. row_model.cpp
std::optional<MixtureOfExperts> known_experts(TableFields fields, const RowLibrary& library);

class RowPart {
 protected:
  explicit RowPart(RowReading& row)
      : fields_(row.fields),
        library_(row.library),
        framework_(row.framework),
        family_(family_name(row.fields.text("model_name"))),
        stack_(row.stack),
        has_experts_(row.experts),
        result_(row.result) {}

  const std::string& text(const char* column) const { return fields_.text(column); }
  bool reported(const char* column) const { return fields_.reported(column); }
  /// Whether the field says yes (truth_in); `otherwise` for an empty field, and for another word, which is said once.
  bool flag(const char* column, bool otherwise) {
    if (!reported(column)) return otherwise;
    if (const std::optional<bool> yes = truth_in(text(column))) return *yes;
    std::string unread =
        fmt::format("{} '{}' is neither yes nor no: as if it were empty", column, shortened(text(column)));
    std::vector<std::string>& said = result_.assumptions;
    if (std::find(said.begin(), said.end(), unread) == said.end()) assume(std::move(unread));
    return otherwise;
  }
  bool failed() const { return fields_.problem().has_value(); }
  void add_error(const char* column, std::string message) { fields_.add_error(column, std::move(message)); }
  void assume(std::string sentence) { result_.assumptions.push_back(std::move(sentence)); }

  bool runs(const char* stack) const { return stack_ != nullptr && stack_->name == stack; }
  /// True if the model's family_name begins so.
  bool is_of(std::string_view family) const { return family_.starts_with(family); }
  /// Llama 3 or 3.1 of this size, "70b".
  bool is_llama_3(const char* size) const {
    for (const std::string name : {"llama-3-", "llama3-", "llama-3.1-", "llama3.1-"})
      if (is_of(name + size)) return true;
    return false;
  }
  bool is_deepseek() const { return is_of("deepseek"); }
  bool is_bridge() const { return runs("megatron-bridge"); }
  /// A release of Megatron-Bridge from that year on, or one without a date.
  bool is_bridge_since(double year) const {
    const double released = year_of_release(framework_);
    return is_bridge() && (released == 0 || released >= year);
  }

  /// Megatron-Core with Transformer Engine's layers, whatever drives it.
  bool is_megatron_core() const { return stack_ != nullptr && stack_->training.transformer_engine; }
  /// The same as NVIDIA's own recipes run it, not somebody's script.
  bool has_nvidia_recipes() const { return is_megatron_core() && !runs("megatron-lm-2024"); }

  /// Whether the name of the run or a note has these words undenied; false if they only deny them ("no DeepEP", "CUDA graphs: none");
  /// empty if they have none of them.
  std::optional<bool> noted(std::initializer_list<const char*> all) const {
    std::optional<bool> said;
    for (const char* words : all)
      for (const char* column : {"source_detail", "notes"})
        if (const std::optional<bool> here = mentioned(text(column), words)) said = said.value_or(false) || *here;
    return said;
  }
  bool mentions(const char* words) const { return noted({words}).value_or(false); }

  /// In the name of the framework, a tag or a note.
  bool is_named(const char* words) const {
    return affirms(text("framework"), words) || affirms(text("parallel_style"), words) || mentions(words);
  }

  bool is_fine_tuning() const { return usual_word("task", text("task")) == "sft"; }

  /// Experts take at most their capacity, which Megatron-Core allowed with its all-to-all only, and recipes that drop tokens
  /// do not overlap exchanges. docs/references.md#token-drop
  bool drops_tokens() const {
    return result_.scenario.model.moe &&
           noted({"token drop", "tokens dropped", "dropped tokens", "drops tokens", "drop-and-pad"}).value_or(false);
  }

  /// Megatron's overlap_moe_expert_parallel_comm: exchanges of experts are hidden behind another micro-batch.
  bool overlaps_exchanges() {
    if (reported("moe_a2a_overlap")) return flag("moe_a2a_overlap", false);
    return noted({"A2A overlap", "all-to-all overlap", "expert-exchange overlap", "EP communication overlap",
                  "EP comm overlap", "EP overlap", "expert-parallel communication overlap",
                  "overlap_moe_expert_parallel_comm"})
        .value_or(false);
  }

  /// True if NVLink connects several hosts.
  bool has_racks() const {
    const NodeSpec& node = result_.scenario.cluster.node;
    return node.gpus > node.gpus_per_host;
  }

  TableFields& fields_;
  const RowLibrary& library_;
  const std::string& framework_;
  const std::string family_;
  const Stack* stack_;
  const bool has_experts_;
  RowScenario& result_;
};

// The parts, in the order in which scenario_of_row calls them. Each is in the file of its name: read_row_model in row_model.cpp.

/// The model: its shape, the family that the source does not print, experts.
void read_row_model(RowReading& row);
/// The GPU, its node and network, with profile and topology.   Requires the model.
void read_row_machine(RowReading& row);
/// Degrees, ZeRO, stages, dispatcher of experts.   Requires model and machine.
void read_row_parallel(RowReading& row);
/// Batch, precision, offloading, routing of experts. Calls the next two, which need the precision, and whose results it completes.
/// Requires the layout.
void read_row_training(RowReading& row);
/// CUDA graphs; true if the row names graphs of whole steps.   Requires the layout and the precision.
bool read_row_graphs(RowReading& row);
/// What is recomputed.   Requires the layout.
void read_row_recompute(RowReading& row);
/// A vocabulary that the tensor degree divides, and whether the model can be.   Requires the layout. row_model.cpp
void complete_row_model(RowReading& row);

}  // namespace tracecast::accuracy
