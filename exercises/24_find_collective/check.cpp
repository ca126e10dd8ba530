#include "exercises/24_find_collective/task.h"

#include <algorithm>
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
  if (samples.size() == 2) {
    const std::size_t other = 1 - rank;
    for (std::size_t with = 0; with < each.sizes.size(); ++with)
      if (with != expert && each.sizes[with] == size &&
          std::ranges::count(each.ranks[other], with) > 0 &&
          found == plus(mine, sum_of(samples[other], with, size)))
        return fmt::format(
            "What rank {} took for the gradient of expert {} is its own gradient of expert {} plus "
            "that of expert {} on rank {}. Both are of the same size, so no error told that they "
            "do not belong together. Which all-reduce does each rank call first?",
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

void check_one(Check& check, const Case& each, bool shown = false) {
  const std::size_t N = each.ranks.size();
  Weights before;
  for (const std::size_t size : each.sizes) before.push_back(check.numbers(size));
  std::vector<std::vector<Sample>> samples(N);
  for (std::size_t rank = 0; rank < N; ++rank)
    for (const std::size_t expert : each.ranks[rank])
      samples[rank].push_back({expert, check.numbers(each.sizes[expert])});

  const Outcome outcome = check.run(
      each.name(), static_cast<int>(N),
      [&](World& world) {
        Weights experts = before;
        train_step(world, experts, samples[static_cast<std::size_t>(world.rank())]);
        std::vector<float> flat;
        for (const auto& weights : experts) flat.insert(flat.end(), weights.begin(), weights.end());
        return flat;
      },
      diagnose);

  std::size_t all = 0;
  for (const std::size_t size : each.sizes) all += size;
  for (std::size_t rank = 0; rank < N; ++rank) {
    if (outcome.results[rank].size() != all)
      throw Wrong{fmt::format("{}: rank {} returns {} weights, not {}", each.name(), rank, all,
                              outcome.results[rank].size()),
                  "The number of experts and their sizes stay as they are."};
    const auto returned = [&](std::size_t from, std::size_t begin, std::size_t size) {
      const auto first = outcome.results[from].begin() + static_cast<std::ptrdiff_t>(begin);
      return std::vector<float>(first, first + static_cast<std::ptrdiff_t>(size));
    };
    std::size_t begin = 0;
    for (std::size_t expert = 0; expert < each.sizes.size(); ++expert) {
      const std::size_t size = each.sizes[expert];
      std::vector<float> right(size), found(size), wanted(size);
      const std::vector<float> weights = returned(rank, begin, size);
      for (const auto& others : samples) right = plus(right, sum_of(others, expert, size));
      for (std::size_t k = 0; k < size; ++k) {
        found[k] = before[expert][k] - weights[k];
        wanted[k] = before[expert][k] - right[k];
      }
      if (weights != wanted) {
        bool changed_elsewhere = false;
        for (std::size_t other = 0; other < N; ++other)
          changed_elsewhere = changed_elsewhere || (outcome.results[other].size() == all &&
                                                    returned(other, begin, size) != before[expert]);
        throw Wrong{fmt::format("{}: rank {} has the weights [{}] of expert {}, not [{}]",
                                each.name(), rank, list(wanted), expert, list(weights)),
                    diagnose_sum(each, samples, rank, expert, found, changed_elsewhere)};
      }
      begin += size;
    }

    // Each all-reduce sends at most 2 (N - 1) of its N chunks.
    std::int64_t most = 0;
    for (const std::size_t size : each.sizes)
      most += 4 * 2 * static_cast<std::int64_t>(size - size / N);
    most += 4 * 2 * static_cast<std::int64_t>(each.sizes.size() - each.sizes.size() / N);
    if (outcome.bytes_sent[rank] > most)
      throw Wrong{fmt::format("{}: rank {} sends {} bytes, not {}", each.name(), rank, most,
                              outcome.bytes_sent[rank]),
                  "The weights are right, but the ranks send more than one all-reduce of every "
                  "expert's gradient takes."};

    Picoseconds computed = 0;
    for (const Row& row : outcome.rows)
      if (row.name == fmt::format("rank {}", rank))
        for (const Block& block : row.blocks) computed += block.end - block.start;
    const auto due = static_cast<Picoseconds>(samples[rank].size()) * 20'000'000;
    if (computed != due)
      throw Wrong{fmt::format("{}: rank {} computes for {} µs, not {}", each.name(), rank,
                              due / 1'000'000, computed / 1'000'000),
                  "A rank computes its own samples, 20 µs each, with world.compute()."};
  }
  if (shown) {
    Picture picture = draw(outcome.rows);
    while (picture.text.ends_with('\n')) picture.text.pop_back();
    check.show(
        "Your run on 3 ranks, each with samples of two of three experts: every rank takes "
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
    each.ranks.resize(static_cast<std::size_t>(ranks));
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
