#include "exercises/25_find_scaling/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "exercises/frame/check.h"

namespace lockstep::exercises {

const char* const learned =
    "Each mean is taken once: over samples by the loss, over microbatches either in the loss or "
    "after their sum, over ranks after the all-reduce. The test for all of them is a law: the same "
    "global batch has the same gradient, however it is divided into ranks and microbatches.";

namespace {

using Numbers = std::vector<double>;

/// The smallest positive number in f16.
constexpr double smallest_f16 = 0x1p-24;

/// A linear regression whose numbers are integer multiples of `unit`: targets and weights of about
/// 1e-8 have gradients of that magnitude.
struct Problem {
  Problem(Check& check, std::size_t n_, int samples_, double unit_)
      : n(n_), samples(samples_), unit(unit_) {
    const auto nonzero = [&](int most) {
      return check.number_from(1, most) * (check.number_from(0, 1) ? 1 : -1);
    };
    for (std::size_t i = 0; i < n; ++i) weights.push_back(unit * nonzero(3));
    for (int s = 0; s < samples; ++s) {
      inputs.emplace_back();
      for (std::size_t i = 0; i < n; ++i) inputs.back().push_back(nonzero(3));
      // Targets larger than any prediction, so that no gradient is 0 by chance.
      targets.push_back(unit * (10.0 * static_cast<double>(n) + check.number_from(0, 9)));
    }
    // Samples that point in similar directions, so that no mean is 0.
    for (auto& each : inputs) each[0] = std::abs(each[0]);
  }

  std::size_t n;
  int samples;
  double unit;
  Numbers weights, targets;
  std::vector<Numbers> inputs;

  /// The mean gradient over samples begin ... end - 1, with weights w.
  template <class Weights>
  Numbers gradient(const Weights& w, int begin, int end) const {
    Numbers mean(n);
    for (int s = begin; s < end; ++s) {
      const Numbers& x = inputs[at(s)];
      double error = -targets[at(s)];
      for (std::size_t i = 0; i < n; ++i) error += static_cast<double>(w[i]) * x[i];
      for (std::size_t i = 0; i < n; ++i) mean[i] += error * x[i] / (end - begin);
    }
    return mean;
  }
};

double norm_of(const Numbers& numbers) {
  double sum = 0;
  for (const double each : numbers) sum += each * each;
  return std::sqrt(sum);
}

Numbers scaled(Numbers numbers, double factor) {
  for (double& each : numbers) each *= factor;
  return numbers;
}

Numbers clipped(const Numbers& gradient, double max_norm) {
  const double norm = norm_of(gradient);
  return norm > max_norm ? scaled(gradient, max_norm / norm) : gradient;
}

struct Layout {
  int N, microbatches;
  std::string text() const {
    return fmt::format("{}, {} each", count_of(N, "rank"),
                       count_of(microbatches, "microbatch", "microbatches"));
  }
};

bool is_close(double found, double expected) {
  return std::abs(found - expected) <= 1e-4 * std::abs(expected);
}

/// Whether two vectors differ by little relative to their length.
bool are_close(const Numbers& found, const Numbers& expected) {
  Numbers difference = found;
  for (std::size_t i = 0; i < found.size(); ++i) difference[i] -= expected[i];
  return norm_of(difference) <= 1e-4 * norm_of(expected);
}

std::string diagnose_failure(const Failure&) {
  return "All ranks must call the same collectives, with the same sizes, in the same order.";
}

/// A run's results: for each step, the norm that rank 0 returned; and the weights at the end.
struct Trained {
  std::vector<double> norms;
  Numbers weights;
};

Trained train(Check& check, const std::string& what, const Problem& problem, const Layout& layout,
              const Settings& settings, int steps) {
  const auto& [N, microbatches] = layout;
  const int each = problem.samples / (N * microbatches);
  const Outcome outcome = check.run(
      what, N,
      [&](World& world) {
        std::vector<float> weights(problem.weights.begin(), problem.weights.end());
        std::vector<float> results;
        for (int step = 0; step < steps; ++step) {
          std::vector<int> runs(at(microbatches));
          const auto run_microbatch = [&](int m, float factor, std::span<float> gradient) {
            if (m < 0 || m >= microbatches)
              throw Wrong{fmt::format("microbatch {} was run", m),
                          fmt::format("The last one is microbatch {}.", microbatches - 1)};
            if (gradient.size() != problem.n)
              throw Wrong{fmt::format("a microbatch was given {} numbers for its gradient",
                                      gradient.size()),
                          "There are as many as weights."};
            expect_arrived("run_microbatch()", gradient);
            expect_free(world, "run_microbatch()", gradient);
            ++runs[at(m)];
            world.compute(fmt::format("B{}", m), 5);
            const int begin = (world.rank() * microbatches + m) * each;
            const Numbers mean = problem.gradient(weights, begin, begin + each);
            for (std::size_t i = 0; i < problem.n; ++i) {
              const double product = static_cast<double>(factor) * mean[i];
              // Only if the factor is the cause: with the loss scale, and divided by the number of
              // all microbatches, the gradient would not vanish.
              const double scaled_mean =
                  static_cast<double>(settings.loss_scale) * mean[i] / (N * microbatches);
              if (std::abs(product) < smallest_f16 && std::abs(scaled_mean) >= smallest_f16)
                throw Wrong{
                    fmt::format("with the factor {:g}, a gradient of {:.2g} becomes {:.2g}, "
                                "which is 0 in 16 bits",
                                factor, mean[i], product),
                    "The loss scale is there to keep small gradients from vanishing. It belongs "
                    "into the factor, and is taken out of the sum after the backward passes."};
              gradient[i] += static_cast<float>(product);
            }
          };
          results.push_back(train_step(world, settings, run_microbatch, weights));
          for (std::size_t m = 0; m < runs.size(); ++m)
            if (runs[m] != 1)
              throw Wrong{fmt::format("microbatch {} of rank {} was run {}", m, world.rank(),
                                      count_of(runs[m], "time")),
                          "Each rank runs each of its microbatches once."};
        }
        results.insert(results.end(), weights.begin(), weights.end());
        return results;
      },
      diagnose_failure);
  for (int r = 1; r < N; ++r)
    if (outcome.results[at(r)] != outcome.results[0])
      throw Wrong{fmt::format("{}: the norms and the weights of rank {} are [{}], those of rank 0 "
                              "are [{}]",
                              what, r, list(outcome.results[at(r)]), list(outcome.results[0])),
                  "The replicas have drifted apart: each rank must use the same gradient, that of "
                  "the global batch."};
  const std::int64_t sent = outcome.all_bytes_sent();
  const std::int64_t numbers = static_cast<std::int64_t>(problem.n) * steps;
  std::int64_t reduced = 0;  // numbers
  for (const Started& each_call : outcome.started[0])
    if (each_call.operation == "all_reduce")
      reduced += static_cast<std::int64_t>(each_call.numbers);
  // One more number per step if no rank has the whole sum: the norm is then summed from parts.
  const std::int64_t more = reduced < numbers ? steps : 0;
  if (sent > std::int64_t{4} * 2 * (N - 1) * (numbers + more) || reduced > numbers)
    throw Wrong{
        fmt::format("{}: the ranks send {} B and all-reduce {}. Once per step, the gradient "
                    "is {}, which takes {} B",
                    what, sent, count_of(reduced, "number"), count_of(numbers, "number"),
                    std::int64_t{4} * 2 * (N - 1) * numbers),
        "The gradient is accumulated on the rank and all-reduced once per step. The norm "
        "needs no message: after the all-reduce, all ranks have the same gradient."};
  expect_nothing_empty(what, outcome);
  const auto end_of_norms = outcome.results[0].begin() + steps;
  return {{outcome.results[0].begin(), end_of_norms}, {end_of_norms, outcome.results[0].end()}};
}

// --- How the gradient depends on the layout ------------------------------------------------------

constexpr int most_microbatches = 3;
constexpr int most_ranks_here = 4;

/// For each layout, the factor by which the gradient is too long, and, if they fit all layouts, the
/// powers of the numbers of ranks and microbatches and of the loss scale that make up this factor.
struct Ratios {
  std::vector<Layout> layouts;
  std::vector<double> ratios;
  double loss_scale;

  struct Powers {
    int ranks, microbatches, scale;
  };
  bool find(Powers& powers) const {
    for (powers.scale = -2; powers.scale <= 2; ++powers.scale)
      for (powers.ranks = -2; powers.ranks <= 2; ++powers.ranks)
        for (powers.microbatches = -2; powers.microbatches <= 2; ++powers.microbatches) {
          bool fits = true;
          for (std::size_t i = 0; i < layouts.size(); ++i)
            fits = fits &&
                   is_close(ratios[i], std::pow(layouts[i].N, powers.ranks) *
                                           std::pow(layouts[i].microbatches, powers.microbatches) *
                                           std::pow(loss_scale, powers.scale));
          if (fits) return true;
        }
    return false;
  }
};

std::string why_ratio(const Ratios& ratios) {
  Ratios::Powers powers{};
  if (!ratios.find(powers))
    return "The factor is none of the number of ranks, of microbatches, and the loss scale. Every "
           "microbatch of every rank must have the same weight in the mean, 1 / (their number).";
  std::vector<std::string> reasons;
  const auto times = [](int power) { return power == 1 ? "" : " twice"; };
  if (powers.microbatches < 0)
    reasons.push_back(
        "It is divided by the number of microbatches more than once, so it is right "
        "only for one microbatch. Follow a single microbatch's gradient through the "
        "program: where is it divided?");
  if (powers.microbatches > 0)
    reasons.push_back(
        fmt::format("It is too large by the number of microbatches{}: their gradients "
                    "are added, but the global batch's loss is their mean.",
                    times(powers.microbatches)));
  if (powers.ranks < 0) reasons.push_back("It is divided by the number of ranks more than once.");
  if (powers.ranks > 0)
    reasons.push_back(
        fmt::format("It is too large by the number of ranks{}: an all-reduce adds, "
                    "and nothing has made a mean of the sum.",
                    times(powers.ranks)));
  if (powers.scale < 0)
    reasons.push_back(
        "It is divided by the loss scale without having been multiplied by it, or "
        "more than once.");
  if (powers.scale > 0) reasons.push_back("The loss scale has not been taken out of it.");
  return fmt::format("{}", fmt::join(reasons, " "));
}

std::string table(const std::vector<Layout>& layouts, const Numbers& values) {
  std::string text = "          ";
  for (int m = 1; m <= most_microbatches; ++m)
    text += fmt::format("{:>17}", count_of(m, "microbatch", "microbatches"));
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    if (layouts[i].microbatches == 1)
      text += fmt::format("\n  {:<8}", count_of(layouts[i].N, "rank"));
    text += fmt::format("{:>17.5g}", values[i]);
  }
  return text;
}

/// One step in each layout, with the same samples and without clipping.
void check_layouts(Check& check) {
  const Problem problem{check, 3, 72, 1};  // for 1 to 4 ranks with 1 to 3 microbatches
  const Numbers gradient = problem.gradient(problem.weights, 0, problem.samples);
  const double norm = norm_of(gradient);
  std::vector<Layout> layouts;
  Numbers norms, norm_ratios, update_ratios;
  bool same_direction = true;
  for (int N = 1; N <= most_ranks_here; ++N)
    for (int microbatches = 1; microbatches <= most_microbatches; ++microbatches) {
      const Layout layout{N, microbatches};
      const Settings settings{microbatches, 256, 1e9F, 0.125F};
      const Trained step = train(check, layout.text() + ", one step", problem, layout, settings, 1);
      layouts.push_back(layout);
      norms.push_back(step.norms[0]);
      norm_ratios.push_back(step.norms[0] / norm);
      Numbers update(problem.n);
      for (std::size_t i = 0; i < problem.n; ++i)
        update[i] = (problem.weights[i] - step.weights[i]) / 0.125;
      update_ratios.push_back(norm_of(update) / norm);
      same_direction =
          same_direction && are_close(update, scaled(gradient, norm_of(update) / norm));
    }
  const auto all_1 = [](const Numbers& ratios) {
    return std::ranges::all_of(ratios, [](double each) { return is_close(each, 1); });
  };
  if (!all_1(norm_ratios))
    throw Wrong{
        fmt::format("the norm of the gradient of the same {} samples is {:.6g}, however "
                    "they are divided into ranks and microbatches; train_step returns\n\n{}",
                    problem.samples, norm, table(layouts, norms)),
        why_ratio({layouts, norm_ratios, 256})};
  if (std::ranges::all_of(update_ratios, [&](double each) { return is_close(each * norm, 1e9); }))
    throw Wrong{fmt::format("max_norm is {:g}, the gradient's norm is {:.6g}, and the update is as "
                            "long as max_norm (before the learning rate)",
                            1e9, norm),
                "Only a gradient that is longer than max_norm is multiplied by max_norm / norm. A "
                "shorter one stays as it is."};
  if (!all_1(update_ratios))
    throw Wrong{
        fmt::format("the norms are right, but the weights change this many times as much as "
                    "they should:\n\n{}",
                    table(layouts, update_ratios)),
        why_ratio({layouts, update_ratios, 256})};
  if (!same_direction)
    throw Wrong{"the norm of the gradient is right, but not its direction",
                "All gradients must be multiplied by the same factor."};
  check.show(fmt::format("The norm of the gradient of the same {} samples in each layout: without "
                         "the bug, it does not depend on the layout.",
                         problem.samples),
             table(layouts, norms));
}

/// One step whose gradient is too long.
void check_clipping(Check& check, const Layout& layout) {
  const Problem problem{check, 2, 12, 1};
  const Numbers gradient = problem.gradient(problem.weights, 0, problem.samples);
  const double norm = norm_of(gradient);
  const auto max_norm = static_cast<float>(norm / 5);
  const double limit = static_cast<double>(max_norm);
  const Settings settings{layout.microbatches, 64, max_norm, 0.125F};
  const std::string what = layout.text() + fmt::format(", and a max_norm of {:.6g}", limit);
  const Trained step = train(check, what, problem, layout, settings, 1);
  Numbers update(problem.n);
  for (std::size_t i = 0; i < problem.n; ++i)
    update[i] = (problem.weights[i] - step.weights[i]) / 0.125;
  const bool norm_is_right = is_close(step.norms[0], norm);
  if (norm_is_right && are_close(update, scaled(gradient, limit / norm))) return;

  Numbers by_rank(problem.n);
  const int each = problem.samples / layout.N;
  for (int r = 0; r < layout.N; ++r) {
    const Numbers local =
        clipped(problem.gradient(problem.weights, r * each, (r + 1) * each), limit);
    for (std::size_t i = 0; i < problem.n; ++i) by_rank[i] += local[i] / layout.N;
  }
  std::string why =
      "Clipping changes the update, not the norm that is returned: it comes after everything else "
      "that scales the gradient, and multiplies by max_norm / norm if the norm is larger.";
  const double length = norm_of(update);
  if (is_close(length, norm))
    why = "The gradient has not been clipped.";
  else if (layout.N > 1 && are_close(update, by_rank))
    why =
        "Each rank has clipped its own gradient, and then they were averaged. Only the gradient "
        "of the global batch has the norm that is limited.";
  else if (is_close(length, limit / 64))
    why =
        "The gradient was clipped before the loss scale was taken out of it: the limit is for "
        "the gradient itself.";
  else if (is_close(length, limit) && is_close(step.norms[0], limit))
    why =
        "The norm that is returned is that of the clipped gradient. A log needs the norm before "
        "clipping: afterwards, it is always max_norm.";
  throw Wrong{fmt::format("{}: the gradient's norm is {:.6g}, and {:.6g} was returned; the update "
                          "should be {:.6g} long (before the learning rate), and is {:.6g}",
                          what, norm, step.norms[0], limit, length),
              why};
}

/// Some steps, of which the first ones are clipped.
void check_training(Check& check, const Layout& layout, double unit, float loss_scale) {
  const Problem problem{check, 2, 12, unit};
  constexpr int steps = 8;
  const double first = norm_of(problem.gradient(problem.weights, 0, problem.samples));
  const Settings settings{layout.microbatches, loss_scale, static_cast<float>(first / 2), 0.03125F};
  const std::string what =
      layout.text() + fmt::format(", {} steps, loss scale {:g}", steps, loss_scale);
  const Trained trained = train(check, what, problem, layout, settings, steps);
  Numbers weights = problem.weights;
  for (int step = 0; step < steps; ++step) {
    const Numbers gradient = problem.gradient(weights, 0, problem.samples);
    const double found = trained.norms[at(step)];
    if (!is_close(found, norm_of(gradient)))
      throw Wrong{fmt::format("{}: in step {}, the norm should be {:.6g}, and is {:.6g}", what,
                              step, norm_of(gradient), found),
                  "Single steps were right. Does something of a step remain in the next one? "
                  "Weights change only by the learning rate times the clipped gradient."};
    const Numbers update = clipped(gradient, static_cast<double>(settings.max_norm));
    for (std::size_t i = 0; i < problem.n; ++i) weights[i] -= 0.03125 * update[i];
  }
  if (!are_close(trained.weights, weights))
    throw Wrong{fmt::format("{}: the weights have become {:.6g} long, and should be {:.6g}", what,
                            norm_of(trained.weights), norm_of(weights)),
                "The norms of all steps were right, but not the last update."};
}

}  // namespace

void check(Check& check) {
  check_layouts(check);
  for (const Layout& layout : {Layout{2, 1}, {1, 1}, {1, 2}, {3, 2}}) check_clipping(check, layout);
  for (const Layout& layout : {Layout{1, 1}, {2, 3}, {6, 2}}) {
    check_training(check, layout, 1, 16);
    check_training(check, layout, 0x1p-30, 65536);
  }
}

}  // namespace lockstep::exercises
