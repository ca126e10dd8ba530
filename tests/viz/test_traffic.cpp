// The bytes that ranks send to one another: compared with examples worked out by hand, and in a
// context without a window.
#include <doctest/doctest.h>

#include <string_view>

#include "tests/viz/interactive.h"
#include "tests/viz/sample_run.h"
#include "viz/data/step/traffic_matrix.h"
#include "viz/read/timeline/analysis.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

/// In step 0, rank 0 sends 100 and 40 bytes to rank 1 in all_reduces of "tp" and 7 bytes to rank 2,
/// and rank 2 sends 50 bytes to rank 0 in an all_reduce of "dp". In step 1, rank 1 sends 9 bytes.
/// Each receiver has a span of the collective, too.
struct WorkedTraffic {
  Timeline timeline;
  std::uint64_t message = 0;
  void send(int step, int from, int to, Picoseconds start, const char* name, const char* group,
            std::int64_t bytes) {
    TimelineSpan span{.start = start * us, .end = (start + 2) * us, .bytes = bytes, .step = step};
    span.name = timeline.intern(name);
    span.group = timeline.intern(group);
    span.category = Category::communication;
    span.peer = to;
    timeline.add(from, 1, span);
    if (std::string_view{name} == "send") span.name = timeline.intern("recv");
    span.peer = from;
    timeline.add(to, 2, span);
    timeline.flow_start(++message, from, 1, span.start);
    timeline.flow_end(message, to, 2, span.end);
  }
  WorkedTraffic() {
    send(0, 0, 1, 0, "all_reduce", "tp", 100);
    send(0, 0, 1, 3, "all_reduce", "tp", 40);
    send(0, 0, 2, 6, "send", "pp", 7);
    send(0, 2, 0, 9, "all_reduce", "dp", 50);
    send(1, 1, 0, 12, "send", "pp", 9);
    timeline.settle();
  }
};

}  // namespace

TEST_CASE("the traffic of a step") {
  WorkedTraffic hand;
  const TrafficMatrix matrix = traffic_matrix(hand.timeline, 0);
  CHECK(matrix.bytes(0, 1) == 140);
  CHECK(matrix.bytes(0, 2) == 7);
  CHECK(matrix.bytes(2, 0) == 50);
  CHECK(matrix.bytes(1, 0) == 0);
  CHECK(matrix.cells.size() == 3);
  CHECK(matrix.total == 197);
  CHECK(matrix.highest == 140);
  CHECK(traffic_matrix(hand.timeline, 1).bytes(1, 0) == 9);
  CHECK(traffic_matrix(hand.timeline, 2).total == 0);
  const auto sums = traffic_sums(hand.timeline, matrix);
  REQUIRE(sums.size() == 3);
  CHECK(sums[0].words == "tp all_reduce");
  CHECK(sums[0].bytes == 140);
  CHECK(sums[0].messages == 2);
  CHECK(sums[1].words == "dp all_reduce");
  CHECK(sums[2].words == "pp send");
  // The sums of the rows are the bytes that viz/read/timeline counts.
  for (const auto& rank : hand.timeline.ranks()) {
    std::int64_t row = 0;
    for (const auto& to : hand.timeline.ranks()) row += matrix.bytes(rank->rank, to->rank);
    CHECK(row == bytes_sent(hand.timeline, *rank, 0));
  }
}

TEST_CASE("traffic within and between nodes, if the trace tells") {
  WorkedTraffic hand;
  CHECK(node_words(traffic_matrix(hand.timeline, 0)).empty());
  const Cluster cluster{.name = "two", .nodes = 2, .ranks_per_node = 2};
  hand.timeline.run().cluster_description = cluster.json();
  CHECK(node_words(traffic_matrix(hand.timeline, 0)).empty());  // the wall clock
  hand.timeline.run().clock = "modelled";
  // Ranks 0 and 1 share a node.
  const TrafficMatrix matrix = traffic_matrix(hand.timeline, 0);
  CHECK(matrix.between_nodes == 57);
  CHECK(node_words(matrix) == "140 B within nodes, 57 B between nodes");
  using Lines = std::vector<std::string>;
  CHECK(cell_words(hand.timeline, matrix, 0, 1) ==
        Lines{"rank 0 to rank 1", "140 B", "both on node 0", "tp all_reduce: 140 B in 2 messages"});
  CHECK(cell_words(hand.timeline, matrix, 2, 0) ==
        Lines{"rank 2 to rank 0", "50 B", "node 1 to node 0", "dp all_reduce: 50 B in 1 message"});
  CHECK(cell_words(hand.timeline, matrix, 1, 2) ==
        Lines{"rank 1 to rank 2", "sends nothing in this step"});
}

TEST_CASE("the traffic panel of a pipeline explains the cell under the cursor") {
  Interactive viewer{sample_1f1b(4, 8, 3)};
  CHECK(viewer.model.panels.shown(viewer.model.view.panel) == Panel::what_if);
  CHECK(viewer.screen.traffic().matrix().total == 0);
  // The second button in the place of the card's title.
  viewer.click(1600 * 0.65f + 120, 900 - 24 - 284 + 18);
  REQUIRE(viewer.model.view.panel == Panel::traffic);
  const TrafficView& view = viewer.screen.traffic();
  // Eight activations from rank 0 to rank 1, and eight gradients back.
  CHECK(view.matrix().bytes(0, 1) == 8 * 16384);
  CHECK(view.matrix().bytes(1, 0) == 8 * 16384);
  CHECK(view.matrix().total == 6 * 8 * 16384);
  REQUIRE_FALSE(view.explanation().empty());
  CHECK(view.explanation().front() == "786 kB in this step");
  const auto cell = view.centre_of(1, 2);
  REQUIRE(cell);
  viewer.move(cell->x, cell->y);
  CHECK(view.explanation().front() == "rank 1 to rank 2");
  CHECK(view.explanation()[1] == "131 kB");
  const auto none = view.centre_of(0, 3);
  REQUIRE(none);
  viewer.move(none->x, none->y);
  CHECK(view.explanation()[1] == "sends nothing in this step");
}
