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
  template <class T>
  void operator()(const char* key, T& field) const {
    reader_->get(key, field);
  }

 private:
  ObjectReader* reader_;
};

}  // namespace tracecast
