#include "exercises/12_vocab_cross_entropy/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "exercises/frame/check.h"

namespace lockstep::exercises {

const char* const learned =
    "Three numbers per position replace a row of logits: a maximum, a sum and one logit. Whatever "
    "is a maximum or a sum over the vocabulary can be computed where the vocabulary's parts are.";

/// A ring, as in an all-reduce that computes sums.
void all_reduce_max(World& ranks, std::span<float> data, Where where) {
  const int N = ranks.size(), rank = ranks.rank();
  std::vector<float> arrived(data.size());
  for (int k = 0; k < N - 1; ++k) {
    const std::span<float> out = chunk(data, (rank - 1 - k + 2 * N) % N, N);
    const std::span<float> largest = chunk(data, (rank - 2 - k + 2 * N) % N, N);
    const std::span<float> in = std::span{arrived}.first(largest.size());
    Work sent = out.empty() ? Work{} : ranks.send(out, (rank + 1) % N, where);
    if (!in.empty()) ranks.receive(in, (rank + N - 1) % N, where).wait();
    if (!out.empty()) sent.wait();
    for (std::size_t i = 0; i < in.size(); ++i) largest[i] = std::max(largest[i], in[i]);
  }
  all_gather(ranks, data, where).wait();
}

namespace {

struct Case {
  int N, positions, vocabulary;
  float least, most;  // of the logits
  bool edges;         // whether targets are the first and the last of each rank's tokens
};

/// Logits of all positions and the whole vocabulary.
struct Whole {
  Case sizes;
  Slice logits;
  std::vector<int> targets;
  double tolerance;  // f32 has 24 bits for numbers as large as the logits
};

int first_of(int vocabulary, int r, int N) {
  return r * (vocabulary / N) + std::min(r, vocabulary % N);
}

Slice slice_of(const Slice& all, int r, int N) {
  const int first = first_of(all.columns, r, N);
  Slice part{all.positions, first, first_of(all.columns, r + 1, N) - first};
  for (int p = 0; p < part.positions; ++p)
    for (int v = 0; v < part.columns; ++v) part(p, v) = all(p, first + v);
  return part;
}

double largest_of(const Slice& part, int p) {
  double largest = -HUGE_VAL;
  for (int v = 0; v < part.columns; ++v) largest = std::max<double>(largest, part(p, v));
  return largest;
}

/// Σ exp(z - m) over a slice's logits.
double sum_of(const Slice& part, int p, double m) {
  double sum = 0;
  for (int v = 0; v < part.columns; ++v) sum += std::exp(part(p, v) - m);
  return sum;
}

double loss_of(const Whole& whole, int p) {
  const double m = largest_of(whole.logits, p);
  return std::log(sum_of(whole.logits, p, m)) + m - whole.logits(p, whole.targets[p]);
}

std::string diagnose_failure(const Failure&) {
  return "All ranks must call the same collectives with the same number of elements in the same "
         "order, even a rank that has no columns, or no target.";
}

/// Explains why `found` is not the loss of position p on rank r. The loss on another rank may be
/// right.
std::string why_not_loss(const Whole& whole, int p, int r, double found, bool right_elsewhere) {
  const int N = whole.sizes.N, target = whole.targets[p];
  const Slice own = slice_of(whole.logits, r, N);
  const double m = largest_of(whole.logits, p), sum = sum_of(whole.logits, p, m);
  const double log_sum = std::log(sum) + m;
  const auto is = [&](double loss) { return std::abs(found - loss) <= whole.tolerance; };

  if (std::isinf(found) && found < 0)
    return fmt::format(
        "The sum of the exponentials was 0, and its logarithm is -inf. The row's largest logit is "
        "{:g}; subtract it from all, and one exponential is 1. (A maximum that starts with 0 never "
        "becomes negative.)",
        m);
  if (!std::isfinite(found))
    return m > 88
               ? fmt::format(
                     "The row's largest logit is {:g}, and its exponential overflows "
                     "f32. Subtract the largest logit of the whole row first.",
                     m)
               : "This is not finite: is a logarithm taken of something that is not positive, or "
                 "of a sum to which a rank without columns has contributed?";
  const bool no_logit = is(log_sum) || is(log_sum - m);
  if (no_logit && right_elsewhere)
    return fmt::format(
        "The target's logit is missing on this rank, which does not have the target: token {} is "
        "on another rank. Add it over the ranks, where all others contribute 0.",
        target);
  if (no_logit)
    return "This contains no logit for the target. The target's number counts in the whole "
           "vocabulary: its number within the slice is targets[p] - first, if the slice has it.";
  double of_slices = 0, same_column = 0, same_shifted = 0;
  for (int i = 0; i < N; ++i) {
    const Slice part = slice_of(whole.logits, i, N);
    if (part.columns > 0) of_slices += sum_of(part, p, largest_of(part, p));
    if (target < part.columns) {
      same_column += part(p, target);
      same_shifted += part(p, target) - m;
    }
  }
  if (is(log_sum - same_column) || is(log_sum - m - same_shifted))
    return fmt::format(
        "This contains the logit of column {} of each slice. The target's number counts in the "
        "whole vocabulary: its number within the slice is targets[p] - first, if the slice has it.",
        target);
  const double z = whole.logits(p, target);
  for (int i = 0; i < N; ++i) {
    const Slice part = slice_of(whole.logits, i, N);
    const double its = largest_of(part, p);
    if (is(std::log(of_slices) + its - z) || is(std::log(of_slices) + m - z))
      return "Each rank has subtracted its own slice's largest logit, so their sums of "
             "exponentials do not fit together. All must subtract the same number: the largest of "
             "the whole "
             "row, which needs an all-reduce.";
  }
  if (own.columns > 0 && is(std::log(sum_of(own, p, m)) + m - z))
    return "The sum of exponentials is over the whole vocabulary, and this is the sum of one "
           "slice: add those of all ranks.";
  if (is(loss_of(whole, p) / whole.sizes.positions) && whole.sizes.positions > 1)
    return "This is divided by the number of positions. Each position has its own loss.";
  return "The loss is log Σ exp(z) - z[target], with the sum over the whole vocabulary and the "
         "logit of the rank that has the target.";
}

std::string why_not_gradient(const Whole& whole, int p, int v, const Slice& own, double found) {
  const double m = largest_of(whole.logits, p), sum = sum_of(whole.logits, p, m);
  const double softmax = std::exp(own(p, v) - m) / sum;
  const int target = whole.targets[p];
  const bool is_target = own.first + v == target;
  const auto is = [&](double gradient) { return std::abs(found - gradient) <= 2e-6; };
  if (is_target && is(softmax))
    return "This is the softmax without the 1 at the target. The loss has -z[target], so the "
           "gradient is 1 less there. (The target's number counts in the whole vocabulary, and a "
           "rank's columns begin at `first`.)";
  if (!is_target && is(softmax - 1))
    return "1 is subtracted here, and this is not the target: the target's number counts in the "
           "whole vocabulary, and this rank's columns begin at `first`.";
  if (whole.sizes.positions > 1 && is((softmax - is_target) / whole.sizes.positions))
    return "This is divided by the number of positions, as in the gradient of their mean. Here, "
           "each position has its own loss.";
  if (is(std::exp(own(p, v) - m) / sum_of(own, p, m) - is_target))
    return "This softmax is of the rank's own slice: divide by the sum of exponentials over the "
           "whole vocabulary, which you have for the loss.";
  return "The gradient of a logit is exp(z) / Σ exp(z), with the sum over the whole vocabulary, "
         "and 1 less if it is the target's.";
}

Whole random_whole(Check& check, const Case& sizes) {
  const auto& [N, positions, vocabulary, least, most, edges] = sizes;
  Whole whole{sizes, Slice{positions, 0, vocabulary}, {}, 0};
  for (float& each : whole.logits.numbers)
    each = least + (most - least) * static_cast<float>(check.number_from(0, 9999)) / 9999;
  for (int p = 0; p < positions; ++p) {
    const int r = p / 2 % N, first = std::min(first_of(vocabulary, r, N), vocabulary - 1);
    whole.targets.push_back(!edges       ? check.number_from(0, vocabulary - 1)
                            : p % 2 == 0 ? first
                                         : std::max(first, first_of(vocabulary, r + 1, N) - 1));
  }
  whole.tolerance = 1e-5 + 5e-7 * std::max(std::abs(least), std::abs(most));
  return whole;
}

void check_results(const std::string& what, const Whole& whole, const Outcome& outcome) {
  const auto& [N, positions, vocabulary, least, most, edges] = whole.sizes;
  for (int p = 0; p < positions; ++p) {
    const double expected = loss_of(whole, p);
    const auto is_right = [&](const std::vector<float>& results) {
      return std::abs(results[p] - expected) <= whole.tolerance;
    };
    for (int r = 0; r < N; ++r)
      if (!is_right(outcome.results[r]))
        throw Wrong{
            fmt::format("{}: the loss of position {}, whose target is {}, should be {:.5g}, "
                        "and is {:.5g} on rank {}",
                        what, p, whole.targets[p], expected, outcome.results[r][p], r),
            why_not_loss(whole, p, r, outcome.results[r][p],
                         std::ranges::any_of(outcome.results, is_right))};
  }
  for (int r = 0; r < N; ++r) {
    const Slice own = slice_of(whole.logits, r, N);
    std::size_t at = positions;
    for (int p = 0; p < positions; ++p) {
      const double m = largest_of(whole.logits, p), sum = sum_of(whole.logits, p, m);
      for (int v = 0; v < own.columns; ++v, ++at) {
        const bool is_target = own.first + v == whole.targets[p];
        const double expected = std::exp(own(p, v) - m) / sum - (is_target ? 1 : 0);
        const double found = outcome.results[r][at];
        if (!(std::abs(found - expected) <= whole.tolerance))
          throw Wrong{fmt::format("{}: the gradient of position {} at column {} of rank {}, token "
                                  "{}, should be {:.5g}, and is {:.5g}; the target is {}",
                                  what, p, v, r, own.first + v, expected, found, whole.targets[p]),
                      why_not_gradient(whole, p, v, own, found)};
      }
    }
  }
}

void check_one(Check& check, const Case& sizes) {
  const auto& [N, positions, vocabulary, least, most, edges] = sizes;
  const Whole whole = random_whole(check, sizes);
  const std::string what =
      fmt::format("{}, {}, a vocabulary of {}, logits from {:g} to {:g}", count_of(N, "rank"),
                  count_of(positions, "position"), vocabulary, least, most);
  const Outcome outcome = check.run(
      what, N,
      [&](World& world) {
        const Slice own = slice_of(whole.logits, world.rank(), N);
        const Loss loss = cross_entropy(world, own, whole.targets);
        if (loss.losses.size() != whole.targets.size())
          throw Wrong{fmt::format("cross_entropy() has returned {}",
                                  count_of(static_cast<int>(loss.losses.size()), "loss", "losses")),
                      "There is one loss for each position."};
        if (loss.gradient.positions != own.positions || loss.gradient.columns != own.columns ||
            loss.gradient.numbers.size() != own.numbers.size())
          throw Wrong{fmt::format("cross_entropy() has returned a gradient of {} x {} numbers, and "
                                  "this rank has {} x {} logits",
                                  loss.gradient.positions, loss.gradient.columns, own.positions,
                                  own.columns),
                      "Each rank returns the gradient of its own logits."};
        std::vector<float> results = loss.losses;
        results.insert(results.end(), loss.gradient.numbers.begin(), loss.gradient.numbers.end());
        return results;
      },
      diagnose_failure);
  check_results(what, whole, outcome);

  // This allows gathering three numbers per position from each rank; three all-reduces send no
  // more.
  const std::int64_t most_bytes = std::int64_t{4} * 3 * positions * N * (N - 1);
  const std::int64_t sent = outcome.all_bytes_sent();
  if (sent > most_bytes)
    throw Wrong{fmt::format("{}: the ranks send {} B together, and three numbers of each rank for "
                            "each position are at most {} B",
                            what, sent, most_bytes),
                "Losses and gradients are right, but the ranks send more than three numbers per "
                "position. No rank needs the others' logits: it needs the largest, the sum of the "
                "exponentials, and the target's."};
  expect_nothing_empty(what, outcome);
  for (int r = 0; r < N; ++r)
    if (const std::int64_t messages = outcome.messages_sent[at(r)]; messages > 6 * (N - 1))
      throw Wrong{fmt::format("{}: rank {} sends {}, and three all-reduces have {}", what, r,
                              count_of(messages, "message"), 6 * (N - 1)),
                  "Losses and gradients are right, and so are the bytes, but there are too many "
                  "messages, each of which costs a latency. One all-reduce, or one gathering, is "
                  "enough for the same number of all positions."};
  if (N == 4 && positions == 8)
    check.show(fmt::format("Your run on 4 ranks: together they send {} B. To gather the rows of "
                           "logits, they would send {} B.",
                           sent, 4 * positions * (N - 1) * vocabulary),
               draw(outcome.rows));
}

}  // namespace

void check(Check& check) {
  // In the case with 4 ranks and 3 columns, the last rank has none.
  const Case cases[]{{2, 1, 4, -5, 5, false},          {2, 4, 5, -5, 5, true},
                     {3, 6, 7, -5, 5, true},           {1, 2, 5, -5, 5, false},
                     {4, 3, 3, -5, 5, false},          {2, 2, 40, -5, 5, false},
                     {2, 2, 6, -1'000, 10'000, false}, {3, 4, 6, 9'990, 10'000, true},
                     {3, 4, 6, -10'000, -9'990, true}, {4, 8, 50, -5, 5, true},
                     {8, 5, 50, -100, 100, false},     {11, 4, 30, -100, 100, true}};
  for (const Case& sizes : cases) check_one(check, sizes);
  for (int trial = 0; trial < 5; ++trial)
    check_one(check, {check.number_from(1, 8), check.number_from(1, 6), check.number_from(1, 40),
                      -5, 5, trial % 2 == 0});
}

}  // namespace lockstep::exercises
