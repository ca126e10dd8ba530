#include "core/device/gpu_timeline.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

namespace lockstep {

namespace {

constexpr int tries = 5;
constexpr Picoseconds realign_after = 1'000'000'000'000;  // a second
/// The interval between the thread's polls of a mark, and therefore the longest delay before a span
/// appears in a live viewer.
constexpr std::chrono::microseconds nap{200};

}  // namespace

GpuTimeline::GpuTimeline(Gpu& gpu, Queue queue, const Clock& clock, Recorder& trace)
    : gpu_(gpu),
      clock_(clock),
      trace_(trace),
      anchor_(align(queue)),
      first_anchor_(anchor_),
      uncertainty_(anchor_->uncertainty) {
  thread_ = std::thread{[this] { work(); }};
}

GpuTimeline::~GpuTimeline() {
  {
    std::lock_guard lock{mutex_};
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void GpuTimeline::span(Entry entry) {
  if (entry.span.step < 0) entry.span.step = trace_.step();
  std::lock_guard lock{mutex_};
  pending_.push_back({std::move(entry), anchor_});
  ++put_;
  changed_.notify_all();
}

void GpuTimeline::drain() {
  std::unique_lock lock{mutex_};
  const std::int64_t until = put_;
  changed_.wait(lock, [&] { return recorded_ >= until; });
}

void GpuTimeline::realign(Queue queue) {
  drain();
  std::unique_lock lock{mutex_};
  const AnchorPtr before = anchor_;
  lock.unlock();
  if (clock_.now() - before->time < realign_after) return;
  auto now = std::make_shared<Anchor>(*align(queue));
  const Anchor& first = *first_anchor_;
  const double by_gpu = gpu_.milliseconds(*first.mark, *now->mark) * 1e9;
  now->rate = static_cast<double>(now->time - first.time) / by_gpu;
  now->drift_left = static_cast<double>(now->uncertainty + first.uncertainty) / by_gpu;
  lock.lock();
  // Keeps the spans in order: if the previous anchor made their times too late, delays the next
  // ones as much.
  const Picoseconds late = std::max<Picoseconds>(0, last_end_ - now->time);
  now->time += late;
  now->uncertainty += late;
  anchor_ = std::move(now);
}

Picoseconds GpuTimeline::uncertainty() const {
  std::lock_guard lock{mutex_};
  return uncertainty_;
}

Picoseconds GpuTimeline::least_delay() const {
  std::lock_guard lock{mutex_};
  return least_delay_.value_or(0);
}

GpuTimeline::AnchorPtr GpuTimeline::align(Queue queue) {
  Anchor best;
  for (int i = 0; i < tries; ++i) {
    const Picoseconds before = clock_.now();
    MarkPtr mark = gpu_.record(queue);
    while (!gpu_.passed(*mark)) std::this_thread::yield();
    const Picoseconds after = clock_.now();
    if (i > 0 && after - before >= best.uncertainty) continue;
    best = {.mark = std::move(mark), .time = after, .uncertainty = after - before};
  }
  return std::make_shared<const Anchor>(std::move(best));
}

GpuTimeline::Reading GpuTimeline::read(const Anchor& anchor, const Mark& mark) const {
  const double since = gpu_.milliseconds(*anchor.mark, mark) * 1e9;
  return {anchor.time + std::llround(anchor.rate * since),
          anchor.uncertainty + std::llround(anchor.drift_left * std::abs(since))};
}

void GpuTimeline::work() {
  std::unique_lock lock{mutex_};
  while (true) {
    changed_.wait(lock, [&] { return stop_ || !pending_.empty(); });
    if (pending_.empty()) return;
    const Pending next = pending_.front();
    const bool stop = stop_;
    lock.unlock();
    bool passed = false;
    try {
      passed = gpu_.passed(*next.entry.end);
      if (passed) record(next);
    } catch (const std::exception&) {
      passed = true;  // the GPU has failed: drop the span; the rank's next call will throw
    }
    if (!passed && !stop) std::this_thread::sleep_for(nap);
    lock.lock();
    if (!passed && !stop) continue;
    pending_.pop_front();
    ++recorded_;
    changed_.notify_all();
  }
}

void GpuTimeline::record(const Pending& pending) {
  const Entry& entry = pending.entry;
  const Picoseconds start = read(*pending.anchor, *entry.start).time;
  const Reading last = read(*pending.anchor, *entry.end);
  const Picoseconds end = std::max(start, last.time);
  {
    std::lock_guard lock{mutex_};
    uncertainty_ = std::max(uncertainty_, last.uncertainty);
    last_end_ = std::max(last_end_, end);
    least_delay_ = std::min(least_delay_.value_or(start - entry.launched), start - entry.launched);
  }
  if (end - start < entry.least) return;
  trace_.span(entry.lane, entry.span, start, end);
}

}  // namespace lockstep
