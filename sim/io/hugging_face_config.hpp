/// \file
/// A config.json of Hugging Face, read key by key.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/io/json_document.hpp"

namespace tracecast {

/// The object of one language model. Records which key each field was read from, so that errors found by `validated`
/// are reported at the key of the file.
class HuggingFaceConfig {
 public:
  HuggingFaceConfig(const JsonNode& node, const std::string& file, const std::string& path,
                    std::vector<Diagnostic>& errors, std::vector<std::string>* used)
      : node_(&node), object_(node, file, path, errors), used_(used) {}

  /// The first of `keys` that is present and not null; "" if all are missing.
  std::string present(const std::vector<std::string>& keys) const {
    for (const std::string& key : keys) {
      const JsonNode* member = node_->find(key);
      if (member == nullptr || member->kind == JsonNode::Kind::null) continue;
      note(key);
      return key;
    }
    return "";
  }

  /// Also if it is null.
  bool has(std::string_view key) const { return node_->find(key) != nullptr; }

  /// `own` is the field's key in Tracecast's own model files.
  template <class T>
  bool read(const std::string& own, const std::vector<std::string>& keys, T& value) {
    const std::string key = present(keys);
    if (key.empty()) return false;
    keys_[own] = key;
    return object_.get(key, value);
  }
  template <class T>
  void require(const std::string& own, const std::vector<std::string>& keys, T& value) {
    if (present(keys).empty()) {
      object_.error(keys.front(), "is missing");
    } else {
      read(own, keys, value);
    }
  }
  bool flag(const std::string& key, bool otherwise) {
    read(key, {key}, otherwise);
    return otherwise;
  }
  std::string word(const std::string& key) {
    std::string value;
    read(key, {key}, value);
    return value;
  }
  const JsonNode* list(const std::string& key) {
    const JsonNode* member = node_->find(key);
    if (member == nullptr || member->kind != JsonNode::Kind::array) return nullptr;
    note(key);
    return member;
  }
  std::optional<ObjectReader> object(const std::string& key) {
    if (present({key}).empty()) {
      object_.error(key, "is missing");
      return std::nullopt;
    }
    return object_.get_object(key);
  }
  void error(const std::string& key, std::string message) { object_.error(key, std::move(message)); }
  /// A flag that must have this value, which is the one without the key.
  void require_flag(const std::string& key, bool value) {
    if (flag(key, value) != value) error(key, fmt::format("is not supported (allowed: {})", value));
  }

  void report(const Diagnostic& invalid) {
    constexpr std::string_view kPrefix = "model.";
    std::string own = invalid.key;
    if (own.starts_with(kPrefix)) own.erase(0, kPrefix.size());
    const auto found = keys_.find(own);
    object_.error(found == keys_.end() ? own : found->second, invalid.message);
  }

 private:
  void note(const std::string& key) const {
    if (used_ != nullptr) used_->push_back(object_.dotted(key));
  }

  const JsonNode* node_;
  ObjectReader object_;
  std::vector<std::string>* used_;
  std::map<std::string, std::string> keys_;
};

}  // namespace tracecast
