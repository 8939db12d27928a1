/// \file
/// XML documents whose mistakes name their line.
#pragma once

#include <string>
#include <string_view>

#include <pugixml.hpp>

#include "sim/base/result.hpp"

namespace tracecast {

class XmlFile {
 public:
  /// Errors: text that is not well-formed, with its line; another root element than `root`.
  static Result<XmlFile> parse(std::string_view text, std::string file, std::string_view root);

  pugi::xml_node root() const { return document_.document_element(); }
  int line_of(const pugi::xml_node& node) const;
  tl::unexpected<Error> fail_at(const pugi::xml_node& node, const std::string& key, const std::string& value,
                                const std::string& message) const;
  /// A whole number of an attribute, `missing` where there is none or it is empty.
  /// Errors: no number, or one outside of lowest … highest.
  Result<std::int64_t> integer(const pugi::xml_node& node, const char* attribute, std::int64_t missing,
                               std::int64_t lowest, std::int64_t highest) const;

 private:
  pugi::xml_document document_;
  std::string_view text_;
  std::string file_;
};

}  // namespace tracecast
