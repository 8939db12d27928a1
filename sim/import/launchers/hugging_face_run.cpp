/// A model's config.json as the beginning of a scenario.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sim/import/importers.hpp"
#include "sim/import/recognise.hpp"
#include "sim/io/hugging_face.hpp"

namespace tracecast {
namespace {

/// Python writes Infinity and NaN, which JSON does not have: null, since no key that is read has such a number.
Result<JsonDocument> parse_config(const std::string& content, const std::string& file) {
  constexpr std::array<std::string_view, 3> kWords{"-Infinity", "Infinity", "NaN"};
  std::string plain;
  bool quoted = false;
  for (std::size_t at = 0; at < content.size(); ++at) {
    const auto* const word = std::ranges::find_if(
        kWords, [&](std::string_view each) { return content.compare(at, each.size(), each) == 0; });
    if (!quoted && word != kWords.end()) {
      plain += "null";
      at += word->size() - 1;
      continue;
    }
    if (content[at] == '"') quoted = !quoted;
    plain += content[at];
    if (quoted && content[at] == '\\' && at + 1 < content.size()) plain += content[++at];
  }
  return parse_json(std::move(plain), file);
}

/// Settings of experts in the file of a family that is read without any.
void name_experts(RunImport& run) {
  const JsonNode* const model = run.given("model");
  if (model == nullptr || model->find("moe") != nullptr) return;
  for (const std::string prefix : {"", "text_config."})
    for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"})
      if (const JsonNode* const experts = run.find(prefix + key); experts != nullptr && experts->integer > 1)
        run.assume(fmt::format("{}{} = {}: not read, since models of this family have no experts here", prefix, key,
                               experts->integer));
}

/// Towers for images and sound, and layers that predict further tokens, of the files whose language model is forecast. `used`: the keys
/// that were read.
void name_what_is_left_out(RunImport& run, const std::vector<std::string>& used) {
  std::string towers;
  for (const JsonMember& each : run.theirs().members) {
    const bool section = each.key.ends_with("_config") && each.value.kind == JsonNode::Kind::object;
    const bool read = std::ranges::any_of(used, [&](const std::string& key) { return key.starts_with(each.key); });
    if (!section || read || each.key == "text_config" || each.key == "quantization_config") continue;
    run.take(each.key);
    towers += (towers.empty() ? "" : ", ") + shortened(each.key);
  }
  if (!towers.empty())
    run.assume(run.theirs().find("text_config") != nullptr
                   ? fmt::format("only the language model is forecast: {} left out", towers)
                   : fmt::format("{}: not read, since the family's model has no such part here", towers));
  for (const std::string prefix : {"", "text_config."})
    for (const char* key : {"num_nextn_predict_layers", "mtp_num_hidden_layers"})
      if (const auto layers = run.count(prefix + key); layers && *layers > 0)
        run.assume(
            fmt::format("{} = {}: without prediction layers, as Transformers trains it (--set model.mtp_layers={})",
                        prefix + key, *layers, *layers));
}

void import_hugging_face(RunImport& run) {
  if (run.given("model") != nullptr) {
    for (const JsonMember& each : run.theirs().members) run.take(each.key);
    return run.assume("model: --model replaces the one that the file describes, of which nothing is used");
  }
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
  name_what_is_left_out(run, used);
  name_experts(run);
  run.pass_over_rest();
}

bool is_hugging_face_config(std::string_view content, std::string_view) {
  return has_key(content, "model_type") || has_key(content, "architectures") || has_key(content, "text_config");
}

}  // namespace

const Importer kHuggingFace{
    "hugging-face", "config.json of a Hugging Face model", "launchers.md", is_hugging_face_config,
    Launcher{parse_config, RunImport::Names::dotted, "config.json", import_hugging_face, nullptr}};

}  // namespace tracecast
