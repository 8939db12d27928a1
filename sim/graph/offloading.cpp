#include "sim/graph/offloading.hpp"

#include "sim/plan/memory.hpp"

namespace tracecast {
namespace {

constexpr const char* kOnHost = "activations on the host";
constexpr const char* kBack = "activations back";

}  // namespace

ActivationCopies::ActivationCopies(DataParallel& data, TemplateWriter& writer, const Chunk& chunk, bool backward)
    : data_(data),
      writer_(writer),
      chunk_(chunk),
      backward_(backward),
      active_(data.context().plan.training.offload_activations && chunk.stage.num_layers > 0) {
  if (!active_ || !backward_) return;
  const int last = chunk_.stage.num_layers - 1;
  const EventRef start = event("backward begins", 0);
  writer_.mark_as(start);
  // The first only waits for its stream, unless no second one of this template limits how far it runs ahead.
  fetch(last, last > 0 ? EventRef{} : start);
  if (last > 0) fetch(last - 1, start);
}

EventRef ActivationCopies::event(const char* purpose, int position) const {
  return data_.context().rank_event(purpose, chunk_.index, position, true);
}

Bytes ActivationCopies::size(int position) const {
  const BuildContext& context = data_.context();
  return layer_activation_bytes(context.model, context.plan, chunk_.stage.first_layer + position);
}

void ActivationCopies::before(int position) {
  if (!active_) return;
  if (backward_) return writer_.wait(event(kBack, position));
  if (position >= 2) writer_.wait(event(kOnHost, position - 2));
}

void ActivationCopies::after(int position) {
  if (!active_) return;
  if (!backward_) return copy_out(position);
  if (position < 2) return;
  const EventRef done = event("layer undone", position);
  writer_.mark_as(done);
  fetch(position - 2, done);
}

void ActivationCopies::copy_out(int position) {
  const EventRef done = event("layer done", position);
  writer_.mark_as(done);
  data_.copy(writer_, Lane::to_host, size(position), {done}, event(kOnHost, position));
  const int last = chunk_.stage.num_layers - 1;
  if (position == last) writer_.wait(event(kOnHost, last > 0 ? last - 1 : last));
}

void ActivationCopies::fetch(int position, EventRef when) {
  std::vector<EventRef> after{event(kOnHost, position)};
  if (!when.none()) after.push_back(when);
  data_.copy(writer_, Lane::from_host, size(position), std::move(after), event(kBack, position));
}

}  // namespace tracecast
