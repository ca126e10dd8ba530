#include "viz/data/step_sentences.h"

#include <fmt/format.h>

#include <algorithm>

#include "viz/data/words.h"

namespace lockstep::viz {
namespace {

std::string mean_words(Picoseconds sum, std::size_t ranks) {
  return duration_words(static_cast<double>(sum) /
                        static_cast<double>(std::max<std::size_t>(ranks, 1)));
}

}  // namespace

std::vector<std::string> bubble_sentences(const BubbleSeries::Point& point, std::size_t ranks) {
  std::vector<std::string> sentences;
  sentences.push_back(fmt::format("idle: {} of {} per rank", mean_words(point.bubble.idle(), ranks),
                                  duration_words(point.bubble.window)));
  // The internal bubble is that of the rank with the longest window.
  sentences.push_back(
      point.internal.idle() > 0
          ? fmt::format("The rank that works longest idles {} of its time from its first to its "
                        "last action.",
                        percent_words(point.internal.share()))
          : "The rank that works longest never idles between its first and last action.");
  if (point.overlap.communication > 0)
    sentences.push_back(point.overlap.hidden > 0
                            ? fmt::format("communication: {} per rank, {} hidden by compute",
                                          mean_words(point.overlap.communication, ranks),
                                          percent_words(point.overlap.share()))
                            : fmt::format("communication: {} per rank, not hidden by compute",
                                          mean_words(point.overlap.communication, ranks)));
  return sentences;
}

std::vector<std::string> communication_sentences(const BubbleSeries::Point& point,
                                                 std::size_t ranks) {
  std::vector<std::string> sentences;
  sentences.push_back(
      fmt::format("{} per rank, {} of it while the rank computes",
                  mean_words(point.overlap.communication, ranks),
                  point.overlap.hidden > 0 ? mean_words(point.overlap.hidden, ranks) : "none"));
  const Picoseconds exposed = point.parts.exposed();
  if (exposed == 0) {
    sentences.emplace_back("Compute never stalls for communication.");
  } else {
    sentences.push_back(fmt::format("exposed: compute stalls for {} per rank ({})",
                                    mean_words(exposed, ranks),
                                    exposed_words(point.parts, static_cast<double>(ranks))));
  }
  return sentences;
}

std::string straggler_words(const Timeline& timeline, const Straggler& late) {
  std::string words = fmt::format("Straggler: rank {} enters {} {} of {} {} after the median rank",
                                  late.rank, timeline.name(late.operation), late.sequence,
                                  late.group == 0 ? "all ranks" : timeline.name(late.group),
                                  duration_words(late.late));
  if (late.compute - late.median_compute >= late.late / 2)
    words += fmt::format(": it computes for {}, the median rank for {}",
                         duration_words(late.compute), duration_words(late.median_compute));
  return words + fmt::format(". If it kept up, the step would take about {} less.",
                             duration_words(late.cost()));
}

}  // namespace lockstep::viz
