#include "tracer/measured_profile.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "sim/base/quantile.hpp"
#include "sim/cost/costs.hpp"
#include "sim/cost/plausible.hpp"
#include "sim/cost/put_measured.hpp"
#include "sim/cost/slowest_rank.hpp"
#include "sim/engine/gpu_sharing.hpp"
#include "sim/import/kernel_names.hpp"
#include "tracer/concurrent_transfers.hpp"
#include "tracer/recorded_calls.hpp"
#include "tracer/recorded_steps.hpp"
#include "tracer/recorded_work.hpp"

namespace tracecast {
namespace {

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

/// A nanosecond at least: a kernel that ran behind another one on its stream has no time of its own.
Duration time_of(const TraceKernel& kernel) {
  return {std::max<std::int64_t>(kernel.end_ns - kernel.start_ns, 1) * 1000};
}

/// [kernel] when it began, or the kernel before it on its stream ended: with programmatic dependent launch a kernel begins while that one
/// still runs, and waits for it. Else their common time would count twice.
std::vector<std::int64_t> own_begins(const Trace& trace) {
  std::vector<std::size_t> order(trace.kernels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto place = [&trace](std::size_t i) {
    const TraceKernel& k = trace.kernels[i];
    return std::tuple(k.device, k.stream, k.start_ns, k.end_ns);
  };
  std::ranges::sort(order, {}, place);
  std::vector<std::int64_t> begins(order.size());
  std::int64_t ended = 0;  // on this stream
  for (std::size_t i = 0; i < order.size(); ++i) {
    const TraceKernel& kernel = trace.kernels[order[i]];
    const TraceKernel& before = trace.kernels[order[i > 0 ? i - 1 : 0]];
    if (i == 0 || before.device != kernel.device || before.stream != kernel.stream) ended = INT64_MIN;
    begins[order[i]] = std::min(std::max(kernel.start_ns, ended), kernel.end_ns);
    ended = std::max(ended, kernel.end_ns);
  }
  return begins;
}

class Measurer {
 public:
  Measurer(const StepGraph& graph, const Profile& base, const MatchLimits& limits, Bandwidth link)
      : graph_(graph), base_(base), limits_(limits), link_(link), speeds_(speeds_beside_collectives(graph, base)) {
    for (const CostedOperator& each : graph.operators) names_.insert(each.op.name);
    for (std::size_t i = 0; i < graph.collectives.size(); ++i) {
      const CollectiveCall& call = graph.collectives[i].call;
      speeds_of_.emplace(std::pair(call.collective, call.size.count), speeds_[i]);
    }
  }

  Result<void> add(const NamedTrace& named) {
    const Trace& trace = named.trace;
    if (auto ok = check_machine(named); !ok) return ok;
    if (auto ok = check_times(trace, named.file); !ok) return ok;
    if (trace.header.rank < 0 && graph_.total_ranks() > 1 && std::exchange(has_unranked_, true))
      return fail({named.file, 0, "rank", "",
                   "is not in the file, nor in another one given (allowed: one such file, taken for rank 0 and on)"});
    const bool sizes_known = collectives_with_sizes(trace);
    const ConcurrentTransfers transfers = transfers_with_sizes(trace);
    begins_ = own_begins(trace);
    std::int32_t number = std::max(0, trace.header.rank);
    for (const auto& [device, steps] : steps_of_devices(trace, names_)) {
      const auto rank = std::find_if(graph_.ranks.begin(), graph_.ranks.end(),
                                     [number](const Rank& r) { return r.representative == number; });
      if (rank == graph_.ranks.end())
        return fail({named.file, 0, "rank", std::to_string(number),
                     fmt::format("recorded, but the scenario has {} ranks", graph_.total_ranks())});
      if (const auto [recorded, first] = file_of_.emplace(number, named.file); !first)
        return fail({named.file, 0, "rank", std::to_string(number),
                     fmt::format("is also in {} (allowed: one recording of each rank)", recorded->second)});
      const ExpectedStep expected = expected_step(graph_, *rank);
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const auto places = places_of(graph_, expected, steps[i].work);
        const auto calls = sizes_known ? std::optional(std::vector<std::int32_t>{})
                                       : collectives_of(graph_, expected, trace, steps[i].collectives);
        if (!places || !calls)
          return fail({named.file, 0, "", "",
                       fmt::format("has a step of {} kernels, too many to align with {} operators",
                                   steps[i].work.size(), expected.operators.size())});
        take(trace, steps[i].work, *places, expected,
             sizes_known ? transfers : transfers_of(trace, steps[i].collectives, *calls, expected));
        take_other_transfers(trace, steps[i].other_transfers);
        if (!sizes_known) take_collectives(trace, steps[i].collectives, *calls, expected, i);
        ++result_.steps;
      }
      ++number;
    }
    return {};
  }

  Result<MeasuredProfile> finish(Profile base, const std::string& file) {
    if (result_.kernels == 0) return fail({file, 0, "", "", "has no compute kernels"});
    if (auto ok = check_sizes(file); !ok) return tl::unexpected(ok.error());
    base.kind = "recorded";
    wait_for_slowest(base, 1, 0);  // launch time of the profile, not of the slowest host in the recorded job
    base.in_training.slowest_gpu = 1;
    say_divided(base.in_training);
    leave_out_seldom();
    for (auto& [key, samples] : samples_)
      if (const auto ok = write(base, samples, file); !ok) return tl::unexpected(ok.error());
    divide_by_factors(base);
    if (const auto ok = write_collectives(base, file); !ok) return tl::unexpected(ok.error());
    for (const auto& [kernel, time] : unmatched_) result_.unmatched.push_back({kernel.first, time, kernel.second});
    std::stable_sort(result_.unmatched.begin(), result_.unmatched.end(),
                     [](const auto& a, const auto& b) { return a.time > b.time; });
    if (forecast_large_ > 0) result_.of_forecast = recorded_large_ / forecast_large_;
    if (auto ok = check_match(file); !ok) return tl::unexpected(ok.error());
    result_.profile = std::move(base);
    result_.operators = static_cast<std::int64_t>(samples_.size()) - impossible_;
    return std::move(result_);
  }

 private:
  /// Errors: a recording of another number of ranks, of another GPU or of a slice of one.
  Result<void> check_machine(const NamedTrace& named) const {
    const TraceHeader& header = named.trace.header;
    if (header.ranks > 0 && header.ranks != graph_.total_ranks())
      return fail({named.file, 0, "ranks", std::to_string(header.ranks),
                   fmt::format("recorded, but the scenario has {}", graph_.total_ranks())});
    if (!may_be_same_gpu(header.gpu, base_.gpu))
      return fail({named.file, 0, "gpu", header.gpu,
                   fmt::format("recorded, but the scenario's profile {} is of another GPU, {} (allowed: a recording on "
                               "the scenario's GPU)",
                               base_.name, base_.gpu)});
    const auto& kernels = named.trace.kernels;
    if (std::any_of(kernels.begin(), kernels.end(), [](const TraceKernel& k) { return k.name == kWholeGraph; }))
      return fail({named.file, 0, "", "",
                   "has CUDA graphs that were recorded as a whole, without their kernels (allowed: nsys profile "
                   "--cuda-graph-trace=node)"});
    for (const TraceDevice& device : named.trace.devices)
      if (device.mig)
        return fail({named.file, 0, "gpu", device.name,
                     "a slice (MIG) of a GPU, whose kernels say nothing about a whole one (allowed: a whole GPU)"});
    return {};
  }

  /// Errors: multiplications of another model.
  Result<void> check_sizes(const std::string& file) const {
    if (sized_ < 4 || 2 * sized_matched_ >= sized_) return {};
    return fail(
        {file, 0, "", "",
         fmt::format("multiplies matrices of other sizes than the scenario: {} of {} are sizes of its operators "
                     "(allowed: a recording of the same model and layout)",
                     sized_matched_, sized_)});
  }

  /// Errors: too little in common with the scenario's step.
  Result<void> check_match(const std::string& file) const {
    const double share = seconds(result_.matched_time) / std::max(1e-12, seconds(result_.time));
    const std::string allowed =
        fmt::format("allowed: from {:.3g} % on; --least-matched sets another limit", 100 * limits_.least_matched);
    if (share < limits_.least_matched)
      return fail(
          {file, 0, "", "",
           fmt::format("only {:.1f} % of the kernels' time matches operators of the scenario; longest without a "
                       "match: {}, {} ({})",
                       100 * share, result_.unmatched.front().name, to_string(result_.unmatched.front().why),
                       allowed)});
    if (result_.fullest_step < limits_.least_matched)
      return fail({file, 0, "", "",
                   fmt::format("its fullest step has only {:.1f} % of the scenario's step, by forecast time: another "
                               "model, or not a whole step ({})",
                               100 * result_.fullest_step, allowed)});
    if (result_.of_forecast > limits_.most_of_forecast)
      return fail({file, 0, "", "",
                   fmt::format("its multiplications and attention take {:.1f} times their forecast: another model, "
                               "layout or GPU (allowed: up to {:.3g} times)",
                               result_.of_forecast, limits_.most_of_forecast)});
    return {};
  }

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
  ConcurrentTransfers transfers_with_sizes(const Trace& trace) const {
    std::map<std::pair<std::int64_t, std::int64_t>, Speeds> by_time;
    for (const TraceCollective& c : trace.collectives) {
      const auto collective = collective_of(c.name);
      const std::int64_t bytes = bytes_of(c).count;
      const auto found = collective ? speeds_of_.find({*collective, bytes}) : speeds_of_.end();
      if (found != speeds_of_.end()) by_time.emplace(std::pair(c.start_ns, c.end_ns), found->second);
    }
    ConcurrentTransfers transfers;
    for (const TraceKernel& kernel : trace.kernels)
      if (const auto found = by_time.find({kernel.start_ns, kernel.end_ns}); found != by_time.end())
        transfers.add(kernel, found->second);
    transfers.sort();
    return transfers;
  }

  /// Of the collectives of a step in order.
  ConcurrentTransfers transfers_of(const Trace& trace, const std::vector<std::int32_t>& kernels,
                                   const std::vector<std::int32_t>& calls, const ExpectedStep& expected) const {
    ConcurrentTransfers transfers;
    for (std::size_t i = 0; i < kernels.size(); ++i)
      if (calls[i] >= 0)
        transfers.add(trace.kernels[static_cast<std::size_t>(kernels[i])],
                      speeds_[static_cast<std::size_t>(expected.collectives[static_cast<std::size_t>(calls[i])])]);
    transfers.sort();
    return transfers;
  }

  void take(const Trace& trace, const std::vector<KernelGroup>& step, const std::vector<Place>& places,
            const ExpectedStep& expected, const ConcurrentTransfers& transfers) {
    std::vector<bool> found(expected.operators.size(), false);
    for (std::size_t i = 0; i < step.size(); ++i) {
      const Place& place = places[i];
      const GpuUse use = place.op >= 0 ? use_of(graph_.operators[static_cast<std::size_t>(place.op)])
                                       : GpuUse{.bound = bound_of(step[i].traits.kind)};
      Duration time;
      double alone = 0;  // seconds
      for (const std::int32_t index : step[i].kernels) {
        TraceKernel kernel = trace.kernels[static_cast<std::size_t>(index)];
        kernel.start_ns = begins_[static_cast<std::size_t>(index)];
        time += time_of(kernel);
        alone += kernel.end_ns > kernel.start_ns ? transfers.alone(kernel, use) * 1e-9 : seconds(time_of(kernel));
        if (place.op < 0) unmatched_[{short_kernel_name(kernel.name), place.match}] += time_of(kernel);
      }
      if (step[i].traits.sizes) ++sized_;
      if (step[i].traits.sizes && place.op >= 0) ++sized_matched_;
      const auto kernels = static_cast<std::int64_t>(step[i].kernels.size());
      result_.kernels += kernels;
      result_.time += time;
      result_.time_by_match[static_cast<std::size_t>(place.match)] += time;
      if (place.op < 0) continue;
      result_.matched += kernels;
      result_.matched_time += time;
      if (place.index >= 0) found[static_cast<std::size_t>(place.index)] = true;
      const bool part = i > 0 && place.index >= 0 && place.index == places[i - 1].index;
      const CostedOperator& op = graph_.operators[static_cast<std::size_t>(place.op)];
      const double own = std::min(std::max(alone, 1e-9), seconds(time));
      if (is_large(op.op.kind)) recorded_large_ += own;
      if (is_large(op.op.kind) && !part) forecast_large_ += seconds(op.cost.duration);
      sample(op.op, own, part);
    }
    double all = 0;
    double seen = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const CostedOperator& op = graph_.operators[static_cast<std::size_t>(expected.operators[i])];
      ++expected_[key_of(op.op)];
      const double time = seconds(op.cost.duration);
      all += time;
      if (found[i]) seen += time;
    }
    if (all > 0) result_.fullest_step = std::max(result_.fullest_step, seen / all);
  }

  /// A profile does not have their times, so they count as kernels without a match.
  void take_other_transfers(const Trace& trace, const std::vector<std::int32_t>& kernels) {
    for (const std::int32_t index : kernels) {
      TraceKernel kernel = trace.kernels[static_cast<std::size_t>(index)];
      kernel.start_ns = begins_[static_cast<std::size_t>(index)];
      unmatched_[{short_kernel_name(kernel.name), Match::other_library}] += time_of(kernel);
      ++result_.kernels;
      result_.time += time_of(kernel);
      result_.time_by_match[static_cast<std::size_t>(Match::other_library)] += time_of(kernel);
    }
  }

  static bool is_large(OperatorKind kind) { return is_multiplication(kind) || kind == OperatorKind::attention; }

  void sample(const Operator& op, double time, bool part_of_the_last) {
    Samples& samples = samples_[key_of(op)];
    samples.op = op;
    if (part_of_the_last)
      samples.seconds.back() += time;
    else
      samples.seconds.push_back(time);
  }

  static Key key_of(const Operator& op) { return {op.kind, op.pass, op.precision, op.shape}; }

  void leave_out_seldom() {
    std::int64_t found = 0;
    std::int64_t expected = 0;
    for (const auto& [key, samples] : samples_) found += count(samples);
    for (const auto& [key, times] : expected_) expected += times;
    constexpr double kOfMean = 0.5;
    const double least =
        kOfMean * static_cast<double>(found) / static_cast<double>(std::max<std::int64_t>(1, expected));
    std::erase_if(samples_, [&](const auto& each) {
      const auto& [key, samples] = each;
      const std::int64_t times = expected_[key];
      if (static_cast<double>(count(samples)) >= least * static_cast<double>(times)) return false;
      leave_out(samples.op, fmt::format("found {} times instead of {}", count(samples), times));
      return true;
    });
  }
  void leave_out(const Operator& op, std::string why) {
    result_.left_out.push_back({fmt::format("{} {}", op.name, to_string(op.pass)), std::move(why)});
  }
  static std::int64_t count(const Samples& samples) { return static_cast<std::int64_t>(samples.seconds.size()); }

  /// What the scenario says of the groups of a rank: whether all with so many ranks are on one host, and all that make such a call.
  struct Hosts {
    std::map<int, bool> by_ranks;
    std::map<CallKey, bool> by_call;
  };
  Hosts hosts_of(std::int32_t number) const {
    Hosts hosts;
    const auto rank = std::ranges::find(graph_.ranks, number, &Rank::representative);
    if (rank == graph_.ranks.end()) return hosts;
    const auto note = [](auto& map, const auto& key, const GroupPlacement& group) {
      bool& all = map.try_emplace(key, true).first->second;
      all = all && group.nodes == 1;
    };
    for (const std::int32_t group : rank->communicators)
      if (group >= 0) note(hosts.by_ranks, placement_of(group).ranks, placement_of(group));
    for (const std::int32_t payload : expected_step(graph_, *rank).collectives) {
      const CostedCollective& each = graph_.collectives[static_cast<std::size_t>(payload)];
      const std::int32_t group = rank->communicators[static_cast<std::size_t>(each.slot)];
      if (group < 0) continue;
      const GroupPlacement& placed = placement_of(group);
      note(hosts.by_call, CallKey{each.call.collective, placed.ranks, each.call.size.count}, placed);
    }
    return hosts;
  }
  const GroupPlacement& placement_of(std::int32_t group) const {
    return graph_.communicators[static_cast<std::size_t>(group)].placement;
  }

  /// Whether a recorded call stays on one host. A recording may not say so: then groups are told apart by their number of ranks and
  /// what they call, and what is not certain counts as across hosts.
  bool on_one_host(const TraceCollective& c, const CallKey& key, const Hosts& hosts) const {
    if (c.nodes > 0) return c.nodes == 1;
    if (c.peer >= 0) return share_a_host(rank_of(c), c.peer);
    if (const auto call = hosts.by_call.find(key); call != hosts.by_call.end()) return call->second;
    const auto ranks = hosts.by_ranks.find(c.ranks);
    return ranks != hosts.by_ranks.end() && ranks->second;
  }

  /// The one recording that may not name its rank is taken for rank 0.
  static int rank_of(const TraceCollective& c) { return std::max(0, c.rank); }

  /// Whether a group on one host has both ranks.
  bool share_a_host(std::int32_t a, std::int32_t b) const {
    return std::ranges::any_of(graph_.communicators, [&](const Communicator& group) {
      const auto has = [&](std::int32_t number) {
        return std::ranges::any_of(group.members, [&](std::int32_t member) {
          return graph_.ranks[static_cast<std::size_t>(member)].representative == number;
        });
      };
      return group.placement.nodes == 1 && has(a) && has(b);
    });
  }

  /// False: the trace has none that were timed.
  bool collectives_with_sizes(const Trace& trace) {
    const auto timed = [](const TraceCollective& c) { return c.end_ns > c.start_ns; };
    std::map<std::int64_t, std::int64_t> in_kernel;  // of one launch: their time is that of all together
    for (const TraceCollective& c : trace.collectives)
      if (c.launch != 0 && !is_half_of_exchange(c, trace.collectives)) ++in_kernel[c.launch];
    bool any = false;
    const Hosts hosts = hosts_of(std::max(0, trace.header.rank));
    std::map<Call, std::int64_t> calls;
    for (const TraceCollective& c : trace.collectives) {
      const auto collective = collective_of(c.name);
      const std::int64_t bytes = bytes_of(c).count;
      if (!collective || bytes == 0 || c.ranks < 2 || !timed(c)) continue;
      any = true;
      ++result_.collectives;
      if (c.launch != 0 && in_kernel[c.launch] > 1) continue;
      ++result_.collectives_matched;
      const bool message = *collective == Collective::send_recv;
      Call call{c.communicator, *collective, c.sequence, -1, -1, 0};
      if (message && c.peer >= 0) {
        call.from = c.name == "Recv" ? c.peer : rank_of(c);
        call.to = c.name == "Recv" ? rank_of(c) : c.peer;
      }
      call.again = calls[call]++;
      const CallKey key{*collective, message ? 2 : c.ranks, bytes};
      shortest(key, call, static_cast<double>(c.end_ns - c.start_ns) * 1e-9, on_one_host(c, key, hosts));
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
      const GroupPlacement& placement = placement_of(group);
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

  /// Errors: a multiplication or attention faster than the GPU.
  Result<void> write(Profile& profile, const Samples& samples, const std::string& file) {
    const MeasuredOperator measured{samples.op, median(samples.seconds), relative_spread(samples.seconds),
                                    static_cast<int>(samples.seconds.size())};
    if (const auto fault = why_impossible(profile, measured)) {
      if (is_large(samples.op.kind))
        return fail(
            {file, 0, samples.op.name, "", fmt::format("{}: the kernels are not those of the scenario", *fault)});
      leave_out(samples.op, *fault);
      ++impossible_;
      return {};
    }
    put_measured(profile, measured);
    return {};
  }

  static bool has_factors(InTraining known) {
    known.fit = {};
    return known != InTraining{};
  }

  /// Once, also if `known` is of a profile that was itself recorded.
  static void say_divided(InTraining& known) {
    const std::string words = "recorded operators are divided by them";
    if (!has_factors(known) || known.fit.data.find(words) != std::string::npos) return;
    known.fit.data += known.fit.data.empty() ? words : "; " + words;
  }

  /// A forecast multiplies measured times by the in-training factor of their class, which a time recorded in a step contains.
  void divide_by_factors(Profile& profile) const {
    if (!has_factors(profile.in_training)) return;
    Profile one = profile;
    for (MeasuredOperator& each : one.measured) each.seconds = 1;
    const Costs factors(std::move(one));
    for (MeasuredOperator& each : profile.measured)
      if (samples_.contains(key_of(each.op))) each.seconds /= seconds(factors.of(each.op).duration);
  }

  Result<void> write_collectives(Profile& profile, const std::string& file) const {
    for (const auto& [key, calls] : calls_) {
      std::vector<double> times;
      for (const auto& [call, time] : calls) times.push_back(time);
      const auto& [collective, ranks, bytes] = key;
      put_measured(profile, {.collective = collective,
                             .ranks = ranks,
                             .size = Bytes{bytes},
                             .seconds = median(times),
                             .spread = relative_spread(times),
                             .samples = static_cast<int>(times.size()),
                             .nodes = 1,  // those between hosts are left out
                             .network = link_});
      if (const auto fault = why_impossible(profile, profile.measured_collectives.back()))
        return fail({file, 0, fmt::format("{} of {} bytes over {} ranks", to_string(collective), bytes, ranks), "",
                     fmt::format("{}: the transfers are not those of the scenario", *fault)});
    }
    return {};
  }

  const StepGraph& graph_;
  const Profile& base_;
  MatchLimits limits_;
  Bandwidth link_;
  std::int64_t sized_ = 0;  ///< multiplications whose sizes were recorded
  std::int64_t sized_matched_ = 0;
  std::vector<Speeds> speeds_;  ///< [collective of the graph]
  std::map<std::pair<Collective, std::int64_t>, Speeds> speeds_of_;
  std::set<std::string> names_;
  bool has_unranked_ = false;
  std::map<std::int32_t, std::string> file_of_;  ///< [rank]
  std::vector<std::int64_t> begins_;             ///< own_begins() of the trace at hand
  MeasuredProfile result_;
  std::map<Key, Samples> samples_;
  std::int64_t impossible_ = 0;           ///< of the samples that were left out
  std::map<Key, std::int64_t> expected_;  ///< how often the recorded steps have the operator
  std::map<std::pair<std::string, Match>, Duration> unmatched_;
  double recorded_large_ = 0;  ///< seconds of matched multiplications and attention
  double forecast_large_ = 0;
  std::map<CallKey, std::map<Call, double>> calls_;
};

}  // namespace

Result<MeasuredProfile> measured_profile(std::span<const NamedTrace> traces, const StepGraph& graph, Profile base,
                                         const MatchLimits& limits, Bandwidth link) {
  TRACECAST_ASSERT(!traces.empty(), "at least one trace is required");
  Measurer measurer(graph, base, limits, link);
  for (const NamedTrace& trace : traces)
    if (const auto ok = measurer.add(trace); !ok) return tl::unexpected(ok.error());
  return measurer.finish(std::move(base), traces.front().file);
}

}  // namespace tracecast
