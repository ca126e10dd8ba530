#include "viz/data/lab/lab_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/data/step/words.h"

namespace lockstep::viz {
namespace {

constexpr double end_share = 0.06;  // fraction of a slider that an end with a special value takes

/// Rounds to three digits.
double three_digits(double value) {
  if (!(value > 0) || !std::isfinite(value)) return value;
  const double unit = std::pow(10.0, std::floor(std::log10(value)) - 2);
  return std::round(value / unit) * unit;
}

/// Returns the sentence of a refusal without the flags that it proposes, because the lab has
/// sliders instead.
std::string without_flags(const std::string& refusal) {
  return refusal.substr(0, refusal.find("; use"));
}

}  // namespace

float LogScale::position(double value) const {
  if (left && value <= *left) return 0;
  if (right && value >= *right) return 1;
  const double from = left ? end_share : 0, to = right ? 1 - end_share : 1;
  const double share = std::log(std::clamp(value, least, most) / least) / std::log(most / least);
  return static_cast<float>(from + share * (to - from));
}

double LogScale::value(float position) const {
  const double from = left ? end_share : 0, to = right ? 1 - end_share : 1;
  const auto at = static_cast<double>(position);
  if (left && at < from / 2) return *left;
  if (right && at > (1 + to) / 2) return *right;
  const double share = std::clamp((at - from) / (to - from), 0.0, 1.0);
  return std::clamp(three_digits(least * std::pow(most / least, share)), least, most);
}

PipelineTimes lab_times(const LabSettings& settings, int chunks) {
  const Picoseconds input = settings.backward_input / chunks;
  const Picoseconds weight = settings.backward_weight / chunks;
  PipelineTimes times;
  times.stages.assign(static_cast<std::size_t>(settings.ranks * chunks),
                      {.forward = settings.forward / chunks,
                       .backward = input + weight,
                       .backward_input = input,
                       .backward_weight = weight});
  times.boundary_bytes = settings.message_bytes;
  times.cluster.name = "lab";
  times.cluster.within = times.cluster.between = {.latency_seconds = seconds(settings.latency),
                                                  .bandwidth = settings.bandwidth};
  return times;
}

SettingsOfRun settings_of(const LabQuestion& question) {
  using Range = LabRange;
  SettingsOfRun taken;
  LabSettings& settings = taken.settings;
  std::vector<std::string> notes;
  const auto clamped = [&](auto value, auto least, auto most, const char* what) {
    const auto inside = std::clamp(value, least, most);
    if (inside != value && std::ranges::count(notes, what) == 0) notes.push_back(what);
    return inside;
  };
  settings.ranks =
      clamped(question.ranks, Range::least_ranks, Range::most_ranks, "the number of ranks");
  settings.chunks = clamped(question.chunks, 1, Range::most_chunks, "chunks");
  settings.microbatches =
      clamped(question.microbatches, 1, Range::most_microbatches, "microbatches");
  Picoseconds input = question.backward / 2, weight = question.backward - input;
  if (!question.measured.empty()) {
    input = weight = 0;
    for (const StageTimes& stage : question.measured) {
      input += stage.backward_input;
      weight += stage.backward_weight;
    }
    input /= static_cast<Picoseconds>(question.measured.size());
    weight /= static_cast<Picoseconds>(question.measured.size());
  }
  // The question's times are those of a stage; a rank holds several.
  const auto of_rank = [&](Picoseconds of_stage, const char* what) {
    return clamped(of_stage * question.chunks, Range::least_time, Range::most_time, what);
  };
  settings.forward = of_rank(question.forward, "the forward time");
  settings.backward_input = of_rank(input, "the backward times");
  settings.backward_weight = of_rank(weight, "the backward times");
  settings.message_bytes = clamped(std::max<std::int64_t>(question.boundary_bytes, 1),
                                   std::int64_t{1}, Range::most_bytes, "the message's size");
  const Link::Segment link = question.cluster.link(0, 1).at(settings.message_bytes);
  settings.latency = clamped(picoseconds(link.latency_seconds), Picoseconds{0}, Range::most_latency,
                             "the latency");
  settings.bandwidth = std::max(link.bandwidth, Range::least_bandwidth);
  if (settings.bandwidth > link.bandwidth) notes.push_back("the bandwidth");
  if (!question.measured.empty()) taken.note = "the run's mean times on all stages";
  if (!notes.empty())
    taken.note += fmt::format("{}{} beyond the lab's sliders: the nearest value here",
                              taken.note.empty() ? "" : "; ", list_words(notes));
  return taken;
}

std::vector<std::vector<LivePoint>> live_curves(const Schedule& schedule,
                                                const Simulation& simulation, int chunks) {
  std::vector<std::vector<LivePoint>> curves(schedule.actions.size());
  for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank) {
    int live = 0;
    const auto add = [&](Picoseconds at, int change) {
      live += change;
      const double share = static_cast<double>(live) / chunks;
      if (!curves[rank].empty() && curves[rank].back().at == at)
        curves[rank].back().live = share;
      else
        curves[rank].push_back({at, share});
    };
    for (std::size_t i = 0; i < schedule.actions[rank].size(); ++i) {
      const Op op = schedule.actions[rank][i].op;
      if (op == Op::forward) add(simulation.actions[rank][i].start, 1);
      if (op == Op::backward || op == Op::backward_weight) add(simulation.actions[rank][i].end, -1);
    }
  }
  return curves;
}

double peak_of(const std::vector<LivePoint>& curve) {
  double peak = 0;
  for (const LivePoint& point : curve) peak = std::max(peak, point.live);
  return peak;
}

LabResult simulated(Schedule schedule, const LabSettings& settings, int chunks,
                    const KnownSchedule* known) {
  LabResult result;
  result.schedule = std::move(schedule);
  result.chunks = chunks;
  result.times = lab_times(settings, chunks);
  result.simulation = simulate_beginning(result.schedule, result.times, true);
  if (known) {
    const PipelineSize size = settings.size(chunks);
    StageTimes work = result.times.stages.front();  // of all chunks of a rank
    work.forward *= chunks;
    work.backward *= chunks;
    work.backward_input *= chunks;
    work.backward_weight *= chunks;
    result.formula = bubble_of(*known, size, work);
    result.formula_words = known->formula(size);
  }
  result.live = live_curves(result.schedule, result.simulation, chunks);
  for (int rank = 0; rank < result.schedule.ranks; ++rank) {
    const double peak = static_cast<double>(peak_live_microbatches(result.schedule, rank)) / chunks;
    result.peaks.push_back(peak);
    result.peak = std::max(result.peak, peak);
    if (settings.memory_limit > 0 && peak > settings.memory_limit)
      result.over_limit.push_back(rank);
  }
  return result;
}

LabFit fit(const KnownSchedule& known, const LabSettings& settings) {
  std::string why;
  for (const int chunks : {settings.chunks, known.least_chunks}) {
    why = refusal(known, settings.size(chunks));
    if (why.empty()) return {chunks, {}};
  }
  return {0, without_flags(why)};
}

Schedule generated(const KnownSchedule& known, const LabSettings& settings, int chunks) {
  ScheduleRequest request{settings.size(chunks)};
  if (known.searched) {
    request.memory_limit = settings.memory_limit;
    request.times = lab_times(settings, chunks);
  }
  return known.generate(request);
}

std::string bandwidth_words(double bandwidth) {
  return std::isfinite(bandwidth) ? bytes_words(bandwidth) + "/s" : "free";
}

std::string limit_words(int limit) {
  return limit > 0 ? fmt::format("{} live microbatch{}", limit, limit == 1 ? "" : "es")
                   : "unlimited";
}

std::string live_words(double live) {
  return fmt::format("{:.3g}", live);
}

std::string peak_words(const LabResult& result, int limit) {
  const auto worst = std::ranges::max_element(result.peaks);
  std::string words =
      fmt::format("{} live microbatch{} on rank {}", live_words(result.peak),
                  result.peak == 1 ? "" : "es", std::distance(result.peaks.begin(), worst));
  if (!result.over_limit.empty())
    words += fmt::format(", over the limit of {} on {} of {} ranks", limit,
                         result.over_limit.size(), result.peaks.size());
  return words;
}

}  // namespace lockstep::viz
