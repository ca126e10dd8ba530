// Tests core/comm/nccl/nccl_watchdog.h with a fake GPU and a fake communicator.

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>

#include "core/base/error.h"
#include "core/comm/nccl/nccl_watchdog.h"
#include "core/comm/threads/thread_fabric.h"
#include "tests/support/comes_true.h"
#include "tests/support/stub_gpu.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// A GPU on which `operation` has begun and never ends. Once it hangs, it does not answer until it
/// is released.
const Marks operation{std::make_shared<Mark>(), std::make_shared<Mark>()};

class StuckGpu final : public StubGpu {
 public:
  bool passed(const Mark& mark) override {
    std::unique_lock lock{mutex_};
    ++questions;
    changed_.wait(lock, [this] { return !hangs_; });
    return &mark == operation.begun.get() && begins;
  }
  void hang(bool hangs) {
    const std::lock_guard lock{mutex_};
    hangs_ = hangs;
    changed_.notify_all();
  }
  std::atomic<int> questions{0};
  std::atomic<bool> begins{true};

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool hangs_ = false;
};

/// Only records that it was aborted.
class AbortedCommunicator final : public GpuCommunicator {
 public:
  std::optional<std::string> error() override { return std::nullopt; }
  void abort(const std::string&) noexcept override { aborted = true; }
  std::atomic<bool> aborted{false};

  int rank() const override { return 0; }
  int size() const override { return 1; }
  void begin_group() override {}
  void end_group() override {}
  void send(Queue, View, int) override {}
  void receive(Queue, View, int) override {}
  void broadcast(Queue, View, int) override {}
  void all_reduce(Queue, View) override {}
  void reduce_scatter(Queue, View, View) override {}
  void all_gather(Queue, View) override {}
  void reduce(Queue, View, int) override {}
};

/// Whether check() throws an error with these words.
bool has_failed(const NcclWatchdog& watchdog, const std::string& words) {
  try {
    watchdog.check();
  } catch (const RunError& error) {
    return std::string{error.what()}.find(words) != std::string::npos;
  }
  return false;
}

}  // namespace

TEST_CASE("operations that never complete end the run after the patience") {
  ThreadFabric fabric{1};
  const auto control = fabric.endpoint(0);
  StuckGpu gpu;
  AbortedCommunicator communicator;
  NcclWatchdog watchdog{*control, gpu, 0.3};
  watchdog.add(communicator);
  watchdog.expect(operation);
  CHECK(comes_true([&] { return has_failed(watchdog, "waited 0.3 s for its GPU"); }));
  CHECK(comes_true([&] { return communicator.aborted.load(); }));
}

TEST_CASE("an operation that waits for the rank's own kernels has not stalled") {
  ThreadFabric fabric{1};
  const auto control = fabric.endpoint(0);
  StuckGpu gpu;
  gpu.begins = false;
  AbortedCommunicator communicator;
  NcclWatchdog watchdog{*control, gpu, 0.2};
  watchdog.add(communicator);
  watchdog.expect(operation);
  // It looks 20 times a second: for five times the patience, it has found nothing.
  const int before = gpu.questions;
  CHECK(comes_true([&] { return gpu.questions > before + 2 * 20; }));
  watchdog.check();
  gpu.begins = true;
  CHECK(comes_true([&] { return has_failed(watchdog, "waited 0.2 s for its GPU"); }));
}

TEST_CASE("a driver that does not answer holds up neither the rank nor the end of the run") {
  ThreadFabric fabric{1};
  const auto control = fabric.endpoint(0);
  StuckGpu gpu;
  AbortedCommunicator communicator;
  {
    NcclWatchdog watchdog{*control, gpu, 0.5};
    watchdog.add(communicator);
    gpu.hang(true);
    watchdog.expect(operation);
    REQUIRE(comes_true([&] { return gpu.questions > 0; }));
    // The rank's own thread keeps running while the watchdog is stuck inside the driver.
    watchdog.check();
    watchdog.expect(operation);
    CHECK(comes_true([&] { return has_failed(watchdog, "has not answered for 0.5 s"); }));
    CHECK(comes_true([&] { return communicator.aborted.load(); }));
    gpu.hang(false);
  }
}
