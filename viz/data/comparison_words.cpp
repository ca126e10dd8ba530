#include "viz/data/comparison_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/run/report/text_table.h"
#include "viz/data/step_sentences.h"
#include "viz/data/words.h"

namespace lockstep::viz {
namespace {

constexpr double same_within = least_marked;  // relative
constexpr std::size_t longest_name = 60;      // bytes; a longer text is no name

bool alike(double a, double b) {
  return std::abs(a - b) <= same_within * std::max(std::abs(a), std::abs(b));
}

/// Compares B with A: "12.0 % less memory than" or "2.4 times the memory of".
std::string compared(double a, double b, const char* quantity, const char* less = "less") {
  if (b >= 2 * a) return fmt::format("{:.1f} times the {} of", b / a, quantity);
  return fmt::format("{} {} {} than", percent(std::abs(b - a) / a), b > a ? "more" : less,
                     quantity);
}

double idle_per_rank(const StepMetrics& metrics) {
  return static_cast<double>(metrics.bubble->idle()) /
         static_cast<double>(std::max<std::size_t>(metrics.ranks.size(), 1));
}

/// Says which stage the critical path spends most of its time in, if it is the same in both.
std::string path_words(const StepMetrics& a, const StepMetrics& b) {
  if (!a.path || !b.path) return {};
  const auto in_a = pace_setter(*a.path), in_b = pace_setter(*b.path);
  if (!in_a || !in_b || in_a->first != in_b->first) return {};
  const auto [stage, time] = *in_a;
  if (!alike(static_cast<double>(time), static_cast<double>(in_b->second))) return {};
  return fmt::format(
      " Both critical paths run through stage {} for {} of {}, so this stage sets the pace of "
      "both.",
      stage, duration_words(time), duration_words(a.time()));
}

/// Names the cause of idle time that changed most.
std::string changed_cause(const StepMetrics& a, const StepMetrics& b) {
  const auto mean = [](const StepMetrics& metrics, std::size_t cause) {
    return static_cast<double>(metrics.idle[cause]) /
           static_cast<double>(std::max<std::size_t>(metrics.ranks.size(), 1));
  };
  std::size_t most = 0;
  double largest = 0;
  for (std::size_t cause = 0; cause < a.idle.size(); ++cause) {
    const double size = std::abs(mean(b, cause) - mean(a, cause));
    if (size <= largest) continue;
    most = cause;
    largest = size;
  }
  if (largest == 0) return {};
  return fmt::format(" The largest change is in {}: {} per rank instead of {}.",
                     name_of(static_cast<IdleCause>(most)), duration_words(mean(b, most)),
                     duration_words(mean(a, most)));
}

std::string pipeline_reason(const StepMetrics& a, const StepMetrics& b) {
  const auto work = [](const StepMetrics& metrics) {
    return static_cast<double>(metrics.bubble->busy) / std::max(metrics.bubble->ranks, 1);
  };
  const double share_a = a.bubble->share(), share_b = b.bubble->share();
  std::string words;
  if (alike(work(a), work(b)) && alike(share_a, share_b)) {
    words = fmt::format(
        "The bubble is the same, {}: both run {} of work per rank and leave it idle for {}.",
        percent(share_b), duration_words(work(b)), duration_words(idle_per_rank(b)));
    const bool on_each = std::ranges::equal(a.ranks, b.ranks, [](const auto& x, const auto& y) {
      return alike(static_cast<double>(x.idle), static_cast<double>(y.idle));
    });
    const bool same_order =
        std::ranges::equal(a.ranks, b.ranks, {}, &RankMetrics::order, &RankMetrics::order);
    if (on_each && a.ranks.size() > 1)
      words += same_order ? " Every rank runs the same actions in the same order."
                          : " Each rank is idle for as long in B as in A: the order of the actions "
                            "differs, but the time to fill and drain the pipeline is the same.";
    return words + path_words(a, b);
  }
  words = fmt::format("The bubble is {} instead of {}: {} of idle time per rank instead of {}.",
                      percent(share_b), percent(share_a), duration_words(idle_per_rank(b)),
                      duration_words(idle_per_rank(a)));
  words += changed_cause(a, b);
  if (!alike(work(a), work(b)))
    words += fmt::format(" The actions themselves take {} per rank instead of {}.",
                         duration_words(work(b)), duration_words(work(a)));
  return words;
}

/// Divides the difference of two steps without a pipeline into compute, communication and idle.
std::string parts_reason(const StepMetrics& a, const StepMetrics& b) {
  const auto part = [&](const char* name, auto get) {
    const auto mean = [&](const StepMetrics& metrics) {
      return static_cast<double>(get(metrics.parts)) /
             static_cast<double>(std::max<std::size_t>(metrics.ranks.size(), 1));
    };
    const double left = mean(a), right = mean(b);
    if (alike(left, right))
      return left == 0 ? std::string{} : fmt::format("{} the same, {}", name, duration_words(left));
    return fmt::format("{} {} instead of {}", name, duration_words(right), duration_words(left));
  };
  std::string words;
  for (const std::string& each :
       {part("compute", [](const StepParts& parts) { return parts.compute; }),
        part("exposed communication", [](const StepParts& parts) { return parts.exposed(); }),
        part("idle", [](const StepParts& parts) { return parts.idle; })})
    if (!each.empty()) words += (words.empty() ? "Per rank: " : "; ") + each;
  if (!words.empty()) words += ".";
  const double hidden_a = a.overlap.share(), hidden_b = b.overlap.share();
  if (!alike(hidden_a, hidden_b))
    words += fmt::format(" Compute hides {} of the communication instead of {}.", percent(hidden_b),
                         percent(hidden_a));
  return words;
}

ComparisonFinding time_finding(const StepMetrics& a, const StepMetrics& b,
                               const ComparedNames& names) {
  const auto before = static_cast<double>(a.time()), after = static_cast<double>(b.time());
  ComparisonFinding finding;
  if (alike(before, after)) {
    // Without names, nothing that could make a difference is known.
    finding.claim = names.a == "A" ? fmt::format("Both steps take {}.", duration_words(b.time()))
                                   : fmt::format("{} is no faster than {}: both steps take {}.",
                                                 names.b, names.a, duration_words(b.time()));
  } else if (before <= 0) {
    finding.claim = fmt::format("Only {} takes time: {}.", names.b, duration_words(b.time()));
  } else {
    finding.claim = fmt::format("A step of {} takes {} one of {}: {} instead of {}.", names.b,
                                compared(before, after, "time"), names.a, duration_words(b.time()),
                                duration_words(a.time()));
  }
  finding.reason = a.bubble && b.bubble ? pipeline_reason(a, b) : parts_reason(a, b);
  return finding;
}

/// Says how much of both peaks are activations, if they make up at least half of the difference;
/// and, if the numbers can be compared, how many microbatches the ranks with these peaks keep.
std::string activations_words(const StepMetrics& a, const StepMetrics& b) {
  const RankMetrics &most_a = *a.most_memory(), &most_b = *b.most_memory();
  const auto part_a = static_cast<double>(most_a.activations.value_or(0));
  const auto part_b = static_cast<double>(most_b.activations.value_or(0));
  const auto by = static_cast<double>(*most_b.memory) - static_cast<double>(*most_a.memory);
  if ((part_b - part_a) / by < 0.5) return {};
  std::string words = fmt::format("At the peak, activations take {} instead of {}.",
                                  bytes_words(part_b), bytes_words(part_a));
  const int flight_a = most_a.in_flight, flight_b = most_b.in_flight;
  if (a.chunks == 1 && b.chunks == 1 && flight_a != flight_b && (flight_b > flight_a) == (by > 0))
    words +=
        fmt::format(" The rank with the peak has at most {} microbatch{} in flight instead of {}.",
                    flight_b, flight_b == 1 ? "" : "es", flight_a);
  return words;
}

std::optional<ComparisonFinding> memory_finding(const StepMetrics& a, const StepMetrics& b,
                                                const ComparedNames& names) {
  const RankMetrics *most_a = a.most_memory(), *most_b = b.most_memory();
  if (!most_a || !most_b) return {};
  const auto before = static_cast<double>(*most_a->memory);
  const auto after = static_cast<double>(*most_b->memory);
  ComparisonFinding finding;
  if (alike(before, after)) {
    finding.claim = fmt::format("Peak memory is the same, {}.", bytes_words(after));
    return finding;
  }
  if (before <= 0) {
    finding.claim = fmt::format("Only {} reports memory: {}.", names.b, bytes_words(after));
    return finding;
  }
  finding.claim = fmt::format("{} needs {} {}: the highest peak of a rank is {} instead of {}.",
                              names.b, compared(before, after, "memory"), names.a,
                              bytes_words(after), bytes_words(before));
  finding.reason = activations_words(a, b);
  if (most_a->rank != most_b->rank)
    finding.reason += fmt::format("{}The peak is on rank {} instead of rank {}.",
                                  finding.reason.empty() ? "" : " ", most_b->rank, most_a->rank);
  return finding;
}

ComparisonFinding bytes_finding(const StepMetrics& a, const StepMetrics& b,
                                const ComparedNames& names) {
  const auto before = static_cast<double>(a.sent()), after = static_cast<double>(b.sent());
  if (before == after)
    return {before == 0
                ? "Neither trace shows messages in this step."
                : fmt::format("Both send the same number of bytes, {}.", bytes_words(after)),
            ""};
  if (before <= 0)
    return {fmt::format("Only {} sends messages: {}.", names.b, bytes_words(after)), ""};
  return {fmt::format("{} sends {} {}: {} instead of {}.", names.b,
                      compared(before, after, "bytes", "fewer"), names.a, bytes_words(after),
                      bytes_words(before)),
          ""};
}

}  // namespace

ComparedNames compared_names(const Timeline& a, int step_a, const Timeline& b, int step_b) {
  const auto candidates = [](const Timeline& timeline, int step) {
    const Prediction& predicted = timeline.prediction(step);
    return std::array{predicted.schedule, timeline.run().lesson, predicted.phase};
  };
  const auto is_name = [](const std::string& text) {
    return !text.empty() && text.size() <= longest_name;
  };
  const auto left = candidates(a, step_a), right = candidates(b, step_b);
  for (std::size_t i = 0; i < left.size(); ++i)
    if (left[i] != right[i] && is_name(left[i]) && is_name(right[i]))
      return {fmt::format("A ({})", left[i]), fmt::format("B ({})", right[i])};
  return {};
}

std::string clock_warning(const Timeline& a, const Timeline& b) {
  const auto words = [](const RunInfo& run) {
    return run.clock == "modelled" ? "modelled"
           : run.clock == "wall"   ? "measured"
                                   : "from an unknown clock";
  };
  if (a.run().clock == b.run().clock) return {};
  return fmt::format("Times cannot be compared: A's are {}, B's are {}.", words(a.run()),
                     words(b.run()));
}

std::vector<ComparisonFinding> comparison_findings(const StepMetrics& a, const StepMetrics& b,
                                                   const ComparedNames& names, bool clocks_differ) {
  std::vector<ComparisonFinding> findings;
  if (a.step < 0 || b.step < 0) return findings;
  if (!clocks_differ) findings.push_back(time_finding(a, b, names));
  if (auto memory = memory_finding(a, b, names)) findings.push_back(*std::move(memory));
  findings.push_back(bytes_finding(a, b, names));
  return findings;
}

}  // namespace lockstep::viz
