#include "sim/import/launchers/yaml_document.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "sim/import/launchers/plain_scalar.hpp"

namespace tracecast {
namespace {

constexpr int kMaxYamlDepth = 100;
constexpr int kMaxValues = 100'000;

class YamlConverter {
 public:
  explicit YamlConverter(std::string file) : file_(std::move(file)) {}

  JsonNode convert(const YAML::Node& node, const std::string& path, int depth) {
    JsonNode value;
    value.line = line_of(node);
    if (++values_ > kMaxValues || depth > kMaxYamlDepth) {
      fail_at(value.line, path,
              depth > kMaxYamlDepth ? "is nested too deeply (allowed: 100 levels)"
                                    : "is one value too many (allowed: 100,000)");
    } else if (node.IsSequence()) {
      value.kind = JsonNode::Kind::array;
      for (const YAML::Node& item : node) {
        if (stopped_) break;
        value.items.push_back(convert(item, path, depth + 1));
      }
    } else if (node.IsMap()) {
      convert_members(node, path, depth, value);
    } else if (node.IsScalar()) {
      const bool quoted = node.Tag() == "!";
      value = plain_scalar(node.Scalar(), value.line, true);
      if (quoted) value.kind = JsonNode::Kind::string;
    }
    return value;
  }

  /// The sections of the top level that others merge and that no program reads.
  void drop_templates(const YAML::Node& root, JsonNode& value) const {
    if (!root.IsMap()) return;
    for (const auto& member : root)
      if (is_template(member.first.Scalar()) &&
          std::ranges::any_of(merged_, [&](const YAML::Node& each) { return each.is(member.second); }))
        std::erase_if(value.members, [&](const JsonMember& each) { return each.key == member.first.Scalar(); });
  }

  std::vector<Diagnostic> errors;

 private:
  static bool is_template(std::string_view name) {
    return name.starts_with("x-") || name.starts_with('.') || name.starts_with('_') || name == "common" ||
           name == "base" || name == "defaults";
  }

  static int line_of(const YAML::Node& node) { return std::max(0, node.Mark().line) + 1; }

  void fail_at(int line, const std::string& key, const std::string& message) {
    if (!stopped_) errors.push_back({file_, line, shortened(key), "", message});
    stopped_ = true;
  }

  void convert_members(const YAML::Node& node, const std::string& path, int depth, JsonNode& value) {
    value.kind = JsonNode::Kind::object;
    std::vector<YAML::Node> merged;
    for (const auto& member : node) {
      if (stopped_) return;
      if (!member.first.IsScalar()) return fail_at(line_of(member.first), path, "has a key that is not a word");
      const std::string& key = member.first.Scalar();
      const std::string dotted = path.empty() ? key : path + "." + key;
      if (key == "<<") {
        merged.push_back(member.second);
        continue;
      }
      if (value.find(key) != nullptr) return fail_at(line_of(member.first), dotted, "is given twice");
      value.members.push_back({key, convert(member.second, dotted, depth + 1)});
      value.members.back().value.line = line_of(member.first);
    }
    for (const YAML::Node& each : merged) merge(each, path, depth, value);
  }

  /// The members of a map, or of each map in a list, that `value` does not have.
  void merge(const YAML::Node& from, const std::string& path, int depth, JsonNode& value) {
    if (from.IsSequence()) {
      for (const YAML::Node& each : from) {
        if (!each.IsMap()) return fail_at(line_of(each), path + ".<<", "is not a map to merge");
        merge(each, path, depth, value);
      }
      return;
    }
    if (!from.IsMap()) return fail_at(line_of(from), path + ".<<", "is not a map to merge");
    merged_.push_back(from);
    JsonNode other = convert(from, path, depth + 1);
    for (JsonMember& each : other.members)
      if (value.find(each.key) == nullptr) value.members.push_back(std::move(each));
  }

  std::string file_;
  std::vector<YAML::Node> merged_;
  int values_ = 0;
  bool stopped_ = false;
};

}  // namespace

Result<JsonDocument> parse_yaml(const std::string& text, const std::string& file) try {
  const YAML::Node root = YAML::Load(text);
  if (!root.IsDefined() || root.IsNull()) return fail({file, 0, "", "", "is empty"});
  YamlConverter converter(file);
  JsonDocument document{file, converter.convert(root, "", 0)};
  converter.drop_templates(root, document.root);
  if (!converter.errors.empty()) return tl::unexpected(Error{converter.errors});
  return document;
} catch (const YAML::Exception& error) {
  return fail({file, std::max(0, error.mark.line) + 1, "", "", "is not YAML: " + shortened(error.msg)});
}

}  // namespace tracecast
