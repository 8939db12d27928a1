/// Files of Megatron-LM, and the YAML of NeMo and Megatron-Bridge, which have the same names with '_'.
/// Source: docs/references.md#format-megatron
#include "sim/import/importers.hpp"
#include "sim/import/launchers/argument_document.hpp"
#include "sim/import/launchers/bridge_document.hpp"
#include "sim/import/launchers/megatron_settings.hpp"
#include "sim/import/launchers/yaml_document.hpp"
#include "sim/import/recognise.hpp"

namespace tracecast {
namespace {

bool is_yaml(std::string_view file) { return file.ends_with(".yaml") || file.ends_with(".yml"); }

void import_megatron(RunImport& run) {
  if (const JsonNode* notes = run.find(kScriptNotes))
    for (const JsonNode& note : notes->items) run.assume(note.string);
  run.take(kScriptLoops);
  const bool nemo = is_yaml(run.file()) && (run.has("devices") || run.has("num-nodes"));
  import_megatron_settings(run, nemo);
}

void import_megatron_bridge(RunImport& run) { import_megatron_settings(run, true); }

/// Arguments on a command line or in a script, or the YAML of Megatron's tests.
Result<JsonDocument> parse_megatron(const std::string& content, const std::string& file) {
  if (!is_yaml(file)) return parse_arguments(content, file);
  Result<JsonDocument> document = parse_yaml(content, file);
  const JsonNode* arguments = document ? document->root.find("MODEL_ARGS") : nullptr;
  if (document && document->root.find("trainer") != nullptr) write_out_nemo(document->root);
  if (arguments == nullptr) return document;
  return JsonDocument{file, JsonNode(*arguments)};  // and nothing of the environment variables beside them
}

/// Arguments in a script, the YAML of Megatron's tests, or NeMo's, which has a section `trainer`.
bool is_megatron(std::string_view content, std::string_view file) {
  if (is_json_object(content)) return false;
  const bool has_arguments = head_contains(content, "MODEL_ARGS:") ||
                             head_contains(content, "--tensor-model-parallel-size") ||
                             head_contains(content, "--tensor_model_parallel_size") ||
                             head_contains(content, "--num-layers") || head_contains(content, "--micro-batch-size");
  return has_arguments || (is_yaml(file) && head_contains(content, "trainer:") && head_contains(content, "model:"));
}

bool is_megatron_bridge(std::string_view content, std::string_view file) {
  if (is_bridge_recipe(content, file)) return true;
  return is_yaml(file) && head_contains(content, "model:") && head_contains(content, "train:") &&
         !head_contains(content, "MODEL_ARGS:") && !head_contains(content, "nemo_automodel.");
}

}  // namespace

const Importer kMegatron{"megatron", "arguments of Megatron-LM: launch script, command line, or YAML (also of NeMo)",
                         "launchers.md", is_megatron,
                         Launcher{parse_megatron, RunImport::Names::flagged, "run.sh", import_megatron, emit_megatron}};
const Importer kMegatronBridge{
    "megatron-bridge", "configuration or overrides of Megatron-Bridge (YAML)", "launchers.md", is_megatron_bridge,
    Launcher{parse_bridge, RunImport::Names::flagged, "run.yaml", import_megatron_bridge, emit_megatron_bridge}};

}  // namespace tracecast
