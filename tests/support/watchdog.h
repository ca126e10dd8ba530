#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "core/comm/threads/thread_fabric.h"

namespace lockstep::testing {

/// Fails a run that has not ended after `seconds` seconds, so that a hang becomes a failing test.
class Watchdog {
 public:
  Watchdog(ThreadFabric& fabric, double seconds)
      : thread_([this, &fabric, seconds] {
          std::unique_lock lock{mutex_};
          if (!wake_.wait_for(lock, std::chrono::duration<double>{seconds}, [&] { return over_; }))
            fabric.fail("the watchdog: it hangs");
        }) {}
  ~Watchdog() {
    {
      std::lock_guard lock{mutex_};
      over_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace lockstep::testing
