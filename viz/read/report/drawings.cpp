#include "viz/read/report/drawings.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text/text_table.h"
#include "viz/read/report/terminal_timeline.h"
#include "viz/read/timeline/analysis.h"

namespace lockstep {

namespace {

/// The run's last step; if phases are variants, each phase's last step, with the phase's name. (A
/// pipeline's phases are compared in the bubble table.)
std::vector<std::pair<int, std::string>> steps_to_draw(const Report& report) {
  std::vector<std::pair<int, std::string>> steps;
  const int last = report.results.steps - 1;
  if (report.results.phases().size() > 1 && !bubble(report.timeline, last))
    for (const Phase& phase : report.results.phases())
      steps.emplace_back(phase.first_step + phase.steps - 1, phase.name + ", ");
  else
    steps.emplace_back(last, "");
  return steps;
}

/// Whether a step's backward passes are split into input and weight gradients.
bool runs_halves(const Timeline& timeline, int step) {
  for (const auto& rank : timeline.ranks())
    if (const Lane* lane = rank->compute())
      for (const SpanRow& row : lane->rows(Band::action))
        for (const TimelineSpan& span : row)
          if (span.step == step && span.category == Category::backward_weight) return true;
  return false;
}

/// The key to the drawing's symbols; empty if the drawing shows spans that the lesson named itself.
std::string legend(const Report& report, const Console& console) {
  if (bubble(report.timeline, report.results.steps - 1)) {
    const bool chunks =
        static_cast<std::size_t>(report.results.stages) > report.results.pipeline.size();
    const bool halves = runs_halves(report.timeline, report.results.steps - 1);
    if (console.colour)
      return fmt::format(
          "  blue: forward, green: backward{}{}, dots: idle; digits are "
          "microbatches\n",
          halves ? ", olive: weight gradients" : "",
          chunks ? ", pale: later chunks of the rank" : "");
    return fmt::format(
        "  3--: forward of microbatch 3, 3==: its {}{}, dots: idle\n",
        halves ? "backward (or input gradient), 3~~: its weight gradient" : "backward",
        chunks ? ", 3__ and 3##: in the rank's later chunks" : "");
  }
  if (report.results.losses.empty() && !report.results.uncomputed) return {};
  return console.colour
             ? "  blue: forward, green: backward, o: optimizer, dots: waiting; digits are "
               "microbatches\n"
             : "  0--: forward of microbatch 0, 0==: its backward, o: optimizer, dots: waiting\n";
}

}  // namespace

std::string drawings(const Report& report, const Console& console, bool window, int most_lines) {
  const Timeline& timeline = report.timeline;
  const auto ranks = static_cast<int>(timeline.ranks().size());
  auto steps = steps_to_draw(report);
  constexpr int heading = 2, key = 1, other_ranks = 1;  // lines; a heading has a blank one above it
  const auto lines = static_cast<int>(steps.size()) * (heading + ranks) + key;
  const int most_rows =
      lines <= most_lines ? ranks : std::max(most_lines - heading - other_ranks - key, 1);
  if (lines > most_lines) steps.erase(steps.begin(), steps.end() - 1);
  std::string text;
  for (const auto& [step, phase] : steps) {
    const std::string drawing =
        draw_timeline(timeline, step, console.width, console.colour, most_rows);
    if (drawing.empty()) continue;
    const std::string length = ms(step_account(timeline, step).length);
    const auto actions = bubble(timeline, step);
    text += fmt::format(
        "\nstep {}, {}{} time: {} ms{}\n", step, phase,
        report.results.modelled ? "modelled" : "wall", length,
        window && actions && ms(actions->window) != length
            ? fmt::format(", of which {} ms from the first action to the last", ms(actions->window))
            : "");
    text += drawing;
  }
  if (!text.empty()) text += legend(report, console);
  return text;
}

}  // namespace lockstep
