// Collectives that ran as rings: compared with an example worked out by hand, and in a context
// without a window.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>

#include "tests/viz/interactive.h"
#include "viz/data/step/rings.h"
#include "viz/data/step/traffic_matrix.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

/// Rings on four ranks, two on each node. A message takes 1 µs + 2 µs within a node and 1 µs + 4 µs
/// between nodes; 8 bytes in each. In step 0, all four ranks run an all_reduce, and then ranks 0, 1
/// and ranks 2, 3 run an all_gather in groups of the same name.
struct WorkedRings {
  Timeline timeline;
  std::uint64_t messages = 0;
  std::map<int, Picoseconds> has{};  ///< when a rank may send its next message

  WorkedRings() { fill(timeline); }

  void fill(Timeline& into, int step = 0) {
    const Cluster cluster{.name = "two",
                          .nodes = 2,
                          .ranks_per_node = 2,
                          .within = {.latency_seconds = 1e-6, .bandwidth = 4e6},
                          .between = {.latency_seconds = 1e-6, .bandwidth = 2e6}};
    into.run().cluster_description = cluster.json();
    into.run().clock = "modelled";
    for (int k = 0; k < 6; ++k) round(into, step, {0, 1, 2, 3}, "all_reduce", "world", 5);
    round(into, step, {0, 1}, "all_gather", "tp", 9);
    round(into, step, {2, 3}, "all_gather", "tp", 9);
    into.settle();
  }

  /// Each rank sends one message to the next.
  void round(Timeline& into, int step, const std::vector<int>& ranks, const char* name,
             const char* group, int sequence) {
    std::map<int, Picoseconds> arrived;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const int from = ranks[i], to = ranks[(i + 1) % ranks.size()];
      const Picoseconds bytes_take = from / 2 == to / 2 ? 2 * us : 4 * us;
      TimelineSpan span{
          .start = has[from], .end = has[from] + bytes_take, .bytes = 8, .step = step};
      span.name = into.intern(name);
      span.group = into.intern(group);
      span.algorithm = static_cast<std::uint16_t>(into.intern("ring"));
      span.category = Category::communication;
      span.sequence = sequence;
      span.peer = to;
      into.add(from, 1, span);
      into.flow_start(++messages, from, 1, span.start);
      span.peer = from;
      span.start += 1 * us;
      span.end += 1 * us;
      into.add(to, 2, span);
      into.flow_end(messages, to, 2, span.end);
      arrived[to] = std::max(span.end, has[from] + bytes_take);
    }
    for (const auto& [rank, time] : arrived) has[rank] = std::max(has[rank], time);
  }
};

std::string in_lines(const std::vector<std::string>& sentences) {
  return fmt::format("{}", fmt::join(sentences, "\n"));
}

}  // namespace

TEST_CASE("the rings of a step, worked by hand") {
  WorkedRings hand;
  const auto all = ring_collectives(hand.timeline, 0);
  REQUIRE(all.size() == 3);  // one all_reduce, and an all_gather in each of two groups
  CHECK(all[0].ranks == std::vector{0, 1, 2, 3});
  CHECK(all[0].sequence == 5);
  CHECK(all[1].ranks == std::vector{0, 1});
  CHECK(all[2].ranks == std::vector{2, 3});
  CHECK(collective_words(hand.timeline, all[2]) == "3.00 µs: tp all_gather 9, ranks 2, 3");
  CHECK(ring_collectives(hand.timeline, 1).empty());

  const Ring ring = ring_of(hand.timeline, 0, all[0]);
  REQUIRE(ring.size() == 4);
  CHECK(ring.steps() == 6);
  CHECK(ring.largest_message() == 8);
  CHECK(ring.links[0].from == 0);
  CHECK(ring.links[0].to == 1);
  CHECK_FALSE(ring.links[0].between_nodes);
  CHECK(ring.links[1].between_nodes);
  CHECK(ring.links[3].to == 0);
  CHECK(ring.links[3].between_nodes);
  CHECK(ring.links[0].slowest() == 3 * us);
  CHECK(ring.links[1].slowest() == 5 * us);
  CHECK(ring.links[0].bytes() == 48);
  CHECK(ring.slowest_link() == 1);
  REQUIRE(ring.latency_and_bytes);
  CHECK(ring.latency_and_bytes->first == doctest::Approx(1 * us));
  CHECK(ring.latency_and_bytes->second == doctest::Approx(4 * us));
  CHECK(ring.time_of_step(0) == Interval{0, 5 * us});
  CHECK_FALSE(ring.links_alike());
  CHECK(ring.complete());
  // Rank 1 sends chunk 0 first, adds to chunks 3 and 2 as they pass, and then passes on the sums,
  // its own first.
  for (const auto& [step, chunk] : {std::pair{0, 0}, {1, 3}, {2, 2}, {3, 1}, {4, 0}, {5, 3}})
    CHECK(ring.chunk(1, static_cast<std::size_t>(step)) == static_cast<std::size_t>(chunk));
  CHECK_FALSE(ring.gathers(2));
  CHECK(ring.gathers(3));
  // In an all-gather, every member starts with its own chunk.
  CHECK(ring_of(hand.timeline, 0, all[1]).chunk(1, 0) == 1);
  CHECK_FALSE(ring.time_of_step(6));
  // The bytes are those of the traffic between the same ranks.
  const TrafficMatrix traffic = traffic_matrix(hand.timeline, 0);
  for (const RingLink& link : ring.links)
    CHECK(link.bytes() + (link.between_nodes ? 0 : 8) == traffic.bytes(link.from, link.to));
}

TEST_CASE("a ring's time in sentences") {
  WorkedRings hand;
  const auto all = ring_collectives(hand.timeline, 0);
  const Ring ring = ring_of(hand.timeline, 0, all[0]);
  const std::string took = viz::duration_words(static_cast<double>(ring.collective.time.end));
  CHECK(in_lines(ring_sentences(ring)) ==
        "all_reduce on 4 ranks: " + took +
            "\n2(N-1) = 6 steps: in each, every rank sends a chunk of n/N = 8 B to the next one."
            "\nThe slowest link, rank 1 to rank 2 (between nodes), takes α + β n/N = 1.00 µs + "
            "4.00 µs per step.\nA chunk crosses 6 links one after the other, "
            "24.0 µs on the slowest path; "
            "observed, from the first start: " +
            took + ".");
  CHECK(in_lines(link_words(ring, 1)) ==
        "rank 1 to rank 2 (between nodes)\n48 B in 6 messages\nchunks 0, 3, 2; 1, 0, 3\n"
        "slowest transfer: 5.00 µs, in step 1 of 6\nthe slowest link of the ring");
  CHECK(ring_step_words(ring, 0).front() == "step 1 of 6: reduce-scatter");
  CHECK(ring_step_words(ring, 2).front() == "step 3 of 6: reduce-scatter");
  CHECK(ring_step_words(ring, 3).front() == "step 4 of 6: all-gather");
  CHECK(
      in_lines(ring_step_words(ring, 0)) ==
      "step 1 of 6: reduce-scatter\nrank 0 sends chunk 3, rank 1 chunk 0, and so on\nfrom 0 µs to "
      "5.00 µs after the start\n"
      "slowest: rank 1 to rank 2 (between nodes), 8 B in 5.00 µs");
  // All links of a ring within a node are equal.
  const Ring within = ring_of(hand.timeline, 0, all[1]);
  CHECK(in_lines(ring_sentences(within)) ==
        "all_gather on 2 ranks: 3.00 µs"
        "\nN-1 = 1 step: in it, every rank sends a chunk of n/N = 8 B to the next one."
        "\nEvery link takes α + β n/N = 1.00 µs + 2.00 µs per step."
        "\n1 × 3.00 µs = 3.00 µs; observed: 3.00 µs.");
  // Rank 3 sends its first chunk late, which takes more time than all chunks together.
  hand.has = {{3, 100 * us}};
  Timeline late;
  hand.fill(late);
  CHECK(ring_sentences(ring_of(late, 0, ring_collectives(late, 0)[0])).back() ==
        "Rank 3 starts 100 µs after rank 0; the others wait.");
  // On the wall clock, a transfer begins when its receiver is ready, and α and β are not known.
  hand.timeline.run().clock = "wall";
  const Ring real = ring_of(hand.timeline, 0, all[0]);
  CHECK(real.links[1].slowest() == 4 * us);
  CHECK_FALSE(real.latency_and_bytes);
  CHECK(ring_sentences(real)[2] ==
        "The slowest link, rank 1 to rank 2, takes up to 4.00 µs per step.");
}

TEST_CASE("a ring that the trace does not close is left out") {
  WorkedRings hand;
  const auto open = [&](int from, int to, int sequence) {
    TimelineSpan span{.start = 0, .end = 2 * us, .bytes = 8, .step = 0};
    span.name = hand.timeline.intern("all_gather");
    span.algorithm = static_cast<std::uint16_t>(hand.timeline.intern("ring"));
    span.category = Category::communication;
    span.sequence = sequence;
    span.peer = to;
    hand.timeline.add(from, 1, span);
  };
  open(0, 1, 20);
  open(1, 2, 20);  // rank 2 has not sent yet
  open(3, 3, 21);
  hand.timeline.settle();
  CHECK(ring_collectives(hand.timeline, 0).size() == 3);
}

TEST_CASE("the rings panel explains links, steps and the collective under the cursor") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  CHECK(std::ranges::count(viewer.model.panels.choices, Panel::rings) == 0);
  viewer.model.timeline.clear();
  WorkedRings hand;
  hand.has.clear();
  TimelineSpan step{.start = 0, .end = 60 * us, .step = 0};
  step.category = Category::step;
  for (int rank = 0; rank < 4; ++rank) viewer.model.timeline.add(rank, 0, step);
  hand.fill(viewer.model.timeline);
  for (int rank = 0; rank < 4; ++rank) viewer.model.timeline.end(rank, 1);
  viewer.model.viewport.fit(viewer.model.timeline);
  viewer.frame();
  viewer.frame();
  viewer.model.view.panel = Panel::rings;
  viewer.frame();
  const RingsView& view = viewer.screen.rings();
  REQUIRE(view.ring());
  CHECK(view.collectives().size() == 3);
  CHECK(view.ring()->operation == "all_reduce");
  CHECK(view.labels() == 4);
  CHECK(view.explanation().front().starts_with("all_reduce on 4 ranks"));
  const ImVec2 link = view.middle_of(1);
  viewer.move(link.x, link.y);
  CHECK(view.explanation().front() == "rank 1 to rank 2 (between nodes)");
  const ImVec2 bar = view.step_bar(4);
  viewer.move(bar.x, bar.y);
  CHECK(view.explanation().front() == "step 5 of 6: all-gather");

  // A selected span chooses its collective, even after the selection has ended.
  const RankTimeline* rank = viewer.model.timeline.find_rank(2);
  const SpanRow& sent = rank->lanes[1]->rows(Band::action).front();
  viewer.model.selected = {.kind = Finding::Kind::span,
                           .rank = rank,
                           .lane = rank->lanes[1].get(),
                           .span = sent.begin()[sent.size() - 1]};
  viewer.move(5, 5);
  viewer.model.selected = {};
  viewer.frame();
  CHECK(view.ring()->operation == "all_gather");
  CHECK(view.ring()->collective.ranks == std::vector{2, 3});
}
