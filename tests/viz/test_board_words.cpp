// The sentences about a board: the aim, what is placed, recognition and comparison.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>

#include "tests/viz/random_lab.h"
#include "viz/data/lab/board_words.h"
#include "viz/data/step/words.h"

using namespace lockstep;
using namespace lockstep::viz;
using lockstep::testing::LabRandom;
using lockstep::testing::random_between;

namespace {

/// A board, and the registered schedules at its settings.
struct Compared {
  explicit Compared(const LabSettings& settings, Placement placement = Placement::loop)
      : board{settings, placement, settings.chunks} {
    ask(settings);
  }
  void ask(const LabSettings& settings) {
    board.set_times(settings);
    LabSettings of_board = settings;
    of_board.chunks = board.chunks();
    table.ask(of_board);
    table.wait();
  }
  void replay(const char* name) { board.replay(table.find(name)->result->schedule); }
  std::string recognition() const {
    return recognition_words(board, recognise(board.schedule(), known_at(board, table.rows())));
  }
  std::string comparison() const { return comparison_words(board, table.rows()); }
  Aim aim() const { return aim_of(board, table.rows()); }

  Board board;
  LabTable table;
};

LabSettings settings_of_size(int ranks, int microbatches) {
  LabSettings settings;
  settings.ranks = ranks;
  settings.microbatches = microbatches;
  return settings;
}

}  // namespace

TEST_CASE("the aim is to take less time than 1F1B at the board's settings") {
  Compared play{settings_of_size(4, 8)};
  // (m + p - 1) (F + B) = 11 · 3 ms, of which (p - 1) / (m + p - 1) are idle.
  CHECK(play.aim().words ==
        "Build a schedule that takes less time than 1F1B: 33.0 ms, bubble 27.3 %.");
  LabSettings settings = settings_of_size(3, 7);
  settings.forward *= 2;
  Compared other{settings, Placement::v};
  CHECK(other.aim().words ==
        "Build a schedule that takes less time than 1F1B: 36.0 ms, bubble 22.2 %.");
  settings.memory_limit = 1;
  other.ask(settings);
  CHECK(other.aim().words.ends_with(" Keep at most 1 live microbatch on each rank."));

  play.replay("1F1B");
  CHECK(!play.aim().reached);
  CHECK(play.aim().words ==
        "Aim missed: the board takes as long as 1F1B (33.0 ms, bubble 27.3 %), with the same peak "
        "memory.");
  play.replay("ZB-H1");
  CHECK(play.aim().reached);
  CHECK(play.aim().words ==
        fmt::format("Aim reached: the board takes {} less than 1F1B (33.0 ms, bubble 27.3 %), with "
                    "the same peak memory.",
                    duration_words(33'000'000'000 -
                                   play.table.find("ZB-H1")->result->simulation.makespan)));
  settings = settings_of_size(4, 8);
  settings.memory_limit = 3;
  play.ask(settings);
  CHECK(!play.aim().reached);  // faster, but with 4 live microbatches
}

TEST_CASE("the figures of a beginning are the simulator's") {
  LabRandom random{21};
  Compared play{settings_of_size(3, 4)};
  CHECK(figures_words(play.board).empty());
  while (!play.board.complete()) {
    for (int rank = 0; rank < 3; ++rank)
      if (const auto legal = play.board.legal_moves(rank);
          !legal.empty() && random_between(random, 0, 1) == 0)
        play.board.play(legal.front());
    if (play.board.placed() == 0) continue;
    const Simulation own = simulate_beginning(play.board.schedule(), play.board.result().times);
    CHECK(figures_words(play.board)
              .starts_with(fmt::format("{}: {}, bubble {}, peak ",
                                       play.board.complete() ? "Step" : "So far",
                                       duration_words(own.makespan), percent_words(own.bubble))));
  }
}

TEST_CASE("the board counts what is placed and what is missing") {
  Board board{settings_of_size(2, 2), Placement::loop, 1};
  const auto play = [&](Op op, int stage, int microbatch) {
    REQUIRE(board.play({stage, {op, stage, microbatch}, {}}) == "");
    return progress_words(board);
  };
  CHECK(progress_words(board) == "Still to place: 4 F and 4 B (whole, or split into I and W).");
  CHECK(play(Op::forward, 0, 0) ==
        "1 action is placed. Still to place: 3 F and 4 B (whole, or split into I and W).");
  CHECK(play(Op::forward, 1, 0) ==
        "2 actions are placed. Still to place: 2 F and 4 B (whole, or split into I and W).");
  CHECK(play(Op::backward_input, 1, 0) ==
        "3 actions are placed. Still to place: 2 F, 3 B (whole, or split into I and W) and 1 W.");
  play(Op::backward, 0, 0);
  play(Op::forward, 0, 1);
  play(Op::forward, 1, 1);
  play(Op::backward_input, 1, 1);
  CHECK(play(Op::backward_input, 0, 1) == "8 actions are placed. Still to place: 3 W.");
  play(Op::backward_weight, 1, 0);
  CHECK(play(Op::backward_weight, 1, 1) == "10 actions are placed. Still to place: 1 W.");
  play(Op::backward_weight, 0, 1);
  CHECK(board.complete());
}

TEST_CASE("a board with two microbatches exchanged is not recognised") {
  Compared play{settings_of_size(4, 8)};
  CHECK(play.recognition() ==
        "Click a filled action below: its rank runs it next. Point at any other to see what it "
        "waits for.");
  play.board.play({0, {Op::forward, 0, 0}, {}});
  CHECK(play.recognition() == "GPipe, 1F1B, ZB-H1, ZB-H2 and automatic begin like this.");
  play.board.undo();
  play.board.play({0, {Op::forward, 0, 1}, {}});
  CHECK(play.recognition() == "No registered schedule of this size begins like this.");
  play.replay("GPipe");
  CHECK(play.recognition() == "This is exactly GPipe.");
  play.board.undo();
  CHECK(play.recognition() == "GPipe begins like this.");
}

TEST_CASE("a board is compared with 1F1B and with the best registered schedule") {
  LabSettings settings = settings_of_size(4, 8);
  Compared play{settings};
  play.replay("GPipe");
  CHECK(play.aim().words ==
        "Aim missed: the board takes as long as 1F1B (33.0 ms, bubble 27.3 %), with 4 more live "
        "microbatches at the peak.");
  const LabRow& best = *best_row(play.table.rows(), 1);
  const LabResult& own = play.board.result();
  const double more = own.peak - best.result->peak;
  CHECK(play.comparison() ==
        fmt::format("Best registered schedule of this size: {}. The board takes {} longer than {}, "
                    "with {} {} live microbatch{} at the peak.",
                    best.known->name,
                    duration_words(own.simulation.makespan - best.result->simulation.makespan),
                    best.known->name, live_words(std::abs(more)), more > 0 ? "more" : "fewer",
                    std::abs(more) == 1 ? "" : "es"));
  settings.memory_limit = 4;
  play.ask(settings);
  CHECK(play.comparison().starts_with(
      "The board holds 8 live microbatches on rank 0, over the limit of 4"));
  settings.memory_limit = 1;
  settings.chunks = 2;  // none of these schedules is a search, which would obey the limit
  Compared large{settings, Placement::v};
  large.replay("ZB-V");
  CHECK(large.comparison().ends_with(
      "No registered schedule of this size stays within the memory limit."));
}

TEST_CASE("one microbatch more is not several") {
  // 1F1B on 3 ranks holds 3 microbatches, GPipe all 4.
  Compared play{settings_of_size(3, 4)};
  play.replay("GPipe");
  CHECK(play.aim().words.ends_with("with 1 more live microbatch at the peak."));
}

TEST_CASE("the board says how a new one would differ") {
  LabSettings settings = settings_of_size(2, 3);
  const Board board{settings, Placement::loop, 1};
  const auto words = [&](Placement placement = Placement::loop) {
    return new_board_words(board, settings, placement);
  };
  CHECK(words().empty());
  settings.forward *= 2;  // the times of a board follow the sliders
  CHECK(words().empty());
  settings.microbatches = 11;
  CHECK(words() == "The board has 3 microbatches. New board: start with 11 microbatches.");
  settings.microbatches = 1;
  settings.ranks = 4;
  CHECK(words() ==
        "The board has 2 ranks and 3 microbatches. New board: start with 4 ranks and 1 "
        "microbatch.");
  settings = settings_of_size(2, 3);
  CHECK(words(Placement::v) ==
        "The board has 1 chunk per rank and its stages in a loop. New board: start with 2 chunks "
        "per rank and its stages in a V.");
}
