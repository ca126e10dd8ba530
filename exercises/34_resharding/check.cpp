#include "exercises/34_resharding/task.h"

#include <fmt/format.h>

#include <algorithm>

#include "exercises/frame/check.h"

namespace lockstep::exercises {

const char* const learned =
    "A shard is a range of a flat vector, so another number of shards is a matter of overlapping "
    "ranges: each rank sends what others will own, and no rank ever needs the whole vector.";

namespace {

using Numbers = std::vector<float>;

std::size_t shard_size(std::size_t P, int shards) {
  return (P + at(shards) - 1) / at(shards);
}

struct Case {
  int N, M;
  std::size_t P;
  int ranks() const { return std::max(N, M); }
  std::string text() const {
    return fmt::format("{} to {}, {}", N, count_of(M, "shard"),
                       count_of(static_cast<std::int64_t>(P), "parameter"));
  }
  /// The parameters that old shard `from` and new shard `to` have in common.
  std::size_t overlap(int from, int to) const {
    if (from >= N || to >= M) return 0;
    const std::size_t before = shard_size(P, N), after = shard_size(P, M);
    const std::size_t first = std::max(at(from) * before, at(to) * after);
    const std::size_t end = std::min({(at(from) + 1) * before, (at(to) + 1) * after, P});
    return end > first ? end - first : 0;
  }
};

struct Vector {
  Vector(Check& check, const Case& sizes_) : sizes(sizes_) {
    // All different, and in no simple order.
    for (std::size_t i = 0; i < shard_size(sizes.P, sizes.N) * at(sizes.N); ++i)
      all.push_back(static_cast<float>((i + 1) * 100) +
                    static_cast<float>(check.number_from(0, 99)));
    // Old padding is negative, so that it can be recognized.
    for (std::size_t i = sizes.P; i < all.size(); ++i) all[i] = -all[i];
  }
  Numbers old_shard(int r) const { return part(all, r, sizes.N); }
  Numbers new_shard(int r) const {
    Numbers padded(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(sizes.P));
    padded.resize(shard_size(sizes.P, sizes.M) * at(sizes.M));
    return part(padded, r, sizes.M);
  }
  /// The index of the parameter with this value, or -1.
  int find(float number) const {
    for (std::size_t i = 0; i < sizes.P; ++i)
      if (all[i] == number) return static_cast<int>(i);
    return -1;
  }

  Case sizes;
  Numbers all;  ///< with the old padding

 private:
  static Numbers part(const Numbers& numbers, int r, int shards) {
    if (r >= shards) return {};
    const std::size_t size = numbers.size() / at(shards);
    const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(at(r) * size);
    return {begin, begin + static_cast<std::ptrdiff_t>(size)};
  }
};

std::string diagnose_failure(const Failure& failure) {
  const char* const pairs =
      "If rank a sends to rank b, then b receives from a a message of the same size: what a's old "
      "shard and b's new shard have in common, without padding. Both ranks can compute it.";
  if (failure.deadlock)
    return fmt::format(
        "Ranks wait for each other. A send ends only when the receiver takes the message: start "
        "all messages, and wait for them afterwards. {}",
        pairs);
  return pairs;
}

/// Explains why number i of rank r's new shard is wrong.
std::string why_not(const Vector& vector, int r, std::size_t i, const Numbers& found) {
  const auto& [N, M, P] = vector.sizes;
  const std::size_t place = at(r) * shard_size(P, M) + i;
  if (place >= P)
    return found[i] < 0 ? "This is padding of the old shards. Padding is not sent: parameters end "
                          "at P, in the old vector and in the new one."
                        : "Numbers from P on are padding, and padding is 0.";
  const int owner = static_cast<int>(place / shard_size(P, N));
  const std::string where =
      fmt::format("This parameter is number {} of old shard {}", place % shard_size(P, N), owner);
  const std::span<const float> part = chunk(std::span{vector.all}.first(P), r, M);
  Numbers of_chunks(part.begin(), part.end());
  of_chunks.resize(found.size());
  if (!part.empty() && found == of_chunks)
    return "This is as chunk() divides the parameters, into parts that differ in size. Shards all "
           "have the same size, P / M rounded up, and the last ones are padded.";
  if (found[i] == 0)
    return owner == r
               ? where + ", on the same rank: it is copied without a message."
               : fmt::format("{}: nothing has arrived from rank {} in this place.", where, owner);
  if (found[i] < 0)
    return "This is padding of the old shards. Padding is at the end of the old vector, and other "
           "parameters belong here.";
  return fmt::format(
      "{}. What is here is parameter {}. The place within a shard is the place in "
      "the vector, minus that of the shard's beginning: r times P / N in old shards "
      "and r times P / M in new ones, both rounded up.",
      where, vector.find(found[i]));
}

void check_costs(const std::string& what, const Case& sizes, const Outcome& outcome) {
  const auto& [N, M, P] = sizes;
  std::vector<std::size_t> sent(at(sizes.ranks()));
  for (int r = 0; r < sizes.ranks(); ++r)
    for (int other = 0; other < M; ++other)
      if (other != r) sent[at(r)] += sizes.overlap(r, other);
  for (const Row& row : outcome.rows)
    for (const Block& block : row.blocks)
      if (row.sends && block.label == std::to_string(row.rank))
        throw Wrong{fmt::format("{}: rank {} sends a message to itself", what, row.rank),
                    "What is in a rank's old shard and in its new one, too, is copied without a "
                    "message."};
  for (int r = 0; r < sizes.ranks(); ++r) {
    const std::int64_t found = outcome.bytes_sent[at(r)];
    const auto expected = static_cast<std::int64_t>(4 * sent[at(r)]);
    if (found == expected) continue;
    const auto whole = static_cast<std::int64_t>(r < N ? 4 * shard_size(P, N) : 0);
    std::string why =
        "The new shards are right, but other numbers are sent than needed. Each rank sends to each "
        "other one what its old shard and the other's new shard have in common, and no more: no "
        "padding, and nothing that a third rank only passes on.";
    if (r >= N)
      why =
          "This rank has no old shard: it can only pass on what it has received. Each parameter "
          "goes from its old owner to its new owner in one message, without passing through "
          "another rank.";
    else if (sizes.ranks() > 1 && found > expected &&
             found % std::max<std::int64_t>(whole, 1) == 0 && whole > 0)
      why = fmt::format(
          "The new shards are right, but as much is sent as {} would be. Another rank needs only "
          "the part of an old shard that is in its new one.",
          count_of(found / whole, "whole shard"));
    throw Wrong{fmt::format("{}: rank {} sends {} B. What its old shard and the other ranks' new "
                            "shards have in common are {} B",
                            what, r, found, expected),
                why};
  }
  for (int r = 0; r < sizes.ranks(); ++r) {
    const std::size_t most = 4 * ((r < N ? shard_size(P, N) : 0) + (r < M ? shard_size(P, M) : 0));
    if (outcome.peak_bytes[at(r)] > static_cast<std::int64_t>(most))
      throw Wrong{fmt::format("{}: rank {} holds {} B at a time, and its old and its new shard are "
                              "{} B",
                              what, r, outcome.peak_bytes[at(r)], most),
                  "The new shards are right, but more memory is used than needed. Messages can be "
                  "sent from the old shard and received into the new one. For a model that fits "
                  "only in shards, no rank can hold the whole vector."};
  }
}

void check_one(Check& check, const Case& sizes) {
  const auto& [N, M, P] = sizes;
  const Vector vector{check, sizes};
  const std::string what = sizes.text();
  const Outcome outcome = check.run(
      what, sizes.ranks(),
      [&](World& world) {
        const int r = world.rank();
        const Numbers before = vector.old_shard(r);
        Buffer old = world.allocate(before.size());
        std::ranges::copy(before, old.span().begin());
        Buffer shard = reshard(world, sizes.P, sizes.N, sizes.M, std::move(old));
        if (const std::size_t right = vector.new_shard(r).size(); shard.size() != right)
          throw Wrong{
              fmt::format("rank {} returns {}, and its new shard has {}", r,
                          count_of(static_cast<std::int64_t>(shard.size()), "number"), right),
              right == 0 && r >= sizes.M ? "This rank has no new shard: it returns an empty Buffer."
                                         : "All new shards have the same size: P / M, rounded up."};
        return Numbers(shard.span().begin(), shard.span().end());
      },
      diagnose_failure);
  for (int r = 0; r < sizes.ranks(); ++r) {
    const Numbers right = vector.new_shard(r), &found = outcome.results[at(r)];
    for (std::size_t i = 0; i < right.size(); ++i)
      if (found[i] != right[i])
        throw Wrong{fmt::format("{}: new shard {} should be [{}], and is [{}]", what, r,
                                list(right), list(found)),
                    why_not(vector, r, i, found)};
  }
  check_costs(what, sizes, outcome);
  expect_nothing_empty(what, outcome);
  if (N == 4 && M == 3 && check.picture().text.empty())
    check.show("Your run from 4 to 3 shards: to whom each rank sends.", draw(outcome.rows));
}

}  // namespace

void check(Check& check) {
  // {2, 3, 5} has padding in both; {2, 4, 1} has shards of padding alone.
  const Case cases[]{{2, 1, 4}, {1, 2, 4},    {1, 1, 3},  {2, 3, 6},  {3, 2, 6},
                     {2, 3, 5}, {4, 2, 10},   {4, 3, 10}, {3, 3, 7},  {2, 4, 1},
                     {4, 1, 5}, {5, 4, 6},    {3, 8, 9},  {8, 3, 20}, {2, 2, 0},
                     {2, 3, 0}, {8, 7, 1000}, {7, 8, 99}, {9, 11, 50}};
  for (const Case& sizes : cases) check_one(check, sizes);
  for (int trial = 0; trial < 8; ++trial)
    check_one(check, {check.number_from(1, 8), check.number_from(1, 8),
                      static_cast<std::size_t>(check.number_from(0, 60))});
}

}  // namespace lockstep::exercises
