#include "sim/io/stack.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "sim/base/words.hpp"
#include "sim/cost/attention.hpp"
#include "sim/cost/slowest_rank.hpp"
#include "sim/io/scenario_fields.hpp"

namespace tracecast {
namespace {

constexpr const char* kPrefixes = R"("type": "array", "items": { "type": "string" }, "minItems": 1)";

/// Tables spell names differently: "TorchTitan" is torchtitan, "Megatron Bridge" Megatron-Bridge.
std::string comparable(const std::string& name) {
  std::string out = lower_case(name);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c == '-' || c == '_'; }, ' ');
  return out;
}

/// Match by prefix; a name without a prefix match may contain the word: "NVIDIA NeMo 25.04", "Primus (torchtitan)".
bool is_called(const std::string& text, const std::string& name, bool anywhere) {
  if (!anywhere) return text.starts_with(name);
  const std::size_t at = text.find(name);
  return at != std::string::npos && (at == 0 || std::isalnum(static_cast<unsigned char>(text[at - 1])) == 0);
}

/// True if the word that ends before `end` has more letters or digits: "BLOOM" in "BLOOMZ".
bool goes_on(const std::string& text, std::size_t end) {
  const auto is_of_word = [&](std::size_t at) { return std::isalnum(static_cast<unsigned char>(text[at])) != 0; };
  return end > 0 && end < text.size() && is_of_word(end - 1) && is_of_word(end);
}

/// True if the run had a GPU of the stack, or names none.
bool has_gpu(const Stack& stack, const ColumnOfRow& column) {
  if (stack.gpus.empty() || !column) return true;
  const std::string gpu = column("gpu");
  return gpu.empty() || std::any_of(stack.gpus.begin(), stack.gpus.end(),
                                    [&](const std::string& part) { return gpu.starts_with(part); });
}

/// How many characters of the run's columns the stack's `rows` name; nothing if a column says something else.
std::optional<std::size_t> matched(const Stack& stack, const ColumnOfRow& column) {
  std::size_t characters = 0;
  for (const auto& [name, prefixes] : stack.rows) {
    if (!column) return std::nullopt;
    const std::string value = lower_case(column(name)), wanted = lower_case(prefixes);
    std::size_t longest = 0;
    for (const std::string_view prefix : split_words(wanted, "|"))
      if (value.starts_with(prefix)) longest = std::max(longest, prefix.size());
    if (longest == 0) return std::nullopt;
    characters += longest;
  }
  return characters;
}

/// The software age that an architecture's fitted profiles represent: the median of the runs that their in-training
/// factors were fitted to.
struct Libraries {
  const char* architecture;
  double year;
};
constexpr Libraries kLibraries[] = {{"Hopper", 2024.6}, {"Blackwell", 2025.7}};

void age_kernels(double released, Profile& profile) {
  const auto* libraries =
      std::ranges::find_if(kLibraries, [&](const Libraries& l) { return profile.architecture == l.architecture; });
  if (released <= 0 || profile.kind == "recorded" || libraries == std::end(kLibraries)) return;
  const double slower = std::exp(kFasterPerYear * (libraries->year - released));
  InTraining& f = profile.in_training;
  for (double* factor : {&f.gemm, &f.gemm_fp8, &f.gemm_fp8_block, &f.gemm_fp4, &f.grouped_gemm, &f.memory})
    *factor *= slower;
}

/// Every kernel starts after the host has issued it, and the host continues when the kernel has ended.
void wait_for_every_kernel(Profile& profile) {
  const double launch = std::exchange(profile.host.launch, profile.host.graph_launch);
  const InTraining& factors = profile.in_training;  // the added host time is not kernel time
  for (auto& [precision, model] : profile.gemm) model.t0 += launch / factors.gemm;
  profile.grouped_gemm.t0 += launch / factors.grouped_gemm;
  for (AttentionModel& model : profile.attention) model.t0 += launch / factors.attention;
  for (auto& [kind, model] : profile.memory_bound)
    model.t0 += launch / (kind.first == OperatorKind::softmax ? factors.softmax : factors.memory);
}

}  // namespace

#include "sim/io/keys/stack.def"

std::vector<KeyTable> stack_keys() { return {{"stack", texts_of<Stack>()}}; }

Result<Stack> read_stack(const std::filesystem::path& path) {
  const Result<JsonDocument> document = read_json(path);
  if (!document) return tl::unexpected(document.error());
  std::vector<Diagnostic> errors;
  ObjectReader root(document->root, document->file, "", errors);
  Stack stack;
  stack.name = path.stem().string();
  read_fields(root, stack);
  if (std::optional<ObjectReader> training = root.get_object("training")) {
    read_fields(*training, stack.training, false);
    training->finish();
  }
  root.finish();
  if (!errors.empty()) return tl::unexpected(in_file_order(std::move(errors)));
  return stack;
}

Result<std::vector<Stack>> read_stacks(const std::filesystem::path& folder) {
  std::vector<Stack> stacks;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(folder, code)) {
    if (entry.path().extension() != ".json") continue;
    Result<Stack> stack = read_stack(entry.path());
    if (!stack) return tl::unexpected(stack.error());
    stacks.push_back(std::move(*stack));
  }
  if (code) return fail(Diagnostic{folder.string(), 0, "", "", "cannot be listed"});
  std::sort(stacks.begin(), stacks.end(), [](const Stack& a, const Stack& b) { return a.name < b.name; });
  return stacks;
}

void apply_to_profile(const Stack& stack, Profile& profile, bool experts) {
  const bool dispatches = experts && stack.host_launch_experts > Duration{};
  const Duration launch = dispatches ? stack.host_launch_experts : stack.host_launch;
  if (launch > Duration{}) {
    profile.host.launch = seconds(launch) * profile.host.relative;
    profile.host.fit = {.data = "whole steps of the stack " + stack.name};
  }
  if (stack.host_launch_per_expert > Duration{})
    profile.host.launch_per_expert = seconds(stack.host_launch_per_expert) * profile.host.relative;
  age_kernels(stack.released, profile);
  if (stack.launch_blocking) wait_for_every_kernel(profile);
  const auto kernel = stack.attention_kernels.find(profile.architecture);
  if (kernel == stack.attention_kernels.end()) return;
  const std::vector<std::string> known = attention_kernels(profile);
  if (std::find(known.begin(), known.end(), kernel->second) == known.end()) return;
  std::stable_partition(profile.attention.begin(), profile.attention.end(),
                        [&](const AttentionModel& model) { return model.kernel == kernel->second; });
}

void prepare_profile(Profile& profile, const Stack* stack, bool experts, int ranks, double gpu_spread) {
  if (stack != nullptr) apply_to_profile(*stack, profile, experts);
  wait_for_slowest(profile, ranks, gpu_spread);
}

void set_host_precision(const Stack& stack, const Model& model, Precision dtype, Profile& profile) {
  constexpr double kShare = 0.5;
  if (!stack.training.transformer_engine || stack.host_launch == Duration{} || model.moe || is_narrow(dtype)) return;
  profile.host.launch *= kShare;
  profile.host.fit.data += " in 8 and 4 bits, halved for 16";
}

void drop_unfit_precision(const Stack& stack, Training& training) {
  const bool narrow = is_narrow(training.dtype);
  if (!narrow && training.low_precision_activations == stack.training.low_precision_activations)
    training.low_precision_activations.clear();
  if ((training.dtype != Precision::fp8 || training.row_scales) && training.fp8_scaling == stack.training.fp8_scaling)
    training.fp8_scaling = Training{}.fp8_scaling;
  const bool eight_bits = narrow && training.dtype != Precision::nvfp4;
  if (!eight_bits && stack.training.fp8_param_gather) training.fp8_param_gather = false;
}

bool recipes_overlap_tensor_ranks(const Model& model, const Training& training) {
  return training.dtype != Precision::nvfp4 && !model.moe;
}

const Stack* find_stack(const std::vector<Stack>& stacks, const std::string& framework, const std::string& source,
                        const ColumnOfRow& column) {
  const auto longest = [&](auto names, const std::string& name, bool recipes, bool anywhere = false) {
    const std::string word = comparable(name);
    const bool of_source = names == &Stack::sources;
    const Stack* best = nullptr;
    std::pair<std::size_t, std::size_t> most{0, 0};  // characters of the name, and of the columns
    for (const Stack& stack : stacks) {
      if (stack.rows.empty() == recipes || stack.sources.empty() == of_source || !has_gpu(stack, column)) continue;
      const std::optional<std::size_t> columns = matched(stack, column);
      if (!columns) continue;
      for (const std::string& beginning : stack.*names)
        if (std::pair(beginning.size(), *columns) > most && is_called(word, comparable(beginning), anywhere) &&
            !(of_source && goes_on(word, beginning.size()))) {
          best = &stack;
          most = {beginning.size(), *columns};
        }
    }
    return best;
  };
  const Stack* of_framework = nullptr;
  for (const bool anywhere : {false, true})
    for (const bool recipes : {true, false})
      if (of_framework == nullptr) of_framework = longest(&Stack::frameworks, framework, recipes, anywhere);
  if (of_framework != nullptr && !of_framework->rows.empty()) return of_framework;
  const Stack* of_source = longest(&Stack::sources, source, false);
  if (of_framework == nullptr || of_source == nullptr) return of_source == nullptr ? of_framework : of_source;
  const auto is_one = [&](const std::string& name) { return is_called(comparable(framework), comparable(name), true); };
  return std::ranges::any_of(of_source->frameworks, is_one) ? of_source : of_framework;
}

}  // namespace tracecast
