/// A model's config.json as the beginning of a scenario.
#include <fmt/format.h>

#include "sim/import/importers.hpp"
#include "sim/import/recognise.hpp"
#include "sim/io/hugging_face.hpp"

namespace tracecast {
namespace {

void import_hugging_face(RunImport& run) {
  if (run.given("model") != nullptr) return run.pass_over_rest();  // --model replaces the file's
  run.model_refused = true;
  if (!is_hugging_face(run.theirs()))
    return run.errors.push_back(
        {run.file(), 0, "model_type", "", "is missing: expected the config.json of a Hugging Face model"});
  std::vector<std::string> used;
  const std::optional<Model> model = read_hugging_face(run.theirs(), run.file(), "", run.errors, &used);
  for (const std::string& key : used) run.take(key);
  if (model) run.put("model", parse_json(to_json(*model), run.file())->root);
  if (const JsonNode* stored = run.theirs().find("quantization_config"); stored != nullptr) {
    run.take("quantization_config");
    const JsonNode* method = stored->find("quant_method");
    run.assume(
        fmt::format("quantization_config{} is of the stored weights: training.dtype is the precision of training",
                    method == nullptr ? "" : " (" + method->text() + ")"));
  }
  run.pass_over_rest();
}

bool is_hugging_face_config(std::string_view content, std::string_view) {
  return has_key(content, "model_type") || has_key(content, "architectures") || has_key(content, "text_config");
}

}  // namespace

const Importer kHuggingFace{"hugging-face", "config.json of a Hugging Face model", "launchers.md",
                            is_hugging_face_config,
                            Launcher{parse_json_settings, RunImport::Names::dotted, import_hugging_face, nullptr}};

}  // namespace tracecast
