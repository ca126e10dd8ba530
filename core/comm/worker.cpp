#include "core/comm/worker.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace lockstep {

Worker::Worker(Transport& rank, const std::string& name) : rank_(rank), agent_(rank.worker(name)) {}

Worker::~Worker() {
  std::unique_lock lock{mutex_};
  while (!queue_.empty()) {
    const auto job = queue_.back();
    lock.unlock();
    drop(*job);
    lock.lock();
  }
  stop_ = true;
  wake_.notify_all();
  lock.unlock();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<Worker::Job> Worker::queue(Body body, Route why) {
  auto job = std::make_shared<Job>(std::move(body), why);
  agent_->job_queued();
  std::lock_guard lock{mutex_};
  job->number_ = ++queued_;
  queue_.push_back(job);
  if (!thread_.joinable()) thread_ = std::thread{[this] { work(); }};
  wake_.notify_all();
  return job;
}

void Worker::work() {
  std::unique_lock lock{mutex_};
  while (true) {
    wake_.wait(lock, [&] { return stop_ || (!busy_ && !queue_.empty()); });
    if (stop_) return;
    do_next(lock);
  }
}

void Worker::do_next(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<Job> job = queue_.front();
  busy_ = true;
  job->state_ = Job::State::running;
  std::exception_ptr error = job->number_ > last_sound_ ? why_no_more_ : nullptr;
  lock.unlock();
  Event end;
  if (!error) {
    try {
      end = job->body_();
    } catch (...) {
      error = std::current_exception();
    }
  }
  agent_->job_done();
  lock.lock();
  if (error) end_at(job->number_, job->dropped_ ? dropped(*job) : error);
  queue_.pop_front();
  job->end_ = end;
  job->error_ = error;
  job->state_ = Job::State::done;
  busy_ = false;
  wake_.notify_all();
}

void Worker::end_at(std::int64_t number, std::exception_ptr why) {
  if (number >= last_sound_) return;
  last_sound_ = number;
  why_no_more_ = std::move(why);
}

std::exception_ptr Worker::dropped(const Job& job) const {
  return std::make_exception_ptr(RunError(lockstep::dropped(rank_.rank(), job.why_)));
}

Event Worker::wait(Job& job) {
  std::unique_lock lock{mutex_};
  if (job.state_ != Job::State::done) {
    lock.unlock();
    rank_.waits_for_jobs(*agent_, job.number_, job.why_);
    lock.lock();
    if (!busy_ && !queue_.empty() && queue_.front().get() == &job) do_next(lock);
    wake_.wait(lock, [&] { return job.state_ == Job::State::done; });
  }
  if (job.error_) std::rethrow_exception(job.error_);
  return job.end_;
}

void Worker::drop(Job& job) noexcept {
  std::unique_lock lock{mutex_};
  if (job.state_ == Job::State::queued) {
    std::erase_if(queue_, [&](const auto& each) { return each.get() == &job; });
    for (const auto& each : queue_)
      if (each->number_ > job.number_) --each->number_;
    --queued_;
    end_at(job.number_ - 1, dropped(job));
    job.state_ = Job::State::dropped;
    lock.unlock();
    agent_->job_dropped();
  } else if (job.state_ == Job::State::running) {
    job.dropped_ = true;
    agent_->give_up(true);
    wake_.wait(lock, [&] { return job.state_ == Job::State::done; });
    agent_->give_up(false);
  }
}

}  // namespace lockstep
