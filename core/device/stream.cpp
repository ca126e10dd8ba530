#include "core/device/stream.h"

namespace lockstep {

Stream::Stream(const Clock& clock, Recorder& trace, int lane, DeviceKind device,
               const Kernels& kernels)
    : clock_(clock), trace_(trace), lane_(lane), device_(device), kernels_(kernels) {
  trace_.set_clock(clock_);
}

void Stream::kernel_done(const Span& span, const Cost& cost, Picoseconds start) {
  time_ += clock_.is_modelled() ? clock_.cost(cost) : 0;
  if (trace_.kernels()) trace_.span(lane_, span, start, now());
}

void Stream::range_done(Category category, OpenSpan& open) {
  if (clock_.is_modelled()) {
    // The launches inside have cost nothing; what was waited for inside stays.
    if (auto fixed = clock_.times().of(category)) time_ += *fixed;
    clock_.keep_pace(time_);
  }
  open.end(now());
}

void Stream::wait(Event event, const Span& why) {
  if (!clock_.is_modelled() || event.time <= time_) return;
  trace_.span(lane_, why, time_, event.time);
  time_ = event.time;
  clock_.keep_pace(time_);
}

}  // namespace lockstep
