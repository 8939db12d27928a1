#include "sim/import/xml_lines.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/io/json_document.hpp"

namespace tracecast {
namespace {

int line_at(std::string_view text, std::ptrdiff_t offset) {
  const auto end = static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, offset));
  const std::string_view before = text.substr(0, std::min(end, text.size()));
  return 1 + static_cast<int>(std::count(before.begin(), before.end(), '\n'));
}

std::string lower_first(std::string text) {
  if (!text.empty() && text[0] >= 'A' && text[0] <= 'Z') text[0] = static_cast<char>(text[0] + ('a' - 'A'));
  return text;
}

}  // namespace

Result<XmlFile> XmlFile::parse(std::string_view text, std::string file, std::string_view root) {
  XmlFile xml;
  xml.text_ = text;
  xml.file_ = std::move(file);
  // parse_fragment keeps text outside the root element, so that it can be refused.
  const pugi::xml_parse_result read =
      xml.document_.load_buffer(text.data(), text.size(), pugi::parse_default | pugi::parse_fragment);
  if (!read)
    return fail({xml.file_, line_at(text, read.offset), "", "",
                 fmt::format("is not well-formed XML: {}", lower_first(read.description()))});
  if (!xml.root()) return fail({xml.file_, 0, "", "", "is not well-formed XML: no document element found"});
  for (const pugi::xml_node& node : xml.document_)
    if (node != xml.root())
      return fail({xml.file_, xml.line_of(node), "", "",
                   fmt::format("is not well-formed XML: something else beside the element <{}>", xml.root().name())});
  if (xml.root().name() != root)
    return fail({xml.file_, xml.line_of(xml.root()), "", "",
                 fmt::format("has the root element <{}>, not <{}>", xml.root().name(), root)});
  return xml;
}

int XmlFile::line_of(const pugi::xml_node& node) const { return line_at(text_, node.offset_debug()); }

tl::unexpected<Error> XmlFile::fail_at(const pugi::xml_node& node, const std::string& key, const std::string& value,
                                       const std::string& message) const {
  return fail({file_, line_of(node), key, shortened(value), message});
}

Result<std::int64_t> XmlFile::integer(const pugi::xml_node& node, const char* attribute, std::int64_t missing,
                                      std::int64_t lowest, std::int64_t highest) const {
  const std::string_view text = node.attribute(attribute).value();
  if (text.empty()) return missing;
  const auto value = parse_number<std::int64_t>(text);
  if (value && *value >= lowest && *value <= highest) return *value;
  return fail_at(node, fmt::format("{}.{}", node.name(), attribute), std::string(text),
                 fmt::format("must be a whole number from {} to {}", lowest, highest));
}

}  // namespace tracecast
