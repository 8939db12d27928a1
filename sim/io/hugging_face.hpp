/// \file
/// Reads a Hugging Face config.json as published: the architecture part of it.
///
/// Known families are listed in hugging_face.cpp with what their code fixes and the file does not say (biases, norms,
/// positions). A family that is not listed is refused, since its parameter count would be a guess; so are settings that
/// Model cannot express. Keys that do not shape the model (tokens, initialisers, caches, quantised storage) are passed
/// over. Of a multimodal file the language model under text_config is read. num_nextn_predict_layers is passed over
/// too: published counts leave the prediction layers out, and whether they are trained is the scenario's to say.
/// Source: docs/references.md#hugging-face-configs
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/io/json_document.hpp"
#include "sim/model/model.hpp"

namespace tracecast {

/// A file that names its model_type, its architectures or a text_config is one of these, not one with our own keys.
bool is_hugging_face(const JsonNode& node);

/// Mistakes are added to `errors`, with the file's own keys below `path`; then there is no model.
std::optional<Model> read_hugging_face(const JsonNode& node, const std::string& file, const std::string& path,
                                       std::vector<Diagnostic>& errors);

}  // namespace tracecast
