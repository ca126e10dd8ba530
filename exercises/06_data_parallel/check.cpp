#include "exercises/06_data_parallel/task.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "exercises/frame/check.h"

namespace lockstep::exercises {

const char* const learned =
    "Sums over samples can be added, over microbatches and over ranks, and one division at the end "
    "makes them a mean. Accumulating on the rank costs no messages: one all-reduce per step.";

namespace {

constexpr double microseconds_per_microbatch = 3;

using Exact = std::vector<double>;

/// The mean gradients and the numbers of samples, by rank and microbatch.
struct Batch {
  int N, microbatches;
  std::size_t n;
  std::vector<std::vector<std::vector<float>>> means;
  std::vector<std::vector<int>> samples;
  /// The contents of `gradient` before the call, by rank: numbers, or what memory may contain.
  std::vector<std::vector<float>> before;

  Batch(Check& check, int N_, int microbatches_, std::size_t n_, bool equal)
      : N(N_), microbatches(microbatches_), n(n_) {
    for (int r = 0; r < N; ++r) {
      before.push_back(check.numbers(n));
      means.emplace_back();
      samples.emplace_back();
      for (int m = 0; m < microbatches; ++m) {
        means.back().push_back(check.numbers(n));
        samples.back().push_back(equal ? 2 : check.number_from(1, 4));
      }
    }
    if (equal) return;
    samples[0][0] = 5;  // so that they are never all the same
    for (auto& each : before) each.back() = std::numeric_limits<float>::quiet_NaN();
  }

  std::string describe() const {
    std::string text;
    for (int r = 0; r < N; ++r) {
      text += fmt::format("\n  rank {}", r);
      for (int m = 0; m < microbatches; ++m)
        text += fmt::format("   {} with mean [{}]", count_of(samples[at(r)][at(m)], "sample"),
                            list(means[at(r)][at(m)]));
    }
    return text;
  }

  int samples_of(int r) const {
    const auto& all = samples[at(r)];
    return std::accumulate(all.begin(), all.end(), 0);
  }
  int all_samples() const {
    int sum = 0;
    for (int r = 0; r < N; ++r) sum += samples_of(r);
    return sum;
  }
  /// Returns the sum over ranks and microbatches of the means times weight(rank, microbatch).
  template <class Weight>
  Exact sum(Weight weight) const {
    Exact all(n);
    for (int r = 0; r < N; ++r)
      for (int m = 0; m < microbatches; ++m)
        for (std::size_t i = 0; i < n; ++i) {
          const auto row = at(r), column = at(m);
          all[i] += weight(r, m) * static_cast<double>(means[row][column][i]);
        }
    return all;
  }
  double samples_at(int r, int m) const { return samples[at(r)][at(m)]; }
};

/// All numbers are below 1e4, unless the answer has left out a division. A mean is rounded a few
/// times.
bool is_close(std::span<const float> found, const Exact& expected, double factor = 1) {
  if (found.size() != expected.size()) return false;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double right = factor * expected[i];
    if (!(std::abs(static_cast<double>(found[i]) - right) <= 1e-5 * (1e4 + std::abs(right))))
      return false;
  }
  return true;
}

std::string diagnose_mean(const Batch& batch, int r, const std::vector<float>& found) {
  const double all = batch.all_samples(), own = batch.samples_of(r);
  const int N = batch.N, last = batch.microbatches - 1;
  const Exact sum = batch.sum([&](int rank, int m) { return batch.samples_at(rank, m); });
  const Exact means = batch.sum([](int, int) { return 1.0; });
  if (is_close(found, sum)) return "This is the sum over all samples. It has not been divided.";
  if (is_close(found, sum, 1 / own) && N > 1)
    return fmt::format(
        "The sum over all ranks was divided by this rank's own samples, {:g} instead of {:g}. A "
        "rank knows only its own number of samples: the ranks must add up theirs, too.",
        own, all);
  if (is_close(found, sum, 1 / all / N) || is_close(found, sum, 1 / all / batch.microbatches))
    return "This was divided once too often. The sum over all samples, divided by the number of "
           "all samples, is the mean: the number of ranks and of microbatches is in it already.";
  if (is_close(found, means, 1.0 / N / batch.microbatches))
    return "This is the mean of the microbatches' means, in which a sample of a small microbatch "
           "counts more than one of a large microbatch. Weight each mean by its samples.";
  if (is_close(found, means) || is_close(found, means, 1.0 / N) ||
      is_close(found, means, 1.0 / batch.microbatches))
    return "These are the means of all microbatches, added up and not divided by the number of all "
           "microbatches, which would be right only for microbatches of the same size.";
  if (N > 1 && is_close(found, batch.sum([&](int rank, int m) {
        return batch.samples_at(rank, m) / batch.samples_of(rank) / N;
      })))
    return "This is the mean of the ranks' means, in which a sample counts more on a rank that has "
           "few. Add up sums over samples, and divide once, at the end.";
  const auto only = [&](auto is_in) {
    return batch.sum(
        [&](int rank, int m) { return is_in(rank, m) ? batch.samples_at(rank, m) : 0.0; });
  };
  const Exact local = only([&](int rank, int) { return rank == r; });
  if (N > 1 && (is_close(found, local) || is_close(found, local, 1 / own) ||
                is_close(found, local, 1 / all)))
    return "This contains only the rank's own samples. The ranks must all-reduce their sums, and "
           "an all-reduce is done when its Work's wait() returns.";
  if (batch.microbatches > 1) {
    const auto last_samples = [&](int rank) { return batch.samples_at(rank, last); };
    double all_last = 0;
    for (int rank = 0; rank < N; ++rank) all_last += last_samples(rank);
    const Exact final = only([&](int, int m) { return m == last; });
    const Exact final_means = batch.sum([&](int, int m) { return m == last ? 1.0 : 0.0; });
    if (is_close(found, final, 1 / all) || is_close(found, final, 1 / all_last) ||
        is_close(found, final) || is_close(found, final_means) ||
        is_close(found, final_means, 1.0 / N))
      return "Only the last microbatch is in this gradient. run_microbatch overwrites its "
             "argument: add what it gives to a sum that is kept elsewhere.";
  }
  if (std::ranges::any_of(found, [](float each) { return std::isnan(each); }))
    return "A number in `gradient` was not a number (NaN) before the call, and it still is: 0 "
           "times NaN is NaN, too. Overwrite what was there.";
  // With the numbers that `gradient` had before: weighted by samples, or a mean of means.
  Exact dirty = sum, dirty_means = means;
  for (std::size_t i = 0; i < dirty.size(); ++i) {
    dirty_means[i] /= batch.microbatches;
    for (const auto& before : batch.before) {
      dirty[i] += static_cast<double>(before[i]);
      dirty_means[i] += static_cast<double>(before[i]);
    }
  }
  if (is_close(found, dirty, 1 / all) || is_close(found, dirty_means, 1.0 / N))
    return "What was in `gradient` before has been added, too: start with zeros.";
  return "Multiply each microbatch's mean by its number of samples, add up over microbatches and "
         "ranks, and divide once by the number of all samples.";
}

void check_one(Check& check, int N, int microbatches, std::size_t n, bool equal) {
  const Batch batch{check, N, microbatches, n, equal};
  const std::string what = fmt::format("{}, {} each, {}, {}", count_of(N, "rank"),
                                       count_of(microbatches, "microbatch", "microbatches"),
                                       count_of(static_cast<std::int64_t>(n), "element"),
                                       equal ? "all of 2 samples" : "of different sizes");
  const Outcome outcome = check.run(
      what, N,
      [&](World& world) {
        const auto r = static_cast<std::size_t>(world.rank());
        std::vector<int> runs(at(microbatches));
        std::vector<float> gradient = batch.before[r];
        global_gradient(
            world, microbatches,
            [&](int microbatch, std::span<float> mean) {
              if (microbatch < 0 || microbatch >= microbatches)
                throw Wrong{fmt::format("microbatch {} of rank {} was run", microbatch, r),
                            fmt::format("The last microbatch is {}.", microbatches - 1)};
              if (mean.size() != n)
                throw Wrong{fmt::format("a microbatch's gradient has {} elements, and was given {}",
                                        n, mean.size()),
                            "It needs as much memory as `gradient` has."};
              expect_free(world, "run_microbatch()", mean);
              const auto m = at(microbatch);
              ++runs[m];
              world.compute(fmt::format("B{}", microbatch), microseconds_per_microbatch);
              std::ranges::copy(batch.means[r][m], mean.begin());
              return batch.samples[r][m];
            },
            gradient);
        for (std::size_t m = 0; m < runs.size(); ++m)
          if (runs[m] != 1)
            throw Wrong{
                fmt::format("microbatch {} of rank {} was run {}", m, r, count_of(runs[m], "time")),
                "Each rank runs each of its microbatches once."};
        return gradient;
      },
      diagnose_collectives);

  const Exact sum = batch.sum([&](int r, int m) { return batch.samples_at(r, m); });
  const double factor = 1.0 / batch.all_samples();
  for (int r = 0; r < N; ++r) {
    const std::vector<float>& found = outcome.results[at(r)];
    if (is_close(found, sum, factor)) continue;
    std::vector<float> expected;
    for (const double each : sum) expected.push_back(static_cast<float>(factor * each));
    throw Wrong{fmt::format("{}:{}\nThe global gradient is [{}], and rank {} has [{}]", what,
                            batch.describe(), list(expected), r, list(found)),
                diagnose_mean(batch, r, found)};
  }
  std::int64_t sent = 0;
  for (const std::int64_t each : outcome.bytes_sent) sent += each;
  const auto numbers = static_cast<std::int64_t>(n) + 1;
  const std::int64_t most = 4 * 2 * (N - 1) * numbers;
  if (sent > most)
    throw Wrong{
        fmt::format("{}: the ranks have sent {} B, and all-reducing {} numbers takes {} B", what,
                    sent, numbers, most),
        sent >= 4 * 2 * (N - 1) * microbatches * (numbers - 1) && microbatches > 1
            ? "The gradient is right, but it was all-reduced for every microbatch. Add up the "
              "microbatches on the rank, and all-reduce once per step."
            : "The gradient is right, but the ranks send more than they need: the n gradients and "
              "the number of samples, each all-reduced once."};
  // Two all-reduces: one of the gradients and one of the number of samples.
  for (int r = 0; r < N; ++r)
    if (const std::int64_t messages = outcome.messages_sent[at(r)]; messages > 4 * (N - 1))
      throw Wrong{fmt::format("{}: rank {} has sent {}, and two all-reduces take {}", what, r,
                              count_of(messages, "message"), 4 * (N - 1)),
                  "The gradient is right, but there are too many messages. Each costs a latency: "
                  "all-reduce all gradients at once, with the number of samples or before it."};
  for (int r = 0; r < N; ++r)
    for (const Started& each : outcome.started[at(r)])
      if (each.numbers == 0 && each.operation == "all_reduce")
        throw Wrong{fmt::format("{}: rank {}'s {} has no numbers", what, r, each.where),
                    "The gradient is right, but an empty all-reduce has 2 (N - 1) messages, too, "
                    "each with its latency."};
  const auto all_reduce_time = [&](std::int64_t count) {
    return 2 * (N - 1) * (1 + 0.004 * static_cast<double>((count + N - 1) / N));
  };
  const double longest = microbatches * microseconds_per_microbatch + all_reduce_time(numbers - 1) +
                         all_reduce_time(1);
  if (outcome.microseconds > longest + 1e-6)
    throw Wrong{fmt::format("{}: the step has taken {:.3f} µs, and should take at most {:.3f} µs",
                            what, outcome.microseconds, longest),
                "The gradient and the number of messages are right, but the ranks wait for each "
                "other for longer than in a ring, in which each sends and receives an N-th of the "
                "numbers at the same time."};
  if (N == 4)
    check.show(
        "Your run on 4 ranks: three backward passes, and then, once, the messages of an "
        "all-reduce.",
        draw(outcome.rows));
}

}  // namespace

void check(Check& check) {
  for (const bool equal : {true, false}) {
    if (equal) check_one(check, 2, 1, 1, equal);
    check_one(check, 2, 2, 2, equal);
    check_one(check, 1, 3, 2, equal);
    check_one(check, 3, 2, 4, equal);
    check_one(check, 4, 3, 5, equal);
    check_one(check, 8, 4, 25, equal);
    check_one(check, 12, 7, 20, equal);
  }
}

}  // namespace lockstep::exercises
