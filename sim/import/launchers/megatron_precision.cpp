#include "sim/import/launchers/megatron_precision.hpp"

#include <algorithm>
#include <array>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/words.hpp"
#include "sim/import/launchers/setting_rows.hpp"

namespace tracecast {
namespace {

using Name = std::string_view;

constexpr std::array<Name, 4> kFp8Formats{"hybrid", "e4m3", "e5m2", "true"};
constexpr std::array<Name, 1> kFp4Formats{"e2m1"};

/// Whether numbers of a narrow format are asked for. NeMo and Megatron-Bridge say false, none or null where they are
/// not.
bool has_format(RunImport& run, Name key, std::span<const Name> formats) {
  const std::string written = lower_case(run.word(key));
  if (written.empty() || written == "false" || written == "none") return false;
  if (std::ranges::find(formats, written) != formats.end()) return true;
  run.error(key, fmt::format("is not supported (allowed: {})", fmt::join(formats, " ")));
  return false;
}

/// The first and last layers in bf16: one of each unless more are asked for, and none without the flag. Recipes of
/// Megatron-Bridge may have set it.
void import_wide_layers(RunImport& run, bool bridge) {
  constexpr Name kFlag = "first-last-layers-bf16";
  constexpr std::array kCounts{std::pair{"training.bf16_layers_start", Name("num-layers-at-start-in-bf16")},
                               std::pair{"training.bf16_layers_end", Name("num-layers-at-end-in-bf16")}};
  const std::optional<bool> said = run.flag(kFlag);
  for (const auto& [ours, theirs] : kCounts) {
    const auto layers = run.count(theirs);
    if (said.value_or(bridge && layers))
      run.put(ours, layers.value_or(1), layers ? theirs : kFlag);
    else if (layers && *layers > 0 && !said)
      run.assume(fmt::format("{}: without {} no layer stays in bf16", theirs, kFlag));
  }
}

constexpr Name kGradients = "main-grads-dtype";

/// The precision-aware optimizer's type of gradients is that of their reduction, unless fp32 is asked for (arguments.py).
bool has_narrow_gradients(RunImport& run) {
  const bool aware = run.flag("use-precision-aware-optimizer").value_or(false);
  if (!aware || !says_type(run, kGradients, "bf16")) return false;
  run.take(kGradients);
  return !run.flag("accumulate-allreduce-grads-in-fp32").value_or(false);
}

}  // namespace

void import_megatron_precision(RunImport& run, bool bridge) {
  constexpr std::pair<Name, Name> kRecipes[] = {
      {"tensorwise", "fp8"}, {"delayed", "fp8"}, {"blockwise", "fp8_block"}, {"mxfp8", "mxfp8"}};
  const bool bf16 = run.flag("bf16").value_or(bridge);
  const bool fp16 = run.flag("fp16").value_or(false);
  run.put("training.dtype", fp16 ? "fp16" : bf16 ? "bf16" : "fp32", fp16 ? "fp16" : "bf16");
  const Name fp8 = run.first_of({"fp8-format", "fp8"});
  const Name fp4 = run.first_of({"fp4-format", "fp4"});
  const std::optional<Name> recipe = run.choice<Name>("fp8-recipe", kRecipes);
  if (has_format(run, fp8, kFp8Formats)) {
    run.put("training.dtype", recipe.value_or("fp8"), fp8);
    // Megatron-LM's default is delayed scaling, Megatron-Bridge's current, as its stack has it.
    const bool current = recipe && run.word("fp8-recipe") == "tensorwise";
    if (recipe.value_or("fp8") == "fp8" && (recipe || !bridge))
      run.put("training.fp8_scaling", current ? "current" : "delayed", recipe ? "fp8-recipe" : fp8);
  }
  for (const Name format : {"fp8-hybrid", "fp8-e4m3"}) {
    const bool on = run.flag(format).value_or(false);  // NeMo's says which format, of one size
    if (on && !bridge) run.put("training.dtype", "fp8", format);
  }
  // With fp8-dot-product-attention: its operands arrive quantised, a saving that is left out.
  run.flag("fp8-multi-head-attention");
  if (has_format(run, fp4, kFp4Formats)) run.put("training.dtype", "nvfp4", fp4);
  const bool narrow = run.flag("grad-reduce-in-bf16").value_or(false) ||
                      (run.has("grad-reduce-in-fp32") && !run.flag("grad-reduce-in-fp32").value_or(true));
  run.flag("accumulate-allreduce-grads-in-fp32");
  if (!bridge && !narrow && has_narrow_gradients(run))
    run.put("training.grad_reduce_dtype", "bf16", kGradients);
  else if (narrow)
    run.put("training.grad_reduce_dtype", fp16 ? "fp16" : "bf16", "grad-reduce-in-bf16");
  else if (fp16 && !run.has("accumulate-allreduce-grads-in-fp32") && !run.has("grad-reduce-in-fp32"))
    run.put("training.grad_reduce_dtype", "fp16", "fp16");
  else if (!bridge || run.has("grad-reduce-in-fp32"))
    run.put("training.grad_reduce_dtype", "fp32", "accumulate-allreduce-grads-in-fp32");
  import_wide_layers(run, bridge);
}

void import_megatron_optimizer_types(RunImport& run) {
  constexpr Name kMomentum = "exp-avg-dtype", kVariance = "exp-avg-sq-dtype";
  const bool aware = run.flag("use-precision-aware-optimizer").value_or(false);
  if (aware && says_type(run, kMomentum, "bf16") && says_type(run, kVariance, "bf16")) {
    run.put("training.optimizer_state_dtype", "bf16", kMomentum);
    for (const Name key : {kMomentum, kVariance}) run.take(key);
  }
  for (const Name key : {kMomentum, kVariance, kGradients, Name("main-params-dtype")})
    if (says_type(run, key, "fp32")) run.pass_over(key);
}

}  // namespace tracecast
