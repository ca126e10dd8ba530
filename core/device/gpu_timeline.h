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

/// Records when a GPU's spans ran, on the wall clock. A span's ends are marks on the GPU's queues,
/// whose times are known only once they are passed. A separate thread waits for them and then
/// records the span, so that neither the host nor the GPU is held up.
///
/// To align the two clocks, it reads the host's clock before it records a mark on an idle GPU, and
/// again when the mark is passed; it keeps the fastest of several tries, and dates that mark to the
/// later reading. So spans appear a few microseconds late (`uncertainty()`), and never before their
/// launch.
class GpuTimeline {
 public:
  /// The GPU must be idle. All references must outlive the timeline.
  GpuTimeline(Gpu& gpu, Queue queue, const Clock& clock, Recorder& trace);
  /// Records the spans that have ended by then, and drops the others.
  ~GpuTimeline();
  GpuTimeline(const GpuTimeline&) = delete;
  GpuTimeline& operator=(const GpuTimeline&) = delete;

  /// A span, and the start or end of a message's flow if it belongs to one.
  struct Entry {
    int lane = 0;
    Span span;
    MarkPtr start, end;
    Picoseconds launched = 0;  ///< when the host issued it
    Picoseconds least = 0;     ///< shorter spans are dropped
    std::uint64_t flow = 0;    ///< see Recorder::flow_start
    enum class Flow { none, starts, ends } kind = Flow::none;
  };
  /// Adds a span; its step is the recorder's current one. The caller may record other events on the
  /// span's lane only right after drain().
  void span(Entry entry);

  /// Returns when everything added so far is recorded. The GPU must have completed all of it.
  void drain();
  /// Realigns the clocks if the last alignment is a second old: they drift apart, and long
  /// intervals lose precision (CUDA returns milliseconds in f32). The GPU must be idle.
  void realign(Queue queue);

  /// How late a span may appear.
  Picoseconds uncertainty() const;
  /// The smallest delay between launch and start over all spans; a negative value would mean that a
  /// span started before its launch.
  Picoseconds least_delay() const;

 private:
  /// A mark, and the host time at which it was passed.
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
