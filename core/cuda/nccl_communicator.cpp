#include "core/cuda/nccl_communicator.h"

#include <cuda_runtime.h>
#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace lockstep::nccl {

namespace {

/// Describes a failed call. If `communicator` is null, includes NCCL's last error on any
/// communicator.
std::string words(ncclResult_t result, const char* call, ncclComm_t communicator) {
  const char* last = ncclGetLastError(communicator);
  return fmt::format("{}: {}{}{}", call, ncclGetErrorString(result),
                     last != nullptr && *last != '\0' ? ": " : "", last != nullptr ? last : "");
}

void expect_success(ncclResult_t result, const char* call, ncclComm_t communicator) {
  if (result != ncclSuccess) throw std::runtime_error{words(result, call, communicator)};
}

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return ncclFloat32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f16:
      return ncclFloat16;
    case DType::i32:
      return ncclInt32;
  }
  throw std::invalid_argument{"NCCL: unsupported element type"};
}

/// Waits until over() returns true. Calls `check`, if there is one, from time to time.
template <class Over>
void wait_until(Over&& over, const WaitCheck& check) {
  using Clock = std::chrono::steady_clock;
  using std::chrono::microseconds;
  const Clock::time_point start = Clock::now();
  while (!over()) {
    const Clock::duration waited = Clock::now() - start;
    if (waited < microseconds{200}) {  // most calls take less, and sleeping would delay them
      std::this_thread::yield();
      continue;
    }
    if (check) check(std::chrono::duration<double>{waited}.count());
    std::this_thread::sleep_for(std::min<Clock::duration>(waited / 8, microseconds{1000}));
  }
}

/// Returns the state of a communicator, which is ncclInProgress until its last call is done.
ncclResult_t state_of(ncclComm_t communicator) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(communicator, &state);
  return asked == ncclSuccess ? state : asked;
}

/// Admits the rank's threads to NCCL calls until one thread closes the gate in order to abort or
/// destroy the communicator. Once the gate is closed, no thread may enter, and close() waits a
/// short time for the threads inside to leave. A thread that does not leave is stuck in NCCL until
/// ncclCommAbort unblocks it.
class Gate {
 public:
  class Visit {
   public:
    explicit Visit(Gate& gate) : gate_(gate), let_in_(gate.let_in()) {}
    ~Visit() {
      if (let_in_) gate_.leave();
    }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

    bool let_in() const { return let_in_; }

   private:
    Gate& gate_;
    bool let_in_;
  };

  /// Closes the gate; from then on closed() returns `why`. Returns false if the gate was already
  /// closed.
  bool close(const std::string& why) {
    std::unique_lock lock{mutex_};
    if (closed_) return false;
    closed_ = true;
    why_ = why;
    left_.wait_for(lock, std::chrono::milliseconds{200}, [this] { return inside_ == 0; });
    return true;
  }

  /// Returns the reason if the gate is closed.
  std::optional<std::string> closed() const {
    const std::lock_guard lock{mutex_};
    if (!closed_) return std::nullopt;
    return "this communicator can no longer be used: " + why_;
  }

 private:
  bool let_in() {
    const std::lock_guard lock{mutex_};
    if (!closed_) ++inside_;
    return !closed_;
  }
  void leave() {
    {
      const std::lock_guard lock{mutex_};
      --inside_;
    }
    left_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable left_;
  bool closed_ = false;
  std::string why_;
  int inside_ = 0;
};

/// The communicator is non-blocking: a call may return ncclInProgress, and is done when
/// ncclCommGetAsyncError reports another state. Until then, its work may not be on the stream yet,
/// so no event may be recorded, and NCCL accepts no other call on the communicator. Every function
/// here therefore waits for its call, but not inside NCCL, so that the WaitCheck or an abort can
/// end the wait.
class NcclCommunicator final : public GpuCommunicator {
 public:
  /// Takes ownership of the handle, whose creation may be in progress, and waits for it. If the
  /// creation fails or `check` throws, aborts the communicator.
  static std::unique_ptr<GpuCommunicator> create(const char* call, int gpu, ncclComm_t handle,
                                                 WaitCheck check) {
    try {
      ncclResult_t state = ncclSuccess;
      wait_until([&] { return (state = state_of(handle)) != ncclInProgress; }, check);
      expect_success(state, call, handle);
      return std::make_unique<NcclCommunicator>(gpu, handle, check);
    } catch (...) {
      ncclCommAbort(handle);
      throw;
    }
  }

  NcclCommunicator(int gpu, ncclComm_t handle, WaitCheck check)
      : gpu_(gpu), handle_(handle), check_(std::move(check)) {
    expect_success(ncclCommUserRank(handle, &rank_), "ncclCommUserRank", handle);
    expect_success(ncclCommCount(handle, &size_), "ncclCommCount", handle);
  }
  /// Waits for pending operations. If the run has failed, abort() should be called first;
  /// otherwise the destructor may wait for ranks that no longer exist until the WaitCheck throws.
  ~NcclCommunicator() override {
    if (!gate_.close("it was destroyed")) return;
    cudaSetDevice(gpu_);
    bool all_done = false;
    try {
      ncclResult_t state = ncclCommFinalize(handle_);
      if (state == ncclInProgress)
        wait_until([&] { return (state = state_of(handle_)) != ncclInProgress; }, check_);
      all_done = state == ncclSuccess;
    } catch (const std::exception&) {  // thrown by the WaitCheck: the run has failed, and its cause
                                       // is known
    }
    all_done ? ncclCommDestroy(handle_) : ncclCommAbort(handle_);
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  // Between the two calls, the thread counts as inside, so that an abort waits for ncclGroupEnd.
  // Otherwise the thread would stay in its group, and would submit nothing on any communicator.
  void begin_group() override {
    auto inside = std::make_unique<Gate::Visit>(gate_);
    enter("ncclGroupStart", [] { return ncclGroupStart(); });
    group_ = std::move(inside);
  }
  void end_group() override {
    const auto inside = std::exchange(group_, nullptr);
    if (inside == nullptr) throw std::logic_error{"end_group() without begin_group()"};
    cudaSetDevice(gpu_);
    call("ncclGroupEnd", [] { return ncclGroupEnd(); });
  }
  void send(Queue queue, View data, int to) override {
    in_a_group([&] {
      enter("ncclSend", data, [&](std::size_t count, ncclDataType_t type) {
        return ncclSend(data.data, count, type, to, handle_, stream_of(queue));
      });
    });
  }
  void receive(Queue queue, View into, int from) override {
    in_a_group([&] {
      enter("ncclRecv", into, [&](std::size_t count, ncclDataType_t type) {
        return ncclRecv(into.data, count, type, from, handle_, stream_of(queue));
      });
    });
  }

  void broadcast(Queue queue, View data, int root) override {
    enter("ncclBroadcast", data, [&](std::size_t count, ncclDataType_t type) {
      return ncclBroadcast(data.data, data.data, count, type, root, handle_, stream_of(queue));
    });
  }
  void all_reduce(Queue queue, View data) override {
    enter("ncclAllReduce", data, [&](std::size_t count, ncclDataType_t type) {
      return ncclAllReduce(data.data, data.data, count, type, ncclSum, handle_, stream_of(queue));
    });
  }
  void reduce_scatter(Queue queue, View data, View own) override {
    if (own.elements() != chunk(data) || own.dtype != data.dtype)
      throw std::invalid_argument{
          fmt::format("reduce_scatter of {} elements between {} ranks: the chunk has {} elements",
                      data.elements(), size_, own.elements())};
    enter("ncclReduceScatter", data, [&](std::size_t count, ncclDataType_t type) {
      return ncclReduceScatter(data.data, own.data, count / ranks(), type, ncclSum, handle_,
                               stream_of(queue));
    });
  }
  void all_gather(Queue queue, View data) override {
    const auto offset = static_cast<std::size_t>(rank_ * chunk(data)) * size_of(data.dtype);
    enter("ncclAllGather", data, [&](std::size_t count, ncclDataType_t type) {
      return ncclAllGather(static_cast<const std::byte*>(data.data) + offset, data.data,
                           count / ranks(), type, handle_, stream_of(queue));
    });
  }
  void reduce(Queue queue, View data, int root) override {
    enter("ncclReduce", data, [&](std::size_t count, ncclDataType_t type) {
      return ncclReduce(data.data, data.data, count, type, ncclSum, root, handle_,
                        stream_of(queue));
    });
  }

  std::optional<std::string> error() override {
    const Gate::Visit visit{gate_};
    if (!visit.let_in()) return gate_.closed();
    ncclResult_t state = ncclSuccess;
    {
      // A thread inside a call finds the error itself.
      const std::unique_lock lock{calls_, std::try_to_lock};
      if (lock) state = state_of(handle_);
    }
    if (state == ncclSuccess || state == ncclInProgress) return std::nullopt;
    if (auto closed = gate_.closed()) return closed;
    return words(state, "ncclCommGetAsyncError", handle_);
  }

  void abort(const std::string& why) noexcept override {
    if (!gate_.close(why)) return;
    cudaSetDevice(gpu_);
    ncclCommAbort(handle_);
  }

 private:
  static cudaStream_t stream_of(Queue queue) { return static_cast<cudaStream_t>(queue.handle); }
  std::size_t ranks() const { return static_cast<std::size_t>(size_); }

  /// Returns the number of elements of one member's chunk.
  std::int64_t chunk(const View& data) const {
    if (data.elements() % size_ != 0)
      throw std::invalid_argument{fmt::format(
          "NCCL: {} elements can't be divided into {} equal chunks", data.elements(), size_)};
    return data.elements() / size_;
  }

  /// Issues a send or receive in the open group, or else in a separate group. Before NCCL 2.24, a
  /// non-blocking communicator reports an ungrouped send or receive as done before its work is on
  /// the stream; the state after ncclGroupEnd is correct.
  template <class Issue>
  void in_a_group(Issue&& issue) {
    if (group_ != nullptr) return issue();
    GpuGroup alone{*this};
    issue();
    alone.submit();
  }
  template <class Call>
  void enter(const char* name, Call&& enqueue) {
    const Gate::Visit visit{gate_};
    if (!visit.let_in()) throw_closed(name);
    cudaSetDevice(gpu_);
    call(name, enqueue);
  }
  /// Calls NCCL and waits until the call is done.
  template <class Call>
  void call(const char* name, Call&& enqueue) {
    const auto locked = [&](auto&& ask) {
      const std::lock_guard lock{calls_};
      return ask();
    };
    ncclResult_t result = locked(enqueue);
    if (result == ncclInProgress)
      wait_until(
          [&] {
            if (gate_.closed()) throw_closed(name);
            return (result = locked([&] { return state_of(handle_); })) != ncclInProgress;
          },
          check_);
    if (result == ncclSuccess) return;
    // If an abort ended the call, NCCL's error does not contain the reason, and the handle has been
    // freed.
    if (gate_.closed()) throw_closed(name);
    throw std::runtime_error{words(result, name, handle_)};
  }
  [[noreturn]] void throw_closed(const char* name) const {
    throw std::runtime_error{fmt::format("{}: {}", name, gate_.closed().value_or(""))};
  }
  template <class Call>
  void enter(const char* name, const View& data, Call&& call) {
    if (!data.contiguous())
      throw std::invalid_argument{fmt::format("{}: the elements must be contiguous", name)};
    enter(name,
          [&] { return call(static_cast<std::size_t>(data.elements()), type_of(data.dtype)); });
  }

  int gpu_;
  ncclComm_t handle_;
  WaitCheck check_;
  int rank_ = 0;
  int size_ = 0;
  Gate gate_;
  /// Held during a call. ncclCommGetAsyncError completes the communicator's last call, and must not
  /// do so while another thread makes the next one.
  std::mutex calls_;
  std::unique_ptr<Gate::Visit> group_;  ///< of the thread between begin_group() and end_group()
};

}  // namespace

const bool is_here = true;

std::vector<std::byte> make_id() {
  ncclUniqueId id;
  expect_success(ncclGetUniqueId(&id), "ncclGetUniqueId", nullptr);
  std::vector<std::byte> bytes(sizeof id.internal);
  std::memcpy(bytes.data(), id.internal, bytes.size());
  return bytes;
}

std::unique_ptr<GpuCommunicator> join(int gpu, const std::vector<std::byte>& id, int ranks,
                                      int rank, WaitCheck check) {
  ncclUniqueId unique;
  if (id.size() != sizeof unique.internal)
    throw std::invalid_argument{fmt::format("NCCL: a communicator id must have {} bytes, not {}",
                                            sizeof unique.internal, id.size())};
  std::memcpy(unique.internal, id.data(), id.size());
  // A blocking call would wait forever for a rank that has ended. (NCCL's own variable
  // NCCL_COMM_BLOCKING overrides this.)
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t handle = nullptr;
  constexpr const char* call = "ncclCommInitRankConfig";
  const ncclResult_t result = ncclCommInitRankConfig(&handle, ranks, unique, rank, &config);
  if (result != ncclInProgress) expect_success(result, call, nullptr);
  return NcclCommunicator::create(call, gpu, handle, std::move(check));
}

std::string version() {
  int number = 0;
  expect_success(ncclGetVersion(&number), "ncclGetVersion", nullptr);
  return fmt::format("NCCL {}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

}  // namespace lockstep::nccl
