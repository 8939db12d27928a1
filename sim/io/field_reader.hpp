/// \file
/// The visitor that reads: one field of a group by its key.
#pragma once

#include "sim/io/field_limits.hpp"
#include "sim/io/json_document.hpp"

namespace tracecast {

class FieldReader {
 public:
  explicit FieldReader(ObjectReader& reader) : reader_(&reader) {}

  void operator()(const char* key, int& field, Range range) const {
    reader_->get(key, field, static_cast<int>(range.minimum), static_cast<int>(range.maximum));
  }
  void operator()(const char* key, std::int64_t& field, Range range) const {
    reader_->get(key, field, range.minimum, range.maximum);
  }
  template <class T>
  void operator()(const char* key, T& field, const Names<T>& names) const {
    reader_->get(key, field, names);
  }
  /// A number counts as true and goes into `number`, which true and false leave alone.
  void operator()(const char* key, bool& field, int& number, Range range) const {
    const JsonNode* node = reader_->get_node(key);
    if (node == nullptr) return;
    if (node->kind == JsonNode::Kind::boolean)
      field = node->boolean;
    else if (node->kind != JsonNode::Kind::integer)
      reader_->error(key, "must be true, false or a count");
    else if (reader_->get(key, number, static_cast<int>(range.minimum), static_cast<int>(range.maximum)))
      field = true;
  }
  template <class T>
  void operator()(const char* key, T& field) const {
    reader_->get(key, field);
  }

 private:
  ObjectReader* reader_;
};

}  // namespace tracecast
