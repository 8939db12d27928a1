#include "tests/support/json_schema.hpp"

#include <cmath>
#include <fstream>
#include <regex>
#include <set>

#include <nlohmann/json.hpp>

namespace tracecast {
namespace {

using nlohmann::json;

json load(const std::filesystem::path& file) {
  std::ifstream stream(file);
  json value = json::parse(stream, nullptr, /*allow_exceptions=*/false);
  return value;
}

bool has_type(const json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  if (type == "integer")
    return value.is_number_integer() ||
           (value.is_number_float() && std::trunc(value.get<double>()) == value.get<double>());
  return false;
}

class Validator {
 public:
  explicit Validator(std::filesystem::path file) : file_(std::move(file)), root_(load(file_)) {}

  std::vector<std::string> violations(const json& instance) {
    violations_.clear();
    if (root_.is_discarded()) return {file_.string() + ": no JSON"};
    check(root_, instance, "");
    return violations_;
  }

 private:
  void report(const std::string& at, const std::string& message) {
    violations_.push_back((at.empty() ? "/" : at) + ": " + message);
  }

  std::vector<std::string> trial(const json& schema, const json& value, const std::string& at) {
    std::vector<std::string> outer;
    outer.swap(violations_);
    check(schema, value, at);
    outer.swap(violations_);
    return outer;
  }

  void check(const json& schema, const json& value, const std::string& at) {
    if (schema.is_boolean()) {
      if (!schema.get<bool>()) report(at, "is not allowed");
      return;
    }
    for (const auto& [keyword, rule] : schema.items()) check_keyword(keyword, rule, schema, value, at);
  }

  void check_keyword(const std::string& keyword, const json& rule, const json& schema, const json& value,
                     const std::string& at) {
    static const std::set<std::string> kAnnotations{"$schema", "$defs", "title", "description", "default", "examples"};
    if (kAnnotations.count(keyword) > 0) return;
    if (keyword == "$ref") return check_reference(rule.get<std::string>(), value, at);
    if (keyword == "type") return check_type(rule, value, at);
    if (keyword == "enum") return check_enum(rule, value, at);
    if (keyword == "const") return check_enum(json::array({rule}), value, at);
    if (keyword == "oneOf" || keyword == "anyOf") return check_choice(keyword, rule, value, at);
    if (keyword == "properties" || keyword == "required" || keyword == "additionalProperties")
      return check_object(keyword, rule, schema, value, at);
    if (keyword == "items" || keyword == "minItems") return check_array(keyword, rule, value, at);
    if (keyword == "minimum" || keyword == "maximum" || keyword == "exclusiveMinimum" || keyword == "exclusiveMaximum")
      return check_number(keyword, rule, value, at);
    if (keyword == "pattern") {
      if (value.is_string() && !std::regex_search(value.get<std::string>(), std::regex(rule.get<std::string>())))
        report(at, "does not match " + rule.get<std::string>());
      return;
    }
    report(at, "the schema has the keyword '" + keyword + "', which the validator does not know");
  }

  void check_reference(const std::string& reference, const json& value, const std::string& at) {
    if (reference.rfind("#", 0) == 0) {
      const json::json_pointer pointer(reference.substr(1));
      if (root_.contains(pointer)) return check(root_.at(pointer), value, at);
      return report(at, "the schema refers to nothing: " + reference);
    }
    for (const std::string& violation : Validator(file_.parent_path() / reference).violations(value))
      report(at, violation);
  }

  void check_type(const json& rule, const json& value, const std::string& at) {
    const json types = rule.is_array() ? rule : json::array({rule});
    for (const json& type : types)
      if (has_type(value, type.get<std::string>())) return;
    report(at, "is not of type " + rule.dump());
  }

  void check_enum(const json& rule, const json& value, const std::string& at) {
    for (const json& allowed : rule)
      if (allowed == value) return;
    report(at, "is none of " + rule.dump());
  }

  void check_choice(const std::string& keyword, const json& rule, const json& value, const std::string& at) {
    std::size_t fitting = 0;
    std::string reasons;
    for (const json& alternative : rule) {
      const std::vector<std::string> found = trial(alternative, value, at);
      if (found.empty())
        ++fitting;
      else
        reasons += "; " + found.front();
    }
    if (fitting == 0) report(at, "fits no alternative" + reasons);
    if (fitting > 1 && keyword == "oneOf") report(at, "fits more than one alternative");
  }

  void check_object(const std::string& keyword, const json& rule, const json& schema, const json& value,
                    const std::string& at) {
    if (!value.is_object()) return;
    if (keyword == "required") {
      for (const json& key : rule)
        if (!value.contains(key.get<std::string>())) report(at, "lacks " + key.dump());
      return;
    }
    const json properties = schema.value("properties", json::object());
    for (const auto& [key, member] : value.items()) {
      const bool known = properties.contains(key);
      if (known && keyword == "properties") check(rule.at(key), member, at + "/" + key);
      if (!known && keyword == "additionalProperties") check(rule, member, at + "/" + key);
    }
  }

  void check_array(const std::string& keyword, const json& rule, const json& value, const std::string& at) {
    if (!value.is_array()) return;
    if (keyword == "minItems") {
      if (value.size() < rule.get<std::size_t>()) report(at, "has fewer than " + rule.dump() + " items");
      return;
    }
    for (std::size_t i = 0; i < value.size(); ++i) check(rule, value[i], at + "/" + std::to_string(i));
  }

  void check_number(const std::string& keyword, const json& rule, const json& value, const std::string& at) {
    if (!value.is_number()) return;
    const double number = value.get<double>();
    const double bound = rule.get<double>();
    if (keyword == "minimum" && number < bound) report(at, "is below " + rule.dump());
    if (keyword == "maximum" && number > bound) report(at, "is above " + rule.dump());
    if (keyword == "exclusiveMinimum" && number <= bound) report(at, "is not above " + rule.dump());
    if (keyword == "exclusiveMaximum" && number >= bound) report(at, "is not below " + rule.dump());
  }

  std::filesystem::path file_;
  json root_;
  std::vector<std::string> violations_;
};

}  // namespace

std::vector<std::string> schema_violations(const std::filesystem::path& schema_file, const std::string& instance) {
  const json value = json::parse(instance, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return {"no JSON"};
  return Validator(schema_file).violations(value);
}

std::vector<std::string> schema_properties(const std::filesystem::path& schema_file, const std::string& pointer) {
  const json schema = load(schema_file).at(json::json_pointer(pointer));
  std::vector<std::string> names;
  for (const auto& item : schema.at("properties").items()) names.push_back(item.key());
  return names;  // nlohmann's objects are sorted
}

}  // namespace tracecast
