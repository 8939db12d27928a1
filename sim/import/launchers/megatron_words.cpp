#include "sim/import/launchers/megatron_words.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <fmt/format.h>

namespace tracecast {
namespace {

constexpr std::size_t kMax = 100'000;

using Name = std::string_view;
/// Ours and theirs.
constexpr std::array kRecomputeModules{std::pair<Name, Name>{"norm", "layernorm"},
                                       std::pair<Name, Name>{"activation", "moe_act"},
                                       std::pair<Name, Name>{"mla_up", "mla_up_proj"},
                                       std::pair<Name, Name>{"mlp", "mlp"},
                                       std::pair<Name, Name>{"shared_experts", "shared_experts"},
                                       std::pair<Name, Name>{"moe", "moe"}};

/// The count that `text` has at `at`, which moves behind it.
std::optional<std::size_t> count_at(const std::string& text, std::size_t& at) {
  std::size_t value = 0;
  const auto [end, code] = std::from_chars(text.data() + at, text.data() + text.size(), value);
  if (code != std::errc{} || value > kMax) return std::nullopt;
  at = static_cast<std::size_t>(end - text.data());
  return value;
}

/// Writes the layout out: letters and bars only.
std::optional<std::string> expanded(const std::string& text, std::size_t& at, int depth) {
  constexpr int kMaxDepth = 20;
  std::string result;
  std::string last;
  for (; at < text.size() && text[at] != ')'; ++at) {
    if (text[at] == ',' || text[at] == ' ' || text[at] == '\\') continue;
    if (text[at] == '(') {
      std::optional<std::string> group = depth < kMaxDepth ? expanded(text, ++at, depth + 1) : std::nullopt;
      if (!group || at >= text.size()) return std::nullopt;
      last = std::move(*group);
    } else if (std::string_view("EtmL|").find(text[at]) != std::string_view::npos) {
      last = text[at];
    } else {
      return std::nullopt;
    }
    std::size_t times = 1;
    if (at + 1 < text.size() && text[at + 1] == '*') {
      at += 2;
      const std::optional<std::size_t> count = count_at(text, at);
      if (!count) return std::nullopt;
      times = *count;
      --at;
    }
    if (result.size() + times * last.size() > kMax) return std::nullopt;
    for (std::size_t i = 0; i < times; ++i) result += last;
  }
  return result;
}

/// Lists of zeros and ones as Python writes them: "([0]*3+[1]*11)", "([0]+[1])*16".
class LayerList {
 public:
  explicit LayerList(const std::string& text) : text_(text) { std::erase(text_, ' '); }
  std::optional<std::vector<int>> read() {
    std::optional<std::vector<int>> list = sum(0);
    return at_ == text_.size() ? std::move(list) : std::nullopt;
  }

 private:
  using List = std::optional<std::vector<int>>;

  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  List sum(int depth) {
    List list = product(depth);
    while (list && take('+')) {
      const List more = product(depth);
      if (!more || list->size() + more->size() > kMax) return std::nullopt;
      list->insert(list->end(), more->begin(), more->end());
    }
    return list;
  }

  List product(int depth) {
    List list = take('(') ? group(depth) : items();
    while (list && take('*')) {
      const std::optional<std::size_t> times = count_at(text_, at_);
      if (!times || *times * list->size() > kMax) return std::nullopt;
      const std::vector<int> once = std::exchange(*list, {});
      for (std::size_t i = 0; i < *times; ++i) list->insert(list->end(), once.begin(), once.end());
    }
    return list;
  }

  List group(int depth) {
    constexpr int kMaxDepth = 20;
    List list = depth < kMaxDepth ? sum(depth + 1) : std::nullopt;
    return take(')') ? std::move(list) : std::nullopt;
  }

  /// "[0,1]"
  List items() {
    if (!take('[')) return std::nullopt;
    std::vector<int> list;
    do {
      const bool one = take('1');
      if (!one && !take('0')) return std::nullopt;
      list.push_back(one ? 1 : 0);
    } while (take(','));
    return take(']') ? List(std::move(list)) : std::nullopt;
  }

  std::string text_;
  std::size_t at_ = 0;
};

}  // namespace

std::string_view megatron_module(std::string_view ours) {
  const auto* const found = std::ranges::find(kRecomputeModules, ours, &std::pair<Name, Name>::first);
  return found == kRecomputeModules.end() ? Name() : found->second;
}

std::string_view module_of_megatron(std::string_view theirs) {
  const auto* const found = std::ranges::find(kRecomputeModules, theirs, &std::pair<Name, Name>::second);
  return found == kRecomputeModules.end() ? Name() : found->first;
}

std::optional<std::vector<int>> parse_pipeline_layout(const std::string& text) {
  std::size_t at = 0;
  const std::optional<std::string> stages = expanded(text, at, 0);
  if (!stages || at < text.size() || stages->empty()) return std::nullopt;
  std::vector<int> layers{0};
  for (const char item : *stages) {
    if (item == '|') layers.push_back(0);
    if (item == 't') ++layers.back();
  }
  return layers;
}

std::string pipeline_layout_text(const std::vector<int>& layers, int prediction_layers) {
  std::string text = "E";
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    if (stage > 0) text += "|";
    if (layers[stage] == 1) text += "t";
    if (layers[stage] > 1) text += fmt::format("t*{}", layers[stage]);
  }
  return text + std::string(static_cast<std::size_t>(prediction_layers), 'm') + "L";
}

std::optional<std::vector<int>> parse_layer_list(const std::string& text, int layers) {
  std::optional<std::vector<int>> list = LayerList(text).read();
  return list && list->size() == static_cast<std::size_t>(layers) ? std::move(list) : std::nullopt;
}

std::optional<std::vector<int>> parse_layer_frequency(const std::string& text, int layers) {
  std::size_t at = 0;
  const std::optional<std::size_t> interval = count_at(text, at);
  if (!interval || at != text.size()) return parse_layer_list(text, layers);
  if (*interval == 0 || layers < 0 || static_cast<std::size_t>(layers) > kMax) return std::nullopt;
  std::vector<int> list;
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(layers); ++layer)
    list.push_back(layer % *interval == 0 ? 1 : 0);
  return list;
}

bool before_blackwell(std::string_view architecture) { return architecture != "Blackwell" && architecture != "Rubin"; }

}  // namespace tracecast
