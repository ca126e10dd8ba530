#include "viz/data/step/buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "viz/data/step/words.h"
#include "viz/read/timeline/visit_band.h"
#include "viz/read/timeline/visit_sends.h"

namespace lockstep::viz {
namespace {

constexpr std::size_t most_others = 3;

/// Returns whether a group consists of replicas that sum gradients, or of ranks that share their
/// state. "world" contains all ranks, so it counts only if the mesh has no axes except dp, cp and,
/// within dp, ep.
bool along_dp(const RunInfo& run, std::string_view group) {
  if (run.mesh.empty()) return true;
  if (group == "world") {
    const auto size_of = [&](std::string_view axis) {
      const auto found =
          std::ranges::find(run.mesh, axis, [](const auto& each) { return each.first; });
      return found == run.mesh.end() ? 1 : found->second;
    };
    return size_of("dp") * size_of("cp") > 1 && size_of("pp") == 1 && size_of("tp") == 1;
  }
  constexpr std::string_view groups[] = {"dp",           "dp_cp",   "edp",
                                         "same experts", "sharers", "replicas"};
  return std::ranges::count(groups, group) > 0;
}

/// Identifies a collective on one rank. Without a sequence number, each span is a separate
/// collective.
using Key = std::tuple<NameId, NameId, int, Picoseconds>;
Key key_of(const TimelineSpan& span) {
  return {span.group, span.name, span.sequence, span.sequence < 0 ? span.start : 0};
}

/// Returns the intervals that touch a window, so that the functions of viz/read/timeline/analysis.h
/// need not visit the others.
Intervals touching(const Intervals& intervals, const Interval& window) {
  const auto first = std::ranges::partition_point(
      intervals, [&](const Interval& each) { return each.end <= window.start; });
  auto last = first;
  while (last != intervals.end() && last->start < window.end) ++last;
  return {first, last};
}
/// Returns the parts of `some` within `all`.
Intervals within(const Intervals& all, const Intervals& some) {
  if (some.empty()) return {};
  return intersection(some, touching(all, {some.front().start, some.back().end}));
}

struct Spans {
  Bucket bucket;
  std::vector<Interval> communication, waits;
};

bool is_backward(Category category) {
  return category == Category::backward || category == Category::backward_input ||
         category == Category::backward_weight || category == Category::recompute;
}

/// Lists the operations of some buckets: "9 reduce_scatters and 9 all_gathers".
template <class Belongs>
std::string operations(const Timeline& timeline, const StepBuckets& step, Belongs belongs) {
  std::vector<std::pair<NameId, std::size_t>> counts;  // in order of appearance
  for (const Bucket& bucket : step.buckets) {
    if (!belongs(bucket)) continue;
    const auto found = std::ranges::find(counts, bucket.operation, [](auto& c) { return c.first; });
    if (found == counts.end())
      counts.emplace_back(bucket.operation, 1);
    else
      ++found->second;
  }
  std::vector<std::string> words;
  for (const auto& [operation, count] : counts)
    words.push_back(fmt::format("{} {}{}", count, timeline.name(operation), count == 1 ? "" : "s"));
  return list_words(words);
}

std::string sent_words(const Timeline& timeline, const StepBuckets& step) {
  std::int64_t sum = 0, least = step.buckets.front().bytes, most = 0;
  for (const Bucket& bucket : step.buckets) {
    sum = plus(sum, bucket.bytes);
    least = std::min(least, bucket.bytes);
    most = std::max(most, bucket.bytes);
  }
  const std::string all = operations(timeline, step, [](const Bucket&) { return true; });
  if (sum == 0) return "takes part in " + all;
  const std::string words = fmt::format("sends {} in {}", bytes_words(sum), all);
  if (step.buckets.size() == 1) return words;
  const Scale scale = Scale::bytes(static_cast<double>(most));
  const std::string low = scale(least), high = scale(most);
  return words +
         (low == high ? fmt::format(", {} each", low) : fmt::format(", {} to {} each", low, high));
}

std::string hidden_words(const Overlap& overlap) {
  if (overlap.hidden == 0) return "not hidden by compute";
  if (overlap.hidden == overlap.communication) return "all of it hidden by compute";
  return percent_words(overlap.share()) + " hidden by compute";
}

/// The times when compute waits for communication on one axis.
struct AxisTimes {
  Intervals transfer, latency, late_peer;
  Intervals all() const {
    std::vector<Interval> times = transfer;
    times.insert(times.end(), latency.begin(), latency.end());
    times.insert(times.end(), late_peer.begin(), late_peer.end());
    return merged(std::move(times));
  }
};

/// Returns the times of the axis that is named after a group. Traces from other tools may have
/// collectives without a group.
AxisTimes times_of_axis(const StepAccount& account, const RankAccount& rank,
                        const std::string& group) {
  const std::string name = group.empty() ? "communication" : group;
  const auto axis = std::ranges::find(account.axes, name) - account.axes.begin();
  std::vector<Interval> transfer, latency, late_peer;
  for (const StepPiece& piece : rank.pieces) {
    if (piece.axis != axis) continue;
    (piece.part == StepPart::transfer  ? transfer
     : piece.part == StepPart::latency ? latency
                                       : late_peer)
        .push_back(piece.time);
  }
  return {merged(std::move(transfer)), merged(std::move(latency)), merged(std::move(late_peer))};
}

/// Says during which passes compute stalls, and for which buckets.
void add_stalls(const Timeline& timeline, const StepBuckets& step,
                std::vector<std::string>& sentences) {
  const Intervals& backward = step.backward_passes;
  const Picoseconds end =
      backward.empty() ? step.window.end : std::min(backward.back().end, step.window.end);
  if (std::ranges::all_of(step.buckets,
                          [&](const Bucket& bucket) { return bucket.time.start >= end; })) {
    sentences.emplace_back(
        "All of these collectives start after the last backward pass, so no computation is left to "
        "overlap them.");
    return;
  }
  struct Phase {
    const char* name;
    Intervals times;
    Picoseconds sum = 0;
    std::string words{};
  };
  std::vector<Phase> phases{
      {.name = "in forward", .times = difference(step.forward_passes, backward)},
      {.name = "in backward", .times = backward},
      {.name = "between passes", .times = {}},
      {.name = "after backward", .times = merged({{end, step.window.end}})}};
  Intervals between = difference(merged({step.window}), step.forward_passes);
  between = difference(difference(between, backward), phases.back().times);
  phases[2].times = std::move(between);
  for (Phase& phase : phases)
    phase.words = operations(timeline, step, [&](const Bucket& bucket) {
      const Picoseconds time = length(within(phase.times, bucket.exposed));
      phase.sum = plus(phase.sum, time);
      return time > 0;
    });
  const Phase after = phases.back();
  std::erase_if(phases, [](const Phase& phase) { return phase.sum == 0; });
  if (phases.size() == 1 && after.sum > 0) {
    sentences.push_back(fmt::format(
        "No computation is left to overlap {} after the last backward pass: {} exposed.",
        after.words, duration_words(after.sum)));
  } else if (!phases.empty()) {
    std::string words;
    const Scale scale =
        Scale::durations(static_cast<double>(std::ranges::max(phases, {}, &Phase::sum).sum));
    for (const Phase& phase : phases)
      words += fmt::format("{}{} {} ({})", words.empty() ? "Stalls: " : ", ", scale(phase.sum),
                           phase.name, phase.words);
    sentences.push_back(words + ".");
  }
}

}  // namespace

bool is_of_bucket(const Timeline& timeline, const TimelineSpan& span) {
  if (!along_dp(timeline.run(), timeline.name(span.group))) return false;
  const std::string& name = timeline.name(span.name);
  return name == "all_reduce" || name == "reduce_scatter" || name == "all_gather";
}

StepBuckets step_buckets(const Timeline& timeline, const StepAccount& account,
                         const RankTimeline& rank) {
  const int step = account.step;
  StepBuckets result{.step = step, .rank = rank.rank};
  const StepWindow* window = timeline.find_step(step);
  if (!window) return result;
  result.window = {window->start, window->end};
  std::map<Key, Spans> found;
  std::set<std::pair<NameId, NameId>> others;
  std::vector<Interval> forward, backward, other_times;
  for (const auto& lane : rank.lanes) {
    visit_band(*lane, Band::action, result.window, [&](const TimelineSpan& span) {
      const Interval time{span.start, span.end};
      if (span.category == Category::forward) forward.push_back(time);
      if (is_backward(span.category)) backward.push_back(time);
      if (span.step != step) return;
      const bool waits = span.category == Category::wait && lane->is_compute();
      if (!waits && span.category != Category::communication) return;
      if (!is_of_bucket(timeline, span)) {
        if (waits) return;
        others.emplace(span.group, span.name);
        other_times.push_back(time);
        return;
      }
      Spans& spans = found[key_of(span)];
      (waits ? spans.waits : spans.communication).push_back(time);
      Bucket& bucket = spans.bucket;
      if (waits || (spans.communication.size() > 1 && bucket.first.start <= span.start)) return;
      bucket.first = span;
      bucket.lane = lane->tid();
    });
  }
  for (const auto& [group, name] : others) {
    const std::string& words = timeline.name(group);
    result.others.push_back(words.empty() ? timeline.name(name)
                                          : words + " " + timeline.name(name));
  }
  visit_sends(timeline, rank, step, [&](const TimelineSpan& span) {
    const auto sent = found.find(key_of(span));
    if (sent != found.end())
      sent->second.bucket.bytes = plus(sent->second.bucket.bytes, span.bytes);
  });

  std::erase_if(found, [](const auto& each) { return each.second.communication.empty(); });
  std::vector<Spans*> ordered;
  for (auto& [key, spans] : found) ordered.push_back(&spans);
  std::ranges::stable_sort(ordered, {}, [](Spans* each) { return each->bucket.first.start; });
  const Intervals all = communication(timeline, rank, step);
  const Intervals compute =
      all.empty() ? Intervals{} : computation(rank, {all.front().start, all.back().end});
  const RankAccount* of_rank = account.find(rank.rank);
  std::map<NameId, AxisTimes> axes;
  Intervals taken;  // by earlier buckets; only the part that later ones can overlap
  for (Spans* spans : ordered) {
    Bucket& bucket = spans->bucket;
    const TimelineSpan& first = bucket.first;
    bucket.operation = first.name;
    bucket.group = first.group;
    bucket.group_size = first.group_size;
    bucket.sequence = first.sequence;
    const Intervals whole = merged(std::move(spans->communication));
    bucket.time = {first.start, std::max(first.end, whole.empty() ? first.end : whole.back().end)};
    const Intervals own = difference(whole, taken);
    std::erase_if(taken, [&](const Interval& each) { return each.end <= first.start; });
    taken.insert(taken.end(), own.begin(), own.end());
    taken = merged(std::move(taken));
    bucket.hidden = within(compute, own);
    bucket.not_hidden = difference(own, bucket.hidden);
    // Without waits in the trace, compute stalls while the bucket alone communicates.
    const auto [axis, fresh] = axes.try_emplace(bucket.group);
    if (fresh && of_rank)
      axis->second = times_of_axis(account, *of_rank, timeline.name(bucket.group));
    const AxisTimes& times = axis->second;
    bucket.exposed =
        within(times.all(), timeline.run().clock.empty() ? own : merged(std::move(spans->waits)));
    bucket.parts = {.transfer = length(within(times.transfer, bucket.exposed)),
                    .latency = length(within(times.latency, bucket.exposed)),
                    .late_peer = length(within(times.late_peer, bucket.exposed))};
    result.overlap.communication = plus(result.overlap.communication, bucket.communication());
    result.overlap.hidden = plus(result.overlap.hidden, length(bucket.hidden));
    result.exposed += bucket.parts;
    result.buckets.push_back(std::move(bucket));
  }
  const Intervals of_others = merged(std::move(other_times));
  result.other_overlap.communication = length(of_others);
  if (!of_others.empty())
    result.other_overlap.hidden = length(intersection(
        of_others, computation(rank, {of_others.front().start, of_others.back().end})));
  if (of_rank) {
    const Exposed of_all = of_rank->sums.exposed();
    result.other_exposed = {.transfer = of_all.transfer - result.exposed.transfer,
                            .latency = of_all.latency - result.exposed.latency,
                            .late_peer = of_all.late_peer - result.exposed.late_peer};
  }

  result.forward_passes = merged(std::move(forward));
  result.backward_passes = merged(std::move(backward));
  const Intervals computing = intersection(computation(rank, result.window), {result.window});
  result.backward = intersection(computing, result.backward_passes);
  result.forward = difference(intersection(computing, result.forward_passes), result.backward);
  result.other = difference(difference(computing, result.backward), result.forward);
  return result;
}

const RankAccount* most_exposed(const StepAccount& account) {
  const auto most = std::ranges::max_element(
      account.ranks, {}, [](const RankAccount& rank) { return rank.sums.exposed().sum(); });
  return most == account.ranks.end() ? nullptr : &*most;
}

std::vector<std::string> bucket_sentences(const Timeline& timeline, const StepBuckets& step) {
  std::vector<std::string> sentences;
  if (step.buckets.empty()) return sentences;
  sentences.push_back(fmt::format("Rank {} {}.", step.rank, sent_words(timeline, step)));
  sentences.push_back(fmt::format("Communication: {}, {}.",
                                  duration_words(step.overlap.communication),
                                  hidden_words(step.overlap)));
  const Picoseconds exposed = step.exposed.sum();
  sentences.push_back(exposed == 0
                          ? "Compute never stalls for them."
                          : fmt::format("Exposed wait: compute stalls for {} ({}).",
                                        duration_words(exposed), exposed_words(step.exposed, 1)));
  add_stalls(timeline, step, sentences);
  if (!step.others.empty()) {
    std::string names;
    for (std::size_t i = 0; i < std::min(step.others.size(), most_others); ++i)
      names += (i > 0 ? ", " : "") + step.others[i];
    if (step.others.size() > most_others) names += ", …";
    const Picoseconds other = step.other_exposed.sum();
    const Scale scale =
        Scale::durations(static_cast<double>(std::max(other, step.other_overlap.communication)));
    sentences.push_back(fmt::format(
        "Other communication ({}): {} on the lanes, {}.", names,
        scale(step.other_overlap.communication),
        other == 0
            ? "never exposed"
            : fmt::format("exposed {} ({})", scale(other), exposed_words(step.other_exposed, 1))));
  }
  return sentences;
}

std::vector<std::string> bucket_words(const Timeline& timeline, const StepBuckets& step,
                                      std::size_t index) {
  const Bucket& bucket = step.buckets[index];
  std::vector<std::string> lines;
  lines.push_back(
      fmt::format("{}{}, {} of {}", timeline.name(bucket.operation),
                  bucket.first.sequence < 0 ? "" : fmt::format(" {}", bucket.first.sequence),
                  index + 1, step.buckets.size()));
  std::string group;
  if (bucket.group != 0) group = "group " + timeline.name(bucket.group);
  if (bucket.group != 0 && bucket.group_size > 0)
    group += fmt::format(" of {} ranks", bucket.group_size);
  if (bucket.bytes > 0)
    lines.push_back(
        fmt::format("sends {}{}", bytes_words(bucket.bytes), group.empty() ? "" : " in " + group));
  else if (!group.empty())
    lines.push_back(group);
  const Scale scale = Scale::durations(static_cast<double>(bucket.time.end - step.window.start));
  lines.push_back(fmt::format("from {} to {} of the step",
                              scale(bucket.time.start - step.window.start),
                              scale(bucket.time.end - step.window.start)));
  lines.push_back(fmt::format("communication: {}, {}", duration_words(bucket.communication()),
                              hidden_words({bucket.communication(), length(bucket.hidden)})));
  lines.push_back(bucket.parts.sum() == 0 ? "Compute never stalls for it."
                                          : fmt::format("exposed wait: compute stalls for {} ({})",
                                                        duration_words(bucket.parts.sum()),
                                                        exposed_words(bucket.parts, 1)));
  return lines;
}

}  // namespace lockstep::viz
