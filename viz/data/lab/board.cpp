#include "viz/data/lab/board.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "core/base/error.h"
#include "core/pipeline/validate.h"
#include "core/pipeline/walk.h"

namespace lockstep::viz {
namespace {

constexpr std::uint8_t bit_of(Op op) {
  return static_cast<std::uint8_t>(1u << static_cast<unsigned>(op));
}

/// Views keep what they have computed for a version, also when another board takes a board's place.
std::uint64_t next_version() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

std::string words_of_action(Op op, int microbatch, int stage) {
  return fmt::format("{} of microbatch {} on stage {}", letter(op), microbatch, stage);
}
std::string words_of_action(const Action& action) {
  return words_of_action(action.op, action.microbatch, action.stage);
}

std::vector<int> placement_for(const LabSettings& settings, Placement placement, int chunks) {
  return placement == Placement::v ? v_placement(settings.ranks)
                                   : loop_placement(settings.ranks, settings.ranks * chunks);
}

}  // namespace

std::string words_of(const Move& move) {
  if (!move.joined) return words_of_action(move.action);
  return fmt::format("{} joined with {}", words_of_action(move.action),
                     words_of_action(*move.joined));
}

Board::Board(const LabSettings& settings, Placement placement, int chunks)
    : settings_(settings), placement_(placement), chunks_(placement == Placement::v ? 2 : chunks) {
  refresh();
}

bool Board::has(Op op, int stage, int microbatch) const {
  return (cells_[cell(stage, microbatch)] & bit_of(op)) != 0;
}

std::string Board::why_not(int rank, const Action& action) const {
  const auto& [op, stage, microbatch, with_next] = action;
  const Schedule& board = schedule();
  const auto range = [](const char* what, int number, int count) {
    return fmt::format(
        "there is no {} {}: {}", what, number,
        count == 1 ? "the only one is 0" : fmt::format("they are 0 to {}", count - 1));
  };
  if (rank < 0 || rank >= board.ranks) return range("rank", rank, board.ranks);
  if (stage < 0 || stage >= board.stages) return range("stage", stage, board.stages);
  if (microbatch < 0 || microbatch >= board.microbatches)
    return range("microbatch", microbatch, board.microbatches);
  const int home = board.rank_of_stage[static_cast<std::size_t>(stage)];
  if (home != rank) return fmt::format("stage {} is on rank {}, not on rank {}", stage, home, rank);

  const std::string words = words_of_action(action);
  const auto done = [&](Op what) { return has(what, stage, microbatch); };
  if (done(op)) return words + " is already on the board";
  if (op == Op::forward) {
    if (stage == 0 || has(Op::forward, stage - 1, microbatch)) return {};
    return fmt::format("{} needs the activations of stage {} first: F of microbatch {} there",
                       words, stage - 1, microbatch);
  }
  if (op != Op::backward && done(Op::backward))
    return fmt::format("{} is part of B, which is already on the board", words);
  if (op == Op::backward_weight)
    return done(Op::backward_input) ? "" : words + " needs its I first";
  if (op == Op::backward && done(Op::backward_input))
    return fmt::format("{} is split already: I is on the board, and W completes it", words);
  if (!done(Op::forward)) return words + " needs its F first";
  if (stage + 1 == board.stages || has(Op::backward, stage + 1, microbatch) ||
      has(Op::backward_input, stage + 1, microbatch))
    return {};
  return fmt::format("{} needs the gradient of stage {} first: B or I of microbatch {} there",
                     words, stage + 1, microbatch);
}

std::string Board::why_not(const Move& move) const {
  if (std::string why = why_not(move.rank, move.action); !why.empty() || !move.joined) return why;
  const Action& second = *move.joined;
  if (move.action.op != Op::forward ||
      (second.op != Op::backward && second.op != Op::backward_input))
    return fmt::format("{} can't be joined with {}: a joint action is an F and then a B or I",
                       words_of_action(move.action), words_of_action(second));
  return why_not(move.rank, second);
}

std::vector<Move> Board::legal_moves(int rank) const {
  std::vector<Move> legal;
  const Schedule& board = schedule();
  for (const Op op : {Op::forward, Op::backward, Op::backward_input, Op::backward_weight})
    for (int stage = 0; stage < board.stages; ++stage) {
      if (board.rank_of_stage[static_cast<std::size_t>(stage)] != rank) continue;
      for (int microbatch = 0; microbatch < board.microbatches; ++microbatch)
        if (const Action action{op, stage, microbatch}; why_not(rank, action).empty())
          legal.push_back({rank, action, {}});
    }
  return legal;
}

std::string Board::play(const Move& move) {
  if (std::string why = why_not(move); !why.empty()) return why;
  moves_.resize(made_);
  moves_.push_back(move);
  ++made_;
  refresh();
  return {};
}

void Board::undo() {
  if (!can_undo()) return;
  --made_;
  refresh();
}

void Board::redo() {
  if (!can_redo()) return;
  ++made_;
  refresh();
}

void Board::clear() {
  moves_.clear();
  made_ = 0;
  refresh();
}

void Board::set_times(const LabSettings& settings) {
  const LabSettings before = settings_;
  settings_ = settings;
  settings_.ranks = before.ranks;
  settings_.chunks = before.chunks;
  settings_.microbatches = before.microbatches;
  if (!(settings_ == before)) refresh();
}

void Board::refresh() {
  Schedule schedule = empty_schedule("the board", placement_for(settings_, placement_, chunks_),
                                     settings_.microbatches);
  cells_.assign(
      static_cast<std::size_t>(schedule.stages) * static_cast<std::size_t>(schedule.microbatches),
      0);
  const auto put = [&](int rank, Action action, bool with_next) {
    action.with_next = with_next;
    schedule.actions[static_cast<std::size_t>(rank)].push_back(action);
    cells_[cell(action.stage, action.microbatch)] |= bit_of(action.op);
  };
  for (std::size_t i = 0; i < made_; ++i) {
    put(moves_[i].rank, moves_[i].action, moves_[i].joined.has_value());
    if (moves_[i].joined) put(moves_[i].rank, *moves_[i].joined, false);
  }
  result_ = simulated(std::move(schedule), settings_, chunks_, nullptr);
  version_ = next_version();
}

bool Board::complete() const {
  return std::ranges::all_of(cells_, [](std::uint8_t cell) {
    constexpr std::uint8_t halves = bit_of(Op::backward_input) | bit_of(Op::backward_weight);
    return (cell & bit_of(Op::backward)) != 0 || (cell & halves) == halves;
  });
}

namespace {

/// Returns the moves of a valid schedule, in an order in which all of them are legal.
std::vector<Move> moves_of(const Schedule& schedule) {
  std::vector<Move> moves;
  walk(schedule, [&](std::size_t rank, const Action& action, std::size_t position) {
    const std::vector<Action>& row = schedule.actions[rank];
    if (position > 0 && row[position - 1].with_next) {
      moves.back().joined = action;
      return;
    }
    Action alone = action;
    alone.with_next = false;
    moves.push_back({static_cast<int>(rank), alone, {}});
  });
  return moves;
}

/// Returns whether each row of `schedule` begins with the row of `board`.
bool begins_with(const Schedule& schedule, const Schedule& board) {
  if (schedule.rank_of_stage != board.rank_of_stage || schedule.microbatches != board.microbatches)
    return false;
  for (std::size_t rank = 0; rank < board.actions.size(); ++rank) {
    const auto& row = board.actions[rank];
    const auto& of_schedule = schedule.actions[rank];
    if (row.size() > of_schedule.size() || !std::equal(row.begin(), row.end(), of_schedule.begin()))
      return false;
  }
  return true;
}

}  // namespace

int Board::follow(const Schedule& other, int most) {
  if (!begins_with(other, schedule())) return 0;
  check_actions(other);
  const std::vector<Move> all = moves_of(other);
  const std::vector<Move> before{moves_.begin(), moves_.begin() + made()};
  moves_.resize(made_);
  int followed = 0;
  for (const Move& move : all) {
    if (followed == most) break;
    if (std::ranges::find(before, move) != before.end()) continue;
    moves_.push_back(move);
    ++followed;
  }
  made_ = moves_.size();
  refresh();
  return followed;
}

void Board::replay(const Schedule& other) {
  validate(other);
  clear();
  if (!begins_with(other, schedule()))
    throw ScheduleError(fmt::format(
        "{}: has {} stages on {} ranks and {} microbatches, or places them elsewhere; the board "
        "has {} stages on {} ranks and {} microbatches",
        other.name, other.stages, other.ranks, other.microbatches, schedule().stages,
        schedule().ranks, schedule().microbatches));
  follow(other, static_cast<int>(other.action_count()));
}

std::vector<KnownAtSize> known_at(const Board& board, const std::vector<LabRow>& rows) {
  std::vector<KnownAtSize> known;
  for (const LabRow& row : rows)
    if (row.result && row.result->schedule.rank_of_stage == board.schedule().rank_of_stage &&
        row.result->schedule.microbatches == board.schedule().microbatches)
      known.push_back({row.known, &*row.result});
  return known;
}

Recognised recognise(const Schedule& board, const std::vector<KnownAtSize>& known) {
  Recognised recognised;
  for (const KnownAtSize& each : known) {
    if (!begins_with(each.result->schedule, board)) continue;
    const bool whole = each.result->schedule.action_count() == board.action_count();
    (whole ? recognised.exactly : recognised.so_far).emplace_back(each.known->name);
  }
  return recognised;
}

}  // namespace lockstep::viz
