#include <doctest/doctest.h>
#include <sys/prctl.h>

#include <chrono>
#include <thread>

#include "core/comm/mpi/polling.h"

using namespace lockstep;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The bounds hold at any speed, because a busy machine only makes pauses longer.
TEST_CASE("a long wait polls rarely") {
  Polling polling;
  std::this_thread::sleep_for(milliseconds{4});
  int polls = 0;
  for (; steady_clock::now() - polling.begin() < milliseconds{100}; ++polls)
    CHECK(polling.pause() >= 0.001);  // a quarter of the wait, but at most 1 ms
  CHECK(polls <= 96);
}

TEST_CASE("after wake_up_promptly() a thread's timers are exact to 1 µs") {
  int slack = 0;
  std::thread thread{[&] {
    wake_up_promptly();
    slack = ::prctl(PR_GET_TIMERSLACK);
  }};
  thread.join();
  CHECK(slack == 1000);
}
