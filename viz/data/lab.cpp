#include "viz/data/lab.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/trace/analysis.h"
#include "lessons/08_gpipe/gpipe.h"
#include "lessons/09_1f1b/one_f_one_b.h"

namespace lockstep::viz {
namespace {

struct Mean {
  Picoseconds sum = 0;
  int count = 0;
  void add(const TimelineSpan& span) { sum += span.duration(), ++count; }
};

}  // namespace

LabQuestion question_from(const Timeline& timeline) {
  LabQuestion question;
  const RunInfo& run = timeline.run();
  const auto& steps = timeline.steps();
  auto last = std::find_if(steps.rbegin(), steps.rend(), [&](const StepWindow& step) {
    return timeline.step_complete(step) && bubble(timeline, step.step);
  });
  if (last == steps.rend()) return question;
  Mean forward, backward, halves;
  int stages = 0, microbatches = 0;
  for (const auto& rank : timeline.ranks()) {
    for (const auto& lane : rank->lanes) {
      for (const SpanRow& row : lane->rows(Band::action)) {
        for (auto span = row.rbegin(); span != row.rend() && span->end > last->start; ++span) {
          if (span->step != last->step) continue;
          if (span->category == Category::communication && span->bytes > 0 && span->stage >= 0) {
            question.boundary_bytes = span->bytes;
          }
          if (!is_pipeline_action(timeline, *span)) continue;
          stages = std::max(stages, span->stage + 1);
          microbatches = std::max(microbatches, span->microbatch + 1);
          if (span->category == Category::forward) forward.add(*span);
          if (span->category == Category::backward) backward.add(*span);
          if (span->category == Category::backward_input) halves.add(*span);
          if (span->category == Category::backward_weight) halves.sum += span->duration();
        }
      }
    }
  }
  question.stages = std::clamp(stages, 2, 16);
  question.microbatches = std::max(microbatches, 1);
  if (run.predicted.schedule.find("pipe") != std::string::npos ||
      run.predicted.schedule.find("Pipe") != std::string::npos) {
    question.schedule = LabSchedule::gpipe;
  }
  const Mean& back = backward.count > 0 ? backward : halves;
  if (forward.count > 0 && back.count > 0) {
    question.forward = std::max<Picoseconds>(forward.sum / forward.count, 1);
    question.backward = std::max<Picoseconds>(back.sum / back.count, 1);
    question.measured = true;
  }
  try {
    if (!run.cluster.empty()) question.cluster = Cluster::load(run.cluster);
  } catch (const UsageError&) {
    // A cluster file that is elsewhere now: messages are free then.
  }
  return question;
}

LabAnswer answer(const LabQuestion& question) {
  const int p = question.stages, m = question.microbatches;
  LabAnswer result;
  result.schedule =
      question.schedule == LabSchedule::gpipe ? gpipe(p, m) : one_f_one_b(p, m);
  PipelineTimes times;
  const StageTimes stage{question.forward, question.backward, question.backward / 2,
                         question.backward - question.backward / 2};
  times.stages.assign(static_cast<std::size_t>(p), stage);
  times.boundary_bytes = question.boundary_bytes;
  times.cluster = question.cluster;
  result.simulation = simulate(result.schedule, times);
  result.formula = static_cast<double>(p - 1) / (m + p - 1);
  result.most_live = peak_live_microbatches(result.schedule, 0);
  return result;
}

}  // namespace lockstep::viz
