#include "exercises/frame/staging.h"

#include <fmt/format.h>

#include <exception>

namespace lockstep::exercises {

namespace {

View view_of(std::span<const float> numbers) {
  // What is read is not changed; View has no variant that says so.
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
  OnGpu(Rank& rank, HostNumbers numbers, const std::function<Work(View, View)>& start)
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
  Work work_;
};

/// Notes that an operation was not waited for, unless an exception has ended the answer.
class Awaited final : public Task {
 public:
  Awaited(RankState& state, Work work, std::string what)
      : state_(state), work_(std::move(work)), what_(std::move(what)) {}
  ~Awaited() override {
    if (!finished_ && std::uncaught_exceptions() == 0 && state_.not_awaited.empty())
      state_.not_awaited = what_;
  }

  Event finish() override {
    finished_ = true;
    return work_.finish();
  }

 private:
  RankState& state_;
  Work work_;
  const std::string what_;
  bool finished_ = false;
};

}  // namespace

Work start_on(RankState& state, const Asked& asked, HostNumbers numbers,
              const std::function<Work(View, View)>& start) {
  const Span span{.name = "message"};
  Work work = state.rank.gpu ? Work{state.rank.compute, span,
                                    std::make_unique<OnGpu>(state.rank, numbers, start)}
                             : start(view_of(numbers.read), view_of(numbers.written));
  return Work{state.rank.compute, span,
              std::make_unique<Awaited>(
                  state, std::move(work),
                  fmt::format("{}() at line {}", asked.operation, asked.where.line()))};
}

}  // namespace lockstep::exercises
