#include "viz/data/lab/lab_bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/base/input_file.h"
#include "core/base/number.h"
#include "core/pipeline/csv.h"
#include "core/pipeline/validate.h"
#include "viz/data/lab/board_words.h"

namespace lockstep::viz {

LabBench::LabBench(const std::filesystem::path& folder, std::filesystem::path exports)
    : board(settings, Placement::loop, 1),
      launcher(std::filesystem::absolute(folder) / fmt::format("lesson-{}", ::getpid())),
      folder_(std::filesystem::absolute(folder)),
      exports_(std::move(exports)) {
  update();
}

void LabBench::take(const LabQuestion& question) {
  const SettingsOfRun taken = settings_of(question);
  settings = taken.settings;
  note = taken.note;
  shown = {std::string{question.schedule->name},
           question.schedule->name == "ZB-H1" ? "1F1B" : "ZB-H1"};
  update();
}

bool LabBench::update() {
  table.ask(settings);
  board.set_times(settings);
  if (board.placed() == 0 && !board.can_redo() && board_outdated()) new_board();
  if (page == Page::board) board_table.ask(settings_of_board(board));
  if (page == Page::lessons && !launcher.chosen()) launcher.choose_named("09_1f1b");
  bool news = table.update();
  news |= board_table.update();
  news |= run.poll();
  news |= launcher.poll();
  return news;
}

void LabBench::wait() {
  update();
  table.wait();
  board_table.wait();
  run.wait();
  while (launcher.chosen() && !launcher.declared()) {
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
    launcher.poll();
  }
  update();
}

bool LabBench::busy() const {
  return table.busy() || board_table.busy() || run.state() == RunIt::State::running ||
         launcher.running() || (launcher.chosen() && !launcher.declared());
}

const LabRow* LabBench::row(std::size_t which) const {
  const LabRow* found = table.find(shown[which]);
  return found && found->result ? found : nullptr;
}

Picoseconds LabBench::axis_end() const {
  Picoseconds end = 1;
  for (const std::size_t which : {0, 1})
    if (const LabRow* found = row(which)) end = std::max(end, found->result->simulation.makespan);
  return end;
}

void LabBench::run_it(const LabResult& result, const LabSettings& of) {
  run.start(result, of, run_folder(++runs_));
}

std::filesystem::path LabBench::run_folder(int number) const {
  return folder_ / fmt::format("{}-{}", ::getpid(), number);
}

std::string LabBench::run_it_words(int ranks) const {
  const std::filesystem::path folder = run_folder(runs_ + 1);
  std::error_code ignored;
  const std::filesystem::path here = std::filesystem::proximate(folder, ignored);
  const bool within = !here.empty() && *here.begin() != "..";
  return fmt::format(
      "Run one step on {} real ranks (threads), on the modelled clock, and lay it over the "
      "simulated one. Its trace is in {} until the next run or exit.",
      ranks, (within ? here : folder).string());
}

void LabBench::new_board() {
  board = Board{settings, placement, settings.chunks};
  board_words.clear();
  board_refused = false;
}

bool LabBench::board_outdated() const {
  return !new_board_words(board, settings, placement).empty();
}

void LabBench::play(const Move& move) {
  board_words = board.play(move);
  board_refused = !board_words.empty();
}

void LabBench::export_board() {
  board_refused = true;
  if (!board.complete()) {
    board_words = "A schedule is exported once all of its actions are placed.";
    return;
  }
  std::error_code error;
  std::filesystem::create_directories(exports_, error);
  for (int number = 1;; ++number) {
    const auto file = exports_ / fmt::format("schedule-{}.csv", number);
    if (std::filesystem::exists(file, error)) continue;
    std::ofstream out{file};
    out << to_csv(board.schedule());
    if (!out.flush()) {
      board_words = fmt::format("can't write {}", file.string());
      return;
    }
    exported = file.string();
    break;
  }
  const Schedule& schedule = board.schedule();
  board_refused = false;
  board_words = fmt::format(
      "Written. Run it: {}",
      command_words("11", {"--schedule", exported, "--ranks", std::to_string(schedule.ranks),
                           "--microbatches", std::to_string(schedule.microbatches), "--batch",
                           std::to_string(2 * schedule.microbatches), "--layers",
                           std::to_string(std::max(8, schedule.stages)), "--clock", "modelled"}));
}

namespace {

/// Removes the number of moves, such as ":20", from the end of a text and returns it; -1 if the
/// text ends in none.
int take_moves(std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return -1;
  const int moves = number_from<int>(std::string_view{text}.substr(colon + 1)).value_or(-1);
  if (moves >= 0) text.resize(colon);
  return std::max(moves, -1);
}

/// Reads a schedule from a file and copies its size into the settings. Returns its placement.
std::pair<Schedule, Placement> read_board(const std::string& file, LabSettings& settings) {
  Schedule schedule;
  try {
    schedule = schedule_from_csv(content_of(file), file);
    validate(schedule);
  } catch (const InputError& error) {
    throw UsageError(fmt::format("--board {}: {}; give a file with a row of actions for each rank",
                                 file, error.what()));
  } catch (const std::exception& error) {
    throw UsageError(fmt::format("--board {}", error.what()));
  }
  using Range = LabRange;
  const int chunks = schedule.stages / schedule.ranks;
  if (schedule.ranks < Range::least_ranks || schedule.ranks > Range::most_ranks ||
      schedule.microbatches > Range::most_microbatches || chunks > Range::most_chunks)
    throw UsageError(fmt::format(
        "--board {}: has {} ranks, {} stages and {} microbatches; the board takes {} to {} ranks, "
        "{} stages on each, and {} microbatches",
        file, schedule.ranks, schedule.stages, schedule.microbatches, Range::least_ranks,
        Range::most_ranks, Range::most_chunks, Range::most_microbatches));
  const bool loop = schedule.rank_of_stage == loop_placement(schedule.ranks, schedule.stages);
  if (!loop && schedule.rank_of_stage != v_placement(schedule.ranks))
    throw UsageError(fmt::format(
        "--board {}: the board places stages around the ranks or in a V; this file does neither",
        file));
  settings.ranks = schedule.ranks;
  settings.chunks = chunks;
  settings.microbatches = schedule.microbatches;
  return {std::move(schedule), loop ? Placement::loop : Placement::v};
}

}  // namespace

void LabBench::open_board(const std::string& what) {
  std::string name = what;
  const int moves = take_moves(name);
  Schedule schedule;
  if (name.ends_with(".csv")) {
    std::tie(schedule, placement) = read_board(name, settings);
  } else {
    const KnownSchedule* known = find_schedule(name);
    if (!known)
      throw UsageError(fmt::format(
          "--board {}: give the name of a schedule, as for --schedule, or a .csv file", what));
    const LabFit fits = fit(*known, settings);
    if (!fits.refusal.empty()) throw UsageError(fmt::format("--board {}: {}", what, fits.refusal));
    placement = known->placement;
    settings.chunks = fits.chunks;
    schedule = generated(*known, settings, fits.chunks);
  }
  new_board();
  board.replay(schedule);
  while (moves >= 0 && std::cmp_greater(board.moves().size(), moves)) board.undo();
  page = Page::board;
}

LabSettings settings_of_board(const Board& board) {
  LabSettings settings = board.settings();
  settings.chunks = board.chunks();
  return settings;
}

}  // namespace lockstep::viz
