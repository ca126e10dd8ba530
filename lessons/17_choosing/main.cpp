#include "core/run/lesson.h"
#include "lessons/16_all_axes/experiment/recorded_routing.h"
#include "lessons/17_choosing/choosing.h"

using namespace lockstep;

// A configuration says which axes the ranks form, and what each axis does: dp x pp x cp x tp ranks,
// ZeRO's stage, what backward recomputes, the schedule along pp, the microbatches and the experts.
// This program runs any of them, with the step of lesson 15 and the layers of lesson 16.
int main(int argc, char** argv) {
  Lesson lesson{choosing_lesson(), argc, argv};
  const ConfigurationFlags flags{lesson};
  RecordedRouting routing{lesson, flags, [&] { return flags.phases(); }};

  const int exit_code = lesson.run([&](Rank& rank) {
    const AllAxes chosen = flags.chosen(lesson.options());
    ScheduleTable table{rank};
    SentTo sent;  // in a step
    train_configuration(lesson, rank, chosen, flags.phases(), routing.log(), sent, table);
    routing.report(rank, chosen, sent);
    const std::string schedules = table.text();
    if (rank.id == 0 && !routing.quiet()) fmt::print("{}", schedules);
  });
  routing.print_differences();
  return exit_code;
}
