#include "exercises/13_sequence_parallel/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "exercises/frame/check.h"
#include "exercises/frame/own_memory.h"

namespace lockstep::exercises {

const char* const learned =
    "An all-reduce is a reduce-scatter and an all-gather. Sequence parallelism puts the norm and "
    "the residual connection between the two halves: the same bytes, but each rank computes and "
    "keeps only its own tokens there. The gradient by the norm's parameters must then be summed.";

// --- What task.h offers --------------------------------------------------------------------------

namespace {

/// Integers remain integers.
double f(double h) {
  return h < 40 ? h : 2 * h - 40;
}
double slope(double h) {
  return h < 40 ? 1 : 2;
}

std::size_t index(int row, int columns, int column) {
  return at(row) * at(columns) + at(column);
}

void expect_size(const char* what, std::size_t found, std::size_t right, const char* meaning) {
  if (found != right)
    throw Wrong{fmt::format("{} has {} numbers, and should have {}", what, found, right), meaning};
}

constexpr const char* own_tokens =
    "The norm works on each token for itself, so a rank computes it for its own tokens only: a "
    "shard. With more, the ranks would repeat each other's work.";
constexpr const char* all_tokens =
    "A rank has some of the columns of A and some of the rows of B, and applies them to all "
    "tokens.";

std::size_t shard_of(World& world, const Mlp& block) {
  return block.whole() / static_cast<std::size_t>(world.size());
}

int tokens_of(World& world, const Mlp& block) {
  return block.tokens / world.size();
}

/// The number of numbers that this thread's rank has passed to norm() and norm_backward().
thread_local std::size_t normed = 0, normed_backward = 0;

/// Checks the arguments of one of the functions below: the input must have arrived, and no
/// operation may be using the memory for the results.
void expect_use(World& world, const std::string& user,
                std::initializer_list<std::span<const float>> read,
                std::initializer_list<std::span<const float>> written) {
  for (const std::span<const float> each : read) expect_arrived(user, each);
  for (const std::span<const float> each : written) expect_free(world, user, each);
}

}  // namespace

void norm(World& world, const Mlp& block, std::span<const float> x, std::span<float> n) {
  expect_size("norm()'s x", x.size(), shard_of(world, block), own_tokens);
  expect_size("norm()'s n", n.size(), shard_of(world, block), own_tokens);
  expect_use(world, "norm()", {x}, {n});
  normed += x.size();
  world.compute("N", 2.0 * tokens_of(world, block));
  for (std::size_t i = 0; i < n.size(); ++i) n[i] = block.gain[i % block.gain.size()] * x[i];
}

void norm_backward(World& world, const Mlp& block, std::span<const float> x,
                   std::span<const float> dn, std::span<float> dx, std::span<float> dgain) {
  expect_size("norm_backward()'s x", x.size(), shard_of(world, block), own_tokens);
  expect_size("norm_backward()'s dn", dn.size(), shard_of(world, block), own_tokens);
  expect_size("norm_backward()'s dx", dx.size(), shard_of(world, block), own_tokens);
  expect_size("norm_backward()'s dgain", dgain.size(), block.gain.size(), "It is the gain's.");
  expect_use(world, "norm_backward()", {x, dn, dx}, {dx, dgain});
  normed_backward += x.size();
  world.compute("dN", 4.0 * tokens_of(world, block));
  std::ranges::fill(dgain, 0.0F);
  for (std::size_t i = 0; i < dn.size(); ++i) {
    dgain[i % dgain.size()] += x[i] * dn[i];
    dx[i] += block.gain[i % dgain.size()] * dn[i];
  }
}

void column(World& world, const Mlp& block, std::span<const float> n, std::span<float> h) {
  expect_size("column()'s n", n.size(), block.whole(), all_tokens);
  expect_size("column()'s h", h.size(), block.hidden(), all_tokens);
  expect_use(world, "column()", {n}, {h});
  world.compute("nA", 8);
  std::ranges::fill(h, 0.0F);
  for (int t = 0; t < block.tokens; ++t)
    for (int c = 0; c < block.columns; ++c)
      for (int i = 0; i < block.features; ++i)
        h[index(t, block.columns, c)] +=
            n[index(t, block.features, i)] * block.A[index(i, block.columns, c)];
}

void column_backward(World& world, const Mlp& block, std::span<const float> n,
                     std::span<const float> dh, std::span<float> dn, std::span<float> dA) {
  expect_size("column_backward()'s n", n.size(), block.whole(), all_tokens);
  expect_size("column_backward()'s dh", dh.size(), block.hidden(), all_tokens);
  expect_size("column_backward()'s dn", dn.size(), block.whole(), all_tokens);
  expect_size("column_backward()'s dA", dA.size(), block.A.size(), "It is this rank's A's.");
  expect_use(world, "column_backward()", {n, dh}, {dn, dA});
  world.compute("dnA", 16);
  std::ranges::fill(dn, 0.0F);
  std::ranges::fill(dA, 0.0F);
  for (int t = 0; t < block.tokens; ++t)
    for (int c = 0; c < block.columns; ++c)
      for (int i = 0; i < block.features; ++i) {
        const float by_h = dh[index(t, block.columns, c)];
        dn[index(t, block.features, i)] += by_h * block.A[index(i, block.columns, c)];
        dA[index(i, block.columns, c)] += by_h * n[index(t, block.features, i)];
      }
}

void row(World& world, const Mlp& block, std::span<const float> h, std::span<float> y) {
  expect_size("row()'s h", h.size(), block.hidden(), all_tokens);
  expect_size("row()'s y", y.size(), block.whole(), all_tokens);
  expect_use(world, "row()", {h}, {y});
  world.compute("fB", 8);
  std::ranges::fill(y, 0.0F);
  for (int t = 0; t < block.tokens; ++t)
    for (int c = 0; c < block.columns; ++c)
      for (int i = 0; i < block.features; ++i)
        y[index(t, block.features, i)] += static_cast<float>(f(h[index(t, block.columns, c)])) *
                                          block.B[index(c, block.features, i)];
}

void row_backward(World& world, const Mlp& block, std::span<const float> h,
                  std::span<const float> dy, std::span<float> dh, std::span<float> dB) {
  expect_size("row_backward()'s h", h.size(), block.hidden(), all_tokens);
  expect_size("row_backward()'s dy", dy.size(), block.whole(), all_tokens);
  expect_size("row_backward()'s dh", dh.size(), block.hidden(), all_tokens);
  expect_size("row_backward()'s dB", dB.size(), block.B.size(), "It is this rank's B's.");
  expect_use(world, "row_backward()", {h, dy}, {dh, dB});
  world.compute("dfB", 16);
  std::ranges::fill(dB, 0.0F);
  for (int t = 0; t < block.tokens; ++t)
    for (int c = 0; c < block.columns; ++c) {
      const float each = h[index(t, block.columns, c)];
      float by_z = 0;
      for (int i = 0; i < block.features; ++i) {
        const float by_y = dy[index(t, block.features, i)];
        by_z += by_y * block.B[index(c, block.features, i)];
        dB[index(c, block.features, i)] += static_cast<float>(f(each)) * by_y;
      }
      dh[index(t, block.columns, c)] = by_z * static_cast<float>(slope(each));
    }
}

namespace {

// --- All blocks on one device, in f64 ------------------------------------------------------------

using Numbers = std::vector<double>;

/// The tokens and columns that a result takes into account: all of them, or only a part if a
/// mistake leaves out the rest.
struct Part {
  int first_token, end_token, first_column, end_column;
  bool has(int t, int c) const {
    return t >= first_token && t < end_token && c >= first_column && c < end_column;
  }
};

struct Case {
  int N, tokens, features, columns, blocks;
  std::string text() const {
    return fmt::format("{}, {}, {}, {} of A, {}", count_of(N, "rank"), count_of(tokens, "token"),
                       count_of(features, "feature"), count_of(columns, "column"),
                       count_of(blocks, "block"));
  }
  Part all() const { return {0, tokens, 0, columns}; }
  Part tokens_of(int r) const { return {r * tokens / N, (r + 1) * tokens / N, 0, columns}; }
  Part columns_of(int r) const {
    const int each = columns / N, longer = columns % N;
    const int first = r * each + std::min(r, longer);
    return {0, tokens, first, first + each + (r < longer ? 1 : 0)};
  }
};

/// One block with all columns, its inputs in both directions, and its results. The results take
/// only the tokens and columns of `part` into account.
struct Whole {
  Case sizes;
  Numbers gain, A, B, x, dy;

  double n(int t, int i) const { return gain[at(i)] * x[index(t, sizes.features, i)]; }
  double h(int t, int c) const {
    double sum = 0;
    for (int i = 0; i < sizes.features; ++i) sum += n(t, i) * A[index(i, sizes.columns, c)];
    return sum;
  }
  double dh(int t, int c) const {
    double sum = 0;
    for (int i = 0; i < sizes.features; ++i)
      sum += dy[index(t, sizes.features, i)] * B[index(c, sizes.features, i)];
    return sum * slope(h(t, c));
  }
  /// The output without the residual connection: f(h) B.
  Numbers term(Part part) const {
    return collect(x.size(), part, [&](Numbers& to, int t, int c, int i) {
      to[index(t, sizes.features, i)] += f(h(t, c)) * B[index(c, sizes.features, i)];
    });
  }
  /// Likewise, the gradient with respect to x.
  Numbers dx(Part part) const {
    return collect(x.size(), part, [&](Numbers& to, int t, int c, int i) {
      to[index(t, sizes.features, i)] += gain[at(i)] * dh(t, c) * A[index(i, sizes.columns, c)];
    });
  }
  Numbers dgain(Part part) const {
    return collect(gain.size(), part, [&](Numbers& to, int t, int c, int i) {
      to[at(i)] += x[index(t, sizes.features, i)] * dh(t, c) * A[index(i, sizes.columns, c)];
    });
  }
  /// The columns of A's gradient, and the rows of B's gradient, on rank r.
  Numbers dA(int r, Part tokens) const {
    const Part mine = sizes.columns_of(r);
    const int count = mine.end_column - mine.first_column;
    return collect(at(sizes.features * count), both(mine, tokens),
                   [&](Numbers& to, int t, int c, int i) {
                     to[index(i, count, c - mine.first_column)] += n(t, i) * dh(t, c);
                   });
  }
  Numbers dB(int r, Part tokens) const {
    const Part mine = sizes.columns_of(r);
    const int count = mine.end_column - mine.first_column;
    return collect(at(sizes.features * count), both(mine, tokens),
                   [&](Numbers& to, int t, int c, int i) {
                     to[index(c - mine.first_column, sizes.features, i)] +=
                         f(h(t, c)) * dy[index(t, sizes.features, i)];
                   });
  }
  /// Rank r's part of the block.
  Mlp block(int r) const {
    const Part mine = sizes.columns_of(r);
    Mlp result{.tokens = sizes.tokens,
               .features = sizes.features,
               .columns = mine.end_column - mine.first_column,
               .gain = {gain.begin(), gain.end()},
               .A = {},
               .B = {}};
    for (int i = 0; i < sizes.features; ++i)
      for (int c = mine.first_column; c < mine.end_column; ++c)
        result.A.push_back(static_cast<float>(A[index(i, sizes.columns, c)]));
    for (int c = mine.first_column; c < mine.end_column; ++c)
      for (int i = 0; i < sizes.features; ++i)
        result.B.push_back(static_cast<float>(B[index(c, sizes.features, i)]));
    return result;
  }

 private:
  static Part both(Part a, Part b) {
    return {std::max(a.first_token, b.first_token), std::min(a.end_token, b.end_token),
            std::max(a.first_column, b.first_column), std::min(a.end_column, b.end_column)};
  }
  template <class Add>
  Numbers collect(std::size_t count, Part part, Add add) const {
    Numbers to(count);
    for (int t = 0; t < sizes.tokens; ++t)
      for (int c = 0; c < sizes.columns; ++c)
        for (int i = 0; part.has(t, c) && i < sizes.features; ++i) add(to, t, c, i);
    return to;
  }
};

Numbers sum(const Numbers& a, const Numbers& b, double times = 1) {
  Numbers result = a;
  for (std::size_t i = 0; i < a.size(); ++i) result[i] += times * b[i];
  return result;
}

Numbers shard(const Numbers& whole, int r, int N) {
  const std::span<const double> part = chunk(std::span{whole}, r, N);
  return {part.begin(), part.end()};
}

/// All numbers are positive, so nothing cancels, and results may differ only by a few roundings.
bool is(std::span<const float> found, const Numbers& numbers) {
  return std::ranges::equal(found, numbers, [](double a, double b) {
    return std::abs(a - b) <= 1e-5 * std::max(1.0, std::abs(b));
  });
}

// --- Diagnoses -----------------------------------------------------------------------------------

std::string diagnose_failure(const Failure&) {
  return "All ranks must call the same collectives, with the same sizes, in the same order, even "
         "if a rank has no columns of A.";
}

std::string why_not_y(std::span<const float> found, const Whole& block, int r) {
  const int N = block.sizes.N;
  const Numbers x = shard(block.x, r, N), all = shard(block.term(block.sizes.all()), r, N);
  const Numbers own = shard(block.term(block.sizes.columns_of(r)), r, N);
  if (is(found, all))
    return "This is the sum of the ranks' terms without x: the residual connection adds x of this "
           "rank's tokens.";
  if (N > 1 && is(found, sum(all, x, N)))
    return fmt::format(
        "This contains x {} times: every rank has added it, and the sum over the "
        "ranks has added up all of them.",
        N);
  if (N > 1 && (is(found, sum(x, own)) || is(found, own)))
    return "This contains only the term of this rank's own columns of A. Every rank's columns must "
           "be applied to all tokens, so gather norm(x) before; and the terms of all ranks must be "
           "added, by a reduce-scatter after row().";
  if (N > 1 && (is(found, sum(x, all, 1.0 / N)) ||
                is(found, sum(Numbers(all.size()), sum(x, all), 1.0 / N))))
    return "This has been divided by the number of ranks. The columns of A are added, not "
           "averaged: a token's y needs all of them in full.";
  for (int i = 0; i < N; ++i) {
    const Numbers theirs = shard(block.term(block.sizes.all()), i, N);
    if (i != r && (is(found, sum(x, theirs)) || is(found, sum(shard(block.x, i, N), theirs))))
      return fmt::format(
          "The sum is that of rank {}'s tokens. After a reduce-scatter, chunk {} of "
          "the array is complete on rank {}, and the others are not.",
          i, r, r);
  }
  return "Gather the norms of all tokens, apply this rank's columns and rows, and let a "
         "reduce-scatter add the ranks' terms for this rank's tokens. Then add x.";
}

std::string why_not_dx(std::span<const float> found, const Whole& block, int r) {
  const int N = block.sizes.N;
  const Numbers dy = shard(block.dy, r, N), all = shard(block.dx(block.sizes.all()), r, N);
  const Numbers own = shard(block.dx(block.sizes.columns_of(r)), r, N);
  if (is(found, all))
    return "The residual connection is missing: the gradient by x is dy, plus what comes through "
           "the norm. norm_backward() adds to its dx.";
  if (is(found, sum(all, dy, 2))) return "dy is contained twice.";
  if (N > 1 && (is(found, sum(dy, own)) || is(found, own)))
    return "This contains only the part of this rank's own columns of A. All ranks have used "
           "norm(x) of these tokens, so the gradient by it is a sum over all ranks: the forward "
           "pass has gathered here, and the backward pass needs a reduce-scatter.";
  if (N > 1 && is(found, sum(dy, all, 1.0 / N)))
    return "The gradient by norm(x) has been divided by the number of ranks. Its parts are those "
           "of different columns of A, which are added.";
  return "Gather dy, go back through this rank's rows and columns for all tokens, let a "
         "reduce-scatter add the ranks' gradients by norm(x), and go back through the norm.";
}

std::string why_not_dgain(std::span<const float> found, const Whole& block, int r) {
  const int N = block.sizes.N;
  const Numbers all = block.dgain(block.sizes.all());
  if (N > 1 && is(found, block.dgain(block.sizes.tokens_of(r))))
    return "This takes only this rank's tokens into account. All ranks have the same gain, and "
           "each has used it for other tokens: the sum over the ranks is its gradient. Without it, "
           "the replicas of the gain drift apart.";
  if (N > 1 && is(found, sum(Numbers(all.size()), all, 1.0 / N)))
    return "This is the average over the ranks. Each of them has its own tokens of the same "
           "sequence: their parts are added.";
  if (is(found, sum(Numbers(all.size()), all, N)))
    return fmt::format(
        "This is {} times the gradient: it has been summed although it was complete "
        "before.",
        N);
  return "The gradient by the gain is what norm_backward() gives for a rank's tokens, with the "
         "complete gradient by norm(x), added over the ranks.";
}

/// Why the gradient of A or B is wrong: `gradient(rank, tokens)` computes the right one.
template <class Gradient>
std::string why_not_weight(std::span<const float> found, const Case& sizes, int r,
                           Gradient gradient) {
  if (sizes.N > 1 && is(found, gradient(r, sizes.tokens_of(r))))
    return "This takes only this rank's own tokens into account, but its columns and rows were "
           "used for all tokens: gather dy before row_backward(), as the forward pass has "
           "scattered y after row().";
  Numbers all(found.size());
  for (int other = 0; other < sizes.N; ++other) {
    const Numbers theirs = gradient(other, sizes.all());
    if (theirs.size() != all.size()) return "";
    all = sum(all, theirs);
  }
  if (sizes.N > 1 && (is(found, all) || is(found, sum(Numbers(all.size()), all, 1.0 / sizes.N))))
    return "This mixes the gradients of different columns. Each rank's columns of A and rows of B "
           "are its own, and it has gone back through them with all tokens: there is nothing to "
           "add.";
  return "";
}

// --- The run -------------------------------------------------------------------------------------

/// Runs the forward pass of all blocks and, if `backward`, their backward pass. Returns this rank's
/// results in one vector: y; or the gradients of each block's B and A, that of x, and that of each
/// block's gain. In both cases, the numbers of elements passed to norm() and norm_backward()
/// follow.
std::vector<float> run_blocks(World& world, const std::vector<Whole>& blocks, bool backward) {
  const int r = world.rank(), N = world.size();
  const auto buffer_of = [&](const Numbers& whole) {
    const Numbers part = shard(whole, r, N);
    Buffer buffer = world.allocate(part.size());
    for (std::size_t i = 0; i < part.size(); ++i) buffer[i] = static_cast<float>(part[i]);
    return buffer;
  };
  const auto expect_shard = [&](const char* what, const Buffer& buffer) {
    expect_size(what, buffer.size(), blocks[0].x.size() / at(N),
                "It contains this rank's tokens only: a shard.");
  };
  normed = normed_backward = 0;
  std::vector<Mlp> parts;
  for (const Whole& each : blocks) parts.push_back(each.block(r));
  std::vector<Saved> saved(blocks.size());
  Buffer x = buffer_of(blocks[0].x);
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    {
      const OwnMemory counted{world};
      x = mlp_forward(world, parts[b], std::move(x), saved[b]);
    }
    expect_shard("mlp_forward()'s result", x);
  }
  std::vector<float> results(x.span().begin(), x.span().end());
  const auto finish = [&] {
    results.push_back(static_cast<float>(normed));
    results.push_back(static_cast<float>(normed_backward));
    return results;
  };
  if (!backward) return finish();
  x.reset();
  Buffer dy = buffer_of(blocks.back().dy);
  std::vector<float> weights, gains;
  for (std::size_t b = blocks.size(); b-- > 0;) {
    Gradients of_block{std::vector<float>(parts[b].gain.size()),
                       std::vector<float>(parts[b].A.size()),
                       std::vector<float>(parts[b].B.size())};
    {
      const OwnMemory counted{world};
      dy = mlp_backward(world, parts[b], std::move(dy), std::move(saved[b]), of_block);
    }
    expect_shard("mlp_backward()'s result", dy);
    expect_size("the gradient by the gain", of_block.gain.size(), parts[b].gain.size(),
                "The gradients have been allocated by the caller: leave their sizes as they are.");
    expect_size("the gradient by A", of_block.A.size(), parts[b].A.size(),
                "The gradients have been allocated by the caller: leave their sizes as they are.");
    expect_size("the gradient by B", of_block.B.size(), parts[b].B.size(),
                "The gradients have been allocated by the caller: leave their sizes as they are.");
    weights.insert(weights.end(), of_block.B.begin(), of_block.B.end());
    weights.insert(weights.end(), of_block.A.begin(), of_block.A.end());
    gains.insert(gains.end(), of_block.gain.begin(), of_block.gain.end());
  }
  // The weights' gradients first: if they are wrong, so is everything computed from them.
  results = std::move(weights);
  results.insert(results.end(), dy.span().begin(), dy.span().end());
  results.insert(results.end(), gains.begin(), gains.end());
  return finish();
}

/// Throws Wrong if a rank sends more bytes or more messages than its part of the collectives.
void check_pattern(const std::string& what, const Outcome& outcome, const Case& sizes,
                   bool backward) {
  const int N = sizes.N;
  const std::int64_t half = std::int64_t{4} * (N - 1) * (sizes.tokens / N) * sizes.features;
  const std::int64_t gain = std::int64_t{4} * 2 * (N - 1) * ((sizes.features + N - 1) / N);
  const std::int64_t most_bytes = sizes.blocks * (2 * half + (backward ? 2 * half + gain : 0));
  const std::int64_t most_messages = std::int64_t{sizes.blocks} * (N - 1) * (backward ? 6 : 2);
  const char* const pass = backward ? "forward and backward" : "forward";
  for (int r = 0; r < N; ++r) {
    const std::int64_t bytes = outcome.bytes_sent[at(r)];
    const std::int64_t messages = outcome.messages_sent[at(r)];
    if (messages > most_messages)
      throw Wrong{
          fmt::format("{}: {}, rank {} has sent {}, and should send at most {}", what, pass, r,
                      count_of(messages, "message"), most_messages),
          "The results are right, and so are the bytes, but they are sent in pieces, each of "
          "which costs a latency. A reduce-scatter or an all-gather of all tokens has N - 1 "
          "messages of each rank, and the all-reduce of the gain's gradient 2 (N - 1)."};
    if (bytes > most_bytes)
      throw Wrong{
          fmt::format("{}: {}, rank {} sends {} B, and its part is at most {} B", what, pass, r,
                      bytes, most_bytes),
          "The results are right, and the ranks send no more together than they should, but "
          "this one sends more than the others, which wait for it. In a reduce-scatter and "
          "in an all-gather, all ranks send equally much."};
  }
}

/// Throws Wrong unless each rank has normalized exactly its own tokens, once per block.
void check_norms(const std::string& what, const Outcome& outcome, const Case& sizes,
                 bool backward) {
  const auto right =
      static_cast<std::size_t>(sizes.blocks * (sizes.tokens / sizes.N) * sizes.features);
  for (int r = 0; r < sizes.N; ++r) {
    const std::vector<float>& all = outcome.results[at(r)];
    const auto forward = static_cast<std::size_t>(all[all.size() - 2]);
    const auto back = static_cast<std::size_t>(all.back());
    const bool is_forward = forward != right;
    if (!is_forward && back == (backward ? right : 0)) continue;
    throw Wrong{
        fmt::format("{}: rank {} has given {} to {}, and its own tokens have {}", what, r,
                    count_of(static_cast<std::int64_t>(is_forward ? forward : back), "number"),
                    is_forward ? "norm()" : "norm_backward()", right),
        (is_forward ? forward : back) > right
            ? "The results are right, but the ranks repeat each other's work. A rank computes the "
              "norm of its own tokens, once; those of the others come by the all-gather."
            : "The results are right, but the norm of a rank's own tokens is to be computed by "
              "norm(), and its gradient by norm_backward()."};
  }
}

void check_bytes(const std::string& what, const Outcome& outcome, const Case& sizes,
                 bool backward) {
  const std::int64_t sent = outcome.all_bytes_sent();
  const std::int64_t half = std::int64_t{4} * (sizes.N - 1) * sizes.tokens * sizes.features;
  const std::int64_t gain = std::int64_t{4} * 2 * (sizes.N - 1) * sizes.features;
  const std::int64_t right = sizes.blocks * (2 * half + (backward ? 2 * half + gain : 0));
  if (sent == right) {
    check_pattern(what, outcome, sizes, backward);
    return;
  }
  const std::string expected =
      fmt::format("{}: {}, the ranks send {} B together, and {} B are right", what,
                  backward ? "forward and backward" : "forward", sent, right);
  if (half > 0 && sent > right && (sent - right) % (sizes.blocks * half) == 0)
    throw Wrong{expected,
                "The results are right, but the ranks send more halves than needed. An all-reduce "
                "is a reduce-scatter and an all-gather, and in each place only one of them is "
                "needed: all-gather before the columns and reduce-scatter after the rows, and "
                "backward the other way round."};
  throw Wrong{expected, sent < right
                            ? "The results are right, but this is less than the ranks need to "
                              "send: what one of them computes must come to the others as "
                              "messages."
                            : "The results are right, but more is sent than needed. The gradients "
                              "by A and B belong to one rank alone; only that by the gain is "
                              "summed over the ranks."};
}

void check_memory(const std::string& what, const Outcome& outcome, const Whole& block,
                  bool backward) {
  const Case& sizes = block.sizes;
  for (int r = 0; r < sizes.N; ++r) {
    const Mlp part = block.block(r);
    const auto W = static_cast<std::int64_t>(part.whole());
    const auto H = static_cast<std::int64_t>(part.hidden());
    const std::int64_t S = W / sizes.N;
    const std::int64_t most =
        4 * ((sizes.blocks - 1) * (W + S + H) + 2 * W + 3 * S + (backward ? 2 : 1) * H);
    const std::int64_t held = outcome.peak_bytes[at(r)];
    if (held <= most) continue;
    throw Wrong{
        fmt::format("{}: {}, rank {} holds {} B at a time, and at most {} B are needed (a shard is "
                    "{} B, a tensor of all tokens {} B, its columns of h {} B)",
                    what, backward ? "forward and backward" : "forward", r, held, most, 4 * S,
                    4 * W, 4 * H),
        fmt::format(
            "The results are right, but a rank keeps too much. At that time, its Buffers had "
            "{}. Only norm(x), and at any time one other tensor (the terms of y, dy, or the "
            "gradient by norm(x)), has all tokens. Give back with reset() what has been "
            "used, or use its memory again.",
            buffers_at_peak(outcome, r))};
  }
}

void check_one(Check& check, const Case& sizes) {
  std::vector<Whole> blocks;
  const auto numbers = [&](int count, int most) {
    Numbers all;
    for (int i = 0; i < count; ++i) all.push_back(check.number_from(1, most));
    return all;
  };
  const auto& [N, tokens, features, columns, count] = sizes;
  for (int b = 0; b < count; ++b)
    blocks.push_back({sizes, numbers(features, 4), numbers(features * columns, 4),
                      numbers(columns * features, 4), numbers(tokens * features, 9),
                      numbers(tokens * features, 9)});
  // The last column and the last token have the largest values, so that no rank's part equals the
  // average of all parts.
  for (Whole& block : blocks) {
    for (int i = 0; i < features; ++i) block.A[index(i, columns, columns - 1)] += 16;
    for (int i = 0; i < features; ++i)
      for (Numbers* each : {&block.x, &block.dy}) (*each)[index(tokens - 1, features, i)] += 9;
  }
  for (std::size_t b = 1; b < blocks.size(); ++b)
    blocks[b].x = sum(blocks[b - 1].x, blocks[b - 1].term(sizes.all()));
  for (std::size_t b = blocks.size() - 1; b > 0; --b)
    blocks[b - 1].dy = sum(blocks[b].dy, blocks[b].dx(sizes.all()));

  const std::string what = sizes.text();
  for (const bool backward : {false, true}) {
    const Outcome outcome = check.run(
        what, N, [&](World& world) { return run_blocks(world, blocks, backward); },
        diagnose_failure);
    for (int r = 0; r < N; ++r) {
      std::span<const float> rest{outcome.results[at(r)]};
      const auto expect = [&](const std::string& name, const Numbers& expected, auto why) {
        const std::span<const float> found = rest.first(expected.size());
        rest = rest.subspan(expected.size());
        if (is(found, expected)) return;
        const std::string text = why(found);
        throw Wrong{
            fmt::format("{}: {} of rank {} should be [{}], and is [{}]", what, name, r,
                        list(std::vector<float>(expected.begin(), expected.end())), list(found)),
            text.empty() ? "Go back through this rank's rows and columns with dy of all tokens."
                         : text};
      };
      if (!backward) {
        const Whole& last = blocks.back();
        expect("y", shard(sum(last.x, last.term(sizes.all())), r, N),
               [&](auto found) { return why_not_y(found, last, r); });
        continue;
      }
      for (std::size_t b = blocks.size(); b-- > 0;) {
        const Whole& block = blocks[b];
        const std::string of = count > 1 ? fmt::format(" of block {}", b) : "";
        const auto dA = [&](int rank, Part part) { return block.dA(rank, part); };
        const auto dB = [&](int rank, Part part) { return block.dB(rank, part); };
        expect("the gradient by B" + of, dB(r, sizes.all()),
               [&](auto found) { return why_not_weight(found, sizes, r, dB); });
        expect("the gradient by A" + of, dA(r, sizes.all()),
               [&](auto found) { return why_not_weight(found, sizes, r, dA); });
      }
      const Whole& first = blocks.front();
      expect("the gradient by x", shard(sum(first.dy, first.dx(sizes.all())), r, N),
             [&](auto found) { return why_not_dx(found, first, r); });
      for (std::size_t b = blocks.size(); b-- > 0;)
        expect(fmt::format("the gradient by the gain{}",
                           count > 1 ? fmt::format(" of block {}", b) : ""),
               blocks[b].dgain(sizes.all()),
               [&](auto found) { return why_not_dgain(found, blocks[b], r); });
    }
    check_norms(what, outcome, sizes, backward);
    check_bytes(what, outcome, sizes, backward);
    check_memory(what, outcome, blocks[0], backward);
    if (N > 1) expect_in_buffers(what, outcome, at(tokens / N) * at(features), "one shard is");
    if (N == 4 && backward && count == 1)
      check.show(
          "Your run on 4 ranks: forward an all-gather between the norm (N) and A, and a "
          "reduce-scatter after B; backward the same between the others.",
          draw(outcome.rows));
  }
}

}  // namespace

void check(Check& check) {
  // With {4, 8, 2, 3, 1}, one rank has no columns. The last case is large enough to see where
  // tensors are.
  const Case cases[]{{2, 2, 1, 2, 1},    {2, 4, 2, 3, 1},   {3, 3, 2, 7, 1},  {1, 2, 3, 4, 1},
                     {4, 8, 2, 3, 1},    {2, 2, 2, 2, 2},   {8, 8, 1, 11, 1}, {3, 6, 3, 4, 3},
                     {12, 24, 1, 13, 1}, {2, 2048, 1, 2, 1}};
  for (const Case& sizes : cases) check_one(check, sizes);
  for (int trial = 0; trial < 3; ++trial) {
    const int N = check.number_from(1, 6);
    check_one(check, {N, N * check.number_from(1, 3), check.number_from(1, 4),
                      check.number_from(1, 11), check.number_from(1, 2)});
  }
}

}  // namespace lockstep::exercises
