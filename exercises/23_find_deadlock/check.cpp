#include "exercises/23_find_deadlock/task.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "exercises/frame/check.h"

namespace lockstep::exercises {

const char* const learned =
    "In the steady state of 1F1B, neighbours send to each other at the same time. With sends that "
    "end only when the message is taken, one of them must be ready to receive: so nobody waits for "
    "a send before its next receive.";

namespace {

struct Case {
  int p = 1, m = 1;
  std::size_t n = 1;
  std::string name() const {
    return fmt::format("{}, {}, {} each", count_of(p, "stage"),
                       count_of(m, "microbatch", "microbatches"),
                       count_of(static_cast<std::int64_t>(n), "number"));
  }
};

/// The gradients of all stages' weights, on one device.
std::vector<float> gradients(const std::vector<float>& weights, const std::vector<float>& batch) {
  std::vector<float> sums(weights.size());
  for (const float each : batch) {
    std::vector<double> x{each};  // the input of each stage, and the last one's output
    for (const float weight : weights) x.push_back(x.back() * weight);
    double dy = x.back();
    for (std::size_t stage = weights.size(); stage-- > 0;) {
      sums[stage] += static_cast<float>(x[stage] * dy);
      dy *= weights[stage];
    }
  }
  return sums;
}

std::string diagnose(const Failure& failure) {
  if (failure.waits_for_finished)
    return "A rank ends its step while another one still waits for it. Each message needs one send "
           "and one receive, and each of them a wait(): a Work that nobody waits for is cancelled "
           "when it is destroyed.";
  if (failure.deadlock && failure.receives == 0)
    return "Two neighbours send to each other, one of them its activations, the other one a "
           "gradient. A send ends only when the receiver takes the message, and neither of them "
           "gets as far as its receive. What else could a rank do before it waits for its send?";
  if (failure.deadlock && failure.sends == 0)
    return "All of them wait to receive, and nobody has sent: the messages for which they wait are "
           "sent only later in the program.";
  if (failure.deadlock)
    return "These ranks wait for each other in a circle. For each pair of neighbours, write down "
           "the order of sends and receives of both: as long as one of them waits for a send, the "
           "other one must come to the matching receive without its help.";
  return "The step ended with this error.";
}

Picture picture(const Outcome& outcome) {
  Picture drawn = draw(outcome.rows);
  while (drawn.text.ends_with('\n')) drawn.text.pop_back();
  return drawn;
}

/// A rank's computations, in order: "F0 F1 B0 B1".
std::string computed(const Outcome& outcome, int rank) {
  std::string names;
  for (const Row& row : outcome.rows)
    if (row.name == fmt::format("rank {}", rank))
      for (const Block& block : row.blocks) names += (names.empty() ? "" : " ") + block.label;
  return names;
}

/// The largest number of microbatches between F and B at a time on a rank.
int in_flight(const Outcome& outcome, int rank) {
  int now = 0, most = 0;
  for (const char letter : computed(outcome, rank)) {
    now += letter == 'F' ? 1 : letter == 'B' ? -1 : 0;
    most = std::max(most, now);
  }
  return most;
}

/// Why a stage's gradient is `found`, and not `expected`.
std::string diagnose_gradient(const Case& each, float expected, float found,
                              const std::vector<float>& of_microbatches) {
  if (each.m > 1 &&
      std::abs(found * static_cast<float>(each.m) - expected) <= 1e-5F * std::abs(expected))
    return "This is the mean over the microbatches. The gradient is their sum.";
  for (int i = each.m; each.m > 1 && i-- > 0;)
    if (found == of_microbatches[at(i)])
      return fmt::format(
          "This is the gradient of microbatch {} alone. Each backward pass adds to the stage's "
          "gradient, and starts from what the passes before have left there.",
          i);
  if (const double ratio = std::abs(static_cast<double>(found) / static_cast<double>(expected));
      expected != 0 && found != 0 && std::exp2(std::round(std::log2(ratio))) == ratio)
    return fmt::format(
        "It is {:g} times what it should be, and weights are 1, 2, -1 or -2. Σ x · dy does not "
        "contain this stage's weight, and dy contains the weight of each later stage once, because "
        "each passes weight · dy on.",
        found / expected);
  for (int i = 0; i < each.m; ++i)
    if (const float one = of_microbatches[at(i)];
        each.m > 1 && one != 0 && (found == expected - one || found == expected + one))
      return fmt::format("The gradient of microbatch {} is {}.", i,
                         found == expected - one ? "missing" : "counted twice");
  return "In the program with the bug, the gradients were right wherever it did not hang. Is a "
         "buffer used again, or freed, before the wait() of its send has returned?";
}

void check_computed(const Case& each, const Outcome& outcome) {
  for (int rank = 0; rank < each.p; ++rank) {
    std::vector<std::string> expected, found;
    for (int i = 0; i < each.m; ++i)
      for (const char* pass : {"B", "F"}) expected.push_back(fmt::format("{}{}", pass, i));
    for (const Row& row : outcome.rows)
      if (row.name == fmt::format("rank {}", rank))
        for (const Block& block : row.blocks) {
          found.push_back(block.label);
          const Picoseconds length = block.label.starts_with('F') ? 100'000'000 : 200'000'000;
          if (block.end - block.start != length)
            throw Wrong{fmt::format("{}: {} of stage {} takes {:g} µs, not {:g} µs", each.name(),
                                    block.label, rank, static_cast<double>(length) / 1e6,
                                    static_cast<double>(block.end - block.start) / 1e6),
                        "A forward pass computes for 100 µs, a backward pass for 200 µs."};
        }
    std::ranges::sort(expected);
    std::ranges::sort(found);
    if (found != expected)
      throw Wrong{
          fmt::format("{}: stage {} has computed {}", each.name(), rank, computed(outcome, rank)),
          "Each stage computes every microbatch's F and B once, with world.compute()."};
  }
}

void check_one(Check& check, const Case& each) {
  const auto [p, m, n] = each;
  std::vector<float> weights, batch;
  for (int stage = 0; stage < p; ++stage)
    weights.push_back(
        static_cast<float>(check.number_from(1, 2) * (check.number_from(0, 1) * 2 - 1)));
  for (std::size_t i = 0; i < at(m) * n; ++i)
    batch.push_back(static_cast<float>(check.number_from(-3, 3)));

  const Outcome outcome = check.run(
      each.name(), Mesh{p, {1, 1, 1, p}},
      [&](World& world) {
        const bool first = world.rank() == 0;
        const std::vector<float> mine = first ? batch : std::vector<float>{};
        return std::vector{
            train_step(world, weights[static_cast<std::size_t>(world.rank())], mine, m, n)};
      },
      diagnose);

  const std::vector<float> expected = gradients(weights, batch);
  std::vector<std::vector<float>> of_microbatches(weights.size());  // by stage
  for (int i = 0; i < m; ++i) {
    const auto begin = batch.begin() + static_cast<std::ptrdiff_t>(i) * static_cast<long>(n);
    const auto some = gradients(weights, {begin, begin + static_cast<std::ptrdiff_t>(n)});
    for (std::size_t stage = 0; stage < some.size(); ++stage)
      of_microbatches[stage].push_back(some[stage]);
  }
  for (int rank = 0; rank < p; ++rank) {
    const auto r = at(rank);
    if (outcome.results[r] != std::vector{expected[r]})
      throw Wrong{fmt::format("{}: the gradient of stage {} is {}, not {}", each.name(), rank,
                              expected[r], list(outcome.results[r])),
                  diagnose_gradient(each, expected[r],
                                    outcome.results[r].empty() ? 0 : outcome.results[r][0],
                                    of_microbatches[r])};
  }
  check_computed(each, outcome);

  const double message = 1 + 0.004 * static_cast<double>(n);
  const double most = 300.0 * (m + p - 1) + 2 * message * (m + p);
  if (outcome.microseconds > most + 1e-6)
    throw Wrong{fmt::format("{}: the step takes {:.1f} µs, and may take {:.1f} µs\n\n{}",
                            each.name(), outcome.microseconds, most, picture(outcome).text),
                outcome.microseconds >= 300.0 * m * p
                    ? "The deadlock is gone, but so is the pipeline: it works on one microbatch at "
                      "a time, and all other stages wait. The order of the passes was right."
                    : "The deadlock is gone, but a stage now waits where it could compute."};
  for (int rank = 0; rank < p; ++rank) {
    const auto r = at(rank);
    const std::int64_t bytes = 4 * static_cast<std::int64_t>(n);
    const std::int64_t sent = bytes * m * ((rank > 0 ? 1 : 0) + (rank + 1 < p ? 1 : 0));
    if (outcome.bytes_sent[r] != sent)
      throw Wrong{fmt::format("{}: stage {} sends {} bytes, not {}", each.name(), rank, sent,
                              outcome.bytes_sent[r]),
                  "Each stage sends the activations of every microbatch to the next stage, and the "
                  "gradients to the one before, and nothing else."};
    if (const std::int64_t found = outcome.messages_sent[r], right = sent / bytes; found != right)
      throw Wrong{fmt::format("{}: stage {} sends {}, not {}", each.name(), rank,
                              count_of(right, "message"), found),
                  "The numbers are right, but not the messages: each pass whose result another "
                  "stage needs sends one message of n numbers. Each message takes 1 µs in addition "
                  "to its numbers."};
    const int most_in_flight = std::min(m, p - rank), found = in_flight(outcome, rank);
    if (found > most_in_flight)
      throw Wrong{fmt::format("{}: stage {} has {} in flight, and may have {}. It computed {}",
                              each.name(), rank, count_of(found, "microbatch", "microbatches"),
                              most_in_flight, computed(outcome, rank)),
                  found == m && m > p ? "All forward passes come first. With GPipe, neighbours "
                                        "never send to each other at the "
                                        "same time, so there is no deadlock; but every stage holds "
                                        "all microbatches. Keep the "
                                        "order of 1F1B, and fix the messages."
                                      : "The stage starts more forward passes in advance than "
                                        "1F1B. The order of the passes was right."};
    const int buffers = most_in_flight + 3;
    if (outcome.peak_bytes[r] > bytes * buffers)
      throw Wrong{fmt::format("{}: stage {} holds {} Buffers at a time, and may hold {}",
                              each.name(), rank, outcome.peak_bytes[r] / bytes, buffers),
                  "Give a Buffer back, with reset(), when its microbatch's backward pass is done, "
                  "or when its message has been taken."};
  }
  if (p == 4 && m == 8)
    check.show(
        "Your run on 4 ranks. In the steady state, each stage sends activations down and "
        "gradients up in turn.",
        picture(outcome));
}

}  // namespace

void check(Check& check) {
  const Case cases[]{{1, 1, 2}, {2, 1, 2}, {1, 3, 2}, {2, 2, 1}, {2, 3, 3}, {3, 2, 2},
                     {2, 8, 1}, {3, 3, 1}, {3, 8, 4}, {8, 4, 1}, {4, 8, 5}, {11, 4, 1}};
  for (const Case& each : cases) check_one(check, each);
  for (int trial = 0; trial < 8; ++trial)
    check_one(check, {check.number_from(1, 6), check.number_from(1, 9),
                      static_cast<std::size_t>(check.number_from(1, 4))});
}

}  // namespace lockstep::exercises
