#include "exercises/08_zero1/task.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "exercises/frame/check.h"
#include "exercises/frame/own_memory.h"

namespace lockstep::exercises {

const char* const learned =
    "The states of AdamW can be sharded at no cost in bytes: ZeRO-1 updates between the two halves "
    "of an all-reduce, and gathers parameters where data parallelism gathers gradients.";

namespace {

/// The number of parameters that this thread's rank has passed to adamw() in this step.
thread_local std::size_t updated = 0;

/// One step of AdamW, for the check and for the answer.
void update(std::span<float> parameters, std::span<const float> gradients,
            std::span<float> momentum, std::span<float> variance) {
  // ε is large, so that the magnitude of the gradients matters.
  constexpr float rate = 0.1F, beta_1 = 0.75F, beta_2 = 0.875F, epsilon = 4, decay = 0.125F;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    momentum[i] = beta_1 * momentum[i] + (1 - beta_1) * gradients[i];
    variance[i] = beta_2 * variance[i] + (1 - beta_2) * gradients[i] * gradients[i];
    parameters[i] -=
        rate * (momentum[i] / (std::sqrt(variance[i]) + epsilon) + decay * parameters[i]);
  }
}

}  // namespace

void adamw(std::span<float> parameters, std::span<const float> gradients, std::span<float> momentum,
           std::span<float> variance) {
  const std::size_t n = parameters.size();
  if (gradients.size() != n || momentum.size() != n || variance.size() != n)
    throw Wrong{
        fmt::format("adamw was given {}, {}, {} and {}", count_of(n, "parameter"),
                    count_of(gradients.size(), "gradient"),
                    count_of(momentum.size(), "momentum", "momenta"),
                    count_of(variance.size(), "variance")),
        "AdamW is elementwise: each parameter needs its gradient, its momentum and its variance. "
        "All four spans are of this rank's shard."};
  for (const std::span<const float> each :
       {std::span<const float>{parameters}, gradients, std::span<const float>{momentum},
        std::span<const float>{variance}})
    expect_arrived("adamw()", each);
  updated += n;
  update(parameters, gradients, momentum, variance);
}

namespace {

using Numbers = std::vector<float>;
constexpr int steps = 3;
constexpr double microseconds_per_pass = 4;

bool is_close(float found, float expected) {
  return std::abs(found - expected) <= 1e-5F * (1 + std::abs(expected));
}

struct Case {
  int N;
  std::size_t n;
  std::string what;
  Numbers start;
  std::vector<std::vector<Numbers>> gradients;  ///< by step and rank

  Case(Check& check, int N_, std::size_t n_)
      : N(N_),
        n(n_),
        what(fmt::format("{}, {}", count_of(N, "rank"), count_of(n, "parameter"))),
        start(check.numbers(n)) {
    for (float& each : start) each /= 1000;
    for (int step = 0; step < steps; ++step) {
      gradients.emplace_back(at(N), Numbers(n));
      for (std::size_t i = 0; i < n; ++i)
        for (float sum = 0; sum == 0;) {
          std::set<float> different;  // so that one rank's gradient is never the average
          while (different.size() < at(N))
            different.insert(static_cast<float>(check.number_from(-20, 20)));
          auto next = different.begin();
          for (Numbers& each : gradients.back()) sum += each[i] = *next++;
        }
    }
  }
  std::size_t shard() const {
    const auto ranks = at(N);
    return (n + ranks - 1) / ranks;
  }
  std::size_t padded() const { return shard() * at(N); }

  /// Returns the parameters after `count` steps on one device, without padding. The gradient is the
  /// sum of the ranks' gradients times `factor`, or the gradient of `only_rank`.
  Numbers after(int count, float factor = 1, int only_rank = -1, bool forgets = false) const {
    Numbers parameters = start, momentum(n), variance(n);
    for (int step = 0; step < count; ++step) {
      Numbers sum(n);
      for (int r = 0; r < N; ++r)
        if (only_rank < 0 || r == only_rank)
          for (std::size_t i = 0; i < n; ++i) sum[i] += factor * gradients[at(step)][at(r)][i];
      if (forgets) momentum = variance = Numbers(n);
      update(parameters, sum, momentum, variance);
    }
    return parameters;
  }
};

void check_sizes(const Case& each, int rank, const ModelStates& states) {
  const auto check = [&](const char* name, const Buffer& buffer, std::size_t expected,
                         const std::string& why) {
    if (buffer.size() != expected)
      throw Wrong{fmt::format("{} of rank {} should have {}, and has {}", name, rank,
                              count_of(expected, "number"), buffer.size()),
                  why};
  };
  for (const auto& [name, buffer] :
       {std::pair{"parameters", &states.parameters}, {"gradients", &states.gradients}})
    check(name, *buffer, each.padded(),
          buffer->size() < each.n
              ? "There is not room for all parameters: a shard is n / N, rounded up."
          : buffer->size() == each.n
              ? "This is not padded. N chunks of equal size need a multiple of N."
              : "The smallest multiple of N that is at least n has at most N - 1 numbers more.");
  for (const auto& [name, buffer] :
       {std::pair{"momentum", &states.momentum}, {"variance", &states.variance}})
    check(name, *buffer, each.shard(),
          buffer->size() >= each.n
              ? "Every rank keeps the optimizer states of all parameters, as in data parallelism. "
                "With ZeRO-1 it keeps those of its own shard."
              : "A shard is n / N, rounded up: the same for all ranks, and every parameter is in "
                "one.");
}

/// Why parameter i of rank r is wrong after step k (counted from 1). The comparison is exact,
/// because a mistake often changes a parameter only slightly.
std::string diagnose_parameter(const Case& each, int k, int r, std::size_t i, float found) {
  const int owner = static_cast<int>(i / each.shard());
  // With one rank, there is nothing to reduce and nothing to gather.
  if (each.N > 1) {
    if (found == each.after(k, 1, owner)[i])
      return "Its owner has updated it with the gradient of its own samples only. The ranks must "
             "first add up their gradients: a reduce-scatter.";
    if (found == each.after(k, 1 / static_cast<float>(each.N))[i])
      return "It was updated with the average of the ranks' gradients. Here the sum is the "
             "gradient of the global batch.";
    if (found == each.after(k - 1)[i])
      return owner == r
                 ? fmt::format("It was not updated, although it is in the shard of rank {} itself.",
                               r)
                 : fmt::format(
                       "Rank {} still has the old value. Rank {} owns this parameter, and its new "
                       "value must come from there: all-gather the *parameters* after the update.",
                       r, owner);
    if (found == each.after(k, 1, r)[i])
      return "It was updated with the gradient of the rank's own samples only.";
  }
  if (k > 1 && found == each.after(k, 1, -1, true)[i])
    return "It was updated with the momentum and variance of a first step. They must be kept from "
           "one step to the next.";
  return "Reduce-scatter the gradients, update this rank's shard, chunk(..., rank, N), with the "
         "sums, and all-gather the parameters.";
}

/// Throws Wrong unless a rank has updated exactly its own shard. The results do not show this,
/// because every rank could update all parameters with the sums of all gradients.
void check_updates(const Case& each, const Outcome& outcome) {
  for (int r = 0; r < each.N; ++r) {
    const Numbers& all = outcome.results[at(r)];
    const std::size_t begin = std::min(each.n, at(r) * each.shard());
    const std::size_t own = std::min(each.n - begin, each.shard());  // without padding
    for (int k = 0; k < steps; ++k) {
      const auto given = static_cast<std::size_t>(all[all.size() - steps + at(k)]);
      if (given >= own && given <= each.shard()) continue;
      throw Wrong{
          fmt::format("{}: in step {}, rank {} has given {} to adamw(), and its shard has {}",
                      each.what, k + 1, r, count_of(static_cast<std::int64_t>(given), "parameter"),
                      each.shard()),
          given > each.shard()
              ? "The parameters are right, but this rank updates more than its own shard. "
                "The states of AdamW that it needs for that, in whatever memory they are, "
                "are those that ZeRO-1 shards."
              : "The parameters are right, but each rank must update its own shard with "
                "adamw(), each parameter once per step."};
    }
  }
}

void check_one(Check& check, int N, std::size_t n) {
  const Case each{check, N, n};
  const Outcome outcome = check.run(
      each.what, N,
      [&](World& world) {
        const auto r = static_cast<std::size_t>(world.rank());
        ModelStates states = allocate_states(world, n);
        check_sizes(each, world.rank(), states);
        std::ranges::copy(each.start, states.parameters.span().begin());
        Numbers after, updates;  // all steps
        for (const auto& gradients : each.gradients) {
          world.compute("FB", microseconds_per_pass);
          std::ranges::copy(gradients[r], states.gradients.span().begin());
          updated = 0;
          {
            const OwnMemory counted{world};
            step(world, states);
          }
          updates.push_back(static_cast<float>(updated));
          check_sizes(each, world.rank(), states);
          after.insert(after.end(), states.parameters.span().begin(),
                       states.parameters.span().end());
        }
        after.insert(after.end(), updates.begin(), updates.end());
        return after;
      },
      diagnose_collectives);

  const std::size_t P = each.padded();
  for (int k = 1; k <= steps; ++k) {
    Numbers expected = each.after(k);
    expected.resize(P);  // the padding
    for (int r = 0; r < N; ++r) {
      const Numbers& all = outcome.results[at(r)];
      const std::span<const float> found = std::span{all}.subspan(at(k - 1) * P, P);
      for (std::size_t i = 0; i < P; ++i)
        if (!is_close(found[i], expected[i]))
          throw Wrong{fmt::format("{}: after step {}, {} {} of rank {} should be {:g}, and is {:g}",
                                  each.what, k, i < n ? "parameter" : "padding", i, r, expected[i],
                                  found[i]),
                      i < n ? diagnose_parameter(each, k, r, i, found[i])
                            : "Padding stays 0: allocate zeros, and leave them alone."};
    }
  }
  check_updates(each, outcome);
  for (int r = 0; r < N; ++r) {
    const std::int64_t sent = outcome.bytes_sent[at(r)];
    const auto half = static_cast<std::int64_t>(4 * steps * (P - each.shard()));
    if (sent != 2 * half)
      throw Wrong{
          fmt::format("{}: rank {} has sent {} B in {} steps, and should send {} B", each.what, r,
                      sent, steps, 2 * half),
          sent == 3 * half
              ? "This is 3/2 of what is needed: an all-reduce also brings the sums to ranks "
                "that do not need them. A reduce-scatter is enough."
              : "The parameters are right. Needed are one reduce-scatter of the gradients "
                "and one all-gather of the parameters, (N - 1)/N · P numbers each."};
    const std::int64_t messages = outcome.messages_sent[at(r)];
    if (messages > std::int64_t{2} * steps * (N - 1))
      throw Wrong{
          fmt::format("{}: rank {} has sent {} in {} steps, and 2 (N - 1) in each are {}",
                      each.what, r, count_of(messages, "message"), steps, 2 * steps * (N - 1)),
          "The parameters are right, and so are the bytes, but they are sent in pieces. "
          "Each message costs a latency: one reduce-scatter and one all-gather, of whole "
          "shards, have N - 1 messages each."};
    const std::int64_t peak = outcome.peak_bytes[at(r)];
    const auto memory = static_cast<std::int64_t>(4 * (2 * P + 2 * each.shard()));
    if (peak != memory)
      throw Wrong{fmt::format("{}: rank {} has held {} B at a time, and the states take {} B",
                              each.what, r, peak, memory),
                  "Nothing else needs to be allocated: reduce_scatter and all_gather work in "
                  "place."};
  }
  if (N > 1) expect_in_buffers(each.what, outcome, each.shard(), "one shard is");
  if (N == 4 && n == 10)
    check.show(
        "Your three steps on 4 ranks: after each pass, 3 rounds of a reduce-scatter and 3 of an "
        "all-gather.",
        draw(outcome.rows));
}

}  // namespace

void check(Check& check) {
  const std::pair<int, int> cases[]{{2, 2}, {2, 6},  {2, 3},  {1, 3}, {4, 10},  {4, 3},    {3, 0},
                                    {3, 8}, {8, 64}, {8, 57}, {8, 1}, {12, 30}, {4, 4'000}};
  for (const auto& [N, n] : cases) check_one(check, N, at(n));
}

}  // namespace lockstep::exercises
