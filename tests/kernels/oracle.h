#pragma once

/// Reference results for the kernels, computed directly from the formulas, in double, with plain
/// vectors and indices. This file shares no header, optimisation or summation order with the
/// kernels. test_oracle.cpp checks each backward function here against finite differences of its
/// forward function.

#include <cmath>
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

// -- GELU -----------------------------------------------------------------------------------------

inline double gelu(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

inline double gelu_derivative(double x) {
  const double slope = std::sqrt(2.0 / M_PI);
  const double t = std::tanh(slope * (x + 0.044715 * x * x * x));
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * slope * (1.0 + 3.0 * 0.044715 * x * x);
}

// -- causal attention -----------------------------------------------------------------------------

struct Heads {
  Index b, s, h, heads;
  Index d() const { return h / heads; }
  /// Index of element c of head `head` at position t of sequence n, in a (b, s, h) array.
  Index at(Index n, Index t, Index head, Index c) const { return (n * s + t) * h + head * d() + c; }
};

/// Returns the (s, s) probabilities of one head, zero above the diagonal, and writes s log-sum-exps
/// to `lse`.
inline Doubles probabilities(const Doubles& q, const Doubles& k, Heads n, Index b, Index head,
                             double* lse) {
  Doubles p(n.s * n.s);
  for (Index i = 0; i < n.s; ++i) {
    double largest = -INFINITY, sum = 0.0;
    for (Index j = 0; j <= i; ++j) {
      double score = 0.0;
      for (Index c = 0; c < n.d(); ++c) score += q[n.at(b, i, head, c)] * k[n.at(b, j, head, c)];
      p[i * n.s + j] = score / std::sqrt(static_cast<double>(n.d()));
      largest = std::fmax(largest, p[i * n.s + j]);
    }
    for (Index j = 0; j <= i; ++j) sum += std::exp(p[i * n.s + j] - largest);
    for (Index j = 0; j <= i; ++j) p[i * n.s + j] = std::exp(p[i * n.s + j] - largest) / sum;
    lse[i] = largest + std::log(sum);
  }
  return p;
}

struct Attention {
  Doubles y, lse;
};

inline Attention attention(const Doubles& q, const Doubles& k, const Doubles& v, Heads n) {
  Attention result{Doubles(q.size()), Doubles(n.b * n.heads * n.s)};
  for (Index b = 0; b < n.b; ++b)
    for (Index head = 0; head < n.heads; ++head) {
      const Doubles p =
          probabilities(q, k, n, b, head, result.lse.data() + (b * n.heads + head) * n.s);
      for (Index i = 0; i < n.s; ++i)
        for (Index j = 0; j <= i; ++j)
          for (Index c = 0; c < n.d(); ++c)
            result.y[n.at(b, i, head, c)] += p[i * n.s + j] * v[n.at(b, j, head, c)];
    }
  return result;
}

struct AttentionGradients {
  Doubles dq, dk, dv;
};

inline AttentionGradients attention_backward(const Doubles& q, const Doubles& k, const Doubles& v,
                                             const Doubles& dy, Heads n) {
  AttentionGradients g{Doubles(q.size()), Doubles(q.size()), Doubles(q.size())};
  const double scale = 1.0 / std::sqrt(static_cast<double>(n.d()));
  Doubles lse(n.s), dp(n.s);
  for (Index b = 0; b < n.b; ++b)
    for (Index head = 0; head < n.heads; ++head) {
      const Doubles p = probabilities(q, k, n, b, head, lse.data());
      for (Index i = 0; i < n.s; ++i) {
        double mean = 0.0;  // Σ_j p_j dp_j
        for (Index j = 0; j <= i; ++j) {
          dp[j] = 0.0;
          for (Index c = 0; c < n.d(); ++c) {
            dp[j] += dy[n.at(b, i, head, c)] * v[n.at(b, j, head, c)];
            g.dv[n.at(b, j, head, c)] += p[i * n.s + j] * dy[n.at(b, i, head, c)];
          }
          mean += p[i * n.s + j] * dp[j];
        }
        for (Index j = 0; j <= i; ++j) {
          const double dscore = p[i * n.s + j] * (dp[j] - mean) * scale;
          for (Index c = 0; c < n.d(); ++c) {
            g.dq[n.at(b, i, head, c)] += dscore * k[n.at(b, j, head, c)];
            g.dk[n.at(b, j, head, c)] += dscore * q[n.at(b, i, head, c)];
          }
        }
      }
    }
  return g;
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
