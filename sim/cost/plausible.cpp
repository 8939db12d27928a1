#include "sim/cost/plausible.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <vector>

#include <fmt/format.h>

namespace tracecast {
namespace {

constexpr double kAbovePeak = 1.1;  // a clock above the one that the data sheet rates
constexpr double kAboveMemory = 8;  // from caches

double peak_of(const Profile& profile, Precision precision) {
  double peak = 0;
  if (const auto found = profile.peak_flops.find(precision); found != profile.peak_flops.end()) peak = found->second;
  for (const auto& [other, rate] : profile.peak_flops)
    if (precision == Precision::fp32 && (other == Precision::bf16 || other == Precision::fp16))
      peak = std::max(peak, rate / 2);  // TF32
  return peak;
}

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// Letters, two to four digits, letters: A100, H800, MI250X, L40S, GB200. Four digits alone: RTX 4090.
bool is_model(std::string_view word) {
  static constexpr std::array<std::string_view, 6> kOthers{"SXM", "HBM", "PG", "CUDA", "GEN", "DDR"};
  std::size_t letters = 0;
  while (letters < word.size() && !is_digit(word[letters])) ++letters;
  std::size_t digits = letters;
  while (digits < word.size() && is_digit(word[digits])) ++digits;
  const std::size_t count = digits - letters;
  if (std::find(kOthers.begin(), kOthers.end(), word.substr(0, letters)) != kOthers.end()) return false;
  if (letters == 0) return count == 4 && digits == word.size();
  return letters <= 3 && (count >= 2 || word == "T4" || word == "P4" || word == "L4") && count <= 4 &&
         word.size() - digits <= 2;
}

}  // namespace

std::optional<std::string> why_impossible(const Profile& profile, const MeasuredOperator& measured) {
  if (!profile.overlap || !(measured.seconds > 0)) return std::nullopt;
  const double peak = peak_of(profile, measured.op.precision);
  const double rate = static_cast<double>(flops(measured.op).count) / measured.seconds;
  if (peak > 0 && rate > kAbovePeak * peak)
    return fmt::format("takes {:.3g} us, which is {:.4g} TFLOP/s (allowed: up to {:.4g}, 1.1 of the peak of {})",
                       measured.seconds * 1e6, rate * 1e-12, kAbovePeak * peak * 1e-12,
                       to_string(measured.op.precision));
  const double bytes = static_cast<double>(compulsory_traffic(measured.op).count) / measured.seconds;
  if (profile.memory_bandwidth > 0 && bytes > kAboveMemory * profile.memory_bandwidth)
    return fmt::format("takes {:.3g} us, which is {:.4g} GB/s (allowed: up to {:.4g}, 8 times the memory's rate)",
                       measured.seconds * 1e6, bytes * 1e-9, kAboveMemory * profile.memory_bandwidth * 1e-9);
  return std::nullopt;
}

/// Bytes that a host must receive, whatever the algorithm.
static double received_by_host(const MeasuredCollective& measured) {
  const auto size = static_cast<double>(measured.size.count);
  const double others = 1 - 1.0 / measured.nodes;
  const double ranks_of_host = static_cast<double>(measured.ranks) / measured.nodes;
  switch (measured.collective) {
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return size * others;
    case Collective::all_to_all:
      return size * others * ranks_of_host;
    default:
      return size;
  }
}

static std::optional<std::string> why_impossible_between_hosts(const MeasuredCollective& measured) {
  if (measured.ranks % measured.nodes != 0)
    return fmt::format("has {} ranks on {} hosts (allowed: as many on each)", measured.ranks, measured.nodes);
  if (measured.network.bytes_per_second <= 0) return "needs `network`, the rate of the NICs of a host";
  const double rate = received_by_host(measured) / measured.seconds;
  const auto network = static_cast<double>(measured.network.bytes_per_second);
  if (rate <= 1.02 * network) return std::nullopt;
  return fmt::format("takes {:.3g} us, in which each host receives {:.4g} GB/s (allowed: up to {:.4g}, its NICs)",
                     measured.seconds * 1e6, rate * 1e-9, network * 1e-9);
}

std::optional<std::string> why_impossible(const Profile& profile, const MeasuredCollective& measured) {
  if (!profile.overlap || !(measured.seconds > 0) || measured.ranks < 2) return std::nullopt;
  const double n = measured.ranks;
  const double factor = measured.collective == Collective::all_reduce ? 2 * (n - 1) / n
                        : measured.collective == Collective::all_gather ||
                                measured.collective == Collective::reduce_scatter ||
                                measured.collective == Collective::all_to_all
                            ? (n - 1) / n
                            : 1;
  const double busbw = static_cast<double>(measured.size.count) / measured.seconds * factor;
  if (profile.memory_bandwidth > 0 && busbw > profile.memory_bandwidth)
    return fmt::format(
        "takes {:.3g} us, which is {:.4g} GB/s of bus bandwidth (allowed: up to {:.4g}, the memory's rate)",
        measured.seconds * 1e6, busbw * 1e-9, profile.memory_bandwidth * 1e-9);
  return measured.nodes > 1 ? why_impossible_between_hosts(measured) : std::nullopt;
}

/// In capitals.
static std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      words.back() += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    else if (!words.back().empty())
      words.emplace_back();
  }
  return words;
}

std::string gpu_model(std::string_view name) {
  for (const std::string& word : words_of(name))
    if (is_model(word)) return word;
  return "";
}

/// A card, a pair of cards, a module; "": the name does not say. Drivers call the module of an H100 by its memory, HBM3.
static std::string gpu_form(const std::vector<std::string>& words) {
  const auto has = [&words](auto condition) { return std::ranges::any_of(words, condition); };
  if (has([](const std::string& word) { return word == "PCIE"; })) return "PCIe";
  if (has([](const std::string& word) { return word == "NVL"; })) return "NVL";
  return has([](const std::string& word) { return word.starts_with("SXM") || word.starts_with("HBM3"); }) ? "SXM" : "";
}

/// Gigabytes; 0: the name does not say. That of a superchip may be its CPU's.
static int gpu_memory(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    int size = 0;
    const char* const end = words[i].data() + words[i].size();
    const auto [digits, error] = std::from_chars(words[i].data(), end, size);
    if (words[i].starts_with("GH")) return 0;
    if (error != std::errc()) continue;
    const std::string_view unit(digits, static_cast<std::size_t>(end - digits));
    if (unit == "GB" || (unit.empty() && i + 1 < words.size() && words[i + 1] == "GB")) return size;
  }
  return 0;
}

bool may_be_same_gpu(std::string_view a, std::string_view b) {
  const auto agree = [](const auto& first, const auto& second, const auto& unknown) {
    return first == unknown || second == unknown || first == second;
  };
  const std::vector<std::string> first = words_of(a);
  const std::vector<std::string> second = words_of(b);
  return agree(gpu_model(a), gpu_model(b), std::string()) && agree(gpu_form(first), gpu_form(second), std::string()) &&
         agree(gpu_memory(first), gpu_memory(second), 0);
}

}  // namespace tracecast
