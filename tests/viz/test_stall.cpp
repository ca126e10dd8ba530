// The picture of who waits for whom: where the ranks are, which arrows are drawn, and the card and
// the screen that show it, in a context without a window.
#include <doctest/doctest.h>

#include <filesystem>

#include "tests/viz/interactive.h"
#include "tests/viz/sample_run.h"
#include "viz/app/open_files.h"
#include "viz/app/stall_screen.h"
#include "viz/data/step/stall_picture.h"
#include "viz/read/flight_recorder/trace_job.h"
#include "viz/read/flight_recorder/words.h"
#include "viz/read/timeline/older.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

const std::filesystem::path dumps_of_16 =
    std::filesystem::path{LOCKSTEP_SOURCE_DIR} / "tests/golden/flight_recorder/nccl";

flight::Stall golden() {
  return flight::stall_of(flight::read_job(flight::dump_files({dumps_of_16})));
}

const StallNode& node_of(const StallPicture& picture, int rank) {
  return *std::ranges::find(picture.nodes, rank, &StallNode::rank);
}

/// Four ranks of two stages; rank 3 has stopped in its second step, and the others wait.
struct StalledRun {
  Timeline& timeline;
  TimelineSpan span(int start, const char* name, const char* group, int peer, int sequence) {
    TimelineSpan made{.start = start * us, .end = (start + 2) * us, .step = 0};
    made.name = timeline.intern(name);
    made.group = timeline.intern(group);
    made.category = Category::communication;
    made.peer = peer;
    made.sequence = sequence;
    made.group_size = *group == '\0' ? -1 : 2;
    infer_facts(made, name, timeline.lane(0, 0));
    return made;
  }
  void open(int rank, int start, const char* name, const char* group, int peer, int sequence) {
    TimelineSpan made = span(start, name, group, peer, sequence);
    made.category = Category::wait;
    timeline.announce(rank, 0, made);
  }
  explicit StalledRun(Timeline& into) : timeline(into) {
    timeline.run().ranks = 4;
    timeline.run().mesh = {{"pp", 2}, {"tp", 2}};
    for (const int first : {0, 2}) {
      timeline.add(first, 1, span(0, "all_reduce", "tp", first + 1, 1));
      timeline.add(first + 1, 1, span(0, "all_reduce", "tp", first, 1));
    }
    for (int rank = 0; rank < 4; ++rank)
      timeline.add_group(rank, timeline.intern("tp"), {rank / 2 * 2, rank / 2 * 2 + 1});
    open(0, 5, "recv", "", 2, -1);
    open(1, 5, "recv", "", 3, -1);
    open(2, 5, "all_reduce", "tp", -1, 2);
    timeline.settle();
  }
};

}  // namespace

TEST_CASE("sixteen ranks are laid out by stage, with an arrow for each wait") {
  const StallPicture picture = picture_of(golden());
  CHECK(picture.columns == 4);
  CHECK(picture.rows == 4);
  CHECK(picture.column_names == std::vector<std::string>{"pp0", "pp1", "pp2", "pp3"});
  CHECK(picture.row_names[1] == "dp0 tp1");
  REQUIRE(picture.nodes.size() == 16);
  const StallNode& stalled = node_of(picture, 6);
  CHECK(stalled.role == StallNode::Role::awaited);
  CHECK(stalled.column == 3);
  CHECK(stalled.row == 0);
  CHECK(std::ranges::count(picture.nodes, StallNode::Role::waiting, &StallNode::role) == 15);
  // Each of the others waits for one rank.
  CHECK(picture.arrows.size() == 15);
  CHECK(picture.left_out == 0);
  for (const StallArrow& arrow : picture.arrows) {
    CHECK(arrow.from != arrow.to);
    CHECK(arrow.to_awaited == (picture.nodes[arrow.to].rank == 6));
    if (picture.nodes[arrow.from].rank == 7) CHECK(arrow.label == "tp all_reduce #6");
  }
}

TEST_CASE("a cycle and unknown places") {
  flight::Stall stall;
  for (int rank = 0; rank < 3; ++rank) stall.ranks.push_back({.rank = rank});
  stall.waits.push_back({.from = {0}, .to = {1}, .operation = "send", .is_p2p = true});
  stall.waits.push_back({.from = {1}, .to = {0}, .operation = "send", .is_p2p = true});
  flight::find_awaited(stall);
  const StallPicture picture = picture_of(stall);
  CHECK(picture.column_names.empty());
  CHECK(picture.nodes[0].role == StallNode::Role::cycle);
  CHECK(picture.nodes[1].role == StallNode::Role::cycle);
  CHECK(picture.nodes[2].role == StallNode::Role::silent);
  CHECK(picture.arrows.size() == 2);
}

TEST_CASE("the end of a trace shows the same picture") {
  Timeline timeline;
  StalledRun run{timeline};
  const auto stall = flight::stall_of(timeline);
  REQUIRE(stall);
  REQUIRE(stall->sinks.size() == 1);
  CHECK(stall->sinks[0].ranks == std::vector{3});
  CHECK(stall->sinks[0].waiters == std::vector{0, 1, 2});
  CHECK(flight::stall_sentences(*stall)[0].find("Ranks 0-2 wait, directly or not, for rank 3") ==
        0);
  // A message that has been sent is not waited for: rank 1 has it, and only has to take it.
  TimelineSpan sent = run.span(4, "send", "", 1, -1);
  run.timeline.add(3, 2, sent);
  run.timeline.settle();
  const auto without = flight::stall_of(run.timeline);
  for (const flight::Wait& wait : without->waits) CHECK(wait.from != std::vector{1});
  // A run that has ended as it should has no open operations.
  Timeline ended;
  CHECK(!flight::stall_of(ended));
}

TEST_CASE("the card of a stalled run, and only of a stalled run") {
  Interactive window{[](Timeline& timeline) { StalledRun{timeline}; }};
  REQUIRE(window.model.stall.picture());
  CHECK(window.model.panels.choices.front() == Panel::waits);
  // With the cursor on a rank, its arrows are labelled.
  const ImVec2 rank = window.screen.stall().centre_of(1);
  window.move(rank.x, rank.y);
  CHECK(window.screen.stall().labels() >= 1);
  window.model.source.live = true;  // more may arrive
  window.move(10, 10);
  CHECK(!window.model.stall.picture());
}

TEST_CASE("the screen of flight-recorder dumps") {
  struct Context : Interactive {
    Context() : Interactive([](Timeline& timeline) { StalledRun{timeline}; }) {}
    const Look& look() const { return look_; }
  } window;
  ViewerOptions options;
  options.paths = {dumps_of_16};
  Model model;
  CHECK(!open_files(options, model));
  REQUIRE(model.stall.picture());
  CHECK(model.source.hint == "16 flight-recorder dumps of 16 ranks");
  StallScreen screen;
  for (const ImVec2 size : {ImVec2{1600, 900}, ImVec2{640, 360}, ImVec2{200, 200}}) {
    ImGui::GetIO().DisplaySize = size;
    set_cursor({0, 0});
    ImGui::NewFrame();
    screen.draw(model, window.look());
    ImGui::Render();
  }
  options.exports = {"x.svg"};
  CHECK_THROWS_AS(open_files(options, model), UsageError);
}
