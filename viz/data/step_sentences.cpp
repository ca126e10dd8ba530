#include "viz/data/step_sentences.h"

#include <fmt/format.h>

#include <algorithm>

#include "viz/data/words.h"

namespace lockstep::viz {
namespace {

constexpr double pace_share = 0.5;  // of the critical path

std::string mean_words(Picoseconds sum, std::size_t ranks) {
  return duration_words(static_cast<double>(sum) /
                        static_cast<double>(std::max<std::size_t>(ranks, 1)));
}

/// Returns the causes of a step's idle time, as means over ranks.
IdleTimes mean_causes(const ExplainedStep& explained, std::size_t ranks) {
  IdleTimes causes{};
  for (const auto& rank : explained.idle)
    for (const IdleInterval& idle : rank)
      for (std::size_t i = 0; i < causes.size(); ++i) causes[i] = plus(causes[i], idle.causes[i]);
  for (Picoseconds& cause : causes)
    cause /= static_cast<Picoseconds>(std::max<std::size_t>(ranks, 1));
  return causes;
}

}  // namespace

std::optional<std::pair<int, Picoseconds>> pace_setter(const CriticalPath& path) {
  const auto compute = path.parts().compute;
  const auto longest =
      std::ranges::max_element(compute, {}, [](const auto& part) { return part.second; });
  const auto length = static_cast<double>(path.window.end - path.window.start);
  if (longest == compute.end() || static_cast<double>(longest->second) < pace_share * length)
    return std::nullopt;
  return *longest;
}

std::vector<std::string> bubble_sentences(const BubbleSeries::Point& point,
                                          const ExplainedStep* explained, std::size_t ranks) {
  std::vector<std::string> sentences;
  std::string causes;
  if (explained) causes = cause_words(mean_causes(*explained, ranks));
  sentences.push_back(
      fmt::format("Idle per rank: {} of {}{}.", mean_words(point.bubble.idle(), ranks),
                  duration_words(point.bubble.window), causes.empty() ? "" : " (" + causes + ")"));
  if (explained && explained->path)
    if (const auto pace = pace_setter(*explained->path))
      sentences.push_back(
          fmt::format("The critical path runs through stage {} for {}: this stage sets the pace.",
                      pace->first, duration_words(pace->second)));
  if (point.overlap.communication > 0)
    sentences.push_back(fmt::format(
        "Communication: {} per rank, {}.", mean_words(point.overlap.communication, ranks),
        point.overlap.hidden > 0 ? percent_words(point.overlap.share()) + " hidden by compute"
                                 : "not hidden by compute"));
  if (point.internal.idle() > 0)
    sentences.push_back(fmt::format(
        "Rank {}, which takes longest from its first to its last action, is idle for {} "
        "of that time.",
        point.longest_rank, percent_words(point.internal.share())));
  return sentences;
}

std::vector<std::string> communication_sentences(const BubbleSeries::Point& point,
                                                 std::size_t ranks) {
  std::vector<std::string> sentences;
  sentences.push_back(fmt::format(
      "Each rank communicates for {} of the step's {}{}.",
      mean_words(point.overlap.communication, ranks), duration_words(point.length),
      point.overlap.hidden > 0
          ? ", and computes during " + mean_words(point.overlap.hidden, ranks) + " of that time"
          : ", and never computes meanwhile"));
  const Picoseconds exposed = point.parts.exposed();
  if (exposed == 0) {
    sentences.emplace_back("Compute never stalls for communication.");
  } else {
    sentences.push_back(fmt::format("Exposed: compute stalls for {} per rank ({}).",
                                    mean_words(exposed, ranks),
                                    exposed_words(point.parts, static_cast<double>(ranks))));
  }
  return sentences;
}

std::string straggler_words(const Timeline& timeline, const Straggler& late, Picoseconds length) {
  std::string words = fmt::format(
      "Straggler: rank {} enters {} {} (group {}) {} after the median "
      "rank",
      late.rank, timeline.name(late.operation), late.sequence,
      late.group == 0 ? "of all ranks" : timeline.name(late.group), duration_words(late.late));
  if (late.compute - late.median_compute >= late.late / 2)
    words += fmt::format(", because it computes for {} instead of {}", duration_words(late.compute),
                         duration_words(late.median_compute));
  words += fmt::format(". If it kept up, the step would take about {} less",
                       duration_words(late.cost()));
  if (length > 0)
    words += fmt::format(
        " ({})", percent_words(static_cast<double>(late.cost()) / static_cast<double>(length)));
  return words + ".";
}

std::string late_words(const BubbleSeries::Point& point, const TimelineSpan& span) {
  if (!point.late || span.step != point.step) return "";
  const Straggler& late = *point.late;
  if (span.name != late.operation || span.group != late.group || span.sequence != late.sequence)
    return "";
  return fmt::format("rank {} enters it {} after the median rank", late.rank,
                     duration_words(late.late));
}

}  // namespace lockstep::viz
