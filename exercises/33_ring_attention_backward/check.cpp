#include "exercises/33_ring_attention_backward/task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "exercises/frame/check.h"
#include "exercises/frame/own_memory.h"

namespace lockstep::exercises {

const char* const learned =
    "In the backward pass, keys and values go around the ring once more, and their gradients "
    "follow one step behind: each rank adds its queries' part, and the last hop returns the sums. "
    "One log-sum-exp per query replaces its row of probabilities.";

namespace {

/// Numbers in f64. For each, `size` is the sum of the absolute values of its terms: rounding errors
/// are relative to it.
struct Sums {
  explicit Sums(std::size_t count) : value(count), size(count) {}
  void add(std::size_t i, double term, double its_size) {
    value[i] += term;
    size[i] += its_size;
  }
  Sums& operator+=(const Sums& other) {
    for (std::size_t i = 0; i < value.size(); ++i) add(i, other.value[i], other.size[i]);
    return *this;
  }
  std::vector<double> value, size;
};

/// The contribution of one rank's queries and one block of keys and values.
struct Part {
  Part(std::size_t c, std::size_t d) : dq(c * d), gradients(2 * c * d) {}
  Sums dq, gradients;
};

struct Case {
  int N;
  std::size_t c, d;
  std::size_t block() const { return 2 * c * d; }
  double hop() const { return 1 + 0.004 * static_cast<double>(block()); }
  double T() const { return 2 * hop() + 0.5; }
  std::string text() const {
    return fmt::format("{}, {} with {} each", count_of(N, "rank"),
                       count_of(static_cast<std::int64_t>(c), "query", "queries"),
                       count_of(static_cast<std::int64_t>(d), "feature"));
  }
};

/// Ways to compute p and ds. All but the first are wrong.
enum class Formula { right, without_D, softmax_of_block, without_p };

/// The whole sequence, by rank, and the forward pass over all of it.
struct Sequence {
  Sequence(Check& check, const Case& sizes_) : sizes(sizes_) {
    const auto& [N, c, d] = sizes;
    // Multiples of 1/2, so that scores are exact in f32 and of order 1, and never 0.
    const auto halves = [&](std::size_t count) {
      std::vector<float> all(count);
      for (float& each : all)
        each = static_cast<float>(check.number_from(1, 2) * (check.number_from(0, 1) ? 1 : -1)) / 2;
      return all;
    };
    for (int r = 0; r < N; ++r) {
      q.push_back(halves(c * d));
      blocks.push_back(halves(sizes.block()));
      // Different on each rank, so that a block reveals its rank.
      blocks.back().back() = static_cast<float>(r + 2);
      dy.push_back(halves(c * d));
      lse.emplace_back(c);
      y.emplace_back(c * d);
      for (std::size_t i = 0; i < c; ++i) exact_lse.push_back(0);
      exact_D.resize(exact_lse.size());
    }
    for (int r = 0; r < N; ++r) forward(r);
  }

  Queries queries(int r) const { return {q[at(r)], y[at(r)], dy[at(r)], lse[at(r)]}; }
  double score(int r, std::size_t i, int owner, std::size_t j) const {
    double sum = 0;
    for (std::size_t k = 0; k < sizes.d; ++k)
      sum += static_cast<double>(q[at(r)][i * sizes.d + k]) * blocks[at(owner)][j * sizes.d + k];
    return sum;
  }
  double D(int r, std::size_t i) const { return exact_D[at(r) * sizes.c + i]; }
  /// The rank whose block this is, or -1.
  int owner(std::span<const float> block) const {
    for (std::size_t r = 0; r < blocks.size(); ++r)
      if (std::ranges::equal(block, blocks[r])) return static_cast<int>(r);
    return -1;
  }
  Part part(int r, int owner, Formula formula = Formula::right) const;
  /// A bound on the answer's rounding errors, relative to Sums::size: scores have d terms, and an
  /// absolute error of a score or an lse becomes a relative error of exp(); the final sums have at
  /// most N c terms, or d in dp and D.
  double tolerance() const {
    const double terms = static_cast<double>(at(sizes.N) * sizes.c + 2 * sizes.d);
    return 0x1p-23 *
           (static_cast<double>(sizes.d + 2) * largest_score + 2 * largest_lse + terms + 10);
  }

  Case sizes;
  std::vector<std::vector<float>> q, y, dy, lse, blocks;

 private:
  void forward(int r) {
    const auto& [N, c, d] = sizes;
    for (std::size_t i = 0; i < c; ++i) {
      double sum = 0;
      std::vector<double> exact(d);
      for (int owner = 0; owner < N; ++owner)
        for (std::size_t j = 0; j < c; ++j) {
          const double s = score(r, i, owner, j), p = std::exp(s);
          largest_score = std::max(largest_score, std::abs(s));
          sum += p;
          for (std::size_t k = 0; k < d; ++k) exact[k] += p * blocks[at(owner)][(c + j) * d + k];
        }
      const std::size_t query = at(r) * c + i;
      exact_lse[query] = std::log(sum);
      largest_lse = std::max(largest_lse, std::abs(exact_lse[query]));
      lse[at(r)][i] = static_cast<float>(exact_lse[query]);
      for (std::size_t k = 0; k < d; ++k) {
        y[at(r)][i * d + k] = static_cast<float>(exact[k] / sum);
        exact_D[query] += exact[k] / sum * dy[at(r)][i * d + k];
      }
    }
  }
  std::vector<double> exact_lse, exact_D;  // by query of all ranks
  double largest_score = 0, largest_lse = 0;
};

Part Sequence::part(int r, int owner, Formula formula) const {
  const auto& [N, c, d] = sizes;
  Part all{c, d};
  for (std::size_t i = 0; i < c; ++i) {
    double lse_of_block = 0;
    for (std::size_t j = 0; j < c; ++j) lse_of_block += std::exp(score(r, i, owner, j));
    lse_of_block = std::log(lse_of_block);
    double size_of_D = 0;
    for (std::size_t k = 0; k < d; ++k)
      size_of_D += std::abs(static_cast<double>(y[at(r)][i * d + k]) * dy[at(r)][i * d + k]);
    for (std::size_t j = 0; j < c; ++j) {
      double dp = 0, size_of_dp = 0;
      for (std::size_t k = 0; k < d; ++k) {
        const double term =
            static_cast<double>(dy[at(r)][i * d + k]) * blocks[at(owner)][(c + j) * d + k];
        dp += term;
        size_of_dp += std::abs(term);
      }
      const double p = std::exp(score(r, i, owner, j) - (formula == Formula::softmax_of_block
                                                             ? lse_of_block
                                                             : exact_lse[at(r) * c + i]));
      const double ds = (formula == Formula::without_p ? 1 : p) *
                        (dp - (formula == Formula::without_D ? 0 : D(r, i)));
      const double size = p * (size_of_dp + size_of_D);
      for (std::size_t k = 0; k < d; ++k) {
        const double key = blocks[at(owner)][j * d + k], query = q[at(r)][i * d + k],
                     its_dy = dy[at(r)][i * d + k];
        all.dq.add(i * d + k, ds * key, size * std::abs(key));
        all.gradients.add(j * d + k, ds * query, size * std::abs(query));
        all.gradients.add((c + j) * d + k, p * its_dy, p * std::abs(its_dy));
      }
    }
  }
  return all;
}

bool is_close(std::span<const float> found, const Sums& expected, double tolerance,
              std::size_t first = 0) {
  for (std::size_t i = 0; i < found.size(); ++i)
    if (!(std::abs(found[i] - expected.value[first + i]) <= tolerance * expected.size[first + i]))
      return false;
  return true;
}

/// Some of the numbers as text; those that are only rounding errors are shown as 0.
std::string text_of(const Sums& sums, std::size_t first, std::size_t count) {
  std::vector<float> all;
  for (std::size_t i = first; i < first + count; ++i)
    all.push_back(std::abs(sums.value[i]) < 1e-12 ? 0 : static_cast<float>(sums.value[i]));
  return list(all);
}

// --- One block -----------------------------------------------------------------------------------

/// Explains why attend_backward() is wrong: `found` contains dq and the gradients, and `before`
/// their contents before the call.
Wrong why_not_part(const Sequence& sequence, int owner, std::span<const float> found,
                   std::span<const float> before, const std::string& what) {
  const auto& [N, c, d] = sequence.sizes;
  const std::size_t n = c * d;
  const double tolerance = sequence.tolerance();
  /// One of dq, dkey and dvalue (`which` is 0, 1 or 2), computed with this formula.
  const auto expected = [&](int which, Formula formula, bool adds) {
    const Part part = sequence.part(0, owner, formula);
    Sums sums{n};
    for (std::size_t i = 0; i < n; ++i) {
      const Sums& from = which == 0 ? part.dq : part.gradients;
      const std::size_t place = which == 2 ? n + i : i;
      sums.add(i, from.value[place], from.size[place]);
      if (adds) sums.add(i, before[at(which) * n + i], std::abs(before[at(which) * n + i]));
    }
    return sums;
  };
  const auto is = [&](int which, Formula formula, bool adds = true) {
    return is_close(found.subspan(at(which) * n, n), expected(which, formula, adds), tolerance);
  };
  for (const int which : {2, 0, 1}) {
    if (is(which, Formula::right)) continue;
    const char* name = which == 0 ? "dq" : which == 1 ? "dkey" : "dvalue";
    std::string why =
        which == 2
            ? "The gradient of a value is the sum of p dy over the queries, with p = exp(score - "
              "lse). Values are behind the keys in a block, and so are their gradients."
        : which == 0
            ? "dvalue is right, so p is. dq is the sum of ds key over the block's keys, with ds = "
              "p (dp - D) and dp = dy · value."
            : "dvalue and dq are right, so p and ds are. dkey is the sum of ds query over this "
              "rank's queries.";
    if (is(which, Formula::right, false))
      why =
          "This is the block's part alone, without what was there before. Each block contributes "
          "to the same dq: add to it, and to the gradients.";
    else if (is(which, Formula::softmax_of_block))
      why =
          "Here p is a softmax over the keys of this block. The keys of all blocks share the "
          "probability 1: p = exp(score - lse) with the lse of all keys, from the forward pass.";
    else if (which != 2 && is(which, Formula::without_D))
      why =
          "Here ds = p dp, without D. A probability that grows takes from all others: D, the mean "
          "of dp weighted with p, is subtracted from dp.";
    else if (which != 2 && is(which, Formula::without_p))
      why = "Here ds = dp - D, without the factor p.";
    return {fmt::format("{}: {} was [{}] before, and should be [{}]; it is [{}]", what, name,
                        list(before.subspan(at(which) * n, n)),
                        text_of(expected(which, Formula::right, true), 0, n),
                        list(found.subspan(at(which) * n, n))),
            why};
  }
  return {what, ""};
}

/// The attention of rank 0's queries to the block of one of two ranks. Its D is exact.
void check_block(Check& check, std::size_t c, std::size_t d) {
  const Sequence sequence{check, {2, c, d}};
  const int owner = check.number_from(0, 1);
  const std::string what =
      fmt::format("attend_backward() of {} with {} each, and one of two blocks",
                  count_of(static_cast<std::int64_t>(c), "query", "queries"),
                  count_of(static_cast<std::int64_t>(d), "feature"));
  std::vector<float> before(3 * c * d), D(c);
  for (float& each : before) each = static_cast<float>(check.number_from(1, 9));
  for (std::size_t i = 0; i < c; ++i) D[i] = static_cast<float>(sequence.D(0, i));
  const Outcome outcome = check.run(
      what, 1,
      [&](World&) {
        const std::vector<float> block = sequence.blocks[at(owner)];  // so that its end is known
        std::vector<float> dq(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(c * d));
        std::vector<float> gradients(before.begin() + static_cast<std::ptrdiff_t>(c * d),
                                     before.end());
        attend_backward(sequence.queries(0), D, block, dq, gradients);
        dq.insert(dq.end(), gradients.begin(), gradients.end());
        return dq;
      },
      [](const Failure&) { return ""; });
  const std::span<const float> found = outcome.results[0];
  const Part part = sequence.part(0, owner);
  Sums dq = part.dq, gradients = part.gradients;
  for (std::size_t i = 0; i < before.size(); ++i)
    (i < c * d ? dq : gradients).add(i < c * d ? i : i - c * d, before[i], before[i]);
  if (!is_close(found.first(c * d), dq, sequence.tolerance()) ||
      !is_close(found.subspan(c * d), gradients, sequence.tolerance()))
    throw why_not_part(sequence, owner, found, before, what);
}

// --- The ring ------------------------------------------------------------------------------------

std::string diagnose_failure(const Failure& failure) {
  if (failure.deadlock && failure.receives == 0)
    return "Every rank waits for its send to end before it receives. A send ends only when the "
           "receiver takes the message: start both, and wait for both later.";
  if (failure.waits_for_finished)
    return "One rank has finished while its neighbour still sends to it or waits for it: every "
           "rank sends and receives equally many messages.";
  return "In each round every rank sends to one neighbour and receives as much from the other. "
         "Messages between two ranks arrive in the order in which they were sent, so both ranks "
         "must have keys and gradients in the same order.";
}

/// attend() of one rank: checks its arguments, and calls the answer.
void attend(const Sequence& sequence, World& world, std::vector<int>& seen,
            std::span<const float> D, std::span<const float> keys_values, std::span<float> dq,
            std::span<float> gradients) {
  const Uncounted uncounted;
  const auto& [N, c, d] = sequence.sizes;
  const int r = world.rank();
  const std::size_t block = sequence.sizes.block();
  if (D.size() != c || keys_values.size() != block || dq.size() != c * d ||
      gradients.size() != block)
    throw Wrong{fmt::format("attend() is called with {}, {}, {} and {} numbers, and should be with "
                            "{}, {}, {} and {}",
                            D.size(), keys_values.size(), dq.size(), gradients.size(), c, block,
                            c * d, block),
                "It takes D of this rank's queries and one rank's block of keys and values, and "
                "adds to dq and to the gradients of that block."};
  for (std::size_t i = 0; i < c; ++i) {
    double size = 0;
    for (std::size_t k = 0; k < d; ++k)
      size += std::abs(sequence.y[at(r)][i * d + k] * sequence.dy[at(r)][i * d + k]);
    if (std::abs(D[i] - sequence.D(r, i)) <= 0x1p-23 * static_cast<double>(d + 2) * size) continue;
    throw Wrong{fmt::format("on rank {}, D of query {} should be {:.5g}, and is {:.5g}", r, i,
                            sequence.D(r, i), D[i]),
                "D is the dot product of the query's rows of y and dy. It is the same for all "
                "blocks, because y is the result over all keys."};
  }
  const int owner = sequence.owner(keys_values);
  if (owner < 0)
    throw Wrong{fmt::format("rank {} computes with [{}], which is not the block of any rank", r,
                            list(keys_values)),
                "Either the block has not arrived completely, or something else has been received "
                "into its buffer. Wait for a message before you use it, and for your own send "
                "before you overwrite what it sends. Messages between two ranks arrive in the "
                "order in which they were sent: keys and gradients of one size can be mistaken for "
                "each other."};
  ++seen[at(owner)];
  world.compute(fmt::format("K{}", owner), sequence.sizes.T());
  attend_backward(sequence.queries(r), D, keys_values, dq, gradients);
}

void check_seen(const std::vector<int>& seen, int r) {
  const int most = *std::ranges::max_element(seen);
  if (most > 1 && seen[at(r)] == std::ssize(seen))
    throw Wrong{fmt::format("rank {} has called attend() {} times, each time with its own keys and "
                            "values",
                            r, most),
                "The gradients are those of attention to all keys, so each round takes the keys "
                "and values that have arrived, not the rank's own again."};
  for (std::size_t owner = 0; owner < seen.size(); ++owner) {
    if (most > 1 ? seen[owner] < 2 : seen[owner] == 1) continue;
    throw Wrong{fmt::format("rank {} has called attend() {} with the keys and values of rank {}, "
                            "instead of once",
                            r, count_of(seen[owner], "time"), owner),
                most > 1 ? "One round for each block is enough, and a block is passed on as it was "
                           "received: in the next round, a rank computes with the block that has "
                           "arrived, and sends that one on."
                         : "Each rank computes with all N blocks, and with each by attend(), which "
                           "calls your attend_backward(). The block that arrives last is not "
                           "passed on, but computed with."};
  }
}

/// Explains why `found` is not the gradient of the block of rank r. parts[i][j]: queries of rank i,
/// block j.
std::string why_not_gradients(const std::vector<std::vector<Part>>& parts, int r,
                              std::span<const float> found, double tolerance) {
  const int N = static_cast<int>(parts.size());
  if (std::ranges::all_of(found, [](float each) { return each == 0; }))
    return "Nothing was written there. The sums must arrive at the rank whose keys and values "
           "they belong to.";
  Sums of_all_blocks{found.size()};
  for (int j = 0; j < N; ++j) of_all_blocks += parts[at(r)][at(j)].gradients;
  if (is_close(found, of_all_blocks, tolerance))
    return "These are the gradients of all blocks by this rank's queries, added up: blocks have "
           "travelled, and the sums have not. A block's sums must travel with the block, to all "
           "ranks whose queries contribute to them.";
  Sums twice = parts[at(r)][at(r)].gradients;
  for (int i = 0; i < N; ++i) twice += parts[at(i)][at(r)].gradients;
  if (is_close(found, twice, tolerance))
    return "The part of the rank's own queries is counted twice.";
  // The contributions of some ranks' queries to one block's gradients.
  for (int k = 0; k < N; ++k) {
    const int owner = (r + k) % N;
    for (unsigned set = (1U << N) - 1; set > 0; --set) {
      Sums sum{found.size()};
      std::vector<int> ranks;
      for (int i = 0; i < N; ++i)
        if ((set >> i & 1U) != 0) {
          sum += parts[at(i)][at(owner)].gradients;
          ranks.push_back(i);
        }
      if (!is_close(found, sum, tolerance)) continue;
      const bool is_whole = static_cast<int>(ranks.size()) == N;
      if (owner == r)
        return fmt::format(
            "This contains only what the queries of {} {} contribute. The sum is "
            "over the queries of all ranks.",
            ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
      return fmt::format(
          "These are gradients of the keys and values of rank {}{}. {}", owner,
          is_whole ? ""
                   : fmt::format(", by the queries of {} {} only",
                                 ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", ")),
          "After the last of N rounds, the sums are on the neighbour of their owner: one more hop "
          "returns them.");
    }
  }
  return "The gradient of a block is the sum of what the queries of each rank contribute, each "
         "once. Does something of another block remain in a buffer to which attend() adds, or is "
         "a buffer used before its message has arrived?";
}

void check_costs(const std::string& what, const Case& sizes, const Outcome& outcome) {
  const int N = sizes.N;
  const auto block = 4 * static_cast<std::int64_t>(sizes.block());
  const auto statistics = 4 * static_cast<std::int64_t>(sizes.c);
  check_ring(what, outcome);
  for (int r = 0; r < N; ++r) {
    const std::int64_t sent = outcome.bytes_sent[at(r)], most = N == 1 ? 0 : (2 * N - 1) * block;
    if (sent > most)
      throw Wrong{
          fmt::format("{}: rank {} sends {} B, and {}", what, r, sent,
                      N == 1 ? "a single rank has nothing to send"
                             : fmt::format("N - 1 blocks of keys and values and N of gradients are "
                                           "{} B",
                                           most)),
          sent == most + block && N > 1
              ? "The result is right, but one block too many is sent. The sums return to their "
                "owner with the last hop; the keys and values need not."
              : "The result is right, but too much is sent. In each round but the last, a block of "
                "keys and values moves on, and in each round the sums of one block."};
    const std::int64_t held = outcome.peak_bytes[at(r)];
    if (held > 5 * block + statistics)
      throw Wrong{fmt::format("{}: rank {} holds {} B at a time, and five blocks and D are {} B (a "
                              "block is {} B)",
                              what, r, held, 5 * block + statistics, block),
                  "The result is right, but the point of the ring is memory. A rank needs the keys "
                  "and values that it computes with and those that arrive; and of the gradients, "
                  "the part that it computes, the sums that arrive, and those that it sends."};
  }
  const double T = sizes.T(), H = sizes.hop(), best = N == 1 ? T : N * T + H;
  if (outcome.microseconds > best + 1e-6) {
    std::string picture = draw(outcome.rows).text;
    while (picture.ends_with('\n')) picture.pop_back();
    throw Wrong{
        fmt::format("{}: takes {:.3f} µs. With a hop of {:.3f} µs and T = {:.3f} µs, {:.3f} µs are "
                    "enough\n\n{}",
                    what, outcome.microseconds, H, T, best, picture),
        "The result is right, but ranks wait for messages that could travel while they compute. A "
        "block of keys can leave before attend(). Its sums can't: they are ready only after it. So "
        "let them travel one step behind, during the next attend(), which writes to a part of its "
        "own, and add both afterwards."};
  }
  // D and the like need not be in Buffers.
  expect_in_buffers(what, outcome, sizes.c * sizes.d + sizes.c, "half a block and D are");
}

void check_one(Check& check, const Case& sizes) {
  const auto& [N, c, d] = sizes;
  const Sequence sequence{check, sizes};
  const std::string what = sizes.text();
  const Outcome outcome = check.run(
      what, N,
      [&](World& world) {
        const int r = world.rank();
        std::vector<int> seen(at(N));
        Buffer own = world.allocate(sequence.sizes.block());
        std::ranges::copy(sequence.blocks[at(r)], own.span().begin());
        std::vector<float> results(sequence.sizes.c * sequence.sizes.d);
        std::vector<float> gradients(sequence.sizes.block());
        const AttendBackward call =
            [&](std::span<const float> D, std::span<const float> keys_values, std::span<float> dq,
                std::span<float> its) { attend(sequence, world, seen, D, keys_values, dq, its); };
        {
          const OwnMemory counted{world};
          ring_attention_backward(world, call, sequence.queries(r), std::move(own), results,
                                  gradients);
        }
        check_seen(seen, r);
        results.insert(results.end(), gradients.begin(), gradients.end());
        return results;
      },
      diagnose_failure);

  std::vector<std::vector<Part>> parts(at(N));
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) parts[at(i)].push_back(sequence.part(i, j));
  const double tolerance = sequence.tolerance();
  for (int r = 0; r < N; ++r) {
    const auto found = std::span<const float>{outcome.results[at(r)]};
    Sums dq{c * d}, gradients{sizes.block()};
    for (int i = 0; i < N; ++i) {
      dq += parts[at(r)][at(i)].dq;
      gradients += parts[at(i)][at(r)].gradients;
    }
    if (!is_close(found.first(c * d), dq, tolerance)) {
      std::string why =
          "attend() was called once for each block. Each call adds a part to dq, which stays on "
          "this rank: is it always the same dq, and does nothing else write to it?";
      for (int i = 0; i < N; ++i)
        if (is_close(found.first(c * d), parts[at(r)][at(i)].dq, tolerance))
          why = fmt::format(
              "This is only the part that the keys of rank {} contribute. dq stays "
              "on its rank, and all blocks add to it.",
              i);
      throw Wrong{fmt::format("{}: dq of rank {} should be [{}], and is [{}]", what, r,
                              text_of(dq, 0, c * d), list(found.first(c * d))),
                  why};
    }
    if (!is_close(found.subspan(c * d), gradients, tolerance))
      throw Wrong{
          fmt::format("{}: the gradients of the keys and values of rank {} should be [{}], and are "
                      "[{}]",
                      what, r, text_of(gradients, 0, sizes.block()), list(found.subspan(c * d))),
          why_not_gradients(parts, r, found.subspan(c * d), tolerance)};
  }
  check_costs(what, sizes, outcome);
  if (N == 4 && c == 4 && check.picture().text.empty())
    check.show(
        "Your run on 4 ranks: K2 is the backward pass of the attention to the keys of rank 2. "
        "Below, keys leave when it begins, and sums when it ends.",
        draw(outcome.rows));
}

}  // namespace

void check(Check& check) {
  check_block(check, 1, 1);
  check_block(check, 1, 2);
  check_block(check, 2, 1);
  check_block(check, 3, 2);
  check_block(check, 5, 4);
  const Case cases[]{{2, 1, 1}, {1, 3, 2}, {2, 2, 1},   {3, 2, 2}, {4, 4, 4},
                     {8, 3, 5}, {5, 1, 3}, {4, 64, 32}, {11, 2, 1}};
  for (const Case& sizes : cases) check_one(check, sizes);
  for (int trial = 0; trial < 3; ++trial)
    check_one(check, {check.number_from(1, 7), static_cast<std::size_t>(check.number_from(1, 9)),
                      static_cast<std::size_t>(check.number_from(1, 4))});
}

}  // namespace lockstep::exercises
