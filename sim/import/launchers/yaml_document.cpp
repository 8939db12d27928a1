#include "sim/import/launchers/yaml_document.hpp"

#include <algorithm>

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

  std::vector<Diagnostic> errors;

 private:
  static int line_of(const YAML::Node& node) { return std::max(0, node.Mark().line) + 1; }

  void fail_at(int line, const std::string& key, const std::string& message) {
    if (!stopped_) errors.push_back({file_, line, shortened(key), "", message});
    stopped_ = true;
  }

  void convert_members(const YAML::Node& node, const std::string& path, int depth, JsonNode& value) {
    value.kind = JsonNode::Kind::object;
    for (const auto& member : node) {
      if (stopped_) return;
      if (!member.first.IsScalar()) return fail_at(line_of(member.first), path, "has a key that is not a word");
      const std::string& key = member.first.Scalar();
      const std::string dotted = path.empty() ? key : path + "." + key;
      if (value.find(key) != nullptr) return fail_at(line_of(member.first), dotted, "is given twice");
      value.members.push_back({key, convert(member.second, dotted, depth + 1)});
      value.members.back().value.line = line_of(member.first);
    }
  }

  std::string file_;
  int values_ = 0;
  bool stopped_ = false;
};

}  // namespace

Result<JsonDocument> parse_yaml(const std::string& text, const std::string& file) try {
  const YAML::Node root = YAML::Load(text);
  if (!root.IsDefined() || root.IsNull()) return fail({file, 0, "", "", "is empty"});
  YamlConverter converter(file);
  JsonDocument document{file, converter.convert(root, "", 0)};
  if (!converter.errors.empty()) return tl::unexpected(Error{converter.errors});
  return document;
} catch (const YAML::Exception& error) {
  return fail({file, std::max(0, error.mark.line) + 1, "", "", "is not YAML: " + shortened(error.msg)});
}

}  // namespace tracecast
