#pragma once

#include <memory>
#include <stdexcept>
#include <vector>

#include "core/comm/transport/gpu_communicator.h"
#include "core/device/gpu.h"

namespace lockstep::testing {

/// A GPU without any functions; tests derive classes from it that implement the functions they
/// need.
class StubGpu : public Gpu {
 public:
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
  bool passed(const Mark&) override { throw unused(); }
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
  static std::logic_error unused() { return std::logic_error{"this stub has no such function"}; }
};

}  // namespace lockstep::testing
