/// A GPT-2 from end to end: forward pass, backward pass and optimizer, in plain loops on one
/// device. It is the model that the lessons train and divide among ranks. To run it:
///
///     c++ -std=c++20 -O3 lessons/00_ranks/one_gpt/gpt.cpp -o build/gpt && build/gpt
///
/// Each layer is a struct. forward() maps x to y and saves the tensors that the backward pass
/// needs, the activations. backward(), directly below, maps dy to dx, where dy stands for the
/// gradient of the loss with respect to y, and adds to the gradients of the layer's parameters.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

namespace one_gpt {
// Sizes, with the lessons' defaults. n = b s is the number of tokens in a batch of b sequences.
constexpr int L = 8;             // blocks
constexpr int h = 64;            // hidden width
constexpr int a = 4, d = h / a;  // attention heads, and the columns of each
constexpr int s = 64;            // tokens of a sequence
constexpr int V = 256;           // tokens in the vocabulary: each byte of the text is a token
constexpr std::uint32_t seed = 1;
using Floats = std::vector<float>;  // a tensor, row-major

int rows(const Floats& x, int columns) {
  return static_cast<int>(x.size()) / columns;
}
float dot(const float* x, const float* y, int count) {
  float sum = 0;
  for (int i = 0; i < count; ++i) sum += x[i] * y[i];
  return sum;
}
/// y += factor x.
void add(float factor, const float* x, float* y, int count) {
  for (int i = 0; i < count; ++i) y[i] += factor * x[i];
}
Floats sum(Floats x, const Floats& y) {
  add(1, y.data(), x.data(), rows(x, 1));
  return x;
}
/// x_i = exp(x_i) / Σ_j exp(x_j). Subtracting the maximum changes nothing, but avoids overflow.
void softmax(float* x, int count) {
  const float maximum = *std::max_element(x, x + count);
  float total = 0;
  for (int i = 0; i < count; ++i) total += x[i] = std::exp(x[i] - maximum);
  for (int i = 0; i < count; ++i) x[i] /= total;
}

/// Philox4x32-10 (Salmon 2011) scrambles a counter into four random words of 32 bits. It has no
/// state, so in the lessons, each rank can compute just the initial values of its own shard.
auto random_words(std::uint64_t index, std::uint64_t stream, std::uint64_t purpose) {
  std::array<std::uint64_t, 4> c{index, 0, stream, purpose};
  std::uint32_t key_0 = seed, key_1 = 0;
  for (int round = 0; round < 10; ++round, key_0 += 0x9E3779B9, key_1 += 0xBB67AE85) {
    const std::uint64_t p = 0xD2511F53 * c[0], q = 0xCD9E8D57 * c[2], low = 0xFFFFFFFF;
    c = {q >> 32 ^ c[1] ^ key_0, q & low, p >> 32 ^ c[3] ^ key_1, p & low};
  }
  return c;
}

/// A tensor of weights, its gradient, and the two running averages that AdamW keeps: four numbers
/// per weight. Those of a large model do not fit into one GPU; lessons 3 to 5 divide them.
struct Parameter {
  bool is_matrix;  // otherwise a bias or a gain
  Floats value;
  Floats gradient = Floats(value.size()), momentum = gradient, variance = gradient;
};

/// Initial values of matrices are normally distributed (Box and Muller 1958: a radius and an angle
/// give two numbers). `order` is the lessons' number of the matrix in the model.
Floats normal(int order, int height, int width, float deviation = 0.02F) {
  Floats values(height * width);
  for (int i = 0; i < height * width; ++i) {
    const auto words = random_words(i / 4, order, /*purpose=*/0);
    const std::size_t pair = i % 4 < 2 ? 0 : 2;
    const auto u = static_cast<double>(words[pair]), v = static_cast<double>(words[pair + 1]);
    const double radius = std::sqrt(-2 * std::log((u + 1) * 0x1p-32));
    const double angle = 2 * std::numbers::pi * v * 0x1p-32;
    const double value = radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
    values[i] = deviation * static_cast<float>(value);
  }
  return values;
}

/// x (n, h): each token's row of the token table plus its position's row of the position table.
struct Embedding {
  Parameter tokens{true, normal(0, V, h)};     // (V, h)
  Parameter positions{true, normal(1, s, h)};  // (s, h)

  Floats forward(const std::vector<int>& ids) const {
    Floats x(ids.size() * h);
    for (int t = 0; t < rows(x, h); ++t) {
      add(1, &tokens.value[ids[t] * h], &x[t * h], h);
      add(1, &positions.value[t % s * h], &x[t * h], h);
    }
    return x;
  }
  void backward(const Floats& dx, const std::vector<int>& ids) {
    for (int t = 0; t < rows(dx, h); ++t) {
      add(1, &dx[t * h], &tokens.gradient[ids[t] * h], h);
      add(1, &dx[t * h], &positions.gradient[t % s * h], h);
    }
  }
};

/// y = x̂ gain + bias, where x̂ is x (n, h) with each row shifted to mean 0 and scaled to variance 1.
struct LayerNorm {
  Parameter gain{false, Floats(h, 1)}, bias{false, Floats(h, 0)};
  Floats x_hat{};  // (n, h), saved
  Floats rstd{};   // (n), saved: 1 / standard deviation

  Floats forward(const Floats& x) {
    Floats y(x.size());
    x_hat = x;
    rstd.resize(rows(x, h));
    for (int t = 0; t < rows(x, h); ++t) {
      float* const row = &x_hat[t * h];
      float mean = 0;
      for (int i = 0; i < h; ++i) mean += row[i] / h;
      for (int i = 0; i < h; ++i) row[i] -= mean;
      rstd[t] = 1 / std::sqrt(dot(row, row, h) / h + 1e-5F);
      for (int i = 0; i < h; ++i) row[i] *= rstd[t];
      for (int i = 0; i < h; ++i) y[t * h + i] = row[i] * gain.value[i] + bias.value[i];
    }
    return y;
  }
  /// With g = dy gain: dx = rstd (g - mean(g) - x̂ mean(g x̂)). The two means are taken out because
  /// shifting or scaling a row of x does not change y.
  Floats backward(const Floats& dy) {
    Floats dx(dy.size());
    for (int t = 0; t < rows(dy, h); ++t) {
      const float *const row = &x_hat[t * h], *const up = &dy[t * h];
      float* const g = &dx[t * h];
      for (int i = 0; i < h; ++i) gain.gradient[i] += up[i] * row[i];
      for (int i = 0; i < h; ++i) bias.gradient[i] += up[i];
      float mean = 0;
      for (int i = 0; i < h; ++i) mean += (g[i] = up[i] * gain.value[i]) / h;
      const float mean_x = dot(g, row, h) / h;
      for (int i = 0; i < h; ++i) g[i] = rstd[t] * (g[i] - mean - row[i] * mean_x);
    }
    return dx;
  }
};

/// y (n, out) = x (n, in) W (in, out) + bias (out). Most of the FLOPs are here: 2 n in out in the
/// forward pass and twice as many in the backward pass. Lesson 6 divides W.
struct Linear {
  int in, out, order;
  float deviation = 0.02F;
  Parameter weight{true, normal(order, in, out, deviation)}, bias{false, Floats(out, 0)};
  Floats x{};  // (n, in), saved

  Floats forward(Floats input) {
    x = std::move(input);
    Floats y(rows(x, in) * out);
    for (int t = 0; t < rows(x, in); ++t) {
      add(1, bias.value.data(), &y[t * out], out);
      for (int i = 0; i < in; ++i) add(x[t * in + i], &weight.value[i * out], &y[t * out], out);
    }
    return y;
  }
  /// dx = dy Wᵀ and dW = xᵀ dy. The layer below waits only for dx, so lesson 11 computes dW later.
  Floats backward(const Floats& dy) {
    Floats dx(x.size());
    for (int t = 0; t < rows(x, in); ++t) {
      for (int i = 0; i < in; ++i) {
        dx[t * in + i] = dot(&dy[t * out], &weight.value[i * out], out);
        add(x[t * in + i], &dy[t * out], &weight.gradient[i * out], out);
      }
      add(1, &dy[t * out], bias.gradient.data(), out);
    }
    return dx;
  }
};

/// GELU (Hendrycks & Gimpel 2016) in GPT-2's form: y = x (1 + tanh u) / 2, u = √(2/π) (x + c x³).
struct Gelu {
  static constexpr float root = 0.7978845608F, c = 0.044715F;
  Floats x{};  // saved

  Floats forward(Floats input) {
    x = std::move(input);
    Floats y(x);
    for (float& v : y) v *= 0.5F * (1 + std::tanh(root * (v + c * v * v * v)));
    return y;
  }
  Floats backward(Floats dy) const {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float v = x[i], th = std::tanh(root * (v + c * v * v * v));
      dy[i] *= 0.5F * (1 + th) + 0.5F * v * (1 - th * th) * root * (1 + 3 * c * v * v);
    }
    return dy;
  }
};

/// Causal attention (Vaswani 2017): in each head, token i attends to the tokens j <= i of its
/// sequence. p_ij is the softmax over j of q_i · k_j / √d, and y_i = Σ_j p_ij v_j.
/// The only layer that mixes tokens, so lesson 13 changes it to divide sequences.
struct Attention {
  Floats qkv{};  // (n, 3 h), saved: each token's query, key and value
  Floats p{};    // (n, a, s), saved. (FlashAttention, which the lessons use, recomputes it.)

  /// The d columns of a token's query (part 0), key (1) or value (2) in one head.
  static auto* columns(auto& x, int part, int t, int head) {
    return &x[(3 * t + part) * h + head * d];
  }

  Floats forward(Floats input) {
    qkv = std::move(input);
    Floats y(qkv.size() / 3);
    p.assign(y.size() / d * s, 0);
    for (int t = 0; t < rows(y, h); ++t)
      for (int head = 0; head < a; ++head) {
        const int i = t % s, first = t - i;  // the position, and its sequence's first token
        const float* const q_i = columns(qkv, 0, t, head);
        float* const p_i = &p[(t * a + head) * s];
        for (int j = 0; j <= i; ++j)
          p_i[j] = dot(q_i, columns(qkv, 1, first + j, head), d) / std::sqrt(float{d});
        softmax(p_i, i + 1);
        for (int j = 0; j <= i; ++j)
          add(p_i[j], columns(qkv, 2, first + j, head), &y[t * h + head * d], d);
      }
    return y;
  }
  /// dp_ij = dy_i · v_j. Through the softmax, the score's gradient is p_ij (dp_ij - Σ_j p_ij
  /// dp_ij).
  Floats backward(const Floats& dy) const {
    Floats dqkv(qkv.size()), dp(s);
    for (int t = 0; t < rows(dy, h); ++t)
      for (int head = 0; head < a; ++head) {
        const int i = t % s, first = t - i;
        const float *const p_i = &p[(t * a + head) * s], *const dy_i = &dy[t * h + head * d];
        for (int j = 0; j <= i; ++j) {
          dp[j] = dot(dy_i, columns(qkv, 2, first + j, head), d);
          add(p_i[j], dy_i, columns(dqkv, 2, first + j, head), d);
        }
        const float mean = dot(p_i, dp.data(), i + 1);
        for (int j = 0; j <= i; ++j) {
          const float dscore = p_i[j] * (dp[j] - mean) / std::sqrt(float{d});
          add(dscore, columns(qkv, 1, first + j, head), columns(dqkv, 0, t, head), d);
          add(dscore, columns(qkv, 0, t, head), columns(dqkv, 1, first + j, head), d);
        }
      }
    return dqkv;
  }
};

/// The output head, logits (n, V) = x (n, h) Wᵀ, and the loss: the mean over all tokens of
/// -log(probability of the token that follows). W is a separate matrix, or the token table (tied).
struct Head {
  Floats x{};  // (n, h), saved
  Floats p{};  // (n, V), saved: the probabilities

  double forward(Floats input, const Parameter& weight, const std::vector<int>& targets) {
    x = std::move(input);
    p.resize(rows(x, h) * V);
    double loss = 0;
    for (int t = 0; t < rows(x, h); ++t) {
      for (int v = 0; v < V; ++v) p[t * V + v] = dot(&x[t * h], &weight.value[v * h], h);
      softmax(&p[t * V], V);
      loss -= std::log(double{p[t * V + targets[t]]}) / rows(x, h);
    }
    return loss;
  }
  /// A logit's gradient is (p - 1) / n for the target and p / n for all other tokens.
  Floats backward(Parameter& weight, const std::vector<int>& targets) const {
    Floats dx(x.size());
    for (int t = 0; t < rows(x, h); ++t)
      for (int v = 0; v < V; ++v) {
        const float dlogit =
            (p[t * V + v] - (v == targets[t] ? 1.0F : 0.0F)) / static_cast<float>(rows(x, h));
        add(dlogit, &weight.value[v * h], &dx[t * h], h);
        add(dlogit, &x[t * h], &weight.gradient[v * h], h);
      }
    return dx;
  }
};

/// Attention and an MLP, with a residual connection around each. Lesson 8 cuts between blocks.
struct Block {
  int order;                                  // of the block's first parameter
  float small = 0.02F / std::sqrt(2.0F * L);  // because 2 L projections add to the residual stream
  LayerNorm ln_1{};
  Linear qkv{h, 3 * h, order + 2};
  Attention attention{};
  Linear projection{h, h, order + 4, small};
  LayerNorm ln_2{};
  Linear fc{h, 4 * h, order + 8};
  Gelu gelu{};
  Linear mlp_projection{4 * h, h, order + 10, small};

  Floats forward(Floats x) {
    x = sum(x, projection.forward(attention.forward(qkv.forward(ln_1.forward(x)))));
    return sum(x, mlp_projection.forward(gelu.forward(fc.forward(ln_2.forward(x)))));
  }
  /// The gradient of x + branch(x) is dy plus the branch's.
  Floats backward(Floats dy) {
    dy = sum(dy, ln_2.backward(fc.backward(gelu.backward(mlp_projection.backward(dy)))));
    return sum(dy, ln_1.backward(qkv.backward(attention.backward(projection.backward(dy)))));
  }
};

struct Batch {
  std::vector<int> tokens, targets;  // (n); a token's target is the token that follows it
};

struct Gpt {
  bool tied;
  Embedding embedding{};
  std::vector<Block> blocks{};
  LayerNorm ln_f{};
  Parameter lm_head{true, normal((L + 1) * 4096 + 2, V, h)};  // unused if tied
  Head head{};

  explicit Gpt(bool tied_head = false) : tied(tied_head) {
    for (int i = 1; i <= L; ++i) blocks.push_back({i * 4096});
  }
  Parameter& head_weight() { return tied ? embedding.tokens : lm_head; }

  double forward(const Batch& batch) {
    Floats x = embedding.forward(batch.tokens);
    for (Block& block : blocks) x = block.forward(std::move(x));
    return head.forward(ln_f.forward(x), head_weight(), batch.targets);
  }
  /// The layers in reverse order: each one's dy is the dx of the layer above it.
  void backward(const Batch& batch) {
    Floats dy = ln_f.backward(head.backward(head_weight(), batch.targets));
    for (std::size_t i = blocks.size(); i-- > 0;) dy = blocks[i].backward(std::move(dy));
    embedding.backward(dy, batch.tokens);
  }

  /// In the lessons' order.
  std::vector<Parameter*> parameters() {
    std::vector<Parameter*> all{&embedding.tokens, &embedding.positions};
    for (Block& b : blocks)
      all.insert(all.end(),
                 {&b.ln_1.gain, &b.ln_1.bias, &b.qkv.weight, &b.qkv.bias, &b.projection.weight,
                  &b.projection.bias, &b.ln_2.gain, &b.ln_2.bias, &b.fc.weight, &b.fc.bias,
                  &b.mlp_projection.weight, &b.mlp_projection.bias});
    all.insert(all.end(), {&ln_f.gain, &ln_f.bias, &lm_head});
    return all;
  }
};

/// AdamW (Loshchilov & Hutter 2019); `step` counts from 1. Each element is updated by itself, so
/// ZeRO (lesson 3) can let each rank update only its own shard.
void adamw(const std::vector<Parameter*>& parameters, int step) {
  constexpr float rate = 1e-3F, beta_1 = 0.9F, beta_2 = 0.95F, epsilon = 1e-5F, decay = 0.1F;
  // Bias correction: both averages start at 0.
  const float correction_1 = 1 - std::pow(beta_1, static_cast<float>(step));
  const float correction_2 = 1 - std::pow(beta_2, static_cast<float>(step));
  for (Parameter* p : parameters)
    for (std::size_t i = 0; i < p->value.size(); ++i) {
      float &m = p->momentum[i], &v = p->variance[i], &g = p->gradient[i];
      m = beta_1 * m + (1 - beta_1) * g;
      v = beta_2 * v + (1 - beta_2) * g * g;
      if (p->is_matrix) p->value[i] *= 1 - rate * decay;
      p->value[i] -= rate * (m / correction_1) / (std::sqrt(v / correction_2) + epsilon);
      g = 0;  // for the next step
    }
}

/// Each sequence is a window of the text; its step and number determine a random start.
Batch batch_of(const std::vector<unsigned char>& text, int step, int sequences) {
  Batch batch;
  for (int number = 0; number < sequences; ++number) {
    const auto words = random_words(number, step, /*purpose=*/1);
    const auto first = text.begin() + (words[0] << 32 | words[1]) % (text.size() - s);
    batch.tokens.insert(batch.tokens.end(), first, first + s);
    batch.targets.insert(batch.targets.end(), first + 1, first + 1 + s);
  }
  return batch;
}

}  // namespace one_gpt

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::stoi(argv[1]) : 5;
  std::ifstream file{"lessons/corpus.txt", std::ios::binary};
  const std::vector<unsigned char> text{std::istreambuf_iterator<char>{file}, {}};
  if (text.size() <= one_gpt::s) {
    std::fprintf(stderr, "no lessons/corpus.txt; run this in the root of the source tree\n");
    return 2;
  }
  one_gpt::Gpt model;
  for (int step = 1; step <= steps; ++step) {
    const one_gpt::Batch batch = one_gpt::batch_of(text, step - 1, 24);
    std::printf("step %3d/%d  loss %.4f\n", step, steps, model.forward(batch));
    model.backward(batch);
    one_gpt::adamw(model.parameters(), step);
  }
  return 0;
}
