#include "exercises/24_find_collective/task.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "exercises/frame/check.h"

namespace lockstep::exercises {

const char* const learned =
    "Collectives are matched by the order in which ranks call them, and by nothing else. So no "
    "decision to call one may depend on what only this rank knows, such as its own samples.";

namespace {

using Weights = std::vector<std::vector<float>>;  ///< by expert

struct Case {
  std::vector<std::size_t> sizes;               ///< of the experts
  std::vector<std::vector<std::size_t>> ranks;  ///< by rank: the expert of each sample

  std::string name() const {
    std::string samples;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      samples +=
          fmt::format("{} {} {} [{}]", rank == 0 ? "; rank" : ", rank", rank,
                      rank == 0 ? "has samples of experts" : "of", fmt::join(ranks[rank], ", "));
    return fmt::format("experts with {} weights{}", fmt::join(sizes, " and "), samples);
  }
};

/// Returns the sum of x over the samples of this expert.
std::vector<float> sum_of(const std::vector<Sample>& samples, std::size_t expert,
                          std::size_t size) {
  std::vector<float> sum(size);
  for (const Sample& sample : samples)
    if (sample.expert == expert)
      for (std::size_t k = 0; k < size; ++k) sum[k] += sample.x[k];
  return sum;
}

std::vector<float> plus(std::vector<float> a, const std::vector<float>& b) {
  for (std::size_t k = 0; k < a.size(); ++k) a[k] += b[k];
  return a;
}

std::string diagnose(const Failure& failure) {
  if (failure.waits_for_finished)
    return "One rank calls more collectives than another, which has already ended its step. Count "
           "the calls of each rank.";
  return "The ranks of this message are in the same collective, but not with the same data: the "
         "first all-reduce of one rank meets the first one of the others, the second meets the "
         "second, and so on. Whose data is it on each rank?";
}

/// Whether `found` is `sum` divided by `count`, up to rounding. `found` is a difference of weights.
bool is_quotient(const std::vector<float>& found, const std::vector<float>& sum,
                 std::size_t count) {
  return std::ranges::equal(found, sum, [&](float a, float b) {
    const double quotient = static_cast<double>(b) / static_cast<double>(count);
    return std::abs(static_cast<double>(a) - quotient) <= 0.1;
  });
}

/// The number of this expert's samples in `samples`, those of one rank or of all ranks.
std::size_t samples_of(const std::vector<Sample>& samples, std::size_t expert) {
  return static_cast<std::size_t>(std::ranges::count(samples, expert, &Sample::expert));
}

/// If the gradient is a mean instead of a sum, says over which number; otherwise returns "".
std::string diagnose_mean(const std::vector<std::vector<Sample>>& samples, std::size_t rank,
                          std::size_t expert, const std::vector<float>& found) {
  const std::size_t size = found.size();
  std::vector<float> sum(size), means(size);
  std::size_t all = 0, with_samples = 0, of_expert = 0;
  for (const auto& each : samples) {
    const std::vector<float> own = sum_of(each, expert, size);
    const std::size_t count = samples_of(each, expert);
    sum = plus(sum, own);
    all += each.size();
    of_expert += count;
    if (count > 0) ++with_samples;
    for (std::size_t k = 0; k < size && count > 0; ++k)
      means[k] += own[k] / static_cast<float>(count);
  }
  if (std::ranges::all_of(sum, [](float each) { return std::abs(each) < 1; })) return "";
  const std::string rule =
      " The gradient is the sum over the samples: the loss is a sum, and nothing divides it.";
  // Several of these counts may be equal.
  std::vector<std::string> names;
  std::size_t divisor = 0;
  const auto try_count = [&](std::size_t count, const char* name) {
    if (count < 2 || !is_quotient(found, sum, count)) return;
    divisor = count;
    names.emplace_back(name);
  };
  try_count(samples.size(), "the ranks");
  try_count(with_samples, "the ranks that have samples of this expert");
  try_count(of_expert, "the samples of this expert");
  try_count(all, "all samples");
  try_count(samples[rank].size(), "this rank's samples");
  if (!names.empty())
    return fmt::format("This is the sum divided by {}, an average over {}.", divisor,
                       fmt::join(names, ", or over ")) +
           rule;
  if (of_expert > 1 && is_quotient(found, means, 1))
    return "This is the sum of the ranks' averages over their own samples of this expert." + rule;
  return "";
}

/// Says what a rank got instead of an expert's gradient.
std::string diagnose_sum(const Case& each, const std::vector<std::vector<Sample>>& samples,
                         std::size_t rank, std::size_t expert, const std::vector<float>& found,
                         bool changed_elsewhere) {
  const std::size_t size = each.sizes[expert];
  const std::vector<float> mine = sum_of(samples[rank], expert, size), none(size);
  const bool has_samples = std::ranges::count(each.ranks[rank], expert) > 0;
  if (found == none && has_samples)
    return fmt::format("Rank {} has samples of expert {}, but its weights are as before.", rank,
                       expert);
  if (found == none && changed_elsewhere)
    return fmt::format(
        "Rank {} has no sample of expert {}, and leaves the weights as they are. But other ranks "
        "have some, and change theirs: from now on the ranks train different models.",
        rank, expert);
  if (found == none)
    return fmt::format(
        "Rank {} has no sample of expert {}, but other ranks have some, and no rank has changed "
        "this expert's weights. If the ranks agree on which experts to leave out, then on those "
        "of which no rank has a sample.",
        rank, expert);
  std::vector<float> right(size), twice(size), opposite(size);
  for (const auto& each_rank : samples) right = plus(right, sum_of(each_rank, expert, size));
  for (std::size_t k = 0; k < size; ++k) twice[k] = 2 * right[k], opposite[k] = -right[k];
  if (found == opposite) return "The gradient has been added to the weights. It is subtracted.";
  if (found == twice) return "The gradient has been subtracted twice.";
  if (const std::string mean = diagnose_mean(samples, rank, expert, found); !mean.empty())
    return mean;
  if (samples.size() == 2) {
    const std::size_t other = 1 - rank;
    for (std::size_t with = 0; with < each.sizes.size(); ++with)
      if (with != expert && each.sizes[with] == size &&
          std::ranges::count(each.ranks[other], with) > 0 &&
          found == plus(mine, sum_of(samples[other], with, size)))
        return fmt::format(
            "What rank {} took for the gradient of expert {} is its own gradient of expert {} plus "
            "that of expert {} on rank {}. Both are of the same size, so no error has shown that "
            "they do not belong together. Which all-reduce does each rank call first?",
            rank, expert, expert, with, other);
  }
  if (found == mine && samples.size() > 1)
    return "This is the rank's own gradient: nothing was added to it.";
  for (std::size_t left_out = 0; left_out < samples.size(); ++left_out) {
    std::vector<float> rest(size);
    for (std::size_t other = 0; other < samples.size(); ++other)
      if (other != left_out) rest = plus(rest, sum_of(samples[other], expert, size));
    if (found == rest)
      return fmt::format("The samples of rank {} are missing in the gradient of expert {}.",
                         left_out, expert);
  }
  return "The gradient is the sum over the samples of this expert on all ranks, and nothing else. "
         "Has it met other numbers in an all-reduce?";
}

constexpr int steps = 2;

/// Throws Wrong unless the rank, which had the weights `before`, has the right ones after a step
/// with these samples. `weights` are those of all ranks after the step.
void check_weights(const Case& each, const std::vector<std::vector<Sample>>& samples,
                   const Weights& before, const std::vector<std::span<const float>>& weights,
                   std::size_t rank) {
  std::size_t begin = 0;
  for (std::size_t expert = 0; expert < each.sizes.size(); ++expert) {
    const std::size_t size = each.sizes[expert];
    const auto returned = [&](std::size_t from) {
      const auto part = weights[from].subspan(begin, size);
      return std::vector<float>(part.begin(), part.end());
    };
    std::vector<float> right(size), found(size), wanted(size);
    const std::vector<float> now = returned(rank);
    for (const auto& others : samples) right = plus(right, sum_of(others, expert, size));
    for (std::size_t k = 0; k < size; ++k) {
      found[k] = before[expert][k] - now[k];
      wanted[k] = before[expert][k] - right[k];
    }
    if (now != wanted) {
      bool changed_elsewhere = false;
      for (std::size_t other = 0; other < weights.size(); ++other)
        changed_elsewhere = changed_elsewhere || returned(other) != before[expert];
      throw Wrong{fmt::format("rank {} has the weights [{}] of expert {}, not [{}]", rank,
                              list(wanted), expert, list(now)),
                  diagnose_sum(each, samples, rank, expert, found, changed_elsewhere)};
    }
    begin += size;
  }
}

void check_one(Check& check, const Case& each, bool shown = false) {
  const std::size_t N = each.ranks.size();
  std::vector<Weights> before(1);  // by step; all ranks have the same
  for (const std::size_t size : each.sizes) before[0].push_back(check.numbers(size));
  std::vector<std::vector<std::vector<Sample>>> samples(steps);  // by step and rank
  for (auto& of_step : samples) {
    of_step.resize(N);
    for (std::size_t rank = 0; rank < N; ++rank)
      for (const std::size_t expert : each.ranks[rank])
        of_step[rank].push_back({expert, check.numbers(each.sizes[expert])});
    before.push_back(before.back());
    for (std::size_t expert = 0; expert < each.sizes.size(); ++expert)
      for (const auto& of_rank : of_step) {
        const auto sum = sum_of(of_rank, expert, each.sizes[expert]);
        for (std::size_t k = 0; k < sum.size(); ++k) before.back()[expert][k] -= sum[k];
      }
  }

  const Outcome outcome = check.run(
      each.name(), static_cast<int>(N),
      [&](World& world) {
        Weights experts = before[0];
        std::vector<float> flat;
        for (const auto& of_step : samples) {
          train_step(world, experts, of_step[static_cast<std::size_t>(world.rank())]);
          if (!std::ranges::equal(experts, each.sizes, {},
                                  [](const auto& weights) { return weights.size(); }))
            throw Wrong{"the experts have other sizes now",
                        "The number of experts and their sizes stay as they are."};
          for (const auto& weights : experts)
            flat.insert(flat.end(), weights.begin(), weights.end());
        }
        return flat;
      },
      diagnose);

  std::size_t all = 0;
  for (const std::size_t size : each.sizes) all += size;
  for (std::size_t step = 0; step < steps; ++step)
    for (std::size_t rank = 0; rank < N; ++rank) {
      std::vector<std::span<const float>> weights;
      for (const auto& results : outcome.results)
        weights.push_back(std::span{results}.subspan(step * all, all));
      try {
        check_weights(each, samples[step], before[step], weights, rank);
      } catch (const Wrong& wrong) {
        if (step == 0) throw Wrong{fmt::format("{}: {}", each.name(), wrong.what()), wrong.why};
        throw Wrong{fmt::format("{}: the first step was right. After the second one, with other "
                                "samples of the same experts, {}",
                                each.name(), wrong.what()),
                    "Does something of the first step remain, in a static or a global variable? "
                    "Both steps call the same collectives, and only the numbers differ."};
      }
    }

  for (std::size_t rank = 0; rank < N; ++rank) {
    // In each all-reduce, a rank sends at most 2 (N - 1) chunks, and the first ones are the
    // longest. Each expert has one all-reduce of its gradient, and one of a single number.
    const auto experts = static_cast<std::int64_t>(each.sizes.size());
    std::int64_t most = 0;
    for (const std::size_t size : each.sizes)
      most += 4 * 2 * static_cast<std::int64_t>((N - 1) * ((size + N - 1) / N + 1));
    if (outcome.bytes_sent[rank] > steps * most)
      throw Wrong{fmt::format("{}: rank {} sends at most {} bytes per step, not {}", each.name(),
                              rank, most, outcome.bytes_sent[rank] / steps),
                  "The weights are right, but the ranks send more than one all-reduce of every "
                  "expert's gradient takes."};
    // Two all-reduces per expert: one of its gradient, and one more.
    const std::int64_t most_messages = 2 * experts * 2 * (static_cast<std::int64_t>(N) - 1);
    if (const std::int64_t found = outcome.messages_sent[rank]; found > steps * most_messages)
      throw Wrong{fmt::format("{}: rank {} sends at most {} per step, not {}", each.name(), rank,
                              count_of(most_messages, "message"), found / steps),
                  "The weights are right, and so is the number of bytes, but not the number of "
                  "messages, each of which takes 1 µs in addition to its numbers. One all-reduce "
                  "sums the whole gradient of an expert."};

    // One more number per expert is for leaving out the experts that no rank uses.
    std::size_t used = 0;
    for (std::size_t expert = 0; expert < each.sizes.size(); ++expert)
      if (std::ranges::any_of(each.ranks,
                              [&](const auto& own) { return std::ranges::count(own, expert) > 0; }))
        used += each.sizes[expert];
    const std::size_t agreed = used + each.sizes.size();
    const std::size_t summed = used < all ? std::max(all, agreed) : agreed;
    std::size_t halves = 0;  // an all-reduce consists of two; the bytes of messages are above
    for (const Started& call : outcome.started[rank])
      if (call.operation != "send" && call.operation != "receive")
        halves += call.numbers * (call.operation == "all_reduce" ? 2 : 1);
    if (halves > 2 * steps * summed)
      throw Wrong{fmt::format("{}: in {} steps, rank {} sums {} numbers, and {} are enough",
                              each.name(), steps, rank, (halves + 1) / 2, steps * summed),
                  "The weights are right, but more is summed than the gradients. One more number "
                  "per expert may tell which experts no rank uses, so that these are left out. "
                  "Nothing else is needed."};

    Picoseconds computed = 0;
    for (const Row& row : outcome.rows)
      if (!row.sends && row.rank == static_cast<int>(rank))
        for (const Block& block : row.blocks) computed += block.end - block.start;
    const auto due = static_cast<Picoseconds>(each.ranks[rank].size()) * steps * 20'000'000;
    if (computed != due)
      throw Wrong{fmt::format("{}: in {} steps, rank {} computes for {} µs, not {}", each.name(),
                              steps, rank, due / 1'000'000, computed / 1'000'000),
                  "A rank computes its own samples, 20 µs each, with world.compute()."};
  }
  expect_nothing_empty(each.name(), outcome);
  if (shown) {
    Picture picture = draw(outcome.rows);
    while (picture.text.ends_with('\n')) picture.text.pop_back();
    check.show(
        "Two steps of yours on 3 ranks, each with samples of two of three experts: every rank "
        "takes "
        "part in every sum.",
        std::move(picture));
  }
}

}  // namespace

void check(Check& check) {
  for (const Case& each : {Case{{2}, {{0}}},
                           {{2, 3}, {{0, 1}, {1, 0}}},
                           {{2, 2}, {{0}, {1}}},
                           {{2, 3}, {{0}, {1}}},
                           {{2, 3}, {{0, 1}, {1}}},
                           {{1, 1, 1}, {{0, 2}, {1, 2}}},
                           {{4}, {{}, {0}}},
                           {{3, 5}, {{}, {}}},
                           {{3, 1}, {{1}, {1}}},
                           {{2, 2, 2}, {{0, 1}, {1, 2}, {2, 0}}}})
    check_one(check, each);
  for (int trial = 0; trial < 12; ++trial) {
    Case each;
    const int experts = check.number_from(1, 5), ranks = check.number_from(2, 6);
    for (int e = 0; e < experts; ++e)
      each.sizes.push_back(static_cast<std::size_t>(check.number_from(1, 6)));
    each.ranks.resize(at(ranks));
    for (auto& samples : each.ranks) {
      const int count = check.number_from(0, 4);
      for (int i = 0; i < count; ++i)
        samples.push_back(static_cast<std::size_t>(check.number_from(0, experts - 1)));
    }
    check_one(check, each);
  }
  check_one(check, {{200, 100, 300}, {{0, 1}, {1, 2}, {2, 0}}}, true);
}

}  // namespace lockstep::exercises
