#include "sim/import/recorded_collectives.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "sim/import/kernel_names.hpp"

namespace tracecast {
namespace {

struct NcclLaunch {
  std::int64_t launch_ns = 0;
  const TraceKernel* kernel = nullptr;
};

bool is_timed(const TraceCollective& c) { return c.end_ns > c.start_ns; }

class Pairing {
 public:
  explicit Pairing(Trace& trace) : trace_(trace) {
    std::unordered_map<std::int64_t, std::int64_t> called;
    for (const TraceCall& call : trace.calls) called.try_emplace(call.correlation, call.start_ns);
    std::unordered_map<std::string, NcclKernel> names;
    for (const TraceKernel& kernel : trace.kernels) {
      const auto [name, added] = names.try_emplace(kernel.name);
      if (added) name->second = nccl_kernel(kernel.name);
      if (name->second.name.empty()) continue;
      const auto call = called.find(kernel.correlation);
      of_correlation_.try_emplace(kernel.correlation, &kernel);
      kinds_[name->second.collective()].push_back({call == called.end() ? kernel.start_ns : call->second, &kernel});
    }
  }

  std::int64_t run() {
    std::map<std::int64_t, std::vector<TraceCollective*>> groups;
    std::int64_t alone = INT64_MIN;
    for (TraceCollective& c : trace_.collectives)
      if (!is_timed(c)) groups[c.launch == 0 ? alone++ : c.launch].push_back(&c);
    std::erase_if(groups, [this](const auto& each) { return pair_by_launch(each.first, each.second); });
    std::vector<std::vector<TraceCollective*>> rest;
    for (auto& [launch, group] : groups) rest.push_back(std::move(group));
    std::stable_sort(rest.begin(), rest.end(),
                     [](const auto& a, const auto& b) { return a.front()->start_ns < b.front()->start_ns; });
    for (auto& [kind, launches] : kinds_) sort(launches);
    for (const auto& group : rest) pair_by_time(group);
    return paired_;
  }

 private:
  /// Those that are launched first, last; of one launch (a CUDA graph) the one that begins last.
  static void sort(std::vector<NcclLaunch>& launches) {
    std::sort(launches.begin(), launches.end(), [](const NcclLaunch& a, const NcclLaunch& b) {
      return std::tuple(b.launch_ns, a.kernel->start_ns) < std::tuple(a.launch_ns, b.kernel->start_ns);
    });
  }

  bool pair_by_launch(std::int64_t launch, const std::vector<TraceCollective*>& group) {
    if (launch <= 0) return false;
    if (launches_.empty())
      for (const TraceExternal& e : trace_.externals)
        if (e.kind == kRecorderIds) launches_.emplace(e.id, e.correlation);
    if (launches_.empty()) return false;
    const auto [begin, end] = launches_.equal_range(launch);
    std::vector<const TraceKernel*> kernels;
    for (auto each = begin; each != end; ++each) {
      const auto kernel = of_correlation_.find(each->second);
      if (kernel != of_correlation_.end()) kernels.push_back(kernel->second);
    }
    if (kernels.empty()) {
      pair_with_copies(begin, end, group);
      return true;  // lost, or launched by another thread: the kernel launched last is another one
    }
    for (TraceCollective* each : group) take(*kernel_of(*each, kernels), {each});
    return true;
  }

  /// The first one of its kind; if none is, as of NCCL's generic kernel and of messages, the first one.
  static const TraceKernel* kernel_of(const TraceCollective& c, const std::vector<const TraceKernel*>& kernels) {
    if (kernels.size() == 1) return kernels.front();
    const auto same = std::find_if(kernels.begin(), kernels.end(), [&c](const TraceKernel* kernel) {
      return nccl_kernel(kernel->name).collective() == collective_of(c.name);
    });
    return same == kernels.end() ? kernels.front() : *same;
  }

  /// A collective of copy engines lasts from its first copy to its last.
  template <class Iterator>
  void pair_with_copies(Iterator begin, Iterator end, const std::vector<TraceCollective*>& group) {
    if (copies_.empty())
      for (const TraceCopy& copy : trace_.copies) copies_.emplace(copy.correlation, &copy);
    std::int64_t first = INT64_MAX;
    std::int64_t last = INT64_MIN;
    for (auto each = begin; each != end; ++each) {
      const auto [copy, behind] = copies_.equal_range(each->second);
      for (auto one = copy; one != behind; ++one) {
        first = std::min(first, one->second->start_ns);
        last = std::max(last, one->second->end_ns);
      }
    }
    if (first >= last) return;
    for (TraceCollective* each : group) {
      each->start_ns = first;
      each->end_ns = last;
      ++paired_;
    }
  }

  void pair_by_time(const std::vector<TraceCollective*>& group) {
    const std::int64_t now = group.front()->start_ns;
    for (const auto& kind : {collective_of(group.front()->name), message_kind(group), std::optional<Collective>()}) {
      const auto found = kinds_.find(kind);
      if (found == kinds_.end()) continue;
      std::vector<NcclLaunch>& later = found->second;
      std::vector<NcclLaunch>& before = launched_[kind];
      for (; !later.empty() && later.back().launch_ns <= now; later.pop_back()) before.push_back(later.back());
      while (!before.empty() && taken_.contains(before.back().kernel)) before.pop_back();
      if (before.empty()) continue;
      take(*before.back().kernel, group);
      return before.pop_back();
    }
  }

  /// NCCL's kernel of sends and receives runs an AllToAll too.
  static std::optional<Collective> message_kind(const std::vector<TraceCollective*>& group) {
    const auto kind = collective_of(group.front()->name);
    return kind == Collective::all_to_all ? std::optional(Collective::send_recv) : kind;
  }

  void take(const TraceKernel& kernel, const std::vector<TraceCollective*>& group) {
    taken_.insert(&kernel);
    for (TraceCollective* each : group) {
      each->start_ns = kernel.start_ns;
      each->end_ns = kernel.end_ns;
      ++paired_;
    }
  }

  Trace& trace_;
  std::unordered_map<std::int64_t, const TraceKernel*> of_correlation_;
  std::unordered_multimap<std::int64_t, std::int64_t> launches_;           ///< [id] correlations
  std::unordered_multimap<std::int64_t, const TraceCopy*> copies_;         ///< [correlation]
  std::map<std::optional<Collective>, std::vector<NcclLaunch>> kinds_;     ///< not launched yet, the next one last
  std::map<std::optional<Collective>, std::vector<NcclLaunch>> launched_;  ///< without a collective, the last one last
  std::unordered_set<const TraceKernel*> taken_;
  std::int64_t paired_ = 0;
};

}  // namespace

std::int64_t pair_collectives(Trace& trace) { return trace.collectives.empty() ? 0 : Pairing(trace).run(); }

}  // namespace tracecast
