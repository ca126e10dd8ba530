#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "core/device/gpu.h"
#include "core/time/clock.h"
#include "core/trace/recorder.h"

namespace lockstep {

/// Records a GPU's spans in the trace, with times on the wall clock. A span starts and ends at
/// marks on the GPU's queues. A mark's time is available only once the mark is passed, so a
/// separate thread waits for the marks and then records the span. This holds up neither the host
/// nor the GPU.
///
/// To align the GPU's clock with the host's, the timeline reads the host's clock before it records
/// a mark on an idle GPU, and again when the mark is passed. It does this several times, keeps the
/// attempt with the least time between the two readings, and assigns the later reading to that
/// attempt's mark. Spans therefore appear up to a few microseconds late. The two clocks also run at
/// slightly different rates: from the second alignment on, the timeline corrects for the measured
/// difference. See uncertainty().
class GpuTimeline {
 public:
  /// The GPU must be idle, and all references must outlive the timeline.
  GpuTimeline(Gpu& gpu, Queue queue, const Clock& clock, Recorder& trace);
  /// Records the spans that have ended, and drops the others.
  ~GpuTimeline();
  GpuTimeline(const GpuTimeline&) = delete;
  GpuTimeline& operator=(const GpuTimeline&) = delete;

  struct Entry {
    int lane = 0;
    Span span;
    MarkPtr start, end;
    Picoseconds launched = 0;  ///< time at which the host issued it
    Picoseconds least = 0;     ///< a shorter span is dropped
  };
  /// Adds a span. If the span has no step, it gets the recorder's current step. Before recording
  /// other events on the span's lane, the caller must call drain().
  void span(Entry entry);

  /// Returns when all spans added so far are recorded. The GPU must have completed their work.
  void drain();
  /// Realigns the clocks if the last alignment is at least a second old, because the clocks drift
  /// apart and long intervals lose precision (CUDA returns milliseconds in f32). Measures the
  /// drift. The GPU must be idle.
  void realign(Queue queue);

  /// The largest error in the times of any span so far: the error of the alignment, plus the drift
  /// since then. Before the drift is measured, assumes that it is at most 50 ppm, a common
  /// tolerance of quartz oscillators.
  Picoseconds uncertainty() const;
  /// The smallest delay between the launch and the start of any span. A negative value means that a
  /// span appears to start before its launch; it is never below -uncertainty().
  Picoseconds least_delay() const;

 private:
  /// A mark, and the host time at which it was passed.
  struct Anchor {
    MarkPtr mark;
    Picoseconds time = 0;
    Picoseconds uncertainty = 0;
    double rate = 1;            ///< time on the host's clock per time on the GPU's
    double drift_left = 50e-6;  ///< largest error of `rate`
  };
  using AnchorPtr = std::shared_ptr<const Anchor>;
  struct Pending {
    Entry entry;
    AnchorPtr anchor;
  };

  AnchorPtr align(Queue queue);
  /// The time of a mark, and its largest error.
  struct Reading {
    Picoseconds time, uncertainty;
  };
  Reading read(const Anchor& anchor, const Mark& mark) const;
  void work();
  void record(const Pending& pending);

  Gpu& gpu_;
  const Clock& clock_;
  Recorder& trace_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Pending> pending_;
  AnchorPtr anchor_, first_anchor_;
  Picoseconds uncertainty_ = 0;
  Picoseconds last_end_ = 0;  ///< of all spans recorded
  std::int64_t put_ = 0, recorded_ = 0;
  std::optional<Picoseconds> least_delay_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lockstep
