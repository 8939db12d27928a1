#include "tracer/measured_profile.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "sim/cost/plausible.hpp"
#include "sim/cost/slowest_rank.hpp"
#include "sim/engine/gpu_sharing.hpp"
#include "sim/import/kernel_names.hpp"
#include "tracer/alignment.hpp"
#include "tracer/recorded_work.hpp"

namespace tracecast {
namespace {

/// Sizes of a multiplication in any pass; the sum runs over `k`.
struct Sizes {
  std::int64_t k = 0;
  std::int64_t small = 0;
  std::int64_t large = 0;
  auto operator<=>(const Sizes&) const = default;
};

Sizes sizes_of(std::int64_t m, std::int64_t n, std::int64_t k) { return {k, std::min(m, n), std::max(m, n)}; }

/// What is known of a kernel: enough to decide which operators it may be.
struct Traits {
  OperatorKind kind = OperatorKind::residual;
  std::optional<Sizes> sizes;
  std::string name;  ///< of the operator, if a range names it
  bool backward = false;
  bool nameless = false;  ///< treated as a residual because its name is unknown
  auto operator<=>(const Traits&) const = default;
};

/// Kernels to be assigned to one operator: a single one, or all that a range launched.
struct Candidate {
  std::vector<std::int32_t> kernels;  ///< indices into Trace::kernels
  Traits traits;
  std::int32_t range = -1;  ///< that gives its name or sizes
};

/// One step of one rank.
struct RecordedStep {
  std::vector<Candidate> work;
  std::vector<std::int32_t> collectives;  ///< NCCL kernels
  std::vector<std::size_t> work_before;   ///< [collective] number of items of `work` launched before it
  std::size_t optimized = 0;              ///< number of items of `work` up to the last optimizer kernel; 0: none
};

/// A step starts with its embedding or, on a stage without one, with the first work after the optimizer. Moves that work into a new step.
RecordedStep begin_of_next(RecordedStep& step) {
  const auto is_embedding = [](const Candidate& c) { return c.traits.kind == OperatorKind::embedding; };
  const auto after = step.work.begin() + static_cast<std::ptrdiff_t>(step.optimized);
  auto begin = std::find_if(after, step.work.end(), is_embedding);
  if (begin == step.work.end()) begin = after;
  const auto kept = static_cast<std::size_t>(begin - step.work.begin());
  RecordedStep next;
  next.work.assign(std::make_move_iterator(begin), std::make_move_iterator(step.work.end()));
  step.work.erase(begin, step.work.end());
  while (!step.work_before.empty() && step.work_before.back() > kept) {
    next.collectives.insert(next.collectives.begin(), step.collectives.back());
    next.work_before.insert(next.work_before.begin(), step.work_before.back() - kept);
    step.collectives.pop_back();
    step.work_before.pop_back();
  }
  return next;
}

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

/// Sizes from a PyTorch range that multiplies matrices; addmm lists the bias first.
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

constexpr int kSameName = 8;
constexpr int kSameSizes = 6;
constexpr int kLargeKind = 4;
constexpr int kSmallKind = 2;
constexpr int kNameless = 1;

int weight(const CostedOperator& expected, const Traits& found) {
  const Operator& op = expected.op;
  if (found.backward && op.pass == Pass::forward && !expected.recomputed) return 0;
  if (!found.name.empty()) return found.name == op.name ? kSameName : 0;
  if (op.kind != found.kind) return 0;
  if (const auto* shape = std::get_if<GemmShape>(&op.shape); shape != nullptr && found.sizes)
    return *found.sizes == sizes_of(shape->m, shape->n, shape->k) ? kSameSizes : 0;
  if (is_multiplication(op.kind) || op.kind == OperatorKind::attention) return kLargeKind;
  return found.nameless ? kNameless : kSmallKind;
}

/// Kinds that frameworks run as several kernels. Kernels with unknown names are treated as residuals, which never join.
bool may_be_a_part(const Traits& traits) {
  return traits.name.empty() && !is_multiplication(traits.kind) && traits.kind != OperatorKind::residual;
}

/// The operators and collectives of a rank in a step, in order.
struct ExpectedStep {
  std::vector<std::int32_t> operators;    ///< indices into StepGraph::operators
  std::vector<std::int32_t> collectives;  ///< indices into StepGraph::collectives
  const Rank* rank = nullptr;
};

ExpectedStep expected_step(const StepGraph& graph, const Rank& rank) {
  ExpectedStep step;
  step.rank = &rank;
  for (const ProgramItem& item : graph.programs[static_cast<std::size_t>(rank.program)])
    for (const Op& op : graph.templates[static_cast<std::size_t>(item.template_index)].ops) {
      if (op.type == OpType::compute && op.payload >= 0) step.operators.push_back(op.payload);
      if (op.type == OpType::collective) step.collectives.push_back(op.payload);
    }
  return step;
}

/// Gives equal values the same number, in order of first occurrence.
template <class T>
class Classes {
 public:
  std::int32_t number(const T& value) {
    const auto [found, added] = numbers_.try_emplace(value, static_cast<std::int32_t>(values_.size()));
    if (added) values_.push_back(value);
    return found->second;
  }
  const std::vector<T>& values() const { return values_; }

 private:
  std::map<T, std::int32_t> numbers_;
  std::vector<T> values_;
};

/// The operator assigned to a candidate.
struct Place {
  std::int32_t op = -1;     ///< index into StepGraph::operators; -1: nothing
  std::int32_t index = -1;  ///< into ExpectedStep::operators; -1: matched by its sizes, out of order
};

/// The match of each candidate. Empty: too many to align.
std::optional<std::vector<Place>> places_of(const StepGraph& graph, const ExpectedStep& expected,
                                            const std::vector<Candidate>& found) {
  Classes<Traits> traits;
  Classes<std::int32_t> operators;
  std::vector<std::int32_t> found_classes;
  std::vector<std::int32_t> expected_classes;
  for (const Candidate& each : found) found_classes.push_back(traits.number(each.traits));
  for (const std::int32_t op : expected.operators) expected_classes.push_back(operators.number(op));
  AlignmentTask task{found_classes, expected_classes, {}, {}};
  for (const Traits& each : traits.values()) {
    task.joins.push_back(may_be_a_part(each));
    std::vector<int>& row = task.weights.emplace_back();
    for (const std::int32_t op : operators.values())
      row.push_back(weight(graph.operators[static_cast<std::size_t>(op)], each));
  }
  const auto indices = align(task);
  if (!indices) return std::nullopt;
  std::vector<Place> places;
  for (std::size_t f = 0; f < found.size(); ++f) {
    const std::int32_t index = (*indices)[f];
    if (index >= 0) {
      places.push_back({expected.operators[static_cast<std::size_t>(index)], index});
      continue;
    }
    const std::vector<int>& row = task.weights[static_cast<std::size_t>(found_classes[f])];
    const auto same = found[f].traits.sizes ? std::find(row.begin(), row.end(), kSameSizes) : row.end();
    places.push_back({same == row.end() ? -1 : operators.values()[static_cast<std::size_t>(same - row.begin())], -1});
  }
  return places;
}

/// Class of ncclDevKernel_Generic, whose name does not say what it runs: it matches nothing.
constexpr std::int32_t kAnyCollective = kCollectiveKinds;

/// The collective of each NCCL kernel: [kernel] index into ExpectedStep::collectives; -1: none.
std::optional<std::vector<std::int32_t>> collectives_of(const StepGraph& graph, const ExpectedStep& expected,
                                                        const Trace& trace, const std::vector<std::int32_t>& kernels) {
  std::vector<std::int32_t> found;
  std::vector<std::int32_t> wanted;
  for (const std::int32_t kernel : kernels) {
    const auto collective = nccl_kernel(trace.kernels[static_cast<std::size_t>(kernel)].name).collective();
    found.push_back(collective ? static_cast<std::int32_t>(*collective) : kAnyCollective);
  }
  for (const std::int32_t call : expected.collectives)
    wanted.push_back(static_cast<std::int32_t>(graph.collectives[static_cast<std::size_t>(call)].call.collective));
  AlignmentTask task{found, wanted, {}, std::vector<bool>(kAnyCollective + 1, false)};
  for (int kind = 0; kind < kCollectiveKinds; ++kind) {
    task.weights.emplace_back(kCollectiveKinds, 0);
    task.weights.back()[static_cast<std::size_t>(kind)] = 1;
  }
  task.weights.emplace_back(kCollectiveKinds, 0);
  return align(task);
}

/// Splits a trace into the steps of each of its GPUs.
class StepCutter {
 public:
  StepCutter(const Trace& trace, const std::set<std::string>& operator_names)
      : trace_(trace), names_(operator_names), open_(trace) {
    for (const TraceRange& range : trace.ranges)
      if (range.name.starts_with("ProfilerStep#") && range.domain != "gpu_user_annotation" &&
          range.end_ns > range.start_ns)
        windows_.push_back({range.start_ns, range.end_ns});
  }

  /// [device][step]; devices in ascending order.
  std::map<std::int64_t, std::vector<RecordedStep>> cut() {
    std::map<std::int64_t, std::vector<RecordedStep>> devices;
    for (const RecordedWork& work : recorded_work(trace_)) {
      if (work.kernel < 0) continue;
      std::vector<RecordedStep>& steps = devices[work.device];
      if (windows_.empty()) {
        add(work, steps);
        continue;
      }
      steps.resize(windows_.size());
      const std::int64_t launch = launch_ns(trace_, work);
      for (std::size_t w = 0; w < windows_.size(); ++w)
        if (launch >= windows_[w].first && launch < windows_[w].second) append(work, steps[w]);
    }
    for (auto& [device, steps] : devices)
      std::erase_if(steps, [](const RecordedStep& step) { return step.work.empty(); });
    std::erase_if(devices, [](const auto& device) { return device.second.empty(); });
    return devices;
  }

 private:
  /// Steps of a trace that has no step ranges.
  void add(const RecordedWork& work, std::vector<RecordedStep>& steps) {
    const OperatorKind kind = kernel_kind(trace_.kernels[static_cast<std::size_t>(work.kernel)].name);
    if (steps.empty()) steps.emplace_back();
    if (steps.back().optimized > 0 && is_multiplication(kind)) steps.push_back(begin_of_next(steps.back()));
    append(work, steps.back());
  }

  void append(const RecordedWork& work, RecordedStep& step) {
    const std::string& name = trace_.kernels[static_cast<std::size_t>(work.kernel)].name;
    if (!nccl_kernel(name).name.empty()) {
      step.collectives.push_back(work.kernel);
      step.work_before.push_back(step.work.size());
      return;
    }
    Candidate candidate;
    candidate.kernels.push_back(work.kernel);
    candidate.traits.kind = kernel_kind(name);
    candidate.traits.nameless =
        candidate.traits.kind == OperatorKind::residual && name.find("elementwise") == std::string::npos;
    if (work.call >= 0) look_at_ranges(trace_.calls[static_cast<std::size_t>(work.call)], candidate);
    const bool adds_parts =
        is_split_k_part(name) && !step.work.empty() && is_multiplication(step.work.back().traits.kind);
    if (!step.work.empty() && (adds_parts || belongs(step.work.back(), candidate))) {
      Candidate& last = step.work.back();
      last.kernels.push_back(work.kernel);
      if (is_multiplication(candidate.traits.kind)) last.traits.kind = candidate.traits.kind;
      return;
    }
    step.work.push_back(std::move(candidate));
    if (step.work.back().traits.kind == OperatorKind::optimizer) step.optimized = step.work.size();
  }

  void look_at_ranges(const TraceCall& call, Candidate& candidate) const {
    for (const std::int32_t index : open_.at(call.thread, call.start_ns)) {
      const TraceRange& range = trace_.ranges[static_cast<std::size_t>(index)];
      Traits& traits = candidate.traits;
      traits.backward = traits.backward || range.name.find("Backward") != std::string::npos;
      if (candidate.range >= 0) continue;
      traits.sizes = multiplied(range);
      if (names_.contains(range.name)) traits.name = range.name;
      if (traits.sizes || !traits.name.empty()) candidate.range = index;
    }
  }

  /// Two kernels launched in the same range belong to one operator, unless both multiply.
  static bool belongs(const Candidate& last, const Candidate& next) {
    return next.range >= 0 && next.range == last.range &&
           !(is_multiplication(last.traits.kind) && is_multiplication(next.traits.kind));
  }

  const Trace& trace_;
  const std::set<std::string>& names_;
  OpenRanges open_;
  std::vector<std::pair<std::int64_t, std::int64_t>> windows_;
};

/// Median, and the standard deviation of a normal distribution with the same quartiles, relative to it.
std::pair<double, double> median_and_spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  const double median = (values[(n - 1) / 2] + values[n / 2]) / 2;
  constexpr double kNormal = 1.349;
  return {median, (values[3 * (n - 1) / 4] - values[(n - 1) / 4]) / kNormal / std::max(median, 1e-12)};
}

/// A receive beside the send to the same peer: both directions of a link at once take the time of one.
bool is_half_of_exchange(const TraceCollective& c, std::span<const TraceCollective> all) {
  if (c.name != "Recv") return false;
  // Operations of one launch are written one after the other.
  const std::ptrdiff_t index = &c - all.data();
  const auto is_its_send = [&c](const TraceCollective& other) {
    return other.launch == c.launch && other.name == "Send" && other.peer == c.peer;
  };
  for (std::ptrdiff_t i = index; i-- > 0 && all[static_cast<std::size_t>(i)].launch == c.launch;)
    if (is_its_send(all[static_cast<std::size_t>(i)])) return true;
  for (std::size_t i = static_cast<std::size_t>(index) + 1; i < all.size() && all[i].launch == c.launch; ++i)
    if (is_its_send(all[i])) return true;
  return false;
}

constexpr std::int64_t kLongest = std::int64_t{1} << 50;  // ns: 13 days; limits times from a damaged trace

bool has_length(const TraceKernel& kernel) {
  return kernel.start_ns >= 0 && kernel.end_ns > kernel.start_ns && kernel.end_ns - kernel.start_ns <= kLongest;
}

Duration time_of(const TraceKernel& kernel) {
  return {std::clamp<std::int64_t>(kernel.end_ns - kernel.start_ns, 1, kLongest) * 1000};
}

/// NCCL kernels of a GPU, and the speed that they leave to the kernels beside them.
class Transfers {
 public:
  void add(const TraceKernel& kernel, const Speeds& speeds) {
    if (!speeds.full()) all_.push_back({kernel.start_ns, kernel.end_ns, speeds});
  }
  void sort() {
    std::sort(all_.begin(), all_.end(), [](const Transfer& a, const Transfer& b) { return a.start < b.start; });
    ends_.clear();
    for (const Transfer& each : all_) ends_.push_back(std::max(each.end, ends_.empty() ? each.end : ends_.back()));
  }

  /// Nanoseconds that a kernel would have taken without them: the integral of its speed.
  double alone(const TraceKernel& kernel, Bound bound) const {
    std::vector<const Transfer*> beside;
    auto after = std::lower_bound(all_.begin(), all_.end(), kernel.end_ns,
                                  [](const Transfer& each, std::int64_t time) { return each.start < time; });
    for (auto i = static_cast<std::size_t>(after - all_.begin()); i-- > 0 && ends_[i] > kernel.start_ns;)
      if (all_[i].end > kernel.start_ns) beside.push_back(&all_[i]);
    std::vector<std::int64_t> edges{kernel.start_ns, kernel.end_ns};
    for (const Transfer* each : beside)
      for (const std::int64_t edge : {each->start, each->end})
        if (edge > kernel.start_ns && edge < kernel.end_ns) edges.push_back(edge);
    std::sort(edges.begin(), edges.end());
    double work = 0;
    for (std::size_t i = 1; i < edges.size(); ++i) {
      std::int32_t speed = kFullSpeed;
      for (const Transfer* each : beside)
        if (each->start < edges[i] && each->end > edges[i - 1]) speed = std::min(speed, each->speeds.of(bound));
      work += static_cast<double>(edges[i] - edges[i - 1]) * speed / kFullSpeed;
    }
    return work;
  }

 private:
  struct Transfer {
    std::int64_t start;
    std::int64_t end;
    Speeds speeds;
  };
  std::vector<Transfer> all_;
  std::vector<std::int64_t> ends_;  ///< [i] latest end of all_[0] to all_[i]
};

class Measurer {
 public:
  Measurer(const StepGraph& graph, const Profile& base)
      : graph_(graph), base_(base), speeds_(speeds_beside_collectives(graph, base)) {
    for (const CostedOperator& each : graph.operators) names_.insert(each.op.name);
    for (std::size_t i = 0; i < graph.collectives.size(); ++i) {
      const CollectiveCall& call = graph.collectives[i].call;
      speeds_of_.emplace(std::pair(call.collective, call.size.count), speeds_[i]);
    }
  }

  Result<void> add(const NamedTrace& named) {
    const Trace& trace = named.trace;
    if (trace.header.ranks > 0 && trace.header.ranks != graph_.total_ranks())
      return fail({named.file, 0, "ranks", std::to_string(trace.header.ranks),
                   fmt::format("recorded, but the scenario has {}", graph_.total_ranks())});
    if (!may_be_same_gpu(trace.header.gpu, base_.gpu))
      return fail(
          {named.file, 0, "gpu", trace.header.gpu,
           fmt::format("recorded, but the scenario's profile {} is of another GPU, {} (allowed: a recording on the "
                       "scenario's GPU)",
                       base_.name, base_.gpu)});
    const bool sizes_known = collectives_with_sizes(trace);
    const Transfers transfers = transfers_with_sizes(trace);
    std::int32_t number = std::max(0, trace.header.rank);
    for (const auto& [device, steps] : StepCutter(trace, names_).cut()) {
      const auto rank = std::find_if(graph_.ranks.begin(), graph_.ranks.end(),
                                     [number](const Rank& r) { return r.representative == number; });
      if (rank == graph_.ranks.end())
        return fail({named.file, 0, "rank", std::to_string(number),
                     fmt::format("recorded, but the scenario has {} ranks", graph_.total_ranks())});
      const ExpectedStep expected = expected_step(graph_, *rank);
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const auto places = places_of(graph_, expected, steps[i].work);
        const auto calls = sizes_known ? std::optional(std::vector<std::int32_t>{})
                                       : collectives_of(graph_, expected, trace, steps[i].collectives);
        if (!places || !calls)
          return fail({named.file, 0, "", "",
                       fmt::format("has a step of {} kernels, too many to align with {} operators",
                                   steps[i].work.size(), expected.operators.size())});
        take(trace, steps[i].work, *places,
             sizes_known ? transfers : transfers_of(trace, steps[i].collectives, *calls, expected));
        if (!sizes_known) take_collectives(trace, steps[i].collectives, *calls, expected, i);
        ++result_.steps;
      }
      ++number;
    }
    return {};
  }

  Result<MeasuredProfile> finish(Profile base, const std::string& file) {
    if (result_.kernels == 0) return fail({file, 0, "", "", "has no compute kernels"});
    if (sized_ >= 4 && 2 * sized_matched_ < sized_)
      return fail(
          {file, 0, "", "",
           fmt::format("multiplies matrices of other sizes than the scenario: {} of {} are sizes of its operators "
                       "(allowed: a recording of the same model and layout)",
                       sized_matched_, sized_)});
    base.kind = "recorded";
    wait_for_slowest(base, 1, 0);  // launch time of the profile, not of the slowest host in the recorded job
    base.in_training = {};
    base.in_training.fit.data = "recorded inside a training step";
    for (auto& [key, samples] : samples_)
      if (const auto ok = write(base, samples, file); !ok) return tl::unexpected(ok.error());
    if (const auto ok = write_collectives(base, file); !ok) return tl::unexpected(ok.error());
    result_.profile = std::move(base);
    result_.operators = static_cast<std::int64_t>(samples_.size());
    result_.unmatched.assign(unmatched_.begin(), unmatched_.end());
    std::stable_sort(result_.unmatched.begin(), result_.unmatched.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    return std::move(result_);
  }

 private:
  using Key = std::tuple<OperatorKind, Pass, Precision, OperatorShape>;
  using CallKey = std::tuple<Collective, int, std::int64_t>;  ///< ranks, bytes

  /// The same on all ranks that take part. NCCL numbers the calls of each function of a communicator.
  struct Call {
    std::uint64_t communicator = 0;
    Collective collective = Collective::all_reduce;
    std::int64_t sequence = 0;
    int from = -1;  ///< of a message
    int to = -1;
    std::int64_t again = 0;  ///< how often the number occurred before on the same rank
    auto operator<=>(const Call&) const = default;
  };

  struct Samples {
    Operator op;
    std::vector<double> seconds;
  };

  /// Of collectives with known sizes.
  Transfers transfers_with_sizes(const Trace& trace) const {
    std::map<std::pair<std::int64_t, std::int64_t>, Speeds> by_time;
    for (const TraceCollective& c : trace.collectives) {
      const auto collective = collective_of(c.name);
      const std::int64_t bytes = std::clamp<std::int64_t>(c.count, 0, std::int64_t{1} << 50) * type_size(c.type);
      const auto found = collective ? speeds_of_.find({*collective, bytes}) : speeds_of_.end();
      if (found != speeds_of_.end()) by_time.emplace(std::pair(c.start_ns, c.end_ns), found->second);
    }
    Transfers transfers;
    for (const TraceKernel& kernel : trace.kernels)
      if (const auto found = by_time.find({kernel.start_ns, kernel.end_ns}); found != by_time.end())
        transfers.add(kernel, found->second);
    transfers.sort();
    return transfers;
  }

  /// Of the collectives of a step in order.
  Transfers transfers_of(const Trace& trace, const std::vector<std::int32_t>& kernels,
                         const std::vector<std::int32_t>& calls, const ExpectedStep& expected) const {
    Transfers transfers;
    for (std::size_t i = 0; i < kernels.size(); ++i)
      if (calls[i] >= 0)
        transfers.add(trace.kernels[static_cast<std::size_t>(kernels[i])],
                      speeds_[static_cast<std::size_t>(expected.collectives[static_cast<std::size_t>(calls[i])])]);
    transfers.sort();
    return transfers;
  }

  void take(const Trace& trace, const std::vector<Candidate>& step, const std::vector<Place>& places,
            const Transfers& transfers) {
    for (std::size_t i = 0; i < step.size(); ++i) {
      Duration time;
      double alone = 0;  // seconds
      for (const std::int32_t index : step[i].kernels) {
        const TraceKernel& kernel = trace.kernels[static_cast<std::size_t>(index)];
        time += time_of(kernel);
        alone += has_length(kernel) ? transfers.alone(kernel, bound_of(step[i].traits.kind)) * 1e-9
                                    : seconds(time_of(kernel));
        if (places[i].op < 0) unmatched_[short_kernel_name(kernel.name)] += time_of(kernel);
      }
      if (step[i].traits.sizes) ++sized_;
      if (step[i].traits.sizes && places[i].op >= 0) ++sized_matched_;
      const auto kernels = static_cast<std::int64_t>(step[i].kernels.size());
      result_.kernels += kernels;
      result_.time += time;
      if (places[i].op < 0) continue;
      result_.matched += kernels;
      result_.matched_time += time;
      const bool part = i > 0 && places[i].index >= 0 && places[i].index == places[i - 1].index;
      sample(graph_.operators[static_cast<std::size_t>(places[i].op)].op,
             std::min(std::max(alone, 1e-9), seconds(time)), part);
    }
  }

  void sample(const Operator& op, double time, bool part_of_the_last) {
    Samples& samples = samples_[Key{op.kind, op.pass, op.precision, op.shape}];
    samples.op = op;
    if (part_of_the_last)
      samples.seconds.back() += time;
    else
      samples.seconds.push_back(time);
  }

  /// Whether a group of this many ranks is on one host; unknown for groups that the step does not have.
  bool on_one_host(int ranks) const {
    return std::any_of(graph_.communicators.begin(), graph_.communicators.end(),
                       [ranks](const Communicator& c) { return c.placement.ranks == ranks && c.placement.nodes == 1; });
  }

  /// False: the trace has none that were timed.
  bool collectives_with_sizes(const Trace& trace) {
    const auto timed = [](const TraceCollective& c) { return c.end_ns > c.start_ns; };
    std::map<std::int64_t, std::int64_t> in_kernel;  // of one launch: their time is that of all together
    for (const TraceCollective& c : trace.collectives)
      if (c.launch != 0 && !is_half_of_exchange(c, trace.collectives)) ++in_kernel[c.launch];
    bool any = false;
    std::map<Call, std::int64_t> calls;
    for (const TraceCollective& c : trace.collectives) {
      const auto collective = collective_of(c.name);
      const std::int64_t bytes = std::clamp<std::int64_t>(c.count, 0, std::int64_t{1} << 50) * type_size(c.type);
      if (!collective || bytes == 0 || c.ranks < 2 || !timed(c)) continue;
      any = true;
      ++result_.collectives;
      if (c.launch != 0 && in_kernel[c.launch] > 1) continue;
      ++result_.collectives_matched;
      const bool message = *collective == Collective::send_recv;
      Call call{c.communicator, *collective, c.sequence, -1, -1, 0};
      if (message && c.peer >= 0) {
        call.from = c.name == "Recv" ? c.peer : c.rank;
        call.to = c.name == "Recv" ? c.rank : c.peer;
      }
      call.again = calls[call]++;
      const bool one_host = c.nodes > 0 ? c.nodes == 1 : on_one_host(c.ranks);
      shortest({*collective, message ? 2 : c.ranks, bytes}, call, static_cast<double>(c.end_ns - c.start_ns) * 1e-9,
               one_host);
    }
    return any;
  }

  void take_collectives(const Trace& trace, const std::vector<std::int32_t>& kernels,
                        const std::vector<std::int32_t>& calls, const ExpectedStep& expected, std::size_t step) {
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      ++result_.collectives;
      if (calls[i] < 0) continue;
      ++result_.collectives_matched;
      const std::int32_t payload = expected.collectives[static_cast<std::size_t>(calls[i])];
      const CostedCollective& call = graph_.collectives[static_cast<std::size_t>(payload)];
      const std::int32_t group = expected.rank->communicators[static_cast<std::size_t>(call.slot)];
      if (group < 0) continue;
      const GroupPlacement& placement = graph_.communicators[static_cast<std::size_t>(group)].placement;
      const Duration time = time_of(trace.kernels[static_cast<std::size_t>(kernels[i])]);
      shortest(
          {call.call.collective, placement.ranks, call.call.size.count},
          {static_cast<std::uint64_t>(group), call.call.collective, static_cast<std::int64_t>(step), -1, -1, calls[i]},
          seconds(time), placement.nodes == 1);
    }
  }

  void shortest(const CallKey& key, const Call& call, double time, bool one_host) {
    if (!one_host) return void(++result_.collectives_across_hosts);
    double& least = calls_[key][call];
    least = least == 0 ? time : std::min(least, time);
  }

  static Result<void> write(Profile& profile, const Samples& samples, const std::string& file) {
    const auto [median, spread] = median_and_spread(samples.seconds);
    std::erase_if(profile.measured, [&](const MeasuredOperator& m) {
      return m.op.kind == samples.op.kind && m.op.pass == samples.op.pass && m.op.precision == samples.op.precision &&
             m.op.shape == samples.op.shape;
    });
    profile.measured.push_back({samples.op, median, spread, static_cast<int>(samples.seconds.size())});
    if (const auto fault = why_impossible(profile, profile.measured.back()))
      return fail({file, 0, samples.op.name, "", fmt::format("{}: the kernels are not those of the scenario", *fault)});
    return {};
  }

  Result<void> write_collectives(Profile& profile, const std::string& file) const {
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
      if (const auto fault = why_impossible(profile, profile.measured_collectives.back()))
        return fail({file, 0, fmt::format("{} of {} bytes over {} ranks", to_string(collective), bytes, ranks), "",
                     fmt::format("{}: the transfers are not those of the scenario", *fault)});
    }
    return {};
  }

  const StepGraph& graph_;
  const Profile& base_;
  std::int64_t sized_ = 0;  ///< multiplications whose sizes were recorded
  std::int64_t sized_matched_ = 0;
  std::vector<Speeds> speeds_;  ///< [collective of the graph]
  std::map<std::pair<Collective, std::int64_t>, Speeds> speeds_of_;
  std::set<std::string> names_;
  MeasuredProfile result_;
  std::map<Key, Samples> samples_;
  std::map<std::string, Duration> unmatched_;
  std::map<CallKey, std::map<Call, double>> calls_;
};

}  // namespace

Result<MeasuredProfile> measured_profile(std::span<const NamedTrace> traces, const StepGraph& graph, Profile base) {
  TRACECAST_ASSERT(!traces.empty(), "at least one trace is required");
  Measurer measurer(graph, base);
  for (const NamedTrace& trace : traces)
    if (const auto ok = measurer.add(trace); !ok) return tl::unexpected(ok.error());
  return measurer.finish(std::move(base), traces.front().file);
}

}  // namespace tracecast
