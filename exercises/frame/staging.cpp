#include "exercises/frame/staging.h"

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

}  // namespace

Work on_device(RankState& state, HostNumbers numbers,
               const std::function<Work(View, View)>& start) {
  if (!state.rank.gpu) return start(view_of(numbers.read), view_of(numbers.written));
  return Work{
      state.rank.compute, {.name = "message"}, std::make_unique<OnGpu>(state.rank, numbers, start)};
}

}  // namespace lockstep::exercises
