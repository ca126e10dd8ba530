#include "exercises/27_find_ring_index/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "exercises/frame/check.h"

namespace lockstep::exercises {

const char* const learned =
    "On a ring that runs to the right, round k brings the block of rank - k. On two ranks, rank - "
    "k and rank + k are the same, so try three at least: two ranks hide the direction, and every "
    "index that is wrong by a sign.";

namespace {

/// The owner of the block at each place, by rank: letters[r][i]. '.' for zeros, '?' for anything
/// else.
using Letters = std::vector<std::string>;

std::string diagnose(const Failure& failure) {
  if (failure.deadlock && failure.receives == 0)
    return "Every rank waits for its send to end before it receives. Start both, and then wait.";
  return "In every round, each rank must send one block to one neighbour and receive one from the "
         "other.";
}

std::string letter_of(int rank) {
  return std::string(1, static_cast<char>('A' + rank));
}

/// Whether, for all r and i, place i of rank r has block f(r, i).
template <class F>
bool all_are(const Letters& letters, F f) {
  const int N = static_cast<int>(letters.size());
  for (int r = 0; r < N; ++r)
    for (int i = 0; i < N; ++i)
      if (letters[at(r)][at(i)] != letter_of((f(r, i) % N + N) % N).front()) return false;
  return true;
}

std::string diagnose_places(const Letters& letters) {
  const int N = static_cast<int>(letters.size());
  if (all_are(letters, [](int r, int i) { return 2 * r - i; }))
    return "Every rank has all blocks, and its own in the right place. The others stand in the "
           "opposite order: where the block of the next rank should be, there is that of the rank "
           "before. From where does the block come that arrives in round 1, and where is it put?";
  for (int r = 0; r < N; ++r)
    if (const char own = letters[at(r)][at(r)]; own == '.')
      return fmt::format(
          "Rank {}'s own block is missing: nothing has been written at its place. No message "
          "brings it, so the rank copies it from `mine`.",
          r);
    else if (own != letter_of(r).front())
      return fmt::format(
          "Rank {}'s own block has been overwritten by another one: in some round, the owner is "
          "computed as the rank itself. If an index is wrong by one place, this is how it shows.",
          r);
  for (int r = 0; r < N; ++r) {
    const std::string& row = letters[at(r)];
    if (row.find('.') != std::string::npos)
      return fmt::format(
          "At place {} of rank {}, nothing has been written. N - 1 blocks must arrive on each "
          "rank, and each has a place of its own.",
          row.find('.'), r);
    if (row.find('?') != std::string::npos)
      return fmt::format("At place {} of rank {}, there is no rank's block.", row.find('?'), r);
  }
  for (int r = 0; r < N; ++r) {
    std::string sorted = letters[at(r)];
    std::ranges::sort(sorted);
    if (std::ranges::adjacent_find(sorted) != sorted.end())
      return fmt::format(
          "Rank {} has a block twice. A rank that only sends its own block does not pass on what "
          "it has received.",
          r);
  }
  return "Every rank has all blocks, but not each at its owner's place. Whose block arrives in "
         "round k depends on the rank: it cannot be the same place for every rank.";
}

}  // namespace

void check(Check& check) {
  for (const int N : {2, 3, 1, 4, 5, 8, 11})
    for (const int size : {1, 3, 0, 200}) {
      const auto n = at(size);
      std::vector<std::vector<float>> blocks;
      for (int r = 0; r < N; ++r) {
        blocks.push_back(check.numbers(n));
        // All blocks differ from each other and from zeros.
        if (n > 0) blocks.back().front() = static_cast<float>(20'000 + r);
      }
      const std::string what =
          fmt::format("{}, blocks of {}", count_of(N, "rank"), count_of(size, "number"));
      const Outcome outcome = check.run(
          what, N,
          [&](World& world) {
            const std::vector<float> mine = blocks[static_cast<std::size_t>(world.rank())];
            std::vector<float> all(n * at(N));
            gather_blocks(world, mine, all);
            return all;
          },
          diagnose);

      Letters letters;
      for (const std::vector<float>& all : outcome.results) {
        letters.emplace_back();
        for (int i = 0; i < N; ++i) {
          const auto begin = all.begin() + i * static_cast<std::ptrdiff_t>(n);
          const auto is = [&](const std::vector<float>& block) {
            return std::equal(block.begin(), block.end(), begin);
          };
          char letter = is(std::vector<float>(n)) ? '.' : '?';
          for (int r = 0; n > 0 && r < N; ++r)
            if (is(blocks[at(r)])) letter = letter_of(r).front();
          letters.back() += letter;
        }
      }
      if (n > 0 && !all_are(letters, [](int, int i) { return i; })) {
        std::string table = "\n\n            ";
        for (int i = 0; i < N; ++i) table += fmt::format(" {}", letter_of(i));
        table += "   (should be)";
        for (int r = 0; r < N; ++r) {
          table += fmt::format("\n  on rank {}:", r);
          for (const char letter : letters[at(r)]) table += fmt::format(" {}", letter);
        }
        std::string lines = draw(outcome.rows);
        if (!lines.empty()) lines.pop_back();
        throw Wrong{fmt::format("{}: these blocks are in `all`, where block A is rank 0's:{}\n\nTo "
                                "whom each rank has sent:\n\n{}",
                                what, table, lines),
                    diagnose_places(letters)};
      }
      for (int r = 0; r < N; ++r)
        if (const std::int64_t sent = outcome.bytes_sent[at(r)];
            sent > 4 * static_cast<std::int64_t>(n) * (N - 1))
          throw Wrong{fmt::format("{}: rank {} has sent {} B, and N - 1 blocks are {} B", what, r,
                                  sent, 4 * static_cast<std::int64_t>(n) * (N - 1)),
                      "All blocks are in their places, but a rank sends more than N - 1 of them."};
      if (N == 4 && size == 3)
        check.show("Your ring of 4 ranks: to whom each rank sends, in 3 rounds.",
                   draw(outcome.rows));
    }
}

}  // namespace lockstep::exercises
