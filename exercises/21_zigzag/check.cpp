#include "exercises/21_zigzag/task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "exercises/frame/check.h"

namespace lockstep::exercises {

const char* const learned =
    "Under a causal mask, late positions cost more than early ones. With an early and a late chunk "
    "on each rank, all ranks have the same work in every round of the ring, and causal attention "
    "takes half the time of attention without a mask.";

namespace {

using Layout = std::vector<std::vector<int>>;  // by rank: its positions, ascending

/// The number of pairs of a query and a key that it may attend to. Queries and keys are ascending.
std::int64_t pairs(const std::vector<int>& queries, const std::vector<int>& keys) {
  std::int64_t all = 0;
  for (const int q : queries) all += std::ranges::upper_bound(keys, q) - keys.begin();
  return all;
}

/// The work of each rank in round k.
std::vector<std::int64_t> work_in(const Layout& layout, int k) {
  const int N = static_cast<int>(layout.size());
  std::vector<std::int64_t> work;
  for (int r = 0; r < N; ++r)
    work.push_back(pairs(layout[at(r)], layout[static_cast<std::size_t>((r - k + N) % N)]));
  return work;
}

/// The duration of the step, in pairs: each round lasts as long as its slowest rank.
std::int64_t step_of(const Layout& layout) {
  std::int64_t step = 0;
  for (std::size_t k = 0; k < layout.size(); ++k)
    step += std::ranges::max(work_in(layout, static_cast<int>(k)));
  return step;
}

Layout contiguous(int N, int length) {
  Layout layout(at(N));
  for (int i = 0; i < length; ++i) layout[static_cast<std::size_t>(i / (length / N))].push_back(i);
  return layout;
}

std::string show(const Layout& layout) {
  std::string text;
  for (std::size_t r = 0; r < layout.size(); ++r)
    text += fmt::format("\n  rank {}: {}", r, fmt::join(layout[r], " "));
  return text;
}

/// Each round begins when the slowest rank has finished the previous one.
Picture draw_rounds(const Layout& layout) {
  std::vector<Row> rows;
  for (std::size_t r = 0; r < layout.size(); ++r)
    rows.push_back({fmt::format("rank {}", r), {}, static_cast<int>(r)});
  std::int64_t begin = 0;
  for (std::size_t k = 0; k < layout.size(); ++k) {
    const std::vector<std::int64_t> work = work_in(layout, static_cast<int>(k));
    for (std::size_t r = 0; r < layout.size(); ++r)
      if (work[r] > 0) rows[r].blocks.push_back({begin, begin + work[r], std::to_string(k)});
    begin += std::ranges::max(work);
  }
  return draw(rows);
}

bool is_one_piece(const std::vector<int>& positions) {
  return positions.back() - positions.front() == static_cast<int>(positions.size()) - 1;
}

std::string diagnose(const Layout& layout) {
  if (std::ranges::all_of(layout, is_one_piece))
    return "Each rank has neighbouring positions. The rank with the last ones has the most work in "
           "every round, and the one with the first ones has nothing to do after round 0. Give "
           "each rank some early and some late positions.";
  std::vector<std::int64_t> all(layout.size());
  for (std::size_t k = 0; k < layout.size(); ++k) {
    const auto work = work_in(layout, static_cast<int>(k));
    for (std::size_t r = 0; r < layout.size(); ++r) all[r] += work[r];
  }
  const auto [least, most] = std::ranges::minmax_element(all);
  if (*most - *least > static_cast<std::int64_t>(layout.front().size()))
    return fmt::format(
        "Over all rounds, rank {} has {} pairs and rank {} has {}. A query at position q has q + 1 "
        "keys to look at: the later one rank's early positions are, the earlier its late ones must "
        "be.",
        most - all.begin(), *most, least - all.begin(), *least);
  return "Over all rounds, the ranks have about the same work, but not within each round, and "
         "every round waits for its slowest rank. Against the keys of any other rank, each rank "
         "needs "
         "the same number of pairs.";
}

/// A sequence of more positions is too long to show.
constexpr int most_shown = 64;

/// Returns the text, or "" if the sequence is too long to show.
std::string show_some(const std::string& text, int length) {
  return length <= most_shown ? text : "";
}

/// Throws Wrong unless this layout, whose positions are ascending, is right.
void judge(Check& check, const std::string& what, const Layout& layout, int length) {
  const int N = static_cast<int>(layout.size());
  std::vector<int> owner(at(length), -1);
  for (int r = 0; r < N; ++r) {
    const std::vector<int>& mine = layout[at(r)];
    for (const int position : mine) {
      const auto fail = [&](const std::string& wrong, const std::string& why) {
        throw Wrong{length <= most_shown ? fmt::format("{}: rank {} has the positions {}: {}", what,
                                                       r, fmt::join(mine, " "), wrong)
                                         : fmt::format("{}: rank {}: {}", what, r, wrong),
                    why};
      };
      if (position < 0 || position >= length)
        fail(fmt::format("there is no position {}", position),
             fmt::format("The positions are 0 to {}. With 2 N chunks, each has length / (2 N) "
                         "positions, and the last one is chunk 2 N - 1.",
                         length - 1));
      int& has = owner[at(position)];
      if (has >= 0)
        fail(has == r ? fmt::format("position {} twice", position)
                      : fmt::format("position {} is on rank {}, too", position, has),
             "Each position belongs to exactly one rank, so the ranks' chunks must not overlap. A "
             "chunk has length / (2 N) positions if there are 2 N of them.");
      has = r;
    }
  }
  if (const auto missing = std::ranges::find(owner, -1); missing != owner.end())
    throw Wrong{fmt::format("{}: position {} is on no rank{}", what, missing - owner.begin(),
                            show_some(":" + show(layout), length)),
                "Together, the ranks must have all positions of the sequence, from 0 to length - "
                "1: length / N on each."};
  const int c = length / N;
  for (int r = 0; r < N; ++r)
    if (const auto count = layout[at(r)].size(); count != at(c))
      throw Wrong{fmt::format("{}: rank {} has {} positions, and each rank must have {}{}", what, r,
                              count, c, show_some(":" + show(layout), length)),
                  "The memory of a rank must not depend on its place in the ring: each has length "
                  "/ N positions."};
  for (int k = 0; k < N; ++k) {
    const std::vector<std::int64_t> work = work_in(layout, k);
    const auto [least, most] = std::ranges::minmax_element(work);
    if (*most - *least <= c) continue;
    std::string lines = draw_rounds(layout);
    lines.pop_back();  // the newline at the end
    throw Wrong{fmt::format("{}: in round {}, rank {} computes {} pairs and rank {} computes {}:{}"
                            "\n\n{}",
                            what, k, most - work.begin(), *most, least - work.begin(), *least,
                            length <= 32 ? show(layout) : "", lines),
                diagnose(layout)};
  }
  if (N == 4 && length == 16)
    check.show(fmt::format("The rounds of your ring, 4 ranks with 4 of 16 positions each: the step "
                           "takes {} pairs, and {} with contiguous chunks.",
                           step_of(layout), step_of(contiguous(N, length))),
               draw_rounds(layout));
}

void check_one(Check& check, int N, int length) {
  const std::string what = fmt::format("{}, {} positions", count_of(N, "rank"), length);
  check.count_case(what);
  const auto positions = [&](int rank) {
    std::vector<int> mine = positions_of(rank, N, length);
    std::ranges::sort(mine);
    return mine;
  };
  Layout layout(at(N)), again = layout;
  for (int r = 0; r < N; ++r) layout[at(r)] = positions(r);
  for (int r = N; r-- > 0;) again[at(r)] = positions(r);
  try {
    judge(check, what, layout, length);
    if (again != layout) judge(check, what, again, length);
  } catch (const Wrong&) {
    if (again == layout) throw;
    const auto r = std::ranges::mismatch(layout, again).in1 - layout.begin();
    throw Wrong{
        fmt::format("{}: a call for rank {} returns other positions the second time{}", what, r,
                    show_some(fmt::format(". The first time:{}\n\nThe second time, called "
                                          "for the last rank first:{}",
                                          show(layout), show(again)),
                              length)),
        "Something remains from one call to the next, in a static or a global variable. "
        "The positions may depend on the arguments only: every rank calls the function by "
        "itself."};
  }
}

}  // namespace

void check(Check& check) {
  const std::pair<int, int> cases[]{{2, 4},   {2, 8},     {1, 2},      {1, 6},     {3, 6},
                                    {3, 12},  {4, 16},    {4, 64},     {8, 16},    {8, 128},
                                    {2, 300}, {3, 2'046}, {16, 4'096}, {64, 8'192}};
  for (const auto& [N, length] : cases) check_one(check, N, length);
  for (int trial = 0; trial < 20; ++trial) {
    const int N = check.number_from(1, 12);
    check_one(check, N, 2 * N * check.number_from(1, 10));
    check_one(check, N, 2 * N * check.number_from(10, 400));
  }
}

}  // namespace lockstep::exercises
