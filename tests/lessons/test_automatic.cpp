#include <doctest/doctest.h>

#include <array>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/error.h"
#include "core/pipeline/validate.h"
#include "lessons/11_zero_bubble/automatic.h"
#include "lessons/11_zero_bubble/zb_h1.h"
#include "lessons/11_zero_bubble/zb_h2.h"
#include "tests/support/portion.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Returns random times of F, I and W from 1 to 11 ms, equal on all stages or not, and hops of at
/// most `longest_hop`, in units of 10 µs.
PipelineTimes random_times(std::mt19937& random, int ranks, bool equal, int longest_hop = 100) {
  const auto time = [&](int least, int most) {
    return Picoseconds{10'000'000} * std::uniform_int_distribution{least, most}(random);
  };
  PipelineTimes times;
  times.cluster.within.latency_seconds = static_cast<double>(time(0, longest_hop)) * 1e-12;
  for (int rank = 0; rank < ranks; ++rank) {
    const Picoseconds input = time(100, 1100), weight = time(100, 1100);
    times.stages.push_back({.forward = time(100, 1100),
                            .backward = input + weight,
                            .backward_input = input,
                            .backward_weight = weight});
    if (equal) times.stages.back() = times.stages.front();
  }
  return times;
}

Picoseconds longest_window(const Schedule& schedule, const PipelineTimes& times) {
  return std::get<0>(cost_of(schedule, times));
}

/// Calls `visit` with every order of m F's, I's and W's in which no more than `limit` microbatches
/// are live.
void each_row(int microbatches, int limit,
              const std::function<void(const std::vector<Action>&)>& visit) {
  std::vector<Action> row;
  std::array<int, 3> done{};
  const std::array<Op, 3> ops{Op::forward, Op::backward_input, Op::backward_weight};
  const std::function<void()> extend = [&] {
    if (done[2] == microbatches) return visit(row);
    const bool may[] = {done[0] < microbatches && done[0] - done[2] < limit, done[1] < done[0],
                        done[2] < done[1]};
    for (std::size_t k = 0; k < 3; ++k) {
      if (!may[k]) continue;
      row.push_back({ops[k], 0, done[k]++});
      extend();
      row.pop_back();
      --done[k];
    }
  };
  extend();
}

/// Returns a lower bound on the longest window of all schedules that begin with these rows, one per
/// rank, from the first rank; or nothing if they deadlock. The ranks after the last row are assumed
/// to run every F and I as soon as its input arrives. The bound is the window itself if there is a
/// row for each rank. A message costs only latency.
std::optional<Picoseconds> bound(const std::vector<const std::vector<Action>*>& rows,
                                 const Search& search) {
  constexpr Picoseconds unknown = -1;
  const std::size_t known = rows.size(), p = search.times.stages.size();
  const auto m = static_cast<std::size_t>(search.microbatches);
  const Picoseconds hop = search.times.cluster.latency(0, 1, 0);
  Picoseconds later = 0;  // from the last row's F to the arrival of its gradient
  for (std::size_t q = known; q < p; ++q)
    later += search.times.stages[q].forward + search.times.stages[q].backward_input + 2 * hop;

  std::vector<Picoseconds> forward(known * m, unknown), input(known * m, unknown), free(known, 0);
  std::vector<std::size_t> position(known, 0);
  Picoseconds window = 0;
  std::size_t left = known * 3 * m;
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t q = 0; q < known; ++q) {
      const StageTimes& times = search.times.stages[q];
      for (; position[q] < rows[q]->size(); ++position[q], --left, progress = true) {
        const Action& action = (*rows[q])[position[q]];
        const auto i = static_cast<std::size_t>(action.microbatch);
        const auto arrival = [&](Picoseconds end) { return end == unknown ? end : end + hop; };
        Picoseconds ready = 0;
        if (action.op == Op::forward && q > 0) ready = arrival(forward[(q - 1) * m + i]);
        if (action.op == Op::backward_input)
          ready = q + 1 < known ? arrival(input[(q + 1) * m + i]) : forward[q * m + i] + later;
        if (ready == unknown) break;
        free[q] = std::max(free[q], ready) + times.of(action.op);
        if (action.op == Op::forward) forward[q * m + i] = free[q];
        if (action.op == Op::backward_input) input[q * m + i] = free[q];
      }
    }
  }
  if (left > 0) return {};
  // Every row begins with the first F, which starts as soon as it arrives.
  Picoseconds start = 0;
  for (std::size_t q = 0; q < known; ++q) {
    window = std::max(window, free[q] - start);
    start += search.times.stages[q].forward + hop;
  }
  return window;
}

/// Returns the longest window of the best of all schedules, but at most `most`. Tries all orders of
/// all ranks, and skips those whose first ranks alone already have a window that is too long.
Picoseconds exhaustive(const Search& search, Picoseconds most) {
  std::vector<std::vector<Action>> rows;
  each_row(search.microbatches, search.limit, [&](const auto& row) { rows.push_back(row); });
  std::vector<const std::vector<Action>*> chosen;
  const std::function<void()> choose = [&] {
    const std::optional<Picoseconds> least =
        chosen.empty() ? std::optional<Picoseconds>{0} : bound(chosen, search);
    if (!least || *least >= most) return;
    if (chosen.size() < static_cast<std::size_t>(search.ranks())) {
      for (const auto& row : rows) {
        chosen.push_back(&row);
        choose();
        chosen.pop_back();
      }
      return;
    }
    Schedule schedule = one_stage_per_rank("any", search.ranks(), search.microbatches);
    for (std::size_t rank = 0; rank < chosen.size(); ++rank) {
      schedule.actions[rank] = *chosen[rank];
      for (Action& action : schedule.actions[rank]) action.stage = static_cast<int>(rank);
    }
    most = longest_window(schedule, search.times);
    REQUIRE(most == *least);  // as the simulator says
  };
  choose();
  return most;
}

}  // namespace

TEST_CASE("automatic: with the memory of ZB-H2, never worse than ZB-H2 and sometimes better") {
  std::mt19937 random{20};
  int better = 0;
  const int sets = portion_of(100, 6);
  for (int set = 0; set < sets; ++set) {
    CAPTURE(set);
    // With expensive messages, the search alone would not always reach ZB-H2.
    const int longest_hop = set % 4 == 0 ? 2000 : 100;
    const PipelineTimes times = random_times(random, 8, set % 2 == 0, longest_hop);
    const Schedule found = automatic_schedule({.microbatches = 32, .limit = 15, .times = times});
    REQUIRE_NOTHROW(validate(found));
    const Picoseconds mine = longest_window(found, times), h2 = longest_window(zb_h2(8, 32), times);
    CHECK(mine <= h2);
    better += mine < h2;
    for (int rank = 0; rank < 8; ++rank) CHECK(peak_live_microbatches(found, rank) <= 15);
  }
  CHECK(better >= sets / 4);
}

TEST_CASE("automatic: within any memory limit, never worse than the fixed schedules that keep it") {
  std::mt19937 random{21};
  for (const int p : {2, 3, 4})
    for (const int m : portion(std::vector{9, 1, 4}, 1))
      for (int limit = 1; limit <= 2 * p; ++limit) {
        CAPTURE(p);
        CAPTURE(m);
        CAPTURE(limit);
        const PipelineTimes times = random_times(random, p, limit % 2 == 0);
        const Schedule found =
            automatic_schedule({.microbatches = m, .limit = limit, .times = times});
        REQUIRE_NOTHROW(validate(found));
        for (int rank = 0; rank < p; ++rank) CHECK(peak_live_microbatches(found, rank) <= limit);
        const Picoseconds mine = longest_window(found, times);
        if (limit >= std::min(m, p)) CHECK(mine <= longest_window(zb_h1(p, 1, m), times));
        if (limit >= std::min(m, 2 * p - 1)) CHECK(mine <= longest_window(zb_h2(p, m), times));
      }
}

TEST_CASE("automatic: within 1 % of the best of all schedules, for few ranks and microbatches") {
  struct Size {
    int ranks, microbatches, limit;
  };
  std::vector<Size> sizes;
  for (const int ranks : {3, 2})
    for (const int microbatches : {4, 3, 2, 1})
      for (int limit = microbatches; limit >= 1; --limit)
        sizes.push_back({ranks, microbatches, limit});
  std::mt19937 random{22};
  for (const auto& [ranks, microbatches, limit] : sizes)
    for (int set = 0; set < portion_of(20, 4); ++set) {
      CAPTURE(set);
      CAPTURE(ranks);
      CAPTURE(microbatches);
      CAPTURE(limit);
      const int longest_hop = set % 3 == 1 ? 2000 : 100;
      const Search search{.microbatches = microbatches,
                          .limit = limit,
                          .times = random_times(random, ranks, set % 2 == 0, longest_hop)};
      const Picoseconds mine = longest_window(automatic_schedule(search), search.times);
      // Searches exhaustively for a better schedule than the one that was found.
      const Picoseconds best = exhaustive(search, mine);
      CHECK(static_cast<double>(mine) <= 1.01 * static_cast<double>(best));
    }
}

TEST_CASE("the exhaustive search prunes no schedule that is better") {
  std::mt19937 random{24};
  for (const auto& [ranks, microbatches, limit] :
       {std::tuple{2, 3, 3}, {3, 2, 2}, {3, 3, 2}, {2, 4, 2}}) {
    const Search search{.microbatches = microbatches,
                        .limit = limit,
                        .times = random_times(random, ranks, microbatches % 2 == 0)};
    std::vector<std::vector<Action>> rows;
    each_row(microbatches, limit, [&](const auto& row) { rows.push_back(row); });
    Picoseconds best = std::numeric_limits<Picoseconds>::max();
    Schedule schedule = one_stage_per_rank("any", ranks, microbatches);
    const std::function<void(int)> choose = [&](int rank) {
      if (rank == ranks) {
        try {
          best = std::min(best, longest_window(schedule, search.times));
        } catch (const ScheduleError&) {  // a deadlock
        }
        return;
      }
      for (const auto& row : rows) {
        auto& actions = schedule.actions[static_cast<std::size_t>(rank)] = row;
        for (Action& action : actions) action.stage = rank;
        choose(rank + 1);
      }
    };
    choose(0);
    CHECK(exhaustive(search, std::numeric_limits<Picoseconds>::max()) == best);
  }
}

TEST_CASE("automatic: a move gives every order that is allowed, and no other") {
  for (const auto& [microbatches, limit] : {std::pair{3, 1}, {3, 2}, {3, 3}, {2, 2}}) {
    std::set<std::string> allowed;
    const auto text_of = [](const std::vector<Action>& row) {
      std::string text;
      for (const Action& action : row) text += to_string(action) + " ";
      return text;
    };
    each_row(microbatches, limit, [&](const auto& row) { allowed.insert(text_of(row)); });
    each_row(microbatches, limit, [&](const std::vector<Action>& row) {
      for (std::size_t from = 0; from < row.size(); ++from)
        for (std::size_t to = 0; to < row.size(); ++to) {
          std::vector<Action> wanted = row;
          const Action action = row[from];
          wanted.erase(wanted.begin() + static_cast<std::ptrdiff_t>(from));
          wanted.insert(wanted.begin() + static_cast<std::ptrdiff_t>(to), action);
          std::map<Op, int> next;
          for (Action& each : wanted) each.microbatch = next[each.op]++;
          const bool may = allowed.contains(text_of(wanted));
          std::vector<Action> moved = row;
          REQUIRE(move_action(moved, from, to, limit) == may);
          REQUIRE(text_of(moved) == text_of(may ? wanted : row));
        }
    });
  }
}

TEST_CASE("automatic: the same arguments give the same schedule") {
  std::mt19937 random{23};
  const Search search{.microbatches = 6, .limit = 5, .times = random_times(random, 3, false)};
  CHECK(automatic_schedule(search).actions == automatic_schedule(search).actions);
}
