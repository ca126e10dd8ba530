// The plan: ranks on nodes and on the axes of the mesh.
#include <doctest/doctest.h>

#include <array>

#include "tests/viz/headless.h"
#include "viz/data/layout/plan_layout.h"
#include "viz/data/window/model.h"
#include "viz/views/plan_view.h"

using namespace lockstep;
using namespace lockstep::viz;

namespace {

using Lines = std::vector<std::string>;

/// 16 ranks, adjacent along tp, on two nodes of eight.
RunInfo run_of_16(const std::string& clock = "modelled") {
  return {.run = "r",
          .lesson = "15 3D",
          .device = "cpu",
          .launch = "threads",
          .clock = clock,
          .cluster = "classroom",
          .cluster_description = "",
          .ranks = 16,
          .mesh = {{"pp", 2}, {"dp", 4}, {"tp", 2}},
          .config = {}};
}

}  // namespace

TEST_CASE("ranks on nodes and axes, worked by hand") {
  const PlanLayout layout = plan_layout(run_of_16());
  REQUIRE(layout.nodes_known);
  REQUIRE(layout.nodes.size() == 2);
  CHECK(layout.nodes[1] == std::vector{8, 9, 10, 11, 12, 13, 14, 15});
  CHECK(layout.groups(Axis::tp).size() == 8);
  CHECK(
      layout.groups(Axis::dp) ==
      std::vector<std::vector<int>>{{0, 2, 4, 6}, {1, 3, 5, 7}, {8, 10, 12, 14}, {9, 11, 13, 15}});
  CHECK(plan_axis_words(layout, Axis::tp) ==
        "tp divides each layer: 8 groups of 2 ranks, each within a node.");
  CHECK(plan_axis_words(layout, Axis::pp) ==
        "pp divides the layers into stages: 8 groups of 2 ranks, each across 2 nodes.");
  CHECK(place_words(layout, 13, Axis::dp) ==
        Lines{"rank 13: pp1 dp2 tp1", "on node 1", "dp group: ranks 9, 11, 13, 15"});
}

TEST_CASE("without nodes or without a mesh, the plan says only what it knows") {
  const PlanLayout wall = plan_layout(run_of_16("wall"));
  CHECK_FALSE(wall.nodes_known);
  CHECK(wall.nodes.size() == 1);
  CHECK(plan_axis_words(wall, Axis::tp) == "tp divides each layer: 8 groups of 2 ranks.");
  RunInfo run = run_of_16();
  run.mesh = {{"pp", 3}, {"dp", 4}};  // not 16 ranks
  CHECK_FALSE(has_plan(run));
  CHECK(plan_layout(run).nodes.empty());
  run = run_of_16();
  run.mesh.clear();
  CHECK_FALSE(has_plan(run));
  run = run_of_16();
  run.ranks = 1 << 30;
  run.mesh = {{"dp", 1 << 30}};
  CHECK_FALSE(has_plan(run));
}

TEST_CASE("all cells of a plan fit into its area, none over another") {
  for (const auto& [nodes, ranks] : {std::pair{1, 1},
                                     {1, 16},
                                     {2, 8},
                                     {8, 8},
                                     {64, 8},
                                     {512, 8},
                                     {1, 4096},
                                     {4096, 1},
                                     {3, 5}}) {
    for (const auto& [width, height] : {std::pair{400.0f, 160.0f}, {300.0f, 300.0f}}) {
      const PlanGrid grid = plan_grid(nodes, ranks, width, height, 2, 4);
      CAPTURE(nodes);
      CAPTURE(ranks);
      const int rows = (nodes + grid.node_columns - 1) / grid.node_columns;
      const int rank_rows = (ranks + grid.rank_columns - 1) / grid.rank_columns;
      CHECK(grid.width > 0);
      CHECK(grid.height > 0);
      if (grid.width <= 1.001f || grid.height <= 1.001f) continue;  // too many: at least a pixel
      CHECK(static_cast<float>(grid.node_columns) *
                (grid.width * static_cast<float>(grid.rank_columns) + 4) <=
            width + 0.01f);
      CHECK(static_cast<float>(rows) * (grid.height * static_cast<float>(rank_rows) + 8) <=
            height + 0.01f);
    }
  }
}

TEST_CASE("the cursor on a rank shows its place and its group on the chosen axis") {
  struct Shown : Headless {
    Model model;
    PlanView view;
    ImVec2 cursor{};
    void frame() {
      set_cursor(cursor);
      ImGui::NewFrame();
      ImGui::SetNextWindowPos({0, 0});
      ImGui::SetNextWindowSize({600, 300});
      ImGui::Begin("plan");
      view.draw(Painter{ImGui::GetWindowDrawList(), look_}, {0, 0, 600, 300}, model);
      ImGui::End();
      ImGui::Render();
    }
  } shown;
  Timeline& timeline = shown.model.timeline;
  timeline.run() = run_of_16();
  for (int i = 0; i < 3; ++i) shown.frame();
  CHECK_FALSE(shown.view.hovered());
  CHECK(shown.view.explanation().front().starts_with("tp divides each layer"));
  for (const int rank : {0, 5, 15}) {
    const Rect cell = shown.view.cell_of(rank);
    CHECK(cell.width() > 10);
    shown.cursor = {(cell.left + cell.right) / 2, (cell.top + cell.bottom) / 2};
    shown.frame();
    CHECK(shown.view.hovered() == rank);
    CHECK(shown.view.explanation() ==
          place_words(plan_layout(timeline.run()), rank, shown.view.axis()));
  }
}
