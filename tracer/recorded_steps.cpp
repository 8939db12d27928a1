#include "tracer/recorded_steps.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "sim/import/kernel_names.hpp"
#include "tracer/recorded_work.hpp"
#include "tracer/step_windows.hpp"

namespace tracecast {
namespace {

/// Parses the lists of "…, sizes = [[a, b], [b, c], []]".
std::vector<std::vector<std::int64_t>> lists_of(std::string_view text) {
  std::vector<std::vector<std::int64_t>> lists;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[' && ++depth == 2) lists.emplace_back();
    if (text[i] == ']' && --depth == 0) break;
    if (text[i] < '0' || text[i] > '9' || lists.empty()) continue;
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), value);
    if (error == std::errc()) lists.back().push_back(value);
    i = static_cast<std::size_t>(end - text.data()) - 1;
  }
  return lists;
}

/// Sizes from the text of a PyTorch range that multiplies matrices; addmm lists the bias first.
std::optional<MatrixSizes> multiplied(std::string_view text) {
  const std::size_t at = text.find("sizes = ");
  if (at == std::string_view::npos || !text.starts_with("aten::")) return std::nullopt;
  const std::string_view name = text.substr(0, text.find(','));
  const auto lists = lists_of(text.substr(at));
  const std::size_t first = name == "aten::addmm" ? 1 : 0;
  if (name != "aten::mm" && name != "aten::addmm" && name != "aten::_scaled_mm") return std::nullopt;
  if (lists.size() < first + 2 || lists[first].size() != 2 || lists[first + 1].size() != 2) return std::nullopt;
  if (lists[first][1] != lists[first + 1][0]) return std::nullopt;
  return sizes_of(lists[first][0], lists[first + 1][1], lists[first][1]);
}

/// Puts kernels into groups.
class Grouping {
 public:
  Grouping(const Trace& trace, const std::set<std::string>& operator_names)
      : trace_(trace), names_(operator_names), threads_(trace), open_(trace) {
    std::unordered_map<std::int64_t, std::string_view> operators;
    for (const TraceOperator& each : trace.operators) operators.emplace(each.id, each.name);
    for (const TraceExternal& each : trace.externals)
      if (const auto found = operators.find(each.id); each.kind == kRecorderIds && found != operators.end())
        ids_.insert_or_assign(each.correlation, std::pair(each.id, found->second));
  }

  void append(const RecordedWork& work, RecordedStep& step) const {
    const TraceKernel& kernel = trace_.kernels[static_cast<std::size_t>(work.kernel)];
    const std::string& name = kernel.name;
    if (!nccl_kernel(name).name.empty()) return step.collectives.push_back(work.kernel);
    if (!transfer_kernel(name).name.empty()) return step.other_transfers.push_back(work.kernel);
    KernelGroup group;
    group.kernels.push_back(work.kernel);
    group.traits.kind = kernel_kind(name);
    group.traits.nameless =
        group.traits.kind == OperatorKind::residual && name.find("elementwise") == std::string::npos;
    if (group.traits.kind == OperatorKind::optimizer) group.traits.gradient_norm = is_gradient_norm(name);
    if (const auto id = ids_.find(kernel.correlation); id != ids_.end())
      look_at(id->second.second, id->second.first, group);
    if (work.call >= 0) look_at_ranges(trace_.calls[static_cast<std::size_t>(work.call)], group);
    look_at_launch(work, group.traits);
    const bool adds_parts =
        is_split_k_part(name) && !step.work.empty() && is_multiplication(step.work.back().traits.kind);
    if (!step.work.empty() &&
        (adds_parts || continues_attention(step.work.back(), name, group) || belongs(step.work.back(), group))) {
      KernelGroup& last = step.work.back();
      last.kernels.push_back(work.kernel);
      if (is_multiplication(group.traits.kind)) last.traits.kind = group.traits.kind;
      return;
    }
    step.work.push_back(std::move(group));
  }

 private:
  /// The pass by the launching thread, else by the kernel's name.
  void look_at_launch(const RecordedWork& work, KernelTraits& traits) const {
    if (traits.backward) return;
    std::optional<bool> of_thread;
    if (work.call >= 0) of_thread = threads_.launched(trace_.calls[static_cast<std::size_t>(work.call)].thread);
    const std::string& name = trace_.kernels[static_cast<std::size_t>(work.kernel)].name;
    traits.backward = of_thread.value_or(is_backward_kernel(name).value_or(false));
    traits.forward = !of_thread.value_or(true);
  }

  void look_at_ranges(const TraceCall& call, KernelGroup& group) const {
    for (const std::int32_t index : open_.at(call.thread, call.start_ns))
      look_at(trace_.ranges[static_cast<std::size_t>(index)].name, index, group);
  }

  /// What a range or id around a kernel says of it; the first that says something counts.
  void look_at(std::string_view text, std::int64_t number, KernelGroup& group) const {
    KernelTraits& traits = group.traits;
    traits.backward = traits.backward || text.find("Backward") != std::string_view::npos;
    if (group.range >= 0) return;
    traits.sizes = multiplied(text);
    if (names_.contains(std::string(text))) traits.name = text;
    if (traits.sizes || !traits.name.empty()) group.range = number;
  }

  /// Attention kernels one behind the other, of one pass, are one attention: between two of them a layer multiplies.
  bool continues_attention(const KernelGroup& last, const std::string& name, const KernelGroup& next) const {
    if (last.traits.kind != OperatorKind::attention || last.traits != next.traits || !next.traits.name.empty())
      return false;
    const std::string& before = trace_.kernels[static_cast<std::size_t>(last.kernels.back())].name;
    return is_backward_kernel(before).value_or(false) == is_backward_kernel(name).value_or(false);
  }

  /// Two kernels launched in the same range belong to one operator, unless both multiply.
  static bool belongs(const KernelGroup& last, const KernelGroup& next) {
    return next.range >= 0 && next.range == last.range &&
           !(is_multiplication(last.traits.kind) && is_multiplication(next.traits.kind));
  }

  const Trace& trace_;
  const std::set<std::string>& names_;
  BackwardThreads threads_;
  OpenRanges open_;
  std::unordered_map<std::int64_t, std::pair<std::int64_t, std::string_view>> ids_;  ///< [correlation] id and its text
};

bool has_step_ranges(const Trace& trace) {
  return std::any_of(trace.ranges.begin(), trace.ranges.end(),
                     [](const TraceRange& range) { return range.name.starts_with("ProfilerStep#"); });
}

/// What was launched in each of the windows, which may leave out work.
std::vector<RecordedStep> steps_in_windows(const Trace& trace, const std::vector<RecordedWork>& kernels,
                                           const std::map<std::int64_t, StepWindow>& windows,
                                           const Grouping& grouping) {
  std::vector<RecordedStep> steps(windows.size());
  for (const RecordedWork& work : kernels) {
    const std::int64_t launch = launch_ns(trace, work);
    std::size_t step = 0;
    for (const auto& [number, window] : windows) {
      if (launch >= window.begin && launch < window.end) grouping.append(work, steps[step]);
      ++step;
    }
  }
  return steps;
}

/// All kernels, cut at the begins of steps.
std::vector<RecordedStep> steps_between(const std::vector<std::size_t>& begins,
                                        const std::vector<RecordedWork>& kernels, const Grouping& grouping) {
  std::vector<RecordedStep> steps(1);
  auto next = begins.begin();
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    for (; next != begins.end() && *next == i; ++next) steps.emplace_back();
    grouping.append(kernels[i], steps.back());
  }
  return steps;
}

}  // namespace

MatrixSizes sizes_of(std::int64_t m, std::int64_t n, std::int64_t k) { return {k, std::min(m, n), std::max(m, n)}; }

std::map<std::int64_t, std::vector<RecordedStep>> steps_of_devices(const Trace& trace,
                                                                   const std::set<std::string>& operator_names) {
  const Grouping grouping(trace, operator_names);
  std::map<std::int64_t, std::vector<RecordedWork>> kernels;
  for (const RecordedWork& work : recorded_work(trace))
    if (work.kernel >= 0) kernels[work.device].push_back(work);
  const bool ranges = has_step_ranges(trace);
  const auto windows = ranges ? step_windows(trace) : std::map<std::int64_t, StepWindow>{};
  std::map<std::int64_t, std::vector<RecordedStep>> devices;
  for (const auto& [device, works] : kernels) {
    std::vector<RecordedStep> steps = ranges ? steps_in_windows(trace, works, windows, grouping)
                                             : steps_between(step_begins(trace, works), works, grouping);
    std::erase_if(steps, [](const RecordedStep& step) { return step.work.empty(); });
    if (!steps.empty()) devices[device] = std::move(steps);
  }
  return devices;
}

}  // namespace tracecast
