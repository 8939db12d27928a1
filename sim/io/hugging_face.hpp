/// \file
/// Reads a Hugging Face config.json as published: the architecture part of it.
///
/// hugging_face.cpp lists the known families, with the settings that their code fixes and the file omits (biases, norms, positions);
/// those with linear attention are in hugging_face_hybrids.cpp. Unknown families are an error, since their parameter count would be
/// a guess; so are settings that Model cannot express. Keys that do not shape the model (tokens, initialisers, caches, quantised
/// storage) are ignored. From a multimodal file, the language model under text_config is read. num_nextn_predict_layers is ignored
/// too: published parameter counts leave the prediction layers out, and the scenario decides whether they are trained.
/// Source: docs/references.md#hugging-face-configs
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/io/json_document.hpp"
#include "sim/model/model.hpp"

namespace tracecast {

/// True if the object has model_type, architectures or text_config. Tracecast's own model files have none of these
/// keys.
bool is_hugging_face(const JsonNode& node);

/// Errors are added to `errors`, with the file's own keys below `path`; then the result is empty. The keys that shape the model are
/// added to `used`, if given: "hidden_size", "text_config.hidden_size".
std::optional<Model> read_hugging_face(const JsonNode& node, const std::string& file, const std::string& path,
                                       std::vector<Diagnostic>& errors, std::vector<std::string>* used = nullptr);

}  // namespace tracecast
