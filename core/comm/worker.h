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

/// The thread behind a communication stream: runs a group's collectives one after another, in the
/// order in which they were issued, while the rank computes. On a GPU a stream is a device queue;
/// on the CPU it is this thread. If a rank waits for the next job before the thread has begun it,
/// the rank's own thread runs the job, in the worker's name and without a thread switch. After a
/// job fails, or is dropped before it is done, this rank's messages no longer match the other
/// ranks': later jobs do not run, and fail for the same reason.
class Worker {
 public:
  /// Runs the job's messages, and returns when they ended.
  using Body = std::function<Event()>;

  class Job {
   public:
    /// `why` is shown as the reason for waiting for this job.
    Job(Body body, Route why) : body_(std::move(body)), why_(why) {}

   private:
    friend class Worker;
    enum class State { queued, running, done, dropped };
    Body body_;
    Route why_;
    std::int64_t number_ = 0;  ///< among this worker's jobs, from 1
    State state_ = State::queued;
    bool dropped_ = false;  ///< while it was running
    Event end_;
    std::exception_ptr error_;
  };

  /// `rank` is the transport of the rank's own thread, which issues jobs and waits for them. The
  /// first job starts the thread.
  Worker(Transport& rank, const std::string& name);
  /// Abandons the remaining jobs.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// The agent on whose behalf the jobs exchange messages.
  Transport& agent() { return *agent_; }

  std::shared_ptr<Job> queue(Body body, Route why);
  /// Blocks until the job is done and returns its end; throws what the job threw. For the rank's
  /// own thread.
  Event wait(Job& job);
  /// Abandons the job: removes it if it has not begun, makes its waits fail if it has. Returns when
  /// nothing uses its buffers any more.
  void drop(Job& job) noexcept;

 private:
  void work();
  /// Runs the next job; `lock` is released meanwhile.
  void do_next(std::unique_lock<std::mutex>& lock);
  /// Keeps jobs after that number from running.
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
