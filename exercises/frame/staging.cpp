#include "exercises/frame/staging.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "exercises/frame/own_memory.h"

namespace lockstep::exercises {

namespace {

View view_of(std::span<const float> numbers) {
  // The numbers to read are not changed; View has no variant for constant numbers.
  return View{const_cast<float*>(numbers.data()), Shape{static_cast<std::int64_t>(numbers.size())}};
}

Tensor on_gpu(Rank& rank, std::size_t numbers) {
  if (numbers == 0) return {};
  return Tensor{rank.memory, Shape{static_cast<std::int64_t>(numbers)},
                MemoryCategory::communication};
}

View view_of(const Tensor& tensor) {
  return tensor ? tensor.view() : View{nullptr, Shape{0}};
}

/// An operation on copies in a GPU's memory.
class OnGpu final : public Task {
 public:
  OnGpu(Rank& rank, HostNumbers numbers, const std::function<lockstep::Work(View, View)>& start)
      : rank_(rank), numbers_(numbers), read_(on_gpu(rank, numbers.read.size())) {
    const bool same = numbers.read.data() == numbers.written.data();
    if (!same) written_ = on_gpu(rank, numbers.written.size());
    rank.compute.write(numbers.read.data(), view_of(read_));
    work_ = start(view_of(read_), view_of(same ? read_ : written_));
  }

  Event finish() override {
    const Event done = work_.finish();
    rank_.compute.follow(done);
    if (!numbers_.written.empty())
      rank_.compute.read(view_of(written_ ? written_ : read_), numbers_.written.data());
    return done;
  }

 private:
  Rank& rank_;
  HostNumbers numbers_;
  Tensor read_, written_;
  lockstep::Work work_;
};

/// An operation on the copies that `in_flight` has made. Notes that it was not waited for, unless
/// an exception has ended the answer.
class Awaited final : public Task {
 public:
  Awaited(RankState& state, lockstep::Work work, InFlight::Handle operation)
      : state_(state), work_(std::move(work)), operation_(operation) {}
  ~Awaited() override {
    if (finished_) return;
    const Uncounted uncounted;
    if (std::uncaught_exceptions() == 0 && state_.not_awaited.empty())
      state_.not_awaited = operation_->asked.text();
    const OutOfTurn waiting{state_.turn};
    work_ = lockstep::Work{};  // ends it, before its copies are freed
    state_.in_flight.give_up(operation_);
  }

  Event finish() override {
    state_.check_memory();
    Event done;
    {
      const OutOfTurn waiting{state_.turn};
      done = work_.finish();
    }
    finished_ = true;
    state_.in_flight.finish(operation_);
    return done;
  }

 private:
  RankState& state_;
  lockstep::Work work_;
  const InFlight::Handle operation_;
  bool finished_ = false;
};

}  // namespace

Work start_on(RankState& state, const Asked& asked, const HostNumbers& asked_numbers,
              const std::function<lockstep::Work(View, View)>& start) {
  const Uncounted uncounted;
  state.check_memory();
  const InFlight::Handle operation = state.in_flight.start(asked, asked_numbers);
  if (asked.in_order_of != nullptr && !state.is_in_buffer(asked_numbers.written))
    state.uncounted = std::max(state.uncounted, asked_numbers.written.size());
  state.started.push_back({asked.operation, asked.text(),
                           std::max(asked_numbers.read.size(), asked_numbers.written.size())});
  const HostNumbers numbers = operation->copies();
  const Span span{.name = "message"};
  try {
    const OutOfTurn starting{state.turn};
    lockstep::Work work = state.rank.gpu
                              ? lockstep::Work{state.rank.compute, span,
                                               std::make_unique<OnGpu>(state.rank, numbers, start)}
                              : start(view_of(numbers.read), view_of(numbers.written));
    return Work{lockstep::Work{state.rank.compute, span,
                               std::make_unique<Awaited>(state, std::move(work), operation)}};
  } catch (...) {
    state.in_flight.give_up(operation);
    throw;
  }
}

}  // namespace lockstep::exercises
