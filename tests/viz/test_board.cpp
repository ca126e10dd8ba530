// The board: legal moves, the reasons of illegal ones, times, and recognition.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/pipeline/csv.h"
#include "core/pipeline/validate.h"
#include "tests/viz/random_lab.h"
#include "viz/data/lab/board.h"

using namespace lockstep;
using namespace lockstep::viz;
using lockstep::testing::LabRandom;
using lockstep::testing::random_between;

namespace {

Board random_board(LabRandom& random, int most_ranks, int most_microbatches) {
  LabSettings settings;
  settings.ranks = random_between(random, 2, most_ranks);
  settings.microbatches = random_between(random, 1, most_microbatches);
  settings.chunks = random_between(random, 1, 2);
  settings.forward = random_between(random, 1, 3) * 1'000'000;
  settings.backward_input = random_between(random, 1, 3) * 1'000'000;
  settings.backward_weight = random_between(random, 1, 3) * 1'000'000;
  settings.latency = random_between(random, 0, 2) * 300'000;
  settings.memory_limit = random_between(random, 0, 3);
  return {settings, random_between(random, 0, 1) == 0 ? Placement::loop : Placement::v,
          settings.chunks};
}

/// Makes a random legal move, sometimes a joint one.
void play_any(Board& board, LabRandom& random) {
  std::vector<Move> legal;
  for (int rank = 0; rank < board.schedule().ranks; ++rank)
    for (const Move& move : board.legal_moves(rank)) legal.push_back(move);
  REQUIRE(!legal.empty());
  Move move = legal[static_cast<std::size_t>(
      random_between(random, 0, static_cast<int>(legal.size()) - 1))];
  if (move.action.op == Op::forward && random_between(random, 0, 3) == 0)
    for (const Move& second : legal) {
      Move joint = move;
      joint.joined = second.action;
      if (second.rank == move.rank && board.why_not(joint).empty()) move = joint;
    }
  REQUIRE(board.play(move) == "");
}

/// A schedule in which one device runs all stages: these moves, then `last`, and then whatever is
/// missing, in an order that is valid unless the moves are not.
Schedule on_one_device(const Board& board, const std::vector<Move>& moves, const Action& last) {
  const Schedule& real = board.schedule();
  Schedule one = empty_schedule(
      "one device", std::vector<int>(static_cast<std::size_t>(real.stages), 0), real.microbatches);
  std::vector<Action>& row = one.actions.front();
  for (const Move& move : moves) {
    row.push_back(move.action);
    if (move.joined) row.push_back(*move.joined);
  }
  row.push_back(last);
  const auto has = [&](Op op, int stage, int microbatch) {
    return std::ranges::find(row, Action{op, stage, microbatch}) != row.end();
  };
  for (int m = 0; m < real.microbatches; ++m)
    for (int stage = 0; stage < real.stages; ++stage)
      if (!has(Op::forward, stage, m)) row.push_back({Op::forward, stage, m});
  for (int m = 0; m < real.microbatches; ++m)
    for (int stage = real.stages - 1; stage >= 0; --stage) {
      const bool input = has(Op::backward_input, stage, m);
      const bool weight = has(Op::backward_weight, stage, m);
      if (!has(Op::backward, stage, m) && !input && !weight)
        row.push_back({Op::backward, stage, m});
      if (weight && !input) row.push_back({Op::backward_input, stage, m});
      if (input && !weight) row.push_back({Op::backward_weight, stage, m});
    }
  return one;
}

bool validates(const Schedule& schedule) {
  try {
    validate(schedule);
    return true;
  } catch (const ScheduleError&) {
    return false;
  }
}

/// All actions of the board's size, and some beyond it.
std::vector<Move> conceivable_moves(const Board& board) {
  std::vector<Move> moves;
  const Schedule& schedule = board.schedule();
  for (int stage = 0; stage <= schedule.stages; ++stage)
    for (int m = 0; m <= schedule.microbatches; ++m)
      for (const Op op : {Op::forward, Op::backward, Op::backward_input, Op::backward_weight}) {
        const bool there = stage < schedule.stages;
        const int home = there ? schedule.rank_of_stage[static_cast<std::size_t>(stage)] : 0;
        moves.push_back({home, {op, stage, m}, {}});
        if (m == 0) moves.push_back({(home + 1) % schedule.ranks, {op, stage, m}, {}});
      }
  return moves;
}

/// The real schedule with `move` at the end of its rank's row, and all missing actions after it.
Schedule appended(const Board& board, const Move& move) {
  Schedule real = board.schedule();
  real.actions[static_cast<std::size_t>(move.rank)].push_back(move.action);
  return real;
}

}  // namespace

TEST_CASE("every illegal move has a reason, and is one that the validator also refuses") {
  LabRandom random{7};
  int legal = 0, illegal = 0;
  for (int game = 0; game < 12; ++game) {
    Board board = random_board(random, 3, 3);
    CAPTURE(game);
    while (!board.complete()) {
      for (const Move& move : conceivable_moves(board)) {
        CAPTURE(words_of(move));
        const std::string why = board.why_not(move);
        const Schedule& schedule = board.schedule();
        const bool in_range =
            move.action.stage < schedule.stages && move.action.microbatch < schedule.microbatches;
        const bool at_home =
            in_range &&
            schedule.rank_of_stage[static_cast<std::size_t>(move.action.stage)] == move.rank;
        const bool valid = at_home && validates(on_one_device(board, board.moves(), move.action));
        CHECK(why.empty() == valid);
        if (!at_home) {  // the validator refuses the real schedule, too
          CHECK_THROWS_AS(check_beginning(appended(board, move)), InvalidSchedule);
        }
        CHECK(why.find('\n') == std::string::npos);
        (why.empty() ? legal : illegal) += 1;
        Board copy = board;
        CHECK(copy.play(move) == why);
        CHECK(copy.placed() == board.placed() + (why.empty() ? 1 : 0));
      }
      play_any(board, random);
    }
  }
  CHECK(legal > 500);
  CHECK(illegal > 5000);
}

TEST_CASE("the legal moves of a rank are those without a reason against them") {
  LabRandom random{8};
  Board board = random_board(random, 4, 4);
  while (!board.complete()) {
    std::size_t count = 0;
    for (int rank = 0; rank < board.schedule().ranks; ++rank) {
      for (const Move& move : board.legal_moves(rank)) CHECK(board.why_not(move).empty());
      count += board.legal_moves(rank).size();
    }
    const auto moves = conceivable_moves(board);
    CHECK(count == static_cast<std::size_t>(std::ranges::count_if(
                       moves, [&](const Move& move) { return board.why_not(move).empty(); })));
    play_any(board, random);
  }
}

TEST_CASE("no board has the version of another") {
  LabSettings settings;
  Board board{settings, Placement::loop, 1};
  const Board copy = board;
  CHECK(copy.version() == board.version());
  std::vector<std::uint64_t> versions{board.version()};
  const auto check = [&](std::uint64_t version) {
    CHECK(std::ranges::count(versions, version) == 0);
    versions.push_back(version);
  };
  board.play({0, {Op::forward, 0, 0}, {}});
  check(board.version());
  board.undo();
  check(board.version());
  settings.microbatches = 3;
  for (const Placement placement : {Placement::loop, Placement::v}) {
    board = Board{settings, placement, 1};
    check(board.version());
  }
}

TEST_CASE("the reasons are in pipeline terms") {
  LabSettings settings;
  settings.microbatches = 3;
  Board board{settings, Placement::loop, 1};
  const auto why = [&](int rank, Op op, int stage, int microbatch) {
    return board.why_not({rank, {op, stage, microbatch}, {}});
  };
  CHECK(why(1, Op::backward, 1, 2) == "B of microbatch 2 on stage 1 needs its F first");
  CHECK(why(1, Op::forward, 1, 2) ==
        "F of microbatch 2 on stage 1 needs the activations of stage 0 first: F of microbatch 2 "
        "there");
  CHECK(why(0, Op::forward, 1, 0) == "stage 1 is on rank 1, not on rank 0");
  CHECK(why(0, Op::forward, 0, 3) == "there is no microbatch 3: they are 0 to 2");
  CHECK(why(0, Op::backward_weight, 0, 0) == "W of microbatch 0 on stage 0 needs its I first");
  for (int stage = 0; stage < 4; ++stage) board.play({stage, {Op::forward, stage, 0}, {}});
  CHECK(why(0, Op::forward, 0, 0) == "F of microbatch 0 on stage 0 is already on the board");
  CHECK(why(2, Op::backward, 2, 0) ==
        "B of microbatch 0 on stage 2 needs the gradient of stage 3 first: B or I of microbatch 0 "
        "there");
  board.play({3, {Op::backward_input, 3, 0}, {}});
  CHECK(why(3, Op::backward, 3, 0) ==
        "B of microbatch 0 on stage 3 is split already: I is on the board, and W completes it");
  CHECK(why(2, Op::backward, 2, 0) == "");
  board.play({2, {Op::backward, 2, 0}, {}});
  CHECK(why(2, Op::backward_weight, 2, 0) ==
        "W of microbatch 0 on stage 2 is part of B, which is already on the board");
  const Move joint{0, {Op::forward, 0, 1}, Action{Op::forward, 0, 2}};
  CHECK(board.why_not(joint) ==
        "F of microbatch 1 on stage 0 can't be joined with F of microbatch 2 on stage 0: a joint "
        "action is an F and then a B or I");
}

TEST_CASE("any board that a random player builds is valid, with the simulator's times") {
  LabRandom random{9};
  for (int game = 0; game < 150; ++game) {
    Board board = random_board(random, 4, 5);
    CAPTURE(game);
    while (!board.complete()) {
      const LabResult before = board.result();
      play_any(board, random);
      // A move changes no time of those before it.
      for (std::size_t rank = 0; rank < before.simulation.actions.size(); ++rank)
        for (std::size_t i = 0; i < before.simulation.actions[rank].size(); ++i)
          CHECK(before.simulation.actions[rank][i].end ==
                board.result().simulation.actions[rank][i].end);
    }
    const Schedule& schedule = board.schedule();
    CHECK_NOTHROW(validate(schedule));
    const Simulation whole = simulate(schedule, lab_times(board.settings(), board.chunks()));
    CHECK(whole.makespan == board.result().simulation.makespan);
    CHECK(whole.bubble == board.result().simulation.bubble);
    CHECK(schedule_from_csv(to_csv(schedule)).actions == schedule.actions);
    for (const Move& move : conceivable_moves(board)) CHECK(!board.why_not(move).empty());
  }
}

TEST_CASE("undo and redo return to the same boards") {
  LabRandom random{10};
  Board board = random_board(random, 4, 4);
  std::vector<std::vector<std::vector<Action>>> states{board.schedule().actions};
  while (!board.complete()) {
    play_any(board, random);
    states.push_back(board.schedule().actions);
  }
  CHECK(!board.can_redo());
  for (std::size_t i = states.size(); i-- > 1;) {
    CHECK(board.schedule().actions == states[i]);
    CHECK(board.can_undo());
    board.undo();
  }
  CHECK(board.placed() == 0);
  CHECK(!board.can_undo());
  for (std::size_t i = 1; i < states.size(); ++i) {
    board.redo();
    CHECK(board.schedule().actions == states[i]);
  }
  CHECK(board.complete());
  // Another move discards the undone moves.
  board.undo();
  board.undo();
  play_any(board, random);
  CHECK(!board.can_redo());
}

TEST_CASE("each registered schedule, played on the board, is recognised, and so is its beginning") {
  LabRandom random{11};
  int exact = 0, ambiguous = 0;
  for (const auto& [p, v, m] :
       {PipelineSize{2, 1, 3}, {4, 1, 8}, {4, 2, 8}, {3, 2, 7}, {2, 1, 1}}) {
    LabSettings settings;
    settings.ranks = p;
    settings.chunks = v;
    settings.microbatches = m;
    LabTable table;
    table.ask(settings);
    table.wait();
    for (const LabRow& row : table.rows()) {
      if (!row.result) continue;
      CAPTURE(row.known->name);
      Board board{settings, row.known->placement, row.fit.chunks};
      board.replay(row.result->schedule);
      CHECK(board.complete());
      CHECK(board.schedule().actions == row.result->schedule.actions);
      const std::vector<KnownAtSize> known = known_at(board, table.rows());
      const Recognised found = recognise(board.schedule(), known);
      // Exactly the schedules whose text is the same.
      std::vector<std::string> same;
      for (const LabRow& other : table.rows())
        if (other.result && to_csv(other.result->schedule) == to_csv(row.result->schedule))
          same.emplace_back(other.known->name);
      CHECK(found.exactly == same);
      CHECK(std::ranges::count(found.exactly, row.known->name) == 1);
      exact += found.exactly.size() == 1;
      const int back = random_between(random, 1, static_cast<int>(board.moves().size()));
      for (int i = 0; i < back; ++i) board.undo();
      const Recognised begun = recognise(board.schedule(), known);
      CHECK(std::ranges::count(begun.so_far, row.known->name) == 1);
      CHECK(begun.exactly.empty());
      ambiguous += begun.so_far.size() > 1;
      if (board.placed() == 0) continue;
      // The board plays on from the beginning to the end.
      CHECK(board.follow(row.result->schedule, 1) == 1);
      board.follow(row.result->schedule, 1'000'000);
      CHECK(recognise(board.schedule(), known).exactly == same);
    }
  }
  CHECK(exact > 15);
  CHECK(ambiguous > 3);
}
