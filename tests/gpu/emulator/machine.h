#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "emulator/runtime.h"
#include "tests/gpu/emulator/counts.h"
#include "tests/gpu/emulator/memory.h"

namespace emulator {

/// The mark that one cudaEventRecord put on a stream.
struct Record {
  int device = 0;
  bool passed = false;
  /// Whether Counts already includes a wait for this mark, or never will, because its stream was
  /// idle.
  bool counted = false;
  std::chrono::steady_clock::time_point when;
};

/// One stream's part of work that several streams do together, as in NCCL. arrive() is called when
/// the part is at the head of its stream. step() performs those operations of the part at which all
/// participating streams have arrived. All calls are made under the machine's lock.
class Meeting {
 public:
  virtual ~Meeting() = default;
  virtual void arrive() = 0;
  virtual bool can_step() const = 0;
  virtual void step() = 0;
  virtual bool done() const = 0;
  virtual std::string waits_for() const = 0;
};

/// One item on a stream; exactly one of `run`, `record`, `wait` and `meeting` is set.
struct Work {
  const char* name = "";
  std::function<void()> run;
  std::shared_ptr<Record> record;
  std::shared_ptr<Record> wait;
  std::shared_ptr<Meeting> meeting;
};

struct Stream {
  std::uintptr_t id = 0;
  int device = 0;
  bool destroyed = false;
  std::deque<Work> works;
  std::uint64_t urgency = 0;  ///< redrawn at random from time to time
};

struct Device {
  cudaError_t error = cudaSuccess;  ///< sticky
  std::string words;
  Stream stream;  ///< the default stream
};

/// All GPUs of the process. put() only enqueues work on a stream. A waiting thread runs the work at
/// the heads of the streams, one item at a time in the whole process, and chooses at random among
/// the streams that can proceed (seed $LOCKSTEP_EMULATOR_SEED). The thread stops as soon as its own
/// condition holds, so work that no thread waits for does not run. With
/// $LOCKSTEP_EMULATOR_MODE=eager, put() runs all work that can run.
class Machine {
 public:
  using Lock = std::unique_lock<std::mutex>;

  static Machine& get();

  Lock lock() { return Lock{mutex_}; }
  Memory& memory() { return memory_; }
  /// The bus index of each GPU visible to the process.
  const std::vector<int>& visible() const { return visible_; }
  Device& device(int index) { return *devices_.at(static_cast<std::size_t>(index)); }

  /// Returns null if there is no such stream. A null handle means the device's default stream.
  Stream* find(cudaStream_t handle, int current);
  cudaStream_t make_stream(int device);
  /// Destroys the stream once its work is done. Returns whether it existed.
  bool destroy(cudaStream_t handle);
  bool idle(int device);
  void put(Lock& lock, Stream& stream, Work work);
  /// Makes the work put on `later` from now on wait for all work on `earlier`.
  void order_after(Lock& lock, Stream& later, Stream& earlier);
  /// The stream that has this id and still has work; it may have been destroyed.
  Stream& working(std::uintptr_t id) { return *streams_.at(id); }
  /// Whether one of the GPU's streams is at a Meeting that is not done.
  bool communicates(int device);

  /// Runs work until done() returns true; done() is called under the lock. Other threads may
  /// enqueue work (put()) in the meantime.
  void drive(Lock& lock, const std::function<bool()>& done);
  /// Runs a few items, or none.
  void drive_a_little(Lock& lock);
  /// Call this after any change that a stream, or a thread in drive(), may be waiting for.
  void changed() { changed_.notify_all(); }
  void fail(int device, cudaError_t error, const std::string& words);

  /// The requests to the GPUs so far. Use under the machine's lock.
  Counts& counts() { return counts_; }

  bool debug() const { return debug_; }

 private:
  explicit Machine(std::vector<int> visible);

  Stream* choose();
  bool can_go_on(Stream& stream);
  bool step(Lock& lock);
  void run(Lock& lock, Stream& stream);
  void report_waits();
  template <class Do>
  void each_stream(Do&& visit);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> visible_;
  Memory memory_;
  Counts counts_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::map<std::uintptr_t, std::unique_ptr<Stream>> streams_;
  std::uintptr_t next_stream_ = first_stream_id;
  bool running_ = false;
  bool eager_ = false;
  bool debug_ = false;
  std::mt19937_64 random_;
};

/// The calling thread's current device.
int current_device();
/// Records an error for cudaGetLastError, and returns it.
cudaError_t noted(cudaError_t error);

}  // namespace emulator
