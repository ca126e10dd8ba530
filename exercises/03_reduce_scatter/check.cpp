#include <fmt/format.h>

#include <algorithm>

#include "exercises/03_reduce_scatter/task.h"
#include "exercises/frame/check.h"

namespace lockstep::exercises {

const char* const learned =
    "In a ring reduce-scatter each rank sends (N-1)/N of its data, however many ranks there are: "
    "the cost per rank hardly grows with N. It is the first half of an all-reduce.";

namespace {

constexpr const char* unequal =
    "This was right as long as N divided the number of elements. If it does not, the first chunks "
    "are one element longer: let chunk() compute where each begins and ends.";

std::string diagnose(const Failure& failure, bool equal) {
  if (failure.deadlock && failure.receives == 0)
    return "Every rank waits for its send to end before it receives. A send ends only when the "
           "receiver takes the message: start the send and the receive, and only then wait for "
           "both.";
  if (failure.waits_for_finished)
    return "One rank has done all its rounds while its neighbour still waits for a message: every "
           "rank needs the same number of rounds, N - 1.";
  // A message that is sent is not as long as the one that is received.
  if (!failure.deadlock && !equal) return unequal;
  return "The ranks disagree on who sends which chunk to whom. In every round, each rank sends one "
         "chunk to one neighbour and receives another, of that chunk's size, from the other "
         "neighbour.";
}

/// Explains why chunk r of rank r is not the sum. Cases with equal chunks run first, so if this
/// case has unequal chunks, the answer was right for equal ones.
std::string diagnose_sum(std::vector<std::vector<float>>& before,
                         std::vector<std::vector<float>>& after, std::vector<float>& sum, int r) {
  const int N = static_cast<int>(before.size());
  const auto chunk_of = [&](std::vector<float>& all, int i) {
    const std::span<float> part = chunk(std::span{all}, i, N);
    return std::vector<float>(part.begin(), part.end());
  };
  auto& mine = after[at(r)];
  const std::vector<float> found = chunk_of(mine, r);
  std::vector<float> mean = chunk_of(sum, r);
  for (float& each : mean) each /= static_cast<float>(N);
  if (found == mean)
    return "These are averages. A reduce-scatter adds; a caller that needs the average divides.";
  if (sum.size() % at(N) != 0) return unequal;
  for (int i = 0; i < N; ++i)
    if (i != r && chunk_of(mine, i) == chunk_of(sum, i))
      return fmt::format(
          "Chunk {} is complete on rank {}, where it should be chunk {}: the chunk that a rank "
          "adds to in the last round must be its own. Shift the chunk in which each rank starts.",
          i, r, r);
  if (found == chunk_of(before[at(r)], r))
    return "This is the rank's own part: nothing was added to it.";
  for (auto& others : before)
    if (found == chunk_of(others, r))
      return "This is the part of a single other rank: what arrives must be added to the rank's "
             "own part, not replace it.";
  return "A chunk must visit every rank once, and each rank must add its own part exactly once.";
}

}  // namespace

void check(Check& check) {
  for (const int N : {2, 3, 4, 1, 8, 11})
    for (const int elements : {N, 3 * N, 3 * N + 1, 4 * N - 1, N - 1}) {
      const auto n = at(elements);
      std::vector<std::vector<float>> before;
      for (int r = 0; r < N; ++r) before.push_back(check.numbers(n));
      const bool equal = elements % N == 0;
      const std::string what = fmt::format(
          "{}, {}{}", count_of(N, "rank"), count_of(elements, "element"),
          equal ? "" : fmt::format(", chunks of {} and {}", elements / N + 1, elements / N));
      Outcome outcome = check.run(
          what, N,
          [&](World& world) {
            std::vector<float> data = before[static_cast<std::size_t>(world.rank())];
            reduce_scatter(world, data);
            return data;
          },
          [&](const Failure& failure) { return diagnose(failure, equal); });
      std::vector<std::vector<float>>& after = outcome.results;
      if (N == 4 && elements == 3 * N)
        check.show("Your run on 4 ranks: to whom each rank sends, in 3 rounds.",
                   draw(outcome.rows));

      std::vector<float> sum(n);
      for (const auto& each : before)
        for (std::size_t i = 0; i < n; ++i) sum[i] += each[i];
      for (int r = 0; r < N; ++r) {
        const std::span<float> found = chunk(std::span{after[at(r)]}, r, N);
        const std::span<float> expected = chunk(std::span{sum}, r, N);
        if (std::ranges::equal(found, expected)) continue;
        throw Wrong{fmt::format("{}: chunk {} of rank {} should be [{}], and is [{}]", what, r, r,
                                list(expected), list(found)),
                    diagnose_sum(before, after, sum, r)};
      }
      check.results_are_right();
      check_ring(what, outcome);
      check_one_direction(what, outcome);
      for (int r = 0; r < N; ++r) {
        // N - 1 chunks: all but one. Chunk sizes differ by at most one element.
        const std::int64_t most = 4 * static_cast<std::int64_t>(n - (n / at(N)));
        const std::int64_t sent = outcome.bytes_sent[at(r)];
        if (sent > most)
          throw Wrong{fmt::format("{}: rank {} has sent {} B, and N-1 chunks are at most {} B",
                                  what, r, sent, most),
                      "The sums are right, but a rank sends more than N - 1 chunks. In each of the "
                      "N - 1 rounds it sends a single chunk, not all of its data."};
        const std::int64_t messages = outcome.messages_sent[at(r)];
        if (messages > N - 1)
          throw Wrong{fmt::format("{}: rank {} has sent {}, and N - 1 rounds have {}", what, r,
                                  count_of(messages, "message"), N - 1),
                      "The sums are right, and so are the bytes, but a chunk is sent in pieces. "
                      "Each message costs a latency: send a chunk as one message."};
      }
    }
}

}  // namespace lockstep::exercises
