#include "tests/gpu/bench/timing.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>

#include "kernels/element.h"

namespace lockstep {

namespace {

constexpr double sample_milliseconds = 5;

/// Fills `count` elements with values from `draw`.
template <class T, class Draw>
void fill(void* data, std::size_t count, Draw draw) {
  T* to = static_cast<T*>(data);
  for (std::size_t i = 0; i < count; ++i) to[i] = draw();
}

}  // namespace

void print(const Figure& figure) {
  std::printf("%s\t%.5g\t%s\t%s\n", figure.name.c_str(), figure.value, figure.unit.c_str(),
              figure.detail.c_str());
  std::fflush(stdout);
}

Bench::Bench(Gpu& gpu, int most_calls)
    : gpu_(gpu),
      most_calls_(most_calls),
      queue_(gpu.make_queue(false)),
      normal_f32_(gpu.allocate_pinned(pattern_bytes)),
      normal_bf16_(gpu.allocate_pinned(pattern_bytes)),
      scratch_(gpu.allocate_pinned(pattern_bytes)) {
  std::minstd_rand engine{1};
  std::normal_distribution<float> normal;
  fill<float>(normal_f32_, pattern_bytes / 4, [&] { return normal(engine); });
  fill<std::uint16_t>(normal_bf16_, pattern_bytes / 2,
                      [&] { return element::to_bf16(normal(engine)); });
}

void Bench::attempt(const std::string& name, const std::function<void()>& measure) {
  try {
    measure();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
    ++failed_;
  }
}

Bench::~Bench() {
  try {
    release_all();
    finish();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  for (void* pinned : {normal_f32_, normal_bf16_, scratch_}) gpu_.release_pinned(pinned);
  gpu_.drop_queue(queue_);
}

void Bench::release_all() {
  for (void* data : taken_) gpu_.release(data, queue_);
  taken_.clear();
}

void Bench::wait(const Mark& mark) {
  while (!gpu_.passed(mark)) std::this_thread::yield();
}

void Bench::finish() {
  wait(*gpu_.record(queue_));
}

View Bench::filled(Shape shape, DType dtype, const void* pattern) {
  View view{nullptr, shape, dtype};
  taken_.push_back(view.data = gpu_.allocate(view.bytes(), queue_));
  for (std::size_t at = 0; at < view.bytes(); at += pattern_bytes)
    gpu_.copy(queue_, static_cast<std::byte*>(view.data) + at, pattern,
              std::min(pattern_bytes, view.bytes() - at));
  return view;
}

View Bench::random(Shape shape, DType dtype) {
  return filled(shape, dtype, dtype == DType::f32 ? normal_f32_ : normal_bf16_);
}

View Bench::random_aligned(std::int64_t rows, std::int64_t columns, DType dtype) {
  return random({rows, (columns + 7) / 8 * 8}, dtype).columns(0, columns);
}

View Bench::indices(Shape shape, int bound) {
  finish();  // an earlier copy may still read scratch_
  std::minstd_rand engine{2};
  std::uniform_int_distribution<std::int32_t> uniform{0, bound - 1};
  fill<std::int32_t>(scratch_, pattern_bytes / 4, [&] { return uniform(engine); });
  return filled(shape, DType::i32, scratch_);
}

double Bench::milliseconds_of(int first, int calls, const std::function<void(int)>& work) {
  const MarkPtr begin = gpu_.record(queue_);
  for (int i = 0; i < calls; ++i) work(first + i);
  const MarkPtr end = gpu_.record(queue_);
  wait(*end);
  return gpu_.milliseconds(*begin, *end);
}

double Bench::seconds(int samples, const std::function<void(int)>& work, int calls) {
  milliseconds_of(0, 2, work);  // warms up: CUDA loads kernels at their first use
  const double one = std::max(milliseconds_of(2, 4, work) / 4, 1e-3);
  if (calls == 0) calls = std::clamp(static_cast<int>(sample_milliseconds / one), 1, most_calls_);
  std::vector<double> each;
  for (int sample = 0; sample < samples + 1; ++sample) {
    const double milliseconds = milliseconds_of(6 + sample * calls, calls, work);
    if (sample > 0) each.push_back(milliseconds / calls);  // the first is warm-up
  }
  std::nth_element(each.begin(), each.begin() + static_cast<std::ptrdiff_t>(each.size() / 2),
                   each.end());
  return each[each.size() / 2] * 1e-3;
}

}  // namespace lockstep
