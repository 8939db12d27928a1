#include "sim/import/launchers/bridge_document.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/import/launchers/mixed_precision.hpp"
#include "sim/import/launchers/plain_scalar.hpp"
#include "sim/import/launchers/shell_words.hpp"
#include "sim/import/launchers/yaml_document.hpp"
#include "sim/import/recognise.hpp"
#include "sim/io/fields.hpp"

namespace tracecast {
namespace {

constexpr std::string_view kTarget = "_target_";
constexpr std::string_view kMixedPrecision = "mixed_precision";

JsonNode* member(JsonNode& object, std::string_view key) {
  const auto found = std::ranges::find(object.members, key, &JsonMember::key);
  return found == object.members.end() ? nullptr : &found->value;
}

bool is_true(JsonNode& object, std::string_view key) {
  const JsonNode* const node = member(object, key);
  return node != nullptr && node->kind == JsonNode::Kind::boolean && node->boolean;
}

bool is_given(JsonNode& object, std::string_view key) {
  const JsonNode* const node = member(object, key);
  return node != nullptr && node->kind != JsonNode::Kind::null;
}

void rename(JsonNode& object, std::string_view key, const std::string& to) {
  const auto found = std::ranges::find(object.members, key, &JsonMember::key);
  if (found != object.members.end()) found->key = to;
}

template <class Condition>
void drop(JsonNode& object, Condition condition) {
  std::erase_if(object.members, [&](const JsonMember& each) { return condition(std::string_view(each.key)); });
}

/// In place of another number.
JsonNode one(const JsonNode& other) {
  JsonNode node = node_of(1);
  node.line = other.line;
  return node;
}

/// share_embeddings_and_output_weights is the negation of Megatron-LM's flag.
void rewrite_tied_embeddings(JsonNode& model) {
  const std::string untied = "untie_embeddings_and_output_weights";
  rename(model, "share_embeddings_and_output_weights", untied);
  if (JsonNode* const node = member(model, untied)) node->boolean = !node->boolean;
}

/// An object of Python is its class or function, without its module; a section loses its class.
void plain(JsonNode& object, bool section) {
  if (const JsonNode* const target = object.find(kTarget); target != nullptr && !section) {
    JsonNode name = *target;
    name.kind = JsonNode::Kind::string;
    name.string = name.string.substr(name.string.rfind('.') + 1);
    object = std::move(name);
    return;
  }
  if (JsonNode* const target = member(object, kTarget);
      target != nullptr && target->string.find(".peft.") != std::string::npos)
    rename(object, kTarget, kAdapterKind);
  drop(object, [](std::string_view key) { return key == kTarget; });
  for (JsonMember& each : object.members)
    if (each.value.kind == JsonNode::Kind::object) plain(each.value, false);
}

bool has_member(const JsonNode& object, std::string_view key) { return object.find(key) != nullptr; }

/// Settings of a section that another one replaces before a run: `wins` says which of its settings do.
template <class Wins>
void overrule(JsonNode& root, const JsonNode& section, std::initializer_list<std::string_view> others, Wins wins) {
  for (const std::string_view name : others)
    if (JsonNode* const other = member(root, name); other != nullptr && other != &section)
      drop(*other, [&](std::string_view key) { return has_member(section, key) && wins(*section.find(key)); });
}

/// Megatron-Bridge writes mixed_precision, even where it says null, and what comm_overlap sets into the model and its
/// data parallelism. The optimizer's overlap is to be that of ddp. A model with a vocabulary does not ask the tokenizer
/// for one.
void resolve(JsonNode& root) {
  const auto always = [](const JsonNode&) { return true; };
  const auto if_given = [](const JsonNode& node) { return node.kind != JsonNode::Kind::null; };
  if (const JsonNode* const precision = member(root, kMixedPrecision))
    overrule(root, *precision, {"model", "optimizer", "ddp"}, always);
  if (const JsonNode* const overlap = member(root, "comm_overlap"))
    overrule(root, *overlap, {"model", "optimizer", "ddp"}, if_given);
  constexpr std::string_view kGather = "overlap_param_gather";
  JsonNode* const ddp = member(root, "ddp");
  JsonNode* const optimizer = member(root, "optimizer");
  if (ddp != nullptr && optimizer != nullptr && is_given(*ddp, kGather))
    drop(*optimizer, [=](std::string_view key) { return key == kGather; });
  JsonNode* const model = member(root, "model");
  JsonNode* const tokenizer = member(root, "tokenizer");
  if (model != nullptr && tokenizer != nullptr && is_given(*model, "vocab_size"))
    drop(*tokenizer, [](std::string_view key) { return key == "vocab_size"; });
}

/// A recipe for numbers becomes the settings that it stands for.
Result<void> write_out_precision(JsonDocument& document) {
  JsonNode* const named = member(document.root, kMixedPrecision);
  if (named == nullptr || named->kind != JsonNode::Kind::string) return {};
  std::optional<JsonNode> settings = mixed_precision_settings(named->string, named->line);
  if (!settings)
    return fail({document.file, named->line, std::string(kMixedPrecision), named->text(),
                 fmt::format("is not supported (allowed: {})", mixed_precision_names())});
  *named = std::move(*settings);
  return {};
}

void set(JsonNode& object, const std::string& key) { object.members.push_back({key, node_of(true)}); }

/// Other functions stay as they are, and are then listed as not mapped.
void rewrite_activation(JsonNode& model) {
  const JsonNode* const activation = model.find("activation_func");
  const std::string function = activation == nullptr ? "gelu" : activation->string;
  const bool gelu = function.ends_with("gelu");
  if (is_true(model, "gated_linear_unit")) {
    if (function != "silu" && !gelu) return;
    rename(model, "gated_linear_unit", gelu ? "geglu" : "swiglu");
  } else if (function == "squared_relu") {
    set(model, "squared_relu");
  } else if (!gelu) {
    return;
  }
  drop(model, [](std::string_view key) { return key == "activation_func" || key == "gated_linear_unit"; });
}

/// The model's own settings as Megatron-LM's flags say them.
void rewrite_model(JsonNode& model) {
  rewrite_activation(model);
  rewrite_tied_embeddings(model);
  if (!is_true(model, "should_pad_vocab"))
    if (JsonNode* const multiple = member(model, "make_vocab_size_divisible_by")) *multiple = one(*multiple);
  if (!is_given(model, "num_moe_experts"))
    drop(model, [](std::string_view key) { return key.starts_with("moe_") || key.starts_with("expert_"); });
  drop(model, [](std::string_view key) { return key.starts_with("mamba_") || key == "generation_config"; });
}

/// A whole configuration. The data's sequence length is that of the run; the model's is the longest that it may have.
void rewrite(JsonNode& root) {
  drop(root, [](std::string_view key) { return key == kTarget; });
  if (JsonNode* const model = member(root, "model")) {
    rewrite_model(*model);
    if (JsonNode* const data = member(root, "dataset")) {
      rename(*data, "sequence_length", "seq_length");
      if (is_given(*data, "seq_length")) drop(*model, [](std::string_view key) { return key == "seq_length"; });
    }
  }
  if (JsonNode* const ddp = member(root, "ddp"); ddp != nullptr && !is_true(*ddp, "use_megatron_fsdp"))
    drop(*ddp, [](std::string_view key) { return key.ends_with("_sharding_strategy"); });
  set(root, kWholeConfiguration);
}

/// The scalar at a dotted path; nullptr: none.
const JsonNode* scalar_at(const JsonNode* node, std::string_view path) {
  for (const std::string_view key : split(path, '.')) {
    if (node == nullptr || node->kind != JsonNode::Kind::object) return nullptr;
    node = node->find(key);
  }
  return node == nullptr || node->kind == JsonNode::Kind::object ? nullptr : node;
}

/// OmegaConf's interpolations, and the resolvers that NeMo's configurations have.
class Interpolation {
 public:
  explicit Interpolation(const JsonNode& root) : root_(&root) {}

  void write_out(JsonNode& object) {
    around_.push_back(&object);
    for (JsonMember& each : object.members) {
      if (each.value.kind == JsonNode::Kind::object) {
        write_out(each.value);
        continue;
      }
      std::optional<JsonNode> value = value_of(each.value.string, each.value.kind, 0);
      if (!value) continue;
      value->line = each.value.line;
      each.value = std::move(*value);
    }
    around_.pop_back();
  }

 private:
  /// Of a text that is one interpolation; nothing: it is not, or its value is not known.
  std::optional<JsonNode> value_of(std::string_view text, JsonNode::Kind kind, int depth) {
    constexpr int kMaxDepth = 10, kMaxSteps = 10'000;
    if (kind != JsonNode::Kind::string || !text.starts_with("${") || expansion_at(text).size != text.size() ||
        depth > kMaxDepth || ++steps_ > kMaxSteps)
      return std::nullopt;
    const std::string_view inside = text.substr(2, text.size() - 3);
    const std::size_t colon = inside.find(':');
    if (colon != std::string_view::npos) return resolved(inside.substr(0, colon), inside.substr(colon + 1), depth);
    const JsonNode* const other = setting_at(inside);
    if (other == nullptr) return std::nullopt;
    const bool relative = other->string.find("${.") != std::string::npos;  // to another section
    const std::optional<JsonNode> value = relative ? std::nullopt : value_of(other->string, other->kind, depth + 1);
    return value ? value : *other;
  }

  /// ${.hidden_size} is the setting beside it, ${..name} one beside its section, ${model.hidden_size} that of the root; NeMo's launcher
  /// has the root in `training`.
  const JsonNode* setting_at(std::string_view path) const {
    const std::size_t dots = std::min(path.find_first_not_of('.'), path.size());
    path.remove_prefix(dots);
    if (dots > around_.size()) return nullptr;
    if (dots > 0) return scalar_at(around_[around_.size() - dots], path);
    constexpr std::string_view kTraining = "training.";
    if (path.starts_with(kTraining) && root_->find("training") == nullptr) path.remove_prefix(kTraining.size());
    return scalar_at(root_, path);
  }

  /// ${multiply:4, ${.hidden_size}}
  std::optional<JsonNode> resolved(std::string_view name, std::string_view arguments, int depth) {
    std::vector<std::int64_t> numbers;
    while (!arguments.empty()) {
      const std::size_t size = argument_size(arguments);
      const std::string text(trim(arguments.substr(0, size)));
      arguments.remove_prefix(std::min(size + 1, arguments.size()));
      const JsonNode written = plain_scalar(text, 0, true);
      const JsonNode argument = value_of(text, written.kind, depth + 1).value_or(written);
      constexpr std::int64_t kMax = 1'000'000'000;
      if (argument.kind != JsonNode::Kind::integer || argument.integer < -kMax || argument.integer > kMax)
        return std::nullopt;
      numbers.push_back(argument.integer);
    }
    if (numbers.size() != 2) return std::nullopt;
    const std::int64_t a = numbers[0], b = numbers[1];
    if (name == "multiply" || name == "mul") return node_of(a * b);
    if (name == "sum" || name == "add") return node_of(a + b);
    if (b <= 0 || a < 0) return std::nullopt;
    if (name == "divide_ceil") return node_of((a + b - 1) / b);
    const bool whole = name == "divide_floor" || name == "int_div" || (name == "divide" && a % b == 0);
    return whole ? std::optional(node_of(a / b)) : std::nullopt;
  }

  /// Up to the next comma outside of expansions.
  static std::size_t argument_size(std::string_view text) {
    std::size_t at = 0;
    while (at < text.size() && text[at] != ',') at += std::max<std::size_t>(expansion_at(text.substr(at)).size, 1);
    return std::min(at, text.size());
  }

  const JsonNode* root_;
  std::vector<const JsonNode*> around_;  ///< sections, the root first
  int steps_ = 0;
};

struct Word {
  std::string_view theirs;
  const char* flag;  ///< "": none
};

/// A word in place of flags; other words stay, and are then listed as not mapped.
void write_flags(JsonNode& object, std::string_view key, std::initializer_list<Word> words) {
  const JsonNode* const node = member(object, key);
  if (node == nullptr) return;
  const std::string word = lower_case(node->string);
  const auto* const found = std::ranges::find(words, std::string_view(word), &Word::theirs);
  if (found == words.end()) return;
  drop(object, [=](std::string_view each) { return each == key; });
  if (*found->flag != '\0') set(object, found->flag);
}

/// The optimizer of NeMo 1: its name says whether the states are divided.
void rewrite_nemo_optimizer(JsonNode& model) {
  constexpr std::string_view kDivided[] = {"distributed_fused_adam", "mcore_distributed_optim"};
  constexpr std::string_view kWhole[] = {"fused_adam", "megatron_fused_adam", "adam", "adamw"};
  JsonNode* const optimizer = member(model, "optim");
  const JsonNode* const name = optimizer == nullptr ? nullptr : optimizer->find("name");
  if (name == nullptr) return;
  const bool divided = std::ranges::find(kDivided, name->string) != std::end(kDivided);
  if (!divided && std::ranges::find(kWhole, name->string) == std::end(kWhole))
    return rename(*optimizer, "name", "optimizer_name");  // not mapped
  JsonNode flag = node_of(divided);
  flag.line = name->line;
  *member(*optimizer, "name") = std::move(flag);
  rename(*optimizer, "name", "use_distributed_optimizer");
  rename(*optimizer, "overlap_grad_sync", "overlap_grad_reduce");
  rename(*optimizer, "overlap_param_sync", "overlap_param_gather");
  if (JsonNode* const type = member(*optimizer, "grad_sync_dtype")) {
    const bool wide = type->string == "fp32" || type->string == "float32" || type->string == "32";
    const int line = type->line;
    *type = node_of(wide);
    type->line = line;
    rename(*optimizer, "grad_sync_dtype", "grad_reduce_in_fp32");
  }
}

template <class Condition>
void drop_everywhere(JsonNode& object, const Condition& condition) {
  drop(object, condition);
  for (JsonMember& each : object.members)
    if (each.value.kind == JsonNode::Kind::object) drop_everywhere(each.value, condition);
}

/// NeMo 2 has what overlaps in a callback, which wins over the strategy where it is not null.
void write_out_overlap(JsonNode& root, JsonNode& trainer) {
  constexpr std::string_view kCallback = "MegatronCommOverlapCallback";
  JsonNode* const callbacks = member(trainer, "callbacks");
  if (callbacks == nullptr) return;
  const auto found = std::ranges::find_if(callbacks->items, [=](const JsonNode& each) {
    const JsonNode* const target = each.kind == JsonNode::Kind::object ? each.find(kTarget) : nullptr;
    return target != nullptr && target->string.ends_with(kCallback);
  });
  if (found == callbacks->items.end()) return;
  JsonNode overlap = std::move(*found);
  callbacks->items.erase(found);
  if (callbacks->items.empty()) drop(trainer, [](std::string_view key) { return key == "callbacks"; });
  std::erase_if(overlap.members,
                [](const JsonMember& each) { return each.key == kTarget || each.value.kind == JsonNode::Kind::null; });
  drop_everywhere(root, [&](std::string_view key) { return has_member(overlap, key); });
  root.members.push_back({"comm_overlap", std::move(overlap)});
}

}  // namespace

void write_out_nemo(JsonNode& root) {
  const JsonNode whole = root;
  Interpolation(whole).write_out(root);
  JsonNode* const model = member(root, "model");
  JsonNode* const trainer = member(root, "trainer");
  if (model == nullptr || trainer == nullptr) return;
  const JsonNode* const data = model->find("data");
  const bool has_length = data != nullptr && data->find("seq_length") != nullptr;
  rename(*model, "encoder_seq_length", has_length ? "longest_seq_length" : "seq_length");
  drop(*model, [](std::string_view key) { return key == "longest_seq_length"; });
  rename(*model, "bias", "add_bias_linear");
  rename(*model, "ub_tp_comm_overlap", "tp_comm_overlap");
  rewrite_nemo_optimizer(*model);
  rewrite_tied_embeddings(*model);
  write_flags(*model, "activation",
              {{"gelu", ""},
               {"swiglu", "swiglu"},
               {"fast-swiglu", "swiglu"},
               {"geglu", "geglu"},
               {"fast-geglu", "geglu"},
               {"squared-relu", "squared_relu"}});
  if (JsonNode* const norm = member(*model, "normalization"))
    norm->string = norm->string == "rmsnorm"               ? "RMSNorm"
                   : norm->string.starts_with("layernorm") ? "LayerNorm"
                                                           : norm->string;
  write_flags(
      *trainer, "precision",
      {{"bf16", ""}, {"bf16-mixed", ""}, {"16", "fp16"}, {"16-mixed", "fp16"}, {"32", "fp32"}, {"32-true", "fp32"}});
  if (JsonNode* const single = member(*trainer, "fp32")) {
    single->boolean = false;
    rename(*trainer, "fp32", "bf16");
  }
  write_out_overlap(root, *trainer);
}

bool is_bridge_recipe(std::string_view content, std::string_view file) {
  return file.ends_with(".py") && head_contains(content, "megatron.bridge");
}

Result<JsonDocument> parse_bridge(const std::string& content, const std::string& file) {
  Result<JsonDocument> document = parse_yaml(content, file);
  if (!document) return document;
  for (JsonMember& each : document->root.members)
    if (each.value.kind == JsonNode::Kind::object) plain(each.value, true);
  const JsonNode* const target = document->root.find(kTarget);
  if (target != nullptr && target->string.ends_with("ConfigContainer")) rewrite(document->root);
  if (const Result<void> written = write_out_precision(*document); !written) return tl::unexpected(written.error());
  resolve(document->root);
  return document;
}

}  // namespace tracecast
