#include "core/comm/work.h"

#include <utility>

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
  return *this;
}

Event Work::finish() {
  if (task_) {
    done_ = task_->finish();
    task_.reset();
  }
  return done_;
}

void Work::wait() {
  if (compute_ == nullptr) return;
  const Picoseconds before = compute_->now();
  const Event done = finish();
  if (compute_->clock().is_modelled()) {
    compute_->wait(done, span_);
  } else if (compute_->now() - before > picoseconds(1e-6)) {
    compute_->trace().span(compute_->lane(), span_, before, compute_->now());
  }
  compute_ = nullptr;
}

}  // namespace lockstep
