#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>

#include "core/comm/transport/transport.h"
#include "core/device/stream.h"

namespace lockstep {

/// The thread behind a communication stream: does a group's collectives one after another, in the
/// order in which they were issued, while the rank computes. On a GPU a stream is a queue of the
/// device; on the CPU it is this. A job that is waited for before the thread has begun it is
/// done by whoever waits, if it is the next: by the same agent, without a change of threads.
/// After a job that failed, or was dropped before it was done, the other ranks' and this one's no
/// longer go together: later ones are not begun, and fail for the same reason.
class Worker {
 public:
  /// What a job does: runs its messages, and returns when they were over.
  using Body = std::function<Event()>;

  class Job {
   public:
    /// `why` is what waiting for it is told as.
    Job(Body body, Route why) : body_(std::move(body)), why_(why) {}

   private:
    friend class Worker;
    enum class State { queued, running, done, dropped };
    Body body_;
    Route why_;
    std::int64_t number_ = 0;  ///< of this worker's jobs, from 1
    State state_ = State::queued;
    bool dropped_ = false;  ///< while it was running
    Event end_;
    std::exception_ptr error_;
  };

  /// `rank` is the transport of the rank's own thread, which issues and waits. The thread starts
  /// with the first job.
  Worker(Transport& rank, const std::string& name);
  /// Gives up what is still to be done.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// The agent in whose name the jobs exchange messages.
  Transport& agent() { return *agent_; }

  std::shared_ptr<Job> queue(Body body, Route why);
  /// Blocks until the job is done and returns its end; throws what it threw. For the rank's own
  /// thread.
  Event wait(Job& job);
  /// The job is not wanted any more: not begun it is dropped, half done it is given up. Returns
  /// when nobody touches its buffers.
  void drop(Job& job) noexcept;

 private:
  void work();
  /// Does the next job; `lock` is open meanwhile.
  void do_next(std::unique_lock<std::mutex>& lock);
  /// Jobs after that number are not begun.
  void end_at(std::int64_t number, std::exception_ptr why);
  std::exception_ptr dropped(const Job& job) const;

  Transport& rank_;
  std::unique_ptr<Transport> agent_;
  std::mutex mutex_;
  std::condition_variable wake_;  ///< there is something to do, or something was done
  std::deque<std::shared_ptr<Job>> queue_;
  std::int64_t queued_ = 0;
  std::int64_t last_sound_ = std::numeric_limits<std::int64_t>::max();
  std::exception_ptr why_no_more_;
  bool busy_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lockstep
