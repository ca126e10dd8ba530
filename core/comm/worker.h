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

/// A communication stream on the CPU: a thread that runs a group's collectives in the order in
/// which they were issued, while the rank computes. If the rank waits for a job that is next in the
/// queue and has not begun, the rank's own thread runs the job as the worker's agent, to save a
/// thread switch. After a job fails, or is dropped before it is done, this rank's messages no
/// longer match the other ranks' messages, so later jobs fail with the same error without running.
class Worker {
 public:
  /// The body of a job: exchanges the job's messages, and returns the event at which the messages
  /// ended.
  using Body = std::function<Event()>;

  class Job {
   public:
    /// `why` is the operation that error messages name when an agent is waiting for this job.
    Job(Body body, Route why) : body_(std::move(body)), why_(why) {}

   private:
    friend class Worker;
    enum class State { queued, running, done, dropped };
    Body body_;
    Route why_;
    std::int64_t number_ = 0;  ///< index among this worker's jobs, from 1
    State state_ = State::queued;
    bool dropped_ = false;  ///< whether the job was dropped while running
    Event end_;
    std::exception_ptr error_;
  };

  /// `rank` is the endpoint of the rank's own thread, which issues the jobs and waits for them. The
  /// worker's thread starts with the first job.
  Worker(Transport& rank, const std::string& name);
  /// Drops the remaining jobs.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// The endpoint of the worker's agent, which exchanges the jobs' messages.
  Transport& agent() { return *agent_; }

  std::shared_ptr<Job> queue(Body body, Route why);
  /// Blocks until the job is done and returns the event at which it ended; rethrows the job's
  /// exception. Called by the rank's own thread.
  Event wait(Job& job);
  /// Removes the job if it has not begun; otherwise, makes its waits fail. Returns when the job no
  /// longer uses its buffers.
  void drop(Job& job) noexcept;

 private:
  void work();
  /// Runs the next job. Releases `lock` while the job runs.
  void do_next(std::unique_lock<std::mutex>& lock);
  /// Keeps jobs with numbers above `number` from running.
  void end_at(std::int64_t number, std::exception_ptr why);
  std::exception_ptr dropped(const Job& job) const;

  Transport& rank_;
  std::unique_ptr<Transport> agent_;
  std::mutex mutex_;
  std::condition_variable wake_;  ///< signals a new job, a finished job, or stop_
  std::deque<std::shared_ptr<Job>> queue_;
  std::int64_t queued_ = 0;
  std::int64_t last_sound_ = std::numeric_limits<std::int64_t>::max();
  std::exception_ptr why_no_more_;
  bool busy_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lockstep
