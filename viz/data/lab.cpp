#include "viz/data/lab.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/trace/analysis.h"
#include "lessons/08_gpipe/gpipe.h"
#include "lessons/09_1f1b/one_f_one_b.h"

namespace lockstep::viz {
namespace {

constexpr int most_stages = 64;

struct Mean {
  Picoseconds sum = 0;
  int count = 0;
  void add(Picoseconds time) { sum += time, ++count; }
  Picoseconds value() const { return count > 0 ? std::max<Picoseconds>(sum / count, 1) : 0; }
};

}  // namespace

LabQuestion question_from(const Timeline& timeline, int step) {
  LabQuestion question;
  const StepWindow* last = timeline.find_step(step);
  if (!last) return question;
  struct StageMeans {
    Mean forward, backward, input, weight;
  };
  std::vector<StageMeans> means;
  int microbatches = 0;
  for (const auto& rank : timeline.ranks()) {
    for (const auto& lane : rank->lanes) {
      for (const SpanRow& row : lane->rows(Band::action)) {
        for (auto span = row.rbegin(); span != row.rend() && span->end > last->start; ++span) {
          if (span->step != last->step || span->stage < 0) continue;
          if (span->category == Category::communication && span->bytes > 0) {
            question.boundary_bytes = span->bytes;
          }
          if (!is_pipeline_action(timeline, *span)) continue;
          const auto stage = static_cast<std::size_t>(std::min(span->stage, most_stages - 1));
          if (means.size() <= stage) means.resize(stage + 1);
          microbatches = std::max(microbatches, span->microbatch + 1);
          const Picoseconds time = span->duration();
          if (span->category == Category::forward) means[stage].forward.add(time);
          if (span->category == Category::backward) means[stage].backward.add(time);
          if (span->category == Category::backward_input) means[stage].input.add(time);
          if (span->category == Category::backward_weight) means[stage].weight.add(time);
        }
      }
    }
  }
  if (means.size() < 2) return question;
  question.stages = static_cast<int>(means.size());
  question.microbatches = std::max(microbatches, 1);
  const std::string& schedule = timeline.prediction(last->step).schedule;
  if (schedule.find("pipe") != std::string::npos || schedule.find("Pipe") != std::string::npos) {
    question.schedule = LabSchedule::gpipe;
  }
  Mean forward, backward;
  for (const StageMeans& stage : means) {
    StageTimes times;
    times.forward = stage.forward.value();
    times.backward = stage.backward.count > 0 ? stage.backward.value()
                                              : stage.input.value() + stage.weight.value();
    forward.add(times.forward);
    backward.add(times.backward);
    question.measured.push_back(times);
  }
  question.forward = forward.value();
  question.backward = backward.value();
  try {
    if (!timeline.run().cluster.empty()) question.cluster = Cluster::load(timeline.run().cluster);
  } catch (const UsageError&) {
    // The cluster file no longer exists, so assume free messages.
  }
  return question;
}

LabAnswer answer(const LabQuestion& question) {
  const int p = question.stages, m = question.microbatches;
  LabAnswer result;
  result.schedule = question.schedule == LabSchedule::gpipe ? gpipe(p, m) : one_f_one_b(p, m);
  PipelineTimes times;
  times.stages = question.measured;
  if (times.stages.empty()) {
    times.stages.assign(static_cast<std::size_t>(p), {question.forward, question.backward, 0, 0});
  }
  times.boundary_bytes = question.boundary_bytes;
  times.cluster = question.cluster;
  result.simulation = simulate(result.schedule, times);
  result.formula = static_cast<double>(p - 1) / (m + p - 1);
  result.most_live = peak_live_microbatches(result.schedule, 0);
  return result;
}

}  // namespace lockstep::viz
