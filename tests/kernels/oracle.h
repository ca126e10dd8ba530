#pragma once

/// Reference results for the kernels, computed directly from the formulas, in double, with plain
/// vectors and indices. This file shares no header, optimisation or summation order with the
/// kernels. test_oracle.cpp checks each backward function here against finite differences of its
/// forward function.

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace oracle {

using Doubles = std::vector<double>;
using Index = std::size_t;

// -- linear: w (in, out), or (out, in) if out_in --------------------------------------------------

inline Index weight_index(Index i, Index o, Index in, Index out, bool out_in) {
  return out_in ? o * in + i : i * out + o;
}

inline Doubles linear(const Doubles& x, const Doubles& w, const Doubles& bias, Index rows, Index in,
                      Index out, bool out_in) {
  Doubles y(rows * out);
  for (Index r = 0; r < rows; ++r)
    for (Index o = 0; o < out; ++o) {
      double sum = bias.empty() ? 0.0 : bias[o];
      for (Index i = 0; i < in; ++i) sum += x[r * in + i] * w[weight_index(i, o, in, out, out_in)];
      y[r * out + o] = sum;
    }
  return y;
}

struct LinearGradients {
  Doubles dx, dw, db;
};

inline LinearGradients linear_backward(const Doubles& x, const Doubles& w, const Doubles& dy,
                                       Index rows, Index in, Index out, bool out_in) {
  LinearGradients g{Doubles(rows * in), Doubles(in * out), Doubles(out)};
  for (Index r = 0; r < rows; ++r)
    for (Index o = 0; o < out; ++o) {
      g.db[o] += dy[r * out + o];
      for (Index i = 0; i < in; ++i) {
        const Index at = weight_index(i, o, in, out, out_in);
        g.dx[r * in + i] += dy[r * out + o] * w[at];
        g.dw[at] += x[r * in + i] * dy[r * out + o];
      }
    }
  return g;
}

// -- layer normalisation --------------------------------------------------------------------------

struct LayerNorm {
  Doubles y, mean, rstd;
};

inline LayerNorm layernorm(const Doubles& x, const Doubles& gain, const Doubles& bias, Index rows,
                           Index h) {
  LayerNorm result{Doubles(rows * h), Doubles(rows), Doubles(rows)};
  for (Index r = 0; r < rows; ++r) {
    double mean = 0.0, variance = 0.0;
    for (Index i = 0; i < h; ++i) mean += x[r * h + i] / static_cast<double>(h);
    for (Index i = 0; i < h; ++i)
      variance += (x[r * h + i] - mean) * (x[r * h + i] - mean) / static_cast<double>(h);
    const double rstd = 1.0 / std::sqrt(variance + 1e-5);
    for (Index i = 0; i < h; ++i)
      result.y[r * h + i] = (x[r * h + i] - mean) * rstd * gain[i] + bias[i];
    result.mean[r] = mean;
    result.rstd[r] = rstd;
  }
  return result;
}

struct LayerNormGradients {
  Doubles dx, dgain, dbias;
};

/// Applies the chain rule through rstd, then through the mean.
inline LayerNormGradients layernorm_backward(const Doubles& x, const Doubles& gain,
                                             const Doubles& dy, Index rows, Index h) {
  const LayerNorm forward = layernorm(x, gain, Doubles(h), rows, h);
  LayerNormGradients g{Doubles(rows * h), Doubles(h), Doubles(h)};
  for (Index r = 0; r < rows; ++r) {
    const double mean = forward.mean[r], rstd = forward.rstd[r];
    double drstd = 0.0, dmean = 0.0;
    for (Index i = 0; i < h; ++i) {
      const double centred = x[r * h + i] - mean;
      g.dgain[i] += dy[r * h + i] * centred * rstd;
      g.dbias[i] += dy[r * h + i];
      drstd += dy[r * h + i] * gain[i] * centred;
      dmean -= dy[r * h + i] * gain[i] * rstd;
    }
    // d rstd / d variance = -rstd³ / 2; d variance / d x = 2 (x - mean) / h.
    const double dvariance = drstd * -0.5 * rstd * rstd * rstd;
    for (Index i = 0; i < h; ++i)
      g.dx[r * h + i] = dy[r * h + i] * gain[i] * rstd +
                        (dvariance * 2.0 * (x[r * h + i] - mean) + dmean) / static_cast<double>(h);
  }
  return g;
}

// -- root mean square normalisation ---------------------------------------------------------------

struct RmsNorm {
  Doubles y, rstd;
};

inline RmsNorm rmsnorm(const Doubles& x, const Doubles& gain, double epsilon, Index rows, Index h) {
  RmsNorm result{Doubles(rows * h), Doubles(rows)};
  for (Index r = 0; r < rows; ++r) {
    double mean_square = 0.0;
    for (Index i = 0; i < h; ++i)
      mean_square += x[r * h + i] * x[r * h + i] / static_cast<double>(h);
    result.rstd[r] = 1.0 / std::sqrt(mean_square + epsilon);
    for (Index i = 0; i < h; ++i) result.y[r * h + i] = x[r * h + i] * result.rstd[r] * gain[i];
  }
  return result;
}

struct RmsNormGradients {
  Doubles dx, dgain;
};

/// Applies the chain rule through rstd: d rstd / d x = -rstd³ x / h.
inline RmsNormGradients rmsnorm_backward(const Doubles& x, const Doubles& gain, const Doubles& dy,
                                         double epsilon, Index rows, Index h) {
  const Doubles rstd = rmsnorm(x, gain, epsilon, rows, h).rstd;
  RmsNormGradients g{Doubles(rows * h), Doubles(h)};
  for (Index r = 0; r < rows; ++r) {
    double drstd = 0.0;
    for (Index i = 0; i < h; ++i) {
      g.dgain[i] += dy[r * h + i] * x[r * h + i] * rstd[r];
      drstd += dy[r * h + i] * gain[i] * x[r * h + i];
    }
    for (Index i = 0; i < h; ++i)
      g.dx[r * h + i] = dy[r * h + i] * gain[i] * rstd[r] -
                        drstd * std::pow(rstd[r], 3.0) * x[r * h + i] / static_cast<double>(h);
  }
  return g;
}

// -- GELU -----------------------------------------------------------------------------------------

inline double gelu(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

inline double gelu_derivative(double x) {
  const double slope = std::sqrt(2.0 / M_PI);
  const double t = std::tanh(slope * (x + 0.044715 * x * x * x));
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * slope * (1.0 + 3.0 * 0.044715 * x * x);
}

// -- SwiGLU: x (rows, 2f) is gate and up side by side ---------------------------------------------

inline double silu(double z) {
  return z / (1.0 + std::exp(-z));
}

/// The derivative of z σ(z), by the product rule; σ' = σ(z) σ(-z).
inline double silu_derivative(double z) {
  const double up = 1.0 / (1.0 + std::exp(-z)), down = 1.0 / (1.0 + std::exp(z));
  return up + z * up * down;
}

inline Doubles swiglu(const Doubles& x, Index f) {
  Doubles y(x.size() / 2);
  for (Index i = 0; i < y.size(); ++i) {
    const Index gate = i / f * 2 * f + i % f;
    y[i] = silu(x[gate]) * x[gate + f];
  }
  return y;
}

inline Doubles swiglu_backward(const Doubles& x, const Doubles& dy, Index f) {
  Doubles dx(x.size());
  for (Index i = 0; i < dy.size(); ++i) {
    const Index gate = i / f * 2 * f + i % f;
    dx[gate] = dy[i] * x[gate + f] * silu_derivative(x[gate]);
    dx[gate + f] = dy[i] * silu(x[gate]);
  }
  return dx;
}

// -- rotary positions -----------------------------------------------------------------------------

/// Multiplies each pair of columns (i, i + d/2), as a complex number, by e^(iθ), or by e^(-iθ) if
/// `inverse`. The row of `table` (P, d) at the row's position has the d/2 cosines of θ, then the
/// sines.
inline Doubles rotary(const Doubles& x, Index heads, Index d, const Doubles& table,
                      const std::vector<std::int32_t>& positions, bool inverse) {
  Doubles y(x.size());
  for (Index row = 0; row < x.size() / (heads * d); ++row)
    for (Index head = 0; head < heads; ++head)
      for (Index i = 0; i < d / 2; ++i) {
        const Index real = (row * heads + head) * d + i, imaginary = real + d / 2;
        const auto angles = static_cast<Index>(positions[row % positions.size()]) * d;
        std::complex<double> turn{table[angles + i], table[angles + d / 2 + i]};
        if (inverse) turn = std::conj(turn);
        const std::complex<double> turned = std::complex{x[real], x[imaginary]} * turn;
        y[real] = turned.real();
        y[imaginary] = turned.imag();
      }
  return y;
}

// -- loss -----------------------------------------------------------------------------------------

struct CrossEntropy {
  Doubles losses, lse;
};

inline CrossEntropy cross_entropy(const Doubles& logits, const std::vector<std::int32_t>& targets,
                                  Index vocabulary) {
  CrossEntropy result;
  for (Index r = 0; r < targets.size(); ++r) {
    double largest = -INFINITY, sum = 0.0;
    for (Index i = 0; i < vocabulary; ++i) largest = std::fmax(largest, logits[r * vocabulary + i]);
    for (Index i = 0; i < vocabulary; ++i) sum += std::exp(logits[r * vocabulary + i] - largest);
    const double lse = largest + std::log(sum);
    result.lse.push_back(lse);
    result.losses.push_back(lse - logits[r * vocabulary + static_cast<Index>(targets[r])]);
  }
  return result;
}

inline Doubles cross_entropy_backward(const Doubles& logits,
                                      const std::vector<std::int32_t>& targets, Index vocabulary,
                                      double scale) {
  const CrossEntropy forward = cross_entropy(logits, targets, vocabulary);
  Doubles dlogits(logits.size());
  for (Index r = 0; r < targets.size(); ++r)
    for (Index i = 0; i < vocabulary; ++i) {
      const double hit = i == static_cast<Index>(targets[r]) ? 1.0 : 0.0;
      dlogits[r * vocabulary + i] =
          (std::exp(logits[r * vocabulary + i] - forward.lse[r]) - hit) * scale;
    }
  return dlogits;
}

// -- AdamW: Loshchilov & Hutter 2019, algorithm 2, line by line -----------------------------------

struct AdamW {
  double rate, beta1, beta2, epsilon, decay, gradient_scale;
};

inline void adamw(const AdamW& o, int step, double g, double& p, double& m, double& v) {
  g *= o.gradient_scale;
  m = o.beta1 * m + (1.0 - o.beta1) * g;
  v = o.beta2 * v + (1.0 - o.beta2) * g * g;
  const double m_hat = m / (1.0 - std::pow(o.beta1, step));
  const double v_hat = v / (1.0 - std::pow(o.beta2, step));
  p = p - o.rate * o.decay * p - o.rate * m_hat / (std::sqrt(v_hat) + o.epsilon);
}

}  // namespace oracle
