#include "tracer/measured_profile.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "tracer/import/kernel_names.hpp"
#include "tracer/recorded_work.hpp"
#include "tracer/replay.hpp"

namespace tracecast {
namespace {

constexpr std::size_t kMostKernels = 20'000;

/// Sizes of a multiplication, whatever its pass: `k` is summed over.
struct Sizes {
  std::int64_t k = 0;
  std::int64_t small = 0;
  std::int64_t large = 0;
  bool operator==(const Sizes&) const = default;
};

Sizes sizes_of(std::int64_t m, std::int64_t n, std::int64_t k) { return {k, std::min(m, n), std::max(m, n)}; }

/// A kernel on its way to an operator.
struct Candidate {
  std::int32_t kernel = 0;
  OperatorKind kind = OperatorKind::residual;
  std::optional<Sizes> sizes;
  bool backward = false;
};

/// The lists of "…, sizes = [[a, b], [b, c], []]".
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

/// Of a range of PyTorch that multiplies matrices; addmm has the bias first.
std::optional<Sizes> multiplied(const TraceRange& range) {
  const std::size_t at = range.name.find("sizes = ");
  if (at == std::string::npos || !range.name.starts_with("aten::")) return std::nullopt;
  const std::string_view name = std::string_view(range.name).substr(0, range.name.find(','));
  const auto lists = lists_of(std::string_view(range.name).substr(at));
  const std::size_t first = name == "aten::addmm" ? 1 : 0;
  if (name != "aten::mm" && name != "aten::addmm" && name != "aten::_scaled_mm") return std::nullopt;
  if (lists.size() < first + 2 || lists[first].size() != 2 || lists[first + 1].size() != 2) return std::nullopt;
  if (lists[first][1] != lists[first + 1][0]) return std::nullopt;
  return sizes_of(lists[first][0], lists[first + 1][1], lists[first][1]);
}

bool is_multiplication(OperatorKind kind) { return kind == OperatorKind::gemm || kind == OperatorKind::grouped_gemm; }

int weight(const Operator& expected, const Candidate& found) {
  if (expected.kind != found.kind) return 0;
  if (const auto* shape = std::get_if<GemmShape>(&expected.shape); shape != nullptr && found.sizes)
    return *found.sizes == sizes_of(shape->m, shape->n, shape->k) ? 3 : 0;
  return is_multiplication(expected.kind) || expected.kind == OperatorKind::attention ? 2 : 1;
}

/// The operators that a rank runs in a step, in order.
std::vector<const Operator*> expected_operators(const StepGraph& graph, int number) {
  auto rank = std::find_if(graph.ranks.begin(), graph.ranks.end(),
                           [number](const Rank& r) { return r.representative == number; });
  if (rank == graph.ranks.end()) rank = graph.ranks.begin();
  std::vector<const Operator*> operators;
  for (const ProgramItem& item : graph.programs[static_cast<std::size_t>(rank->program)])
    for (const Op& op : graph.templates[static_cast<std::size_t>(item.template_index)].ops)
      if (op.type == OpType::compute && op.payload >= 0)
        operators.push_back(&graph.operators[static_cast<std::size_t>(op.payload)].op);
  return operators;
}

/// For each candidate the operator that it is; null: none.
std::vector<const Operator*> aligned(const std::vector<const Operator*>& expected, const std::vector<Candidate>& found) {
  const std::size_t width = expected.size() + 1;
  std::vector<std::int32_t> best(width, 0);
  std::vector<std::uint8_t> way((found.size() + 1) * width, 0);  // 0 skip the operator, 1 skip the kernel, 2 match
  for (std::size_t f = 1; f <= found.size(); ++f) {
    std::int32_t diagonal = 0;
    for (std::size_t e = 1; e < width; ++e) {
      const std::int32_t above = best[e];
      const int score = weight(*expected[e - 1], found[f - 1]);
      std::uint8_t& step = way[f * width + e];
      std::int32_t value = best[e - 1];
      if (above > value) {
        value = above;
        step = 1;
      }
      if (score > 0 && diagonal + score > value) {
        value = diagonal + score;
        step = 2;
      }
      diagonal = above;
      best[e] = value;
    }
  }
  std::vector<const Operator*> result(found.size(), nullptr);
  for (std::size_t f = found.size(), e = expected.size(); f > 0 && e > 0;) {
    const std::uint8_t step = way[f * width + e];
    if (step == 2) result[f - 1] = expected[e - 1];
    if (step != 0) --f;
    if (step != 1) --e;
  }
  for (std::size_t f = 0; f < found.size(); ++f) {
    if (result[f] != nullptr || !found[f].sizes) continue;
    const auto same = std::find_if(expected.begin(), expected.end(), [&](const Operator* op) {
      return weight(*op, found[f]) == 3 && (op->pass == Pass::forward) != found[f].backward;
    });
    if (same != expected.end()) result[f] = *same;
  }
  return result;
}

struct Samples {
  Operator op;
  std::vector<double> seconds;
};

/// Median, and the standard deviation of a normal distribution with the same quartiles, relative to it.
std::pair<double, double> median_and_spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  const double median = (values[(n - 1) / 2] + values[n / 2]) / 2;
  constexpr double kNormal = 1.349;
  return {median, (values[3 * (n - 1) / 4] - values[(n - 1) / 4]) / kNormal / std::max(median, 1e-12)};
}

class Measurer {
 public:
  Measurer(const StepGraph& graph, std::string file) : graph_(graph), file_(std::move(file)) {}

  Result<void> add(const Trace& trace) {
    const std::vector<std::vector<Candidate>> steps = candidates(trace);
    const auto expected = expected_operators(graph_, trace.header.rank);
    for (const std::vector<Candidate>& step : steps) {
      if (step.size() > kMostKernels || expected.size() > kMostKernels)
        return fail({file_, 0, "", "", fmt::format("has a step of {} kernels beside {} operators (allowed: {} of each)",
                                                   step.size(), expected.size(), kMostKernels)});
      take(trace, step, aligned(expected, step));
    }
    collectives(trace);
    return {};
  }

  Result<MeasuredProfile> finish(Profile base) {
    if (result_.kernels == 0) return fail({file_, 0, "", "", "has no kernel that computes"});
    base.kind = "recorded";
    base.in_training = {};
    base.in_training.fit.data = "recorded inside a training step";
    for (auto& [key, samples] : samples_) write(base, samples);
    write_collectives(base);
    result_.profile = std::move(base);
    result_.operators = static_cast<std::int64_t>(samples_.size());
    result_.unmatched.assign(unmatched_.begin(), unmatched_.end());
    std::stable_sort(result_.unmatched.begin(), result_.unmatched.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    return std::move(result_);
  }

 private:
  using Key = std::tuple<OperatorKind, Pass, Precision, OperatorShape>;

  /// Kernels that compute, by step, in the order of their launches.
  std::vector<std::vector<Candidate>> candidates(const Trace& trace) const {
    const OpenRanges open(trace);
    std::vector<std::pair<std::int64_t, std::int64_t>> windows;
    for (const TraceRange& range : trace.ranges)
      if (range.name.starts_with("ProfilerStep#") && range.end_ns > range.start_ns)
        windows.push_back({range.start_ns, range.end_ns});
    if (windows.empty()) windows.push_back({INT64_MIN, INT64_MAX});
    std::vector<std::vector<Candidate>> steps(windows.size());
    for (const RecordedWork& work : recorded_work(trace)) {
      if (work.kernel < 0) continue;
      const std::string& name = trace.kernels[static_cast<std::size_t>(work.kernel)].name;
      if (nccl_kernel(name).collective()) continue;
      Candidate candidate;
      candidate.kernel = work.kernel;
      candidate.kind = kernel_kind(name);
      if (work.call >= 0) look(trace, open, trace.calls[static_cast<std::size_t>(work.call)], candidate);
      const std::int64_t launch = launch_ns(trace, work);
      for (std::size_t w = 0; w < windows.size(); ++w)
        if (launch >= windows[w].first && launch < windows[w].second) steps[w].push_back(candidate);
    }
    return steps;
  }

  static void look(const Trace& trace, const OpenRanges& open, const TraceCall& call, Candidate& candidate) {
    for (const std::int32_t index : open.at(call.thread, call.start_ns)) {
      const TraceRange& range = trace.ranges[static_cast<std::size_t>(index)];
      if (is_multiplication(candidate.kind) && !candidate.sizes) candidate.sizes = multiplied(range);
      candidate.backward = candidate.backward || range.name.find("Backward") != std::string::npos;
    }
  }

  void take(const Trace& trace, const std::vector<Candidate>& step, const std::vector<const Operator*>& operators) {
    for (std::size_t i = 0; i < step.size(); ++i) {
      const TraceKernel& kernel = trace.kernels[static_cast<std::size_t>(step[i].kernel)];
      const Duration time{std::max<std::int64_t>(1, kernel.end_ns - kernel.start_ns) * 1000};
      ++result_.kernels;
      result_.time += time;
      if (operators[i] == nullptr) {
        unmatched_[short_kernel_name(kernel.name)] += time;
        continue;
      }
      ++result_.matched;
      result_.matched_time += time;
      const Operator& op = *operators[i];
      Samples& samples = samples_[Key{op.kind, op.pass, op.precision, op.shape}];
      samples.op = op;
      samples.seconds.push_back(seconds(time));
    }
  }

  void collectives(const Trace& trace) {
    for (const TraceCollective& c : trace.collectives) {
      const auto collective = collective_of(c.name);
      const std::int64_t bytes = std::clamp<std::int64_t>(c.count, 0, std::int64_t{1} << 50) * type_size(c.type);
      if (!collective || bytes == 0 || c.ranks < 2 || c.end_ns <= c.start_ns) continue;
      const double time = static_cast<double>(c.end_ns - c.start_ns) * 1e-9;
      auto& shortest = calls_[{*collective, c.ranks, bytes}][{c.communicator, c.sequence}];
      shortest = shortest == 0 ? time : std::min(shortest, time);
      ++result_.collectives;
    }
  }

  static void write(Profile& profile, const Samples& samples) {
    const auto [median, spread] = median_and_spread(samples.seconds);
    std::erase_if(profile.measured, [&](const MeasuredOperator& m) {
      return m.op.kind == samples.op.kind && m.op.pass == samples.op.pass && m.op.precision == samples.op.precision &&
             m.op.shape == samples.op.shape;
    });
    profile.measured.push_back({samples.op, median, spread, static_cast<int>(samples.seconds.size())});
  }

  void write_collectives(Profile& profile) const {
    for (const auto& [key, calls] : calls_) {
      std::vector<double> times;
      for (const auto& [call, time] : calls) times.push_back(time);
      const auto [median, spread] = median_and_spread(times);
      const auto& [collective, ranks, bytes] = key;
      std::erase_if(profile.measured_collectives, [&key = key](const MeasuredCollective& m) {
        return std::tuple(m.collective, m.ranks, m.size.count) == key;
      });
      profile.measured_collectives.push_back(
          {collective, ranks, Bytes{bytes}, median, spread, static_cast<int>(times.size())});
    }
  }

  const StepGraph& graph_;
  std::string file_;
  MeasuredProfile result_;
  std::map<Key, Samples> samples_;
  std::map<std::string, Duration> unmatched_;
  std::map<std::tuple<Collective, int, std::int64_t>, std::map<std::pair<std::uint64_t, std::int64_t>, double>> calls_;
};

}  // namespace

Result<MeasuredProfile> measured_profile(std::span<const Trace> traces, const StepGraph& graph, Profile base,
                                         const std::string& file) {
  Measurer measurer(graph, file);
  for (const Trace& trace : traces)
    if (const auto ok = measurer.add(trace); !ok) return tl::unexpected(ok.error());
  return measurer.finish(std::move(base));
}

}  // namespace tracecast
