#include "sim/import/launchers/mixed_precision.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace tracecast {
namespace {

using Name = std::string_view;

struct PrecisionRecipe {
  Name name;
  Name fp8_recipe = {};     ///< "": no multiplication in 8 bits
  Name fp4 = {};            ///< format of 4 bits
  int wide_start = 0;       ///< first layers that stay in 16 bits
  int wide_end = 0;         ///< last ones
  bool fp8_params = false;  ///< parameters are kept and gathered in 8 bits
};

/// Those that begin with fp16 have it in place of bf16, also for gradients.
constexpr PrecisionRecipe kPrecisionRecipes[] = {
    {.name = "bf16_mixed"},
    {.name = "fp16_mixed"},
    {.name = "bf16_with_fp8_mixed", .fp8_recipe = "delayed", .fp8_params = true},
    {.name = "fp16_with_fp8_mixed", .fp8_recipe = "delayed", .fp8_params = true},
    {.name = "bf16_with_fp8_delayed_scaling_mixed", .fp8_recipe = "delayed", .fp8_params = true},
    {.name = "fp16_with_fp8_delayed_scaling_mixed", .fp8_recipe = "delayed", .fp8_params = true},
    {.name = "bf16_with_mxfp8_mixed", .fp8_recipe = "mxfp8", .fp8_params = true},
    {.name = "fp16_with_mxfp8_mixed", .fp8_recipe = "mxfp8", .fp8_params = true},
    {"bf16_with_fp8_current_scaling_mixed", "tensorwise", "", 1, 1, true},
    {"fp16_with_fp8_current_scaling_mixed", "tensorwise", "", 1, 1, true},
    {"nemotron_h_bf16_with_fp8_current_scaling_mixed", "tensorwise", "", 2, 2, true},
    {"nanov2_bf16_with_fp8_current_scaling_mixed", "blockwise", "", 2, 2, true},
    {.name = "bf16_with_fp8_subchannel_scaling_mixed", .fp8_recipe = "blockwise"},
    {.name = "fp16_with_fp8_subchannel_scaling_mixed", .fp8_recipe = "blockwise"},
    {.name = "bf16_with_nvfp4_mixed", .fp4 = "e2m1"},
    {.name = "nemotron_3_super_bf16_with_nvfp4_mixed", .fp4 = "e2m1", .wide_end = 14},
};

/// A section of settings, all on the line of the recipe.
class Section {
 public:
  explicit Section(int line) : line_(line), section_(empty(JsonNode::Kind::object)) {}
  void set(const char* key, bool value) { add(key, JsonNode::Kind::boolean).boolean = value; }
  void set(const char* key, int value) {
    JsonNode& number = add(key, JsonNode::Kind::integer);
    number.integer = value;
    number.number = value;
  }
  /// "": null.
  void set(const char* key, Name value) {
    add(key, value.empty() ? JsonNode::Kind::null : JsonNode::Kind::string).string = value;
  }
  JsonNode node() && { return std::move(section_); }

 private:
  JsonNode empty(JsonNode::Kind kind) const {
    JsonNode made;
    made.kind = kind;
    made.line = line_;
    return made;
  }
  JsonNode& add(const char* key, JsonNode::Kind kind) {
    section_.members.push_back({key, empty(kind)});
    return section_.members.back().value;
  }

  int line_;
  JsonNode section_;
};

bool take_suffix(std::string& name, Name suffix) {
  if (!name.ends_with(suffix)) return false;
  name.resize(name.size() - suffix.size());
  return true;
}

}  // namespace

std::optional<JsonNode> mixed_precision_settings(std::string_view written, int line) {
  std::string name(written);
  std::ranges::replace(name, '-', '_');
  const bool narrow_gradients = take_suffix(name, "_bf16_grad_reduce");
  const bool wide_parameters = take_suffix(name, "_bf16_params");
  const bool modified = narrow_gradients || wide_parameters;
  const auto* const recipe = std::ranges::find_if(kPrecisionRecipes, [&](const PrecisionRecipe& each) {
    return each.name == name || (modified && each.name == name + "_mixed");
  });
  if (recipe == std::end(kPrecisionRecipes) || (wide_parameters && !recipe->fp8_params)) return std::nullopt;
  const bool half = recipe->name.starts_with("fp16");
  Section section(line);
  section.set("bf16", !half);
  section.set("fp16", half);
  section.set("grad_reduce_in_fp32", !half && !narrow_gradients);
  section.set("fp8", recipe->fp8_recipe.empty() ? Name() : Name("hybrid"));
  section.set("fp8_recipe", recipe->fp8_recipe);
  section.set("fp4", recipe->fp4);
  section.set("fp8_param_gather", recipe->fp8_params && !wide_parameters);
  section.set("first_last_layers_bf16", recipe->wide_start > 0 || recipe->wide_end > 0);
  section.set("num_layers_at_start_in_bf16", recipe->wide_start);
  section.set("num_layers_at_end_in_bf16", recipe->wide_end);
  return std::move(section).node();
}

std::string mixed_precision_names() {
  std::string names;
  for (const PrecisionRecipe& each : kPrecisionRecipes) names += (names.empty() ? "" : " ") + std::string(each.name);
  return names;
}

}  // namespace tracecast
