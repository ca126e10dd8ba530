#include "viz/data/lab/board_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "viz/data/step/words.h"

namespace lockstep::viz {
namespace {

std::string counted_words(std::size_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

/// "33.0 ms, bubble 27.3 %"
std::string step_and_bubble(const LabResult& result) {
  return fmt::format("{}, bubble {}", duration_words(result.simulation.makespan),
                     percent_words(result.simulation.bubble));
}

/// "2.00 ms less than"
std::string time_against(const LabResult& own, const LabResult& other) {
  const Picoseconds more = own.simulation.makespan - other.simulation.makespan;
  if (more == 0) return "as long as";
  return fmt::format("{} {} than", duration_words(std::abs(more)), more > 0 ? "longer" : "less");
}

/// "1 more live microbatch at the peak"
std::string memory_against(const LabResult& own, const LabResult& other) {
  const double more = own.peak - other.peak;
  if (more == 0) return "the same peak memory";
  const std::string count = live_words(std::abs(more));
  return fmt::format("{} {} live {} at the peak", count, more > 0 ? "more" : "fewer",
                     count == "1" ? "microbatch" : "microbatches");
}

const LabResult* baseline_in(const std::vector<LabRow>& rows) {
  for (const LabRow& row : rows)
    if (row.known->name == "1F1B" && row.result) return &*row.result;
  return nullptr;
}

/// The actions that an incomplete board lacks. A B that is not split counts as one action.
struct Missing {
  std::size_t forward = 0, backward = 0, weight = 0;
};
Missing missing_on(const Board& board) {
  Missing missing;
  for (int stage = 0; stage < board.schedule().stages; ++stage)
    for (int m = 0; m < board.schedule().microbatches; ++m) {
      missing.forward += !board.has(Op::forward, stage, m);
      if (board.has(Op::backward, stage, m)) continue;
      const bool split = board.has(Op::backward_input, stage, m);
      missing.backward += !split;
      missing.weight += split && !board.has(Op::backward_weight, stage, m);
    }
  return missing;
}

}  // namespace

Aim aim_of(const Board& board, const std::vector<LabRow>& rows) {
  const LabResult* baseline = baseline_in(rows);
  if (!baseline) return {};
  const LabResult& own = board.result();
  const int limit = board.settings().memory_limit;
  if (!board.complete()) {
    const std::string keeps =
        limit > 0 ? fmt::format(" Keep at most {} on each rank.", limit_words(limit)) : "";
    return {fmt::format("Build a schedule that takes less time than 1F1B: {}.{}",
                        step_and_bubble(*baseline), keeps),
            false};
  }
  const bool reached =
      own.simulation.makespan < baseline->simulation.makespan && own.over_limit.empty();
  return {fmt::format("{}: the board takes {} 1F1B ({}), with {}.",
                      reached ? "Aim reached" : "Aim missed", time_against(own, *baseline),
                      step_and_bubble(*baseline), memory_against(own, *baseline)),
          reached};
}

std::string recognition_words(const Board& board, const Recognised& recognised) {
  if (board.placed() == 0)
    return "Click a filled action below: its rank runs it next. Point at any other to see what it "
           "waits for.";
  if (!recognised.exactly.empty())
    return fmt::format("This is exactly {}.", list_words(recognised.exactly));
  if (!recognised.so_far.empty())
    return fmt::format("{} {} like this.", list_words(recognised.so_far),
                       recognised.so_far.size() == 1 ? "begins" : "begin");
  return board.complete() ? "This is none of the registered schedules."
                          : "No registered schedule of this size begins like this.";
}

std::string figures_words(const Board& board) {
  if (board.placed() == 0) return {};
  return fmt::format("{}: {}, peak {}.", board.complete() ? "Step" : "So far",
                     step_and_bubble(board.result()),
                     peak_words(board.result(), board.settings().memory_limit));
}

std::string progress_words(const Board& board) {
  const auto [forward, backward, weight] = missing_on(board);
  std::vector<std::string> left;
  if (forward > 0) left.push_back(fmt::format("{} F", forward));
  if (backward > 0) left.push_back(fmt::format("{} B (whole, or split into I and W)", backward));
  if (weight > 0) left.push_back(fmt::format("{} W", weight));
  const std::size_t placed = board.placed();
  const std::string begun =
      placed == 0 ? ""
                  : fmt::format("{} {} placed. ", counted_words(placed, "action", "actions"),
                                placed == 1 ? "is" : "are");
  return fmt::format("{}Still to place: {}.", begun, list_words(left));
}

std::string comparison_words(const Board& board, const std::vector<LabRow>& rows) {
  const LabResult& own = board.result();
  std::vector<std::string> sentences;
  const int limit = board.settings().memory_limit;
  if (!own.over_limit.empty())
    sentences.push_back(fmt::format("The board holds {}.", peak_words(own, limit)));
  const LabRow* best = best_row(rows, board.chunks());
  const bool over = std::ranges::any_of(rows, [&](const LabRow& row) {
    return row.result && row.fit.chunks == board.chunks() && !row.result->over_limit.empty();
  });
  if (!best) {
    if (over)
      sentences.push_back("No registered schedule of this size stays within the memory limit.");
  } else if (best->known->name == "1F1B") {
    sentences.push_back("Best registered schedule of this size: 1F1B.");
  } else {
    sentences.push_back(
        fmt::format("Best registered schedule of this size: {}. The board takes {} {}, with {}.",
                    best->known->name, time_against(own, *best->result), best->known->name,
                    memory_against(own, *best->result)));
  }
  return fmt::format("{}", fmt::join(sentences, " "));
}

std::string new_board_words(const Board& board, const LabSettings& settings, Placement placement) {
  std::vector<std::string> has, starts;
  const auto compare = [&](int now, int then, std::string_view one, std::string_view many) {
    if (now == then) return;
    has.push_back(counted_words(static_cast<std::size_t>(now), one, many));
    starts.push_back(counted_words(static_cast<std::size_t>(then), one, many));
  };
  compare(board.settings().ranks, settings.ranks, "rank", "ranks");
  compare(board.settings().microbatches, settings.microbatches, "microbatch", "microbatches");
  compare(board.chunks(), placement == Placement::v ? 2 : settings.chunks, "chunk per rank",
          "chunks per rank");
  const auto name = [](Placement each) {
    return each == Placement::v ? "its stages in a V" : "its stages in a loop";
  };
  if (board.placement() != placement) {
    has.emplace_back(name(board.placement()));
    starts.emplace_back(name(placement));
  }
  if (has.empty()) return {};
  return fmt::format("The board has {}. New board: start with {}.", list_words(has),
                     list_words(starts));
}

}  // namespace lockstep::viz
