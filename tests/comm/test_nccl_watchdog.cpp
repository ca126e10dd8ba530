// core/comm/nccl/nccl_watchdog.h, with a GPU and a communicator that are made up.

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

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// A GPU whose marks are never passed. Once it hangs, it does not answer until it is let go.
class StuckGpu final : public Gpu {
 public:
  bool passed(const Mark&) override {
    std::unique_lock lock{mutex_};
    ++questions;
    changed_.wait(lock, [this] { return !hangs_; });
    return false;
  }
  void hang(bool hangs) {
    const std::lock_guard lock{mutex_};
    hangs_ = hangs;
    changed_.notify_all();
  }
  std::atomic<int> questions{0};

  int index() const override { return 0; }
  const GpuInfo& info() const override { throw unused(); }
  const Kernels& kernels() const override { throw unused(); }
  void* allocate(std::size_t, Queue) override { throw unused(); }
  void release(void*, Queue) noexcept override {}
  void* allocate_pinned(std::size_t) override { throw unused(); }
  void release_pinned(void*) noexcept override {}
  std::int64_t memory_in_use() const override { throw unused(); }
  void reserve(std::size_t) override { throw unused(); }
  void open_to_peers() override { throw unused(); }
  Queue make_queue(bool) override { throw unused(); }
  void drop_queue(Queue) noexcept override {}
  int most_queues() const override { throw unused(); }
  MarkPtr record(Queue) override { throw unused(); }
  void wait(Queue, const Mark&) override { throw unused(); }
  double milliseconds(const Mark&, const Mark&) override { throw unused(); }
  void copy(Queue, void*, const void*, std::size_t) override { throw unused(); }
  void push_range(const char*) override {}
  void pop_range() override {}
  std::vector<std::byte> make_communicator_id() override { throw unused(); }
  std::unique_ptr<GpuCommunicator> join(const std::vector<std::byte>&, int, int,
                                        WaitCheck) override {
    throw unused();
  }

 private:
  static std::logic_error unused() { return std::logic_error{"not used by the watchdog"}; }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool hangs_ = false;
};

/// Only remembers that it was aborted.
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
  watchdog.expect(std::make_shared<Mark>());
  CHECK(comes_true([&] { return has_failed(watchdog, "waited 0.3 s for its GPU"); }));
  CHECK(comes_true([&] { return communicator.aborted.load(); }));
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
    watchdog.expect(std::make_shared<Mark>());
    REQUIRE(comes_true([&] { return gpu.questions > 0; }));
    // The rank's own thread goes on, although the watchdog's is inside the driver.
    watchdog.check();
    watchdog.expect(std::make_shared<Mark>());
    CHECK(comes_true([&] { return has_failed(watchdog, "has not answered for 0.5 s"); }));
    CHECK(comes_true([&] { return communicator.aborted.load(); }));
    gpu.hang(false);
  }
}
