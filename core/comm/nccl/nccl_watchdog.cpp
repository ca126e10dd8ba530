#include "core/comm/nccl/nccl_watchdog.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>

#include "core/base/error.h"
#include "core/time/clock.h"

namespace lockstep {

namespace {

constexpr std::chrono::milliseconds interval{50};

}  // namespace

NcclWatchdog::NcclWatchdog(const Transport& control, Gpu& gpu, double patience_seconds)
    : control_(control),
      gpu_(gpu),
      patience_seconds_(patience_seconds),
      last_progress_(steady_nanoseconds()),
      last_look_(last_progress_),
      thread_([this] { work(); }),
      second_([this] { watch_the_watch(); }) {}

NcclWatchdog::~NcclWatchdog() {
  {
    std::lock_guard lock{mutex_};
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
  second_.join();
}

void NcclWatchdog::add(GpuCommunicator& communicator) {
  std::lock_guard lock{mutex_};
  watched_.push_back(&communicator);
}

void NcclWatchdog::expect(Marks marks) {
  std::lock_guard lock{mutex_};
  if (expected_.empty()) last_progress_ = steady_nanoseconds();
  expected_.push_back(std::move(marks));
}

void NcclWatchdog::check() const {
  std::lock_guard lock{mutex_};
  if (!failure_.empty()) throw RunError(failure_);
}

void NcclWatchdog::work() {
  for (bool over = false; !over;) {
    {
      std::unique_lock lock{mutex_};
      over = wake_.wait_for(lock, interval, [&] { return stop_; });
    }
    try {
      look();
    } catch (const std::exception& error) {
      give_up(error.what());
      over = true;
    }
    const std::lock_guard lock{mutex_};
    last_look_ = steady_nanoseconds();
    ended_ = over;
  }
  wake_.notify_all();
}

void NcclWatchdog::watch_the_watch() {
  std::unique_lock lock{mutex_};
  while (!wake_.wait_for(lock, interval, [&] { return ended_; })) {
    if (static_cast<double>(steady_nanoseconds() - last_look_) * 1e-9 <= patience_seconds_)
      continue;
    lock.unlock();
    return give_up(fmt::format("rank {}: the GPU's driver or NCCL has not answered for {:g} s",
                               control_.rank(), patience_seconds_));
  }
}

void NcclWatchdog::look() {
  control_.check();
  look_for_errors();
  look_for_progress();
}

void NcclWatchdog::look_for_errors() {
  std::vector<GpuCommunicator*> watched;
  {
    std::lock_guard lock{mutex_};
    watched = watched_;
  }
  for (GpuCommunicator* each : watched)
    if (const auto error = each->error())
      throw RunError(fmt::format("rank {}: NCCL: {}", control_.rank(), *error));
}

// Detects a stall. The completion of any operation counts as progress, because a receive that was
// posted early may legitimately wait for a long time.
void NcclWatchdog::look_for_progress() {
  std::vector<Marks> expected;
  {
    const std::lock_guard lock{mutex_};
    expected = expected_;
  }
  // Looks without holding the lock: the driver may not answer, and expect() and check() must not
  // block.
  std::vector<const Mark*> passed;
  bool one_runs = false;
  for (const Marks& each : expected) {
    if (gpu_.passed(*each.done))
      passed.push_back(each.done.get());
    else
      one_runs = one_runs || gpu_.passed(*each.begun);
  }
  const std::lock_guard lock{mutex_};
  std::erase_if(expected_, [&](const Marks& each) {
    return std::ranges::find(passed, each.done.get()) != passed.end();
  });
  const std::int64_t now = steady_nanoseconds();
  if (!passed.empty() || !one_runs) last_progress_ = now;
  if (static_cast<double>(now - last_progress_) * 1e-9 > patience_seconds_)
    throw RunError(fmt::format(
        "rank {} has waited {:g} s for its GPU, which waits for NCCL: a rank that it exchanges "
        "messages with has stalled, or does not take part",
        control_.rank(), patience_seconds_));
}

// Aborts all communicators at the same time, because an abort may wait for the GPU, and therefore
// for the operations of the other communicators.
void NcclWatchdog::give_up(const std::string& why) {
  std::vector<GpuCommunicator*> watched;
  {
    std::lock_guard lock{mutex_};
    if (!failure_.empty()) return;
    failure_ = why;
    watched = watched_;
  }
  std::vector<std::thread> threads;
  for (GpuCommunicator* each : watched) threads.emplace_back([each, &why] { each->abort(why); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace lockstep
