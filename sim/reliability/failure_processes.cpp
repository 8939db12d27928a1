#include "sim/reliability/failure_processes.hpp"

namespace tracecast {

FailureProcesses::FailureProcesses(const FailureModel& model, const Machine& machine, std::uint64_t seed,
                                   std::uint32_t history) {
  fleets_.reserve(model.kinds.size());
  std::uint32_t process = 0;
  for (const FailureKind& kind : model.kinds) {
    fleets_.emplace_back(law_on(kind, model, machine), parts(kind, model, machine), kind.age,
                         RandomStream(seed, history, process));
    attributes_.emplace_back(seed, history, process + 1);
    times_.push_back(on_the_clock(fleets_.back().next_s()));
    process += 2;
  }
  choose();
}

JobTime FailureProcesses::on_the_clock(double age_s) const {
  const JobTime age = job_time(age_s);
  return age == kNever ? kNever : age + paused_;
}

void FailureProcesses::choose() {
  next_ = kNever;
  next_kind_ = -1;
  for (std::size_t k = 0; k < times_.size(); ++k) {
    if (times_[k] >= next_) continue;
    next_ = times_[k];
    next_kind_ = static_cast<int>(k);
  }
}

void FailureProcesses::pop() {
  const auto k = static_cast<std::size_t>(next_kind_);
  fleets_[k].pop();
  times_[k] = on_the_clock(fleets_[k].next_s());
  choose();
}

void FailureProcesses::pause(JobTime duration) {
  paused_ += duration;
  for (JobTime& time : times_)
    if (time != kNever) time += duration;
  if (next_ != kNever) next_ += duration;
}

}  // namespace tracecast
