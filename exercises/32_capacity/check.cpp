#include "exercises/32_capacity/task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "exercises/frame/check.h"

namespace lockstep::exercises {

const char* const learned =
    "A capacity makes all experts' buffers equally large, and drops what does not fit. Which "
    "choices these are depends on the order in which they are placed. And the balance of all "
    "tokens comes from sums over all ranks, not from a mean of their means.";

namespace {

using Integers = std::vector<int>;
struct Case {
  int E, k;
  float factor;
  Integers tokens;  ///< by rank
  int N() const { return static_cast<int>(tokens.size()); }
  int all_tokens() const { return std::accumulate(tokens.begin(), tokens.end(), 0); }
  /// A probability is a multiple of 1 / units(), so that some are equal. Sums of multiples of 1/32
  /// are exact; others show the order in which they were added.
  int units() const { return N() > 2 ? 37 : 32; }
  int capacity(int rank) const {
    return static_cast<int>(
        std::ceil(factor * static_cast<float>(k * tokens[at(rank)]) / static_cast<float>(E)));
  }
  std::string text() const {
    return fmt::format("{}, {}, k = {}, capacity factor {:g}, {} tokens", count_of(N(), "rank"),
                       count_of(E, "expert"), k, factor, fmt::join(tokens, " + "));
  }
};

/// The probabilities, and the routing of each rank.
struct Batch {
  Batch(Check& check, const Case& sizes_) : sizes(sizes_) {
    for (int r = 0; r < sizes.N(); ++r) {
      probabilities.emplace_back();
      // Each rank favours a different expert, so that the ranks' means differ.
      const int favourite = check.number_from(0, sizes.E - 1);
      for (int t = 0; t < sizes.tokens[at(r)]; ++t) {
        Integers row(at(sizes.E));
        for (int unit = 0; unit < sizes.units(); ++unit)
          ++row[at(check.number_from(0, 2) == 0 ? favourite : check.number_from(0, sizes.E - 1))];
        for (const int each : row)
          probabilities.back().push_back(static_cast<float>(each) /
                                         static_cast<float>(sizes.units()));
      }
      experts.push_back(choices_of(r));
      slots.push_back(place(r, sizes.capacity(r), /*by_token=*/false));
    }
  }

  float probability(int r, int t, int expert) const {
    return probabilities[at(r)][at(t * sizes.E + expert)];
  }
  /// The experts of all tokens of a rank. Experts with equal probabilities are in ascending or in
  /// descending order.
  Integers choices_of(int r, bool larger_number_first = false) const {
    Integers all;
    for (int t = 0; t < sizes.tokens[at(r)]; ++t) {
      Integers order(at(sizes.E));
      std::iota(order.begin(), order.end(), 0);
      if (larger_number_first) std::ranges::reverse(order);
      std::ranges::stable_sort(order, std::greater{},
                               [&](int expert) { return probability(r, t, expert); });
      all.insert(all.end(), order.begin(), order.begin() + sizes.k);
    }
    return all;
  }
  Integers place(int r, int capacity, bool by_token) const {
    const int T = sizes.tokens[at(r)], k = sizes.k;
    Integers rows(at(sizes.E)), all(at(T * k), -1);
    for (int i = 0; i < T * k; ++i) {
      const int choice = by_token ? i : i % T * k + i / T;
      if (int& next = rows[at(experts[at(r)][at(choice)])]; next < capacity)
        all[at(choice)] = next++;
    }
    return all;
  }

  /// f and P over the tokens of some ranks. `counts` says which choices count.
  struct Balance {
    std::vector<double> f, P;
    double choices = 0, tokens = 0;
    double loss() const {
      if (tokens == 0 || choices == 0) return 0;
      double sum = 0;
      for (std::size_t i = 0; i < f.size(); ++i) sum += f[i] / choices * (P[i] / tokens);
      return static_cast<double>(f.size()) * sum;
    }
  };
  template <class Counts>
  Balance balance(int first, int end, Counts counts) const {
    Balance sums{std::vector<double>(at(sizes.E)), std::vector<double>(at(sizes.E))};
    for (int r = first; r < end; ++r)
      for (int t = 0; t < sizes.tokens[at(r)]; ++t) {
        ++sums.tokens;
        for (int e = 0; e < sizes.E; ++e) sums.P[at(e)] += probability(r, t, e);
        for (int j = 0; j < sizes.k; ++j)
          if (counts(r, t, j)) {
            ++sums.choices;
            ++sums.f[at(experts[at(r)][at(t * sizes.k + j)])];
          }
      }
    return sums;
  }
  double loss(int first, int end) const {
    return balance(first, end, [](int, int, int) { return true; }).loss();
  }
  /// The errors are the roundings of sums, shares and means (as many as there are tokens) and of
  /// the last sum.
  double tolerance() const {
    return 0x1p-23 * (sizes.all_tokens() + sizes.N() + sizes.E + 8) * loss(0, sizes.N());
  }

  /// Whether the loss, computed in f32, shows in which order the ranks' sums of probabilities are
  /// added: with each rank's own first, and then either the next ranks' or those from rank 0 on.
  bool shows_order() const {
    const int N = sizes.N(), E = sizes.E;
    const Balance all = balance(0, N, [](int, int, int) { return true; });
    std::vector<std::vector<float>> sums(at(N), std::vector<float>(at(E)));
    for (int r = 0; r < N; ++r)
      for (int t = 0; t < sizes.tokens[at(r)]; ++t)
        for (int e = 0; e < E; ++e) sums[at(r)][at(e)] += probability(r, t, e);
    const auto loss_on = [&](int own, bool from_0) {
      float loss = 0;
      for (int e = 0; e < E; ++e) {
        float sum = sums[at(own)][at(e)];
        for (int i = 0; i < N; ++i)
          if (const int r = from_0 ? i : (own + i) % N; r != own) sum += sums[at(r)][at(e)];
        loss += static_cast<float>(E) * static_cast<float>(all.f[at(e)] / all.choices) *
                (sum / static_cast<float>(all.tokens));
      }
      return loss;
    };
    for (const bool from_0 : {false, true}) {
      bool differs = false;
      for (int own = 1; own < N; ++own) differs |= loss_on(own, from_0) != loss_on(0, from_0);
      if (!differs) return false;
    }
    return true;
  }

  Case sizes;
  std::vector<std::vector<float>> probabilities;  // by rank
  std::vector<Integers> experts, slots;           // by rank
};

std::string diagnose_failure(const Failure& failure) {
  if (failure.waits_for_finished)
    return "A rank has left while another one waits for it. A rank without tokens takes part in "
           "the sums, too.";
  return "All ranks must call the same collectives, with the same sizes, in the same order: a rank "
         "without tokens, too.";
}

Wrong why_not_expert(const Batch& batch, int r, int i, const Integers& found,
                     const std::string& what) {
  const auto& [E, k, factor, tokens] = batch.sizes;
  const int t = i / k, expert = found[at(i)], right = batch.experts[at(r)][at(i)];
  const auto row = std::span{batch.probabilities[at(r)]}.subspan(at(t * E), at(E));
  std::string why = "The choices are the experts with the largest probabilities, in that order.";
  if (expert < 0 || expert >= E)
    why =
        "There is no such expert. A choice that is dropped keeps its expert: only its slot is -1.";
  else if (row[at(expert)] == row[at(right)])
    why = fmt::format(
        "Experts {} and {} have the same probability. The one with the smaller number "
        "comes first.",
        std::min(expert, right), std::max(expert, right));
  return {fmt::format("{}: token {} of rank {} has the probabilities [{}]. Its choice {} is expert "
                      "{}, and you return {}",
                      what, t, r, list(row), i % k, right, expert),
          why};
}

Wrong why_not_slot(const Batch& batch, int r, int i, const Integers& found,
                   const std::string& what) {
  const Case& sizes = batch.sizes;
  const int k = sizes.k, C = sizes.capacity(r), T = sizes.tokens[at(r)];
  const int slot = found[at(i)], right = batch.slots[at(r)][at(i)];
  std::string why =
      "Choices are placed one after another, choice 0 of all tokens first, each in the first free "
      "slot of its expert. If the expert has C rows, the choice is dropped, and no other one.";
  const auto is_with = [&](double capacity) {
    return found == batch.place(r, static_cast<int>(capacity), false);
  };
  const double factor = sizes.factor;
  const auto share = [&](double f, int tokens, int choices) {
    return f * choices * tokens / sizes.E;
  };
  if (found == batch.place(r, C, true))
    why =
        "Here choices are placed token by token. First choices have priority: choice 1 of token "
        "0 comes after choice 0 of the last token.";
  else if (is_with(T * k))
    why = sizes.N() > 1 && is_with(std::ceil(share(factor, sizes.all_tokens(), k)))
              ? "Here nothing is dropped. A capacity for the tokens of all ranks would give the "
                "same, and T is the number of this rank's tokens: each expert takes C rows from "
                "each rank."
              : "Here nothing is dropped.";
  else if (is_with(std::floor(share(factor, T, k))))
    why = "The capacity is rounded up, not down.";
  else if (k > 1 && is_with(std::ceil(share(factor, T, 1))))
    why = "In this capacity, the factor k is missing: T tokens have k T choices.";
  else if (is_with(std::ceil(share(1, T, k))))
    why = "This is with a capacity factor of 1.";
  else if (is_with(std::ceil(share(factor, sizes.all_tokens(), k))))
    why =
        "This capacity is that of the tokens of all ranks. T is the number of this rank's "
        "tokens: each expert takes C rows from each rank.";
  else if (is_with(C - 1) || is_with(C + 1))
    why =
        fmt::format("The capacity is {}, and this is with {}.", C, is_with(C - 1) ? C - 1 : C + 1);
  return {fmt::format("{}: on rank {}, an expert takes {}. Choice {} of token {}, expert {}, {}, "
                      "and you return {}. The choices are [{}] and should get the slots [{}]; they "
                      "get [{}]",
                      what, r, count_of(C, "row"), i % k, i / k, batch.experts[at(r)][at(i)],
                      right < 0 ? "is dropped (-1)" : fmt::format("gets slot {}", right), slot,
                      fmt::join(batch.experts[at(r)], ", "), fmt::join(batch.slots[at(r)], ", "),
                      fmt::join(found, ", ")),
          why};
}

std::string why_not_balance(const Batch& batch, int r, double found) {
  const Case& sizes = batch.sizes;
  const int N = sizes.N();
  const double right = batch.loss(0, N);
  const auto is = [&](double loss) { return std::abs(found - loss) <= batch.tolerance(); };
  if (sizes.E > 1 && is(right / sizes.E)) return "The factor E is missing.";
  if (sizes.k > 1 && is(right * sizes.k))
    return "Here the f_i add up to k. f_i is the share of expert i in all choices, and there are k "
           "for each token.";
  if (N > 1 && sizes.tokens[at(r)] > 0 && is(batch.loss(r, r + 1)))
    return "This is the loss of this rank's tokens. It is that of the tokens of all ranks: add the "
           "choices, the probabilities and the numbers of tokens over the ranks.";
  // Means of the ranks' means, as if all ranks had equally many tokens.
  const auto every = [](int, int, int) { return true; };
  double losses = 0, with_tokens = 0;
  Batch::Balance means{std::vector<double>(at(sizes.E)), std::vector<double>(at(sizes.E))};
  for (int i = 0; i < N; ++i) {
    const Batch::Balance own = batch.balance(i, i + 1, every);
    if (own.tokens == 0) continue;
    ++with_tokens;
    losses += own.loss();
    for (std::size_t e = 0; e < means.f.size(); ++e) {
      means.f[e] += own.f[e] / own.choices;
      means.P[e] += own.P[e] / own.tokens;
    }
  }
  if (N > 1 && (is(losses / N) || is(losses / with_tokens)))
    return "This is the mean of the ranks' losses. A product of means is not a mean of products: f "
           "and P are those of all tokens, and only then multiplied.";
  for (const double count : {static_cast<double>(N), with_tokens}) {
    means.choices = means.tokens = count;
    if (N > 1 && is(means.loss()))
      return "Here f and P are means of the ranks' own f and P, as if all ranks had equally many "
             "tokens. Add up choices, probabilities and tokens, and divide afterwards.";
  }
  if (is(batch
             .balance(0, N,
                      [&](int rank, int t, int j) {
                        return batch.slots[at(rank)][at(t * sizes.k + j)] >= 0;
                      })
             .loss()))
    return "Here only choices that were not dropped count. A capacity hides how uneven the "
           "router's choices are: f counts all of them.";
  if (is(batch.balance(0, N, [](int, int, int j) { return j == 0; }).loss()))
    return "Here only first choices count. f is the share in all k choices.";
  double squares = 0;
  const Batch::Balance sums = batch.balance(0, N, every);
  for (const double each : sums.f) squares += each / sums.choices * (each / sums.choices);
  if (is(sizes.E * squares))
    return "This is E Σ f_i². The second factor is P_i, the mean probability: f has no gradient.";
  return "It is E Σ f_i P_i, with f_i the choices of expert i divided by all choices, and P_i the "
         "sum of its probabilities divided by the number of tokens, both of all ranks.";
}

void check_one(Check& check, const Case& sizes) {
  Batch batch{check, sizes};
  for (int tries = 0; sizes.N() > 2 && tries < 50 && !batch.shows_order(); ++tries)
    batch = Batch{check, sizes};
  const int N = sizes.N(), E = sizes.E, k = sizes.k;
  const std::string what = sizes.text();
  const Outcome outcome = check.run(
      what, N,
      [&](World& world) {
        const int r = world.rank(), choices = sizes.tokens[at(r)] * k;
        const std::vector<float> own = batch.probabilities[at(r)];  // so that its end is known
        const Routing routing = route(world, own, E, k, sizes.factor);
        for (const auto& [name, size] : {std::pair{"experts", std::ssize(routing.experts)},
                                         {"slots", std::ssize(routing.slots)}})
          if (size != choices)
            throw Wrong{fmt::format("rank {} returns {} {}, and has {}", r, size, name,
                                    count_of(choices, "choice")),
                        "Each token has k choices, even if some of them are dropped."};
        std::vector<float> results{routing.balance};
        results.insert(results.end(), routing.experts.begin(), routing.experts.end());
        results.insert(results.end(), routing.slots.begin(), routing.slots.end());
        return results;
      },
      diagnose_failure);

  for (int r = 0; r < N; ++r) {
    const int choices = sizes.tokens[at(r)] * k;
    const auto& results = outcome.results[at(r)];
    Integers found(results.begin() + 1, results.end());
    const Integers slots(found.begin() + choices, found.end());
    found.resize(at(choices));
    for (int i = 0; i < choices; ++i)
      if (found[at(i)] != batch.experts[at(r)][at(i)])
        throw why_not_expert(batch, r, i, found, what);
    for (int i = 0; i < choices; ++i)
      if (slots[at(i)] != batch.slots[at(r)][at(i)]) throw why_not_slot(batch, r, i, slots, what);
  }
  const double right = batch.loss(0, N);
  for (int r = 0; r < N; ++r)
    if (const double found = outcome.results[at(r)][0];
        !(std::abs(found - right) <= batch.tolerance()))
      throw Wrong{fmt::format("{}: the load-balancing loss is {:.6g}, and rank {} returns {:.6g}",
                              what, right, r, found),
                  why_not_balance(batch, r, found)};
  for (int r = 1; r < N; ++r)
    if (const float found = outcome.results[at(r)][0], first = outcome.results[0][0];
        found != first)
      throw Wrong{
          fmt::format("{}: the load-balancing loss is {:.9g} on rank 0 and {:.9g} on rank "
                      "{}",
                      what, first, found, r),
          "Each is right up to rounding, but every rank returns the same loss: ranks that "
          "differ in one bit drift apart. A sum in floating point depends on the order of "
          "its terms, so add the ranks' numbers in the same order everywhere, by rank or in "
          "an all-reduce."};

  const std::int64_t sent = outcome.all_bytes_sent();
  const std::int64_t most = std::int64_t{4} * (2 * E + 1) * N * (N - 1);
  if (sent > most)
    throw Wrong{fmt::format("{}: the ranks send {} B together, and 2 E + 1 numbers of each to each "
                            "other one are {} B",
                            what, sent, most),
                "The routing and the loss are right, but tokens' probabilities are sent. For each "
                "expert, a rank's choices and the sum of its probabilities are enough, and the "
                "number of its tokens."};
}

}  // namespace

void check(Check& check) {
  for (const Case& sizes : {Case{2, 1, 1, {3}},
                            {2, 2, 1, {3}},
                            {4, 2, 1, {6}},
                            {4, 1, 1.25F, {7}},
                            {4, 2, 1.25F, {9}},
                            {4, 4, 0.5F, {5}},
                            {4, 2, 1, {6, 6}},
                            {4, 2, 1, {9, 2}},
                            {8, 2, 1.25F, {12, 0, 5}},
                            {1, 1, 1, {2, 3}},
                            {8, 3, 1.5F, {30, 7, 20, 1}},
                            {16, 2, 2, {40, 3, 0, 11, 25, 1, 8, 16}},
                            {32, 2, 1.25F, {10, 7}},
                            {64, 4, 1, {20, 0, 9}},
                            {8, 2, 1, {5, 3, 0, 7, 2, 9, 4, 1, 6, 8, 2}}})
    check_one(check, sizes);
  for (int trial = 0; trial < 8; ++trial) {
    Case sizes{
        1 << check.number_from(0, 4), 0, static_cast<float>(check.number_from(2, 8)) / 4, {}};
    sizes.k = check.number_from(1, std::min(4, sizes.E));
    for (int r = check.number_from(1, 6); r > 0; --r)
      sizes.tokens.push_back(check.number_from(0, 30));
    ++sizes.tokens.front();
    check_one(check, sizes);
  }
}

}  // namespace lockstep::exercises
