// Prints what explain/links.py compares with the text of a trace: each span's cause, the pieces of
// each rank's step, and each step's critical path. links FOLDER

#include <fmt/format.h>

#include "viz/read/timeline/cause.h"
#include "viz/read/timeline/pipeline_analysis.h"
#include "viz/read/timeline/reader.h"
#include "viz/read/timeline/step_account.h"

using namespace lockstep;

namespace {

std::string place(const Placed& placed) {
  return fmt::format("{} {} {} {}", placed.rank->rank, placed.lane->tid(), placed.span.start,
                     placed.span.end);
}

void print_causes(const Timeline& timeline) {
  for (const auto& rank : timeline.ranks())
    for (const auto& lane : rank->lanes)
      for (const SpanRow& row : lane->rows(Band::action))
        for (const TimelineSpan& span : row) {
          const Placed placed{rank.get(), lane.get(), span};
          const auto cause = cause_of(timeline, placed);
          fmt::print("cause {} {} {}\n", place(placed), name_of(span.category),
                     cause ? place(*cause) : "none");
        }
}

void print_step(const Timeline& timeline, int step) {
  for (const RankAccount& rank : step_account(timeline, step).ranks)
    for (const StepPiece& piece : rank.pieces)
      fmt::print("piece {} {} {} {} {}\n", step, rank.rank, piece.time.start, piece.time.end,
                 static_cast<int>(piece.part));
  const auto path = critical_path(timeline, step);
  if (!path) return;
  for (const PathLink& link : path->links)
    fmt::print("link {} {} {} {} {} {} {} {}\n", step, static_cast<int>(link.kind), link.rank,
               link.to_rank, link.stage, link.microbatch, link.time.start, link.time.end);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  Timeline timeline;
  read_traces({argv[1]}, timeline);
  print_causes(timeline);
  for (const StepWindow& step : timeline.steps()) print_step(timeline, step.step);
}
