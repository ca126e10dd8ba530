#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "core/device/event.h"
#include "core/device/gpu_timeline.h"
#include "core/device/memory.h"
#include "core/time/clock.h"
#include "core/trace/open_span.h"
#include "core/trace/recorder.h"
#include "kernels/kernels.h"

namespace lockstep {

/// An in-order queue of work, as in CUDA. On the CPU the compute stream runs inline on the rank's
/// own thread; on a GPU it is a queue there, and the host runs ahead. Tracing and costing are part
/// of launching: `launch` is the only way work gets on a stream, so no lesson sprinkles trace
/// calls, and no kernel is forgotten by the modelled clock.
class Stream {
 public:
  /// A stream whose spans go to `lane` of `trace`. All references must outlive the stream.
  Stream(const Clock& clock, Recorder& trace, int lane, DeviceKind device,
         const Kernels& kernels = cpu_kernels());
  /// One that is a queue of a GPU. By the wall clock its spans are of the GPU's own time.
  Stream(const Clock& clock, Recorder& trace, int lane, Gpu& gpu);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Runs one kernel: `work(kernels, queue)`. On the modelled clock it costs what the cluster says
  /// of `cost`; on the meta device it is charged and not run.
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
  Event record() const { return {now(), gpu_ ? gpu_->record(queue_) : nullptr}; }
  /// Nothing launched after this starts before `event`. Time spent so is a `wait` span on this
  /// lane.
  void wait(const Event& event, const Span& why);
  /// The same for a GPU's sake only: buffers that others use until `event` may be released after.
  /// Takes no time on the modelled clock, leaves no trace, and is nothing on the CPU.
  void follow(const Event& event);

  // Between the host and the device, when everything launched before is done; the host waits. For
  // contiguous views, or nothing where there is no storage. Neither traced nor costed.
  void read(View from, void* into);
  void write(const void* from, View into);
  /// Waits until the device has done everything that was launched. Throws RunError where the run
  /// has failed meanwhile (see watch).
  void synchronise();

  /// To be called now and then while the host waits for the GPU, with the seconds that it has
  /// waited: throws where that has no end.
  void watch(std::function<void(double)> watch) { watch_ = std::move(watch); }
  /// To be called once, before the next launch: what was gathered up to here is sent off.
  void before_next_launch(std::function<void()> call) { before_launch_ = std::move(call); }

  // Thread-safe: for observers that tell a computing rank from a stalled one.

  /// Number of kernels launched so far.
  std::uint64_t launched() const { return launched_.load(std::memory_order_relaxed); }
  /// Whether the launching thread is inside a kernel. Always false on a GPU, where launches return
  /// at once.
  bool in_kernel() const { return kernel_.load(std::memory_order_relaxed) != nullptr; }
  /// The innermost open range, the current kernel, and how long the range has been open:
  /// "PP:1F0 (attention)", 5 s.
  struct Doing {
    std::string what;
    double seconds = 0;
  };
  Doing doing() const;

  const Clock& clock() const { return clock_; }
  Recorder& trace() const { return trace_; }
  /// For the calling thread: a GPU's run on the one that is the thread's current.
  const Kernels& kernels() const { return gpu_ ? gpu_->kernels() : kernels_; }
  Queue queue() const { return queue_; }
  /// Null on the CPU.
  Gpu* gpu() const { return gpu_; }
  /// Null but on a GPU by the wall clock.
  GpuTimeline* timeline() const { return timeline_.get(); }
  int lane() const { return lane_; }
  /// The lane on which it is seen what the host is in the middle of: where the GPU's own time is
  /// recorded, another than lane().
  int host_lane() const { return host_lane_; }
  /// Ends what was open there. Of the host's own spans those stay that others may have been told of
  /// meanwhile.
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
          begun_(stream.timeline_ ? stream.gpu_->record(stream.queue_) : nullptr) {}
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
  /// The span as what the host is in the middle of; profilers are told, too.
  Span announced(const Span& span);
  void range_done(const Span& span, Picoseconds launched, OpenSpan& open, MarkPtr begun);
  void wait_for(const Mark& mark);

  const Clock& clock_;
  Recorder& trace_;
  int lane_;
  DeviceKind device_;
  const Kernels& kernels_;
  Gpu* gpu_ = nullptr;
  Queue queue_;
  int host_lane_;
  std::unique_ptr<GpuTimeline> timeline_;
  std::function<void(double)> watch_;
  std::function<void()> before_launch_;
  Picoseconds time_ = 0;
  std::atomic<std::uint64_t> launched_{0};
  std::atomic<const char*> kernel_{nullptr};
};

}  // namespace lockstep
