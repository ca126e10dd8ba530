#pragma once

/// Arithmetic on single elements, shared by the kernels of all devices.
///
/// Performance-critical code here is branch-free, so that loops over arrays vectorise, and uses
/// only additions, multiplications, divisions and square roots, for which IEEE 754 requires correct
/// rounding. An element's result therefore depends only on its value: not on the element's index in
/// the array, the vector width or the rank that holds the element. ZeRO relies on this, because
/// each rank updates only its own shard.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#ifdef __CUDACC__
#define LOCKSTEP_HOST_DEVICE __host__ __device__
#else
#define LOCKSTEP_HOST_DEVICE
#endif

namespace lockstep::element {

LOCKSTEP_HOST_DEVICE inline float from_bits(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

LOCKSTEP_HOST_DEVICE inline std::uint32_t to_bits(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// -- 16-bit types ---------------------------------------------------------------------------------

/// Converts bf16 to f32 exactly: the bf16 is the upper half of the f32.
LOCKSTEP_HOST_DEVICE inline float from_bf16(std::uint16_t bits) {
  return from_bits(static_cast<std::uint32_t>(bits) << 16U);
}

/// Rounds to the nearest bf16, ties to even; overflow gives ∞. NaN stays NaN.
LOCKSTEP_HOST_DEVICE inline std::uint16_t to_bf16(float value) {
  const std::uint32_t bits = to_bits(value);
  // If the last bit that is kept is 1, adds 0x8000, half a unit of that bit; otherwise adds 0x7fff.
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U;
  const std::uint32_t quiet = (bits >> 16U) | 0x40U;
  return static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
}

/// Converts f16 to f32 exactly, subnormals included.
LOCKSTEP_HOST_DEVICE inline float from_f16(std::uint16_t bits) {
  const std::uint32_t magnitude = bits & 0x7fffU;
  // Shifted to their places in f32, the exponent and fraction represent the number times 2^-112,
  // because the exponent biases differ by 112. The product is exact even if the f16, and therefore
  // the shifted f32, is subnormal.
  const std::uint32_t finite = to_bits(from_bits(magnitude << 13U) * 0x1p112F);
  const std::uint32_t other = 0x7f800000U | (magnitude << 13U);
  return from_bits((magnitude < 0x7c00U ? finite : other) |
                   (static_cast<std::uint32_t>(bits) & 0x8000U) << 16U);
}

/// Rounds to the nearest f16, ties to even; magnitudes of 65520 and above give ∞. NaN stays NaN.
LOCKSTEP_HOST_DEVICE inline std::uint16_t to_f16(float value) {
  const std::uint32_t bits = to_bits(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  // Normal numbers: round as in to_bf16 and adjust the bias.
  std::uint32_t rounded = ((magnitude + 0xfffU + ((magnitude >> 13U) & 1U)) >> 13U) - (112U << 10U);
  rounded = rounded > 0x7c00U ? 0x7c00U : rounded;
  // Below 2^-14, f16 values are 2^-24 apart, as are f32 values between 0.5 and 1, so this addition
  // rounds to an f16 value.
  const std::uint32_t subnormal = to_bits(from_bits(magnitude) + 0.5F) - to_bits(0.5F);
  const std::uint32_t quiet = 0x7e00U | ((magnitude >> 13U) & 0x3ffU);
  std::uint32_t result = magnitude < 0x38800000U ? subnormal : rounded;
  result = magnitude > 0x7f800000U ? quiet : result;
  return static_cast<std::uint16_t>(result | ((bits >> 16U) & 0x8000U));
}

// -- exponentials ---------------------------------------------------------------------------------

inline constexpr float log2_e = 1.44269504F;

/// x = n ln 2 + r with n an integer and |r| <= ln 2 / 2; holds n and e^r - 1.
struct Reduced {
  std::int32_t n;
  float expm1_r;
};

/// Performs the range reduction shared by exp and tanh. Requires |x| < 2^21; NaN propagates to
/// expm1_r.
LOCKSTEP_HOST_DEVICE inline Reduced reduce(float x) {
  // Adding 1.5 * 2^23 leaves no fraction bits, so the sum is rounded to the nearest integer. The
  // sum's low bits then hold that integer.
  constexpr float rounder = 12582912.0F;
  const float rounded = x * log2_e + rounder;
  const float n = rounded - rounder;
  // ln 2 is split into two parts. The first has 9 significant bits, so its product with n is exact.
  const float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  // (e^r - 1 - r) / r² as a polynomial of degree 5, fitted to minimize the largest error of e^r - 1
  // (2.4e-10) for |r| <= ln 2 / 2.
  float q = 1.9914274e-4F;
  q = q * r + 1.3941064e-3F;
  q = q * r + 8.333273e-3F;
  q = q * r + 4.1666355e-2F;
  q = q * r + 1.6666667e-1F;
  q = q * r + 0.5F;
  return {static_cast<std::int32_t>(to_bits(rounded) - to_bits(rounder)), q * (r * r) + r};
}

/// Returns 2^n for n in [-126, 127].
LOCKSTEP_HOST_DEVICE inline float power_of_two(std::int32_t n) {
  return from_bits((static_cast<std::uint32_t>(n) + 127U) << 23U);
}

/// Computes e^x within 1 ulp; +∞ above 88.72, gradual underflow below -87.33, 0 at -104 and below.
LOCKSTEP_HOST_DEVICE inline float exp(float x) {
  x = x > 89.0F ? 89.0F : x;
  x = x < -104.0F ? -104.0F : x;
  const Reduced part = reduce(x);
  // Scale in two steps: n is in [-150, 128], so 2^n may overflow or underflow even if e^x does not.
  const std::int32_t half = part.n >> 1;
  return (1.0F + part.expm1_r) * power_of_two(half) * power_of_two(part.n - half);
}

/// Computes tanh x with relative error below 2e-7 everywhere, even for tiny x.
LOCKSTEP_HOST_DEVICE inline float tanh(float x) {
  // tanh |x| = -m / (2 + m) with m = e^(-2|x|) - 1, which does not cancel near 0. Beyond 20 the
  // result is exactly 1.
  float twice = -2.0F * std::fabs(x);
  twice = twice < -40.0F ? -40.0F : twice;
  const Reduced part = reduce(twice);
  const float power = power_of_two(part.n);
  const float m = power * part.expm1_r + (power - 1.0F);
  return std::copysign(m / (2.0F + m), x);
}

// -- GELU -----------------------------------------------------------------------------------------

inline constexpr float gelu_slope = 0.7978845608F;  ///< √(2/π)
inline constexpr float gelu_cubic = 0.044715F;

/// Computes GELU, 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))) (Hendrycks & Gimpel 2016), as in
/// GPT-2.
LOCKSTEP_HOST_DEVICE inline float gelu(float x) {
  const float inner = gelu_slope * (x + gelu_cubic * (x * x * x));
  return 0.5F * x * (1.0F + tanh(inner));
}

/// Computes the derivative of gelu at x.
LOCKSTEP_HOST_DEVICE inline float gelu_derivative(float x) {
  const float square = x * x;
  const float t = tanh(gelu_slope * (x + gelu_cubic * (square * x)));
  const float inner_derivative = gelu_slope * (1.0F + 3.0F * gelu_cubic * square);
  return 0.5F * (1.0F + t) + 0.5F * x * ((1.0F - t * t) * inner_derivative);
}

// -- SwiGLU ---------------------------------------------------------------------------------------

/// Computes silu, z / (1 + e^-z), the gate of SwiGLU (Shazeer 2020).
LOCKSTEP_HOST_DEVICE inline float silu(float z) {
  return z / (1.0F + exp(-z));
}

/// Computes the derivative of silu at z: σ (1 + z (1 - σ)) with σ = 1 / (1 + e^-z).
LOCKSTEP_HOST_DEVICE inline float silu_derivative(float z) {
  const float sigma = 1.0F / (1.0F + exp(-z));
  return sigma * (1.0F + z * (1.0F - sigma));
}

// -- rotary positions -----------------------------------------------------------------------------

/// A point in the plane of one pair of columns.
struct Point {
  float x, y;
};

/// Rotates a point by the angle with this cosine and sine.
LOCKSTEP_HOST_DEVICE inline Point rotated(Point p, float cosine, float sine) {
  return {p.x * cosine - p.y * sine, p.y * cosine + p.x * sine};
}

// -- softmax --------------------------------------------------------------------------------------

/// Computes the softmax of one row of n logits, in ascending order. p may be logits.
LOCKSTEP_HOST_DEVICE inline void softmax(const float* logits, std::int64_t n, float* p) {
  float maximum = logits[0], sum = 0.0F;
  for (std::int64_t i = 1; i < n; ++i) maximum = logits[i] > maximum ? logits[i] : maximum;
  for (std::int64_t i = 0; i < n; ++i) sum += p[i] = exp(logits[i] - maximum);
  for (std::int64_t i = 0; i < n; ++i) p[i] /= sum;
}

/// The softmax statistics of part of a row: its maximum and Σ exp(x - maximum). An empty part is
/// (-∞, 0).
struct SoftmaxPart {
  float maximum = -std::numeric_limits<float>::infinity();
  float sum = 0.0F;
};

/// Merges two parts of one row by rescaling their sums to the common maximum (Milakov & Gimelshein
/// 2018). A part known only by its log-sum-exp l is {l, 1}.
LOCKSTEP_HOST_DEVICE inline SoftmaxPart merge(SoftmaxPart a, SoftmaxPart b) {
  if (a.sum == 0.0F) return b;  // a is empty, and -∞ - -∞ would be NaN
  const float maximum = a.maximum > b.maximum ? a.maximum : b.maximum;
  return {maximum, a.sum * exp(a.maximum - maximum) + b.sum * exp(b.maximum - maximum)};
}

/// Two parts of one softmax, merged: the weight of each part's result in the whole row's result,
/// and the row's log-sum-exp.
struct MergedPart {
  float first, second;
  float log_sum;
};

/// Merges two parts of one row, known by their log-sum-exps. An empty part's is -∞; if both are
/// empty, so is the whole, and both weights are 0.
LOCKSTEP_HOST_DEVICE inline MergedPart merge_log_sums(float first, float second) {
  constexpr float empty = -std::numeric_limits<float>::infinity();
  if (first == empty && second == empty) return {0.0F, 0.0F, empty};  // -∞ - -∞ would be NaN
  const SoftmaxPart whole = merge({first, 1.0F}, {second, 1.0F});
  // Relative to the maximum, because the rounding error of a large log-sum-exp would become a
  // relative error of the weights.
  return {exp(first - whole.maximum) / whole.sum, exp(second - whole.maximum) / whole.sum,
          whole.maximum + std::log(whole.sum)};
}

// -- the router of a mixture of experts ---------------------------------------------------------

/// Finds the k largest of n values, largest first; of equal values, the one with the lower index
/// comes first. Returns the k-th value minus the next one, or 1 if k = n.
LOCKSTEP_HOST_DEVICE inline float top_k(const float* p, std::int64_t n, std::int64_t k,
                                        std::int32_t* chosen) {
  float last = 0.0F;
  for (std::int64_t j = 0;; ++j) {
    // Searches the values that come after the previous choice.
    std::int64_t best = -1;
    for (std::int64_t i = 0; i < n; ++i) {
      const bool later = j == 0 || p[i] < last || (p[i] == last && i > chosen[j - 1]);
      if (later && (best < 0 || p[i] > p[best])) best = i;
    }
    if (best < 0) {
      // No value is left: j = n, or all are NaN. Then fills in distinct, valid indices.
      for (; j < k; ++j) chosen[j] = static_cast<std::int32_t>(j);
      return 1.0F;
    }
    if (j == k) return last - p[best];
    chosen[j] = static_cast<std::int32_t>(best);
    last = p[best];
  }
}

/// Computes one row of router_backward (kernels.h): the gradient of n logits through a softmax.
/// Calls write(i, dlogit).
template <class Write>
LOCKSTEP_HOST_DEVICE inline void router_gradient(const float* p, const std::int32_t* experts,
                                                 const float* dweights, const float* balance,
                                                 std::int64_t n, std::int64_t k, Write write) {
  const auto dp = [&](std::int64_t i) {
    float sum = balance[i];
    for (std::int64_t j = 0; j < k; ++j)
      if (experts[j] == i) sum += dweights[j];
    return sum;
  };
  float mean = 0.0F;
  for (std::int64_t i = 0; i < n; ++i) mean += p[i] * dp(i);
  for (std::int64_t i = 0; i < n; ++i) write(i, p[i] * (dp(i) - mean));
}

// -- AdamW ----------------------------------------------------------------------------------------

/// The scalars of one AdamW step, shared by all elements and rounded to f32 once.
struct AdamWFactors {
  float gradient_scale;
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float shrink;             ///< 1 - learning_rate * weight_decay
  float step_size;          ///< learning_rate / (1 - beta1^step)
  float inverse_root_bias;  ///< 1 / √(1 - beta2^step)
  float epsilon;
};

/// Updates one parameter p with its momentum m and variance v from the gradient g.
LOCKSTEP_HOST_DEVICE inline void adamw(const AdamWFactors& f, float g, float& p, float& m,
                                       float& v) {
  const float gradient = g * f.gradient_scale;
  m = f.beta1 * m + f.one_minus_beta1 * gradient;
  v = f.beta2 * v + f.one_minus_beta2 * (gradient * gradient);
  p = f.shrink * p - f.step_size * (m / (std::sqrt(v) * f.inverse_root_bias + f.epsilon));
}

}  // namespace lockstep::element
