#include "exercises/26_find_tied/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "exercises/frame/check.h"

namespace lockstep::exercises {

const char* const learned =
    "The gradient of a parameter is the sum over its uses, wherever they are. A tied weight on two "
    "ranks needs that sum on both, or its copies become two different weights.";

namespace {

constexpr int steps = 3;
constexpr double forward = 1, backward = 2;  // microseconds per pass in the given program

/// The model on one device, in f64.
struct Model {
  std::size_t width = 0;
  std::vector<double> table, weights;

  /// One training step. Counts the gradient of the lookup and that of the scores as many times as
  /// the arguments say.
  void train(int token, int target, double lookup = 1, double scores = 1) {
    const std::size_t from = at(token) * width;
    std::vector<double> gradient(table.size()), d_weights(weights.size());
    double product = 1;
    for (const double weight : weights) product *= weight;
    double d_product = 0;
    std::vector<double> d_x(width);
    for (std::size_t v = 0; v * width < table.size(); ++v) {
      double d_score = static_cast<int>(v) == target ? -1 : 0;
      for (std::size_t i = 0; i < width; ++i)
        d_score += table[v * width + i] * product * table[from + i];
      for (std::size_t i = 0; i < width; ++i) {
        d_x[i] += d_score * table[v * width + i];
        gradient[v * width + i] += scores * d_score * product * table[from + i];
      }
    }
    for (std::size_t i = 0; i < width; ++i) {
      d_product += d_x[i] * table[from + i];
      gradient[from + i] += lookup * product * d_x[i];
    }
    for (std::size_t w = 0; w < weights.size(); ++w)
      d_weights[w] = d_product * product / weights[w];
    for (std::size_t i = 0; i < table.size(); ++i) table[i] -= 0.1 * gradient[i];
    for (std::size_t w = 0; w < weights.size(); ++w) weights[w] -= 0.1 * d_weights[w];
  }
};

/// f32 rounds a few times per step, and all numbers are about 1.
bool is_close(float found, double expected) {
  return std::abs(static_cast<double>(found) - expected) < 1e-5 * (1 + std::abs(expected));
}
bool are_close(std::span<const float> found, const std::vector<double>& expected) {
  return std::ranges::equal(found, expected, is_close);
}

struct Case {
  int N;
  std::string what;
  Model start;
  std::vector<std::pair<int, int>> samples;  ///< by step: token and target

  Case(Check& check, int N_, int vocabulary, int width)
      : N(N_),
        what(fmt::format("{}, {} of {}", count_of(N, "rank"), count_of(vocabulary, "token"),
                         count_of(width, "number"))) {
    // Neither 0 nor small.
    const auto number = [&] {
      return (check.number_from(0, 1) == 0 ? -1 : 1) * check.number_from(200, 999) / 1000.0;
    };
    start.width = at(width);
    for (int i = 0; i < vocabulary * width; ++i)
      start.table.push_back(static_cast<float>(number()));
    for (int i = 0; i < N; ++i)
      start.weights.push_back(static_cast<float>(check.number_from(800, 1100) / 1000.0));
    for (int step = 0; step < steps; ++step)
      samples.emplace_back(check.number_from(0, vocabulary - 1),
                           check.number_from(0, vocabulary - 1));
  }
  Model after(int count) const {
    Model model = start;
    for (int step = 0; step < count; ++step)
      model.train(samples[at(step)].first, samples[at(step)].second);
    return model;
  }
};

/// What the ranks returned: for each step the table, if the rank has one, and the weight.
struct Run {
  const Case& each;
  const Outcome& outcome;

  std::span<const float> table(int rank, int step) const {
    const std::size_t size = each.start.table.size();
    return std::span{outcome.results[at(rank)]}.subspan(at(step - 1) * (size + 1), size);
  }
  float weight(int rank, int step) const {
    const auto& all = outcome.results[at(rank)];
    const std::size_t each_step = all.size() / steps;
    return all[at(step) * each_step - 1];
  }
  double difference(int step) const {
    double most = 0;
    const auto first = table(0, step), last = table(each.N - 1, step);
    for (std::size_t i = 0; i < first.size(); ++i) {
      const double difference =
          std::abs(static_cast<double>(first[i]) - static_cast<double>(last[i]));
      if (!(difference <= most)) most = difference;
      if (std::isnan(most)) return std::numeric_limits<double>::infinity();
    }
    return most;
  }
  /// The table on one device, and the copies of it, row by row.
  std::string picture(int step) const {
    const Model right = each.after(step);
    const std::size_t width = right.width;
    const auto numbers = [&](auto row) {
      std::string text;
      for (std::size_t i = 0; i < width; ++i)
        text += fmt::format(" {:7.4f}", static_cast<double>(row[i]));
      return text;
    };
    const std::size_t column = 8 * width;
    std::string text = fmt::format("\n{:10} {:<{}}   rank 0", "", "one device", column - 1);
    if (each.N > 1) text += fmt::format("{:{}}rank {}", "", column - 4, each.N - 1);
    for (std::size_t v = 0; v * width < right.table.size(); ++v) {
      text += fmt::format("\ntoken {:<2}  {}  {}", v,
                          numbers(right.table.begin() + static_cast<std::ptrdiff_t>(v * width)),
                          numbers(table(0, step).subspan(v * width)));
      if (each.N > 1) text += "  " + numbers(table(each.N - 1, step).subspan(v * width));
    }
    return text;
  }
  /// The ratio of the lengths of the table's step and of one device's step if they have the same
  /// direction; otherwise 1.
  double times(int step) const {
    const Model before = each.after(step - 1), right = each.after(step);
    const auto found = table(0, step);
    double ratio = 0, least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double due = right.table[i] - before.table[i];
      if (std::abs(due) < 1e-2) continue;
      const double times = (static_cast<double>(found[i]) - before.table[i]) / due;
      ratio = least == std::numeric_limits<double>::infinity() ? times : std::max(ratio, times);
      least = std::min(least, times);
    }
    return ratio - least < 1e-2 * std::abs(ratio) ? ratio : 1;
  }
  /// Returns whether rank `rank`'s copy, right until then, has been updated in this step with the
  /// gradients of its uses, each counted as many times as the arguments say.
  bool has(int rank, int step, double lookup, double scores) const {
    Model model = each.after(step - 1);
    const auto [token, target] = each.samples[at(step - 1)];
    model.train(token, target, lookup, scores);
    return are_close(table(rank, step), model.table);
  }
};

std::string diagnose_copies(const Run& run, int step) {
  const int last = run.each.N - 1;
  const bool differ = run.difference(step) > 0;
  const auto both = [&](double lookup, double scores) {
    return run.has(0, step, lookup, scores) && run.has(last, step, lookup, scores);
  };
  if (differ && run.has(0, step, 1, 0) && run.has(last, step, 0, 1))
    return "The copies were equal before this step. They have been updated with different "
           "gradients: which gradient does each of the two ranks know, and which does it need?";
  if (differ && run.has(0, step, 0, 1) && run.has(last, step, 1, 0))
    return "The ranks have swapped their gradients. Each must add the other's to its own.";
  if (differ && both(1, 1))
    return "Both copies contain the sum, and differ only by rounding: the two ranks have computed "
           "it in different ways. Bits are equal only if the arithmetic is: add the two gradients "
           "first, a + b or b + a, and subtract the result once.";
  if (last > 0 && (run.has(0, step, 1, 1) != run.has(last, step, 1, 1)))
    return fmt::format(
        "Rank {} has updated its copy with the sum of both gradients, and rank {} "
        "has not. Both ranks need the sum.",
        run.has(0, step, 1, 1) ? 0 : last, run.has(0, step, 1, 1) ? last : 0);
  if (both(0.5, 0.5))
    return "The copies are equal, but moved only half as far as they should: this is the average "
           "of the two gradients (or of the two tables). The gradient is the sum over both uses.";
  if (both(1, 0))
    return "The copies are equal, but the gradient of the scores, which the last rank knows, is "
           "lost: only that of the lookup was used.";
  if (both(0, 1))
    return "The copies are equal, but the gradient of the lookup, which rank 0 knows, is lost: "
           "only that of the scores was used.";
  if (both(2, 2))
    return "The sum over both uses was counted twice. A single rank knows both gradients already, "
           "and two ranks add each other's once.";
  if (differ)
    return "The copies of one weight must be updated with the same gradient: the sum over its two "
           "uses, of which each rank knows one.";
  if (const double times = run.times(step); std::abs(times - 1) > 1e-4)
    return fmt::format(
        "The copies are equal, but their step is {:.4g} times as long as it should be: 0.1 times "
        "the gradient, which is the sum over both uses.",
        times);
  return "The copies are equal, but not what one device gets. The gradient of the table is the sum "
         "over its two uses, each counted once.";
}

std::string diagnose(const Failure& failure) {
  if (failure.deadlock && failure.receives == 0)
    return "Each of these ranks waits for its send to end before it receives. A send ends only "
           "when the receiver takes the message: start the send and the receive, and only then "
           "wait for "
           "both.";
  return "Only the first and the last rank have a table and its gradient to exchange, and only if "
         "they are two. Look at who sends to whom: each message needs a receive of the same size.";
}

void check_time(const Case& each, const Outcome& outcome) {
  for (const Row& row : outcome.rows) {
    if (row.name.ends_with("to")) continue;
    double computed = 0;
    for (const Block& block : row.blocks)
      computed += static_cast<double>(block.end - block.start) * 1e-6;
    if (std::abs(computed - steps * (forward + backward)) > 1e-6)
      throw Wrong{fmt::format("{}: {} has computed for {:g} µs, and should for {:g} µs", each.what,
                              row.name, computed, steps * (forward + backward)),
                  "Leave the calls of world.compute() as they were: a forward pass of 1 µs and a "
                  "backward pass of 2 µs on each rank."};
  }
}

void check_one(Check& check, int N, int vocabulary, int width) {
  const Case each{check, N, vocabulary, width};
  const Outcome outcome = check.run(
      each.what, N,
      [&](World& world) {
        const auto r = static_cast<std::size_t>(world.rank());
        Stage stage;
        stage.width = width;
        if (world.rank() == 0 || world.rank() == N - 1)
          for (const double number : each.start.table)
            stage.table.push_back(static_cast<float>(number));
        stage.weight = static_cast<float>(each.start.weights[r]);
        const std::size_t size = stage.table.size();
        std::vector<float> all;
        for (const auto& [token, target] : each.samples) {
          train_step(world, stage, token, target);
          if (stage.table.size() != size)
            throw Wrong{fmt::format("the table of rank {} had {}, and now has {}", r,
                                    count_of(static_cast<std::int64_t>(size), "number"),
                                    stage.table.size()),
                        "The training step changes the numbers of a table, not its size."};
          all.insert(all.end(), stage.table.begin(), stage.table.end());
          all.push_back(stage.weight);
        }
        return all;
      },
      diagnose);

  const Run run{each, outcome};
  for (int step = 1; step <= steps; ++step) {
    const Model right = each.after(step);
    if (run.difference(step) > 0) {
      std::string what = fmt::format(
          "{}: after step {}, the two copies of the table differ:\n{}\n\nThe largest difference:",
          each.what, step, run.picture(step));
      for (int k = 1; k <= steps; ++k)
        what += fmt::format("{} {:.2g} after step {}", k == 1 ? "" : ",", run.difference(k), k);
      throw Wrong{what, diagnose_copies(run, step)};
    }
    if (!are_close(run.table(0, step), right.table))
      throw Wrong{fmt::format("{}: after step {}, the table is not that of one device:\n{}",
                              each.what, step, run.picture(step)),
                  diagnose_copies(run, step)};
    for (int r = 0; r < N; ++r)
      if (const double expected = right.weights[at(r)]; !is_close(run.weight(r, step), expected))
        throw Wrong{
            fmt::format("{}: after step {}, the weight of rank {} should be {:.5f}, and is "
                        "{:.5f}",
                        each.what, step, r, expected, run.weight(r, step)),
            "The tables are right, but this weight is not: it was right in the program that "
            "you were given."};
  }
  check_time(each, outcome);
  for (int r = 0; r < N; ++r) {
    const bool exchanges = N > 1 && (r == 0 || r == N - 1);
    const std::int64_t neighbours = (r > 0 ? 1 : 0) + (r < N - 1 ? 1 : 0);
    const std::int64_t most =
        4 * (neighbours * width + (exchanges ? std::int64_t{vocabulary} * width : 0));
    const std::int64_t sent = outcome.bytes_sent[at(r)] / steps;
    if (sent > most)
      throw Wrong{
          fmt::format("{}: rank {} sends {} B per step, and {} B are enough", each.what, r, sent,
                      most),
          exchanges ? "The tables are right, but this rank sends more than one table. Each of the "
                      "two knows one gradient, and it is enough to exchange these, once."
                    : "The tables are right. But this rank has no table, and nothing to do with "
                      "the exchange between the first and the last rank."};
  }
  if (N == 4 && vocabulary == 5)
    check.show(
        "Your three steps on 4 ranks: after each backward pass, ranks 0 and 3 exchange their "
        "gradients.",
        draw(outcome.rows));
}

}  // namespace

void check(Check& check) {
  // With two tokens, the gradients of both uses are the same if the tokens' rows are orthogonal.
  check_one(check, 2, 3, 2);
  check_one(check, 3, 3, 2);
  check_one(check, 1, 3, 2);
  check_one(check, 4, 5, 3);
  check_one(check, 8, 4, 1);
  check_one(check, 11, 3, 2);
  // Enough numbers that copies with different rounding differ somewhere.
  for (int trial = 0; trial < 12; ++trial) check_one(check, check.number_from(2, 8), 3, 3);
}

}  // namespace lockstep::exercises
