#include "core/comm/work.h"

#include <utility>

#include "core/trace/open_span.h"

namespace lockstep {

Work::Work(Stream& compute, Span span, std::unique_ptr<Task> task)
    : compute_(&compute), span_(span), task_(std::move(task)) {
  span_.category = Category::wait;
}

Work::Work(Stream& compute, Span span, Event done) : Work(compute, span, nullptr) {
  done_ = done;
}

Work& Work::operator=(Work&& other) noexcept {
  compute_ = std::exchange(other.compute_, nullptr);
  span_ = other.span_;
  task_ = std::move(other.task_);
  done_ = other.done_;
  recorded_ = other.recorded_;
  return *this;
}

Event Work::finish() {
  if (task_) {
    done_ = task_->finish();
    task_.reset();
  }
  return done_;
}

void Work::release() {
  if (compute_ != nullptr) compute_->follow(task_ ? task_->release() : done_);
}

void Work::wait() {
  if (compute_ == nullptr) return;
  Stream& compute = *compute_;
  const Picoseconds before = compute.now();
  // The open span shows the wait in the trace even if the wait never ends.
  OpenSpan waiting{compute.trace(), compute.host_lane(), span_, before};
  const Event done = finish();
  if (OperationLog* log = compute.operations()) log->wait(recorded_);
  compute.host_done(waiting, before);
  if (compute.clock().is_modelled() || done.mark)
    compute.wait(done, span_);
  else if (compute.now() - before > picoseconds(1e-6))
    waiting.end(compute.now());
  compute_ = nullptr;
}

}  // namespace lockstep
