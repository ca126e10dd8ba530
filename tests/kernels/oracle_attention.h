#pragma once

/// Reference results of attention; see oracle.h.

#include <cmath>
#include <utility>

#include "tests/kernels/oracle.h"

namespace oracle {

/// Sizes: q is (b, s, h), k and v are (b, keys, groups · h/heads).
struct Heads {
  Index b, s, h, heads;
  Index groups = heads;  ///< heads of k and v
  Index keys = s;

  Index d() const { return h / heads; }
  /// Index of element c of query head `head` at position t of sequence n, in an array like q.
  Index at(Index n, Index t, Index head, Index c) const { return (n * s + t) * h + head * d() + c; }
  /// The same for the key head that this query head uses, in an array like k.
  Index key_at(Index n, Index t, Index head, Index c) const {
    return (n * keys + t) * groups * d() + head / (heads / groups) * d() + c;
  }
};

/// The range of keys that each of the (b, s) queries sees.
using Visible = std::vector<std::pair<Index, Index>>;

/// Query i of each sequence sees the keys up to i.
inline Visible causal(Heads n) {
  Visible visible;
  for (Index row = 0; row < n.b * n.s; ++row) visible.emplace_back(0, row % n.s + 1);
  return visible;
}
/// Each query sees all keys.
inline Visible unmasked(Heads n) {
  return Visible(n.b * n.s, {0, n.keys});
}

/// Returns the (s, keys) probabilities of one head, zero where masked, and writes s log-sum-exps to
/// `lse`: -∞ for a query that sees no key.
inline Doubles probabilities(const Doubles& q, const Doubles& k, Heads n, const Visible& visible,
                             Index b, Index head, double* lse) {
  Doubles p(n.s * n.keys);
  for (Index i = 0; i < n.s; ++i) {
    double* const row = p.data() + i * n.keys;
    const auto [begin, end] = visible[b * n.s + i];
    double largest = -INFINITY, sum = 0.0;
    for (Index j = begin; j < end; ++j) {
      for (Index c = 0; c < n.d(); ++c)
        row[j] += q[n.at(b, i, head, c)] * k[n.key_at(b, j, head, c)];
      row[j] /= std::sqrt(static_cast<double>(n.d()));
      largest = std::fmax(largest, row[j]);
    }
    for (Index j = begin; j < end; ++j) sum += std::exp(row[j] - largest);
    for (Index j = begin; j < end; ++j) row[j] = std::exp(row[j] - largest) / sum;
    lse[i] = largest + std::log(sum);
  }
  return p;
}

struct Attention {
  Doubles y, lse;
};

inline Attention attention(const Doubles& q, const Doubles& k, const Doubles& v, Heads n,
                           const Visible& visible) {
  Attention result{Doubles(q.size()), Doubles(n.b * n.heads * n.s)};
  for (Index b = 0; b < n.b; ++b)
    for (Index head = 0; head < n.heads; ++head) {
      const Doubles p =
          probabilities(q, k, n, visible, b, head, result.lse.data() + (b * n.heads + head) * n.s);
      for (Index i = 0; i < n.s; ++i)
        for (Index j = 0; j < n.keys; ++j)
          for (Index c = 0; c < n.d(); ++c)
            result.y[n.at(b, i, head, c)] += p[i * n.keys + j] * v[n.key_at(b, j, head, c)];
    }
  return result;
}
inline Attention attention(const Doubles& q, const Doubles& k, const Doubles& v, Heads n) {
  return attention(q, k, v, n, causal(n));
}

struct AttentionGradients {
  Doubles dq, dk, dv;
};

inline AttentionGradients attention_backward(const Doubles& q, const Doubles& k, const Doubles& v,
                                             const Doubles& dy, Heads n, const Visible& visible) {
  AttentionGradients g{Doubles(q.size()), Doubles(k.size()), Doubles(k.size())};
  const double scale = 1.0 / std::sqrt(static_cast<double>(n.d()));
  Doubles lse(n.s), dp(n.keys);
  for (Index b = 0; b < n.b; ++b)
    for (Index head = 0; head < n.heads; ++head) {
      const Doubles p = probabilities(q, k, n, visible, b, head, lse.data());
      for (Index i = 0; i < n.s; ++i) {
        double mean = 0.0;  // Σ_j p_j dp_j
        for (Index j = 0; j < n.keys; ++j) {
          dp[j] = 0.0;
          for (Index c = 0; c < n.d(); ++c) {
            dp[j] += dy[n.at(b, i, head, c)] * v[n.key_at(b, j, head, c)];
            g.dv[n.key_at(b, j, head, c)] += p[i * n.keys + j] * dy[n.at(b, i, head, c)];
          }
          mean += p[i * n.keys + j] * dp[j];
        }
        for (Index j = 0; j < n.keys; ++j) {
          const double dscore = p[i * n.keys + j] * (dp[j] - mean) * scale;
          for (Index c = 0; c < n.d(); ++c) {
            g.dq[n.at(b, i, head, c)] += dscore * k[n.key_at(b, j, head, c)];
            g.dk[n.key_at(b, j, head, c)] += dscore * q[n.at(b, i, head, c)];
          }
        }
      }
    }
  return g;
}
inline AttentionGradients attention_backward(const Doubles& q, const Doubles& k, const Doubles& v,
                                             const Doubles& dy, Heads n) {
  return attention_backward(q, k, v, dy, n, causal(n));
}

}  // namespace oracle
