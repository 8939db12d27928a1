#include "sim/graph/offloading.hpp"

#include <algorithm>
#include <utility>
#include <vector>

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
      offloaded_(offloaded_layers(data.context().plan.training, chunk.stage)) {
  if (offloaded_ == 0 || !backward_) return;
  if (some_stay()) {
    copied_ = offloaded_;
    return;
  }
  // The last two layers of the chunk have none behind them whose end starts their copies.
  const int last = chunk_.stage.num_layers - 1;
  const EventRef start = event("backward begins", 0);
  writer_.mark_as(start);
  // The first only waits for its stream, unless no second one of this template limits how far it runs ahead.
  fetch(last, is_offloaded(last - 1) ? EventRef{} : start);
  if (is_offloaded(last - 1)) fetch(last - 1, start);
}

EventRef ActivationCopies::event(const char* purpose, int position) const {
  return data_.context().rank_event(purpose, chunk_.index, position, true);
}

Bytes ActivationCopies::size(int position) const {
  const BuildContext& context = data_.context();
  return layer_activation_bytes(context.model, context.plan, chunk_.stage.first_layer + position);
}

Bytes ActivationCopies::beside(int position) const {
  const BuildContext& context = data_.context();
  const int unit = context.units.layer(chunk_.stage, chunk_.stage.first_layer + position);
  return data_.beside_copies(chunk_.stage, unit,
                             backward_ ? DataParallel::UnitPass::backward : DataParallel::UnitPass::forward);
}

int ActivationCopies::end_of_copy(int position) const {
  const int layers = chunk_.stage.num_layers;
  return layers / offloaded_ * (position + 1) - 1 + std::min(position + 1, layers % offloaded_);
}

void ActivationCopies::after_forward(int position) {
  if (position == 0) copy_out(0);
  if (copied_ == offloaded_ || position != end_of_copy(copied_)) return;
  writer_.wait(event(kOnHost, copied_));
  if (++copied_ < offloaded_) copy_out(copied_);
}

void ActivationCopies::before_backward(int position) {
  if (copied_ > 0 && position == end_of_copy(copied_ - 1)) {
    if (copied_ < offloaded_) writer_.wait(event(kBack, copied_));
    const EventRef begins = event("backward begins", position);
    writer_.mark_as(begins);
    fetch(--copied_, begins);
  }
  if (position == 0) writer_.wait(event(kBack, 0));
}

void ActivationCopies::before(int position) {
  if (offloaded_ == 0) return;
  if (some_stay()) {
    if (backward_) before_backward(position);
    return;
  }
  if (backward_ && is_offloaded(position)) return writer_.wait(event(kBack, position));
  if (!backward_ && is_offloaded(position - 2)) writer_.wait(event(kOnHost, position - 2));
}

void ActivationCopies::after(int position) {
  if (offloaded_ == 0) return;
  if (some_stay()) {
    if (!backward_) after_forward(position);
    return;
  }
  if (!backward_) {
    copy_out(position);
    if (position == chunk_.stage.num_layers - 1) wait_at_end(position);
    return;
  }
  if (!is_offloaded(position - 2)) return;
  const EventRef done = event("layer undone", position);
  writer_.mark_as(done);
  fetch(position - 2, done);
}

void ActivationCopies::copy_out(int position) {
  const EventRef done = event("layer done", position);
  writer_.mark_as(done);
  data_.copy(writer_, Lane::to_host, size(position), {done}, event(kOnHost, position), beside(position));
}

void ActivationCopies::wait_at_end(int last) {
  const int position = last > 0 ? last - 1 : last;
  if (is_offloaded(position)) writer_.wait(event(kOnHost, position));
}

void ActivationCopies::fetch(int position, EventRef when) {
  std::vector<EventRef> after{event(kOnHost, position)};
  if (!when.none()) after.push_back(when);
  data_.copy(writer_, Lane::from_host, size(position), std::move(after), event(kBack, position), beside(position));
}

}  // namespace tracecast
