#include "tests/bench/processor.h"

#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string_view>
#ifdef __x86_64__
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace lockstep::bench {

std::string processor_model() {
  std::ifstream file{"/proc/cpuinfo"};
  std::string line, model = "unknown processor";
  while (std::getline(file, line))
    if (line.starts_with("model name")) model = line.substr(line.find(": ") + 2);
  return model;
}

double thread_seconds_now() {
  timespec time;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

namespace {

/// The number of independent accumulators. Hiding a latency of 4 cycles at two multiply-adds per
/// cycle takes at least 8.
constexpr int sums = 12;
constexpr int repetitions = 200'000;

/// Returns the best rate of several rounds. `round` executes repetitions * sums instructions of
/// `flops` each.
template <class Round>
double best_rate(double flops, Round round) {
  double best = 0;
  for (int i = 0; i < 25; ++i)
    best = std::max(best, flops * sums * repetitions / thread_seconds_of(round));
  return best;
}

// Measures the FLOP/s of one core for the product (m, k) by (k, n). The empty assembler text keeps
// the compiler from merging equal sums into one.
#define LOCKSTEP_FILL_CORE(registers, one, instruction)                                           \
  registers sum[sums];                                                                            \
  _Pragma("GCC unroll 12") for (int i = 0; i < sums; ++i) {                                       \
    sum[i] = one;                                                                                 \
    asm volatile("" : LOCKSTEP_REGISTER(sum[i]));                                                 \
  }                                                                                               \
  for (int r = 0; r < repetitions; ++r) _Pragma("GCC unroll 12") for (int i = 0; i < sums; ++i) { \
      sum[i] = instruction;                                                                       \
    }                                                                                             \
  _Pragma("GCC unroll 12") for (int i = 0; i < sums;                                              \
                                ++i) asm volatile("" : LOCKSTEP_REGISTER(sum[i]))

#ifdef __x86_64__
#define LOCKSTEP_REGISTER(x) "+v"(x)

__attribute__((target("avx512f"))) void avx512_round() {
  const __m512 x = _mm512_set1_ps(0.5F);
  LOCKSTEP_FILL_CORE(__m512, x, _mm512_fmadd_ps(sum[i], x, x));
}
__attribute__((target("avx512bf16,avx512vl"))) void bf16_round() {
  const __m512 zero = _mm512_setzero_ps();
  const auto x = reinterpret_cast<__m512bh>(zero);
  LOCKSTEP_FILL_CORE(__m512, zero, _mm512_dpbf16_ps(sum[i], x, x));
}
#undef LOCKSTEP_REGISTER
#define LOCKSTEP_REGISTER(x) "+x"(x)
__attribute__((target("avx2,fma"))) void avx2_round() {
  const __m256 x = _mm256_set1_ps(0.5F);
  LOCKSTEP_FILL_CORE(__m256, x, _mm256_fmadd_ps(sum[i], x, x));
}
void sse_round() {  // SSE has no fused multiply-add
  const __m128 x = _mm_set1_ps(0.5F);
  LOCKSTEP_FILL_CORE(__m128, x, _mm_add_ps(_mm_mul_ps(sum[i], x), x));
}

bool limited_to_avx2() {
  for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"})
    if (const char* value = std::getenv(name)) return std::string_view{value} == "AVX2";
  return false;
}
#elif defined(__aarch64__)
#define LOCKSTEP_REGISTER(x) "+w"(x)
void neon_round() {
  const float32x4_t x = vdupq_n_f32(0.5F);
  LOCKSTEP_FILL_CORE(float32x4_t, x, vfmaq_f32(x, sum[i], x));
}
#endif

}  // namespace

double peak_flops(DType dtype) {
#ifdef __x86_64__
  const bool wide = !limited_to_avx2();
  if (dtype == DType::bf16)
    return wide && __builtin_cpu_supports("avx512bf16") ? best_rate(64, bf16_round) : 0;
  if (wide && __builtin_cpu_supports("avx512f")) return best_rate(32, avx512_round);
  if (__builtin_cpu_supports("fma")) return best_rate(16, avx2_round);
  return best_rate(8, sse_round);
#elif defined(__aarch64__)
  return dtype == DType::f32 ? best_rate(8, neon_round) : 0;
#else
  return 0;
#endif
}

}  // namespace lockstep::bench
