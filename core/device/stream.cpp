#include "core/device/stream.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "core/trace/format.h"

namespace lockstep {

namespace {

/// Waits shorter than this are not recorded, because recording two marks takes as long as such a
/// wait.
constexpr Picoseconds shortest_wait = 2'000'000;
/// A span that has been open for at least this long may have been announced. The writer announces a
/// span when it has been open for about 100 ms; the exact time depends on the writer's polling.
constexpr Picoseconds may_be_announced = 50'000'000'000;

/// Larger reads go straight to the caller's memory.
constexpr std::size_t pinned_bytes = 64 << 10;

void check_contiguous(View view) {
  if (!view.contiguous())
    throw std::invalid_argument("copy between host and device: the elements must be contiguous");
}

}  // namespace

Stream::Stream(const Clock& clock, Recorder& trace, int lane, DeviceKind device,
               OperationLog* operations, const Kernels& kernels)
    : clock_(clock),
      trace_(trace),
      lane_(lane),
      device_(device),
      operations_(operations),
      kernels_(kernels),
      host_lane_(lane) {
  trace_.set_clock(clock_);
}

Stream::Stream(const Clock& clock, Recorder& trace, int lane, Gpu& gpu, OperationLog* operations)
    : clock_(clock),
      trace_(trace),
      lane_(lane),
      device_(DeviceKind::cuda),
      operations_(operations),
      kernels_(gpu.kernels()),
      gpu_(&gpu),
      queue_(gpu.make_queue(/*urgent=*/false)),
      host_lane_(lane) {
  trace_.set_clock(clock_);
  // Allocates now, because pinning memory may wait for a kernel of NCCL (Gpu::reserve).
  pinned_ = static_cast<std::byte*>(gpu.allocate_pinned(pinned_bytes));
  if (clock_.is_modelled()) return;
  host_lane_ = trace_.add_lane("host");
  timeline_ = std::make_unique<GpuTimeline>(gpu, queue_, clock_, trace_);
}

Stream::~Stream() {
  timeline_.reset();
  // If a read has not been waited for, or the wait has failed, the GPU may still write to this
  // memory, so it is not freed.
  if (pinned_ != nullptr && arriving_.empty()) gpu_->release_pinned(pinned_);
  if (gpu_ != nullptr) gpu_->drop_queue(queue_);
}

void Stream::kernel_done(const Span& span, const Cost& cost, Picoseconds start, MarkPtr begun) {
  if (clock_.is_modelled()) {
    const Picoseconds alone = clock_.cost(cost);
    time_ =
        clock_.cluster().after(time_, collectives_ ? collectives_->duration(time_, alone) : alone);
  }
  if (operations_ != nullptr) operations_->kernel(span, cost);
  if (!trace_.kernels()) return;
  Span counted = span;
  counted.bytes = std::llround(cost.bytes);
  counted.flops = cost.flops;
  if (timeline_)
    timeline_->span({.lane = lane_,
                     .span = counted,
                     .start = std::move(begun),
                     .end = gpu_->record(queue_),
                     .launched = start});
  else
    trace_.span(lane_, counted, start, now());
}

Span Stream::announced(const Span& span) {
  if (gpu_ == nullptr) return span;
  std::string name;
  append_name(name, span);
  gpu_->push_range(name.c_str());
  if (!timeline_) return span;
  // On the host lane the span covers only the launches, so its category must not count as work.
  return {.name = trace_.keep(name), .category = Category::wait, .step = span.step};
}

void Stream::host_done(OpenSpan& open, Picoseconds since) {
  if (timeline_ && now() - since >= may_be_announced) open.end(now());
}

// Called by a destructor, so it does not throw. If the GPU has failed, or if the modelled time is
// too late, the next launch or the end of the step throws.
void Stream::range_done(const Span& span, Picoseconds launched, OpenSpan& open, MarkPtr begun) {
  if (clock_.is_modelled()) {
    // With a fixed time, the launches inside the range cost nothing, but waits inside it still take
    // time.
    if (auto fixed = clock_.fixed(span.category)) time_ = plus(time_, *fixed);
    if (operations_ != nullptr) operations_->end(span.category);
    keep_pace();
  }
  if (gpu_ != nullptr) gpu_->pop_range();
  if (!timeline_) return open.end(now());
  host_done(open, launched);
  try {
    timeline_->span({.lane = lane_,
                     .span = span,
                     .start = std::move(begun),
                     .end = gpu_->record(queue_),
                     .launched = launched});
  } catch (const std::exception&) {
  }
}

Stream::Activity Stream::current_activity() const {
  const char* kernel = kernel_.load(std::memory_order_relaxed);
  Activity activity;
  if (auto open = trace_.innermost_open(host_lane_))
    activity = {std::move(open->name), open->seconds};
  if (kernel != nullptr)
    activity.name += activity.name.empty() ? kernel : " (" + std::string{kernel} + ")";
  return activity;
}

void Stream::wait(const Event& event, const Span& why) {
  if (event.mark && gpu_ != nullptr) {
    const Picoseconds launched = now();
    MarkPtr before = timeline_ ? gpu_->record(queue_) : nullptr;
    gpu_->wait(queue_, *event.mark);
    if (timeline_)
      timeline_->span({.lane = lane_,
                       .span = why,
                       .start = std::move(before),
                       .end = gpu_->record(queue_),
                       .launched = launched,
                       .least = shortest_wait});
  }
  if (!clock_.is_modelled() || event.time <= time_) return;
  trace_.span(lane_, why, time_, event.time);
  time_ = event.time;
  keep_pace();
}

void Stream::start_together(Picoseconds latest) {
  if (operations_ != nullptr) operations_->together();
  wait({latest}, {.name = "start together", .category = Category::wait});
}

void Stream::keep_pace() {
  sleeps_for_pace_.store(true, std::memory_order_relaxed);
  clock_.keep_pace(time_);
  sleeps_for_pace_.store(false, std::memory_order_relaxed);
}

void Stream::follow(const Event& event) {
  if (event.mark && gpu_ != nullptr) gpu_->wait(queue_, *event.mark);
}

void Stream::read(View from, void* into) {
  check_contiguous(from);
  if (!from || from.bytes() == 0) return;
  if (gpu_ == nullptr) {
    std::memcpy(into, from.data, from.bytes());
    return;
  }
  if (from.bytes() <= pinned_bytes) {
    // A copy to pinned memory does not block, so there is one wait, after the copy.
    const LaterRead reading = read_later(from);
    synchronise();
    std::memcpy(into, reading.arrival_->bytes.data(), from.bytes());
    return;
  }
  synchronise();  // wait here, because a wait inside CUDA would not call watch_
  gpu_->copy(queue_, into, from.data, from.bytes());
  synchronise();
}

LaterRead Stream::read_later(View from) {
  check_contiguous(from);
  LaterRead reading;
  reading.arrival_ =
      std::make_shared<LaterRead::Arrival>(*this, std::vector<std::byte>(from.bytes()));
  if (!from || from.bytes() == 0) return reading;
  if (gpu_ == nullptr || from.bytes() > pinned_bytes) {
    read(from, reading.arrival_->bytes.data());
    return reading;
  }
  std::size_t used = 0;
  for (const auto& earlier : arriving_) used += earlier->bytes.size();
  if (used + from.bytes() > pinned_bytes) {
    synchronise();
    used = 0;
  }
  gpu_->copy(queue_, pinned_ + used, from.data, from.bytes());
  reading.arrival_->pinned = pinned_ + used;
  arriving_.push_back(reading.arrival_);
  return reading;
}

void LaterRead::wait() const {
  if (arrival_->pinned != nullptr) arrival_->stream.synchronise();
}

void Stream::write(const void* from, View into) {
  check_contiguous(into);
  if (!into || into.bytes() == 0) return;
  if (gpu_ == nullptr) {
    std::memcpy(into.data, from, into.bytes());
    return;
  }
  synchronise();
  gpu_->copy(queue_, into.data, from, into.bytes());
  synchronise();
}

void Stream::synchronise() {
  if (gpu_ == nullptr) return;
  if (before_launch_) std::exchange(before_launch_, nullptr)();
  wait_for(*gpu_->record(queue_));
  for (const auto& arrival : arriving_) {
    std::memcpy(arrival->bytes.data(), arrival->pinned, arrival->bytes.size());
    arrival->pinned = nullptr;
  }
  arriving_.clear();
}

// For about 100 µs the thread yields between polls; after that it sleeps, for a thousandth of the
// time that it has waited, at least 20 µs. With a clock in place of the GPU, on Linux, a wait of 60
// ms, as for a step's gradient norm, ended 0.05 ms late and took 8 % of a core.
void Stream::wait_for(const Mark& mark) {
  using namespace std::chrono;
  const auto begin = steady_clock::now();
  while (!gpu_->passed(mark)) {
    const auto waited = steady_clock::now() - begin;
    if (waited < microseconds{100}) {
      std::this_thread::yield();
      continue;
    }
    if (watch_) watch_();
    std::this_thread::sleep_for(
        std::clamp<steady_clock::duration>(waited / 1000, microseconds{20}, milliseconds{1}));
  }
  if (watch_) watch_();
}

}  // namespace lockstep
