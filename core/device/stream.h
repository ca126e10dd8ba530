#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/device/collectives_in_flight.h"
#include "core/device/event.h"
#include "core/device/gpu_timeline.h"
#include "core/device/memory.h"
#include "core/operations/operation_log.h"
#include "core/time/clock.h"
#include "core/trace/open_span.h"
#include "core/trace/recorder.h"
#include "kernels/kernels.h"

namespace lockstep {

class Stream;

/// Bytes in flight from the device to the host (see Stream::read_later()). The host waits for them
/// when it first reads them, unless it has waited for the device in the meantime.
class LaterRead {
 public:
  LaterRead() = default;

  /// Returns the bytes as `T`s, and waits for them if necessary. The stream must still exist.
  /// Throws RunError if the run fails during the wait.
  template <class T>
  std::vector<T> get() const {
    wait();
    std::vector<T> values(arrival_->bytes.size() / sizeof(T));
    std::memcpy(values.data(), arrival_->bytes.data(), values.size() * sizeof(T));
    return values;
  }

 private:
  friend class Stream;
  struct Arrival {
    Stream& stream;
    std::vector<std::byte> bytes;
    const std::byte* pinned = nullptr;  ///< where the device writes them; null once they have
                                        ///< arrived
  };
  void wait() const;

  std::shared_ptr<Arrival> arrival_;
};

/// An in-order queue of work, as in CUDA. On the CPU, the rank's own thread runs the work
/// immediately; on a GPU, the stream is a device queue, and the host runs ahead. launch() is the
/// only way to put work on a stream, and it also traces the work and charges its cost. As a result,
/// lessons need no trace calls, and no kernel escapes the modelled clock.
class Stream {
 public:
  /// Creates a stream without a GPU, whose spans are recorded on lane `lane` of `trace`. All
  /// references must outlive the stream. `operations` also records the stream's work; it may be
  /// null.
  Stream(const Clock& clock, Recorder& trace, int lane, DeviceKind device,
         OperationLog* operations = nullptr, const Kernels& kernels = cpu_kernels());
  /// Creates a stream on a queue of `gpu`. On the wall clock, its spans show the times on the GPU.
  Stream(const Clock& clock, Recorder& trace, int lane, Gpu& gpu,
         OperationLog* operations = nullptr);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Runs one kernel by calling `work(kernels, queue)`. On the modelled clock the kernel takes the
  /// cluster's time for `cost`. On the meta device, the kernel is charged for but not run.
  template <class Work>
  void launch(const Span& span, const Cost& cost, Work&& work) {
    if (before_launch_) std::exchange(before_launch_, nullptr)();
    const Picoseconds start = now();
    MarkPtr begun = timeline_ && trace_.kernels() ? gpu_->record(queue_) : nullptr;
    {
      const InKernel running{*this, span.name};
      if (device_ != DeviceKind::meta) work(kernels(), queue_);
    }
    kernel_done(span, cost, start, std::move(begun));
  }

  /// Calls `work`, and records a span around the kernels that it launches, for example a pipeline
  /// action, the optimizer or a step. The trace shows the span as open until `work` returns. If
  /// `--time` gives a time for the span's category, the launched kernels together take exactly that
  /// time on the modelled clock.
  template <class Work>
  decltype(auto) range(const Span& span, Work&& work) {
    Range open{*this, span};
    return std::forward<Work>(work)();
  }

  /// The stream's current time: the wall-clock time, or the modelled time at which the work
  /// launched so far ends.
  Picoseconds now() const { return clock_.is_modelled() ? time_ : clock_.now(); }
  Event record() const { return {now(), gpu_ ? gpu_->record(queue_) : nullptr}; }
  /// Keeps work launched later from starting before `event`. The time spent waiting is recorded as
  /// the span `why` on the stream's lane.
  void wait(const Event& event, const Span& why);
  /// On the modelled clock, sets the time to `latest`, which must be the latest of all ranks'
  /// times. Every rank of the run calls this at the same point of the program.
  void start_together(Picoseconds latest);
  /// On a GPU, keeps work launched later from starting before `event`, so that buffers in use until
  /// `event` may be released after this call. Takes no modelled time and records no span. Does
  /// nothing on the CPU.
  void follow(const Event& event);

  // These functions copy between the host and a contiguous view on the device, after all work
  // launched so far. They block the host, take no modelled time, are not traced, and do nothing on
  // a view without storage.
  void read(View from, void* into);
  void write(const void* from, View into);
  /// Enqueues the same copy as read(), without blocking the host. All reads enqueued so far arrive
  /// with the next wait for the device, so that a step can read several results and wait once. A
  /// view without storage yields zeros. At most 64 KiB can be in flight at a time; beyond that,
  /// this call waits.
  LaterRead read_later(View from);
  /// Blocks until the device has done all work launched so far. Throws RunError if the run fails
  /// during the wait (see watch()).
  void synchronise();

  /// Sets a callback that is called periodically while the host waits for the GPU, and once after
  /// the wait. It throws if the run has failed, so that the wait can never end.
  void watch(std::function<void()> watch) { watch_ = std::move(watch); }
  /// Sets a callback that is called once, before the next launch. The callback submits the messages
  /// batched so far.
  void before_next_launch(std::function<void()> call) { before_launch_ = std::move(call); }

  // These functions are callable from any thread, so that an observer can distinguish a computing
  // rank from a stalled one.

  /// The number of kernels launched so far.
  std::uint64_t launched() const { return launched_.load(std::memory_order_relaxed); }
  /// Whether the rank's thread is inside a kernel. Always false on a GPU, because launches return
  /// immediately.
  bool in_kernel() const { return kernel_.load(std::memory_order_relaxed) != nullptr; }
  /// Whether the rank's thread is sleeping because of --pace.
  bool sleeps_for_pace() const { return sleeps_for_pace_.load(std::memory_order_relaxed); }
  /// The innermost open range and the current kernel, such as "PP:1F0 (attention)", and the seconds
  /// that the range has been open.
  struct Activity {
    std::string name;
    double seconds = 0;
  };
  Activity current_activity() const;

  /// Makes collectives in flight slow down the kernels launched meanwhile.
  void slow_beside(std::unique_ptr<CollectivesInFlight> collectives) {
    collectives_ = std::move(collectives);
  }
  /// Null if collectives do not slow kernels.
  CollectivesInFlight* collectives_in_flight() const { return collectives_.get(); }

  const Clock& clock() const { return clock_; }
  Recorder& trace() const { return trace_; }
  /// Where the rank's operations are recorded; null if they are not.
  OperationLog* operations() const { return operations_; }
  /// The device's kernels. A GPU's kernels run on the calling thread's current GPU, which this
  /// call sets.
  const Kernels& kernels() const { return gpu_ ? gpu_->kernels() : kernels_; }
  Queue queue() const { return queue_; }
  /// Null on the CPU.
  Gpu* gpu() const { return gpu_; }
  /// Null unless the stream is on a GPU with the wall clock.
  GpuTimeline* timeline() const { return timeline_.get(); }
  int lane() const { return lane_; }
  /// The lane of open spans. Open spans show the host's current activity, so this lane differs from
  /// lane() if recorded spans show the times on a GPU.
  int host_lane() const { return host_lane_; }
  /// Ends a span that was opened on the host lane at `since`. The span stays in the trace only if
  /// the writer may already have announced it.
  void host_done(OpenSpan& open, Picoseconds since);

 private:
  class InKernel {
   public:
    InKernel(Stream& stream, const char* kernel) : kernel_(stream.kernel_) {
      stream.launched_.store(stream.launched() + 1, std::memory_order_relaxed);
      if (stream.gpu_ == nullptr) kernel_.store(kernel, std::memory_order_relaxed);
    }
    ~InKernel() { kernel_.store(nullptr, std::memory_order_relaxed); }
    InKernel(const InKernel&) = delete;
    InKernel& operator=(const InKernel&) = delete;

   private:
    std::atomic<const char*>& kernel_;
  };
  class Range {
   public:
    Range(Stream& stream, const Span& span)
        : stream_(stream),
          span_(span),
          launched_(stream.now()),
          open_(stream.trace_, stream.host_lane_, stream.announced(span), launched_),
          begun_(stream.timeline_ ? stream.gpu_->record(stream.queue_) : nullptr) {
      if (stream.operations_ != nullptr) stream.operations_->begin(span);
    }
    ~Range() { stream_.range_done(span_, launched_, open_, std::move(begun_)); }
    Range(const Range&) = delete;
    Range& operator=(const Range&) = delete;

   private:
    Stream& stream_;
    Span span_;
    Picoseconds launched_;
    OpenSpan open_;
    MarkPtr begun_;
  };

  void kernel_done(const Span& span, const Cost& cost, Picoseconds start, MarkPtr begun);
  /// Returns the span to open on the host lane, and opens a profiler range for it.
  Span announced(const Span& span);
  void range_done(const Span& span, Picoseconds launched, OpenSpan& open, MarkPtr begun);
  void wait_for(const Mark& mark);
  void keep_pace();

  const Clock& clock_;
  Recorder& trace_;
  int lane_;
  DeviceKind device_;
  OperationLog* operations_;
  const Kernels& kernels_;
  Gpu* gpu_ = nullptr;
  Queue queue_;
  int host_lane_;
  std::unique_ptr<GpuTimeline> timeline_;
  std::byte* pinned_ = nullptr;                                ///< receives small reads
  std::vector<std::shared_ptr<LaterRead::Arrival>> arriving_;  ///< enqueued, not waited for yet
  std::function<void()> watch_;
  std::function<void()> before_launch_;
  std::unique_ptr<CollectivesInFlight> collectives_;
  Picoseconds time_ = 0;
  std::atomic<std::uint64_t> launched_{0};
  std::atomic<const char*> kernel_{nullptr};
  std::atomic<bool> sleeps_for_pace_{false};
};

}  // namespace lockstep
