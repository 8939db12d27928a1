#include "sim/reliability/spares.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace tracecast {

namespace {

/// [nodes that fail together] mean number of such groups that fail in the mean repair time.
std::vector<double> failing_groups(const FailureModel& failures, const Machine& machine,
                                   const RecoveryPolicy& recovery) {
  std::vector<double> groups(1);
  for (const FailureKind& kind : failures.kinds) {
    const auto nodes = static_cast<std::size_t>(nodes_taken(kind.scope, failures, machine));
    if (nodes >= groups.size()) groups.resize(nodes + 1);
    groups[nodes] += interruption_rate_s(kind, failures, machine, recovery.flap_budget) * kind.replace_probability *
                     recovery.repair.mean_s;
  }
  return groups;
}

/// The chain of the header, spare by spare: up to the number of spares P does not depend on it.
class NodesInRepair {
 public:
  explicit NodesInRepair(std::vector<double> groups) : more_than_(std::move(groups)) {
    // [n] groups of more than n nodes.
    double sum = 0;
    for (auto each = more_than_.rbegin(); each != more_than_.rend(); ++each) sum += std::exchange(*each, sum);
  }

  void add_spare() {
    p_.push_back(next(p_, p_.size() - 1));
    running_ += p_.back();
    constexpr double kLarge = 1e200;  // only shares count
    if (p_.back() < kLarge) return;
    for (double& each : p_) each /= kLarge;
    running_ /= kLarge;
  }

  double waiting_share() const {
    const std::size_t spares = p_.size() - 1;
    std::vector<double> p = p_;
    double waiting = 0;
    for (std::size_t n = 0; n + 1 < more_than_.size(); ++n) {
      p.push_back(next(p, spares));
      waiting += p.back();
    }
    return waiting / (running_ + waiting);
  }

 private:
  /// P(k + 1) after P(0) to P(k).
  double next(const std::vector<double>& p, std::size_t spares) const {
    const std::size_t k = p.size() - 1, largest = more_than_.size() - 1;
    double flow = 0;
    for (std::size_t j = k - std::min(k, largest); j <= std::min(k, spares); ++j) flow += p[j] * more_than_[k - j];
    return flow / static_cast<double>(k + 1);
  }

  std::vector<double> more_than_;
  std::vector<double> p_{1};  ///< [nodes in repair] of the states in which the job runs, up to a factor
  double running_ = 1;        ///< their sum
};

}  // namespace

double mean_in_repair(const FailureModel& failures, const Machine& machine, const RecoveryPolicy& recovery) {
  const std::vector<double> groups = failing_groups(failures, machine, recovery);
  double mean = 0;
  for (std::size_t nodes = 0; nodes < groups.size(); ++nodes) mean += static_cast<double>(nodes) * groups[nodes];
  return mean;
}

double waiting_share(const FailureModel& failures, const Machine& machine, const RecoveryPolicy& recovery, int spares) {
  NodesInRepair in_repair(failing_groups(failures, machine, recovery));
  for (int n = 0; n < spares; ++n) in_repair.add_spare();
  return in_repair.waiting_share();
}

int cheapest_spares(const FailureModel& failures, const Machine& machine, const RecoveryPolicy& recovery, int most,
                    const std::function<int(int)>& paid) {
  NodesInRepair in_repair(failing_groups(failures, machine, recovery));
  int best = 0;
  double least = paid(0) / (1 - in_repair.waiting_share());
  // More spares than this cost more, even if the job never waits.
  for (int spares = 1; spares <= most && paid(spares) < least; ++spares) {
    in_repair.add_spare();
    const double cost = paid(spares) / (1 - in_repair.waiting_share());
    if (cost >= least) continue;
    best = spares;
    least = cost;
  }
  return best;
}

}  // namespace tracecast
