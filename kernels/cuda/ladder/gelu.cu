/// Two versions of GELU's forward pass, each of which adds one idea to the previous version. The
/// third is kernels/cuda/gelu.cu. Threads need not cooperate: the questions are how many bytes are
/// in flight, and how many instructions an element takes. The least possible traffic is one read of
/// x and one write of y: 2 n elements.

#include "kernels/cuda/ladder/gelu.h"

#include "kernels/arguments.h"
#include "kernels/check.h"
#include "kernels/cuda/chunk.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/element.h"

namespace lockstep::cuda {
namespace {

constexpr int threads = 256;  // per block

// -- 1: one element per thread --------------------------------------------------------------------

/// A warp's loads are adjacent (coalesced). But in 16 bits, each of its instructions moves only 64
/// bytes, and each thread waits for its one load.
template <class T>
__global__ void one_element_per_thread(const T* x, T* y, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (i < n) y[i] = rounded<T>(element::gelu(widen(x[i])));
}

// -- 2: 16 bytes per thread -----------------------------------------------------------------------

/// Each thread loads 16 bytes with one instruction, maps them, and stores them with one instruction
/// (chunk.cuh): a warp's instruction moves 512 bytes. Step 3 loads two such chunks before it uses
/// the first (map.cuh), and in 16 bits it computes the gate with the hardware's exponential.
template <class T>
__global__ void sixteen_bytes_per_thread(const T* x, T* y, std::int64_t n) {
  constexpr int size = per_vector<T>;
  const Cut cut = Cut::chunk<size>(std::int64_t{blockIdx.x} * threads + threadIdx.x, y, n);
  const Source<T> source{x, x + n};
  const Chunk<T, size> in = source.template load<size>(cut.first, cut.count, T{});
  const auto out = rounded_chunk<T, size>([&](int i) { return element::gelu(widen(in.at(i))); });
  store(y + cut.first, out, cut.count);
}

// -------------------------------------------------------------------------------------------------

/// Returns a step that calls start(queue, x, y, n) with addresses of the arguments' type.
template <class Start>
GeluStep step(const char* name, Start start) {
  return {name, [=](Queue queue, In x, Out y) {
            const std::int64_t n = arguments::gelu_forward(x, y);
            want_one_type(name, {{"x", x}, {"y", y}});
            with_type_of(x.dtype, [&](auto type) {
              using T = Pointee<decltype(type)>;
              start(queue, data_of<const T>(x), data_of<T>(y), n);
            });
          }};
}

}  // namespace

std::vector<GeluStep> gelu_ladder() {
  return {
      step("one element per thread",
           []<class T>(Queue queue, const T* x, T* y, std::int64_t n) {
             launch({"one_element_per_thread", queue, Grid{groups_of(threads, n)}, dim3(threads)},
                    one_element_per_thread<T>, x, y, n);
           }),
      step("16 bytes per thread",
           []<class T>(Queue queue, const T* x, T* y, std::int64_t n) {
             // Alignment may add one chunk.
             const std::int64_t chunks = groups_of(per_vector<T>, n) + (n > 0 ? 1 : 0);
             launch({"sixteen_bytes_per_thread", queue, Grid{groups_of(threads, chunks)},
                     dim3(threads)},
                    sixteen_bytes_per_thread<T>, x, y, n);
           }),
  };
}

}  // namespace lockstep::cuda
