#include "tools/accuracy/rows/gpu_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "sim/base/words.hpp"
#include "tools/accuracy/rows/machine_table.hpp"

namespace tracecast::accuracy {
namespace {

/// True for words of a GPU's name that do not identify the part.
bool is_filler(const std::string& word) {
  static constexpr std::array kWords{"NVIDIA", "AMD",    "INTEL",      "INSTINCT", "TESLA",     "GPU",       "SXM",
                                     "SXM2",   "SXM3",   "SXM4",       "SXM5",     "SXM6",      "HBM2",      "HBM2E",
                                     "HBM3",   "HBM3E",  "OAM",        "SERVER",   "BLACKWELL", "EDITION",   "DGX",
                                     "HGX",    "TENSOR", "CORE",       "GB",       "NVL72",     "SUPERCHIP", "GEFORCE",
                                     "DATA",   "CENTER", "WORKSTATION"};
  return std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

/// "80GB" or "80G" and, before "GB", "80"; but "8g" counts the GPUs of an instance.
double memory_of(std::string_view word, std::string_view next) {
  constexpr double kLeast = 16;
  if (next == "GB") return parse_number<double>(word).value_or(0);
  const std::size_t unit = word.ends_with("GB") ? 2 : word.ends_with("G") ? 1 : 0;
  const double memory = unit > 0 ? parse_number<double>(word.substr(0, word.size() - unit)).value_or(0) : 0;
  return unit == 1 && memory < kLeast ? 0 : memory;
}

/// The amount before "HBM", else the first; 0: the name has none of the GPU.
double memory_in(const std::vector<std::string_view>& words, const std::string& part) {
  double first = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto word = [&](std::size_t at) { return at < words.size() ? words[at] : std::string_view{}; };
    const double memory = memory_of(words[i], word(i + 1));
    if (memory <= 0 || !is_gpu_memory(memory, part)) continue;
    if (word(word(i + 1) == "GB" ? i + 2 : i + 1).starts_with("HBM")) return memory;
    if (first == 0) first = memory;
  }
  return first;
}

/// "H100" of "8XH100" and "H100X8".
std::string_view without_count(std::string_view word) {
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t first = word.find_first_not_of(kDigits), last = word.find_last_not_of(kDigits);
  if (first == std::string_view::npos) return word;
  if (first > 0 && word[first] == 'X') return word.substr(first + 1);
  return last + 1 < word.size() && word[last] == 'X' && is_part(word.substr(0, last)) ? word.substr(0, last) : word;
}

/// A word of a name in the singular, without a count and a socket, in full: "H100S", "H100SXM5", "MI300".
std::string plain_word(std::string_view word) {
  struct Short {
    const char* name;
    const char* part;
  };
  constexpr Short kShort[] = {{"MI250", "MI250X"},  {"MI300", "MI300X"},     {"MI325", "MI325X"},
                              {"MI350", "MI350X"},  {"MI355", "MI355X"},     {"PONTE", "PVC"},
                              {"4090", "RTX-4090"}, {"RTX4090", "RTX-4090"}, {"RUBIN", "VR200"}};
  word = without_count(word);
  if (const std::size_t socket = word.find("SXM"); socket != std::string_view::npos && socket > 0)
    word = word.substr(0, socket);
  if (word.ends_with('S') && is_part(word.substr(0, word.size() - 1))) word.remove_suffix(1);
  const auto* found = std::ranges::find_if(kShort, [&](const Short& s) { return word == s.name; });
  return found == std::end(kShort) ? std::string(word) : found->part;
}

/// The part among the words of a name: "GH200" of "GRACE-HOPPER-GH200"; of several parts a superchip, "B200 (GB200)". A PCIe board,
/// which "NVL" is too, and a die of a module are other parts.
std::string part_among(const std::vector<std::string>& words) {
  const auto has_word = [&](const char* word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  auto found = std::find_if(words.begin(), words.end(), is_part);
  if (found == words.end()) return {};
  const auto superchip =
      std::find_if(found, words.end(), [](const std::string& word) { return is_part(word) && word.front() == 'G'; });
  if (superchip != words.end()) found = superchip;
  std::string part = *found;
  if (has_word("NVL") && is_part(part + "-NVL")) return part + "-NVL";
  if (has_word("PCIE") || (has_word("NVL") && is_part(part + "-PCIE"))) part += "-PCIE";
  return has_word("GCD") && is_part(part + "-GCD") ? part + "-GCD" : part;
}

}  // namespace

bool is_gpu_memory(double memory_gb, const std::string& part) {
  return part != "GH200" || memory_gb == 96 || memory_gb == 141 || memory_gb == 144;
}

std::string part_in_rack(const std::string& part) {
  return part.starts_with('B') && is_part("G" + part) ? "G" + part : part;
}

GpuName gpu_name(std::string_view reported) {
  std::string capitals;
  for (const char c : reported) capitals += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const std::vector<std::string_view> words = split_words(capitals, " \t\r-_(),/");
  GpuName name;
  std::vector<std::string> others;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool memory = memory_of(words[i], i + 1 < words.size() ? words[i + 1] : std::string_view{}) > 0;
    const std::string word = plain_word(words[i]);
    if (memory || word.empty() || is_filler(word)) continue;
    others.push_back(word);
    name.part += (name.part.empty() ? "" : "-") + word;
  }
  if (const std::string part = is_part(name.part) ? "" : part_among(others); !part.empty()) name.part = part;
  if (std::ranges::find(words, "NVL72") != words.end()) name.part = part_in_rack(name.part);
  name.memory_gb = memory_in(words, name.part);
  return name;
}

}  // namespace tracecast::accuracy
