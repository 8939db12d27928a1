#include "tracer/concurrent_transfers.hpp"

#include <algorithm>

namespace tracecast {

void ConcurrentTransfers::add(const TraceKernel& kernel, const Speeds& speeds) {
  if (!speeds.full()) all_.push_back({kernel.start_ns, kernel.end_ns, speeds});
}

void ConcurrentTransfers::sort() {
  std::sort(all_.begin(), all_.end(), [](const Transfer& a, const Transfer& b) { return a.start < b.start; });
  ends_.clear();
  for (const Transfer& each : all_) ends_.push_back(std::max(each.end, ends_.empty() ? each.end : ends_.back()));
}

double ConcurrentTransfers::alone(const TraceKernel& kernel, GpuUse use) const {
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
    Speeds speeds;
    for (const Transfer* each : beside)
      if (each->start < edges[i] && each->end > edges[i - 1]) speeds = slowest(speeds, each->speeds);
    work += static_cast<double>(edges[i] - edges[i - 1]) * speeds.of(use) / kFullSpeed;
  }
  return work;
}

}  // namespace tracecast
