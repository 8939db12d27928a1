#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sim/base/count_text.hpp"
#include "sim/io/json_document.hpp"

namespace tracecast {
namespace {

/// Keys that begin with '$' are for editors and are left out of suggestions.
std::string list_of(std::vector<std::string> words) {
  std::erase_if(words, [](const std::string& word) { return word.starts_with('$'); });
  return fmt::format("{}", fmt::join(words, " "));
}

std::string allowed_range(std::int64_t minimum, std::int64_t maximum, std::int64_t lowest, std::int64_t highest) {
  if (maximum == highest) return fmt::format("allowed: at least {}", minimum);
  if (minimum == lowest) return fmt::format("allowed: at most {}", maximum);
  return fmt::format("allowed: {} to {}", minimum, maximum);
}

constexpr std::int64_t kExact = std::int64_t{1} << 53;  ///< doubles up to here hold every integer

bool is_integral(const JsonNode& node) {
  return node.kind == JsonNode::Kind::number && std::trunc(node.number) == node.number;
}

/// Integers may be written as 5e8 when that is one exactly, and as 500M in --set.
std::optional<std::int64_t> integer_of(const JsonNode& node) {
  if (node.kind == JsonNode::Kind::integer) return node.integer;
  if (is_integral(node) && std::abs(node.number) <= static_cast<double>(kExact))
    return static_cast<std::int64_t>(node.number);
  if (node.kind == JsonNode::Kind::string && node.line == kOverrideLine) return parse_count(node.string);
  return std::nullopt;
}

/// Words of other programs, and the key here.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kSynonyms{{{"gpu", "profile"},
                                                                                   {"precision", "dtype"},
                                                                                   {"schedule", "pp_schedule"},
                                                                                   {"batch_size", "global_batch_size"},
                                                                                   {"micro_batch", "micro_batch_size"},
                                                                                   {"sequence_length", "seq_length"},
                                                                                   {"virtual_stages", "vpp"},
                                                                                   {"chunks", "vpp"},
                                                                                   {"layers", "num_layers"},
                                                                                   {"heads", "num_attention_heads"},
                                                                                   {"gpus", "world_size"},
                                                                                   {"machine", "topology"}}};

/// The known key that was probably meant: the closest one, or the only one that begins with what was written.
std::string suggest_key(const std::string& written, const std::vector<std::string>& known) {
  for (const auto& [word, key] : kSynonyms)
    if (written == word && std::ranges::find(known, key) != known.end()) return std::string(key);
  std::string nearest = nearest_match(written, known);
  if (!nearest.empty() || written.size() < 3) return nearest;
  const auto begins = [&written](const std::string& key) { return key.starts_with(written); };
  if (std::count_if(known.begin(), known.end(), begins) == 1)
    nearest = *std::find_if(known.begin(), known.end(), begins);
  return nearest;
}

}  // namespace

ObjectReader::ObjectReader(const JsonNode& node, std::string file, std::string path, std::vector<Diagnostic>& errors)
    : node_(&node), file_(std::move(file)), path_(std::move(path)), errors_(&errors) {
  if (node.kind != JsonNode::Kind::object) add_error(path_, &node, "is not an object");
}

const JsonNode* ObjectReader::lookup(const std::string& key) {
  ignore(key);
  return find(key);
}

const JsonNode* ObjectReader::find(const std::string& key) const {
  const auto renamed = old_names_.find(key);
  return node_->find(renamed == old_names_.end() ? key : renamed->second);
}

void ObjectReader::add_error(std::string key, const JsonNode* node, std::string message) {
  Diagnostic diagnostic;
  diagnostic.file = file_;
  diagnostic.line = (node != nullptr ? node : node_)->line;
  diagnostic.key = std::move(key);
  if (node != nullptr) diagnostic.value = node->text();
  diagnostic.message = std::move(message);
  if (diagnostic.line == kOverrideLine) {
    diagnostic.file = "--set";
    diagnostic.line = 0;
  }
  errors_->push_back(std::move(diagnostic));
}

void ObjectReader::error(const std::string& key, std::string message) {
  // A node that is not an object has been reported already; do not also report its missing keys.
  if (node_->kind != JsonNode::Kind::object) return;
  add_error(dotted(key), find(key), std::move(message));
}

bool ObjectReader::get(const std::string& key, std::string& value) {
  const JsonNode* node = lookup(key);
  if (node == nullptr) return false;
  if (node->kind != JsonNode::Kind::string) {
    error(key, "is not a string");
    return false;
  }
  value = node->string;
  return true;
}

bool ObjectReader::get(const std::string& key, bool& value) {
  const JsonNode* node = lookup(key);
  if (node == nullptr) return false;
  if (node->kind != JsonNode::Kind::boolean) {
    error(key, "is not true or false");
    return false;
  }
  value = node->boolean;
  return true;
}

bool ObjectReader::get(const std::string& key, double& value) {
  const JsonNode* node = lookup(key);
  if (node == nullptr) return false;
  if (node->kind != JsonNode::Kind::number && node->kind != JsonNode::Kind::integer) {
    error(key, "is not a number");
    return false;
  }
  value = node->number;
  return true;
}

bool ObjectReader::get_integer(const std::string& key, std::int64_t& value, const Range& range) {
  const JsonNode* node = lookup(key);
  if (node == nullptr) return false;
  const std::optional<std::int64_t> integer = integer_of(*node);
  if (integer && *integer >= range.minimum && *integer <= range.maximum) {
    value = *integer;
    return true;
  }
  if (integer || is_integral(*node))
    error(key, fmt::format("is out of range ({})",
                           allowed_range(range.minimum, integer ? range.maximum : std::min(range.maximum, kExact),
                                         range.lowest, range.highest)));
  else
    error(key, "is not an integer");
  return false;
}

bool ObjectReader::get(const std::string& key, std::int64_t& value, std::int64_t minimum, std::int64_t maximum) {
  return get_integer(key, value, {minimum, maximum, INT64_MIN, INT64_MAX});
}

bool ObjectReader::get(const std::string& key, int& value, int minimum, int maximum) {
  std::int64_t wide = 0;
  if (!get_integer(key, wide, {minimum, maximum, INT32_MIN, INT32_MAX})) return false;
  value = static_cast<int>(wide);
  return true;
}

template <class T>
bool ObjectReader::get_quantity(const std::string& key, T& value, Result<T> (*parse)(std::string_view)) {
  const JsonNode* node = lookup(key);
  if (node == nullptr) return false;
  // For a bare number, the parser's own message says that the unit is missing.
  const Result<T> quantity = parse(node->kind == JsonNode::Kind::string ? node->string : node->text());
  if (!quantity) {
    error(key, quantity.error().diagnostics.front().message);
    return false;
  }
  value = *quantity;
  return true;
}

bool ObjectReader::get(const std::string& key, Bytes& value) { return get_quantity(key, value, parse_bytes); }
bool ObjectReader::get(const std::string& key, Bandwidth& value) { return get_quantity(key, value, parse_bandwidth); }
bool ObjectReader::get(const std::string& key, Duration& value) { return get_quantity(key, value, parse_duration); }

bool ObjectReader::get(const std::string& key, std::vector<int>& value) {
  const JsonNode* node = lookup(key);
  if (node == nullptr) return false;
  std::vector<int> read;
  bool good = node->kind == JsonNode::Kind::array;
  for (const JsonNode& item : node->items) {
    const std::optional<std::int64_t> integer = integer_of(item);
    good = good && integer && *integer >= INT32_MIN && *integer <= INT32_MAX;
    if (good) read.push_back(static_cast<int>(*integer));
  }
  if (!good) {
    error(key, "is not a list of integers");
    return false;
  }
  value = std::move(read);
  return true;
}

bool ObjectReader::get(const std::string& key, std::vector<std::string>& value) {
  const JsonNode* node = lookup(key);
  if (node == nullptr) return false;
  std::vector<std::string> read;
  bool good = node->kind == JsonNode::Kind::array;
  for (const JsonNode& item : node->items) {
    good = good && item.kind == JsonNode::Kind::string;
    if (good) read.push_back(item.string);
  }
  if (!good) {
    error(key, "is not a list of strings");
    return false;
  }
  value = std::move(read);
  return true;
}

bool ObjectReader::get_choice(const std::string& key, const std::vector<std::string>& names, std::size_t& index) {
  const JsonNode* node = lookup(key);
  if (node == nullptr) return false;
  if (node->kind == JsonNode::Kind::string) {
    const auto found = std::find(names.begin(), names.end(), node->string);
    if (found != names.end()) {
      index = static_cast<std::size_t>(found - names.begin());
      return true;
    }
  }
  const std::string written = lower_case(node->kind == JsonNode::Kind::string ? node->string : "");
  const bool by_case = std::ranges::find(names, written) != names.end();
  error(key, fmt::format("is unknown ({}allowed: {})", by_case ? fmt::format("did you mean '{}'? ", written) : "",
                         list_of(names)));
  return false;
}

const JsonNode* ObjectReader::get_node(const std::string& key) { return lookup(key); }

std::optional<ObjectReader> ObjectReader::get_object(const std::string& key) {
  const JsonNode* node = lookup(key);
  if (node == nullptr) return std::nullopt;
  if (node->kind != JsonNode::Kind::object) {
    error(key, "is not an object");
    return std::nullopt;
  }
  return ObjectReader(*node, file_, dotted(key), *errors_);
}

std::vector<ObjectReader> ObjectReader::get_objects(const std::string& key) {
  std::vector<ObjectReader> readers;
  const JsonNode* node = lookup(key);
  if (node == nullptr) return readers;
  if (node->kind != JsonNode::Kind::array) error(key, "is not a list");
  for (std::size_t i = 0; i < node->items.size(); ++i)
    readers.emplace_back(node->items[i], file_, fmt::format("{}[{}]", dotted(key), i), *errors_);
  return readers;
}

void ObjectReader::ignore(const std::string& key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.push_back(key);
}

void ObjectReader::accept_old_name(const std::string& old_name, const std::string& key) {
  if (node_->find(old_name) == nullptr) return;
  ignore(old_name);
  if (node_->find(key) == nullptr)
    old_names_[key] = old_name;
  else
    error(old_name, fmt::format("is the old name of '{}', which is given as well", key));
}

void ObjectReader::finish() {
  for (const auto& [name, node] : node_->members) {
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    const std::string nearest = suggest_key(name, known_);
    add_error(dotted(shortened(name)), &node,
              nearest.empty() ? fmt::format("unknown key (allowed: {})", list_of(known_))
                              : fmt::format("unknown key (did you mean '{}'?)", nearest));
    errors_->back().value.clear();  // the error is in the key
  }
}

}  // namespace tracecast
