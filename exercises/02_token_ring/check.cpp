#include "exercises/02_token_ring/task.h"

#include <fmt/format.h>

#include <numeric>

#include "exercises/frame/check.h"

namespace lockstep::exercises {

const char* const learned =
    "A send ends only when its receiver takes the message, so in any cycle of ranks at least one "
    "must receive before it sends, or do both at once.";

namespace {

constexpr const char* alone =
    "With a single rank, the token does not travel: the rank sends and receives nothing, but adds "
    "its number to the token and returns the sum.";

std::string diagnose(const Failure& failure) {
  if (failure.waits_for_finished)
    return "A rank waits for a message that nobody will send, or sends one that nobody will take: "
           "count the sends and the receives of each rank. Each rank needs one of each.";
  if (!failure.deadlock)
    return "The run ended with this error before the token was around. The ranks are numbered 0 to "
           "N - 1, and the ring is closed: the left neighbour of rank 0 is rank N - 1, and the "
           "right neighbour of rank N - 1 is rank 0.";
  if (failure.sends + failure.receives == 1)
    return "With a single rank there is nobody to send to. The token does not travel: return it "
           "with `mine` added.";
  if (failure.receives == 0)
    return "Every rank sends first. A send ends only when the receiver takes the message, and no "
           "rank gets as far as receiving. Only rank 0 may send first.";
  if (failure.sends == 0)
    return "Every rank receives first, so no message ever leaves. Rank 0, which has the token, "
           "must send first.";
  return "These ranks wait for each other in a circle. Look at who sends to whom: the token goes "
         "to the right neighbour, rank + 1, and comes from the left one, rank - 1, both modulo the "
         "number of ranks.";
}

/// Throws Wrong unless each rank has sent one message of one number, to its right neighbour.
void check_messages(const std::string& what, const Outcome& outcome) {
  const int N = static_cast<int>(outcome.results.size());
  for (int r = 0; r < N; ++r) {
    const std::int64_t messages = outcome.messages_sent[at(r)];
    if (messages != (N == 1 ? 0 : 1))
      throw Wrong{fmt::format("{}: rank {} has sent {}, and should send {}", what, r,
                              count_of(messages, "message"), N == 1 ? "none" : "one"),
                  N == 1 ? alone
                         : "The numbers are right, but the token does not travel once around the "
                           "ring: each rank sends it once, to its right neighbour."};
    for (const Started& each : outcome.started[at(r)])
      if (each.numbers != 1)
        throw Wrong{fmt::format("{}: rank {}'s {} has {}, not one", what, r, each.where,
                                count_of(static_cast<std::int64_t>(each.numbers), "number")),
                    "The results are right, but more than the token travels. The token is a single "
                    "number, and nothing else is needed."};
  }
  for (const Row& row : outcome.rows)
    for (const Block& block : row.blocks)
      if (row.sends && std::stoi(block.label) != (row.rank + 1) % N)
        throw Wrong{
            fmt::format("{}: rank {} sends to rank {}, and not to its right neighbour, rank {}",
                        what, row.rank, block.label, (row.rank + 1) % N),
            "The numbers are right, but the token must go from each rank to its right neighbour."};
}

}  // namespace

void check(Check& check) {
  for (const int ranks : {2, 3, 1, 4, 8, 11}) {
    std::vector<float> mine = check.separable(at(ranks) + 1);
    const float token = mine.back();
    mine.pop_back();
    const std::string what = count_of(ranks, "rank");
    const Outcome outcome = check.run(
        what, ranks,
        [&](World& world) {
          const auto r = static_cast<std::size_t>(world.rank());
          // Only rank 0 has the token; the argument `token` of the other ranks must not matter.
          return std::vector{pass_token(world, r == 0 ? token : -1e6F, mine[r])};
        },
        [&](const Failure& failure) { return ranks == 1 ? alone : diagnose(failure); });
    std::vector<float> found;
    for (const auto& result : outcome.results) found.push_back(result.front());
    if (ranks == 4)
      check.show("Your run on 4 ranks. The digit is the rank to which the token travels:",
                 draw(outcome.rows));

    // Rank r's token contains the additions of ranks 1 to r; rank 0 adds last.
    std::vector<float> expected(mine.size());
    for (std::size_t r = 1; r < mine.size(); ++r)
      expected[r] = (r == 1 ? token : expected[r - 1]) + mine[r];
    expected[0] = (ranks == 1 ? token : expected.back()) + mine[0];
    if (found == expected) {
      check_messages(what, outcome);
      continue;
    }

    const float all = std::accumulate(mine.begin(), mine.end(), token);
    std::string why =
        "Each rank adds its number to the token that it received from the left, and "
        "returns the sum.";
    if (ranks == 1)
      why = found[0] == all + mine[0]
                ? "The rank has added its number twice: a single rank adds it once, like any other."
            : found[0] == mine[0] && found[0] != token
                ? "The token that rank 0 started with was lost: the rank adds its number to it."
                : "A single rank sends nothing, but it is a rank of the ring like any other: it "
                  "adds its number to the token.";
    else if (found[0] == token || found[0] == token + mine[0])
      why =
          "Rank 0 has returned the token that it started with: it must also receive the token at "
          "the end, and add its number to that.";
    else if (found[0] == all - mine[0] || found[0] == all + mine[0])
      why = found[0] == all + mine[0]
                ? "Rank 0 has added its number twice: it adds it once, at the end of the journey."
                : "Rank 0 has not added its number at the end of the journey.";
    else if (ranks > 2 && found[1] == all - mine[0])
      why = "The token went around in the other direction: rank 0 sends it to rank 1.";
    else if (found[0] < -1e5F)
      why =
          "The token that rank 0 started with was lost: a rank other than 0 has sent its own "
          "argument instead of what it received.";
    else if (ranks > 2 && found[0] == token + mine[at(ranks - 1)] + mine[0])
      why = "The ranks in between have not added their numbers.";
    throw Wrong{
        fmt::format("{}: the token starts as {:g}, the ranks add {}: they should return {}, "
                    "and have returned {}",
                    what, token, list(mine), list(expected), list(found)),
        why};
  }
}

}  // namespace lockstep::exercises
