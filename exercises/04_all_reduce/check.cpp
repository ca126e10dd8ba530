#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "exercises/04_all_reduce/task.h"
#include "exercises/frame/check.h"

namespace lockstep::exercises {

const char* const learned =
    "An all-reduce is a reduce-scatter and an all-gather. Each rank sends 2 (N-1)/N of its data in "
    "2 (N-1) rounds: the bytes hardly grow with N, the latencies do.";

void reduce_scatter(World& world, std::span<float> data) {
  const int N = world.size(), rank = world.rank();
  std::vector<float> arrived(chunk(data, 0, N).size());
  for (int k = 0; k < N - 1; ++k) {
    const std::span<float> sum = chunk(data, (rank - 2 - k + 2 * N) % N, N);
    const std::span<float> in = std::span{arrived}.first(sum.size());
    Work sent = world.send(chunk(data, (rank - 1 - k + 2 * N) % N, N), (rank + 1) % N);
    Work received = world.receive(in, (rank + N - 1) % N);
    received.wait();
    sent.wait();
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += in[i];
  }
}

namespace {

using Arrays = std::vector<std::vector<float>>;

std::string diagnose(const Failure& failure) {
  if (failure.deadlock && failure.receives == 0)
    return "Every rank waits for its send to end before it receives. A send ends only when the "
           "receiver takes the message: start the send and the receive, and only then wait for "
           "both.";
  if (failure.waits_for_finished)
    return "One rank has done all its rounds while its neighbour still waits for a message: every "
           "rank needs the same number of rounds, N - 1 in each half.";
  return "The ranks disagree on who sends which chunk to whom. The chunk that rank r receives in a "
         "round is the one that its neighbour sends in that round.";
}

/// One case: the ranks' inputs, and the result that all of them should have at the end.
struct Case {
  bool reduces = false;
  std::string what;
  Arrays before;
  std::vector<float> expected;

  int N() const { return static_cast<int>(before.size()); }
  std::vector<float> chunk_of(std::vector<float> all, int i) const {
    const std::span<float> part = chunk(std::span{all}, i, N());
    return {part.begin(), part.end()};
  }
  std::string diagnose_chunk(const Arrays& results, int r, int c) const;
  void check_results(const Arrays& results) const;
  void check_costs(const Outcome& outcome) const;
};

/// Why chunk c of rank r is wrong. Cases with equal chunks run first, so if this case has unequal
/// chunks, those were right.
std::string Case::diagnose_chunk(const Arrays& results, int r, int c) const {
  const std::vector<float> found = chunk_of(results[at(r)], c);
  const std::vector<float> right = chunk_of(expected, c);
  const auto& own = before[at(r)];
  const auto is_scaled = [&](float factor) {
    return std::ranges::equal(found, right,
                              [&](float a, float b) { return std::abs(a - factor * b) < 0.5F; });
  };
  if (reduces && is_scaled(1 / static_cast<float>(N())))
    return "These are averages. An all-reduce adds; a caller that needs the average divides.";
  if (expected.size() % static_cast<std::size_t>(N()) != 0)
    return "This was right as long as N divided the number of elements. If it does not, the first "
           "chunks are one element longer: let chunk() compute where each begins and ends.";
  bool is_scattered = reduces;
  for (int owner = 0; owner < N(); ++owner)
    is_scattered = is_scattered && chunk_of(results[at(owner)], owner) == chunk_of(expected, owner);
  if (is_scattered)
    return fmt::format(
        "The first half is done: chunk {} is complete on rank {}. The other ranks still need it, "
        "and an all-gather brings it to them.",
        c, c);
  for (int i = 0; i < N(); ++i)
    if (i != c && found == chunk_of(expected, i))
      return fmt::format(
          "These are the numbers of chunk {}. The chunk that arrives must be put where it belongs, "
          "and passed on in the next round: only in round 0 does a rank send its own chunk.",
          i);
  if (found == chunk_of(own, c)) {
    if (reduces)
      return "This is the rank's own part: nothing has been added to it. The sums come from a "
             "reduce-scatter, which is given, and the all-gather brings them to all ranks.";
    return fmt::format(
        "Rank {} has not received this chunk: it has the numbers that were there before.", r);
  }
  for (int other = 0; other < N(); ++other)
    if (other != c && other != r && found == chunk_of(before[at(other)], c))
      return fmt::format(
          "This is what rank {} had there. A rank must pass on chunks that are complete: its own "
          "first, and then the one that arrived last.",
          other);
  std::vector<float> added = right;
  const std::vector<float> mine = chunk_of(own, c);
  for (std::size_t i = 0; i < added.size(); ++i) added[i] += mine[i];
  if (!reduces && found == added)
    return "What arrived was added to what was there. In an all-gather, it replaces it.";
  if (reduces)
    return "This is not the sum over all ranks. The reduce-scatter comes first: it leaves the sum "
           "of chunk r on rank r, which the all-gather then brings to all.";
  return "Each rank starts with its own chunk, and copies what arrives. Nothing is added.";
}

void Case::check_results(const Arrays& results) const {
  for (int r = 0; r < N(); ++r)
    for (int c = 0; c < N(); ++c) {
      const std::vector<float> found = chunk_of(results[at(r)], c);
      const std::vector<float> right = chunk_of(expected, c);
      if (found == right) continue;
      throw Wrong{fmt::format("{}: chunk {} of rank {} should be [{}], and is [{}]", what, c, r,
                              list(right), list(found)),
                  diagnose_chunk(results, r, c)};
    }
}

void Case::check_costs(const Outcome& outcome) const {
  const auto n = static_cast<std::int64_t>(expected.size());
  const std::int64_t halves = reduces ? 2 : 1, hops = halves * (N() - 1);
  const std::int64_t longest = (n + N() - 1) / N();
  const auto& sent = outcome.bytes_sent;
  // Every chunk makes N - 1 hops in each half.
  const std::int64_t all = std::accumulate(sent.begin(), sent.end(), std::int64_t{0});
  const std::int64_t busiest = *std::ranges::max_element(sent);
  if (all != 4 * hops * n || busiest > 4 * hops * longest)
    throw Wrong{
        fmt::format(
            "{}: the ranks have sent {} B, at most {} B each; it should be {} B, at most {} B",
            what, all, busiest, 4 * hops * n, 4 * hops * longest),
        all > 4 * hops * n
            ? fmt::format("The numbers are right, but a rank sends more than {}: in each round it "
                          "sends a single chunk.",
                          count_of(hops, "chunk"))
            : "Every chunk must travel to N - 1 ranks in each half."};
  const double round = 1 + 0.004 * static_cast<double>(longest);
  const double most = static_cast<double>(hops) * round;
  if (outcome.microseconds > most + 1e-6)
    throw Wrong{
        fmt::format("{}: the run has taken {:.3f} µs. Rounds of {:.3f} µs, {} of them, take "
                    "{:.3f} µs",
                    what, outcome.microseconds, round, hops, most),
        "The numbers and the bytes are right, but the ranks wait for each other. In every "
        "round, each rank sends and receives at the same time: start both, and only then "
        "wait for both."};
}

void check_one(Check& check, bool reduces, int N, int elements) {
  const auto n = at(elements);
  Case each{reduces,
            fmt::format("{}: {}, {}", reduces ? "all_reduce" : "all_gather", count_of(N, "rank"),
                        count_of(elements, "element")),
            {},
            std::vector<float>(n)};
  for (int r = 0; r < N; ++r) each.before.push_back(check.numbers(n));
  for (int r = 0; r < N; ++r) {
    auto& mine = each.before[at(r)];
    if (reduces)
      for (std::size_t i = 0; i < n; ++i) each.expected[i] += mine[i];
    else
      std::ranges::copy(chunk(std::span{mine}, r, N),
                        chunk(std::span{each.expected}, r, N).begin());
  }
  const Outcome outcome = check.run(
      each.what, N,
      [&](World& world) {
        std::vector<float> data = each.before[static_cast<std::size_t>(world.rank())];
        reduces ? all_reduce(world, data) : all_gather(world, data);
        return data;
      },
      diagnose);
  each.check_results(outcome.results);
  check_ring(each.what, outcome);
  // The given half, the reduce-scatter, sends to the right.
  if (!reduces) check_one_direction(each.what, outcome);
  each.check_costs(outcome);
  if (reduces && N == 4 && elements == 3 * N)
    check.show("Your all-reduce on 4 ranks: to whom each rank sends, in 2 · 3 rounds.",
               draw(outcome.rows));
}

}  // namespace

void check(Check& check) {
  for (const bool reduces : {false, true})
    for (const int N : {2, 3, 4, 1, 8, 11})
      for (const int elements : {N, 3 * N, 3 * N + 1, 4 * N - 1, N - 1})
        check_one(check, reduces, N, elements);
}

}  // namespace lockstep::exercises
