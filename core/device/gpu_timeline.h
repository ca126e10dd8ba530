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

/// What a GPU did when, on the wall clock. A span's ends are marks on the GPU's queues, whose times
/// are known only when they are passed; a thread of the timeline's own waits for that and records
/// the span then, so that neither the host nor the GPU is held up.
///
/// Two clocks are aligned for it: a mark on an idle GPU is put down and seen passed between two
/// readings of the host's clock, and is taken to be at the later one of the quickest of some tries.
/// So a span is shown some microseconds late (`uncertainty()`), and never before its launch.
class GpuTimeline {
 public:
  /// The GPU is idle. All references must outlive the timeline.
  GpuTimeline(Gpu& gpu, Queue queue, const Clock& clock, Recorder& trace);
  /// Records what is passed by then; what never was is left out.
  ~GpuTimeline();
  GpuTimeline(const GpuTimeline&) = delete;
  GpuTimeline& operator=(const GpuTimeline&) = delete;

  /// A span, and which end of a message it is, if it is one.
  struct Entry {
    int lane = 0;
    Span span;
    MarkPtr start, end;
    Picoseconds launched = 0;  ///< when the host asked for it
    Picoseconds least = 0;     ///< shorter ones are not recorded
    std::uint64_t flow = 0;    ///< see Recorder::flow_start
    enum class Flow { none, starts, ends } kind = Flow::none;
  };
  /// A lane that is recorded here is recorded elsewhere only right after drain(), by who puts in.
  /// The span's step is the recorder's now.
  void span(Entry entry);

  /// Returns when everything put in before is recorded. The GPU has done it all.
  void drain();
  /// Aligns the clocks again, if that is a second ago: they drift apart, and a time since long ago
  /// is coarse (CUDA tells milliseconds in f32). The GPU is idle.
  void realign(Queue queue);

  /// How late a span may be shown.
  Picoseconds uncertainty() const;
  /// Of all spans so far the earliest, against its launch: below 0 would be before it.
  Picoseconds least_delay() const;

 private:
  /// A mark, and when it was passed by the host's clock.
  struct Anchor {
    MarkPtr mark;
    Picoseconds time = 0;
    Picoseconds uncertainty = 0;
  };
  using AnchorPtr = std::shared_ptr<const Anchor>;
  struct Pending {
    Entry entry;
    AnchorPtr anchor;
  };

  AnchorPtr align(Queue queue);
  Picoseconds time_of(const Anchor& anchor, const Mark& mark) const;
  void work();
  void record(const Pending& pending);

  Gpu& gpu_;
  const Clock& clock_;
  Recorder& trace_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Pending> pending_;
  AnchorPtr anchor_;
  std::int64_t put_ = 0, recorded_ = 0;
  std::optional<Picoseconds> least_delay_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lockstep
