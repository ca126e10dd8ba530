#include "viz/data/step/lab.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "core/base/error.h"
#include "viz/data/step/run_cluster.h"
#include "viz/data/step/words.h"
#include "viz/read/timeline/step_graph.h"

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
/// in the question. `here` is the number of stages that are simulated.
void limit(LabQuestion& question, int here, std::int64_t stages, std::int64_t microbatches) {
  const int most = most_lab_actions / here;
  question.microbatches = static_cast<int>(std::clamp<std::int64_t>(microbatches, 1, most));
  if (stages > here) question.fewer_stages = fmt::format("{} of the run's {} stages", here, stages);
  if (microbatches > most)
    question.fewer_microbatches =
        fmt::format("{} of the run's {} microbatches", question.microbatches, microbatches);
}

/// Sets the run's schedule, and divides its stages among ranks. If the lessons do not generate that
/// schedule, or if it does not fit the stages, uses 1F1B with one stage per rank.
void set_schedule(LabQuestion& question, const std::string& name, int stages, int stages_of_rank) {
  question.ranks = stages;
  const KnownSchedule* known = find_schedule(name);
  // The first rank of a trace may not take part in the pipeline.
  if (known == nullptr || stages_of_rank < 1 || stages % stages_of_rank != 0) return;
  const PipelineSize size{stages / stages_of_rank, stages_of_rank, question.microbatches};
  if (!refusal(*known, size).empty()) return;
  question.schedule = known;
  question.ranks = size.ranks;
  question.chunks = size.chunks;
}

/// Returns the stage times that the model would have if it were divided into `stages` equal stages;
/// `measured` are those of its present stages.
std::vector<StageTimes> divided(const std::vector<StageTimes>& measured, int stages) {
  const auto count = static_cast<double>(measured.size());
  const auto sum = [&](int stage, Picoseconds StageTimes::*time) {
    const double first = stage * count / stages, last = (stage + 1) * count / stages;
    double total = 0;
    for (std::size_t i = 0; i < measured.size(); ++i) {
      const auto start = static_cast<double>(i);
      const double share = std::min(last, start + 1) - std::max(first, start);
      if (share > 1e-9) total += share * static_cast<double>(measured[i].*time);
    }
    return static_cast<Picoseconds>(total);
  };
  std::vector<StageTimes> times;
  for (int stage = 0; stage < stages; ++stage)
    times.push_back({sum(stage, &StageTimes::forward), sum(stage, &StageTimes::backward),
                     sum(stage, &StageTimes::backward_input),
                     sum(stage, &StageTimes::backward_weight)});
  return times;
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
  std::set<int> of_first_rank;  // its stages
  for (const auto& rank : timeline.ranks())
    for (const TimelineSpan& action : actions_of(timeline, *rank, step)) {
      const auto stage = static_cast<std::size_t>(std::min(action.stage, most_stages - 1));
      if (means.size() <= stage) means.resize(stage + 1);
      stages = std::max(stages, std::int64_t{action.stage} + 1);
      microbatches = std::max(microbatches, std::int64_t{action.microbatch} + 1);
      if (rank == timeline.ranks().front()) of_first_rank.insert(action.stage);
      const Picoseconds time = action.duration();
      if (action.category == Category::forward) means[stage].forward.add(time);
      if (action.category == Category::backward) means[stage].backward.add(time);
      if (action.category == Category::backward_input) means[stage].input.add(time);
      if (action.category == Category::backward_weight) means[stage].weight.add(time);
    }
  const StepGraph graph{timeline, step};
  for (const auto& [id, message] : graph.messages())
    if (message.sent) question.boundary_bytes = std::max<std::int64_t>(message.sent->bytes, 0);
  if (means.size() < 2) return question;
  limit(question, static_cast<int>(means.size()), stages, microbatches);
  set_schedule(question, timeline.prediction(last->step).schedule, static_cast<int>(means.size()),
               static_cast<int>(of_first_rank.size()));
  Mean forward, backward;
  for (const StageMeans& stage : means) {
    StageTimes times;
    times.forward = stage.forward.value();
    const bool halves = stage.input.count > 0 && stage.weight.count > 0;
    times.backward = stage.backward.count > 0 ? stage.backward.value()
                                              : stage.input.value() + stage.weight.value();
    times.backward_input = halves ? stage.input.value() : times.backward / 2;
    times.backward_weight = halves ? stage.weight.value() : times.backward - times.backward / 2;
    forward.add(times.forward);
    backward.add(times.backward);
    question.measured.push_back(times);
  }
  question.forward = forward.value();
  question.backward = backward.value();
  // Without a cluster, messages take no time.
  question.cluster = described_cluster(timeline.run()).value_or(Cluster{});
  if (!fits(question)) {
    question = {.too_long = true};
  }
  return question;
}

int last_complete_step(const Timeline& timeline) {
  const auto& steps = timeline.steps();
  const auto ended = std::find_if(steps.rbegin(), steps.rend(), [&](const StepWindow& step) {
    return timeline.step_complete(step);
  });
  return ended == steps.rend() ? -1 : ended->step;
}

std::vector<std::pair<const KnownSchedule*, int>> lab_schedules(const LabQuestion& question) {
  std::vector<std::pair<const KnownSchedule*, int>> fitting;
  for (const KnownSchedule& known : known_schedules())
    for (const int chunks : {question.chunks, known.least_chunks})
      if (refusal(known, {question.ranks, chunks, question.microbatches}).empty()) {
        fitting.emplace_back(&known, chunks);
        break;
      }
  return fitting;
}

LabAnswer answer(const LabQuestion& question) {
  const PipelineSize size = question.size();
  const KnownSchedule& known = *question.schedule;
  const Picoseconds forward = question.forward, backward = question.backward;
  LabAnswer result;
  result.schedule = known.generate(size);
  PipelineTimes times;
  times.stages = divided(
      question.measured.empty()
          ? std::vector<StageTimes>(static_cast<std::size_t>(question.ranks),
                                    {forward, backward, backward / 2, backward - backward / 2})
          : question.measured,
      size.stages());
  times.boundary_bytes = question.boundary_bytes;
  times.cluster = question.cluster;
  result.simulation = simulate(result.schedule, times);
  StageTimes work;  // of a rank, on average
  for (const StageTimes& stage : times.stages) {
    work.forward += stage.forward / size.ranks;
    work.backward += stage.backward / size.ranks;
    work.backward_input += stage.backward_input / size.ranks;
    work.backward_weight += stage.backward_weight / size.ranks;
  }
  result.formula = bubble_of(known, size, work);
  result.words = known.formula(size);
  result.most_live = static_cast<double>(peak_live_microbatches(result.schedule, 0)) / size.chunks;
  return result;
}

std::string row_words(const Schedule& schedule, int row) {
  std::string stages;
  int count = 0;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    if (schedule.rank_of_stage[static_cast<std::size_t>(stage)] != row) continue;
    stages += fmt::format("{}{}", count++ > 0 ? ", " : "", stage);
  }
  return fmt::format("stage{} {}", count == 1 ? "" : "s", stages);
}

std::string limit_words(const LabQuestion& question) {
  if (question.too_long) return "the run's times are too long to simulate: textbook values here";
  if (question.fewer_stages.empty() && question.fewer_microbatches.empty()) return {};
  const bool both = !question.fewer_stages.empty() && !question.fewer_microbatches.empty();
  return fmt::format("simulated: {}{}{}; more take too long", question.fewer_stages,
                     both ? " and " : "", question.fewer_microbatches);
}

std::string bubble_words(const LabQuestion& question, const LabAnswer& answer) {
  const std::string bubble = percent_words(answer.simulation.bubble);
  if (limit_words(question).empty()) return "bubble " + bubble;
  return fmt::format("bubble of {} stages, {} microbatches: {}", question.size().stages(),
                     question.microbatches, bubble);
}

std::string verdict_words(const LabQuestion& question, const LabAnswer& answer) {
  const Picoseconds step = answer.simulation.makespan;
  const Scale scale = Scale::durations(static_cast<double>(step));
  return fmt::format("step {}, {} per microbatch; rank 0 holds up to {} of them", scale(step),
                     scale(static_cast<double>(step) / std::max(question.microbatches, 1)),
                     ratio_words(answer.most_live));
}

}  // namespace lockstep::viz
