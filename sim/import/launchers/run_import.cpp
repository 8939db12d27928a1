#include "sim/import/launchers/run_import.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/import/launchers/argument_document.hpp"
#include "sim/import/launchers/plain_scalar.hpp"
#include "sim/import/launchers/shell_words.hpp"
#include "sim/io/fields.hpp"

namespace tracecast {
namespace {

/// "trainer.strategy.tensor_model_parallel_size" and "--tensor-model-parallel-size" are one flag.
std::string flag_name(std::string key) {
  key.erase(0, key.find_first_not_of('-'));
  std::replace(key.begin(), key.end(), '_', '-');
  return key;
}

JsonNode& member(JsonNode& object, const std::string& key) {
  object.kind = JsonNode::Kind::object;
  for (JsonMember& each : object.members)
    if (each.key == key) return each.value;
  object.members.push_back({key, {}});
  return object.members.back().value;
}

bool is_left_open(const JsonNode& node) { return node.kind == JsonNode::Kind::string && node.string == "auto"; }

bool is_fusion(std::string_view key) { return key.ends_with("-fusion") && !key.starts_with("no-"); }

bool is_absent(const JsonNode& node) { return node.kind == JsonNode::Kind::null || is_left_open(node); }

/// A variable of the environment, and what stands for it where it is not set.
struct EnvironmentDefault {
  std::string variable;
  std::string text;
};

/// ${TP:4} and ${TP:-4} of YAML, ${oc.env:TP,4} of OmegaConf, also inside ${oc.decode:}; a default may be another one of these.
std::optional<EnvironmentDefault> environment_default(std::string_view text) {
  constexpr std::string_view kDecode = "oc.decode:", kEnvironment = "oc.env:";
  constexpr std::string_view kUpper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  if (!text.starts_with("${") || expansion_at(text).size != text.size()) return std::nullopt;
  std::string_view inside = text.substr(2, text.size() - 3);
  if (inside.starts_with(kDecode)) return environment_default(trim(inside.substr(kDecode.size())));
  const bool named = inside.starts_with(kEnvironment);
  if (named) inside.remove_prefix(kEnvironment.size());
  const std::size_t end = inside.find(named ? ',' : ':');
  const std::string_view variable = inside.substr(0, end);
  const bool named_so = named || variable.find_first_not_of(kUpper) == std::string_view::npos;
  if (end == std::string_view::npos || variable.empty() || !named_so) return std::nullopt;
  std::string_view otherwise = trim(inside.substr(end + 1));
  if (!named && otherwise.starts_with('-')) otherwise.remove_prefix(1);
  const std::optional<EnvironmentDefault> inner = environment_default(otherwise);
  return EnvironmentDefault{std::string(variable), inner ? inner->text : std::string(trim(otherwise, "'\""))};
}

bool is_variable(const JsonNode& node) {
  return node.kind == JsonNode::Kind::string && node.string.find('$') != std::string::npos;
}

}  // namespace

RunImport::RunImport(const JsonDocument& theirs, Names names) : theirs_(&theirs.root), file_(theirs.file) {
  ours.kind = JsonNode::Kind::object;
  flatten(theirs.root, "", names, 0);
}

void RunImport::flatten(const JsonNode& node, const std::string& path, Names names, int depth) {
  constexpr int kMaxDepth = 100;
  if (node.kind == JsonNode::Kind::object && depth < kMaxDepth) {
    for (const JsonMember& each : node.members) {
      const bool flat = names == Names::flagged || path.empty();
      std::string key = names == Names::flagged ? each.key.substr(each.key.rfind('.') + 1) : each.key;
      flatten(each.value, flat ? std::move(key) : path + "." + key, names, depth + 1);
    }
    return;
  }
  if (path.empty()) return;
  const std::string key = names == Names::flagged ? flag_name(path) : path;
  const auto found = index_.find(key);
  Setting setting = setting_of(key, node);
  const JsonNode& value = *setting.value;
  if (found == index_.end() || is_absent(*settings_[found->second].value)) {
    index_[key] = settings_.size();
  } else if (Setting& first = settings_[found->second]; !is_absent(value) && first.value->text() != value.text()) {
    first.other = &value;
  }
  settings_.push_back(std::move(setting));
}

RunImport::Setting RunImport::setting_of(const std::string& key, const JsonNode& node) {
  const bool script = theirs_->find(kScriptNotes) != nullptr;  // whose ${TP:4} is another thing
  const auto found = !script && node.kind == JsonNode::Kind::string ? environment_default(node.string) : std::nullopt;
  if (!found) return {key, &node};
  defaults_.push_back(plain_scalar(found->text, node.line, true));
  return {.key = key, .value = &defaults_.back(), .variable = found->variable};
}

std::optional<std::size_t> RunImport::index_of(std::string_view key) const {
  const auto found = index_.find(key);
  if (found == index_.end() || is_absent(*settings_[found->second].value)) return std::nullopt;
  return found->second;
}

RunImport::Setting* RunImport::lookup(std::string_view key) {
  const auto found = index_.find(key);
  if (found == index_.end()) return nullptr;
  Setting& setting = settings_[found->second];
  if (setting.other != nullptr) {
    const JsonNode& other = *std::exchange(setting.other, nullptr);
    errors.push_back(
        {file_, other.line, std::string(key), other.text(),
         fmt::format("says something else than line {} ({})", setting.value->line, setting.value->text())});
  }
  for (Setting& each : settings_) each.used = each.used || each.key == key;
  if (const std::string variable = std::exchange(setting.variable, ""); !variable.empty())
    assume(fmt::format("{} is not set outside the file: {} = {}", variable, key, setting.value->text()));
  return &setting;
}

bool RunImport::has(std::string_view key) const { return index_of(key).has_value(); }

std::string_view RunImport::first_of(std::initializer_list<std::string_view> names) const {
  const auto* const found = std::ranges::find_if(names, [this](std::string_view name) { return has(name); });
  return found == names.end() ? *names.begin() : *found;
}

bool RunImport::is_auto(std::string_view key) {
  const Setting* const setting = lookup(key);
  return setting != nullptr && is_left_open(*setting->value);
}

const JsonNode* RunImport::find(std::string_view key) {
  Setting* setting = lookup(key);
  return setting == nullptr || is_absent(*setting->value) ? nullptr : setting->value;
}

std::string RunImport::unknown_variable(const std::string& text, std::string_view what,
                                        std::string_view our_key) const {
  const JsonNode* const loops = theirs_->find(kScriptLoops);
  const bool loop = loops != nullptr && std::ranges::any_of(loops->items, [&](const JsonNode& each) {
                      return each.string == expansion_at(text).name;
                    });
  const bool flag = what != "the number";
  return fmt::format("is a variable that {} (write {}{})", loop ? "a loop of the script sets" : "the file does not set",
                     what, our_key.empty() ? "" : fmt::format(", or give --set {}={}", our_key, flag ? "true" : "N"));
}

std::optional<double> RunImport::number(std::string_view key, std::string_view our_key) {
  const JsonNode* node = find(key);
  if (node == nullptr) return std::nullopt;
  if (is_variable(*node) && is_overridden(our_key)) return parse_number<double>(overridden.find(our_key)->second);
  if (node->kind == JsonNode::Kind::integer || node->kind == JsonNode::Kind::number) return node->number;
  if (node->kind == JsonNode::Kind::string)
    if (const auto value = parse_number<double>(node->string)) return value;
  error(key, is_variable(*node) ? unknown_variable(node->string, "the number", our_key) : "is not a number");
  return std::nullopt;
}

std::optional<std::int64_t> RunImport::count(std::string_view key, std::string_view our_key) {
  constexpr double kMax = 1e15;
  const std::optional<double> value = number(key, our_key);
  if (!value) return std::nullopt;
  const bool in_range = *value >= -1 && *value <= kMax;
  if (!in_range || *value != static_cast<double>(static_cast<std::int64_t>(*value))) {
    error(key, "is not a count");
    return std::nullopt;
  }
  return static_cast<std::int64_t>(*value);
}

std::optional<bool> RunImport::flag(std::string_view key, std::string_view our_key) {
  const JsonNode* node = find(key);
  if (node == nullptr) return std::nullopt;
  if (node->kind == JsonNode::Kind::boolean) return node->boolean;
  const std::string text = lower_case(node->kind == JsonNode::Kind::string ? node->string : node->text());
  if (text == "true" || text == "yes" || text == "1") return true;
  if (text == "false" || text == "no" || text == "0") return false;
  const bool script = theirs_->find(kScriptNotes) != nullptr;
  if (is_variable(*node) && is_overridden(our_key)) return overridden.find(our_key)->second == "true";
  // --bf16 $EXTRA_ARGS: the flag, and what a script does not say.
  if (script && (text.starts_with("$") || text.starts_with("`"))) {
    std::string missing = fmt::format("{} of line {} is not known: the arguments that it adds are left out",
                                      shortened(node->string), node->line);
    if (std::ranges::find(assumptions, missing) == assumptions.end()) assume(std::move(missing));
    return true;
  }
  error(key,
        is_variable(*node) ? unknown_variable(node->string, "true or false", our_key) : "is neither true nor false");
  return std::nullopt;
}

std::vector<std::string> RunImport::words(std::string_view key) {
  std::vector<std::string> found;
  const JsonNode* const node = find(key);
  if (node == nullptr) return found;
  for (const JsonNode& item : node->items) found.push_back(item.string);
  if (node->items.empty())
    for (const std::string_view each : split_words(node->string, " ,[]'\"")) found.emplace_back(each);
  return found;
}

std::string RunImport::word(std::string_view key) {
  const JsonNode* node = find(key);
  if (node == nullptr) return "";
  if (node->kind == JsonNode::Kind::string || !node->string.empty()) return node->string;
  return node->text();
}

void RunImport::put(const std::string& our_key, JsonNode value, std::string_view from) {
  if (!from.empty()) {
    names_[our_key] = std::string(from);
    const auto found = index_.find(from);
    if (found != index_.end()) value.line = settings_[found->second].value->line;
  }
  JsonNode* node = &ours;
  for (std::size_t begin = 0; begin <= our_key.size();) {
    const std::size_t end = std::min(our_key.find('.', begin), our_key.size());
    node = &member(*node, our_key.substr(begin, end - begin));
    if (node->line == 0) node->line = value.line;
    begin = end + 1;
  }
  *node = std::move(value);
}

void RunImport::put(const std::string& our_key, std::int64_t value, std::string_view from) {
  put(our_key, node_of(value), from);
}

void RunImport::put(const std::string& our_key, std::string_view value, std::string_view from) {
  put(our_key, node_of(std::string(value)), from);
}

void RunImport::put_flag(const std::string& our_key, bool value, std::string_view from) {
  put(our_key, node_of(value), from);
}

void RunImport::put_default(const std::string& our_key, JsonNode value, std::string sentence) {
  if (is_overridden(our_key)) return;
  put(our_key, std::move(value));
  assume(std::move(sentence));
}

const JsonNode* RunImport::given(const std::string& our_key) const {
  const JsonNode* node = &ours;
  for (std::size_t begin = 0; begin <= our_key.size() && node != nullptr;) {
    const std::size_t end = std::min(our_key.find('.', begin), our_key.size());
    node = node->kind == JsonNode::Kind::object ? node->find(our_key.substr(begin, end - begin)) : nullptr;
    begin = end + 1;
  }
  return node;
}

std::int64_t RunImport::given_count(const std::string& our_key, std::int64_t otherwise) const {
  const JsonNode* node = given(our_key);
  return node != nullptr && node->kind == JsonNode::Kind::integer ? node->integer : otherwise;
}

std::int64_t RunImport::pipeline_items(std::int64_t layers) const {
  for (const char* end : {"parallel.account_for_embedding", "parallel.account_for_loss"})
    if (const JsonNode* const counts = given(end); counts != nullptr && counts->boolean) ++layers;
  return layers;
}

void RunImport::error(std::string_view key, const std::string& message) {
  const auto found = index_.find(key);
  const JsonNode* node = found == index_.end() ? nullptr : settings_[found->second].value;
  errors.push_back(
      {file_, node == nullptr ? 0 : node->line, std::string(key), node == nullptr ? "" : node->text(), message});
}

void RunImport::take(std::string_view key) {
  for (Setting& setting : settings_) {
    const bool inside =
        setting.key.starts_with(key) && setting.key.size() > key.size() && setting.key[key.size()] == '.';
    setting.used = setting.used || setting.key == key || inside;
  }
}

template <class Predicate>
void RunImport::pass_over_where(const Predicate& has_no_effect) {
  for (Setting& setting : settings_) {
    if (setting.used || !has_no_effect(setting)) continue;
    setting.used = true;
    passed_over.push_back(setting.key);
  }
}

void RunImport::pass_over(std::string_view beginnings) {
  const std::vector<std::string_view> words = split_words(beginnings, " \n");
  pass_over_where([&](const Setting& setting) {
    return std::any_of(words.begin(), words.end(),
                       [&](std::string_view word) { return setting.key.starts_with(word); });
  });
}

void RunImport::pass_over_rest() {
  pass_over_where([](const Setting&) { return true; });
}

bool RunImport::says(std::string_view key, std::string_view value) const {
  const std::optional<std::size_t> at = index_of(key);
  if (!at) return false;
  const JsonNode& node = *settings_[*at].value;
  const bool number = node.kind == JsonNode::Kind::integer || node.kind == JsonNode::Kind::number;
  return number ? parse_number<double>(value) == node.number : node.text() == value;
}

void RunImport::pass_over_if(std::string_view key, std::string_view value) {
  pass_over_where([&](const Setting& setting) { return setting.key == key && says(key, value); });
}

void RunImport::pass_over_fusions() {
  pass_over_where([](const Setting& setting) {
    return is_fusion(setting.key) && setting.value->kind == JsonNode::Kind::boolean && setting.value->boolean;
  });
}

void RunImport::pass_over_off() {
  pass_over_where([](const Setting& setting) {
    return !is_fusion(setting.key) && setting.value->kind == JsonNode::Kind::boolean && !setting.value->boolean;
  });
}

void RunImport::list_unmapped() {
  for (const Setting& setting : settings_)
    if (!setting.used && !is_absent(*setting.value))
      unmapped.push_back({setting.key, setting.value->text(), setting.value->line});
}

std::string RunImport::name_of(const std::string& our_key) const {
  const auto found = names_.find(our_key);
  return found == names_.end() ? "" : found->second;
}

}  // namespace tracecast
