#include "tools/accuracy/rows/software_age.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "tools/accuracy/rows/cell_words.hpp"
#include "tools/accuracy/rows/framework_names.hpp"

namespace tracecast::accuracy {
namespace {

/// docs/references.md#attention-by-year, of MLPerf 4.0 in June
constexpr double kFirstCudnn9 = 2024.6;

/// The month in which PyTorch 2.x was published.
struct PyTorchRelease {
  int minor;
  double year;
};
constexpr PyTorchRelease kAiterBackward{9, 2025.8}, kTitanWithCudnn{10, 2026.05}, kCudnn{11, 2026.2},
    kAiterForward{13, 2026.5};

/// The minor of "PyTorch 2.9"; nightly builds before it, "PyTorch 2.9 dev", have what 2.8 has. 0: the text names none.
int pytorch_minor(const std::string& text) {
  constexpr std::string_view kName = "PyTorch 2.";
  const int minor = number_after(text, kName);
  if (minor == 0) return 0;
  const std::string behind = lower_case(text.substr(text.find(kName) + kName.size()));
  const std::string_view word = std::string_view(behind).substr(0, behind.find_first_of(",;("));
  return contains(word, "dev") || contains(word, "nightly") ? minor - 1 : minor;
}

/// By the release that a note or the framework's name has, else by the year of the name or the source.
bool is_since(const PyTorchRelease& release, const TableFields& fields) {
  for (const char* column : {"notes", "framework"})
    if (const int minor = pytorch_minor(fields.text(column)); minor > 0) return minor >= release.minor;
  const double named = year_in_name(fields.text("framework"));
  return (named > 0 ? named : year_of_source(fields.text("source"))) >= release.year;
}

bool has_kernel(const Stack& stack, const std::string& architecture, const char* kernel) {
  const auto found = stack.attention_kernels.find(architecture);
  return found != stack.attention_kernels.end() && found->second == kernel;
}

/// AOTriton 0.11 calls AITER's backward only.
void take_aiter_backward(Profile& profile) {
  for (AttentionModel& model : profile.attention) {
    if (model.kernel != "aotriton") continue;
    const auto aiter = std::ranges::find_if(profile.attention, [&](const AttentionModel& other) {
      return other.kernel == "aiter" && other.head_dim == model.head_dim && other.causal == model.causal &&
             other.precision == model.precision;
    });
    if (aiter == profile.attention.end()) continue;
    model.backward_efficiency = aiter->backward_efficiency;
    model.backward_s0 = aiter->backward_s0;
    model.fit.residual = std::max(model.fit.residual, aiter->fit.residual);
    model.fit.data += "; backward of aiter";
  }
}

std::string date_pytorch(Stack& stack, Profile& profile, const TableFields& fields) {
  const std::string& architecture = profile.architecture;
  if ((architecture == "Hopper" || architecture == "Blackwell") && has_kernel(stack, architecture, "fa2") &&
      is_since(stack.name == "torchtitan" ? kTitanWithCudnn : kCudnn, fields)) {
    stack.attention_kernels.erase(architecture);
    return fmt::format("attention of cuDNN, which PyTorch of that release prefers on {}", architecture);
  }
  if (!has_kernel(stack, architecture, "aotriton") || !is_since(kAiterBackward, fields)) return "";
  if (is_since(kAiterForward, fields)) {
    stack.attention_kernels[architecture] = "aiter";
    return "attention of AITER, which PyTorch of that release calls";
  }
  take_aiter_backward(profile);
  return "attention backward by AITER's kernels, which PyTorch of that release calls";
}

std::string date_megatron(Stack& stack, const Profile& profile, double year) {
  const bool dated = profile.architecture == "Hopper" || profile.architecture == "Blackwell";
  if (!dated || stack.released == year) return "";
  stack.released = year;
  const bool early = year < kFirstCudnn9;
  if (early) stack.attention_kernels.try_emplace("Hopper", "cudnn8");
  if (!early && has_kernel(stack, "Hopper", "cudnn8")) stack.attention_kernels.erase("Hopper");
  return fmt::format("Megatron of {:.1f}: libraries of that time{}", year,
                     early && profile.architecture == "Hopper" ? ", with attention of cuDNN 8" : "");
}

}  // namespace

std::vector<std::string> apply_software_age(Stack& stack, Profile& profile, const std::string& framework,
                                            const TableFields& fields) {
  std::vector<std::string> said;
  const auto say = [&said](std::string sentence) {
    if (!sentence.empty()) said.push_back(std::move(sentence));
  };
  const double megatron = stack.sources.empty() ? year_of_megatron(framework, fields) : 0;
  const double release = year_of_release(framework);
  if (stack.released > 0 && megatron > 0)
    say(date_megatron(stack, profile, megatron));
  else if (stack.released > 0 && release > 0)
    stack.released = release;
  say(date_pytorch(stack, profile, fields));
  return said;
}

}  // namespace tracecast::accuracy
