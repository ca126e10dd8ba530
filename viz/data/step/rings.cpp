#include "viz/data/step/rings.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "core/time/cluster.h"
#include "viz/data/step/run_cluster.h"
#include "viz/data/step/shards.h"
#include "viz/data/step/words.h"
#include "viz/read/timeline/visit_band.h"

namespace lockstep::viz {
namespace {

constexpr std::size_t most_listed_chunks = 30;

Interval ring_window(const Timeline& timeline, int step) {
  if (const StepWindow* window = timeline.find_step(step)) return {window->start, window->end};
  return {timeline.start(), timeline.end()};
}

/// Calls `visit(rank, span, sends)` for each message of a ring in a step.
template <class Visit>
void visit_ring_messages(const Timeline& timeline, const RankTimeline& rank, int step,
                         Visit visit) {
  const Interval window = ring_window(timeline, step);
  for (const auto& lane : rank.lanes)
    visit_band(*lane, Band::action, window, [&](const TimelineSpan& span) {
      if (span.step == step && is_of_ring(timeline, span)) visit(span, span.sends());
    });
}

bool belongs_to(const TimelineSpan& span, const RingCollective& collective) {
  return span.group == collective.group && span.name == collective.operation &&
         span.sequence == collective.sequence;
}

/// Returns the number of a ring's steps by formula, and the formula as text; {0, ""} for other
/// operations.
std::pair<std::size_t, const char*> formula_of(const std::string& operation, std::size_t ranks) {
  if (operation == "all_reduce") return {2 * (ranks - 1), "2(N-1)"};
  if (operation == "all_gather" || operation == "reduce_scatter") return {ranks - 1, "N-1"};
  return {0, ""};
}

std::string link_name(const Ring& ring, const RingLink& link) {
  return fmt::format("rank {} to rank {}{}", link.from, link.to,
                     !ring.nodes_known    ? ""
                     : link.between_nodes ? " (between nodes)"
                                          : " (within a node)");
}

/// Names the rank that enters the ring late, if that explains most of the time beyond the chunks'
/// own.
std::string late_words(const Ring& ring) {
  const RingLink* first = nullptr;
  const RingLink* last = nullptr;
  const auto start_of = [](const RingLink& link) { return link.transfers.front().time.start; };
  for (const RingLink& link : ring.links) {
    if (link.transfers.empty()) return "";
    if (first == nullptr || start_of(link) < start_of(*first)) first = &link;
    if (last == nullptr || start_of(link) > start_of(*last)) last = &link;
  }
  if (first == nullptr) return "";
  const auto took = static_cast<double>(ring.collective.time.end - ring.collective.time.start);
  const auto late = static_cast<double>(start_of(*last) - start_of(*first));
  if (late < 0.05 * took || late < (took - ring.longest_path()) / 2) return "";
  return fmt::format("Rank {} starts {} after rank {}; the others wait.", last->from,
                     duration_words(late), first->from);
}

}  // namespace

bool is_of_ring(const Timeline& timeline, const TimelineSpan& span) {
  return span.category == Category::communication && span.peer >= 0 && span.sequence >= 0 &&
         timeline.name(span.algorithm) == "ring";
}

bool RingCollective::has(int rank) const {
  return std::ranges::count(ranks, rank) > 0;
}

std::int64_t RingLink::bytes() const {
  std::int64_t sum = 0;
  for (const Transfer& transfer : transfers) sum = plus(sum, transfer.bytes);
  return sum;
}

Picoseconds RingLink::slowest() const {
  Picoseconds longest = 0;
  for (const auto& [time, bytes] : transfers) longest = std::max(longest, time.end - time.start);
  return longest;
}

double RingLink::mean() const {
  double sum = 0;
  for (const auto& [time, bytes] : transfers) sum += static_cast<double>(time.end - time.start);
  return transfers.empty() ? 0 : sum / static_cast<double>(transfers.size());
}

std::size_t Ring::steps() const {
  std::size_t most = 0;
  for (const RingLink& link : links) most = std::max(most, link.transfers.size());
  return most;
}

std::size_t Ring::slowest_link() const {
  const auto slowest = std::ranges::max_element(links, {}, &RingLink::slowest);
  return static_cast<std::size_t>(slowest - links.begin());
}

bool Ring::links_alike() const {
  return std::ranges::all_of(
      links, [&](const RingLink& link) { return link.slowest() == links.front().slowest(); });
}

bool Ring::complete() const {
  const std::size_t expected = formula_of(operation, size()).first;
  return expected > 0 && std::ranges::all_of(links, [&](const RingLink& link) {
           return link.transfers.size() == expected;
         });
}

bool Ring::gathers(std::size_t i) const {
  return operation == "all_reduce" && complete() && i + 1 >= size();
}

std::optional<std::size_t> Ring::chunk(std::size_t link, std::size_t i) const {
  if (!complete()) return std::nullopt;
  const bool sums = operation == "reduce_scatter" || (operation == "all_reduce" && !gathers(i));
  // The sum of chunk k ends on member k after N-1 steps, so it starts on the member after it; a
  // copy of chunk k starts on member k.
  const std::size_t moved = sums ? i + 1 : gathers(i) ? i + 1 - size() : i;
  return (link + 2 * size() - moved) % size();
}

double Ring::longest_path() const {
  double longest = 0;
  for (std::size_t first = 0; first < links.size(); ++first) {
    double sum = 0;
    for (std::size_t i = 0; i < steps(); ++i) sum += links[(first + i) % links.size()].mean();
    longest = std::max(longest, sum);
  }
  return longest;
}

std::int64_t Ring::largest_message() const {
  std::int64_t largest = 0;
  for (const RingLink& link : links)
    for (const RingLink::Transfer& transfer : link.transfers)
      largest = std::max(largest, transfer.bytes);
  return largest;
}

std::optional<Interval> Ring::time_of_step(std::size_t i) const {
  std::optional<Interval> time;
  for (const RingLink& link : links) {
    if (i >= link.transfers.size()) continue;
    const Interval& one = link.transfers[i].time;
    time = time ? Interval{std::min(time->start, one.start), std::max(time->end, one.end)} : one;
  }
  return time;
}

std::vector<RingCollective> ring_collectives(const Timeline& timeline, int step) {
  /// One rank's part in a collective.
  struct Part {
    int next = -1;
    Interval time{std::numeric_limits<Picoseconds>::max(), std::numeric_limits<Picoseconds>::min()};
    bool taken = false;
  };
  std::map<std::tuple<NameId, NameId, int>, std::map<int, Part>> parts;
  for (const auto& rank : timeline.ranks())
    visit_ring_messages(timeline, *rank, step, [&](const TimelineSpan& span, bool sends) {
      Part& part = parts[{span.group, span.name, span.sequence}][rank->rank];
      if (sends) part.next = span.peer;
      part.time = {std::min(part.time.start, span.start), std::max(part.time.end, span.end)};
    });
  std::vector<RingCollective> all;
  // Several groups may have one name, such as the tp groups of each stage. Each of them has a
  // separate ring.
  for (auto& [key, ranks] : parts)
    for (auto& [first, part] : ranks) {
      if (part.taken) continue;
      const auto& [group, operation, sequence] = key;
      RingCollective ring{group, operation, sequence, {}, part.time};
      int rank = first;
      for (auto at = ranks.find(rank); at != ranks.end() && !at->second.taken;
           at = ranks.find(rank)) {
        at->second.taken = true;
        ring.ranks.push_back(rank);
        ring.time = {std::min(ring.time.start, at->second.time.start),
                     std::max(ring.time.end, at->second.time.end)};
        rank = at->second.next;
      }
      if (rank == first && ring.ranks.size() > 1) all.push_back(std::move(ring));
    }
  std::ranges::stable_sort(all, std::ranges::greater{}, [](const RingCollective& each) {
    return each.time.end - each.time.start;
  });
  return all;
}

Ring ring_of(const Timeline& timeline, int step, const RingCollective& collective) {
  Ring ring{.collective = collective,
            .operation = timeline.name(collective.operation),
            .group = timeline.name(collective.group),
            .step = step,
            .links = {},
            .latency_and_bytes = {}};
  const auto cluster = simulated_cluster(timeline.run());
  ring.nodes_known = cluster && cluster->ranks_per_node > 0;
  const auto& ranks = collective.ranks;
  const auto by_start = [](const TimelineSpan& span) { return span.start; };
  std::vector<std::vector<TimelineSpan>> sent(ranks.size()), received(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const RankTimeline* rank = timeline.find_rank(ranks[i]);
    if (!rank) continue;
    visit_ring_messages(timeline, *rank, step, [&](const TimelineSpan& span, bool sends) {
      if (belongs_to(span, collective)) (sends ? sent : received)[i].push_back(span);
    });
    std::ranges::stable_sort(sent[i], {}, by_start);
    std::ranges::stable_sort(received[i], {}, by_start);
  }
  const bool modelled = timeline.run().clock == "modelled";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::size_t next = (i + 1) % ranks.size();
    RingLink link{.from = ranks[i], .to = ranks[next], .transfers = {}};
    if (ring.nodes_known)
      link.between_nodes = link.from / cluster->ranks_per_node != link.to / cluster->ranks_per_node;
    const std::size_t count = std::min(sent[i].size(), received[next].size());
    for (std::size_t k = 0; k < count; ++k) {
      // On the wall clock, a send starts when it is posted, but its transfer starts only once both
      // ranks have posted it.
      const TimelineSpan& arrives = received[next][k];
      const Picoseconds start = modelled ? sent[i][k].start : arrives.start;
      link.transfers.push_back({{start, std::max(arrives.end, start)}, sent[i][k].bytes});
    }
    ring.links.push_back(std::move(link));
  }
  if (ring.nodes_known && !ring.links.empty()) {
    const RingLink& slowest = ring.links[ring.slowest_link()];
    const std::int64_t bytes = ring.largest_message();
    const Link::Segment costs = cluster->link(slowest.from, slowest.to).at(bytes);
    ring.latency_and_bytes = {costs.latency_seconds * 1e12,
                              static_cast<double>(bytes) / costs.bandwidth * 1e12};
  }
  return ring;
}

std::string collective_words(const Timeline& timeline, const RingCollective& collective) {
  std::vector<int> ranks = collective.ranks;
  std::ranges::sort(ranks);
  return fmt::format(
      "{}: {} {} {}, {}", duration_words(collective.time.end - collective.time.start),
      timeline.name(collective.group), timeline.name(collective.operation), collective.sequence,
      ranks.size() > 8 ? fmt::format("{} ranks", ranks.size()) : ranks_words(ranks));
}

std::vector<std::string> ring_sentences(const Ring& ring) {
  std::vector<std::string> sentences;
  const std::size_t steps = ring.steps();
  const Picoseconds took = ring.collective.time.end - ring.collective.time.start;
  sentences.push_back(
      fmt::format("{} on {} ranks: {}", ring.operation, ring.size(), duration_words(took)));
  if (steps == 0) return sentences;
  const auto [expected, formula] = formula_of(ring.operation, ring.size());
  sentences.push_back(fmt::format(
      "{}{}, every rank sends {} to the next one.",
      expected == steps ? std::string{formula} + " = " : "",
      steps == 1 ? "1 step: in it" : fmt::format("{} steps: in each", steps),
      expected == steps ? fmt::format("a chunk of n/N = {}", bytes_words(ring.largest_message()))
                        : fmt::format("up to {}", bytes_words(ring.largest_message()))));
  const RingLink& slowest = ring.links[ring.slowest_link()];
  const Picoseconds each = slowest.slowest();
  const bool alike = ring.links_alike();
  std::string words =
      alike ? "Every link" : fmt::format("The slowest link, {},", link_name(ring, slowest));
  if (ring.latency_and_bytes) {
    const auto [latency, bytes] = *ring.latency_and_bytes;
    const Scale scale = Scale::durations(std::max(latency, bytes));
    words += fmt::format(" takes α + β n/N = {} + {} per step.", scale(latency), scale(bytes));
    if (latency + bytes < 0.999 * static_cast<double>(each))
      words += fmt::format(" Its slowest transfer took {}.", duration_words(each));
  } else {
    words += fmt::format(" takes up to {} per step.", duration_words(each));
  }
  sentences.push_back(std::move(words));
  const double sum = static_cast<double>(each) * static_cast<double>(steps);
  const Scale scale = Scale::durations(
      std::max({sum, static_cast<double>(took), static_cast<double>(ring.longest_path())}));
  if (alike)
    sentences.push_back(
        fmt::format("{} × {} = {}; observed: {}.", steps, scale(each), scale(sum), scale(took)));
  else
    sentences.push_back(
        fmt::format("A chunk crosses {} link{} one after the other, {} on the slowest path; "
                    "observed, from the first start: {}.",
                    steps, steps == 1 ? "" : "s", scale(ring.longest_path()), scale(took)));
  if (std::string late = late_words(ring); !late.empty()) sentences.push_back(std::move(late));
  return sentences;
}

std::vector<std::string> link_words(const Ring& ring, std::size_t index) {
  const RingLink& link = ring.links[index];
  std::vector<std::string> lines{link_name(ring, link)};
  if (link.transfers.empty()) {
    lines.emplace_back("no message in the trace");
    return lines;
  }
  const auto slowest = std::ranges::max_element(
      link.transfers, {},
      [](const RingLink::Transfer& each) { return each.time.end - each.time.start; });
  lines.push_back(fmt::format("{} in {} message{}", bytes_words(link.bytes()),
                              link.transfers.size(), link.transfers.size() == 1 ? "" : "s"));
  if (ring.complete()) {
    std::string chunks;
    for (std::size_t i = 0; i < std::min(ring.steps(), most_listed_chunks); ++i)
      chunks += fmt::format("{}{}",
                            i == 0                                  ? ""
                            : ring.gathers(i) > ring.gathers(i - 1) ? "; "
                                                                    : ", ",
                            *ring.chunk(index, i));
    lines.push_back(fmt::format("chunk{} {}{}", ring.steps() == 1 ? "" : "s", chunks,
                                ring.steps() > most_listed_chunks ? ", ..." : ""));
  }
  lines.push_back(fmt::format("slowest transfer: {}, in step {} of {}",
                              duration_words(link.slowest()), slowest - link.transfers.begin() + 1,
                              ring.steps()));
  if (index == ring.slowest_link()) lines.emplace_back("the slowest link of the ring");
  return lines;
}

std::vector<std::string> ring_step_words(const Ring& ring, std::size_t i) {
  std::vector<std::string> lines;
  std::string half;
  if (ring.operation == "all_reduce" && ring.complete())
    half = ring.gathers(i) ? ": all-gather" : ": reduce-scatter";
  lines.push_back(fmt::format("step {} of {}{}", i + 1, ring.steps(), half));
  if (ring.complete() && ring.size() > 1)
    lines.push_back(fmt::format("rank {} sends chunk {}, rank {} chunk {}{}", ring.links[0].from,
                                *ring.chunk(0, i), ring.links[1].from, *ring.chunk(1, i),
                                ring.size() > 2 ? ", and so on" : ""));
  const auto time = ring.time_of_step(i);
  if (!time) return lines;
  const Picoseconds start = ring.collective.time.start;
  const Scale scale = Scale::durations(static_cast<double>(time->end - start));
  lines.push_back(fmt::format("from {} to {} after the start", scale(time->start - start),
                              scale(time->end - start)));
  const RingLink* slowest = nullptr;
  const auto took = [&](const RingLink& link) {
    return link.transfers[i].time.end - link.transfers[i].time.start;
  };
  for (const RingLink& link : ring.links)
    if (i < link.transfers.size() && (!slowest || took(link) > took(*slowest))) slowest = &link;
  if (slowest)
    lines.push_back(fmt::format("slowest: {}, {} in {}", link_name(ring, *slowest),
                                bytes_words(slowest->transfers[i].bytes),
                                duration_words(took(*slowest))));
  return lines;
}

}  // namespace lockstep::viz
