#pragma once

#include <utility>

#include "core/device/memory.h"
#include "core/time/clock.h"
#include "core/trace/open_span.h"
#include "core/trace/recorder.h"
#include "kernels/kernels.h"

namespace lockstep {

/// A point on a stream: everything launched before it is done at `time`.
struct Event {
  Picoseconds time = 0;
};

/// An in-order queue of work, as in CUDA. On the CPU the compute stream runs inline on the rank's
/// own thread. Tracing and costing are part of launching: `launch` is the only way work gets on a
/// stream, so no lesson sprinkles trace calls, and no kernel is forgotten by the modelled clock.
class Stream {
 public:
  /// A stream whose spans go to `lane` of `trace`. All references must outlive the stream.
  Stream(const Clock& clock, Recorder& trace, int lane, DeviceKind device,
         const Kernels& kernels = cpu_kernels());

  /// Runs one kernel: `work(kernels, queue)`. On the modelled clock it costs what the cluster says
  /// of `cost`; on the meta device it is charged and not run.
  template <class Work>
  void launch(const Span& span, const Cost& cost, Work&& work) {
    const Picoseconds start = now();
    if (device_ != DeviceKind::meta) work(kernels_, queue_);
    kernel_done(span, cost, start);
  }

  /// A named stretch that consists of launches: a pipeline action, the optimizer, a step. It is
  /// open in the trace while it lasts. Where `--time` names its category, it takes just that long
  /// on the modelled clock.
  template <class Work>
  decltype(auto) range(const Span& span, Work&& work) {
    Range open{*this, span};
    return std::forward<Work>(work)();
  }

  /// Where the stream stands: the wall clock's now, or the modelled time of the work launched so
  /// far.
  Picoseconds now() const { return clock_.is_modelled() ? time_ : clock_.now(); }
  Event record() const { return {now()}; }
  /// Nothing launched after this starts before `event`. Time spent so is a `wait` span on this
  /// lane.
  void wait(Event event, const Span& why);

  const Clock& clock() const { return clock_; }
  Recorder& trace() const { return trace_; }
  const Kernels& kernels() const { return kernels_; }
  int lane() const { return lane_; }

 private:
  class Range {
   public:
    Range(Stream& stream, const Span& span)
        : stream_(stream),
          category_(span.category),
          open_(stream.trace_, stream.lane_, span, stream.now()) {}
    ~Range() { stream_.range_done(category_, open_); }
    Range(const Range&) = delete;
    Range& operator=(const Range&) = delete;

   private:
    Stream& stream_;
    Category category_;
    OpenSpan open_;
  };

  void kernel_done(const Span& span, const Cost& cost, Picoseconds start);
  void range_done(Category category, OpenSpan& open);

  const Clock& clock_;
  Recorder& trace_;
  int lane_;
  DeviceKind device_;
  const Kernels& kernels_;
  Queue queue_;
  Picoseconds time_ = 0;
};

}  // namespace lockstep
