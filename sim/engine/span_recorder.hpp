/// What a worker tells of every operation that it runs, and who keeps it: all of it (SpanRecorder) or nothing (NoSpans,
/// whose calls vanish).
///
/// A cause is the index of the span whose end decided a start; -1 where there is none.
#pragma once

#include <vector>

#include "sim/engine/state.hpp"
#include "sim/engine/timeline.hpp"

namespace tracecast::engine {

class NoSpans {
 public:
  void arrive(const Place&, bool, const Event*) {}
  std::int32_t cause_of(std::int32_t) const { return -1; }
  void sent(const Mail&, std::int32_t) {}
  std::int32_t cause_of_mail(const Mail&) const { return -1; }
  void host_went_on(std::int32_t, std::int32_t, const Event*) {}
  void run(const Place&, const Step&, std::int64_t, const Event*) {}
  void transfer(const Place&, const Step&, std::int64_t, std::int64_t, std::int32_t) {}
  void recorded(const Event&, std::int32_t) {}
};

class SpanRecorder {
 public:
  explicit SpanRecorder(const State& state);

  /// A transfer is ready on this rank: because the host issued it, because of `decisive`, or of the one before it.
  void arrive(const Place& at, bool host_decided, const Event* decisive);
  std::int32_t cause_of(std::int32_t stream) const { return cause_[static_cast<std::size_t>(stream)]; }
  /// An eager message left with the cause of its sender, which goes on.
  void sent(const Mail& mail, std::int32_t sender);
  std::int32_t cause_of_mail(const Mail& mail) const;
  /// The host begins `segment`; `decisive` is the event that made it wait, if one did.
  void host_went_on(std::int32_t rank, std::int32_t segment, const Event* decisive);
  /// The operations of a run of compute, each as it ran, from `ready` on.
  void run(const Place& at, const Step& step, std::int64_t ready, const Event* decisive);
  void transfer(const Place& at, const Step& step, std::int64_t start, std::int64_t end, std::int32_t cause);
  /// The last span of `stream` recorded `event`.
  void recorded(const Event& event, std::int32_t stream);

  /// By rank, stream and order of execution; causes follow.
  std::vector<Span> sorted() const;

 private:
  std::int32_t add(const Place& at, std::int32_t op, std::int64_t arrival, std::int64_t start, std::int64_t end,
                   std::int32_t cause);
  /// Into event_spans_.
  std::size_t index_of(const Event& event) const;
  std::int32_t span_of(const Event& event) const { return event_spans_[index_of(event)]; }
  std::int32_t& host_cause(std::int32_t rank, std::int32_t segment);

  const State& state_;
  std::vector<Span> spans_;
  std::vector<std::int32_t> last_;         ///< [stream] its last span
  std::vector<std::int32_t> cause_;        ///< [stream] of the transfer it waits in
  std::vector<std::int32_t> event_spans_;  ///< [event], then [local event]
  std::vector<std::int32_t> mail_causes_;
  std::vector<std::int32_t> host_causes_;  ///< [rank x segments + segment]
};

}  // namespace tracecast::engine
