#include "viz/data/lab.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "core/time/cluster_file.h"
#include "core/trace/analysis.h"
#include "lessons/08_gpipe/gpipe.h"
#include "lessons/09_1f1b/one_f_one_b.h"

namespace lockstep::viz {
namespace {

constexpr int most_stages = 64;

struct Mean {
  double sum = 0;
  std::int64_t count = 0;
  void add(Picoseconds time) { sum += static_cast<double>(time), ++count; }
  Picoseconds value() const {
    if (count == 0) return 0;
    return std::max<Picoseconds>(static_cast<Picoseconds>(sum / static_cast<double>(count)), 1);
  }
};

/// Returns the cluster of the run's modelled clock; if the trace does not describe it, a cluster on
/// which everything takes no time. Treats the name in a trace as the name of a preset, never of a
/// file, because the trace may come from anyone.
Cluster cluster_of(const RunInfo& run) {
  try {
    if (!run.cluster_description.empty())
      return parse_cluster(run.cluster_description, "cluster_description");
  } catch (const UsageError&) {
    return {};
  }
  return cluster_preset(run.cluster).value_or(Cluster{});
}

/// Returns an upper bound on the picoseconds that a message of `bytes` bytes takes on a link.
double longest_message(const Link& link, std::int64_t bytes) {
  const Link::Segment at = link.at(bytes);
  return 1e12 * (at.latency_seconds + 2 * static_cast<double>(bytes) / at.bandwidth);
}

/// Returns whether the simulated times fit in Picoseconds, even if nothing overlaps.
bool fits(const LabQuestion& question) {
  double longest = 0;
  for (const StageTimes& stage : question.measured) {
    longest = std::max(
        {longest, static_cast<double>(stage.forward), static_cast<double>(stage.backward)});
  }
  const Cluster& cluster = question.cluster;
  const double message = std::max(longest_message(cluster.within, question.boundary_bytes),
                                  longest_message(cluster.between, question.boundary_bytes));
  return 2.0 * most_lab_actions * (longest + message) <
         static_cast<double>(std::numeric_limits<Picoseconds>::max() / 2);
}

/// Reduces a question to a size that the lab can simulate within a frame, and records the reduction
/// in the question.
void limit(LabQuestion& question, std::int64_t stages, std::int64_t microbatches) {
  const int most = most_lab_actions / question.stages;
  question.microbatches = static_cast<int>(std::clamp<std::int64_t>(microbatches, 1, most));
  if (stages > question.stages || microbatches > most) {
    question.limits = fmt::format("the run's {} stages, {} microbatches are too many: {}, {} here",
                                  stages, microbatches, question.stages, question.microbatches);
  }
}

}  // namespace

LabQuestion question_from(const Timeline& timeline, int step) {
  LabQuestion question;
  const StepWindow* last = timeline.find_step(step);
  if (!last) return question;
  struct StageMeans {
    Mean forward, backward, input, weight;
  };
  std::vector<StageMeans> means;
  std::int64_t stages = 0, microbatches = 0;
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
          stages = std::max(stages, std::int64_t{span->stage} + 1);
          microbatches = std::max(microbatches, std::int64_t{span->microbatch} + 1);
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
  limit(question, stages, microbatches);
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
  question.cluster = cluster_of(timeline.run());
  if (!fits(question)) {
    question = {.limits = "the run's times are too long to simulate: textbook values here"};
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
