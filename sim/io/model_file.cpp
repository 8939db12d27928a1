/// Reads models with Tracecast's own keys (docs/formats/scenario.md), and passes a Hugging Face file to its reader.

#include "sim/io/files.hpp"
#include "sim/io/hugging_face.hpp"
#include "sim/io/json_document.hpp"
#include "sim/io/scenario_fields.hpp"

namespace tracecast {
namespace {

/// Moves an error of `validated` to `key` of the object or of a nested one. `validated` sees 0 for a missing size.
void report_at(std::string_view key, const Diagnostic& diagnostic, ObjectReader& object) {
  if (const std::size_t dot = key.find('.'); dot != std::string_view::npos) {
    if (std::optional<ObjectReader> inner = object.get_object(std::string(key.substr(0, dot))))
      report_at(key.substr(dot + 1), diagnostic, *inner);
    return;
  }
  const bool absent = object.get_node(std::string(key)) == nullptr && diagnostic.value == "0";
  object.error(std::string(key), absent ? "is missing" : diagnostic.message);
}

/// Errors of `validated` name their keys below "model."; this adds the line of the key.
void report_invalid(const Error& invalid, ObjectReader& model) {
  constexpr std::string_view kPrefix = "model.";
  for (const Diagnostic& diagnostic : invalid.diagnostics) {
    std::string_view key = diagnostic.key;
    if (key.starts_with(kPrefix)) key.remove_prefix(kPrefix.size());
    report_at(key, diagnostic, model);
  }
}

}  // namespace

std::optional<Model> read_model(const JsonNode& node, const std::string& file, const std::string& path,
                                std::vector<Diagnostic>& errors) {
  if (is_hugging_face(node)) return read_hugging_face(node, file, path, errors);
  const std::size_t before = errors.size();
  ObjectReader reader(node, file, path, errors);
  Model model;
  read_fields(reader, model);
  reader.finish();
  if (errors.size() > before) return std::nullopt;
  Result<Model> valid = validated(std::move(model));
  if (valid) return std::move(*valid);
  report_invalid(valid.error(), reader);
  return std::nullopt;
}

Result<Model> read_model(const std::filesystem::path& path) {
  const Result<JsonDocument> document = read_json(path);
  if (!document) return tl::unexpected(document.error());
  std::vector<Diagnostic> errors;
  std::optional<Model> model = read_model(document->root, document->file, "", errors);
  if (!model) return tl::unexpected(in_file_order(std::move(errors)));
  if (model->name.empty()) model->name = path.stem().string();
  return std::move(*model);
}

}  // namespace tracecast
